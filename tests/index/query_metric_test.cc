#include "index/query_metric.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "index/row_codes.h"
#include "kernels/backend.h"
#include "tests/index/decoded_codes.h"

namespace lectern {
namespace {

using Vector = std::vector<double>;

double Dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Rows that vary by `deviations` along directions that a few reflections have turned.
std::vector<float> TurnedRows(size_t num_rows, const Vector& deviations, unsigned directions,
                              unsigned seed) {
  const size_t dim = deviations.size();
  std::mt19937 engine(directions);
  std::normal_distribution<double> normal(0, 1);
  std::vector<Vector> mirrors(3, Vector(dim));
  for (Vector& mirror : mirrors) {
    for (double& x : mirror) x = normal(engine);
    const double length = std::sqrt(Dot(mirror, mirror));
    for (double& x : mirror) x /= length;
  }
  engine.seed(seed);
  std::vector<float> rows;
  for (size_t r = 0; r < num_rows; ++r) {
    Vector row(dim);
    for (size_t c = 0; c < dim; ++c) row[c] = deviations[c] * normal(engine);
    for (const Vector& mirror : mirrors) {
      const double along = Dot(row, mirror);
      for (size_t c = 0; c < dim; ++c) row[c] -= 2 * along * mirror[c];
    }
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

Rows<const float> View(const std::vector<float>& rows, size_t dim) {
  return {rows.data(), rows.size() / dim, dim};
}

SquareMatrix Moments(const std::vector<float>& rows, size_t dim, double share = 0.05) {
  return *Shrunk(SecondMoments(View(rows, dim)), dim, share);
}

// M query, as lookups compute it.
std::vector<float> MeasuredQuery(const QueryMetric& metric, const float* query) {
  const size_t dim = metric.dim();
  std::vector<float> out(dim), scratch(AttendScratch(1, dim));
  DefaultBackend()->key_logits({.queries = {query, 1, dim},
                                .keys = metric.rows(),
                                .scale = 1,
                                .logits = {out.data(), 1, dim},
                                .scratch = scratch});
  return out;
}

Vector MeasuredKey(const QueryMetric& metric, const float* key) {
  Vector out(key, key + metric.dim());
  metric.OfKey(out);
  return out;
}

double MeanSquare(std::span<const double> x) { return Dot(x, x) / static_cast<double>(x.size()); }

// The error of a logit is in proportion to this: tr(M S M^T) tr(A R A^T), by rows.
double Noise(const QueryMetric& metric, const std::vector<float>& queries,
             const std::vector<float>& residuals) {
  const size_t dim = metric.dim();
  double of_queries = 0, of_residuals = 0;
  for (size_t r = 0; r < queries.size() / dim; ++r) {
    const std::vector<float> query = MeasuredQuery(metric, &queries[r * dim]);
    of_queries += MeanSquare(Vector(query.begin(), query.end()));
  }
  for (size_t r = 0; r < residuals.size() / dim; ++r) {
    of_residuals += MeanSquare(MeasuredKey(metric, &residuals[r * dim]));
  }
  return of_queries / static_cast<double>(queries.size() / dim) * of_residuals /
         static_cast<double>(residuals.size() / dim);
}

// Deviations from 1 to `ratio`, in equal steps of their logarithms.
Vector Deviations(size_t dim, double ratio) {
  Vector deviations;
  for (size_t c = 0; c < dim; ++c) {
    deviations.push_back(std::pow(ratio, static_cast<double>(c) / static_cast<double>(dim - 1)));
  }
  return deviations;
}

TEST(SquareMatrixTest, CholeskyIsARoot) {
  for (const size_t dim : {1, 2, 7, 64}) {
    const std::vector<float> rows = TurnedRows(3 * dim, Deviations(dim + 1, 9), 1, 2);
    const SquareMatrix moments = Moments(
        std::vector<float>(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(3 * dim * dim)),
        dim);
    const auto lower = Cholesky(moments, dim);
    ASSERT_TRUE(lower);
    for (size_t i = 0; i < dim; ++i) {
      for (size_t j = 0; j < dim; ++j) {
        if (j > i) {
          EXPECT_EQ((*lower)[i * dim + j], 0);
        }
        EXPECT_NEAR(
            Dot(std::span(*lower).subspan(i * dim, dim), std::span(*lower).subspan(j * dim, dim)),
            moments[i * dim + j], 1e-9 * std::abs(moments[0]) + 1e-12);
      }
    }
  }
  EXPECT_FALSE(Cholesky({1, 2, 2, 1}, 2));
  EXPECT_FALSE(Cholesky({0}, 1));
  EXPECT_FALSE(Cholesky({NAN}, 1));
}

TEST(SquareMatrixTest, ShrinkageKeepsTheTrace) {
  const SquareMatrix moments = {4, 1, 1, 2};
  EXPECT_EQ(*Shrunk(moments, 2, 0), moments);
  EXPECT_EQ(*Shrunk(moments, 2, 0.5), (SquareMatrix{3.5, 0.5, 0.5, 2.5}));
  EXPECT_EQ(*Shrunk(moments, 2, 1), (SquareMatrix{3, 0, 0, 3}));
  EXPECT_FALSE(Shrunk({0, 0, 0, 0}, 2, 0.5));
  EXPECT_FALSE(Shrunk({1, NAN, NAN, 1}, 2, 0.5));
  EXPECT_FALSE(Shrunk({INFINITY, 0, 0, 1}, 2, 0.5));
  EXPECT_EQ(ShrinkageOf(100000, 64), 0.05);
  EXPECT_EQ(ShrinkageOf(40, 64), 0.1);
  EXPECT_EQ(ShrinkageOf(1, 64), 1);
}

TEST(QueryMetricTest, LogitsStayTheSame) {
  for (const size_t dim : {1, 16, 33, 64, 256}) {
    const std::vector<float> queries = TurnedRows(2 * dim, Deviations(dim + 1, 30), 3, 4);
    const std::vector<float> keys = TurnedRows(2 * dim, Deviations(dim + 1, 0.05), 5, 6);
    const std::vector<float> q(queries.begin(),
                               queries.begin() + static_cast<ptrdiff_t>(dim * dim)),
        k(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(dim * dim));
    const auto metric = QueryMetric::Make(Moments(q, dim), Moments(k, dim), dim);
    ASSERT_TRUE(metric);
    for (size_t r = 0; r < std::min<size_t>(dim, 20); ++r) {
      const std::vector<float> query = MeasuredQuery(*metric, &q[r * dim]);
      const Vector key = MeasuredKey(*metric, &k[r * dim]);
      double logit = 0, changed = 0, size = 0;
      for (size_t c = 0; c < dim; ++c) {
        logit += double{q[r * dim + c]} * k[r * dim + c];
        changed += query[c] * key[c];
        size += std::abs(query[c] * key[c]);
      }
      EXPECT_NEAR(changed, logit, 1e-5 * size) << dim;
    }
    // As stored and read again.
    const auto read = QueryMetric::FromStored(metric->Stored(), dim);
    ASSERT_TRUE(read);
    EXPECT_EQ(MeasuredQuery(*read, q.data()), MeasuredQuery(*metric, q.data()));
    EXPECT_EQ(MeasuredKey(*read, k.data()), MeasuredKey(*metric, k.data()));
  }
}

// Along the same directions the least noise is (sum of the products of both deviations / dim)^2,
// and in plain coordinates it is the product of the mean squares.
TEST(QueryMetricTest, NoiseIsTheLeastThereIs) {
  constexpr size_t kDim = 32;
  const Vector of_queries = Deviations(kDim, 30), of_residuals = Deviations(kDim, 1.0 / 30);
  const std::vector<float> queries = TurnedRows(20000, of_queries, 7, 8);
  const std::vector<float> residuals = TurnedRows(20000, of_residuals, 7, 9);
  const auto metric =
      QueryMetric::Make(Moments(queries, kDim, 1e-6), Moments(residuals, kDim, 1e-6), kDim);
  ASSERT_TRUE(metric);
  const double least = std::pow(Dot(of_queries, of_residuals) / kDim, 2);
  const double plain = MeanSquare(of_queries) * MeanSquare(of_residuals);
  EXPECT_GT(plain, 10 * least);  // or there is nothing to gain here
  EXPECT_NEAR(Noise(*metric, queries, residuals), least, 0.03 * least);
  // Any other metric has more: numbers of M moved a little.
  std::mt19937 engine(10);
  std::normal_distribution<float> normal(1, 0.2f);
  for (int trial = 0; trial < 10; ++trial) {
    std::vector<f16> stored = metric->Stored();
    for (f16& value : stored) value = ToF16(ToFloat(value) * normal(engine));
    EXPECT_GT(Noise(*QueryMetric::FromStored(stored, kDim), queries, residuals), 1.001 * least);
  }
}

// Estimates of logits by row codes, and their mean squared error over queries and keys.
double CodeError(const std::vector<float>& queries, const std::vector<float>& residuals, size_t dim,
                 const QueryMetric* metric) {
  double squares = 0;
  size_t count = 0;
  for (size_t t = 0; t < residuals.size() / dim; ++t) {
    std::vector<float> residual(&residuals[t * dim], &residuals[t * dim] + dim);
    if (metric != nullptr) {
      const Vector measured = MeasuredKey(*metric, &residuals[t * dim]);
      residual.assign(measured.begin(), measured.end());
    }
    std::vector<std::byte> row(RowCodeBytes(dim)), fine(FineCodeBytes(dim));
    EncodeResidual(residual, row.data(), fine.data());
    const std::vector<float> decoded = testing::DecodedRow(row.data(), dim);
    for (size_t r = t % 5; r < queries.size() / dim; r += 5, ++count) {
      std::vector<float> query(&queries[r * dim], &queries[r * dim] + dim);
      double logit = 0, estimate = 0;
      for (size_t c = 0; c < dim; ++c) logit += double{query[c]} * residuals[t * dim + c];
      if (metric != nullptr) query = MeasuredQuery(*metric, &queries[r * dim]);
      Rotate(query);
      for (size_t c = 0; c < dim; ++c) estimate += double{query[c]} * decoded[c];
      squares += (estimate - logit) * (estimate - logit);
    }
  }
  return squares / static_cast<double>(count);
}

// Heads that are hard for codes: queries that lie where keys hardly vary (as in Gemma 3),
// dimensions that dwarf all others, keys that vary along one line, and plain ones, where nothing is
// to be gained and nothing may be lost.
TEST(QueryMetricTest, CodesOfHardHeadsAreCloser) {
  constexpr size_t kDim = 64;
  struct Head {
    const char* name;
    Vector of_queries, of_residuals;
    double gain;  // the error in plain coordinates over that in the metric's, at least
  };
  Vector outliers(kDim, 1), line(kDim, 0.02), even(kDim, 1);
  outliers[3] = outliers[40] = 50;
  line[10] = 10;
  for (const Head& head :
       {Head{"queries where keys hardly vary", Deviations(kDim, 0.03), Deviations(kDim, 30), 3},
        Head{"outlier dimensions of keys", even, outliers, 3},
        Head{"outlier dimensions of queries", outliers, even, 3},
        Head{"keys along a line", even, line, 3}, Head{"even", even, even, 0.9}}) {
    const std::vector<float> queries = TurnedRows(400, head.of_queries, 11, 12),
                             later = TurnedRows(100, head.of_queries, 11, 13),
                             residuals = TurnedRows(600, head.of_residuals, 11, 14);
    const auto metric = QueryMetric::Make(Moments(queries, kDim), Moments(residuals, kDim), kDim);
    ASSERT_TRUE(metric) << head.name;
    const double plain = CodeError(later, residuals, kDim, nullptr);
    EXPECT_LT(CodeError(later, residuals, kDim, &*metric) * head.gain, plain) << head.name;
  }
}

// Sizes of queries and keys do not matter, however large or small.
TEST(QueryMetricTest, ScalesDoNotMatter) {
  constexpr size_t kDim = 16;
  const std::vector<float> queries = TurnedRows(100, Deviations(kDim, 5), 15, 16),
                           residuals = TurnedRows(100, Deviations(kDim, 0.1), 17, 18);
  const auto metric = QueryMetric::Make(Moments(queries, kDim), Moments(residuals, kDim), kDim);
  ASSERT_TRUE(metric);
  for (const float scale : {1e-18f, 1e-6f, 1e6f, 1e15f}) {
    std::vector<float> larger = queries, other = residuals;
    for (float& x : larger) x *= scale;
    for (float& x : other) x /= scale;
    const auto scaled = QueryMetric::Make(Moments(larger, kDim), Moments(other, kDim), kDim);
    ASSERT_TRUE(scaled) << scale;
    const std::vector<f16> expected = metric->Stored(), found = scaled->Stored();
    for (size_t i = 0; i < QueryMetric::StoredSize(kDim); ++i) {
      EXPECT_NEAR(ToFloat(found[i]), ToFloat(expected[i]), 0.1) << scale;
    }
  }
}

TEST(QueryMetricTest, WhatIsNoMetricIsRefused) {
  const std::vector<f16> unit = {ToF16(1), ToF16(0), ToF16(1)};
  EXPECT_TRUE(QueryMetric::FromStored(unit, 2));
  EXPECT_FALSE(QueryMetric::FromStored(unit, 3));
  EXPECT_FALSE(QueryMetric::FromStored(std::span(unit).first(2), 2));
  for (size_t i = 0; i < unit.size(); ++i) {
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      std::vector<f16> stored = unit;
      stored[i] = ToF16(bad);
      EXPECT_FALSE(QueryMetric::FromStored(stored, 2)) << i;
    }
  }
  std::vector<f16> singular = unit;
  singular[2] = ToF16(0);
  EXPECT_FALSE(QueryMetric::FromStored(singular, 2));
}

}  // namespace
}  // namespace lectern
