#include "index/lookup.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <mutex>
#include <numeric>

#include "index/best_first.h"
#include "index/calibrate.h"
#include "index/head_lookup.h"
#include "index/row_limits.h"

namespace lectern {
namespace {

// The design gives lookup and tail at most a quarter, so that most of the budget is left to rows.
// By hand; no measurement of other shares is on record.
constexpr double kLookupShare = 0.25;  // share of the budget for centroids and their mean values
// If all finest centroids cost less than this share, upper levels are not worth their bytes: then
// 76 instead of 64 of 80 answers equalled exact mode's (8K tokens, budget 0.1).
constexpr double kFlatShare = 0.32;  // share of the budget
// At most these shares of the budget's rest may go to opening clusters and to codes, so that room
// for rows remains: without them a small budget could leave none. By hand; no measurement of other
// shares is on record.
constexpr double kMostForOpening = 0.75, kMostForCodes = 0.9;

// How a rule selects: which clusters it wants, and how it treats the byte budget.
struct RuleTerms {
  enum class Wants {
    kAboveThreshold,  // S > T; in the order of S
    kAll,             // in the order of S
    kMass,            // of each head, in the order of N * S, until they hold the share
  } wants;
  // Shares of the byte budget: below fill_to clusters are read even if not wanted; above cut_at
  // none is read.
  double fill_to, cut_at;
};

RuleTerms TermsOf(Rule rule) {
  switch (rule) {
    case Rule::kThreshold:
      return {RuleTerms::Wants::kAboveThreshold, 0, INFINITY};
    case Rule::kCap:
      return {RuleTerms::Wants::kAll, 1, 1};
    case Rule::kTopP:
      return {RuleTerms::Wants::kMass, 0, INFINITY};
    case Rule::kDefault:
      break;
  }
  return {RuleTerms::Wants::kAboveThreshold, kFillTo, kCutAt};
}

using PerHead = ArenaVector<ArenaVector<uint32_t>>;  // for each kv head ascending indices

// Buckets of scores (>= 0) that share their exponent and the four upper bits of their mantissa;
// larger scores are in later buckets.
constexpr size_t kScoreBuckets = 0x1000;
inline size_t BucketOf(float score) { return std::bit_cast<uint32_t>(score) >> 19 & 0xFFF; }
inline float LeastOf(size_t bucket) {
  return std::bit_cast<float>(static_cast<uint32_t>(bucket) << 19);
}
// Counts in two sets, used by turns: consecutive scores often share a bucket, and incrementing the
// same counter would make each wait for the one before.
using ScoreCounts = std::array<std::array<uint32_t, kScoreBuckets>, 2>;

// The lookup of one layer, whose heads share its budget.
class LayerLookup {
 public:
  // Selections: one per head.
  LayerLookup(const LookupArgs& args, ThreadPool& threads, LookupWorkspace& workspace,
              std::span<HeadSelection> selections)
      : args_(args),
        threads_(threads),
        calibrated_args_(args),
        terms_(TermsOf(args.rule.kind)),
        buffers_(workspace.heads()),
        arena_(&workspace.arena()) {
    use_codes_ = args.row_codes && args.rule.kind == Rule::kDefault;
    num_levels_ = args.heads.front().levels().size();  // equal in all heads of a shard
    uint64_t exact_bytes = 0;
    uint64_t saved_bytes = 0;  // by copies of windows
    for (size_t h = 0; h < args.heads.size(); ++h) {
      const HeadIndex& head = args.heads[h];
      has_metric_ = has_metric_ || head.metric() != nullptr;
      dense_bytes_ += static_cast<double>(head.dense_bytes());
      const uint64_t ends_bytes = head.ExactBytes(ReadsWindowCopy(args, h));
      saved_bytes += head.ExactBytes(false) - ends_bytes;
      exact_bytes += ends_bytes + head.metric_bytes();
      num_rows_ += head.num_rows() - head.num_exact();
      use_codes_ = use_codes_ && head.has_row_codes();
    }
    // With row codes and enough budget upper levels are not worth their bytes: all finest clusters
    // are looked up at once.
    row_bytes_ = static_cast<double>(args.heads.front().BlockBytes({0, 1}));
    limits_ = LimitsOf(args.kv_budget, num_rows_, args.heads.size(), args.queries.front().num_rows);
    budget_ = args.kv_budget * dense_bytes_;
    spent_ = static_cast<double>(FixedBytes(args.heads, args.tail) - saved_bytes);
    if (use_codes_ && num_levels_ > 1) {
      // Mean values of the finest clusters are closer to their rows' than those of the parents.
      // A device's lookup knows the parents' alone; it never serves heads with a metric.
      for (const bool finest_values : {has_metric_, false}) {
        const double flat = FlatBytes(finest_values);
        if (first_level_ != 0 || flat > kFlatShare * budget_) continue;
        first_level_ = num_levels_ - 1;
        uses_finest_values_ = finest_values;
        spent_ = static_cast<double>(exact_bytes) + flat;
      }
    }
    lookup_left_ = kLookupShare * budget_ - (spent_ - static_cast<double>(exact_bytes));
    buffers_.resize(std::max(buffers_.size(), 2 * args.heads.size()));
    lookups_.reserve(2 * args.heads.size());
    for (size_t h = 0; h < args.heads.size(); ++h) AddLookup(args, h, selections[h]);
    if (args.rule.kind == Rule::kThreshold) {
      // T was calibrated without known masses, row weights and variances, so S is computed without
      // them here, by a second set of lookups that only ranks.
      calibrated_args_.known_lse = {};
      calibrated_args_.row_weights = {};
      calibrated_args_.second_order = false;
      calibrated_args_.bound = false;
      first_ranked_ = lookups_.size();
      for (size_t h = 0; h < args.heads.size(); ++h) {
        AddLookup(calibrated_args_, h, buffers_[lookups_.size()].ranked);
      }
    }
  }

