#include "engine/document_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

namespace lectern {
namespace {

// Up to this many query rows an item is some runs for all rows, and items are merged; with more, an
// item is a block of query rows over all runs, so that states stay small.
constexpr size_t kSplitRunsUpTo = 256;
constexpr size_t kQueryRowsPerItem = 256;
constexpr uint64_t kBytesPerItem = 128 << 10;

constexpr size_t kGatheredRows = 256;

// What is attended in one call: a block of rows as stored, some chosen rows gathered side by side,
// or clusters that stand in for keys that are not read.
struct Run {
  enum class Kind {
    kBlock,      // rows `range`: the exact block, or one finest cluster
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

void AddTail(const HeadIndex& head, const HeadSelection& selection, std::vector<Run>& runs) {
  const uint64_t value_bytes = head.levels().front().mean_values.row_bytes();
  for (uint32_t level = 0; level < selection.tail.size(); ++level) {
    for (const IndexRange& range : selection.tail[level]) {
      runs.push_back({Run::Kind::kTail, range, level, range.size() * 2 * value_bytes});
    }
  }
  for (const LogitTail* tail : {&selection.coded_tail, &selection.parent_tail}) {
    size_t column = 0;
    for (const IndexRange& range : tail->clusters) {
      runs.push_back({Run::Kind::kLogitTail, range, static_cast<uint32_t>(tail->level),
                      range.size() * value_bytes, tail, column});
      column += range.size();
    }
  }
}

// `selection`: nullptr reads everything.
std::vector<Run> RunsOf(const HeadIndex& head, const HeadSelection* selection) {
  std::vector<Run> runs;
  const auto add_block = [&](IndexRange rows) {
    if (rows.size() > 0) {
      runs.push_back({Run::Kind::kBlock, rows, 0, head.BlockBytes(rows)});
    }
  };
  add_block({0, head.num_exact()});
  if (selection == nullptr) {
    if (head.levels().empty()) return runs;
    const size_t num_clusters = head.levels().back().num_clusters();
    for (uint32_t i = 0; i < num_clusters; ++i) add_block(head.ClusterRows(i));
    return runs;
  }
  const auto num_rows = static_cast<uint32_t>(selection->rows.size());
  for (uint32_t begin = 0; begin < num_rows; begin += kGatheredRows) {
    const uint32_t end = std::min<uint32_t>(begin + kGatheredRows, num_rows);
    runs.push_back(
        {Run::Kind::kGathered, {begin, end}, 0, (end - begin) * head.BlockBytes({0, 1})});
  }
  AddTail(head, *selection, runs);
  return runs;
}

// Buffers of one thread.
struct Workspace {
  std::vector<float> scratch;
  std::vector<std::byte> keys, values;  // gathered rows
};

// The keys and values of a run of rows. kTail and kLogitTail are not rows.
Status ReadRows(const HeadIndex& head, const HeadSelection* selection, const Run& run,
                Workspace& workspace, TypedRows& keys, TypedRows& values) {
  if (run.kind == Run::Kind::kBlock) {
    LECTERN_RETURN_IF_ERROR(head.VerifyRows(run.range));
    keys = head.Keys(run.range);
    values = head.Values(run.range);
    return {};
  }
  const std::span<const uint32_t> rows =
      std::span<const uint32_t>(selection->rows).subspan(run.range.begin, run.range.size());
  LECTERN_RETURN_IF_ERROR(head.GatherRows(rows, workspace.keys, workspace.values));
  keys = head.AsRows(workspace.keys);
  values = head.AsRows(workspace.values);
  return {};
}

// Part of one kv head's work: runs [run_begin, run_end) for query rows [row_begin, row_end).
struct Item {
  uint32_t head;
  size_t run_begin, run_end;
  size_t row_begin, row_end;
  size_t state;  // index into the partial states, or npos: straight into the caller's
};
constexpr size_t kDirect = static_cast<size_t>(-1);

class LayerAttention {
 public:
  LayerAttention(const DocumentAttentionArgs& args, std::span<const HeadIndex> heads,
                 const DocumentRead& read)
      : args_(args),
        heads_(heads),
        read_(read),
        scale_(1 / std::sqrt(static_cast<float>(HeadDim()))) {
    for (uint32_t h = 0; h < heads.size(); ++h) {
      runs_.push_back(RunsOf(heads[h], Selection(h)));
      CutItems(h);
    }
  }

