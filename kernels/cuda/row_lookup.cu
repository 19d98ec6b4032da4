#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/primitives.cuh"
#include "kernels/cuda/row_lookup_geometry.h"
#include "kernels/cuda/row_select.cuh"

namespace lectern {
namespace {

constexpr uint32_t kSignBlockRows = 32;  // rows whose planes are packed together
static_assert(kRowHeadCounters * kRowQueries >= kMostLookupQueries);
__device__ __forceinline__ float* LogitsOf(const CudaRowLookupPass& pass, uint32_t head,
                                           uint32_t query) {
  return pass.logits + (size_t{head} * pass.num_queries + query) * Stride(pass.select);
}
__device__ __forceinline__ float Softcapped(const CudaRowLookupArgs& args, float logit) {
  return args.softcap > 0 ? args.softcap * tanhf(logit / args.softcap) : logit;
}

// The tables of `count` query rows of a head from `first` on, into shared memory: [kRowQueries of
// them at a time][bytes of a plane][kTableWords].
__device__ __forceinline__ const unsigned char* LoadTables(const CudaRowLookupPass& pass,
                                                           uint32_t head, uint32_t first,
                                                           uint32_t count) {
  const uint32_t num_entries = pass.lookup.codes.plane_bytes * kTableWords;  // of a query row
  const uint8_t* const from =
      pass.tables + (size_t{head} * pass.num_queries + first) * num_entries;
  auto* const to = reinterpret_cast<uint32_t*>(MoreShared());
  for (uint32_t i = threadIdx.x; i < (count + kRowQueries - 1) / kRowQueries * num_entries;
       i += kRowThreads) {
    const uint32_t query = i / num_entries * kRowQueries;
    uint32_t word = 0;
#pragma unroll
    for (uint32_t q = 0; q < kRowQueries; ++q) {
      if (query + q < count) word |= from[(query + q) * num_entries + i % num_entries] << (8 * q);
    }
    to[i] = word;
  }
  __syncthreads();
  return MoreShared();
}
// Bits of four bytes in two parts, each a place in a table: as bytes.
struct Nibbles {
  uint32_t low, high;
  __device__ __forceinline__ explicit Nibbles(uint32_t bytes)
      : low(bytes << 2 & 0x3C3C3C3C), high(bytes >> 2 & 0x3C3C3C3C) {}
  // Of byte i: of each query row a byte.
  __device__ __forceinline__ uint32_t Entries(const unsigned char* table, uint32_t i) const {
    const unsigned char* const lower = table + (low >> (8 * i) & 0xFF);
    const unsigned char* const upper = table + kTableWords / 2 * 4 + (high >> (8 * i) & 0xFF);
    return *reinterpret_cast<const uint32_t*>(lower) + *reinterpret_cast<const uint32_t*>(upper);
  }
};
constexpr uint32_t kTableBytes = kTableWords * 4;
static_assert(4 * kLargestEntry <= 0xFF, "entries of two bytes are summed as bytes");
// Sums of kRowQueries query rows, 16 bits each: of all entries of three planes at most.
struct QuerySums {
  static constexpr uint32_t kMostPlaneBytes = 32;
  static_assert(kRowQueries == 4 && 7 * 2 * kMostPlaneBytes * kLargestEntry <= kLargestSum);
  uint32_t even = 0, odd = 0;
  __device__ __forceinline__ void Add(uint32_t entries, uint32_t times) {
    even += times * (entries & 0x00FF00FF);
    odd += times * (entries >> 8 & 0x00FF00FF);
  }
  __device__ __forceinline__ float Of(uint32_t query) const {
    return static_cast<float>((query % 2 == 0 ? even : odd) >> (query / 2 * 16) & 0xFFFF);
  }
};

// ---- States of a head's masses

// Of a tile, with some query rows.
template <uint32_t kQueries>
__device__ void StoreStates(const CudaRowLookupPass& pass, uint32_t head, uint32_t tile,
                            uint32_t first_query, uint32_t num_queries, uint32_t count,
                            const float (&logits)[kQueries][kRowsPerThread]) {
  RowShared& shared = Shared();
  const uint32_t lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
#pragma unroll
  for (uint32_t q = 0; q < kQueries; ++q) {
    if (q >= num_queries) continue;
    float most = NegativeInfinity();
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      if (i < count) most = fmaxf(most, logits[q][i]);
    }
    most = LaneMax<kWarpSize>(most);
    if (lane == 0) shared.maxima[q][warp] = most;
  }
  __syncthreads();
#pragma unroll
  for (uint32_t q = 0; q < kQueries; ++q) {
    if (q >= num_queries) continue;
    float most = shared.maxima[q][0];
    for (uint32_t w = 1; w < kRowWarps; ++w) most = fmaxf(most, shared.maxima[q][w]);
    const float base = most == NegativeInfinity() ? 0 : most;
    float sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      if (i < count) sum += expf(logits[q][i] - base);
    }
    sum = LaneSum<kWarpSize>(sum);
    if (lane == 0) shared.sums[q][warp] = sum;
    if (threadIdx.x == q) {
      const size_t query = size_t{head} * pass.num_queries + first_query + q;
      pass.tile_max[query * pass.select.num_tiles + tile] = most;
    }
  }
  __syncthreads();
  if (threadIdx.x < num_queries) {
    float sum = 0;
    for (uint32_t w = 0; w < kRowWarps; ++w) sum += shared.sums[threadIdx.x][w];
    const size_t query = size_t{head} * pass.num_queries + first_query + threadIdx.x;
    pass.tile_sum[query * pass.select.num_tiles + tile] = sum;
  }
  __syncthreads();  // all have read what the next states are written to
}

