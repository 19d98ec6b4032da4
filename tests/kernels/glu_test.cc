#include "kernels/glu.h"

#include <cmath>

#include "tests/kernels/kernel_case.h"

namespace lectern {
namespace {

class GluTest : public KernelTest {};

TEST_P(GluTest, GatesByHand) {
  const Matrix gate = Matrix::Of(1, 5, {0, 1, -1, 1000, -1000}), up(1, 5, 2);
  Matrix output(1, 5);
  kernels().glu({.gate = gate, .up = up, .output = output.rows});
  EXPECT_EQ(output.data[0], 0);
  EXPECT_FLOAT_EQ(output.data[1], 1.4621171572600098f);   // 2 / (1 + 1/e)
  EXPECT_FLOAT_EQ(output.data[2], -0.5378828427399902f);  // -2 / (1 + e)
  EXPECT_FLOAT_EQ(output.data[3], 2000);
  EXPECT_NEAR(output.data[4], 0, 1e-30);
}

// silu(x) - silu(-x) == x.
TEST_P(GluTest, OddPartIsHalfTheInput) {
  const Matrix gate = Matrix::Random(1, 1000, 1, 8), ones(1, 1000, 1);
  Matrix negated(gate), plus(1, 1000), minus(1, 1000);
  for (float& x : negated.data) x = -x;
  kernels().glu({.gate = gate, .up = ones, .output = plus.rows});
  kernels().glu({.gate = negated, .up = ones, .output = minus.rows});
  for (size_t c = 0; c < 1000; ++c) {
    EXPECT_NEAR(plus[0][c] - minus[0][c], gate[0][c], 1e-5 * std::abs(gate[0][c]));
  }
}

TEST_P(GluTest, MatchesScalarAroundVectorWidths) {
  if (is_definition()) GTEST_SKIP();
  for (const size_t width : kWidths) {
    const Matrix gate = Matrix::Random(3, width, 1, 10), up = Matrix::Random(3, width, 2);
    Matrix expected(3, width), output(up);
    GluScalar({.gate = gate, .up = up, .output = expected.rows});
    kernels().glu({.gate = gate, .up = output, .output = output.rows});  // in place
    for (size_t i = 0; i < 3 * width; ++i) {
      EXPECT_NEAR(output.data[i], expected.data[i], 1e-5 * std::abs(expected.data[i]));
    }
  }
}

// By GptOssExperts._apply_gate of transformers, with its limit of 7.
TEST_P(GluTest, ClampedIsThatOfGptOss) {
  const Matrix gate = Matrix::Of(1, 6, {0, 1, -1, 9, -50, 2}),
               up = Matrix::Of(1, 6, {1, 2, 3, -9, 1, 8});
  Matrix output(1, 6);
  kernels().glu(
      {.gate = gate, .up = up, .output = output.rows, .activation = Activation::kClampedSilu});
  const auto by_hand = [](double g, double u) { return (u + 1) * g / (1 + std::exp(-1.702 * g)); };
  const double expected[] = {0, by_hand(1, 2), by_hand(-1, 3), by_hand(7, -7), 0, by_hand(2, 7)};
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(output.data[i], expected[i], 2e-5) << i;
}

TEST_P(GluTest, ClampedMatchesScalarAroundVectorWidths) {
  if (is_definition()) GTEST_SKIP();
  for (const size_t width : kWidths) {
    const Matrix gate = Matrix::Random(3, width, 1, 6), up = Matrix::Random(3, width, 2, 6);
    Matrix expected(3, width), output(up);
    const auto args = [&](Rows<const float> u, Rows<float> to) {
      return GluArgs{.gate = gate,
                     .up = u,
                     .output = to,
                     .activation = Activation::kClampedSilu,
                     .limit = 2.5f,
                     .alpha = 1.3f};
    };
    GluScalar(args(up, expected.rows));
    kernels().glu(args(output, output.rows));
    for (size_t i = 0; i < 3 * width; ++i) {
      EXPECT_NEAR(output.data[i], expected.data[i], 2e-5 * std::abs(expected.data[i]) + 1e-30);
    }
  }
}

// By torch.nn.functional.gelu(x, approximate="tanh").
TEST_P(GluTest, GeluIsThatOfTorch) {
  const Matrix gate = Matrix::Of(1, 7, {0, 1, -1, 0.1f, -3, 5, -50}), up(1, 7, 1);
  Matrix output(1, 7);
  kernels().glu(
      {.gate = gate, .up = up, .output = output.rows, .activation = Activation::kGeluTanh});
  const float expected[] = {0, 0.8411920f, -0.1588080f, 0.0539827f, -0.0036373f, 4.9999998f, 0};
  for (size_t i = 0; i < 7; ++i) EXPECT_NEAR(output.data[i], expected[i], 2e-6) << i;
}

TEST_P(GluTest, GeluMatchesScalarAroundVectorWidths) {
  if (is_definition()) GTEST_SKIP();
  for (const size_t width : kWidths) {
    const Matrix gate = Matrix::Random(3, width, 1, 6), up = Matrix::Random(3, width, 2);
    Matrix expected(3, width), output(up);
    GluScalar(
        {.gate = gate, .up = up, .output = expected.rows, .activation = Activation::kGeluTanh});
    kernels().glu(
        {.gate = gate, .up = output, .output = output.rows, .activation = Activation::kGeluTanh});
    for (size_t i = 0; i < 3 * width; ++i) {
      EXPECT_NEAR(output.data[i], expected.data[i], 1e-5 * std::abs(expected.data[i]) + 1e-30);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, GluTest, testing::ValuesIn(AllRuns()), RunName);

}  // namespace
}  // namespace lectern
