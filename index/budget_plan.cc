#include "index/budget_plan.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace lectern {
namespace {

enum class Decides { kLayers, kHeads };

// The policy of this name if it can decide over layers (heads); otherwise an error that lists those
// that can.
Result<const Policy*> FindPolicy(std::string_view name, Decides decides) {
  const bool layers = decides == Decides::kLayers;
  std::string names;
  for (const Policy& policy : Policies()) {
    if (!(layers ? policy.for_layers : policy.for_heads)) continue;
    if (policy.name == name) return &policy;
    names += (names.empty() ? "" : ", ") + std::string(policy.name);
  }
  const char* param = layers ? "layer_budget" : "head_budget";
  return Status(Code::kInvalidArgument, OptionName(param) + " must be one of " + names +
                                            ", not \"" + std::string(name) + "\"")
      .WithParam(param);
}

// kInvalidArgument if the document lacks the statistics that the policy needs.
Status CheckStatistics(const Policy& policy, const PolicyInput& input, const char* param) {
  const bool full = policy.needs == Statistic::kFullBlockScores;
  const bool lacks =
      (policy.needs == Statistic::kCosine && input.cosine.empty()) ||
      (policy.needs == Statistic::kBlockScores && input.block_scores.empty()) ||
      (policy.needs == Statistic::kPlainBlockScores && input.plain_block_scores.empty()) ||
      (full && input.full_block_scores.empty());
  if (!lacks) return {};
  return Status(Code::kInvalidArgument, "the document was indexed without the statistics that " +
                                            std::string(policy.name) + " needs: index it again" +
                                            (full ? " with " + OptionName("stats", "full") : "") +
                                            ", or take uniform for layers and global for heads")
      .WithParam(param);
}

// Rows of each layer when every kv head reads its share of `shares`.
std::vector<double> LayerRows(const PolicyInput& input, const std::vector<double>& shares) {
  std::vector<double> rows(input.num_layers, 0.0);
  for (size_t i = 0; i < shares.size(); ++i) {
    rows[i / input.num_kv_heads] += shares[i] * static_cast<double>(input.rows[i]);
  }
  return rows;
}

// Rows of each layer that the floors of MakePlan demand, rounded up for each head.
std::vector<double> LayerFloors(const PolicyInput& input, const std::vector<double>& layer_rows,
                                std::span<const double> floors, bool compete) {
  std::vector<double> rows(input.num_layers, 0.0);
  if (compete) {
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = std::ceil(floors[i] * layer_rows[i]);
    return rows;
  }
  for (size_t i = 0; i < input.rows.size(); ++i) {
    rows[i / input.num_kv_heads] += std::ceil(floors[i] * static_cast<double>(input.rows[i]));
  }
  return rows;
}

// Rows of a part at a water level.
double Wanted(const PlanPart& part, double level) {
  return std::clamp(level * part.wanted, static_cast<double>(part.floor),
                    static_cast<double>(part.rows));
}

// kBudgetTooSmall; `smallest`: the least kv_budget that pays for all floors.
Status TooSmall(double smallest) {
  char number[32];  // rounded up: a budget of this figure is then accepted
  std::snprintf(number, sizeof number, "%.4f", std::ceil(smallest * 1e4) / 1e4);
  return Status(Code::kBudgetTooSmall,
                OptionName("kv_budget") +
                    " is below what sinks, window and the top level of this document cost; the "
                    "smallest possible is " +
                    std::string(number))
      .WithParam("kv_budget");
}

}  // namespace

Status CheckPolicies(const PlanPolicies& policies) {
  LECTERN_RETURN_IF_ERROR(FindPolicy(policies.layers, Decides::kLayers).status());
  return FindPolicy(policies.heads, Decides::kHeads).status();
}

bool HeadsCompete(const PlanPolicies& policies) {
  const auto policy = FindPolicy(policies.heads, Decides::kHeads);
  return policy.ok() && (*policy)->heads_compete;
}

