#include "engine/document_attention.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <mutex>

#include "kernels/second_order.h"

namespace lectern {
namespace {

// Up to this many query rows an item is some runs for all rows, and items are merged; with more, an
// item is a block of query rows over all runs, so that states stay small.
constexpr size_t kSplitRunsUpTo = 256;
constexpr uint64_t kBytesPerItem = 128 << 10;

constexpr size_t kRowsPerRun = 256;  // at least, or at most where they are gathered

// A budget from which on reading everything is as good.
constexpr double kReadAllFrom = 0.6;

// What is attended in one call: a block of rows as stored, some chosen rows gathered side by side,
// or clusters that stand in for keys that are not read.
struct Run {
  enum class Kind {
    kBlock,      // rows `range`: the exact block, or some finest clusters
    kGathered,   // selection.rows [range.begin, range.end)
    kTail,       // clusters `range` of `level`, by centroid and mean value
    kLogitTail,  // clusters `range` of `tail`, by its logits [column, …) and mean value
  } kind;
  IndexRange range;
  uint32_t level = 0;
  uint64_t bytes = 0;
  const LogitTail* tail = nullptr;
  size_t column = 0;
};

using Runs = ArenaVector<Run>;

void AddBlock(const HeadIndex& head, IndexRange rows, Runs& runs) {
  if (rows.size() > 0) runs.push_back({Run::Kind::kBlock, rows, 0, head.BlockBytes(rows)});
}

// Sinks and window.
void AddExact(const HeadIndex& head, Runs& runs) { AddBlock(head, {0, head.num_exact()}, runs); }

void AddAll(const HeadIndex& head, Runs& runs) {
  AddExact(head, runs);
  if (head.levels().empty()) return;
  const std::span<const uint32_t> rows = head.levels().back().children;
  for (size_t i = 1, first = 0; i < rows.size(); ++i) {
    if (rows[i] - rows[first] < kRowsPerRun && i + 1 < rows.size()) continue;
    AddBlock(head, {rows[first], rows[i]}, runs);
    first = i;
  }
}

void AddTail(const HeadIndex& head, const HeadSelection& selection, Runs& runs) {
  const uint64_t value_bytes = head.levels().front().mean_values.row_bytes();
  for (uint32_t level = 0; level < selection.tail.size(); ++level) {
    for (const IndexRange& range : selection.tail[level]) {
      runs.push_back({Run::Kind::kTail, range, level, range.size() * 2 * value_bytes});
    }
  }
  const LogitTail& tail = selection.logit_tail;
  size_t column = 0;
  for (const IndexRange& range : tail.clusters) {
    runs.push_back({Run::Kind::kLogitTail, range, static_cast<uint32_t>(tail.level),
                    range.size() * value_bytes, &tail, column});
    column += range.size();
  }
}

void AddGathered(const HeadIndex& head, const HeadSelection& selection, Runs& runs) {
  const auto num_rows = static_cast<uint32_t>(selection.rows.size());
  for (uint32_t begin = 0; begin < num_rows; begin += kRowsPerRun) {
    const uint32_t end = std::min<uint32_t>(begin + kRowsPerRun, num_rows);
    runs.push_back(
        {Run::Kind::kGathered, {begin, end}, 0, (end - begin) * head.BlockBytes({0, 1})});
  }
}

using Workspace = AttentionWorkspace::Slot;

// The blocks of a run of rows (kTail and kLogitTail are none), for so many query rows.
Status ReadBlocks(const HeadIndex& head, const HeadSelection* selection, const Run& run,
                  size_t num_queries, Workspace& workspace) {
  workspace.blocks.clear();
  if (run.kind == Run::Kind::kGathered) {
    const std::span<const uint32_t> rows =
        std::span<const uint32_t>(selection->rows).subspan(run.range.begin, run.range.size());
    LECTERN_RETURN_IF_ERROR(head.GatherRows(rows, workspace.keys, workspace.values));
    workspace.blocks.push_back({head.AsRows(workspace.keys), head.AsRows(workspace.values)});
    return {};
  }
  LECTERN_RETURN_IF_ERROR(head.VerifyRows(run.range));
  head.ForEachBlock(run.range, [&](IndexRange block) {
    workspace.blocks.push_back({head.Keys(block), head.Values(block)});
  });
  if (num_queries <= kMostGroupRows || workspace.blocks.size() == 1) return {};
  // Many query rows: what is copied once is used often.
  workspace.keys.clear();
  workspace.values.clear();
  for (const KvBlock& block : workspace.blocks) {
    const size_t bytes = block.keys.num_rows * block.keys.row_bytes();
    workspace.keys.insert(workspace.keys.end(), block.keys.data, block.keys.data + bytes);
    workspace.values.insert(workspace.values.end(), block.values.data, block.values.data + bytes);
  }
  workspace.blocks = {{head.AsRows(workspace.keys), head.AsRows(workspace.values)}};
  return {};
}

// Part of one kv head's work: runs [run_begin, run_end) for query rows [row_begin, row_end).
struct Item {
  uint32_t head;
  size_t run_begin = 0, run_end = 0;
  size_t row_begin = 0, row_end = 0;
  size_t state = 0;  // index into the partial states, or npos: straight into the caller's
};
constexpr size_t kDirect = static_cast<size_t>(-1);

// What attention needs to know, whatever chose the runs.
struct LayerArgs {
  LayerArgs(const DocumentAttentionArgs& args)  // NOLINT: they are some of these
      : backend(args.backend),
        threads(args.threads),
        queries(args.queries),
        softcap(args.softcap),
        states(args.states),
        is_cancelled(args.is_cancelled),
        workspace(args.workspace),
        observed(args.observed),
        device(args.device),
        layer(args.layer),
        num_tokens(args.num_tokens) {}
  LayerArgs(const ClusterAttentionArgs& args)  // NOLINT
      : backend(args.backend),
        threads(args.threads),
        queries(args.queries),
        softcap(args.softcap),
        states(args.states),
        is_cancelled(args.is_cancelled),
        workspace(args.workspace) {}
  const Backend& backend;
  ThreadPool& threads;
  std::span<const Rows<const float>> queries;
  float softcap;
  std::span<const AttentionState> states;
  const std::function<bool()>& is_cancelled;
  AttentionWorkspace& workspace;
  ObservedLogits* observed = nullptr;
  DeviceAttention* device = nullptr;
  uint32_t layer = 0;  // with a device
  size_t num_tokens = 1;
};

class LayerAttention {
 public:
  // add_runs(kv head, its runs). `selections`: where they have gathered rows.
  template <typename AddRuns>
  LayerAttention(const LayerArgs& args, std::span<const HeadIndex> heads,
                 std::span<const HeadSelection> selections, const AddRuns& add_runs)
      : args_(args),
        heads_(heads),
        selections_(selections),
        scale_(1 / std::sqrt(static_cast<float>(HeadDim()))),
        runs_(heads.size(), &args.workspace.arena),
        items_(&args.workspace.arena) {
    for (uint32_t h = 0; h < heads.size(); ++h) {
      add_runs(h, runs_[h]);
      CutItems(h);
    }
  }

