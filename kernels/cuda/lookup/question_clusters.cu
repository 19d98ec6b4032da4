// The first kernels of a question's lookup: they turn its queries into the form that codes are
// compared with, and score the clusters.
#include "kernels/cuda/lookup/question_lookup.cuh"
#include "kernels/cuda/lookup/row_rotation.cuh"

namespace lectern {
namespace {

// ---- Queries that choose, scaled and rotated, as tiles

// Where byte planes are met by tensor cores, lane t of four has bytes [t, t + 1) * kHeadDim / 32 of
// each row, in pairs: bit j of both bytes of pair p makes one register of step 4 p + j / 2, half
// j % 2 (primitives.cuh). This is the dimension that is then met at a column of the product.
template <uint32_t kHeadDim>
__device__ __forceinline__ uint32_t DimensionAt(uint32_t column) {
  const uint32_t step = column / 16, half = column / 8 % 2, lane = column % 8 / 2;
  const uint32_t byte = lane * (kHeadDim / 32) + step / 4 * 2 + column % 2;
  return 8 * byte + 2 * (step % 4) + half;
}

// Stores the scaled norm of a column's query; the first warp does it. Rotation does not change a
// norm.
__device__ __forceinline__ void StoreNorm(const QuestionPass& pass, uint32_t head, uint32_t column,
                                          bool is_query, const float* rotated) {
  if (pass.norms == nullptr || threadIdx.x >= kWarpSize) return;
  float squares = 0;
  for (uint32_t c = threadIdx.x; is_query && c < pass.lookup.queries.head_dim; c += kWarpSize) {
    squares += rotated[c] * rotated[c];
  }
  squares = LaneSum<kWarpSize>(squares);
  if (threadIdx.x == 0) pass.norms[size_t{head} * pass.num_columns + column] = sqrtf(squares);
}

// A column a block. Also what is 0 at first.
template <typename T, uint32_t kHeadDim>
__global__ __launch_bounds__(kTileThreads) void QuestionQueriesKernel(const QuestionPass pass) {
  WaitForEarlierKernels();
  const CudaQuestionLookupArgs& args = pass.lookup;
  const uint32_t column = blockIdx.x, head = blockIdx.y;
  const uint32_t block = head * gridDim.x + column, num_blocks = gridDim.x * gridDim.y;
  ClearWords(pass.zeroed, pass.num_zeroed, block, num_blocks);
  ClearWords(args.counts, gridDim.y, block, num_blocks);
  auto* const x = reinterpret_cast<float*>(SharedMemory());  // [head_dim]
  const bool is_query = column < args.num_chosen;
  if (is_query) {
    RotateQuery<T>(args.queries, head, args.chosen[column], args.scale, args.codes.rotation, x);
  }
  StoreNorm(pass, head, column, is_query, x);
  T* const to = static_cast<T*>(pass.tiles) + (size_t{head} * pass.num_columns + column) * kHeadDim;
  for (uint32_t i = threadIdx.x; i < kHeadDim; i += kTileThreads) {
    const uint32_t dimension = DimensionAt<kHeadDim>(i);
    to[i] = FromFloat<T>(is_query && dimension < args.queries.head_dim ? x[dimension] : 0);
  }
}

// ---- Clusters: log masses of groups for all queries; logits, and references, of those that choose

// The maximum and sum that a lane has of its two query rows' current group, times log2(e).
struct GroupState {
  float most[2], sum[2];
  __device__ __forceinline__ void Clear() {
    most[0] = most[1] = NegativeInfinity();
    sum[0] = sum[1] = 0;
  }
};
// Columns [begin, end) of a tile.
__device__ __forceinline__ void AddColumns(const float (&s)[kTileKeys / 8][4], uint32_t begin,
                                           uint32_t end, GroupState& state) {
  const uint32_t of_lane = 2 * (threadIdx.x % 4) - begin, size = end - begin;
  float most[2] = {state.most[0], state.most[1]}, sum[2] = {0, 0}, base[2];
#pragma unroll
  for (uint32_t n = 0; n < kTileKeys / 8; ++n) {
    if (8 * n + 8 <= begin || 8 * n >= end) continue;  // of the whole block
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const bool counts = 8 * n + of_lane + i % 2 < size;
      most[i / 2] = fmaxf(most[i / 2], counts ? s[n][i] : NegativeInfinity());
    }
  }
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    most[half] = LaneMax<4>(most[half]);
    base[half] = most[half] == NegativeInfinity() ? 0 : most[half];
  }
#pragma unroll
  for (uint32_t n = 0; n < kTileKeys / 8; ++n) {
    if (8 * n + 8 <= begin || 8 * n >= end) continue;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const bool counts = 8 * n + of_lane + i % 2 < size;
      sum[i / 2] += Exp2(counts ? s[n][i] - base[i / 2] : NegativeInfinity());
    }
  }
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    state.sum[half] = state.sum[half] * Exp2(state.most[half] - base[half]) + sum[half];
    state.most[half] = most[half];
  }
}
// Log masses, natural, of a warp's rows, to masses [kManyRows][kQuestionMassStride].
__device__ __forceinline__ void StoreGroup(const GroupState& state, uint32_t group, float* masses) {
  const uint32_t lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    const float sum = LaneSum<4>(state.sum[half]);
    if (lane % 4 != 0) continue;
    masses[(16 * warp + lane / 4 + 8 * half) * kQuestionMassStride + group] =
        sum > 0 ? (state.most[half] + log2f(sum)) * kLn2 : NegativeInfinity();
  }
}

