#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/primitives.cuh"
#include "kernels/cuda/rows_geometry.h"

namespace lectern {
namespace {

// Four floats by one load where they are aligned, which the whole grid agrees on.
__device__ __forceinline__ float4 Load4(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}

// A row by kRowThreads threads: a warp, or the whole block. Read twice, the second time from L1 or
// L2 (a row is at most some tens of KiB).
template <typename Out, uint32_t kRowThreads>
__global__ void RmsNormKernel(const CudaRmsNormArgs args) {
  const uint32_t lane = threadIdx.x % kRowThreads;
  const size_t row = size_t{blockIdx.x} * (blockDim.x / kRowThreads) + threadIdx.x / kRowThreads;
  const size_t num_cols = args.input.num_cols;
  const bool is_row = row < args.input.num_rows;  // all threads stay for the sums
  const float* in = static_cast<const float*>(args.input.data) + (is_row ? row : 0) *
                                                                      args.input.stride;
  const bool by_four = num_cols % 4 == 0 && args.input.stride % 4 == 0 &&
                       reinterpret_cast<uintptr_t>(args.input.data) % 16 == 0;
  float squares = 0;
  if (is_row && by_four) {
    for (size_t c = 4 * lane; c < num_cols; c += 4 * kRowThreads) {
      const float4 x = Load4(in + c);
      squares += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
    }
  } else if (is_row) {
    for (size_t c = lane; c < num_cols; c += kRowThreads) squares += in[c] * in[c];
  }
  squares = LaneSum<32>(squares);
  if (kRowThreads > kWarpSize) {
    auto* const of_warps = reinterpret_cast<float*>(SharedMemory());
    if (threadIdx.x % kWarpSize == 0) of_warps[threadIdx.x / kWarpSize] = squares;
    __syncthreads();
    squares = 0;
    for (uint32_t w = 0; w < kRowThreads / kWarpSize; ++w) squares += of_warps[w];
    // The output may be the input: nobody writes before all have read, as each thread below reads
    // and writes the same columns.
  }
  if (!is_row) return;
  const float factor = 1.0f / sqrtf(squares / static_cast<float>(num_cols) + args.epsilon);
  Out* out = static_cast<Out*>(args.output.data) + row * args.output.stride;
  for (size_t c = lane; c < num_cols; c += kRowThreads) {
    out[c] = FromFloat<Out>(args.weight[c] * (in[c] * factor));
  }
}

template <typename Out>
CudaStatus RmsNormOf(CudaStreamHandle* stream, const CudaGrid& grid, const CudaRmsNormArgs& args) {
  const bool by_warp = args.input.num_cols <= kWarpRowCols;
  return Launch(stream, grid, "rms_norm",
                by_warp ? RmsNormKernel<Out, kWarpSize> : RmsNormKernel<Out, kRowBlockThreads>,
                args);
}

}  // namespace

CudaStatus LaunchRmsNorm(CudaStreamHandle* stream, const CudaGrid& grid,
                         const CudaRmsNormArgs& args) {
  switch (args.output.dtype) {
    case Dtype::kF32: return RmsNormOf<float>(stream, grid, args);
    case Dtype::kF16: return RmsNormOf<f16>(stream, grid, args);
    default: return RmsNormOf<bf16>(stream, grid, args);
  }
}

}  // namespace lectern
