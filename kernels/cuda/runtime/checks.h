// The checks of launches' arguments, in one place.
#ifndef LECTERN_KERNELS_CUDA_RUNTIME_CHECKS_H_
#define LECTERN_KERNELS_CUDA_RUNTIME_CHECKS_H_

#include <cstdint>

#include "kernels/cuda/runtime/device.h"

namespace lectern {

inline CudaStatus Refused(const char* name, const char* why) {
  return {CudaCode::kInvalidArgument, name, why};
}

inline bool IsAligned(const void* data, size_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}

constexpr uint32_t kMostGridY = 65535;

// GPUs of one generation differ in it: an A100 has 163 KiB for a block, an RTX 30 or 40 has 99.
inline bool HasShared(const CudaStream& stream, const CudaGrid& grid) {
  return grid.shared_bytes <= stream.device().shared_bytes_per_block;
}
constexpr const char* kTooWide = "a head_dim too wide for this GPU's shared memory";

// So many blocks for `count` things; false: more than a grid's x can hold.
inline bool SetBlocks(size_t count, size_t per_block, uint32_t& blocks) {
  const size_t needed = count / per_block + (count % per_block != 0);
  blocks = static_cast<uint32_t>(needed);
  return needed <= 0x7FFFFFFF;
}

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_RUNTIME_CHECKS_H_