  Status Attend() {
    const size_t max_rows = std::max(kSplitRunsUpTo, kQueryRowsPerItem);
    args_.workspace.PrepareSlots(args_.threads.num_threads(), AttendScratch(max_rows, HeadDim()));
    partial_ = args_.workspace.partial.Resize(num_partial_floats_);
    std::atomic<bool> failed = false;
    std::mutex mutex;
    Status first;
    args_.threads.ParallelFor(items_.size(), [&](size_t i, size_t slot) {
      if (failed.load(std::memory_order_relaxed)) return;
      Status status = AttendItem(items_[i], args_.workspace.slots[slot]);
      if (status.ok()) return;
      std::lock_guard lock(mutex);
      if (first.ok()) first = std::move(status);
      failed.store(true, std::memory_order_relaxed);
    });
    LECTERN_RETURN_IF_ERROR(first);
    for (const Item& item : items_) {
      if (item.state != kDirect) MergeStates(args_.states[item.head], PartialState(item));
    }
    return {};
  }

  // The same of stored rows, by the device; what is observed of them is found here.
  Status AttendOnDevice() {
    if (args_.is_cancelled && args_.is_cancelled()) {
      return {Code::kCancelled, "the answer was cancelled"};
    }
    ArenaVector<DeviceAttention::Part> parts(&args_.workspace.arena);
    for (uint32_t h = 0; h < heads_.size(); ++h) {
      for (const Run& run : runs_[h]) {
        parts.push_back({h, run.range});
        if (run.kind == Run::Kind::kGathered) parts.back().chosen = Selection(h)->rows;
      }
    }
    LECTERN_RETURN_IF_ERROR(args_.device->Attend({.layer = args_.layer,
                                                  .heads = heads_,
                                                  .queries = args_.queries,
                                                  .num_tokens = args_.num_tokens,
                                                  .softcap = args_.softcap,
                                                  .states = args_.states,
                                                  .observed = FromDevice()},
                                                 parts));
    if (args_.observed == nullptr) return {};
    if (FromDevice() != nullptr && !FromDevice()->empty()) {
      TakeObserved();
      return {};
    }
    only_observes_ = true;
    return Attend();
  }

