#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tile.cuh"

namespace lectern {
namespace {

// A cluster as a column of logits.
struct Column {
  float count = 0;  // 0: there is none
  float deviation = 0, log_count = 0, most_deviations = 0;
};
__device__ __forceinline__ Column ColumnOf(const DeviceClusters& clusters, uint32_t cluster,
                                           uint32_t end) {
  Column column;
  if (cluster >= end) return column;
  column.count = clusters.key_counts[cluster];
  if (clusters.deviations == nullptr) return column;
  column.deviation = clusters.deviations[cluster];
  column.log_count = logf(fmaxf(column.count, 1.0f));
  column.most_deviations = sqrtf(2 * column.log_count);
  return column;
}

// s_ri times log2(e); -inf where there is no cluster. `norm`: of the query, if there are
// deviations.
__device__ __forceinline__ float LogitOf(const CudaLookupArgs& args, float product,
                                         const Column& column, float norm) {
  if (!(column.count > 0)) return NegativeInfinity();
  float logit = product * args.scale;
  if (args.clusters.deviations != nullptr) {  // kernels/second_order.h
    const float deviation = norm * column.deviation;
    logit += deviation < column.most_deviations
                 ? deviation * deviation / 2
                 : deviation * column.most_deviations - column.log_count;
  }
  if (args.softcap > 0) logit = args.softcap * tanhf(logit / args.softcap);
  return logit * kLog2E;
}

__device__ __forceinline__ float NormOf(const CudaLookupArgs& args, uint32_t head, uint32_t row) {
  const uint32_t rows = args.queries.num_tokens * args.queries.group;
  if (args.query_norms == nullptr || row >= rows) return 0;
  return args.query_norms[size_t{head} * rows + row];
}
__device__ __forceinline__ float WeightOf(const CudaLookupArgs& args, uint32_t row) {
  if (args.row_weights != nullptr) return args.row_weights[row];
  return 1.0f / static_cast<float>(args.queries.num_tokens * args.queries.group);
}
__device__ __forceinline__ void StoreScore(const CudaLookupArgs& args, uint32_t head,
                                           uint32_t cluster, float score) {
  args.scores[cluster] = score;
  if (args.selected != nullptr) args.selected[cluster] = score > args.thresholds[head] ? 1 : 0;
}

template <uint32_t kHeadDim, uint32_t kKeys>
__device__ __forceinline__ void CopyCentroids(unsigned char* tile, const CudaLookupArgs& args,
                                              uint32_t first, uint32_t end) {
  const uint32_t head_dim = args.queries.head_dim;
  const void* const centroids = args.clusters.centroids;
  CopyRows<kHeadDim, kKeys>(tile, head_dim, centroids, [&](uint32_t r) -> const void* {
    if (first + r >= end) return nullptr;
    return static_cast<const uint16_t*>(centroids) + size_t{first + r} * head_dim;
  });
}

// ---- A token: one tile of clusters a block, a quarter of it a warp

template <typename T, uint32_t kHeadDim>
__global__ __launch_bounds__(kTileThreads) void MassesKernel(const CudaLookupPass pass) {
  WaitForEarlierKernels();
  constexpr uint32_t kWarpKeys = kTokenTileKeys / 4;
  const CudaLookupArgs& args = pass.lookup;
  const uint32_t head = blockIdx.y, tile = blockIdx.x;
  const uint32_t end = args.clusters.begin[head + 1];
  const uint32_t first = args.clusters.begin[head] + tile * kTokenTileKeys;
  const uint32_t lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const uint32_t num_rows = args.queries.num_tokens * args.queries.group;
  unsigned char* const queries = SharedMemory();
  unsigned char* const keys = queries + kFewRows * kHeadDim * 2;
  auto* const max_of = reinterpret_cast<float*>(keys + kTokenTileKeys * kHeadDim * 2);
  float* const sum_of = max_of + 4 * kFewRows;  // both [warps][rows]
  if (first >= end) return;  // all threads of the block: this head has fewer clusters

  CopyQueries<kHeadDim, kFewRows>(queries, args.queries, head, 0);
  CopyCentroids<kHeadDim, kTokenTileKeys>(keys, args, first, end);
  CommitCopies();
  WaitCopies<0>();
  __syncthreads();
  float s[kWarpKeys / 8][4] = {};
  TileProducts<T, kHeadDim, kWarpKeys>(queries, 0, keys, warp * kWarpKeys, &s);

  const uint32_t cluster = first + warp * kWarpKeys + 2 * (lane % 4);  // of column 0 of s[0]
  const float norms[2] = {NormOf(args, head, lane / 4), NormOf(args, head, lane / 4 + 8)};
  float most[2] = {NegativeInfinity(), NegativeInfinity()};
#pragma unroll
  for (uint32_t n = 0; n < kWarpKeys / 8; ++n) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const Column column = ColumnOf(args.clusters, cluster + 8 * n + i % 2, end);
      s[n][i] = LogitOf(args, s[n][i], column, norms[i / 2]);
      most[i / 2] = fmaxf(most[i / 2], s[n][i]);
    }
  }
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    most[half] = LaneMax<4>(most[half]);
    if (lane % 4 == 0) max_of[warp * kFewRows + lane / 4 + 8 * half] = most[half];
  }
  __syncthreads();
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    const uint32_t row = lane / 4 + 8 * half;
    float of_tile = NegativeInfinity();
