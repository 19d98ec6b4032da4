#include "tools/evaluate/evicted_tail.h"

#include <algorithm>
#include <cmath>

#include "kernels/second_order.h"
#include "kernels/attention.h"

namespace lectern::evaluate {
namespace {

// Bytes of all finest clusters of a head, with their mean values.
uint64_t ClusterBytes(const HeadIndex& head) {
  const HeadIndex::Level& finest = head.levels().back();
  return finest.num_clusters() * (finest.cluster_bytes() + finest.mean_values.row_bytes());
}

// Selects the rows whose positions are in `positions` (ascending). Returns, for each finest
// cluster, the log of the number of its rows that are not selected; -inf where there are none.
std::vector<float> ChooseRows(const HeadIndex& head, std::span<const uint32_t> positions,
                              HeadSelection& selection) {
  std::vector<float> log_gone;
  for (uint32_t cluster = 0; cluster < head.levels().back().num_clusters(); ++cluster) {
    const IndexRange rows = head.ClusterRows(cluster);
    const size_t before = selection.rows.size();
    for (uint32_t row = rows.begin; row < rows.end; ++row) {
      if (std::ranges::binary_search(positions, head.positions()[row])) {
        selection.rows.push_back(row);
      }
    }
    const size_t gone = rows.size() - (selection.rows.size() - before);
    log_gone.push_back(std::log(static_cast<float>(gone)));
  }
  return log_gone;
}

// Adds a tail in which each finest cluster stands for its evicted keys: the logit of its centroid,
// with the correction for their spread, softcapped, plus the log of their number.
Status AddTail(const LookupArgs& args, size_t h, std::span<const float> log_gone,
               HeadSelection& selection) {
  const HeadIndex& head = args.heads[h];
  const HeadIndex::Level& finest = head.levels().back();
  const Rows<const float> queries = args.queries[h];
  const size_t clusters = log_gone.size();
  const IndexRange all = {0, static_cast<uint32_t>(clusters)};
  LogitTail& tail = selection.logit_tail;
  tail = {head.levels().size() - 1, {all}, std::vector<float>(queries.num_rows * clusters)};
  LECTERN_RETURN_IF_ERROR(head.VerifyCentroids(tail.level, all));
  std::vector<float> scratch(AttendScratch(queries.num_rows, queries.num_cols));
  args.backend.key_logits({.queries = queries,
                           .keys = finest.centroids,
                           .scale = args.scale,
                           .logits = {tail.logits.data(), queries.num_rows, clusters, clusters},
                           .scratch = scratch});
  for (size_t r = 0; r < queries.num_rows; ++r) {
    const float norm = args.scale * Norm({queries[r], queries.num_cols});
    for (size_t i = 0; i < clusters; ++i) {
      float& logit = tail.logits[r * clusters + i];
      if (args.second_order && log_gone[i] > 0) {
        logit += LogMeanExp(norm * std::sqrt(finest.variances[i]), log_gone[i]);
      }
    }
  }
  Softcap(args.backend, {tail.logits.data(), queries.num_rows, clusters}, args.softcap);
  for (size_t i = 0; i < tail.logits.size(); ++i) tail.logits[i] += log_gone[i % clusters];
  return {};
}

}  // namespace

Result<double> KeepBesideClusters(const Document& whole, double keep) {
  double rows = 0, clusters = 0;
  for (uint32_t layer = 0; layer < whole.num_layers(); ++layer) {
    if (whole.is_windowed(layer)) continue;
    LECTERN_ASSIGN(const std::span<const HeadIndex> heads, whole.Heads(layer));
    for (const HeadIndex& head : heads) {
      rows += head.num_rows();
      clusters +=
          static_cast<double>(ClusterBytes(head)) / static_cast<double>(head.BlockBytes({0, 1}));
    }
  }
  const double kept = std::floor(std::ceil(keep * rows) - clusters);
  if (kept <= 0) return Status(Code::kInvalidArgument, "clusters alone cost more than is kept");
  // Indexing keeps ceil(share * rows): half a row less makes that `kept`, however it is rounded.
  return (kept - 0.5) / rows;
}

Selector SelectKeptRows(const Document& kept) {
  return [&kept](uint32_t layer, const LookupArgs& args) -> Result<std::vector<HeadSelection>> {
    LECTERN_ASSIGN(const std::span<const HeadIndex> kept_heads, kept.Heads(layer));
    std::vector<HeadSelection> selections(args.heads.size());
    for (size_t h = 0; h < selections.size(); ++h) {
      const HeadIndex& head = args.heads[h];
      std::vector<uint32_t> positions(kept_heads[h].positions().begin(),
                                      kept_heads[h].positions().end());
      std::ranges::sort(positions);
      HeadSelection& selection = selections[h];
      const std::vector<float> log_gone = ChooseRows(head, positions, selection);
      selection.bytes = head.BlockBytes({0, kept_heads[h].num_rows()});
      if (positions.size() == head.num_rows()) continue;
      LECTERN_RETURN_IF_ERROR(AddTail(args, h, log_gone, selection));
      selection.bytes += ClusterBytes(head);
    }
    return selections;
  };
}

}  // namespace lectern::evaluate
