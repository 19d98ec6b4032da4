// Products of many rows with packed weights, on machines with AMX: one instruction multiplies 16
// rows of the input with the 16 columns of a panel over a group of k, and adds the products to 256
// sums of int32.
//
// Steps are widened to bytes as packed_vnni-inl.h does for all rows, but keep their sign. Sums end
// as the same whole numbers as there, and are scaled and added in the same order: the same bits.
//
// Per-target header of Highway: included once for each instruction set, from *_simd.cc only; it
// defines nothing on targets other than AVX3_DL. The caller sees to it that HasAmx()
// (kernels/amx.h).
#include "kernels/packed_matmul.h"

#if defined(LECTERN_KERNELS_PACKED_AMX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LECTERN_KERNELS_PACKED_AMX_INL_H_
#undef LECTERN_KERNELS_PACKED_AMX_INL_H_
#else
#define LECTERN_KERNELS_PACKED_AMX_INL_H_
#endif

#include <algorithm>
#include <type_traits>
#include <utility>

#include "kernels/packed_vnni-inl.h"

#if HWY_TARGET == HWY_AVX3_DL
HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {

constexpr size_t kAmxRows = 16;  // of a tile
constexpr size_t kAmxBlockRows = 192;
static_assert(kAmxBlockRows % kAmxRows == 0);
// From so many rows on these products are the faster ones for every type (tests/bench/RESULTS.md,
// "With AMX"). It changes the speed alone.
constexpr size_t kLeastAmxRows = 9;

// ---- The processor's tiles: 0 to 3 are sums, 4 and 5 weights, 6 and 7 input

constexpr size_t kAmxSums = 4, kAmxWeights = 4, kAmxInput = 6;

// The configuration of the tiles, in the processor's format.
struct AmxShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(AmxShapes) == 64);

// Configures this thread's tiles for products of `rows` rows, at most kAmxRows, over `depth` k.
HWY_INLINE void ConfigureAmx(size_t rows, size_t depth) {
  AmxShapes shapes;
  for (size_t tile = 0; tile < 8; ++tile) {
    const bool is_weights = tile >= kAmxWeights && tile < kAmxInput;
    shapes.rows[tile] = static_cast<uint8_t>(is_weights ? depth / 4 : rows);
    shapes.row_bytes[tile] = static_cast<uint16_t>(tile < kAmxInput ? 4 * kPackedColumns : depth);
  }
  asm volatile("ldtilecfg %0" ::"m"(shapes));
}
HWY_INLINE void ReleaseAmx() { asm volatile("tilerelease" ::); }

// `stride`: bytes from one row to the next.
template <size_t kTile>
HWY_INLINE void LoadTile(const int8_t* from, size_t stride) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(kTile), "r"(from), "r"(stride) : "memory");
}
template <size_t kTile>
HWY_INLINE void StoreTile(int32_t* to) {
  constexpr size_t kStride = 4 * kPackedColumns;
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(kTile), "r"(to), "r"(kStride) : "memory");
}
// Sums = the products of both tiles of int8.
template <size_t kSumsTile, size_t kInputTile, size_t kWeightsTile>
HWY_INLINE void MultiplyTiles() {
  asm volatile("tilezero %%tmm%c0\n\ttdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSumsTile),
               "i"(kInputTile), "i"(kWeightsTile));
}

// ---- The product

// A tile's rows of the input in one block of k.
struct AmxInput {
  const int8_t* steps;  // of a row, `depth` bytes from those of the next one
  size_t depth, num_rows;
  float scales[kByteDepth / kPackedGroup][kAmxRows];
  float sums[kByteDepth / kPackedGroup][kAmxRows];
  HalfSums half_sums[kByteDepth / kPackedGroup][kAmxRows];
};

// Where the steps of a block of k of some panels are: those of group g of panel p are bytes in the
// order of a tile of weights from panels[p] + g * group_bytes on. Steps of 8 bits lie so as they
// are packed.
struct AmxSteps {
  const int8_t* panels[kByteColumns / kPackedColumns];
  size_t group_bytes;
};
constexpr bool HasAmxOrder(PackedType type) { return PackedBits(type) == 8; }