  // Goes down the tree: at each level all heads score their open nodes, then the nodes to open are
  // chosen among all heads at once, then each head descends. Rows are scored by their codes at the
  // end, if there are any.
  Status Run() {
    for (size_t level = first_level_; level + 1 < num_levels_; ++level) {
      LECTERN_RETURN_IF_ERROR(ForAll([&](HeadLookup& head, size_t) { return head.Score(level); }));
      const PerHead opened = ChooseOpened(level);
      LECTERN_RETURN_IF_ERROR(
          ForAll([&](HeadLookup& head, size_t h) { return head.Descend(level, opened[h]); }));
    }
    LECTERN_RETURN_IF_ERROR(
        ForAll([&](HeadLookup& head, size_t) { return head.Score(num_levels_ - 1); }));
    PerHead chosen(arena_);
    if (use_codes_) {
      const PerHead coded = ChooseCoded();
      LECTERN_RETURN_IF_ERROR(
          ForAll([&](HeadLookup& head, size_t h) { return head.ScoreRows(coded[h]); }));
      const PerHead refined = ChooseRefined();
      LECTERN_RETURN_IF_ERROR(
          ForAll([&](HeadLookup& head, size_t h) { return head.RefineRows(refined[h]); }));
      chosen = ChooseRows();
    } else {
      chosen = ChooseClusters();
    }
    return ForAll([&](HeadLookup& head, size_t h) {
      return use_codes_ ? head.FinishRows(chosen[h]) : head.FinishClusters(chosen[h]);
    });
  }

 private:
  void AddLookup(const LookupArgs& args, size_t head, HeadSelection& selection) {
    lookups_.emplace_back(args, head, first_level_, buffers_[lookups_.size()], selection);
    if (uses_finest_values_) lookups_.back().UseFinestValues();
    if (has_metric_) lookups_.back().ScoreBySquares();
  }

  // Runs the body for every head on the pool; returns the first error.
  template <typename Body>
  Status ForAll(const Body& body) {
    std::mutex mutex;
    Status first;
    threads_.ParallelFor(lookups_.size(), [&](size_t i, size_t) {
      Status status = body(lookups_[i], i % args_.heads.size());
      if (status.ok()) return;
      std::lock_guard lock(mutex);
      if (first.ok()) first = std::move(status);
    });
    return first;
  }

  // Bytes of looking up every finest cluster, and of their mean values or those of their parents.
  double FlatBytes(bool finest_values) const {
    double bytes = 0;
    for (const HeadIndex& head : args_.heads) {
      const HeadIndex::Level& valued = head.levels()[num_levels_ - (finest_values ? 1 : 2)];
      bytes += ClusterBytes(head, num_levels_ - 1) *
                   static_cast<double>(head.levels().back().num_clusters()) +
               ValueBytes(valued) * static_cast<double>(valued.num_clusters());
    }
    return bytes;
  }

