// Fits the variances of clusters to the queries of their head, so that the mass of a cluster whose
// keys are not read is near the attention that these keys get.
//
// A variance alone takes the logits of a cluster's keys for draws of a normal distribution of
// equal width for every query (kernels/second_order.h). Real clusters hold more: their logits have
// a few large values among many small ones, and queries lie where the keys vary most. On
// SmolLM2-135M clusters without codes had 10 to 60 % of their mass by it; errors of attention at a
// budget of 0.05 fall by 5 to 16 % with fitted variances (tools/evaluate/RESULTS.md).
#ifndef LECTERN_INDEX_CLUSTER_SPREAD_H_
#define LECTERN_INDEX_CLUSTER_SPREAD_H_

#include "index/centroid_tree.h"
#include "kernels/backend.h"

namespace lectern {

struct FitVariancesArgs {
  const Backend& backend;
  Rows<const float> keys;     // [n, head_dim]: the keys that the tree was built from
  Rows<const float> beside;   // [m, head_dim]: keys that are attended besides; may have no rows
  Rows<const float> queries;  // [R, head_dim]: post-RoPE rows of the head's group, R >= 1
  float scale;                // of logits
  float softcap = 0;          // of logits; 0: none
};

// Replaces the variance of each cluster of each level by the one whose estimated mass, summed over
// at most 64 evenly spread query rows as shares of attention, lies half way (in logarithms) between
// the mass by the variance before and the true one. Half, because other queries differ from these.
// A variance changes by a factor of 16 at most, and one of 0 stays. One thread.
void FitVariances(const FitVariancesArgs& args, CentroidTree& tree);

}  // namespace lectern

#endif  // LECTERN_INDEX_CLUSTER_SPREAD_H_