 private:
  // Where the device puts what is observed: of one token's rows; nullptr: that is not wanted.
  std::vector<std::vector<float>>* FromDevice() {
    const bool is_wanted = args_.observed != nullptr &&
                           args_.observed->num_queries * args_.num_tokens == NumRows();
    return is_wanted ? &args_.workspace.observed : nullptr;
  }

  // Of the columns of all runs, each to its own place.
  void TakeObserved() {
    const size_t num_queries = args_.observed->num_queries;
    for (uint32_t h = 0; h < heads_.size(); ++h) {
      const std::vector<float>& logits = args_.workspace.observed[h];
      const size_t stride = logits.size() / num_queries;
      size_t column = 0;
      for (const Run& run : runs_[h]) {
        const Rows<float> to = Observed({.head = h, .row_end = NumRows()}, run);
        for (size_t r = 0; r < num_queries; ++r) {
          std::copy_n(logits.data() + r * stride + column, run.range.size(), to[r]);
        }
        column += run.range.size();
      }
    }
  }

  size_t HeadDim() const { return args_.queries.front().num_cols; }
  size_t NumRows() const { return args_.queries.front().num_rows; }
  const HeadSelection* Selection(uint32_t head) const {
    return selections_.empty() ? nullptr : &selections_[head];
  }

  void CutItems(uint32_t head) {
    const Runs& runs = runs_[head];
    if (NumRows() > kSplitRunsUpTo) {
      for (size_t row = 0; row < NumRows(); row += kQueryRowsPerItem) {
        items_.push_back(
            {head, 0, runs.size(), row, std::min(row + kQueryRowsPerItem, NumRows()), kDirect});
      }
      return;
    }
    const size_t state_floats = NumRows() * (HeadDim() + 2);
    for (size_t begin = 0; begin < runs.size();) {
      size_t end = begin;
      for (uint64_t bytes = 0; end < runs.size() && bytes < kBytesPerItem; ++end) {
        bytes += runs[end].bytes;
      }
      items_.push_back({head, begin, end, 0, NumRows(), num_partial_floats_});
      num_partial_floats_ += state_floats;
      begin = end;
    }
  }

  AttentionState PartialState(const Item& item) {
    const size_t rows = NumRows(), dim = HeadDim();
    float* base = partial_.data() + item.state;
    return {{base, rows, dim}, {base + rows * dim, rows}, {base + rows * dim + rows, rows}};
  }

  Status AttendItem(const Item& item, Workspace& workspace) {
    AttentionState state;
    if (item.state == kDirect) {
      state = args_.states[item.head].Slice(item.row_begin, item.row_end);
    } else {
      state = PartialState(item);
      ResetState(state);
    }
    for (size_t i = item.run_begin; i < item.run_end; ++i) {
      if (args_.is_cancelled && args_.is_cancelled()) {
        return {Code::kCancelled, "the answer was cancelled"};
      }
      LECTERN_RETURN_IF_ERROR(AttendRun(item, runs_[item.head][i], state, workspace));
    }
    return {};
  }

