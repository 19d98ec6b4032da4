#include "kernels/types.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace lectern {
namespace {

// binary16 by its textbook meaning: (-1)^s * 2^(e-15) * 1.m, subnormals 2^-14 * 0.m.
double ValueOf(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double mantissa = bits & 0x3FF;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(F16Test, EveryFiniteValueConvertsExactly) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    if ((bits & 0x7C00) == 0x7C00) continue;
    ASSERT_EQ(ToFloat(f16{static_cast<uint16_t>(bits)}), ValueOf(static_cast<uint16_t>(bits)));
  }
}

TEST(F16Test, EveryValueRoundTrips) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i);
    const bool is_nan = (bits & 0x7FFF) > 0x7C00;
    const uint16_t expected = is_nan ? static_cast<uint16_t>(bits | 0x200) : bits;  // made quiet
    ASSERT_EQ(ToF16(ToFloat(f16{bits})).bits, expected) << bits;
  }
}

// The nearest of all non-negative finite values, an even mantissa among two as near.
uint16_t NearestF16(double magnitude) {
  static const std::vector<double> values = [] {
    std::vector<double> all;
    for (uint16_t bits = 0; bits < 0x7C00; ++bits) all.push_back(ValueOf(bits));
    all.push_back(65536);  // what infinity stands for when rounding
    return all;
  }();
  const size_t above = static_cast<size_t>(
      std::lower_bound(values.begin(), values.end(), magnitude) - values.begin());
  if (above == values.size()) return 0x7C00;
  if (above == 0) return 0;
  const double down = magnitude - values[above - 1], up = values[above] - magnitude;
  const bool take_up = up < down || (up == down && above % 2 == 0);
  return static_cast<uint16_t>(take_up ? above : above - 1);
}

void ExpectNearest(float x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  ASSERT_EQ(ToF16(x).bits, sign | NearestF16(std::abs(static_cast<double>(x)))) << x;
}

TEST(F16Test, RoundsToTheNearest) {
  std::mt19937 engine(1);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(engine()));
    if (!std::isnan(x)) ExpectNearest(x);
    // Exponents around the f16 range, where most of the cases are.
    ExpectNearest(
        std::ldexp(1 + static_cast<float>(engine() >> 9) * 0x1p-23f, int(engine() % 44) - 27));
  }
}

TEST(F16Test, RoundsTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7C00; ++bits) {
    const double low = ValueOf(static_cast<uint16_t>(bits));
    const double high = bits == 0x7BFF ? 65536 : ValueOf(static_cast<uint16_t>(bits + 1));
    const float tie = static_cast<float>((low + high) / 2);
    ExpectNearest(tie);
    ExpectNearest(-tie);
    ExpectNearest(std::nextafter(tie, 0.0f));
    ExpectNearest(std::nextafter(tie, 1e9f));
  }
}

TEST(F16Test, KeepsNanAndInfinity) {
  EXPECT_EQ(ToF16(INFINITY).bits, 0x7C00);
  EXPECT_EQ(ToF16(-INFINITY).bits, 0xFC00);
  EXPECT_TRUE(std::isnan(ToFloat(ToF16(NAN))));
  EXPECT_TRUE(std::isnan(ToFloat(ToF16(std::bit_cast<float>(0x7F800001u)))));  // payload is lost
}

TEST(Bf16Test, EveryValueRoundTrips) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i);
    const bool is_nan = (bits & 0x7FFF) > 0x7F80;
    const uint16_t expected = is_nan ? static_cast<uint16_t>(bits | 0x40) : bits;
    ASSERT_EQ(ToBf16(ToFloat(bf16{bits})).bits, expected) << bits;
  }
}

TEST(Bf16Test, RoundsToTheNearestTiesToEven) {
  EXPECT_EQ(ToBf16(std::bit_cast<float>(0x3F808000u)).bits, 0x3F80);  // tie, even below
  EXPECT_EQ(ToBf16(std::bit_cast<float>(0x3F818000u)).bits, 0x3F82);  // tie, even above
  EXPECT_EQ(ToBf16(std::bit_cast<float>(0x3F808001u)).bits, 0x3F81);
  EXPECT_EQ(ToBf16(std::bit_cast<float>(0x3F817FFFu)).bits, 0x3F81);
  EXPECT_EQ(ToBf16(std::numeric_limits<float>::max()).bits, 0x7F80);
  EXPECT_TRUE(std::isnan(ToFloat(ToBf16(std::bit_cast<float>(0x7F800001u)))));
}

TEST(RowBytesTest, Q8HoldsAScaleAndThirtyTwoBytesABlock) {
  EXPECT_EQ(RowBytes(Dtype::kQ8, 64), 68u);
  EXPECT_EQ(RowBytes(Dtype::kF32, 3), 12u);
  EXPECT_EQ(RowBytes(Dtype::kF16, 3), 6u);
  EXPECT_EQ(RowBytes(Dtype::kBf16, 3), 6u);
}

}  // namespace
}  // namespace lectern
