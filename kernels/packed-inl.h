// Packed weights (packed_rows.h) to float vectors.
//
// Per-target header of Highway, as tile-inl.h.
#include "kernels/packed_rows.h"
#include "kernels/tile-inl.h"

#if defined(LECTERN_KERNELS_PACKED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LECTERN_KERNELS_PACKED_INL_H_
#undef LECTERN_KERNELS_PACKED_INL_H_
#else
#define LECTERN_KERNELS_PACKED_INL_H_
#endif

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {

constexpr size_t kPanelVectors = kPackedColumns / kLanes;
using Int32Tag = hn::Rebind<int32_t, FloatTag>;

// Steps of q4 are left where their four bits end up without further work, at the top of the int32:
// 2^28 times too large, which the scale makes up for. Powers of two: exact.
template <PackedType kType>
constexpr float kStepUnit = kType == PackedType::kQ8 ? 1.0f : 0x1p-28f;

// Of columns [column, column + kLanes) of a panel; column % kLanes == 0.
template <PackedType kType>
HWY_INLINE FloatVector LoadScales(const std::byte* group, size_t column) {
  const hn::Rebind<uint16_t, FloatTag> du16;
  const FloatVector scales = F16ToFloat(LoadBytes(du16, group + column * sizeof(f16)));
  return hn::Mul(scales, hn::Set(FloatTag(), kStepUnit<kType>));
}

// As above; `steps` are those of one k.
template <PackedType kType>
HWY_INLINE FloatVector LoadSteps(const std::byte* steps, size_t column) {
  const Int32Tag d;
  const hn::Rebind<int8_t, FloatTag> di8;
  if constexpr (kType == PackedType::kQ8) {
    return hn::ConvertTo(FloatTag(), hn::PromoteTo(d, LoadBytes(di8, steps + column)));
  } else {
    const auto high_nibble = hn::Set(d, -(1 << 28));
#if HWY_TARGET <= HWY_AVX3  // both halves of the panel in one vector
    static_assert(kLanes == 16);
    const hn::Repartition<uint64_t, decltype(di8)> du64;
    const auto pairs =
        hn::PromoteTo(d, hn::BitCast(di8, hn::Set(du64, LoadUnaligned<uint64_t>(steps))));
    const auto shifts = hn::IfThenElse(hn::FirstN(d, 8), hn::Set(d, 28), hn::Set(d, 24));
    return hn::ConvertTo(FloatTag(), hn::And(hn::Shl(pairs, shifts), high_nibble));
#else
    const auto pairs = hn::PromoteTo(d, LoadBytes(di8, steps + column % 8));
    const auto nibbles =
        column < 8 ? hn::ShiftLeft<28>(pairs) : hn::And(hn::ShiftLeft<24>(pairs), high_nibble);
    return hn::ConvertTo(FloatTag(), nibbles);
#endif
  }
}

// Columns [column, column + num_columns) of k_begin .. k_end as PackPanels gives them, and beyond
// the last panel, where columns are computed and dropped, that panel again. Multiples:
// column of kPackedColumns, k of kPackedGroup.
template <PackedType kType>
void UnpackPanelsOf(const PackedRows& rows, size_t column, size_t num_columns, size_t k_begin,
                    size_t k_end, float* packed) {
  const size_t last = (rows.num_panels() - 1) * kPackedColumns;
  for (size_t c = 0; c < num_columns; c += kPackedColumns) {
    for (size_t k = k_begin; k < k_end; k += kPackedGroup) {
      const std::byte* group = rows.group(std::min(column + c, last), k);
      for (size_t v = 0; v < kPanelVectors; ++v) {
        const size_t at = c + v * kLanes;
        float* to = packed + at / kPanel * (k_end - k_begin) * kPanel + at % kPanel +
                    (k - k_begin) * kPanel;
        const FloatVector scales = LoadScales<kType>(group, v * kLanes);
        const std::byte* steps = group + kPackedScaleBytes;
        for (size_t i = 0; i < kPackedGroup; ++i, steps += PackedStepBytes(kType)) {
          hn::StoreU(hn::Mul(scales, LoadSteps<kType>(steps, v * kLanes)), FloatTag(),
                     to + i * kPanel);
        }
      }
    }
  }
}

// num_columns is rounded up to whole panels of the tile.
inline void UnpackPanels(const PackedRows& rows, size_t column, size_t num_columns, size_t k_begin,
                         size_t k_end, float* packed) {
  num_columns = (num_columns + kPanel - 1) / kPanel * kPanel;
  switch (rows.type) {
    case PackedType::kQ8:
      return UnpackPanelsOf<PackedType::kQ8>(rows, column, num_columns, k_begin, k_end, packed);
    case PackedType::kQ4:
      return UnpackPanelsOf<PackedType::kQ4>(rows, column, num_columns, k_begin, k_end, packed);
  }
}

// One row of input times kPanels panels from `panel` on: c[16 * kPanels] (+)= a[depth] * panels^T.
// Weights are met once, so they go straight to registers. The chains of multiply-adds are those of
// the tile.
template <PackedType kType, size_t kPanels>
HWY_INLINE void MultiplyPanels(const float* a, const PackedRows& rows, size_t panel, float* c,
                               bool accumulate) {
  const FloatTag d;
  constexpr size_t kVectors = kPanels * kPanelVectors;
  FloatVector sum[kVectors];
  LECTERN_UNROLL_TILE
  for (size_t v = 0; v < kVectors; ++v) {
    sum[v] = accumulate ? hn::LoadU(d, c + v * kLanes) : hn::Zero(d);
  }
  const size_t panel_bytes = rows.panel_bytes(), depth = rows.num_cols;
  const std::byte* group = rows.data + panel * panel_bytes;
  for (size_t k = 0; k < depth; k += kPackedGroup, group += PackedGroupBytes(kType)) {
    FloatVector scales[kVectors];
    LECTERN_UNROLL_TILE
    for (size_t v = 0; v < kVectors; ++v) {
      scales[v] =
          LoadScales<kType>(group + v / kPanelVectors * panel_bytes, v % kPanelVectors * kLanes);
    }
    const std::byte* steps = group + kPackedScaleBytes;
    for (size_t i = 0; i < kPackedGroup; ++i, steps += PackedStepBytes(kType)) {
      const FloatVector broadcast = hn::Set(d, a[k + i]);
      LECTERN_UNROLL_TILE
      for (size_t v = 0; v < kVectors; ++v) {
        const FloatVector b =
            LoadSteps<kType>(steps + v / kPanelVectors * panel_bytes, v % kPanelVectors * kLanes);
        sum[v] = hn::MulAdd(broadcast, hn::Mul(scales[v], b), sum[v]);
      }
    }
  }
  LECTERN_UNROLL_TILE
  for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, c + v * kLanes);
}

