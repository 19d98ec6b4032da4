// Both products go through the planes as they are packed. The bounds take a nibble for a step, so
// they need neither a sign nor the low plane; the exact product puts both nibbles together and goes
// on as kernels/packed_matmul_simd.cc does.
#include "kernels/packed_planes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/packed_planes_simd.cc"
#include "hwy/foreach_target.h"

#include <algorithm>
#include <limits>

#include "kernels/packed_dots-inl.h"
#include "kernels/packed_steps-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
#if !LECTERN_HAS_PACKED_DOTS
void PlaneBounds(const PlaneBoundsArgs& args) { PlaneBoundsScalar(args); }
void PlanesMatMul(const PackedMatMulArgs& args) { PackedMatMulScalar(args); }
#else

using UInt8Tag = hn::RebindToUnsigned<Int8Tag>;
using UInt16Tag = hn::Repartition<uint16_t, FloatTag>;
using UInt8Vector = hn::Vec<UInt8Tag>;

constexpr size_t kEights = kPackedGroup / kPlaneEight;  // of a plane's group
constexpr size_t kEightBytes = kPlaneBytes / kEights;
// Known eights are asked for so many panels ahead. By hand; it changes the speed alone.
constexpr size_t kPanelsAhead = 4;

// Nibbles of the low bits, k 0 … 3 of an eight, and of the high bits, k 4 … 7.
HWY_INLINE UInt8Vector LowBits(UInt8Vector both) { return hn::And(both, hn::Set(UInt8Tag(), 15)); }
HWY_INLINE UInt8Vector HighBits(UInt8Vector both) {
  const UInt16Tag d16;
  return LowBits(hn::BitCast(UInt8Tag(), hn::ShiftRight<4>(hn::BitCast(d16, both))));
}

// Four steps of an input row, in every lane.
HWY_INLINE Int8Vector FourSteps(const int8_t* steps) {
  return hn::BitCast(
      Int8Tag(),
      hn::Set(Int32Tag(), LoadUnaligned<int32_t>(reinterpret_cast<const std::byte*>(steps))));
}

// Adds the products of an eight of a plane with the steps of kRows rows, which lie `stride` apart.
template <size_t kRows>
HWY_INLINE void AddEight(const std::byte* eight, const int8_t* steps, size_t stride,
                         NibbleSum (&sums)[kRows][kPanelVectors]) {
  UnsignedWeights first[kPanelVectors], second[kPanelVectors];
  LECTERN_UNROLL_TILE
  for (size_t v = 0; v < kPanelVectors; ++v) {
    const auto both = LoadBytes(UInt8Tag(), eight + 4 * v * kLanes);
    first[v] = {hn::BitCast(Int8Tag(), LowBits(both))};
    second[v] = {hn::BitCast(Int8Tag(), HighBits(both))};
  }
  LECTERN_UNROLL_TILE
  for (size_t r = 0; r < kRows; ++r) {
    const Int8Vector x = FourSteps(steps + r * stride), y = FourSteps(steps + r * stride + 4);
    LECTERN_UNROLL_TILE
    for (size_t v = 0; v < kPanelVectors; ++v) {
      sums[r][v] = AddDots(AddDots(sums[r][v], first[v], x), second[v], y);
    }
  }
}

// ---- Bounds

