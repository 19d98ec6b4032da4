#include "index/lookup.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "index/head_lookup.h"
#include "index/layer_lookup.h"

namespace lectern {
namespace {

// Selects every row, or those of one rank. `bounded`: number of query rows that want a bound on
// unread mass, which is zero here.
void SelectAll(const HeadIndex& head, const LookupShare* share, size_t bounded,
               HeadSelection& selection) {
  selection.Clear(head.levels().size());
  const IndexRange rows =
      share != nullptr ? share->Rows(head) : IndexRange{head.num_exact(), head.num_rows()};
  selection.rows.resize(rows.size());
  std::iota(selection.rows.begin(), selection.rows.end(), rows.begin);
  selection.unread_bound.assign(bounded, -INFINITY);
  selection.bytes = head.BlockBytes(rows);
  if (share == nullptr || share->owns_exact()) selection.bytes += head.ExactBytes(false);
}

// Looks up one head with its own budget, on the calling thread.
Status LookupAlone(const LookupArgs& args, size_t head, LookupWorkspace& workspace,
                   HeadSelection& selection) {
  if (args.head_budgets[head] >= 1) {
    SelectAll(args.heads[head], args.share, args.bound ? args.queries[head].num_rows : 0,
              selection);
    return {};
  }
  LookupArgs alone = args;  // a copy, so that new fields of LookupArgs reach it too
  alone.heads = args.heads.subspan(head, 1);
  alone.queries = args.queries.subspan(head, 1);
  alone.kv_budget = args.head_budgets[head];
  alone.head_budgets = {};
  if (!args.known_lse.empty()) alone.known_lse = args.known_lse.subspan(head, 1);
  alone.workspace = nullptr;
  ThreadPool none(1);
  return LookupTogether(alone, none, workspace, {&selection, 1});
}

}  // namespace

uint64_t FixedBytes(std::span<const HeadIndex> heads, bool tail) {
  uint64_t bytes = 0;
  for (const HeadIndex& head : heads) {
    const HeadIndex::Level& top = head.levels().front();
    bytes += head.ExactBytes(false) + head.metric_bytes() +
             top.num_clusters() * (top.cluster_bytes() + (tail ? top.mean_values.row_bytes() : 0));
  }
  return bytes;
}

double SmallestBudget(std::span<const HeadIndex> heads, bool tail) {
  uint64_t dense = 0, largest = 0;
  for (const HeadIndex& head : heads) {
    dense += head.dense_bytes();
    for (uint32_t i = 0; i < head.levels().back().num_clusters(); ++i) {
      largest = std::max(largest, head.BlockBytes(head.ClusterRows(i)));
    }
  }
  // Room for the largest cluster beside the fixed cost, so that reading it never exceeds the
  // budget.
  return static_cast<double>(FixedBytes(heads, tail) + largest) / static_cast<double>(dense);
}

LookupWorkspace::LookupWorkspace() = default;
LookupWorkspace::~LookupWorkspace() = default;
LookupWorkspace::LookupWorkspace(LookupWorkspace&&) noexcept = default;

void HeadSelection::Clear(size_t num_levels) {
  for (auto* const ranges : {&looked_up, &tail, &bounded}) {
    ranges->resize(num_levels);
    for (std::vector<IndexRange>& of_level : *ranges) of_level.clear();
  }
  rows.clear();
  coded.clear();
  refined.clear();
  second_order = false;
  logit_tail.clusters.clear();
  logit_tail.logits.clear();
  unread_bound.clear();
  window_copy = false;
  bytes = 0;
  missed_mass = 0;
}

bool CanShareLookup(std::span<const HeadIndex> heads, Rule rule) {
  return rule == Rule::kDefault &&
         std::ranges::all_of(heads, [](const HeadIndex& head) { return head.has_row_codes(); });
}

Status Lookup(const LookupArgs& args, std::vector<HeadSelection>& selections) {
  if (args.share != nullptr && !(args.row_codes && CanShareLookup(args.heads, args.rule.kind))) {
    return {Code::kInvalidArgument,
            "several ranks can look up by row codes and the default rule alone"};
  }
  LookupWorkspace own;
  LookupWorkspace& workspace = args.workspace ? *args.workspace : own;
  selections.resize(args.heads.size());
  if (args.head_budgets.empty()) return LookupTogether(args, args.threads, workspace, selections);
  std::vector<LookupWorkspace>& workspaces = workspace.alone();
  workspaces.resize(std::max(workspaces.size(), args.heads.size()));
  workspace.arena().Reset();
  ArenaVector<Status> statuses(args.heads.size(), &workspace.arena());
  const auto look_up = [&](size_t h, size_t) {
    statuses[h] = LookupAlone(args, h, workspaces[h], selections[h]);
  };
  if (args.share == nullptr) {
    args.threads.ParallelFor(args.heads.size(), look_up);
  } else {
    // Ranks meet in the order of the heads.
    for (size_t h = 0; h < args.heads.size(); ++h) look_up(h, 0);
  }
  for (Status& status : statuses) LECTERN_RETURN_IF_ERROR(std::move(status));
  return {};
}

Result<std::vector<HeadSelection>> Lookup(const LookupArgs& args) {
  std::vector<HeadSelection> selections;
  LECTERN_RETURN_IF_ERROR(Lookup(args, selections));
  return selections;
}

}  // namespace lectern
