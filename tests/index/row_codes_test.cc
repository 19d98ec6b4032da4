#include "index/row_codes.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <numeric>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "tests/index/decoded_codes.h"
#include "tests/index/random_keys.h"

namespace lectern {
namespace {

using testing::DecodedFine;
using testing::DecodedRow;
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

struct Codes {
  Codes(std::span<const float> key, std::span<const float> centroid)
      : row(RowCodeBytes(key.size()), std::byte{0xAA}),
        fine(FineCodeBytes(key.size()), std::byte{0xAA}) {
    EncodeRow(key, centroid, row.data(), fine.data());
  }
  std::vector<std::byte> row, fine;
};

// f s of one key's row code, or g u with its fine code.
std::vector<float> EncodeAndDecode(std::span<const float> key, std::span<const float> centroid,
                                   bool fine = false) {
  const Codes codes(key, centroid);
  return fine ? DecodedFine(codes.row.data(), codes.fine.data(), key.size())
              : DecodedRow(codes.row.data(), key.size());
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

// The rotation spreads the mass of one dimension over all of them, so that signs say something.
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

// By the definition of a Hadamard transform, in double.
TEST(RowCodesTest, RotationIsMadeOfItsSigns) {
  for (const size_t d : {1, 2, 8, 40, 64, 80, 96, 128, 200, 256}) {
    const std::vector<uint32_t> signs = RotationSigns(d);
    const size_t num_words = (d + 31) / 32, p = std::bit_floor(d);
    ASSERT_EQ(signs.size(), 2 * num_words) << d;
    const OwnRows rows = NormalRows(1, d, 3);
    std::vector<double> x(rows[0], rows[0] + d);
    for (size_t round = 0; round < 2; ++round) {
      double* const part = x.data() + (round == 0 ? 0 : d - p);
      std::vector<double> sums(p);
      for (size_t i = 0; i < p; ++i) {
        for (size_t c = 0; c < p; ++c) {
          const bool is_negated = signs[round * num_words + c / 32] >> (c % 32) & 1;
          sums[i] += (std::popcount(i & c) % 2 == 1) != is_negated ? -part[c] : part[c];
        }
      }
      for (size_t i = 0; i < p; ++i) part[i] = sums[i] / std::sqrt(static_cast<double>(p));
    }
    const std::vector<float> rotated = Rotated({rows[0], d});
    for (size_t c = 0; c < d; ++c) EXPECT_NEAR(rotated[c], x[c], 1e-5) << d << ", " << c;
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
  // Golden, from a Python script that knows only the text of FORMAT.md, section 5a:
  // key[c] = sin(c + 1), centroid[c] = 0.25 cos(3 c). Row code, fine code.
  const std::tuple<size_t, const char*, const char*> golden[] = {
      {16, "be2087", "511814e06d"},
      {48, "b2d63f7ad8358d", "6fa35f6b2649e0d180a021186c"},
      {80, "a0d07e7391a7f952127d90", "e591428624820075606240200a482a010e0410386f"}};
  for (const auto& [d, row, fine] : golden) {
    std::vector<float> key(d), centroid(d);
    for (size_t c = 0; c < d; ++c) {
      key[c] = static_cast<float>(std::sin(static_cast<double>(c + 1)));
      centroid[c] = static_cast<float>(0.25 * std::cos(3 * static_cast<double>(c)));
    }
    const Codes codes(key, centroid);
    EXPECT_EQ(Hex(codes.row), row) << d;
    EXPECT_EQ(Hex(codes.fine), fine) << d;
  }
}

TEST(RowCodesTest, SizesArePlanesAndAFactor) {
  EXPECT_EQ(RowCodeBytes(2), 2u);
  EXPECT_EQ(RowCodeBytes(8), 2u);
  EXPECT_EQ(RowCodeBytes(9), 3u);
  EXPECT_EQ(RowCodeBytes(64), 9u);
  EXPECT_EQ(FineCodeBytes(9), 5u);
  EXPECT_EQ(FineCodeBytes(64), 17u);
  EXPECT_EQ(FineCodeBytes(128), 33u);
}

// Factors are chosen so that codes are exact along the residual itself: <H r, f s> = |r|^2.
TEST(RowCodesTest, CodeIsExactAlongTheResidual) {
  for (const size_t d : kDims) {
    for (unsigned seed = 0; seed < 50; ++seed) {
      const OwnRows rows = NormalRows(2, d, seed);
      std::vector<float> residual(d);
      for (size_t c = 0; c < d; ++c) residual[c] = rows[0][c] - rows[1][c];
      const double squares = Dot(residual, residual);
      // A factor has 3 bits after the first.
      const auto decoded = EncodeAndDecode({rows[0], d}, {rows[1], d});
      EXPECT_NEAR(Dot(Rotated(residual), decoded), squares, squares * (0x1p-4 + 1e-3)) << d;
      for (const float x : decoded) {
        EXPECT_FLOAT_EQ(std::abs(x), std::abs(decoded[0]));
      }
      const auto fine = EncodeAndDecode({rows[0], d}, {rows[1], d}, true);
      EXPECT_NEAR(Dot(Rotated(residual), fine), squares, squares * (0x1p-4 + 1e-3)) << d;
      for (size_t c = 0; c < d; ++c) EXPECT_EQ(std::signbit(fine[c]), std::signbit(decoded[c]));
    }
  }
}

// RaBitQ: with r at angle a to its code, <Hq, f s> = <q, r> + |r| tan(a) * (the part of q along
// the code's remainder), which is centred, of deviation |q||r| tan(a) / sqrt(d - 1). For signs
// E cos(a) is about sqrt(2 / pi), so tan(a) is near 0.755; a uniform quantiser of 3 bits loses
// 3.7 % of a normal variable's power, so that tan(a) is near 0.2. The bounds leave a fifth of room.
TEST(RowCodesTest, EstimatesAreUnbiasedAndAsGoodAsRaBitQ) {
  constexpr size_t kNumKeys = 400, kQueries = 50;
  for (const size_t d : kDims) {
    if (d < 16) continue;  // the law is for many dimensions
    const OwnRows keys = NormalRows(kNumKeys, d, 11), centroids = NormalRows(kNumKeys, d, 12),
                  queries = NormalRows(kQueries, d, 13);
    for (const bool fine : {false, true}) {
      double sum = 0, squares = 0;
      for (size_t k = 0; k < kNumKeys; ++k) {
        std::vector<float> residual(d);
        for (size_t c = 0; c < d; ++c) residual[c] = keys[k][c] - centroids[k][c];
        const auto decoded = EncodeAndDecode({keys[k], d}, {centroids[k], d}, fine);
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
      const double count = kNumKeys * kQueries, mean = sum / count;
      const double deviation = std::sqrt(squares / count - mean * mean);
      const double law = (fine ? 0.2 : 0.755) / std::sqrt(static_cast<double>(d - 1));
      EXPECT_LT(deviation, 1.2 * law) << d << (fine ? " fine" : "");
      EXPECT_GT(deviation, 0.5 * law) << d << (fine ? " fine" : "");  // else nothing is measured
      EXPECT_LT(std::abs(mean), 0.03 * law) << d << (fine ? " fine" : "");
    }
  }
}

TEST(RowCodesTest, ZeroResidualHasFactorZero) {
  for (const size_t d : kDims) {
    const OwnRows key = NormalRows(1, d, 21);
    const Codes codes({key[0], d}, {key[0], d});
    EXPECT_EQ(codes.row.back(), std::byte{0});
    EXPECT_EQ(codes.fine.back(), std::byte{0});
    for (const bool fine : {false, true}) {
      for (const float x : EncodeAndDecode({key[0], d}, {key[0], d}, fine)) EXPECT_EQ(x, 0);
    }
  }
}

TEST(RowCodesTest, HugeAndTinyResidualsStayFinite) {
  for (const float size : {1e18f, 1e6f, 1e-6f, 1e-30f}) {
    const std::vector<float> key(16, size), centroid(16, -size);
    for (const bool fine : {false, true}) {
      for (const float x : EncodeAndDecode(key, centroid, fine)) {
        EXPECT_TRUE(std::isfinite(x)) << x;
      }
    }
  }
}

// s, p, p' of a row, one after the other.
std::vector<std::byte> FinePlanes(const Codes& codes, size_t d) {
  const size_t bytes = PlaneBytes(d);
  std::vector<std::byte> planes(codes.row.begin(),
                                codes.row.begin() + static_cast<ptrdiff_t>(bytes));
  planes.insert(planes.end(), codes.fine.begin(),
                codes.fine.begin() + static_cast<ptrdiff_t>(2 * bytes));
  const std::span<std::byte> all = planes;
  MakeFinePlanes(all.first(bytes), all.subspan(bytes, bytes), all.last(bytes));
  return planes;
}

TEST(RowCodesTest, FinePlanesAreThoseOfTheNumber) {
  for (const size_t d : kDims) {
    const OwnRows rows = NormalRows(2, d, 31);
    const Codes codes({rows[0], d}, {rows[1], d});
    const std::vector<std::byte> planes = FinePlanes(codes, d);
    const auto expected = DecodedFine(codes.row.data(), codes.fine.data(), d);
    const auto sign = [&](size_t plane, size_t c) {
      return testing::SignOf(planes.data() + plane * PlaneBytes(d), c);
    };
    for (size_t c = 0; c < d; ++c) {
      const float number = 4 * sign(0, c) + sign(1, c) + 2 * sign(2, c);
      EXPECT_FLOAT_EQ(FineFactor(codes.fine.data(), d) * number, expected[c]);
    }
  }
}

// q . r <= times_norm |q| + times_u <q, numbers>, for random and for the worst queries: along the
// residual, along its code, and where both meet.
TEST(RowCodesTest, BoundsHold) {
  double tightest = INFINITY;
  size_t checks = 0;
  for (const size_t d : kDims) {
    for (unsigned seed = 0; seed < 60; ++seed) {
      OwnRows rows = NormalRows(8, d, seed);
      for (size_t c = 0; c < d; ++c) rows[1][c] *= std::pow(10.0f, float(seed % 9) - 6);
      std::vector<float> residual(d);
      std::vector<float> key(d);
      for (size_t c = 0; c < d; ++c) {
        key[c] = rows[0][c] + rows[1][c] * (seed % 3 == 0 && c > 0 ? 0.01f : 1);
        residual[c] = key[c] - rows[0][c];
      }
      const std::vector<float> rotated = Rotated(residual);
      const Codes codes(key, {rows[0], d});
      const double r_norm = std::sqrt(Dot(rotated, rotated));
      const std::vector<std::byte> planes = FinePlanes(codes, d);
      for (const bool fine : {false, true}) {
        const ResidualBound bound =
            fine ? FineBound(codes.fine.data(), d) : RowBound(codes.row.data(), d);
        std::vector<float> number(d);
        for (size_t c = 0; c < d; ++c) {
          number[c] = testing::SignOf(codes.row.data(), c);
          if (fine) {
            number[c] = 4 * number[c] + testing::SignOf(planes.data() + PlaneBytes(d), c) +
                        2 * testing::SignOf(planes.data() + 2 * PlaneBytes(d), c);
          }
        }
        const double number_norm = std::sqrt(Dot(number, number));
        for (size_t q = 2; q < 12; ++q) {
          std::vector<float> query(d);
          for (size_t c = 0; c < d; ++c) {
            const double along_r = r_norm > 0 ? rotated[c] / r_norm : 0;
            const double along_code = number[c] / number_norm;
            if (q < 8) query[c] = rows[q][c];
            if (q == 8) query[c] = static_cast<float>(along_r);
            if (q == 9) query[c] = static_cast<float>(along_code);
            if (q == 10) query[c] = static_cast<float>(2 * along_r - along_code);
            if (q == 11) query[c] = static_cast<float>(2 * along_r - 1.5 * along_code);
          }
          const double norm = std::sqrt(Dot(query, query));
          const double most = bound.times_norm * norm + bound.times_u * Dot(query, number);
          ASSERT_LE(Dot(query, rotated), most + 1e-5 * norm * r_norm)
              << d << ' ' << fine << ' ' << q;
          if (r_norm > 1e-3 * Dot({rows[0], d}, {rows[0], d})) {
            tightest = std::min(tightest, most / (norm * r_norm));
          }
          ++checks;
        }
      }
    }
  }
  EXPECT_GT(checks, 8000u);
  EXPECT_LT(tightest, 0.5);  // where the radius of one row alone would say 1
}

}  // namespace
}  // namespace lectern