// Columns [begin, end) of one row; begin is a multiple of kPackedColumns.
template <PackedType kType>
HWY_NOINLINE void MultiplyRowOf(const float* a, const PackedRows& rows, size_t begin, size_t end,
                                float* c, bool accumulate) {
  constexpr size_t kPanels = std::max<size_t>(kLanes / 4, 1);  // four vectors hide the latency
  size_t column = begin;
  for (; column + kPanels * kPackedColumns <= end; column += kPanels * kPackedColumns) {
    MultiplyPanels<kType, kPanels>(a, rows, column / kPackedColumns, c + column, accumulate);
  }
  for (; column < end; column += kPackedColumns) {
    float panel[kPackedColumns] = {};
    const size_t bytes = std::min(end - column, kPackedColumns) * sizeof(float);
    if (accumulate) std::memcpy(panel, c + column, bytes);
    MultiplyPanels<kType, 1>(a, rows, column / kPackedColumns, panel, accumulate);
    std::memcpy(c + column, panel, bytes);
  }
}

inline void MultiplyRow(const float* a, const PackedRows& rows, size_t begin, size_t end, float* c,
                        bool accumulate) {
  rows.type == PackedType::kQ8 ? MultiplyRowOf<PackedType::kQ8>(a, rows, begin, end, c, accumulate)
                               : MultiplyRowOf<PackedType::kQ4>(a, rows, begin, end, c, accumulate);
}

}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET != HWY_SCALAR

#endif  // LECTERN_KERNELS_PACKED_INL_H_
