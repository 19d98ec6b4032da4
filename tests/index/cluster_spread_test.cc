// The fit of variances, against its definition in double.
#include "index/cluster_spread.h"

#include <gtest/gtest.h>

#include <cmath>

#include "index/build.h"
#include "kernels/convert.h"
#include "kernels/second_order.h"
#include "tests/index/random_keys.h"

namespace lectern {
namespace {

using testing::Blobs;
using testing::NormalRows;
using testing::OwnRows;

constexpr size_t kSpreadDim = 32, kSpreadKeys = 900;
constexpr float kSpreadScale = 0.2f;

double Product(const float* a, const float* b) {
  double sum = 0;
  for (size_t c = 0; c < kSpreadDim; ++c) sum += double{a[c]} * b[c];
  return sum;
}

// One head: keys, its tree, keys besides, queries.
struct SpreadCase {
  explicit SpreadCase(bool has_metric) {
    BuildOptions options = {.fractions = {0.01, 0.05}};
    SquareMatrix moments(kSpreadDim * kSpreadDim, 0.0);
    for (size_t c = 0; c < kSpreadDim; ++c) moments[c * kSpreadDim + c] = 1 + double(c % 5);
    if (has_metric) options.query_moments = &moments;
    tree = *BuildTree(*DefaultBackend(), keys, values, options);
  }
  void Fit(float softcap) {
    FitVariances({.backend = *DefaultBackend(),
                  .keys = keys,
                  .beside = beside,
                  .queries = queries,
                  .scale = kSpreadScale,
                  .softcap = softcap},
                 tree);
  }
  OwnRows keys = Blobs(kSpreadKeys, kSpreadDim, 20, 1, 1.5f);
  OwnRows values = NormalRows(kSpreadKeys, kSpreadDim, 2);
  OwnRows beside = NormalRows(7, kSpreadDim, 3);
  OwnRows queries = NormalRows(24, kSpreadDim, 4, 3);  // fewer than a fit looks at: all of them
  CentroidTree tree;
};

// |M q| for the tree's metric.
double MeasuredNorm(const CentroidTree& tree, const float* query) {
  if (!tree.metric) return std::sqrt(Product(query, query));
  const TypedRows rows = tree.metric->rows();
  double squares = 0;
  for (size_t i = 0; i < kSpreadDim; ++i) {
    const double x = Product(reinterpret_cast<const float*>(rows.row(i)), query);
    squares += x * x;
  }
  return std::sqrt(squares);
}

// For a finest cluster, the logs of its true mass and of the mass by `variance`, both summed over
// the query rows as shares of attention.
struct LogMasses {
  double truth, estimate;
};
LogMasses MassesOf(const SpreadCase& c, size_t cluster, double variance, double cap) {
  const auto capped = [&](double x) { return cap > 0 ? cap * std::tanh(x / cap) : x; };
  const TreeLevel& level = c.tree.levels.back();
  std::vector<float> centroids(level.num_clusters() * kSpreadDim);
  ToFloatRowsScalar(level.Centroids(kSpreadDim),
                    {centroids.data(), level.num_clusters(), kSpreadDim});
  LogMasses logs = {0, 0};
  for (size_t r = 0; r < c.queries.num_rows; ++r) {
    const float* const query = c.queries[r];
    double all = 0, own = 0;
    for (size_t i = 0; i < 7; ++i) {
      all += std::exp(capped(kSpreadScale * Product(query, c.beside[i])));
    }
    for (uint32_t k = 0; k < kSpreadKeys; ++k) {
      const double mass =
          std::exp(capped(kSpreadScale * Product(query, c.keys[c.tree.order[k]])));
      all += mass;
      if (k >= level.children[cluster] && k < level.children[cluster + 1]) own += mass;
    }
    const double count = level.key_counts[cluster];
    const auto spread = LogMeanExp(
        static_cast<float>(kSpreadScale * MeasuredNorm(c.tree, query) * std::sqrt(variance)),
        static_cast<float>(std::log(count)));
    const double logit = kSpreadScale * Product(query, &centroids[cluster * kSpreadDim]) + spread;
    logs.truth += own / all;
    logs.estimate += count * std::exp(capped(logit)) / all;
  }
  return {std::log(logs.truth), std::log(logs.estimate)};
}

TEST(FitVariancesTest, EstimatesLieHalfWayToTheTruth) {
  for (const bool has_metric : {false, true}) {
    for (const float softcap : {0.0f, 4.0f}) {
      SCOPED_TRACE(::testing::Message() << "metric " << has_metric << ", cap " << softcap);
      SpreadCase c(has_metric);
      ASSERT_EQ(c.tree.metric.has_value(), has_metric);
      const CentroidTree before = c.tree;
      c.Fit(softcap);
      size_t num_fitted = 0;
      for (size_t i = 0; i < c.tree.levels.back().num_clusters(); ++i) {
        const float old = before.levels.back().variances[i];
        const float fitted = c.tree.levels.back().variances[i];
        const LogMasses was = MassesOf(c, i, old, softcap), is = MassesOf(c, i, fitted, softcap);
        const double wanted = (was.truth + was.estimate) / 2;
        // Variances have limits: 0, and 16 times what they were.
        if (fitted > 15.9f * old || fitted < 1e-5f * old) continue;
        EXPECT_NEAR(is.estimate, wanted, 0.02) << i;
        num_fitted += std::abs(was.truth - was.estimate) > 0.1;
      }
      EXPECT_GT(num_fitted, 5u);
      for (size_t l = 0; l < c.tree.levels.size(); ++l) {
        EXPECT_EQ(c.tree.levels[l].radii, before.levels[l].radii);
        EXPECT_EQ(c.tree.levels[l].centroids, before.levels[l].centroids);
        EXPECT_NE(c.tree.levels[l].variances, before.levels[l].variances);
      }
    }
  }
}

// A variance of 0, as equal keys have, stays.
TEST(FitVariancesTest, VariancesOf0Stay) {
  SpreadCase c(false);
  for (size_t i = 0; i < kSpreadKeys; ++i) std::copy_n(c.keys[0], kSpreadDim, c.keys[i]);
  c.tree = *BuildTree(*DefaultBackend(), c.keys, c.values, {.fractions = {0.01, 0.05}});
  for (TreeLevel& level : c.tree.levels) std::fill(level.variances.begin(), level.variances.end(), 0);
  c.Fit(0);
  for (const TreeLevel& level : c.tree.levels) {
    for (const float variance : level.variances) EXPECT_EQ(variance, 0);
  }
}

}  // namespace
}  // namespace lectern
