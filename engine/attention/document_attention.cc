#include "engine/attention/document_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <new>

#include "engine/attention/layer_attention.h"

namespace lectern {
namespace {

// From this budget on everything is read instead of looking up once more. By hand; no measurement
// is on record. A wrong value costs time alone: reading everything is exact.
constexpr double kReadAllFrom = 0.6;

// Per kv head [R]: log-sum-exp of everything in the states plus what is attended besides.
void FindKnownLse(std::span<const AttentionState> states,
                  std::span<const std::span<float>> other_lse,
                  std::vector<std::vector<float>>& known) {
  known.resize(states.size());
  for (size_t h = 0; h < states.size(); ++h) {
    const AttentionState& state = states[h];
    known[h].clear();
    for (size_t r = 0; r < state.num_rows(); ++r) {
      const float document = state.max[r] + std::log(state.sum[r]);
      known[h].push_back(LogAddExp(document, other_lse.empty() ? -INFINITY : other_lse[h][r]));
    }
  }
}

// Per kv head [R]: the log mass of what all ranks read plus what is attended besides.
void FindReadLse(const std::vector<std::vector<float>>& of_rows,
                 std::span<const std::span<float>> other_lse,
                 std::vector<std::vector<float>>& read) {
  read = of_rows;
  for (size_t h = 0; !other_lse.empty() && h < read.size(); ++h) {
    for (size_t r = 0; r < read[h].size(); ++r) {
      read[h][r] = LogAddExp(read[h][r], other_lse[h][r]);
    }
  }
}

// Smallest estimate of missed attention: calibration takes logarithms of odds, which need a number
// above 0. By hand: a millionth is far below the estimates that receipts and limits tell apart.
constexpr double kLeastShare = 1e-6;

// The share of all heads' attention that the tail stands for, at least kLeastShare: 1 minus the
// mass that was `read` (as log masses) over the mass of everything, tail included.
double TailShare(const DocumentAttentionArgs& args, const std::vector<std::vector<float>>& read) {
  std::vector<std::vector<float>>& all = args.query.workspace.all_lse;
  FindKnownLse(args.query.rows.states, args.other_lse, all);
  double sum = 0;
  for (size_t h = 0; h < all.size(); ++h) {
    for (size_t r = 0; r < all[h].size(); ++r) {
      const double weight = args.query.row_weights.empty() ? 1 / static_cast<double>(all[h].size())
                                                     : double{args.query.row_weights[r]};
      // 1 - exp(read - all) by expm1, which keeps small shares exact.
      sum -= weight * std::expm1(std::min(0.0, double{read[h][r]} - all[h][r]));
    }
  }
  return std::max(kLeastShare, sum / static_cast<double>(all.size()));
}

// Upper bound on the share of all heads' attention on rows that were not read. `read`: log mass of
// all that was read.
double MissedBound(const DocumentAttentionArgs& args, std::span<const HeadSelection> selections,
                   const std::vector<std::vector<float>>& read) {
  double sum = 0;
  for (size_t h = 0; h < selections.size(); ++h) {
    for (size_t r = 0; r < read[h].size(); ++r) {
      // share = u / (u + r) with log odds log(u / r); NaN (both zero) counts as all.
      const double log_odds = double{selections[h].unread_bound[r]} - read[h][r];
      const double share = 1 / (1 + std::exp(-log_odds));
      const double weight = args.query.row_weights.empty() ? 1 / static_cast<double>(read[h].size())
                                                     : double{args.query.row_weights[r]};
      sum += weight * (std::isnan(share) ? 1 : share);
    }
  }
  // The weights sum to 1 only up to rounding.
  return std::min(1.0, sum / static_cast<double>(selections.size()));
}

LayerArgs PartsOf(const DocumentAttentionArgs& args) {
  return {args.query, args.observed, args.device, args.layer};
}
LayerArgs PartsOf(const ClusterAttentionArgs& args) { return {args.query}; }

// Copies of the states, to begin again from after an attempt that missed too much.
class SavedStates {
 public:
  SavedStates(std::span<const AttentionState> states, Arena* arena)
      : states_(states), numbers_(arena) {
    for (const AttentionState& state : states) {
      for (size_t r = 0; r < state.num_rows(); ++r) {
        numbers_.insert(numbers_.end(), state.out[r], state.out[r] + state.out.num_cols);
      }
      numbers_.insert(numbers_.end(), state.max.begin(), state.max.end());
      numbers_.insert(numbers_.end(), state.sum.begin(), state.sum.end());
    }
  }
  void Restore() const {
    const float* from = numbers_.data();
    const auto take = [&](float* to, size_t count) {
      std::copy_n(from, count, to);
      from += count;
    };
    for (const AttentionState& state : states_) {
      for (size_t r = 0; r < state.num_rows(); ++r) take(state.out[r], state.out.num_cols);
      take(state.max.data(), state.max.size());
      take(state.sum.data(), state.sum.size());
    }
  }

