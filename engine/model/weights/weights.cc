#include "engine/model/weights/weights.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "engine/model/weights/weight_plan.h"

namespace lectern {
namespace {

static_assert(std::endian::native == std::endian::little, "weights are used as they are stored");

constexpr uint64_t kPieceBytes = uint64_t{4} << 20;  // read or hashed at a time

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
  const WeightPlan plan = MakeWeightPlan(config);
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
  const WeightPlan plan = MakeWeightPlan(config);
  LECTERN_RETURN_IF_ERROR(CheckWeights(plan, all, config, type));
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
  const WeightPlan plan = MakeWeightPlan(config);
  LECTERN_RETURN_IF_ERROR(CheckWeights(plan, all, config, type));

  // Norms lie between the matrices: reading one after the other waits for the disk each time.
  for (const auto& [name, shape] : plan) {
    const TensorFiles::Tensor& tensor = all.tensors.find(name)->second;
    if (shape.size() > 1) continue;
    all.files[tensor.file].map->WillNeed(tensor.begin, tensor.end - tensor.begin);
  }
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
    // A pass reads a part of the experts, so a copy of the files would be of mostly unused bytes.
    if (config.experts.count > 0) return weights;
    std::vector<LargePageCopy::Part> read;
    for (const File& file : weights->files_) read.push_back({file.bytes.get(), file.bytes->size()});
    weights->copy_.SetFiles(std::move(read));
  }
  return weights;
}

Status Weights::Pack(Env& env, const ModelConfig& config, const Fingerprint& fingerprint,
                     const PackedWeightsOptions& options, std::unique_ptr<PackedFile> begun) {
  assert(needs_packing_ && !packed_);
  std::vector<PackedSource> sources;
  // Experts come last: what every token reads lies together, and is copied to large pages alone.
  size_t num_dense = 0;
  for (const bool are_experts : {false, true}) {
    for (Tensor& tensor : tensors_) {
      if (!tensor.packing || IsOfExpert(tensor.name) != are_experts) continue;
      const TensorRows rows = {tensor.bytes.data(), tensor.type,
                               static_cast<size_t>(tensor.shape[0]),
                               static_cast<size_t>(tensor.shape[1])};
      tensor.packed = sources.size();
      sources.push_back(
          {tensor.name, *tensor.packing, rows, files_[tensor.file].bytes.get(), tensor.offset});
    }
    if (!are_experts) num_dense = sources.size();
  }
  LECTERN_ASSIGN(packed_,
                 PackedWeights::Open(env, fingerprint, sources, options, std::move(begun)));
  if (packed_->file() != nullptr) copy_.SetFiles({{packed_->file(), packed_->end_of(num_dense)}});
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

// A copy of a vector, or of all values of a matrix, as f32.
std::vector<float> Weights::Vector(std::string_view name) const {
  const Tensor& tensor = Find(name);
  const size_t cols = tensor.shape.back(), rows = tensor.shape.size() > 1 ? tensor.shape[0] : 1;
  std::vector<float> values(rows * cols);
  TensorToFloats({tensor.bytes.data(), tensor.type, rows, cols}, {values.data(), rows, cols});
  return values;
}

// A view of a matrix: packed, or as it is stored.
WeightMatrix Weights::Matrix(std::string_view name) const {
  const Tensor& tensor = Find(name);
  if (tensor.packing) {
    return packed_->matrix(tensor.packed);
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
    if (config.sinks) layer.sinks = Vector(LayerName(i, "self_attn.sinks"));
    if (config.output_bias) layer.o_bias = Vector(LayerName(i, "self_attn.o_proj", "bias"));
    if (config.has_experts(i)) {
      layer.router = Vector(LayerName(i, kRouter));
      if (config.experts.biases) {
        layer.router_bias = Vector(LayerName(i, kRouter, "bias"));
        layer.experts.resize(config.experts.count);
        for (size_t expert = 0; expert < layer.experts.size(); ++expert) {
          ExpertWeights& own = layer.experts[expert];
          own.gate_bias = Vector(LayerName(i, ExpertPart(expert, "gate_proj"), "bias"));
          own.up_bias = Vector(LayerName(i, ExpertPart(expert, "up_proj"), "bias"));
          own.down_bias = Vector(LayerName(i, ExpertPart(expert, "down_proj"), "bias"));
        }
      }
      if (config.experts.shared_width > 0) {
        layer.shared_gate = Vector(LayerName(i, "mlp.shared_expert_gate"));
      }
    } else if (config.mlp_bias) {
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
    if (config.has_experts(i)) {
      layer.experts.resize(config.experts.count);
      for (size_t expert = 0; expert < layer.experts.size(); ++expert) {
        layer.experts[expert].gate = matrix(ExpertPart(expert, "gate_proj"));
        layer.experts[expert].up = matrix(ExpertPart(expert, "up_proj"));
        layer.experts[expert].down = matrix(ExpertPart(expert, "down_proj"));
      }
      if (config.experts.shared_width == 0) continue;
      layer.gate = matrix("mlp.shared_expert.gate_proj");
      layer.up = matrix("mlp.shared_expert.up_proj");
      layer.down = matrix("mlp.shared_expert.down_proj");
      continue;
    }
    layer.down = matrix("mlp.down_proj");
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
