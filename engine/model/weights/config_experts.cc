#include "engine/model/weights/config_experts.h"

#include <algorithm>
#include <optional>

namespace lectern {
namespace {

// A layer's experts are two or three tensors each, and a plan of all tensors is made before a file
// is looked at: this bounds it. The largest published models have about 24,000 experts.
constexpr uint64_t kMostExperts = uint64_t{1} << 16;  // of all layers
constexpr uint32_t kMostLayerExperts = 4096;

// Reads which layers have experts: every decoder_sparse_step-th, without mlp_only_layers.
Status ReadExpertLayers(const ConfigFields& fields, ModelConfig* config) {
  uint32_t step = 1;
  LECTERN_RETURN_IF_ERROR(fields.Whole("decoder_sparse_step", 1, 1024, &step, 1));
  std::vector<bool> dense(config->num_layers);
  for (uint32_t layer = 0; layer < config->num_layers; ++layer) dense[layer] = (layer + 1) % step;
  if (const Json* const list = fields.Find("mlp_only_layers")) {
    if (list->array() == nullptr) {
      return fields.WrongValue("mlp_only_layers", *list, "a list of layers");
    }
    for (const Json& item : *list->array()) {
      const std::optional<uint64_t> layer = item.unsigned_integer();
      if (!layer) return fields.WrongValue("mlp_only_layers", *list, "a list of layers");
      if (*layer < config->num_layers) dense[static_cast<size_t>(*layer)] = true;
    }
  }
  if (std::ranges::count(dense, true) > 0) config->experts.dense_layers = std::move(dense);
  return {};
}

}  // namespace

Status ReadExperts(const ConfigFields& fields, const Architecture& architecture, bool has_defaults,
                   ModelConfig* config) {
  const ExpertRule& rule = architecture.experts;
  if (rule.count == 0) return {};
  const auto whole = [&](std::string_view name, uint32_t least, uint64_t most, uint32_t* out,
                         uint32_t otherwise) {
    return fields.Whole(name, least, most, out,
                        has_defaults ? std::optional(otherwise) : std::nullopt);
  };
  ExpertsConfig& experts = config->experts;
  LECTERN_RETURN_IF_ERROR(whole("num_experts", rule.may_have_dense_layers ? 0 : 1,
                                kMostLayerExperts, &experts.count, rule.count));
  if (experts.count == 0) return {};
  if (uint64_t{experts.count} * config->num_layers > kMostExperts) {
    return fields.Malformed("num_experts",
                            "is " + std::to_string(experts.count) + ", which is " +
                                std::to_string(uint64_t{experts.count} * config->num_layers) +
                                " experts in all layers; at most " + std::to_string(kMostExperts) +
                                " are read");
  }
  LECTERN_RETURN_IF_ERROR(whole("num_experts_per_tok", 1, experts.count, &experts.used, rule.used));
  experts.width = config->intermediate_size;
  if (rule.width > 0) {
    LECTERN_RETURN_IF_ERROR(
        whole("moe_intermediate_size", 1, 1u << 20, &experts.width, rule.width));
  }
  if (rule.shared_width > 0) {
    LECTERN_RETURN_IF_ERROR(whole("shared_expert_intermediate_size", 1, 1u << 20,
                                  &experts.shared_width, rule.shared_width));
  }
  experts.biases = rule.biases;
  experts.interleaved = rule.interleaved;
  experts.normalised = rule.normalised;
  if (!rule.normalised) {
    LECTERN_RETURN_IF_ERROR(fields.Bool("norm_topk_prob", &experts.normalised));
  }
  if (rule.may_have_dense_layers) LECTERN_RETURN_IF_ERROR(ReadExpertLayers(fields, config));
  if (config->num_expert_layers() == 0) experts = {};
  return {};
}

}  // namespace lectern
