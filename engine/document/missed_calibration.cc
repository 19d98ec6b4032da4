#include "engine/document/missed_calibration.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace lectern {
namespace {

constexpr double kSmallest = 1e-6;  // smaller shares are not told apart
constexpr size_t kMostBudgets = 64;

double LogOdds(double share) {
  const double p = std::clamp(share, kSmallest, 1 - kSmallest);
  return std::log(p / (1 - p));
}

constexpr double kExponent = 0.5;  // of new calibrations

// Returns what a factor of 1 adds to an estimate p: p^exponent (1 - p).
double Addend(double estimate, double exponent) {
  return std::pow(estimate, exponent) * (1 - estimate);
}

// The value at `budget`, from `values` at `budgets` (ascending), linear in log budget.
double Interpolate(std::span<const double> budgets, std::span<const double> values, double budget) {
  const auto above = static_cast<size_t>(std::upper_bound(budgets.begin(), budgets.end(), budget) -
                                         budgets.begin());
  if (above == 0) return values.front();
  if (above == budgets.size()) return values.back();
  const double t =
      std::log(budget / budgets[above - 1]) / std::log(budgets[above] / budgets[above - 1]);
  return (1 - t) * values[above - 1] + t * values[above];
}

// Weighted least squares for c in truth - p = c p^kExponent (1 - p). Residuals are taken to have a
// deviation that grows with the root of p, hence the weight 1 / p, for p of at least 0.001.
class FactorFit {
 public:
  void Add(const MissedSample& sample) {
    const double x = Addend(sample.estimate, kExponent),
                 weight = 1 / std::max(sample.estimate, 1e-3);
    xy_ += weight * x * (sample.truth - sample.estimate);
    xx_ += weight * x * x;
  }
  double factor() const { return xx_ > 0 ? std::max(0.0, xy_ / xx_) : 0; }

 private:
  double xy_ = 0, xx_ = 0;
};

constexpr size_t kNoQuestion = static_cast<size_t>(-1);

// Factors [layers][budgets], fitted to all questions but `left_out` (kNoQuestion: to all); 0 where
// a layer has no sample at a budget.
std::vector<double> FitFactors(std::span<const MissedSample> samples, size_t num_layers,
                               std::span<const double> budgets, size_t left_out) {
  std::vector<FactorFit> fits(num_layers * budgets.size());
  for (const MissedSample& sample : samples) {
    if (sample.question == left_out) continue;
    const auto budget = std::lower_bound(budgets.begin(), budgets.end(), sample.kv_budget);
    fits[sample.layer * budgets.size() + static_cast<size_t>(budget - budgets.begin())].Add(sample);
  }
  std::vector<double> factors;
  for (const FactorFit& fit : fits) factors.push_back(fit.factor());
  return factors;
}

Json NumbersJson(std::span<const double> numbers) {
  Json::Array array(numbers.begin(), numbers.end());
  return Json(std::move(array));
}

// Reads `count` numbers of at least 0. False: the JSON is something else.
bool ParseNumbers(const Json* json, size_t count, std::vector<double>& numbers) {
  if (json == nullptr || json->array() == nullptr || json->array()->size() != count) return false;
  for (const Json& item : *json->array()) {
    numbers.push_back(item.number().value_or(-1));
    if (!(numbers.back() >= 0)) return false;
  }
  return true;
}

}  // namespace

double MissedCalibration::Estimate(uint32_t layer, double kv_budget, double uncalibrated) const {
  if (!is_measured()) return uncalibrated;
  const auto of_layer = std::span(factors).subspan(layer * budgets.size(), budgets.size());
  const double factor = Interpolate(budgets, of_layer, kv_budget);
  return std::min(1.0, uncalibrated + factor * Addend(uncalibrated, exponent));
}

double MissedCalibration::Limit(double kv_budget, double estimate) const {
  if (!is_measured()) return 1;
  return WithMargin(estimate, Interpolate(budgets, margins, kv_budget));
}

