// The kernels of a question's lookup that find each row's mass, by row codes and by fine codes.
#include "kernels/cuda/lookup/question_lookup.cuh"

namespace lectern {
namespace {

constexpr uint32_t kQuestionWarps = kTileThreads / kWarpSize;
// Less of a sum, from which most was taken away, is what was rounded: as in index/head_rows.cc.
constexpr float kQuestionRounding = 1e-5f;

// ---- Codes as what tensor cores multiply

// The constants by which two signs become two numbers, side by side in one register.
template <typename T>
struct SignPair;
template <>
struct SignPair<f16> {
  static constexpr uint32_t kMinusOnes = 0xBC00BC00, kOneToThree = 0x7E00;  // 1 ^ 3
};
template <>
struct SignPair<bf16> {
  static constexpr uint32_t kMinusOnes = 0xBF80BF80, kOneToThree = 0x7FC0;
};
// The last bytes of two words, as bytes 0 and 2.
__device__ __forceinline__ uint32_t BytePair(uint32_t first, uint32_t second) {
  return (first & 0xFF) | (second & 0xFF) << 16;
}
// Bit j, below 8, of both as the signs of two elements; and as elements of -1 and 1.
__device__ __forceinline__ uint32_t SignsAt(uint32_t bytes, uint32_t j) {
  return bytes << (15 - j) & 0x80008000;
}
template <typename T>
__device__ __forceinline__ uint32_t SignsOf(uint32_t signs, uint32_t j) {
  return SignsAt(signs, j) ^ SignPair<T>::kMinusOnes;
}
// p + 2 p', which is -3, -1, 1 or 3, of bit j of both bytes: `low` has p, `high` p'.
template <typename T>
__device__ __forceinline__ uint32_t RestsOf(uint32_t low, uint32_t high, uint32_t j) {
  const uint32_t is_three = (SignsAt(~(low ^ high), j) >> 15) * SignPair<T>::kOneToThree;
  return SignsOf<T>(high, j) ^ is_three;
}

// s[n][.] += 16 rows, of which a lane has what `a` is of a step, times columns 8 n … of the tile.
template <typename T, uint32_t kHeadDim, uint32_t kRowTiles, uint32_t kColumns>
__device__ __forceinline__ void StepProducts(const uint32_t (&a)[kRowTiles][4],
                                             const unsigned char* tile, uint32_t step,
                                             float (&s)[kRowTiles][kColumns / 8][4]) {
  const uint32_t lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (uint32_t n = 0; n < kColumns / 16; ++n) {
    uint32_t b[4];
    LoadMatrices(
        b, tile + TileOffset<kHeadDim>(16 * n + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
#pragma unroll
    for (uint32_t i = 0; i < kRowTiles; ++i) {
      MultiplyAdd<T>(s[i][2 * n], a[i], b[0], b[1]);
      MultiplyAdd<T>(s[i][2 * n + 1], a[i], b[2], b[3]);
    }
  }
}

// A tile of columns: their queries, and [kColumns] of reference times log2(e) and weight.
template <uint32_t kHeadDim, uint32_t kColumns>
__device__ __forceinline__ void LoadColumns(const QuestionPass& pass, uint32_t head, uint32_t first,
                                            unsigned char* queries, float2* columns) {
  const auto* const tiles = static_cast<const unsigned char*>(pass.tiles);
  __syncthreads();  // all have read what was there
  CopyRows<kHeadDim, kColumns>(queries, kHeadDim, tiles, [&](uint32_t r) -> const void* {
    return tiles + (size_t{head} * pass.num_columns + first + r) * kHeadDim * 2;
  });
  CommitCopies();
  const uint32_t column = first + threadIdx.x;
  if (threadIdx.x < kColumns) {
    columns[threadIdx.x] = {pass.references[size_t{head} * pass.num_columns + column] * kLog2E,
                            column < pass.lookup.num_chosen ? pass.lookup.weights[column] : 0.0f};
  }
  WaitCopies<0>();
  __syncthreads();
}

// The lanes' sums of columns 8 n + 2 (lane % 4) + i, over a warp's rows -> of_warp [kColumns].
template <uint32_t kColumns>
__device__ __forceinline__ void StoreSums(const float (&sums)[kColumns / 8][2], float* of_warp) {
  const uint32_t lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (uint32_t n = 0; n < kColumns / 8; ++n) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      float sum = sums[n][i];
      sum += __shfl_xor_sync(kAllLanes, sum, 4);
      sum += __shfl_xor_sync(kAllLanes, sum, 8);
      sum += __shfl_xor_sync(kAllLanes, sum, 16);
      if (lane < 4) of_warp[8 * n + 2 * lane + i] = sum;
    }
  }
}
template <uint32_t kColumns>
__device__ __forceinline__ float SumOfWarps(const float* of_warps, uint32_t column) {
  float sum = 0;
#pragma unroll
  for (uint32_t w = 0; w < kQuestionWarps; ++w) sum += of_warps[w * kColumns + column];
  return sum;
}

// A lane's bytes of a plane, in pairs: in bytes 0 and 2.
template <uint32_t kBytes>
__device__ __forceinline__ void LoadPairs(const uint8_t* plane, uint32_t first, uint32_t num_bytes,
                                          uint32_t (&pairs)[kBytes / 2]) {
  if (kBytes >= 4 && num_bytes % 4 == 0) {  // words, as rows are then aligned to them
#pragma unroll
    for (uint32_t p = 0; p < kBytes / 2; p += 2) {
      const uint32_t byte = first + 2 * p;
      const uint32_t word = byte < num_bytes ? *reinterpret_cast<const uint32_t*>(plane + byte) : 0;
      pairs[p] = BytePair(word, word >> 8);
      if (p + 1 < kBytes / 2) pairs[p + 1] = BytePair(word >> 16, word >> 24);
    }
    return;
  }
  if (num_bytes % 2 == 0) {
#pragma unroll
    for (uint32_t p = 0; p < kBytes / 2; ++p) {
      const uint32_t byte = first + 2 * p;
      const uint32_t two = byte < num_bytes ? *reinterpret_cast<const uint16_t*>(plane + byte) : 0;
      pairs[p] = BytePair(two, two >> 8);
    }
    return;
  }
#pragma unroll
  for (uint32_t p = 0; p < kBytes / 2; ++p) {
    const uint32_t byte = first + 2 * p;
    pairs[p] =
        BytePair(byte < num_bytes ? plane[byte] : 0, byte + 1 < num_bytes ? plane[byte + 1] : 0);
  }
}

// ---- Row codes: what each row draws of the queries that choose, and how much each group

// The mass at a column of a group's rows that are not coded, by their clusters.
__device__ __forceinline__ float UncodedMass(const QuestionPass& pass, uint32_t head,
                                             uint32_t group, uint32_t column, float reference) {
  if (pass.coded_end == nullptr) return 0;
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t* const clusters = codes.group_clusters + GroupOf(codes, head, group);
  const float norm = pass.norms[size_t{head} * pass.num_columns + column];
  const size_t of_head = size_t{head} * codes.most_clusters;
  float sum = 0;
  for (uint32_t cluster = clusters[0]; cluster < clusters[1]; ++cluster) {
    const uint32_t rest = ClusterRowsEnd(codes, head, cluster) - pass.coded_end[of_head + cluster];
    if (rest == 0) continue;
    const float logit = pass.centroid_logits[(of_head + cluster) * pass.num_columns + column];
    sum += static_cast<float>(rest) *
           KeyMass(pass, KeysOf(codes, head, cluster), logit, norm, reference);
  }
  return sum;
}

// Adds to `sums` the masses of rows [32 chunk, + 32) of a head, of those in [begin, end) that are
// coded, and to their scores the weighted masses at these columns; after the last columns a score
// is counted in its bucket. A row that is not coded gets a score of -1. Lane (g, t) of eight times
// four has a part of rows 4 g ….
template <typename T, uint32_t kHeadDim, uint32_t kColumns>
__device__ __forceinline__ void AddCodes(const QuestionPass& pass, uint32_t head, uint32_t chunk,
                                         uint32_t begin, uint32_t end, uint32_t first_column,
                                         const unsigned char* queries, const float2* columns,
                                         float (&sums)[kColumns / 8][2], uint32_t* counts) {
  constexpr uint32_t kBytes = kHeadDim / 32;  // of each row, a lane's
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t lane = threadIdx.x % kWarpSize, t = lane % 4;
  const size_t first = size_t{codes.row_begin[head]} + 32 * chunk, row = first + lane / 4 * 4;
  const uint32_t own = 32 * chunk + lane;  // the row that this lane tells the score of
  float* const score_of_own = ScoresOf(pass, head) + own;
  uint32_t signs[kRowsPerThread][kBytes / 2], clusters[kRowsPerThread];
  float factors[kRowsPerThread];
  bool is_row[kRowsPerThread], is_own_coded = true;
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    const uint32_t of_head = 32 * chunk + lane / 4 * 4 + i;
    is_row[i] = of_head >= begin && of_head < end;
  }
  LoadFour(codes.clusters + row, clusters);
  if (pass.coded_end != nullptr) {
    const uint32_t* const coded_end = pass.coded_end + size_t{head} * codes.most_clusters;
    bool has_rows = false;
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      const uint32_t of_head = 32 * chunk + lane / 4 * 4 + i;
      is_row[i] = is_row[i] && of_head < coded_end[clusters[i]];
      has_rows = has_rows || is_row[i];
      if (i == t) is_own_coded = is_row[i];
    }
    if (!is_own_coded && own >= begin && own < end) *score_of_own = -1;
    if (__ballot_sync(kAllLanes, has_rows) == 0) return;
  }
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    LoadPairs<kBytes>(codes.planes + (row + i) * codes.plane_bytes, t * kBytes, codes.plane_bytes,
                      signs[i]);
  }
  LoadFour(codes.factors + row, factors);
  float s[2][kColumns / 8][4] = {};
  __syncwarp();  // products are of whole warps
