// Finds logits, scores and masses of the rows that have slots, by row codes and fine codes.
#include "kernels/cuda/lookup/row_lookup.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace lectern {
namespace {

__device__ __forceinline__ float* LogitsOf(const CudaRowLookupPass& pass, uint32_t query) {
  return pass.logits + query * SlotStride(pass);
}

// Stores the states of the slots of a tile that belong to one head, with some query rows.
template <uint32_t kQueries>
__device__ void StoreStates(const CudaRowLookupPass& pass, uint32_t head, uint32_t tile,
                            uint32_t first_query, uint32_t num_queries,
                            const float (&logits)[kQueries][kRowsPerThread]) {
  RowShared& shared = Shared();
  const uint32_t lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
#pragma unroll
  for (uint32_t q = 0; q < kQueries; ++q) {
    if (q >= num_queries) continue;
    float most = NegativeInfinity(), sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) most = fmaxf(most, logits[q][i]);
    most = LaneMax<kWarpSize>(most);
    const float base = most == NegativeInfinity() ? 0 : most;
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) sum += expf(logits[q][i] - base);
    sum = LaneSum<kWarpSize>(sum);
    if (lane > 0) continue;
    shared.maxima[q][warp] = most;
    shared.sums[q][warp] = sum;
  }
  __syncthreads();
  if (threadIdx.x < num_queries) {
    const uint32_t q = threadIdx.x;
    float most = NegativeInfinity(), sum = 0;
    for (uint32_t w = 0; w < kRowWarps; ++w) most = fmaxf(most, shared.maxima[q][w]);
    const float base = most == NegativeInfinity() ? 0 : most;
    for (uint32_t w = 0; w < kRowWarps; ++w) {
      sum += shared.sums[q][w] * expf(shared.maxima[q][w] - base);
    }
    const size_t state = (first_query + q) * NumStates(pass) + tile + head;
    pass.slot_max[state] = most;
    pass.slot_sum[state] = sum;
  }
  __syncthreads();  // all have read what the next states are written to
}

