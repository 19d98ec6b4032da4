// Logits of a token's query rows with chosen keys on a CUDA device: what the evidence of an answer
// is made of, beside the attention that does not keep them.
#ifndef LECTERN_KERNELS_CUDA_ATTENTION_KEY_LOGITS_H_
#define LECTERN_KERNELS_CUDA_ATTENTION_KEY_LOGITS_H_

#include "kernels/cuda/attention/attention.h"

namespace lectern {

// The work for one kv head: entries [begin, end) of the source, and where its [R, end - begin]
// logits begin.
struct KeyLogitsHead {
  uint32_t begin, end;
  uint64_t out;
};
struct CudaKeyLogitsArgs {
  DeviceQueries queries;  // R = num_tokens * group
  float scale;            // > 0
  float softcap = 0;      // > 0: of the model's logits
  // Keys, their dtype and scales, and, where given, rows; nothing else of it is looked at.
  DeviceKv source;
  const KeyLogitsHead* heads;  // [num_kv_heads], of the device
  uint32_t most_entries;       // of one head
  float* logits;               // out
};
// softcap(scale * q_r . k_j) in float, within 1e-5 |q| |k| scale of KeyLogitsScalar on the rounded
// queries. Each is a sum in one order, whatever ran when. Enqueues and returns (rows.h);
// most_entries 0: nothing is done. kInvalidArgument: the arguments break the rules above, and
// nothing was enqueued.
CudaStatus CudaKeyLogits(const CudaStream& stream, const CudaKeyLogitsArgs& args);

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ATTENTION_KEY_LOGITS_H_
