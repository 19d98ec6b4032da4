// A plan: which share of its rows each layer, or each kv head, reads in a step.
#ifndef LECTERN_INDEX_BUDGET_PLAN_H_
#define LECTERN_INDEX_BUDGET_PLAN_H_

#include <string>
#include <vector>

#include "index/policies/policy.h"
#include "store/status.h"

namespace lectern {

struct PlanPolicies {
  std::string layers = "uniform", heads = "global";
  bool operator==(const PlanPolicies&) const = default;
};

struct BudgetPlan {
  std::vector<double> layers;  // [layers]: share of the layer's rows, in (0, 1]
  // [layers][kv heads]: of the head's rows; empty where the heads of a layer compete for its share.
  std::vector<double> heads;
};

// kInvalidArgument (param layer_budget or head_budget): no policy of this name; the message lists
// those that there are.
Status CheckPolicies(const PlanPolicies& policies);

// The shares of the layers, by the one policy, times how heads share a layer, by the other; none
// below its floor or above 1; in the mean, by rows, kv_budget to the row (never above it).
// `floors`: the least share that can be read, [layers][kv heads], or [layers] where heads compete
// (as HeadsCompete says). kInvalidArgument also when the document lacks the statistics of a policy;
// kBudgetTooSmall (param kv_budget) when the floors alone exceed the budget.
Result<BudgetPlan> MakePlan(const PlanPolicies& policies, PolicyInput input,
                            std::span<const double> floors);
bool HeadsCompete(const PlanPolicies& policies);

// One part of what is shared out, in rows.
struct PlanPart {
  double wanted;         // >= 0
  uint64_t floor, rows;  // floor <= rows
};
// `total` rows, in proportion to what is wanted but within [floor, rows] of each part: water is
// filled in until it is used up. Whole rows by largest remainder, among equals the first parts.
// Precondition: total between the sums of floors and of rows.
std::vector<uint64_t> FillRows(std::span<const PlanPart> parts, uint64_t total);

}  // namespace lectern

#endif  // LECTERN_INDEX_BUDGET_PLAN_H_