#pragma unroll
  for (uint32_t pair = 0; pair < kBytes / 2; ++pair) {
#pragma unroll
    for (uint32_t j = 0; j < 8; j += 2) {
      uint32_t a[2][4];
#pragma unroll
      for (uint32_t i = 0; i < kRowsPerThread; ++i) {
        a[i / 2][i % 2] = SignsOf<T>(signs[i][pair], j);
        a[i / 2][i % 2 + 2] = SignsOf<T>(signs[i][pair], j + 1);
      }
      StepProducts<T, kHeadDim, 2, kColumns>(a, queries, 4 * pair + j / 2, s);
    }
  }
  const float* const centroids =
      pass.centroid_logits + size_t{head} * codes.most_clusters * pass.num_columns;
  uint32_t at[kRowsPerThread];  // of the rows' clusters in them
  float scores[kRowsPerThread] = {};
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    at[i] = (is_row[i] ? clusters[i] : 0) * pass.num_columns + first_column + 2 * t;
  }
#pragma unroll
  for (uint32_t n = 0; n < kColumns / 8; ++n) {
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      const float2 of_two = *reinterpret_cast<const float2*>(centroids + at[i] + 8 * n);
      float* const dots = s[i / 2][n] + 2 * (i % 2);
      dots[0] = of_two.x + factors[i] * dots[0];
      dots[1] = of_two.y + factors[i] * dots[1];
    }
  }
  SoftcapAll(pass, s[0]);
  SoftcapAll(pass, s[1]);
