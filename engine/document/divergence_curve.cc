#include "engine/document/divergence_curve.h"

#include <algorithm>
#include <cmath>

namespace lectern {
namespace {

constexpr double kLeast = 1e-9;  // nats: smaller divergences are not told apart
constexpr size_t kMostMeasured = 64;

// A budget above this reads so much that an exact answer costs hardly more.
constexpr double kMostSparse = 0.5;

// How fast log divergence falls by log budget where one budget alone was measured, which then kept
// the limit of indexing. Between 0.05 and 0.1 the exponent was 0.2 to 1.1 for ten documents with
// Gemma 3 and 1.0 to 2.4 for fourteen with SmolLM2 (tools/evaluate/RESULTS.md); this one is towards
// the lower end, so that most predictions of larger budgets are cautious.
constexpr double kSlope = -0.5;

}  // namespace

double DivergenceCurve::At(double kv_budget) const {
  if (kv_budget >= 1) return 0;
  if (budgets.size() == 1) {
    return divergences[0] * std::pow(kv_budget / budgets[0], kSlope);
  }
  const auto above = static_cast<size_t>(
      std::upper_bound(budgets.begin(), budgets.end(), kv_budget) - budgets.begin());
  const size_t b = std::clamp<size_t>(above, 1, budgets.size() - 1), a = b - 1;
  const double t = std::log(kv_budget / budgets[a]) / std::log(budgets[b] / budgets[a]);
  if (t >= 0 && t <= 1) return divergences[a] + t * (divergences[b] - divergences[a]);
  const double log_a = std::log(std::max(divergences[a], kLeast));
  const double log_b = std::log(std::max(divergences[b], kLeast));
  const double beyond = std::exp(log_a + t * (log_b - log_a));
  return t > 1 ? std::min(beyond, divergences[b]) : beyond;
}

double DivergenceCurve::SmallestBudget(double most) const {
  const double least = budgets.front();
  if (divergences.front() <= most) return least;
  if (At(kMostSparse) > most) return 1;
  // At never ascends, so that halving the interval on a logarithmic scale finds the place.
  double too_small = std::log(least), enough = std::log(kMostSparse);
  for (int i = 0; i < 40; ++i) {
    const double middle = (too_small + enough) / 2;
    (At(std::exp(middle)) <= most ? enough : too_small) = middle;
  }
  return std::exp(enough);
}

DivergenceCurve FitDivergenceCurve(std::vector<std::pair<double, double>> measured) {
  std::sort(measured.begin(), measured.end());
  // Pools adjacent violators: the pools so far, of one budget or more, and their sums.
  struct Pool {
    double sum;
    size_t count, num_budgets;
    double mean() const { return sum / static_cast<double>(count); }
    void Take(const Pool& next) {
      sum += next.sum;
      count += next.count;
      num_budgets += next.num_budgets;
    }
  };
  DivergenceCurve curve;
  std::vector<Pool> pools;
  for (size_t i = 0; i < measured.size();) {
    const double budget = measured[i].first;
    Pool next = {0, 0, 1};
    for (; i < measured.size() && measured[i].first == budget; ++i) {
      next.Take({measured[i].second, 1, 0});
    }
    curve.budgets.push_back(budget);
    for (; !pools.empty() && next.mean() > pools.back().mean(); pools.pop_back()) {
      next.Take(pools.back());
    }
    pools.push_back(next);
  }
  for (const Pool& pool : pools) {
    curve.divergences.insert(curve.divergences.end(), pool.num_budgets, pool.mean());
  }
  return curve;
}

Json DivergenceCurveJson(const DivergenceCurve& curve) {
  return Json(Json::Object{
      {"budgets", Json::Array(curve.budgets.begin(), curve.budgets.end())},
      {"divergences", Json::Array(curve.divergences.begin(), curve.divergences.end())}});
}

std::optional<DivergenceCurve> ParseDivergenceCurve(const Json& json) {
  DivergenceCurve curve;
  for (const auto& [key, out] :
       {std::pair("budgets", &curve.budgets), std::pair("divergences", &curve.divergences)}) {
    const Json* const numbers = json.Find(key);
    if (numbers == nullptr || numbers->array() == nullptr) return std::nullopt;
    if (numbers->array()->size() > kMostMeasured) return std::nullopt;
    for (const Json& number : *numbers->array()) out->push_back(number.number().value_or(-1));
  }
  const bool has_budgets =
      !curve.budgets.empty() && curve.budgets.front() > 0 && curve.budgets.back() < 1 &&
      std::ranges::adjacent_find(curve.budgets, std::greater_equal{}) == curve.budgets.end();
  const bool descends = std::ranges::is_sorted(curve.divergences, std::greater{}) &&
                        std::ranges::all_of(curve.divergences, [](double divergence) {
                          return divergence >= 0 && std::isfinite(divergence);
                        });
  if (!has_budgets || !descends || curve.budgets.size() != curve.divergences.size()) {
    return std::nullopt;
  }
  return curve;
}

}  // namespace lectern
