#include "index/layer_lookup.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <utility>

#include "index/best_first.h"
#include "index/best_scores.h"
#include "index/calibrate.h"
#include "index/head_lookup.h"
#include "index/row_limits.h"
#include "index/shared_choice.h"

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
    double num_rows = 0;                               // in clusters, of all heads
    uint64_t exact_bytes = 0;
    uint64_t saved_bytes = 0;  // by copies of windows
    for (size_t h = 0; h < args.heads.size(); ++h) {
      const HeadIndex& head = args.heads[h];
      has_metric_ = has_metric_ || head.metric() != nullptr;
      dense_bytes_ += static_cast<double>(head.dense_bytes());
      const uint64_t ends_bytes = head.ExactBytes(ReadsWindowCopy(args, h));
      saved_bytes += head.ExactBytes(false) - ends_bytes;
      exact_bytes += ends_bytes + head.metric_bytes();
      num_rows += head.num_rows() - head.num_exact();
      use_codes_ = use_codes_ && head.has_row_codes();
    }
    // With row codes and enough budget upper levels are not worth their bytes: all finest clusters
    // are looked up at once.
    row_bytes_ = static_cast<double>(args.heads.front().BlockBytes({0, 1}));
    limits_ = LimitsOf(args.kv_budget, num_rows, args.heads.size(), args.queries.front().num_rows);
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
      LECTERN_RETURN_IF_ERROR(Score(level));
      LECTERN_ASSIGN(const PerHead opened, ChooseOpened(level));
      LECTERN_RETURN_IF_ERROR(
          ForAll([&](HeadLookup& head, size_t h) { return head.Descend(level, opened[h]); }));
    }
    LECTERN_RETURN_IF_ERROR(Score(num_levels_ - 1));
    PerHead chosen(arena_);
    if (use_codes_) {
      LECTERN_ASSIGN(const PerHead coded, ChooseCoded());
      LECTERN_RETURN_IF_ERROR(
          ForAll([&](HeadLookup& head, size_t h) { return head.ScoreRows(coded[h]); }));
      if (is_shared()) LECTERN_RETURN_IF_ERROR(JoinSpreads());
      LECTERN_ASSIGN(const PerHead refined, ChooseRefined());
      LECTERN_RETURN_IF_ERROR(Refine(refined));
      LECTERN_ASSIGN(chosen, ChooseRows());
    } else {
      chosen = ChooseClusters();
    }
    LECTERN_RETURN_IF_ERROR(ForAll([&](HeadLookup& head, size_t h) {
      return use_codes_ ? head.FinishRows(chosen[h]) : head.FinishClusters(chosen[h]);
    }));
    return std::move(local_);
  }

 private:
  void AddLookup(const LookupArgs& args, size_t head, HeadSelection& selection) {
    lookups_.emplace_back(args, head, first_level_, buffers_[lookups_.size()], selection);
    if (uses_finest_values_) lookups_.back().UseFinestValues();
    if (has_metric_) lookups_.back().ScoreBySquares();
  }

  // Runs the body for every head on the pool; returns the first error. A rank of several keeps the
  // error for the next time that they meet (`local_`), and does nothing more until then.
  template <typename Body>
  Status ForAll(const Body& body) {
    if (!local_.ok()) return {};
    std::mutex mutex;
    Status first;
    threads_.ParallelFor(lookups_.size(), [&](size_t i, size_t) {
      Status status = body(lookups_[i], i % args_.heads.size());
      if (status.ok()) return;
      std::lock_guard lock(mutex);
      if (first.ok()) first = std::move(status);
    });
    if (!is_shared()) return first;
    local_ = std::move(first);
    return {};
  }

  bool is_shared() const { return args_.share != nullptr; }
  LookupPeers& peers() const { return *args_.share->peers; }

  // Scores the open clusters of all heads, by denominators over the clusters of all ranks.
  Status Score(size_t level) {
    if (!is_shared()) {
      return ForAll([&](HeadLookup& head, size_t) { return head.Score(level); });
    }
    LECTERN_RETURN_IF_ERROR(ForAll([&](HeadLookup& head, size_t) { return head.SumOpen(level); }));
    const size_t rows = lookups_.front().num_scored();
    ArenaVector<float> lse(lookups_.size() * rows, -INFINITY, arena_);
    for (size_t h = 0; local_.ok() && h < lookups_.size(); ++h) {
      const std::span<const float> own = lookups_[h].open_lse();
      std::copy(own.begin(), own.end(), lse.begin() + static_cast<ptrdiff_t>(h * rows));
    }
    LECTERN_RETURN_IF_ERROR(peers().AddLse(std::exchange(local_, {}), lse));
    return ForAll([&](HeadLookup& head, size_t h) {
      head.JoinOpen(std::span<const float>(lse).subspan(h * rows, rows));
      head.ScoreOpen(level);
      return Status();
    });
  }

  // Lets the coded clusters of all ranks tell how wide clusters are along the queries.
  Status JoinSpreads() {
    if (!lookups_.front().measures_spreads()) return {};
    const size_t size = 2 * lookups_.front().num_scored();
    ArenaVector<double> sums(lookups_.size() * size, 0.0, arena_);
    for (size_t h = 0; local_.ok() && h < lookups_.size(); ++h) {
      lookups_[h].ListSpreads(std::span<double>(sums).subspan(h * size, size));
    }
    LECTERN_RETURN_IF_ERROR(peers().Add(std::exchange(local_, {}), sums));
    return ForAll([&](HeadLookup& head, size_t h) {
      head.JoinSpreads(std::span<const double>(sums).subspan(h * size, size));
      return Status();
    });
  }

  // Scores the refined rows of all heads, by denominators over the rows of all ranks.
  Status Refine(const PerHead& refined) {
    if (!is_shared()) {
      return ForAll([&](HeadLookup& head, size_t h) {
        LECTERN_RETURN_IF_ERROR(head.RefineRows(refined[h]));
        head.ScoreRefined();
        return Status();
      });
    }
    LECTERN_RETURN_IF_ERROR(
        ForAll([&](HeadLookup& head, size_t h) { return head.RefineRows(refined[h]); }));
    const size_t rows = lookups_.front().num_scored();
    ArenaVector<double> masses(lookups_.size() * rows, 0.0, arena_);
    for (size_t h = 0; local_.ok() && h < lookups_.size(); ++h) {
      lookups_[h].ListMasses(std::span<double>(masses).subspan(h * rows, rows));
    }
    LECTERN_RETURN_IF_ERROR(peers().Add(std::exchange(local_, {}), masses));
    return ForAll([&](HeadLookup& head, size_t h) {
      head.JoinMasses(std::span<const double>(masses).subspan(h * rows, rows));
      head.ScoreRefined();
      return Status();
    });
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

  // Lists all open clusters of the layer by head and place, with S or the rule's mass as their
  // score. Those above the threshold that `kept_share` picks are wanted.
  ArenaVector<RankedCluster> Candidates(size_t level, double kept_share) const {
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
    return candidates;
  }

  // The same, best first, equal ones in their order.
  BestFirst Rank(size_t level, double kept_share) const {
    BestFirst ranked(Candidates(level, kept_share), arena_);
    if (terms_.wants == RuleTerms::Wants::kMass) return WantMass(level, std::move(ranked));
    return ranked;
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

  // Takes the clusters of a level best first, within limits of their cost, and adds up what is
  // taken; of all ranks where there are several. cost_of(kv head, cluster, its keys).
  template <typename CostOf>
  Result<PerHead> TakeBest(size_t level, double kept_share, const CostOf& cost_of,
                           const ChoiceLimits& limits, ChosenAmounts& amounts) {
    PerHead taken(lookups_.size(), arena_);
    if (is_shared()) {
      ArenaVector<SharedCandidate> candidates(arena_);
      if (local_.ok()) {
        for (const RankedCluster& of : Candidates(level, kept_share)) {
          candidates.push_back({DescendingKey(of.score, of.wanted), of.head, of.index, of.num_keys,
                                cost_of(of.head, of.index, of.num_keys)});
        }
      }
      LECTERN_RETURN_IF_ERROR(
          ChooseTogether(peers(), std::exchange(local_, {}), candidates, limits, taken, amounts));
      return Sorted(std::move(taken));
    }
    BestFirst ranked = Rank(level, kept_share);
    while (const RankedCluster* candidate = ranked.Next()) {
      const double cost =
          amounts.cost + cost_of(candidate->head, candidate->index, candidate->num_keys);
      if (cost > limits.allowed && limits.enough(amounts)) break;
      if (cost > limits.most) continue;
      taken[candidate->head].push_back(candidate->index);
      amounts = {cost, amounts.keys + candidate->num_keys};
    }
    return Sorted(std::move(taken));
  }

  // Chooses clusters of an upper level to open: the best ones, until this level's part of the
  // lookup bytes is spent and the rows below can fill the budget. Without a budget: those that the
  // rule wants.
  Result<PerHead> ChooseOpened(size_t level) {
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
    const auto cost_of = [&](uint32_t head, uint32_t cluster, uint32_t /*keys*/) {
      const HeadIndex::Level& view = args_.heads[head].levels()[level];
      const double bytes = ClusterBytes(args_.heads[head], level + 1) *
                           (view.children[cluster + 1] - view.children[cluster]);
      // The cost replaces the cluster's own mean value by those of its children, except where it
      // stands for finest clusters, whose mean values are not read.
      return use_codes_ && IsFinest(level + 1) ? bytes : bytes - ValueBytes(view);
    };
    ChosenAmounts opened_amounts;
    PerHead opened(lookups_.size(), arena_);
    if (has_budget()) {
      const auto can_fill = [&](const ChosenAmounts& before) {
        return row_bytes_ * before.keys > kSpareRows * (budget_ - spent_ - before.cost);
      };
      LECTERN_ASSIGN(
          opened, TakeBest(level, kept_share, cost_of, {allowed, most, can_fill}, opened_amounts));
    } else {
      BestFirst ranked = Rank(level, kept_share);
      while (const RankedCluster* candidate = ranked.Next()) {
        if (!candidate->wanted) break;
        opened[candidate->head].push_back(candidate->index);
        opened_amounts.cost += cost_of(candidate->head, candidate->index, candidate->num_keys);
      }
      opened = Sorted(std::move(opened));
    }
    spent_ += opened_amounts.cost;
    lookup_left_ -= opened_amounts.cost;
    return opened;
  }

  // Chooses clusters whose row codes to read: the best opened ones, until their share of the budget
  // (or limit of rows) is spent and their rows can fill the rest.
  Result<PerHead> ChooseCoded() {
    const double most = kMostForCodes * (budget_ - spent_);
    const auto row_code_bytes = static_cast<double>(args_.heads.front().row_code_bytes());
    const double allowed =
        std::min(kCodesShare * (budget_ - spent_), limits_.coded * row_code_bytes);
    const auto can_fill = [&](const ChosenAmounts& before) {
      const double for_rows = std::min(budget_ - spent_ - before.cost, limits_.read * row_bytes_);
      return row_bytes_ * before.keys > kSpareRows * for_rows;
    };
    const auto cost_of = [&](uint32_t /*head*/, uint32_t /*cluster*/, uint32_t keys) {
      return keys * row_code_bytes;
    };
    ChosenAmounts coded_amounts;
    // 0.3 picks the threshold that was calibrated for 30 % of the keys; it only orders. Chosen
    // without a recorded measurement.
    LECTERN_ASSIGN(PerHead coded, TakeBest(num_levels_ - 1, 0.3, cost_of, {allowed, most, can_fill},
                                           coded_amounts));
    spent_ += coded_amounts.cost;
    return coded;
  }

  // Indices of the `count` largest scores, all heads and ranks together, ascending for each head.
  // `total`: how many these are. scores_of(kv head).
  template <typename ScoresOf>
  Result<PerHead> Best(double count, const ScoresOf& scores_of, double& total) {
    if (!is_shared()) {
      PerHead best(lookups_.size(), arena_);
      ChooseBestScores(count, scores_of, threads_, buffers_, arena_, best);
      total = 0;
      for (const auto& rows : best) total += static_cast<double>(rows.size());
      return best;
    }
    ArenaVector<SharedCandidate> candidates(arena_);
    for (uint32_t h = 0; local_.ok() && h < lookups_.size(); ++h) {
      const std::span<const float> scores = scores_of(h);
      for (uint32_t i = 0; i < scores.size(); ++i) {
        candidates.push_back({DescendingKey(scores[i], false), h, i, 1, 1});
      }
    }
    PerHead best(lookups_.size(), arena_);
    ChosenAmounts amounts;
    const auto always = [](const ChosenAmounts&) { return true; };
    LECTERN_RETURN_IF_ERROR(ChooseTogether(peers(), std::exchange(local_, {}), candidates,
                                           {std::floor(std::max(0.0, count)), INFINITY, always},
                                           best, amounts));
    total = amounts.cost;
    return Sorted(std::move(best));
  }

  // Chooses coded rows whose fine codes to read: the best of the layer, leaving room for at least
  // one row.
  Result<PerHead> ChooseRefined() {
    const auto fine_bytes = static_cast<double>(args_.heads.front().fine_code_bytes());
    const double left = budget_ - spent_;
    const double most = limits_.refined * fine_bytes;
    double num_refined = 0;
    LECTERN_ASSIGN(PerHead refined,
                   Best(
                       std::min({kFineShare * left, left - row_bytes_, most}) / fine_bytes,
                       [&](size_t h) -> std::span<const float> { return lookups_[h].row_scores(); },
                       num_refined));
    spent_ += fine_bytes * num_refined;
    return refined;
  }

  // Chooses among the refined rows those to read: the best by their fine codes.
  Result<PerHead> ChooseRows() {
    const double count = std::min((budget_ - spent_) / row_bytes_, limits_.read);
    double num_rows = 0;
    return Best(
        count, [&](size_t h) -> std::span<const float> { return lookups_[h].refined_scores(); },
        num_rows);
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
  double dense_bytes_ = 0;  // of the layer
  double budget_ = 0;       // bytes of the layer
  double spent_ = 0;        // bytes spent so far
  double lookup_left_ = 0;  // bytes left of the quarter for looking up
  Status local_;  // of ranks that share the lookup: this rank's error, for the next meeting
};

}  // namespace

Status LookupTogether(const LookupArgs& args, ThreadPool& threads, LookupWorkspace& workspace,
                      std::span<HeadSelection> selections) {
  workspace.arena().Reset();
  return LayerLookup(args, threads, workspace, selections).Run();
}

}  // namespace lectern
