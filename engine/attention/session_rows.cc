#include "engine/attention/session_rows.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numeric>

#include "index/policies/kv_compress.h"

namespace lectern {

SessionRows::SessionRows(size_t num_heads, Dtype dtype, size_t head_dim)
    : dtype_(dtype),
      head_dim_(head_dim),
      row_bytes_(RowBytes(dtype, head_dim)),
      heads_(num_heads) {}

void SessionRows::Reserve(size_t num_rows) {
  for (Head& head : heads_) {
    head.keys.reserve(num_rows * row_bytes_);
    head.values.reserve(num_rows * row_bytes_);
    head.tokens.reserve(num_rows);
    head.squared_attention.reserve(num_rows);
  }
}

void SessionRows::Append(const Backend& backend, size_t head, Rows<const float> keys,
                         Rows<const float> values) {
  const auto [to_keys, to_values] = Grow(heads_[head], keys.num_rows);
  backend.from_float_rows(keys, dtype_, to_keys);
  backend.from_float_rows(values, dtype_, to_values);
}

void SessionRows::AppendStored(size_t head, const TypedRows& keys, const TypedRows& values) {
  assert(keys.dtype == dtype_ && values.dtype == dtype_ && keys.num_rows == values.num_rows);
  const auto [to_keys, to_values] = Grow(heads_[head], keys.num_rows);
  std::memcpy(to_keys, keys.data, keys.num_rows * row_bytes_);
  std::memcpy(to_values, values.data, values.num_rows * row_bytes_);
}

std::pair<std::byte*, std::byte*> SessionRows::Grow(Head& rows, size_t num_rows) {
  const size_t before = rows.tokens.size(), after = before + num_rows;
  rows.keys.resize(after * row_bytes_);
  rows.values.resize(after * row_bytes_);
  while (rows.tokens.size() < after) rows.tokens.push_back(rows.num_tokens++);
  rows.squared_attention.resize(after, 0.0f);
  return {rows.keys.data() + before * row_bytes_, rows.values.data() + before * row_bytes_};
}

TypedRows SessionRows::Keys(size_t head, size_t num_rows) const {
  return {heads_[head].keys.data(), dtype_, num_rows, head_dim_};
}

TypedRows SessionRows::Values(size_t head, size_t num_rows) const {
  return {heads_[head].values.data(), dtype_, num_rows, head_dim_};
}

void SessionRows::Truncate(uint32_t num_tokens) {
  for (Head& head : heads_) {
    const auto end = std::lower_bound(head.tokens.begin(), head.tokens.end(), num_tokens);
    const auto rows = static_cast<size_t>(end - head.tokens.begin());
    head.tokens.resize(rows);
    head.squared_attention.resize(rows);
    head.keys.resize(rows * row_bytes_);
    head.values.resize(rows * row_bytes_);
    head.num_tokens = std::min(head.num_tokens, num_tokens);
  }
}

uint64_t SessionRows::total_rows() const {
  uint64_t rows = 0;
  for (const Head& head : heads_) rows += head.tokens.size();
  return rows;
}

// Eviction by KV-Compress's competition (index/policies/kv_compress.h), over all heads.
void SessionRows::Compress(uint32_t max_rows) {
  assert(max_rows >= kLeastSessionRows);
  const uint64_t allowed = uint64_t{max_rows} * heads_.size();
  if (total_rows() <= allowed) return;
  std::vector<std::vector<float>> orders;
  std::vector<std::span<const float>> spans;
  uint64_t blocks = 0;
  for (const Head& head : heads_) {
    std::vector<float> scores = head.squared_attention;
    // The latest rows are never evicted: nothing has attended to them yet.
    std::fill_n(scores.rbegin(), std::min<size_t>(kProtectedSessionRows, scores.size()), INFINITY);
    orders.push_back(BlockScores(std::move(scores)));
    blocks += orders.back().size();
  }
  for (const std::vector<float>& order : orders) spans.emplace_back(order);
  // A head's rows never exceed its blocks, so what is left stays within the limit.
  const uint64_t kept = std::min(blocks, allowed / kCompressBlock);
  const std::vector<uint64_t> evicted = EvictBlocks(spans, blocks - kept);
  for (size_t h = 0; h < heads_.size(); ++h) {
    Head& head = heads_[h];
    std::vector<uint32_t> rows(head.tokens.size());
    std::iota(rows.begin(), rows.end(), 0u);
    const uint64_t gone = RowsOfBlocks(rows.size(), evicted[h]);
    const auto open =
        rows.end() - static_cast<ptrdiff_t>(std::min<size_t>(kProtectedSessionRows, rows.size()));
    // The rows of the evicted blocks are those of least attention, as BlockScores ordered them.
    std::stable_sort(rows.begin(), open, [&](uint32_t a, uint32_t b) {
      return head.squared_attention[a] < head.squared_attention[b];
    });
    rows.erase(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(gone));
    std::sort(rows.begin(), rows.end());
    Keep(head, rows);
  }
}

// Moves the kept rows to the front and drops the others. `rows` ascends, so that no row is
// overwritten before it has moved.
void SessionRows::Keep(Head& head, std::span<const uint32_t> rows) {
  for (size_t to = 0; to < rows.size(); ++to) {
    const size_t from = rows[to];  // >= to
    std::memmove(head.keys.data() + to * row_bytes_, head.keys.data() + from * row_bytes_,
                 row_bytes_);
    std::memmove(head.values.data() + to * row_bytes_, head.values.data() + from * row_bytes_,
                 row_bytes_);
    head.tokens[to] = head.tokens[from];
    head.squared_attention[to] = head.squared_attention[from];
  }
  head.tokens.resize(rows.size());
  head.squared_attention.resize(rows.size());
  head.keys.resize(rows.size() * row_bytes_);
  head.values.resize(rows.size() * row_bytes_);
}

}  // namespace lectern