// Bounds of rows [row, row + kRows) in one panel.
template <size_t kRows>
HWY_NOINLINE void BoundTile(const PlaneBoundsArgs& args, size_t row, size_t panel) {
  const FloatTag d;
  const Int8Rows& input = args.input.rows;
  const PackedRows& weight = args.weight;
  const size_t depth = input.num_cols, num_groups = depth / kPackedGroup;
  const int8_t* const x = input.steps + row * depth;
  const float* const x_scales = input.scales + row * num_groups;
  const float* const middles = args.input.middles.data() + row * num_groups;
  const float* const reaches = args.input.reaches.data() + row * num_groups;
  const float* const roundings = args.input.roundings.data() + row * num_groups;
  const std::byte* const open = weight.data + panel * weight.panel_bytes();
  const std::byte* const low = weight.low + panel * weight.low_panel_bytes();
  const std::byte* const groups = open + weight.plane_head_bytes();
  constexpr size_t kGroupBytes = PackedGroupBytes(PackedType::kQ8Planes);
  // The known lines of panels are too far apart for the hardware to ask for them.
  for (const uint32_t eight : args.input.known) {
    __builtin_prefetch(low + kPanelsAhead * weight.low_panel_bytes() + eight * kEightBytes);
  }
  FloatVector guesses[kRows][kPanelVectors], errors[kRows][kPanelVectors];
  LECTERN_UNROLL_TILE
  for (size_t r = 0; r < kRows; ++r) {
    LECTERN_UNROLL_TILE
    for (size_t v = 0; v < kPanelVectors; ++v) guesses[r][v] = errors[r][v] = hn::Zero(d);
  }
  const std::byte* group = groups;
  for (size_t g = 0; g < num_groups; ++g, group += kGroupBytes) {
    const std::byte* eight = group + PackedScaleBytes(PackedType::kQ8Planes);
    NibbleSum sums[kRows][kPanelVectors];
    LECTERN_UNROLL_TILE
    for (size_t r = 0; r < kRows; ++r) {
      LECTERN_UNROLL_TILE
      for (size_t v = 0; v < kPanelVectors; ++v) sums[r][v] = hn::Zero(NibbleTag());
    }
    HWY_UNROLL(1)
    for (size_t k = 0; k < kPackedGroup; k += kPlaneEight, eight += kEightBytes) {
      AddEight<kRows>(eight, x + g * kPackedGroup + k, depth, sums);
    }
    const auto units = static_cast<float>(std::to_integer<int>(open[g]));
    LECTERN_UNROLL_TILE
    for (size_t v = 0; v < kPanelVectors; ++v) {
      const FloatVector scales = LoadF16s(group, 0, v * kLanes);
      const FloatVector sizes = hn::Abs(scales);
      LECTERN_UNROLL_TILE
      for (size_t r = 0; r < kRows; ++r) {
        const size_t at = r * num_groups + g;
        const FloatVector scale = hn::Set(d, 16 * x_scales[at]);
        const FloatVector both =
            hn::MulAdd(scale, hn::ConvertTo(d, Total(sums[r][v])), hn::Set(d, middles[at]));
        guesses[r][v] = hn::MulAdd(scales, both, guesses[r][v]);
        const FloatVector error = hn::Set(d, units * reaches[at] + roundings[at]);
        errors[r][v] = hn::MulAdd(sizes, error, errors[r][v]);
      }
    }
  }
  for (const uint32_t eight : args.input.known) {
    NibbleSum sums[kRows][kPanelVectors];
    LECTERN_UNROLL_TILE
    for (size_t r = 0; r < kRows; ++r) {
      LECTERN_UNROLL_TILE
      for (size_t v = 0; v < kPanelVectors; ++v) sums[r][v] = hn::Zero(NibbleTag());
    }
    AddEight<kRows>(low + eight * kEightBytes, x + eight * kPlaneEight, depth, sums);
    const size_t g = eight / kEights;
    LECTERN_UNROLL_TILE
    for (size_t v = 0; v < kPanelVectors; ++v) {
      const FloatVector scales = LoadF16s(groups + g * kGroupBytes, 0, v * kLanes);
      LECTERN_UNROLL_TILE
      for (size_t r = 0; r < kRows; ++r) {
        const FloatVector part =
            hn::Mul(hn::Set(d, x_scales[r * num_groups + g]), hn::ConvertTo(d, Total(sums[r][v])));
        guesses[r][v] = hn::MulAdd(scales, part, guesses[r][v]);
      }
    }
  }
  const size_t begin = panel * kPackedColumns;
  const size_t count = std::min(kPackedColumns, weight.num_rows - begin);
  for (size_t r = 0; r < kRows; ++r) {
    HWY_ALIGN float guess[kPackedColumns], bound[kPackedColumns];
    LECTERN_UNROLL_TILE
    for (size_t v = 0; v < kPanelVectors; ++v) {
      hn::Store(guesses[r][v], d, guess + v * kLanes);
      hn::Store(hn::Add(guesses[r][v], errors[r][v]), d, bound + v * kLanes);
    }
    // Columns without a row have guesses of 0, which are not the panel's.
    const float lowest = -std::numeric_limits<float>::infinity();
    std::fill(guess + count, guess + kPackedColumns, lowest);
    std::fill(bound + count, bound + kPackedColumns, lowest);
    FloatVector likely = hn::Load(d, guess), most = hn::Load(d, bound);
    for (size_t v = 1; v < kPanelVectors; ++v) {
      likely = hn::Max(likely, hn::Load(d, guess + v * kLanes));
      most = hn::Max(most, hn::Load(d, bound + v * kLanes));
    }
    args.likely[row + r][panel] = LargestLane(likely);
    args.most[row + r][panel] = LargestLane(most) + 0x1p-100f;
  }
}

template <size_t kRows>
HWY_INLINE void BoundRows(const PlaneBoundsArgs& args, size_t row) {
  for (; row + kRows <= args.input.rows.num_rows; row += kRows) {
    for (size_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
      BoundTile<kRows>(args, row, panel);
    }
  }
  if constexpr (kRows > 1) BoundRows<kRows / 2>(args, row);
}
void PlaneBounds(const PlaneBoundsArgs& args) { BoundRows<kTileRows>(args, 0); }

// ---- The product

