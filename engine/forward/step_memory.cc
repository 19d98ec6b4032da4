#include "engine/forward/step_memory.h"

#include <algorithm>

namespace lectern {

uint64_t ActivationBytes(const ModelConfig& c, uint64_t num_tokens) {
  // Residual, normed; queries, projected, attended, attended question and states; K, V; gate, up.
  return num_tokens * sizeof(float) *
         (3ull * c.hidden_size + 5ull * c.num_heads * c.head_dim + 16ull * c.num_heads +
          2ull * c.num_kv_heads * c.head_dim + 2ull * c.intermediate_size);
}

uint64_t LookupBytes(const ModelConfig& c, uint64_t num_tokens, uint64_t document_tokens) {
  // Per kv head two tiles of rows by clusters and coded rows, and the codes in three forms.
  constexpr uint64_t kTileFloats = 4 << 20;
  const uint64_t tile = std::min(kTileFloats, num_tokens * c.query_group() * document_tokens);
  return c.num_kv_heads * (2 * tile * sizeof(float) + document_tokens / 2 * c.head_dim);
}

}  // namespace lectern