#pragma unroll
  for (uint32_t n = 0; n < kColumns / 8; ++n) {
    const float4 two = reinterpret_cast<const float4*>(columns)[4 * n + t];
    const float references[2] = {two.x, two.z}, weights[2] = {two.y, two.w};
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
#pragma unroll
      for (uint32_t c = 0; c < 2; ++c) {
        const float mass = is_row[i] ? MassOf(s[i / 2][n][2 * (i % 2) + c], references[c]) : 0;
        scores[i] += weights[c] * mass;
        sums[n][c] += mass;
      }
    }
  }
  float score = 0;
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    const float of_row = LaneSum<4>(scores[i]);
    if (i == t) score = of_row;
  }
  if (own < begin || own >= end || !is_own_coded) return;
  if (first_column > 0) score += *score_of_own;  // by this thread itself
  const bool is_last = first_column + kColumns >= pass.num_columns;
  if (is_last) {
    score = ToScore(score);
    atomicAdd(counts + BucketOf(score), 1u);
  }
  *score_of_own = score;
}

// Groups in turn; of each, chunks of rows by warps in turn.
template <typename T, uint32_t kHeadDim, uint32_t kColumns>
__global__ __launch_bounds__(
    kTileThreads,
    QuestionCodeBlocks(kColumns, kHeadDim)) void QuestionCodesKernel(const QuestionPass pass) {
  WaitForEarlierKernels();
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t head = blockIdx.y, warp = threadIdx.x / kWarpSize;
  uint32_t* const counts = ClearCounts(MoreShared());
  unsigned char* const queries = MoreShared() + kCountBytes;
  auto* const columns = reinterpret_cast<float2*>(queries + kColumns * kHeadDim * 2);
  auto* const of_warps = reinterpret_cast<float*>(columns + kColumns);  // [2][warps][kColumns]
  for (uint32_t first = 0; first < pass.num_columns; first += kColumns) {
    LoadColumns<kHeadDim, kColumns>(pass, head, first, queries, columns);
    uint32_t turn = 0;
    for (uint32_t g = blockIdx.x; g < codes.most_groups; g += gridDim.x, turn ^= 1) {
      const uint32_t* const begins = codes.group_begin + GroupOf(codes, head, g);
      const uint32_t begin = begins[0], end = begins[1];
      float sums[kColumns / 8][2] = {};
      if (begin < end) {
        for (uint32_t chunk = begin / 32 + warp; 32 * chunk < end; chunk += kQuestionWarps) {
          AddCodes<T, kHeadDim, kColumns>(pass, head, chunk, begin, end, first, queries, columns,
                                          sums, counts);
        }
      }
      float* const of_turn = of_warps + turn * kQuestionWarps * kColumns;
      StoreSums<kColumns>(sums, of_turn + warp * kColumns);
      __syncthreads();  // the next turn writes the other half
      if (threadIdx.x < kColumns) {
        const uint32_t column = first + threadIdx.x;
        pass.coded[(size_t{head} * codes.most_groups + g) * pass.num_columns + column] =
            SumOfWarps<kColumns>(of_turn, threadIdx.x) +
            UncodedMass(pass, head, g, column, columns[threadIdx.x].x);
      }
    }
  }
  AddCounts<kTileThreads>(pass.slots, gridDim.x * gridDim.y, counts);
}