Result<BudgetPlan> MakePlan(const PlanPolicies& policies, PolicyInput input,
                            std::span<const double> floors) {
  LECTERN_ASSIGN(const Policy* const of_layers, FindPolicy(policies.layers, Decides::kLayers));
  LECTERN_ASSIGN(const Policy* const of_heads, FindPolicy(policies.heads, Decides::kHeads));
  LECTERN_RETURN_IF_ERROR(CheckStatistics(*of_layers, input, "layer_budget"));
  LECTERN_RETURN_IF_ERROR(CheckStatistics(*of_heads, input, "head_budget"));
  const bool compete = of_heads->heads_compete;
  const std::vector<double> ones(input.rows.size(), 1.0);
  const std::vector<double> all_rows = LayerRows(input, ones);
  input.floors = LayerFloors(input, all_rows, floors, compete);
  const std::vector<double> layer_rows = LayerRows(input, of_layers->shares(input));
  const std::vector<double> head_shares = of_heads->shares(input);
  const std::vector<double> head_rows = LayerRows(input, head_shares);

  // Parts are layers where heads compete, otherwise kv heads, in the order of `floors`.
  std::vector<PlanPart> parts;
  const auto add = [&](double wanted, double rows) {
    const double floor = std::ceil(floors[parts.size()] * rows);
    parts.push_back(
        {wanted, static_cast<uint64_t>(std::min(floor, rows)), static_cast<uint64_t>(rows)});
  };
  for (uint32_t layer = 0; layer < input.num_layers; ++layer) {
    if (compete) add(layer_rows[layer], all_rows[layer]);
    for (size_t i = layer * input.num_kv_heads; !compete && i < (layer + 1) * input.num_kv_heads;
         ++i) {
      const auto rows = static_cast<double>(input.rows[i]);
      // A head's part of its layer's rows, in proportion to the head policy; equal shares if that
      // gives the whole layer nothing.
      const double of_layer =
          head_rows[layer] > 0 ? head_shares[i] * rows / head_rows[layer] : rows / all_rows[layer];
      add(layer_rows[layer] * of_layer, rows);
    }
  }
  const double sum = std::accumulate(all_rows.begin(), all_rows.end(), 0.0);
  // The factor keeps a budget such as 0.1 * 1000 from losing a row to binary rounding.
  const auto total = static_cast<uint64_t>(std::floor(input.kv_budget * sum * (1 + 1e-12)));
  uint64_t least = 0;
  for (const PlanPart& part : parts) least += part.floor;
  if (least > total) return TooSmall(static_cast<double>(least) / sum * input.kept_share);

  // From here on: back from whole rows to shares.
  const std::vector<uint64_t> filled = FillRows(parts, total);
  BudgetPlan plan;
  std::vector<double> shares;
  for (size_t i = 0; i < parts.size(); ++i) {
    shares.push_back(static_cast<double>(filled[i]) / static_cast<double>(parts[i].rows));
  }
  if (compete) {
    plan.layers = std::move(shares);
    return plan;
  }
  plan.layers = LayerRows(input, shares);
  for (uint32_t layer = 0; layer < input.num_layers; ++layer) plan.layers[layer] /= all_rows[layer];
  plan.heads = std::move(shares);
  return plan;
}

std::vector<uint64_t> FillRows(std::span<const PlanPart> parts, uint64_t total) {
  // A part that wants nothing is filled last instead of never: it gets a tiny wish, so a level high
  // enough fills it.
  std::vector<PlanPart> filling(parts.begin(), parts.end());
  double highest = 1;
  for (PlanPart& part : filling) {
    part.wanted = std::max(part.wanted, 1e-9 * static_cast<double>(part.rows));
    highest = std::max(highest, static_cast<double>(part.rows) / std::max(part.wanted, 1e-300));
  }
  const auto sum_at = [&](double level) {
    double sum = 0;
    for (const PlanPart& part : filling) sum += Wanted(part, level);
    return sum;
  };
  // The greatest water level that does not exceed the total, found by bisection down to
  // neighbouring doubles.
  double low = 0, high = highest;
  if (sum_at(high) <= static_cast<double>(total)) low = high;
  while (low < high) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (sum_at(middle) <= static_cast<double>(total) ? low : high) = middle;
  }
  std::vector<uint64_t> rows;
  // Negated, so that sorting puts the largest first.
  std::vector<std::pair<double, size_t>> remainders;
  uint64_t used = 0;
  for (size_t i = 0; i < filling.size(); ++i) {
    const double wanted = Wanted(filling[i], low);
    rows.push_back(static_cast<uint64_t>(wanted));
    used += rows.back();
    remainders.emplace_back(static_cast<double>(rows.back()) - wanted, i);
  }
  assert(used <= total);
  std::sort(remainders.begin(), remainders.end());
  // One more row to each part in the order of remainders, repeated while parts have room.
  for (uint64_t before = used; used < total;) {
    for (const auto& [remainder, i] : remainders) {
      if (used == total) break;
      if (rows[i] == filling[i].rows) continue;
      ++rows[i];
      ++used;
    }
    if (used == before) break;  // the precondition is violated
    before = used;
  }
  return rows;
}

}  // namespace lectern
