// Products of many rows with packed weights, on targets where a sum of four products takes three
// instructions: AVX2 and SSE4. On others this defines nothing.
//
// A product of two pairs of int16 and their sum is one instruction (pmaddwd). So steps are widened
// to int16 in blocks of kWideDepth k: the weights of 64 columns once for all rows, the input of a
// tile of rows once for all of these columns. Widening a vector of bytes by shifts gives pairs (k,
// k + 2), then (k + 1, k + 3), without any shuffle; both sides use that order, so the products
// match. The sums are the same whole numbers as those of packed_matmul_simd.cc, and they are scaled
// and added in the same order.
//
// Per-target header of Highway: included once for each instruction set, from *_simd.cc only.
#include "kernels/packed_matmul.h"

#if defined(LECTERN_KERNELS_PACKED_WIDE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LECTERN_KERNELS_PACKED_WIDE_INL_H_
#undef LECTERN_KERNELS_PACKED_WIDE_INL_H_
#else
#define LECTERN_KERNELS_PACKED_WIDE_INL_H_
#endif

#include <algorithm>
#include <bit>

#include "kernels/packed_steps-inl.h"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {

using Int16Tag = hn::Repartition<int16_t, FloatTag>;
constexpr size_t kWideRows = kLanes == 8 ? 6 : 3;  // 12 of 16 registers hold sums
// 256 k are one super block, so a block needs one head at most. Block sizes change the speed only;
// q8 went from 52.5 to 47.6 ms with them (tests/bench/RESULTS.md, "Packed weights"). No measurement
// of other sizes is on record.
constexpr size_t kWideDepth = 256, kWideColumns = 64, kWideBlockRows = 96;
static_assert(kWideBlockRows % kWideRows == 0);
// With fewer rows the widening is not worth its cost. The limit is by hand, and no measurement is
// on record; it changes the speed alone.
constexpr size_t kLeastWideRows = 12;
constexpr size_t kGroupPairs = kPackedGroup / 2;

// Widens one vector of steps: pairs (k, k + 2) of kLanes columns go to `to_even`, pairs (k + 1, k +
// 3) to `to_odd`.
HWY_INLINE void Widen(Int8Vector steps, int16_t* to_even, int16_t* to_odd) {
  const Int16Tag d;
  const auto both = hn::BitCast(d, steps);
  hn::Store(hn::ShiftRight<8>(hn::ShiftLeft<8>(both)), d, to_even);
  hn::Store(hn::ShiftRight<8>(both), d, to_odd);
}
// The same with steps times whole numbers, each of which `factors` holds for two k of a column.
HWY_INLINE void WidenTimes(Int8Vector steps, hn::Vec<Int16Tag> factors, int16_t* to_even,
                           int16_t* to_odd) {
  const Int16Tag d;
  const auto both = hn::BitCast(d, steps);
  hn::Store(hn::Mul(hn::ShiftRight<8>(hn::ShiftLeft<8>(both)), factors), d, to_even);
  hn::Store(hn::Mul(hn::ShiftRight<8>(both), factors), d, to_odd);
}

// Two numbers that fit int16 in a lane of int32, the first one in the low half.
HWY_INLINE Int32Vector PairUp(Int32Vector first, Int32Vector second) {
  const Int32Tag d;
  return hn::Or(hn::And(first, hn::Set(d, 0xFFFF)), hn::ShiftLeft<16>(second));
}

// Lane i gets sum[i] + w[2i] x[2i] + w[2i+1] x[2i+1].
HWY_INLINE Int32Vector AddPairs(Int32Vector sum, hn::Vec<Int16Tag> w, hn::Vec<Int16Tag> x) {
  // Written as instructions: GCC 12 reorders the sums of the intrinsics and runs out of registers.
#if HWY_TARGET == HWY_AVX2
  asm("vpaddd %1, %0, %0" : "+x"(sum.raw) : "x"(_mm256_madd_epi16(w.raw, x.raw)));
#else
  asm("paddd %1, %0" : "+x"(sum.raw) : "x"(_mm_madd_epi16(w.raw, x.raw)));
#endif
  return sum;
}

