#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/row_lookup_geometry.h"
#include "kernels/cuda/tile.cuh"

namespace lectern {
namespace {

constexpr uint32_t kSignBlockRows = 32;  // rows whose planes are packed together
constexpr uint32_t kWarps = kRowThreads / kWarpSize;

__device__ __forceinline__ size_t Stride(const CudaRowLookupPass& pass) {
  return size_t{pass.num_tiles} * kRowTile;
}
__device__ __forceinline__ float* LogitsOf(const CudaRowLookupPass& pass, uint32_t head,
                                           uint32_t query) {
  return pass.logits + (size_t{head} * pass.num_queries + query) * Stride(pass);
}
__device__ __forceinline__ float* ScoresOf(const CudaRowLookupPass& pass, uint32_t head) {
  return pass.scores + head * Stride(pass);
}
// Of scores, which are not below 0, in their order.
__device__ __forceinline__ uint32_t Bits(float score) {
  return static_cast<uint32_t>(__float_as_int(score));
}

__device__ __forceinline__ float Softcapped(const CudaRowLookupArgs& args, float logit) {
  return args.softcap > 0 ? args.softcap * tanhf(logit / args.softcap) : logit;
}

// The tables of `count` query rows of a head from `first` on, into shared memory.
__device__ __forceinline__ const unsigned char* LoadTables(const CudaRowLookupPass& pass,
                                                           uint32_t head, uint32_t first,
                                                           uint32_t count) {
  const uint32_t table_bytes = pass.lookup.codes.plane_bytes * 32;
  const size_t query = size_t{head} * pass.num_queries + first;
  const auto* const from = reinterpret_cast<const uint32_t*>(pass.tables + query * table_bytes);
  for (uint32_t i = threadIdx.x; i < count * table_bytes / 4; i += kRowThreads) {
    reinterpret_cast<uint32_t*>(SharedMemory())[i] = from[i];
  }
  __syncthreads();
  return SharedMemory();
}

// Largest table entry for which no sum overflows: kernels/sign_logits.cc.
constexpr uint32_t kLargestEntry = 63, kLargestSum = 65535;

// H of index/row_codes.h, in place, by all threads: the signs of one round, and the transform.
__device__ __forceinline__ void SignsAndHadamard(float* x, uint32_t size, const uint32_t* signs) {
  for (uint32_t c = threadIdx.x; c < size; c += kRowTableThreads) {
    if (signs[c / 32] >> (c % 32) & 1) x[c] = -x[c];
  }
  for (uint32_t half = 1; half < size; half *= 2) {
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < size / 2; i += kRowTableThreads) {
      const uint32_t c = i / half * 2 * half + i % half;
      const float a = x[c], b = x[c + half];
      x[c] = a + b;
      x[c + half] = a - b;
    }
  }
  __syncthreads();
  const float scale = 1 / sqrtf(static_cast<float>(size));
  for (uint32_t c = threadIdx.x; c < size; c += kRowTableThreads) x[c] *= scale;
  __syncthreads();
}

// A block a query row: scaled, rotated, and made into tables as MakeSignTables does it.
template <typename T>
__global__ __launch_bounds__(kRowTableThreads) void TablesKernel(const CudaRowLookupPass pass) {
  const DeviceQueries& queries = pass.lookup.queries;
  const uint32_t row = blockIdx.x, head = blockIdx.y, dim = queries.head_dim;
  const uint32_t num_groups = dim / 4;
  auto* const x = reinterpret_cast<float*>(SharedMemory());  // [dim]
  float* const widths = x + dim;                             // [num_groups]
  const T* const query = static_cast<const T*>(queries.data) +
                         row / queries.group * queries.stride +
                         (size_t{head} * queries.group + row % queries.group) * dim;
  for (uint32_t c = threadIdx.x; c < dim; c += kRowTableThreads) {
    x[c] = pass.lookup.scale * ToFloat(query[c]);
  }
  __syncthreads();
  uint32_t power = 1;
  while (2 * power <= dim) power *= 2;
  const uint32_t* const signs = pass.lookup.codes.rotation;
  SignsAndHadamard(x, power, signs);
  SignsAndHadamard(x + dim - power, power, signs + (dim + 31) / 32);
  for (uint32_t g = threadIdx.x; g < num_groups; g += kRowTableThreads) {
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
  for (uint32_t i = threadIdx.x; i < num_groups * 16; i += kRowTableThreads) {
    const float* const of_group = x + i / 16 * 4;
    float above_least = 0;  // the least sum has every sign against its query
    for (uint32_t k = 0; k < 4; ++k) above_least += 2 * fmaxf(0.0f, -of_group[k]);
    for (uint32_t k = 0; k < 4; ++k) {
      if (i >> k & 1) above_least += 2 * of_group[k];
    }
    table[i] = static_cast<uint8_t>(fmaxf(0.0f, above_least) / step + 0.5f);
  }
}

// A tile of centroids a block, a quarter of it a warp.
template <typename T, uint32_t kHeadDim>
__global__ __launch_bounds__(kTileThreads) void CentroidsKernel(const CudaRowLookupPass pass) {
  constexpr uint32_t kWarpCentroids = kRowTileCentroids / 4;
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t head = blockIdx.y, first = blockIdx.x * kRowTileCentroids;
  const uint32_t begin = codes.cluster_begin[head], count = codes.cluster_begin[head + 1] - begin;
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
  WaitCopies<0>();
  __syncthreads();
  float s[kWarpCentroids / 8][4] = {};
  TileProducts<T, kHeadDim, kWarpCentroids>(queries, 0, centroids, warp * kWarpCentroids, s);
#pragma unroll
  for (uint32_t n = 0; n < kWarpCentroids / 8; ++n) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = lane / 4 + 8 * (i / 2);
      const uint32_t cluster = first + warp * kWarpCentroids + 8 * n + 2 * (lane % 4) + i % 2;
      if (row >= pass.num_queries || cluster >= count) continue;
      const size_t query = size_t{head} * pass.num_queries + row;
      pass.centroid_logits[query * codes.most_clusters + cluster] = pass.lookup.scale * s[n][i];
    }
  }
}