// ---- Which rows are refined, as their head counts them

// Tiles of rows, head after head.
__global__ __launch_bounds__(kRowThreads) void QuestionRefinedKernel(const QuestionPass pass) {
  WaitForEarlierKernels();
  const DeviceRowCodes& codes = pass.lookup.codes;
  const RefinedRows& refined = pass.list.refined;
  const uint32_t tile = TakeTile(pass.slots), head = tile / pass.num_tiles;
  const ThreadRows rows = RowsOf(tile % pass.num_tiles, codes.num_rows[head]);
  const float* const scores = ScoresOf(pass, head);
  const BestRows best = FindBestRows(pass.slots, tile, scores + rows.first, rows.count);
  if (threadIdx.x == 0 && tile % pass.num_tiles == 0) pass.refined_begin[head] = best.at;
  if (threadIdx.x == 0 && tile == 0) {
    pass.refined_begin[codes.num_kv_heads] = pass.lookup.num_refined;
  }
  uint32_t at = best.at;
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    if (best.taken[i] == 0) continue;
    refined.rows[at] = rows.first + i;
    refined.slots[at] = static_cast<uint32_t>(scores - pass.scores) + rows.first + i;
    refined.heads[at++] = static_cast<uint16_t>(head);
  }
}

// ---- Fine codes of the rows that were refined

