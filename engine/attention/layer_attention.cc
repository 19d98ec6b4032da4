#include "engine/attention/layer_attention.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <mutex>

#include "kernels/second_order.h"

namespace lectern {
namespace {

// Up to this many query rows an item is some runs of a head for all rows, and the items' states are
// merged. With more rows an item is a block of query rows over all runs, so that states stay small.
// Both numbers are by hand, and no measurement is on record; beside the speed they change only the
// rounding of merged states.
constexpr size_t kSplitRunsUpTo = 256;
constexpr uint64_t kBytesPerItem = 128 << 10;

// A run has at least this many stored rows, but for a head's first and last run, or at most this
// many gathered ones. By hand, likewise.
constexpr size_t kRowsPerRun = 256;

// Rows that one call attends to: a block of rows as stored, some chosen rows gathered side by side,
// or clusters that stand for keys that are not read.
struct Run {
  enum class Kind {
    kBlock,      // rows `range`: the exact block, or whole finest clusters
    kSinks,      // rows `range`, the first ones of the exact block
    kWindow,     // rows `range`, the rest of the exact block, from the window's copy
    kGathered,   // selection.rows [range.begin, range.end)
    kTail,       // clusters `range` of `level`, by centroid and mean value
    kLogitTail,  // clusters `range` of `tail`, by its logits from `column` on and mean value
  } kind;
  IndexRange range;
  uint32_t level = 0;
  uint64_t bytes = 0;
  const LogitTail* tail = nullptr;
  size_t column = 0;
};

using Runs = ArenaVector<Run>;

// Each function below appends one kind of runs.
void AddBlock(const HeadIndex& head, IndexRange rows, Runs& runs) {
  if (rows.size() > 0) runs.push_back({Run::Kind::kBlock, rows, 0, head.BlockBytes(rows)});
}

// The block of sinks and window.
void AddExact(const HeadIndex& head, Runs& runs) { AddBlock(head, {0, head.num_exact()}, runs); }

// Sinks as stored, and the copy of the window.
void AddSinksAndCopy(const HeadIndex& head, Runs& runs) {
  const uint64_t sink_bytes = head.BlockBytes({0, head.num_sinks()});
  runs.push_back({Run::Kind::kSinks, {0, head.num_sinks()}, 0, sink_bytes});
  runs.push_back({Run::Kind::kWindow,
                  {head.num_sinks(), head.num_exact()},
                  0,
                  head.ExactBytes(/*window_copy=*/true) - sink_bytes});
}

// All stored rows, or those of one rank; neighbouring clusters are joined into runs of at least
// kRowsPerRun rows.
void AddAll(const HeadIndex& head, const LookupShare* share, Runs& runs) {
  if (share == nullptr || share->owns_exact()) AddExact(head, runs);
  if (head.levels().empty()) return;
  std::span<const uint32_t> rows = head.levels().back().children;
  if (share != nullptr) {
    const IndexRange clusters = share->Clusters(head, head.levels().size() - 1);
    rows = rows.subspan(clusters.begin, clusters.size() + 1);
  }
  for (size_t i = 1, first = 0; i < rows.size(); ++i) {
    if (rows[i] - rows[first] < kRowsPerRun && i + 1 < rows.size()) continue;
    AddBlock(head, {rows[first], rows[i]}, runs);
    first = i;
  }
}

// The clusters of the tail: by centroid first, then those whose logits the lookup estimated.
void AddTail(const HeadIndex& head, const HeadSelection& selection, Runs& runs) {
  if (head.levels().empty()) return;
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

// The selected rows, at most kRowsPerRun in a run.
void AddGathered(const HeadIndex& head, const HeadSelection& selection, Runs& runs) {
  const auto num_rows = static_cast<uint32_t>(selection.rows.size());
  for (uint32_t begin = 0; begin < num_rows; begin += kRowsPerRun) {
    const uint32_t end = std::min<uint32_t>(begin + kRowsPerRun, num_rows);
    runs.push_back(
        {Run::Kind::kGathered, {begin, end}, 0, (end - begin) * head.BlockBytes({0, 1})});
  }
}

using Workspace = AttentionWorkspace::Slot;

// Finds the blocks of a run of rows (not of a tail), gathering or copying where needed, for so many
// query rows.
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
  if (run.kind == Run::Kind::kSinks || run.kind == Run::Kind::kWindow) {
    LECTERN_RETURN_IF_ERROR(head.VerifyExact(/*window_copy=*/true));
    workspace.blocks.push_back(run.kind == Run::Kind::kSinks
                                   ? KvBlock{head.SinkKeys(), head.SinkValues()}
                                   : KvBlock{head.WindowCopyKeys(), head.WindowCopyValues()});
    return {};
  }
  LECTERN_RETURN_IF_ERROR(head.VerifyRows(run.range));
  head.ForEachBlock(run.range, [&](IndexRange block) {
    workspace.blocks.push_back({head.Keys(block), head.Values(block)});
  });
  if (num_queries <= kMostGroupRows || workspace.blocks.size() == 1) return {};
  // Many query rows use each row often, so copying the blocks side by side pays.
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

// A part of one kv head's work: runs [run_begin, run_end) for query rows [row_begin, row_end).
struct Item {
  uint32_t head;
  size_t run_begin = 0, run_end = 0;
  size_t row_begin = 0, row_end = 0;
  size_t state = 0;  // offset among the partial states, or kDirect: writes into the caller's
};
constexpr size_t kDirect = static_cast<size_t>(-1);

// One kind of runs of all heads, cut into items for the threads.
class LayerAttention {
 public:
  // add_runs(kv head, runs) appends the head's runs. `selections` are needed where runs gather
  // rows.
  template <typename AddRuns>
  LayerAttention(const LayerArgs& args, std::span<const HeadIndex> heads,
                 std::span<const HeadSelection> selections, const AddRuns& add_runs)
      : args_(args),
        heads_(heads),
        selections_(selections),
        scale_(1 / std::sqrt(static_cast<float>(HeadDim()))),
        runs_(heads.size(), &args.query.workspace.arena),
        items_(&args.query.workspace.arena) {
    for (uint32_t h = 0; h < heads.size(); ++h) {
      add_runs(h, runs_[h]);
      CutItems(h);
    }
  }

  // Does all items on the pool and merges their states into the caller's. Returns the first error
  // of an item; the states then hold anything.
  Status Attend() {
    const size_t max_rows = std::max(kSplitRunsUpTo, kQueryRowsPerItem);
    args_.query.workspace.PrepareSlots(args_.query.threads.num_threads(),
                                       AttendScratch(max_rows, HeadDim()));
    partial_ = args_.query.workspace.partial.Resize(num_partial_floats_);
    std::atomic<bool> failed = false;
    std::mutex mutex;
    Status first;
    args_.query.threads.ParallelFor(items_.size(), [&](size_t i, size_t slot) {
      if (failed.load(std::memory_order_relaxed)) return;
      Status status = AttendItem(items_[i], args_.query.workspace.slots[slot]);
      if (status.ok()) return;
      std::lock_guard lock(mutex);
      if (first.ok()) first = std::move(status);
      failed.store(true, std::memory_order_relaxed);
    });
    LECTERN_RETURN_IF_ERROR(first);
    // In the order of items, whichever thread did them: the bits do not depend on the threads.
    for (const Item& item : items_) {
      if (item.state != kDirect)
        MergeStates(args_.query.rows.states[item.head], PartialState(item));
    }
    return {};
  }

  // The same for stored rows by the device. Logits that the device did not observe are computed
  // here.
  Status AttendOnDevice() {
    if (args_.query.is_cancelled && args_.query.is_cancelled()) {
      return {Code::kCancelled, "the answer was cancelled"};
    }
    ArenaVector<StoredRows::Part> parts(&args_.query.workspace.arena);
    for (uint32_t h = 0; h < heads_.size(); ++h) {
      for (const Run& run : runs_[h]) {
        parts.push_back({h, run.range});
        if (run.kind == Run::Kind::kGathered) parts.back().chosen = Selection(h)->rows;
      }
    }
    LECTERN_RETURN_IF_ERROR(args_.device->Attend({.layer = args_.layer,
                                                  .heads = heads_,
                                                  .query = args_.query.rows,
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
  // Where the device puts observed logits of one token's rows; nullptr: they are not wanted.
  std::vector<std::vector<float>>* FromDevice() {
    const bool is_wanted = args_.observed != nullptr &&
                           args_.observed->num_queries * args_.query.rows.num_tokens == NumRows();
    return is_wanted ? &args_.query.workspace.observed : nullptr;
  }

  // Copies the device's logits, which lie side by side for all runs, to the runs' own places.
  void TakeObserved() {
    const size_t num_queries = args_.observed->num_queries;
    for (uint32_t h = 0; h < heads_.size(); ++h) {
      const std::vector<float>& logits = args_.query.workspace.observed[h];
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

  size_t HeadDim() const { return args_.query.rows.queries.front().num_cols; }
  size_t NumRows() const { return args_.query.rows.queries.front().num_rows; }
  const HeadSelection* Selection(uint32_t head) const {
    return selections_.empty() ? nullptr : &selections_[head];
  }

  // Cuts a head's runs into items of about kBytesPerItem, or its query rows into blocks.
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

  // Does one item. kCancelled: is_cancelled, which is polled before each run, says so.
  Status AttendItem(const Item& item, Workspace& workspace) {
    AttentionState state;
    if (item.state == kDirect) {
      state = args_.query.rows.states[item.head].Slice(item.row_begin, item.row_end);
    } else {
      state = PartialState(item);
      ResetState(state);
    }
    for (size_t i = item.run_begin; i < item.run_end; ++i) {
      if (args_.query.is_cancelled && args_.query.is_cancelled()) {
        return {Code::kCancelled, "the answer was cancelled"};
      }
      LECTERN_RETURN_IF_ERROR(AttendRun(item, runs_[item.head][i], state, workspace));
    }
    return {};
  }

  // Where a run's observed logits go. Has no data if the logits of this item's rows are not wanted.
  Rows<float> Observed(const Item& item, const Run& run) {
    if (args_.observed == nullptr || item.row_end != NumRows()) return {};
    const uint32_t num_exact = heads_[item.head].num_exact();
    const bool is_exact = run.kind != Run::Kind::kGathered && run.range.begin < num_exact;
    std::vector<float>& logits =
        (is_exact ? args_.observed->exact : args_.observed->rest)[item.head];
    const size_t first = run.kind == Run::Kind::kBlock && !is_exact ? FirstObserved(item.head) : 0;
    const size_t queries = args_.observed->num_queries;
    return {logits.data() + run.range.begin - first, queries, run.range.size(),
            logits.size() / queries};
  }

  // The stored row of a head whose logits come first, where every row is read.
  size_t FirstObserved(uint32_t head) const {
    return args_.share != nullptr ? args_.share->Rows(heads_[head]).begin
                                  : heads_[head].num_exact();
  }

  // Adds one run to the item's state, and writes its observed logits if they are wanted.
  Status AttendRun(const Item& item, const Run& run, const AttentionState& state,
                   Workspace& workspace) {
    const HeadIndex& head = heads_[item.head];
    if (run.kind == Run::Kind::kLogitTail) return AttendLogitTail(item, run, state, workspace);
    if (run.kind == Run::Kind::kTail) return AttendTail(item, run, state, workspace);
    const Rows<const float> queries =
        args_.query.rows.queries[item.head].Slice(item.row_begin, item.row_end);
    const size_t num_rows = queries.num_rows;
    const Rows<float> observed = Observed(item, run);
    if (only_observes_ && observed.data == nullptr) return {};
    LECTERN_RETURN_IF_ERROR(ReadBlocks(head, Selection(item.head), run, num_rows, workspace));
    // The kernel writes logits of all its query rows; if only the last ones are wanted, they are
    // computed separately below. Some of these may belong to the item before.
    const bool all_observed = !only_observes_ && observed.num_rows == num_rows;
    if (!only_observes_) {
      args_.query.backend.attend_blocks({.queries = queries,
                                   .blocks = workspace.blocks,
                                   .scale = scale_,
                                   .softcap = args_.query.rows.softcap,
                                   .state = state,
                                   .logits = all_observed ? observed : Rows<float>(),
                                   .scratch = workspace.scratch});
    }
    if (observed.data == nullptr || all_observed) return {};
    size_t column = 0;
    for (const KvBlock& block : workspace.blocks) {
      args_.query.backend.key_logits({.queries = args_.query.rows.queries[item.head].Slice(
                                          NumRows() - observed.num_rows, NumRows()),
                                      .keys = block.keys,
                                      .scale = scale_,
                                      .logits = {observed.data + column, observed.num_rows,
                                                 block.keys.num_rows, observed.stride},
                                      .scratch = workspace.scratch});
      column += block.keys.num_rows;
    }
    Softcap(args_.query.backend, observed, args_.query.rows.softcap);
    return {};
  }

  // Attends to clusters by their centroids: logits, variance term, softcap, then the logarithm of
  // the count, because a cluster stands for that many keys.
  Status AttendTail(const Item& item, const Run& run, const AttentionState& state,
                    Workspace& workspace) {
    const HeadIndex& head = heads_[item.head];
    LECTERN_RETURN_IF_ERROR(head.VerifyMeanValues(run.level, run.range));
    const HeadIndex::Level& level = head.levels()[run.level];
    const Rows<const float> queries =
        args_.query.rows.queries[item.head].Slice(item.row_begin, item.row_end);
    workspace.logits.resize(queries.num_rows * run.range.size());
    const Rows<float> logits(workspace.logits.data(), queries.num_rows, run.range.size());
    // Centroids and variances were verified when the lookup read them.
    args_.query.backend.key_logits({.queries = queries,
                              .keys = level.centroids.Slice(run.range.begin, run.range.end),
                              .scale = scale_,
                              .logits = logits,
                              .scratch = workspace.scratch});
    workspace.measured.resize(queries.num_rows * queries.num_cols);
    const Rows<float> measured(workspace.measured.data(), queries.num_rows, queries.num_cols);
    head.Measure(args_.query.backend, queries, measured, workspace.scratch);
    for (size_t r = 0; r < queries.num_rows; ++r) {
      const float norm = scale_ * Norm({measured[r], queries.num_cols});
      for (size_t c = 0; c < run.range.size(); ++c) {
        const size_t cluster = run.range.begin + c;
        if (!Selection(item.head)->second_order) continue;
        logits[r][c] +=
            LogMeanExp(norm * std::sqrt(level.variances[cluster]), level.log_counts[cluster]);
      }
    }
    Softcap(args_.query.backend, logits, args_.query.rows.softcap);
    for (size_t r = 0; r < queries.num_rows; ++r) {
      for (size_t c = 0; c < run.range.size(); ++c) {
        logits[r][c] += level.log_counts[run.range.begin + c];
      }
    }
    args_.query.backend.attend_logits({.logits = logits,
                                 .values = level.mean_values.Slice(run.range.begin, run.range.end),
                                 .state = state,
                                 .scratch = workspace.scratch});
    return {};
  }

  // Attends to clusters with logits that the lookup estimated.
  Status AttendLogitTail(const Item& item, const Run& run, const AttentionState& state,
                         Workspace& workspace) {
    const HeadIndex& head = heads_[item.head];
    const size_t columns = run.tail->num_clusters();
    LECTERN_RETURN_IF_ERROR(head.VerifyMeanValues(run.level, run.range));
    args_.query.backend.attend_logits(
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
  std::span<float> partial_;  // states of items, before they are merged
  size_t num_partial_floats_ = 0;
  bool only_observes_ = false;  // computes observed logits only; the states stay as they are
};

// Attends to the runs that add_runs makes, on the host.
template <typename AddRuns>
Status AttendRuns(const LayerArgs& args, std::span<const HeadIndex> heads,
                  std::span<const HeadSelection> selections, const AddRuns& add_runs) {
  return LayerAttention(args, heads, selections, add_runs).Attend();
}

// Attends to runs of stored rows, on the device if there is one.
template <typename AddRuns>
Status AttendStored(const LayerArgs& args, std::span<const HeadIndex> heads,
                    std::span<const HeadSelection> selections, const AddRuns& add_runs) {
  LayerAttention attention(args, heads, selections, add_runs);
  return args.device != nullptr ? attention.AttendOnDevice() : attention.Attend();
}

}  // namespace

Status AttendExact(const LayerArgs& args, std::span<const HeadIndex> heads,
                   FunctionRef<bool(size_t head)> reads_copy) {
  return AttendStored(args, heads, {}, [&](size_t h, Runs& runs) {
    if (reads_copy(h)) return AddSinksAndCopy(heads[h], runs);
    AddExact(heads[h], runs);
  });
}

Status AttendEveryRow(const LayerArgs& args, std::span<const HeadIndex> heads) {
  return AttendStored(args, heads, {},
                      [&](size_t h, Runs& runs) { AddAll(heads[h], args.share, runs); });
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

}  // namespace lectern