  Status Attend() {
    const size_t max_rows = std::max(kSplitRunsUpTo, kQueryRowsPerItem);
    std::vector<Workspace> workspaces(args_.threads.num_threads());
    for (Workspace& workspace : workspaces) {
      workspace.scratch.resize(AttendScratch(max_rows, HeadDim()));
    }
    partial_.resize(num_partial_floats_);
    std::atomic<bool> failed = false;
    std::mutex mutex;
    Status first;
    args_.threads.ParallelFor(items_.size(), [&](size_t i, size_t slot) {
      if (failed.load(std::memory_order_relaxed)) return;
      Status status = AttendItem(items_[i], workspaces[slot]);
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

 private:
  size_t HeadDim() const { return args_.queries.front().num_cols; }
  size_t NumRows() const { return args_.queries.front().num_rows; }
  const HeadSelection* Selection(uint32_t head) const {
    return read_.exact ? nullptr : &read_.heads[head];
  }

  void CutItems(uint32_t head) {
    const std::vector<Run>& runs = runs_[head];
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

  Status AttendRun(const Item& item, const Run& run, const AttentionState& state,
                   Workspace& workspace) {
    const HeadIndex& head = heads_[item.head];
    if (run.kind == Run::Kind::kLogitTail) return AttendLogitTail(item, run, state, workspace);
    AttendArgs attend = {.queries = args_.queries[item.head].Slice(item.row_begin, item.row_end),
                         .keys = {},
                         .values = {},
                         .scale = scale_,
                         .bias = {},
                         .visible = {},
                         .state = state,
                         .logits = {},
                         .scratch = workspace.scratch};
    if (run.kind == Run::Kind::kTail) {
      // The centroids were verified when they were looked up.
      LECTERN_RETURN_IF_ERROR(head.VerifyMeanValues(run.level, run.range));
      const HeadIndex::Level& level = head.levels()[run.level];
      attend.keys = level.centroids.Slice(run.range.begin, run.range.end);
      attend.values = level.mean_values.Slice(run.range.begin, run.range.end);
      attend.bias =
          std::span<const float>(level.log_counts).subspan(run.range.begin, run.range.size());
    } else {
      LECTERN_RETURN_IF_ERROR(
          ReadRows(head, Selection(item.head), run, workspace, attend.keys, attend.values));
    }
    args_.backend.attend(attend);
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

  const DocumentAttentionArgs& args_;
  const std::span<const HeadIndex> heads_;
  const DocumentRead& read_;
  const float scale_;
  std::vector<std::vector<Run>> runs_;  // per kv head
  std::vector<Item> items_;
  std::vector<float> partial_;  // states of items that are merged
  size_t num_partial_floats_ = 0;
};

}  // namespace

Result<DocumentRead> AttendDocument(const DocumentAttentionArgs& args) {
  LECTERN_ASSIGN(const std::span<const HeadIndex> heads, args.document.Heads(args.layer));
  DocumentRead read;
  for (const HeadIndex& head : heads) read.dense_bytes += head.dense_bytes();
  read.exact = args.kv_budget >= 1 || !args.document.has_clusters();
  if (read.exact) {
    read.bytes = read.dense_bytes;
  } else {
    const LookupArgs lookup = {
        .backend = args.backend,
        .threads = args.threads,
        .heads = heads,
        .queries = args.queries,
        .scale = 1 / std::sqrt(static_cast<float>(args.queries[0].num_cols)),
        .kv_budget = args.kv_budget,
        .tail = args.tail};
    LECTERN_ASSIGN(read.heads,
                   args.selector ? (*args.selector)(args.layer, lookup) : Lookup(lookup));
    for (const HeadSelection& selection : read.heads) {
      read.bytes += selection.bytes;
      read.missed_mass += selection.missed_mass / static_cast<double>(read.heads.size());
    }
  }
  LECTERN_RETURN_IF_ERROR(LayerAttention(args, heads, read).Attend());
  return read;
}

void AddProbabilities(const DocumentAttentionArgs& args, const DocumentRead& read, uint32_t kv_head,
                      Rows<const float> queries, std::span<const float> lse,
                      std::span<double> mass) {
  const auto heads = args.document.Heads(args.layer);
  if (!heads.ok()) return;  // it was readable a moment ago; no evidence then
  const HeadIndex& head = heads.value()[kv_head];
  const size_t rows = queries.num_rows;
  const HeadSelection* selection = read.exact ? nullptr : &read.heads[kv_head];
  std::vector<float> logits;
  Workspace workspace;
  workspace.scratch.resize(AttendScratch(rows, queries.num_cols));
  for (const Run& run : RunsOf(head, selection)) {
    if (run.kind != Run::Kind::kBlock && run.kind != Run::Kind::kGathered) continue;
    TypedRows keys, values;
    if (!ReadRows(head, selection, run, workspace, keys, values).ok()) return;
    logits.resize(rows * run.range.size());
    args.backend.key_logits({.queries = queries,
                             .keys = keys,
                             .scale = 1 / std::sqrt(static_cast<float>(queries.num_cols)),
                             .logits = {logits.data(), rows, run.range.size()},
                             .scratch = workspace.scratch});
    for (uint32_t i = 0; i < run.range.size(); ++i) {
      const uint32_t row = run.kind == Run::Kind::kBlock ? run.range.begin + i
                                                         : selection->rows[run.range.begin + i];
      for (size_t r = 0; r < rows; ++r) {
        mass[head.positions()[row]] += std::exp(double{logits[r * run.range.size() + i]} - lse[r]);
      }
    }
  }
}

}  // namespace lectern
