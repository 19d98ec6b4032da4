// Queries as row codes meet them: scaled, and rotated by H of index/row_codes.h.
#ifndef LECTERN_KERNELS_CUDA_LOOKUP_ROW_ROTATION_CUH_
#define LECTERN_KERNELS_CUDA_LOOKUP_ROW_ROTATION_CUH_

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/tile_geometry.h"
#include "kernels/cuda/runtime/primitives.cuh"

namespace lectern {

// In place, by all kTileThreads threads: the signs of one round of H, and the transform.
__device__ __forceinline__ void SignsAndHadamard(float* x, uint32_t size, const uint32_t* signs) {
  for (uint32_t c = threadIdx.x; c < size; c += kTileThreads) {
    if (signs[c / 32] >> (c % 32) & 1) x[c] = -x[c];
  }
  for (uint32_t half = 1; half < size; half *= 2) {
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < size / 2; i += kTileThreads) {
      const uint32_t c = i / half * 2 * half + i % half;
      const float a = x[c], b = x[c + half];
      x[c] = a + b;
      x[c + half] = a - b;
    }
  }
  __syncthreads();
  const float scale = 1 / sqrtf(static_cast<float>(size));
  for (uint32_t c = threadIdx.x; c < size; c += kTileThreads) x[c] *= scale;
  __syncthreads();
}

// A query row into x [head_dim] of shared memory, by all threads. `rotation`: DeviceRowCodes'.
template <typename T>
__device__ __forceinline__ void RotateQuery(const DeviceQueries& queries, uint32_t head,
                                            uint32_t row, float scale, const uint32_t* rotation,
                                            float* x) {
  const uint32_t dim = queries.head_dim;
  const T* const query = static_cast<const T*>(queries.data) +
                         row / queries.group * queries.stride +
                         (size_t{head} * queries.group + row % queries.group) * dim;
  for (uint32_t c = threadIdx.x; c < dim; c += kTileThreads) x[c] = scale * ToFloat(query[c]);
  __syncthreads();
  uint32_t power = 1;
  while (2 * power <= dim) power *= 2;
  SignsAndHadamard(x, power, rotation);
  SignsAndHadamard(x + dim - power, power, rotation + (dim + 31) / 32);
}

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_LOOKUP_ROW_ROTATION_CUH_