// The tables of `count` query rows of a head from `first` on, into shared memory: [kRowQueries of
// them at a time][bytes of a plane][kTableWords].
__device__ __forceinline__ void LoadTables(const CudaRowLookupPass& pass, uint32_t head,
                                           uint32_t first, uint32_t count, unsigned char* tables) {
  const uint32_t num_entries = pass.lookup.codes.plane_bytes * kTableWords;  // of a query row
  const uint8_t* const from = pass.tables + (size_t{head} * pass.num_queries + first) * num_entries;
  auto* const to = reinterpret_cast<uint32_t*>(tables);
  __syncthreads();  // all have read what was there
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
}
// Bits of four bytes in two parts, each a place in a table: as bytes.
struct Nibbles {
  uint32_t low, high;
  __device__ __forceinline__ explicit Nibbles(uint32_t bytes)
      : low(bytes << 2 & 0x3C3C3C3C), high(bytes >> 2 & 0x3C3C3C3C) {}
  // The table entries of byte i, one byte for each query row.
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

// Sixteen bytes of a plane of a row, from `first` on; zeros past its end. kPlaneBytes: of planes
// that are aligned to as many, 0: of any.
template <uint32_t kPlaneBytes>
__device__ __forceinline__ uint4 LoadChunk(const uint8_t* plane, uint32_t first,
                                           uint32_t plane_bytes) {
  if (kPlaneBytes > 0) {
    return *reinterpret_cast<const uint4*>(plane + first);
  }
  if (plane_bytes % 16 == 0 && reinterpret_cast<uintptr_t>(plane) % 16 == 0) {
    return *reinterpret_cast<const uint4*>(plane + first);
  }
  uint32_t words[4] = {};
  if (plane_bytes % 4 == 0) {  // rows are then aligned to words
#pragma unroll
    for (uint32_t w = 0; w < 4; ++w) {
      if (first + 4 * w >= plane_bytes) continue;
      words[w] = *reinterpret_cast<const uint32_t*>(plane + first + 4 * w);
    }
  } else {
#pragma unroll
    for (uint32_t b = 0; b < 16; ++b) {
      if (first + b < plane_bytes) words[b / 4] |= uint32_t{plane[first + b]} << (8 * (b % 4));
    }
  }
  return {words[0], words[1], words[2], words[3]};
}
// Their sums, `times` so much.
__device__ __forceinline__ void AddChunk(const uint4& chunk, uint32_t first, uint32_t plane_bytes,
                                         const unsigned char* table, uint32_t times,
                                         QuerySums& sums) {
  const uint32_t words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
  for (uint32_t w = 0; w < 4; ++w) {
    const uint32_t byte = first + 4 * w;
    if (byte >= plane_bytes) continue;
    const Nibbles nibbles(words[w]);
#pragma unroll
    for (uint32_t i = 0; i < 4; i += 2) {
      if (byte + i >= plane_bytes) continue;
      uint32_t entries = nibbles.Entries(table + (byte + i) * kTableBytes, i);
      if (byte + i + 1 < plane_bytes) {
        entries += nibbles.Entries(table + (byte + i + 1) * kTableBytes, i + 1);
      }
      sums.Add(entries, times);
    }
  }
}

// ---- Which row a slot is

// Finds the clusters of the slots of a tile that belong to one head, into shared memory. `cluster`:
// that of the first of them, or one before it.
__device__ __forceinline__ void FindClusters(const CudaRowLookupPass& pass, uint32_t head,
                                             const HeadSlots& slots, uint32_t tile,
                                             uint32_t cluster, uint32_t* clusters) {
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t num_clusters = NumClusters(codes, head), first = tile * kRowTile;
  const uint32_t* const begins = pass.cluster_slots + size_t{head} * (codes.most_clusters + 1);
  for (uint32_t i = threadIdx.x; i < kRowTile; i += kRowThreads) clusters[i] = 0;
  __syncthreads();
  // A cluster marks the first of its slots here.
  for (bool is_on = true; is_on; cluster += kRowThreads) {
    const uint32_t of_thread = cluster + threadIdx.x;
    bool is_before_end = false;
    if (of_thread < num_clusters) {
      const uint32_t begin = begins[of_thread], end = begins[of_thread + 1];
      is_before_end = end < slots.end;
      if (begin < end && begin < slots.end && end > slots.begin) {
        clusters[max(begin, slots.begin) - first] = of_thread;
      }
    }
    // Whether the last cluster that was looked at is before the end.
    uint32_t total = 0;
    BlockScan(threadIdx.x == kRowThreads - 1 && is_before_end ? 1 : 0, Shared().of_warps, total);
    is_on = total > 0;
  }
  // All others have that of the slot before them: clusters ascend.
  uint32_t of_thread[kRowsPerThread], most = 0;
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    most = max(most, clusters[threadIdx.x * kRowsPerThread + i]);
    of_thread[i] = most;
  }
  const uint32_t before = BlockMaxBefore(most, Shared().of_warps);
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    clusters[threadIdx.x * kRowsPerThread + i] = max(of_thread[i], before);
  }
  __syncthreads();
}

// ---- Logits and scores of a tile of slots, by row codes

