#include "engine/model/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <tuple>

#include "engine/model/formats/safetensors.h"
#include "engine/model/gguf_architecture.h"
#include "engine/model/tokenizer/bpe_tokenizer.h"

namespace lectern {
namespace {

// A setting that changes what a model computes, in a way that the engine does not compute. A file
// that has it is refused, unless the value has no effect (0, false, or `usual`) or the
// architecture's own table lists the key, so that it is read. Without this check such a model would
// run and answer nonsense.
struct RestrictedKey {
  std::string_view gguf;
  double usual = 0;  // a value that has no effect, beside 0
};
constexpr RestrictedKey kRestrictedKeys[] = {
    {"attn_logit_softcapping"},
    {"final_logit_softcapping"},
    {"attention.clamp_kqv"},
    {"attention.max_alibi_bias"},
    {"attention.temperature_scale"},
    {"attention.shared_kv_layers"},
    {"attention.q_lora_rank"},
    {"attention.kv_lora_rank"},
    {"use_parallel_residual"},
    {"embedding_length_per_layer_input"},
    {"rope.scaling.alpha", 1},
    {"rope.scaling.yarn_log_multiplier"},
    {"rope.scaling.yarn_ext_factor", 1},
    {"rope.scaling.yarn_attn_factor", 1},
    {"embedding_scale", 1},
    {"residual_scale", 1},
    {"logit_scale", 1},
    {"expert_weights_scale", 1},
    {"expert_gating_func", 1},  // softmax
    {"expert_group_count", 1},
    {"leading_dense_block_count"},
    {"interleave_moe_layer_step", 1},
    {"moe_every_n_layers", 1},
};
constexpr double kRounding = 1e-3;  // relative; see CheckScales

// Tensors that RoPE's frequencies are divided by. They go into the configuration (RopeRecipe) and
// not into the weights: the first in models with Llama 3's recipe, the others in those with
// longrope.
constexpr std::string_view kRopeDivisors = "rope_freqs.weight";
constexpr std::string_view kShortFactors = "rope_factors_short.weight";
constexpr std::string_view kLongFactors = "rope_factors_long.weight";
// Finds our tensor type by ggml's number of a type; nothing: the kernels do not know it.
std::optional<TensorType> TypeOf(uint32_t ggml_type) {
  const std::string name = GgufTypeName(ggml_type);
  for (size_t i = 0; i < kNumTensorTypes; ++i) {
    const auto type = static_cast<TensorType>(i);
    if (name == TensorTypeName(type)) return type;
  }
  return std::nullopt;
}

// A key's value as JSON, in which config.cc reads settings.
Json ToJson(const GgufValue& value) {
  if (const auto* whole = std::get_if<uint64_t>(&value)) return Json(*whole);
  if (const auto* whole = std::get_if<int64_t>(&value)) return Json(*whole);
  if (const auto* number = std::get_if<double>(&value)) return Json(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return Json(*flag);
  if (const auto* text = std::get_if<std::string_view>(&value)) return Json(*text);
  Json::Array items;  // enough to be shown: no field is an array
  for (const double number : std::get<GgufArray>(value).Numbers()) {
    items.emplace_back(number);
    if (items.size() == 8) break;
  }
  return Json(std::move(items));
}

// Whether a value means "not used": 0 or false.
bool IsZero(const GgufValue& value) {
  const Json json = ToJson(value);
  return json.number() == 0.0 || (json.boolean() != nullptr && !*json.boolean());
}

// One file of the model. The table's views point into the file's bytes, so both stay together.
struct ModelPart {
  TensorFiles::File file;
  GgufTable table;
};

// A model in one or more GGUF files. Keys are read from the first part, as llama.cpp does; tensors
// may be in any.
class GgufModel : public ModelSource {
 public:
  // The order matters: messages use path_, all names use the architecture, and a file is refused
  // for a key that it should not have before its settings are believed.
  Status Open(Env& env, const std::vector<std::string>& paths, Io io) {
    path_ = paths[0];
    for (const std::string& path : paths) {
      ModelPart part;
      LECTERN_ASSIGN(part.file, OpenModelFile(env, path, io));
      const MappedFile& map = *part.file.map;
      LECTERN_ASSIGN(part.table, ParseGguf({map.data(), map.size()}, path,
                                           [&](uint64_t offset, uint64_t bytes) {
                                             return map.Load(offset, bytes);
                                           }));
      parts_.push_back(std::move(part));
    }
    LECTERN_RETURN_IF_ERROR(CheckParts());
    LECTERN_RETURN_IF_ERROR(FindArchitecture());
    LECTERN_RETURN_IF_ERROR(CheckKeys());
    LECTERN_RETURN_IF_ERROR(MakeConfig());
    LECTERN_RETURN_IF_ERROR(CheckScales());
    return ReadDivisors();
  }

  const ModelConfig& config() const override { return config_; }

  Result<std::unique_ptr<Tokenizer>> MakeTokenizer() const override {
    return MakeGgufTokenizer(keys(), path());
  }

  Result<ChatSource> FindChatTemplate() const override {
    const auto* text = keys().Find<std::string_view>("tokenizer.chat_template");
    return ChatSource{.name = std::string(kOwnTemplate),
                      .jinja = text != nullptr ? std::string(*text) : "",
                      .bos = PieceOf("tokenizer.ggml.bos_token_id"),
                      .eos = PieceOf("tokenizer.ggml.eos_token_id")};
  }

 private:
  // Returns the text of the piece whose id is the value of `key`; empty: there is none.
  std::string PieceOf(const std::string& key) const {
    const std::optional<uint64_t> id = keys().Whole(key);
    const auto* pieces = keys().Find<GgufArray>("tokenizer.ggml.tokens");
    if (!id || pieces == nullptr || pieces->kind != GgufKind::kString || *id >= pieces->count) {
      return "";
    }
    uint64_t at = 0;
    for (const std::string_view piece : pieces->Strings()) {
      if (at++ == *id) return std::string(piece);
    }
    return "";
  }

  // Lists the tensors of all parts under transformers' names. Tensors without such a name keep
  // their own, so that Weights can refuse them by name. Moves the files out: it is called once.
  Result<TensorFiles> OpenTensors() override {
    TensorFiles all;
    all.config_name = "its keys";
    all.own_name = [architecture = architecture_](std::string_view name) {
      const std::string own = RenameTensor(name, *architecture, /*from_gguf=*/false);
      return own.empty() ? std::string(name) : own;
    };
    for (ModelPart& part : parts_) {
      const size_t file = all.files.size();
      for (const auto& [name, tensor] : part.table.tensors) {
        if (name == kRopeDivisors || name == kShortFactors || name == kLongFactors) continue;
        std::string ours = RenameTensor(name, *architecture_, /*from_gguf=*/true);
        if (ours.empty()) ours = name;
        all.tensors.try_emplace(std::move(ours),
                                TensorFiles::Tensor{TypeOf(tensor.type), GgufTypeName(tensor.type),
                                                    tensor.shape, tensor.begin, tensor.end, file});
      }
      all.files.push_back(std::move(part.file));
    }
    return all;
  }

  // The settings: those of the first part.
  const GgufTable& keys() const { return parts_[0].table; }
  const std::string& path() const { return path_; }
  // "llama.<gguf>": settings carry the architecture's name in front.
  std::string KeyOf(std::string_view gguf) const {
    return std::string(architecture_->name) + "." + std::string(gguf);
  }
  // An error about a key: it is named in the message and is the error's param.
  Status Make(Code code, const std::string& key, const std::string& what) const {
    return Status(code, path() + ": \"" + key + "\" " + what).WithParam(key);
  }

  // Checks that the parts are those that the first one speaks of, and that each tensor is in one of
  // them only.
  Status CheckParts() const {
    uint64_t num_tensors = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const auto& [file, table] = parts_[i];
      num_tensors += table.tensors.size();
      const uint64_t count = table.Whole("split.count").value_or(1);
      const uint64_t number = table.Whole("split.no").value_or(0);
      if (count != parts_.size() || number != i) {
        return Status(Code::kMalformedModel,
                      file.path + ": it says that it is part " + std::to_string(number + 1) +
                          " of " + std::to_string(count) + ", but it is part " +
                          std::to_string(i + 1) + " of " + std::to_string(parts_.size()) +
                          "; parts keep their names, \"…-00001-of-00003.gguf\"");
      }
      for (size_t before = 0; before < i; ++before) {
        for (const auto& [name, tensor] : table.tensors) {
          if (!parts_[before].table.tensors.contains(name)) continue;
          return Status(Code::kMalformedModel, file.path + ": tensor " + QuotedName(name) +
                                                   " is also in " + parts_[before].file.path);
        }
      }
    }
    // A part that was downloaded halfway may still have a sound header; then tensors are missing.
    const uint64_t wanted = keys().Whole("split.tensors.count").value_or(num_tensors);
    if (wanted == num_tensors) return {};
    return Make(Code::kMalformedModel, "split.tensors.count",
                "is " + std::to_string(wanted) + ", but the parts hold " +
                    std::to_string(num_tensors) + " tensors; download the model again");
  }

  // Refuses files that are often given in the place of a model: adapters, projectors of pictures.
  Status CheckKind(std::string_view architecture) const {
    const auto* type = keys().Find<std::string_view>("general.type");
    if (type != nullptr && *type == "adapter") {
      return Make(Code::kUnsupportedModel, "general.type",
                  "is \"adapter\": this file changes a model and is none; merge it into its model "
                  "(llama-export-lora) and give the merged file");
    }
    if (architecture != "clip" && !(type != nullptr && *type == "mmproj")) return {};
    return Make(Code::kUnsupportedModel, "general.architecture",
                "is " + QuotedName(architecture) +
                    ": this file is the part of a model that sees or hears (mmproj); give the file "
                    "of the model beside it");
  }

  // Sets architecture_. The kind of file comes first: an adapter has the architecture of its model.
  Status FindArchitecture() {
    const std::string key = "general.architecture";
    const auto* name = keys().Find<std::string_view>(key);
    if (name == nullptr) return Make(Code::kMalformedModel, key, "is missing");
    LECTERN_RETURN_IF_ERROR(CheckKind(*name));
    std::string known;
    for (const GgufArchitecture& architecture : GgufArchitectures()) {
      if (architecture.name == *name) architecture_ = &architecture;
      known += (known.empty() ? "" : ", ") + QuotedName(architecture.name);
    }
    if (architecture_ != nullptr) return {};
    const std::string_view why = WhyNotRun(*name);
    return Make(Code::kUnsupportedModel, key,
                "is " + QuotedName(*name) + (why.empty() ? "" : ", which " + std::string(why)) +
                    "; this build runs " + known);
  }

  // Whether this architecture's table reads the key.
  bool IsOwn(std::string_view gguf) const {
    return std::ranges::any_of(architecture_->keys,
                               [&](const Renamed& key) { return key.theirs == gguf; });
  }

  // Refuses keys by which the model computes something else, and models that are not causal.
  Status CheckKeys() const {
    for (const auto& [gguf, usual] : kRestrictedKeys) {
      const std::string key = KeyOf(gguf);
      const auto at = keys().keys.find(key);
      if (at == keys().keys.end() || IsOwn(gguf) || IsZero(at->second)) continue;
      if (usual != 0 && ToJson(at->second).number() == usual) continue;
      return Make(Code::kUnsupportedModel, key,
                  "is " + Shown(at->second) + "; supported: " + (usual != 0 ? "1" : "none"));
    }
    const std::string key = KeyOf("attention.causal");
    const bool* const is_causal = keys().Find<bool>(key);
    if (is_causal == nullptr || *is_causal) return {};
    return Make(Code::kUnsupportedModel, key,
                "is false: tokens see what follows them, and nothing can be generated; give a "
                "language model");
  }

  // Checks numbers that the engine derives from other settings, where the file gives them as well:
  // they must agree within kRounding, because the file's are rounded. kUnsupportedModel: they do
  // not.
  Status CheckScales() const {
    // YaRN multiplies the scale that follows from its factor by this number; other recipes have
    // this number alone.
    const bool is_yarn = config_.rope.kind == RopeRecipe::Kind::kYarn;
    const std::tuple<std::string_view, double, bool> given[] = {
        {"attention.scale", config_.query_scale / std::sqrt(config_.head_dim), true},
        {"rope.scaling.attn_factor", is_yarn ? 1 : config_.rope.attention_factor, true},
        {"rope.freq_base_swa", config_.rope.theta, config_.window > 0}};
    for (const auto& [gguf, usual, is_used] : given) {
      const std::string key = KeyOf(gguf);
      const auto at = keys().keys.find(key);
      if (at == keys().keys.end() || IsOwn(gguf) || IsZero(at->second) || !is_used) continue;
      const double value = ToJson(at->second).number().value_or(-1);
      if (std::abs(value / usual - 1) < kRounding) continue;
      return Make(Code::kUnsupportedModel, key,
                  "is " + Shown(at->second) + "; supported: " + Json(usual).Dump());
    }
    return {};
  }

  // Checks sizes that the file may give once more for values, for windowed layers and for RoPE: the
  // engine has one head_dim and one number of turned dimensions for all. kUnsupportedModel: another
  // size.
  Status CheckHeadDim() const {
    for (const auto& [name, wanted] : {std::pair("attention.value_length", config_.head_dim),
                                       std::pair("attention.key_length_swa", config_.head_dim),
                                       std::pair("attention.value_length_swa", config_.head_dim),
                                       std::pair("rope.dimension_count_swa", config_.rope.dims),
                                       std::pair("rope.dimension_count", config_.rope.dims)}) {
      const auto at = keys().keys.find(KeyOf(name));
      if (at == keys().keys.end() || keys().Whole(at->first) == wanted) continue;
      return Make(Code::kUnsupportedModel, at->first,
                  "is " + Shown(at->second) + "; supported: " + std::to_string(wanted));
    }
    return {};
  }

  // Finds a tensor by the file's own name in any part, and that part; nullptr: there is none.
  const GgufTensor* FindTensor(std::string_view name, const ModelPart** part = nullptr) const {
    for (const ModelPart& candidate : parts_) {
      const auto at = candidate.table.tensors.find(name);
      if (at == candidate.table.tensors.end()) continue;
      if (part != nullptr) *part = &candidate;
      return &at->second;
    }
    return nullptr;
  }

  // Builds config.json's fields from the keys; config.cc judges them, as it judges a real
  // config.json.
  Status MakeConfig() {
    Json::Object fields, rope;
    ConfigFile file = {.path = path(),
                       .own_names = {{"vocab_size", "token_embd.weight"},
                                     {"partial_rotary_factor", KeyOf("rope.dimension_count")}}};
    const uint64_t num_experts = keys().Whole(KeyOf("expert_count")).value_or(0);
    const bool is_other = num_experts > 0 && !architecture_->type_with_experts.empty();
    fields["model_type"] =
        Json(is_other ? architecture_->type_with_experts : architecture_->model_type);
    for (const auto all : {std::span<const Renamed>(CommonGgufKeys()), architecture_->keys}) {
      for (const auto& [gguf, ours] : all) {
        const std::string key = KeyOf(gguf);
        file.own_names.emplace(ours, key);
        LECTERN_ASSIGN(std::optional<Json> value, FieldOf(key));
        if (!value) continue;
        // Its fields are gathered apart: in config.json they are an object.
        constexpr std::string_view kRope = "rope_scaling.";
        if (ours.starts_with(kRope)) {
          rope[std::string(ours.substr(kRope.size()))] = std::move(*value);
        } else {
          // No window is null there, and not 0. A scale of 0 means that there is none, too.
          const bool is_scale = gguf.ends_with("_scale") || gguf == "attention.scale";
          if (is_scale && value->number() == 0.0) continue;
          const bool is_none = ours == "sliding_window" && value->number() == 0.0;
          fields[std::string(ours)] = is_none ? Json() : std::move(*value);
        }
      }
    }
    LECTERN_RETURN_IF_ERROR(AddRope(std::move(rope), fields));
    AddUnsaid(fields);
    AddPattern(fields);
    LECTERN_ASSIGN(config_, ReadConfig(Json(std::move(fields)), file));
    config_.rope.has_neighbours = config_.local_rope.has_neighbours = architecture_->has_neighbours;
    config_.norms_from_one = false;  // the converter has added Gemma's 1 to the file's norms
    // The tensors, and no key, tell which matrices have a bias and whether several are one.
    config_.fused_qkv = FindTensor("blk.0.attn_qkv.weight") != nullptr;
    config_.qkv_bias =
        FindTensor(config_.fused_qkv ? "blk.0.attn_qkv.bias" : "blk.0.attn_q.bias") != nullptr;
    config_.output_bias = FindTensor("blk.0.attn_output.bias") != nullptr;
    FindExpertLayers();
    config_.experts.interleaved = false;  // the converter gives each its own tensor
    config_.mlp_bias = !config_.fused_gate_up;
    for (const char* name : {"blk.0.ffn_gate.bias", "blk.0.ffn_up.bias", "blk.0.ffn_down.bias"}) {
      config_.mlp_bias &= FindTensor(name) != nullptr;
    }
    return CheckHeadDim();
  }

  // The tensors, and no key, tell which layers have experts, where not all of them must.
  void FindExpertLayers() {
    const Architecture& row = *lectern::FindArchitecture(config_.architecture);
    if (config_.experts.count == 0 || !row.experts.may_have_dense_layers) return;
    std::vector<bool> dense(config_.num_layers);
    for (uint32_t layer = 0; layer < config_.num_layers; ++layer) {
      const std::string prefix = "blk." + std::to_string(layer) + ".ffn_gate";
      dense[layer] = FindTensor(prefix + "_inp.weight") == nullptr &&
                     FindTensor(prefix + ".weight") != nullptr;
    }
    if (std::ranges::count(dense, true) > 0) config_.experts.dense_layers = std::move(dense);
  }

  // Returns the number of layers that are run. The file counts layers that predict further tokens,
  // too; they come last and are not run.
  uint64_t NumLayers() const {
    const uint64_t all = keys().Whole(KeyOf("block_count")).value_or(0);
    const uint64_t further = keys().Whole(KeyOf("nextn_predict_layers")).value_or(0);
    return all - std::min(all, further);
  }

  // Returns the value of a key as config.json would have it; nothing: the file has no such key. A
  // key may have one value for each layer; these must be equal in all layers that run, else
  // kUnsupportedModel.
  Result<std::optional<Json>> FieldOf(const std::string& key) const {
    const auto at = keys().keys.find(key);
    if (at == keys().keys.end()) return std::optional<Json>();
    if (key == KeyOf("block_count")) return std::optional(Json(NumLayers()));
    const auto* const array = std::get_if<GgufArray>(&at->second);
    if (array == nullptr) return std::optional(ToJson(at->second));
    std::vector<double> numbers = array->Numbers();
    numbers.resize(static_cast<size_t>(std::min<uint64_t>(numbers.size(), NumLayers())));
    const auto is_first = [&](double number) { return number == numbers.front(); };
    if (numbers.empty() || !std::ranges::all_of(numbers, is_first)) {
      return Make(Code::kUnsupportedModel, key,
                  "is " + Shown(at->second) +
                      ": this build runs models whose layers are alike; take another");
    }
    const double number = numbers.front();
    // A double holds every whole number up to 1e15, so it becomes an integer without loss;
    // config.cc wants integers for counts.
    const bool is_whole = number >= 0 && number <= 1e15 && number == std::floor(number);
    return std::optional(is_whole ? Json(static_cast<uint64_t>(number)) : Json(number));
  }

  // Adds which layers are windowed, where the key says it: a number n (every n-th layer is full) or
  // a value for each layer (not 0: windowed). Without the key config.cc applies the architecture's
  // rule.
  void AddPattern(Json::Object& fields) const {
    if (!architecture_->has_pattern) return;
    // An explicit null means "no window"; a missing field would have the class's default.
    if (architecture_->needs_window) fields.try_emplace("sliding_window", Json());
    const std::string key = KeyOf("attention.sliding_window_pattern");
    if (const auto period = keys().Whole(key)) fields["sliding_window_pattern"] = Json(*period);
    const auto* const array = keys().Find<GgufArray>(key);
    if (array == nullptr) return;
    Json::Array types;
    for (const double is_windowed : array->Numbers()) {
      if (types.size() == NumLayers()) break;
      types.emplace_back(is_windowed != 0 ? "sliding_attention" : "full_attention");
    }
    if (!fields["sliding_window"].is_null()) fields["layer_types"] = Json(std::move(types));
  }

  // Adds "rope_scaling" to `fields`, from `rope` (its keys) and from the tensors of longrope, which
  // the file has in place of a type. Type "none" is no scaling.
  Status AddRope(Json::Object rope, Json::Object& fields) const {
    const auto type = rope.find("rope_type");
    if (type != rope.end() && type->second.string() != nullptr &&
        *type->second.string() == "none") {
      return {};
    }
    if (FindTensor(kLongFactors) == nullptr) {
      LECTERN_RETURN_IF_ERROR(AddLinear(rope));
    } else {
      rope["rope_type"] = Json("longrope");
      LECTERN_ASSIGN(const std::vector<float> shorter, ReadFloats(kShortFactors));
      LECTERN_ASSIGN(const std::vector<float> longer, ReadFloats(kLongFactors));
      rope["short_factor"] = ToArray(shorter);
      rope["long_factor"] = ToArray(longer);
    }
    if (!architecture_->truncates_yarn && rope.contains("rope_type")) {
      rope["truncate"] = Json(false);
    }
    if (!rope.empty()) fields["rope_scaling"] = Json(std::move(rope));
    return {};
  }

  // Completes linear scaling: a factor without a type means it, and so does the older key
  // "rope.scale_linear". A factor of 0 or 1 changes nothing and is removed.
  Status AddLinear(Json::Object& rope) const {
    LECTERN_ASSIGN(const auto old_factor, FieldOf(KeyOf("rope.scale_linear")));
    if (old_factor) rope.try_emplace("factor", *old_factor);
    const auto type = rope.find("rope_type"), factor = rope.find("factor");
    const bool is_linear = type == rope.end() ||
                           (type->second.string() != nullptr && *type->second.string() == "linear");
    if (!is_linear) return {};
    const double by = factor == rope.end() ? 1 : factor->second.number().value_or(-1);
    if (by == 0 || by == 1) {
      rope.erase("factor");
      rope.erase("rope_type");
    } else {
      rope["rope_type"] = Json("linear");
    }
    return {};
  }

  static Json ToArray(std::span<const float> numbers) {
    Json::Array items;
    for (const float number : numbers) items.emplace_back(double{number});
    return Json(std::move(items));
  }

  // Adds fields of config.json that no key gives: sizes from tensors' shapes, and defaults that are
  // llama.cpp's where transformers' classes have others.
  void AddUnsaid(Json::Object& fields) const {
    const GgufTensor* embedding = FindTensor("token_embd.weight");
    if (embedding != nullptr) fields["vocab_size"] = Json(embedding->shape[0]);
    fields["tie_word_embeddings"] = Json(FindTensor("output.weight") == nullptr);
    fields["eos_token_id"] = Json(EndsOfText());
    fields.try_emplace("norm_topk_prob", Json(architecture_->normalises_experts));
    // Where every layer has experts, nothing is as wide as a dense MLP would be.
    const auto width = fields.find("moe_intermediate_size");
    if (width != fields.end()) fields.try_emplace("intermediate_size", width->second);
    fields.try_emplace("rope_theta", Json(10000));  // llama.cpp's default, for every architecture
    const auto whole = [&](const char* name) {
      const auto at = fields.find(name);
      return at == fields.end() ? 0 : at->second.unsigned_integer().value_or(0);
    };
    const uint64_t heads = whole("num_attention_heads"), hidden = whole("hidden_size");
    if (heads == 0 || hidden == 0) return;  // ReadConfig refuses it
    if (hidden % heads == 0) fields.try_emplace("head_dim", Json(hidden / heads));
    const uint64_t given = whole("head_dim");
    const double head_dim = given > 0 ? static_cast<double>(given)
                                      : static_cast<double>(hidden) / static_cast<double>(heads);
    if (architecture_->layers_with_wide_scalar > 0) {
      const bool is_wide = NumLayers() == architecture_->layers_with_wide_scalar;
      fields["query_pre_attn_scalar"] =
          Json(is_wide ? static_cast<double>(hidden) / static_cast<double>(heads) : head_dim);
    }
    // Without the key llama.cpp takes the scale of other models, and not the class's 1.
    const Json usual_scale(1 / std::sqrt(head_dim));
    if (IsOwn("attention.scale")) fields.try_emplace("attention_multiplier", usual_scale);
    const bool* const is_tuned = keys().Find<bool>(KeyOf("rope.scaling.finetuned"));
    const bool has_rope = !architecture_->finetuned_means_rope || is_tuned == nullptr || *is_tuned;
    fields["position_embedding_type"] = Json(has_rope ? "rope" : "nope");
    const auto turned =
        static_cast<double>(keys().Whole(KeyOf("rope.dimension_count")).value_or(0));
    if (turned > 0 && turned <= head_dim) fields["partial_rotary_factor"] = Json(turned / head_dim);
  }

  // Ids of the tokens that end an answer: of the text, of a turn, of a message. Each key may be a
  // number or, with an "s" behind it, a list, of which items that are no whole numbers are left
  // out. config.cc leaves out ids past the vocabulary.
  Json::Array EndsOfText() const {
    Json::Array ids;
    for (const char* name : {"eos", "eot", "eom"}) {
      const std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
      for (const std::string& one_or_many : {key, key + "s"}) {
        if (const auto id = keys().Whole(one_or_many)) ids.emplace_back(*id);
        const auto* const list = keys().Find<GgufArray>(one_or_many);
        if (list == nullptr || list->count > kMostEnds) continue;
        for (const double id : list->Numbers()) {
          if (const auto whole = Json(id).integer()) ids.emplace_back(*whole);
        }
      }
    }
    return ids;
  }
  static constexpr uint64_t kMostEnds = 256;  // longer lists are ignored: they are no list of ends

  // Reads "rope_freqs.weight" into the recipe: one divisor for each pair that RoPE turns.
  Status ReadDivisors() {
    if (FindTensor(kRopeDivisors) == nullptr) return {};
    const bool is_shared = config_.local_rope == config_.rope;
    LECTERN_ASSIGN(config_.rope.divisors, ReadFloats(kRopeDivisors));
    if (is_shared) config_.local_rope = config_.rope;
    if (config_.rope.divisors.size() == config_.rope.dims / 2) return {};
    return Refuse(kRopeDivisors, "must have " + std::to_string(config_.rope.dims / 2) + " values");
  }

  // kUnsupportedModel, naming the tensor.
  Status Refuse(std::string_view tensor, const std::string& what) const {
    return Status(Code::kUnsupportedModel,
                  path() + ": tensor \"" + std::string(tensor) + "\" " + what);
  }

  // Reads a small tensor whole: one row of f32 with a divisor for each pair. It comes from an
  // untrusted file, so its length and values are bounded: a divisor of 0 would make a frequency
  // infinite.
  Result<std::vector<float>> ReadFloats(std::string_view name) const {
    const ModelPart* part = nullptr;
    const GgufTensor* tensor = FindTensor(name, &part);
    if (tensor == nullptr) return Refuse(name, "is missing");
    if (tensor->type != 0 || tensor->shape.size() != 1 || tensor->shape[0] > kWidestHead) {
      return Refuse(name, "must be one row of F32, at most " + std::to_string(kWidestHead));
    }
    const MappedFile& map = *part->file.map;
    LECTERN_RETURN_IF_ERROR(map.Load(tensor->begin, tensor->end - tensor->begin));
    std::vector<float> values(tensor->shape[0]);
    std::memcpy(values.data(), map.data() + tensor->begin, tensor->end - tensor->begin);
    const auto is_divisor = [](float x) { return x > 0 && x <= 1e6f; };
    if (std::ranges::all_of(values, is_divisor)) return values;
    return Refuse(name, "holds a value that is not above 0 and up to 1e6");
  }

  std::string path_;  // of the first part
  std::vector<ModelPart> parts_;
  const GgufArchitecture* architecture_ = nullptr;
  ModelConfig config_;
};

}  // namespace

Result<std::unique_ptr<ModelSource>> OpenGgufModel(Env& env, const std::vector<std::string>& paths,
                                                   Io io) {
  auto model = std::make_unique<GgufModel>();
  LECTERN_RETURN_IF_ERROR(model->Open(env, paths, io));
  return std::unique_ptr<ModelSource>(std::move(model));
}

}  // namespace lectern
