// The device code of row_select.h: it counts entries by their scores, tile by tile, and finds the
// best of them.
#ifndef LECTERN_KERNELS_CUDA_LOOKUP_ROW_SELECT_CUH_
#define LECTERN_KERNELS_CUDA_LOOKUP_ROW_SELECT_CUH_

#include "kernels/cuda/attention/cut_items.cuh"
#include "kernels/cuda/lookup/row_lookup_geometry.h"
#include "kernels/cuda/lookup/row_select.h"
#include "kernels/cuda/runtime/primitives.cuh"

namespace lectern {

constexpr uint32_t kRowWarps = kRowThreads / kWarpSize;

// The memory that a block's sums need, which lies first in its shared memory.
struct RowShared {
  uint64_t said[kRowWarps];
  uint32_t is_last, tile, first;
  uint32_t of_warps[kRowWarps];
  float maxima[kRowQueries][kRowWarps], sums[kRowQueries][kRowWarps];
};
static_assert(sizeof(RowShared) <= kRowSharedBytes);
// The block's RowShared; MoreShared is the shared memory after it.
__device__ __forceinline__ RowShared& Shared() {
  return *reinterpret_cast<RowShared*>(SharedMemory());
}
__device__ __forceinline__ unsigned char* MoreShared() { return SharedMemory() + kRowSharedBytes; }

// A thread's entries of a tile: the first of them, and how many there are.
struct ThreadRows {
  uint32_t first, count;
};
__device__ __forceinline__ ThreadRows RowsOf(uint32_t tile, uint32_t num_rows) {
  const uint32_t first = tile * kRowTile + threadIdx.x * kRowsPerThread;
  return {first, first < num_rows ? min(kRowsPerThread, num_rows - first) : 0};
}
// Loads four floats in one access.
__device__ __forceinline__ void LoadFour(const float* from, float (&to)[kRowsPerThread]) {
  const float4 four = *reinterpret_cast<const float4*>(from);
  to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}
__device__ __forceinline__ void LoadFour(const uint32_t* from, uint32_t (&to)[kRowsPerThread]) {
  const uint4 four = *reinterpret_cast<const uint4*>(from);
  to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}
// The first `count` of four.
template <typename T>
__device__ __forceinline__ void LoadSome(const T* from, uint32_t count, T (&to)[kRowsPerThread]) {
  if (count == kRowsPerThread) return LoadFour(from, to);
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) to[i] = i < count ? from[i] : T{};
}

// Where keys of a cluster begin and end, as their head counts them.
__device__ __forceinline__ uint32_t ClusterRowsBegin(const DeviceRowCodes& codes, uint32_t head,
                                                     uint32_t cluster) {
  return cluster > 0 ? codes.cluster_end[codes.cluster_begin[head] + cluster - 1] : 0;
}
__device__ __forceinline__ uint32_t ClusterRowsEnd(const DeviceRowCodes& codes, uint32_t head,
                                                   uint32_t cluster) {
  return codes.cluster_end[codes.cluster_begin[head] + cluster];
}
__device__ __forceinline__ uint32_t NumClusters(const DeviceRowCodes& codes, uint32_t head) {
  return codes.cluster_begin[head + 1] - codes.cluster_begin[head];
}
// Index of a head's group in group_begin and group_clusters.
__device__ __forceinline__ uint32_t GroupOf(const DeviceRowCodes& codes, uint32_t head,
                                            uint32_t group) {
  return head * (codes.most_groups + 1) + group;
}

// Adds states first, first + stride, … below `count`, which lie `apart` from each other, to the
// state of a log-sum-exp. Other blocks may have written them just now.
template <uint32_t kAtOnce>
__device__ __forceinline__ void AddStates(const float* maxima, const float* sums, size_t apart,
                                          uint32_t first, uint32_t count, uint32_t stride,
                                          float& most, float& sum) {
  for (; first < count; first += kAtOnce * stride) {
    float of_states[kAtOnce], of_sums[kAtOnce], base = most;
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {  // past the end the last one: no load is a branch's
      const size_t at = min(first + i * stride, count - 1) * apart;
      of_states[i] = __ldcg(maxima + at);
      of_sums[i] = __ldcg(sums + at);
    }
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (first + i * stride >= count) of_states[i] = NegativeInfinity();
      base = fmaxf(base, of_states[i]);
    }
    if (base == NegativeInfinity()) continue;
    sum *= expf(most - base);
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) sum += of_sums[i] * expf(of_states[i] - base);
    most = base;
  }
}