template <uint32_t kQueries, uint32_t kPlaneBytes>
__global__ __launch_bounds__(kRowThreads,
                             kRowLogitsBlocks) void LogitsKernel(const CudaRowLookupPass pass) {
  WaitForEarlierKernels();
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t plane_bytes = kPlaneBytes > 0 ? kPlaneBytes : codes.plane_bytes;
  uint32_t* const counts = ClearCounts(MoreShared());
  uint32_t* const clusters = counts + kScoreBuckets;  // [kRowTile]
  auto* const tables = reinterpret_cast<unsigned char*>(clusters + kRowTile);
  // Blocks take tiles in turn, and add what they counted once.
  const uint32_t num_tiles = SlotTiles(pass.lookup.num_coded);
#pragma unroll 1
  for (uint32_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    const uint32_t first_slot = tile * kRowTile + threadIdx.x;
    uint32_t cluster = pass.tile_starts[tile].cluster;
    float scores[kRowsPerThread] = {};
    ForEachHeadOf(pass, tile, [&](uint32_t head, const HeadSlots& slots) {
      FindClusters(pass, head, slots, tile, cluster, clusters);
      cluster = 0;  // where the next head begins
      const uint32_t* const begins = pass.cluster_slots + size_t{head} * (codes.most_clusters + 1);
      const size_t first_row = codes.row_begin[head];
      uint32_t rows[kRowsPerThread], of_rows[kRowsPerThread], row_begins[kRowsPerThread],
          slot_begins[kRowsPerThread];
      bool is_slot[kRowsPerThread];
      float factors[kRowsPerThread];
      const uint32_t* const ends = codes.cluster_end + codes.cluster_begin[head];
#pragma unroll
      for (uint32_t i = 0; i < kRowsPerThread; ++i) {  // neighbours have neighbouring slots
        const uint32_t slot = first_slot + i * kRowThreads;
        is_slot[i] = slot >= slots.begin && slot < slots.end;
        of_rows[i] = clusters[slot - tile * kRowTile];
        if (!is_slot[i]) of_rows[i] = 0;
        row_begins[i] = ends[max(of_rows[i], 1u) - 1];  // of cluster 0 not its own
        slot_begins[i] = begins[of_rows[i]];
      }
#pragma unroll
      for (uint32_t i = 0; i < kRowsPerThread; ++i) {
        const uint32_t slot = first_slot + i * kRowThreads;
        const uint32_t row_begin = of_rows[i] > 0 ? row_begins[i] : 0;
        rows[i] = is_slot[i] ? row_begin + slot - slot_begins[i] : 0;
      }
#pragma unroll
      for (uint32_t i = 0; i < kRowsPerThread; ++i) {
        factors[i] = codes.factors[first_row + rows[i]];
        if (is_slot[i]) pass.slot_rows[first_slot + i * kRowThreads] = rows[i];
      }
      for (uint32_t first_query = 0; first_query < pass.num_queries; first_query += kQueries) {
        const uint32_t num_queries = min(kQueries, pass.num_queries - first_query);
        LoadTables(pass, head, first_query, num_queries, tables);
        QuerySums sums[kRowsPerThread];
        for (uint32_t first = 0; first < plane_bytes; first += sizeof(uint4)) {
          uint4 chunks[kRowsPerThread];  // under way together
#pragma unroll
          for (uint32_t i = 0; i < kRowsPerThread; ++i) {
            chunks[i] = LoadChunk<kPlaneBytes>(codes.planes + (first_row + rows[i]) * plane_bytes,
                                               first, plane_bytes);
          }
#pragma unroll
          for (uint32_t i = 0; i < kRowsPerThread; ++i) {
            AddChunk(chunks[i], first, plane_bytes, tables, 1, sums[i]);
          }
        }
        float logits[kQueries][kRowsPerThread];
#pragma unroll
        for (uint32_t q = 0; q < kQueries; ++q) {
          if (q >= num_queries) continue;
          const uint32_t query = head * pass.num_queries + first_query + q;
          const float step = pass.scales[2 * query], offset = pass.scales[2 * query + 1];
          const float lse = pass.cluster_lse[query], weight = WeightOf(pass, first_query + q);
          const float* const centroids = pass.centroid_logits + size_t{query} * codes.most_clusters;
#pragma unroll
          for (uint32_t i = 0; i < kRowsPerThread; ++i) {
            logits[q][i] = __ldcg(centroids + of_rows[i]);
          }
          float* const to = LogitsOf(pass, first_query + q) + first_slot;
#pragma unroll
          for (uint32_t i = 0; i < kRowsPerThread; ++i) {
            const float centroid = logits[q][i];
            logits[q][i] = NegativeInfinity();
            if (!is_slot[i]) continue;
            const float dot = step * sums[i].Of(q) + offset;
            logits[q][i] = Softcapped(pass.lookup, centroid + factors[i] * dot);
            to[i * kRowThreads] = logits[q][i];
            if (weight > 0) scores[i] += weight * expf(logits[q][i] - lse);  // perhaps inf
          }
        }
        StoreStates<kQueries>(pass, head, tile, first_query, num_queries, logits);
      }
    });
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      const uint32_t slot = first_slot + i * kRowThreads;
      if (slot >= pass.lookup.num_coded) continue;
      scores[i] = ToScore(scores[i]);
      pass.scores[slot] = scores[i];
      atomicAdd(counts + BucketOf(scores[i]), 1u);
    }
  }
  AddCounts(pass.slots, gridDim.x, counts);
}

