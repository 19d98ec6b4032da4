#include "tests/engine/invented_gguf.h"

#include <cmath>
#include <cstring>
#include <set>
#include <stdexcept>

#include "tests/engine/invented_model.h"
#include "tests/engine/test_documents.h"

namespace lectern::testing {
namespace {

uint64_t Field(const Json& config, std::string_view name) {
  return *config.Find(name)->unsigned_integer();
}

std::string TypeOf(const Json& config) { return *config.Find("model_type")->string(); }
bool IsGemma(const Json& config) { return TypeOf(config).starts_with("gemma"); }
// Those that llama.cpp runs as "llama" have rows in its order.
bool IsPermuted(const Json& config) {
  const std::set<std::string> types = {"llama",   "mistral", "granite",   "granitemoehybrid",
                                       "smollm3", "mixtral", "granitemoe"};
  return types.contains(TypeOf(config));
}
std::string ArchitectureOf(const Json& config) {
  const std::map<std::string, std::string> others = {
      {"mistral", "llama"},     {"gemma3_text", "gemma3"}, {"granitemoehybrid", "granite"},
      {"olmo3", "olmo2"},       {"glm", "chatglm"},        {"cohere", "command-r"},
      {"gpt_oss", "gpt-oss"},   {"mixtral", "llama"},      {"qwen2_moe", "qwen2moe"},
      {"qwen3_moe", "qwen3moe"}};
  const auto at = others.find(TypeOf(config));
  return at == others.end() ? TypeOf(config) : at->second;
}
// Whether the layers' norms have Gemma's names, and OLMo's over all heads.
bool HasGemmaNames(const Json& config) {
  const std::string type = TypeOf(config);
  return IsGemma(config) || type == "olmo2" || type == "olmo3" || type == "exaone4" ||
         type == "glm4";
}
bool HasWholeNorms(const Json& config) { return TypeOf(config).starts_with("olmo"); }

// Where the number of a layer begins in a tensor's name; npos: it is of no layer.
size_t NumberAt(const std::string& name) {
  for (const std::string layers : {"model.layers.", "transformer.h."}) {
    if (name.starts_with(layers)) return layers.size();
  }
  return std::string::npos;
}

// "model.layers.2.mlp.up_proj.weight": "mlp.up_proj".
std::string PartOf(const std::string& name) {
  const size_t number = NumberAt(name);
  // Some names of gpt-oss have no kind behind them.
  const bool has_kind = name.ends_with(".weight") || name.ends_with(".bias");
  const size_t end = has_kind ? name.rfind('.') : name.size();
  const size_t begin = number == std::string::npos ? 0 : name.find('.', number) + 1;
  return name.substr(begin, end - begin);
}

// A part of one expert: "block_sparse_moe.experts.3.w1" is expert 3's
// "block_sparse_moe.experts.w1".
struct ExpertPart {
  std::string part;
  uint64_t expert = 0;
  bool is_one = false;
};
ExpertPart ExpertOf(const std::string& part) {
  const std::string middle = ".experts.";
  const size_t at = part.find(middle);
  if (at == std::string::npos) return {part};
  const size_t number = at + middle.size(), dot = part.find('.', number);
  if (part[number] < '0' || part[number] > '9') return {part};  // of all experts
  return {part.substr(0, number) + part.substr(dot + 1), std::stoull(part.substr(number)), true};
}

uint64_t FieldOr(const Json& config, std::string_view name, uint64_t otherwise) {
  return config.Find(name) == nullptr ? otherwise : Field(config, name);
}

std::vector<uint64_t> ShapeOf(const std::string& name, const Json& config) {
  const uint64_t hidden = Field(config, "hidden_size"), inner = Field(config, "intermediate_size");
  const uint64_t dim = Field(config, "head_dim"), vocab = Field(config, "vocab_size");
  const uint64_t q = Field(config, "num_attention_heads") * dim;
  const uint64_t kv = Field(config, "num_key_value_heads") * dim;
  const uint64_t experts = FieldOr(config, "num_experts", FieldOr(config, "num_local_experts", 0));
  const uint64_t width = FieldOr(config, "moe_intermediate_size", inner);
  const uint64_t shared = FieldOr(config, "shared_expert_intermediate_size", 0);
  const std::map<std::string, std::vector<uint64_t>> matrices = {
      {"mlp.gate", {experts, hidden}},
      {"mlp.router", {experts, hidden}},
      {"mlp.experts.gate_up_proj", {experts, hidden, 2 * width}},
      {"mlp.experts.gate_up_proj_bias", {experts, 2 * width}},
      {"mlp.experts.down_proj", {experts, width, hidden}},
      {"mlp.experts.down_proj_bias", {experts, hidden}},
      {"self_attn.sinks", {Field(config, "num_attention_heads")}},
      {"mlp.experts.gate_proj", {width, hidden}},
      {"mlp.experts.up_proj", {width, hidden}},
      {"mlp.shared_expert.gate_proj", {shared, hidden}},
      {"mlp.shared_expert.up_proj", {shared, hidden}},
      {"mlp.shared_expert.down_proj", {hidden, shared}},
      {"mlp.shared_expert_gate", {1, hidden}},
      {"block_sparse_moe.gate", {experts, hidden}},
      {"block_sparse_moe.experts.w1", {width, hidden}},
      {"block_sparse_moe.experts.w3", {width, hidden}},
      {"block_sparse_moe.experts.w2", {hidden, width}},
      {"block_sparse_moe.router.layer", {experts, hidden}},
      {"block_sparse_moe.input_linear", {experts, 2 * width, hidden}},
      {"block_sparse_moe.output_linear", {experts, hidden, width}},
      {"model.embed_tokens", {vocab, hidden}},
      {"lm_head", {vocab, hidden}},
      {"self_attn.q_proj", {q, hidden}},
      {"self_attn.k_proj", {kv, hidden}},
      {"self_attn.v_proj", {kv, hidden}},
      {"self_attn.o_proj", {hidden, q}},
      {"mlp.gate_proj", {inner, hidden}},
      {"mlp.up_proj", {inner, hidden}},
      {"mlp.down_proj", {hidden, inner}},
      {"self_attn.qkv_proj", {q + 2 * kv, hidden}},
      {"mlp.gate_up_proj", {2 * inner, hidden}},
      {"shared_mlp.input_linear", {2 * inner, hidden}},
      {"shared_mlp.output_linear", {hidden, inner}},
      {"transformer.wte", {vocab, hidden}},
      {"attn.attention.q_proj", {q, hidden}},
      {"attn.attention.k_proj", {kv, hidden}},
      {"attn.attention.v_proj", {kv, hidden}},
      {"attn.attention.out_proj", {hidden, q}},
      {"mlp.c_fc_0", {inner, hidden}},
      {"mlp.c_fc_1", {inner, hidden}},
      {"mlp.c_proj", {hidden, inner}}};
  const std::string part = ExpertOf(PartOf(name)).part;
  const bool is_own = ExpertOf(PartOf(name)).is_one && part == "mlp.experts.down_proj";
  if (is_own) return {hidden, width};
  const auto matrix = matrices.find(part);
  if (HasWholeNorms(config) && part == "self_attn.q_norm") return {q};
  if (HasWholeNorms(config) && part == "self_attn.k_norm") return {kv};
  if (matrix == matrices.end()) return {part.starts_with("self_attn.") ? dim : hidden};
  if (name.ends_with(".bias")) return {matrix->second[0]};
  return matrix->second;
}

std::string GgufName(const std::string& name, const Json& config) {
  const std::map<std::string, std::string> names = {
      {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},
      {"lm_head", "output"},
      {"input_layernorm", "attn_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.qkv_proj", "attn_qkv"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"post_attention_layernorm",
       TypeOf(config) == "gpt_oss" || (HasGemmaNames(config) && TypeOf(config) != "glm4")
           ? "post_attention_norm"
           : "ffn_norm"},
      {"post_self_attn_layernorm", "post_attention_norm"},
      {"post_mlp_layernorm", "post_ffw_norm"},
      {"shared_mlp.output_linear", "ffn_down"},
      {"transformer.wte", "token_embd"},
      {"transformer.ln_f", "output_norm"},
      {"ln_1", "attn_norm"},
      {"ln_2", "ffn_norm"},
      {"attn.attention.q_proj", "attn_q"},
      {"attn.attention.k_proj", "attn_k"},
      {"attn.attention.v_proj", "attn_v"},
      {"attn.attention.out_proj", "attn_output"},
      {"mlp.c_fc_0", "ffn_gate"},
      {"mlp.c_fc_1", "ffn_up"},
      {"mlp.c_proj", "ffn_down"},
      {"pre_feedforward_layernorm", "ffn_norm"},
      {"post_feedforward_layernorm", "post_ffw_norm"},
      {"mlp.gate", "ffn_gate_inp"},
      {"mlp.router", "ffn_gate_inp"},
      {"self_attn.sinks", "attn_sinks"},
      {"mlp.experts.gate_proj", "ffn_gate_exps"},
      {"mlp.experts.up_proj", "ffn_up_exps"},
      {"mlp.experts.down_proj", "ffn_down_exps"},
      {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
      {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
      {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
      {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
      {"block_sparse_moe.gate", "ffn_gate_inp"},
      {"block_sparse_moe.experts.w1", "ffn_gate_exps"},
      {"block_sparse_moe.experts.w3", "ffn_up_exps"},
      {"block_sparse_moe.experts.w2", "ffn_down_exps"},
      {"block_sparse_moe.router.layer", "ffn_gate_inp"},
      {"block_sparse_moe.output_linear", "ffn_down_exps"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.gate_up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  const size_t number = NumberAt(name);
  const bool has_kind = name.ends_with(".weight") || name.ends_with(".bias");
  const std::string own_kind = has_kind ? name.substr(name.rfind('.')) : ".weight";
  const std::string own = names.at(ExpertOf(PartOf(name)).part) + own_kind;
  if (number == std::string::npos) return own;
  return "blk." + name.substr(number, name.find('.', number) - number) + "." + own;
}

// Uniform bits, the same for the same tensor and index.
uint64_t Bits(const std::string& name, uint64_t index) {
  uint64_t z = 0xCBF29CE484222325u;
  for (const char c : name) z = (z ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  z += (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Blocks of random bits whose values are spread by about `spread`.
std::string RandomBlocks(const std::string& name, TensorType type, uint64_t count, double spread) {
  const size_t size = BlockBytes(type);
  std::string bytes(count / BlockValues(type) * size, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(Bits(name, i));
  for (size_t at = 0; at < bytes.size(); at += size) {
    const auto put = [&](size_t offset, double value) {
      const f16 half = ToF16(static_cast<float>(value));
      std::memcpy(bytes.data() + at + offset, &half, sizeof half);
    };
    const uint64_t bits = Bits(name + " scale", at);
    const double d = spread * (0.5 + static_cast<double>(bits >> 40) / 16777216.0);
    const double sign = bits % 2 == 0 ? 1 : -1;
    switch (type) {
      case TensorType::kQ8_0:
        put(0, sign * d / 74);
        break;
      case TensorType::kQ4_0:
        put(0, sign * d / 4.6);
        break;
      case TensorType::kQ5_0:
        put(0, sign * d / 9.2);
        break;
      case TensorType::kQ4_1:
        put(0, d / 4.6), put(2, -d / 4.6 * 7.5);
        break;
      case TensorType::kQ5_1:
        put(0, d / 9.2), put(2, -d / 9.2 * 15.5);
        break;
      case TensorType::kQ4_K:
        put(0, d / 8 / 32), put(2, d / 8 / 32 * 7.5);
        break;
      case TensorType::kQ5_K:
        put(0, d / 16 / 32), put(2, d / 16 / 32 * 15.5);
        break;
      case TensorType::kQ6_K:
        put(208, d / 18.5 / 74);
        break;
      case TensorType::kQ2_K:
        put(80, d / 1.12 / 7.5), put(82, d / 1.12 / 7.5 * 1.5);
        break;
      case TensorType::kQ3_K:
        put(108, sign * d / 2.3 / 18.5);
        break;
      case TensorType::kIQ4_NL:
        put(0, sign * d / 70);
        break;
      case TensorType::kIQ4_XS:
        put(0, sign * d / 70 / 18.5);
        break;
      case TensorType::kMXFP4:
        bytes[at] = static_cast<char>(std::lround(std::log2(d / 5.6)) + 128);
        break;
      default:
        throw std::runtime_error("plain values have no blocks");
    }
  }
  return bytes;
}

template <typename T>
void Append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string StoredTensor(const Json& architecture, const std::string& name,
                         const std::vector<uint64_t>& shape, TensorType type) {
  uint64_t count = 1;
  for (const uint64_t size : shape) count *= size;
  if (!PlainDtype(type)) {
    const bool is_query = name.ends_with("q_proj.weight") || name.ends_with("qkv_proj.weight");
    const Json* const gain = architecture.Find("gain");
    const double spread = gain != nullptr && is_query ? *gain->number() : 1;
    return RandomBlocks(name, type, count, spread / std::sqrt(static_cast<double>(shape.back())));
  }
  // Norms of Gemma are stored plus 1.
  const bool adds_one = IsGemma(*architecture.Find("config")) && name.ends_with("norm.weight");
  std::string bytes;
  for (uint64_t i = 0; i < count; ++i) {
    const float value = WeightOf(architecture, name, shape, i) + (adds_one ? 1.0f : 0.0f);
    if (type == TensorType::kF32) Append(bytes, value);
    if (type == TensorType::kF16) Append(bytes, ToF16(value));
    if (type == TensorType::kBf16) Append(bytes, ToBf16(value));
  }
  return bytes;
}

// Rows of heads in llama.cpp's order: those of a pair that RoPE turns are neighbours.
std::string Permuted(const std::string& bytes, uint64_t num_rows, uint64_t dim) {
  const size_t row_bytes = bytes.size() / num_rows;
  std::string out;
  for (uint64_t row = 0; row < num_rows; ++row) {
    const uint64_t in_head = row % dim;
    const uint64_t from = row - in_head + in_head % 2 * (dim / 2) + in_head / 2;
    out += bytes.substr(from * row_bytes, row_bytes);
  }
  return out;
}

// gpt-oss's joined experts, as the converter gives them: gate and up apart, and each matrix with a
// row for each output. In blocks they are worth the random ones of one expert after the other.
void AddTurns(const Json& architecture, const std::string& name, const std::vector<uint64_t>& shape,
              TensorType type, GgufWriter& file,
              std::map<std::string, std::vector<double>>& worth) {
  const bool is_bias = name.ends_with("_bias"), is_down = name.find("down_proj") != name.npos;
  const uint64_t experts = shape[0], columns = is_bias ? 1 : shape[1], all = shape.back();
  const uint64_t turns = is_down ? 1 : 2, rows = all / turns;
  std::vector<double>& own = worth[name];
  own.resize(experts * columns * all);
  const std::string layer = "blk." + name.substr(13, name.find('.', 13) - 13);
  for (uint64_t turn = 0; turn < turns; ++turn) {
    const std::string part = is_down     ? "ffn_down_exps"
                             : turn == 0 ? "ffn_gate_exps"
                                         : "ffn_up_exps";
    const TensorType stored = is_bias ? TensorType::kF32 : type;
    std::string bytes;
    std::vector<float> values(experts * rows * columns);
    if (PlainDtype(stored)) {
      for (uint64_t i = 0; i < values.size(); ++i) {
        const uint64_t e = i / (rows * columns), r = i / columns % rows, c = i % columns;
        values[i] = WeightOf(architecture, name, shape, (e * columns + c) * all + turns * r + turn);
        if (stored == TensorType::kF32) Append(bytes, values[i]);
        if (stored == TensorType::kF16) Append(bytes, ToF16(values[i]));
        if (stored == TensorType::kBf16) Append(bytes, ToBf16(values[i]));
      }
    } else {
      bytes = RandomBlocks(name + part, stored, values.size(),
                           1 / std::sqrt(static_cast<double>(columns)));
    }
    TensorToFloats(
        {reinterpret_cast<const std::byte*>(bytes.data()), stored, experts * rows, columns},
        {values.data(), experts * rows, columns});
    for (uint64_t i = 0; i < values.size(); ++i) {
      const uint64_t e = i / (rows * columns), r = i / columns % rows, c = i % columns;
      own[(e * columns + c) * all + turns * r + turn] = values[i];
    }
    const std::vector<uint64_t> of_file =
        is_bias ? std::vector{experts, rows} : std::vector{experts, rows, columns};
    file.AddTensor(layer + "." + part + (is_bias ? ".bias" : ".weight"), stored, of_file, bytes);
  }
}

}  // namespace

Json WithFields(const Json& architecture, const Json::Object& fields) {
  Json::Object config = *architecture.Find("config")->object();
  for (const auto& [name, value] : fields) config[name] = value;
  const Json changed(config);
  Json::Object tensors;
  for (uint64_t layer = 0; layer < Field(changed, "num_hidden_layers"); ++layer) {
    for (const auto& [name, unused] : *architecture.Find("tensors")->object()) {
      const size_t at = name.find(".layers.0.");
      if (at == std::string::npos && name.find(".layers.") != std::string::npos) continue;
      std::string own = name;
      if (at != std::string::npos) own.replace(at + 8, 1, std::to_string(layer));
      Json::Array shape;
      for (const uint64_t size : ShapeOf(own, changed)) shape.emplace_back(size);
      tensors[own] = Json(std::move(shape));
    }
  }
  Json::Object whole = *architecture.object();
  whole["config"] = changed;
  whole["tensors"] = Json(std::move(tensors));
  return Json(std::move(whole));
}

void AddInventedKeys(const Json& architecture, GgufWriter& file) {
  const Json& config = *architecture.Find("config");
  const std::string name = ArchitectureOf(config), prefix = name + ".", type = TypeOf(config);
  file.Add("general.architecture", name);
  const auto whole = [&](const char* key, std::string_view field) {
    if (config.Find(field) == nullptr || !config.Find(field)->unsigned_integer()) return;
    file.Add(prefix + key, static_cast<uint32_t>(Field(config, field)));
  };
  const auto real = [&](const char* key, std::string_view field) {
    if (config.Find(field) == nullptr) return;
    file.Add(prefix + key, static_cast<float>(*config.Find(field)->number()));
  };
  whole("embedding_length", "hidden_size");
  whole("feed_forward_length", "intermediate_size");
  whole("block_count", "num_hidden_layers");
  whole("attention.head_count", "num_attention_heads");
  whole("attention.head_count_kv", "num_key_value_heads");
  whole("context_length", "max_position_embeddings");
  real("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  real("rope.freq_base", "rope_theta");
  if (const Json* const both = config.Find("rope_parameters")) {
    const Json* const of_full = both->Find("full_attention");
    const Json& theta = *(of_full != nullptr ? of_full : both)->Find("rope_theta");
    file.Add(prefix + "rope.freq_base", static_cast<float>(*theta.number()));
  }
  // A part of each head is turned in GLM. The class's default stands in no file.
  const Json* const part = config.Find("partial_rotary_factor");
  const double turned = part != nullptr ? *part->number() : type.starts_with("glm") ? 0.5 : 1;
  file.Add(prefix + "rope.dimension_count",
           static_cast<uint32_t>(turned * static_cast<double>(Field(config, "head_dim"))));
  if (name != "phi3") whole("attention.key_length", "head_dim");
  if (name != "phi3") whole("attention.value_length", "head_dim");
  whole("attention.sliding_window", "sliding_window");
  if (const Json* const types = config.Find("layer_types");
      types && config.Find("sliding_window")) {
    std::vector<int32_t> pattern;
    for (const Json& kind : *types->array()) {
      pattern.push_back(*kind.string() == "sliding_attention" ? 1 : 0);
    }
    file.Add(prefix + "attention.sliding_window_pattern", pattern);
  }
  whole("expert_count", "num_experts");
  whole("expert_count", "num_local_experts");
  whole("expert_used_count", "num_experts_per_tok");
  whole("expert_feed_forward_length", "moe_intermediate_size");
  whole("expert_shared_feed_forward_length", "shared_expert_intermediate_size");
  // llama.cpp knows by the architecture whether weights add up to 1; the key says otherwise.
  const Json* const is_normalised = config.Find("norm_topk_prob");
  const bool is_usual = type == "qwen3_moe";
  if (config.Find("num_experts") != nullptr &&
      (is_normalised != nullptr && *is_normalised->boolean()) != is_usual) {
    file.Add(prefix + "expert_weights_norm", !is_usual);
  }
  if (type == "gpt_oss") whole("expert_feed_forward_length", "intermediate_size");
  real("attention.layer_norm_epsilon", "layer_norm_eps");
  real("attention.scale", "attention_multiplier");
  real("embedding_scale", "embedding_multiplier");
  real("residual_scale", "residual_multiplier");
  real("logit_scale", "logits_scaling");
  real("logit_scale", "logit_scale");
  if (type.starts_with("cohere") && config.Find("logit_scale") == nullptr) {
    file.Add(prefix + "logit_scale", 0.0625f);
  }
  const Json* const position = config.Find("position_embedding_type");
  if (type == "granitemoehybrid") {
    file.Add(prefix + "rope.scaling.finetuned",
             position != nullptr && *position->string() == "rope");
  }
  if (type.starts_with("cohere")) file.Add(prefix + "rope.scaling.type", "none");
  if (type == "cohere" && config.Find("rope_theta") == nullptr) {
    file.Add(prefix + "rope.freq_base", 500000.0f);  // the class's default
  }
  real("attn_logit_softcapping", "attn_logit_softcapping");
  real("final_logit_softcapping", "final_logit_softcapping");
  const Json* const scaling = config.Find("rope_scaling");
  if (scaling == nullptr || scaling->is_null()) return;
  file.Add(prefix + "rope.scaling.type", *scaling->Find("rope_type")->string());
  file.Add(prefix + "rope.scaling.factor", static_cast<float>(*scaling->Find("factor")->number()));
  if (const Json* const positions = scaling->Find("original_max_position_embeddings")) {
    file.Add(prefix + "rope.scaling.original_context_length",
             static_cast<uint32_t>(*positions->unsigned_integer()));
  }
}

void AddTinyVocabulary(GgufWriter& file) {
  const std::string bytes = ReadWholeFile(SourcePath("tests/golden/gguf/tiny-F32.gguf"));
  const auto table = ParseGguf(std::as_bytes(std::span(bytes)), "tiny-F32.gguf",
                               [](uint64_t, uint64_t) { return Status(); });
  if (!table.ok()) throw std::runtime_error(table.status().message());
  for (const auto& [key, value] : table->keys) {
    if (key.starts_with("tokenizer.")) file.Add(key, value);
  }
}

void AddBytePairs(const Json& tokenizer, const std::string& pre, GgufWriter& file) {
  const Json& model = *tokenizer.Find("model");
  std::map<uint64_t, std::pair<std::string, int32_t>> tokens;  // by id: text, type
  for (const auto& [text, id] : *model.Find("vocab")->object()) {
    tokens[*id.unsigned_integer()] = {text, 1};
  }
  for (const Json& added : *tokenizer.Find("added_tokens")->array()) {
    tokens[Field(added, "id")] = {*added.Find("content")->string(),
                                  *added.Find("special")->boolean() ? 3 : 4};
  }
  std::vector<std::string> texts, merges;
  std::vector<int32_t> types;
  for (uint64_t id = 0; id <= tokens.rbegin()->first; ++id) {
    const auto at = tokens.find(id);
    texts.push_back(at == tokens.end() ? "[PAD" + std::to_string(id) + "]" : at->second.first);
    types.push_back(at == tokens.end() ? 5 : at->second.second);
  }
  for (const Json& merge : *model.Find("merges")->array()) {
    merges.push_back(merge.string() != nullptr
                         ? *merge.string()
                         : *(*merge.array())[0].string() + " " + *(*merge.array())[1].string());
  }
  file.Add("tokenizer.ggml.model", "gpt2");
  file.Add("tokenizer.ggml.pre", pre);
  file.Add("tokenizer.ggml.tokens", texts);
  file.Add("tokenizer.ggml.token_type", types);
  file.Add("tokenizer.ggml.merges", merges);
}

std::map<std::string, std::vector<double>> AddInventedTensors(const Json& architecture,
                                                              TensorType type, GgufWriter& file,
                                                              bool is_split) {
  const Json& config = *architecture.Find("config");
  std::map<std::string, std::vector<double>> worth;
  // By name in the file: the bytes of each expert's matrix, and the shape of one.
  struct Joined {
    std::map<uint64_t, std::string> bytes;
    std::vector<uint64_t> shape;
  };
  std::map<std::string, Joined> joined;
  for (const auto& [name, unused] : *architecture.Find("tensors")->object()) {
    const std::vector<uint64_t> shape = ShapeOf(name, config);
    if (PartOf(name).starts_with("mlp.experts.") && !ExpertOf(PartOf(name)).is_one) {
      AddTurns(architecture, name, shape, type, file, worth);
      continue;
    }
    // llama.cpp's quantiser leaves what routes tokens as it is.
    const std::string gguf_part =
        name.find("input_linear") != name.npos ? "" : GgufName(name, config);
    const bool is_router = gguf_part.find("ffn_gate_inp") != std::string::npos;
    const bool is_matrix = shape.size() > 1 && !is_router;
    const TensorType own = is_matrix ? type : TensorType::kF32;
    std::string bytes = StoredTensor(architecture, name, shape, own);
    if (is_matrix) {
      const uint64_t rows = shape[0] * (shape.size() > 2 ? shape[1] : 1), columns = shape.back();
      std::vector<float> values(rows * columns);
      TensorToFloats({reinterpret_cast<const std::byte*>(bytes.data()), own, rows, columns},
                     {values.data(), rows, columns});
      worth[name].assign(values.begin(), values.end());
    }
    const std::string part = PartOf(name);
    if (IsPermuted(config) && (part == "self_attn.q_proj" || part == "self_attn.k_proj")) {
      bytes = Permuted(bytes, shape[0], Field(config, "head_dim"));  // also a bias
    }
    if (part == "shared_mlp.input_linear") {  // the converter cuts it in two
      const std::vector<uint64_t> half = {shape[0] / 2, shape[1]};
      const std::string layer = "blk." + name.substr(13, name.find('.', 13) - 13);
      file.AddTensor(layer + ".ffn_gate.weight", own, half, bytes.substr(0, bytes.size() / 2));
      file.AddTensor(layer + ".ffn_up.weight", own, half, bytes.substr(bytes.size() / 2));
      continue;
    }
    if (part == "block_sparse_moe.input_linear") {
      const std::string layer = "blk." + name.substr(13, name.find('.', 13) - 13);
      const size_t half = bytes.size() / shape[0] / 2;
      for (uint64_t expert = 0; expert < shape[0]; ++expert) {
        for (const size_t second : {0, 1}) {
          Joined& to = joined[layer + (second ? ".ffn_up_exps.weight" : ".ffn_gate_exps.weight")];
          to.shape = {shape[1] / 2, shape[2]};
          to.bytes[expert] = bytes.substr((2 * expert + second) * half, half);
        }
      }
      continue;
    }
    if (const ExpertPart one = ExpertOf(part); one.is_one) {
      Joined& to = joined[GgufName(name, config)];
      to.shape = shape;
      to.bytes[one.expert] = std::move(bytes);
      continue;
    }
    const bool is_row = shape.size() > 1 && shape[0] == 1;  // the converter makes it a vector
    file.AddTensor(GgufName(name, config), own, is_row ? std::vector{shape[1]} : shape, bytes);
  }
  for (const auto& [name, experts] : joined) {
    std::string all;
    for (const auto& [expert, bytes] : experts.bytes) {
      all += bytes;
      if (!is_split) continue;
      const size_t at = name.find("_exps");
      file.AddTensor(name.substr(0, at) + "." + std::to_string(expert) + name.substr(at + 5), type,
                     experts.shape, bytes);
    }
    if (is_split) continue;
    file.AddTensor(name, type, {experts.bytes.size(), experts.shape[0], experts.shape[1]}, all);
  }
  return worth;
}

}  // namespace lectern::testing
