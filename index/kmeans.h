// Spherical K-means for index building: faiss::Clustering with our own assignment step.
#ifndef LECTERN_INDEX_KMEANS_H_
#define LECTERN_INDEX_KMEANS_H_

#include <functional>
#include <vector>

#include "index/assigner.h"
#include "kernels/backend.h"
#include "store/status.h"

namespace lectern {

struct KMeansOptions {
  uint32_t num_clusters = 1;
  uint32_t num_iterations = 10;
  uint64_t seed = 1234;                     // its low 30 bits count
  std::function<bool()> is_cancelled = {};  // polled once per block of assignments; may be empty
  Assigner* assigner = nullptr;  // nullptr: the backend's kernel. It holds no points afterwards
};

// Labels in [0, num_clusters) for unit-length points [n, d]: the centroid (unit length too) with
// the largest inner product. Rows are packed and num_clusters >= 1 (asserted). Every point takes
// part in every iteration (no subsampling). Some labels may be unused. If n <= num_clusters, each
// point is its own cluster; if num_clusters is 1, all labels are 0. In these two cases nothing is
// polled or checked.
//
// Runs on the calling thread alone: FAISS, its OpenMP and its BLAS start no threads, and the
// caller's OpenMP setting is restored afterwards. Same points, options, backend and assigner give
// the same bits. kCancelled, kOutOfMemory, kInternal (a point is not finite), and the errors of the
// assigner.
Result<std::vector<uint32_t>> KMeans(const Backend& backend, Rows<const float> points,
                                     const KMeansOptions& options);

// FAISS's version, such as "1.7.3". It is recorded in shards but never part of a document's
// identity.
const char* FaissVersion();

}  // namespace lectern

#endif  // LECTERN_INDEX_KMEANS_H_