// ---- The best of them get the logits of their fine codes

// Stores the logits by fine codes of one slot of a head, entry `at` of those that are refined, with
// all query rows.
template <uint32_t kPlaneBytes>
__device__ __forceinline__ void StoreFineLogits(const CudaRowLookupPass& pass, uint32_t head,
                                                uint32_t slot, uint32_t of_head, uint32_t at,
                                                const unsigned char* tables) {
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t bytes = kPlaneBytes > 0 ? kPlaneBytes : codes.plane_bytes;
  const size_t row = size_t{codes.row_begin[head]} + of_head;
  const uint8_t* const planes = codes.fine_planes + row * 3 * bytes;
  const float factor = codes.fine_factors[row];
  const uint32_t cluster = codes.clusters[row];
  for (uint32_t first_query = 0; first_query < pass.num_queries; first_query += kRowQueries) {
    QuerySums sums;
    const unsigned char* const table = tables + first_query / kRowQueries * bytes * kTableBytes;
    for (uint32_t first = 0; first < bytes; first += sizeof(uint4)) {
      uint4 chunks[3];
#pragma unroll
      for (uint32_t p = 0; p < 3; ++p)
        chunks[p] = LoadChunk<kPlaneBytes>(planes + p * bytes, first, bytes);
#pragma unroll
      for (uint32_t p = 0; p < 3; ++p) {
        AddChunk(chunks[p], first, bytes, table, p == 0 ? 4 : p, sums);
      }
    }
    float centroids[kRowQueries], steps[kRowQueries], offsets[kRowQueries];
#pragma unroll
    for (uint32_t q = 0; q < kRowQueries; ++q) {
      const size_t query = QueryOf(pass, head, min(first_query + q, pass.num_queries - 1));
      steps[q] = pass.scales[2 * query];
      offsets[q] = pass.scales[2 * query + 1];
      centroids[q] = pass.centroid_logits[query * codes.most_clusters + cluster];
    }
#pragma unroll
    for (uint32_t q = 0; q < kRowQueries; ++q) {
      if (first_query + q >= pass.num_queries) continue;
      const float dot = steps[q] * sums.Of(q) + 7 * offsets[q];
      const float logit = Softcapped(pass.lookup, centroids[q] + factor * dot);
      LogitsOf(pass, first_query + q)[slot] = logit;
      pass.refined_logits[size_t{first_query + q} * pass.list.num_refined + at] = logit;
    }
  }
}

// States of a tile's slots of a head, by what is known of them now.
__device__ __forceinline__ void StoreStatesAnew(const CudaRowLookupPass& pass, uint32_t head,
                                                uint32_t tile, const HeadSlots& slots) {
  const ThreadRows of_thread = RowsOf(tile, pass.lookup.num_coded);
  for (uint32_t first = 0; first < pass.num_queries; first += kRowQueries) {
    const uint32_t num_queries = min(kRowQueries, pass.num_queries - first);
    float logits[kRowQueries][kRowsPerThread];
#pragma unroll
    for (uint32_t q = 0; q < kRowQueries; ++q) {
      if (q >= num_queries) continue;
      LoadSome(LogitsOf(pass, first + q) + of_thread.first, of_thread.count, logits[q]);
#pragma unroll
      for (uint32_t i = 0; i < kRowsPerThread; ++i) {
        const uint32_t slot = of_thread.first + i;
        if (slot < slots.begin || slot >= slots.end) logits[q][i] = NegativeInfinity();
      }
    }
    StoreStates<kRowQueries>(pass, head, tile, first, num_queries, logits);
  }
}

