// Clusters the keys of one kv head: builds its centroid tree and the order in which its rows are
// stored.
#ifndef LECTERN_INDEX_BUILD_H_
#define LECTERN_INDEX_BUILD_H_

#include <functional>

#include "index/assigner.h"
#include "index/centroid_tree.h"
#include "kernels/backend.h"
#include "store/status.h"

namespace lectern {

struct BuildOptions {
  // Share of the keys that become clusters, coarse level first. The paper's tree is {.01, .05};
  // with row codes below them coarser clusters find as much and leave more bytes for rows (output
  // error at a budget of 0.05 on 8K tokens: 0.36 -> 0.23 when this was chosen).
  std::vector<double> fractions = {0.005, 0.02};
  // K-means iterations. RetroInfer and Multipole use 10 as well, the paper up to 300. No
  // measurement of other numbers is on record.
  uint32_t num_iterations = 10;
  uint64_t seed = 1234;
  bool row_codes = true;  // index/row_codes.h
  // [n, head_dim]: vectors that decide into which cluster each key goes, instead of the keys
  // themselves; no rows: the keys decide. Centroids, radii, variances and codes are always those of
  // the keys.
  Rows<const float> assigned_by = {};
  // [head_dim, head_dim], second moments of the head's queries, positive definite: codes, radii and
  // variances are taken by the metric that is best for them (index/query_metric.h), or plainly
  // where no metric can be made. nullptr: plainly.
  const SquareMatrix* query_moments = nullptr;
  std::function<bool()> is_cancelled = {};  // polled between blocks of keys; may be empty
  // For K-means and refinement; nullptr: the backend's kernels. Borrowed; holds no points
  // afterwards.
  Assigner* assigner = nullptr;
};

// About the most centroids that keys of a head with `num_keys` keys are assigned to at the same
// time; PlanCudaAssign needs it. `fractions` as in BuildOptions, not empty.
size_t MostCentroids(size_t num_keys, const std::vector<double>& fractions);

// The default fractions for 1, 2 or 3 levels; any other number gives those for 3.
std::vector<double> LevelFractions(uint32_t num_levels);

// The sizes that BuildTree uses below. They are by hand, and no measurement of others is on record;
// every recall and error that is on record (tools/evaluate/RESULTS.md) was measured with them.
inline constexpr size_t kFlatKeys = 8192;
inline constexpr size_t kBlockKeys = 4096;
inline constexpr size_t kMaxFinestKeys = 128;

// Clusters keys [n, head_dim] (raw, post-RoPE, as rounded for storage) by direction; n >= 1.
//
// The finest clusters are made first and upper levels group them, as Hooper et al. do. Every count,
// mean and radius is over keys, while their level-1 centroids are unweighted means of centroids.
//
// Above kFlatKeys keys the finest clusters are made inside blocks of similar keys, top down, and
// then refined over all keys by four Lloyd iterations with a beam. An iteration of K-means then
// costs (blocks + clusters of a block) per key, and a refinement a fifth of the clusters, instead
// of all clusters each time. A GPU's assigner refines against all clusters, which takes it less
// time than a beam would.
//
// Finest clusters hold at most kMaxFinestKeys keys, because a larger one could never fit a small
// budget. Similar clusters are neighbours (greedy chain), so that chosen ones are often read as one
// run; keys inside a cluster keep document order. Single-threaded; deterministic for a backend and
// kind of assigner. `values` [n, head_dim]; options.fractions has one entry or more. kCancelled,
// kOutOfMemory, kInternal (also where K-means meets a key that is not finite), and the errors of
// the assigner; outside of K-means a lack of memory throws bad_alloc.
Result<CentroidTree> BuildTree(const Backend& backend, Rows<const float> keys,
                               Rows<const float> values, const BuildOptions& options);

}  // namespace lectern

#endif  // LECTERN_INDEX_BUILD_H_