  bool IsFinest(size_t level) const { return level + 1 == num_levels_; }

  // Bytes of one mean value of the level, which is read if the cluster ends in the tail.
  double ValueBytes(const HeadIndex::Level& level) const {
    return args_.tail ? static_cast<double>(level.mean_values.row_bytes()) : 0.0;
  }

  // Bytes of looking a cluster up. With row codes the mean values of the finest level are not read,
  // unless it is the only level.
  double ClusterBytes(const HeadIndex& head, size_t level) const {
    const HeadIndex::Level& view = head.levels()[level];
    const auto bytes = static_cast<double>(view.cluster_bytes());
    const bool has_value = !use_codes_ || !IsFinest(level) || num_levels_ == 1;
    return has_value ? bytes + ValueBytes(view) : bytes;
  }

  bool has_budget() const { return HasByteBudget(args_.rule.kind); }

  // The lookups whose scores decide: the second set if there is one.
  std::span<const HeadLookup> RankedLookups() const {
    return std::span<const HeadLookup>(lookups_).subspan(first_ranked_, args_.heads.size());
  }

  // T of a head for this share of keys; -infinity if the rule has no threshold.
  float Threshold(size_t head, size_t level, double kept_share) const {
    if (terms_.wants != RuleTerms::Wants::kAboveThreshold) return -INFINITY;
    return std::exp(LogThreshold(args_.heads[head].thresholds(), static_cast<uint32_t>(level),
                                 RankedLookups()[head].num_scored(), kept_share));
  }

  // Ranks all open clusters of the layer, best first (by S, or by the rule's mass), equal ones by
  // head and place. Those above the threshold that `kept_share` picks are wanted.
  BestFirst Rank(size_t level, double kept_share) const {
    const bool by_mass = terms_.wants == RuleTerms::Wants::kMass;
    size_t num_open = 0;
    for (const HeadLookup& lookup : RankedLookups()) num_open += lookup.scores().size();
    ArenaVector<RankedCluster> candidates(num_open, arena_);
    auto next = candidates.begin();
    for (size_t h = 0; h < args_.heads.size(); ++h) {
      const HeadLookup& lookup = RankedLookups()[h];
      const float threshold = Threshold(h, level, kept_share);
      const auto& counts = args_.heads[h].levels()[level].key_counts;
      size_t column = 0;
      for (const IndexRange& range : lookup.open()) {
        for (uint32_t i = range.begin; i < range.end; ++i, ++column) {
          const float score = lookup.scores()[column];
          const float keys = by_mass ? static_cast<float>(counts[i]) : 1.0f;
          *next++ = {keys * score, score > threshold, static_cast<uint16_t>(h), i, counts[i]};
        }
      }
    }
    if (by_mass) return WantMass(level, BestFirst(std::move(candidates), arena_));
    return BestFirst(std::move(candidates), arena_);
  }

  // Marks as wanted the first clusters of each head (those of most mass) until they hold the rule's
  // share of the mass that is not known.
  BestFirst WantMass(size_t level, BestFirst by_mass) const {
    const double part = static_cast<double>(level + 1) / static_cast<double>(num_levels_);
    const double share = 1 - (1 - args_.rule.mass) * part;
    ArenaVector<double> left(arena_);
    for (const HeadLookup& lookup : lookups_) left.push_back(share * (1 - lookup.KnownMass()));
    ArenaVector<RankedCluster> candidates(arena_);
    while (const RankedCluster* next = by_mass.Next()) {
      candidates.push_back(*next);
      candidates.back().wanted = left[next->head] > 0;
      left[next->head] -= next->score;
    }
    return BestFirst(std::move(candidates), arena_);
  }

  // Sorts lists of different numbers through a set of bits, in time linear in their largest number.
  PerHead Sorted(PerHead lists) const {
    ArenaVector<uint64_t> bits(arena_);
    for (ArenaVector<uint32_t>& list : lists) {
      if (list.empty()) continue;
      bits.assign(*std::max_element(list.begin(), list.end()) / 64 + 1, 0);
      for (const uint32_t i : list) bits[i / 64] |= uint64_t{1} << (i % 64);
      auto next = list.begin();
      for (uint32_t word = 0; word < bits.size(); ++word) {
        for (uint64_t left = bits[word]; left != 0; left &= left - 1) {
          *next++ = 64 * word + static_cast<uint32_t>(std::countr_zero(left));
        }
      }
    }
    return lists;
  }

