#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/primitives.cuh"
#include "kernels/cuda/sign_logits_geometry.h"

namespace lectern {
namespace {

constexpr uint32_t kSignBlockRows = 32;  // rows whose planes are packed together

__global__ __launch_bounds__(kSignThreads) void SignLogitsKernel(const CudaSignLogitsArgs args) {
  const uint32_t first_query = blockIdx.y * kSignQueries;
  const uint32_t num_queries = min(kSignQueries, args.num_queries - first_query);
  const uint32_t table_bytes = args.plane_bytes * 32;
  const unsigned char* const tables = SharedMemory();
  const auto* const from =
      reinterpret_cast<const uint32_t*>(args.tables + size_t{first_query} * table_bytes);
  for (uint32_t i = threadIdx.x; i < num_queries * table_bytes / 4; i += kSignThreads) {
    reinterpret_cast<uint32_t*>(SharedMemory())[i] = from[i];
  }
  __syncthreads();
  const size_t first_row = (size_t{blockIdx.x} * kSignThreads + threadIdx.x) * kSignRowsPerThread;
  if (first_row >= args.num_rows) return;
  uint32_t sums[kSignQueries][kSignRowsPerThread] = {};
#pragma unroll
  for (uint32_t p = 0; p < kMostSignPlanes; ++p) {
    if (p >= args.num_planes) continue;
    const uint32_t weight = args.num_planes == 1 || p == 1 ? 1 : p == 0 ? 4 : 2;
    const unsigned char* const plane =
        args.planes[p] + first_row / kSignBlockRows * kSignBlockRows * args.plane_bytes +
        first_row % kSignBlockRows;
    for (uint32_t b = 0; b < args.plane_bytes; ++b) {
      const uint32_t bits = *reinterpret_cast<const uint32_t*>(plane + b * kSignBlockRows);
#pragma unroll
      for (uint32_t q = 0; q < kSignQueries; ++q) {
        if (q >= num_queries) continue;
        const unsigned char* const table = tables + q * table_bytes + b * 32;
#pragma unroll
        for (uint32_t i = 0; i < kSignRowsPerThread; ++i) {
          const uint32_t byte = bits >> (8 * i) & 0xFF;
          sums[q][i] += weight * (table[byte & 15] + table[16 + (byte >> 4)]);
        }
      }
    }
  }
  const float weights = args.num_planes == 1 ? 1.0f : 7.0f;
#pragma unroll
  for (uint32_t q = 0; q < kSignQueries; ++q) {
    if (q >= num_queries) continue;
    const float step = args.scales[2 * (first_query + q)];
    const float offset = args.scales[2 * (first_query + q) + 1];
#pragma unroll
    for (uint32_t i = 0; i < kSignRowsPerThread; ++i) {
      if (first_row + i >= args.num_rows) continue;
      const float dot = step * static_cast<float>(sums[q][i]) + weights * offset;
      args.logits[(first_query + q) * args.stride + first_row + i] +=
          args.factors[first_row + i] * dot;
    }
  }
}

}  // namespace

CudaStatus LaunchSignLogits(CudaStreamHandle* stream, const CudaGrid& grid,
                            const CudaSignLogitsArgs& args) {
  return Launch(stream, grid, "sign_logits", SignLogitsKernel, args);
}

}  // namespace lectern