// Finds the log-sum-exps of a head, by a block: of what is known, of the coded rows, and of the
// clusters of the others.
__device__ __forceinline__ void StoreLses(const CudaRowLookupPass& pass, uint32_t head) {
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t num_rests = ClusterTiles(codes.most_clusters);
  const uint32_t begin = pass.head_slots[head], end = pass.head_slots[head + 1];
  const uint32_t first_tile = begin / kRowTile;
  const uint32_t num_tiles = begin < end ? (end - 1) / kRowTile - first_tile + 1 : 0;
  for (uint32_t q = threadIdx.x / kWarpSize; q < pass.num_queries; q += kRowWarps) {
    const size_t query = QueryOf(pass, head, q), rests = query * num_rests;
    const size_t states = q * NumStates(pass) + first_tile + head;
    WarpLse lse(KnownOf(pass, query));
    lse.Add(pass.rest_max + rests, pass.rest_sum + rests, num_rests);
    lse.Add(pass.slot_max + states, pass.slot_sum + states, num_tiles);
    const float of_query = lse.Join();
    if (threadIdx.x % kWarpSize == 0) pass.lookup.lse[query] = of_query;
  }
}

// Numbers the best slots of each tile and shares them out to the threads; a tile that has any makes
// its states anew. Behind the tiles comes a block for each head, for heads that have no slots.
template <uint32_t kPlaneBytes>
__global__ __launch_bounds__(kRowThreads, 3) void RefineKernel(const CudaRowLookupPass pass) {
  WaitForEarlierKernels();
  const uint32_t num_tiles = SlotTiles(pass.lookup.num_coded), tile = TakeTile(pass.slots);
  if (tile >= num_tiles) {
    const uint32_t head = tile - num_tiles;
    if (pass.head_slots[head] == pass.head_slots[head + 1]) StoreLses(pass, head);
    return;
  }
  auto* const listed = reinterpret_cast<uint32_t*>(MoreShared());  // [kRowTile]
  auto* const tables = reinterpret_cast<unsigned char*>(listed + kRowTile);
  const RefinedRows& refined = pass.list.refined;
  const ThreadRows rows = RowsOf(tile, pass.lookup.num_coded);
  const BestRows best = FindBestRows(pass.slots, tile, pass.scores + rows.first, rows.count);
  uint32_t num_best = 0, total = 0;
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) num_best += best.taken[i];
  uint32_t in_tile = BlockScan(num_best, Shared().of_warps, total);
  if (threadIdx.x == 0) Shared().first = best.at;  // of the tile
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    if (best.taken[i] > 0) listed[in_tile++] = rows.first + i;
  }
  __syncthreads();
  const uint32_t first = Shared().first;
  ForEachHeadOf(pass, tile, [&](uint32_t head, const HeadSlots& slots) {
    if (total > 0) {
      LoadTables(pass, head, 0, pass.num_queries, tables);
      for (uint32_t i = threadIdx.x; i < total; i += kRowThreads) {
        const uint32_t slot = listed[i];
        if (slot < slots.begin || slot >= slots.end) continue;
        const uint32_t row = pass.slot_rows[slot];
        refined.rows[first + i] = row;
        refined.slots[first + i] = slot;
        refined.heads[first + i] = static_cast<uint16_t>(head);
        StoreFineLogits<kPlaneBytes>(pass, head, slot, row, first + i, tables);
      }
      __syncthreads();
      StoreStatesAnew(pass, head, tile, slots);
    }
    const uint32_t begin = pass.head_slots[head], end = pass.head_slots[head + 1];
    const uint32_t of_head = (end - 1) / kRowTile - begin / kRowTile + 1;
    if (IsLastBlock(pass.counters + head, of_head, &Shared().is_last)) StoreLses(pass, head);
  });
}

// ---- Scores of the rows that are refined

