// Vectors of floats of which only the first lanes lie in memory. Per-target header of Highway,
// included as tile-inl.h is.
#include <algorithm>
#include <cstring>

#include "kernels/tile-inl.h"

#if defined(LECTERN_KERNELS_PART_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LECTERN_KERNELS_PART_VECTOR_INL_H_
#undef LECTERN_KERNELS_PART_VECTOR_INL_H_
#else
#define LECTERN_KERNELS_PART_VECTOR_INL_H_
#endif

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {

// x[0, kLanes) as a vector; lanes from `count` on hold `fill`. Reads nothing past x[count - 1].
HWY_INLINE FloatVector LoadFilled(const float* x, size_t count, float fill) {
  const FloatTag d;
  if (count >= kLanes) return hn::LoadU(d, x);
#if !HWY_MEM_OPS_MIGHT_FAULT
  return hn::IfThenElse(hn::FirstN(d, count), hn::MaskedLoad(hn::FirstN(d, count), d, x),
                        hn::Set(d, fill));
#endif
  float padded[kLanes];
  std::fill(padded, padded + kLanes, fill);
  std::memcpy(padded, x, count * sizeof(float));
  return hn::LoadU(d, padded);
}

// x[0, count) as a vector padded with zeros, 1 <= count <= kLanes. `mask` holds the first `count`
// lanes. Masked loads are used only where the target guarantees that masked lanes cannot fault.
HWY_INLINE FloatVector LoadMasked(hn::Mask<FloatTag> mask, const float* x, size_t count) {
#if !HWY_MEM_OPS_MIGHT_FAULT
  (void)count;
  return hn::MaskedLoad(mask, FloatTag(), x);
#else
  (void)mask;
  return LoadFilled(x, count, 0);
#endif
}

// Stores the first `count` lanes at x; all if there are no more.
HWY_INLINE void StoreSome(FloatVector values, size_t count, float* x) {
  if (count >= kLanes) return hn::StoreU(values, FloatTag(), x);
#if !HWY_MEM_OPS_MIGHT_FAULT
  return hn::BlendedStore(values, hn::FirstN(FloatTag(), count), FloatTag(), x);
#endif
  float stored[kLanes];
  hn::StoreU(values, FloatTag(), stored);
  std::memcpy(x, stored, count * sizeof(float));
}

}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET != HWY_SCALAR

#endif  // LECTERN_KERNELS_PART_VECTOR_INL_H_
