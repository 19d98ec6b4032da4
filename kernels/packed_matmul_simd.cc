// Every input row meets the weights as they are packed: a tile of rows and the 16 columns of a
// panel sums the products of a group in int32, then adds them, scaled, to the output.
#include "kernels/packed_matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/packed_matmul_simd.cc"
#include "hwy/foreach_target.h"

#include <algorithm>
#include <limits>

#include "kernels/packed_amx-inl.h"
#include "kernels/packed_dots-inl.h"
#include "kernels/packed_planes.h"
#include "kernels/packed_steps-inl.h"
#include "kernels/packed_vnni-inl.h"
#include "kernels/packed_wide-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
#if !LECTERN_HAS_PACKED_DOTS
void QuantiseRows(const QuantiseRowsArgs& args) { QuantiseRowsScalar(args); }
void PackedMatMul(const PackedMatMulArgs& args) { PackedMatMulScalar(args); }
void PackedMatMulWithAmx(const PackedMatMulArgs& args) { PackedMatMulScalar(args); }
#else

// ---- Rows to int8

// Rounds one group as QuantiseRowsScalar does, with the same bits.
HWY_INLINE void QuantiseGroup(const float* x, int8_t* steps, float* scale, float* sum,
                              HalfSums* half_sums) {
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
    *half_sums = {};
    return;
  }
  int32_t totals[2];
  const FloatVector per_unit = hn::Set(d, 1 / *scale);
  for (size_t half = 0; half < 2; ++half) {
    Int32Vector total = hn::Zero(di);
    const size_t begin = half * kPackedGroup / 2;
    for (size_t i = begin; i < begin + kPackedGroup / 2; i += kLanes) {
      const Int32Vector nearest = hn::NearestInt(hn::Mul(hn::LoadU(d, x + i), per_unit));
      const hn::Rebind<int8_t, FloatTag> di8;
      hn::StoreU(hn::DemoteTo(di8, nearest), di8, steps + i);
      total = hn::Add(total, nearest);
    }
    totals[half] = hn::GetLane(hn::SumOfLanes(di, total));
  }
  *sum = *scale * static_cast<float>(totals[0] + totals[1]);
  *half_sums = {static_cast<int16_t>(totals[0]), static_cast<int16_t>(totals[1])};
}

void QuantiseRows(const QuantiseRowsArgs& args) {
  const auto& [input, steps, scales, sums, half_sums] = args;
  const size_t num_groups = input.num_cols / kPackedGroup;
  for (size_t row = 0; row < input.num_rows; ++row) {
    for (size_t g = 0; g < num_groups; ++g) {
      QuantiseGroup(input[row] + g * kPackedGroup,
                    steps.data() + row * input.num_cols + g * kPackedGroup,
                    scales.data() + row * num_groups + g, sums.data() + row * num_groups + g,
                    half_sums.data() + row * num_groups + g);
    }
  }
}

// ---- The product