  // Chooses clusters of an upper level to open: the best ones, until this level's part of the
  // lookup bytes is spent and the rows below can fill the budget. Without a budget: those that the
  // rule wants.
  PerHead ChooseOpened(size_t level) {
    double below_bytes = 0;  // of everything that could be opened
    for (const HeadIndex& head : args_.heads) {
      below_bytes += ClusterBytes(head, level + 1) *
                     static_cast<double>(head.levels()[level + 1].num_clusters());
    }
    // This level may spend 1 / (2 * levels_below - 1) of the lookup's rest: each finer level has
    // several times the clusters and is left more. By hand; no measurement is on record.
    const size_t levels_below = num_levels_ - 1 - level;
    const double most = kMostForOpening * (budget_ - spent_);
    const double allowed =
        std::min(most, std::max(0.0, lookup_left_) / static_cast<double>(2 * levels_below - 1));
    const double kept_share =
        std::clamp(allowed / below_bytes, has_budget() ? 0.01 : args_.kv_budget, 1.0);
    double opened_bytes = 0, opened_row_bytes = 0;
    PerHead opened(lookups_.size(), arena_);
    BestFirst ranked = Rank(level, kept_share);
    while (const RankedCluster* candidate = ranked.Next()) {
      const HeadIndex& head = args_.heads[candidate->head];
      const HeadIndex::Level& view = head.levels()[level];
      const bool can_fill = opened_row_bytes > kSpareRows * (budget_ - spent_ - opened_bytes);
      double bytes = ClusterBytes(head, level + 1) *
                     (view.children[candidate->index + 1] - view.children[candidate->index]);
      // The cost replaces the cluster's own mean value by those of its children, except where it
      // stands for finest clusters, whose mean values are not read.
      if (!(use_codes_ && IsFinest(level + 1))) bytes -= ValueBytes(view);
      if (has_budget() ? can_fill && opened_bytes + bytes > allowed : !candidate->wanted) break;
      if (has_budget() && opened_bytes + bytes > most) continue;
      opened[candidate->head].push_back(candidate->index);
      opened_bytes += bytes;
      opened_row_bytes += row_bytes_ * candidate->num_keys;
    }
    spent_ += opened_bytes;
    lookup_left_ -= opened_bytes;
    return Sorted(std::move(opened));
  }

  // Chooses clusters whose row codes to read: the best opened ones, until their share of the budget
  // (or limit of rows) is spent and their rows can fill the rest.
  PerHead ChooseCoded() {
    const double most = kMostForCodes * (budget_ - spent_);
    const auto row_code_bytes = static_cast<double>(args_.heads.front().row_code_bytes());
    const double allowed =
        std::min(kCodesShare * (budget_ - spent_), limits_.coded * row_code_bytes);
    double code_bytes = 0, coded_row_bytes = 0;
    PerHead coded(lookups_.size(), arena_);
    // 0.3 picks the threshold that was calibrated for 30 % of the keys; it only orders. Chosen
    // without a recorded measurement.
    BestFirst ranked = Rank(num_levels_ - 1, 0.3);
    while (const RankedCluster* candidate = ranked.Next()) {
      const double rows = candidate->num_keys, bytes = rows * row_code_bytes;
      const double for_rows = std::min(budget_ - spent_ - code_bytes, limits_.read * row_bytes_);
      const bool can_fill = coded_row_bytes > kSpareRows * for_rows;
      if (can_fill && code_bytes + bytes > allowed) break;
      if (code_bytes + bytes > most) continue;
      coded[candidate->head].push_back(candidate->index);
      code_bytes += bytes;
      coded_row_bytes += rows * row_bytes_;
    }
    spent_ += code_bytes;
    return Sorted(std::move(coded));
  }

