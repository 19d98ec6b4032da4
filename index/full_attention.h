// Sums the attention that all tokens of a document pay to each of its keys, for the policy
// kv-compress-full (KVC-full of KV-Compress, arXiv:2410.00161).
#ifndef LECTERN_INDEX_FULL_ATTENTION_H_
#define LECTERN_INDEX_FULL_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "kernels/backend.h"

namespace lectern {

// V of KV-Compress (arXiv:2410.00161, eq. 19): a token's nearest keys do not count.
inline constexpr size_t kExcludedTokens = 10;

// One block of tokens against one block of keys of one kv head.
struct FullAttentionArgs {
  const Backend& backend;
  Rows<const float> queries;   // [tokens * group, head_dim], token by token; after RoPE
  // [tokens * group]: log-sum-exp of the logits (scaled, softcapped) of each row with every key
  // that it sees in the whole document.
  std::span<const float> lse;
  size_t group;                // query heads of the kv head
  uint64_t first_token;        // position of the first token
  TypedRows keys;              // [n, head_dim] in document order
  uint64_t first_key;          // position of the first key
  float scale;
  float softcap = 0;  // the model's bound of logits; 0: none
};
// Buffers of one thread, kept from call to call.
struct FullAttentionBuffers {
  std::vector<float> logits, lse, scratch;
};
// sums[j] += the squared attention probabilities of key j, over the query heads and over the tokens
// that lie kExcludedTokens or more behind the key. Nearer tokens are left out because every token
// attends strongly to its neighbours (arXiv:2410.00161, eq. 19; like there, nothing is pooled). The
// log-sum-exps are given, so this is a second pass over the logits only. `sums` [n] (asserted); it
// is added to. One thread; a sum depends only on how tokens are cut into blocks.
void AddSquaredAttention(const FullAttentionArgs& args, FullAttentionBuffers& buffers,
                         std::span<float> sums);

}  // namespace lectern

#endif  // LECTERN_INDEX_FULL_ATTENTION_H_
