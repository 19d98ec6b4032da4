// Predicts how far a document's answers at a kv budget are from exact ones, from figures that were
// measured while it was indexed, and finds the smallest budget that keeps a limit.
#ifndef LECTERN_ENGINE_DOCUMENT_DIVERGENCE_CURVE_H_
#define LECTERN_ENGINE_DOCUMENT_DIVERGENCE_CURVE_H_

#include <optional>
#include <vector>

#include "engine/model/formats/json.h"

namespace lectern {

// The mean divergence of a token of an answer, KL(exact || at the budget) in nats, by kv budget.
// Between measured budgets it is linear in log budget: most of a sharp model's divergence comes
// from a few tokens, each of which becomes another one at a budget of its own, and where in between
// that happens is not known (tools/evaluate/RESULTS.md). Beyond measured budgets log divergence is
// linear in log budget, by the nearest two; with a single measured budget it falls with the root of
// the budget. It never grows with the budget. Beyond two measured budgets or more, divergences
// under 1e-9 count as 1e-9, so that their logarithms exist.
struct DivergenceCurve {
  std::vector<double> budgets;      // in (0, 1), ascending; empty: not measured
  std::vector<double> divergences;  // of each budget, at least 0, not ascending

  bool is_measured() const { return !budgets.empty(); }
  // The prediction in nats; `kv_budget` is above 0, and from 1 on the prediction is 0. Only of a
  // curve that is measured.
  double At(double kv_budget) const;
  // The smallest measured budget if its divergence is at most `most` nats; else the smallest budget
  // up to 0.5 whose prediction is; else 1, as a budget above 0.5 costs hardly less than an exact
  // answer. Only of a curve that is measured.
  double SmallestBudget(double most) const;
};

// A curve through measurements (budget, divergence) in any order, their budgets in (0, 1); several
// of one budget count as their mean. Divergences that grow with the budget, which is noise, are
// replaced by their mean (isotonic regression). Without measurements the curve is not measured.
DivergenceCurve FitDivergenceCurve(std::vector<std::pair<double, double>> measured);

// {"budgets": […], "divergences": […]}, for the document's shard.
Json DivergenceCurveJson(const DivergenceCurve& curve);
// Reads and checks JSON that DivergenceCurveJson made. nullopt: it is damaged, which includes a
// curve without budgets or with more than 64.
std::optional<DivergenceCurve> ParseDivergenceCurve(const Json& json);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_DIVERGENCE_CURVE_H_
