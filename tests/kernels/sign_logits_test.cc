#include "kernels/sign_logits.h"

#include <cmath>

#include "kernels/softcap.h"
#include "tests/kernels/kernel_case.h"

namespace lectern {
namespace {

// Random planes of n rows, `stride` bytes apart, and the same packed.
struct Plane {
  Plane(size_t n, size_t dim, size_t row_bytes, unsigned seed)
      : bytes(n * row_bytes),
        packed(PackedSignBytes(n, PlaneBytes(dim)), std::byte{0xFF}),
        stride(row_bytes) {
    std::mt19937 random(seed);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    PackSigns({bytes.data(), stride, n, PlaneBytes(dim), packed.data()});
  }
  double sign(size_t row, size_t c) const {
    return std::to_integer<int>(bytes[row * stride + c / 8]) >> (c % 8) & 1 ? 1 : -1;
  }
  std::vector<std::byte> bytes, packed;
  size_t stride;
};

struct Tables {
  explicit Tables(Rows<const float> queries)
      : bytes(queries.num_rows * SignTableBytes(queries.num_cols)), scales(queries.num_rows) {
    MakeSignTables(queries, bytes, scales);
  }
  std::vector<uint8_t> bytes;
  std::vector<SignScale> scales;
};

class SignLogitsTest : public KernelTest {};

// Rounded sums are compared between machines and devices, so that no entry may differ.
TEST_P(SignLogitsTest, TablesEqualTheDefinition) {
  for (const size_t dim : {1, 2, 8, 57, 64, 96, 256, 640}) {
    Matrix queries = Matrix::Random(5, dim, 9, 3);
    std::fill_n(queries[2], dim, 0.0f);
    queries[3][0] = -0.0f;
    const Tables tables(queries);
    std::vector<uint8_t> expected(tables.bytes.size());
    FillSignTablesScalar({.queries = queries, .scales = tables.scales, .tables = expected});
    ASSERT_EQ(tables.bytes, expected) << dim;
  }
}

// Against sums of ±q in double; each group of four may be off by half a step.
TEST_P(SignLogitsTest, AddsInnerProductsWithSigns) {
  for (const size_t dim : {2, 8, 57, 64, 96, 128, 256}) {
    for (const size_t n : {1, 15, 32, 33, 100}) {
      for (const size_t rows : {1, 2, 3, 4, 5, 11}) {
        const Matrix queries = Matrix::Random(rows, dim, 1, 2);
        const Matrix factors = Matrix::Random(1, n, 3);
        const Plane s(n, dim, PlaneBytes(dim) + 1, 4), low(n, dim, PlaneBytes(dim), 5),
            high(n, dim, PlaneBytes(dim) + 2, 6);
        const Tables tables(queries);
        const SignPlanes planes = {s.packed.data(), low.packed.data(), high.packed.data()};
        for (const size_t num_planes : {1, 3}) {
          Matrix logits(rows, n + 5, 0.5f);
          kernels().add_sign_logits({.tables = tables.bytes,
                                     .scales = tables.scales,
                                     .plane_bytes = PlaneBytes(dim),
                                     .planes = num_planes == 1 ? SignPlanes{planes[0]} : planes,
                                     .factors = factors.data,
                                     .logits = Rows<float>(logits[0], rows, n, n + 5)});
          const double weights = num_planes == 1 ? 1 : 7;
          for (size_t r = 0; r < rows; ++r) {
            const double half_steps =
                tables.scales[r].step / 2 * static_cast<double>(2 * PlaneBytes(dim)) * weights;
            for (size_t t = 0; t < n; ++t) {
              double dot = 0;
              for (size_t c = 0; c < dim; ++c) {
                const double number = num_planes == 1
                                          ? s.sign(t, c)
                                          : 4 * s.sign(t, c) + low.sign(t, c) + 2 * high.sign(t, c);
                dot += queries[r][c] * number;
              }
              const double factor = factors.data[t];
              ASSERT_NEAR(logits[r][t], 0.5 + factor * dot,
                          1e-5 + std::abs(factor) * half_steps * 1.001)
                  << dim << ' ' << n << ' ' << r << ' ' << t;
            }
            for (size_t t = n; t < n + 5; ++t) ASSERT_EQ(logits[r][t], 0.5f);
          }
        }
      }
    }
  }
}

// The bound above is the worst case. In the mean the rounding is far below what one bit leaves
// unknown: of deviation |q| 0.6 (for a code of length 1).
TEST_P(SignLogitsTest, RoundingIsSmall) {
  constexpr size_t kDim = 64, kRows = 512;
  const Matrix queries = Matrix::Random(1, kDim, 7);
  const Plane s(kRows, kDim, 8, 8);
  const Tables tables(queries);
  const SignPlanes planes = {s.packed.data()};
  const std::vector<float> factors(kRows, 1 / std::sqrt(float{kDim}));
  Matrix logits(1, kRows, 0.0f);
  kernels().add_sign_logits({tables.bytes, tables.scales, 8, planes, factors, logits.rows});
  double squares = 0, norm = 0;
  for (size_t c = 0; c < kDim; ++c) norm += double{queries[0][c]} * queries[0][c];
  for (size_t t = 0; t < kRows; ++t) {
    double dot = 0;
    for (size_t c = 0; c < kDim; ++c) dot += queries[0][c] * s.sign(t, c) * factors[0];
    squares += (logits[0][t] - dot) * (logits[0][t] - dot) / kRows;
  }
  EXPECT_LT(std::sqrt(squares), 0.02 * std::sqrt(norm));
}

TEST_P(SignLogitsTest, EqualsTheDefinition) {
  const Backend& scalar = *FindBackend("scalar");
  for (const size_t dim : {16, 64, 100, 128, 288, 640}) {  // the last has smaller tables
    for (const size_t n : kWidths) {
      constexpr size_t kRows = 7;
      const Matrix queries = Matrix::Random(kRows, dim, 1, 5), factors = Matrix::Random(1, n, 2);
      const Plane s(n, dim, PlaneBytes(dim), 3), low(n, dim, PlaneBytes(dim), 4),
          high(n, dim, PlaneBytes(dim), 5);
      const Tables tables(queries);
      const SignPlanes planes = {s.packed.data(), low.packed.data(), high.packed.data()};
      for (const size_t num_planes : {1, 3}) {
        Matrix expected(kRows, n, 0.0f), logits(kRows, n, 0.0f);
        const SignPlanes used = num_planes == 1 ? SignPlanes{planes[0]} : planes;
        scalar.add_sign_logits(
            {tables.bytes, tables.scales, PlaneBytes(dim), used, factors.data, expected.rows});
        kernels().add_sign_logits(
            {tables.bytes, tables.scales, PlaneBytes(dim), used, factors.data, logits.rows});
        for (size_t r = 0; r < kRows; ++r) {
          const double size = 7.0 * std::abs(tables.scales[r].offset);
          for (size_t t = 0; t < n; ++t) {
            ASSERT_NEAR(logits[r][t], expected[r][t], 1e-6 * size * std::abs(factors.data[t]));
          }
        }
      }
    }
  }
}

// Masses are what logits, softcap, exponentials and weighted sums make of them one after the other.
class SignMassesTest : public SignLogitsTest {
 protected:
  enum class Wanted { kMasses, kScores, kChanges };