// Refined rows [first, first + 16) of a head, those before `end`: lane (g, t) has two of them.
// Their masses by fine codes are kept; `olds` are sums of those by row codes, `news` by fine codes.
template <typename T, uint32_t kHeadDim, uint32_t kColumns>
__device__ __forceinline__ void AddFineCodes(const QuestionPass& pass, uint32_t head,
                                             uint32_t first, uint32_t end, uint32_t first_column,
                                             const unsigned char* queries, const float2* columns,
                                             float (&olds)[kColumns / 8][2],
                                             float (&news)[kColumns / 8][2]) {
  constexpr uint32_t kBytes = kHeadDim / 32;
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t lane = threadIdx.x % kWarpSize, t = lane % 4, num_bytes = codes.plane_bytes;
  uint32_t signs[2][kBytes / 2], low[2][kBytes / 2], high[2][kBytes / 2];
  const float* centroids[2];
  float* masses[2];
  float factors[2], fine_factors[2];
  bool is_row[2];
#pragma unroll
  for (uint32_t i = 0; i < 2; ++i) {
    const uint32_t at = first + lane / 4 * 2 + i;
    is_row[i] = at < end;
    const uint32_t of_head = RefinedOf(pass, head)[is_row[i] ? at : first];
    const size_t row = size_t{codes.row_begin[head]} + of_head;
    const uint8_t* const planes = codes.fine_planes + row * 3 * num_bytes;
    LoadPairs<kBytes>(planes, t * kBytes, num_bytes, signs[i]);
    LoadPairs<kBytes>(planes + num_bytes, t * kBytes, num_bytes, low[i]);
    LoadPairs<kBytes>(planes + 2 * num_bytes, t * kBytes, num_bytes, high[i]);
    factors[i] = codes.factors[row];
    fine_factors[i] = codes.fine_factors[row];
    const size_t cluster = size_t{head} * codes.most_clusters + codes.clusters[row];
    centroids[i] = pass.centroid_logits + cluster * pass.num_columns + first_column + 2 * t;
    masses[i] = pass.fine_masses + first_column + 2 * t +
                (size_t{pass.refined_begin[head]} + at) * pass.num_columns;
  }
  float s[1][kColumns / 8][4] = {}, rests[1][kColumns / 8][4] = {};
  __syncwarp();  // products are of whole warps
#pragma unroll
  for (uint32_t pair = 0; pair < kBytes / 2; ++pair) {
#pragma unroll
    for (uint32_t j = 0; j < 8; j += 2) {
      uint32_t a[1][4], b[1][4];
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        a[0][i] = SignsOf<T>(signs[i % 2][pair], j + i / 2);
        b[0][i] = RestsOf<T>(low[i % 2][pair], high[i % 2][pair], j + i / 2);
      }
      StepProducts<T, kHeadDim, 1, kColumns>(a, queries, 4 * pair + j / 2, s);
      StepProducts<T, kHeadDim, 1, kColumns>(b, queries, 4 * pair + j / 2, rests);
    }
  }
#pragma unroll
  for (uint32_t n = 0; n < kColumns / 8; ++n) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const float2 of_two = *reinterpret_cast<const float2*>(centroids[i] + 8 * n);
      const float of_centroid[2] = {of_two.x, of_two.y};
#pragma unroll
      for (uint32_t c = 0; c < 2; ++c) {
        float &dot = s[0][n][2 * i + c], &rest = rests[0][n][2 * i + c];
        rest = of_centroid[c] + fine_factors[i] * (4 * dot + rest);
        dot = of_centroid[c] + factors[i] * dot;
      }
    }
  }
  SoftcapAll(pass, s[0]);
  SoftcapAll(pass, rests[0]);
#pragma unroll
  for (uint32_t n = 0; n < kColumns / 8; ++n) {
    const float4 two = reinterpret_cast<const float4*>(columns)[4 * n + t];
    const float references[2] = {two.x, two.z};
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      if (!is_row[i]) continue;
      float fine[2];
#pragma unroll
      for (uint32_t c = 0; c < 2; ++c) {
        fine[c] = MassOf(rests[0][n][2 * i + c], references[c]);
        olds[n][c] += MassOf(s[0][n][2 * i + c], references[c]);
        news[n][c] += fine[c];
      }
      *reinterpret_cast<float2*>(masses[i] + 8 * n) = float2{fine[0], fine[1]};
    }
  }
}

// Sums the values first, first + stride, … below `count`, which lie `apart` from each other, at
// each column of a tile; the first kColumns threads get the sums. All threads of a block take part.
template <uint32_t kColumns, typename T>
__device__ __forceinline__ double SumColumns(const T* values, size_t apart, uint32_t first,
                                             uint32_t count, uint32_t stride, double* parts) {
  constexpr uint32_t kParts = kTileThreads / kColumns;
  const uint32_t column = threadIdx.x % kColumns, part = threadIdx.x / kColumns;
  double sum = 0;
  Strided<8>(
      first + part * stride, count, kParts * stride,
      [&](uint32_t i) { return __ldcg(values + i * apart + column); },
      [&](uint32_t, T x) { sum += static_cast<double>(x); });
  __syncthreads();  // all have read the parts before
  parts[threadIdx.x] = sum;
  __syncthreads();
  if (part > 0) return 0;
  for (uint32_t p = 1; p < kParts; ++p) sum += parts[p * kColumns + column];
  return sum;
}

