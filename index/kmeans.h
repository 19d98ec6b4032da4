// Spherical K-means by faiss::Clustering, with our kernel for the assignment step.
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
  uint64_t seed = 1234;
  std::function<bool()> is_cancelled = {};  // polled once per block of assignments; may be empty
  Assigner* assigner = nullptr;  // nullptr: the backend's kernel; holds nothing afterwards
};

// Labels in [0, num_clusters) for unit-length points [n, d]: argmax of the inner product with
// unit-length centroids. Every point takes part in every iteration (no subsampling). Some labels
// may be unused. Runs on the calling thread alone; FAISS, its OpenMP and its BLAS start none, and
// the caller's OpenMP setting is as before afterwards. Same points, options, backend and assigner:
// same bits. n <= num_clusters: each point is its own cluster. kCancelled, kOutOfMemory, kInternal,
// and what the assigner says.
Result<std::vector<uint32_t>> KMeans(const Backend& backend, Rows<const float> points,
                                     const KMeansOptions& options);

// "1.7.3": recorded in shards; never part of the identity.
const char* FaissVersion();

}  // namespace lectern

#endif  // LECTERN_INDEX_KMEANS_H_