// Logits of a tile of rows with some query rows, by row codes.
__global__ __launch_bounds__(kRowThreads) void LogitsKernel(const CudaRowLookupPass pass) {
  const CudaRowLookupArgs& args = pass.lookup;
  const DeviceRowCodes& codes = args.codes;
  const uint32_t head = blockIdx.y, first_query = blockIdx.z * kRowQueries;
  const uint32_t num_queries = min(kRowQueries, pass.num_queries - first_query);
  const uint32_t table_bytes = codes.plane_bytes * 32;
  const unsigned char* const tables = LoadTables(pass, head, first_query, num_queries);
  const uint32_t num_rows = codes.num_rows[head];
  const uint32_t first = blockIdx.x * kRowTile + threadIdx.x * kRowsPerThread;
  if (first >= num_rows) return;
  const uint32_t count = min(kRowsPerThread, num_rows - first);
  const size_t row = size_t{codes.row_begin[head]} + first;
  uint32_t sums[kRowQueries][kRowsPerThread] = {};
  const unsigned char* const plane = codes.planes +
                                     row / kSignBlockRows * kSignBlockRows * codes.plane_bytes +
                                     row % kSignBlockRows;
  for (uint32_t b = 0; b < codes.plane_bytes; ++b) {
    const uint32_t bits = *reinterpret_cast<const uint32_t*>(plane + b * kSignBlockRows);
#pragma unroll
    for (uint32_t q = 0; q < kRowQueries; ++q) {
      if (q >= num_queries) continue;
      const unsigned char* const table = tables + q * table_bytes + b * 32;
#pragma unroll
      for (uint32_t i = 0; i < kRowsPerThread; ++i) {
        const uint32_t byte = bits >> (8 * i) & 0xFF;
        sums[q][i] += static_cast<uint32_t>(table[byte & 15] + table[16 + (byte >> 4)]);
      }
    }
  }
  const size_t query = size_t{head} * pass.num_queries + first_query;
#pragma unroll
  for (uint32_t q = 0; q < kRowQueries; ++q) {
    if (q >= num_queries) continue;
    const float step = pass.scales[2 * (query + q)], offset = pass.scales[2 * (query + q) + 1];
    const float* const centroids = pass.centroid_logits + (query + q) * codes.most_clusters;
    float* const logits = LogitsOf(pass, head, first_query + q);
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      if (i >= count) continue;
      const float dot = step * static_cast<float>(sums[q][i]) + offset;
      logits[first + i] =
          Softcapped(args, centroids[codes.clusters[row + i]] + codes.factors[row + i] * dot);
    }
  }
}