  // Where a run's observed logits go; no data where they are not wanted of the item's rows.
  Rows<float> Observed(const Item& item, const Run& run) {
    if (args_.observed == nullptr || item.row_end != NumRows()) return {};
    const uint32_t num_exact = heads_[item.head].num_exact();
    const bool is_exact = run.kind == Run::Kind::kBlock && run.range.begin < num_exact;
    std::vector<float>& logits =
        (is_exact ? args_.observed->exact : args_.observed->rest)[item.head];
    const size_t first = run.kind == Run::Kind::kBlock && !is_exact ? num_exact : 0;
    const size_t queries = args_.observed->num_queries;
    return {logits.data() + run.range.begin - first, queries, run.range.size(),
            logits.size() / queries};
  }

  Status AttendRun(const Item& item, const Run& run, const AttentionState& state,
                   Workspace& workspace) {
    const HeadIndex& head = heads_[item.head];
    if (run.kind == Run::Kind::kLogitTail) return AttendLogitTail(item, run, state, workspace);
    if (run.kind == Run::Kind::kTail) return AttendTail(item, run, state, workspace);
    const Rows<const float> queries = args_.queries[item.head].Slice(item.row_begin, item.row_end);
    const size_t num_rows = queries.num_rows;
    const Rows<float> observed = Observed(item, run);
    if (only_observes_ && observed.data == nullptr) return {};
    LECTERN_RETURN_IF_ERROR(ReadBlocks(head, Selection(item.head), run, num_rows, workspace));
    const bool all_observed = !only_observes_ && observed.num_rows == num_rows;
    if (!only_observes_) {
      args_.backend.attend_blocks({.queries = queries,
                                   .blocks = workspace.blocks,
                                   .scale = scale_,
                                   .softcap = args_.softcap,
                                   .state = state,
                                   .logits = all_observed ? observed : Rows<float>(),
                                   .scratch = workspace.scratch});
    }
    if (observed.data == nullptr || all_observed) return {};
    size_t column = 0;
    for (const KvBlock& block : workspace.blocks) {
      args_.backend.key_logits({.queries = queries.Slice(num_rows - observed.num_rows, num_rows),
                                .keys = block.keys,
                                .scale = scale_,
                                .logits = {observed.data + column, observed.num_rows,
                                           block.keys.num_rows, observed.stride},
                                .scratch = workspace.scratch});
      column += block.keys.num_rows;
    }
    Softcap(args_.backend, observed, args_.softcap);
    return {};
  }

  Status AttendTail(const Item& item, const Run& run, const AttentionState& state,
                    Workspace& workspace) {
    const HeadIndex& head = heads_[item.head];
    LECTERN_RETURN_IF_ERROR(head.VerifyMeanValues(run.level, run.range));
    const HeadIndex::Level& level = head.levels()[run.level];
    const Rows<const float> queries = args_.queries[item.head].Slice(item.row_begin, item.row_end);
    workspace.logits.resize(queries.num_rows * run.range.size());
    const Rows<float> logits(workspace.logits.data(), queries.num_rows, run.range.size());
    // Centroids and variances were verified when they were looked up.
    args_.backend.key_logits({.queries = queries,
                              .keys = level.centroids.Slice(run.range.begin, run.range.end),
                              .scale = scale_,
                              .logits = logits,
                              .scratch = workspace.scratch});
    for (size_t r = 0; r < queries.num_rows; ++r) {
      const float norm = scale_ * Norm({queries[r], queries.num_cols});
      for (size_t c = 0; c < run.range.size(); ++c) {
        const size_t cluster = run.range.begin + c;
        if (!Selection(item.head)->second_order) continue;
        logits[r][c] +=
            LogMeanExp(norm * std::sqrt(level.variances[cluster]), level.log_counts[cluster]);
      }
    }
    Softcap(args_.backend, logits, args_.softcap);
    for (size_t r = 0; r < queries.num_rows; ++r) {
      for (size_t c = 0; c < run.range.size(); ++c) {
        logits[r][c] += level.log_counts[run.range.begin + c];
      }
    }
    args_.backend.attend_logits({.logits = logits,
                                 .values = level.mean_values.Slice(run.range.begin, run.range.end),
                                 .state = state,
                                 .scratch = workspace.scratch});
    return {};
  }

