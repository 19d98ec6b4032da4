// Weights that were quantised when their model was loaded, packed for matrix products.
//
// Groups of 32 inputs (k) of one row share an f16 scale; a value is scale * step, exact in float.
//   q8: steps of 8 bits, -127 .. 127; the scale is the group's largest magnitude over 127
//   q4: steps of 4 bits, -8 .. 7; the scale is searched for the least squared error
//
// 16 rows (output columns of the product) are a panel; what a step of the product over k needs of
// them lies together:
//
//   panel | group 0 | group 1 | …             of k
//   group | 16 f16 scales | k 0 … 3 | k 4 … 7 | … | k 28 … 31
//   four  | q8: four int8 of column 0, of column 1, …
//         | q4: four bytes of columns 0 and 8, of columns 1 and 9, …; step + 8, the lower column's
//         |     in the low bits
//
// Four k of a column together are what instructions for int8 add up in a lane of int32: vpdpbusd,
// SDOT, vpmaddubsw with vpmaddwd. The last panel is filled up with columns of scale 0.
#ifndef LECTERN_KERNELS_PACKED_ROWS_H_
#define LECTERN_KERNELS_PACKED_ROWS_H_

#include "kernels/types.h"

namespace lectern {

// On disk (engine/packed_weights.h): never renumber.
enum class PackedType : uint8_t { kQ8 = 1, kQ4 = 2 };

inline constexpr size_t kPackedColumns = 16;  // rows of a panel
inline constexpr size_t kPackedGroup = 32;    // k that share a scale
inline constexpr size_t kPackedScaleBytes = kPackedColumns * sizeof(f16);
inline constexpr int8_t kNibbleZero = 8;  // what a step of 0 is stored as in q4

// Of four k of a panel.
constexpr size_t PackedFourBytes(PackedType type) {
  return (type == PackedType::kQ8 ? 4 : 2) * kPackedColumns;
}
constexpr size_t PackedGroupBytes(PackedType type) {
  return kPackedScaleBytes + kPackedGroup / 4 * PackedFourBytes(type);
}

// Borrowed. No alignment is promised; panels that begin at multiples of 64 are read fastest.
struct PackedRows {
  const std::byte* data = nullptr;
  PackedType type = PackedType::kQ8;
  size_t num_rows = 0;
  size_t num_cols = 0;  // a multiple of kPackedGroup

  size_t panel_bytes() const { return num_cols / kPackedGroup * PackedGroupBytes(type); }
  size_t num_panels() const { return (num_rows + kPackedColumns - 1) / kPackedColumns; }
  size_t bytes() const { return num_panels() * panel_bytes(); }
  // Rows [begin, end); `begin` is the first of a panel, `end` the first of one or num_rows.
  PackedRows Slice(size_t begin, size_t end) const {
    assert(begin % kPackedColumns == 0 && begin <= end && end <= num_rows);
    assert(end % kPackedColumns == 0 || end == num_rows);
    return {data + begin / kPackedColumns * panel_bytes(), type, end - begin, num_cols};
  }
  // The group of the panel that holds row `row`, and of it column `col`.
  const std::byte* group(size_t row, size_t col) const {
    return data + row / kPackedColumns * panel_bytes() +
           col / kPackedGroup * PackedGroupBytes(type);
  }
};

// A matrix of weights, [num_rows, num_cols]: rows as they are stored, or packed.
struct WeightMatrix {
  WeightMatrix() = default;
  WeightMatrix(const TypedRows& r) : rows(r) {}     // NOLINT: rows are a matrix
  WeightMatrix(const PackedRows& p) : packed(p) {}  // NOLINT
  bool is_packed() const { return packed.data != nullptr; }
  size_t num_rows() const { return is_packed() ? packed.num_rows : rows.num_rows; }
  size_t num_cols() const { return is_packed() ? packed.num_cols : rows.num_cols; }
  WeightMatrix Slice(size_t begin, size_t end) const {
    if (is_packed()) return packed.Slice(begin, end);
    return rows.Slice(begin, end);
  }

  TypedRows rows;  // one of the two
  PackedRows packed;
};

// Quantises 1 .. 16 rows into the one panel at `out`. num_cols must be a multiple of kPackedGroup.
// False, with `out` undefined: a value is not finite or too large for an f16 scale.
bool PackPanel(Rows<const float> rows, PackedType type, std::byte* out);

// Of row `row` at column `col`, for scalar code: step, scale, and the value, their product.
int PackedStep(const PackedRows& rows, size_t row, size_t col);
float PackedScale(const PackedRows& rows, size_t row, size_t col);
float PackedElement(const PackedRows& rows, size_t row, size_t col);

}  // namespace lectern

#endif  // LECTERN_KERNELS_PACKED_ROWS_H_
