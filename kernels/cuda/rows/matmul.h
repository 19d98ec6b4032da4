// Matrix products on a CUDA device, by cuBLAS.
#ifndef LECTERN_KERNELS_CUDA_ROWS_MATMUL_H_
#define LECTERN_KERNELS_CUDA_ROWS_MATMUL_H_

#include "kernels/cuda/rows/rows.h"

namespace lectern {

// output = input * weight^T, or added to it (kernels/matmul.h).
struct CudaMatMulArgs {
  DeviceRows input;         // [M, K] f16 or bf16
  DeviceRows weight;        // [N, K], of the same type
  DeviceRows output;        // [M, N] f32, f16 or bf16; must not overlap the others
  bool accumulate = false;  // f32 output only
};
// Device memory of each stream for products: 32 MiB, as cuBLAS recommends for compute capability
// 9.0.
inline constexpr size_t kCudaMatMulBytes = size_t{32} << 20;
// Products summed in float on tensor cores, in an order that is cuBLAS's own: the same for the same
// shapes on the same device. The first call for a stream takes kCudaMatMulBytes, which the stream
// keeps (kOutOfDeviceMemory), waits for other threads' recordings, and must not be recorded in a
// graph (kInvalidArgument). kInvalidArgument also for other types and shapes than above. Enqueues
// and returns (rows.h); no rows of input: nothing is done.
CudaStatus CudaMatMul(const CudaStream& stream, const CudaMatMulArgs& args);

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ROWS_MATMUL_H_
