// Every input row meets the weights as they are packed: a tile of rows and the 16 columns of a
// panel sums the products of a group in int32, then adds them, scaled, to the output.
#include "kernels/packed_matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/packed_matmul_simd.cc"
#include "hwy/foreach_target.h"

#include <algorithm>
#include <limits>

#include "kernels/packed_dots-inl.h"
#include "kernels/packed_planes.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
#if !LECTERN_HAS_PACKED_DOTS
void QuantiseRows(const QuantiseRowsArgs& args) { QuantiseRowsScalar(args); }
void PackedMatMul(const PackedMatMulArgs& args) { PackedMatMulScalar(args); }
#else

// ---- Rows to int8

// Rounds one group as QuantiseRowsScalar does, with the same bits.
HWY_INLINE void QuantiseGroup(const float* x, int8_t* steps, float* scale, float* sum) {
  const FloatTag d;
  const Int32Tag di;
  // The bits of magnitudes, taken as integers, are ordered as the magnitudes are, and infinity and
  // NaN come last. So one maximum finds the scale and everything that is not finite.
  Int32Vector magnitudes = hn::Zero(di);
  for (size_t i = 0; i < kPackedGroup; i += kLanes) {
    magnitudes = hn::Max(magnitudes, hn::BitCast(di, hn::Abs(hn::LoadU(d, x + i))));
  }
  const float largest = std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(di, magnitudes)));
  *scale = largest / 127;
  if (*scale < std::numeric_limits<float>::min()) *scale = 0;
  if (!(largest <= std::numeric_limits<float>::max())) {
    *scale = std::numeric_limits<float>::quiet_NaN();
  }
  if (!(*scale > 0)) {
    std::fill_n(steps, kPackedGroup, int8_t{0});
    *sum = *scale;  // 0 or NaN
    return;
  }
  Int32Vector totals = hn::Zero(di);
  const FloatVector per_unit = hn::Set(d, 1 / *scale);
  for (size_t i = 0; i < kPackedGroup; i += kLanes) {
    const Int32Vector nearest = hn::NearestInt(hn::Mul(hn::LoadU(d, x + i), per_unit));
    const hn::Rebind<int8_t, FloatTag> di8;
    hn::StoreU(hn::DemoteTo(di8, nearest), di8, steps + i);
    totals = hn::Add(totals, nearest);
  }
  *sum = *scale * static_cast<float>(hn::GetLane(hn::SumOfLanes(di, totals)));
}

void QuantiseRows(const QuantiseRowsArgs& args) {
  const auto& [input, steps, scales, sums] = args;
  const size_t num_groups = input.num_cols / kPackedGroup;
  for (size_t row = 0; row < input.num_rows; ++row) {
    for (size_t g = 0; g < num_groups; ++g) {
      QuantiseGroup(input[row] + g * kPackedGroup,
                    steps.data() + row * input.num_cols + g * kPackedGroup,
                    scales.data() + row * num_groups + g, sums.data() + row * num_groups + g);
    }
  }
}

// ---- The product

// Four consecutive k for each of columns [column, column + kLanes) of a panel. `steps` points at
// the panel's steps for these four k.
template <PackedType kType>
HWY_INLINE Int8Vector LoadSteps(const std::byte* steps, size_t column) {
  const Int8Tag d;
  if constexpr (!PackedHasNibbles(kType)) {
    return LoadBytes(d, steps + 4 * column);
  } else {
    constexpr size_t kHalf = kPackedColumns / 2;
    const hn::RebindToUnsigned<Int8Tag> du;
#if HWY_TARGET == HWY_AVX3_DL  // both halves of the panel in one vector
    static_assert(kLanes == kPackedColumns);
    const hn::Half<decltype(du)> half;
    const auto pairs = LoadBytes(half, steps);
    const auto nibbles =
        hn::Combine(du, hn::ShiftRight<4>(pairs), hn::And(pairs, hn::Set(half, 15)));
#else
    const auto pairs = LoadBytes(du, steps + 4 * (column % kHalf));
    const auto nibbles =
        column < kHalf ? hn::And(pairs, hn::Set(du, 15)) : hn::ShiftRight<4>(pairs);
#endif
    if constexpr (PackedZero(kType) == 0) return hn::BitCast(d, nibbles);
    return hn::Sub(hn::BitCast(d, nibbles), hn::Set(d, PackedZero(kType)));
  }
}

