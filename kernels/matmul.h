// Matrix product with weights as they are stored, for linear layers: output = input * weight^T. For
// packed weights see packed_matmul.h.
//
// Each output element is one sum over k in ascending order (in double for the scalar backend),
// whatever the number of input rows handed in together, the column range, or the thread that runs
// it. So a layer gives the same bits for any chunking of rows and columns and for any number of
// threads. Another instruction set may give other bits: some fuse the multiply-add, some round
// twice.
#ifndef LECTERN_KERNELS_MATMUL_H_
#define LECTERN_KERNELS_MATMUL_H_

#include "kernels/types.h"

namespace lectern {

struct MatMulArgs {
  Rows<const float> input;   // [M, K]
  TypedRows weight;          // [N, K]; f32, f16 or bf16, row n holds output column n
  Rows<float> output;        // [M, N]; must not alias input
  size_t column_begin = 0;   // computes output columns [column_begin, column_end) only, and leaves
  size_t column_end = 0;     //   the others as they are: the unit of parallel work
  bool accumulate = false;   // the sum starts from the output's value instead of 0
  std::span<float> scratch;  // >= MatMulScratch(K) floats; contents undefined after
};
// Floats of scratch, at any alignment, that suffice for any column range; num_cols is K.
size_t MatMulScratch(size_t num_cols);

// Preconditions (asserted): matching shapes. Cannot fail. Does not allocate, block or log.
void MatMulScalar(const MatMulArgs& args);  // the definition
void MatMulSimd(const MatMulArgs& args);    // within 1e-5 * sum|a*b| of it

}  // namespace lectern

#endif  // LECTERN_KERNELS_MATMUL_H_