// The states of a tile's masses.
__global__ __launch_bounds__(kRowThreads) void StatesKernel(const CudaRowLookupPass pass) {
  const uint32_t head = blockIdx.y, num_rows = pass.lookup.codes.num_rows[head];
  auto* const of_warps = reinterpret_cast<float*>(SharedMemory());
  for (uint32_t q = 0; q < pass.num_queries; ++q) {
    const float* const logits = LogitsOf(pass, head, q) + size_t{blockIdx.x} * kRowTile;
    float of_rows[kRowsPerThread] = {}, most = NegativeInfinity(), sum = 0;
    uint32_t count = 0;
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      const uint32_t row = i * kRowThreads + threadIdx.x;
      if (blockIdx.x * kRowTile + row >= num_rows) continue;
      of_rows[i] = logits[row];
      most = fmaxf(most, of_rows[i]);
      count = i + 1;
    }
    most = BlockMax(most, of_warps);
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      if (i < count) sum += expf(of_rows[i] - most);
    }
    sum = BlockSum(sum, of_warps + kWarps);
    if (threadIdx.x > 0) continue;
    const size_t tile = (size_t{head} * pass.num_queries + q) * pass.num_tiles + blockIdx.x;
    pass.tile_max[tile] = most;
    pass.tile_sum[tile] = sum;
  }
}

// A block a query row: of its tiles, and of what is known besides.
__global__ __launch_bounds__(kRowThreads) void LseKernel(const CudaRowLookupPass pass) {
  const uint32_t query = blockIdx.x;
  auto* const of_warps = reinterpret_cast<float*>(SharedMemory());
  const float* const maxima = pass.tile_max + size_t{query} * pass.num_tiles;
  const float* const sums = pass.tile_sum + size_t{query} * pass.num_tiles;
  const float known =
      pass.lookup.known_lse != nullptr ? pass.lookup.known_lse[query] : NegativeInfinity();
  float most = known;
  for (uint32_t i = threadIdx.x; i < pass.num_tiles; i += kRowThreads)
    most = fmaxf(most, maxima[i]);
  most = BlockMax(most, of_warps);
  float sum = 0;
  for (uint32_t i = threadIdx.x; i < pass.num_tiles; i += kRowThreads) {
    if (maxima[i] > NegativeInfinity()) sum += sums[i] * expf(maxima[i] - most);
  }
  sum = BlockSum(sum, of_warps + kWarps);
  if (threadIdx.x > 0) return;
  if (known > NegativeInfinity()) sum += expf(known - most);
  pass.lookup.lse[query] = sum > 0 ? most + logf(sum) : NegativeInfinity();
}

// The counts of a block's digits, to those of all.
__device__ __forceinline__ void ClearDigits(uint32_t* of_block) {
  for (uint32_t i = threadIdx.x; i < kRowDigitValues; i += kRowThreads) of_block[i] = 0;
  __syncthreads();
}
__device__ __forceinline__ void AddDigits(const CudaRowLookupPass& pass, const uint32_t* of_block) {
  __syncthreads();
  uint32_t* const all = pass.counts + pass.digit * kRowDigitValues;
  for (uint32_t i = threadIdx.x; i < kRowDigitValues; i += kRowThreads) {
    if (of_block[i] > 0) atomicAdd(all + i, of_block[i]);
  }
}

