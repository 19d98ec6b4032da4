// Sizes that host and device code of assign.h agree on.
#ifndef LECTERN_KERNELS_CUDA_CLUSTERING_ASSIGN_GEOMETRY_H_
#define LECTERN_KERNELS_CUDA_CLUSTERING_ASSIGN_GEOMETRY_H_

#include <cstdint>

namespace lectern {

// A block holds 64 points against 64 centroids at a time, 16 columns after the other; each of its
// 16 x 16 threads four points against four centroids.
constexpr uint32_t kAssignTile = 64, kAssignThreads = 256, kAssignCols = 16;
// Columns lie apart in shared memory, 64 numbers each and four more: a multiple of 16 bytes for
// float4, and stores of four columns by neighbouring threads meet two banks at most twice.
constexpr uint32_t kAssignStride = kAssignTile + 4;

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_CLUSTERING_ASSIGN_GEOMETRY_H_
