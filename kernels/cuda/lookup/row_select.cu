// Lists the rows that a lookup has chosen (row_select.h).
#include "kernels/cuda/lookup/row_select.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace lectern {
namespace {

// Lists, tile by tile of refined rows, the chosen ones, counts them by head, and marks their
// scores.
__global__ __launch_bounds__(kRowThreads, kRowBlocks) void ListKernel(const CudaRowListPass pass) {
  WaitForEarlierKernels();
  const RefinedRows& refined = pass.refined;
  const uint32_t tile = TakeTile(pass.selection);
  const ThreadRows of_thread = RowsOf(tile, pass.num_refined);
  const BestRows best =
      FindBestRows(pass.selection, tile, refined.scores + of_thread.first, of_thread.count);
  uint32_t at = best.at, of_head = 0, head = 0;
  uint32_t heads[kRowsPerThread], rows[kRowsPerThread], places[kRowsPerThread],
      first_rows[kRowsPerThread] = {};
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    const uint32_t entry = min(of_thread.first + i, pass.num_refined - 1);
    heads[i] = refined.heads[entry];
    rows[i] = refined.rows[entry];
    places[i] = refined.slots[entry];
  }
  if (pass.first_row != nullptr) {
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerThread; ++i) first_rows[i] = pass.first_row[heads[i]];
  }
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    if (best.taken[i] == 0) continue;
    if (heads[i] != head && of_head > 0) {
      atomicAdd(pass.counts + head, of_head);
      of_head = 0;
    }
    head = heads[i];
    ++of_head;
    pass.rows[at++] = first_rows[i] + rows[i];
    pass.scores[places[i]] = -1;
  }
  // Most warps have rows of one head, whose counters many blocks want at once.
  const uint32_t counting = __ballot_sync(kAllLanes, of_head > 0);
  if (counting == 0) return;
  const int leader = __ffs(static_cast<int>(counting)) - 1;
  const uint32_t of_leader = __shfl_sync(kAllLanes, head, leader);
  if (__ballot_sync(kAllLanes, of_head == 0 || head == of_leader) == kAllLanes) {
    of_head = LaneSum<kWarpSize>(of_head);
    if (threadIdx.x % kWarpSize != static_cast<uint32_t>(leader)) return;
  }
  if (of_head > 0) atomicAdd(pass.counts + head, of_head);
}

}  // namespace

CudaStatus LaunchRowList(CudaStreamHandle* stream, const CudaGrid& grid,
                         const CudaRowListPass& pass) {
  return Launch(stream, grid, "row_list", ListKernel, pass);
}

}  // namespace lectern
