#include "kernels/cuda/rows/row_cosines.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/primitives.cuh"

namespace lectern {
namespace {

// A warp has a row.
__global__ void RowCosinesKernel(const CudaRowCosinesArgs args) {
  WaitForEarlierKernels();
  const uint32_t lane = threadIdx.x % kWarpSize;
  const size_t row = size_t{blockIdx.x} * (blockDim.x / kWarpSize) + threadIdx.x / kWarpSize;
  if (row >= args.before.num_rows) return;
  const float* before = static_cast<const float*>(args.before.data) + row * args.before.stride;
  const float* after = static_cast<const float*>(args.after.data) + row * args.after.stride;
  float product = 0, before_squared = 0, after_squared = 0;
  for (size_t c = lane; c < args.before.num_cols; c += kWarpSize) {
    product += before[c] * after[c];
    before_squared += before[c] * before[c];
    after_squared += after[c] * after[c];
  }
  product = LaneSum<kWarpSize>(product);
  before_squared = LaneSum<kWarpSize>(before_squared);
  after_squared = LaneSum<kWarpSize>(after_squared);
  if (lane > 0) return;
  const float norms = sqrtf(before_squared) * sqrtf(after_squared);
  args.cosines[row] = norms > 0 ? product / norms : 1;
}

}  // namespace

CudaStatus LaunchRowCosines(CudaStreamHandle* stream, const CudaGrid& grid,
                            const CudaRowCosinesArgs& args) {
  return Launch(stream, grid, "row_cosines", RowCosinesKernel, args);
}

}  // namespace lectern
