// Predicts how far a document's answers at a kv budget are from exact ones, from figures that were
// measured while it was indexed, and finds the smallest budget that keeps a limit.
#ifndef LECTERN_ENGINE_DOCUMENT_DIVERGENCE_CURVE_H_
#define LECTERN_ENGINE_DOCUMENT_DIVERGENCE_CURVE_H_

#include <optional>
#include <vector>

#include "engine/model/formats/json.h"

namespace lectern {

// The mean divergence of a token of an answer, KL(exact || at the budget) in nats, by kv budget.
// Log divergence is linear in log budget between measured budgets and, by the nearest two, beyond
// them; it never grows with the budget.
struct DivergenceCurve {
  std::vector<double> budgets;      // in (0, 1), ascending; empty: not measured
  std::vector<double> divergences;  // of each budget, at least 0, not ascending

  bool is_measured() const { return !budgets.empty(); }
  // The prediction; 0 at a budget of 1. Only of a curve that is measured.
  double At(double kv_budget) const;
  // The smallest budget whose prediction is at most `most`, at least the smallest measured one;
  // 1 where half of the document would not do. Only of a curve that is measured.
  double SmallestBudget(double most) const;
};

// A curve through measurements in any order: divergences that grow with the budget, which is
// noise, are replaced by their mean (isotonic regression).
DivergenceCurve FitDivergenceCurve(std::vector<std::pair<double, double>> measured);

Json DivergenceCurveJson(const DivergenceCurve& curve);
// nullopt: the JSON is damaged.
std::optional<DivergenceCurve> ParseDivergenceCurve(const Json& json);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_DIVERGENCE_CURVE_H_
