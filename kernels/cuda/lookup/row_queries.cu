// The first kernels of a row lookup: they make, of the queries, tables of sums of their signs, and
// the logits of the centroids.
#include "kernels/cuda/lookup/row_clusters.cuh"
#include "kernels/cuda/lookup/row_lookup.cuh"
#include "kernels/cuda/lookup/row_rotation.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace lectern {
namespace {

// A query row, scaled and rotated, as tables: what MakeSignTables makes.
template <typename T>
__device__ void MakeTables(const CudaRowLookupPass& pass, uint32_t head, uint32_t row) {
  const DeviceQueries& queries = pass.lookup.queries;
  const uint32_t dim = queries.head_dim;
  const uint32_t num_groups = dim / 4;
  auto* const x = reinterpret_cast<float*>(SharedMemory());  // [dim]
  float* const widths = x + dim;                             // [num_groups]
  RotateQuery<T>(queries, head, row, pass.lookup.scale, pass.lookup.codes.rotation, x);
  for (uint32_t g = threadIdx.x; g < num_groups; g += kTileThreads) {
    float width = 0;
    for (uint32_t i = 0; i < 4; ++i) width += fabsf(x[4 * g + i]);
    widths[g] = width;
  }
  __syncthreads();
  float widest = 0, total = 0;  // each thread for itself: in the definition's order
  for (uint32_t g = 0; g < num_groups; ++g) {
    widest = fmaxf(widest, widths[g]);
    total += widths[g];
  }
  const auto largest =
      static_cast<float>(min(kLargestEntry, kLargestSum / (7 * 2 * pass.lookup.codes.plane_bytes)));
  const float step = widest > 0 ? 2 * widest / largest : 1.0f;
  const size_t at = size_t{head} * pass.num_queries + row;
  if (threadIdx.x == 0) {
    pass.scales[2 * at] = step;
    pass.scales[2 * at + 1] = -total;
  }
  uint8_t* const table = pass.tables + at * num_groups * 16;
  for (uint32_t i = threadIdx.x; i < num_groups * 16; i += kTileThreads) {
    const float* const of_group = x + i / 16 * 4;
    float above_least = 0;  // the least sum has every sign against its query
    for (uint32_t k = 0; k < 4; ++k) above_least += 2 * fmaxf(0.0f, -of_group[k]);
    for (uint32_t k = 0; k < 4; ++k) {
      if (i >> k & 1) above_least += 2 * of_group[k];
    }
    table[i] = static_cast<uint8_t>(fmaxf(0.0f, above_least) / step + 0.5f);
  }
}

// Logits of a tile of centroids, a quarter of it a warp, and of the keys of their clusters; and of
// all of these keys a state.
template <typename T, uint32_t kHeadDim>
__device__ void MakeCentroidLogits(const CudaRowLookupPass& pass, uint32_t head, uint32_t tile) {
  constexpr uint32_t kWarpCentroids = kRowTileCentroids / 4;
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t first = tile * kRowTileCentroids;
  const uint32_t begin = codes.cluster_begin[head], count = NumClusters(codes, head);
  const uint32_t lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const uint32_t dim = pass.lookup.queries.head_dim;
  if (first >= count) return;  // all threads of the block: this head has fewer clusters
  unsigned char* const queries = SharedMemory();
  unsigned char* const centroids = queries + kFewRows * kHeadDim * 2;
  CopyQueries<kHeadDim, kFewRows>(queries, pass.lookup.queries, head, 0);
  CopyRows<kHeadDim, kRowTileCentroids>(
      centroids, dim, codes.centroids, [&](uint32_t r) -> const void* {
        if (first + r >= count) return nullptr;
        return static_cast<const uint16_t*>(codes.centroids) + size_t{begin + first + r} * dim;
      });
  CommitCopies();
  static_assert(kWarpCentroids == kWarpSize, "a lane a cluster");
  const ClusterKeys own = KeysOf(codes, head, first + warp * kWarpCentroids + lane);
  WaitCopies<0>();
  __syncthreads();
  float s[kWarpCentroids / 8][4] = {}, norms[2] = {0, 0};
  TileProducts<T, kHeadDim, kWarpCentroids>(queries, 0, centroids, warp * kWarpCentroids, &s);
  if (codes.deviations != nullptr) {
    FindNorms<T, kHeadDim>(queries, lane / 4, pass.lookup.scale, norms);
  }
  __syncthreads();  // all have read the centroids
  static_assert(kFewRows * sizeof(float) <= kHeadDim * 2,
                "a float for each query row and centroid");
  auto* const masses = reinterpret_cast<float*>(centroids);  // logs: [kFewRows][kRowTileCentroids]
#pragma unroll
  for (uint32_t n = 0; n < kWarpCentroids / 8; ++n) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t of_tile = warp * kWarpCentroids + 8 * n + 2 * (lane % 4) + i;
      const uint32_t cluster = first + of_tile;
      const int from = static_cast<int>(8 * n + 2 * (lane % 4) + i);
      const ClusterKeys keys = {__shfl_sync(kAllLanes, own.log_count, from),
                                __shfl_sync(kAllLanes, own.deviation, from),
                                __shfl_sync(kAllLanes, own.most_deviations, from), 0};
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t row = lane / 4 + 8 * half;
        float mass = NegativeInfinity();
        if (row < pass.num_queries && cluster < count) {
          const size_t at = QueryOf(pass, head, row) * codes.most_clusters + cluster;
          const float logit = pass.lookup.scale * s[n][2 * half + i];
          const float of_keys = Softcapped(pass.lookup, KeysLogit(codes, logit, keys, norms[half]));
          pass.centroid_logits[at] = logit;
          pass.cluster_logits[at] = of_keys;
          mass = of_keys + keys.log_count;
        }
        masses[row * kRowTileCentroids + of_tile] = mass;
      }
    }
  }
  __syncthreads();
  for (uint32_t row = warp; row < pass.num_queries; row += kTileThreads / kWarpSize) {
    float of_lane[kRowTileCentroids / kWarpSize], most = NegativeInfinity(), sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < kRowTileCentroids / kWarpSize; ++i) {
      of_lane[i] = masses[row * kRowTileCentroids + i * kWarpSize + lane];
      most = fmaxf(most, of_lane[i]);
    }
    most = LaneMax<kWarpSize>(most);
    const float base = most == NegativeInfinity() ? 0 : most;