// The same of small integers.
template <typename T>
HWY_INLINE FloatVector LoadBytesAsFloats(const std::byte* from, size_t array, size_t column) {
  const hn::Rebind<T, FloatTag> narrow;
  const auto bytes = LoadBytes(narrow, from + array * kPackedColumns + column);
  return hn::ConvertTo(FloatTag(), hn::PromoteTo(Int32Tag(), bytes));
}

// Scales of part `part` of a group for columns [column, column + kLanes), and below the mins. Super
// types multiply the group's small integer by the f16 in the head.
template <PackedType kType>
HWY_INLINE FloatVector LoadScales(const std::byte* head, const std::byte* group, size_t part,
                                  size_t column) {
  if constexpr (PackedHeadBytes(kType) == 0) {
    return LoadF16s(group, 0, column);
  } else if constexpr (kType == PackedType::kQ8Halves) {
    return hn::Mul(LoadF16s(head, 0, column), LoadBytesAsFloats<int8_t>(group, part, column));
  } else {
    return hn::Mul(LoadF16s(head, 0, column), LoadBytesAsFloats<uint8_t>(group, 0, column));
  }
}
template <PackedType kType>
HWY_INLINE FloatVector LoadMins(const std::byte* head, const std::byte* group, size_t column) {
  if constexpr (PackedHeadBytes(kType) == 0) {
    return LoadF16s(group, 1, column);
  } else {
    return hn::Neg(
        hn::Mul(LoadF16s(head, 1, column), LoadBytesAsFloats<uint8_t>(group, 1, column)));
  }
}

