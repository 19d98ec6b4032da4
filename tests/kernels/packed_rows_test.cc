#include "kernels/packed_rows.h"

#include <cmath>

#include "tests/kernels/kernel_case.h"

namespace lectern {
namespace {

// The mean of squares of what packing changes, over that of the values.
double ErrorOf(const Matrix& values, PackedType type) {
  const Matrix packed = PackedMatrix(values, type).ToFloats();
  double error = 0, square = 0;
  for (size_t i = 0; i < values.data.size(); ++i) {
    error += std::pow(packed.data[i] - values.data[i], 2);
    square += std::pow(values.data[i], 2);
  }
  return error / square;
}

TEST(PackedRowsTest, LiesAsItsHeaderSays) {
  Matrix values(3, 64);
  values[1][0] = 127;  // scale 1
  values[1][2] = -5;
  values[2][46] = 63.5f;  // k 14 of group 1, scale 0.5
  const PackedMatrix q8(values, PackedType::kQ8);
  ASSERT_EQ(q8.rows.bytes(), 2u * (32 + 32 * 16));
  const auto at = [&](size_t i) { return std::to_integer<int>(q8.rows.data[i]); };
  EXPECT_EQ(at(2) | at(3) << 8, 0x3C00);  // f16 1, column 1
  EXPECT_EQ(at(32 + 4 * 1), 127);
  EXPECT_EQ(at(32 + 4 * 1 + 2), 256 - 5);
  EXPECT_EQ(at(544 + 4) | at(544 + 5) << 8, 0x3800);
  EXPECT_EQ(at(544 + 32 + 3 * 64 + 4 * 2 + 2), 127);
  EXPECT_EQ(q8.ToFloats().data, values.data);

  Matrix nibbles(10, 32);
  for (int i = 0; i < 16; ++i) nibbles[1][i] = static_cast<float>(i - 8), nibbles[9][i] = 8.0f - i;
  const PackedMatrix q4(nibbles, PackedType::kQ4);
  ASSERT_EQ(q4.rows.bytes(), 32u + 32 * 8);
  EXPECT_EQ(q4.ToFloats().data, nibbles.data);
  // At k = 6 column 1 is -2 steps of 1, and column 9, whose value is 2, -2 steps of -1; stored plus 8.
  EXPECT_EQ(std::to_integer<int>(q4.rows.data[32 + 32 + 4 * 1 + 2]), 0x66);
}

// Tests normal values. A step of 8 bits is the 127th of about 2.1 deviations: 1/12 of its square is
// 2.3e-5; the searched scale of 4 bits comes to 7.5e-3, a 7th of the largest value to 9e-3.
TEST(PackedRowsTest, ErrsAsLittleAsItsStepsAllow) {
  const Matrix values = Matrix::Random(48, 512, 1, 0.02f);
  EXPECT_LT(ErrorOf(values, PackedType::kQ8), 3e-5);
  EXPECT_LT(ErrorOf(values, PackedType::kQ4), 8e-3);
}

TEST(PackedRowsTest, RefusesWhatNoScaleHolds) {
  std::vector<std::byte> panel(32 + 32 * 16);
  for (const PackedType type : {PackedType::kQ8, PackedType::kQ4}) {
    for (const float bad : {kInf, -kInf, NAN, 5e5f}) {
      Matrix values(2, 32, 1);
      values[1][7] = bad;
      EXPECT_FALSE(PackPanel(values, type, panel.data())) << bad;
    }
    for (const float fine : {0.0f, 1e-30f, 1e-6f, 1e-3f, 4e5f, -4e5f}) {
      const Matrix values(2, 32, fine);
      ASSERT_TRUE(PackPanel(values, type, panel.data()));
      const float value = PackedElement({panel.data(), type, 2, 32}, 1, 5);
      // The least scale is 2^-24: a group of nothing but tiny values may become zeros.
      EXPECT_NEAR(value, fine, 0.01 * std::abs(fine) + 127 * 0x1p-25) << fine;
    }
  }
}

// Many small values beside one large one: the scale that fits them best exceeds a 7th of the large
// value, and here f16's range, although the large value alone would fit.
TEST(PackedRowsTest, RefusesAScaleThatGrowsOutOfF16) {
  std::vector<std::byte> panel(32 + 32 * 8);
  for (const float largest : {4e5f, 7 * 65504.0f}) {
    Matrix values(1, 32, 0.167f * largest);
    values[0][5] = largest;
    if (!PackPanel(values, PackedType::kQ4, panel.data())) continue;
    const PackedRows rows = {panel.data(), PackedType::kQ4, 1, 32};
    for (size_t k = 0; k < 32; ++k) {
      EXPECT_NEAR(PackedElement(rows, 0, k), values[0][k], largest / 8) << largest << ' ' << k;
    }
  }
}

}  // namespace
}  // namespace lectern
