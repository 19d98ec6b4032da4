#include "kernels/rope.h"

#include <cmath>

#include "tests/kernels/kernel_case.h"

namespace lectern {
namespace {

// Angles of `num_rows` positions: position * 10000^(-2i / head_dim).
struct Angles {
  Angles(size_t num_rows, size_t half) : cosine(num_rows, half), sine(num_rows, half) {
    for (size_t r = 0; r < num_rows; ++r) {
      for (size_t i = 0; i < half; ++i) {
        const double angle = 17.0 * double(r) * std::pow(1e4, -double(i) / double(half));
        cosine[r][i] = static_cast<float>(std::cos(angle));
        sine[r][i] = static_cast<float>(std::sin(angle));
      }
    }
  }
  Matrix cosine, sine;
};

class RopeTest : public KernelTest {};

TEST_P(RopeTest, TurnsByAQuarter) {
  Matrix heads(1, 8);  // two heads of (x0, x1, y0, y1)
  for (size_t i = 0; i < 8; ++i) heads[0][i] = static_cast<float>(i + 1);
  Matrix cosine(1, 2), sine(1, 2, 1);
  kernels().rope({.heads = heads.rows, .head_dim = 4, .cosine = cosine, .sine = sine});
  EXPECT_EQ(heads.data, (std::vector<float>{-3, -4, 1, 2, -7, -8, 5, 6}));
}

// Two rows turned by positions p and q keep a dot product that depends on p - q only.
TEST_P(RopeTest, DotsDependOnDistanceOnly) {
  constexpr size_t kDim = 64;
  const Matrix x = Matrix::Random(1, kDim, 1), y = Matrix::Random(1, kDim, 2);
  const Angles angles(6, kDim / 2);
  double dots[2] = {};
  for (size_t shift : {0, 3}) {
    Matrix a(x), b(y);
    const auto turn = [&](Matrix& row, size_t position) {
      kernels().rope({.heads = row.rows,
                      .head_dim = kDim,
                      .cosine = angles.cosine.rows.Slice(position, position + 1),
                      .sine = angles.sine.rows.Slice(position, position + 1)});
    };
    turn(a, shift);
    turn(b, shift + 2);
    for (size_t c = 0; c < kDim; ++c) dots[shift / 3] += a[0][c] * b[0][c];
  }
  EXPECT_NEAR(dots[0], dots[1], 1e-4);
}

TEST_P(RopeTest, MatchesScalarAroundVectorWidths) {
  if (is_definition()) GTEST_SKIP();
  for (const size_t half : kWidths) {
    const Angles angles(3, half);
    Matrix expected = Matrix::Random(3, 4 * half, 1), heads(expected);
    const Matrix before(expected);
    RopeScalar({expected.rows, 2 * half, angles.cosine, angles.sine});
    kernels().rope({heads.rows, 2 * half, angles.cosine, angles.sine});
    for (size_t i = 0; i < heads.data.size(); ++i) {
      ASSERT_NEAR(heads.data[i], expected.data[i], 1e-6 * 5) << half;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, RopeTest, testing::ValuesIn(AllRuns()), RunName);

}  // namespace
}  // namespace lectern
