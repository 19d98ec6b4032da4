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
//   group | 16 f16 scales | k 0 | k 1 | … | k 31
//   k     | q8: 16 int8   q4: 8 bytes, byte j: low bits column j, high bits column j + 8 (two's
//           complement, as int8)
//
// The last panel is filled up with rows of zeros.
//
// Activations stay float. In int8 they would be summed in integers, which pays on CPUs with VNNI or
// its like alone, and each rounding of an activation would be one more thing that is not the model.
#ifndef LECTERN_KERNELS_PACKED_ROWS_H_
#define LECTERN_KERNELS_PACKED_ROWS_H_

#include "kernels/types.h"

namespace lectern {

// On disk (engine/packed_weights.h): never renumber.
enum class PackedType : uint8_t { kQ8 = 1, kQ4 = 2 };

inline constexpr size_t kPackedColumns = 16;  // rows of a panel
inline constexpr size_t kPackedGroup = 32;    // k that share a scale
inline constexpr size_t kPackedScaleBytes = kPackedColumns * sizeof(f16);

// Of one k of a panel.
constexpr size_t PackedStepBytes(PackedType type) {
  return type == PackedType::kQ8 ? kPackedColumns : kPackedColumns / 2;
}
constexpr size_t PackedGroupBytes(PackedType type) {
  return kPackedScaleBytes + kPackedGroup * PackedStepBytes(type);
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

  TypedRows rows;  // one of the two
  PackedRows packed;
};

// Quantises 1 .. 16 rows into the one panel at `out`. num_cols must be a multiple of kPackedGroup.
// False, with `out` undefined: a value is not finite or too large for an f16 scale.
bool PackPanel(Rows<const float> rows, PackedType type, std::byte* out);

// The value of row `row` at column `col`, for scalar code.
float PackedElement(const PackedRows& rows, size_t row, size_t col);

}  // namespace lectern

#endif  // LECTERN_KERNELS_PACKED_ROWS_H_
