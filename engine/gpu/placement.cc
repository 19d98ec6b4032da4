#include "engine/gpu/placement.h"

#include <utility>

#include "engine/gpu/kv_rows.h"
#include "engine/gpu/memory_plan.h"

namespace lectern {

std::string WhyCpuAttends(const Device& device, Dtype kv_dtype, size_t head_dim) {
  if (HasDeviceAttention(device, kv_dtype, head_dim)) return "";
  return "the CPU attends to this document, as the GPU's kernels take keys of f16, bf16 and q8 and "
         "heads of up to 256 numbers (128 where a block has 100 KiB of shared memory)";
}

std::shared_ptr<DeviceDocument> PlaceDocument(std::shared_ptr<const Device> device,
                                              std::shared_ptr<const Document> document,
                                              const ModelConfig& config, const Backend& backend) {
  return std::make_shared<DeviceDocument>(std::move(device), std::move(document), backend,
                                          DeviceRoomForAsking(config));
}

}  // namespace lectern
