// Device code of row_select.h: rows in tiles, counts of digits, and which rows are the best.
#ifndef LECTERN_KERNELS_CUDA_ROW_SELECT_CUH_
#define LECTERN_KERNELS_CUDA_ROW_SELECT_CUH_

#include "kernels/cuda/primitives.cuh"
#include "kernels/cuda/row_lookup_geometry.h"
#include "kernels/cuda/row_select.h"

namespace lectern {

constexpr uint32_t kRowWarps = kRowThreads / kWarpSize;

// What blocks sum by lies first in their shared memory.
struct RowShared {
  uint32_t is_last;
  uint32_t of_warps[kRowWarps];
  float maxima[kRowQueries][kRowWarps], sums[kRowQueries][kRowWarps];
};
static_assert(sizeof(RowShared) <= kRowSharedBytes);
__device__ __forceinline__ RowShared& Shared() {
  return *reinterpret_cast<RowShared*>(SharedMemory());
}
__device__ __forceinline__ unsigned char* MoreShared() { return SharedMemory() + kRowSharedBytes; }

__device__ __forceinline__ size_t Stride(const CudaRowSelectPass& pass) {
  return size_t{pass.num_tiles} * kRowTile;
}
// How many rows of a head this stage is about, their scores, and tiles of them.
__device__ __forceinline__ uint32_t NumRows(const CudaRowSelectPass& pass, uint32_t head) {
  return pass.is_refined == 0 ? pass.num_rows[head] : pass.refined_counts[head];
}
__device__ __forceinline__ float* ScoresOf(const CudaRowSelectPass& pass, uint32_t head) {
  return (pass.is_refined == 0 ? pass.scores : pass.refined_scores) + head * Stride(pass);
}
__device__ __forceinline__ uint32_t* RefinedOf(const CudaRowSelectPass& pass, uint32_t head) {
  return pass.refined_rows + head * Stride(pass);
}
__device__ __forceinline__ uint32_t TilesOf(uint32_t num_rows) {
  return (num_rows + kRowTile - 1) / kRowTile;
}
__device__ __forceinline__ uint32_t* CounterOf(const CudaRowSelectPass& pass, uint32_t head,
                                               uint32_t which = 0) {
  return pass.counters + head * kRowHeadCounters + which;
}
__device__ __forceinline__ uint32_t* CounterOfAll(const CudaRowSelectPass& pass) {
  return CounterOf(pass, pass.num_kv_heads);
}

// A thread's rows of a tile: the first of them, and how many there are.
struct ThreadRows {
  uint32_t first, count;
};
__device__ __forceinline__ ThreadRows RowsOf(uint32_t tile, uint32_t num_rows) {
  const uint32_t first = tile * kRowTile + threadIdx.x * kRowsPerThread;
  return {first, first < num_rows ? min(kRowsPerThread, num_rows - first) : 0};
}
// Of a thread's rows: one access. What lies past the last row of a head is nobody's.
__device__ __forceinline__ void LoadFour(const float* from, float (&to)[kRowsPerThread]) {
  const float4 four = *reinterpret_cast<const float4*>(from);
  to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}
__device__ __forceinline__ void LoadFour(const uint32_t* from, uint32_t (&to)[kRowsPerThread]) {
  const uint4 four = *reinterpret_cast<const uint4*>(from);
  to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}
// Of refined rows what lies past the last one was never written.
__device__ __forceinline__ void LoadRefined(const CudaRowSelectPass& pass, uint32_t head,
                                            const ThreadRows& rows,
                                            uint32_t (&to)[kRowsPerThread]) {
  const uint32_t* const from = RefinedOf(pass, head) + rows.first;
  if (rows.count == kRowsPerThread) return LoadFour(from, to);
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) to[i] = i < rows.count ? from[i] : 0;
}
__device__ __forceinline__ void StoreFour(const float (&from)[kRowsPerThread], float* to) {
  *reinterpret_cast<float4*>(to) = float4{from[0], from[1], from[2], from[3]};
}

// Of scores, which are not below 0, in their order.
__device__ __forceinline__ uint32_t Bits(float score) {
  return static_cast<uint32_t>(__float_as_int(score));
}
// Never -0, and 0 where it is no number.
__device__ __forceinline__ float ToScore(float sum) { return fmaxf(sum, 0.0f); }

