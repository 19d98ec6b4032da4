// Measures how wide clusters are along each query by the codes of some of them, and corrects the
// masses of the others by it.
//
// A cluster's variance is one number for all directions, but queries lie where residuals are long,
// in the head's metric too. With SmolLM2 the squared deviation of a cluster's logits is 2.4 to 4.5
// times what the variance says, more for some queries and less for others. So clusters without
// codes, two thirds of all at a budget of 0.05, were given 0.20 and 0.28 of their mass (two texts).
// Clusters with codes are as wide along the same query: over query rows, the logarithms of both
// squares have a correlation of 0.91 (tools/evaluate/RESULTS.md, "Spreads that codes measure").
#include <algorithm>
#include <cmath>

#include "index/head_lookup.h"

namespace lectern {
namespace {

// In eight lanes, so that additions do not wait for one another.
double Sum(std::span<const float> numbers) {
  float lanes[8] = {};
  size_t i = 0;
  for (; i + 8 <= numbers.size(); i += 8) {
    for (size_t k = 0; k < 8; ++k) lanes[k] += numbers[i + k];
  }
  double sum = 0;
  for (; i < numbers.size(); ++i) sum += numbers[i];
  for (const float lane : lanes) sum += lane;
  return sum;
}

}  // namespace

void HeadLookup::ListSpreads(std::span<double> sums) {
  const size_t num_rows = queries_.num_rows;
  std::fill(sums.begin(), sums.end(), 0.0);
  auto groups = Make<uint32_t>(), columns = Make<uint32_t>();
  auto log_counts = Make<float>(), counts = Make<float>(), variances = Make<float>();
  for (uint32_t g = 0; g < groups_.all.size(); ++g) {
    const uint32_t column = groups_.all[g].begin_column;
    // One key's logit is its centroid's.
    if (!groups_.all[g].all_coded || open_.log_counts[column] <= 0) continue;
    groups.push_back(g);
    columns.push_back(column);
    log_counts.push_back(open_.log_counts[column]);
    counts.push_back(std::exp(open_.log_counts[column]));
    variances.push_back(counts.back() * open_.variances[column]);
  }
  const size_t size = groups.size();
  if (size == 0) return;
  auto logits = Make<float>(size), means = Make<float>(size), weights = Make<float>(size);
  ForEachTile(finest(), [&](Rows<float>, size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      const float *const masses = GroupMasses(r), *const centroids = CentroidLogitsOf(r - begin);
      for (size_t i = 0; i < size; ++i) {
        const float mass = masses[groups[i]];
        logits[i] = std::max(mass, kNoMass);
        weights[i] = mass > kNoMass ? 1.0f : 0.0f;  // a mass too small for a float tells nothing
        means[i] = log_counts[i] + centroids[columns[i]];
      }
      args_.backend.log_rows(
          {.masses = {logits.data(), 1, size}, .reference = Tile(lse_.reference, r, r + 1)});
      for (size_t i = 0; i < size; ++i) {
        const float above = logits[i] - means[i], log_mean_exp = above > 0 ? above : 0.0f;
        logits[i] = weights[i] * counts[i] * SquaredDeviation(log_mean_exp, log_counts[i]);
      }
      for (size_t i = 0; i < size; ++i) weights[i] *= variances[i];
      sums[r] = Sum(logits);
      sums[num_rows + r] = Sum(weights);
    }
  });
}

void HeadLookup::JoinSpreads(std::span<const double> sums) {
  for (size_t r = 0; r < spreads_.size(); ++r) {
    const double by_variance = double{norms_[r]} * norms_[r] * sums[spreads_.size() + r];
    if (!(by_variance > 0)) continue;  // no cluster tells anything
    const double square = std::max(0.0, sums[r] / by_variance - kCodeNoise);
    spreads_[r] = static_cast<float>(kCaution * std::sqrt(square)) * norms_[r];
  }
  if (has_logits_) {  // else ForEachTile makes them anew
    const size_t num_open = open_.log_counts.size();
    WidenLogits({buffers_.centroid_logits.data(), queries_.num_rows, num_open}, 0,
                {buffers_.logits.data(), queries_.num_rows, num_open});
  }
  SumRest();
}

void HeadLookup::SumRest() {
  ArenaVector<float> bias(open_.log_counts, arena_);
  for (const uint32_t column : coded_.columns) bias[column] = -INFINITY;
  lse_.rest = lse_.rejected;
  if (open_.ranges.empty()) return;
  ForEachTile(finest(), [&](Rows<float> logits, size_t begin, size_t end) {
    args_.backend.add_row_lse({.logits = logits, .bias = bias, .lse = Tile(lse_.rest, begin, end)});
  });
}

}  // namespace lectern
