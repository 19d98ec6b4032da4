#include "engine/forward/step_memory.h"

#include <algorithm>

namespace lectern {

uint64_t ActivationBytes(const ModelConfig& c, uint64_t num_tokens) {
  // Per token: residual, before, normed and the MLP's own input where there is one; queries,
  // projected, attended and the conversation's attention with its states; numbers of the states per
  // head; K and V; gate and up; of experts the rows that go to them, their sum and the scores.
  return num_tokens * sizeof(float) *
         ((c.parallel ? 4ull : 3ull) * c.hidden_size + 5ull * c.num_heads * c.head_dim +
          16ull * c.num_heads + 2ull * c.num_kv_heads * c.head_dim + 2ull * c.widest_mlp() +
          (c.experts.count > 0 ? c.experts.used + 1ull : 0ull) * c.hidden_size + c.experts.count);
}

uint64_t LookupBytes(const ModelConfig& c, uint64_t num_tokens, uint64_t document_tokens) {
  // Per kv head two tiles of logits (query rows by clusters or coded rows), and the codes as
  // stored, as planes and packed. The size of a tile is that of HeadLookup::ForEachTile.
  constexpr uint64_t kTileFloats = 4 << 20;
  const uint64_t tile = std::min(kTileFloats, num_tokens * c.query_group() * document_tokens);
  return c.num_kv_heads * (2 * tile * sizeof(float) + document_tokens / 2 * c.head_dim);
}

}  // namespace lectern
