// Whose rows a row lookup codes: scores of clusters, and slots for the rows of the best.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/row_lookup.cuh"

namespace lectern {
namespace {

// ---- Scores of a tile of a head's clusters

__global__ __launch_bounds__(kRowThreads) void ClustersKernel(const CudaRowLookupPass pass) {
  WaitForEarlierKernels();
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t head = blockIdx.y, num_clusters = NumClusters(codes, head);
  const uint32_t warp = threadIdx.x / kWarpSize;
  auto* const lses = reinterpret_cast<float*>(MoreShared() + kCountBytes);  // [R]
  const uint32_t num_states = CentroidTiles(num_clusters);
  for (uint32_t q = warp; q < pass.num_queries; q += kRowWarps) {
    const size_t at = QueryOf(pass, head, q);
    const size_t states = at * CentroidTiles(codes.most_clusters);
    WarpLse lse(KnownOf(pass, at));
    lse.Add(pass.all_max + states, pass.all_sum + states, num_states);
    const float of_query = lse.Join();
    if (threadIdx.x % kWarpSize == 0) lses[q] = of_query;
  }
  uint32_t* const counts = ClearCounts(MoreShared());
  if (blockIdx.x == 0 && threadIdx.x < pass.num_queries) {
    pass.cluster_lse[QueryOf(pass, head, threadIdx.x)] = lses[threadIdx.x];
  }
  const uint32_t first = blockIdx.x * kRowTile + threadIdx.x;
  float scores[kRowsPerThread] = {};
  for (uint32_t q = 0; q < pass.num_queries; ++q) {
    const float weight = WeightOf(pass, q);
    if (!(weight > 0)) continue;
    const float* const logits = pass.cluster_logits + QueryOf(pass, head, q) * codes.most_clusters;
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      const uint32_t cluster = first + i * kRowThreads;
      scores[i] += cluster < num_clusters ? weight * expf(logits[cluster] - lses[q]) : 0;
    }
  }
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    const uint32_t cluster = first + i * kRowThreads;
    if (cluster >= num_clusters) continue;
    const float score = ToScore(scores[i]);
    pass.cluster_scores[size_t{head} * codes.most_clusters + cluster] = score;
    atomicAdd(counts + BucketOf(score),
              ClusterRowsEnd(codes, head, cluster) - ClusterRowsBegin(codes, head, cluster));
  }
  AddCounts(pass.clusters, gridDim.x * gridDim.y, counts);
}

// ---- Slots: of the rows of the best clusters, head after head

// Tiles of clusters, head after head.
__global__ __launch_bounds__(kRowThreads) void SlotsKernel(const CudaRowLookupPass pass) {
  WaitForEarlierKernels();
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t tiles = ClusterTiles(codes.most_clusters), tile = TakeTile(pass.clusters);
  const uint32_t head = tile / tiles, num_clusters = NumClusters(codes, head);
  const uint32_t first = tile % tiles * kRowTile + threadIdx.x * kRowsPerThread;
  uint32_t buckets[kRowsPerThread], sizes[kRowsPerThread];
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    const bool is_cluster = first + i < num_clusters;
    sizes[i] = is_cluster ? ClusterRowsEnd(codes, head, first + i) -
                                ClusterRowsBegin(codes, head, first + i)
                          : 0;
    buckets[i] = is_cluster
                     ? BucketOf(pass.cluster_scores[size_t{head} * codes.most_clusters + first + i])
                     : 0;
  }
  const BestRows best = FindBest(pass.clusters, tile, buckets, sizes);
  if (tile % tiles == 0 && threadIdx.x == 0) pass.head_slots[head] = best.at;
  if (tile == 0 && threadIdx.x == 0) pass.head_slots[codes.num_kv_heads] = pass.lookup.num_coded;
  uint32_t slot = best.at;
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    if (first + i > num_clusters) continue;
    pass.cluster_slots[size_t{head} * (codes.most_clusters + 1) + first + i] = slot;
    const uint32_t end = slot + best.taken[i];
    for (uint32_t t = SlotTiles(slot); t * kRowTile < end; ++t) {
      pass.tile_starts[t] = {head, first + i};
    }
    slot = end;
  }
  for (uint32_t q = 0; q < pass.num_queries; ++q) {
    const size_t at = QueryOf(pass, head, q);
    float rests[kRowsPerThread];
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      const uint32_t rest = sizes[i] - best.taken[i];
      rests[i] = rest > 0 ? pass.cluster_logits[at * codes.most_clusters + first + i] +
                                logf(static_cast<float>(rest))
                          : NegativeInfinity();
    }
    StoreState(rests, pass.rest_max + at * tiles + tile % tiles,
               pass.rest_sum + at * tiles + tile % tiles);
  }
}

}  // namespace

CudaStatus LaunchRowClusters(CudaStreamHandle* stream, const CudaGrid& grid,
                             const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_clusters", ClustersKernel, pass);
}
CudaStatus LaunchRowSlots(CudaStreamHandle* stream, const CudaGrid& grid,
                          const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_slots", SlotsKernel, pass);
}

}  // namespace lectern