// Each thread scores kRowsPerThread refined rows over all query rows that choose. Scores are stored
// and counted in buckets, from which the cut of the list is found.
__global__ __launch_bounds__(kRowThreads,
                             kRowBlocks) void ScoresKernel(const CudaRowLookupPass pass) {
  WaitForEarlierKernels();
  uint32_t* const counts = ClearCounts(MoreShared());
  const uint32_t num_refined = pass.list.num_refined;
  const uint32_t first = blockIdx.x * kRowTile + threadIdx.x;
  uint32_t heads[kRowsPerThread];
  float scores[kRowsPerThread] = {};
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    const uint32_t at = first + i * kRowThreads;
    heads[i] = at < num_refined ? pass.list.refined.heads[at] : 0;
  }
  for (uint32_t q = 0; q < pass.num_queries; ++q) {
    const float weight = WeightOf(pass, q);
    if (!(weight > 0)) continue;
    float logits[kRowsPerThread], lses[kRowsPerThread];
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      logits[i] = __ldcg(pass.refined_logits + size_t{q} * num_refined +
                         min(first + i * kRowThreads, num_refined - 1));
      lses[i] = __ldcg(pass.lookup.lse + QueryOf(pass, heads[i], q));
    }
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) scores[i] += weight * expf(logits[i] - lses[i]);
  }
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    const uint32_t at = first + i * kRowThreads;
    if (at >= num_refined) continue;
    const float score = ToScore(scores[i]);
    pass.list.refined.scores[at] = score;
    atomicAdd(counts + BucketOf(score), 1u);
  }
  AddCounts(pass.list.selection, gridDim.x, counts);
}

// ---- What is left

// Finds a head's log-sum-exps of the tail, in the last block of the head, from the groups that all
// blocks wrote.
__device__ void StoreTailLses(const CudaRowLookupPass& pass, uint32_t head) {
  const uint32_t num_groups = pass.lookup.codes.most_groups;
  for (uint32_t q = threadIdx.x / kWarpSize; q < pass.num_queries; q += kRowWarps) {
    const size_t query = QueryOf(pass, head, q);
    const float base = pass.lookup.lse[query];
    const float* const tail = pass.lookup.tail + query * num_groups;
    float left = 0;
    Strided<8>(
        threadIdx.x % kWarpSize, num_groups, kWarpSize,
        [&](uint32_t g) { return __ldcg(tail + g); },
        [&](uint32_t, float x) { left += expf(x - base); });
    left = LaneSum<kWarpSize>(left);
    if (threadIdx.x % kWarpSize > 0) continue;
    pass.lookup.tail_lse[query] = left > 0 ? base + logf(left) : NegativeInfinity();
  }
}

// exp(logit - LSE) of a lane's slots that are not listed, of some query rows. Loads of a turn are
// under way together: each is made, past the end of the last slot or query row.
template <uint32_t kQueries>
__device__ __forceinline__ void AddUnlisted(const CudaRowLookupPass& pass, uint32_t first_query,
                                            uint32_t first_slot, uint32_t last_slot,
                                            const float (&lses)[kQueries],
                                            float (&lefts)[kQueries]) {
  constexpr uint32_t kAtOnce = 4;
  for (uint32_t first = first_slot; first < last_slot; first += kAtOnce * kWarpSize) {
    float scores[kAtOnce], logits[kAtOnce][kQueries];
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const uint32_t slot = min(first + i * kWarpSize, last_slot - 1);
      scores[i] = __ldcg(pass.scores + slot);
#pragma unroll
      for (uint32_t q = 0; q < kQueries; ++q) {
        logits[i][q] = __ldcg(LogitsOf(pass, min(first_query + q, pass.num_queries - 1)) + slot);
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (!(scores[i] >= 0) || first + i * kWarpSize >= last_slot) continue;
#pragma unroll
      for (uint32_t q = 0; q < kQueries; ++q) lefts[q] += expf(logits[i][q] - lses[q]);
    }
  }
}

