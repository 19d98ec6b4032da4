// Chooses the clusters whose rows a row lookup codes: scores them, and gives slots to the rows of
// the best.
#include "kernels/cuda/lookup/row_clusters.cuh"
#include "kernels/cuda/lookup/row_lookup.cuh"
#include "kernels/cuda/runtime/launch.cuh"

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
  if (first < num_clusters) {
    // All loads first, past the end of the last cluster or query row: none is a branch's.
    uint32_t at[kRowsPerThread], ends[kRowsPerThread], begins[kRowsPerThread];
    const uint32_t* const all_ends = codes.cluster_end + codes.cluster_begin[head];
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      at[i] = min(first + i * kRowThreads, num_clusters - 1);
      ends[i] = all_ends[at[i]];
      begins[i] = all_ends[max(at[i], 1u) - 1];
    }
    float scores[kRowsPerThread] = {};
    for (uint32_t first_query = 0; first_query < pass.num_queries; first_query += kRowQueries) {
      float logits[kRowQueries][kRowsPerThread], weights[kRowQueries];
#pragma unroll
      for (uint32_t j = 0; j < kRowQueries; ++j) {
        const uint32_t q = min(first_query + j, pass.num_queries - 1);
        weights[j] = first_query + j < pass.num_queries ? WeightOf(pass, q) : 0;
        const float* const of_query =
            pass.cluster_logits + QueryOf(pass, head, q) * codes.most_clusters;
#pragma unroll
        for (uint32_t i = 0; i < kRowsPerThread; ++i) logits[j][i] = of_query[at[i]];
      }
#pragma unroll
      for (uint32_t j = 0; j < kRowQueries; ++j) {
        if (!(weights[j] > 0)) continue;
#pragma unroll
        for (uint32_t i = 0; i < kRowsPerThread; ++i) {
          scores[i] += weights[j] * expf(logits[j][i] - lses[first_query + j]);
        }
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      if (first + i * kRowThreads >= num_clusters) continue;
      const float score = ToScore(scores[i]);
      pass.cluster_scores[size_t{head} * codes.most_clusters + at[i]] = score;
      atomicAdd(counts + BucketOf(score), ends[i] - (at[i] > 0 ? begins[i] : 0));
    }
  }
  AddCounts(pass.clusters, gridDim.x * gridDim.y, counts);
}

// ---- Slots: of the rows of the best clusters, head after head

// Tiles of clusters, head after head.
__global__ __launch_bounds__(kRowThreads,
                             kRowBlocks) void SlotsKernel(const CudaRowLookupPass pass) {
  WaitForEarlierKernels();
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t tiles = ClusterTiles(codes.most_clusters), tile = TakeTile(pass.clusters);
  const uint32_t head = tile / tiles, num_clusters = NumClusters(codes, head);
  const uint32_t first = tile % tiles * kRowTile + threadIdx.x * kRowsPerThread;
  uint32_t sizes[kRowsPerThread];
  const BestRows best =
      FindBestClusters(codes, pass.clusters, tile, head, first,
                       pass.cluster_scores + size_t{head} * codes.most_clusters, sizes);
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
  float logs[kRowsPerThread];  // of what is not coded; -inf: nothing
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    const uint32_t rest = sizes[i] - best.taken[i];
    logs[i] = rest > 0 ? logf(static_cast<float>(rest)) : NegativeInfinity();
  }
  for (uint32_t q = 0; q < pass.num_queries; ++q) {
    const size_t at = QueryOf(pass, head, q);
    float rests[kRowsPerThread] = {};
    if (first < num_clusters) {
#pragma unroll
      for (uint32_t i = 0; i < kRowsPerThread; ++i) {
        rests[i] = pass.cluster_logits[at * codes.most_clusters + min(first + i, num_clusters - 1)];
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      rests[i] = sizes[i] > best.taken[i] ? rests[i] + logs[i] : NegativeInfinity();
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
