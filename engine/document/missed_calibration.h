// Calibrates a document's estimates of missed attention: compares them, while indexing, with the
// truth on questions, and corrects later estimates.
#ifndef LECTERN_ENGINE_DOCUMENT_MISSED_CALIBRATION_H_
#define LECTERN_ENGINE_DOCUMENT_MISSED_CALIBRATION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/model/formats/json.h"

namespace lectern {

// One layer of one step: true and estimated shares of its attention, as means over kv heads and
// query rows (by their weights).
struct MissedSample {
  double truth = 0;     // on the rows that were not read, by an exact run
  double estimate = 0;  // DocumentRead::uncalibrated_missed
  uint32_t layer = 0;
  double kv_budget = 0;  // the budget that was asked for
  size_t question = 0;
};

// Estimates come from clusters and codes of rows that the lookup took for small, so on the whole
// they are too low, the more so the smaller the budget and the estimate. For an estimate p in a
// layer, at a measured kv budget, p + c p^e (1 - p) is the mean of what is truly missed, with an
// exponent e of 1/2: a sample's truth varies around its mean by about the root of p, and the
// addend is a part of that deviation. With 2/3, which documents of before 2026-11-27 have, truths
// of the bundled reader at a budget of 0.05 were 1.3 times estimates of 0.003 to 0.03
// (tools/evaluate/RESULTS.md, "Missed attention"). The budget's margin, added to the log odds of
// the mean, is enough for 99 of 100 samples (split conformal prediction; each question is scored
// with factors fitted to the others, a single question with its own). Between measured budgets c
// and the margin are interpolated linearly in log budget; beyond them the nearest budget's are
// used.
struct MissedCalibration {
  std::vector<double> budgets;  // ascending; empty: not measured
  std::vector<double> factors;  // [layers][budgets]: c >= 0
  std::vector<double> margins;  // [budgets], >= 0
  double exponent = 2.0 / 3;    // e, in (0, 1]

  bool is_measured() const { return !budgets.empty(); }
  // The calibrated estimate, in [0, 1]; unchanged if nothing was measured. `kv_budget` is above 0,
  // `uncalibrated` in [0, 1]; `layer` is one that was calibrated.
  double Estimate(uint32_t layer, double kv_budget, double uncalibrated) const;
  // The share that is taken to be missed at most, for a calibrated estimate; 1 if nothing was
  // measured.
  double Limit(double kv_budget, double estimate) const;
};

// Share of samples that a margin must cover.
inline constexpr double kMissedCoverage = 0.99;

// The probability whose odds are exp(margin) times those of `estimate`; 0 and 1 stay.
double WithMargin(double estimate, double margin);

// Log odds of the truth minus those of the estimate: the margin that this sample would have needed.
// Shares nearer to 0 or 1 than 1e-6 count as 1e-6 from them, so the result is finite.
double MissedScore(double truth, double estimate);

// The ceil((n + 1) coverage)-th smallest of n >= 1 scores (the largest if n is too small), at least
// 0.
double ConformalMargin(std::vector<double> scores, double coverage);

// Fits factors and margins; nothing is measured if there are no samples. `num_layers` exceeds every
// sample's layer.
MissedCalibration CalibrateMissed(std::span<const MissedSample> samples, size_t num_layers);

// {"budgets", "margins", "factors": [layers][budgets], "exponent"}, for the document's shard.
Json MissedCalibrationJson(const MissedCalibration& calibration, size_t num_layers);
// Reads and checks JSON that MissedCalibrationJson made. nullopt: it is damaged, which includes no
// budgets, more than 64, and another number of layers. Without "exponent" it is 2/3.
std::optional<MissedCalibration> ParseMissedCalibration(const Json& json, size_t num_layers);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_MISSED_CALIBRATION_H_