// Types of fewer than 4 bits are widened times their halves' scales, so that a group is one part.
constexpr size_t WideParts(PackedType type) {
  return HasStoredSteps(type) ? 1 : PackedScales(type);
}

// A block of k of some panels, widened. Each group holds 16 steps over pairs of k, in the order
// that Widen gives.
template <PackedType kType>
struct WideWeights {
  static constexpr size_t kPanels = kWideColumns / kPackedColumns;
  static constexpr size_t kGroups = kWideDepth / kPackedGroup;
  static constexpr size_t kScales = kGroups * WideParts(kType);
  static constexpr size_t kMins = PackedHasMin(kType) ? kGroups : 1;
  static constexpr size_t kHalfMins = kType == PackedType::kQ2Halves ? kGroups : 1;
  HWY_ALIGN int16_t pairs[kPanels][kWideDepth * kPackedColumns];
  HWY_ALIGN float scales[kPanels][kScales][kPackedColumns];
  HWY_ALIGN float mins[kPanels][kMins][kPackedColumns];
  // The factors of dmin in both halves, as pairs of int16; `mins` is then -dmin.
  HWY_ALIGN int32_t half_mins[kPanels][kHalfMins][kPackedColumns];
};
static_assert(kWideDepth == kPackedGroup * kPackedSuper);  // one head at most

// Widens num_groups groups of a panel; `head` points at the first group's head.
template <PackedType kType>
HWY_INLINE void WidenWeights(const std::byte* head, size_t num_groups, size_t panel,
                             WideWeights<kType>& weights) {
  const FloatTag d;
  constexpr size_t kParts = WideParts(kType);
  const std::byte* group = head + PackedHeadBytes(kType);
  for (size_t g = 0; g < num_groups; ++g, group += PackedGroupBytes(kType)) {
    for (size_t c = 0; c < kPackedColumns; c += kLanes) {
      for (size_t part = 0; part < kParts; ++part) {
        const FloatVector scales =
            HasStoredSteps(kType) ? LoadF16s(head, 0, c) : LoadScales<kType>(head, group, part, c);
        hn::Store(scales, d, weights.scales[panel][g * kParts + part] + c);
      }
      if constexpr (kType == PackedType::kQ2Halves) {
        hn::Store(hn::Neg(LoadF16s(head, 1, c)), d, weights.mins[panel][g] + c);
        hn::Store(PairUp(LoadHalfMins(group, 0, c), LoadHalfMins(group, 1, c)), Int32Tag(),
                  weights.half_mins[panel][g] + c);
      } else if constexpr (PackedHasMin(kType)) {
        hn::Store(LoadMins<kType>(head, group, c), d, weights.mins[panel][g] + c);
      }
    }
    const std::byte* const steps = group + PackedScaleBytes(kType);
    for (size_t four = 0; four < kPackedGroup / 4; ++four) {
      const size_t pair = g * kGroupPairs + four / kLanes * 2 * kLanes + four % kLanes;
      int16_t* const even = weights.pairs[panel] + pair * 2 * kPackedColumns;
      int16_t* const odd = even + kLanes * 2 * kPackedColumns;
      for (size_t c = 0; c < kPackedColumns; c += kLanes) {
        const Int8Vector stored = LoadSteps<kType>(steps, four, c);
        if constexpr (HasStoredSteps(kType)) {
          const Int32Vector scales = LoadHalfScales<kType>(group, four / (kPackedGroup / 8), c);
          const auto zero = hn::Set(Int8Tag(), PackedZero(kType));
          WidenTimes(hn::Sub(stored, zero), hn::BitCast(Int16Tag(), PairUp(scales, scales)),
                     even + 2 * c, odd + 2 * c);
        } else {
          Widen(stored, even + 2 * c, odd + 2 * c);
        }
      }
    }
  }
}