// log(exp(known) + sum of all parts) of a tile's columns, by a block, of whose threads each half
// has half of the parts. `of_halves`: [2][kManyRows] of shared memory.
__device__ __forceinline__ void StoreReferences(const QuestionPass& pass, uint32_t head,
                                                uint32_t first_column, float2* of_halves) {
  constexpr uint32_t kHalves = kTileThreads / kManyRows;
  const uint32_t half = threadIdx.x / kManyRows, column = first_column + threadIdx.x % kManyRows;
  const size_t at = size_t{head} * pass.num_parts * pass.num_columns + column;
  float most = NegativeInfinity(), sum = 0;
  if (column < pass.num_columns) {
    AddStates<8>(pass.part_max + at, pass.part_sum + at, pass.num_columns, half, pass.num_parts,
                 kHalves, most, sum);
  }
  of_halves[threadIdx.x] = {most, sum};
  __syncthreads();
  if (half > 0 || column >= pass.num_columns) return;
  const float2 other = of_halves[kManyRows + threadIdx.x];
  const float known = KnownOf(pass, head, column), all = fmaxf(fmaxf(most, other.x), known);
  const float base = all == NegativeInfinity() ? 0 : all;
  sum = sum * expf(most - base) + other.y * expf(other.x - base) + expf(known - base);
  const bool is_query = column < pass.lookup.num_chosen && sum > 0;
  pass.references[size_t{head} * pass.num_columns + column] = is_query ? base + logf(sum) : 0;
}