// A vector of steps that were put together raised by 128, as AddDots takes them.
HWY_INLINE auto AsWeights(Int8Vector raised) {
  if constexpr (kRaisesSteps) {
    return UnsignedWeights{raised};
  } else {
    return Prepare(hn::Xor(raised, hn::Set(Int8Tag(), -128)));
  }
}

// Multiplies rows [row, row + kRows) with one panel, whose first `count` columns are wanted.
template <size_t kRows>
HWY_NOINLINE void MultiplyPlanes(const PackedMatMulArgs& args, size_t row, size_t column,
                                 size_t count) {
  const FloatTag d;
  HWY_ALIGN float output[kRows][kPackedColumns] = {};
  for (size_t r = 0; args.accumulate && r < kRows; ++r) {
    std::copy_n(args.output[row + r] + column, count, output[r]);
  }
  const size_t depth = args.input.num_cols, num_groups = depth / kPackedGroup;
  const int8_t* const x = args.input.steps + row * depth;
  const float* const x_scales = args.input.scales + row * num_groups;
  const HalfSums* const halves = args.input.half_sums + row * num_groups;
  const std::byte* group = args.weight.group(column, 0);
  const std::byte* low = args.weight.low_group(column, 0);
  constexpr size_t kGroupBytes = PackedGroupBytes(PackedType::kQ8Planes);
  for (size_t g = 0; g < num_groups; ++g, group += kGroupBytes) {
    const std::byte* high = group + PackedScaleBytes(PackedType::kQ8Planes);
    Int32Vector sums[kRows][kPanelVectors];
    LECTERN_UNROLL_TILE
    for (size_t r = 0; r < kRows; ++r) {
      const auto start = StartOfSum<PackedType::kQ8Planes>(halves[r * num_groups + g], 0);
      LECTERN_UNROLL_TILE
      for (size_t v = 0; v < kPanelVectors; ++v) sums[r][v] = start;
    }
    HWY_UNROLL(1)
    for (size_t k = 0; k < kPackedGroup;
         k += kPlaneEight, high += kEightBytes, low += kEightBytes) {
      decltype(AsWeights(Int8Vector())) first[kPanelVectors], second[kPanelVectors];
      LECTERN_UNROLL_TILE
      for (size_t v = 0; v < kPanelVectors; ++v) {
        const RaisedEight eight = LoadRaisedEight(high + 4 * v * kLanes, low + 4 * v * kLanes);
        first[v] = AsWeights(eight.first), second[v] = AsWeights(eight.second);
      }
      LECTERN_UNROLL_TILE
      for (size_t r = 0; r < kRows; ++r) {
        const int8_t* const steps = x + r * depth + g * kPackedGroup + k;
        const Int8Vector one = FourSteps(steps), other = FourSteps(steps + 4);
        LECTERN_UNROLL_TILE
        for (size_t v = 0; v < kPanelVectors; ++v) {
          sums[r][v] = AddDots(AddDots(sums[r][v], first[v], one), second[v], other);
        }
      }
    }
    LECTERN_UNROLL_TILE
    for (size_t v = 0; v < kPanelVectors; ++v) {
      const FloatVector scales = LoadF16s(group, 0, v * kLanes);
      LECTERN_UNROLL_TILE
      for (size_t r = 0; r < kRows; ++r) {
        const FloatVector scale = hn::Mul(hn::Set(d, x_scales[r * num_groups + g]), scales);
        float* const to = output[r] + v * kLanes;
        hn::Store(hn::MulAdd(scale, hn::ConvertTo(d, sums[r][v]), hn::Load(d, to)), d, to);
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    std::copy_n(output[r], count, args.output[row + r] + column);
  }
}

template <size_t kRows>
HWY_INLINE void MultiplyPlanesOf(const PackedMatMulArgs& args, size_t row) {
  for (; row + kRows <= args.input.num_rows; row += kRows) {
    for (size_t column = args.column_begin; column < args.column_end; column += kPackedColumns) {
      MultiplyPlanes<kRows>(args, row, column, std::min(kPackedColumns, args.column_end - column));
    }
  }
  if constexpr (kRows > 1) MultiplyPlanesOf<kRows / 2>(args, row);
}
void PlanesMatMul(const PackedMatMulArgs& args) { MultiplyPlanesOf<kTileRows>(args, 0); }

#endif  // other targets
}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lectern {

HWY_EXPORT(PlaneBounds);
HWY_EXPORT(PlanesMatMul);

void PlaneBoundsSimd(const PlaneBoundsArgs& args) {
  assert(args.input.rows.num_cols == args.weight.num_cols && args.weight.has_planes());
  assert(args.panel_begin <= args.panel_end && args.panel_end <= args.weight.num_panels());
  HWY_DYNAMIC_DISPATCH(PlaneBounds)(args);
}

void PlanesMatMulSimd(const PackedMatMulArgs& args) { HWY_DYNAMIC_DISPATCH(PlanesMatMul)(args); }

}  // namespace lectern
#endif  // HWY_ONCE
