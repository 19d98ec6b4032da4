// The launches of row_select.h.
#include "kernels/cuda/row_select.cuh"

#include "kernels/cuda/launch.cuh"

namespace lectern {
namespace {

// Of the scores that begin as the cut does the next digit.
__global__ __launch_bounds__(kRowThreads) void DigitsKernel(const CudaRowSelectPass pass) {
  WaitForEarlierKernels();
  const uint32_t head = blockIdx.y, num_rows = NumRows(pass, head), num_tiles = TilesOf(num_rows);
  uint32_t* const digits = ClearDigits(MoreShared());
  const uint32_t shift = RowDigitShift(pass.digit), bits = RowDigitBits(pass.digit);
  const uint32_t prefix = pass.cut->prefix;
  for (uint32_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    const auto [first, count] = RowsOf(tile, num_rows);
    if (count == 0) continue;
    float scores[kRowsPerThread];
    LoadFour(ScoresOf(pass, head) + first, scores);
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      if (i >= count || Bits(scores[i]) >> (shift + bits) != prefix) continue;
      atomicAdd(digits + (Bits(scores[i]) >> shift & ((1u << bits) - 1)), 1u);
    }
  }
  AddDigits(pass, digits);
}

// ---- Where the best rows are listed

// Of a head's tiles the numbers of rows above the cut and at it -> those of the tiles before. By
// the block that is the last of the head.
__device__ __forceinline__ void AddTiles(const CudaRowSelectPass& pass, uint32_t head,
                                         uint32_t num_tiles) {
  uint32_t above = 0, equal = 0, total = 0;  // of all tiles before
  uint32_t* const of_warps = Shared().of_warps;
  for (uint32_t first = 0; first < num_tiles; first += kRowThreads) {
    const bool is_tile = first + threadIdx.x < num_tiles;
    const size_t tile = size_t{head} * pass.num_tiles + first + threadIdx.x;
    const uint32_t its_above = is_tile ? __ldcg(pass.above + tile) : 0;
    const uint32_t its_equal = is_tile ? __ldcg(pass.equal + tile) : 0;
    const uint32_t above_before = above + BlockScan(its_above, of_warps, total);
    above += total;
    const uint32_t equal_before = equal + BlockScan(its_equal, of_warps, total);
    equal += total;
    if (!is_tile) continue;
    pass.above[tile] = above_before;
    pass.equal[tile] = equal_before;
  }
  if (threadIdx.x > 0) return;
  pass.heads[head].above = above;
  pass.heads[head].equal = equal;
}

// Which of the rows at the cut each head lists, and where. By the block that is the last of all.
__device__ __forceinline__ void AddHeads(const CudaRowSelectPass& pass) {
  const uint32_t num_heads = pass.num_kv_heads, wanted = pass.cut->wanted;
  uint32_t* const counts = pass.is_refined > 0 ? pass.listed : pass.refined_counts;
  uint32_t listed = 0, met = 0, total = 0;  // of all heads before
  for (uint32_t first = 0; first < num_heads; first += kRowThreads) {
    const uint32_t head = first + threadIdx.x;
    const bool is_head = head < num_heads;
    const uint32_t equal = is_head ? __ldcg(&pass.heads[head].equal) : 0;
    const uint32_t before = met + BlockScan(equal, Shared().of_warps, total);
    met += total;
    const uint32_t taken = before < wanted ? min(equal, wanted - before) : 0;
    const uint32_t size = is_head ? __ldcg(&pass.heads[head].above) + taken : 0;
    const uint32_t begin = listed + BlockScan(size, Shared().of_warps, total);
    listed += total;
    if (!is_head) continue;
    pass.heads[head].taken = taken;
    pass.heads[head].begin = begin;
    counts[head] = size;
    if (pass.is_refined == 0) pass.refined_begin[head] = begin;
  }
}

__global__ __launch_bounds__(kRowThreads) void CountsKernel(const CudaRowSelectPass pass) {
  WaitForEarlierKernels();
  const uint32_t head = blockIdx.y, num_rows = NumRows(pass, head), num_tiles = TilesOf(num_rows);
  const uint32_t cut = pass.cut->prefix;
  for (uint32_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    const auto [first, count] = RowsOf(tile, num_rows);
    float scores[kRowsPerThread] = {};
    if (count > 0) LoadFour(ScoresOf(pass, head) + first, scores);
    uint32_t counts = 0, total = 0;  // above the cut; at it, times 2^16
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      if (i >= count) continue;
      counts += (Bits(scores[i]) > cut ? 1 : 0) + (Bits(scores[i]) == cut ? 1 << 16 : 0);
    }
    BlockScan(counts, Shared().of_warps, total);
    if (threadIdx.x > 0) continue;
    pass.above[size_t{head} * pass.num_tiles + tile] = total & 0xFFFF;
    pass.equal[size_t{head} * pass.num_tiles + tile] = total >> 16;
  }
  uint32_t* const is_last = &Shared().is_last;
  if (!IsLastBlock(CounterOf(pass, head), gridDim.x, is_last)) return;
  AddTiles(pass, head, num_tiles);
  if (IsLastBlock(CounterOfAll(pass), gridDim.y, is_last)) AddHeads(pass);
}

// Lists the best rows of a tile, each thread's after those of the threads before.
__global__ __launch_bounds__(kRowThreads) void ListKernel(const CudaRowSelectPass pass) {
  WaitForEarlierKernels();
  const uint32_t head = blockIdx.y, num_rows = NumRows(pass, head);
  if (blockIdx.x >= TilesOf(num_rows)) return;  // the whole block
  const ThreadRows rows = RowsOf(blockIdx.x, num_rows);
  const BestRows best = FindBest(pass, head, blockIdx.x, rows);
  if (pass.is_refined == 0) {
    uint32_t* to = RefinedOf(pass, head) + best.at;
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) {
      if (best.is_best[i]) *to++ = rows.first + i;
    }
    return;
  }
  const uint32_t* const first_rows = pass.first_row;
  const uint32_t first_row = first_rows != nullptr ? first_rows[head] : 0;
  uint32_t refined[kRowsPerThread];
  LoadRefined(pass, head, rows, refined);
  uint32_t* to = pass.rows + pass.heads[head].begin + best.at;
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    if (!best.is_best[i]) continue;
    *to++ = first_row + refined[i];
    pass.scores[head * Stride(pass) + refined[i]] = -1;
  }
}

}  // namespace

CudaStatus LaunchRowDigits(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaRowSelectPass& pass) {
  return Launch(stream, grid, "row_digits", DigitsKernel, pass);
}
CudaStatus LaunchRowCounts(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaRowSelectPass& pass) {
  return Launch(stream, grid, "row_counts", CountsKernel, pass);
}
CudaStatus LaunchRowList(CudaStreamHandle* stream, const CudaGrid& grid,
                         const CudaRowSelectPass& pass) {
  return Launch(stream, grid, "row_list", ListKernel, pass);
}

}  // namespace lectern
