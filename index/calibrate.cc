#include "index/calibrate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lectern {
namespace {

// Windows that each threshold is averaged over, at most. By hand; no measurement is on record. More
// windows take longer to index; the byte budget limits what a poor threshold can cost.
constexpr size_t kMaxWindows = 12;

// Mean scores S of all clusters of a level for the query rows of one window.
std::vector<float> WindowScores(const Backend& backend, const TreeLevel& level,
                                Rows<const float> queries, float scale, float softcap,
                                std::span<const float> log_counts) {
  const size_t num_clusters = level.num_clusters();
  std::vector<float> logits(queries.num_rows * num_clusters);
  std::vector<float> scratch(AttendScratch(queries.num_rows, queries.num_cols));
  std::vector<float> lse(queries.num_rows, -INFINITY), scores(num_clusters, 0.0f);
  const Rows<float> rows(logits.data(), queries.num_rows, num_clusters);
  backend.key_logits({.queries = queries,
                      .keys = level.Centroids(queries.num_cols),
                      .scale = scale,
                      .logits = rows,
                      .scratch = scratch});
  Softcap(backend, rows, softcap);
  backend.add_row_lse({.logits = rows, .bias = log_counts, .lse = lse});
  backend.add_scores({.logits = rows, .lse = lse, .scores = scores});
  for (float& score : scores) score /= static_cast<float>(queries.num_rows);
  return scores;
}

// For each kept share, the log score of the cluster at which that share of the keys is reached when
// clusters are taken best first.
std::array<double, kKeptShares.size()> LogScoresAtShares(const std::vector<float>& scores,
                                                         const TreeLevel& level) {
  std::vector<uint32_t> by_score(scores.size());
  std::iota(by_score.begin(), by_score.end(), 0u);
  std::sort(by_score.begin(), by_score.end(), [&](uint32_t a, uint32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  const double num_keys = std::accumulate(level.key_counts.begin(), level.key_counts.end(), 0.0);
  std::array<double, kKeptShares.size()> result;
  for (size_t s = 0; s < kKeptShares.size(); ++s) {
    double kept = 0;
    float score = scores[by_score.front()];
    for (const uint32_t cluster : by_score) {
      score = scores[cluster];
      kept += level.key_counts[cluster];
      if (kept >= kKeptShares[s] * num_keys) break;
    }
    // The least normal float stands in for a score of 0, whose logarithm is not finite.
    result[s] = std::log(std::max(score, std::numeric_limits<float>::min()));
  }
  return result;
}

}  // namespace

std::vector<float> CalibrateThresholds(const Backend& backend, const CentroidTree& tree,
                                       Rows<const float> queries, float scale, float softcap) {
  assert(queries.num_rows >= 1);
  std::vector<float> thresholds;
  for (const TreeLevel& level : tree.levels) {
    std::vector<float> log_counts;
    for (const uint32_t count : level.key_counts) {
      log_counts.push_back(std::log(static_cast<float>(count)));
    }
    for (const uint32_t row_count : kRowCounts) {
      const size_t rows = std::min<size_t>(row_count, queries.num_rows);
      const size_t num_windows = std::min(kMaxWindows, queries.num_rows / rows);
      std::array<double, kKeptShares.size()> sum{};
      for (size_t w = 0; w < num_windows; ++w) {
        // Windows are spread evenly; the last one ends with the document.
        const size_t last = queries.num_rows - rows;
        const size_t begin = num_windows == 1 ? last : last * w / (num_windows - 1);
        const std::vector<float> scores = WindowScores(
            backend, level, queries.Slice(begin, begin + rows), scale, softcap, log_counts);
        const auto at_shares = LogScoresAtShares(scores, level);
        for (size_t s = 0; s < sum.size(); ++s) sum[s] += at_shares[s];
      }
      for (const double total : sum) {
        thresholds.push_back(static_cast<float>(total / static_cast<double>(num_windows)));
      }
    }
  }
  return thresholds;
}

float LogThreshold(std::span<const float> thresholds, uint32_t level_index, size_t num_rows,
                   double kept_share) {
  // Nearest by ratio: thresholds change with the logarithm of the row count.
  size_t nearest = 0;
  for (size_t i = 1; i < kRowCounts.size(); ++i) {
    const auto distance = [&](size_t j) {
      return std::abs(std::log(static_cast<double>(num_rows) / kRowCounts[j]));
    };
    if (distance(i) < distance(nearest)) nearest = i;
  }
  const std::span<const float> curve = thresholds.subspan(
      level_index * kThresholdsPerLevel + nearest * kKeptShares.size(), kKeptShares.size());
  if (kept_share >= kKeptShares.front()) return curve.front();
  for (size_t s = 1; s < kKeptShares.size(); ++s) {
    if (kept_share < kKeptShares[s]) continue;
    const double fraction =
        std::log(kKeptShares[s - 1] / kept_share) / std::log(kKeptShares[s - 1] / kKeptShares[s]);
    return static_cast<float>(curve[s - 1] + fraction * (curve[s] - curve[s - 1]));
  }
  return curve.back();
}

}  // namespace lectern
