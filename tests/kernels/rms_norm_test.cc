#include "kernels/rms_norm.h"

#include <cmath>

#include "tests/kernels/kernel_case.h"

namespace lectern {
namespace {

class RmsNormTest : public KernelTest {};

TEST_P(RmsNormTest, NormalizesByHand) {
  const Matrix row = Matrix::Of(1, 2, {3, 4});  // mean of squares 12.5
  const std::vector<float> weight = {1, 2};
  kernels().rms_norm({.input = row, .weight = weight, .epsilon = 3.5f, .output = row.rows});
  EXPECT_FLOAT_EQ(row[0][0], 0.75f);
  EXPECT_FLOAT_EQ(row[0][1], 2.0f);
}

TEST_P(RmsNormTest, GivesRowsOfUnitMeanSquare) {
  const Matrix input = Matrix::Random(5, 333, 1, 40);
  const std::vector<float> weight(333, 1);
  Matrix output(5, 333);
  kernels().rms_norm({.input = input, .weight = weight, .epsilon = 0, .output = output.rows});
  for (size_t r = 0; r < 5; ++r) {
    double squares = 0;
    for (size_t c = 0; c < 333; ++c) squares += output[r][c] * output[r][c];
    EXPECT_NEAR(squares / 333, 1, 1e-5);
  }
}

TEST_P(RmsNormTest, MatchesScalarAroundVectorWidths) {
  if (is_definition()) GTEST_SKIP();
  for (const size_t width : kWidths) {
    const Matrix input = Matrix::Random(3, width, 1), weight = Matrix::Random(1, width, 2);
    Matrix expected(3, width), output(3, width);
    RmsNormScalar(
        {.input = input, .weight = weight.data, .epsilon = 1e-5f, .output = expected.rows});
    kernels().rms_norm(
        {.input = input, .weight = weight.data, .epsilon = 1e-5f, .output = output.rows});
    for (size_t i = 0; i < 3 * width; ++i) {
      EXPECT_NEAR(output.data[i], expected.data[i], 1e-5 * std::abs(expected.data[i]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, RmsNormTest, testing::ValuesIn(AllRuns()), RunName);

}  // namespace
}  // namespace lectern
