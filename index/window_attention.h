// Scores the keys of a document by the attention that its last tokens pay to them. Eviction
// policies and retention go by these scores.
#ifndef LECTERN_INDEX_WINDOW_ATTENTION_H_
#define LECTERN_INDEX_WINDOW_ATTENTION_H_

#include <vector>

#include "kernels/backend.h"

namespace lectern {

// w of SnapKV, PyramidKV and KV-Compress: the last tokens that are observed. 8 as in PyramidKV's
// published runs and KV-Compress's best ones.
inline constexpr size_t kObservedTokens = 8;
// Width of the max-pool, in keys; as in the published code of PyramidKV and of KV-Compress.
inline constexpr size_t kPooledKeys = 7;

struct WindowAttentionArgs {
  const Backend& backend;
  // [tokens * group, head_dim], token by token; after RoPE. At least one token, at most L
  // (asserted).
  Rows<const float> queries;
  size_t group;               // query heads of the kv head
  TypedRows keys;  // [L, head_dim] in document order; the last ones belong to the queries
  float scale;
  float softcap = 0;  // the model's bound of logits; 0: none
};
// [query heads of the group][L]: each key's attention probability raised to `power` (1 or 2),
// summed over the tokens, then the largest of the kPooledKeys sums around it (fewer at the ends).
// Causal. One thread.
std::vector<std::vector<double>> WindowSums(const WindowAttentionArgs& args, int power);

// [L]: natural log of each key's score: WindowSums of power 2, summed over the query heads
// (arXiv:2410.00161, KVC-w with squares; pooled before the heads are summed, as in its code).
// -infinity where the sum is too small for a double. Causal. One thread.
std::vector<float> SquaredWindowAttention(const WindowAttentionArgs& args);
// The same with plain probabilities, as SnapKV and PyramidKV score (L1 in arXiv:2410.00161).
std::vector<float> PlainWindowAttention(const WindowAttentionArgs& args);

}  // namespace lectern

#endif  // LECTERN_INDEX_WINDOW_ATTENTION_H_
