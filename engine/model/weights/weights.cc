// Plans which tensors a model must have, finds where they lie, and checks that no other tensor
// would change the result.
#include "engine/model/weights/weights.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/model/formats/safetensors.h"

namespace lectern {
namespace {

static_assert(std::endian::native == std::endian::little, "weights are used as they are stored");

constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
constexpr std::string_view kFinalNorm = "model.norm.weight";
constexpr std::string_view kOutput = "lm_head.weight";
constexpr uint64_t kPieceBytes = uint64_t{4} << 20;  // read or hashed at a time

using Shape = std::vector<uint64_t>;
using Plan = std::map<std::string, Shape>;  // every tensor the model needs

// "model.layers.<layer>.<part>.<kind>", transformers' name of a tensor of a layer.
std::string LayerName(size_t layer, std::string_view part, std::string_view kind = "weight") {
  return "model.layers." + std::to_string(layer) + "." + std::string(part) + "." +
         std::string(kind);
}

// The name of the norm before the MLP. Gemma calls it by another one, because its norm after
// attention has the usual name.
std::string_view MlpNorm(const ModelConfig& config) {
  return config.post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm";
}

// Lists the tensors that a model of this configuration must have, with their shapes.
Plan MakePlan(const ModelConfig& c) {
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
    if (c.fused_gate_up) {
      plan[LayerName(layer, "mlp.gate_up_proj")] = {2 * inner, hidden};
    } else {
      plan[LayerName(layer, "mlp.gate_proj")] = {inner, hidden};
      plan[LayerName(layer, "mlp.up_proj")] = {inner, hidden};
    }
    plan[LayerName(layer, "self_attn.o_proj")] = {hidden, q_size};
    plan[LayerName(layer, "mlp.down_proj")] = {hidden, inner};
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
    if (c.output_bias) plan[LayerName(layer, "self_attn.o_proj", "bias")] = {hidden};
    if (c.mlp_bias) {
      plan[LayerName(layer, "mlp.gate_proj", "bias")] = {inner};
      plan[LayerName(layer, "mlp.up_proj", "bias")] = {inner};
      plan[LayerName(layer, "mlp.down_proj", "bias")] = {hidden};
    }
  }
  return plan;
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
constexpr std::string_view kOtherParts[] = {
    "vision_tower.",  "vision_model.",    "vision_encoder.", "vision_language_adapter.",
    "visual.",        "audio_tower.",     "audio_model.",    "audio_encoder.",
    "patch_merger.",  "pre_mm_projector_norm.", "multi_modal_projector.",
    "multimodal_projector.", "mm_projector.", "image_newline", "embed_vision.", "embed_audio.",
    "mtp.",           "mtp_layers.",      "nextn.",          "v.",
    "mm.",            "a."};
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

// Whether a tensor belongs to images, sound or the prediction of further tokens.
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

// Whether a tensor is a table that follows from the configuration.
bool IsTable(std::string_view name) {
  return std::ranges::any_of(kTables, [&](auto end) { return name.ends_with(end); });
}

constexpr uint64_t kMostNeutral = uint64_t{1} << 22;  // values that IsNeutral looks at, at most

// Whether a tensor changes nothing: a bias whose values are all 0, or a scale whose one value is 1.
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

// Returns how a matrix is packed; none: it is used as it lies. Blocks keep their values whatever
// `type` says. The matrix that gives the logits has planes where it is q8, so that a token that is
// drawn from few logits reads half of it (engine/forward/output_head.h).
std::optional<PackedType> PackingOf(std::string_view name, TensorType stored, WeightsType type,
                                    const ModelConfig& config) {
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
       {std::tuple(config.fused_qkv, "self_attn.qkv_proj", q_size),
        std::tuple(config.fused_qkv, "self_attn.qkv_proj", kv_size),
        std::tuple(config.fused_gate_up, "mlp.gate_up_proj",
                   uint64_t{config.intermediate_size})}) {
    if (!is_fused || size % kPackedColumns == 0) continue;
    for (size_t layer = 0; layer < config.num_layers; ++layer) {  // each may have a type of its own
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

// All checks, those first whose message says most.
Status Check(const Plan& plan, const TensorFiles& all, const ModelConfig& config,
             WeightsType type) {
  LECTERN_RETURN_IF_ERROR(CheckNeeded(plan, all));
  LECTERN_RETURN_IF_ERROR(CheckUnneeded(plan, all, config));
  LECTERN_RETURN_IF_ERROR(CheckFused(all, config, type));
  return CheckGroups(plan, all, config, type);
}

// Calls `use(offset in the bytes, piece)` for the bytes piece by piece, so that a cancellation is
// noticed between two pieces.
template <typename Use>
Status InPieces(std::span<const std::byte> bytes, const CancelFlag* cancel, const Use& use) {
  for (uint64_t at = 0; at < bytes.size(); at += kPieceBytes) {
    if (IsSet(cancel)) return {Code::kCancelled, "reading the model was cancelled"};
    LECTERN_RETURN_IF_ERROR(use(at, bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at))));
  }
  return {};
}

constexpr std::string_view kWeightsNames[] = {"stored", "q8", "q4"};

}  // namespace

std::string_view WeightsName(WeightsType type) { return kWeightsNames[static_cast<size_t>(type)]; }

std::optional<WeightsType> ParseWeightsName(std::string_view name) {
  for (const WeightsType type : {WeightsType::kStored, WeightsType::kQ8, WeightsType::kQ4}) {
    if (WeightsName(type) == name) return type;
  }
  return std::nullopt;
}

Result<std::vector<std::string>> Weights::DropUnneeded(TensorFiles& all,
                                                       const ModelConfig& config) {
  const Plan plan = MakePlan(config);
  std::vector<std::string> dropped;
  for (auto at = all.tensors.begin(); at != all.tensors.end();) {
    const auto& [name, tensor] = *at;
    bool is_needed = plan.contains(name);
    // The output matrix of a tied model is the embedding again, and not worth a word.
    const bool is_copy = name == kOutput && config.tie_word_embeddings;
    if (!is_needed && !is_copy && !IsOfOtherParts(name, config) && !IsTable(name)) {
      LECTERN_ASSIGN(const bool is_neutral, IsNeutral(name, tensor, all));
      is_needed = !is_neutral;  // else it stays, and Load refuses it by name
    }
    if (is_needed) {
      ++at;
      continue;
    }
    if (!is_copy) dropped.push_back(all.own_name ? all.own_name(name) : name);
    at = all.tensors.erase(at);
  }
  return dropped;
}

Result<uint64_t> Weights::BytesInUse(const TensorFiles& all, const ModelConfig& config,
                                     WeightsType type) {
  const Plan plan = MakePlan(config);
  LECTERN_RETURN_IF_ERROR(Check(plan, all, config, type));
  uint64_t bytes = 0;
  for (const auto& [name, shape] : plan) {
    const TensorFiles::Tensor& tensor = all.tensors.find(name)->second;
    const auto packing = PackingOf(name, *tensor.type, type, config);
    bytes += shape.size() == 2 && packing
                 ? PackedRows{nullptr, *packing, shape[0], shape[1]}.bytes()
                 : tensor.end - tensor.begin;
  }
  return bytes;
}

// Checks everything, then takes the tensors that are in the plan. Only those that are used as they
// lie are loaded now; packed ones are read by Pack, a few rows at a time.
Result<std::unique_ptr<Weights>> Weights::Load(TensorFiles all, const ModelConfig& config,
                                               WeightsType type, const CancelFlag* cancel) {
  const Plan plan = MakePlan(config);
  LECTERN_RETURN_IF_ERROR(Check(plan, all, config, type));

  auto weights = std::make_unique<Weights>();
  weights->type_ = type;
  for (const auto& [name, shape] : plan) {
    const TensorFiles::Tensor& tensor = all.tensors.find(name)->second;
    const MappedFile& map = *all.files[tensor.file].map;
    const uint64_t bytes = tensor.end - tensor.begin;
    Tensor used = {.name = name,
                   .type = *tensor.type,
                   .shape = shape,
                   .bytes = std::span(map.data() + tensor.begin, static_cast<size_t>(bytes)),
                   .file = tensor.file,
                   .offset = tensor.begin,
                   .packing = {}};
    if (shape.size() == 2) used.packing = PackingOf(name, used.type, type, config);
    if (!used.packing) {
      LECTERN_RETURN_IF_ERROR(InPieces(used.bytes, cancel, [&](uint64_t at, auto piece) {
        return map.Load(tensor.begin + at, piece.size());
      }));
    }
    weights->needs_packing_ |= used.packing.has_value();
    weights->bytes_ += bytes;
    weights->tensors_.push_back(std::move(used));
  }
  for (TensorFiles::File& file : all.files) {
    weights->files_.push_back({std::move(file.resolved), file.info, std::move(file.map)});
  }
  weights->BindNorms(config);
  if (!weights->needs_packing_) {
    weights->BindMatrices(config);
    std::vector<const MappedFile*> read;
    for (const File& file : weights->files_) read.push_back(file.bytes.get());
    weights->copy_.SetFiles(std::move(read));
  }
  return weights;
}

Status Weights::Pack(Env& env, const ModelConfig& config, const Fingerprint& fingerprint,
                     const PackedWeightsOptions& options) {
  assert(needs_packing_ && !packed_);
  std::vector<PackedSource> sources;
  for (const Tensor& tensor : tensors_) {
    if (!tensor.packing) continue;
    const TensorRows rows = {tensor.bytes.data(), tensor.type, static_cast<size_t>(tensor.shape[0]),
                             static_cast<size_t>(tensor.shape[1])};
    sources.push_back(
        {tensor.name, *tensor.packing, rows, files_[tensor.file].bytes.get(), tensor.offset});
    packed_names_.push_back(tensor.name);
  }
  LECTERN_ASSIGN(packed_, PackedWeights::Open(env, fingerprint, sources, options));
  if (packed_->file() != nullptr) copy_.SetFiles({packed_->file()});
  BindMatrices(config);
  return {};
}

bool Weights::has_blocks() const {
  return std::any_of(tensors_.begin(), tensors_.end(),
                     [](const Tensor& tensor) { return !PlainDtype(tensor.type); });
}

// Finds a tensor of the plan by halves: tensors_ has the order of the plan's map.
const Weights::Tensor& Weights::Find(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const Tensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  assert(at != tensors_.end() && at->name == name);
  return *at;
}

// A copy of a vector as f32.
std::vector<float> Weights::Vector(std::string_view name) const {
  const Tensor& tensor = Find(name);
  std::vector<float> values(tensor.shape[0]);
  TensorToFloats({tensor.bytes.data(), tensor.type, 1, values.size()},
                 {values.data(), 1, values.size()});
  return values;
}

// A view of a matrix: packed, or as it is stored.
WeightMatrix Weights::Matrix(std::string_view name) const {
  const Tensor& tensor = Find(name);
  if (tensor.packing) {
    const auto at = std::lower_bound(packed_names_.begin(), packed_names_.end(), name);
    return packed_->matrix(static_cast<size_t>(at - packed_names_.begin()));
  }
  return TypedRows{tensor.bytes.data(), *PlainDtype(tensor.type),
                   static_cast<size_t>(tensor.shape[0]), static_cast<size_t>(tensor.shape[1])};
}

// Copies norms and biases out of the tensors, as f32. A model whose norms multiply with 1 + weight
// gets the 1 here, once.
void Weights::BindNorms(const ModelConfig& config) {
  const auto norm = [&](std::string_view name) {
    std::vector<float> weights = Vector(name);
    for (float& weight : weights) weight += config.norms_from_one ? 1.0f : 0.0f;
    return weights;
  };
  final_norm_ = norm(kFinalNorm);
  for (float& weight : final_norm_) weight *= config.logit_scale;
  layers_.resize(config.num_layers);
  for (size_t i = 0; i < layers_.size(); ++i) {
    LayerWeights& layer = layers_[i];
    if (config.pre_norms) {
      layer.attention_norm = norm(LayerName(i, "input_layernorm"));
      if (!config.parallel) layer.mlp_norm = norm(LayerName(i, MlpNorm(config)));
    }
    if (config.post_norms) {
      layer.attention_post_norm = norm(LayerName(i, "post_attention_layernorm"));
      layer.mlp_post_norm = norm(LayerName(i, "post_feedforward_layernorm"));
    }
    if (config.head_norms || config.whole_norms) {
      layer.q_norm = norm(LayerName(i, "self_attn.q_norm"));
      layer.k_norm = norm(LayerName(i, "self_attn.k_norm"));
    }
    if (config.qkv_bias && config.fused_qkv) {
      const std::vector<float> bias = Vector(LayerName(i, "self_attn.qkv_proj", "bias"));
      const auto k = bias.begin() + ptrdiff_t{config.num_heads} * config.head_dim;
      const auto v = k + ptrdiff_t{config.num_kv_heads} * config.head_dim;
      layer.q_bias.assign(bias.begin(), k);
      layer.k_bias.assign(k, v);
      layer.v_bias.assign(v, bias.end());
    } else if (config.qkv_bias) {
      layer.q_bias = Vector(LayerName(i, "self_attn.q_proj", "bias"));
      layer.k_bias = Vector(LayerName(i, "self_attn.k_proj", "bias"));
      layer.v_bias = Vector(LayerName(i, "self_attn.v_proj", "bias"));
    }
    if (config.output_bias) layer.o_bias = Vector(LayerName(i, "self_attn.o_proj", "bias"));
    if (config.mlp_bias) {
      layer.gate_bias = Vector(LayerName(i, "mlp.gate_proj", "bias"));
      layer.up_bias = Vector(LayerName(i, "mlp.up_proj", "bias"));
      layer.down_bias = Vector(LayerName(i, "mlp.down_proj", "bias"));
    }
  }
}

// Makes views of the matrices; one matrix that holds several is cut into slices.
void Weights::BindMatrices(const ModelConfig& config) {
  embedding_ = Matrix(kEmbedding);
  output_ = config.tie_word_embeddings ? embedding_ : Matrix(kOutput);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto matrix = [this, i](std::string_view part) { return Matrix(LayerName(i, part)); };
    LayerWeights& layer = layers_[i];
    layer.o = matrix("self_attn.o_proj");
    layer.down = matrix("mlp.down_proj");
    if (config.fused_qkv) {
      const WeightMatrix qkv = matrix("self_attn.qkv_proj");
      const size_t q_end = size_t{config.num_heads} * config.head_dim;
      const size_t k_end = q_end + size_t{config.num_kv_heads} * config.head_dim;
      layer.q = qkv.Slice(0, q_end);
      layer.k = qkv.Slice(q_end, k_end);
      layer.v = qkv.Slice(k_end, qkv.num_rows());
    } else {
      layer.q = matrix("self_attn.q_proj");
      layer.k = matrix("self_attn.k_proj");
      layer.v = matrix("self_attn.v_proj");
    }
    if (config.fused_gate_up) {
      const WeightMatrix both = matrix("mlp.gate_up_proj");
      layer.gate = both.Slice(0, config.intermediate_size);
      layer.up = both.Slice(config.intermediate_size, both.num_rows());
    } else {
      layer.gate = matrix("mlp.gate_proj");
      layer.up = matrix("mlp.up_proj");
    }
  }
}