// Scores of a tile of rows, and their highest digits.
__global__ __launch_bounds__(kRowThreads) void ScoresKernel(const CudaRowLookupPass pass) {
  const CudaRowLookupArgs& args = pass.lookup;
  const uint32_t head = blockIdx.y, num_rows = args.codes.num_rows[head];
  auto* const digits = reinterpret_cast<uint32_t*>(SharedMemory());
  ClearDigits(digits);
  const float* const lse = args.lse + size_t{head} * pass.num_queries;
  const float equal_weight = 1.0f / static_cast<float>(pass.num_queries);
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    const uint32_t row = blockIdx.x * kRowTile + i * kRowThreads + threadIdx.x;
    if (row >= num_rows) continue;
    // Of rows that were not refined 0: they are not listed while there are others.
    const bool is_scored = pass.is_refined == 0 || ScoresOf(pass, head)[row] < 0;
    float score = 0;
    for (uint32_t q = 0; is_scored && q < pass.num_queries; ++q) {
      const float weight = args.row_weights != nullptr ? args.row_weights[q] : equal_weight;
      if (weight > 0) score += weight * expf(LogitsOf(pass, head, q)[row] - lse[q]);
    }
    score = fmaxf(score, 0.0f);  // never -0, and 0 where it is no number
    ScoresOf(pass, head)[row] = score;
    if (is_scored) atomicAdd(digits + (Bits(score) >> RowDigitShift(0)), 1u);
  }
  AddDigits(pass, digits);
}

// Of the scores that begin as the cut does the next digit.
__global__ __launch_bounds__(kRowThreads) void DigitsKernel(const CudaRowLookupPass pass) {
  const uint32_t head = blockIdx.y, num_rows = pass.lookup.codes.num_rows[head];
  auto* const digits = reinterpret_cast<uint32_t*>(SharedMemory());
  ClearDigits(digits);
  const uint32_t shift = RowDigitShift(pass.digit), bits = RowDigitBits(pass.digit);
  const uint32_t prefix = pass.cut->prefix;
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    const uint32_t row = blockIdx.x * kRowTile + i * kRowThreads + threadIdx.x;
    if (row >= num_rows) continue;
    const uint32_t score = Bits(ScoresOf(pass, head)[row]);
    if (score >> (shift + bits) != prefix) continue;
    atomicAdd(digits + (score >> shift & ((1u << bits) - 1)), 1u);
  }
  AddDigits(pass, digits);
}

// One block: the digit in which the last wanted score lies, the largest first.
__global__ __launch_bounds__(kRowScanThreads) void CutKernel(const CudaRowLookupPass pass) {
  const uint32_t* const counts = pass.counts + pass.digit * kRowDigitValues;
  const uint32_t prefix = pass.digit > 0 ? pass.cut->prefix : 0;
  const uint32_t of_all = pass.is_refined > 0 ? pass.lookup.num_wanted : pass.lookup.num_refined;
  const uint32_t wanted = pass.digit > 0 ? pass.cut->wanted : of_all;
  const uint32_t high = kRowDigitValues - 1 - 2 * threadIdx.x, low = high - 1;
  const uint32_t of_high = counts[high], of_both = of_high + counts[low];
  uint32_t total = 0;
  const uint32_t above =  // its barriers: all have read the cut
      BlockScan(of_both, reinterpret_cast<uint32_t*>(SharedMemory()), total);
  if (above >= wanted || above + of_both < wanted) return;
  const bool is_high = above + of_high >= wanted;
  pass.cut->prefix = prefix << RowDigitBits(pass.digit) | (is_high ? high : low);
  pass.cut->wanted = wanted - above - (is_high ? 0 : of_high);
}

