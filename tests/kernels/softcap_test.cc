#include "kernels/softcap.h"

#include <cmath>

#include "tests/kernels/kernel_case.h"

namespace lectern {
namespace {

class SoftcapTest : public KernelTest {};

TEST_P(SoftcapTest, BoundsByHand) {
  Matrix logits = Matrix::Of(1, 6, {0, 1, -50, 1e6f, -INFINITY, 25});
  kernels().softcap({.logits = logits.rows, .cap = 50});
  const float expected[] = {0, 0.99986669f, -38.0797078f, 50, -50, 23.1058578f};
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(logits.data[i], expected[i], 5e-5) << i;
}

TEST_P(SoftcapTest, MatchesScalarAroundVectorWidthsAndLeavesTheRest) {
  if (is_definition()) GTEST_SKIP();
  for (const size_t width : kWidths) {
    const Matrix input = Matrix::Random(3, width + 2, 1, 90);
    Matrix expected(input), output(input);
    const auto of = [&](Matrix& m) { return Rows<float>(m.data.data(), 3, width, width + 2); };
    SoftcapScalar({.logits = of(expected), .cap = 30});
    kernels().softcap({.logits = of(output), .cap = 30});
    for (size_t i = 0; i < 3 * (width + 2); ++i) {
      EXPECT_NEAR(output.data[i], expected.data[i], 3e-5);
      const bool is_outside = i % (width + 2) >= width;
      EXPECT_TRUE(!is_outside || output.data[i] == input.data[i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, SoftcapTest, testing::ValuesIn(AllRuns()), RunName);

}  // namespace
}  // namespace lectern
