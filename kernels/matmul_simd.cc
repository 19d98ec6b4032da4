// A few input rows meet the weights as they are stored. For more rows, a block of the weights is
// converted and transposed into scratch once, then every input row passes over it.
#include "kernels/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_simd.cc"
#include "hwy/foreach_target.h"

#include <algorithm>

#include "kernels/few_rows-inl.h"
#include "kernels/tile-inl.h"

namespace lectern {
#ifndef LECTERN_MATMUL_BLOCKS
#define LECTERN_MATMUL_BLOCKS
// Size of the block of weights packed at a time. It changes the speed only: sums go on from block
// to block in the same order.
struct MatMulBlock {
  size_t columns, depth;
};
// 64 KiB of floats, by hand: it stays in a second-level cache. No measurement of other sizes is on
// record.
constexpr MatMulBlock kMatMulLargest = {64, 256};

// For few rows a block of 16 KiB stays in the first-level cache; a larger one would not pay for its
// way to the second level and back. For many rows 64 KiB are packed at a time, so that a block of
// rows meets several panels. By hand; products of 512 rows reach 84 % of the peak of AVX-512 with
// it (tests/bench/RESULTS.md, "With AVX-512 and VNNI"), and no measurement of other sizes is on
// record.
constexpr MatMulBlock BlockFor(size_t num_rows) {
  return num_rows < 64 ? MatMulBlock{16, 256} : kMatMulLargest;
}
#endif
}  // namespace lectern

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR
void MatMul(const MatMulArgs& args) { MatMulScalar(args); }
#else

// Multiplies few rows straight from the weights; more rows in blocks, whose weights are packed once
// and then used for every row.
void MatMul(const MatMulArgs& args) {
  const auto& [input, weight, output, column_begin, column_end, accumulate, scratch] = args;
  if (input.num_rows <= kFewRows) {
    return MultiplyFewRows({.a = input.data,
                            .a_stride = input.stride,
                            .b = weight.Slice(column_begin, column_end),
                            .depth = input.num_cols,
                            .c = output.data + column_begin,
                            .c_stride = output.stride,
                            .accumulate = accumulate,
                            .ahead = static_cast<ptrdiff_t>(kPanel * weight.row_bytes())},
                           weight.dtype, input.num_rows);
  }
  float* packed = AlignScratch(scratch.data());
  MatMulBlock block = BlockFor(input.num_rows);
  block.columns = std::max(block.columns, kPanel);
  for (size_t column = column_begin; column < column_end; column += block.columns) {
    const size_t end = std::min(column + block.columns, column_end);
    for (size_t k = 0; k < input.num_cols; k += block.depth) {
      const size_t depth = std::min(block.depth, input.num_cols - k);
      PackPanels(weight.Slice(column, end), weight.dtype, k, k + depth, packed);
      Multiply({.a = input.data + k,
                .a_stride = input.stride,
                .b = {packed, depth * kPanel},
                .depth = depth,
                .c = output.data + column,
                .c_stride = output.stride,
                .num_columns = end - column,
                .accumulate = accumulate || k > 0},
               input.num_rows);
    }
  }
}

#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lectern {

HWY_EXPORT(MatMul);

size_t MatMulScratch(size_t num_cols) {
  return kMatMulLargest.columns * std::min(num_cols, kMatMulLargest.depth) + 16;  // kAlignFloats
}

void MatMulSimd(const MatMulArgs& args) {
  assert(args.input.num_cols == args.weight.num_cols);
  assert(args.input.num_rows == args.output.num_rows);
  assert(args.output.num_cols == args.weight.num_rows);
  assert(args.column_begin <= args.column_end && args.column_end <= args.weight.num_rows);
  assert(args.scratch.size() >= MatMulScratch(args.input.num_cols));
  HWY_DYNAMIC_DISPATCH(MatMul)(args);
}

}  // namespace lectern
#endif  // HWY_ONCE