// A tile of queries and the clusters of a part's groups. First all queries, then those that choose.
template <typename T, uint32_t kHeadDim>
__global__ __launch_bounds__(kTileThreads) void QuestionClustersKernel(const QuestionPass pass) {
  WaitForEarlierKernels();
  constexpr uint32_t kTile = kTileKeys * kHeadDim * 2;
  const CudaQuestionLookupArgs& args = pass.lookup;
  const DeviceRowCodes& codes = args.codes;
  const uint32_t head = blockIdx.z, first_group = blockIdx.y * kQuestionGroups;
  const uint32_t num_tiles = (pass.num_queries + kManyRows - 1) / kManyRows;
  const bool chooses = blockIdx.x >= num_tiles;
  const uint32_t first_row = (chooses ? blockIdx.x - num_tiles : blockIdx.x) * kManyRows;
  const uint32_t lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  unsigned char* const queries = MoreShared();
  unsigned char* const stages = queries + kManyRows * kHeadDim * 2;
  auto* const clusters = reinterpret_cast<ClusterKeys*>(stages + 2 * kTile);  // [2][kTileKeys]
  auto* const ends =
      reinterpret_cast<uint32_t*>(clusters + 2 * kTileKeys);  // [kQuestionGroups + 1]
  auto* const masses = reinterpret_cast<float*>(ends + kQuestionGroups + 4);

  for (uint32_t i = threadIdx.x; i < kManyRows * kQuestionMassStride; i += kTileThreads) {
    masses[i] = NegativeInfinity();
  }
  if (threadIdx.x <= kQuestionGroups) {
    const uint32_t group = min(first_group + threadIdx.x, codes.most_groups);
    ends[threadIdx.x] = codes.group_clusters[GroupOf(codes, head, group)];
  }
  __syncthreads();
  const uint32_t begin = ends[0], end = ends[kQuestionGroups];
  const uint32_t of_head = codes.cluster_begin[head];
  const auto copy_centroids = [&](uint32_t stage, uint32_t first) {
    CopyRows<kHeadDim, kTileKeys>(stages + stage * kTile, args.queries.head_dim, codes.centroids,
                                  [&](uint32_t r) -> const void* {
                                    if (first + r >= end) return nullptr;
                                    return static_cast<const uint16_t*>(codes.centroids) +
                                           size_t{of_head + first + r} * args.queries.head_dim;
                                  });
  };
  if (chooses) {
    const DeviceQueries& q = args.queries;
    CopyRows<kHeadDim, kManyRows>(queries, q.head_dim, q.data, [&](uint32_t r) -> const void* {
      if (first_row + r >= args.num_chosen) return nullptr;
      const uint32_t row = args.chosen[first_row + r];
      return static_cast<const uint16_t*>(q.data) + row / q.group * q.stride +
             (size_t{head} * q.group + row % q.group) * q.head_dim;
    });
  } else {
    CopyQueries<kHeadDim, kManyRows>(queries, args.queries, head, first_row);
  }
  if (begin < end) copy_centroids(0, begin);
  CommitCopies();
  float norms[2] = {0, 0};
  GroupState state;
  state.Clear();
  uint32_t stage = 0, group = 0;
  for (uint32_t key = begin; key < end; key += kTileKeys, stage ^= 1) {
    if (key + kTileKeys < end) copy_centroids(stage ^ 1, key + kTileKeys);
    CommitCopies();
    if (threadIdx.x < kTileKeys) {
      const uint32_t cluster = key + threadIdx.x;
      clusters[stage * kTileKeys + threadIdx.x] = KeysOf(codes, head, cluster);
    }
    WaitCopies<1>();
    __syncthreads();
    if (key == begin && codes.deviations != nullptr) {
      FindNorms<T, kHeadDim>(queries, 16 * warp + lane / 4, args.scale, norms);
    }
    float s[kTileKeys / 8][4] = {};
    TileProducts<T, kHeadDim, kTileKeys>(queries, 16 * warp, stages + stage * kTile, 0, &s);
#pragma unroll
    for (uint32_t n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) s[n][i] *= args.scale;
    }
    if (chooses) {
#pragma unroll
      for (uint32_t n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
          const uint32_t of_tile = 8 * n + 2 * (lane % 4) + i % 2;
          const uint32_t column = first_row + 16 * warp + lane / 4 + 8 * (i / 2);
          if (column >= pass.num_columns || key + of_tile >= end) continue;
          pass.centroid_logits[(size_t{head} * codes.most_clusters + key + of_tile) *
                                   pass.num_columns +
                               column] = s[n][i];
        }
      }
    }
    if (codes.deviations != nullptr) {
#pragma unroll
      for (uint32_t n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
        for (uint32_t i = 0; i < 2; ++i) {
          const ClusterKeys cluster = clusters[stage * kTileKeys + 8 * n + 2 * (lane % 4) + i];
#pragma unroll
          for (uint32_t half = 0; half < 2; ++half) {
            s[n][2 * half + i] = KeysLogit(codes, s[n][2 * half + i], cluster, norms[half]);
          }
        }
      }
    }
    SoftcapAll(pass, s);