  // Indices of the `count` largest scores, all heads together, ascending for each head. Among equal
  // scores the first heads and rows win. A histogram finds the bucket of the least kept score, so
  // only that bucket's surplus has to be sorted out.
  template <typename ScoresOf>
  PerHead Best(double count, const ScoresOf& scores_of) {
    ArenaVector<ScoreCounts> counts(lookups_.size(), arena_);
    ForEachHead([&](size_t h) { CountScores(scores_of(h), counts[h]); });
    size_t total = 0;
    for (size_t h = 0; h < lookups_.size(); ++h) total += scores_of(h).size();
    const auto kept = std::min(total, static_cast<size_t>(std::max(0.0, count)));
    PerHead chosen(lookups_.size(), arena_);
    if (kept == 0) return chosen;
    // Last: bucket of the least kept score; reached: scores in it and above.
    size_t last = kScoreBuckets, reached = 0;
    while (reached < kept) {
      --last;
      for (const ScoreCounts& of : counts) reached += of[0][last] + of[1][last];
    }
    ForEachHead([&](size_t h) { FindFrom(LeastOf(last), scores_of(h), buffers_[h].found); });
    size_t found = 0;
    for (size_t h = 0; h < chosen.size(); ++h) {
      const std::span<const uint32_t> indices = buffers_[h].found.span();
      chosen[h].assign(indices.begin(), indices.end());
      found += indices.size();
    }
    if (found > kept) DropLeast(found - kept, LeastOf(last + 1), scores_of, chosen);
    return chosen;
  }

  // Drops the `surplus` least of `chosen`, all of which are below `above`; among equals the last
  // ones go.
  template <typename ScoresOf>
  void DropLeast(size_t surplus, float above, const ScoresOf& scores_of, PerHead& chosen) {
    size_t count = 0;
    ArenaVector<float> edge(arena_);
    for (size_t h = 0; h < chosen.size(); ++h) {
      const std::span<const float> scores = scores_of(h);
      edge.resize(count + chosen[h].size() + 1);
      for (const uint32_t i : chosen[h]) {
        edge[count] = scores[i];
        count += scores[i] < above;
      }
    }
    edge.resize(count);
    const auto cut = edge.begin() + static_cast<ptrdiff_t>(surplus - 1);
    std::nth_element(edge.begin(), cut, edge.end());
    const float most = *cut;                                // the largest score that goes
    auto equals = std::count(edge.begin(), cut + 1, most);  // how many of those equal to it go
    for (size_t h = chosen.size(); h-- > 0;) {
      const std::span<const float> scores = scores_of(h);
      auto end = chosen[h].end();
      for (auto i = end; i != chosen[h].begin() && equals > 0;) {
        if (scores[*--i] != most) continue;
        end = std::move(i + 1, end, i);
        --equals;
      }
      auto kept = chosen[h].begin();
      // Without a branch, which would be mispredicted half of the time.
      for (auto i = kept; i != end; ++i) {
        const uint32_t index = *i;
        *kept = index;
        kept += scores[index] >= most;
      }
      chosen[h].erase(kept, chosen[h].end());
    }
  }

  static void CountScores(std::span<const float> scores, ScoreCounts& counts) {
    for (auto& set : counts) set.fill(0);
    for (size_t i = 0; i < scores.size(); ++i) ++counts[i % 2][BucketOf(scores[i])];
  }

  // Indices of the scores that are at least `least`. Without a branch, as above.
  static void FindFrom(float least, std::span<const float> scores, Reused<uint32_t>& indices) {
    const std::span<uint32_t> found = indices.Resize(scores.size() + 1);
    size_t count = 0;
    for (uint32_t i = 0; i < scores.size(); ++i) {
      found[count] = i;
      count += scores[i] >= least;
    }
    indices.Resize(count);
  }

  template <typename Body>
  void ForEachHead(const Body& body) {
    threads_.ParallelFor(lookups_.size(), [&](size_t h, size_t) { body(h); });
  }

  // Chooses coded rows whose fine codes to read: the best of the layer, leaving room for at least
  // one row.
  PerHead ChooseRefined() {
    const auto fine_bytes = static_cast<double>(args_.heads.front().fine_code_bytes());
    const double left = budget_ - spent_;
    const double most = limits_.refined * fine_bytes;
    PerHead refined =
        Best(std::min({kFineShare * left, left - row_bytes_, most}) / fine_bytes,
             [&](size_t h) { return std::span<const float>(lookups_[h].row_scores()); });
    for (const auto& rows : refined) spent_ += fine_bytes * static_cast<double>(rows.size());
    return refined;
  }

  // Chooses among the refined rows those to read: the best by their fine codes.
  PerHead ChooseRows() {
    const double count = std::min((budget_ - spent_) / row_bytes_, limits_.read);
    return Best(count,
                [&](size_t h) { return std::span<const float>(lookups_[h].refined_scores()); });
  }