#pragma unroll
    for (uint32_t i = 0; i < kRowTileCentroids / kWarpSize; ++i) sum += expf(of_lane[i] - base);
    sum = LaneSum<kWarpSize>(sum);
    if (lane > 0) continue;
    const size_t at = QueryOf(pass, head, row) * CentroidTiles(codes.most_clusters) + tile;
    pass.all_max[at] = most;
    pass.all_sum[at] = sum;
  }
}

// A head has first a block for each query row, then one for each tile of centroids.
template <typename T, uint32_t kHeadDim>
__global__ __launch_bounds__(kTileThreads) void QueriesKernel(const CudaRowLookupPass pass) {
  WaitForEarlierKernels();
  const uint32_t head = blockIdx.y;
  if (blockIdx.x < pass.num_queries) {
    const uint32_t block = head * pass.num_queries + blockIdx.x;
    ClearWords(pass.zeroed, pass.num_zeroed, block, gridDim.y * pass.num_queries);
    ClearWords(pass.lookup.counts, gridDim.y, block, gridDim.y * pass.num_queries);
    MakeTables<T>(pass, head, blockIdx.x);
  } else {
    MakeCentroidLogits<T, kHeadDim>(pass, head, blockIdx.x - pass.num_queries);
  }
}

}  // namespace

CudaStatus LaunchRowQueries(CudaStreamHandle* stream, const CudaGrid& grid,
                            const CudaRowLookupPass& pass) {
  return ForShape(pass.lookup.queries, [&](auto type, auto width) {
    return Launch(stream, grid, "row_queries",
                  QueriesKernel<decltype(type), decltype(width)::value>, pass);
  });
}

}  // namespace lectern
