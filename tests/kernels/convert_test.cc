#include "kernels/convert.h"

#include <cmath>

#include "tests/kernels/kernel_case.h"

namespace lectern {
namespace {

class ConvertTest : public KernelTest {};

// Every bit pattern of 16 bits, in rows of `num_cols`.
StoredMatrix AllPatterns(Dtype dtype, size_t num_cols) {
  return StoredMatrix(Matrix(65536 / num_cols, num_cols), dtype);
}

TEST_P(ConvertTest, ReadsEvery16BitPattern) {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16}) {
    StoredMatrix stored = AllPatterns(dtype, 1024);
    for (uint32_t i = 0; i < 65536; ++i) {
      const uint16_t bits = static_cast<uint16_t>(i);
      std::memcpy(stored.bytes.data() + 1 + 2 * i, &bits, 2);
    }
    Matrix floats(64, 1024);
    kernels().to_float_rows(stored.rows, floats.rows);
    for (uint32_t i = 0; i < 65536; ++i) {
      const uint16_t bits = static_cast<uint16_t>(i);
      const float expected = dtype == Dtype::kF16 ? ToFloat(f16{bits}) : ToFloat(bf16{bits});
      ASSERT_TRUE(SameBits(&floats.data[i], &expected, 1)) << i;
    }
  }
}

TEST_P(ConvertTest, RoundsAnyBitPatternAsTheDefinition) {
  Matrix floats(257, 1001);
  std::mt19937 engine(3);
  for (float& x : floats.data) {
    uint32_t bits = static_cast<uint32_t>(engine());
    if (engine() % 2 == 0) bits = (bits & 0x8FFFFFFFu) | 0x30000000u;  // near the range of f16
    if (engine() % 4 == 0) bits &= 0xFFFFF000u;                        // ties
    x = std::bit_cast<float>(bits);
  }
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) {
    std::vector<std::byte> expected(257 * RowBytes(dtype, 1001)), rounded(expected.size());
    FromFloatRowsScalar(floats, dtype, expected.data());
    kernels().from_float_rows(floats, dtype, rounded.data());
    EXPECT_EQ(expected, rounded);
  }
}

TEST_P(ConvertTest, MatchesScalarAroundVectorWidths) {
  if (is_definition()) GTEST_SKIP();
  for (const Dtype dtype : kAllDtypes) {
    for (size_t width : kWidths) {
      if (dtype == Dtype::kQ8) width *= kQ8Block;
      const Matrix values = Matrix::Random(3, width, 4);
      const StoredMatrix expected(values, dtype);
      std::vector<std::byte> bytes(1 + 3 * RowBytes(dtype, width));
      kernels().from_float_rows(values, dtype, bytes.data() + 1);
      EXPECT_EQ(bytes, expected.bytes);
      Matrix floats(3, width);
      kernels().to_float_rows(expected.rows, floats.rows);
      EXPECT_EQ(floats.data, expected.ToFloats().data);
    }
  }
}

TEST_P(ConvertTest, Q8IsWithinHalfAStep) {
  const Matrix values = Matrix::Random(8, 256, 5);
  std::vector<std::byte> bytes(8 * RowBytes(Dtype::kQ8, 256));
  kernels().from_float_rows(values, Dtype::kQ8, bytes.data());
  Matrix floats(8, 256);
  kernels().to_float_rows({bytes.data(), Dtype::kQ8, 8, 256}, floats.rows);
  for (size_t block = 0; block < values.data.size(); block += kQ8Block) {
    float largest = 0;
    for (size_t i = 0; i < kQ8Block; ++i)
      largest = std::max(largest, std::abs(values.data[block + i]));
    const float step = ToFloat(ToF16(largest / 127));
    for (size_t i = block; i < block + kQ8Block; ++i) {
      // A scale rounded down makes the largest value clamp: at most 127 * 2^-11 of a step more.
      EXPECT_NEAR(floats.data[i], values.data[i], step * (0.5f + 127 * 0x1p-11f));
    }
  }
}

TEST_P(ConvertTest, Q8OfZerosTinyAndHugeValuesStaysFinite) {
  Matrix values(3, kQ8Block);
  for (size_t i = 0; i < kQ8Block; ++i) {
    values[1][i] = 1e-12f;  // the scale rounds to 0
    values[2][i] = 1e30f;   // the scale would round to infinity
  }
  std::vector<std::byte> bytes(3 * RowBytes(Dtype::kQ8, kQ8Block));
  kernels().from_float_rows(values, Dtype::kQ8, bytes.data());
  Matrix floats(3, kQ8Block);
  kernels().to_float_rows({bytes.data(), Dtype::kQ8, 3, kQ8Block}, floats.rows);
  EXPECT_EQ(floats[0][0], 0);
  EXPECT_EQ(floats[1][31], 0);
  EXPECT_EQ(floats[2][7], 127 * 65504.0f);
}

INSTANTIATE_TEST_SUITE_P(Backends, ConvertTest, testing::ValuesIn(AllRuns()), RunName);

}  // namespace
}  // namespace lectern
