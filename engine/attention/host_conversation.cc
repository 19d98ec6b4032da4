#include "engine/attention/host_conversation.h"

#include <algorithm>
#include <cmath>

#include "engine/attention/document_attention.h"
#include "index/window_attention.h"

namespace lectern {

HostConversation::HostConversation(const ModelConfig& config, const Backend& backend,
                                   ThreadPool& threads, Arena& arena, Dtype dtype)
    : config_(config),
      backend_(backend),
      threads_(threads),
      arena_(arena),
      rows_(size_t{config.num_layers} * config.num_kv_heads, dtype, config.head_dim) {}

Status HostConversation::Append(uint32_t layer, size_t num_tokens, const float* keys,
                                const float* values, uint32_t /*first*/) {
  const size_t dim = config_.head_dim, kv_cols = size_t{config_.num_kv_heads} * dim;
  for (size_t head = 0; head < config_.num_kv_heads; ++head) {
    rows_.Append(backend_, layer * config_.num_kv_heads + head,
                 {keys + head * dim, num_tokens, dim, kv_cols},
                 {values + head * dim, num_tokens, dim, kv_cols});
  }
  return {};
}

uint32_t HostConversation::FirstInWindow(size_t head, size_t end) const {
  const std::span<const uint32_t> tokens = rows_.tokens(head).first(end);
  const uint32_t seen = tokens.back() + 1;
  const auto first = std::ranges::lower_bound(tokens, seen - std::min(seen, config_.window));
  return static_cast<uint32_t>(first - tokens.begin());
}

Status HostConversation::Attend(const RowQuery& query, uint32_t layer, uint32_t /*first*/,
                                uint32_t window) {
  // Items are blocks of query rows of one head, so all threads share a long question.
  const size_t group = config_.query_group(), rows = query.num_tokens * group;
  const size_t blocks = (rows + kQueryRowsPerItem - 1) / kQueryRowsPerItem;
  const size_t scratch_size = AttendScratch(std::min(rows, kQueryRowsPerItem), config_.head_dim);
  ArenaVector<float> scratch(threads_.num_threads() * scratch_size, &arena_);
  ArenaVector<uint32_t> visible(config_.num_kv_heads * rows, &arena_);
  ArenaVector<uint32_t> first(window > 0 ? visible.size() : 0, &arena_);
  threads_.ParallelFor(blocks * config_.num_kv_heads, [&](size_t item, size_t slot) {
    const size_t head = item / blocks, begin = item % blocks * kQueryRowsPerItem;
    const size_t end = std::min(begin + kQueryRowsPerItem, rows);
    const size_t cache = layer * config_.num_kv_heads + head;
    const size_t before = rows_.num_rows(cache) - query.num_tokens;
    const auto seen = std::span<uint32_t>(visible).subspan(head * rows + begin, end - begin);
    for (size_t r = begin; r < end; ++r) {
      seen[r - begin] = static_cast<uint32_t>(before + r / group + 1);
    }
    std::span<uint32_t> from;
    if (window > 0) {
      from = std::span<uint32_t>(first).subspan(head * rows + begin, end - begin);
      for (size_t r = begin; r < end; ++r) {
        from[r - begin] = FirstInWindow(cache, seen[r - begin]);
      }
    }
    backend_.attend({.queries = query.queries[head].Slice(begin, end),
                     .keys = rows_.Keys(cache, seen.back()),
                     .values = rows_.Values(cache, seen.back()),
                     .scale = 1 / std::sqrt(static_cast<float>(config_.head_dim)),
                     .softcap = query.softcap,
                     .visible = seen,
                     .first = from,
                     .state = query.states[head].Slice(begin, end),
                     .logits = {},
                     .scratch = {scratch.data() + slot * scratch_size, scratch_size}});
  });
  return {};
}

// (exp(s - lse))^2 = exp(2 (s - lse)), for the visible rows of each observed token.
void HostConversation::AddSquaredAttention(const RowQuery& query, uint32_t layer,
                                           std::span<const std::span<float>> lse) {
  const size_t group = config_.query_group();
  const size_t observed = std::min(query.num_tokens, kObservedTokens);
  const size_t first = (query.num_tokens - observed) * group, count = observed * group;
  ArenaVector<float> logits(&arena_), scratch(AttendScratch(count, config_.head_dim), &arena_);
  for (uint32_t head = 0; head < config_.num_kv_heads; ++head) {
    const size_t cache = layer * config_.num_kv_heads + head, rows = rows_.num_rows(cache);
    logits.resize(count * rows);
    backend_.key_logits({.queries = query.queries[head].Slice(first, first + count),
                         .keys = rows_.Keys(cache, rows),
                         .scale = 1 / std::sqrt(static_cast<float>(config_.head_dim)),
                         .logits = {logits.data(), count, rows},
                         .scratch = scratch});
    Softcap(backend_, {logits.data(), count, rows}, query.softcap);
    const std::span<float> squares = rows_.squared_attention(cache);
    for (size_t r = 0; r < count; ++r) {
      const size_t visible = rows - observed + r / group + 1;
      const size_t seen_from = config_.is_windowed(layer) ? FirstInWindow(cache, visible) : 0;
      for (size_t i = seen_from; i < visible; ++i) {
        squares[i] += std::exp(2 * (logits[r * rows + i] - lse[head][first + r]));
      }
    }
  }
}

}  // namespace lectern
