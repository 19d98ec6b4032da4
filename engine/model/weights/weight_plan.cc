#include "engine/model/weights/weight_plan.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "engine/model/formats/safetensors.h"
#include "kernels/convert.h"

namespace lectern {
namespace {

using Shape = std::vector<uint64_t>;
using Plan = WeightPlan;

// The matrices of an MLP.
constexpr std::string_view kMlpParts[] = {"gate_proj", "up_proj", "down_proj"};

bool IsRouter(std::string_view name) { return name.ends_with(".mlp.gate.weight"); }

// Adds the tensors of a layer's experts.
void PlanExperts(const ModelConfig& c, size_t layer, Plan& plan) {
  const uint64_t hidden = c.hidden_size;
  const auto add = [&](const std::string& prefix, uint64_t width) {
    for (const std::string_view part : kMlpParts) {
      const bool is_down = part == "down_proj";
      plan[LayerName(layer, prefix + std::string(part))] =
          is_down ? Shape{hidden, width} : Shape{width, hidden};
      if (c.experts.biases) {
        plan[LayerName(layer, prefix + std::string(part), "bias")] = {is_down ? hidden : width};
      }
    }
  };
  plan[LayerName(layer, kRouter)] = {c.experts.count, hidden};
  if (c.experts.biases) plan[LayerName(layer, kRouter, "bias")] = {c.experts.count};
  for (size_t expert = 0; expert < c.experts.count; ++expert) {
    add(ExpertPart(expert, ""), c.experts.width);
  }
  if (c.experts.shared_width == 0) return;
  add("mlp.shared_expert.", c.experts.shared_width);
  plan[LayerName(layer, "mlp.shared_expert_gate")] = {hidden};
}

// "[4096, 1024]" for messages.
std::string Shown(const Shape& shape) {
  std::string text;
  for (const uint64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

// Names a tensor in a message: "<file>: tensor "<name>" at byte <begin>".
std::string Describe(const TensorFiles& all, std::string_view name,
                     const TensorFiles::Tensor& tensor) {
  return all.files[tensor.file].path + ": tensor " + all.Shown(name) + " at byte " +
         std::to_string(tensor.begin);
}

// kUnsupportedModel: a type that we do not compute with; vectors may not be blocks.
Status CheckType(const TensorFiles& all, std::string_view name, const TensorFiles::Tensor& tensor) {
  std::string supported;
  for (size_t i = 0; i < kNumTensorTypes; ++i) {
    const auto type = static_cast<TensorType>(i);
    if (tensor.shape.size() != 2 && !PlainDtype(type)) continue;
    if (tensor.type == type) return {};
    supported += (supported.empty() ? "" : ", ") + std::string(TensorTypeName(type));
  }
  return Status(Code::kUnsupportedModel,
                Describe(all, name, tensor) + " has type " + tensor.type_name +
                    "; supported: " + supported +
                    (tensor.shape.size() == 2 ? ". Quantise the model anew as one of these, or "
                                                "take such a file of it: Q4_K_M is a good one"
                                              : ""));
}

// Checks that every tensor of the plan is there, with its shape and a type that we compute with.
Status CheckNeeded(const Plan& plan, const TensorFiles& all) {
  for (const auto& [name, shape] : plan) {
    const auto at = all.tensors.find(name);
    if (at == all.tensors.end()) {
      const bool is_output = name == kOutput;
      return Status(
          Code::kMalformedModel,
          all.files[0].path + ": tensor " + all.Shown(name) + " is missing" +
              (is_output ? ", and config.json does not say \"tie_word_embeddings\": true" : ""));
    }
    const TensorFiles::Tensor& tensor = at->second;
    if (tensor.shape != shape) {
      return Status(Code::kMalformedModel, Describe(all, name, tensor) + " has shape " +
                                               Shown(tensor.shape) + " but " + all.config_name +
                                               " wants " + Shown(shape));
    }
    LECTERN_RETURN_IF_ERROR(CheckType(all, name, tensor));
  }
  return Status();
}

// Begins of names of tensors that only images, sound or further tokens need: in safetensors, where
// "model." may stand before them, and in GGUF.
constexpr std::string_view kOtherParts[] = {"vision_tower.",
                                            "vision_model.",
                                            "vision_encoder.",
                                            "vision_language_adapter.",
                                            "visual.",
                                            "audio_tower.",
                                            "audio_model.",
                                            "audio_encoder.",
                                            "patch_merger.",
                                            "pre_mm_projector_norm.",
                                            "multi_modal_projector.",
                                            "multimodal_projector.",
                                            "mm_projector.",
                                            "image_newline",
                                            "embed_vision.",
                                            "embed_audio.",
                                            "mtp.",
                                            "mtp_layers.",
                                            "nextn.",
                                            "v.",
                                            "mm.",
                                            "a."};
// Ends of names of tables that follow from the configuration, as old files have them: frequencies
// of RoPE, and masks.
constexpr std::string_view kTables[] = {
    "rotary_emb.inv_freq",    ".rotary.inv_freq", ".attn_rot_embd.weight", ".attn.masked_bias",
    ".attention.masked_bias", ".attn.bias",       ".attention.bias"};

// Returns the layer that a name speaks of, in transformers' or GGUF's way of naming tensors;
// nothing: it names none.
std::optional<uint64_t> LayerOf(std::string_view name) {
  for (const std::string_view prefix : {"model.layers.", "blk."}) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = name.substr(prefix.size());
    uint64_t layer = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
    const bool is_number = error == std::errc() && end != rest.data() + rest.size() && *end == '.';
    if (is_number) return layer;
  }
  return std::nullopt;
}

constexpr uint64_t kMostNeutral = uint64_t{1} << 22;  // values that IsNeutral looks at, at most

// kUnsupportedModel: a tensor is left that is in no plan. To ignore it would give wrong answers
// without a word: a bias that is not added, a norm that is not applied.
Status CheckUnneeded(const Plan& plan, const TensorFiles& all, const ModelConfig& config) {
  for (const auto& [name, tensor] : all.tensors) {
    if (plan.contains(name)) continue;
    return Status(Code::kUnsupportedModel,
                  Describe(all, name, tensor) + " is not part of such a model with " +
                      std::to_string(config.num_layers) +
                      " layers, and answers would be wrong without it; take a conversion of the "
                      "model whose tensors are those of " +
                      QuotedName(config.architecture));
  }
  return Status();
}

// Checks that packed rows are whole groups of 32, which share a scale.
Status CheckGroups(const Plan& plan, const TensorFiles& all, const ModelConfig& config,
                   WeightsType type) {
  for (const auto& [name, shape] : plan) {
    const TensorFiles::Tensor& tensor = all.tensors.find(name)->second;
    if (shape.size() != 2 || shape[1] % kPackedGroup == 0) continue;
    if (!PackingOf(name, *tensor.type, type, config)) continue;
    return Status(Code::kUnsupportedModel,
                  all.files[tensor.file].path + ": tensor " + all.Shown(name) + " has rows of " +
                      std::to_string(shape[1]) +
                      " values, which are not groups of 32 and cannot be quantised; use weights "
                      "\"stored\"");
  }
  return Status();
}

// Checks that each part of a joined matrix begins at a whole panel of 16 rows when it is packed,
// because a part is used as a slice of panels.
Status CheckFused(const TensorFiles& all, const ModelConfig& config, WeightsType type) {
  const uint64_t q_size = uint64_t{config.num_heads} * config.head_dim;
  const uint64_t kv_size = uint64_t{config.num_kv_heads} * config.head_dim;
  for (const auto& [is_fused, part, size] :
       {std::tuple(config.fused_qkv, std::string_view("self_attn.qkv_proj"), q_size),
        std::tuple(config.fused_qkv, std::string_view("self_attn.qkv_proj"), kv_size),
        std::tuple(config.fused_gate_up, std::string_view("mlp.gate_up_proj"),
                   uint64_t{config.intermediate_size})}) {
    if (!is_fused || size % kPackedColumns == 0) continue;
    for (size_t layer = 0; layer < config.num_layers; ++layer) {  // each may have a type of its own
      if (part.starts_with("mlp.") && config.has_experts(layer)) continue;
      const std::string name = LayerName(layer, part);
      const TensorFiles::Tensor& tensor = all.tensors.find(name)->second;
      if (!PackingOf(name, *tensor.type, type, config)) continue;
      return Status(Code::kUnsupportedModel,
                    all.files[tensor.file].path + ": tensor " + all.Shown(name) +
                        " joins matrices of " + std::to_string(size) +
                        " rows, which are not whole panels of 16 and cannot be quantised; use " +
                        OptionName("weights", "stored"));
    }
  }
  return {};
}

}  // namespace

std::string LayerName(size_t layer, std::string_view part, std::string_view kind) {
  return "model.layers." + std::to_string(layer) + "." + std::string(part) + "." +
         std::string(kind);
}

bool IsOfExpert(std::string_view name) { return name.find(".mlp.experts.") != name.npos; }

std::string_view MlpNorm(const ModelConfig& config) {
  return config.post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm";
}

std::string ExpertPart(size_t expert, std::string_view part) {
  return "mlp.experts." + std::to_string(expert) + "." + std::string(part);
}

WeightPlan MakeWeightPlan(const ModelConfig& c) {
  const uint64_t hidden = c.hidden_size, inner = c.intermediate_size;
  const uint64_t q_size = uint64_t{c.num_heads} * c.head_dim;
  const uint64_t kv_size = uint64_t{c.num_kv_heads} * c.head_dim;
  Plan plan;
  plan[std::string(kEmbedding)] = {c.vocab_size, hidden};
  plan[std::string(kFinalNorm)] = {hidden};
  if (!c.tie_word_embeddings) plan[std::string(kOutput)] = {c.vocab_size, hidden};
  for (size_t layer = 0; layer < c.num_layers; ++layer) {
    if (c.fused_qkv) {
      plan[LayerName(layer, "self_attn.qkv_proj")] = {q_size + 2 * kv_size, hidden};
    } else {
      plan[LayerName(layer, "self_attn.q_proj")] = {q_size, hidden};
      plan[LayerName(layer, "self_attn.k_proj")] = {kv_size, hidden};
      plan[LayerName(layer, "self_attn.v_proj")] = {kv_size, hidden};
    }
    plan[LayerName(layer, "self_attn.o_proj")] = {hidden, q_size};
    if (c.has_experts(layer)) {
      PlanExperts(c, layer, plan);
    } else {
      if (c.fused_gate_up) {
        plan[LayerName(layer, "mlp.gate_up_proj")] = {2 * inner, hidden};
      } else {
        plan[LayerName(layer, "mlp.gate_proj")] = {inner, hidden};
        plan[LayerName(layer, "mlp.up_proj")] = {inner, hidden};
      }
      plan[LayerName(layer, "mlp.down_proj")] = {hidden, inner};
    }
    if (c.pre_norms) {
      plan[LayerName(layer, "input_layernorm")] = {hidden};
      if (!c.parallel) plan[LayerName(layer, MlpNorm(c))] = {hidden};
    }
    if (c.post_norms) {
      plan[LayerName(layer, "post_attention_layernorm")] = {hidden};
      plan[LayerName(layer, "post_feedforward_layernorm")] = {hidden};
    }
    if (c.head_norms || c.whole_norms) {
      plan[LayerName(layer, "self_attn.q_norm")] = {c.whole_norms ? q_size : c.head_dim};
      plan[LayerName(layer, "self_attn.k_norm")] = {c.whole_norms ? kv_size : c.head_dim};
    }
    if (c.qkv_bias && c.fused_qkv) {
      plan[LayerName(layer, "self_attn.qkv_proj", "bias")] = {q_size + 2 * kv_size};
    } else if (c.qkv_bias) {
      plan[LayerName(layer, "self_attn.q_proj", "bias")] = {q_size};
      plan[LayerName(layer, "self_attn.k_proj", "bias")] = {kv_size};
      plan[LayerName(layer, "self_attn.v_proj", "bias")] = {kv_size};
    }
    if (c.sinks) plan[LayerName(layer, "self_attn.sinks")] = {c.num_heads};
    if (c.output_bias) plan[LayerName(layer, "self_attn.o_proj", "bias")] = {hidden};
    if (c.mlp_bias && !c.has_experts(layer)) {
      plan[LayerName(layer, "mlp.gate_proj", "bias")] = {inner};
      plan[LayerName(layer, "mlp.up_proj", "bias")] = {inner};
      plan[LayerName(layer, "mlp.down_proj", "bias")] = {hidden};
    }
  }
  return plan;
}

bool IsOfOtherParts(std::string_view name, const ModelConfig& config) {
  const auto layer = LayerOf(name);
  if (layer) {
    const bool is_behind = *layer >= config.num_layers &&
                           *layer < uint64_t{config.num_layers} + config.num_extra_layers;
    return is_behind || name.find(".nextn.") != name.npos;
  }
  constexpr std::string_view kModel = "model.";
  if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
  return std::ranges::any_of(kOtherParts, [&](auto begin) { return name.starts_with(begin); });
}

bool IsTable(std::string_view name) {
  return std::ranges::any_of(kTables, [&](auto end) { return name.ends_with(end); });
}

Result<bool> IsNeutral(std::string_view name, const TensorFiles::Tensor& tensor,
                       const TensorFiles& all) {
  const bool is_bias = name.ends_with(".bias");
  const bool is_scale = name.ends_with(".scale") || name.ends_with(".input_scale");
  if (!(is_bias || is_scale) || !tensor.type || !PlainDtype(*tensor.type)) return false;
  uint64_t count = 1;
  for (const uint64_t size : tensor.shape) {
    if (size > kMostNeutral || count * size > kMostNeutral) return false;
    count *= size;
  }
  if (count == 0 || (is_scale && count != 1)) return false;
  const MappedFile& map = *all.files[tensor.file].map;
  LECTERN_RETURN_IF_ERROR(map.Load(tensor.begin, tensor.end - tensor.begin));
  std::vector<float> values(static_cast<size_t>(count));
  TensorToFloats({map.data() + tensor.begin, *tensor.type, 1, values.size()},
                 {values.data(), 1, values.size()});
  return std::ranges::all_of(values, [&](float x) { return x == (is_bias ? 0.0f : 1.0f); });
}

std::optional<PackedType> PackingOf(std::string_view name, TensorType stored, WeightsType type,
                                    const ModelConfig& config) {
  if (IsRouter(name)) return std::nullopt;
  const bool is_output = name == (config.tie_word_embeddings ? kEmbedding : kOutput);
  const PackedType q8 = is_output ? PackedType::kQ8Planes : PackedType::kQ8;
  if (!PlainDtype(stored)) {
    const PackedType packed = PackedTypeOf(stored);
    return packed == PackedType::kQ8 ? q8 : packed;
  }
  const bool is_vocabulary = name == kEmbedding || name == kOutput;
  switch (type) {
    case WeightsType::kStored:
      return std::nullopt;
    case WeightsType::kQ8:
      return q8;
    case WeightsType::kQ4:
      return is_vocabulary ? q8 : PackedType::kQ4;
  }
  return std::nullopt;
}

Status CheckWeights(const WeightPlan& plan, const TensorFiles& all, const ModelConfig& config,
                    WeightsType type) {
  LECTERN_RETURN_IF_ERROR(CheckNeeded(plan, all));
  LECTERN_RETURN_IF_ERROR(CheckUnneeded(plan, all, config));
  LECTERN_RETURN_IF_ERROR(CheckFused(all, config, type));
  return CheckGroups(plan, all, config, type);
}

}  // namespace lectern
