// Checks and launch geometry of cut_items.h.
#include "kernels/cuda/attention/cut_items.h"

#include "kernels/cuda/attention/tile_geometry.h"
#include "kernels/cuda/runtime/checks.h"
#include "kernels/cuda/runtime/kernels.h"

namespace lectern {

const char* WrongCutItems(const CudaCutItemsArgs& args) {
  if (args.counts == nullptr || args.items == nullptr || args.item_begin == nullptr ||
      args.num_items == nullptr || (args.num_extra > 0 && args.extra == nullptr)) {
    return "an array that is missing";
  }
  if (args.num_kv_heads == 0) return "no kv heads";
  if (args.rows_per_item == 0 || args.max_items == 0) return "items of no rows";
  return nullptr;
}

CudaStatus CudaCutItems(const CudaStream& stream, const CudaCutItemsArgs& args) {
  if (const char* const why = WrongCutItems(args)) return Refused("cut_items", why);
  const CudaGrid grid{.threads = kCutThreads,
                      .shared_bytes = kCutThreads / 32 * uint32_t{sizeof(uint32_t)}};
  return stream.kernels().cut_items(stream.handle(), grid, args);
}

}  // namespace lectern
