#include "kernels/matmul.h"

#include <cmath>

#include "tests/kernels/kernel_case.h"

namespace lectern {
namespace {

using MatMul = void (*)(const MatMulArgs&);

void RunMatMul(MatMul matmul, Rows<const float> input, const TypedRows& weight, Rows<float> output,
               size_t begin, size_t end, bool accumulate = false) {
  std::vector<float> scratch(MatMulScratch(input.num_cols));
  matmul({.input = input,
          .weight = weight,
          .output = output,
          .column_begin = begin,
          .column_end = end,
          .accumulate = accumulate,
          .scratch = scratch});
}

class MatMulTest : public KernelTest {};

TEST_P(MatMulTest, MultipliesByHand) {
  const Matrix input = Matrix::Of(2, 3, {1, 2, 3, -1, 0, 0.5f});
  const StoredMatrix stored(Matrix::Of(2, 3, {4, 5, 6, 1, 0, -2}), Dtype::kF16);
  Matrix output(2, 2);
  RunMatMul(kernels().matmul, input, stored.rows, output.rows, 0, 2);
  EXPECT_EQ(output.data, (std::vector<float>{32, -5, -1, -2}));
}

// |simd - scalar| <= 1e-5 * sum|a*b|, for one shape.
void ExpectMatchesScalar(const Backend& kernels, size_t m, size_t k, size_t n, Dtype dtype) {
  const Matrix input = Matrix::Random(m, k, 1);
  const StoredMatrix weight(Matrix::Random(n, k, 2), dtype);
  const Matrix floats = weight.ToFloats();
  Matrix expected(m, n), output(m, n, NAN);
  RunMatMul(MatMulScalar, input, weight.rows, expected.rows, 0, n);
  RunMatMul(kernels.matmul, input, weight.rows, output.rows, 0, n);
  for (size_t r = 0; r < m; ++r) {
    for (size_t c = 0; c < n; ++c) {
      double bound = 0;
      for (size_t i = 0; i < k; ++i) bound += std::abs(input[r][i] * floats[c][i]);
      ASSERT_NEAR(output[r][c], expected[r][c], 1e-5 * bound) << m << "x" << k << "x" << n;
    }
  }
}

TEST_P(MatMulTest, MatchesScalarAroundVectorWidths) {
  if (is_definition()) GTEST_SKIP();
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) {
    for (const size_t width : kWidths) {
      for (const size_t m : {1, 2, 5, 13}) {
        ExpectMatchesScalar(kernels(), m, width, 33, dtype);
        ExpectMatchesScalar(kernels(), m, 33, width, dtype);
      }
    }
  }
  ExpectMatchesScalar(kernels(), 100, 300, 70, Dtype::kBf16);
}

// The promise of matmul.h: bits depend on the row and on the weight's row, on nothing else.
void ExpectSameBitsForAnyGrouping(MatMul matmul, const Matrix& input, const TypedRows& weight) {
  const size_t m = input.rows.num_rows, n = weight.num_rows;
  Matrix whole(m, n);
  RunMatMul(matmul, input, weight, whole.rows, 0, n);
  for (const size_t rows : {1, 2, 3, 4, 5, 6, 7, 37, 64}) {
    Matrix output(m, n, NAN);
    for (size_t r = 0; r < m; r += rows) {
      const size_t end = std::min(r + rows, m);
      RunMatMul(matmul, Rows<const float>(input.rows).Slice(r, end), weight,
                output.rows.Slice(r, end), 0, n);
    }
    EXPECT_TRUE(SameBits(output[0], whole[0], m * n)) << rows << " rows at a time";
  }
  for (const size_t columns : {1, 7, 16, 65, 112, 149}) {
    Matrix output(m, n, NAN);
    for (size_t c = 0; c < n; c += columns) {
      RunMatMul(matmul, input, weight, output.rows, c, std::min(c + columns, n));
    }
    EXPECT_TRUE(SameBits(output[0], whole[0], m * n)) << columns << " columns at a time";
  }
}

TEST_P(MatMulTest, SameBitsForAnyGroupingOfRowsAndColumns) {
  const StoredMatrix weight(Matrix::Random(150, 601, 2), Dtype::kBf16);
  ExpectSameBitsForAnyGrouping(kernels().matmul, Matrix::Random(100, 601, 1), weight.rows);
}

TEST_P(MatMulTest, AddsToOutputWhenAsked) {
  const Matrix input = Matrix::Random(7, 300, 1);
  const StoredMatrix weight(Matrix::Random(20, 300, 2), Dtype::kF32);
  Matrix product(7, 20), output(7, 20, 5);
  RunMatMul(kernels().matmul, input, weight.rows, product.rows, 0, 20);
  RunMatMul(kernels().matmul, input, weight.rows, output.rows, 0, 20, /*accumulate=*/true);
  for (size_t i = 0; i < 140; ++i) EXPECT_NEAR(output.data[i], product.data[i] + 5, 1e-3);
}

TEST_P(MatMulTest, WritesItsColumnsOnly) {
  const Matrix input = Matrix::Random(9, 40, 1);
  const StoredMatrix weight(Matrix::Random(50, 40, 2), Dtype::kF32);
  Matrix output(9, 60, 7);  // rows of 50 columns with a gap of 10
  RunMatMul(kernels().matmul, input, weight.rows, Rows<float>(output[0], 9, 50, 60), 11, 34);
  for (size_t r = 0; r < 9; ++r) {
    for (size_t c = 0; c < 60; ++c) EXPECT_EQ(output[r][c] == 7, c < 11 || c >= 34);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MatMulTest, testing::ValuesIn(AllRuns()), RunName);

}  // namespace
}  // namespace lectern
