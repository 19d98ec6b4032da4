// Attention of query rows over contiguous runs of keys and values, with online softmax: the kernel
// under prefill, document reading and the question's own rows.
//
// Every attention in Lectern is a sequence of calls into an AttentionState: Attend to chunks of the
// prefill, runs of selected document rows, the sinks and the window, and the question's own rows;
// AttendLogits to the tail (estimated masses, mean values). States of disjoint sets of keys join
// exactly (log-sum-exp merge, as in FlashAttention and FlashInfer).
#ifndef LECTERN_KERNELS_ATTENTION_H_
#define LECTERN_KERNELS_ATTENTION_H_

#include "kernels/types.h"

namespace lectern {

// Query rows of one work item where attention of many rows is cut for threads. By hand; no
// measurement is on record. It changes the speed alone.
inline constexpr size_t kQueryRowsPerItem = 256;

// Running result of R query rows over the keys that they have attended to so far:
//   out[r] = sum_j exp(s_rj - max[r]) v_j,  sum[r] = sum_j exp(s_rj - max[r]).
// Subtracting the largest logit max[r] keeps every exponential at most 1. An empty state has
// max = -inf, sum = 0, out = 0.
struct AttentionState {
  Rows<float> out;      // [R, head_dim], not yet divided by sum
  std::span<float> max; // [R]
  std::span<float> sum; // [R]

  size_t num_rows() const { return out.num_rows; }
  // A view of rows [begin, end).
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
  // [R]: row r sees keys [0, visible[r]) only, all n where visible[r] is larger; empty: all.
  std::span<const uint32_t> visible;
  std::span<const uint32_t> first = {};  // [R]: row r sees none before first[r]; empty: from 0
  AttentionState state;                  // in: keys attended before; out: with this run added
  Rows<float> logits;                  // out [R, n]: s_rj; -inf where not visible. Empty: unwanted
  std::span<float> scratch;            // >= AttendScratch(R, head_dim) floats
};
// Floats of scratch that a call with R query rows needs, for the larger width of keys and values;
// no alignment is asked for. Scratch for more rows or a larger width serves every smaller call. Its
// content means nothing before and after a call.
size_t AttendScratch(size_t num_queries, size_t head_dim);

// Preconditions (asserted, but for the shape of logits): R >= 1, n >= 1, matching head_dim. Cannot
// fail; no allocation. A row that sees no key keeps its state. AttendSimd takes each key and value
// from memory once per call, whatever R is, and reads none past the last one that a row sees. With
// `visible` the result of a row does not depend, to the last bit, on which other rows share the
// call (for finite values); without it, only on whether R <= 4, where dot products are summed in
// another order.
void AttendScalar(const AttendArgs& args);  // the definition; sums in double
void AttendSimd(const AttendArgs& args);    // finished outputs within 1e-5 * max|v| of it

// Keys and the values that belong to them, row by row.
struct KvBlock {
  TypedRows keys, values;
};
// Largest number of query rows for which AttendBlocks joins blocks into tiles. Query groups of
// Llama-family models have up to 8 query heads (Llama 3 70B: 64 heads, 8 kv heads); more rows take
// one call per block.
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
// Attends to all blocks as if their keys and their values lay side by side; every row sees every
// key. Made for a document's clusters, which have too few rows each for a call of their own.
// Preconditions as above, and no block is empty; that all have one dtype is not asserted. Fast for
// a query group (R <= kMostGroupRows) whose head_dim fills whole panels (kernels/tile-inl.h); else
// as slow as one call per block.
void AttendBlocksScalar(const AttendBlocksArgs& args);  // the definition: Attend to each
void AttendBlocksSimd(const AttendBlocksArgs& args);  // finished outputs within 1e-5 * max|v| of it

struct AttendLogitsArgs {
  Rows<const float> logits;  // [R, n]: s_rj < +inf, taken as they are; -inf: not attended
  TypedRows values;          // [n, head_dim]; any dtype
  AttentionState state;      // in/out, R rows
  std::span<float> scratch;  // >= AttendScratch(R, head_dim) floats
};
// Attends with logits that were estimated elsewhere: from row codes, or from a centroid and the
// variance of its cluster. A row whose logits are all -inf keeps its state.
void AttendLogitsScalar(const AttendLogitsArgs& args);  // the definition; sums in double
void AttendLogitsSimd(const AttendLogitsArgs& args);    // finished outputs within 1e-5 * max|v|

// Empties the state: nothing attended yet.
void ResetState(const AttentionState& state);
// Joins `from`, which stays as it is, into `into` (same R, disjoint keys; either may be empty).
// Exact up to rounding. The order of merges matters to the last bit, so callers merge in a fixed
// order.
void MergeStates(const AttentionState& into, const AttentionState& from);
// Normalises: output[r] = out[r] / sum[r] (0 when nothing was attended); lse[r] = max + log(sum)
// (-inf then). `lse` [R] may be empty; `output` may be state.out itself, and the state is else
// unchanged.
void FinishState(const AttentionState& state, Rows<float> output, std::span<float> lse);

}  // namespace lectern

#endif  // LECTERN_KERNELS_ATTENTION_H_
