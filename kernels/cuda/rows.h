// Row-wise operations of a transformer on a CUDA device.
//
// Rule for every function here: pointers are of the stream's device; the work is enqueued and the
// call returns; one thread at a time per stream. kInvalidArgument: what the comments ask for does
// not hold, nothing was enqueued. Otherwise errors are those of the stream (device.h).
#ifndef LECTERN_KERNELS_CUDA_ROWS_H_
#define LECTERN_KERNELS_CUDA_ROWS_H_

#include "kernels/dtype.h"

namespace lectern {

class CudaStream;
struct CudaStatus;

// Borrowed rows of the device, row major; `stride` in elements. Never q8. Aligned as their elements
// are; fastest where data and stride are multiples of 16 bytes.
struct DeviceRows {
  void* data = nullptr;
  Dtype dtype = Dtype::kF32;
  size_t num_rows = 0;
  size_t num_cols = 0;
  size_t stride = 0;
};

// kernels/rms_norm.h: output[r, c] = weight[c] * input[r, c] / sqrt(mean_c(input[r, c]^2) + epsilon)
struct CudaRmsNormArgs {
  DeviceRows input;     // [M, C] f32, C >= 1
  const float* weight;  // [C]
  float epsilon;
  DeviceRows output;    // [M, C] f32, f16 or bf16; may be the input
};
// Sums in float: within 1e-5 relative of RmsNormScalar, and the rounding of the output.
CudaStatus CudaRmsNorm(const CudaStream& stream, const CudaRmsNormArgs& args);

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ROWS_H_