// Of all tiles, which other blocks wrote, and of what is known besides. By all threads of a block.
__device__ void StoreLse(const CudaRowLookupPass& pass, uint32_t head, uint32_t num_tiles,
                         uint32_t of_head) {
  const size_t query = size_t{head} * pass.num_queries + of_head;
  auto* const of_warps = reinterpret_cast<float*>(Shared().of_warps);
  const float* const maxima = pass.tile_max + query * pass.select.num_tiles;
  const float* const sums = pass.tile_sum + query * pass.select.num_tiles;
  const float known =
      pass.lookup.known_lse != nullptr ? pass.lookup.known_lse[query] : NegativeInfinity();
  float most = known;
  for (uint32_t i = threadIdx.x; i < num_tiles; i += kRowThreads) {
    most = fmaxf(most, __ldcg(maxima + i));
  }
  most = BlockMax(most, of_warps);
  float sum = 0;
  for (uint32_t i = threadIdx.x; i < num_tiles; i += kRowThreads) {
    const float of_tile = __ldcg(maxima + i);
    if (of_tile > NegativeInfinity()) sum += __ldcg(sums + i) * expf(of_tile - most);
  }
  sum = BlockSum(sum, of_warps);
  if (threadIdx.x > 0) return;
  if (known > NegativeInfinity()) sum += expf(known - most);
  pass.lookup.lse[query] = sum > 0 ? most + logf(sum) : NegativeInfinity();
}

// ---- Logits of rows with some query rows, by row codes; the last block of a head finds the LSEs

// Of a thread's rows. kQueries: of a block.
template <uint32_t kQueries>
__device__ __forceinline__ void FindLogits(const CudaRowLookupPass& pass, uint32_t head,
                                           uint32_t first_query, uint32_t num_queries,
                                           const ThreadRows& rows, const unsigned char* tables,
                                           float (&logits)[kQueries][kRowsPerThread]) {
  const DeviceRowCodes& codes = pass.lookup.codes;
  const size_t row = size_t{codes.row_begin[head]} + rows.first;
  const unsigned char* const plane = codes.planes +
                                     row / kSignBlockRows * kSignBlockRows * codes.plane_bytes +
                                     row % kSignBlockRows;
  uint32_t clusters[kRowsPerThread];
  float factors[kRowsPerThread];
  LoadFour(codes.clusters + row, clusters);
  LoadFour(codes.factors + row, factors);
  QuerySums sums[kRowsPerThread];
  constexpr uint32_t kAtOnce = 8;  // words that are under way together
  for (uint32_t first = 0; first < codes.plane_bytes; first += kAtOnce) {
    uint32_t bits[kAtOnce];
#pragma unroll
    for (uint32_t k = 0; k < kAtOnce; ++k) {
      const bool is_byte = first + k < codes.plane_bytes;
      bits[k] =
          is_byte ? *reinterpret_cast<const uint32_t*>(plane + (first + k) * kSignBlockRows) : 0;
    }
#pragma unroll
    for (uint32_t k = 0; k < kAtOnce; k += 2) {
      if (first + k >= codes.plane_bytes) continue;
      const bool is_pair = first + k + 1 < codes.plane_bytes;
      const Nibbles of_rows(bits[k]), next_of_rows(bits[k + 1]);
      const unsigned char* const table = tables + (first + k) * kTableBytes;
#pragma unroll
      for (uint32_t i = 0; i < kRowsPerThread; ++i) {
        uint32_t entries = of_rows.Entries(table, i);
        if (is_pair) entries += next_of_rows.Entries(table + kTableBytes, i);
        sums[i].Add(entries, 1);
      }
    }
  }
  const size_t query = size_t{head} * pass.num_queries + first_query;
#pragma unroll
  for (uint32_t q = 0; q < kQueries; ++q) {
    if (q >= num_queries) continue;
    const float step = pass.scales[2 * (query + q)], offset = pass.scales[2 * (query + q) + 1];
    const float* const centroids = pass.centroid_logits + (query + q) * codes.most_clusters;
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      if (i >= rows.count) continue;
      const float dot = step * sums[i].Of(q) + offset;
      logits[q][i] = Softcapped(pass.lookup, centroids[clusters[i]] + factors[i] * dot);
    }
  }
}

