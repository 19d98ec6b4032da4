// The lookup of a step: chooses, for the queries of one layer, the rows of the document to read.
// Goes from the coarse level to the fine one and never touches children of rejected clusters.
#ifndef LECTERN_INDEX_LOOKUP_H_
#define LECTERN_INDEX_LOOKUP_H_

#include <functional>
#include <vector>

#include "index/head_index.h"
#include "index/lookup_share.h"
#include "index/reused.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"

namespace lectern {

struct HeadBuffers;  // index/head_lookup.h

// Where few query rows choose, as a token's do, documents with fewer clustered rows per head score
// and read up to twice as many rows within the same budget (row_limits.h). A step is short
// there anyway, and answers come closer to those of exact attention: with twice as many for
// answers' tokens 98.2 instead of 97.9 % of 1,000 answers at 8K are those of exact mode
// (tools/evaluate/RESULTS.md, "How many rows and codes a lookup takes").
inline constexpr uint32_t kLongDocument = 32768;

// Clusters of the tail whose log mass was estimated for each query row.
struct LogitTail {
  size_t level = 0;
  std::vector<IndexRange> clusters;  // ascending and disjoint
  std::vector<float> logits;         // [R][clusters]; -inf: every key of the cluster is read
  size_t num_clusters() const {
    size_t count = 0;
    for (const IndexRange& range : clusters) count += range.size();
    return count;
  }
};

// The selection for one step and kv head: what the step reads besides the exact rows, and what
// stands for the rest.
struct HeadSelection {
  // Per level, ascending and disjoint: clusters whose centroids, variances and counts were read.
  std::vector<std::vector<IndexRange>> looked_up;
  // Stored rows to read, ascending.
  std::vector<uint32_t> rows;
  // Finest clusters whose row codes were read, and stored rows whose fine codes were read,
  // ascending.
  std::vector<IndexRange> coded;
  std::vector<uint32_t> refined;

  // The tail: clusters whose mean value stands for their keys that are not read. Empty if
  // LookupArgs::tail is false. First part, per level: clusters that were not looked into. Their
  // mass comes from their centroid and, if `second_order`, their variance.
  std::vector<std::vector<IndexRange>> tail;
  bool second_order = false;
  // Second part, with row codes only: clusters of the last level but one that were looked into
  // (with a single level: `coded`; or all finest ones, as Lookup explains). Their log mass is that
  // of their unread keys, estimated by codes, or by the centroid of a finest cluster without codes.
  LogitTail logit_tail;

  // [R], filled if LookupArgs::bound: log of an upper bound on the sum of exp(logit) over the rows
  // that are not read. `bounded`, per level, ascending and disjoint: clusters whose radii were read
  // for it.
  std::vector<float> unread_bound;
  std::vector<std::vector<IndexRange>> bounded;

  // Whether the window is read from its copy (HeadIndex::has_window_copy) instead of as stored.
  bool window_copy = false;
  uint64_t bytes = 0;      // bytes read: all of the above and the exact rows
  double missed_mass = 0;  // estimated share of the attention that unread keys would get

  // Makes the selection empty, for a head with this number of levels. Keeps its memory.
  void Clear(size_t num_levels);
};

// Buffers of lookups, kept from step to step. Serves one lookup at a time. The accessors are for
// lookup.cc, which resets the arena when a lookup begins.
class LookupWorkspace {
 public:
  LookupWorkspace();
  ~LookupWorkspace();
  LookupWorkspace(LookupWorkspace&&) noexcept;
  Arena& arena() { return arena_; }  // for arrays of all heads together
  std::vector<HeadBuffers>& heads() { return heads_; }
  std::vector<LookupWorkspace>& alone() { return alone_; }  // for heads with a budget of their own

