#include "kernels/cuda/attention/cut_items.cuh"

#include "kernels/cuda/runtime/launch.cuh"

namespace lectern {
namespace {

__global__ void CutItemsKernel(const CudaCutItemsArgs args) {
  WaitForEarlierKernels();
  CutItems(args, reinterpret_cast<uint32_t*>(SharedMemory()));
}

}  // namespace

CudaStatus LaunchCutItems(CudaStreamHandle* stream, const CudaGrid& grid,
                          const CudaCutItemsArgs& args) {
  return Launch(stream, grid, "cut_items", CutItemsKernel, args);
}

}  // namespace lectern