// The sums of a group's products: of each panel and part, 16 rows by 16 columns.
using AmxProducts = int32_t[kAmxSums][kAmxRows][kPackedColumns];

// Calls step(std::integral_constant<size_t, 0>()), … 1, and so on, kCount times.
template <size_t kCount, typename Step>
HWY_INLINE void ForEachTile(Step step) {
  [&]<size_t... kTiles>(std::index_sequence<kTiles...>) HWY_ATTR {
    (step(std::integral_constant<size_t, kTiles>()), ...);
  }
  (std::make_index_sequence<kCount>());
}

// Begins the products of group g with kPanels panels from `panel` on.
template <PackedType kType, size_t kPanels>
HWY_INLINE void BeginProducts(const AmxInput& x, const AmxSteps& weights, size_t panel, size_t g) {
  constexpr size_t kParts = PackedScales(kType), kOfPart = kPackedGroup / kParts;
  const int8_t* const x_steps = x.steps + g * kPackedGroup;
  ForEachTile<kParts>(
      [&](auto part) HWY_ATTR { LoadTile<kAmxInput + part>(x_steps + part * kOfPart, x.depth); });
  ForEachTile<kPanels * kParts>([&](auto tile) HWY_ATTR {
    constexpr size_t kPart = tile % kParts;
    const int8_t* const steps = weights.panels[panel + tile / kParts] + g * weights.group_bytes;
    LoadTile<kAmxWeights + tile % 2>(steps + kPart * kOfPart * kPackedColumns, 4 * kPackedColumns);
    MultiplyTiles<tile, kAmxInput + kPart, kAmxWeights + tile % 2>();
  });
}

// Adds the products of group g with one panel, scaled, to `output`. kIsFull: there are kAmxRows
// rows.
template <PackedType kType, bool kIsFull>
HWY_INLINE void AddScaled(const AmxInput& x, const ByteWeights<kType>& weights, size_t panel,
                          size_t g, const int32_t (*products)[kAmxRows][kPackedColumns],
                          float (*output)[kByteColumns]) {
  const FloatTag d;
  const Int32Tag di;
  constexpr size_t kParts = PackedScales(kType);
  const size_t num_rows = kIsFull ? kAmxRows : x.num_rows;
  if constexpr (!HasWholeScales(kType)) {
    FloatVector scales[kParts];
    LECTERN_UNROLL_TILE
    for (size_t part = 0; part < kParts; ++part) {
      scales[part] = hn::Load(d, weights.scales[panel][g * kParts + part]);
    }
    FloatVector mins = hn::Zero(d);
    if constexpr (PackedHasMin(kType)) mins = hn::Load(d, weights.mins[panel][g]);
    for (size_t r = 0; r < num_rows; ++r) {
      const FloatVector scale = hn::Set(d, x.scales[g][r]);
      FloatVector sum = hn::Load(d, output[r]);
      LECTERN_UNROLL_TILE
      for (size_t part = 0; part < kParts; ++part) {
        const FloatVector total = hn::ConvertTo(d, hn::Load(di, products[part][r]));
        sum = hn::MulAdd(hn::Mul(scale, scales[part]), total, sum);
      }
      if constexpr (PackedHasMin(kType)) sum = hn::MulAdd(hn::Set(d, x.sums[g][r]), mins, sum);
      hn::Store(sum, d, output[r]);
    }
  } else {
    const Int32Vector half_scales = hn::Load(di, weights.half_scales[panel][g]);
    const FloatVector scales = hn::Load(d, weights.d[panel][g]);
    for (size_t r = 0; r < num_rows; ++r) {
      const FloatVector scale = hn::Set(d, x.scales[g][r]);
      const Int32Vector halves = PairUp(hn::Load(di, products[0][r]), hn::Load(di, products[1][r]));
      const FloatVector total = hn::ConvertTo(d, MultiplyPairs(half_scales, halves));
      FloatVector sum = hn::MulAdd(hn::Mul(scale, scales), total, hn::Load(d, output[r]));
      if constexpr (PackedHasMin(kType)) {
        const Int32Vector mins =
            MultiplyPairs(hn::Load(di, weights.half_mins[panel][g]), BothSums(x.half_sums[g][r]));
        const FloatVector minus_dmin = hn::Load(d, weights.minus_dmin[panel][g]);
        sum = hn::MulAdd(hn::Mul(scale, minus_dmin), hn::ConvertTo(d, mins), sum);
      }
      hn::Store(sum, d, output[r]);
    }
  }
}