  void Check(size_t dim, size_t n, size_t rows, bool one_bit, float softcap, Wanted wanted) {
    const Matrix queries = Matrix::Random(rows, dim, 1), factors = Matrix::Random(1, n, 2);
    const Matrix start = Matrix::Random(rows, n, 3, 30), reference = Matrix::Random(1, rows, 4, 9);
    const Matrix sign_factors = Matrix::Random(1, n, 5);
    const Plane s(n, dim, PlaneBytes(dim), 6), low(n, dim, PlaneBytes(dim), 7),
        high(n, dim, PlaneBytes(dim), 8);
    const Tables tables(queries);
    SignPlanes planes = {s.packed.data()};
    if (!one_bit) planes = {s.packed.data(), low.packed.data(), high.packed.data()};
    std::vector<float> weights, scores;
    if (wanted == Wanted::kScores) {
      for (size_t r = 0; r < rows; ++r) weights.push_back(0.25f * static_cast<float>(r));
      scores.assign(n, 0.25f);
    }
    Matrix masses = start, changes(wanted == Wanted::kChanges ? rows : 0, n);
    SignMassesArgs args = {
        .codes = {tables.bytes, tables.scales, PlaneBytes(dim), planes, factors.data, masses.rows},
        .reference = reference.data,
        .softcap = softcap,
        .weights = weights,
        .scores = scores};
    if (wanted == Wanted::kChanges) {
      args.sign_factors = sign_factors.data;
      args.changes = changes.rows;
    }
    kernels().sign_masses(args);
    const auto expected = [&](const SignPlanes& of, const Matrix& by) {
      Matrix logits = start;
      FindBackend("scalar")->add_sign_logits(
          {tables.bytes, tables.scales, PlaneBytes(dim), of, by.data, logits.rows});
      for (size_t r = 0; r < rows; ++r) {
        for (size_t t = 0; t < n; ++t) {
          const double x = Softcapped(logits[r][t], softcap) - reference.data[r];
          logits[r][t] = static_cast<float>(std::exp(std::min(x, 80.0)));
        }
      }
      return logits;
    };
    const Matrix all = expected(planes, factors);
    const Matrix by_signs = expected({planes[0]}, sign_factors);
    constexpr double kSlack = 2e-4;  // logits differ, too
    std::vector<double> sums(n, 0.25);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t t = 0; t < n; ++t) {
        const double slack = kSlack * (all[r][t] + by_signs[r][t]) + 1e-30;
        ASSERT_NEAR(masses[r][t], all[r][t], kSlack * all[r][t] + 1e-30) << dim << ' ' << n;
        if (!weights.empty()) sums[t] += weights[r] * all[r][t];
        if (wanted == Wanted::kChanges) {
          ASSERT_NEAR(changes[r][t], all[r][t] - by_signs[r][t], slack);
        }
      }
    }
    for (size_t t = 0; t < scores.size(); ++t) ASSERT_NEAR(scores[t], sums[t], kSlack * sums[t]);
  }
};

