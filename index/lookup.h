// Queries -> selected rows, coarse level first. Children of rejected clusters are never touched.
#ifndef LECTERN_INDEX_LOOKUP_H_
#define LECTERN_INDEX_LOOKUP_H_

#include <vector>

#include "index/head_index.h"
#include "index/reused.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"

namespace lectern {

struct HeadBuffers;  // index/head_lookup.h

// Of documents with fewer tokens a step scores and reads more of the budget, up to twice as much:
// it is short there, and answers come closer to those of exact attention
// (tools/evaluate/RESULTS.md).
inline constexpr uint32_t kLongDocument = 32768;

// Clusters with a log mass of their own for each query row.
struct LogitTail {
  size_t level = 0;
  std::vector<IndexRange> clusters;  // ascending and disjoint
  std::vector<float> logits;         // [R][clusters]; -inf: nothing left to stand for
  size_t num_clusters() const {
    size_t count = 0;
    for (const IndexRange& range : clusters) count += range.size();
    return count;
  }
};

// What one step reads of one kv head, besides its exact rows.
struct HeadSelection {
  // Per level, ascending and disjoint: clusters whose centroids, variances and counts were read.
  std::vector<std::vector<IndexRange>> looked_up;
  // Stored rows that are read, ascending.
  std::vector<uint32_t> rows;
  // Finest clusters whose row codes were read, and stored rows whose fine codes were, ascending.
  std::vector<IndexRange> coded;
  std::vector<uint32_t> refined;

  // The tail: clusters whose mean value stands for keys that are not read. Empty without it.
  // Per level: clusters that were not looked into, by their own centroid, and where `second_order`
  // by their variance …
  std::vector<std::vector<IndexRange>> tail;
  bool second_order = false;
  // … and with row codes, the clusters of the last level but one that were looked into (of the only
  // level: `coded`), by the estimated log mass of those of their keys that are not read: by their
  // codes, or their finest cluster's centroid.
  LogitTail logit_tail;

  // [R], where LookupArgs::bound: log of a sum of exp(logit) that the rows not read cannot exceed.
  // Per level, ascending and disjoint: clusters whose radii were read for it.
  std::vector<float> unread_bound;
  std::vector<std::vector<IndexRange>> bounded;

  uint64_t bytes = 0;      // of all this and the exact rows
  double missed_mass = 0;  // estimated share of the attention that the keys not read would get

  // Nothing is selected, of so many levels. Keeps the memory.
  void Clear(size_t num_levels);
};

// Buffers of lookups, kept from step to step. One lookup at a time.
class LookupWorkspace {
 public:
  LookupWorkspace();
  ~LookupWorkspace();
  LookupWorkspace(LookupWorkspace&&) noexcept;
  Arena& arena() { return arena_; }
  std::vector<HeadBuffers>& heads() { return heads_; }
  std::vector<LookupWorkspace>& alone() { return alone_; }  // of heads that are looked up alone

