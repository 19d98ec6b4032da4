// Checks and scratch memory of row_select.h.
#include "kernels/cuda/row_select.h"

#include "kernels/cuda/checks.h"
#include "kernels/cuda/row_lookup_geometry.h"

namespace lectern {

const char* WrongCodes(const DeviceRowCodes& codes, const DeviceQueries& queries) {
  if (codes.planes == nullptr || codes.factors == nullptr || codes.clusters == nullptr ||
      codes.fine_planes == nullptr || codes.fine_factors == nullptr || codes.row_begin == nullptr ||
      codes.num_rows == nullptr || codes.group_begin == nullptr || codes.centroids == nullptr ||
      codes.cluster_begin == nullptr || codes.rotation == nullptr) {
    return "an array that is missing";
  }
  if (!IsAligned(codes.planes, 4) || !IsAligned(codes.fine_planes, 4) ||
      !IsAligned(codes.factors, 16) || !IsAligned(codes.clusters, 16) ||
      !IsAligned(codes.centroids, 16)) {
    return "what is not aligned";
  }
  if (codes.plane_bytes * 8 != queries.head_dim) return "planes of another width";
  if (codes.num_kv_heads != queries.num_kv_heads) return "codes of other kv heads";
  if (codes.num_kv_heads == 0 || codes.num_kv_heads > kMostGridY) return "too many kv heads";
  if (codes.most_rows == 0 || codes.most_rows > UINT32_MAX - kRowTile) return "too many rows";
  if (codes.most_clusters == 0 || codes.most_groups == 0) return "no clusters";
  return nullptr;
}

void SetSelect(const DeviceRowCodes& codes, size_t more_counters, ScratchParts& parts,
               CudaRowSelectPass& select) {
  const size_t heads = codes.num_kv_heads;
  select.num_rows = codes.num_rows;
  select.num_kv_heads = codes.num_kv_heads;
  select.num_tiles = (codes.most_rows + kRowTile - 1) / kRowTile;
  const size_t tiles = heads * select.num_tiles;
  parts.Take(select.counts, size_t{2} * kRowDigits * kRowDigitValues);
  parts.Take(select.counters, heads * kRowHeadCounters + 1 + more_counters);
  select.num_counts = static_cast<uint32_t>(parts.used);
  parts.Take(select.cut, 1);
  parts.Take(select.heads, heads);
  parts.Take(select.refined_counts, heads);
  parts.Take(select.refined_begin, heads);
  parts.Take(select.scores, tiles * kRowTile);
  parts.Take(select.refined_rows, tiles * kRowTile);
  parts.Take(select.refined_scores, tiles * kRowTile);
  parts.Take(select.above, tiles);
  parts.Take(select.equal, tiles);
}

}  // namespace lectern
