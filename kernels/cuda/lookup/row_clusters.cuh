// Estimates the masses of a cluster's keys together, by its centroid, its spread and their number.
#ifndef LECTERN_KERNELS_CUDA_LOOKUP_ROW_CLUSTERS_CUH_
#define LECTERN_KERNELS_CUDA_LOOKUP_ROW_CLUSTERS_CUH_

#include "kernels/cuda/attention/tile.cuh"
#include "kernels/cuda/lookup/row_select.cuh"

namespace lectern {

// Reads the data about the keys of a head's cluster, also of one that the head lacks: no keys.
__device__ __forceinline__ ClusterKeys KeysOf(const DeviceRowCodes& codes, uint32_t head,
                                              uint32_t cluster) {
  const bool is_one = cluster < NumClusters(codes, head);
  const uint32_t count =
      is_one ? ClusterRowsEnd(codes, head, cluster) - ClusterRowsBegin(codes, head, cluster) : 0;
  if (count == 0) return {NegativeInfinity(), 0, 0, 0};
  const float log_count = logf(static_cast<float>(count));
  if (codes.deviations == nullptr) return {log_count, 0, 0, 0};
  return {log_count, codes.deviations[codes.cluster_begin[head] + cluster], sqrtf(2 * log_count),
          0};
}
// The logit of a key, by that of the centroid: kernels/second_order.h. `norm`: scaled, of the
// query.
__device__ __forceinline__ float KeysLogit(const DeviceRowCodes& codes, float logit,
                                           const ClusterKeys& keys, float norm) {
  if (codes.deviations == nullptr) return logit;
  const float deviation = norm * keys.deviation;
  return logit + (deviation < keys.most_deviations
                      ? deviation * deviation / 2
                      : deviation * keys.most_deviations - fmaxf(keys.log_count, 0.0f));
}

// Finds how many rows are taken from each of a thread's clusters of a head, those from `first` on;
// `sizes`: how many rows each has. `scores`: of the head's clusters. All threads of a block come
// here.
__device__ __forceinline__ BestRows FindBestClusters(const DeviceRowCodes& codes,
                                                     const RowSelection& selection, uint32_t tile,
                                                     uint32_t head, uint32_t first,
                                                     const float* scores,
                                                     uint32_t (&sizes)[kRowsPerThread]) {
  const uint32_t num_clusters = NumClusters(codes, head);
  uint32_t buckets[kRowsPerThread];
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    const bool is_cluster = first + i < num_clusters;
    sizes[i] = is_cluster ? ClusterRowsEnd(codes, head, first + i) -
                                ClusterRowsBegin(codes, head, first + i)
                          : 0;
    buckets[i] = is_cluster ? BucketOf(scores[first + i]) : 0;
  }
  return FindBest(selection, tile, buckets, sizes);
}

// Scaled norms of rows `row` and `row` + 8 of a tile, four lanes a row.
template <typename T, uint32_t kHeadDim>
__device__ __forceinline__ void FindNorms(const unsigned char* tile, uint32_t row, float scale,
                                          float (&norms)[2]) {
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    float squares = 0;
#pragma unroll
    for (uint32_t c = 0; c < kHeadDim / kChunk / 4; ++c) {
      const auto* const chunk = reinterpret_cast<const T*>(
          tile + TileOffset<kHeadDim>(row + 8 * half, 4 * c + threadIdx.x % 4));
#pragma unroll
      for (uint32_t i = 0; i < kChunk; ++i) {
        const float x = ToFloat(chunk[i]);
        squares += x * x;
      }
    }
    norms[half] = scale * sqrtf(LaneSum<4>(squares));
  }
}

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_LOOKUP_ROW_CLUSTERS_CUH_
