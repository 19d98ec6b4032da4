// The clusters of one kv head as BuildTree makes them and the shard writer stores them.
#ifndef LECTERN_INDEX_CENTROID_TREE_H_
#define LECTERN_INDEX_CENTROID_TREE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "index/query_metric.h"
#include "kernels/types.h"

namespace lectern {

// Element type of stored centroids and mean values. q8 was measured against f16: the bytes that it
// saves find more than its rounding loses.
constexpr Dtype CentroidDtype(size_t head_dim) {
  return head_dim % kQ8Block == 0 ? Dtype::kQ8 : Dtype::kF16;
}

// One level of the tree. Every count, mean, radius and variance is over keys, at every level.
// Radius and variance are taken against the centroid as stored (rounded to CentroidDtype), because
// that is what a lookup sees, and in the head's metric if it has one: |A (k - C)| in the place of
// |k - C|.
struct TreeLevel {
  // [clusters][RowBytes(CentroidDtype(head_dim), head_dim)]
  std::vector<std::byte> centroids;    // means of the raw post-RoPE keys
  std::vector<std::byte> mean_values;  // means of the values
  std::vector<uint32_t> key_counts;    // [clusters], >= 1
  std::vector<float> radii;            // [clusters]: max |k - C|
  std::vector<float> variances;        // [clusters]: mean |k - C|^2 / head_dim
  // [clusters + 1]: cluster i holds clusters [children[i], children[i+1]) of the next level; at the
  // finest level, keys [children[i], children[i+1]) of `order`.
  std::vector<uint32_t> children;

  size_t num_clusters() const { return key_counts.size(); }
  // The centroids as rows [clusters, head_dim] of CentroidDtype(head_dim); borrows them.
  TypedRows Centroids(size_t head_dim) const {
    return {centroids.data(), CentroidDtype(head_dim), num_clusters(), head_dim};
  }
};

struct CentroidTree {
  std::vector<TreeLevel> levels;  // level 1, the coarsest, first (as in arXiv:2411.09688)
  // Permutation of the clustered keys that makes each cluster contiguous.
  std::vector<uint32_t> order;
  // [keys in order][RowCodeBytes(head_dim)] and [FineCodeBytes(head_dim)]; both may be empty
  std::vector<std::byte> row_codes, fine_codes;
  std::optional<QueryMetric> metric;  // codes, radii and variances are in it; none: A = 1
};

}  // namespace lectern

#endif  // LECTERN_INDEX_CENTROID_TREE_H_
