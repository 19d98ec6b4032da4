// Products of many rows with packed weights, on targets where one instruction adds four products of
// unsigned and signed bytes to a lane of int32: AVX-512 with VNNI. On others this defines nothing.
//
// Steps are widened to bytes in blocks of kByteDepth k and kByteColumns columns, once for all rows,
// raised as packed_steps-inl.h says. Sums end as the same whole numbers as those of
// packed_matmul_simd.cc, and are scaled and added in the same order.
//
// Per-target header of Highway: included once for each instruction set, from *_simd.cc only.
#include "kernels/packed_matmul.h"

#if defined(LECTERN_KERNELS_PACKED_VNNI_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LECTERN_KERNELS_PACKED_VNNI_INL_H_
#undef LECTERN_KERNELS_PACKED_VNNI_INL_H_
#else
#define LECTERN_KERNELS_PACKED_VNNI_INL_H_
#endif

#include <algorithm>
#include <bit>

#include "kernels/packed_steps-inl.h"

#if HWY_TARGET == HWY_AVX3_DL
HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {

static_assert(kLanes == kPackedColumns);  // one vector has a panel's columns

// A tile is 6 rows by 2 panels, so that four steps of an input row are loaded once for both.
constexpr size_t kByteRows = 6, kTilePanels = 2;
// 256 k are one super block, so a block needs one head at most. Block sizes change the speed only.
constexpr size_t kByteDepth = 256, kByteColumns = 64, kByteBlockRows = 96;
static_assert(kByteDepth == kPackedGroup * kPackedSuper);
static_assert(kByteBlockRows % kByteRows == 0 && kByteColumns % (kTilePanels * kLanes) == 0);

// Types whose steps are unsigned and cheap to unpack are as fast as they are packed.
constexpr bool HasByteTiles(PackedType type) { return !PackedHasMin(type) || PackedBits(type) < 4; }
// From so many rows on the widening is worth its cost, the earlier the more a step takes to unpack
// (tests/bench/RESULTS.md, "Packed weights"). It changes the speed alone.
constexpr size_t LeastByteRows(PackedType type) {
  return PackedBits(type) < 4 ? 12 : PackedHasTable(type) ? 24 : 72;
}
// Whether a group's halves have scales, and mins, that are whole numbers, and d and dmin for both.
constexpr bool HasWholeScales(PackedType type) { return HasStoredSteps(type); }

// A block of k of some panels. Without whole scales a group has a scale for each part and perhaps a
// min. With them it has the scales of its halves, meant times `d`, and perhaps their mins, meant
// times `minus_dmin`: pairs of int16 each.
template <PackedType kType>
struct ByteWeights {
  static constexpr size_t kPanels = kByteColumns / kPackedColumns;
  static constexpr size_t kGroups = kByteDepth / kPackedGroup;
  static constexpr size_t kScales = HasWholeScales(kType) ? 1 : kGroups * PackedScales(kType);
  static constexpr size_t kWholes = HasWholeScales(kType) ? kGroups : 1;
  static constexpr size_t kMins = PackedHasMin(kType) ? kGroups : 1;
  static constexpr size_t kWholeMins = HasWholeScales(kType) ? kMins : 1;
  HWY_ALIGN int8_t steps[kPanels][kByteDepth * kPackedColumns];
  HWY_ALIGN float scales[kPanels][kScales][kPackedColumns];
  HWY_ALIGN float d[kPanels][kWholes][kPackedColumns];
  HWY_ALIGN float mins[kPanels][HasWholeScales(kType) ? 1 : kMins][kPackedColumns];
  HWY_ALIGN float minus_dmin[kPanels][kWholeMins][kPackedColumns];
  HWY_ALIGN int32_t half_scales[kPanels][kWholes][kPackedColumns];
  HWY_ALIGN int32_t half_mins[kPanels][kWholeMins][kPackedColumns];
};

// Two numbers that fit int16 in a lane of int32, the first one in the low half.
HWY_INLINE Int32Vector PairUp(Int32Vector first, Int32Vector second) {
  const Int32Vector high = hn::ShiftLeft<16>(second);
  return Int32Vector{_mm512_mask_blend_epi16(0xAAAAAAAA, first.raw, high.raw)};
}
// Lane i gets a.first * b.first + a.second * b.second, of pairs of int16.
HWY_INLINE Int32Vector MultiplyPairs(Int32Vector a, Int32Vector b) {
  Int32Vector sum = hn::Zero(Int32Tag());
  asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
}
// Both sums of a group of an input row in every lane.
HWY_INLINE Int32Vector BothSums(const HalfSums& sums) {
  return hn::Set(Int32Tag(), std::bit_cast<int32_t>(sums));
}

// How steps are widened: raised so that none is negative, with their sign, or not at all.
enum class Widening { kRaised, kSigned, kScales };

// Widens num_groups groups of a panel, and loads their scales and mins; `head` points at the first
// group's head.
template <PackedType kType, Widening kWidening = Widening::kRaised>
HWY_INLINE void WidenToBytes(const std::byte* head, size_t num_groups, size_t panel,
                             ByteWeights<kType>& weights) {
  const FloatTag d;
  constexpr size_t kParts = PackedScales(kType);
  const std::byte* group = head + PackedHeadBytes(kType);
  int8_t* to = weights.steps[panel];
  for (size_t g = 0; g < num_groups; ++g, group += PackedGroupBytes(kType)) {
    if constexpr (HasWholeScales(kType)) {
      hn::Store(LoadF16s(head, 0, 0), d, weights.d[panel][g]);
      hn::Store(PairUp(LoadHalfScales<kType>(group, 0, 0), LoadHalfScales<kType>(group, 1, 0)),
                Int32Tag(), weights.half_scales[panel][g]);
    } else {
      for (size_t part = 0; part < kParts; ++part) {
        hn::Store(LoadScales<kType>(head, group, part, 0), d,
                  weights.scales[panel][g * kParts + part]);
      }
    }
    if constexpr (PackedHasMin(kType) && !HasWholeScales(kType)) {
      hn::Store(LoadMins<kType>(head, group, 0), d, weights.mins[panel][g]);
    } else if constexpr (PackedHasMin(kType)) {
      hn::Store(hn::Neg(LoadF16s(head, 1, 0)), d, weights.minus_dmin[panel][g]);
      hn::Store(PairUp(LoadHalfMins(group, 0, 0), LoadHalfMins(group, 1, 0)), Int32Tag(),
                weights.half_mins[panel][g]);
    }
    if constexpr (kWidening == Widening::kScales) continue;
    const std::byte* const steps = group + PackedScaleBytes(kType);
    for (size_t four = 0; four < kPackedGroup / 4; ++four, to += 4 * kPackedColumns) {
      hn::Store(kWidening == Widening::kRaised ? LoadRaised<kType>(steps, four)
                                               : LoadSigned<kType>(steps, four),
                Int8Tag(), to);
    }
  }
}

// A tile's rows of the input, from this block of k on: the steps of a row lie `depth` apart, the
// others `num_groups`.
struct ByteInput {
  const int8_t* steps;
  const float* scales;
  const HalfSums* half_sums;
  size_t depth, num_groups;
};

// Adds the products of the tile's rows with kPanels panels from `panel` on, over num_groups groups
// of this block, to `output`.
template <PackedType kType, size_t kPanels>
HWY_NOINLINE void MultiplyByteTile(const ByteInput& x, const ByteWeights<kType>& weights,
                                   size_t panel, size_t num_groups, float (*output)[kByteColumns]) {
  const FloatTag d;
  const Int32Tag di;
  constexpr size_t kParts = PackedScales(kType), kOfPart = kPackedGroup / kParts;
  constexpr int16_t kLess = -StepsRaisedBy(kType);
  const auto scale_of = [&](size_t r, size_t g)
                            HWY_ATTR { return hn::Set(d, x.scales[r * x.num_groups + g]); };
  for (size_t g = 0; g < num_groups; ++g) {
    Int32Vector sums[kParts][kByteRows][kPanels];
    LECTERN_UNROLL_TILE
    for (size_t part = 0; part < kParts; ++part) {
      const HalfSums less = {part == 0 ? kLess : int16_t{0},
                             part == 1 || kParts == 1 ? kLess : int16_t{0}};
      LECTERN_UNROLL_TILE
      for (size_t r = 0; r < kByteRows; ++r) {
        Int32Vector start = hn::Zero(di);
        if constexpr (kLess != 0) {
          start = MultiplyPairs(BothSums(less), BothSums(x.half_sums[r * x.num_groups + g]));
        }
        LECTERN_UNROLL_TILE
        for (size_t p = 0; p < kPanels; ++p) sums[part][r][p] = start;
      }
      const size_t begin = g * kPackedGroup + part * kOfPart;
      HWY_UNROLL(1)  // unrolled, GCC 12 reorders the sums and runs out of registers
      for (size_t k = begin; k < begin + kOfPart; k += 4) {
        UnsignedWeights w[kPanels];
        LECTERN_UNROLL_TILE
        for (size_t p = 0; p < kPanels; ++p) {
          w[p] = {hn::Load(Int8Tag(), weights.steps[panel + p] + k * kPackedColumns)};
        }
        LECTERN_UNROLL_TILE
        for (size_t r = 0; r < kByteRows; ++r) {
          const auto* const four = reinterpret_cast<const std::byte*>(x.steps + r * x.depth + k);
          const auto input = hn::BitCast(Int8Tag(), hn::Set(di, LoadUnaligned<int32_t>(four)));
          LECTERN_UNROLL_TILE
          for (size_t p = 0; p < kPanels; ++p) {
            sums[part][r][p] = AddDots(sums[part][r][p], w[p], input);
          }
        }
      }
    }
    if constexpr (!HasWholeScales(kType)) {
      LECTERN_UNROLL_TILE
      for (size_t p = 0; p < kPanels; ++p) {
        LECTERN_UNROLL_TILE
        for (size_t r = 0; r < kByteRows; ++r) {
          float* const to = output[r] + p * kLanes;
          FloatVector sum = hn::Load(d, to);
          LECTERN_UNROLL_TILE
          for (size_t part = 0; part < kParts; ++part) {
            const auto scales = hn::Load(d, weights.scales[panel + p][g * kParts + part]);
            const FloatVector total = hn::ConvertTo(d, sums[part][r][p]);
            sum = hn::MulAdd(hn::Mul(scale_of(r, g), scales), total, sum);
          }
          hn::Store(sum, d, to);
        }
      }
    }
    if constexpr (HasWholeScales(kType)) {
      LECTERN_UNROLL_TILE
      for (size_t p = 0; p < kPanels; ++p) {
        const Int32Vector half_scales = hn::Load(di, weights.half_scales[panel + p][g]);
        const FloatVector scales = hn::Load(d, weights.d[panel + p][g]);
        LECTERN_UNROLL_TILE
        for (size_t r = 0; r < kByteRows; ++r) {
          float* const to = output[r] + p * kLanes;
          const FloatVector scale = scale_of(r, g);
          // A half's sum is at most 16 * 4 * 127 in size.
          const Int32Vector halves = PairUp(sums[0][r][p], sums[1][r][p]);
          const FloatVector total = hn::ConvertTo(d, MultiplyPairs(half_scales, halves));
          FloatVector sum = hn::MulAdd(hn::Mul(scale, scales), total, hn::Load(d, to));
          if constexpr (PackedHasMin(kType)) {
            const Int32Vector mins = MultiplyPairs(hn::Load(di, weights.half_mins[panel + p][g]),
                                                   BothSums(x.half_sums[r * x.num_groups + g]));
            const FloatVector minus_dmin = hn::Load(d, weights.minus_dmin[panel + p][g]);
            sum = hn::MulAdd(hn::Mul(scale, minus_dmin), hn::ConvertTo(d, mins), sum);
          }
          hn::Store(sum, d, to);
        }
      }
    }
  }
}

// Rows [row_begin, row_begin + num_rows), at most kByteBlockRows and a multiple of kByteRows, times
// columns [begin, end), at most kByteColumns. The output is summed in a local array, block of k
// after block of k.
template <PackedType kType>
void MultiplyByteBlock(const PackedMatMulArgs& args, size_t row_begin, size_t num_rows,
                       size_t begin, size_t end) {
  const Int8Rows& input = args.input;
  const size_t depth = input.num_cols, num_groups = depth / kPackedGroup;
  const size_t num_panels = (end - begin + kPackedColumns - 1) / kPackedColumns;
  ByteWeights<kType> weights;
  HWY_ALIGN float output[kByteBlockRows][kByteColumns] = {};
  for (size_t r = 0; args.accumulate && r < num_rows; ++r) {
    std::copy_n(args.output[row_begin + r] + begin, end - begin, output[r]);
  }
  for (size_t k = 0; k < depth; k += kByteDepth) {
    const size_t groups = std::min(kByteDepth, depth - k) / kPackedGroup;
    for (size_t p = 0; p < num_panels; ++p) {
      WidenToBytes<kType>(args.weight.head(begin + p * kPackedColumns, k), groups, p, weights);
    }
    for (size_t row = 0; row < num_rows; row += kByteRows) {
      const size_t first = (row_begin + row) * num_groups + k / kPackedGroup;
      const ByteInput tile = {input.steps + (row_begin + row) * depth + k, input.scales + first,
                              input.half_sums + first, depth, num_groups};
      for (size_t p = 0; p < num_panels; p += kTilePanels) {
        auto* const to = reinterpret_cast<float(*)[kByteColumns]>(output[row] + p * kLanes);
        if (p + 1 < num_panels) {
          MultiplyByteTile<kType, kTilePanels>(tile, weights, p, groups, to);
        } else {
          MultiplyByteTile<kType, 1>(tile, weights, p, groups, to);
        }
      }
    }
  }
  for (size_t r = 0; r < num_rows; ++r) {
    std::copy_n(output[r], end - begin, args.output[row_begin + r] + begin);
  }
}

// The first num_rows rows, a multiple of kByteRows.
template <PackedType kType>
void MultiplyBytes(const PackedMatMulArgs& args, size_t num_rows) {
  for (size_t begin = args.column_begin; begin < args.column_end; begin += kByteColumns) {
    const size_t end = std::min(begin + kByteColumns, args.column_end);
    for (size_t row = 0; row < num_rows; row += kByteBlockRows) {
      MultiplyByteBlock<kType>(args, row, std::min(kByteBlockRows, num_rows - row), begin, end);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();
#endif
#endif  // include guard