TEST_P(SignMassesTest, AreThoseOfOneStepAfterTheOther) {
  for (const size_t dim : {8, 64, 88, 128}) {
    for (const size_t n : {1, 31, 32, 77}) {
      for (const size_t rows : {1, 2, 3, 4, 9}) {
        for (const float softcap : {0.0f, 20.0f}) {
          Check(dim, n, rows, true, softcap, Wanted::kMasses);
          Check(dim, n, rows, true, softcap, Wanted::kScores);
          Check(dim, n, rows, false, softcap, Wanted::kMasses);
          Check(dim, n, rows, false, softcap, Wanted::kChanges);
        }
      }
    }
  }
}

TEST_P(SignLogitsTest, QueryOfZerosAddsNothing) {
  const Matrix queries(1, 64, 0.0f);
  const Plane s(40, 64, 8, 1);
  const Tables tables(queries);
  const SignPlanes planes = {s.packed.data()};
  const std::vector<float> factors(40, 3);
  Matrix logits(1, 40, 2.0f);
  kernels().add_sign_logits({tables.bytes, tables.scales, 8, planes, factors, logits.rows});
  for (const float logit : logits.data) EXPECT_EQ(logit, 2);
}

INSTANTIATE_TEST_SUITE_P(Backends, SignLogitsTest, testing::ValuesIn(AllRuns()), RunName);
INSTANTIATE_TEST_SUITE_P(Backends, SignMassesTest, testing::ValuesIn(AllRuns()), RunName);

}  // namespace
}  // namespace lectern