// Adds the products of a tile's rows with kPanels panels from `panel` on, over num_groups groups of
// this block, to `output`. The products of the next group are made while those of a group are
// scaled.
template <PackedType kType, size_t kPanels, bool kIsFull>
HWY_NOINLINE void MultiplyAmxTile(const AmxInput& x, const AmxSteps& steps,
                                  const ByteWeights<kType>& weights, size_t panel,
                                  size_t num_groups, float (*output)[kByteColumns]) {
  constexpr size_t kParts = PackedScales(kType);
  HWY_ALIGN AmxProducts products;
  const auto finish = [&]() HWY_ATTR {
    ForEachTile<kPanels * kParts>([&](auto tile) HWY_ATTR { StoreTile<tile>(products[tile][0]); });
  };
  BeginProducts<kType, kPanels>(x, steps, panel, 0);
  for (size_t g = 0; g < num_groups; ++g) {
    finish();
    if (g + 1 < num_groups) BeginProducts<kType, kPanels>(x, steps, panel, g + 1);
    LECTERN_UNROLL_TILE
    for (size_t p = 0; p < kPanels; ++p) {
      auto* const to = reinterpret_cast<float(*)[kByteColumns]>(output[0] + p * kPackedColumns);
      AddScaled<kType, kIsFull>(x, weights, panel + p, g, products + p * kParts, to);
    }
  }
}

// A tile's rows of the input from `row` on, in the block of k that begins at `k`.
template <PackedType kType>
HWY_INLINE void LoadAmxInput(const Int8Rows& input, size_t row, size_t k, size_t num_groups,
                             AmxInput& x) {
  const size_t of_row = input.num_cols / kPackedGroup;
  x.steps = input.steps + row * input.num_cols + k;
  x.depth = input.num_cols;
  for (size_t r = 0; r < x.num_rows; ++r) {
    const size_t first = (row + r) * of_row + k / kPackedGroup;
    for (size_t g = 0; g < num_groups; ++g) {
      x.scales[g][r] = input.scales[first + g];
      if constexpr (!PackedHasMin(kType)) continue;
      if constexpr (HasWholeScales(kType)) {
        x.half_sums[g][r] = input.half_sums[first + g];
      } else {
        x.sums[g][r] = input.sums[first + g];
      }
    }
  }
}

// Loads the scales and mins of num_groups groups of a panel, and widens their steps where they are
// not in order as they are packed. Returns the first group's steps.
template <PackedType kType>
HWY_INLINE const int8_t* WidenForAmx(const PackedRows& rows, size_t column, size_t k,
                                     size_t num_groups, size_t panel, ByteWeights<kType>& weights) {
  if constexpr (kType == PackedType::kQ8Planes) {
    const Int8Tag d;
    const std::byte* group = rows.group(column, k);
    const std::byte* low = rows.low_group(column, k);
    int8_t* to = weights.steps[panel];
    for (size_t g = 0; g < num_groups; ++g, group += PackedGroupBytes(kType)) {
      hn::Store(LoadF16s(group, 0, 0), FloatTag(), weights.scales[panel][g]);
      const std::byte* high = group + PackedScaleBytes(kType);
      constexpr size_t kEights = kPackedGroup / kPlaneEight, kEightBytes = kPlaneBytes / kEights;
      for (size_t i = 0; i < kEights; ++i, high += kEightBytes, low += kEightBytes) {
        const RaisedEight eight = LoadRaisedEight(high, low);
        for (const Int8Vector& raised : {eight.first, eight.second}) {
          hn::Store(hn::Xor(raised, hn::Set(d, -128)), d, to);
          to += 4 * kPackedColumns;
        }
      }
    }
    return weights.steps[panel];
  } else {
    constexpr Widening kHow = HasAmxOrder(kType) ? Widening::kScales : Widening::kSigned;
    WidenToBytes<kType, kHow>(rows.head(column, k), num_groups, panel, weights);
    if constexpr (!HasAmxOrder(kType)) return weights.steps[panel];
    return reinterpret_cast<const int8_t*>(rows.group(column, k) + PackedScaleBytes(kType));
  }
}

