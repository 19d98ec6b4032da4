#include "kernels/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/swiglu_simd.cc"
#include "hwy/foreach_target.h"

#include "hwy/contrib/math/math-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR
void Swiglu(const SwigluArgs& args) { SwigluScalar(args); }
#else

// silu(x) * up. exp overflows past 88, where silu is below 1e-36: the clamp keeps it finite.
HWY_INLINE FloatVector GatedUp(FloatVector x, FloatVector up) {
  const FloatTag d;
  const FloatVector e = hn::Exp(d, hn::Min(hn::Neg(x), hn::Set(d, 88.0f)));
  return hn::Mul(hn::Div(x, hn::Add(e, hn::Set(d, 1.0f))), up);
}

void SwigluRow(const float* gate, const float* up, size_t num_cols, float* output) {
  const FloatTag d;
  size_t c = 0;
  for (; c + kLanes <= num_cols; c += kLanes) {
    hn::StoreU(GatedUp(hn::LoadU(d, gate + c), hn::LoadU(d, up + c)), d, output + c);
  }
  if (c == num_cols) return;
  const size_t bytes = (num_cols - c) * sizeof(float);
  float rest[2][kLanes] = {};
  std::memcpy(rest[0], gate + c, bytes);
  std::memcpy(rest[1], up + c, bytes);
  hn::StoreU(GatedUp(hn::LoadU(d, rest[0]), hn::LoadU(d, rest[1])), d, rest[0]);
  std::memcpy(output + c, rest[0], bytes);
}

void Swiglu(const SwigluArgs& args) {
  for (size_t r = 0; r < args.gate.num_rows; ++r) {
    SwigluRow(args.gate[r], args.up[r], args.gate.num_cols, args.output[r]);
  }
}

#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lectern {

HWY_EXPORT(Swiglu);

void SwigluSimd(const SwigluArgs& args) {
  assert(args.gate.num_rows == args.up.num_rows && args.gate.num_rows == args.output.num_rows);
  assert(args.gate.num_cols == args.up.num_cols && args.gate.num_cols == args.output.num_cols);
  HWY_DYNAMIC_DISPATCH(Swiglu)(args);
}

}  // namespace lectern
#endif  // HWY_ONCE
