#include "kernels/element.h"
#include "kernels/matmul.h"

namespace lectern {

void MatMulScalar(const MatMulArgs& args) {
  const auto& [input, weight, output, column_begin, column_end, accumulate, scratch] = args;
  assert(input.num_cols == weight.num_cols && input.num_rows == output.num_rows);
  assert(column_begin <= column_end && column_end <= weight.num_rows);
  assert(output.num_cols == weight.num_rows);
  for (size_t row = 0; row < input.num_rows; ++row) {
    for (size_t column = column_begin; column < column_end; ++column) {
      double sum = accumulate ? output[row][column] : 0.0;
      for (size_t k = 0; k < input.num_cols; ++k) {
        sum +=
            static_cast<double>(input[row][k]) * LoadElement(weight.row(column), weight.dtype, k);
      }
      output[row][column] = static_cast<float>(sum);
    }
  }
}

}  // namespace lectern