// Copies `count` floats, mostly kByteColumns: a call of memcpy for so few took 5 % of a prefill.
HWY_INLINE void CopyColumns(const float* from, size_t count, float* to) {
  const FloatTag d;
  if (count != kByteColumns) {
    std::copy_n(from, count, to);
    return;
  }
  LECTERN_UNROLL_TILE
  for (size_t i = 0; i < kByteColumns; i += kLanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
}

// Rows [row_begin, row_begin + num_rows), at most kAmxBlockRows, times columns [begin, end), at
// most kByteColumns. The output is summed in a local array, block of k after block of k.
template <PackedType kType>
void MultiplyAmxBlock(const PackedMatMulArgs& args, size_t row_begin, size_t num_rows, size_t begin,
                      size_t end) {
  constexpr size_t kParts = PackedScales(kType), kPanels = kAmxSums / kParts;
  const size_t depth = args.input.num_cols;
  const size_t num_panels = (end - begin + kPackedColumns - 1) / kPackedColumns;
  ByteWeights<kType> weights;
  AmxSteps steps = {{},
                    HasAmxOrder(kType) ? PackedGroupBytes(kType) : kPackedGroup * kPackedColumns};
  AmxInput x;
  HWY_ALIGN float output[kAmxBlockRows][kByteColumns];
  for (size_t r = 0; r < num_rows; ++r) {
    if (args.accumulate) {
      CopyColumns(args.output[row_begin + r] + begin, end - begin, output[r]);
    } else {
      std::fill_n(output[r], kByteColumns, 0.0f);
    }
  }
  size_t configured = 0;
  for (size_t k = 0; k < depth; k += kByteDepth) {
    const size_t groups = std::min(kByteDepth, depth - k) / kPackedGroup;
    for (size_t p = 0; p < num_panels; ++p) {
      const size_t column = begin + p * kPackedColumns;
      steps.panels[p] = WidenForAmx<kType>(args.weight, column, k, groups, p, weights);
    }
    for (size_t row = 0; row < num_rows; row += kAmxRows) {
      x.num_rows = std::min(kAmxRows, num_rows - row);
      if (configured != x.num_rows) ConfigureAmx(x.num_rows, kPackedGroup / kParts);
      configured = x.num_rows;
      LoadAmxInput<kType>(args.input, row_begin + row, k, groups, x);
      for (size_t p = 0; p < num_panels; p += kPanels) {
        auto* const to = reinterpret_cast<float(*)[kByteColumns]>(output[row] + p * kPackedColumns);
        if (p + kPanels > num_panels) {
          for (size_t last = p; last < num_panels; ++last) {
            auto* const to =
                reinterpret_cast<float(*)[kByteColumns]>(output[row] + last * kPackedColumns);
            MultiplyAmxTile<kType, 1, false>(x, steps, weights, last, groups, to);
          }
        } else if (x.num_rows == kAmxRows) {
          MultiplyAmxTile<kType, kPanels, true>(x, steps, weights, p, groups, to);
        } else {
          MultiplyAmxTile<kType, kPanels, false>(x, steps, weights, p, groups, to);
        }
      }
    }
  }
  for (size_t r = 0; r < num_rows; ++r) {
    CopyColumns(output[r], end - begin, args.output[row_begin + r] + begin);
  }
}

template <PackedType kType>
void MultiplyAmx(const PackedMatMulArgs& args) {
  const size_t num_rows = args.input.num_rows;
  for (size_t begin = args.column_begin; begin < args.column_end; begin += kByteColumns) {
    const size_t end = std::min(begin + kByteColumns, args.column_end);
    for (size_t row = 0; row < num_rows; row += kAmxBlockRows) {
      MultiplyAmxBlock<kType>(args, row, std::min(kAmxBlockRows, num_rows - row), begin, end);
    }
  }
  ReleaseAmx();
}

}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();
#endif
#endif  // include guard
