// Weights packed for matrix products in integers: the layout, and the functions that pack rows into
// it. They are quantised when the model is loaded (q8, q4), or come quantised in the model's file
// and are only laid out anew (kernels/quant_blocks.h).
//
// Groups of 32 inputs (k) of one row share a scale and perhaps a min; a value is scale * step +
// min. Steps, scales and mins are exact: only sums are rounded.
//   q8        steps of 8 bits, f16 scale; quantised here, -127 .. 127, the scale is the group's
//             largest magnitude over 127. Also Q8_0 and Q5_0
//   q4        steps of 4 bits, -8 .. 7, f16 scale; quantised here, the scale is searched for the
//             least squared error. Also Q4_0
//   q8 min    steps of 8 bits, f16 scale, f16 min: Q5_1
//   q4 min    steps of 4 bits, 0 .. 15, f16 scale, f16 min: Q4_1
//   q8 super  8 groups share f16 d and f16 dmin; a group's scale is d * its uint8, its min -dmin *
//             another; steps of 8 bits: Q5_K
//   q4 super  the same with steps of 4 bits, 0 .. 15: Q4_K
//   q8 halves 8 groups share f16 d; the 16 k of a half have the scale d * their int8; steps of 8
//             bits: Q6_K
//   q3 halves the same with steps of 3 bits, -4 .. 3: Q3_K
//   q2 halves 8 groups share f16 d and f16 dmin; the 16 k of a half have the scale d * their 4 bits
//             and the min -dmin * another 4 bits; steps of 2 bits, 0 .. 3: Q2_K
//   q4 table  4 bits name a step in a table of 16, which products look up; f16 scale: IQ4_NL
//   q4 table super  the same; 8 groups share f16 d, a group's scale is d * its int8: IQ4_XS
//   fp4       the same with the table of E2M1; a group's scale is a power of two, as the byte of
//             its exponent: MXFP4
//   q8 planes the values of q8 in two planes, the high nibbles of steps and the low ones. A product
//             with the high plane alone bounds that with the values (kernels/packed_planes.h)
//
// 16 rows (output columns of the product) form a panel. The data that one step of the product over
// k needs of them lies together:
//
//   panel | group 0 | group 1 | …             of k; super, halves: before each 8 groups their head
//   head  | 16 f16 d | super: 16 f16 dmin
//   group | scales | k 0 … 3 | k 4 … 7 | … | k 28 … 31
//   scales| 16 f16 | min: 16 f16 scales, 16 f16 mins | super: 16 uint8 of scales, 16 of mins
//         | halves: 16 int8 of the first half's scales, 16 of the second's; q2 halves: 16 and 16
//         |     bytes, the scale in the low bits, the min in the high bits
//         | q4 table super: 16 int8 | fp4: 16 bytes e, the scale is 2^(e - 128)
//   four  | steps of 8 bits: four int8 of column 0, of column 1, …
//         | steps of 4 bits: four bytes of columns 0 and 8, of columns 1 and 9, …; the lower
//         |     column's in the low bits; q4: step + 8, tables: the step's place in the table
//         | steps of 2 bits: four bytes of columns 0, 4, 8 and 12, of columns 1, 5, 9 and 13, …;
//         |     the lowest column's in the lowest bits
//         | steps of 3 bits: step + 4, whose two lower bits lie as those of 2 bits; behind the
//         |     eight fours follow 64 bytes of third bits, four k of column 0, of column 1, …, as
//         |     in 8 bits: bit i of each is of the i-th four
//
// Four k of a column lie together because instructions for int8 add four products in a lane of
// int32: vpdpbusd, SDOT, or vpmaddubsw followed by vpmaddwd. The last panel is filled up with
// columns of scale 0.
//
// q8 planes: all panels of the high plane, then all of the low one.
//
//   high panel | a byte for each group, filled up to 64 | group 0 | group 1 | …
//              | at least 6 times the norm, over the group's k, of (low nibble - 7.5) of any column
//   high group | 16 f16 scales | k 0 … 7 | k 8 … 15 | …
//   low panel  | group 0 | …, and a low group is k 0 … 7 | …
//   eight      | 16 times four bytes: of each column k 0 … 3 in the low bits and k 4 … 7 in the
//              |     high bits. High plane: (step >> 4) + 8, low plane: step & 15
#ifndef LECTERN_KERNELS_PACKED_ROWS_H_
#define LECTERN_KERNELS_PACKED_ROWS_H_

#include "kernels/quant_blocks.h"
#include "kernels/types.h"