// LSEs of a head's columns, and what their masses count in a score. By its last block.
template <uint32_t kColumns>
__device__ __forceinline__ void StoreLses(const QuestionPass& pass, uint32_t head, double* parts) {
  for (uint32_t first = 0; first < pass.num_columns; first += kColumns) {
    const uint32_t column = first + threadIdx.x;
    double sum = SumColumns<kColumns>(
        pass.block_masses + size_t{head} * gridDim.x * pass.num_columns + first, pass.num_columns,
        0, gridDim.x, 1, parts);
    if (threadIdx.x >= kColumns) continue;
    const size_t at = size_t{head} * pass.num_columns + column;
    const float reference = pass.references[at], known = KnownOf(pass, head, column);
    if (known > NegativeInfinity()) sum += static_cast<double>(expf(known - reference));
    const bool is_query = column < pass.lookup.num_chosen;
    const double at_least = sum > static_cast<double>(kNoQuestionMass) ? sum : kNoQuestionMass;
    pass.score_weights[at] =
        is_query ? static_cast<float>(pass.lookup.weights[column] / at_least) : 0.0f;
    if (!is_query) continue;
    pass.lookup.lse[size_t{head} * pass.lookup.num_chosen + column] =
        sum > 0 ? reference + static_cast<float>(log(sum)) : NegativeInfinity();
  }
}

// Groups in turn, of whose refined rows chunks by warps in turn.
template <typename T, uint32_t kHeadDim, uint32_t kColumns>
__global__ __launch_bounds__(
    kTileThreads,
    QuestionFineBlocks(kColumns, kHeadDim)) void QuestionFineCodesKernel(const QuestionPass pass) {
  WaitForEarlierKernels();
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t head = blockIdx.y, warp = threadIdx.x / kWarpSize;
  unsigned char* const queries = MoreShared();
  auto* const columns = reinterpret_cast<float2*>(queries + kColumns * kHeadDim * 2);
  auto* const of_warps = reinterpret_cast<float*>(columns + kColumns);  // [2][2][warps][kColumns]
  auto* const places =
      reinterpret_cast<uint32_t*>(of_warps + 4 * kQuestionWarps * kColumns);  // [kQuestionBatch][2]
  for (uint32_t first = 0; first < pass.num_columns; first += kColumns) {
    LoadColumns<kHeadDim, kColumns>(pass, head, first, queries, columns);
    uint32_t in_batch = kQuestionBatch, turn = 0;
    for (uint32_t g = blockIdx.x; g < codes.most_groups; g += gridDim.x, ++in_batch) {
      if (in_batch == kQuestionBatch) {
        static_assert(kTileThreads == 2 * kQuestionBatch, "a thread a place");
        in_batch = 0;
        const uint64_t group = g + uint64_t{threadIdx.x / 2} * gridDim.x;
        __syncthreads();  // all have read the batch before
        if (group < codes.most_groups) {
          const uint32_t at = GroupOf(codes, head, static_cast<uint32_t>(group) + threadIdx.x % 2);
          places[threadIdx.x] = RefinedBelow(pass, head, codes.group_begin[at]);
        }
        __syncthreads();
      }
      const uint32_t begin = places[2 * in_batch], end = places[2 * in_batch + 1];
      if (begin == end) continue;
      float olds[kColumns / 8][2] = {}, news[kColumns / 8][2] = {};
      for (uint32_t at = begin + 16 * warp; at < end; at += 16 * kQuestionWarps) {
        AddFineCodes<T, kHeadDim, kColumns>(pass, head, at, end, first, queries, columns, olds,
                                            news);
      }
      float* const of_turn = of_warps + turn * 2 * kQuestionWarps * kColumns;
      turn ^= 1;
      StoreSums<kColumns>(olds, of_turn + warp * kColumns);
      StoreSums<kColumns>(news, of_turn + (kQuestionWarps + warp) * kColumns);
      __syncthreads();  // the next turn writes the other half
      if (threadIdx.x >= kColumns) continue;
      const uint32_t column = first + threadIdx.x;
      float& coded = pass.coded[(size_t{head} * codes.most_groups + g) * pass.num_columns + column];
      const uint32_t* const rows = codes.group_begin + GroupOf(codes, head, g);
      const float by_fine = SumOfWarps<kColumns>(of_turn + kQuestionWarps * kColumns, threadIdx.x);
      const bool is_all = end - begin == rows[1] - rows[0];
      const float rest =
          is_all ? 0 : fmaxf(coded - SumOfWarps<kColumns>(of_turn, threadIdx.x), 0.0f);
      // A row that its row code took for all there is leaves a rounding error of that behind.
      const float all = by_fine + rest;
      coded = all > kQuestionRounding * coded
                  ? all
                  : by_fine + UncodedMass(pass, head, g, column, columns[threadIdx.x].x);
    }
    __syncthreads();  // masses of the block's groups are there
    const double sum = SumColumns<kColumns>(
        pass.coded + size_t{head} * codes.most_groups * pass.num_columns + first, pass.num_columns,
        blockIdx.x, codes.most_groups, gridDim.x, reinterpret_cast<double*>(of_warps));
    if (threadIdx.x < kColumns) {
      pass.block_masses[(size_t{head} * gridDim.x + blockIdx.x) * pass.num_columns + first +
                        threadIdx.x] = sum;
    }
  }
  if (!IsLastBlock(pass.counters + head, gridDim.x, &Shared().is_last)) return;
  StoreLses<kColumns>(pass, head, reinterpret_cast<double*>(of_warps));
}