  // Chooses whole clusters to read: wanted ones while the cap allows, others until the budget is
  // filled as far as the rule asks.
  PerHead ChooseClusters() {
    const double kept_share =
        has_budget() ? std::max(0.01, (budget_ - spent_) / dense_bytes_) : args_.kv_budget;
    PerHead chosen(lookups_.size(), arena_);
    BestFirst ranked = Rank(num_levels_ - 1, kept_share);
    while (const RankedCluster* candidate = ranked.Next()) {
      const HeadIndex& head = args_.heads[candidate->head];
      double bytes = static_cast<double>(head.BlockBytes(head.ClusterRows(candidate->index)));
      // A cluster that is read does not need its mean value, which was paid for.
      bytes -= ValueBytes(head.levels().back());
      if (!candidate->wanted && spent_ >= terms_.fill_to * budget_) break;
      if (spent_ + bytes > terms_.cut_at * budget_) continue;
      chosen[candidate->head].push_back(candidate->index);
      spent_ += bytes;
    }
    return Sorted(std::move(chosen));
  }

  const LookupArgs& args_;
  ThreadPool& threads_;
  LookupArgs calibrated_args_;
  const RuleTerms terms_;
  std::vector<HeadBuffers>& buffers_;  // one for each of lookups_
  Arena* const arena_;
  // One for each kv head; with kThreshold a second set, from `first_ranked_` on, whose scores are
  // ranked.
  ArenaVector<HeadLookup> lookups_{arena_};
  size_t first_ranked_ = 0;
  bool use_codes_ = false;
  bool has_metric_ = false;          // any head; a device's lookup then never takes its place
  bool uses_finest_values_ = false;  // the tail has the finest clusters' mean values
  size_t num_levels_ = 0, first_level_ = 0;
  RowLimits limits_ = {};
  double row_bytes_ = 0;    // K and V of one row
  double num_rows_ = 0;     // in clusters, of all heads
  double dense_bytes_ = 0;  // of the layer
  double budget_ = 0;       // bytes of the layer
  double spent_ = 0;        // bytes spent so far
  double lookup_left_ = 0;  // bytes left of the quarter for looking up
};

// Selects every row. `bounded`: number of query rows that want a bound on unread mass, which is
// zero here.
void SelectAll(const HeadIndex& head, size_t bounded, HeadSelection& selection) {
  selection.Clear(head.levels().size());
  selection.rows.resize(head.num_rows() - head.num_exact());
  std::iota(selection.rows.begin(), selection.rows.end(), head.num_exact());
  selection.unread_bound.assign(bounded, -INFINITY);
  selection.bytes = head.dense_bytes();
}

// Looks up all heads of `args` with a shared budget. `threads` replaces the arguments' own pool.
Status LookupTogether(const LookupArgs& args, ThreadPool& threads, LookupWorkspace& workspace,
                      std::span<HeadSelection> selections) {
  workspace.arena().Reset();
  return LayerLookup(args, threads, workspace, selections).Run();
}

// Looks up one head with its own budget, on the calling thread.
Status LookupAlone(const LookupArgs& args, size_t head, LookupWorkspace& workspace,
                   HeadSelection& selection) {
  if (args.head_budgets[head] >= 1) {
    SelectAll(args.heads[head], args.bound ? args.queries[head].num_rows : 0, selection);
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

Status Lookup(const LookupArgs& args, std::vector<HeadSelection>& selections) {
  LookupWorkspace own;
  LookupWorkspace& workspace = args.workspace ? *args.workspace : own;
  selections.resize(args.heads.size());
  if (args.head_budgets.empty()) return LookupTogether(args, args.threads, workspace, selections);
  std::vector<LookupWorkspace>& workspaces = workspace.alone();
  workspaces.resize(std::max(workspaces.size(), args.heads.size()));
  workspace.arena().Reset();
  ArenaVector<Status> statuses(args.heads.size(), &workspace.arena());
  args.threads.ParallelFor(args.heads.size(), [&](size_t h, size_t) {
    statuses[h] = LookupAlone(args, h, workspaces[h], selections[h]);
  });
  for (Status& status : statuses) LECTERN_RETURN_IF_ERROR(std::move(status));
  return {};
}

Result<std::vector<HeadSelection>> Lookup(const LookupArgs& args) {
  std::vector<HeadSelection> selections;
  LECTERN_RETURN_IF_ERROR(Lookup(args, selections));
  return selections;
}

}  // namespace lectern
