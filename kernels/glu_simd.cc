#include "kernels/glu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/glu_simd.cc"
#include "hwy/foreach_target.h"

#include "hwy/contrib/math/math-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR
void Glu(const GluArgs& args) { GluScalar(args); }
#else

// The argument t of the sigmoid in a(x) = x / (1 + exp(-t)).
template <Activation kActivation>
HWY_INLINE FloatVector SigmoidInput(FloatVector x) {
  if constexpr (kActivation == Activation::kSilu) return x;
  const FloatTag d;
  constexpr float kSlope = 1.595769121605731f;  // 2 sqrt(2 / pi)
  const FloatVector cubic =
      hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.044715f * kSlope), hn::Set(d, kSlope));
  return hn::Mul(x, cubic);
}

// a(x) * up. exp overflows past 88, where the sigmoid is below 1e-36: the clamp keeps the quotient
// finite.
template <Activation kActivation>
HWY_INLINE FloatVector GatedUp(FloatVector x, FloatVector up) {
  const FloatTag d;
  const FloatVector t = SigmoidInput<kActivation>(x);
  const FloatVector e = hn::Exp(d, hn::Min(hn::Neg(t), hn::Set(d, 88.0f)));
  return hn::Mul(hn::Div(x, hn::Add(e, hn::Set(d, 1.0f))), up);
}

// One row: output[c] = a(gate[c]) * up[c].
template <Activation kActivation>
void GluRow(const float* gate, const float* up, size_t num_cols, float* output) {
  const FloatTag d;
  size_t c = 0;
  for (; c + kLanes <= num_cols; c += kLanes) {
    const FloatVector gated = GatedUp<kActivation>(hn::LoadU(d, gate + c), hn::LoadU(d, up + c));
    hn::StoreU(gated, d, output + c);
  }
  // The last columns, fewer than a vector, go through a padded copy.
  if (c == num_cols) return;
  const size_t bytes = (num_cols - c) * sizeof(float);
  float rest[2][kLanes] = {};
  std::memcpy(rest[0], gate + c, bytes);
  std::memcpy(rest[1], up + c, bytes);
  hn::StoreU(GatedUp<kActivation>(hn::LoadU(d, rest[0]), hn::LoadU(d, rest[1])), d, rest[0]);
  std::memcpy(output + c, rest[0], bytes);
}

// One row of the clamped kind. A NaN stays one in gate or up, so that no wrong number looks right.
void ClampedRow(const float* gate, const float* up, size_t num_cols, float limit, float alpha,
                float* output) {
  const FloatTag d;
  const FloatVector most = hn::Set(d, limit), one = hn::Set(d, 1.0f);
  const auto gated = [&](FloatVector x, FloatVector u) {
    x = hn::IfThenElse(hn::Gt(x, most), most, x);
    u = hn::IfThenElse(hn::Gt(u, most), most, u);
    u = hn::IfThenElse(hn::Lt(u, hn::Neg(most)), hn::Neg(most), u);
    const FloatVector t = hn::Mul(x, hn::Set(d, -alpha));
    const FloatVector e = hn::Exp(d, hn::Min(t, hn::Set(d, 88.0f)));
    return hn::Mul(hn::Div(x, hn::Add(e, one)), hn::Add(u, one));
  };
  size_t c = 0;
  for (; c + kLanes <= num_cols; c += kLanes) {
    hn::StoreU(gated(hn::LoadU(d, gate + c), hn::LoadU(d, up + c)), d, output + c);
  }
  if (c == num_cols) return;
  const size_t bytes = (num_cols - c) * sizeof(float);
  float rest[2][kLanes] = {};
  std::memcpy(rest[0], gate + c, bytes);
  std::memcpy(rest[1], up + c, bytes);
  hn::StoreU(gated(hn::LoadU(d, rest[0]), hn::LoadU(d, rest[1])), d, rest[0]);
  std::memcpy(output + c, rest[0], bytes);
}

void Glu(const GluArgs& args) {
  if (args.activation == Activation::kClampedSilu) {
    for (size_t r = 0; r < args.gate.num_rows; ++r) {
      ClampedRow(args.gate[r], args.up[r], args.gate.num_cols, args.limit, args.alpha,
                 args.output[r]);
    }
    return;
  }
  const auto row = args.activation == Activation::kSilu ? GluRow<Activation::kSilu>
                                                        : GluRow<Activation::kGeluTanh>;
  for (size_t r = 0; r < args.gate.num_rows; ++r) {
    row(args.gate[r], args.up[r], args.gate.num_cols, args.output[r]);
  }
}

#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lectern {

HWY_EXPORT(Glu);

void GluSimd(const GluArgs& args) {
  assert(args.gate.num_rows == args.up.num_rows && args.gate.num_rows == args.output.num_rows);
  assert(args.gate.num_cols == args.up.num_cols && args.gate.num_cols == args.output.num_cols);
  HWY_DYNAMIC_DISPATCH(Glu)(args);
}

}  // namespace lectern
#endif  // HWY_ONCE