#pragma unroll
    for (uint32_t w = 0; w < 4; ++w) of_tile = fmaxf(of_tile, max_of[w * kFewRows + row]);
    const float base = of_tile == NegativeInfinity() ? 0 : of_tile;
    float sum = 0;
#pragma unroll
    for (uint32_t n = 0; n < kWarpKeys / 8; ++n) {
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) {
        const uint32_t of_lane = cluster + 8 * n + i;
        const float mass = exp2f(s[n][2 * half + i] - base);
        if (of_lane >= end) continue;
        sum += args.clusters.key_counts[of_lane] * mass;
        if (row < num_rows) pass.masses[size_t{row} * args.clusters.num_clusters + of_lane] = mass;
      }
    }
    sum = LaneSum<4>(sum);
    if (lane % 4 == 0) sum_of[warp * kFewRows + row] = sum;
    if (warp == 0 && lane % 4 == 0) {
      pass.partial_max[(size_t{head} * pass.num_tiles + tile) * kFewRows + row] = of_tile;
    }
  }
  __syncthreads();
  if (threadIdx.x < kFewRows) {
    float sum = 0;
#pragma unroll
    for (uint32_t w = 0; w < 4; ++w) sum += sum_of[w * kFewRows + threadIdx.x];
    pass.partial_sum[(size_t{head} * pass.num_tiles + tile) * kFewRows + threadIdx.x] = sum;
  }
}

// Finds what a mass of each of kScoreTiles tiles counts in S, per row: w_r exp(max of tile -
// LSE_r). Every block computes the denominators again: they are few numbers, and all blocks add
// them in the same order.
__global__ __launch_bounds__(kScoreThreads) void ScoresKernel(const CudaLookupPass pass) {
  WaitForEarlierKernels();
  const CudaLookupArgs& args = pass.lookup;
  const uint32_t head = blockIdx.y, first_tile = blockIdx.x * kScoreTiles;
  const uint32_t begin = args.clusters.begin[head], end = args.clusters.begin[head + 1];
  const uint32_t num_tiles = (end - begin + kTokenTileKeys - 1) / kTokenTileKeys;
  const uint32_t num_rows = args.queries.num_tokens * args.queries.group;
  const uint32_t lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  if (first_tile >= num_tiles) return;                             // the whole block
  auto* const weights = reinterpret_cast<float*>(SharedMemory());  // [rows][kScoreTiles]
  for (uint32_t row = warp; row < num_rows; row += kScoreThreads / kWarpSize) {
    const size_t at = size_t{head} * pass.num_tiles * kFewRows + row;
    const float known = args.known_lse != nullptr
                            ? args.known_lse[size_t{head} * num_rows + row] * kLog2E
                            : NegativeInfinity();
    float most = known;
    for (uint32_t t = lane; t < num_tiles; t += kWarpSize) {
      most = fmaxf(most, pass.partial_max[at + size_t{t} * kFewRows]);
    }
    most = LaneMax<32>(most);
    const float base = most == NegativeInfinity() ? 0 : most;
    float sum = 0;
    for (uint32_t t = lane; t < num_tiles; t += kWarpSize) {
      sum += exp2f(pass.partial_max[at + size_t{t} * kFewRows] - base) *
             pass.partial_sum[at + size_t{t} * kFewRows];
    }
    sum = LaneSum<32>(sum) + exp2f(known - base);
    for (uint32_t t = lane; t < kScoreTiles; t += kWarpSize) {
      if (first_tile + t >= num_tiles) continue;
      const float of_tile = exp2f(pass.partial_max[at + size_t{first_tile + t} * kFewRows] - base);
      weights[row * kScoreTiles + t] = sum > 0 ? WeightOf(args, row) * of_tile / sum : 0;
    }
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kScoreTiles * kTokenTileKeys; i += kScoreThreads) {
    const uint32_t cluster = begin + first_tile * kTokenTileKeys + i;
    if (cluster >= end) break;
    float score = 0;
    for (uint32_t row = 0; row < num_rows; ++row) {
      score += weights[row * kScoreTiles + i / kTokenTileKeys] *
               pass.masses[size_t{row} * args.clusters.num_clusters + cluster];
    }
    StoreScore(args, head, cluster, score);
  }
}