// Blocks of a head take its tiles in turn.
template <uint32_t kQueries>
__global__ __launch_bounds__(kRowThreads) void LogitsKernel(const CudaRowLookupPass pass) {
  WaitForEarlierKernels();
  const uint32_t head = blockIdx.y, first_query = blockIdx.z * kQueries;
  const uint32_t num_queries = min(kQueries, pass.num_queries - first_query);
  const uint32_t num_rows = pass.lookup.codes.num_rows[head], num_tiles = TilesOf(num_rows);
  const unsigned char* const tables = LoadTables(pass, head, first_query, num_queries);
  for (uint32_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    const ThreadRows rows = RowsOf(tile, num_rows);
    float logits[kQueries][kRowsPerThread] = {};
    if (rows.count > 0) {
      FindLogits<kQueries>(pass, head, first_query, num_queries, rows, tables, logits);
#pragma unroll
      for (uint32_t q = 0; q < kQueries; ++q) {
        if (q < num_queries)
          StoreFour(logits[q], LogitsOf(pass, head, first_query + q) + rows.first);
      }
    }
    StoreStates<kQueries>(pass, head, tile, first_query, num_queries, rows.count, logits);
  }
  if (!IsLastBlock(CounterOf(pass.select, head, blockIdx.z), gridDim.x, &Shared().is_last)) return;
  for (uint32_t q = 0; q < num_queries; ++q) StoreLse(pass, head, num_tiles, first_query + q);
}

// ---- Scores, by what was found so far

