// The attention that all tokens of a document pay to it: KVC-full of KV-Compress.
#ifndef LECTERN_INDEX_FULL_ATTENTION_H_
#define LECTERN_INDEX_FULL_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "kernels/backend.h"

namespace lectern {

inline constexpr size_t kExcludedTokens = 10;  // v of KV-Compress

// A block of tokens and a block of keys of one kv head.
struct FullAttentionArgs {
  const Backend& backend;
  Rows<const float> queries;   // [tokens * group, head_dim], token by token; after RoPE
  std::span<const float> lse;  // [tokens * group]: log-sum-exp of the whole attention of each row
  size_t group;                // query heads of the kv head
  uint64_t first_token;        // position of the first token
  TypedRows keys;              // [n, head_dim] in document order
  uint64_t first_key;          // position of the first key
  float scale;
  float softcap = 0;  // of the model's logits; 0: none
};
// Buffers of one thread, kept from call to call.
struct FullAttentionBuffers {
  std::vector<float> logits, lse, scratch;
};
// sums[j] += the squared attention probabilities of key j, over the query heads and those of the
// tokens that lie kExcludedTokens or more behind it: what is near looks at everything near
// (arXiv:2410.00161, eq. 19; as there nothing is pooled). The log-sum-exps are known, so that this
// is a second pass over the logits and nothing else. One thread; a sum depends on the blocks of
// tokens only.
void AddSquaredAttention(const FullAttentionArgs& args, FullAttentionBuffers& buffers,
                         std::span<float> sums);

}  // namespace lectern

#endif  // LECTERN_INDEX_FULL_ATTENTION_H_