__global__ __launch_bounds__(kRowThreads) void CountsKernel(const CudaRowLookupPass pass) {
  const uint32_t head = blockIdx.y, num_rows = pass.lookup.codes.num_rows[head];
  auto* const of_warps = reinterpret_cast<uint32_t*>(SharedMemory());
  const uint32_t cut = pass.cut->prefix;
  uint32_t above = 0, equal = 0;
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    const uint32_t row = blockIdx.x * kRowTile + i * kRowThreads + threadIdx.x;
    if (row >= num_rows) continue;
    const uint32_t score = Bits(ScoresOf(pass, head)[row]);
    above += score > cut;
    equal += score == cut;
  }
  uint32_t all_above = 0, all_equal = 0;
  BlockScan(above, of_warps, all_above);
  BlockScan(equal, of_warps + kWarps, all_equal);
  if (threadIdx.x > 0) return;
  const size_t tile = size_t{head} * pass.num_tiles + blockIdx.x;
  pass.above[tile] = all_above;
  pass.equal[tile] = all_equal;
}

// One block: where each tile lists its rows, and how many of those at the cut.
__global__ __launch_bounds__(kRowScanThreads) void BeginsKernel(const CudaRowLookupPass pass) {
  auto* const of_warps = reinterpret_cast<uint32_t*>(SharedMemory());
  const uint32_t num_heads = pass.lookup.codes.num_kv_heads;
  const size_t num_tiles = size_t{num_heads} * pass.num_tiles;
  const uint32_t wanted = pass.cut->wanted;
  uint32_t listed = 0, met = 0;  // of all tiles before
  for (size_t first = 0; first < num_tiles; first += kRowScanThreads) {
    const size_t tile = first + threadIdx.x;
    const bool is_tile = tile < num_tiles;
    const uint32_t equal = is_tile ? pass.equal[tile] : 0;
    uint32_t total = 0;
    const uint32_t before = met + BlockScan(equal, of_warps, total);
    met += total;
    const uint32_t taken = before < wanted ? min(equal, wanted - before) : 0;
    const uint32_t size = is_tile ? pass.above[tile] + taken : 0;
    const uint32_t begin = listed + BlockScan(size, of_warps, total);
    listed += total;
    if (!is_tile) continue;
    pass.equal[tile] = taken;
    pass.list_begin[tile] = begin;
  }
  __syncthreads();
  if (threadIdx.x >= num_heads) return;
  const uint32_t next = threadIdx.x + 1;
  const uint32_t end = next < num_heads ? pass.list_begin[size_t{next} * pass.num_tiles] : listed;
  pass.lookup.counts[threadIdx.x] = end - pass.list_begin[size_t{threadIdx.x} * pass.num_tiles];
}

// Which of a thread's rows, those from `first` on, are among the best; of those at the cut the
// first ones. All threads of the block come here.
struct BestRows {
  bool is_best[kRowsPerThread] = {};
  uint32_t count = 0;
};
__device__ __forceinline__ BestRows FindBest(const CudaRowLookupPass& pass, uint32_t head,
                                             uint32_t first, uint32_t* of_warps) {
  const uint32_t num_rows = pass.lookup.codes.num_rows[head];
  const uint32_t cut = pass.cut->prefix;
  const uint32_t taken = pass.equal[size_t{head} * pass.num_tiles + blockIdx.x];
  const float* const scores = ScoresOf(pass, head);
  BestRows best;
  bool is_equal[kRowsPerThread] = {};
  uint32_t num_equal = 0;
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    if (first + i >= num_rows) continue;
    const uint32_t score = Bits(scores[first + i]);
    best.is_best[i] = score > cut;
    is_equal[i] = score == cut;
    num_equal += is_equal[i];
  }
  uint32_t total = 0;
  uint32_t met = BlockScan(num_equal, of_warps, total);
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    if (is_equal[i]) best.is_best[i] = met++ < taken;
    best.count += best.is_best[i];
  }
  return best;
}

