// Attention of query rows over one contiguous run of keys and values, with online softmax.
//
// Every attention in Lectern is a sequence of calls into an AttentionState: Attend to chunks of the
// prefill, runs of selected document rows, the sinks and the window, and the question's own rows;
// AttendLogits to the tail (estimated masses, mean values). States of disjoint key sets join exactly
// (log-sum-exp merge, as in FlashAttention and FlashInfer).
#ifndef LECTERN_KERNELS_ATTENTION_H_
#define LECTERN_KERNELS_ATTENTION_H_

#include "kernels/types.h"

namespace lectern {

// Query rows of an item, where attention of many is cut for threads.
inline constexpr size_t kQueryRowsPerItem = 256;

// Of R query rows:  out[r] = sum_j exp(s_rj - max[r]) v_j,  sum[r] = sum_j exp(s_rj - max[r]).
// An empty state has max = -inf, sum = 0, out = 0.
struct AttentionState {
  Rows<float> out;      // [R, head_dim], not yet divided by sum
  std::span<float> max; // [R]
  std::span<float> sum; // [R]

  size_t num_rows() const { return out.num_rows; }
  AttentionState Slice(size_t begin, size_t end) const {
    return {out.Slice(begin, end), max.subspan(begin, end - begin),
            sum.subspan(begin, end - begin)};
  }
};

struct AttendArgs {
  Rows<const float> queries;           // [R, head_dim]; after RoPE, not scaled
  TypedRows keys;                      // [n, head_dim]; any dtype
  TypedRows values;                    // [n, head_dim]; any dtype
  float scale;                         // > 0; logit s_rj = scale * q_r . k_j
  float softcap = 0;                   // > 0: s_rj = softcap * tanh(scale * q_r . k_j / softcap)
  std::span<const uint32_t> visible;   // [R]: row r sees keys [0, visible[r]) only; empty: all
  std::span<const uint32_t> first = {};  // [R]: and of them [first[r], …) only; empty: from 0
  AttentionState state;                // in: what was attended before; out: with this run added
  Rows<float> logits;                  // out [R, n]: s_rj; -inf where not visible. Empty: not wanted
  std::span<float> scratch;            // >= AttendScratch(R, head_dim) floats
};
// Floats of scratch for R query rows.
size_t AttendScratch(size_t num_queries, size_t head_dim);

// Preconditions (asserted): R >= 1, n >= 1, matching head_dim. Cannot fail; no allocation.
// Reads each key and value once per call, whatever R is, and none past those that a row sees. With `visible`
// the result of one row does not depend, to the last bit, on which other rows share the call (for
// finite values); without it, only on whether R <= 4.
void AttendScalar(const AttendArgs& args);  // the definition; sums in double
void AttendSimd(const AttendArgs& args);    // finished outputs within 1e-5 * max|v| of it

// Keys and values that belong together; of the same number of rows.
struct KvBlock {
  TypedRows keys, values;
};
inline constexpr size_t kMostGroupRows = 8;
struct AttendBlocksArgs {
  Rows<const float> queries;        // [R, head_dim]; as above
  std::span<const KvBlock> blocks;  // one after the other, n >= 1 rows in all; of one dtype
  float scale;                      // > 0
  float softcap = 0;                // as above
  AttentionState state;
  Rows<float> logits;        // out [R, n], or empty
  std::span<float> scratch;  // >= AttendScratch(R, head_dim) floats
};
// Attend to all blocks, as if their keys and their values lay side by side: what a document's
// clusters are, too few rows each for a call of their own. Preconditions as above, and each block
// has rows. Fast for a query group (R <= kMostGroupRows); for more rows no faster than a call each.
void AttendBlocksScalar(const AttendBlocksArgs& args);  // the definition: Attend to each
void AttendBlocksSimd(const AttendBlocksArgs& args);  // finished outputs within 1e-5 * max|v| of it

struct AttendLogitsArgs {
  Rows<const float> logits;  // [R, n]: s_rj as they are; -inf: not attended
  TypedRows values;          // [n, head_dim]; any dtype
  AttentionState state;      // in/out, R rows
  std::span<float> scratch;  // >= AttendScratch(R, head_dim) floats
};
// Attend with logits that were estimated elsewhere: of clusters, by row codes, or by centroid and variance.
void AttendLogitsScalar(const AttendLogitsArgs& args);  // the definition; sums in double
void AttendLogitsSimd(const AttendLogitsArgs& args);    // finished outputs within 1e-5 * max|v|

void ResetState(const AttentionState& state);
// into <- into joined with `from` (same R, disjoint keys). Exact up to rounding; order matters to
// the last bit, so callers merge in a fixed order.
void MergeStates(const AttentionState& into, const AttentionState& from);
// output[r] = out[r] / sum[r] (0 when nothing was attended); lse[r] = max + log(sum) (-inf then).
// `lse` may be empty.
void FinishState(const AttentionState& state, Rows<float> output, std::span<float> lse);

}  // namespace lectern

#endif  // LECTERN_KERNELS_ATTENTION_H_