#pragma unroll
    for (uint32_t n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t of_tile = 8 * n + 2 * (lane % 4) + i % 2;
        s[n][i] = (s[n][i] + clusters[stage * kTileKeys + of_tile].log_count) * kLog2E;
      }
    }
    while (group < kQuestionGroups && ends[group] < key + kTileKeys) {  // of the whole block
      const uint32_t from = max(ends[group], key), to = min(ends[group + 1], key + kTileKeys);
      if (from < to) AddColumns(s, from - key, to - key, state);
      if (ends[group + 1] > key + kTileKeys) break;
      StoreGroup(state, group, masses);
      state.Clear();
      ++group;
    }
    __syncthreads();  // all have read the stage that the next round writes
  }
  WaitCopies<0>();
  __syncthreads();
  const uint32_t num_groups = min(kQuestionGroups, codes.most_groups - first_group);
  if (!chooses) {
    for (uint32_t i = threadIdx.x; i < kManyRows * kQuestionGroups; i += kTileThreads) {
      const uint32_t row = i / kQuestionGroups, of_part = i % kQuestionGroups;
      if (first_row + row >= pass.num_queries || of_part >= num_groups) continue;
      const size_t query = size_t{head} * pass.num_queries + first_row + row;
      args.tail[query * codes.most_groups + first_group + of_part] =
          masses[row * kQuestionMassStride + of_part];
    }
    return;
  }
  const uint32_t column = first_row + threadIdx.x;
  if (threadIdx.x < kManyRows && column < pass.num_columns) {
    const float* const of_row = masses + threadIdx.x * kQuestionMassStride;
    float most = NegativeInfinity(), sum = 0;
    for (uint32_t g = 0; g < num_groups; ++g) most = fmaxf(most, of_row[g]);
    const float base = most == NegativeInfinity() ? 0 : most;
    for (uint32_t g = 0; g < num_groups; ++g) sum += expf(of_row[g] - base);
    const size_t at = (size_t{head} * pass.num_parts + blockIdx.y) * pass.num_columns + column;
    pass.part_max[at] = most;
    pass.part_sum[at] = sum;
  }
  uint32_t* const counter =
      pass.reference_counts + size_t{head} * (gridDim.x - num_tiles) + first_row / kManyRows;
  if (!IsLastBlock(counter, gridDim.y, &Shared().is_last)) return;
  StoreReferences(pass, head, first_row, reinterpret_cast<float2*>(masses));
}

// ---- Launches

template <typename T, uint32_t kHeadDim, uint32_t kColumns>
struct QuestionQueries {
  static constexpr QuestionFunction kFunction = QuestionQueriesKernel<T, kHeadDim>;
};
template <typename T, uint32_t kHeadDim, uint32_t kColumns>
struct QuestionClusters {
  static constexpr QuestionFunction kFunction = QuestionClustersKernel<T, kHeadDim>;
};

}  // namespace

CudaStatus LaunchQuestionQueries(CudaStreamHandle* stream, const CudaGrid& grid,
                                 const CudaQuestionLookupPass& pass) {
  return ForQuestion<QuestionQueries>::Run(stream, grid, "question_queries", pass);
}
CudaStatus LaunchQuestionClusters(CudaStreamHandle* stream, const CudaGrid& grid,
                                  const CudaQuestionLookupPass& pass) {
  return ForQuestion<QuestionClusters>::Run(stream, grid, "question_clusters", pass);
}

}  // namespace lectern