// Logits of the best rows of a tile by their fine codes.
__global__ __launch_bounds__(kRowThreads) void RefineKernel(const CudaRowLookupPass pass) {
  const CudaRowLookupArgs& args = pass.lookup;
  const DeviceRowCodes& codes = args.codes;
  const uint32_t head = blockIdx.y, table_bytes = codes.plane_bytes * 32;
  const unsigned char* const tables = LoadTables(pass, head, 0, pass.num_queries);
  const uint32_t first = blockIdx.x * kRowTile + threadIdx.x * kRowsPerThread;
  const BestRows best =
      FindBest(pass, head, first,
               reinterpret_cast<uint32_t*>(SharedMemory() + pass.num_queries * table_bytes));
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    if (!best.is_best[i]) continue;
    const size_t row = size_t{codes.row_begin[head]} + first + i;
    const uint8_t* const planes = codes.fine_planes + row * 3 * codes.plane_bytes;
    for (uint32_t q = 0; q < pass.num_queries; ++q) {
      const unsigned char* table = tables + q * table_bytes;
      uint32_t sum = 0;
      for (uint32_t b = 0; b < codes.plane_bytes; ++b, table += 32) {
        const auto of_plane = [&](uint32_t plane) {
          const uint32_t byte = planes[plane * codes.plane_bytes + b];
          return static_cast<uint32_t>(table[byte & 15] + table[16 + (byte >> 4)]);
        };
        sum += 4 * of_plane(0) + of_plane(1) + 2 * of_plane(2);
      }
      const size_t query = size_t{head} * pass.num_queries + q;
      const float dot =
          pass.scales[2 * query] * static_cast<float>(sum) + 7 * pass.scales[2 * query + 1];
      const float centroid = pass.centroid_logits[query * codes.most_clusters + codes.clusters[row]];
      LogitsOf(pass, head, q)[first + i] =
          Softcapped(args, centroid + codes.fine_factors[row] * dot);
    }
    ScoresOf(pass, head)[first + i] = -1;
  }
}

// Lists the best rows of a tile, each thread's after those of the threads before it.
__global__ __launch_bounds__(kRowThreads) void ListKernel(const CudaRowLookupPass pass) {
  const uint32_t head = blockIdx.y;
  auto* const of_warps = reinterpret_cast<uint32_t*>(SharedMemory());
  const uint32_t first = blockIdx.x * kRowTile + threadIdx.x * kRowsPerThread;
  const BestRows best = FindBest(pass, head, first, of_warps);
  const uint32_t* const first_rows = pass.lookup.first_row;
  const uint32_t first_row = first_rows != nullptr ? first_rows[head] : 0;
  uint32_t total = 0;
  uint32_t at = pass.list_begin[size_t{head} * pass.num_tiles + blockIdx.x] +
                BlockScan(best.count, of_warps, total);
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    if (!best.is_best[i]) continue;
    pass.lookup.rows[at++] = first_row + first + i;
    ScoresOf(pass, head)[first + i] = -1;
  }
}

// A block a group: the log mass of those of its rows that are not listed.
__global__ __launch_bounds__(kRowTailThreads) void TailKernel(const CudaRowLookupPass pass) {
  const CudaRowLookupArgs& args = pass.lookup;
  const DeviceRowCodes& codes = args.codes;
  const uint32_t head = blockIdx.y, group = blockIdx.x;
  auto* const of_warps = reinterpret_cast<float*>(SharedMemory());
  const uint32_t* const begins = codes.group_begin + size_t{head} * (codes.most_groups + 1) + group;
  const uint32_t begin = begins[0], end = begins[1];
  const float* const scores = ScoresOf(pass, head);
  for (uint32_t q = 0; q < pass.num_queries; ++q) {
    const size_t query = size_t{head} * pass.num_queries + q;
    const float* const logits = LogitsOf(pass, head, q);
    const float lse = args.lse[query];
    float sum = 0;
    for (uint32_t row = begin + threadIdx.x; row < end; row += kRowTailThreads) {
      if (scores[row] >= 0) sum += expf(logits[row] - lse);
    }
    sum = BlockSum(sum, of_warps);
    if (threadIdx.x == 0) {
      args.tail[query * codes.most_groups + group] = sum > 0 ? lse + logf(sum) : NegativeInfinity();
    }
  }
}

