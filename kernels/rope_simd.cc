#include "kernels/rope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rope_simd.cc"
#include "hwy/foreach_target.h"

#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR
void Rope(const RopeArgs& args) { RopeScalar(args); }
#else

// Rotates the first 2 * half dimensions of one head.
void TurnHead(float* x, size_t half, const float* cosine, const float* sine) {
  const FloatTag d;
  size_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const FloatVector c = hn::LoadU(d, cosine + i), s = hn::LoadU(d, sine + i);
    const FloatVector low = hn::LoadU(d, x + i), high = hn::LoadU(d, x + half + i);
    hn::StoreU(hn::NegMulAdd(high, s, hn::Mul(low, c)), d, x + i);
    hn::StoreU(hn::MulAdd(low, s, hn::Mul(high, c)), d, x + half + i);
  }
  for (; i < half; ++i) {
    const float low = x[i], high = x[half + i];
    x[i] = low * cosine[i] - high * sine[i];
    x[half + i] = high * cosine[i] + low * sine[i];
  }
}

void Rope(const RopeArgs& args) {
  for (size_t r = 0; r < args.heads.num_rows; ++r) {
    for (size_t head = 0; head < args.heads.num_cols; head += args.head_dim) {
      TurnHead(args.heads[r] + head, args.cosine.num_cols, args.cosine[r], args.sine[r]);
    }
  }
}

#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lectern {

HWY_EXPORT(Rope);

void RopeSimd(const RopeArgs& args) {
  assert(args.head_dim % 2 == 0 && args.heads.num_cols % args.head_dim == 0);
  assert(2 * args.cosine.num_cols <= args.head_dim);
  assert(args.sine.num_cols == args.cosine.num_cols);
  HWY_DYNAMIC_DISPATCH(Rope)(args);
}

}  // namespace lectern
#endif  // HWY_ONCE
