// The attention that the last tokens of a document pay to all of it: what eviction policies go by.
#ifndef LECTERN_INDEX_WINDOW_ATTENTION_H_
#define LECTERN_INDEX_WINDOW_ATTENTION_H_

#include <vector>

#include "kernels/backend.h"

namespace lectern {

inline constexpr size_t kObservedTokens = 8;  // w of SnapKV, PyramidKV and KV-Compress
inline constexpr size_t kPooledKeys = 7;      // width of the max-pool

struct WindowAttentionArgs {
  const Backend& backend;
  Rows<const float> queries;  // [tokens * group, head_dim], token by token; after RoPE
  size_t group;               // query heads of the kv head
  TypedRows keys;             // [L, head_dim] in document order; the last are those of the queries
  float scale;
  float softcap = 0;  // of the model's logits; 0: none
};
// [query heads of the group][L]: each key's attention probability to this power (1 or 2), summed
// over the tokens, then the largest of the kPooledKeys around it. Causal. One thread.
std::vector<std::vector<double>> WindowSums(const WindowAttentionArgs& args, int power);

// [L]: natural log of each key's squared attention probability, summed over the tokens, the largest
// of the kPooledKeys around it, summed over the query heads (arXiv:2410.00161, KVC-w with squares;
// pooled before heads are summed, as its code does). Causal. One thread.
std::vector<float> SquaredWindowAttention(const WindowAttentionArgs& args);
// The same of the probabilities themselves, as SnapKV and PyramidKV score (L1 in arXiv:2410.00161).
std::vector<float> PlainWindowAttention(const WindowAttentionArgs& args);

}  // namespace lectern

#endif  // LECTERN_INDEX_WINDOW_ATTENTION_H_