  Status AttendLogitTail(const Item& item, const Run& run, const AttentionState& state,
                         Workspace& workspace) {
    const HeadIndex& head = heads_[item.head];
    const size_t columns = run.tail->num_clusters();
    LECTERN_RETURN_IF_ERROR(head.VerifyMeanValues(run.level, run.range));
    args_.backend.attend_logits(
        {.logits = {run.tail->logits.data() + item.row_begin * columns + run.column,
                    item.row_end - item.row_begin, run.range.size(), columns},
         .values = head.levels()[run.level].mean_values.Slice(run.range.begin, run.range.end),
         .state = state,
         .scratch = workspace.scratch});
    return {};
  }

  const LayerArgs args_;
  const std::span<const HeadIndex> heads_;
  const std::span<const HeadSelection> selections_;
  const float scale_;
  ArenaVector<Runs> runs_;  // per kv head
  ArenaVector<Item> items_;
  std::span<float> partial_;  // states of items that are merged
  size_t num_partial_floats_ = 0;
  bool only_observes_ = false;  // states are left as they are
};

// One call of LayerAttention each: what add_runs says.
template <typename AddRuns>
Status AttendRuns(const LayerArgs& args, std::span<const HeadIndex> heads,
                  std::span<const HeadSelection> selections, const AddRuns& add_runs) {
  return LayerAttention(args, heads, selections, add_runs).Attend();
}

// Of stored rows alone, wherever they are.
template <typename AddRuns>
Status AttendStored(const LayerArgs& args, std::span<const HeadIndex> heads,
                    std::span<const HeadSelection> selections, const AddRuns& add_runs) {
  LayerAttention attention(args, heads, selections, add_runs);
  return args.device != nullptr ? attention.AttendOnDevice() : attention.Attend();
}

Status AttendExact(const LayerArgs& args, std::span<const HeadIndex> heads) {
  return AttendStored(args, heads, {}, [&](size_t h, Runs& runs) { AddExact(heads[h], runs); });
}

Status AttendEveryRow(const LayerArgs& args, std::span<const HeadIndex> heads) {
  return AttendStored(args, heads, {}, [&](size_t h, Runs& runs) { AddAll(heads[h], runs); });
}

Status AttendRows(const LayerArgs& args, std::span<const HeadIndex> heads,
                  std::span<const HeadSelection> selections) {
  return AttendStored(args, heads, selections,
                      [&](size_t h, Runs& runs) { AddGathered(heads[h], selections[h], runs); });
}

Status AttendTails(const LayerArgs& args, std::span<const HeadIndex> heads,
                   std::span<const HeadSelection> selections) {
  return AttendRuns(args, heads, selections,
                    [&](size_t h, Runs& runs) { AddTail(heads[h], selections[h], runs); });
}

// Per kv head [R]: log-sum-exp of what is attended besides and of what is in the states.
void FindKnownLse(std::span<const AttentionState> states,
                  std::span<const std::span<float>> other_lse,
                  std::vector<std::vector<float>>& known) {
  known.resize(states.size());
  for (size_t h = 0; h < states.size(); ++h) {
    const AttentionState& state = states[h];
    known[h].clear();
    for (size_t r = 0; r < state.num_rows(); ++r) {
      const float document = state.max[r] + std::log(state.sum[r]);
      const float other = other_lse.empty() ? -INFINITY : other_lse[h][r];
      const float larger = std::max(document, other);
      known[h].push_back(larger == -INFINITY ? larger
                                             : larger + std::log(std::exp(document - larger) +
                                                                 std::exp(other - larger)));
    }
  }
}

constexpr double kLeastShare = 1e-6;

// Of the attention of all heads, the share that the tail stands for: of all that is in the states
// and attended besides, what was not `read` (log masses).
double TailShare(const DocumentAttentionArgs& args, const std::vector<std::vector<float>>& read) {
  std::vector<std::vector<float>>& all = args.workspace.all_lse;
  FindKnownLse(args.states, args.other_lse, all);
  double sum = 0;
  for (size_t h = 0; h < all.size(); ++h) {
    for (size_t r = 0; r < all[h].size(); ++r) {
      const double weight = args.row_weights.empty() ? 1 / static_cast<double>(all[h].size())
                                                     : double{args.row_weights[r]};
      sum -= weight * std::expm1(std::min(0.0, double{read[h][r]} - all[h][r]));
    }
  }
  return std::max(kLeastShare, sum / static_cast<double>(all.size()));
}

// Of the attention of all heads, at most this share lies on the rows that were not read. `read`:
// log mass of all that was.
double MissedBound(const DocumentAttentionArgs& args, std::span<const HeadSelection> selections,
                   const std::vector<std::vector<float>>& read) {
  double sum = 0;
  for (size_t h = 0; h < selections.size(); ++h) {
    for (size_t r = 0; r < read[h].size(); ++r) {
      const double log_odds = double{selections[h].unread_bound[r]} - read[h][r];
      const double share = 1 / (1 + std::exp(-log_odds));
      const double weight = args.row_weights.empty() ? 1 / static_cast<double>(read[h].size())
                                                     : double{args.row_weights[r]};
      sum += weight * (std::isnan(share) ? 1 : share);
    }
  }
  // Weights sum to 1 but for their rounding.
  return std::min(1.0, sum / static_cast<double>(selections.size()));
}

// The states of all heads as they were.
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

// Room for the logits of the rows that will be read besides sinks and window.
void ResizeObserved(ObservedLogits* observed, std::span<const HeadIndex> heads,
                    FunctionRef<size_t(size_t head)> num_rest) {
  if (observed == nullptr) return;
  observed->exact.resize(heads.size());
  observed->rest.resize(heads.size());
  for (size_t h = 0; h < heads.size(); ++h) {
    observed->exact[h].resize(observed->num_queries * heads[h].num_exact());
    observed->rest[h].resize(observed->num_queries * num_rest(h));
  }
}

Status AttendAll(const DocumentAttentionArgs& args, std::span<const HeadIndex> heads,
                 DocumentRead& read) {
  read.exact = true;
  ResizeObserved(args.observed, heads,
                 [&](size_t h) { return heads[h].num_rows() - heads[h].num_exact(); });
  for (const HeadIndex& head : heads) read.bytes += head.dense_bytes();
  read.heads.clear();
  read.read_lse.clear();
  read.missed_mass = read.uncalibrated_missed = read.missed_bound = 0;
  return AttendEveryRow(args, heads);
}

// A windowed layer: all its rows, of which each query row sees those of its window.
Status AttendWindow(const DocumentAttentionArgs& args, std::span<const HeadIndex> heads,
                    DocumentRead& read) {
  const size_t num_rows = args.queries.front().num_rows, dim = args.queries.front().num_cols;
  const size_t group = num_rows / args.num_tokens, num_stored = heads.front().num_rows();
  const uint64_t first_token = heads.front().positions().front();
  const uint64_t window = args.document.window(args.layer);
  const auto num_stored_rows = static_cast<uint32_t>(num_stored);
  ArenaVector<uint32_t> first(&args.workspace.arena);
  for (size_t r = 0; r < num_rows; ++r) {
    const uint64_t end = args.first_position + r / group + 1;  // of what it sees
    const uint64_t begin = end - std::min(end, window);
    first.push_back(static_cast<uint32_t>(
        std::min<uint64_t>(begin - std::min(begin, first_token), num_stored)));
  }
  for (const HeadIndex& head : heads) {
    LECTERN_RETURN_IF_ERROR(head.VerifyRows({0, num_stored_rows}));
    read.window_bytes += head.dense_bytes();
  }
  if (args.device != nullptr) {
    return args.device->AttendWindow({.layer = args.layer,
                                      .heads = heads,
                                      .queries = args.queries,
                                      .num_tokens = args.num_tokens,
                                      .softcap = args.softcap,
                                      .states = args.states},
                                     args.first_position - first_token,
                                     static_cast<uint32_t>(window));
  }
  args.workspace.PrepareSlots(args.threads.num_threads(), AttendScratch(kQueryRowsPerItem, dim));
  const size_t blocks = (num_rows + kQueryRowsPerItem - 1) / kQueryRowsPerItem;
  std::atomic<bool> is_cancelled = false;
  args.threads.ParallelFor(blocks * heads.size(), [&](size_t item, size_t slot) {
    if (is_cancelled.load(std::memory_order_relaxed)) return;
    if (args.is_cancelled && args.is_cancelled()) return is_cancelled.store(true);
    const size_t h = item / blocks, begin = item % blocks * kQueryRowsPerItem;
    const size_t end = std::min(begin + kQueryRowsPerItem, num_rows);
    args.backend.attend({.queries = args.queries[h].Slice(begin, end),
                         .keys = heads[h].Keys({0, num_stored_rows}),
                         .values = heads[h].Values({0, num_stored_rows}),
                         .scale = 1 / std::sqrt(static_cast<float>(dim)),
                         .softcap = args.softcap,
                         .visible = {},
                         .first = std::span(first).subspan(begin, end - begin),
                         .state = args.states[h].Slice(begin, end),
                         .logits = {},
                         .scratch = args.workspace.slots[slot].scratch});
  });
  if (is_cancelled) return {Code::kCancelled, "the answer was cancelled"};
  return {};
}

// One lookup, and attention to what it chose; `read.bytes` grow.
Status AttendSelected(const DocumentAttentionArgs& args, std::span<const HeadIndex> heads,
                      const LookupArgs& lookup, DocumentRead& read) {
  bool is_found = false;
  if (args.selector != nullptr) {
    LECTERN_ASSIGN(read.heads, (*args.selector)(args.layer, lookup));
    is_found = true;
  } else if (args.device != nullptr) {
    LECTERN_ASSIGN(is_found, args.device->LookUp(args.layer, lookup, read.heads));
  }
  if (!is_found) LECTERN_RETURN_IF_ERROR(Lookup(lookup, read.heads));
  if (args.num_tokens > 1) {  // of an answer's token most was read before
    for (size_t h = 0; h < heads.size(); ++h) heads[h].ReadAheadRows(read.heads[h].rows);
  }
  read.uncalibrated_missed = 0;
  for (const HeadSelection& selection : read.heads) {
    read.bytes += selection.bytes;
    read.uncalibrated_missed += selection.missed_mass / static_cast<double>(read.heads.size());
  }
  ResizeObserved(args.observed, heads, [&](size_t h) { return read.heads[h].rows.size(); });
  LECTERN_RETURN_IF_ERROR(AttendRows(args, heads, read.heads));
  FindKnownLse(args.states, args.other_lse, read.read_lse);
  read.bounded = lookup.bound;
  if (read.bounded) read.missed_bound = MissedBound(args, read.heads, read.read_lse);
  LECTERN_RETURN_IF_ERROR(AttendTails(args, heads, read.heads));
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
  for (Slot& slot : slots) slot.scratch.resize(scratch);
}

Status AttendDocument(const DocumentAttentionArgs& args, DocumentRead& read) {
  LECTERN_ASSIGN(const std::span<const HeadIndex> heads, args.document.Heads(args.layer));
  AttentionWorkspace& workspace = args.workspace;
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
  if (args.kv_budget >= 1 || !args.document.has_clusters()) return AttendAll(args, heads, read);
  const bool is_limited = args.max_missed >= 0;
  ResizeObserved(args.observed, heads, [](size_t) { return 0; });
  LECTERN_RETURN_IF_ERROR(AttendExact(args, heads));
  FindKnownLse(args.states, args.other_lse, workspace.known_lse);
  ArenaVector<double> head_budgets(args.head_budgets.begin(), args.head_budgets.end(),
                                   &workspace.arena);
  LookupArgs lookup = {.backend = args.backend,
                       .threads = args.threads,
                       .heads = heads,
                       .queries = args.queries,
                       .scale = 1 / std::sqrt(static_cast<float>(args.queries[0].num_cols)),
                       .softcap = args.softcap,
                       .kv_budget = args.kv_budget,
                       .tail = args.tail,
                       .head_budgets = head_budgets,
                       .known_lse = workspace.known_lse,
                       .row_weights = args.row_weights,
                       .bound = is_limited || args.bound,
                       .workspace = &workspace.lookup,
                       .rule = args.rule};
  const SavedStates saved(is_limited ? args.states : std::span<const AttentionState>(),
                          &workspace.arena);
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
    lookup.rule.mass += (1 - lookup.rule.mass) / 2;  // what reading on is to top-p
    if (lookup.kv_budget < kReadAllFrom) continue;
    for (const AttentionState& state : args.states) ResetState(state);
    ++read.attempts;
    return AttendAll(args, heads, read);
  }
}

Status AttendClusters(const ClusterAttentionArgs& args) {
  const std::span<const HeadIndex> heads = args.heads;
  AttentionWorkspace& workspace = args.workspace;
  workspace.arena.Reset();
  if (args.kv_budget >= 1) return AttendEveryRow(args, heads);
  LECTERN_RETURN_IF_ERROR(AttendExact(args, heads));
  FindKnownLse(args.states, {}, workspace.known_lse);
  LECTERN_RETURN_IF_ERROR(
      Lookup({.backend = args.backend,
              .threads = args.threads,
              .heads = heads,
              .queries = args.queries,
              .scale = 1 / std::sqrt(static_cast<float>(args.queries.front().num_cols)),
              .softcap = args.softcap,
              .kv_budget = args.kv_budget,
              .tail = true,
              .known_lse = workspace.known_lse,
              .row_weights = args.row_weights,
              .workspace = &workspace.lookup},
             workspace.selections));
  LECTERN_RETURN_IF_ERROR(AttendRows(args, heads, workspace.selections));
  return AttendTails(args, heads, workspace.selections);
}

namespace {

// Of attention squared, summed over a query group: a hundred thousand such rows are no evidence.
constexpr float kNegligibleSquares = 1e-8f;
constexpr size_t kProbabilityTile = 64;

// Logits below which, in all rows, a column cannot be more than that.
void FindLimits(std::span<const float> lse, std::vector<float>& limits) {
  const float least = 0.5f * std::log(kNegligibleSquares / static_cast<float>(lse.size()));
  limits.resize(lse.size());
  for (size_t r = 0; r < lse.size(); ++r) limits[r] = lse[r] + least;
}

// Adds a tile's attention: columns [begin, begin + logits.num_cols) of a head's.
template <typename RowOf>
void AddTile(const Backend& backend, const HeadIndex& head, Rows<float> logits,
             std::span<const float> lse, std::span<const float> limits, size_t begin,
             const RowOf& row_of, std::span<double> mass, std::span<double> squared_mass) {
  // Of most of a long document's rows not even the exponential is wanted, and looking up where they
  // belong would take longest of all.
  if (mass.empty() && !backend.any_at_least({.logits = logits, .limits = limits})) return;
  backend.exp_rows({.logits = logits, .reference = lse});
  std::array<float, kProbabilityTile> squares{};
  for (size_t r = 0; r < lse.size(); ++r) {
    for (size_t i = 0; i < logits.num_cols; ++i) squares[i] += logits[r][i] * logits[r][i];
  }
  for (size_t i = 0; i < logits.num_cols; ++i) {
    if (mass.empty() && squares[i] < kNegligibleSquares) continue;
    const size_t position = head.positions()[row_of(begin + i)];
    if (!squared_mass.empty()) squared_mass[position] += squares[i];
    for (size_t r = 0; !mass.empty() && r < lse.size(); ++r) mass[position] += logits[r][i];
  }
}

// Of the rows whose logits these are; row_of(i): the stored row of column i.
template <typename RowOf>
void AddRows(const Backend& backend, const HeadIndex& head, std::span<float> logits,
             std::span<const float> lse, std::span<const float> limits, const RowOf& row_of,
             std::span<double> mass, std::span<double> squared_mass) {
  const Rows<float> rows(logits.data(), lse.size(), logits.size() / lse.size());
  for (size_t begin = 0; begin < rows.num_cols; begin += kProbabilityTile) {
    const size_t size = std::min(kProbabilityTile, rows.num_cols - begin);
    AddTile(backend, head, {rows.data + begin, rows.num_rows, size, rows.stride}, lse,
            limits, begin, row_of, mass, squared_mass);
  }
}

}  // namespace

void AddProbabilities(const Backend& backend, const HeadIndex& head, const DocumentRead& read,
                      uint32_t kv_head, ObservedLogits& observed, std::span<const float> lse,
                      std::span<double> mass, std::span<double> squared_mass) {
  FindLimits(lse, observed.limits);
  AddRows(
      backend, head, observed.exact[kv_head], lse, observed.limits, [](size_t i) { return i; },
      mass, squared_mass);
  const auto row_of = [&](size_t i) {
    return read.exact ? head.num_exact() + i : read.heads[kv_head].rows[i];
  };
  AddRows(backend, head, observed.rest[kv_head], lse, observed.limits, row_of, mass,
          squared_mass);
}

}  // namespace lectern