// Scores, and their highest digits. Blocks of a head take its tiles in turn.
__global__ __launch_bounds__(kRowThreads) void ScoresKernel(const CudaRowLookupPass pass) {
  WaitForEarlierKernels();
  const CudaRowLookupArgs& args = pass.lookup;
  const uint32_t head = blockIdx.y, num_rows = NumRows(pass.select, head), num_tiles = TilesOf(num_rows);
  uint32_t* const digits = ClearDigits(MoreShared());
  const float* const lse = args.lse + size_t{head} * pass.num_queries;
  const float equal_weight = 1.0f / static_cast<float>(pass.num_queries);
  for (uint32_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    const ThreadRows of_thread = RowsOf(tile, num_rows);
    const auto [first, count] = of_thread;
    if (count == 0) continue;
    uint32_t rows[kRowsPerThread] = {};
    if (pass.select.is_refined > 0) LoadRefined(pass.select, head, of_thread, rows);
    float scores[kRowsPerThread] = {};
    for (uint32_t q = 0; q < pass.num_queries; ++q) {
      const float weight = args.row_weights != nullptr ? args.row_weights[q] : equal_weight;
      if (!(weight > 0)) continue;
      const float* const of_query = LogitsOf(pass, head, q);
      float logits[kRowsPerThread] = {};
      if (pass.select.is_refined == 0) LoadFour(of_query + first, logits);
#pragma unroll
      for (uint32_t i = 0; i < kRowsPerThread; ++i) {
        if (i >= count) continue;
        const float logit = pass.select.is_refined == 0 ? logits[i] : of_query[rows[i]];
        scores[i] += weight * expf(logit - lse[q]);
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      scores[i] = ToScore(scores[i]);
      if (i < count) atomicAdd(digits + (Bits(scores[i]) >> RowDigitShift(0)), 1u);
    }
    StoreFour(scores, ScoresOf(pass.select, head) + first);
  }
  AddDigits(pass.select, digits);
}

// ---- The best rows by row codes get the logits of their fine codes

// Logits of one row, which counts from its head's first, with all query rows.
__device__ __forceinline__ void StoreFineLogits(const CudaRowLookupPass& pass, uint32_t head,
                                                uint32_t of_head, const unsigned char* tables) {
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t bytes = codes.plane_bytes;
  const size_t row = size_t{codes.row_begin[head]} + of_head;
  const uint8_t* const planes = codes.fine_planes + row * 3 * bytes;
  const float factor = codes.fine_factors[row];
  const uint32_t cluster = codes.clusters[row];
  const bool is_by_four =
      bytes % 16 == 0 && reinterpret_cast<uintptr_t>(codes.fine_planes) % 16 == 0;
  for (uint32_t first = 0; first < pass.num_queries; first += kRowQueries) {
    QuerySums sums;
    const unsigned char* const table = tables + first / kRowQueries * bytes * kTableBytes;
    // Of four bytes, or one, of each plane.
    const auto add = [&](uint32_t b, const uint32_t(&bits)[3], uint32_t count) {
#pragma unroll
      for (uint32_t p = 0; p < 3; ++p) {
        const Nibbles of_plane(bits[p]);
#pragma unroll
        for (uint32_t i = 0; i < 4; i += 2) {
          if (i >= count) continue;
          uint32_t entries = of_plane.Entries(table + (b + i) * kTableBytes, i);
          if (i + 1 < count) entries += of_plane.Entries(table + (b + i + 1) * kTableBytes, i + 1);
          sums.Add(entries, p == 0 ? 4 : p);
        }
      }
    };
    if (bytes % 4 == 0) {              // words, as rows are then aligned to them
      constexpr uint32_t kAtOnce = 4;  // of each plane under way together
      const auto* const words = reinterpret_cast<const uint32_t*>(planes);
      for (uint32_t w = 0; w < bytes / 4; w += kAtOnce) {
        uint32_t bits[kAtOnce][3];
        if (is_by_four) {
#pragma unroll
          for (uint32_t p = 0; p < 3; ++p) {
            const auto four = *reinterpret_cast<const uint4*>(words + p * (bytes / 4) + w);
            bits[0][p] = four.x, bits[1][p] = four.y, bits[2][p] = four.z, bits[3][p] = four.w;
          }
        } else {
#pragma unroll
          for (uint32_t p = 0; p < 3; ++p) {
#pragma unroll
            for (uint32_t k = 0; k < kAtOnce; ++k) {
              bits[k][p] = w + k < bytes / 4 ? words[p * (bytes / 4) + w + k] : 0;
            }
          }
        }
#pragma unroll
        for (uint32_t k = 0; k < kAtOnce; ++k) {
          if (w + k < bytes / 4) add(4 * (w + k), bits[k], 4);
        }
      }
    } else {
      for (uint32_t b = 0; b < bytes; ++b) {
        add(b, {planes[b], planes[bytes + b], planes[2 * bytes + b]}, 1);
      }
    }
#pragma unroll
    for (uint32_t q = 0; q < kRowQueries; ++q) {
      if (first + q >= pass.num_queries) continue;
      const size_t query = size_t{head} * pass.num_queries + first + q;
      const float dot =
          pass.scales[2 * query] * sums.Of(q) + 7 * pass.scales[2 * query + 1];
      const float centroid = pass.centroid_logits[query * codes.most_clusters + cluster];
      LogitsOf(pass, head, first + q)[of_head] = Softcapped(pass.lookup, centroid + factor * dot);
    }
  }
}

// Of each tile the best rows are numbered, then shared out to the threads; where there are any, its
// states are made anew. Blocks of a head take its tiles in turn.
__global__ __launch_bounds__(kRowThreads) void RefineKernel(const CudaRowLookupPass pass) {
  WaitForEarlierKernels();
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t head = blockIdx.y, num_rows = codes.num_rows[head], num_tiles = TilesOf(num_rows);
  const unsigned char* const tables = LoadTables(pass, head, 0, pass.num_queries);
  auto* const listed = reinterpret_cast<uint32_t*>(
      MoreShared() + RowTableBytes(pass.num_queries, codes.plane_bytes));  // [kRowTile]
  for (uint32_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    const ThreadRows rows = RowsOf(tile, num_rows);
    const BestRows best = FindBest(pass.select, head, tile, rows);
    uint32_t num_best = 0, total = 0;
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) num_best += best.is_best[i] ? 1 : 0;
    uint32_t in_tile = BlockScan(num_best, Shared().of_warps, total);
    uint32_t* refined = RefinedOf(pass.select, head) + best.at;
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      if (!best.is_best[i]) continue;
      listed[in_tile++] = rows.first + i;
      *refined++ = rows.first + i;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < total; i += kRowThreads) {
      StoreFineLogits(pass, head, listed[i], tables);
    }
    __syncthreads();
    for (uint32_t first = 0; total > 0 && first < pass.num_queries; first += kRowQueries) {
      const uint32_t num_queries = min(kRowQueries, pass.num_queries - first);
      float logits[kRowQueries][kRowsPerThread] = {};
#pragma unroll
      for (uint32_t q = 0; q < kRowQueries; ++q) {
        if (q < num_queries && rows.count > 0) {
          LoadFour(LogitsOf(pass, head, first + q) + rows.first, logits[q]);
        }
      }
      StoreStates<kRowQueries>(pass, head, tile, first, num_queries, rows.count, logits);
    }
  }
  if (!IsLastBlock(CounterOf(pass.select, head), gridDim.x, &Shared().is_last)) return;
  for (uint32_t q = 0; q < pass.num_queries; ++q) StoreLse(pass, head, num_tiles, q);
}