double WithMargin(double estimate, double margin) {
  return 1 / (1 + std::exp(-margin) * (1 - estimate) / estimate);
}

double MissedScore(double truth, double estimate) { return LogOdds(truth) - LogOdds(estimate); }

double ConformalMargin(std::vector<double> scores, double coverage) {
  const auto rank =
      // Counted from 1.
      static_cast<size_t>(std::ceil(coverage * static_cast<double>(scores.size() + 1)));
  const auto at = scores.begin() + static_cast<ptrdiff_t>(std::min(rank, scores.size()) - 1);
  std::nth_element(scores.begin(), at, scores.end());
  return std::max(0.0, *at);
}

MissedCalibration CalibrateMissed(std::span<const MissedSample> samples, size_t num_layers) {
  std::set<double> budgets;
  std::set<size_t> questions;
  for (const MissedSample& sample : samples) {
    budgets.insert(sample.kv_budget);
    questions.insert(sample.question);
  }
  MissedCalibration calibration;
  calibration.exponent = kExponent;
  calibration.budgets.assign(budgets.begin(), budgets.end());
  std::vector<std::vector<double>> scores(budgets.size());
  // Each question is scored with factors that have not seen it, so that margins are honest.
  for (const size_t question : questions) {
    calibration.factors = FitFactors(samples, num_layers, calibration.budgets,
                                     questions.size() > 1 ? question : kNoQuestion);
    for (const MissedSample& sample : samples) {
      if (sample.question != question) continue;
      const double estimate = calibration.Estimate(sample.layer, sample.kv_budget, sample.estimate);
      const auto budget = std::distance(budgets.begin(), budgets.find(sample.kv_budget));
      scores[static_cast<size_t>(budget)].push_back(MissedScore(sample.truth, estimate));
    }
  }
  // The factors that are kept use all questions.
  calibration.factors = FitFactors(samples, num_layers, calibration.budgets, kNoQuestion);
  for (std::vector<double>& of_budget : scores) {
    calibration.margins.push_back(ConformalMargin(std::move(of_budget), kMissedCoverage));
  }
  return calibration;
}

Json MissedCalibrationJson(const MissedCalibration& calibration, size_t num_layers) {
  Json::Array layers;
  const size_t count = calibration.budgets.size();
  for (size_t layer = 0; layer < num_layers; ++layer) {
    layers.push_back(NumbersJson(std::span(calibration.factors).subspan(layer * count, count)));
  }
  return Json(Json::Object{{"budgets", NumbersJson(calibration.budgets)},
                           {"margins", NumbersJson(calibration.margins)},
                           {"factors", Json(std::move(layers))},
                           {"exponent", Json(calibration.exponent)}});
}

std::optional<MissedCalibration> ParseMissedCalibration(const Json& json, size_t num_layers) {
  MissedCalibration calibration;
  const Json *const budgets = json.Find("budgets"), *const factors = json.Find("factors");
  if (!budgets || !budgets->array() || !factors || !factors->array()) return std::nullopt;
  const size_t count = budgets->array()->size();
  if (count == 0 || count > kMostBudgets || factors->array()->size() != num_layers ||
      !ParseNumbers(budgets, count, calibration.budgets) ||
      !ParseNumbers(json.Find("margins"), count, calibration.margins)) {
    return std::nullopt;
  }
  if (const Json* const exponent = json.Find("exponent")) {
    calibration.exponent = exponent->number().value_or(0);
    if (!(calibration.exponent > 0 && calibration.exponent <= 1)) return std::nullopt;
  }
  for (const Json& layer : *factors->array()) {
    if (!ParseNumbers(&layer, count, calibration.factors)) return std::nullopt;
  }
  const bool ascends = std::is_sorted(calibration.budgets.begin(), calibration.budgets.end(),
                                      std::less_equal<double>());
  if (!ascends || calibration.budgets.front() <= 0) return std::nullopt;
  return calibration;
}

}  // namespace lectern