// A warp a group: the log mass of what is not listed of it, coded or not.
template <uint32_t kQueries>
__global__ __launch_bounds__(kRowThreads,
                             kRowTailBlocks) void TailKernel(const CudaRowLookupPass pass) {
  WaitForEarlierKernels();
  if (IsToCut(pass.lookup)) return;
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t head = blockIdx.y, lane = threadIdx.x % kWarpSize;
#pragma unroll 1
  for (uint32_t group = blockIdx.x * kRowWarps + threadIdx.x / kWarpSize; group < codes.most_groups;
       group += gridDim.x * kRowWarps) {
    const uint32_t* const clusters = codes.group_clusters + GroupOf(codes, head, group);
    const uint32_t* const slots = pass.cluster_slots + size_t{head} * (codes.most_clusters + 1);
    const uint32_t begin = clusters[0], end = clusters[1];
    const uint32_t first_slot = slots[begin], last_slot = slots[end];
    for (uint32_t first = 0; first < pass.num_queries; first += kQueries) {
      float lses[kQueries], lefts[kQueries] = {};
      const float* logits[kQueries];  // of clusters
#pragma unroll
      for (uint32_t q = 0; q < kQueries; ++q) {
        const size_t query = QueryOf(pass, head, min(first + q, pass.num_queries - 1));
        lses[q] = pass.lookup.lse[query];
        logits[q] = pass.cluster_logits + query * codes.most_clusters;
      }
      AddUnlisted<kQueries>(pass, first, first_slot + lane, last_slot, lses, lefts);
      for (uint32_t cluster = begin + lane; cluster < end; cluster += kWarpSize) {
        const uint32_t size =
            ClusterRowsEnd(codes, head, cluster) - ClusterRowsBegin(codes, head, cluster);
        const uint32_t rest = size - (slots[cluster + 1] - slots[cluster]);
        if (rest == 0) continue;
#pragma unroll
        for (uint32_t q = 0; q < kQueries; ++q) {
          lefts[q] += static_cast<float>(rest) * expf(logits[q][cluster] - lses[q]);
        }
      }
#pragma unroll
      for (uint32_t q = 0; q < kQueries; ++q) {
        const float left = LaneSum<kWarpSize>(lefts[q]);
        if (first + q >= pass.num_queries || lane > 0) continue;
        pass.lookup.tail[QueryOf(pass, head, first + q) * codes.most_groups + group] =
            left > 0 ? lses[q] + logf(left) : NegativeInfinity();
      }
    }
  }
  if (pass.lookup.tail_lse == nullptr) return;
  if (IsLastBlock(pass.counters + head, gridDim.x, &Shared().is_last)) StoreTailLses(pass, head);
}

// Planes of 16 bytes, as of heads 128 wide, are loaded whole.
bool HaveWholePlanes(const CudaRowLookupPass& pass) {
  const DeviceRowCodes& codes = pass.lookup.codes;
  return codes.plane_bytes == sizeof(uint4) &&
         reinterpret_cast<uintptr_t>(codes.planes) % sizeof(uint4) == 0 &&
         reinterpret_cast<uintptr_t>(codes.fine_planes) % sizeof(uint4) == 0;
}
template <uint32_t kPlaneBytes>
auto LogitsKernelOf(const CudaRowLookupPass& pass) {
  return pass.num_queries == 1 ? LogitsKernel<1, kPlaneBytes>
                               : LogitsKernel<kRowQueries, kPlaneBytes>;
}

}  // namespace

CudaStatus LaunchRowLogits(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaRowLookupPass& pass) {
  return Launch(
      stream, grid, "row_logits",
      HaveWholePlanes(pass) ? LogitsKernelOf<sizeof(uint4)>(pass) : LogitsKernelOf<0>(pass), pass);
}
CudaStatus LaunchRowRefine(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_refine",
                HaveWholePlanes(pass) ? RefineKernel<sizeof(uint4)> : RefineKernel<0>, pass);
}
CudaStatus LaunchRowScores(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_scores", ScoresKernel, pass);
}
CudaStatus LaunchRowTail(CudaStreamHandle* stream, const CudaGrid& grid,
                         const CudaRowLookupPass& pass) {
  return Launch(stream, grid, "row_tail",
                pass.num_queries == 1 ? TailKernel<1> : TailKernel<kRowQueries>, pass);
}

}  // namespace lectern