// Clears words that a later launch counts in; all blocks of this launch take part, with so many
// threads.
__device__ __forceinline__ void ClearWords(uint32_t* words, uint32_t count, uint32_t block,
                                           uint32_t num_blocks) {
  for (uint32_t i = block * blockDim.x + threadIdx.x; i < count; i += num_blocks * blockDim.x) {
    words[i] = 0;
  }
}

// ---- Where the best scores end

// Never -0, and 0 where it is no number.
__device__ __forceinline__ float ToScore(float sum) { return fmaxf(sum, 0.0f); }
// The bucket of a score, which is not below 0.
__device__ __forceinline__ uint32_t BucketOf(float score) {
  constexpr uint32_t kBits = 23 - 6, kLeast = (127 - 62) << 6;
  const uint32_t bucket = static_cast<uint32_t>(__float_as_int(score)) >> kBits;
  return min(max(bucket, kLeast) - kLeast, kScoreBuckets - 1);
}

// A block's counts, [kScoreBuckets] of shared memory.
__device__ __forceinline__ uint32_t* ClearCounts(unsigned char* shared) {
  auto* const of_block = reinterpret_cast<uint32_t*>(shared);
  for (uint32_t i = threadIdx.x; i < kScoreBuckets; i += blockDim.x) of_block[i] = 0;
  __syncthreads();
  return of_block;
}

// The bucket in which the last wanted score lies, by one block.
template <uint32_t kThreads>
__device__ __forceinline__ void FindCut(const RowSelection& selection) {
  constexpr uint32_t kValues = kScoreBuckets / kThreads;
  const uint32_t highest = kScoreBuckets - 1 - threadIdx.x * kValues;
  const uint32_t wanted = selection.wanted;
  uint32_t of_buckets[kValues], sum = 0, total = 0;
#pragma unroll
  for (uint32_t i = 0; i < kValues; ++i) {
    of_buckets[i] = __ldcg(selection.counts + highest - i);
    sum += of_buckets[i];
  }
  uint32_t above = BlockScan(sum, Shared().of_warps, total);
  if (above >= wanted || above + sum < wanted) return;
#pragma unroll
  for (uint32_t i = 0; i < kValues; ++i) {
    if (above < wanted && above + of_buckets[i] >= wanted) {
      *selection.cut = {highest - i, wanted - above};
    }
    above += of_buckets[i];
  }
}
// The counts of a block to those of all `num_blocks`, of which the last one finds the cut.
template <uint32_t kThreads = kRowThreads>
__device__ __forceinline__ void AddCounts(const RowSelection& selection, uint32_t num_blocks,
                                          const uint32_t* of_block) {
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kScoreBuckets; i += kThreads) {
    if (of_block[i] > 0) atomicAdd(selection.counts + i, of_block[i]);
  }
  if (IsLastBlock(selection.counters, num_blocks, &Shared().is_last)) FindCut<kThreads>(selection);
}

// ---- Which are the best, and where they are listed

// The next tile that no block has taken: those before it are of blocks that have begun, which
// therefore end. All threads of a block come here, and once.
__device__ __forceinline__ uint32_t TakeTile(const RowSelection& selection) {
  if (threadIdx.x == 0) Shared().tile = atomicAdd(selection.counters + 1, 1u);
  __syncthreads();
  return Shared().tile;
}