// Widens one input row of `depth` steps, in the order of the weights.
HWY_INLINE void WidenRow(const int8_t* steps, size_t depth, int32_t* pairs) {
  auto* to = reinterpret_cast<int16_t*>(pairs);
  for (size_t k = 0; k < depth; k += 4 * kLanes, to += 4 * kLanes) {
    Widen(hn::LoadU(Int8Tag(), steps + k), to, to + 2 * kLanes);
  }
}

// Index within a group of the i-th pair whose k lie in half `half`. Pairs come as kLanes even ones,
// then kLanes odd ones; depending on kLanes such a run covers one half of the group or both.
HWY_INLINE size_t PairOfHalf(size_t half, size_t i) {
  constexpr size_t kFours = kPackedGroup / 4 / 2;  // of a half
  if constexpr (kLanes == kFours) return half * 2 * kFours + i;
  return i / kFours * kLanes + half * kFours + i % kFours;
}

// One tile of the input: kWideRows rows as pairs, and where the first row's scales and sums of
// groups begin.
struct WideInput {
  const int32_t (*pairs)[kWideDepth / 2];
  const float *scales, *sums;
  const HalfSums* half_sums;
  size_t stride;  // of scales and sums
};

// Adds the products of the tile's rows with one panel, over this block of k, to `output`.
template <PackedType kType>
HWY_NOINLINE void MultiplyWideTile(const WideInput& x, const WideWeights<kType>& weights,
                                   size_t panel, size_t num_groups, float (*output)[kWideColumns]) {
  const FloatTag d;
  const Int32Tag di;
  const Int16Tag d16;
  constexpr size_t kParts = WideParts(kType);
  const int16_t* const w = weights.pairs[panel];
  for (size_t g = 0; g < num_groups; ++g) {
    for (size_t part = 0; part < kParts; ++part) {
      Int32Vector sums[kWideRows][kPanelVectors];
      LECTERN_UNROLL_TILE
      for (size_t r = 0; r < kWideRows; ++r) {
        LECTERN_UNROLL_TILE
        for (size_t v = 0; v < kPanelVectors; ++v) sums[r][v] = hn::Zero(di);
      }
      const size_t first = g * kGroupPairs;
      for (size_t i = 0; i < kGroupPairs / kParts; ++i) {
        const size_t pair = first + (kParts == 1 ? i : PairOfHalf(part, i));
        hn::Vec<Int16Tag> steps[kPanelVectors];
        LECTERN_UNROLL_TILE
        for (size_t v = 0; v < kPanelVectors; ++v) {
          steps[v] = hn::Load(d16, w + (pair * kPackedColumns + v * kLanes) * 2);
        }
        LECTERN_UNROLL_TILE
        for (size_t r = 0; r < kWideRows; ++r) {
          const auto input = hn::BitCast(d16, hn::Set(di, x.pairs[r][pair]));
          LECTERN_UNROLL_TILE
          for (size_t v = 0; v < kPanelVectors; ++v) {
            sums[r][v] = AddPairs(sums[r][v], steps[v], input);
          }
        }
      }
      LECTERN_UNROLL_TILE
      for (size_t v = 0; v < kPanelVectors; ++v) {
        const FloatVector scales =
            hn::Load(d, weights.scales[panel][g * kParts + part] + v * kLanes);
        LECTERN_UNROLL_TILE
        for (size_t r = 0; r < kWideRows; ++r) {
          const FloatVector scale = hn::Mul(hn::Set(d, x.scales[r * x.stride + g]), scales);
          float* const to = output[r] + v * kLanes;
          hn::Store(hn::MulAdd(scale, hn::ConvertTo(d, sums[r][v]), hn::Load(d, to)), d, to);
        }
      }
    }
    if constexpr (PackedHasMin(kType)) {
      LECTERN_UNROLL_TILE
      for (size_t v = 0; v < kPanelVectors; ++v) {
        const FloatVector mins = hn::Load(d, weights.mins[panel][g] + v * kLanes);
        LECTERN_UNROLL_TILE
        for (size_t r = 0; r < kWideRows; ++r) {
          float* const to = output[r] + v * kLanes;
          FloatVector factor = mins, sum;
          if constexpr (kType == PackedType::kQ2Halves) {
            const auto parts = hn::Load(
                d16, reinterpret_cast<const int16_t*>(weights.half_mins[panel][g] + v * kLanes));
            const auto sums = hn::BitCast(
                d16, hn::Set(di, std::bit_cast<int32_t>(x.half_sums[r * x.stride + g])));
            factor = hn::Mul(hn::Set(d, x.scales[r * x.stride + g]), mins);
            sum = hn::ConvertTo(d, AddPairs(hn::Zero(di), parts, sums));
          } else {
            sum = hn::Set(d, x.sums[r * x.stride + g]);
          }
          hn::Store(hn::MulAdd(sum, factor, hn::Load(d, to)), d, to);
        }
      }
    }
  }
}

