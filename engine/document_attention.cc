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

// Rows that are attended together: the exact block, one finest cluster, or a range of clusters of a
// level that stand in for their keys.
struct RowRun {
  enum class Kind { kRows, kTail } kind;
  IndexRange range;     // rows, or clusters
  uint32_t level = 0;   // of the tail
  uint64_t bytes = 0;
};

std::vector<RowRun> RunsOf(const HeadIndex& head, const HeadSelection* selection) {
  std::vector<RowRun> runs;
  const auto add_rows = [&](IndexRange rows) {
    if (rows.size() > 0) runs.push_back({RowRun::Kind::kRows, rows, 0, head.BlockBytes(rows)});
  };
  add_rows({0, head.num_exact()});
  if (selection == nullptr) {
    if (head.levels().empty()) return runs;
    const size_t num_clusters = head.levels().back().num_clusters();
    for (uint32_t i = 0; i < num_clusters; ++i) add_rows(head.ClusterRows(i));
    return runs;
  }
  for (const uint32_t cluster : selection->clusters) add_rows(head.ClusterRows(cluster));
  for (uint32_t level = 0; level < selection->tail.size(); ++level) {
    const uint64_t bytes = 2 * head.levels()[level].centroids.row_bytes();
    for (const IndexRange& range : selection->tail[level]) {
      runs.push_back({RowRun::Kind::kTail, range, level, range.size() * bytes});
    }
  }
  return runs;
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
      : args_(args), heads_(heads), scale_(1 / std::sqrt(static_cast<float>(HeadDim()))) {
    for (uint32_t h = 0; h < heads.size(); ++h) {
      runs_.push_back(RunsOf(heads[h], read.exact ? nullptr : &read.heads[h]));
      CutItems(h);
    }
  }

  Status Run() {
    const size_t dim = HeadDim();
    const size_t max_rows = std::max(kSplitRunsUpTo, kQueryRowsPerItem);
    const size_t scratch_size = AttendScratch(max_rows, dim);
    std::vector<float> scratch(args_.threads.num_threads() * scratch_size);
    partial_.resize(num_partial_floats_);
    std::atomic<bool> failed = false;
    std::mutex mutex;
    Status first;
    args_.threads.ParallelFor(items_.size(), [&](size_t i, size_t slot) {
      if (failed.load(std::memory_order_relaxed)) return;
      Status status = RunItem(items_[i], {scratch.data() + slot * scratch_size, scratch_size});
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

  void CutItems(uint32_t head) {
    const std::vector<RowRun>& runs = runs_[head];
    if (NumRows() > kSplitRunsUpTo) {
      for (size_t row = 0; row < NumRows(); row += kQueryRowsPerItem) {
        items_.push_back({head, 0, runs.size(), row,
                          std::min(row + kQueryRowsPerItem, NumRows()), kDirect});
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

  Status RunItem(const Item& item, std::span<float> scratch) {
    AttentionState state;
    if (item.state == kDirect) {
      state = args_.states[item.head].Slice(item.row_begin, item.row_end);
    } else {
      state = PartialState(item);
      ResetState(state);
    }
    const Rows<const float> queries =
        args_.queries[item.head].Slice(item.row_begin, item.row_end);
    for (size_t i = item.run_begin; i < item.run_end; ++i) {
      if (args_.is_cancelled && args_.is_cancelled()) {
        return {Code::kCancelled, "the answer was cancelled"};
      }
      LECTERN_RETURN_IF_ERROR(AttendRun(item.head, runs_[item.head][i], queries, state, scratch));
    }
    return {};
  }

  Status AttendRun(uint32_t head, const RowRun& run, Rows<const float> queries,
                   const AttentionState& state, std::span<float> scratch) {
    const HeadIndex& index = heads_[head];
    AttendArgs attend = {.queries = queries,
                         .keys = {},
                         .values = {},
                         .scale = scale_,
                         .bias = {},
                         .visible = {},
                         .state = state,
                         .logits = {},
                         .scratch = scratch};
    if (run.kind == RowRun::Kind::kRows) {
      LECTERN_RETURN_IF_ERROR(index.VerifyRows(run.range));
      attend.keys = index.Keys(run.range);
      attend.values = index.Values(run.range);
    } else {
      // The centroids were verified when they were looked up.
      LECTERN_RETURN_IF_ERROR(index.VerifyMeanValues(run.level, run.range));
      const HeadIndex::Level& level = index.levels()[run.level];
      attend.keys = level.centroids.Slice(run.range.begin, run.range.end);
      attend.values = level.mean_values.Slice(run.range.begin, run.range.end);
      attend.bias = std::span<const float>(level.log_counts)
                        .subspan(run.range.begin, run.range.size());
    }
    args_.backend.attend(attend);
    return {};
  }

  const DocumentAttentionArgs& args_;
  const std::span<const HeadIndex> heads_;
  const float scale_;
  std::vector<std::vector<RowRun>> runs_;  // per kv head
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
    LECTERN_ASSIGN(read.heads,
                   Lookup({.backend = args.backend,
                           .threads = args.threads,
                           .heads = heads,
                           .queries = args.queries,
                           .scale = 1 / std::sqrt(static_cast<float>(args.queries[0].num_cols)),
                           .kv_budget = args.kv_budget,
                           .tail = args.tail}));
    for (const HeadSelection& selection : read.heads) {
      read.bytes += selection.bytes;
      read.missed_mass += selection.missed_mass / static_cast<double>(read.heads.size());
    }
  }
  LECTERN_RETURN_IF_ERROR(LayerAttention(args, heads, read).Run());
  return read;
}

void AddProbabilities(const DocumentAttentionArgs& args, const DocumentRead& read, uint32_t kv_head,
                      Rows<const float> queries, std::span<const float> lse,
                      std::span<double> mass) {
  const auto heads = args.document.Heads(args.layer);
  if (!heads.ok()) return;  // it was readable a moment ago; no evidence then
  const HeadIndex& head = heads.value()[kv_head];
  const size_t rows = queries.num_rows;
  std::vector<float> logits, scratch(AttendScratch(rows, queries.num_cols));
  for (const RowRun& run : RunsOf(head, read.exact ? nullptr : &read.heads[kv_head])) {
    if (run.kind != RowRun::Kind::kRows) continue;
    logits.resize(rows * run.range.size());
    args.backend.key_logits({.queries = queries,
                             .keys = head.Keys(run.range),
                             .scale = 1 / std::sqrt(static_cast<float>(queries.num_cols)),
                             .logits = {logits.data(), rows, run.range.size()},
                             .scratch = scratch});
    for (size_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i < run.range.size(); ++i) {
        mass[head.positions()[run.range.begin + i]] +=
            std::exp(double{logits[r * run.range.size() + i]} - lse[r]);
      }
    }
  }
}

}  // namespace lectern