// Multiplies rows [row, row + kRows) with one panel, whose first `count` columns are wanted.
template <PackedType kType, size_t kRows>
HWY_NOINLINE void MultiplyTile(const PackedMatMulArgs& args, size_t row, size_t column,
                               size_t count) {
  const FloatTag d;
  HWY_ALIGN float output[kRows][kPackedColumns] = {};
  for (size_t r = 0; args.accumulate && r < kRows; ++r) {
    std::copy_n(args.output[row + r] + column, count, output[r]);
  }
  const size_t depth = args.input.num_cols, num_groups = depth / kPackedGroup;
  const auto* const x = reinterpret_cast<const std::byte*>(args.input.steps + row * depth);
  const float* const x_scales = args.input.scales + row * num_groups;
  const float* const x_sums = args.input.sums + row * num_groups;
  constexpr size_t kParts = PackedScales(kType), kHead = PackedHeadBytes(kType);
  const std::byte* head = args.weight.head(column, 0);
  const std::byte* group = head;
  for (size_t g = 0; g < num_groups; ++g, group += PackedGroupBytes(kType)) {
    if (kHead > 0 && g % kPackedSuper == 0) {
      head = group;
      group += kHead;
    }
    if constexpr (kRows == 1) {  // the hardware prefetcher stops at the end of a 4 KiB page
      // One page and 512 bytes ahead: far enough to cross into the next page in time. A token of
      // model M took 37.2 instead of 41.8 ms with it (tests/bench/RESULTS.md).
      constexpr size_t kAhead = 4608;
      for (size_t i = 0; i < PackedGroupBytes(kType); i += 64) {
        __builtin_prefetch(group + kAhead + i);
      }
    }
    const std::byte* steps = group + PackedScaleBytes(kType);
    const std::byte* x_part = x + g * kPackedGroup;
    for (size_t part = 0; part < kParts; ++part, x_part += kPackedGroup / kParts) {
      Int32Vector sums[kRows][kPanelVectors];
      LECTERN_UNROLL_TILE
      for (size_t r = 0; r < kRows; ++r) {
        LECTERN_UNROLL_TILE
        for (size_t v = 0; v < kPanelVectors; ++v) sums[r][v] = hn::Zero(Int32Tag());
      }
      HWY_UNROLL(1)  // unrolled, GCC 12 reorders the sums and runs out of registers
      for (size_t k = 0; k < kPackedGroup / kParts; k += 4, steps += PackedFourBytes(kType)) {
        Weights w[kPanelVectors];
        LECTERN_UNROLL_TILE
        for (size_t v = 0; v < kPanelVectors; ++v) {
          w[v] = Prepare(LoadSteps<kType>(steps, v * kLanes));
        }
        LECTERN_UNROLL_TILE
        for (size_t r = 0; r < kRows; ++r) {
          const auto four = LoadUnaligned<int32_t>(x_part + r * depth + k);
          const Int8Vector input = hn::BitCast(Int8Tag(), hn::Set(Int32Tag(), four));
          LECTERN_UNROLL_TILE
          for (size_t v = 0; v < kPanelVectors; ++v) sums[r][v] = AddDots(sums[r][v], w[v], input);
        }
      }
      LECTERN_UNROLL_TILE
      for (size_t v = 0; v < kPanelVectors; ++v) {
        const FloatVector scales = LoadScales<kType>(head, group, part, v * kLanes);
        LECTERN_UNROLL_TILE
        for (size_t r = 0; r < kRows; ++r) {
          const FloatVector scale = hn::Mul(hn::Set(d, x_scales[r * num_groups + g]), scales);
          float* const to = output[r] + v * kLanes;
          hn::Store(hn::MulAdd(scale, hn::ConvertTo(d, sums[r][v]), hn::Load(d, to)), d, to);
        }
      }
    }
    if constexpr (PackedHasMin(kType)) {
      LECTERN_UNROLL_TILE
      for (size_t v = 0; v < kPanelVectors; ++v) {
        const FloatVector mins = LoadMins<kType>(head, group, v * kLanes);
        LECTERN_UNROLL_TILE
        for (size_t r = 0; r < kRows; ++r) {
          const FloatVector sum = hn::Set(d, x_sums[r * num_groups + g]);
          float* const to = output[r] + v * kLanes;
          hn::Store(hn::MulAdd(sum, mins, hn::Load(d, to)), d, to);
        }
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    std::copy_n(output[r], count, args.output[row + r] + column);
  }
}

// Multiplies the rows from `row` on, in tiles of kRows rows, then the rest in tiles of half as
// many.
template <PackedType kType, size_t kRows>
HWY_INLINE void MultiplyRows(const PackedMatMulArgs& args, size_t row) {
  for (; row + kRows <= args.input.num_rows; row += kRows) {
    for (size_t column = args.column_begin; column < args.column_end; column += kPackedColumns) {
      MultiplyTile<kType, kRows>(args, row, column,
                                 std::min(kPackedColumns, args.column_end - column));
    }
  }
  if constexpr (kRows > 1) MultiplyRows<kType, kRows / 2>(args, row);
}

// ---- Many rows, on targets where a sum of four products takes three instructions
//
// A product of two pairs of int16 and their sum is one instruction (pmaddwd). So steps are widened
// to int16 in blocks of kWideDepth k: the weights of 64 columns once for all rows, the input of a
// tile of rows once for all of these columns. Widening a vector of bytes by shifts gives pairs (k,
// k + 2), then (k + 1, k + 3), without any shuffle; both sides use that order, so the products
// match. The sums are the same whole numbers, and they are scaled and added in the same order as
// above.

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
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

// A block of k of some panels, widened. Each group holds 16 steps over pairs of k, in the order
// that Widen gives.
template <PackedType kType>
struct WideWeights {
  static constexpr size_t kPanels = kWideColumns / kPackedColumns;
  static constexpr size_t kScales = kWideDepth / kPackedGroup * PackedScales(kType);
  static constexpr size_t kMins = PackedHasMin(kType) ? kWideDepth / kPackedGroup : 1;
  HWY_ALIGN int16_t pairs[kPanels][kWideDepth * kPackedColumns];
  HWY_ALIGN float scales[kPanels][kScales][kPackedColumns];
  HWY_ALIGN float mins[kPanels][kMins][kPackedColumns];
};
static_assert(kWideDepth == kPackedGroup * kPackedSuper);  // one head at most

// Widens num_groups groups of a panel; `head` points at the first group's head.
template <PackedType kType>
HWY_INLINE void WidenWeights(const std::byte* head, size_t num_groups, size_t panel,
                             WideWeights<kType>& weights) {
  const FloatTag d;
  constexpr size_t kParts = PackedScales(kType);
  const std::byte* group = head + PackedHeadBytes(kType);
  for (size_t g = 0; g < num_groups; ++g, group += PackedGroupBytes(kType)) {
    for (size_t c = 0; c < kPackedColumns; c += kLanes) {
      for (size_t part = 0; part < kParts; ++part) {
        hn::Store(LoadScales<kType>(head, group, part, c), d,
                  weights.scales[panel][g * kParts + part] + c);
      }
      if constexpr (PackedHasMin(kType)) {
        hn::Store(LoadMins<kType>(head, group, c), d, weights.mins[panel][g] + c);
      }
    }
    const std::byte* steps = group + PackedScaleBytes(kType);
    for (size_t four = 0; four < kPackedGroup / 4; ++four, steps += PackedFourBytes(kType)) {
      const size_t pair = g * kGroupPairs + four / kLanes * 2 * kLanes + four % kLanes;
      int16_t* const even = weights.pairs[panel] + pair * 2 * kPackedColumns;
      int16_t* const odd = even + kLanes * 2 * kPackedColumns;
      for (size_t c = 0; c < kPackedColumns; c += kLanes) {
        Widen(LoadSteps<kType>(steps, c), even + 2 * c, odd + 2 * c);
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
  size_t stride;  // of scales and sums
};

// Adds the products of the tile's rows with one panel, over this block of k, to `output`.
template <PackedType kType>
HWY_NOINLINE void MultiplyWideTile(const WideInput& x, const WideWeights<kType>& weights,
                                   size_t panel, size_t num_groups, float (*output)[kWideColumns]) {
  const FloatTag d;
  const Int32Tag di;
  const Int16Tag d16;
  constexpr size_t kParts = PackedScales(kType);
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
          const FloatVector sum = hn::Set(d, x.sums[r * x.stride + g]);
          float* const to = output[r] + v * kLanes;
          hn::Store(hn::MulAdd(sum, mins, hn::Load(d, to)), d, to);
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
      for (size_t r = 0; r < kWideRows; ++r) {
        WidenRow(args.input.steps + (input_row + r) * depth + k, block, x[r]);
      }
      const size_t group = input_row * num_groups + k / kPackedGroup;
      const WideInput tile = {x, args.input.scales + group, args.input.sums + group, num_groups};
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
#endif

// Many rows go through the wide path as far as they fill its tiles; the rest uses the plain tiles.
template <PackedType kType>
void MultiplyBy(const PackedMatMulArgs& args) {
  size_t row = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
  if (args.input.num_rows >= kLeastWideRows) {
    row = args.input.num_rows / kWideRows * kWideRows;
    MultiplyWide<kType>(args, row);
  }
#endif
  MultiplyRows<kType, kTileRows>(args, row);
}

// PackedMatMulSimd for this instruction set: picks the version for the weights' type.
void PackedMatMul(const PackedMatMulArgs& args) {
  switch (args.weight.type) {
    case PackedType::kQ8:
      return MultiplyBy<PackedType::kQ8>(args);
    case PackedType::kQ4:
      return MultiplyBy<PackedType::kQ4>(args);
    case PackedType::kQ8Min:
      return MultiplyBy<PackedType::kQ8Min>(args);
    case PackedType::kQ4Min:
      return MultiplyBy<PackedType::kQ4Min>(args);
    case PackedType::kQ8Super:
      return MultiplyBy<PackedType::kQ8Super>(args);
    case PackedType::kQ4Super:
      return MultiplyBy<PackedType::kQ4Super>(args);
    case PackedType::kQ8Halves:
      return MultiplyBy<PackedType::kQ8Halves>(args);
    case PackedType::kQ8Planes:  // PlanesMatMulSimd
      break;
  }
}

#endif  // other targets
}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lectern {

HWY_EXPORT(QuantiseRows);
HWY_EXPORT(PackedMatMul);

void QuantiseRowsSimd(const QuantiseRowsArgs& args) {
  assert(args.input.num_cols % kPackedGroup == 0);
  assert(args.steps.size() >= args.input.num_rows * args.input.num_cols);
  assert(args.scales.size() >= args.input.num_rows * (args.input.num_cols / kPackedGroup));
  assert(args.sums.size() >= args.input.num_rows * (args.input.num_cols / kPackedGroup));
  HWY_DYNAMIC_DISPATCH(QuantiseRows)(args);
}

void PackedMatMulSimd(const PackedMatMulArgs& args) {
  assert(args.input.num_cols == args.weight.num_cols);
  assert(args.input.num_rows == args.output.num_rows);
  assert(args.output.num_cols == args.weight.num_rows);
  assert(args.column_begin <= args.column_end && args.column_end <= args.weight.num_rows);
  assert(args.column_begin % kPackedColumns == 0);
  if (args.weight.has_planes()) return PlanesMatMulSimd(args);
  HWY_DYNAMIC_DISPATCH(PackedMatMul)(args);
}

}  // namespace lectern
#endif  // HWY_ONCE
