// What a document's lookup misses, against what it estimates: measured on questions while indexing.
#ifndef LECTERN_ENGINE_DOCUMENT_MISSED_CALIBRATION_H_
#define LECTERN_ENGINE_DOCUMENT_MISSED_CALIBRATION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/model/formats/json.h"

namespace lectern {

// A step of a layer, mean over kv heads and query rows (by their weights): shares of its attention.
struct MissedSample {
  double truth = 0;     // on the rows that were not read, by an exact run
  double estimate = 0;  // DocumentRead::uncalibrated_missed
  uint32_t layer = 0;
  double kv_budget = 0;  // of the ask
  size_t question = 0;
};

// Estimates come from clusters and codes of rows that the lookup took for small: on the whole they
// are too low, the more so the smaller the budget and the estimate. Of an estimate p in a layer, at
// a kv budget that was measured,
//     p + c p^(2/3) (1 - p)
// is what is missed in the mean, and the margin of the budget, added to its log odds, is enough for
// 99 of 100 (split conformal prediction; a question's scores with factors fitted to the others).
// Between budgets c and the margin are linear in log budget; beyond them they are the nearest's.
struct MissedCalibration {
  std::vector<double> budgets;  // ascending; empty: not measured
  std::vector<double> factors;  // [layers][budgets]: c >= 0
  std::vector<double> margins;  // [budgets], >= 0

  bool is_measured() const { return !budgets.empty(); }
  // In [0, 1]. As it is where nothing was measured.
  double Estimate(uint32_t layer, double kv_budget, double uncalibrated) const;
  // Of a calibrated estimate: what is taken to be missed at most. 1 where nothing was measured.
  double Limit(double kv_budget, double estimate) const;
};

inline constexpr double kMissedCoverage = 0.99;

// p of odds exp(margin) times those of `estimate`.
double WithMargin(double estimate, double margin);

// Log odds of the truth less those of the estimate.
double MissedScore(double truth, double estimate);

// The ceil((n + 1) coverage)-th smallest of n >= 1 scores, the largest where there are too few; at
// least 0.
double ConformalMargin(std::vector<double> scores, double coverage);

// Empty where there are no samples. `num_layers`: above every sample's.
MissedCalibration CalibrateMissed(std::span<const MissedSample> samples, size_t num_layers);

Json MissedCalibrationJson(const MissedCalibration& calibration, size_t num_layers);
// nullopt: damaged.
std::optional<MissedCalibration> ParseMissedCalibration(const Json& json, size_t num_layers);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_MISSED_CALIBRATION_H_
