#include "engine/gpu/placement.h"

#include <utility>

#include "engine/gpu/kv_rows.h"
#include "engine/gpu/memory_plan.h"

namespace lectern {

std::string WhyCpuComputes(const ModelConfig& config) {
  // Each of these is a step that engine/gpu/linear_layers.cc does not take.
  const bool is_partial = config.rope.has_neighbours && config.rope.dims != config.head_dim;
  const bool is_reordered = config.rope.has_neighbours && (config.head_norms || config.whole_norms);
  const bool is_plain = config.pre_norms && !config.whole_norms && config.residual_scale == 1 &&
                        !config.centred_norms && !config.parallel && config.unturned.empty() &&
                        !is_partial && !is_reordered && config.experts.count == 0;
  if (is_plain && config.mlp_bias) {
    return "the GPU's kernels do not add biases in the MLP, which this model has";
  }
  if (is_plain) return "";
  return "the GPU's kernels do not compute models of the architecture \"" + config.architecture +
         "\"";
}

std::string WhyCpuAttends(const Device& device, Dtype kv_dtype, size_t head_dim) {
  if (HasDeviceAttention(device, kv_dtype, head_dim)) return "";
  return "the CPU attends to this document, as the GPU's kernels take keys of f16, bf16 and q8 and "
         "heads of up to 256 numbers (128 where a block has 100 KiB of shared memory)";
}

std::string WhyCpuLooksUp(const Document& document) {
  for (uint32_t layer = 0; layer < document.num_layers(); ++layer) {
    if (document.is_windowed(layer)) continue;
    const auto heads = document.Heads(layer);
    // An error is told by the step that reads the layer. All layers are made by one recipe.
    if (!heads.ok() || heads->empty() || heads->front().metric() == nullptr) break;
    return "the CPU looks up which rows to read, because the GPU's kernels do not apply the metric "
           "of this document's codes; index it on the GPU to have it looked up there";
  }
  return "";
}

std::shared_ptr<DeviceDocument> PlaceDocument(std::shared_ptr<const Device> device,
                                              std::shared_ptr<const Document> document,
                                              const ModelConfig& config, const Backend& backend) {
  return std::make_shared<DeviceDocument>(std::move(device), std::move(document), backend,
                                          DeviceRoomForAsking(config));
}

}  // namespace lectern
