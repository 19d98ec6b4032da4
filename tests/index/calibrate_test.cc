#include "index/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "index/build.h"
#include "tests/index/random_keys.h"

namespace lectern {
namespace {

using testing::Blobs;
using testing::NormalRows;
using testing::OwnRows;

constexpr size_t kKeys = 3000, kKeyDim = 32;
constexpr float kScale = 0.2f;

CentroidTree Tree(uint32_t num_levels) {
  OwnRows keys = Blobs(kKeys, kKeyDim, 40, 1, 0.5f);
  RoundToF16(keys);
  BuildOptions options;
  options.fractions = LevelFractions(num_levels);
  return *BuildTree(*DefaultBackend(), keys, keys, options);
}

std::span<const float> Curve(std::span<const float> thresholds, size_t level, size_t row_count) {
  return thresholds.subspan((level * kRowCounts.size() + row_count) * kKeptShares.size(),
                            kKeptShares.size());
}

// S of every cluster, in double, from the formula of centroid_scores.h.
std::vector<double> Scores(const TreeLevel& level, Rows<const float> queries) {
  std::vector<double> scores(level.num_clusters());
  std::vector<float> centroids(scores.size() * kKeyDim);
  ToFloatRowsScalar(level.Centroids(kKeyDim), {centroids.data(), scores.size(), kKeyDim});
  for (size_t r = 0; r < queries.num_rows; ++r) {
    std::vector<double> weights(scores.size());
    double total = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      double dot = 0;
      for (size_t c = 0; c < kKeyDim; ++c) {
        dot += double{queries[r][c]} * centroids[i * kKeyDim + c];
      }
      weights[i] = std::exp(kScale * dot);
      total += level.key_counts[i] * weights[i];
    }
    for (size_t i = 0; i < scores.size(); ++i) {
      scores[i] += weights[i] / total / static_cast<double>(queries.num_rows);
    }
  }
  return scores;
}

// Share of the keys in clusters of S > threshold.
double ShareAbove(const TreeLevel& level, const std::vector<double>& scores, double threshold) {
  double kept = 0;
  for (size_t i = 0; i < scores.size(); ++i)
    kept += scores[i] > threshold ? level.key_counts[i] : 0;
  return kept / kKeys;
}

TEST(CalibrateTest, ThresholdsFallAsTheKeptShareGrows) {
  const OwnRows queries = NormalRows(300, kKeyDim, 2);
  for (const uint32_t levels : {1u, 2u, 3u}) {
    const auto thresholds = CalibrateThresholds(*DefaultBackend(), Tree(levels), queries, kScale);
    ASSERT_EQ(thresholds.size(), levels * kThresholdsPerLevel);
    for (size_t level = 0; level < levels; ++level) {
      for (size_t rows = 0; rows < kRowCounts.size(); ++rows) {
        const auto curve = Curve(thresholds, level, rows);
        for (size_t s = 0; s < curve.size(); ++s) {
          EXPECT_TRUE(std::isfinite(curve[s]));
          if (s > 0) {
            EXPECT_GE(curve[s], curve[s - 1]);
          }
        }
        EXPECT_GT(curve.back(), curve.front());
      }
    }
  }
}

// One window: T is the score of the very cluster at which the share is reached.
TEST(CalibrateTest, ShareAboveThresholdIsTheKeptShareOfAWindow) {
  const OwnRows queries = NormalRows(128, kKeyDim, 3);
  const CentroidTree tree = Tree(2);
  const auto thresholds = CalibrateThresholds(*DefaultBackend(), tree, queries, kScale);
  for (size_t level = 0; level < 2; ++level) {
    const auto scores = Scores(tree.levels[level], queries);
    const auto curve = Curve(thresholds, level, 3);  // 128 rows
    for (size_t s = 0; s < kKeptShares.size(); ++s) {
      const double threshold = std::exp(double{curve[s]});
      EXPECT_GE(ShareAbove(tree.levels[level], scores, threshold * (1 - 1e-4)), kKeptShares[s]);
      EXPECT_LT(ShareAbove(tree.levels[level], scores, threshold * (1 + 1e-4)), kKeptShares[s]);
    }
  }
}

// Many windows: the mean threshold keeps about the share, on average over the windows.
TEST(CalibrateTest, ShareAboveThresholdIsAboutTheKeptShareOverWindows) {
  const OwnRows queries = NormalRows(400, kKeyDim, 4);
  const CentroidTree tree = Tree(1);
  const auto thresholds = CalibrateThresholds(*DefaultBackend(), tree, queries, kScale);
  const Rows<const float> rows = queries;
  for (size_t i = 0; i < kRowCounts.size(); ++i) {
    const size_t size = kRowCounts[i], num_windows = std::min<size_t>(12, 400 / size);
    for (size_t s = 0; s < kKeptShares.size(); ++s) {
      double share = 0;
      for (size_t w = 0; w < num_windows; ++w) {
        const size_t begin = (400 - size) * w / (num_windows - 1);
        share += ShareAbove(tree.levels[0], Scores(tree.levels[0], rows.Slice(begin, begin + size)),
                            std::exp(double{Curve(thresholds, 0, i)[s]}));
      }
      share /= static_cast<double>(num_windows);
      EXPECT_NEAR(share, kKeptShares[s], 0.25 * kKeptShares[s] + 0.01) << size << " rows";
    }
  }
}

TEST(CalibrateTest, FewerRowsThanAWindowUsesThemAll) {
  const OwnRows queries = NormalRows(5, kKeyDim, 5);
  const CentroidTree tree = Tree(1);
  const auto thresholds = CalibrateThresholds(*DefaultBackend(), tree, queries, kScale);
  for (size_t s = 0; s < kKeptShares.size(); ++s) {  // 8, 32 and 128 rows: the same five
    EXPECT_EQ(Curve(thresholds, 0, 1)[s], Curve(thresholds, 0, 2)[s]);
    EXPECT_EQ(Curve(thresholds, 0, 1)[s], Curve(thresholds, 0, 3)[s]);
  }
  EXPECT_NE(Curve(thresholds, 0, 0)[0], Curve(thresholds, 0, 1)[0]);
  const OwnRows one = NormalRows(1, kKeyDim, 6);
  for (const float t : CalibrateThresholds(*DefaultBackend(), tree, one, kScale)) {
    EXPECT_TRUE(std::isfinite(t));
  }
}

TEST(CalibrateTest, PeakedScoresStayFinite) {  // all but one cluster underflow to 0
  const OwnRows queries = NormalRows(40, kKeyDim, 7, 300);
  for (const float t : CalibrateThresholds(*DefaultBackend(), Tree(2), queries, kScale)) {
    EXPECT_TRUE(std::isfinite(t));
  }
}

// ---- LogThreshold

// Two levels of curves that differ everywhere.
std::vector<float> SomeThresholds() {
  std::vector<float> thresholds(2 * kThresholdsPerLevel);
  for (size_t i = 0; i < thresholds.size(); ++i) {
    const size_t s = i % kKeptShares.size();
    thresholds[i] =
        -20.0f + static_cast<float>(i / kKeptShares.size()) + 0.1f * static_cast<float>(s * s);
  }
  return thresholds;
}

TEST(LogThresholdTest, HitsTheStoredKnots) {
  const auto thresholds = SomeThresholds();
  for (uint32_t level = 0; level < 2; ++level) {
    for (size_t rows = 0; rows < kRowCounts.size(); ++rows) {
      for (size_t s = 0; s < kKeptShares.size(); ++s) {
        EXPECT_NEAR(LogThreshold(thresholds, level, kRowCounts[rows], double{kKeptShares[s]}),
                    Curve(thresholds, level, rows)[s], 1e-5);
      }
    }
  }
}

TEST(LogThresholdTest, InterpolatesMonotonicallyAndClamps) {
  const auto thresholds = SomeThresholds();
  const auto curve = Curve(thresholds, 1, 2);
  float before = LogThreshold(thresholds, 1, 32, 1.0);
  EXPECT_EQ(before, curve.front());
  for (double share = 0.999; share > 0.001; share *= 0.99) {
    const float threshold = LogThreshold(thresholds, 1, 32, share);
    EXPECT_GE(threshold, before) << share;
    EXPECT_LE(threshold - before, 0.11f) << "a jump at " << share;
    before = threshold;
  }
  EXPECT_EQ(LogThreshold(thresholds, 1, 32, 0.001), curve.back());
  // Half way between 0.05 and 0.02 by logarithm.
  EXPECT_NEAR(LogThreshold(thresholds, 1, 32, std::sqrt(0.05 * 0.02)), (curve[5] + curve[6]) / 2,
              1e-4);
}

TEST(LogThresholdTest, TakesTheNearestRowCountByRatio) {
  const auto thresholds = SomeThresholds();
  const std::pair<size_t, size_t> nearest[] = {{1, 0},  {2, 0},  {3, 1},  {8, 1},  {15, 1},
                                               {17, 2}, {32, 2}, {63, 2}, {65, 3}, {100000, 3}};
  for (const auto& [rows, index] : nearest) {
    EXPECT_EQ(LogThreshold(thresholds, 0, rows, 0.7), Curve(thresholds, 0, index)[0]) << rows;
  }
}

}  // namespace
}  // namespace lectern
