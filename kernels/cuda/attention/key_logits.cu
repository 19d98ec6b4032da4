#include "kernels/cuda/attention/key_logits.h"
#include "kernels/cuda/attention/key_logits_geometry.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/primitives.cuh"

namespace lectern {
namespace {

constexpr uint32_t kWarp = 32;
constexpr uint32_t kMostPerLane = 256 / kWarp;  // numbers of a head

// Numbers lane, lane + 32, … of a key.
template <typename T>
__device__ void LoadKey(const DeviceKv& kv, uint32_t dim, size_t row, uint32_t lane,
                        float (&key)[kMostPerLane]) {
#pragma unroll
  for (uint32_t i = 0; i < kMostPerLane; ++i) {
    const uint32_t col = i * kWarp + lane;
    if (col >= dim) {
      key[i] = 0;
    } else if (kv.dtype == Dtype::kQ8) {
      key[i] = ToFloat(kv.key_scales[(row * dim + col) / kQ8Block]) *
               static_cast<float>(static_cast<const int8_t*>(kv.keys)[row * dim + col]);
    } else {
      key[i] = ToFloat(static_cast<const T*>(kv.keys)[row * dim + col]);
    }
  }
}

// A warp takes kKeysPerWarp keys, one after another: it keeps a key in registers, spread over its
// lanes, and multiplies it with every query row.
template <typename T>
__global__ __launch_bounds__(kKeyLogitsThreads) void KeyLogitsKernel(const CudaKeyLogitsArgs args) {
  WaitForEarlierKernels();
  const uint32_t head = blockIdx.y, lane = threadIdx.x % kWarp;
  const KeyLogitsHead at = args.heads[head];
  const DeviceQueries& q = args.queries;
  const uint32_t count = at.end - at.begin;
  const uint32_t first = (blockIdx.x * (kKeyLogitsThreads / kWarp) + threadIdx.x / kWarp) *
                         kKeysPerWarp;
  for (uint32_t n = 0; n < kKeysPerWarp && first + n < count; ++n) {
    const uint32_t entry = at.begin + first + n;
    const size_t row = args.source.rows == nullptr ? entry : args.source.rows[entry];
    float key[kMostPerLane];
    LoadKey<T>(args.source, q.head_dim, row, lane, key);
    for (uint32_t r = 0; r < q.num_tokens * q.group; ++r) {
      const T* const query = static_cast<const T*>(q.data) + r / q.group * q.stride +
                             (head * q.group + r % q.group) * q.head_dim;
      float dot = 0;
#pragma unroll
      for (uint32_t i = 0; i < kMostPerLane; ++i) {
        const uint32_t col = i * kWarp + lane;
        if (col < q.head_dim) dot += ToFloat(query[col]) * key[i];
      }
      float logit = args.scale * LaneSum<kWarp>(dot);
      if (args.softcap > 0) logit = args.softcap * tanhf(logit / args.softcap);
      if (lane == 0) args.logits[at.out + size_t{r} * count + first + n] = logit;
    }
  }
}

}  // namespace

CudaStatus LaunchKeyLogits(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaKeyLogitsArgs& args) {
  return args.queries.dtype == Dtype::kF16
             ? Launch(stream, grid, "key_logits", KeyLogitsKernel<f16>, args)
             : Launch(stream, grid, "key_logits", KeyLogitsKernel<bf16>, args);
}

}  // namespace lectern
