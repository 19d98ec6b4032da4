#include "index/row_codes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <iomanip>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/index/random_keys.h"

namespace lectern {
namespace {

using testing::NormalRows;
using testing::OwnRows;

constexpr size_t kDims[] = {2, 8, 16, 48, 64, 80, 96, 128};

double Dot(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

std::vector<float> Rotated(std::span<const float> x) {
  std::vector<float> result(x.begin(), x.end());
  Rotate(result);
  return result;
}

// f s of one key's code.
std::vector<float> EncodeAndDecode(std::span<const float> key, std::span<const float> centroid) {
  std::vector<std::byte> code(RowCodeBytes(key.size()));
  EncodeRow(key, centroid, code.data());
  std::vector<float> decoded(key.size());
  DecodeRows(code.data(), {decoded.data(), 1, decoded.size()});
  return decoded;
}

std::string Hex(std::span<const std::byte> bytes) {
  std::ostringstream out;
  for (const std::byte b : bytes) {
    out << std::hex << std::setw(2) << std::setfill('0') << static_cast<int>(b);
  }
  return out.str();
}

TEST(RowCodesTest, RotationKeepsDotProducts) {
  for (const size_t d : kDims) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      const OwnRows rows = NormalRows(2, d, seed);
      const std::span<const float> a(rows[0], d), b(rows[1], d);
      const double bound = 1e-5 * std::sqrt(Dot(a, a) * Dot(b, b));
      EXPECT_NEAR(Dot(Rotated(a), Rotated(b)), Dot(a, b), bound) << d;
      EXPECT_NEAR(Dot(Rotated(a), Rotated(a)), Dot(a, a), 1e-5 * Dot(a, a)) << d;
    }
  }
}

// What the rotation is for: one dimension's mass ends in all of them, so that signs say something.
TEST(RowCodesTest, RotationSpreadsOneDimension) {
  for (const size_t d : {16, 64, 128}) {
    for (size_t c = 0; c < d; c += 5) {
      std::vector<float> unit(d);
      unit[c] = 1;
      // Powers of two: two transforms over all dimensions, with signs between them.
      for (const float x : Rotated(unit)) EXPECT_LT(std::abs(x), 6 / std::sqrt(double(d)));
      EXPECT_NE(Rotated(unit), unit);
    }
  }
}

TEST(RowCodesTest, RotationIsTheOneOfTheFormat) {
  // Golden: H of (1, 2, …, 8). A change here makes every stored row code wrong.
  std::vector<float> x(8);
  std::iota(x.begin(), x.end(), 1.0f);
  Rotate(x);
  const float expected[8] = {-10, 5, -8, 3, -2, -1, 0, 1};
  for (size_t c = 0; c < 8; ++c) EXPECT_NEAR(x[c], expected[c], 1e-5) << c << ": " << x[c];
}

TEST(RowCodesTest, BytesOfOneKeyAreKnown) {
  // Golden, from a Python script that knows only the text of row_codes.h and the signs' recipe
  // (splitmix64): key[c] = sin(c + 1), centroid[c] = 0.25 cos(3 c).
  const std::pair<size_t, const char*> golden[] = {
      {16, "be206b43"}, {48, "b2d63f7ad8354d46"}, {80, "a0d07e7391a7f952127d3248"}};
  for (const auto& [d, expected] : golden) {
    std::vector<float> key(d), centroid(d);
    for (size_t c = 0; c < d; ++c) {
      key[c] = static_cast<float>(std::sin(static_cast<double>(c + 1)));
      centroid[c] = static_cast<float>(0.25 * std::cos(3 * static_cast<double>(c)));
    }
    std::vector<std::byte> code(RowCodeBytes(d));
    EncodeRow(key, centroid, code.data());
    EXPECT_EQ(Hex(code), expected) << d;
  }
}

TEST(RowCodesTest, SizeIsOneBitADimensionAndAFactor) {
  EXPECT_EQ(RowCodeBytes(2), 3u);
  EXPECT_EQ(RowCodeBytes(8), 3u);
  EXPECT_EQ(RowCodeBytes(9), 4u);
  EXPECT_EQ(RowCodeBytes(64), 10u);
  EXPECT_EQ(RowCodeBytes(80), 12u);
  EXPECT_EQ(RowCodeBytes(128), 18u);
}

// f is chosen so that the code is exact along the residual itself: <H r, f s> = |r|^2.
TEST(RowCodesTest, CodeIsExactAlongTheResidual) {
  for (const size_t d : kDims) {
    for (unsigned seed = 0; seed < 50; ++seed) {
      const OwnRows rows = NormalRows(2, d, seed);
      std::vector<float> residual(d);
      for (size_t c = 0; c < d; ++c) residual[c] = rows[0][c] - rows[1][c];
      const auto decoded = EncodeAndDecode({rows[0], d}, {rows[1], d});
      const double squares = Dot(residual, residual);
      // f16 keeps 11 bits of f.
      EXPECT_NEAR(Dot(Rotated(residual), decoded), squares, squares * (0x1p-11 + 1e-5)) << d;
      for (const float x : decoded) {
        EXPECT_FLOAT_EQ(std::abs(x), std::abs(decoded[0]));
      }
    }
  }
}

// RaBitQ: with r at angle a to its signs, <Hq, f s> = <q, r> + |r| tan(a) * (the part of q along
// s's remainder), which is centred, of deviation |q||r| tan(a) / sqrt(d - 1). E cos(a) is about
// sqrt(2 / pi), so tan(a) is near 0.755; the bound leaves a fifth of room.
TEST(RowCodesTest, EstimateIsUnbiasedAndAsGoodAsRaBitQ) {
  constexpr size_t kKeys = 400, kQueries = 50;
  for (const size_t d : kDims) {
    if (d < 16) continue;  // the law is for many dimensions
    const OwnRows keys = NormalRows(kKeys, d, 11), centroids = NormalRows(kKeys, d, 12),
                  queries = NormalRows(kQueries, d, 13);
    double sum = 0, squares = 0;
    for (size_t k = 0; k < kKeys; ++k) {
      std::vector<float> residual(d);
      for (size_t c = 0; c < d; ++c) residual[c] = keys[k][c] - centroids[k][c];
      const auto decoded = EncodeAndDecode({keys[k], d}, {centroids[k], d});
      const double length = std::sqrt(Dot(residual, residual));
      for (size_t q = 0; q < kQueries; ++q) {
        const std::span<const float> query(queries[q], d);
        const double exact = Dot(query, residual);
        const double error = Dot(Rotated(query), decoded) - exact;
        const double relative = error / (length * std::sqrt(Dot(query, query)));
        sum += relative;
        squares += relative * relative;
      }
    }
    const double count = kKeys * kQueries, mean = sum / count;
    const double deviation = std::sqrt(squares / count - mean * mean);
    const double law = 0.755 / std::sqrt(static_cast<double>(d - 1));
    EXPECT_LT(deviation, 1.2 * law) << d;
    EXPECT_GT(deviation, 0.5 * law) << d;  // else this test measures nothing
    EXPECT_LT(std::abs(mean), 0.02 * law) << d;
  }
}

TEST(RowCodesTest, ZeroResidualHasFactorZero) {
  for (const size_t d : kDims) {
    const OwnRows key = NormalRows(1, d, 21);
    std::vector<std::byte> code(RowCodeBytes(d), std::byte{0xAA});
    EncodeRow({key[0], d}, {key[0], d}, code.data());
    f16 factor;
    std::memcpy(&factor, code.data() + (d + 7) / 8, sizeof factor);
    EXPECT_EQ(factor.bits, 0);
    for (const float x : EncodeAndDecode({key[0], d}, {key[0], d})) EXPECT_EQ(x, 0);
  }
}

TEST(RowCodesTest, HugeResidualStaysFinite) {
  const std::vector<float> key(16, 1e6f), centroid(16, -1e6f);
  for (const float x : EncodeAndDecode(key, centroid)) EXPECT_TRUE(std::isfinite(x)) << x;
}

TEST(RowCodesTest, PackedCodesDecodeOneByOne) {
  for (const size_t d : {size_t{2}, size_t{12}, size_t{16}, size_t{80}}) {
    const OwnRows keys = NormalRows(5, d, 31), centroid = NormalRows(1, d, 32);
    const size_t bytes = RowCodeBytes(d);
    std::vector<std::byte> codes(5 * bytes);
    for (size_t i = 0; i < 5; ++i) {
      EncodeRow({keys[i], d}, {centroid[0], d}, codes.data() + i * bytes);
    }
    std::vector<float> padded(5 * (d + 3), 7.0f);
    DecodeRows(codes.data(), {padded.data(), 5, d, d + 3});
    for (size_t i = 0; i < 5; ++i) {
      const auto expected = EncodeAndDecode({keys[i], d}, {centroid[0], d});
      for (size_t c = 0; c < d; ++c) EXPECT_EQ(padded[i * (d + 3) + c], expected[c]);
      for (size_t c = d; c < d + 3; ++c) EXPECT_EQ(padded[i * (d + 3) + c], 7.0f);
    }
  }
}

}  // namespace
}  // namespace lectern