// ---- What refined rows draw, by their fine codes: four lanes a row

// Four lanes add up a row's weighted masses, 16 columns at a time. Scores are stored and counted in
// buckets, from which the cut of the list is found.
__global__ __launch_bounds__(kRowThreads) void QuestionScoresKernel(const QuestionPass pass) {
  WaitForEarlierKernels();
  constexpr uint32_t kRows = kRowThreads / 4;
  const uint32_t head = blockIdx.y, t = threadIdx.x % 4;
  auto* const weights = reinterpret_cast<float*>(MoreShared() + kCountBytes);
  for (uint32_t c = threadIdx.x; c < pass.num_columns; c += kRowThreads) {
    weights[c] = pass.score_weights[size_t{head} * pass.num_columns + c];
  }
  uint32_t* const counts = ClearCounts(MoreShared());
  const uint32_t num_rows = NumRefined(pass, head);
  const float* const masses =
      pass.fine_masses + size_t{pass.refined_begin[head]} * pass.num_columns;
  for (uint32_t first = blockIdx.x * kRows; first < num_rows; first += gridDim.x * kRows) {
    const uint32_t row = first + threadIdx.x / 4;
    float score = 0;
    for (uint32_t c = 4 * t; row < num_rows && c < pass.num_columns; c += 16) {
      const float4 four =
          *reinterpret_cast<const float4*>(masses + size_t{row} * pass.num_columns + c);
      const float4 of_weights = *reinterpret_cast<const float4*>(weights + c);
      score += of_weights.x * four.x + of_weights.y * four.y + of_weights.z * four.z +
               of_weights.w * four.w;
    }
    score = ToScore(LaneSum<4>(score));
    if (t > 0 || row >= num_rows) continue;
    pass.list.refined.scores[pass.refined_begin[head] + row] = score;
    atomicAdd(counts + BucketOf(score), 1u);
  }
  AddCounts(pass.list.selection, gridDim.x * gridDim.y, counts);
}

// ---- Launches

template <typename T, uint32_t kHeadDim, uint32_t kColumns>
struct QuestionCodes {
  static constexpr QuestionFunction kFunction = QuestionCodesKernel<T, kHeadDim, kColumns>;
};
template <typename T, uint32_t kHeadDim, uint32_t kColumns>
struct QuestionFineCodes {
  static constexpr QuestionFunction kFunction = QuestionFineCodesKernel<T, kHeadDim, kColumns>;
};

}  // namespace

CudaStatus LaunchQuestionCodes(CudaStreamHandle* stream, const CudaGrid& grid,
                               const CudaQuestionLookupPass& pass) {
  return ForQuestion<QuestionCodes>::Run(stream, grid, "question_codes", pass);
}
CudaStatus LaunchQuestionRefined(CudaStreamHandle* stream, const CudaGrid& grid,
                                 const CudaQuestionLookupPass& pass) {
  return Launch(stream, grid, "question_refined", QuestionRefinedKernel, pass);
}
CudaStatus LaunchQuestionFineCodes(CudaStreamHandle* stream, const CudaGrid& grid,
                                   const CudaQuestionLookupPass& pass) {
  return ForQuestion<QuestionFineCodes>::Run(stream, grid, "question_fine_codes", pass);
}
CudaStatus LaunchQuestionScores(CudaStreamHandle* stream, const CudaGrid& grid,
                                const CudaQuestionLookupPass& pass) {
  return Launch(stream, grid, "question_scores", QuestionScoresKernel, pass);
}

}  // namespace lectern
