// kernels/sign_logits.h on a CUDA device: what row codes of one and of three bits estimate of many
// keys. Tables and scales are MakeSignTables', planes PackSigns', so that the integer sums, and
// with them the rows that are chosen, are the CPU's.
#ifndef LECTERN_KERNELS_CUDA_SIGN_LOGITS_H_
#define LECTERN_KERNELS_CUDA_SIGN_LOGITS_H_

#include "kernels/cuda/rows.h"

namespace lectern {

constexpr uint32_t kMostSignPlanes = 3;

struct CudaSignLogitsArgs {
  const uint8_t* tables;                        // [R][plane_bytes * 32]; 4-byte aligned
  const float* scales;                          // [R][2]: SignScale's step and offset
  uint32_t num_queries;                         // R
  uint32_t plane_bytes;                         // (head_dim + 7) / 8, at most 32
  const uint8_t* planes[kMostSignPlanes] = {};  // packed by 32 rows; 4-byte aligned
  uint32_t num_planes = 1;                      // 1 or 3
  const float* factors;                         // [num_rows]
  uint32_t num_rows;
  float* logits;  // in/out [R, num_rows], += factors_t * <q_r, s_t>, or of the number
  size_t stride;  // of logits, >= num_rows
};
// Within 1e-6 of what AddSignLogitsScalar adds. No bank of shared memory is met twice: a lookup's
// 16 entries are four words in four banks, and all lanes look into the same 16.
CudaStatus CudaAddSignLogits(const CudaStream& stream, const CudaSignLogitsArgs& args);

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_SIGN_LOGITS_H_
