#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/centroid_scores.h"
#include "kernels/element.h"

namespace lectern {

void KeyLogitsScalar(const KeyLogitsArgs& args) {
  const auto& [queries, keys, scale, logits, scratch] = args;
  assert(queries.num_cols == keys.num_cols);
  assert(logits.num_rows == queries.num_rows && logits.num_cols == keys.num_rows);
  for (size_t r = 0; r < queries.num_rows; ++r) {
    for (size_t j = 0; j < keys.num_rows; ++j) {
      double dot = 0;
      for (size_t c = 0; c < queries.num_cols; ++c) {
        dot += static_cast<double>(queries[r][c]) * LoadElement(keys.row(j), keys.dtype, c);
      }
      logits[r][j] = static_cast<float>(scale * dot);
    }
  }
}

void AddSecondOrderScalar(const AddSecondOrderArgs& args) {
  for (size_t r = 0; r < args.logits.num_rows; ++r) {
    for (size_t j = 0; j < args.logits.num_cols; ++j) {
      args.logits[r][j] +=
          LogMeanExp(args.norms[r] * std::sqrt(args.variances[j]), args.log_counts[j]);
    }
  }
}

void AddRowLseScalar(const AddRowLseArgs& args) {
  const auto& [logits, bias, lse] = args;
  assert(bias.size() == logits.num_cols && lse.size() == logits.num_rows);
  for (size_t r = 0; r < logits.num_rows; ++r) {
    double max = lse[r];
    for (size_t j = 0; j < bias.size(); ++j) {
      max = std::max(max, static_cast<double>(logits[r][j]) + bias[j]);
    }
    if (max == -std::numeric_limits<double>::infinity()) continue;  // nothing to add
    double sum = std::exp(lse[r] - max);
    for (size_t j = 0; j < bias.size(); ++j) {
      sum += std::exp(static_cast<double>(logits[r][j]) + bias[j] - max);
    }
    lse[r] = static_cast<float>(max + std::log(sum));
  }
}

void AddScoresScalar(const AddScoresArgs& args) {
  const auto& [logits, lse, scores] = args;
  assert(lse.size() == logits.num_rows && scores.size() == logits.num_cols);
  for (size_t j = 0; j < scores.size(); ++j) {
    double sum = scores[j];
    for (size_t r = 0; r < lse.size(); ++r) {
      sum += std::exp(static_cast<double>(logits[r][j]) - lse[r]);
    }
    scores[j] = static_cast<float>(sum);
  }
}

void ExpRowsScalar(const ExpRowsArgs& args) {
  for (size_t r = 0; r < args.logits.num_rows; ++r) {
    for (size_t j = 0; j < args.logits.num_cols; ++j) {
      float& logit = args.logits[r][j];
      logit = std::exp(std::min(logit - args.reference[r], 80.0f));
    }
  }
}

bool AnyAtLeastScalar(const AnyAtLeastArgs& args) {
  for (size_t r = 0; r < args.logits.num_rows; ++r) {
    for (size_t j = 0; j < args.logits.num_cols; ++j) {
      if (args.logits[r][j] >= args.limits[r]) return true;
    }
  }
  return false;
}

void LogRowsScalar(const LogRowsArgs& args) {
  for (size_t r = 0; r < args.masses.num_rows; ++r) {
    for (size_t j = 0; j < args.masses.num_cols; ++j) {
      args.masses[r][j] =
          static_cast<float>(args.reference[r] + std::log(double{args.masses[r][j]}));
    }
  }
}

void SumSegmentsScalar(const SumSegmentsArgs& args) {
  for (size_t r = 0; r < args.masses.num_rows; ++r) {
    for (size_t i = 0; i < args.sums.num_cols; ++i) {
      double sum = 0;
      for (uint32_t j = args.begin[i]; j < args.begin[i + 1]; ++j) sum += args.masses[r][j];
      args.sums[r][i] = static_cast<float>(sum);
    }
  }
}

void SpreadValuesScalar(const SpreadValuesArgs& args) {
  for (size_t r = 0; r < args.out.num_rows; ++r) {
    for (size_t j = 0; j < args.columns.size(); ++j) {
      args.out[r][j] = args.values[r][args.columns[j]];
    }
  }
}

void AddWeightedRowsScalar(const AddWeightedRowsArgs& args) {
  for (size_t j = 0; j < args.scores.size(); ++j) {
    double sum = args.scores[j];
    for (size_t r = 0; r < args.weights.size(); ++r) {
      const double mass = args.masses[r][j];
      const double share = args.scales.empty() ? 0 : args.scales[r] * mass;
      sum += args.weights[r] * (args.scales.empty() ? mass : share * share);
    }
    args.scores[j] = static_cast<float>(sum);
  }
}

void AssignNearestScalar(const AssignNearestArgs& args) {
  const auto& [points, centroids, labels, dots, scratch] = args;
  assert(centroids.num_rows >= 1 && centroids.num_cols == points.num_cols);
  assert(labels.size() == points.num_rows && dots.size() == points.num_rows);
  for (size_t i = 0; i < points.num_rows; ++i) {
    labels[i] = 0;
    dots[i] = -std::numeric_limits<float>::infinity();
    for (size_t j = 0; j < centroids.num_rows; ++j) {
      double sum = 0;
      for (size_t c = 0; c < points.num_cols; ++c) {
        sum += static_cast<double>(points[i][c]) * centroids[j][c];
      }
      const float dot = static_cast<float>(sum);
      if (!(dot > dots[i])) continue;  // NaN never wins
      labels[i] = static_cast<uint32_t>(j);
      dots[i] = dot;
    }
  }
}

}  // namespace lectern
