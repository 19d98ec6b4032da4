// One kv head's keys -> centroid tree and key order.
#ifndef LECTERN_INDEX_BUILD_H_
#define LECTERN_INDEX_BUILD_H_

#include <functional>

#include "index/assigner.h"
#include "index/centroid_tree.h"
#include "kernels/backend.h"
#include "store/status.h"

namespace lectern {

struct BuildOptions {
  // Share of the keys that become clusters, coarse first. The paper's tree is {.01, .05}; with row
  // codes below them coarser clusters find as much and leave more bytes for rows.
  std::vector<double> fractions = {0.005, 0.02};
  uint32_t num_iterations = 10;
  uint64_t seed = 1234;
  bool row_codes = true;  // index/row_codes.h
  // [n, head_dim]: what puts keys into clusters in the place of themselves; no rows: nothing does.
  // Centroids, radii, variances and codes are those of the keys.
  Rows<const float> assigned_by = {};
  // Second moments of the head's queries, positive definite: codes, radii and variances are
  // taken by the metric that is best for them (index/query_metric.h). nullptr: plainly.
  const SquareMatrix* query_moments = nullptr;
  std::function<bool()> is_cancelled = {};
  Assigner* assigner = nullptr;  // of K-means and refinement; nullptr: the backend's kernels
};

// Centroids that are assigned to at the same time, about: what PlanCudaAssign asks for.
size_t MostCentroids(size_t num_keys, const std::vector<double>& fractions);

// The usual fractions for 1, 2 or 3 levels.
std::vector<double> LevelFractions(uint32_t num_levels);

// Clusters keys [n, head_dim] (raw, post-RoPE, as rounded for storage) by direction; n >= 1.
// The finest clusters come first, upper levels group them (as Hooper et al. do), but every count,
// mean and radius is over keys (their level-1 centroids are unweighted means of centroids).
// Above kFlatKeys keys the finest clusters are made inside blocks of similar keys, top down, and
// then refined over all keys by four Lloyd iterations with a beam: cost per key is (blocks +
// clusters of a block) for each iteration of K-means and a fifth of the clusters for each
// refinement, instead of all clusters each time; a GPU's assigner refines with all clusters in less
// time than a beam would take. Finest clusters hold at most kMaxFinestKeys keys:
// a larger one could never fit a small budget. Neighbouring clusters are similar (greedy chain),
// keys inside a cluster in document order. Single-threaded; deterministic for a backend
// and kind of assigner. kCancelled, kOutOfMemory, kInternal, and what the assigner says.
inline constexpr size_t kFlatKeys = 8192;
inline constexpr size_t kBlockKeys = 4096;
inline constexpr size_t kMaxFinestKeys = 128;
Result<CentroidTree> BuildTree(const Backend& backend, Rows<const float> keys,
                               Rows<const float> values, const BuildOptions& options);

}  // namespace lectern

#endif  // LECTERN_INDEX_BUILD_H_