namespace lectern {

// On disk (engine/model/weights/packed_weights.h): never renumber.
enum class PackedType : uint8_t {
  kQ8 = 1,
  kQ4 = 2,
  kQ8Min = 3,
  kQ4Min = 4,
  kQ8Super = 5,
  kQ4Super = 6,
  kQ8Halves = 7,
  kQ8Planes = 8,
  kQ2Halves = 9,
  kQ3Halves = 10,
  kQ4Table = 11,
  kQ4TableSuper = 12,
  kFp4 = 13,
};

inline constexpr size_t kPackedColumns = 16;  // rows of a panel: a vector of floats of AVX-512
inline constexpr size_t kPackedGroup = 32;    // k of a group, as in GGUF's Q8_0 and Q4_0
inline constexpr size_t kPackedSuper = 8;     // groups that share a head: 256 k, as in GGUF K types

// Bits of a step as it is stored; in planes those of each plane.
constexpr size_t PackedBits(PackedType type) {
  switch (type) {
    case PackedType::kQ8:
    case PackedType::kQ8Min:
    case PackedType::kQ8Super:
    case PackedType::kQ8Halves:
      return 8;
    case PackedType::kQ4:
    case PackedType::kQ4Min:
    case PackedType::kQ4Super:
    case PackedType::kQ8Planes:
    case PackedType::kQ4Table:
    case PackedType::kQ4TableSuper:
    case PackedType::kFp4:
      return 4;
    case PackedType::kQ3Halves:
      return 3;
    case PackedType::kQ2Halves:
      return 2;
  }
  return 8;
}
// Whether stored nibbles stand for the steps of a table. Apart from the table, because GCC with
// -fsanitize=undefined takes no comparison of its address for a constant.
constexpr bool PackedHasTable(PackedType type) {
  return type == PackedType::kFp4 || type == PackedType::kQ4Table ||
         type == PackedType::kQ4TableSuper;
}
// The 16 steps that stored nibbles stand for; nullptr: the nibbles are numbers themselves.
constexpr const int8_t* PackedTable(PackedType type) {
  if (!PackedHasTable(type)) return nullptr;
  return type == PackedType::kFp4 ? kE2m1Levels : kIq4Levels;
}
// The stored value of a step of 0, of types without a table: unsigned bits of q4 are shifted by 8.
constexpr int8_t PackedZero(PackedType type) {
  return type == PackedType::kQ4 ? 8 : type == PackedType::kQ3Halves ? 4 : 0;
}
// Number of scales of a group; its k are divided evenly among them.
constexpr size_t PackedScales(PackedType type) {
  const bool has_halves = type == PackedType::kQ8Halves || type == PackedType::kQ2Halves ||
                          type == PackedType::kQ3Halves;
  return has_halves ? 2 : 1;
}
// Types with mins have one for each scale. Their steps are 0 … 31.
constexpr bool PackedHasMin(PackedType type) {
  return type == PackedType::kQ8Min || type == PackedType::kQ4Min || type == PackedType::kQ8Super ||
         type == PackedType::kQ4Super || type == PackedType::kQ2Halves;
}

// Number of f16 of each column in the head that kPackedSuper groups share: d, and dmin.
constexpr size_t PackedHeadItems(PackedType type) {
  switch (type) {
    case PackedType::kQ8Super:
    case PackedType::kQ4Super:
    case PackedType::kQ2Halves:
      return 2;
    case PackedType::kQ8Halves:
    case PackedType::kQ3Halves:
    case PackedType::kQ4TableSuper:
      return 1;
    default:
      return 0;
  }
}
// Bytes of the head that kPackedSuper groups of a panel share; 0 for types without one.
constexpr size_t PackedHeadBytes(PackedType type) {
  return PackedHeadItems(type) * kPackedColumns * sizeof(f16);
}
// Bytes of a group's scales (and mins) for all columns of a panel.
constexpr size_t PackedScaleBytes(PackedType type) {
  const bool has_four = type == PackedType::kQ8Min || type == PackedType::kQ4Min;
  const bool has_one = type == PackedType::kQ4TableSuper || type == PackedType::kFp4;
  return (has_four ? 4 : has_one ? 1 : 2) * kPackedColumns;
}
// Bytes of four k for all columns of a panel; of 3 bits, those that lie together.
constexpr size_t PackedFourBytes(PackedType type) {
  const size_t bits = PackedBits(type);
  return (bits == 3 ? 2 : bits) * kPackedColumns / 2;
}
// Where the third bits lie behind a group's scales.
inline constexpr size_t kThirdBits = kPackedGroup / 4 * PackedFourBytes(PackedType::kQ3Halves);
// Bytes of one group of a panel: scales, then steps.
constexpr size_t PackedGroupBytes(PackedType type) {
  return PackedScaleBytes(type) + kPackedGroup * PackedBits(type) / 8 * kPackedColumns;
}

// Planes: bytes of a group's nibbles in one plane, bytes at the beginning of a panel, and what the
// numbers there are multiples of: 7.5 * sqrt(32) is the largest norm.
inline constexpr size_t kPlaneBytes = kPackedGroup * kPackedColumns / 2;
constexpr size_t PlaneHeadBytes(size_t num_groups) { return (num_groups + 63) / 64 * 64; }
inline constexpr double kOpenUnit = 1.0 / 6;

// Borrowed packed rows. No alignment is promised; panels that begin at multiples of 64 are read
// fastest.
struct PackedRows {
  const std::byte* data = nullptr;
  PackedType type = PackedType::kQ8;
  size_t num_rows = 0;
  size_t num_cols = 0;  // a multiple of kPackedGroup; with heads of kPackedSuper of them
  const std::byte* low = nullptr;  // planes: the low one, whose panels are those of `data`

