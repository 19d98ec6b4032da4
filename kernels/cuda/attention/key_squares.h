// Sums, by position on a CUDA device, the attention that chosen keys get from query rows, and its
// square; the evidence of an answer is made from these sums. No logits are stored.
//
//   masses[position(j)] += sum_r exp(s_rj - lse_r),   s_rj = softcap(scale * q_r . k_j)
//   squares[position(j)] += sum_r exp(2 (s_rj - lse_r))
#ifndef LECTERN_KERNELS_CUDA_ATTENTION_KEY_SQUARES_H_
#define LECTERN_KERNELS_CUDA_ATTENTION_KEY_SQUARES_H_

#include "kernels/cuda/attention/attention.h"

namespace lectern {

// Both are whole numbers of 2^-32, whose sum does not depend on the order of the rows.
inline constexpr double kSquareUnits = 4294967296.0;  // in 1

struct CudaKeySquaresArgs {
  DeviceQueries queries;   // R = num_tokens * group
  float scale;             // > 0
  float softcap = 0;       // > 0: of the model's logits
  // Keys, their dtype and scales, and, where given, rows; nothing else of it is looked at.
  DeviceKv source;
  const uint32_t* counts;  // [num_kv_heads], of the device: entries of each head, head after head
  uint32_t most_entries;   // of one head: at least the largest of counts
  const float*
      lse;  // [num_kv_heads][lse_stride]: of all that a query row attends to; -inf: nothing
  uint32_t lse_stride = 0;    // at least R; 0: R
  const uint32_t* positions;  // by stored row, as source.rows numbers them
  // In/out, by position, in units of 1 / kSquareUnits; nullptr: not wanted.
  uint64_t* squares;
  uint64_t* masses = nullptr;
  float least = 0;  // >= 0; a smaller sum of squares is left out of `squares`, not of `masses`
};
// Sums within 1e-4 relative of those of the rounded queries, and of q8 keys rounded to f16, where
// logits are below 100; s_rj - lse_r counts as 1 where it is more. Enqueues and returns (rows.h);
// most_entries 0: nothing is done. kInvalidArgument: the arguments break the rules above (neither
// sum is wanted, more than kMostSquaresHeads kv heads, too wide a head_dim), and nothing was
// enqueued.
CudaStatus CudaKeySquares(const CudaStream& stream, const CudaKeySquaresArgs& args);

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ATTENTION_KEY_SQUARES_H_