// ---- A question: denominators, by parts of the clusters

template <typename T, uint32_t kHeadDim>
__global__ __launch_bounds__(kTileThreads) void PartsKernel(const CudaLookupPass pass) {
  WaitForEarlierKernels();
  constexpr uint32_t kTile = kTileKeys * kHeadDim * 2;
  const CudaLookupArgs& args = pass.lookup;
  const uint32_t head = blockIdx.z, part = blockIdx.y, first_row = blockIdx.x * kManyRows;
  const uint32_t num_rows = args.queries.num_tokens * args.queries.group;
  const uint32_t begin = args.clusters.begin[head] + part * kPartTiles * kTileKeys;
  const uint32_t end = min(args.clusters.begin[head + 1], begin + kPartTiles * kTileKeys);
  const uint32_t lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  unsigned char* const queries = SharedMemory();
  unsigned char* const stages = queries + kManyRows * kHeadDim * 2;
  const uint32_t row = first_row + 16 * warp + lane / 4;  // and row + 8
  const float norms[2] = {NormOf(args, head, row), NormOf(args, head, row + 8)};
  float most[2] = {NegativeInfinity(), NegativeInfinity()}, sum[2] = {0, 0};
  CopyQueries<kHeadDim, kManyRows>(queries, args.queries, head, first_row);
  if (begin < end) CopyCentroids<kHeadDim, kTileKeys>(stages, args, begin, end);
  CommitCopies();
  uint32_t stage = 0;
  for (uint32_t key = begin; key < end; key += kTileKeys, stage ^= 1) {
    if (key + kTileKeys < end) {
      CopyCentroids<kHeadDim, kTileKeys>(stages + (stage ^ 1) * kTile, args, key + kTileKeys, end);
    }
    CommitCopies();
    WaitCopies<1>();
    __syncthreads();
    float s[kTileKeys / 8][4] = {};
    TileProducts<T, kHeadDim, kTileKeys>(queries, 16 * warp, stages + stage * kTile, 0, &s);
    __syncthreads();  // the next round writes the other stage's successor: this one
    float of_tile[2] = {most[0], most[1]};
#pragma unroll
    for (uint32_t n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const Column column = ColumnOf(args.clusters, key + 8 * n + 2 * (lane % 4) + i % 2, end);
        s[n][i] = LogitOf(args, s[n][i], column, norms[i / 2]);
        of_tile[i / 2] = fmaxf(of_tile[i / 2], s[n][i]);
      }
    }
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const float base = of_tile[half] == NegativeInfinity() ? 0 : of_tile[half];
      float added = sum[half] * exp2f(most[half] - base);
#pragma unroll
      for (uint32_t n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
        for (uint32_t i = 0; i < 2; ++i) {
          const uint32_t cluster = key + 8 * n + 2 * (lane % 4) + i;
          if (cluster >= end) continue;
          added += args.clusters.key_counts[cluster] * exp2f(s[n][2 * half + i] - base);
        }
      }
      sum[half] = added;
      most[half] = of_tile[half];
    }
  }
  WaitCopies<0>();
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {  // each lane has seen a quarter of the columns
    const float of_row = LaneMax<4>(most[half]);
    const float base = of_row == NegativeInfinity() ? 0 : of_row;
    const float total = LaneSum<4>(sum[half] * exp2f(most[half] - base));
    if (lane % 4 != 0 || row + 8 * half >= num_rows) continue;
    const size_t at = (size_t{head} * pass.num_tiles + part) * num_rows + row + 8 * half;
    pass.partial_max[at] = of_row;
    pass.partial_sum[at] = total;
  }
}

