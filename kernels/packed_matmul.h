// Matrix product with packed weights: output = input * weight^T, summed in integers.
//
// Inputs are rounded to int8 first: 32 values of a row, as many as share a scale in the weights,
// share one, and their products are whole numbers. That is what llama.cpp does with its q8_0
// (https://github.com/ggml-org/llama.cpp); what it changes beside rounding the weights alone is in
// tools/reader/README.md.
#ifndef LECTERN_KERNELS_PACKED_MATMUL_H_
#define LECTERN_KERNELS_PACKED_MATMUL_H_

#include "kernels/packed_rows.h"
#include "kernels/types.h"

namespace lectern {

// Borrowed: rows in groups of kPackedGroup values, each worth scale * step.
struct Int8Rows {
  const int8_t* steps = nullptr;  // [num_rows, num_cols], -127 .. 127
  const float* scales = nullptr;  // [num_rows, num_cols / kPackedGroup]
  const float* sums = nullptr;    // as scales: of a group's values, for weights that have mins
  size_t num_rows = 0;
  size_t num_cols = 0;
};

struct QuantiseRowsArgs {
  Rows<const float> input;  // [M, K]; K is a multiple of kPackedGroup
  std::span<int8_t> steps;  // out [M, K]
  std::span<float> scales;  // out [M, K / kPackedGroup]
  std::span<float> sums;    // out [M, K / kPackedGroup]
};
// scale = max|x| / 127, or 0 where that is below the least normal float; step = nearest(x * (1 /
// scale)), ties to even; sum = scale * the sum of the steps, rounded once. A group that holds
// infinity or NaN gets steps of 0, the scale NaN and the sum NaN, so that no product with it looks
// right.
// Preconditions (asserted): sizes. Cannot fail. Does not allocate, block or log.
void QuantiseRowsScalar(const QuantiseRowsArgs& args);
void QuantiseRowsSimd(const QuantiseRowsArgs& args);  // bit-identical

struct PackedMatMulArgs {
  Int8Rows input;           // [M, K]
  PackedRows weight;        // [N, K]; row n holds output column n
  Rows<float> output;       // [M, N]; must not alias input
  size_t column_begin = 0;  // computes output columns [column_begin, column_end) only: the unit of
  size_t column_end = 0;    //   parallel work. begin is a multiple of kPackedColumns
  bool accumulate = false;  // the sum starts from the output's value instead of 0
};
// An element is the sum over the groups, in ascending order, of (input scale * weight scale) * (sum
// of 32 products of steps), for weights with two scales a group once for each half, and then of
// (input sum * weight min). The inner sums are exact, and the outer ones are what matmul.h
// promises: the same bits for any chunking of the rows and the columns and for any number of
// threads; other instruction sets may round otherwise.
// Preconditions (asserted): matching shapes. Cannot fail. Does not allocate, block or log.
void PackedMatMulScalar(const PackedMatMulArgs& args);  // the definition
void PackedMatMulSimd(const PackedMatMulArgs& args);    // within 1e-5 * sum|group| of it

}  // namespace lectern

#endif  // LECTERN_KERNELS_PACKED_MATMUL_H_