// A block a query row: the sum of its tails.
__global__ __launch_bounds__(kRowTailThreads) void TailLseKernel(const CudaRowLookupPass pass) {
  const uint32_t num_groups = pass.lookup.codes.most_groups;
  const size_t query = size_t{blockIdx.y} * pass.num_queries + blockIdx.x;
  auto* const of_warps = reinterpret_cast<float*>(SharedMemory());
  const float* const tail = pass.lookup.tail + query * num_groups;
  float most = NegativeInfinity(), sum = 0;
  for (uint32_t g = threadIdx.x; g < num_groups; g += kRowTailThreads) most = fmaxf(most, tail[g]);
  most = BlockMax(most, of_warps);
  const float base = most == NegativeInfinity() ? 0 : most;
  for (uint32_t g = threadIdx.x; g < num_groups; g += kRowTailThreads) sum += expf(tail[g] - base);
  sum = BlockSum(sum, of_warps + kRowTailThreads / kWarpSize);
  if (threadIdx.x == 0) pass.lookup.tail_lse[query] = base + logf(sum);
}

template <typename T>
CudaStatus CentroidsOf(CudaStreamHandle* stream, const CudaGrid& grid,
                       const CudaRowLookupPass& pass) {
  constexpr const char* kName = "row_centroids";
  switch (TileWidth(pass.lookup.queries.head_dim)) {
    case 64:
      return Launch(stream, grid, kName, CentroidsKernel<T, 64>, pass);
    case 128:
      return Launch(stream, grid, kName, CentroidsKernel<T, 128>, pass);
    default:
      return Launch(stream, grid, kName, CentroidsKernel<T, 256>, pass);
  }
}

}  // namespace

CudaStatus LaunchRowTables(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_tables",
                pass.lookup.queries.dtype == Dtype::kF16 ? TablesKernel<f16> : TablesKernel<bf16>,
                pass);
}
CudaStatus LaunchRowCentroids(CudaStreamHandle* stream, const CudaGrid& grid,
                              const CudaRowLookupPass& pass) {
  return pass.lookup.queries.dtype == Dtype::kF16 ? CentroidsOf<f16>(stream, grid, pass)
                                                  : CentroidsOf<bf16>(stream, grid, pass);
}
CudaStatus LaunchRowLogits(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_logits", LogitsKernel, pass);
}
CudaStatus LaunchRowStates(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_states", StatesKernel, pass);
}
CudaStatus LaunchRowLse(CudaStreamHandle* stream, const CudaGrid& grid,
                        const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_lse", LseKernel, pass);
}
CudaStatus LaunchRowScores(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_scores", ScoresKernel, pass);
}
CudaStatus LaunchRowDigits(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_digits", DigitsKernel, pass);
}
CudaStatus LaunchRowCut(CudaStreamHandle* stream, const CudaGrid& grid,
                        const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_cut", CutKernel, pass);
}
CudaStatus LaunchRowCounts(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_counts", CountsKernel, pass);
}
CudaStatus LaunchRowBegins(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_begins", BeginsKernel, pass);
}
CudaStatus LaunchRowRefine(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_refine", RefineKernel, pass);
}
CudaStatus LaunchRowList(CudaStreamHandle* stream, const CudaGrid& grid,
                         const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_list", ListKernel, pass);
}
CudaStatus LaunchRowTail(CudaStreamHandle* stream, const CudaGrid& grid,
                         const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_tail", TailKernel, pass);
}
CudaStatus LaunchRowTailLse(CudaStreamHandle* stream, const CudaGrid& grid,
                            const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_tail_lse", TailLseKernel, pass);
}

}  // namespace lectern
