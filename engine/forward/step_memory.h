// Estimates how much memory a forward pass takes, for limits on memory and for --estimate.
#ifndef LECTERN_ENGINE_FORWARD_STEP_MEMORY_H_
#define LECTERN_ENGINE_FORWARD_STEP_MEMORY_H_

#include <cstdint>

#include "engine/model/weights/config.h"

namespace lectern {

// ActivationBytes: bytes of the activations of a pass over `num_tokens` tokens. LookupBytes: bytes
// of the buffers that its lookups fill in a document of `document_tokens`. Estimates of host
// memory, in which small buffers are left out: those of packed products, of RoPE angles and of
// threads.
uint64_t ActivationBytes(const ModelConfig& config, uint64_t num_tokens);
uint64_t LookupBytes(const ModelConfig& config, uint64_t num_tokens, uint64_t document_tokens);

}  // namespace lectern

#endif  // LECTERN_ENGINE_FORWARD_STEP_MEMORY_H_
