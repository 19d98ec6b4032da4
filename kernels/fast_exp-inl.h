// exp(x) in float vectors, fast rather than exact to the last bit, for softmax weights. Per-target
// header of Highway, included as tile-inl.h is.
#include "kernels/tile-inl.h"

#if defined(LECTERN_KERNELS_FAST_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LECTERN_KERNELS_FAST_EXP_INL_H_
#undef LECTERN_KERNELS_FAST_EXP_INL_H_
#else
#define LECTERN_KERNELS_FAST_EXP_INL_H_
#endif

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {

// exp(x) for x <= 80 within 1e-6 relative; 0 below -87, -infinity included, where results would be
// subnormal; NaN stays NaN; above 88 the result means nothing. Splits exp(x) into 2^k * e^f with
// |f| <= ln(2) / 2 and computes e^f by a Taylor polynomial of degree 6, whose first dropped term is
// below f^7 / 5040 = 1.2e-7. Less work than hn::Exp, which is exact to the last bit.
HWY_INLINE FloatVector FastExp(FloatVector x) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  // Adding 1.5 * 2^23 to a number below 2^22 leaves no bits behind the point: the sum is rounded to
  // a whole number k, which then stands in its lowest bits.
  const FloatVector rounder = hn::Set(d, 0x1.8p23f);
  const FloatVector rounded = hn::MulAdd(x, hn::Set(d, 1.44269504f), rounder);
  const FloatVector k = hn::Sub(rounded, rounder);
  const FloatVector f = hn::NegMulAdd(k, hn::Set(d, 0.693147181f), x);
  FloatVector p = hn::Set(d, 1.0f / 720);
  for (const float c : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) {
    p = hn::MulAdd(p, f, hn::Set(d, c));
  }
  // 2^k is multiplied in by adding k to the exponent bits; the shift drops the rounder's own bits.
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, rounded));
  const FloatVector result = hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), result);
}

}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET != HWY_SCALAR

#endif  // LECTERN_KERNELS_FAST_EXP_INL_H_
