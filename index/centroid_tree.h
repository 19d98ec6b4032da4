// The clusters of one kv head, as they are built and written.
#ifndef LECTERN_INDEX_CENTROID_TREE_H_
#define LECTERN_INDEX_CENTROID_TREE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/types.h"

namespace lectern {

// One level. Every count, mean, radius and variance is over keys, at every level, and radius and
// variance are against the centroid as stored (rounded to f16).
struct TreeLevel {
  std::vector<f16> centroids;        // [clusters, head_dim]: mean of the raw post-RoPE keys
  std::vector<f16> mean_values;      // [clusters, head_dim]
  std::vector<uint32_t> key_counts;  // [clusters], >= 1
  std::vector<float> radii;          // [clusters]: max |k - C|
  std::vector<float> variances;      // [clusters]: mean |k - C|^2 / head_dim
  // [clusters + 1]: cluster i holds clusters [children[i], children[i+1]) of the next level; at the
  // finest level, keys [children[i], children[i+1]) of `order`.
  std::vector<uint32_t> children;

  size_t num_clusters() const { return key_counts.size(); }
};

struct CentroidTree {
  std::vector<TreeLevel> levels;     // level 1, the coarsest, first (as in arXiv:2411.09688)
  std::vector<uint32_t> order;       // permutation of the clustered keys: clusters are contiguous
  std::vector<std::byte> row_codes;  // [keys in order][RowCodeBytes(head_dim)]; may be empty
};

}  // namespace lectern

#endif  // LECTERN_INDEX_CENTROID_TREE_H_
