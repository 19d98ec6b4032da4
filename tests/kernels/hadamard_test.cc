#include "kernels/hadamard.h"

#include <bit>
#include <cmath>

#include "tests/kernels/kernel_case.h"

namespace lectern {
namespace {

class HadamardTest : public KernelTest {};

std::vector<uint64_t> RandomSigns(size_t n) {
  std::mt19937_64 random(n);
  std::vector<uint64_t> signs((n + 63) / 64);
  for (uint64_t& word : signs) word = random();
  return signs;
}

TEST_P(HadamardTest, IsThatOfTheFormula) {
  for (const size_t n : {1, 2, 4, 8, 16, 64, 256}) {
    const Matrix before = Matrix::Random(1, n, 3);
    const std::vector<uint64_t> signs = RandomSigns(n);
    Matrix x = before;
    SignedHadamard({.x = {x[0], n}, .signs = signs});
    for (size_t c = 0; c < n; ++c) {
      double sum = 0;
      for (size_t k = 0; k < n; ++k) {
        const bool negated = (std::popcount(c & k) + (signs[k / 64] >> (k % 64) & 1)) % 2 == 1;
        sum += negated ? -before[0][k] : before[0][k];
      }
      ASSERT_NEAR(x[0][c], sum / std::sqrt(static_cast<double>(n)), 1e-5) << n << ' ' << c;
    }
  }
}

// Row codes are part of a document: every machine makes the same bits.
TEST_P(HadamardTest, EqualsTheDefinitionBitForBit) {
  for (size_t n = 1; n <= 4096; n *= 2) {
    Matrix x = Matrix::Random(1, n, 4), expected = x;
    const std::vector<uint64_t> signs = RandomSigns(n);
    SignedHadamard({.x = {x[0], n}, .signs = signs});
    SignedHadamardScalar({.x = {expected[0], n}, .signs = signs});
    for (size_t c = 0; c < n; ++c) ASSERT_EQ(x[0][c], expected[0][c]) << n << ' ' << c;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, HadamardTest, testing::ValuesIn(AllRuns()), RunName);

}  // namespace
}  // namespace lectern
