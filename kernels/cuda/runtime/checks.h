// The checks of launches' arguments, in one place. Pure functions of the host.
#ifndef LECTERN_KERNELS_CUDA_RUNTIME_CHECKS_H_
#define LECTERN_KERNELS_CUDA_RUNTIME_CHECKS_H_

#include <cstdint>

#include "kernels/cuda/runtime/device.h"

namespace lectern {

// kInvalidArgument: launch `name` does not take its arguments because of `why`. Both texts must
// live forever.
inline CudaStatus Refused(const char* name, const char* why) {
  return {CudaCode::kInvalidArgument, name, why};
}

// Whether an address is a multiple of `bytes` (> 0); nullptr is.
inline bool IsAligned(const void* data, size_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}

constexpr uint32_t kMostGridY = 65535;  // CUDA's limit for a grid's y and z, in blocks

// Whether the stream's device has the shared memory that a block of the launch asks for. GPUs of
// one generation differ in it: an A100 has 163 KiB for a block, an RTX 30 or 40 has 99.
inline bool HasShared(const CudaStream& stream, const CudaGrid& grid) {
  return grid.shared_bytes <= stream.device().shared_bytes_per_block;
}
// The reason to give where HasShared is false.
constexpr const char* kTooWide = "a head_dim too wide for this GPU's shared memory";

// Sets `blocks` to the number of blocks for `count` items, `per_block` (> 0) each. False: a grid's
// x cannot hold so many, and `blocks` means nothing.
inline bool SetBlocks(size_t count, size_t per_block, uint32_t& blocks) {
  const size_t needed = count / per_block + (count % per_block != 0);
  blocks = static_cast<uint32_t>(needed);
  return needed <= 0x7FFFFFFF;
}

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_RUNTIME_CHECKS_H_
