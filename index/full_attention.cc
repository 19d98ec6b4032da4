#include "index/full_attention.h"

#include <algorithm>
#include <cmath>

namespace lectern {

void AddSquaredAttention(const FullAttentionArgs& args, FullAttentionBuffers& buffers,
                         std::span<float> sums) {
  const size_t rows = args.queries.num_rows, num_keys = args.keys.num_rows;
  assert(args.lse.size() == rows && sums.size() == num_keys);
  buffers.logits.resize(rows * num_keys);
  buffers.scratch.resize(AttendScratch(rows, args.queries.num_cols));
  // Squares come from doubling the exponent: (exp(s - lse))^2 = exp(2 s - 2 lse). So scale, softcap
  // and lse are doubled; 2 softcap(s) = softcap of 2 s with twice the cap.
  buffers.lse.assign(args.lse.begin(), args.lse.end());
  for (float& lse : buffers.lse) lse *= 2;
  const Rows<float> logits(buffers.logits.data(), rows, num_keys);
  args.backend.key_logits({.queries = args.queries,
                           .keys = args.keys,
                           .scale = 2 * args.scale,
                           .logits = logits,
                           .scratch = buffers.scratch});
  Softcap(args.backend, logits, 2 * args.softcap);
  for (size_t r = 0; r < rows; ++r) {
    // One past the token's own position: it sees the keys before that.
    const uint64_t end = args.first_token + r / args.group + 1;
    // Keys within kExcludedTokens of the token, and those after it, get no share.
    const uint64_t counted = end - std::min<uint64_t>(end, args.first_key + kExcludedTokens);
    const size_t first_ignored = std::min<uint64_t>(counted, num_keys);
    std::fill(logits[r] + first_ignored, logits[r] + num_keys, -INFINITY);
  }
  args.backend.add_scores({.logits = logits, .lse = buffers.lse, .scores = sums});
}

}  // namespace lectern
