// Device code of cut_items.h, for the last launch of a lookup too.
#ifndef LECTERN_KERNELS_CUDA_ATTENTION_CUT_ITEMS_CUH_
#define LECTERN_KERNELS_CUDA_ATTENTION_CUT_ITEMS_CUH_

#include "kernels/cuda/attention/cut_items.h"
#include "kernels/cuda/runtime/primitives.cuh"

namespace lectern {

// How many items entries [begin, end) make; 0 if there are none. rows_per_item > 0.
__device__ __forceinline__ uint32_t ItemsOf(uint32_t begin, uint32_t end, uint32_t rows_per_item) {
  return begin < end ? (end - begin + rows_per_item - 1) / rows_per_item : 0;
}

// Cuts the items in one block, with a thread for each kv head. `of_warps`: [warps] of shared
// memory.
__device__ __forceinline__ void CutItems(const CudaCutItemsArgs& args, uint32_t* of_warps) {
  const uint32_t size = args.rows_per_item;
  uint32_t num_listed = 0, num_items = 0;  // of the heads before
  for (uint32_t first = 0; first < args.num_kv_heads; first += blockDim.x) {
    const uint32_t head = first + threadIdx.x;
    const bool is_head = head < args.num_kv_heads;
    const uint32_t entries = is_head ? args.counts[head] : 0;
    uint32_t of_block = 0, begin = 0, end = 0, count = 0;
    const uint32_t listed = num_listed + BlockScan(entries, of_warps, of_block);
    num_listed += of_block;
    const ExtraRange* const extra = args.extra + size_t{head} * args.num_extra;
    if (is_head) {
      begin = args.list_begin != nullptr ? args.list_begin[head] : listed;
      end = begin + entries;
      count = ItemsOf(begin, end, size);
      for (uint32_t e = 0; e < args.num_extra; ++e) {
        count += ItemsOf(extra[e].begin, extra[e].end, size);
      }
    }
    uint32_t at = num_items + BlockScan(count, of_warps, of_block);
    num_items += of_block;
    if (!is_head) continue;
    args.item_begin[head] = min(at, args.max_items);
    const auto cut = [&](uint32_t source, uint32_t from, uint32_t to) {
      for (uint32_t next = from; next < to && at < args.max_items; next += size, ++at) {
        args.items[at] = AttentionItem{head, source, next, to - next < size ? to : next + size};
      }
    };
    cut(0, begin, end);
    for (uint32_t e = 0; e < args.num_extra; ++e) {
      cut(extra[e].source, extra[e].begin, extra[e].end);
    }
  }
  if (threadIdx.x > 0) return;
  args.item_begin[args.num_kv_heads] = min(num_items, args.max_items);
  *args.num_items = min(num_items, args.max_items);
}

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ATTENTION_CUT_ITEMS_CUH_
