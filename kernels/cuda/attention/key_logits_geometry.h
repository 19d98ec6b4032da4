// Sizes that host and device code of key_logits.h agree on.
#ifndef LECTERN_KERNELS_CUDA_ATTENTION_KEY_LOGITS_GEOMETRY_H_
#define LECTERN_KERNELS_CUDA_ATTENTION_KEY_LOGITS_GEOMETRY_H_

#include <cstdint>

namespace lectern {

// By hand; no GPU has been measured yet (tests/GPU-PENDING.md). They change the speed alone.
constexpr uint32_t kKeyLogitsThreads = 256;
constexpr uint32_t kKeysPerWarp = 4;  // one after the other
constexpr uint32_t kKeysPerBlock = kKeyLogitsThreads / 32 * kKeysPerWarp;

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ATTENTION_KEY_LOGITS_GEOMETRY_H_