  // Bytes from one panel to the next, of planes the high one's. The last panel has 16 rows, too,
  // because it is filled up.
  size_t panel_bytes() const {
    const size_t groups = num_cols / kPackedGroup;
    return groups * PackedGroupBytes(type) + groups / kPackedSuper * PackedHeadBytes(type) +
           plane_head_bytes();
  }
  bool has_planes() const { return type == PackedType::kQ8Planes; }
  size_t plane_head_bytes() const {
    return has_planes() ? PlaneHeadBytes(num_cols / kPackedGroup) : 0;
  }
  // Bytes from one panel of the low plane to the next; 0: there are no planes.
  size_t low_panel_bytes() const {
    return has_planes() ? num_cols / kPackedGroup * kPlaneBytes : 0;
  }
  size_t num_panels() const { return (num_rows + kPackedColumns - 1) / kPackedColumns; }
  size_t bytes() const { return num_panels() * (panel_bytes() + low_panel_bytes()); }
  // A view of a whole matrix at `bytes`: sets `data`, and `low` behind it.
  void Set(const std::byte* bytes) {
    data = bytes;
    low = has_planes() ? bytes + num_panels() * panel_bytes() : nullptr;
  }
  // A view of rows [begin, end); `begin` is the first row of a panel, `end` the first row of one,
  // or num_rows (asserted).
  PackedRows Slice(size_t begin, size_t end) const {
    assert(begin % kPackedColumns == 0 && begin <= end && end <= num_rows);
    assert(end % kPackedColumns == 0 || end == num_rows);
    const size_t panel = begin / kPackedColumns;
    return {data + panel * panel_bytes(), type, end - begin, num_cols,
            has_planes() ? low + panel * low_panel_bytes() : nullptr};
  }
  // The head that the groups around column `col` share, in the panel that holds row `row`; the
  // groups follow it. For types without a head: where the first of these 8 groups begins. Neither
  // `row` nor `col` is checked.
  const std::byte* head(size_t row, size_t col) const {
    const size_t super_bytes = PackedHeadBytes(type) + kPackedSuper * PackedGroupBytes(type);
    return data + row / kPackedColumns * panel_bytes() + plane_head_bytes() +
           col / (kPackedGroup * kPackedSuper) * super_bytes;
  }
  // The group that holds column `col`, in the panel that holds row `row`.
  const std::byte* group(size_t row, size_t col) const {
    return head(row, col) + PackedHeadBytes(type) +
           col / kPackedGroup % kPackedSuper * PackedGroupBytes(type);
  }
  // Planes: the group's nibbles in the low plane.
  const std::byte* low_group(size_t row, size_t col) const {
    return low + row / kPackedColumns * low_panel_bytes() + col / kPackedGroup * kPlaneBytes;
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
  // A view of rows [begin, end); where packed, with the rules of PackedRows::Slice.
  WeightMatrix Slice(size_t begin, size_t end) const {
    if (is_packed()) return packed.Slice(begin, end);
    return rows.Slice(begin, end);
  }

  TypedRows rows;  // exactly one of the two is set; neither: a matrix without rows
  PackedRows packed;
};

// Quantises 1 … 16 rows into the one panel at `out`, of PackedRows::panel_bytes(); type kQ8 or kQ4.
// num_cols must be a multiple of kPackedGroup (all asserted). Columns of the panel that have no row
// become zeros. Returns false, with `out` undefined, if a value is not finite or beyond 7 * 65504,
// or if a scale would not fit f16.
bool PackPanel(Rows<const float> rows, PackedType type, std::byte* out);

// The type that blocks of this type are packed as: the smallest that holds their values exactly.
// Not for plain values (asserted).
PackedType PackedTypeOf(TensorType blocks);
// Lays 1 … 16 rows of blocks out as the one panel at `out`, of type PackedTypeOf and of
// PackedRows::panel_bytes(). No value changes; columns without a row become zeros. Returns false,
// with `out` undefined, if a scale or min is not finite.
bool PackBlocks(const TensorRows& rows, std::byte* out);

// Turns a panel of kQ8, with `num_cols` columns, into the panel's two planes of kQ8Planes, at
// `high` and `low`: panel_bytes() and low_panel_bytes().
void SplitPanel(const std::byte* q8, size_t num_cols, std::byte* high, std::byte* low);

// Step, scale, min (0 for types without mins) and value of row `row` at column `col`, neither of
// which is checked, for scalar code; computed as in quant_blocks.h.
int PackedStep(const PackedRows& rows, size_t row, size_t col);
float PackedScale(const PackedRows& rows, size_t row, size_t col);
float PackedMin(const PackedRows& rows, size_t row, size_t col);
float PackedElement(const PackedRows& rows, size_t row, size_t col);

}  // namespace lectern

#endif  // LECTERN_KERNELS_PACKED_ROWS_H_