 private:
  std::span<const AttentionState> states_;
  ArenaVector<float> numbers_;
};

// Makes room for the logits of sinks and window, if they are read, and of num_rest(head) other rows
// per head.
void ResizeObserved(ObservedLogits* observed, std::span<const HeadIndex> heads, bool reads_ends,
                    FunctionRef<size_t(size_t head)> num_rest) {
  if (observed == nullptr) return;
  observed->exact.resize(heads.size());
  observed->rest.resize(heads.size());
  for (size_t h = 0; h < heads.size(); ++h) {
    observed->exact[h].resize(observed->num_queries * (reads_ends ? heads[h].num_exact() : 0));
    observed->rest[h].resize(observed->num_queries * num_rest(h));
  }
}

// The lookup that the arguments ask for, at first without what the caller decides: budgets of
// heads, the bound, and copies of windows.
LookupArgs LookupOf(const DocumentAttentionArgs& args, std::span<const HeadIndex> heads) {
  return {.backend = args.query.backend,
          .threads = args.query.threads,
          .heads = heads,
          .queries = args.query.rows.queries,
          .scale = 1 / std::sqrt(static_cast<float>(args.query.rows.queries[0].num_cols)),
          .softcap = args.query.rows.softcap,
          .kv_budget = args.kv_budget,
          .tail = args.tail,
          .row_weights = args.query.row_weights,
          .workspace = &args.query.workspace.lookup,
          .rule = args.rule};
}

// Whether other ranks take part in this layer.
bool IsShared(const DocumentAttentionArgs& args, std::span<const HeadIndex> heads, bool reads_all) {
  return args.ranks != nullptr && args.device == nullptr && args.document.has_clusters() &&
         (reads_all || (args.selector == nullptr && CanShareLookup(heads, args.rule.kind)));
}

// Attends to the rows of all ranks together; `own` then has all parts. The states may hold sinks
// and window already, which are the leader's. False: the ranks are busy, and nothing was done.
Result<bool> AttendWithRanks(const DocumentAttentionArgs& args, std::span<const HeadIndex> heads,
                             const LookupArgs& lookup, bool reads_all, OwnRows& own) {
  const size_t num_observed = args.observed ? args.observed->num_queries : 0;
  LECTERN_ASSIGN(const bool begins, args.ranks->Begin({.layer = args.layer,
                                                       .query = args.query.rows,
                                                       .lookup = lookup,
                                                       .reads_all = reads_all,
                                                       .num_observed = num_observed}));
  if (!begins) return false;
  LookupArgs shared = lookup;
  shared.share = &args.ranks->share();
  Status local;
  try {
    local = AttendOwnRows({args.query, heads, shared, reads_all, args.observed}, own);
  } catch (const std::bad_alloc&) {
    args.ranks->Abort();  // somewhere between two meetings
  }
  LECTERN_RETURN_IF_ERROR(args.ranks->Finish(std::move(local), args.query.rows.states, own,
                                             args.observed ? &args.observed->rest : nullptr));
  return true;
}

// Exact reading of a layer that is not windowed.
Status AttendAll(const DocumentAttentionArgs& args, std::span<const HeadIndex> heads,
                 DocumentRead& read) {
  read.exact = read.reads_ends = true;
  ResizeObserved(args.observed, heads, /*reads_ends=*/true,
                 [&](size_t h) { return heads[h].num_rows() - heads[h].num_exact(); });
  for (const HeadIndex& head : heads) read.bytes += head.dense_bytes();
  read.heads.clear();
  read.read_lse.clear();
  read.missed_mass = read.uncalibrated_missed = read.missed_bound = 0;
  if (IsShared(args, heads, /*reads_all=*/true)) {
    LECTERN_ASSIGN(const bool is_done,
                   AttendWithRanks(args, heads, LookupOf(args, heads), /*reads_all=*/true,
                                   args.query.workspace.own));
    if (is_done) return {};
  }
  return AttendEveryRow(PartsOf(args), heads);
}

// Attends to a windowed layer: all its stored rows are read, and each query row sees those of its
// window.
Status AttendWindow(const DocumentAttentionArgs& args, std::span<const HeadIndex> heads,
                    DocumentRead& read) {
  const size_t num_rows = args.query.rows.queries.front().num_rows,
               dim = args.query.rows.queries.front().num_cols;
  const size_t group = num_rows / args.query.rows.num_tokens, num_stored = heads.front().num_rows();
  const uint64_t first_token = heads.front().positions().front();
  const uint64_t window = args.document.window(args.layer);
  const auto num_stored_rows = static_cast<uint32_t>(num_stored);
  ArenaVector<uint32_t> first(&args.query.workspace.arena);
  for (size_t r = 0; r < num_rows; ++r) {
    const uint64_t end = args.first_position + r / group + 1;  // of the positions that it sees
    const uint64_t begin = end - std::min(end, window);
    first.push_back(static_cast<uint32_t>(
        std::min<uint64_t>(begin - std::min(begin, first_token), num_stored)));
  }
  for (const HeadIndex& head : heads) {
    LECTERN_RETURN_IF_ERROR(head.VerifyRows({0, num_stored_rows}));
    read.window_bytes += head.dense_bytes();
  }
  if (args.device != nullptr) {
    return args.device->AttendWindow(
        {.layer = args.layer, .heads = heads, .query = args.query.rows},
        args.first_position - first_token, static_cast<uint32_t>(window));
  }
  args.query.workspace.PrepareSlots(args.query.threads.num_threads(),
                                    AttendScratch(kQueryRowsPerItem, dim));
  const size_t blocks = (num_rows + kQueryRowsPerItem - 1) / kQueryRowsPerItem;
  std::atomic<bool> is_cancelled = false;
  args.query.threads.ParallelFor(blocks * heads.size(), [&](size_t item, size_t slot) {
    if (is_cancelled.load(std::memory_order_relaxed)) return;
    if (args.query.is_cancelled && args.query.is_cancelled()) return is_cancelled.store(true);
    const size_t h = item / blocks, begin = item % blocks * kQueryRowsPerItem;
    const size_t end = std::min(begin + kQueryRowsPerItem, num_rows);
    args.query.backend.attend({.queries = args.query.rows.queries[h].Slice(begin, end),
                         .keys = heads[h].Keys({0, num_stored_rows}),
                         .values = heads[h].Values({0, num_stored_rows}),
                         .scale = 1 / std::sqrt(static_cast<float>(dim)),
                         .softcap = args.query.rows.softcap,
                         .visible = {},
                         .first = std::span(first).subspan(begin, end - begin),
                         .state = args.query.rows.states[h].Slice(begin, end),
                         .logits = {},
                         .scratch = args.query.workspace.slots[slot].scratch});
  });
  if (is_cancelled) return {Code::kCancelled, "the answer was cancelled"};
  return {};
}

// Looks up, or has the selector or the device do so, attends to the rows that were chosen, then to
// the tail. Fills read.heads and read.read_lse.
Status AttendChosen(const DocumentAttentionArgs& args, std::span<const HeadIndex> heads,
                    const LookupArgs& lookup, DocumentRead& read) {
  bool is_found = false, has_tail_there = false;
  if (args.selector != nullptr) {
    LECTERN_ASSIGN(read.heads, (*args.selector)(args.layer, lookup));
    is_found = true;
  } else if (args.device != nullptr) {
    LECTERN_ASSIGN(is_found, args.device->LookUp(args.layer, lookup, read.heads));
    has_tail_there = is_found;
  }
  if (!is_found) LECTERN_RETURN_IF_ERROR(Lookup(lookup, read.heads));
  if (args.query.rows.num_tokens > 1) {  // a later token's rows were mostly read before
    for (size_t h = 0; h < heads.size(); ++h) heads[h].ReadAheadRows(read.heads[h].rows);
  }
  ResizeObserved(args.observed, heads, read.reads_ends,
                 [&](size_t h) { return read.heads[h].rows.size(); });
  LECTERN_RETURN_IF_ERROR(AttendRows(PartsOf(args), heads, read.heads));
  // Missed shares are estimated from the masses of what was read, before the tail is added.
  FindKnownLse(args.query.rows.states, args.other_lse, read.read_lse);
  if (has_tail_there) {
    LECTERN_RETURN_IF_ERROR(args.device->AttendTail(
        {.layer = args.layer, .heads = heads, .query = args.query.rows}, lookup, read.heads));
  }
  return AttendTails(PartsOf(args), heads, read.heads);
}

// The same by all ranks. False: they are busy, and nothing was done.
Result<bool> AttendChosenWithRanks(const DocumentAttentionArgs& args,
                                   std::span<const HeadIndex> heads, const LookupArgs& lookup,
                                   DocumentRead& read) {
  OwnRows& own = args.query.workspace.own;
  LECTERN_ASSIGN(const bool is_done,
                 AttendWithRanks(args, heads, lookup, /*reads_all=*/false, own));
  if (!is_done) return false;
  std::swap(read.heads, own.selections);
  FindReadLse(own.read_lse, args.other_lse, read.read_lse);
  return true;
}

// Attends to the rows that one lookup chooses and to the tail, and estimates what was missed. Adds
// to `read.bytes`.
Status AttendSelected(const DocumentAttentionArgs& args, std::span<const HeadIndex> heads,
                      const LookupArgs& lookup, DocumentRead& read) {
  bool is_done = false;
  if (IsShared(args, heads, /*reads_all=*/false)) {
    LECTERN_ASSIGN(is_done, AttendChosenWithRanks(args, heads, lookup, read));
  }
  if (!is_done) LECTERN_RETURN_IF_ERROR(AttendChosen(args, heads, lookup, read));
  read.uncalibrated_missed = 0;
  for (const HeadSelection& selection : read.heads) {
    read.bytes += selection.bytes;
    read.uncalibrated_missed += selection.missed_mass / static_cast<double>(read.heads.size());
  }
  read.bounded = lookup.bound;
  if (read.bounded) read.missed_bound = MissedBound(args, read.heads, read.read_lse);
  if (lookup.tail) read.uncalibrated_missed = TailShare(args, read.read_lse);
  return {};
}

}  // namespace

void AttentionWorkspace::PrepareSlots(size_t num_threads, size_t scratch) {
  slots.resize(num_threads);
  const auto share_room = [this](auto member) {
    size_t most = 0;
    for (Slot& slot : slots) most = std::max(most, (slot.*member).capacity());
    for (Slot& slot : slots) (slot.*member).reserve(most);
  };
  share_room(&Slot::keys);
  share_room(&Slot::values);
  share_room(&Slot::blocks);
  share_room(&Slot::logits);
  share_room(&Slot::measured);
  for (Slot& slot : slots) slot.scratch.resize(scratch);
}

Status AttendDocument(const DocumentAttentionArgs& args, DocumentRead& read) {
  LECTERN_ASSIGN(const std::span<const HeadIndex> heads, args.document.Heads(args.layer));
  AttentionWorkspace& workspace = args.query.workspace;
  workspace.arena.Reset();
  read.exact = read.bounded = false;
  read.missed_bound = 0;
  read.bytes = read.window_bytes = 0;
  read.attempts = 1;
  if (args.document.is_windowed(args.layer)) {
    read.exact = true;
    read.dense_bytes = 0;
    read.missed_mass = read.uncalibrated_missed = 0;
    read.heads.clear();
    read.read_lse.clear();
    return AttendWindow(args, heads, read);
  }
  read.dense_bytes = args.document.LayerBytes();
  read.reads_ends = args.document.has_clusters();
  if (args.kv_budget >= 1 || (!read.reads_ends && args.selector == nullptr)) {
    return AttendAll(args, heads, read);
  }
  const bool is_limited = args.max_missed >= 0;
  ResizeObserved(args.observed, heads, read.reads_ends, [](size_t) { return 0; });
  ArenaVector<double> head_budgets(args.head_budgets.begin(), args.head_budgets.end(),
                                   &workspace.arena);
  LookupArgs lookup = LookupOf(args, heads);
  lookup.head_budgets = head_budgets;
  lookup.bound = is_limited || args.bound;
  lookup.window_copies =
      !lookup.bound && !args.as_stored && args.selector == nullptr && args.device == nullptr;
  // Sinks and window come first: their mass is known before the lookup, so heads that look there
  // get a smaller budget.
  if (read.reads_ends) {
    LECTERN_RETURN_IF_ERROR(
        AttendExact(PartsOf(args), heads, [&](size_t h) { return ReadsWindowCopy(lookup, h); }));
  }
  FindKnownLse(args.query.rows.states, args.other_lse, workspace.known_lse);
  lookup.known_lse = workspace.known_lse;
  const SavedStates saved(is_limited ? args.query.rows.states : std::span<const AttentionState>(),
                          &workspace.arena);
  // Without a limit one attempt is enough; with one, the budget doubles until the limit holds.
  for (double nominal = args.nominal_budget;; nominal *= 2, ++read.attempts) {
    LECTERN_RETURN_IF_ERROR(AttendSelected(args, heads, lookup, read));
    read.missed_mass = read.uncalibrated_missed;
    double limit = 1;
    if (args.calibration != nullptr) {
      read.missed_mass = args.calibration->Estimate(args.layer, nominal, read.missed_mass);
      limit = args.calibration->Limit(nominal, read.missed_mass);
    }
    if (!is_limited || std::min(limit, read.missed_bound) <= args.max_missed) return {};
    saved.Restore();
    lookup.kv_budget *= 2;
    for (double& budget : head_budgets) budget = std::min(1.0, 2 * budget);
    // For top-p reading on means to halve the mass that may be left.
    lookup.rule.mass += (1 - lookup.rule.mass) / 2;
    if (lookup.kv_budget < kReadAllFrom) continue;
    // Reading everything starts from empty states, because it includes sinks and window.
    for (const AttentionState& state : args.query.rows.states) ResetState(state);
    ++read.attempts;
    return AttendAll(args, heads, read);
  }
}

Status AttendOwnRows(const OwnAttentionArgs& args, OwnRows& own) {
  const LookupShare& share = *args.lookup.share;
  const LayerArgs parts = {.query = args.query, .observed = args.observed, .share = &share};
  own.bytes = 0;
  if (args.reads_all) {
    own.selections.clear();
    for (const HeadIndex& head : args.heads) {
      own.bytes += head.BlockBytes(share.Rows(head));
      if (share.owns_exact()) own.bytes += head.ExactBytes(false);
    }
    ResizeObserved(args.observed, args.heads, share.owns_exact(),
                   [&](size_t h) { return share.Rows(args.heads[h]).size(); });
    LECTERN_RETURN_IF_ERROR(AttendEveryRow(parts, args.heads));
    FindKnownLse(args.query.rows.states, {}, own.read_lse);
    return {};
  }
  LECTERN_RETURN_IF_ERROR(Lookup(args.lookup, own.selections));
  for (size_t h = 0; args.query.rows.num_tokens > 1 && h < args.heads.size(); ++h) {
    args.heads[h].ReadAheadRows(own.selections[h].rows);
  }
  for (size_t h = 0; h < args.heads.size(); ++h) {
    own.bytes += own.selections[h].bytes;
    if (!share.owns_exact())
      own.bytes += args.heads[h].metric_bytes();  // counted once by the budget
  }
  for (size_t h = 0; args.observed != nullptr && h < args.heads.size(); ++h) {
    args.observed->rest.resize(args.heads.size());
    args.observed->rest[h].resize(args.observed->num_queries * own.selections[h].rows.size());
  }
  LECTERN_RETURN_IF_ERROR(AttendRows(parts, args.heads, own.selections));
  FindKnownLse(args.query.rows.states, {}, own.read_lse);
  return AttendTails(parts, args.heads, own.selections);
}

Status AttendClusters(const ClusterAttentionArgs& args) {
  const std::span<const HeadIndex> heads = args.heads;
  AttentionWorkspace& workspace = args.query.workspace;
  workspace.arena.Reset();
  if (args.kv_budget >= 1) return AttendEveryRow(PartsOf(args), heads);
  LECTERN_RETURN_IF_ERROR(AttendExact(PartsOf(args), heads, [](size_t) { return false; }));
  FindKnownLse(args.query.rows.states, {}, workspace.known_lse);
  LECTERN_RETURN_IF_ERROR(
      Lookup({.backend = args.query.backend,
              .threads = args.query.threads,
              .heads = heads,
              .queries = args.query.rows.queries,
              .scale = 1 / std::sqrt(static_cast<float>(args.query.rows.queries.front().num_cols)),
              .softcap = args.query.rows.softcap,
              .kv_budget = args.kv_budget,
              .tail = true,
              .known_lse = workspace.known_lse,
              .row_weights = args.query.row_weights,
              .workspace = &workspace.lookup},
             workspace.selections));
  LECTERN_RETURN_IF_ERROR(AttendRows(PartsOf(args), heads, workspace.selections));
  return AttendTails(PartsOf(args), heads, workspace.selections);
}

}  // namespace lectern
