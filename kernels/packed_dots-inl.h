// Products of int8 steps for the packed kernels, in each instruction set: sums of four products in
// a lane of int32, f16 scales, and the shape of a tile.
//
// Per-target header of Highway: included once for each instruction set, from *_simd.cc only, before
// which comes kernels/tile-inl.h. LECTERN_HAS_PACKED_DOTS is 0 for a target without AddDots.
#include "kernels/packed_rows.h"

#if defined(LECTERN_KERNELS_PACKED_DOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LECTERN_KERNELS_PACKED_DOTS_INL_H_
#undef LECTERN_KERNELS_PACKED_DOTS_INL_H_
#else
#define LECTERN_KERNELS_PACKED_DOTS_INL_H_
#endif

#include "kernels/tile-inl.h"

// Only these targets have a version of AddDots below; all others run the scalar definitions.
#undef LECTERN_HAS_PACKED_DOTS
#if HWY_TARGET > HWY_AVX2 && HWY_TARGET != HWY_SSE4 && HWY_TARGET != HWY_NEON
#define LECTERN_HAS_PACKED_DOTS 0
#else
#define LECTERN_HAS_PACKED_DOTS 1
HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {

using Int32Tag = hn::Rebind<int32_t, FloatTag>;
using Int8Tag = hn::Repartition<int8_t, FloatTag>;
using Int32Vector = hn::Vec<Int32Tag>;
using Int8Vector = hn::Vec<Int8Tag>;

// ---- Sums of four products: lane i gets sum[i] + w[4i] x[4i] + … + w[4i+3] x[4i+3]
//
// Steps of x are within -127 … 127, steps of w within -128 … 127, so the sum of two products fits
// int16. x86 multiplies unsigned by signed bytes, so the magnitude of w is multiplied by x with the
// sign of w.

#if HWY_TARGET == HWY_AVX3_DL
struct Weights {
  __m512i magnitude;
  __mmask64 is_negative;
};
HWY_INLINE Weights Prepare(Int8Vector w) { return {hn::Abs(w).raw, _mm512_movepi8_mask(w.raw)}; }
HWY_INLINE Int32Vector AddDots(Int32Vector sum, const Weights& w, Int8Vector x) {
  const __m512i with_sign =
      _mm512_mask_sub_epi8(x.raw, w.is_negative, _mm512_setzero_si512(), x.raw);
  // Machines of this target have AVX512_VNNI, but Highway 1.0.3 does not enable it for the
  // compiler.
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(w.magnitude), "v"(with_sign));
  return sum;
}
#elif HWY_TARGET == HWY_AVX2
struct Weights {
  __m256i magnitude, value;
};
HWY_INLINE Weights Prepare(Int8Vector w) { return {hn::Abs(w).raw, w.raw}; }
HWY_INLINE Int32Vector AddDots(Int32Vector sum, const Weights& w, Int8Vector x) {
  const __m256i pairs = _mm256_maddubs_epi16(w.magnitude, _mm256_sign_epi8(x.raw, w.value));
  return hn::Add(sum, Int32Vector{_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))});
}
#elif HWY_TARGET == HWY_SSE4
struct Weights {
  __m128i magnitude, value;
};
HWY_INLINE Weights Prepare(Int8Vector w) { return {hn::Abs(w).raw, w.raw}; }
HWY_INLINE Int32Vector AddDots(Int32Vector sum, const Weights& w, Int8Vector x) {
  const __m128i pairs = _mm_maddubs_epi16(w.magnitude, _mm_sign_epi8(x.raw, w.value));
  return hn::Add(sum, Int32Vector{_mm_madd_epi16(pairs, _mm_set1_epi16(1))});
}
#else
using Weights = Int8Vector;
HWY_INLINE Weights Prepare(Int8Vector w) { return w; }
HWY_INLINE Int32Vector AddDots(Int32Vector sum, Weights w, Int8Vector x) {
#if defined(__ARM_FEATURE_DOTPROD)  // a build for machines that have it
  return Int32Vector(vdotq_s32(sum.raw, w.raw, x.raw));
#else
  const int16x8_t low = vmull_s8(vget_low_s8(w.raw), vget_low_s8(x.raw));
  const int16x8_t high = vmull_high_s8(w.raw, x.raw);
  return Int32Vector(vpadalq_s16(sum.raw, vpaddq_s16(low, high)));
#endif
}
#endif

HWY_INLINE Int32Vector Total(Int32Vector sum) { return sum; }

// ---- The same with steps of w that are not negative and need no sign

struct UnsignedWeights {  // 0 .. 31
  Int8Vector value;
};
// Holds a group's sum where steps are at most 15: on x86 16 products fall into a lane of int16, at
// most 16 * 15 * 127.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
using NibbleTag = hn::Repartition<int16_t, FloatTag>;
using NibbleSum = hn::Vec<NibbleTag>;
#if HWY_TARGET == HWY_AVX2
HWY_INLINE Int32Vector Total(NibbleSum sum) {
  return Int32Vector{_mm256_madd_epi16(sum.raw, _mm256_set1_epi16(1))};
}
HWY_INLINE NibbleSum AddDots(NibbleSum sum, UnsignedWeights w, Int8Vector x) {
  return hn::Add(sum, NibbleSum{_mm256_maddubs_epi16(w.value.raw, x.raw)});
}
#else
HWY_INLINE Int32Vector Total(NibbleSum sum) {
  return Int32Vector{_mm_madd_epi16(sum.raw, _mm_set1_epi16(1))};
}
HWY_INLINE NibbleSum AddDots(NibbleSum sum, UnsignedWeights w, Int8Vector x) {
  return hn::Add(sum, NibbleSum{_mm_maddubs_epi16(w.value.raw, x.raw)});
}
#endif
HWY_INLINE Int32Vector AddDots(Int32Vector sum, UnsignedWeights w, Int8Vector x) {
  return hn::Add(sum, Total(AddDots(hn::Zero(NibbleTag()), w, x)));
}
#else
using NibbleTag = Int32Tag;
using NibbleSum = Int32Vector;
HWY_INLINE Int32Vector AddDots(Int32Vector sum, UnsignedWeights w, Int8Vector x) {
#if HWY_TARGET == HWY_AVX3_DL
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(w.value.raw), "v"(x.raw));
  return sum;
#else
  return AddDots(sum, Prepare(w.value), x);
#endif
}
#endif

constexpr size_t kPanelVectors = kPackedColumns / kLanes;
// Rows of the largest tile, a power of two so that MultiplyRows can halve it: as many rows as give
// 8 sums where there are 16 registers, 16 sums on NEON; AVX-512 has 8 rows, as one vector holds a
// whole panel.
#if HWY_TARGET == HWY_NEON
constexpr size_t kTileRows = 4;
#else
constexpr size_t kTileRows = std::max<size_t>(kLanes / 2, 1);
#endif

// Items [column, column + kLanes) of array number `array` (kPackedColumns items each), as floats.
HWY_INLINE FloatVector LoadF16s(const std::byte* from, size_t array, size_t column) {
  const hn::Rebind<uint16_t, FloatTag> du16;
  return F16ToFloat(LoadBytes(du16, from + (array * kPackedColumns + column) * sizeof(f16)));
}

}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();
#endif
#endif  // include guard
