// Queries -> selected clusters, coarse level first. Children of rejected clusters are never touched.
#ifndef LECTERN_INDEX_LOOKUP_H_
#define LECTERN_INDEX_LOOKUP_H_

#include <vector>

#include "index/head_index.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"

namespace lectern {

// What one step reads of one kv head, besides its exact rows.
struct HeadSelection {
  // Per level, ascending and disjoint: clusters whose centroids and counts were read.
  std::vector<std::vector<IndexRange>> looked_up;
  // Per level: clusters that stand in for their keys by centroid and mean value. Empty without tail.
  std::vector<std::vector<IndexRange>> tail;
  std::vector<uint32_t> clusters;  // finest level, ascending: their rows are read
  uint64_t bytes = 0;              // of all this and the exact rows
  double missed_mass = 0;          // estimated share of the clustered keys' mass that is not read
};

struct LookupArgs {
  const Backend& backend;
  ThreadPool& threads;
  std::span<const HeadIndex> heads;            // of one layer, all with clusters
  std::span<const Rows<const float>> queries;  // per kv head: [R, head_dim], rows of its group
  float scale;
  double kv_budget;  // (0, 1): share of the layer's K+V bytes, all kv heads together
  bool tail;
};

// The default rule of Lectern: clusters with S above the calibrated threshold of their head and
// level, best first, ended by the layer's byte budget: at least kFillTo of it is read (next best S),
// never more than kCutAt of it. A quarter of the budget is for looking up, more only where the top
// level or filling the budget needs it.
//   S of a level has in its denominator: the clusters looked up there, and the mass of what upper
// levels rejected (by its own centroids). Everything through log-sum-exp; mean over the R rows.
// Source: arXiv:2411.09688, section 3.3; ours reads no child of a rejected cluster, keeps the
// rejected mass in the denominator, and has a budget.
inline constexpr double kFillTo = 0.95, kCutAt = 1.05;
// One entry per kv head. kChecksumMismatch.
Result<std::vector<HeadSelection>> Lookup(const LookupArgs& args);

// Bytes that any lookup of the layer reads: sinks, window, the top level (and its mean values).
uint64_t FixedBytes(std::span<const HeadIndex> heads, bool tail);
// The smallest budget that Lookup serves for the layer.
double SmallestBudget(std::span<const HeadIndex> heads, bool tail);

}  // namespace lectern

#endif  // LECTERN_INDEX_LOOKUP_H_
