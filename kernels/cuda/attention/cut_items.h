// Items of work for attention (attention.h) that a device cuts itself, of what it listed.
#ifndef LECTERN_KERNELS_CUDA_ATTENTION_CUT_ITEMS_H_
#define LECTERN_KERNELS_CUDA_ATTENTION_CUT_ITEMS_H_

#include "kernels/cuda/attention/attention.h"

namespace lectern {

// Entries of a source that a head attends to besides: of the session, of the tail.
struct ExtraRange {
  uint32_t source, begin, end;
};
struct CudaCutItemsArgs {
  // [num_kv_heads], of the device: where each head's part of source 0 begins; nullptr: each begins
  // where the one before it ends.
  const uint32_t* list_begin = nullptr;
  const uint32_t* counts = nullptr;   // [num_kv_heads]: entries of source 0 from list_begin on
  const ExtraRange* extra = nullptr;  // [num_kv_heads][num_extra], of the device
  uint32_t num_extra = 0;
  uint32_t num_kv_heads = 0;
  uint32_t rows_per_item = 0;      // > 0
  uint32_t max_items = 0;          // room in `items`: at least MostAttentionItems, or some are lost
  AttentionItem* items = nullptr;  // out: as CutAttention makes them
  uint32_t* item_begin = nullptr;  // out [num_kv_heads + 1]
  uint32_t* num_items = nullptr;   // out [1]: at most max_items
};
// Says what is wrong with the arguments (an array missing, 0 heads, rows or items); nullptr:
// nothing.
const char* WrongCutItems(const CudaCutItemsArgs& args);
// Enqueues the cutting, in one block. kInvalidArgument: WrongCutItems, and nothing was enqueued.
CudaStatus CudaCutItems(const CudaStream& stream, const CudaCutItemsArgs& args);
// The most items that so many entries in so many ranges can make; rows_per_item > 0.
constexpr uint64_t MostAttentionItems(uint64_t num_entries, uint64_t num_ranges,
                                      uint32_t rows_per_item) {
  return num_entries / rows_per_item + num_ranges;
}

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ATTENTION_CUT_ITEMS_H_
