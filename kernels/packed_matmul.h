// Matrix product with packed weights: output = input * weight^T, with the inner sums in integers.
//
// The inputs are rounded to int8 first: 32 values of a row share a scale, as 32 weights do, so the
// products within a group are sums of whole numbers. llama.cpp does the same with its q8_0
// (https://github.com/ggml-org/llama.cpp). tools/reader/README.md tells what this changes in
// answers beside rounding the weights alone.
#ifndef LECTERN_KERNELS_PACKED_MATMUL_H_
#define LECTERN_KERNELS_PACKED_MATMUL_H_

#include <vector>

#include "kernels/packed_rows.h"
#include "kernels/types.h"

namespace lectern {

// The sums of the steps of both halves of a group of an input row. Halves of weights have scales of
// their own in some types, and weights whose steps are raised to be unsigned need both together.
struct HalfSums {
  int16_t first = 0, second = 0;  // at most 16 * 127 in size
  bool operator==(const HalfSums&) const = default;
};

// Borrowed rows of int8 in groups of kPackedGroup values; each value is scale * step.
struct Int8Rows {
  const int8_t* steps = nullptr;  // [num_rows, num_cols], -127 .. 127
  // The others: [num_rows, num_cols / kPackedGroup].
  const float* scales = nullptr;
  const float* sums = nullptr;  // of a group's values
  const HalfSums* half_sums = nullptr;
  size_t num_rows = 0;
  size_t num_cols = 0;

  // A view of rows [begin, end).
  Int8Rows Slice(size_t begin, size_t end) const {
    assert(begin <= end && end <= num_rows);
    const size_t first = begin * (num_cols / kPackedGroup);
    return {steps + begin * num_cols, scales + first, sums + first,
            half_sums + first,        end - begin,    num_cols};
  }
};

struct QuantiseRowsArgs {
  Rows<const float> input;        // [M, K]; K is a multiple of kPackedGroup
  std::span<int8_t> steps;        // out [M, K]; spans may be longer
  std::span<float> scales;        // out [M, K / kPackedGroup], as the next ones
  std::span<float> sums;          // out
  std::span<HalfSums> half_sums;  // out
};
// Rounds rows to int8. scale = max|x| / 127, or 0 where that is below the least normal float; step
// = nearest(x * (1 / scale)), ties to even; sum = scale * the sum of the steps, rounded once. A
// group that holds infinity or NaN gets steps of 0 and NaN as scale and sum, so that every product
// with it is NaN and no wrong result looks right.
void QuantiseRowsScalar(const QuantiseRowsArgs& args);
void QuantiseRowsSimd(const QuantiseRowsArgs& args);  // bit-identical

// Memory for rows that are rounded to int8.
struct Int8Buffer {
  Int8Buffer() = default;
  explicit Int8Buffer(size_t num_values) { Resize(num_values); }
  // Makes room for num_values values, a multiple of kPackedGroup; what was there is undefined then.
  void Resize(size_t num_values) {
    assert(num_values % kPackedGroup == 0);
    steps.resize(num_values);
    scales.resize(num_values / kPackedGroup);
    sums.resize(scales.size());
    half_sums.resize(scales.size());
  }
  // Where rows [first_row, first_row + input.num_rows) of a matrix with as many columns go.
  QuantiseRowsArgs Args(Rows<const float> input, size_t first_row = 0) {
    const size_t first = first_row * input.num_cols, group = first / kPackedGroup;
    assert(first + input.num_rows * input.num_cols <= steps.size());
    return {.input = input,
            .steps = std::span(steps).subspan(first),
            .scales = std::span(scales).subspan(group),
            .sums = std::span(sums).subspan(group),
            .half_sums = std::span(half_sums).subspan(group)};
  }
  // The first num_rows rows of num_cols values.
  Int8Rows rows(size_t num_rows, size_t num_cols) const {
    assert(num_rows * num_cols <= steps.size());
    return {steps.data(), scales.data(), sums.data(), half_sums.data(), num_rows, num_cols};
  }

  std::vector<int8_t> steps;
  std::vector<float> scales, sums;
  std::vector<HalfSums> half_sums;
};

struct PackedMatMulArgs {
  Int8Rows input;           // [M, K]
  PackedRows weight;        // [N, K]; row n holds output column n
  Rows<float> output;       // [M, N]; must not alias input
  size_t column_begin = 0;  // computes output columns [column_begin, column_end) only: the unit of
  size_t column_end = 0;    //   parallel work. begin is a multiple of kPackedColumns (asserted)
  bool accumulate = false;  // the sum starts from the output's value instead of 0
};
// Each element is the sum over the groups, in ascending order, of (input scale * weight scale) *
// (sum of 32 products of steps) and then of (input sum * weight min). kQ8Halves adds the first term
// for each half. Types of 2 and 3 bits add one for both halves: (input scale * d) times the whole
// number that the halves' products and scales come to, and for mins (input scale * -dmin) times
// that of the halves' input steps and mins. Sums of whole numbers are exact. Those of floats keep
// the promise of matmul.h: the same bits for any chunking of rows and columns and for any number of
// threads; other instruction sets may round otherwise.
// Preconditions (asserted): matching
// shapes. Cannot fail. Does not allocate, block or log.
void PackedMatMulScalar(const PackedMatMulArgs& args);  // the definition
// Within 1e-5 times the sum of its terms' magnitudes of it.
void PackedMatMulSimd(const PackedMatMulArgs& args);
// The same bits, by Intel's AMX where there are rows enough. The machine must have it
// (kernels/amx.h).
void PackedMatMulAmx(const PackedMatMulArgs& args);

}  // namespace lectern

#endif  // LECTERN_KERNELS_PACKED_MATMUL_H_