// ---- Where the best scores end: by counting their digits, the highest first

// The counts of a block's digits, [kRowDigitValues] of shared memory, to those of all.
__device__ __forceinline__ uint32_t* ClearDigits(unsigned char* shared) {
  auto* const of_block = reinterpret_cast<uint32_t*>(shared);
  for (uint32_t i = threadIdx.x; i < kRowDigitValues; i += blockDim.x) of_block[i] = 0;
  __syncthreads();
  return of_block;
}
__device__ __forceinline__ uint32_t* CountsOf(const CudaRowSelectPass& pass) {
  return pass.counts + (pass.is_refined * kRowDigits + pass.digit) * kRowDigitValues;
}

// The last block finds the digit in which the last wanted score lies, the largest first.
template <uint32_t kThreads>
__device__ __forceinline__ void FindDigit(const CudaRowSelectPass& pass) {
  constexpr uint32_t kValues = kRowDigitValues / kThreads;
  const uint32_t* const counts = CountsOf(pass);
  const uint32_t prefix = pass.digit > 0 ? pass.cut->prefix : 0;
  const uint32_t of_all = pass.is_refined > 0 ? pass.num_wanted : pass.num_refined;
  const uint32_t wanted = pass.digit > 0 ? pass.cut->wanted : of_all;
  const uint32_t highest = kRowDigitValues - 1 - threadIdx.x * kValues;
  uint32_t of_values[kValues], sum = 0, total = 0;
#pragma unroll
  for (uint32_t i = 0; i < kValues; ++i) {
    of_values[i] = __ldcg(counts + highest - i);
    sum += of_values[i];
  }
  uint32_t above = BlockScan(sum, Shared().of_warps, total);  // its barriers: all have read the cut
  if (above >= wanted || above + sum < wanted) return;
#pragma unroll
  for (uint32_t i = 0; i < kValues; ++i) {
    if (above < wanted && above + of_values[i] >= wanted) {
      pass.cut->prefix = prefix << RowDigitBits(pass.digit) | (highest - i);
      pass.cut->wanted = wanted - above;
    }
    above += of_values[i];
  }
}
template <uint32_t kThreads = kRowThreads>
__device__ __forceinline__ void AddDigits(const CudaRowSelectPass& pass, const uint32_t* of_block) {
  __syncthreads();
  uint32_t* const all = CountsOf(pass);
  for (uint32_t i = threadIdx.x; i < kRowDigitValues; i += kThreads) {
    if (of_block[i] > 0) atomicAdd(all + i, of_block[i]);
  }
  const uint32_t num_blocks = gridDim.x * gridDim.y;
  if (IsLastBlock(CounterOfAll(pass), num_blocks, &Shared().is_last)) FindDigit<kThreads>(pass);
}

// Which of a thread's rows are among the best; of those at the cut the first ones. `at`: how many
// of its head are listed before them. All threads of the block come here.
struct BestRows {
  bool is_best[kRowsPerThread];
  uint32_t at;
};
__device__ __forceinline__ BestRows FindBest(const CudaRowSelectPass& pass, uint32_t head,
                                             uint32_t of_head, const ThreadRows& rows) {
  const uint32_t cut = pass.cut->prefix, taken = pass.heads[head].taken;
  const size_t tile = size_t{head} * pass.num_tiles + of_head;
  float scores[kRowsPerThread] = {};
  if (rows.count > 0) LoadFour(ScoresOf(pass, head) + rows.first, scores);
  uint32_t counts = 0, total = 0;  // as CountsKernel's
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    if (i >= rows.count) continue;
    counts += (Bits(scores[i]) > cut ? 1 : 0) + (Bits(scores[i]) == cut ? 1 << 16 : 0);
  }
  const uint32_t before = BlockScan(counts, Shared().of_warps, total);
  uint32_t met = pass.equal[tile] + (before >> 16);
  BestRows best;
  best.at = pass.above[tile] + (before & 0xFFFF) + min(met, taken);
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    best.is_best[i] = i < rows.count && Bits(scores[i]) > cut;
    if (i < rows.count && Bits(scores[i]) == cut) best.is_best[i] = met++ < taken;
  }
  return best;
}

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ROW_SELECT_CUH_
