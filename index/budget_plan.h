// Makes a budget plan: the share of its rows that each layer, or each kv head, reads in a step.
// Turns the shares of two policies (index/policies/policy.h) into whole rows that meet the budget.
#ifndef LECTERN_INDEX_BUDGET_PLAN_H_
#define LECTERN_INDEX_BUDGET_PLAN_H_

#include <string>
#include <vector>

#include "index/policies/policy.h"
#include "store/status.h"

namespace lectern {

struct PlanPolicies {
  std::string layers = "uniform", heads = "global";  // names of policies (policy.cc)
  bool operator==(const PlanPolicies&) const = default;
};

struct BudgetPlan {
  std::vector<double> layers;  // [layers]: share of the layer's rows, in (0, 1]
  // [layers][kv heads]: share of the head's rows. Empty where the heads of a layer compete for its
  // share.
  std::vector<double> heads;
};

// kInvalidArgument (param layer_budget or head_budget) if there is no policy of this name; the
// message lists the known ones.
Status CheckPolicies(const PlanPolicies& policies);

// Multiplies the layer policy's shares with the head policy's shares of a layer. No share is below
// its floor or above 1, and their mean over rows is kv_budget, rounded down to a whole row.
// `floors` are the least shares that can be read: [layers][kv heads], or [layers] where heads
// compete (as HeadsCompete says); input.floors need not be set. Errors of CheckPolicies;
// kInvalidArgument (param layer_budget or head_budget) also when the document lacks the statistics
// that a policy needs; kBudgetTooSmall (param kv_budget) when the floors alone exceed the budget;
// the message has the smallest one.
Result<BudgetPlan> MakePlan(const PlanPolicies& policies, PolicyInput input,
                            std::span<const double> floors);
// Whether the heads of a layer share its bytes anew in every step instead of by a fixed plan. False
// for an unknown policy.
bool HeadsCompete(const PlanPolicies& policies);

// One recipient of rows in FillRows.
struct PlanPart {
  double wanted;         // >= 0
  uint64_t floor, rows;  // floor <= rows
};
// Shares `total` rows in proportion to `wanted`, but within [floor, rows] of each part, by raising
// a common water level until the total is used up. Parts that want nothing (or less than 1e-9 of
// their rows) are filled last. Rounds to whole rows by largest remainder; among equal remainders
// the first parts win. `total` must lie between the sums of floors and of rows, which is not
// checked: at a greater one all parts are full. Returns the rows of each part.
std::vector<uint64_t> FillRows(std::span<const PlanPart> parts, uint64_t total);

}  // namespace lectern

#endif  // LECTERN_INDEX_BUDGET_PLAN_H_