// Rows [row_begin, row_begin + num_rows), at most kWideBlockRows and a multiple of kWideRows, times
// columns [begin, end), at most kWideColumns. The output is summed in a local array, block of k
// after block of k.
template <PackedType kType>
void MultiplyWideBlock(const PackedMatMulArgs& args, size_t row_begin, size_t num_rows,
                       size_t begin, size_t end) {
  const size_t depth = args.input.num_cols, num_groups = depth / kPackedGroup;
  WideWeights<kType> weights;
  HWY_ALIGN int32_t x[kWideRows][kWideDepth / 2];
  HWY_ALIGN float output[kWideBlockRows][kWideColumns] = {};
  for (size_t r = 0; args.accumulate && r < num_rows; ++r) {
    std::copy_n(args.output[row_begin + r] + begin, end - begin, output[r]);
  }
  for (size_t k = 0; k < depth; k += kWideDepth) {
    const size_t block = std::min(kWideDepth, depth - k), groups = block / kPackedGroup;
    for (size_t column = begin, panel = 0; column < end; column += kPackedColumns, ++panel) {
      WidenWeights<kType>(args.weight.head(column, k), groups, panel, weights);
    }
    for (size_t row = 0; row < num_rows; row += kWideRows) {
      const size_t input_row = row_begin + row;
      const size_t group = input_row * num_groups + k / kPackedGroup;
      for (size_t r = 0; r < kWideRows; ++r) {
        WidenRow(args.input.steps + (input_row + r) * depth + k, block, x[r]);
      }
      const WideInput tile = {x, args.input.scales + group, args.input.sums + group,
                              args.input.half_sums + group, num_groups};
      for (size_t column = begin, panel = 0; column < end; column += kPackedColumns, ++panel) {
        auto* const to = reinterpret_cast<float(*)[kWideColumns]>(output[row] + column - begin);
        MultiplyWideTile<kType>(tile, weights, panel, groups, to);
      }
    }
  }
  for (size_t r = 0; r < num_rows; ++r) {
    std::copy_n(output[r], end - begin, args.output[row_begin + r] + begin);
  }
}

// The first num_rows rows, a multiple of kWideRows.
template <PackedType kType>
void MultiplyWide(const PackedMatMulArgs& args, size_t num_rows) {
  for (size_t begin = args.column_begin; begin < args.column_end; begin += kWideColumns) {
    const size_t end = std::min(begin + kWideColumns, args.column_end);
    for (size_t row = 0; row < num_rows; row += kWideBlockRows) {
      MultiplyWideBlock<kType>(args, row, std::min(kWideBlockRows, num_rows - row), begin, end);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();
#endif
#endif  // include guard