// ---- The list, and what is left

// Of all groups, which other blocks wrote. By all threads of a block.
__device__ void StoreTailLse(const CudaRowLookupPass& pass, size_t query) {
  const uint32_t num_groups = pass.lookup.codes.most_groups;
  auto* const of_warps = reinterpret_cast<float*>(Shared().of_warps);
  const float* const tail = pass.lookup.tail + query * num_groups;
  float most = NegativeInfinity(), sum = 0;
  for (uint32_t g = threadIdx.x; g < num_groups; g += kRowThreads) {
    most = fmaxf(most, __ldcg(tail + g));
  }
  most = BlockMax(most, of_warps);
  const float base = most == NegativeInfinity() ? 0 : most;
  for (uint32_t g = threadIdx.x; g < num_groups; g += kRowThreads) {
    sum += expf(__ldcg(tail + g) - base);
  }
  sum = BlockSum(sum, of_warps);
  if (threadIdx.x == 0) pass.lookup.tail_lse[query] = base + logf(sum);
}

// A warp a group: the log mass of those of its rows that are not listed.
__global__ __launch_bounds__(kRowThreads) void TailKernel(const CudaRowLookupPass pass) {
  WaitForEarlierKernels();
  const CudaRowLookupArgs& args = pass.lookup;
  const DeviceRowCodes& codes = args.codes;
  const uint32_t head = blockIdx.y, lane = threadIdx.x % kWarpSize;
  const uint32_t group = blockIdx.x * kRowWarps + threadIdx.x / kWarpSize;
  const float* const scores = pass.select.scores + head * Stride(pass.select);
  for (uint32_t q = 0; group < codes.most_groups && q < pass.num_queries; ++q) {
    const uint32_t* const begins =
        codes.group_begin + size_t{head} * (codes.most_groups + 1) + group;
    const uint32_t end = begins[1];
    const size_t query = size_t{head} * pass.num_queries + q;
    const float* const logits = LogitsOf(pass, head, q);
    const float lse = args.lse[query];
    float sum = 0;
#pragma unroll 4
    for (uint32_t row = begins[0] + lane; row < end; row += kWarpSize) {
      const float logit = logits[row];  // whether it counts or not: nothing waits for the score
      sum += scores[row] >= 0 ? expf(logit - lse) : 0;
    }
    sum = LaneSum<kWarpSize>(sum);
    if (lane == 0) {
      args.tail[query * codes.most_groups + group] = sum > 0 ? lse + logf(sum) : NegativeInfinity();
    }
  }
  if (args.tail_lse == nullptr) return;
  if (!IsLastBlock(CounterOf(pass.select, head), gridDim.x, &Shared().is_last)) return;
  for (uint32_t q = 0; q < pass.num_queries; ++q) {
    StoreTailLse(pass, size_t{head} * pass.num_queries + q);
  }
}

}  // namespace

CudaStatus LaunchRowLogits(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_logits",
                pass.num_queries == 1 ? LogitsKernel<1> : LogitsKernel<kRowQueries>, pass);
}
CudaStatus LaunchRowScores(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_scores", ScoresKernel, pass);
}
CudaStatus LaunchRowRefine(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_refine", RefineKernel, pass);
}
CudaStatus LaunchRowTail(CudaStreamHandle* stream, const CudaGrid& grid,
                         const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_tail", TailKernel, pass);
}

}  // namespace lectern