// How many lie above the cut's bucket, and in it.
struct RowCounts {
  uint32_t above, equal;  // below 2^31
};
constexpr uint64_t kOfTile = uint64_t{1} << 62, kWithAllBefore = uint64_t{2} << 62;
__device__ __forceinline__ uint64_t Packed(const RowCounts& counts, uint64_t kind) {
  return kind | uint64_t{counts.equal} << 31 | counts.above;
}
// Sums the counts of all tiles before `tile`, which itself holds `own`. A tile publishes first its
// own counts, then the counts of itself and all before it. A block looks back at as many tiles at a
// time as it has threads, until one of them has published the latter. All threads of a block come
// here, and each gets the result.
__device__ __forceinline__ RowCounts CountsBefore(uint64_t* tiles, uint32_t tile,
                                                  const RowCounts& own) {
  const auto above_of = [](uint64_t said) { return static_cast<uint32_t>(said & 0x7FFFFFFF); };
  const auto equal_of = [](uint64_t said) {
    return static_cast<uint32_t>(said >> 31 & 0x7FFFFFFF);
  };
  uint64_t* const said_by_warps = Shared().said;
  if (threadIdx.x == 0 && tile > 0) StoreRelaxed(tiles + tile, Packed(own, kOfTile));
  RowCounts before = {0, 0};
  for (uint32_t end = tile; end > 0;) {  // thread t looks at tile end - 1 - t
    uint64_t said = kWithAllBefore;      // nothing, of what is before the first one
    bool is_there = true;
    do {
      if (threadIdx.x < end) said = LoadRelaxed(tiles + (end - 1 - threadIdx.x));
      is_there = said != 0;
    } while (__ballot_sync(kAllLanes, is_there) != kAllLanes);
    const uint32_t whole = __ballot_sync(kAllLanes, said >= kWithAllBefore);
    const uint32_t last =
        whole != 0 ? static_cast<uint32_t>(__ffs(static_cast<int>(whole)) - 1) : kWarpSize - 1;
    const bool counts = threadIdx.x % kWarpSize <= last;
    const RowCounts of_warp = {LaneSum<kWarpSize>(counts ? above_of(said) : 0u),
                               LaneSum<kWarpSize>(counts ? equal_of(said) : 0u)};
    if (threadIdx.x % kWarpSize == 0) {
      said_by_warps[threadIdx.x / kWarpSize] =
          Packed(of_warp, whole != 0 ? kWithAllBefore : kOfTile);
    }
    __syncthreads();
    bool is_whole = false;
    for (uint32_t w = 0; w < kRowWarps && !is_whole; ++w) {  // each thread for itself
      before.above += above_of(said_by_warps[w]);
      before.equal += equal_of(said_by_warps[w]);
      is_whole = said_by_warps[w] >= kWithAllBefore;
    }
    __syncthreads();
    end = is_whole ? 0 : end - kRowThreads;  // of fewer the last ones are whole
  }
  if (threadIdx.x == 0) {
    StoreLate(tiles + tile,
              Packed({before.above + own.above, before.equal + own.equal}, kWithAllBefore));
  }
  return before;
}

// Says how many rows of each of a thread's entries are taken (an entry has `sizes` rows; 0: no
// entry); in the cut's bucket the first ones. `at`: how many rows are taken before them. All
// threads of a block come here.
struct BestRows {
  uint32_t taken[kRowsPerThread];
  uint32_t at;
};
// Rows of buckets above the cut are all taken; of the cut's own bucket the first ones are, as many
// as are still wanted. For that each thread must know how many such rows lie before its own, in its
// block (BlockScan) and in earlier blocks (CountsBefore).
__device__ __forceinline__ BestRows FindBest(const RowSelection& selection, uint32_t tile,
                                             const uint32_t (&buckets)[kRowsPerThread],
                                             const uint32_t (&sizes)[kRowsPerThread]) {
  const RowCut cut = *selection.cut;
  RowCounts counts = {0, 0}, total;
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    counts.above += buckets[i] > cut.bucket ? sizes[i] : 0;
    counts.equal += buckets[i] == cut.bucket ? sizes[i] : 0;
  }
  const uint32_t above = BlockScan(counts.above, Shared().of_warps, total.above);
  const uint32_t equal = BlockScan(counts.equal, Shared().of_warps, total.equal);
  const RowCounts before = CountsBefore(selection.tiles, tile, total);
  uint32_t met = before.equal + equal;
  BestRows best;
  best.at = before.above + above + min(met, cut.wanted);
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    best.taken[i] = buckets[i] > cut.bucket ? sizes[i] : 0;
    if (buckets[i] != cut.bucket) continue;
    best.taken[i] = min(sizes[i], cut.wanted - min(met, cut.wanted));
    met += sizes[i];
  }
  return best;
}
// Finds the taken ones of a thread's rows by their scores; a score below 0 means that there is no
// row.
__device__ __forceinline__ BestRows FindBestRows(const RowSelection& selection, uint32_t tile,
                                                 const float* scores, uint32_t count) {
  uint32_t buckets[kRowsPerThread], sizes[kRowsPerThread];
  float four[kRowsPerThread];
  LoadSome(scores, count, four);
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    buckets[i] = BucketOf(four[i]);
    sizes[i] = i < count && four[i] >= 0 ? 1 : 0;
  }
  return FindBest(selection, tile, buckets, sizes);
}

// ---- The last launch: a block of its row of blocks after those of all heads cuts items

// Cuts the items, if this block is one of that row; true: it is, and has no other work. All threads
// of a block come here.
__device__ __forceinline__ bool IsToCut(const CudaCodesLookupArgs& args) {
  if (blockIdx.y < args.codes.num_kv_heads) return false;
  if (blockIdx.x == 0) CutItems(args.cut, Shared().of_warps);
  return true;
}

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_LOOKUP_ROW_SELECT_CUH_
