// Runs the assignment step of K-means on a CUDA device. It is a matrix product of which only the
// best of each row is kept; this is found tile by tile, so that the product itself is never
// written.
#ifndef LECTERN_KERNELS_CUDA_CLUSTERING_ASSIGN_H_
#define LECTERN_KERNELS_CUDA_CLUSTERING_ASSIGN_H_

#include "kernels/cuda/rows/rows.h"

namespace lectern {

struct CudaAssignArgs {
  const float* points;     // [num_points, num_cols], packed; 4-byte aligned, fastest at 16 with
                           //   num_cols a multiple of 4
  const float* centroids;  // [num_centroids, num_cols], likewise
  uint32_t num_points;
  uint32_t num_centroids;  // >= 1
  uint32_t num_cols;       // >= 1
  uint32_t* labels;        // out [num_points]: argmax_j p . c_j, the lowest j among equals
  float* dots;             // out [num_points]: that product; -inf, label 0, where all are NaN
};
// In float on ordinary cores: rounded to 16 bits, keys between two centroids would change sides.
// Products within 1e-5 |p| |c| of AssignNearestScalar (kernels/centroid_scores.h); each is one
// ascending sum over the columns, so that labels depend on nothing but the numbers. Enqueues and
// returns (rows.h); no points: nothing is done. kInvalidArgument: no centroids or columns, an array
// that is missing or not aligned, and nothing was enqueued.
CudaStatus CudaAssign(const CudaStream& stream, const CudaAssignArgs& args);

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_CLUSTERING_ASSIGN_H_
