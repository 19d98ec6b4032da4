#include "index/lookup_share.h"

#include <algorithm>

namespace lectern {
namespace {

// The first stored row of a cluster of the top level, or the end of the rows for the number behind
// the last cluster.
uint32_t FirstRow(const HeadIndex& head, uint32_t cluster) {
  for (const HeadIndex::Level& level : head.levels()) cluster = level.children[cluster];
  return cluster;
}

// The number of top-level clusters that the ranks below `rank` own: as many as begin within their
// part of the clustered rows.
uint32_t ClustersBelow(const HeadIndex& head, uint32_t rank, uint32_t size) {
  const uint64_t clustered = head.num_rows() - head.num_exact();
  const auto end = static_cast<uint32_t>(head.num_exact() + clustered * rank / size);
  uint32_t low = 0, high = static_cast<uint32_t>(head.levels().front().num_clusters());
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (FirstRow(head, middle) < end) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

IndexRange LookupShare::Clusters(const HeadIndex& head, size_t level) const {
  IndexRange clusters = {ClustersBelow(head, rank, size), ClustersBelow(head, rank + 1, size)};
  for (size_t l = 0; l < level; ++l) {
    const auto& children = head.levels()[l].children;
    clusters = {children[clusters.begin], children[clusters.end]};
  }
  return clusters;
}

IndexRange LookupShare::Rows(const HeadIndex& head) const {
  if (head.levels().empty()) return {0, rank == 0 ? head.num_rows() : 0};
  const IndexRange clusters = Clusters(head, 0);
  return {FirstRow(head, clusters.begin), FirstRow(head, clusters.end)};
}

}  // namespace lectern
