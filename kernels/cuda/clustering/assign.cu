#include "kernels/cuda/clustering/assign.h"
#include "kernels/cuda/clustering/assign_geometry.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/primitives.cuh"

namespace lectern {
namespace {

// Four columns of a row; zeros past its end and past the last row.
__device__ __forceinline__ float4 LoadFour(const float* rows, uint32_t row, uint32_t num_rows,
                                           uint32_t col, uint32_t num_cols) {
  if (row >= num_rows || col >= num_cols) return float4{0, 0, 0, 0};
  const float* const from = rows + size_t{row} * num_cols + col;
  if (col + 4 <= num_cols && reinterpret_cast<uintptr_t>(from) % 16 == 0) {
    return *reinterpret_cast<const float4*>(from);
  }
  float4 four = {from[0], 0, 0, 0};
  if (col + 1 < num_cols) four.y = from[1];
  if (col + 2 < num_cols) four.z = from[2];
  if (col + 3 < num_cols) four.w = from[3];
  return four;
}

// Turned, so that a column's 64 numbers lie together: products take columns one after the other.
__device__ __forceinline__ void StoreFour(float* slab, uint32_t row, uint32_t col, float4 four) {
  slab[(col + 0) * kAssignStride + row] = four.x;
  slab[(col + 1) * kAssignStride + row] = four.y;
  slab[(col + 2) * kAssignStride + row] = four.z;
  slab[(col + 3) * kAssignStride + row] = four.w;
}

__device__ __forceinline__ void MultiplySlab(const float* points, const float* centroids,
                                             float (&dots)[4][4]) {
#pragma unroll
  for (uint32_t col = 0; col < kAssignCols; ++col) {
    const float4 p = *reinterpret_cast<const float4*>(points + col * kAssignStride);
    const float4 c = *reinterpret_cast<const float4*>(centroids + col * kAssignStride);
    const float of_points[4] = {p.x, p.y, p.z, p.w}, of_centroids[4] = {c.x, c.y, c.z, c.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) dots[i][j] = fmaf(of_points[i], of_centroids[j], dots[i][j]);
    }
  }
}

// A block finds the nearest centroids of kAssignTile points, tile by tile of centroids.
__global__ __launch_bounds__(kAssignThreads) void AssignKernel(const CudaAssignArgs args) {
  WaitForEarlierKernels();
  auto* const points = reinterpret_cast<float*>(SharedMemory());
  float* const centroids = points + kAssignCols * kAssignStride;
  const uint32_t first_point = blockIdx.x * kAssignTile;
  const uint32_t row = threadIdx.x / 4, col = threadIdx.x % 4 * 4;  // of what this thread loads
  const uint32_t x = threadIdx.x % 16, y = threadIdx.x / 16;        // of what it multiplies
  float best[4];
  uint32_t labels[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < 4; ++i) best[i] = NegativeInfinity();

  for (uint32_t first = 0; first < args.num_centroids; first += kAssignTile) {
    float dots[4][4] = {};
    float4 next_points =
        LoadFour(args.points, first_point + row, args.num_points, col, args.num_cols);
    float4 next_centroids =
        LoadFour(args.centroids, first + row, args.num_centroids, col, args.num_cols);
    for (uint32_t slab = 0; slab < args.num_cols; slab += kAssignCols) {
      __syncthreads();  // all have multiplied what is here
      StoreFour(points, row, col, next_points);
      StoreFour(centroids, row, col, next_centroids);
      __syncthreads();
      // On their way while this slab is multiplied.
      next_points = LoadFour(args.points, first_point + row, args.num_points,
                             slab + kAssignCols + col, args.num_cols);
      next_centroids = LoadFour(args.centroids, first + row, args.num_centroids,
                                slab + kAssignCols + col, args.num_cols);
      MultiplySlab(points + 4 * y, centroids + 4 * x, dots);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint32_t label = first + 4 * x + static_cast<uint32_t>(j);
      if (label >= args.num_centroids) break;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (!(dots[i][j] > best[i])) continue;  // NaN never wins
        best[i] = dots[i][j];
        labels[i] = label;
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int bits = 8; bits > 0; bits /= 2) {  // over the 16 threads of a point
      const float other = __shfl_xor_sync(kAllLanes, best[i], bits);
      const uint32_t label = __shfl_xor_sync(kAllLanes, labels[i], bits);
      if (!(other > best[i] || (other == best[i] && label < labels[i]))) continue;
      best[i] = other;
      labels[i] = label;
    }
    const uint32_t point = first_point + 4 * y + static_cast<uint32_t>(i);
    if (x != 0 || point >= args.num_points) continue;
    args.labels[point] = labels[i];
    args.dots[point] = best[i];
  }
}

}  // namespace

CudaStatus LaunchAssign(CudaStreamHandle* stream, const CudaGrid& grid,
                        const CudaAssignArgs& args) {
  return Launch(stream, grid, "assign", AssignKernel, args);
}

}  // namespace lectern
