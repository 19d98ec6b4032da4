// tanh bound of a row of logits in float vectors. Per-target header of Highway, included as
// tile-inl.h is.
#include "hwy/contrib/math/math-inl.h"
#include "kernels/tile-inl.h"

#if defined(LECTERN_KERNELS_SOFTCAP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LECTERN_KERNELS_SOFTCAP_INL_H_
#undef LECTERN_KERNELS_SOFTCAP_INL_H_
#else
#define LECTERN_KERNELS_SOFTCAP_INL_H_
#endif

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {

// row[j] <- out * tanh(in * row[j]) for j < count.
HWY_INLINE void SoftcapRow(float* row, size_t count, float in, float out) {
  const FloatTag d;
  const FloatVector inner = hn::Set(d, in), outer = hn::Set(d, out);
  const auto cap = [&](FloatVector x) {
    // tanh(x) is 1 in float beyond x = 10, and hn::Tanh needs finite arguments, so both ends are
    // clamped.
    const FloatVector ten = hn::Set(d, 10.0f);
    const FloatVector u = hn::Clamp(hn::Mul(x, inner), hn::Neg(ten), ten);
    return hn::Mul(outer, hn::Tanh(d, u));
  };
  size_t j = 0;
  for (; j + kLanes <= count; j += kLanes) hn::StoreU(cap(hn::LoadU(d, row + j)), d, row + j);
  if (j == count) return;
  float last[kLanes] = {};
  std::memcpy(last, row + j, (count - j) * sizeof(float));
  hn::StoreU(cap(hn::LoadU(d, last)), d, last);
  std::memcpy(row + j, last, (count - j) * sizeof(float));
}

}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET != HWY_SCALAR

#endif  // LECTERN_KERNELS_SOFTCAP_INL_H_
