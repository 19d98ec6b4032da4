#include "engine/document/kept_rows.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <new>

#include "index/window_attention.h"

namespace lectern {
namespace {

// The queries of the last tokens of one kv head's group, ready for index/window_attention.h.
class HeadWindow {
 public:
  HeadWindow(const Backend& backend, const KvSpill& spill, uint32_t layer, uint32_t kv_head)
      : queries_(GroupQueries(spill, layer, kv_head)),
        args_{.backend = backend,
              .queries = {},
              .group =
                  spill.shape().query_cols / (spill.shape().head_dim * spill.shape().num_kv_heads),
              .keys = spill.Keys(layer, kv_head, spill.shape().num_tokens),
              .scale = 1 / std::sqrt(static_cast<float>(spill.shape().head_dim)),
              .softcap = spill.shape().softcap} {
    const size_t dim = spill.shape().head_dim, rows = queries_.size() / dim;
    const size_t observed = std::min(rows, kObservedTokens * args_.group);
    args_.queries = Rows<const float>(queries_.data(), rows, dim).Slice(rows - observed, rows);
  }
  HeadWindow(const HeadWindow&) = delete;
  const WindowAttentionArgs& args() const { return args_; }

 private:
  const std::vector<float> queries_;
  WindowAttentionArgs args_;
};

// For each row of a layer, which query heads would keep it (KVCrush).
Signatures LayerSignatures(const Backend& backend, const KvSpill& spill, uint32_t layer,
                           double keep) {
  Signatures signatures;
  signatures.num_heads = spill.shape().query_cols / spill.shape().head_dim;
  size_t query_head = 0;
  for (uint32_t head = 0; head < spill.shape().num_kv_heads; ++head) {
    const HeadWindow window(backend, spill, layer, head);
    for (const std::vector<double>& attention : WindowSums(window.args(), 1)) {
      signatures.SetHead(query_head++, attention, keep);
    }
  }
  return signatures;
}

RowStatistics ScoreStatistics(const Backend& backend, const KvSpill& spill, uint32_t layer,
                              uint32_t kv_head) {
  const HeadWindow window(backend, spill, layer, kv_head);
  return {SquaredWindowAttention(window.args()), WindowSums(window.args(), 1), {}};
}

}  // namespace

RetentionShape ShapeOf(const SpillShape& spill, uint32_t num_sinks, uint32_t num_window) {
  return {spill.num_layers, spill.num_kv_heads, static_cast<uint32_t>(spill.num_tokens), num_sinks,
          num_window};
}

std::vector<float> GroupQueries(const KvSpill& spill, uint32_t layer, uint32_t kv_head) {
  const Rows<const float> all = spill.Queries(layer);
  const size_t cols = all.num_cols / spill.shape().num_kv_heads;
  std::vector<float> rows;
  rows.reserve(all.num_rows * cols);
  for (size_t t = 0; t < all.num_rows; ++t) {
    rows.insert(rows.end(), all[t] + kv_head * cols, all[t] + (kv_head + 1) * cols);
  }
  return rows;
}

// Scores and orders the rows of every head in parallel, then lets the method share the budget
// between heads, which needs all orders at once.
Result<std::vector<uint64_t>> AllotKeptRows(const Backend& backend, ThreadPool& threads,
                                            const KvSpill& spill, const RetentionShape& shape,
                                            const Retention& retention,
                                            const std::function<bool()>& stopped) {
  const RetentionMethod method = MethodOf(retention);
  std::vector<std::vector<float>> orders(size_t{shape.num_layers} * shape.num_kv_heads);
  std::mutex mutex;
  Status first;
  threads.ParallelFor(orders.size(), [&](size_t item, size_t) {
    if (stopped()) return;
    try {
      const auto layer = static_cast<uint32_t>(item / shape.num_kv_heads);
      const auto head = static_cast<uint32_t>(item % shape.num_kv_heads);
      orders[item] = EvictionOrder(method, shape, ScoreStatistics(backend, spill, layer, head));
    } catch (const std::bad_alloc&) {
      std::lock_guard lock(mutex);
      first = {Code::kOutOfMemory, "not enough memory to score a layer; use fewer threads"};
    }
  });
  LECTERN_RETURN_IF_ERROR(first);
  if (stopped()) {
    return Status(Code::kCancelled, "indexing was cancelled; the same command goes on from here");
  }
  return method.allot(shape, orders, RowsToKeep(retention, shape));
}

std::vector<uint32_t> KeptRows(const Backend& backend, const KvSpill& spill, uint32_t layer,
                               uint32_t kv_head, const RetentionShape& shape,
                               const Retention& retention, uint64_t count, uint64_t seed) {
  const RetentionMethod method = MethodOf(retention);
  RowStatistics rows = ScoreStatistics(backend, spill, layer, kv_head);
  if (method.crush.share > 0) {
    rows.signatures = LayerSignatures(backend, spill, layer, retention.keep);
  }
  return ChooseRows(method, shape, rows, count, seed);
}

}  // namespace lectern