// Hashes what a tensor is, without its values.
void Weights::AddShape(const Tensor& tensor, Sha256& hash) const {
  hash.UpdateText(tensor.name);
  hash.UpdateNumber(static_cast<uint64_t>(tensor.type));
  hash.UpdateNumber(tensor.shape.size());
  for (const uint64_t size : tensor.shape) hash.UpdateNumber(size);
  hash.UpdateNumber(tensor.bytes.size());
}

// Bytes of a matrix that will be packed are loaded for the hash and let go again: Pack reads them
// once more, but they are never all in memory.
Status Weights::AddTo(Sha256& hash, const CancelFlag* cancel) const {
  hash.UpdateNumber(tensors_.size());
  for (const Tensor& tensor : tensors_) {
    AddShape(tensor, hash);
    const MappedFile& file = *files_[tensor.file].bytes;
    const auto add = [&](uint64_t at, std::span<const std::byte> piece) -> Status {
      const bool is_loaded = !tensor.packing;  // to stay
      if (!is_loaded) LECTERN_RETURN_IF_ERROR(file.Load(tensor.offset + at, piece.size()));
      hash.Update(piece.data(), piece.size());
      if (!is_loaded) file.DontNeed(tensor.offset + at, piece.size());
      return {};
    };
    LECTERN_RETURN_IF_ERROR(InPieces(tensor.bytes, cancel, add));
  }
  return {};
}

// File systems keep times in coarse steps, so a file that was written just now could change once
// more within the same step.
bool Weights::AddOriginsTo(Env& env, Sha256& hash) const {
  const int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  for (const File& file : files_) {
    const auto info = env.Info(file.path);
    if (!info.ok() || *info != file.info) return false;
    if (now - std::max(info->modified_ns, info->changed_ns) < 2'000'000'000) return false;
    hash.UpdateText(file.path);
    for (const uint64_t number :
         {info->device, info->inode, info->bytes, static_cast<uint64_t>(info->modified_ns),
          static_cast<uint64_t>(info->changed_ns)}) {
      hash.UpdateNumber(number);
    }
  }
  for (const Tensor& tensor : tensors_) {
    AddShape(tensor, hash);
    hash.UpdateNumber(tensor.file);
    hash.UpdateNumber(tensor.offset);
  }
  return true;
}

}  // namespace lectern