// Asks for the bytes that come a while after `group`: the hardware prefetcher stops at the end of a
// 4 KiB page. One page and 512 bytes ahead is far enough to cross into the next page in time. A
// token of model M took 37.2 instead of 41.8 ms with it (tests/bench/RESULTS.md).
template <PackedType kType>
HWY_INLINE void PrefetchAhead(const std::byte* group) {
  constexpr size_t kAhead = 4608;
  for (size_t i = 0; i < PackedGroupBytes(kType); i += 64) {
    __builtin_prefetch(group + kAhead + i);
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
  const HalfSums* const x_halves = args.input.half_sums + row * num_groups;
  constexpr size_t kParts = PackedScales(kType), kHead = PackedHeadBytes(kType);
  const std::byte* head = args.weight.head(column, 0);
  const std::byte* group = head;
  for (size_t g = 0; g < num_groups; ++g, group += PackedGroupBytes(kType)) {
    if (kHead > 0 && g % kPackedSuper == 0) {
      head = group;
      group += kHead;
    }
    if constexpr (kRows == 1) PrefetchAhead<kType>(group);
    const std::byte* const steps = group + PackedScaleBytes(kType);
    const std::byte* x_part = x + g * kPackedGroup;
    size_t four = 0;
    for (size_t part = 0; part < kParts; ++part, x_part += kPackedGroup / kParts) {
      hn::Vec<StepSumTag<kType>> sums[kRows][kPanelVectors];
      LECTERN_UNROLL_TILE
      for (size_t r = 0; r < kRows; ++r) {
        const auto start = StartOfSum<kType>(x_halves[r * num_groups + g], part);
        LECTERN_UNROLL_TILE
        for (size_t v = 0; v < kPanelVectors; ++v) sums[r][v] = start;
      }
      HWY_UNROLL(1)  // unrolled, GCC 12 reorders the sums and runs out of registers
      for (size_t k = 0; k < kPackedGroup / kParts; k += 4, ++four) {
        decltype(LoadWeights<kType>(steps, four, 0)) w[kPanelVectors];
        LECTERN_UNROLL_TILE
        for (size_t v = 0; v < kPanelVectors; ++v) {
          w[v] = LoadWeights<kType>(steps, four, v * kLanes);
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
          const FloatVector total = hn::ConvertTo(d, Total(sums[r][v]));
          hn::Store(hn::MulAdd(scale, total, hn::Load(d, to)), d, to);
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

// MultiplyTile for types of fewer than 4 bits, whose halves have scales of their own. A group's
// halves are summed in whole numbers, scales and mins included, and meet d and dmin once.
template <PackedType kType, size_t kRows>
HWY_NOINLINE void MultiplyHalvesTile(const PackedMatMulArgs& args, size_t row, size_t column,
                                     size_t count) {
  const FloatTag d;
  const Int32Tag di;
  constexpr size_t kHalf = kPackedGroup / 2;
  HWY_ALIGN float output[kRows][kPackedColumns] = {};
  for (size_t r = 0; args.accumulate && r < kRows; ++r) {
    std::copy_n(args.output[row + r] + column, count, output[r]);
  }
  const size_t depth = args.input.num_cols, num_groups = depth / kPackedGroup;
  const auto* const x = reinterpret_cast<const std::byte*>(args.input.steps + row * depth);
  const float* const x_scales = args.input.scales + row * num_groups;
  const HalfSums* const x_sums = args.input.half_sums + row * num_groups;
  const std::byte* head = args.weight.head(column, 0);
  const std::byte* group = head;
  for (size_t g = 0; g < num_groups; ++g, group += PackedGroupBytes(kType)) {
    if (g % kPackedSuper == 0) {
      head = group;
      group += PackedHeadBytes(kType);
    }
    if constexpr (kRows == 1) PrefetchAhead<kType>(group);
    const std::byte* const steps = group + PackedScaleBytes(kType);
    Int32Vector totals[kRows][kPanelVectors], min_totals[kRows][kPanelVectors];
    LECTERN_UNROLL_TILE
    for (size_t r = 0; r < kRows; ++r) {
      LECTERN_UNROLL_TILE
      for (size_t v = 0; v < kPanelVectors; ++v) totals[r][v] = min_totals[r][v] = hn::Zero(di);
    }
    LECTERN_UNROLL_TILE
    for (size_t half = 0; half < 2; ++half) {
      const std::byte* const x_half = x + g * kPackedGroup + half * kHalf;
      hn::Vec<StepSumTag<kType>> sums[kRows][kPanelVectors];
      LECTERN_UNROLL_TILE
      for (size_t r = 0; r < kRows; ++r) {
        LECTERN_UNROLL_TILE
        for (size_t v = 0; v < kPanelVectors; ++v) sums[r][v] = hn::Zero(StepSumTag<kType>());
      }
      const auto add_four = [&](size_t k) HWY_ATTR {
        UnsignedWeights w[kPanelVectors];
        LECTERN_UNROLL_TILE
        for (size_t v = 0; v < kPanelVectors; ++v) {
          w[v] = PrepareSteps<kType>(LoadSteps<kType>(steps, (half * kHalf + k) / 4, v * kLanes));
        }
        LECTERN_UNROLL_TILE
        for (size_t r = 0; r < kRows; ++r) {
          const auto four = LoadUnaligned<int32_t>(x_half + r * depth + k);
          const Int8Vector input = hn::BitCast(Int8Tag(), hn::Set(di, four));
          LECTERN_UNROLL_TILE
          for (size_t v = 0; v < kPanelVectors; ++v) sums[r][v] = AddDots(sums[r][v], w[v], input);
        }
      };
      if constexpr (kRows == 1) {  // shifts and masks become constants
        LECTERN_UNROLL_TILE
        for (size_t k = 0; k < kHalf; k += 4) add_four(k);
      } else {  // unrolled, GCC 12 reorders the sums and runs out of registers
        HWY_UNROLL(1)
        for (size_t k = 0; k < kHalf; k += 4) add_four(k);
      }
      LECTERN_UNROLL_TILE
      for (size_t v = 0; v < kPanelVectors; ++v) {
        const Int32Vector scales = LoadHalfScales<kType>(group, half, v * kLanes);
        LECTERN_UNROLL_TILE
        for (size_t r = 0; r < kRows; ++r) {
          const HalfSums& both = x_sums[r * num_groups + g];
          const Int32Vector x_sum = hn::Set(di, half == 0 ? both.first : both.second);
          Int32Vector products = Total(sums[r][v]);
          if constexpr (PackedZero(kType) == 4) {
            products = hn::Sub(products, hn::ShiftLeft<2>(x_sum));
          }
          totals[r][v] = hn::Add(totals[r][v], hn::Mul(products, scales));
          if constexpr (PackedHasMin(kType)) {
            const Int32Vector mins = LoadHalfMins(group, half, v * kLanes);
            min_totals[r][v] = hn::Add(min_totals[r][v], hn::Mul(x_sum, mins));
          }
        }
      }
    }
    LECTERN_UNROLL_TILE
    for (size_t v = 0; v < kPanelVectors; ++v) {
      const FloatVector scales = LoadF16s(head, 0, v * kLanes);
      LECTERN_UNROLL_TILE
      for (size_t r = 0; r < kRows; ++r) {
        const FloatVector x_scale = hn::Set(d, x_scales[r * num_groups + g]);
        float* const to = output[r] + v * kLanes;
        FloatVector sum = hn::Load(d, to);
        sum = hn::MulAdd(hn::Mul(x_scale, scales), hn::ConvertTo(d, totals[r][v]), sum);
        if constexpr (PackedHasMin(kType)) {
          const FloatVector mins = hn::Mul(x_scale, hn::Neg(LoadF16s(head, 1, v * kLanes)));
          sum = hn::MulAdd(mins, hn::ConvertTo(d, min_totals[r][v]), sum);
        }
        hn::Store(sum, d, to);
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
      const size_t count = std::min(kPackedColumns, args.column_end - column);
      if constexpr (HasStoredSteps(kType)) {
        MultiplyHalvesTile<kType, kRows>(args, row, column, count);
      } else {
        MultiplyTile<kType, kRows>(args, row, column, count);
      }
    }
  }
  if constexpr (kRows > 1) MultiplyRows<kType, kRows / 2>(args, row);
}

// Many rows go through a path of their own as far as they fill its tiles; the rest uses the plain
// tiles.
template <PackedType kType, bool kHasAmx>
void MultiplyBy(const PackedMatMulArgs& args) {
  size_t row = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
  if (args.input.num_rows >= kLeastWideRows) {
    row = args.input.num_rows / kWideRows * kWideRows;
    MultiplyWide<kType>(args, row);
  }
#elif HWY_TARGET == HWY_AVX3_DL
  if (kHasAmx && args.input.num_rows >= kLeastAmxRows) return MultiplyAmx<kType>(args);
  if constexpr (HasByteTiles(kType)) {
    if (args.input.num_rows >= LeastByteRows(kType)) {
      row = args.input.num_rows / kByteRows * kByteRows;
      MultiplyBytes<kType>(args, row);
    }
  }
#endif
  MultiplyRows<kType, kTileRows>(args, row);
}

template <bool kHasAmx>
void MultiplyByPlanes(const PackedMatMulArgs& args) {
#if HWY_TARGET == HWY_AVX3_DL
  constexpr PackedType kPlanes = PackedType::kQ8Planes;
  if (kHasAmx && args.input.num_rows >= kLeastAmxRows) return MultiplyAmx<kPlanes>(args);
#endif
  PlanesMatMulSimd(args);
}

// PackedMatMulSimd for this instruction set: picks the version for the weights' type.
template <bool kHasAmx>
void MultiplyByType(const PackedMatMulArgs& args) {
  switch (args.weight.type) {
    case PackedType::kQ8:
      return MultiplyBy<PackedType::kQ8, kHasAmx>(args);
    case PackedType::kQ4:
      return MultiplyBy<PackedType::kQ4, kHasAmx>(args);
    case PackedType::kQ8Min:
      return MultiplyBy<PackedType::kQ8Min, kHasAmx>(args);
    case PackedType::kQ4Min:
      return MultiplyBy<PackedType::kQ4Min, kHasAmx>(args);
    case PackedType::kQ8Super:
      return MultiplyBy<PackedType::kQ8Super, kHasAmx>(args);
    case PackedType::kQ4Super:
      return MultiplyBy<PackedType::kQ4Super, kHasAmx>(args);
    case PackedType::kQ8Halves:
      return MultiplyBy<PackedType::kQ8Halves, kHasAmx>(args);
    case PackedType::kQ2Halves:
      return MultiplyBy<PackedType::kQ2Halves, kHasAmx>(args);
    case PackedType::kQ3Halves:
      return MultiplyBy<PackedType::kQ3Halves, kHasAmx>(args);
    case PackedType::kQ4Table:
      return MultiplyBy<PackedType::kQ4Table, kHasAmx>(args);
    case PackedType::kQ4TableSuper:
      return MultiplyBy<PackedType::kQ4TableSuper, kHasAmx>(args);
    case PackedType::kFp4:
      return MultiplyBy<PackedType::kFp4, kHasAmx>(args);
    case PackedType::kQ8Planes:
      return MultiplyByPlanes<kHasAmx>(args);
  }
}

void PackedMatMul(const PackedMatMulArgs& args) { MultiplyByType<false>(args); }
void PackedMatMulWithAmx(const PackedMatMulArgs& args) { MultiplyByType<true>(args); }

#endif  // other targets
}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lectern {

HWY_EXPORT(QuantiseRows);
HWY_EXPORT(PackedMatMul);
HWY_EXPORT(PackedMatMulWithAmx);

void QuantiseRowsSimd(const QuantiseRowsArgs& args) {
  assert(args.input.num_cols % kPackedGroup == 0);
  assert(args.steps.size() >= args.input.num_rows * args.input.num_cols);
  assert(args.scales.size() >= args.input.num_rows * (args.input.num_cols / kPackedGroup));
  assert(args.sums.size() >= args.input.num_rows * (args.input.num_cols / kPackedGroup));
  assert(args.half_sums.size() >= args.input.num_rows * (args.input.num_cols / kPackedGroup));
  HWY_DYNAMIC_DISPATCH(QuantiseRows)(args);
}

namespace {

void CheckShapes(const PackedMatMulArgs& args) {
  assert(args.input.num_cols == args.weight.num_cols);
  assert(args.input.num_rows == args.output.num_rows);
  assert(args.output.num_cols == args.weight.num_rows);
  assert(args.column_begin <= args.column_end && args.column_end <= args.weight.num_rows);
  assert(args.column_begin % kPackedColumns == 0);
  static_cast<void>(args);  // without assertions
}

}  // namespace

void PackedMatMulSimd(const PackedMatMulArgs& args) {
  CheckShapes(args);
  HWY_DYNAMIC_DISPATCH(PackedMatMul)(args);
}

void PackedMatMulAmx(const PackedMatMulArgs& args) {
  CheckShapes(args);
  HWY_DYNAMIC_DISPATCH(PackedMatMulWithAmx)(args);
}

}  // namespace lectern
#endif  // HWY_ONCE