 private:
  Arena arena_;
  std::vector<HeadBuffers> heads_;
  std::vector<LookupWorkspace> alone_;
};

// How a step chooses what it reads; Lookup explains the rules.
enum class Rule { kDefault, kThreshold, kCap, kTopP };
struct SelectionRule {
  Rule kind = Rule::kDefault;
  double mass = 0.95;  // share of the clusters' mass to reach, in (0, 1); kTopP only
};
// Whether a rule keeps a byte budget in every step.
inline bool HasByteBudget(Rule rule) { return rule == Rule::kDefault || rule == Rule::kCap; }

struct LookupArgs {
  const Backend& backend;
  ThreadPool& threads;
  std::span<const HeadIndex> heads;  // of one layer; each has clusters
  // Per kv head: [R, head_dim], the query rows of its group.
  std::span<const Rows<const float>> queries;
  float scale;
  float softcap = 0;      // the model's bound of logits (kernels/softcap.h); 0: none
  double kv_budget;       // (0, 1): share of the K and V bytes of the layer, all kv heads together
  bool tail;              // whether mean values stand for what is not read
  bool row_codes = true;  // use row codes where the document has them
  // Estimate a cluster's mass from its variance too (kernels/second_order.h), not from its centroid
  // alone.
  bool second_order = true;
  // Per kv head, (0, 1]: share of the head's own bytes, instead of kv_budget. Each head is then
  // looked up alone, on one thread; with 1 it reads all rows without looking anything up. Empty:
  // the heads compete for the layer's bytes.
  std::span<const double> head_budgets = {};
  // Per kv head, [R]: log-sum-exp of what is attended besides (sinks, window, rows of the question
  // itself). A head whose attention goes mostly there needs fewer rows and then gets a smaller
  // share of the budget. Empty: not known.
  std::span<const std::vector<float>> known_lse = {};
  // [R], the same for all kv heads: weight of each row in S, >= 0, summing to 1. Empty: 1 / R each.
  // Rows of weight 0 are not scored (unless a bound is wanted): their tail is the mass by
  // centroids, less the share of it that the scored rows found to be read.
  std::span<const float> row_weights = {};
  bool bound = false;                    // also find HeadSelection::unread_bound
  // Whether windows are read from their copies where heads have them. A bound needs the rows as
  // stored, and so does whoever compares with exact masses.
  bool window_copies = false;
  LookupWorkspace* workspace = nullptr;  // nullptr: a temporary one
  SelectionRule rule = {};
  // The part of the clusters that this process looks up, where several do so together; nullptr:
  // all. `heads` are whole, and the arguments are the same on every rank but for this.
  const LookupShare* share = nullptr;
};

// Whether the lookup counts the window of this head as read from its copy; its caller then attends
// to that. Not where the head's own budget has every row read.
inline bool ReadsWindowCopy(const LookupArgs& args, size_t head) {
  return args.window_copies && args.heads[head].has_window_copy() &&
         (args.head_budgets.empty() || args.head_budgets[head] < 1);
}

// T is calibrated on scores without the variance term. So kThreshold compares it with scores
// computed the same way. kDefault, whose scores include variances, uses T only to order.
//
// kDefault works in two stages.
// 1. Clusters. If all finest centroids fit into a third of the budget (and there are row codes),
// all of them are looked up at once. Otherwise clusters are opened best first (those above the
// calibrated threshold of their head and level before those below it) until the level's part of the
// lookup bytes is spent: a quarter of the budget, more only where filling the budget needs it.
// 2. Rows, with row codes: the row codes of the best looked-up clusters are read, then the fine
// codes of the best rows by their row codes (fewer where a few query rows choose, as a token's do),
// then the best rows by their fine codes, until the byte budget is spent, all heads together. Each
// unread key keeps a mass estimated from its code (or from its cluster's centroid and variance),
// with the mean value of the cluster one level up. Mean values of the finest level are not read
// (unless it is the only one): this lets more be looked up.
// Where heads have metrics (index/query_metric.h), which a device's lookup does not serve, three
// things differ. If all finest clusters with their mean values fit into a third of the budget,
// these stand for unread keys: a mean of 50 keys is nearer to each than one of 200. Then the row
// codes also tell how wide clusters are along each query, which corrects the masses of clusters
// whose codes are not read (index/head_spreads.cc). And the rows are those whose shares of
// attention have the largest sum of squares, as the errors of unread rows add up in squares.
// Finest values and squares lower errors of questions at 0.1 by 11 to 25 %, spreads by another 8 %
// with SmolLM2 and by 11 % at 0.05 (tools/evaluate/RESULTS.md).
//
// Rows, without row codes: whole clusters are read while S > T, ended by the byte budget. At least
// kFillTo of it is read (next best S), never more than kCutAt of it.
//
// The other rules choose whole clusters at every level, as in the papers, without row codes.
// kThreshold: clusters with S > T, calibrated per head and level to keep the share kv_budget of the
//             keys of the finest level. S is computed as in calibration: from clusters alone, all
//             query rows alike. No byte budget: about kv_budget is read in the mean over questions.
// kCap:       clusters in the order of S while they fit the byte budget; upper levels as above.
// kTopP:      in each head the clusters of most mass N * S, until they hold the share `mass` of all
//             clusters' mass. (Counting `known_lse` as held let heads that look elsewhere read
//             nothing: 4 instead of 9 of 16 answers right.) After level l of L at most the share
//             (1 - mass) * l / L may be left, so each level adds an equal part. No byte budget.
//
// The denominator of S (kernels/centroid_scores.h) at a level holds the clusters looked up there,
// the mass of what upper levels rejected (by its own centroids), and what is known of the rest.
// Scores of rows by row codes use the same denominator; scores by fine codes use one that includes
// what the codes found, which measured better than either denominator for both. Everything goes
// through log-sum-exp; the mean over the R rows is weighted by `row_weights`.
//
// Sources: arXiv:2411.09688, section 3.3 (ours reads no child of a rejected cluster, keeps the
// rejected mass in the denominator, and has a budget); the tail follows arXiv:2506.13059. 0.95 and
// 1.05 are by hand, and no measurement is on record: a cluster is read whole, so a budget cannot be
// met to the byte.
inline constexpr double kFillTo = 0.95, kCutAt = 1.05;
// Whether several ranks can look up these heads of a layer together (LookupArgs::share): by the
// default rule, where all heads have row codes.
bool CanShareLookup(std::span<const HeadIndex> heads, Rule rule);
// Fills one selection per kv head, each of which keeps its memory; resizes `selections`. A budget
// below SmallestBudget is no error: the fixed bytes are read and perhaps no row. Runs on the pool's
// threads; the bits do not depend on their number. kChecksumMismatch, kCorrupt; selections then
// hold anything.
//
// Ranks that share a lookup each get the part of the selections that lies in their clusters, bytes
// included; missed masses and bounds are of that part alone. They select what one process selects,
// but for candidates whose scores differ by the rounding of a denominator. kInvalidArgument: not
// CanShareLookup; errors of LookupShare's peers. Where the call fails on one rank after the last
// meeting, the others do not know.
Status Lookup(const LookupArgs& args, std::vector<HeadSelection>& selections);
Result<std::vector<HeadSelection>> Lookup(const LookupArgs& args);

// Chooses what a step reads of a layer, instead of Lookup, and fills the selections as Lookup does:
// one per kv head. Its error becomes that of the step. Focused reading and evaluations set it.
using Selector =
    std::function<Result<std::vector<HeadSelection>>(uint32_t layer, const LookupArgs&)>;

// Bytes that a lookup of the layer from its top level down always reads: sinks, window, metrics,
// and the top level (with its mean values if `tail`). A lookup that begins at the finest level
// does not read the top level.
uint64_t FixedBytes(std::span<const HeadIndex> heads, bool tail);
// The smallest budget that Lookup serves for the layer with the rules that have a budget: the fixed
// bytes and the largest finest cluster. May exceed 1. Every head has clusters.
double SmallestBudget(std::span<const HeadIndex> heads, bool tail);

}  // namespace lectern

#endif  // LECTERN_INDEX_LOOKUP_H_