__global__ __launch_bounds__(kTileThreads) void LseKernel(const CudaLookupPass pass) {
  WaitForEarlierKernels();
  const CudaLookupArgs& args = pass.lookup;
  const uint32_t num_rows = args.queries.num_tokens * args.queries.group;
  const uint32_t row = blockIdx.x * kTileThreads + threadIdx.x, head = blockIdx.y;
  if (row >= num_rows) return;
  const float known = args.known_lse != nullptr
                          ? args.known_lse[size_t{head} * num_rows + row] * kLog2E
                          : NegativeInfinity();
  const size_t at = size_t{head} * pass.num_tiles * num_rows + row;
  float most = known;
  for (uint32_t part = 0; part < pass.num_tiles; ++part) {
    most = fmaxf(most, pass.partial_max[at + size_t{part} * num_rows]);
  }
  const float base = most == NegativeInfinity() ? 0 : most;
  float sum = exp2f(known - base);
  for (uint32_t part = 0; part < pass.num_tiles; ++part) {
    sum += exp2f(pass.partial_max[at + size_t{part} * num_rows] - base) *
           pass.partial_sum[at + size_t{part} * num_rows];
  }
  // If the sum is 0, the log-sum-exp is such that every share of it is 0.
  pass.lse[size_t{head} * num_rows + row] = sum > 0 ? base + log2f(sum) : -NegativeInfinity();
}

// ---- A question: mean S of a tile of clusters over all rows, which pass by

template <typename T, uint32_t kHeadDim>
__global__ __launch_bounds__(kTileThreads) void SumsKernel(const CudaLookupPass pass) {
  WaitForEarlierKernels();
  constexpr uint32_t kTile = kManyRows * kHeadDim * 2;
  const CudaLookupArgs& args = pass.lookup;
  const uint32_t head = blockIdx.y, end = args.clusters.begin[head + 1];
  const uint32_t first = args.clusters.begin[head] + blockIdx.x * kTileKeys;
  const uint32_t num_rows = args.queries.num_tokens * args.queries.group;
  const uint32_t lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  if (first >= end) return;  // the whole block
  unsigned char* const keys = SharedMemory();
  unsigned char* const stages = keys + kTileKeys * kHeadDim * 2;
  auto* const sums = reinterpret_cast<float*>(stages + 2 * kTile);  // [warps][kTileKeys]
  float of_columns[kTileKeys / 8][2] = {};
  CopyCentroids<kHeadDim, kTileKeys>(keys, args, first, end);
  CopyQueries<kHeadDim, kManyRows>(stages, args.queries, head, 0);
  CommitCopies();
  uint32_t stage = 0;
  for (uint32_t first_row = 0; first_row < num_rows; first_row += kManyRows, stage ^= 1) {
    if (first_row + kManyRows < num_rows) {
      CopyQueries<kHeadDim, kManyRows>(stages + (stage ^ 1) * kTile, args.queries, head,
                                       first_row + kManyRows);
    }
    CommitCopies();
    WaitCopies<1>();
    __syncthreads();
    float s[kTileKeys / 8][4] = {};
    TileProducts<T, kHeadDim, kTileKeys>(stages + stage * kTile, 16 * warp, keys, 0, &s);
    __syncthreads();  // all have read the stage that the next round writes
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t row = first_row + 16 * warp + lane / 4 + 8 * half;
      if (row >= num_rows) continue;
      const float lse = pass.lse[size_t{head} * num_rows + row], weight = WeightOf(args, row);
      const float norm = NormOf(args, head, row);
#pragma unroll
      for (uint32_t n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
        for (uint32_t i = 0; i < 2; ++i) {
          const Column column = ColumnOf(args.clusters, first + 8 * n + 2 * (lane % 4) + i, end);
          const float logit = LogitOf(args, s[n][2 * half + i], column, norm);
          of_columns[n][i] += weight * exp2f(logit - lse);
        }
      }
    }
  }
#pragma unroll
  for (uint32_t n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      float sum = of_columns[n][i];  // over the lanes of a column
      sum += __shfl_xor_sync(kAllLanes, sum, 4);
      sum += __shfl_xor_sync(kAllLanes, sum, 8);
      sum += __shfl_xor_sync(kAllLanes, sum, 16);
      if (lane < 4) sums[warp * kTileKeys + 8 * n + 2 * lane + i] = sum;
    }
  }
  __syncthreads();
  if (threadIdx.x < kTileKeys && first + threadIdx.x < end) {
    float score = 0;
#pragma unroll
    for (uint32_t w = 0; w < 4; ++w) score += sums[w * kTileKeys + threadIdx.x];
    StoreScore(args, head, first + threadIdx.x, score);
  }
}

