// Which tensors a Llama model has, where they lie, and that nothing else changes the result.
#include "engine/weights.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "engine/safetensors.h"

namespace lectern {
namespace {

static_assert(std::endian::native == std::endian::little, "weights are used as they are stored");

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
constexpr std::string_view kFinalNorm = "model.norm.weight";
constexpr std::string_view kOutput = "lm_head.weight";
constexpr uint64_t kMaxIndexBytes = uint64_t{64} << 20;
constexpr uint64_t kPieceBytes = uint64_t{4} << 20;  // read at a time where not all is kept

using Shape = std::vector<uint64_t>;
using Plan = std::map<std::string, Shape>;  // every tensor the model needs

std::string LayerName(size_t layer, std::string_view part, std::string_view kind = "weight") {
  return "model.layers." + std::to_string(layer) + "." + std::string(part) + "." +
         std::string(kind);
}

// What Gemma calls the norm before the MLP, because the other name is that of one after attention.
std::string_view MlpNorm(const ModelConfig& config) {
  return config.post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm";
}

Plan MakePlan(const ModelConfig& c) {
  const uint64_t hidden = c.hidden_size, inner = c.intermediate_size;
  const uint64_t q_size = uint64_t{c.num_heads} * c.head_dim;
  const uint64_t kv_size = uint64_t{c.num_kv_heads} * c.head_dim;
  Plan plan;
  plan[std::string(kEmbedding)] = {c.vocab_size, hidden};
  plan[std::string(kFinalNorm)] = {hidden};
  if (!c.tie_word_embeddings) plan[std::string(kOutput)] = {c.vocab_size, hidden};
  for (size_t layer = 0; layer < c.num_layers; ++layer) {
    if (c.fused) {
      plan[LayerName(layer, "self_attn.qkv_proj")] = {q_size + 2 * kv_size, hidden};
      plan[LayerName(layer, "mlp.gate_up_proj")] = {2 * inner, hidden};
    } else {
      plan[LayerName(layer, "self_attn.q_proj")] = {q_size, hidden};
      plan[LayerName(layer, "self_attn.k_proj")] = {kv_size, hidden};
      plan[LayerName(layer, "self_attn.v_proj")] = {kv_size, hidden};
      plan[LayerName(layer, "mlp.gate_proj")] = {inner, hidden};
      plan[LayerName(layer, "mlp.up_proj")] = {inner, hidden};
    }
    plan[LayerName(layer, "self_attn.o_proj")] = {hidden, q_size};
    plan[LayerName(layer, "mlp.down_proj")] = {hidden, inner};
    plan[LayerName(layer, "input_layernorm")] = {hidden};
    plan[LayerName(layer, MlpNorm(c))] = {hidden};
    if (c.post_norms) {
      plan[LayerName(layer, "post_attention_layernorm")] = {hidden};
      plan[LayerName(layer, "post_feedforward_layernorm")] = {hidden};
    }
    if (c.head_norms) {
      plan[LayerName(layer, "self_attn.q_norm")] = {c.head_dim};
      plan[LayerName(layer, "self_attn.k_norm")] = {c.head_dim};
    }
    if (c.qkv_bias) {
      plan[LayerName(layer, "self_attn.q_proj", "bias")] = {q_size};
      plan[LayerName(layer, "self_attn.k_proj", "bias")] = {kv_size};
      plan[LayerName(layer, "self_attn.v_proj", "bias")] = {kv_size};
    }
    if (c.output_bias) plan[LayerName(layer, "self_attn.o_proj", "bias")] = {hidden};
  }
  return plan;
}

// A tensor and the file that holds it.
struct Located {
  SafetensorsEntry entry;
  size_t file;
};

struct OpenFile {
  std::string path, resolved;
  FileInfo info;
  std::unique_ptr<MappedFile> map;
};

// All tensors of all files of a folder.
struct Inventory {
  std::vector<OpenFile> files;
  std::map<std::string, Located> tensors;
};

std::string Join(const std::string& folder, std::string_view name) {
  return folder + "/" + std::string(name);
}

// How tensor files are opened.
struct Reading {
  Io io;
  bool whole;  // else only their headers are loaded
};

Result<std::unique_ptr<MappedFile>> OpenHeader(Env& env, const std::string& path, Io io) {
  LECTERN_ASSIGN(auto map, io == Io::kMmap ? env.Map(path) : env.Mirror(path));
  uint64_t length = 0;
  LECTERN_RETURN_IF_ERROR(map->Load(0, std::min<uint64_t>(sizeof length, map->size())));
  if (map->size() >= sizeof length) std::memcpy(&length, map->data(), sizeof length);
  length = sizeof length + std::min(length, kMaxSafetensorsHeader);
  LECTERN_RETURN_IF_ERROR(map->Load(0, std::min(length, map->size())));
  return map;
}

Status OpenTensorFile(Env& env, const std::string& path, Reading reading, Inventory* inventory) {
  const std::string resolved = env.Resolve(path);
  LECTERN_ASSIGN(const FileInfo info, env.Info(resolved));
  LECTERN_ASSIGN(std::unique_ptr<MappedFile> map, reading.whole
                                                      ? OpenWhole(env, resolved, reading.io)
                                                      : OpenHeader(env, resolved, reading.io));
  LECTERN_ASSIGN(SafetensorsTable table, ParseSafetensors({map->data(), map->size()}, path));
  const size_t file = inventory->files.size();
  for (auto& [name, entry] : table) {
    const auto [at, is_new] = inventory->tensors.try_emplace(name, Located{entry, file});
    if (is_new) continue;
    return Status(Code::kMalformedModel, path + ": tensor " + QuotedName(name) + " is also in " +
                                             inventory->files[at->second.file].path);
  }
  inventory->files.push_back({path, resolved, info, std::move(map)});
  return Status();
}

// The index and the headers must tell the same story.
Status CompareWithIndex(const SafetensorsIndex& index, const std::string& folder,
                        const Inventory& inventory) {
  for (const auto& [name, file] : index) {
    const auto at = inventory.tensors.find(name);
    if (at != inventory.tensors.end() &&
        inventory.files[at->second.file].path == Join(folder, file)) {
      continue;
    }
    return Status(Code::kMalformedModel, Join(folder, file) + ": tensor " + QuotedName(name) +
                                             " is not in it, but the index says so");
  }
  for (const auto& [name, located] : inventory.tensors) {
    if (index.contains(name)) continue;
    return Status(Code::kMalformedModel, inventory.files[located.file].path + ": tensor " +
                                             QuotedName(name) + " is not in the index");
  }
  return Status();
}

Status OpenIndexed(Env& env, const std::string& folder, Reading reading, Inventory* inventory) {
  const std::string index_path = Join(folder, kIndexFile);
  LECTERN_ASSIGN(const auto map, OpenWhole(env, env.Resolve(index_path), Io::kPread));
  if (map->size() > kMaxIndexBytes) {
    return Status(Code::kLimitExceeded, index_path + ": larger than 64 MiB");
  }
  LECTERN_ASSIGN(const SafetensorsIndex index,
                 ParseSafetensorsIndex(
                     {reinterpret_cast<const char*>(map->data()), static_cast<size_t>(map->size())},
                     index_path));
  std::vector<std::string> names;
  for (const auto& [tensor, file] : index) names.push_back(file);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const std::string& name : names) {
    LECTERN_RETURN_IF_ERROR(OpenTensorFile(env, Join(folder, name), reading, inventory));
  }
  return CompareWithIndex(index, folder, *inventory);
}

Status NoWeights(Env& env, const std::string& folder) {
  LECTERN_ASSIGN(const std::vector<std::string> names, env.List(folder));
  for (const std::string& name : names) {
    if (IsPickleName(name)) return UnsafeFormat(Join(folder, name));
  }
  return Status(Code::kMissingFile,
                folder + ": no " + std::string(kSingleFile) + " and no " + std::string(kIndexFile));
}

Result<Inventory> OpenFolder(Env& env, const std::string& folder, Reading reading) {
  Inventory inventory;
  LECTERN_ASSIGN(const bool is_single, env.Exists(Join(folder, kSingleFile)));
  if (is_single) {
    LECTERN_RETURN_IF_ERROR(OpenTensorFile(env, Join(folder, kSingleFile), reading, &inventory));
    return inventory;
  }
  LECTERN_ASSIGN(const bool is_indexed, env.Exists(Join(folder, kIndexFile)));
  if (!is_indexed) return NoWeights(env, folder);
  LECTERN_RETURN_IF_ERROR(OpenIndexed(env, folder, reading, &inventory));
  return inventory;
}

std::string Shown(const Shape& shape) {
  std::string text;
  for (const uint64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

std::optional<Dtype> SupportedDtype(std::string_view name) {
  if (name == "F32") return Dtype::kF32;
  if (name == "F16") return Dtype::kF16;
  if (name == "BF16") return Dtype::kBf16;
  return std::nullopt;
}

// "<file>: tensor "<name>" at byte <begin>"
std::string Describe(const Inventory& inventory, const std::string& name, const Located& located) {
  return inventory.files[located.file].path + ": tensor " + QuotedName(name) + " at byte " +
         std::to_string(located.entry.begin);
}

Status CheckNeeded(const Plan& plan, const Inventory& inventory) {
  for (const auto& [name, shape] : plan) {
    const auto at = inventory.tensors.find(name);
    if (at == inventory.tensors.end()) {
      const bool is_output = name == kOutput;
      return Status(
          Code::kMalformedModel,
          inventory.files[0].path + ": tensor \"" + name + "\" is missing" +
              (is_output ? ", and config.json does not say \"tie_word_embeddings\": true" : ""));
    }
    const SafetensorsEntry& entry = at->second.entry;
    if (entry.shape != shape) {
      return Status(Code::kMalformedModel, Describe(inventory, name, at->second) + " has shape " +
                                               Shown(entry.shape) + " but config.json wants " +
                                               Shown(shape));
    }
    if (!SupportedDtype(entry.dtype)) {
      return Status(Code::kUnsupportedModel, Describe(inventory, name, at->second) + " has dtype " +
                                                 entry.dtype + "; supported: F32, F16, BF16");
    }
  }
  return Status();
}

// Tensors that we leave alone without harm: tables that old checkpoints saved, and the output
// matrix of a tied model, which is the embedding again.
bool IsHarmless(std::string_view name, const ModelConfig& config) {
  return name.ends_with(".rotary_emb.inv_freq") || (name == kOutput && config.tie_word_embeddings);
}

Status CheckUnneeded(const Plan& plan, const Inventory& inventory, const ModelConfig& config) {
  for (const auto& [name, located] : inventory.tensors) {
    if (plan.contains(name) || IsHarmless(name, config)) continue;
    return Status(Code::kUnsupportedModel,
                  Describe(inventory, name, located) + " is not part of a Llama model with " +
                      std::to_string(config.num_layers) + " layers and without biases");
  }
  return Status();
}

// Rows are groups of 32 that share a scale.
Status CheckGroups(const Plan& plan, WeightsType type, const std::string& folder) {
  for (const auto& [name, shape] : plan) {
    if (type == WeightsType::kStored || shape.size() != 2 || shape[1] % kPackedGroup == 0) continue;
    return Status(Code::kUnsupportedModel,
                  folder + ": tensor \"" + name + "\" has rows of " + std::to_string(shape[1]) +
                      " values, which are not groups of 32 and cannot be quantised; use --weights "
                      "stored");
  }
  return Status();
}

PackedType PackedTypeOf(std::string_view name, WeightsType type) {
  const bool is_vocabulary = name == kEmbedding || name == kOutput;
  return type == WeightsType::kQ4 && !is_vocabulary ? PackedType::kQ4 : PackedType::kQ8;
}

// [n] of any supported type to float. The source may be unaligned.
std::vector<float> Widen(const TypedRows& row) {
  std::vector<float> values(row.num_rows);
  for (size_t i = 0; i < values.size(); ++i) {
    if (row.dtype == Dtype::kF32) {
      std::memcpy(&values[i], row.data + i * 4, 4);
      continue;
    }
    uint16_t bits;
    std::memcpy(&bits, row.data + i * 2, 2);
    values[i] = row.dtype == Dtype::kF16 ? ToFloat(f16{bits}) : ToFloat(bf16{bits});
  }
  return values;
}

void HashNumber(Sha256& hash, uint64_t number) {
  uint8_t bytes[8];
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(number >> (8 * i));
  hash.Update(bytes, sizeof(bytes));
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

uint64_t PackedBytes(const ModelConfig& config, WeightsType type) {
  uint64_t bytes = 0;
  for (const auto& [name, shape] : MakePlan(config)) {
    if (shape.size() != 2) continue;
    bytes += PackedRows{nullptr, PackedTypeOf(name, type), shape[0], shape[1]}.bytes();
  }
  return bytes;
}

Result<std::unique_ptr<Weights>> Weights::Load(Env& env, const std::string& folder,
                                               const ModelConfig& config, Io io, WeightsType type) {
  const Plan plan = MakePlan(config);
  LECTERN_RETURN_IF_ERROR(CheckGroups(plan, type, folder));
  const bool is_stored = type == WeightsType::kStored;
  LECTERN_ASSIGN(Inventory inventory, OpenFolder(env, folder, {.io = io, .whole = is_stored}));
  LECTERN_RETURN_IF_ERROR(CheckNeeded(plan, inventory));
  LECTERN_RETURN_IF_ERROR(CheckUnneeded(plan, inventory, config));

  auto weights = std::make_unique<Weights>();
  weights->type_ = type;
  for (const auto& [name, shape] : plan) {
    const Located& located = inventory.tensors.find(name)->second;
    const MappedFile& map = *inventory.files[located.file].map;
    const std::byte* data = map.data() + located.entry.begin;
    const uint64_t bytes = located.entry.end - located.entry.begin;
    if (!is_stored && shape.size() == 1) {
      LECTERN_RETURN_IF_ERROR(map.Load(located.entry.begin, bytes));
    }
    weights->tensors_.push_back({name, *SupportedDtype(located.entry.dtype), shape,
                                 std::span(data, static_cast<size_t>(bytes)), located.file,
                                 located.entry.begin});
    weights->bytes_ += bytes;
  }
  for (OpenFile& file : inventory.files) {
    weights->files_.push_back({std::move(file.resolved), file.info, std::move(file.map)});
  }
  weights->BindNorms(config);
  if (is_stored) weights->BindMatrices(config);
  return weights;
}

Status Weights::Pack(Env& env, const ModelConfig& config, const Fingerprint& fingerprint,
                     const PackedWeightsOptions& options) {
  assert(type_ != WeightsType::kStored && !packed_);
  std::vector<PackedSource> sources;
  for (const Tensor& tensor : tensors_) {
    if (tensor.shape.size() != 2) continue;
    const TypedRows rows = {tensor.bytes.data(), tensor.dtype, static_cast<size_t>(tensor.shape[0]),
                            static_cast<size_t>(tensor.shape[1])};
    sources.push_back({tensor.name, PackedTypeOf(tensor.name, type_), rows,
                       files_[tensor.file].bytes.get(), tensor.offset});
    packed_names_.push_back(tensor.name);
  }
  LECTERN_ASSIGN(packed_, PackedWeights::Open(env, fingerprint, sources, options));
  BindMatrices(config);
  return {};
}

const Weights::Tensor& Weights::Find(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const Tensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  assert(at != tensors_.end() && at->name == name);
  return *at;
}

std::vector<float> Weights::Vector(std::string_view name) const {
  const Tensor& tensor = Find(name);
  return Widen({tensor.bytes.data(), tensor.dtype, static_cast<size_t>(tensor.shape[0]), 1});
}

WeightMatrix Weights::Matrix(std::string_view name) const {
  if (packed_) {
    const auto at = std::lower_bound(packed_names_.begin(), packed_names_.end(), name);
    return packed_->matrix(static_cast<size_t>(at - packed_names_.begin()));
  }
  const Tensor& tensor = Find(name);
  return TypedRows{tensor.bytes.data(), tensor.dtype, static_cast<size_t>(tensor.shape[0]),
                   static_cast<size_t>(tensor.shape[1])};
}

void Weights::BindNorms(const ModelConfig& config) {
  const auto norm = [&](std::string_view name) {
    std::vector<float> weights = Vector(name);
    for (float& weight : weights) weight += config.norms_from_one ? 1.0f : 0.0f;
    return weights;
  };
  final_norm_ = norm(kFinalNorm);
  layers_.resize(config.num_layers);
  for (size_t i = 0; i < layers_.size(); ++i) {
    LayerWeights& layer = layers_[i];
    layer.attention_norm = norm(LayerName(i, "input_layernorm"));
    layer.mlp_norm = norm(LayerName(i, MlpNorm(config)));
    if (config.post_norms) {
      layer.attention_post_norm = norm(LayerName(i, "post_attention_layernorm"));
      layer.mlp_post_norm = norm(LayerName(i, "post_feedforward_layernorm"));
    }
    if (config.head_norms) {
      layer.q_norm = norm(LayerName(i, "self_attn.q_norm"));
      layer.k_norm = norm(LayerName(i, "self_attn.k_norm"));
    }
    if (config.qkv_bias) {
      layer.q_bias = Vector(LayerName(i, "self_attn.q_proj", "bias"));
      layer.k_bias = Vector(LayerName(i, "self_attn.k_proj", "bias"));
      layer.v_bias = Vector(LayerName(i, "self_attn.v_proj", "bias"));
    }
    if (config.output_bias) layer.o_bias = Vector(LayerName(i, "self_attn.o_proj", "bias"));
  }
}

void Weights::BindMatrices(const ModelConfig& config) {
  embedding_ = Matrix(kEmbedding);
  output_ = config.tie_word_embeddings ? embedding_ : Matrix(kOutput);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto matrix = [this, i](std::string_view part) { return Matrix(LayerName(i, part)); };
    LayerWeights& layer = layers_[i];
    layer.o = matrix("self_attn.o_proj");
    layer.down = matrix("mlp.down_proj");
    if (config.fused) {
      const WeightMatrix qkv = matrix("self_attn.qkv_proj"), both = matrix("mlp.gate_up_proj");
      const size_t q_end = size_t{config.num_heads} * config.head_dim;
      const size_t k_end = q_end + size_t{config.num_kv_heads} * config.head_dim;
      layer.q = qkv.Slice(0, q_end);
      layer.k = qkv.Slice(q_end, k_end);
      layer.v = qkv.Slice(k_end, qkv.num_rows());
      layer.gate = both.Slice(0, config.intermediate_size);
      layer.up = both.Slice(config.intermediate_size, both.num_rows());
      continue;
    }
    layer.q = matrix("self_attn.q_proj");
    layer.k = matrix("self_attn.k_proj");
    layer.v = matrix("self_attn.v_proj");
    layer.gate = matrix("mlp.gate_proj");
    layer.up = matrix("mlp.up_proj");
  }
}

void Weights::AddShape(const Tensor& tensor, Sha256& hash) const {
  hash.UpdateText(tensor.name);
  HashNumber(hash, static_cast<uint64_t>(tensor.dtype));
  HashNumber(hash, tensor.shape.size());
  for (const uint64_t size : tensor.shape) HashNumber(hash, size);
  HashNumber(hash, tensor.bytes.size());
}

Status Weights::AddTo(Sha256& hash) const {
  HashNumber(hash, tensors_.size());
  for (const Tensor& tensor : tensors_) {
    AddShape(tensor, hash);
    if (type_ == WeightsType::kStored) {
      hash.Update(tensor.bytes.data(), tensor.bytes.size());
      continue;
    }
    const MappedFile& file = *files_[tensor.file].bytes;
    for (uint64_t at = 0; at < tensor.bytes.size(); at += kPieceBytes) {
      const uint64_t bytes = std::min(kPieceBytes, tensor.bytes.size() - at);
      LECTERN_RETURN_IF_ERROR(file.Load(tensor.offset + at, bytes));
      hash.Update(tensor.bytes.data() + at, bytes);
      file.DontNeed(tensor.offset + at, bytes);
    }
  }
  return {};
}

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
      HashNumber(hash, number);
    }
  }
  for (const Tensor& tensor : tensors_) {
    AddShape(tensor, hash);
    HashNumber(hash, tensor.file);
    HashNumber(hash, tensor.offset);
  }
  return true;
}

}  // namespace lectern