 private:
  Arena arena_;
  std::vector<HeadBuffers> heads_;
  std::vector<LookupWorkspace> alone_;
};

// How a step chooses what it reads. See Lookup.
enum class Rule { kDefault, kThreshold, kCap, kTopP };
struct SelectionRule {
  Rule kind = Rule::kDefault;
  double mass = 0.95;  // (0, 1), of kTopP
};
// A byte budget that is kept, question by question.
inline bool HasByteBudget(Rule rule) { return rule == Rule::kDefault || rule == Rule::kCap; }

struct LookupArgs {
  const Backend& backend;
  ThreadPool& threads;
  std::span<const HeadIndex> heads;            // of one layer, all with clusters
  std::span<const Rows<const float>> queries;  // per kv head: [R, head_dim], rows of its group
  float scale;
  float softcap = 0;  // of the model's logits (kernels/softcap.h); 0: none
  double kv_budget;   // (0, 1): share of the layer's K+V bytes, all kv heads together
  bool tail;
  bool row_codes = true;  // use them where the document has them
  // The mass of a cluster from its variance too (kernels/second_order.h), not its centroid alone.
  bool second_order = true;
  // In the place of kv_budget, per kv head, (0, 1]: share of its own bytes. Each head is then
  // looked up alone, on a thread; empty: they compete for the layer's.
  std::span<const double> head_budgets = {};
  // Per kv head, [R]: log-sum-exp of what is attended besides (sinks, window, rows of the question
  // itself); empty: not known. A head that looks elsewhere then asks for less of the budget.
  std::span<const std::vector<float>> known_lse = {};
  // [R], of all kv heads: what each row counts in S, >= 0, of sum 1; empty: 1 / R each. Rows of 0
  // are not scored (but for a bound): their tail is the mass that centroids tell, less the share of
  // it that is read by the rows that are.
  std::span<const float> row_weights = {};
  bool bound = false;                    // also find HeadSelection::unread_bound
  LookupWorkspace* workspace = nullptr;  // nullptr: one for this lookup
  SelectionRule rule = {};
};

// T is calibrated on masses without variances: kThreshold compares it with such an S, and for
// kDefault, whose S has them, it only orders.
//
// kDefault: where all finest centroids fit into a third of the budget (and there are row codes)
// they are looked up at once. Otherwise clusters are opened best first (above the calibrated
// threshold of their head and level before those below it) until the level's part of the lookup
// bytes is spent: a quarter of the budget, more only where filling the budget needs it. Then rows
// are read:
//   with row codes    the row codes of the best looked-up clusters are read, then the fine codes of
//                     the best rows by their row codes (of all, fewer where a few query rows
//                     choose, as a token's do), then the best rows by their fine codes,
//                     until the byte budget is spent, all heads together. What is not read stands
//                     in with the mass that its code (or its cluster's centroid and variance)
//                     tells, and the mean value of the cluster one level up: mean values of the
//                     finest level are not read at all (but where it is the only one), which
//                     measured as well and lets more be looked up;
//   without           whole clusters, while S > T, ended by the byte budget: at least kFillTo of it
//                     is read (next best S), never more than kCutAt of it.
// The other rules are over whole clusters of every level, as in the papers: no row codes.
// kThreshold: those with S > T, calibrated per head and level to keep the share kv_budget of the
//             keys of the finest level; S as calibrated, of clusters alone and of all rows alike.
//             No byte budget: about kv_budget is read in the mean over questions.
// kCap:       in the order of S while they fit into the byte budget; upper levels as above.
// kTopP:      of each head those of most mass N * S, until they hold the share `mass` of all
//             clusters'. (Counting `known_lse` as held let heads that look elsewhere read nothing:
//             4 of 16 answers right for 9.) Of the 1 - mass that may be left an upper level leaves
//             its part: (1 - mass) * l / L after level l of L. No byte budget, no kv_budget.
// S of a level (kernels/centroid_scores.h) has in its denominator the clusters looked up there, the
// mass of what upper levels rejected, by its own centroids, and what is known of the rest; of rows
// by row codes the same, of rows by fine codes what the codes make of all that (which measured
// better than either for both). Everything through log-sum-exp; mean over the R rows, by
// `row_weights`. Sources: arXiv:2411.09688, section 3.3 (ours reads no child of a rejected cluster,
// keeps the rejected mass in the denominator, and has a budget); the tail as in arXiv:2506.13059.
inline constexpr double kFillTo = 0.95, kCutAt = 1.05;
// Out: one entry per kv head, which keeps its memory. kChecksumMismatch.
Status Lookup(const LookupArgs& args, std::vector<HeadSelection>& selections);
Result<std::vector<HeadSelection>> Lookup(const LookupArgs& args);

// Bytes that any lookup of the layer reads: sinks, window, metrics, the top level (and its mean
// values).
uint64_t FixedBytes(std::span<const HeadIndex> heads, bool tail);
// The smallest budget that Lookup serves for the layer with the rules that have one.
double SmallestBudget(std::span<const HeadIndex> heads, bool tail);

}  // namespace lectern

#endif  // LECTERN_INDEX_LOOKUP_H_