// ---- Selected clusters -> rows -> items

// A block lists the rows of one kv head.
__global__ __launch_bounds__(kSelectThreads) void SelectRowsKernel(const CudaSelectRowsArgs args) {
  WaitForEarlierKernels();
  const uint32_t head = blockIdx.x, lane = threadIdx.x % kWarpSize;
  const HeadRows rows = args.heads[head];
  const uint32_t num_exact = rows.exact_end - rows.exact_begin;
  for (uint32_t i = threadIdx.x; i < num_exact; i += kSelectThreads) {
    args.rows[rows.list_begin + i] = rows.exact_begin + i;
  }
  auto* const of_warps = reinterpret_cast<uint32_t*>(SharedMemory());
  uint32_t listed = rows.list_begin + num_exact;
  const uint32_t end = args.cluster_begin[head + 1];
  for (uint32_t first = args.cluster_begin[head]; first < end;
       first += kSelectThreads * kSelectClusters) {
    uint32_t row[kSelectClusters] = {}, size[kSelectClusters] = {}, of_thread = 0, total = 0;
#pragma unroll
    for (uint32_t i = 0; i < kSelectClusters; ++i) {
      const uint32_t cluster = first + threadIdx.x * kSelectClusters + i;
      if (cluster >= end) continue;
      const bool is_selected = args.selected[cluster] != 0;
      if (is_selected) {
        row[i] = args.row_begin[cluster];
        size[i] = args.row_end[cluster] - row[i];
        of_thread += size[i];
      }
      if (args.tail_bias != nullptr) {
        args.tail_bias[cluster] = is_selected ? NegativeInfinity() : args.log_counts[cluster];
      }
    }
    uint32_t at = listed + BlockScan(of_thread, of_warps, total);
#pragma unroll
    for (uint32_t i = 0; i < kSelectClusters; ++i) {
      // The lanes of a warp write one cluster after the other together.
      for (uint32_t left = __ballot_sync(kAllLanes, size[i] > 0); left != 0; left &= left - 1) {
        const int from = __ffs(static_cast<int>(left)) - 1;
        const uint32_t its_row = __shfl_sync(kAllLanes, row[i], from);
        const uint32_t its_size = __shfl_sync(kAllLanes, size[i], from);
        const uint32_t its_place = __shfl_sync(kAllLanes, at, from);
        for (uint32_t k = lane; k < its_size; k += kWarpSize) {
          if (its_place + k < rows.list_end) args.rows[its_place + k] = its_row + k;
        }
      }
      at += size[i];
    }
    listed += total;
  }
  if (threadIdx.x == 0) args.counts[head] = min(listed, rows.list_end) - rows.list_begin;
}

}  // namespace

CudaStatus LaunchLookupMasses(CudaStreamHandle* stream, const CudaGrid& grid,
                              const CudaLookupPass& pass) {
  return ForShape(pass.lookup.queries, [&](auto type, auto width) {
    return Launch(stream, grid, "lookup_masses", MassesKernel<decltype(type), decltype(width)::value>,
                  pass);
  });
}
CudaStatus LaunchLookupScores(CudaStreamHandle* stream, const CudaGrid& grid,
                              const CudaLookupPass& pass) {
  return Launch(stream, grid, "lookup_scores", ScoresKernel, pass);
}
CudaStatus LaunchLookupParts(CudaStreamHandle* stream, const CudaGrid& grid,
                             const CudaLookupPass& pass) {
  return ForShape(pass.lookup.queries, [&](auto type, auto width) {
    return Launch(stream, grid, "lookup_parts", PartsKernel<decltype(type), decltype(width)::value>,
                  pass);
  });
}
CudaStatus LaunchLookupLse(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaLookupPass& pass) {
  return Launch(stream, grid, "lookup_lse", LseKernel, pass);
}
CudaStatus LaunchLookupSums(CudaStreamHandle* stream, const CudaGrid& grid,
                            const CudaLookupPass& pass) {
  return ForShape(pass.lookup.queries, [&](auto type, auto width) {
    return Launch(stream, grid, "lookup_sums", SumsKernel<decltype(type), decltype(width)::value>,
                  pass);
  });
}
CudaStatus LaunchSelectRows(CudaStreamHandle* stream, const CudaGrid& grid,
                            const CudaSelectRowsArgs& args) {
  return Launch(stream, grid, "select_rows", SelectRowsKernel, args);
}

}  // namespace lectern
