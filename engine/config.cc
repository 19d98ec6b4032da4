// config.json to ModelConfig: one line a field, absent fields as transformers' LlamaConfig has
// them.
#include "engine/config.h"

#include <cmath>
#include <numbers>
#include <optional>

#include "engine/json.h"

namespace lectern {
namespace {

std::string Shown(const Json& value) {
  std::string text = value.Dump();
  if (text.size() > 80) text = text.substr(0, 80) + "…";
  return text;
}

std::string Shown(double value) { return Json(value).Dump(); }

// Reads members of one JSON object. null counts as absent, as in transformers.
class Fields {
 public:
  Fields(const Json& object, const ConfigFile& file, std::string prefix = "")
      : object_(object), file_(file), prefix_(std::move(prefix)) {}

  const Json* Find(std::string_view name) const {
    const Json* value = object_.Find(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  Status Malformed(std::string_view name, const std::string& what) const {
    return Make(Code::kMalformedModel, name, what);
  }
  Status Unsupported(std::string_view name, const std::string& what) const {
    return Make(Code::kUnsupportedModel, name, what);
  }
  Status WrongValue(std::string_view name, const Json& value, const std::string& wanted) const {
    return Malformed(name, "is " + Shown(value) + "; it must be " + wanted);
  }

  // Whole number in [low, high]; without a default the field must be there.
  Status Whole(std::string_view name, uint64_t low, uint64_t high, uint32_t* out,
               std::optional<uint32_t> otherwise = std::nullopt) const {
    const Json* value = Find(name);
    if (value == nullptr) {
      if (!otherwise) return Malformed(name, "is missing");
      *out = *otherwise;
      return Status();
    }
    const std::optional<uint64_t> number = value->unsigned_integer();
    if (!number || *number < low || *number > high) {
      return WrongValue(name, *value,
                        "a whole number in " + std::to_string(low) + ".." + std::to_string(high));
    }
    *out = static_cast<uint32_t>(*number);
    return Status();
  }

  // Number in [low, high]; `out` keeps its value when the field is absent.
  Status Real(std::string_view name, double low, double high, double* out) const {
    const Json* value = Find(name);
    if (value == nullptr) return Status();
    const std::optional<double> number = value->number();
    if (!number || !(*number >= low && *number <= high)) {
      return WrongValue(name, *value, "a number in " + Shown(low) + ".." + Shown(high));
    }
    *out = *number;
    return Status();
  }

  Status Bool(std::string_view name, bool* out) const {
    const Json* value = Find(name);
    if (value == nullptr) return Status();
    if (value->boolean() == nullptr) return WrongValue(name, *value, "true or false");
    *out = *value->boolean();
    return Status();
  }

 private:
  Status Make(Code code, std::string_view name, const std::string& what) const {
    std::string field = prefix_ + std::string(name);
    const auto own = file_.own_names.find(field);
    if (own != file_.own_names.end()) field = own->second;
    return Status(code, file_.path + ": \"" + field + "\" " + what).WithParam(field);
  }

  const Json& object_;
  const ConfigFile& file_;
  std::string prefix_;
};

constexpr size_t kMaxConfig = size_t{1} << 20;  // bytes
constexpr uint64_t kMaxPositions = uint64_t{1} << 27;

Status CheckArchitecture(const Fields& fields) {
  const Json* type = fields.Find("model_type");
  if (type == nullptr) return fields.Malformed("model_type", "is missing");
  if (type->string() == nullptr) return fields.WrongValue("model_type", *type, "a string");
  if (*type->string() != "llama") {
    return fields.Unsupported("model_type", "is " + Shown(*type) + "; this build runs \"llama\"");
  }
  const Json* architectures = fields.Find("architectures");
  if (architectures == nullptr) return Status();
  const Json::Array* list = architectures->array();
  if (list == nullptr) return fields.WrongValue("architectures", *architectures, "a list");
  if (list->size() == 1 && (*list)[0].string() != nullptr &&
      *(*list)[0].string() == "LlamaForCausalLM") {
    return Status();
  }
  return fields.Unsupported(
      "architectures", "is " + Shown(*architectures) + "; this build runs [\"LlamaForCausalLM\"]");
}

bool IsFalse(const Json& value) { return value.boolean() != nullptr && !*value.boolean(); }
bool IsAtMostOne(const Json& value) { return value.number() && *value.number() <= 1; }
bool IsOne(const Json& value) { return value.number() == 1.0; }
bool IsSilu(const Json& value) {
  return value.string() != nullptr && (*value.string() == "silu" || *value.string() == "swish");
}
bool IsNothing(const Json&) { return false; }  // any value but null or absent is refused

// Fields that would change the result in a way that we do not compute.
struct Restriction {
  std::string_view field;
  bool (*allowed)(const Json&);
  std::string_view supported;
};
constexpr Restriction kRestrictions[] = {
    {"hidden_act", IsSilu, "\"silu\""},
    {"attention_bias", IsFalse, "false"},
    {"mlp_bias", IsFalse, "false"},
    {"quantization_config", IsNothing, "F32, F16 and BF16 weights without it"},
    {"compression_config", IsNothing, "F32, F16 and BF16 weights without it"},
    {"num_experts", IsAtMostOne, "dense models"},
    {"num_local_experts", IsAtMostOne, "dense models"},
    {"n_routed_experts", IsAtMostOne, "dense models"},
    {"partial_rotary_factor", IsOne, "1"},
    {"pretraining_tp", IsAtMostOne, "1"},
};

Status CheckRestrictions(const Fields& fields) {
  for (const Restriction& rule : kRestrictions) {
    const Json* value = fields.Find(rule.field);
    if (value == nullptr || rule.allowed(*value)) continue;
    return fields.Unsupported(
        rule.field, "is " + Shown(*value) + "; supported: " + std::string(rule.supported));
  }
  return Status();
}

// Every layer attends to all positions; anything else is named and refused.
Status CheckAttentionKinds(const Fields& fields, uint32_t num_layers) {
  const Json* window = fields.Find("sliding_window");
  const Json* use_window = fields.Find("use_sliding_window");
  if (window != nullptr && !(use_window != nullptr && IsFalse(*use_window))) {
    return fields.Unsupported("sliding_window",
                              "is " + Shown(*window) + "; supported: none (full attention)");
  }
  const Json* layer_types = fields.Find("layer_types");
  if (layer_types == nullptr) return Status();
  const Json::Array* list = layer_types->array();
  if (list == nullptr) return fields.WrongValue("layer_types", *layer_types, "a list");
  if (list->size() != num_layers) {
    return fields.Malformed("layer_types", "has " + std::to_string(list->size()) + " items for " +
                                               std::to_string(num_layers) + " layers");
  }
  for (const Json& kind : *list) {
    if (kind.string() == nullptr || *kind.string() != "full_attention") {
      return fields.Unsupported("layer_types",
                                "has " + Shown(kind) + "; supported: \"full_attention\"");
    }
  }
  return Status();
}

Status ReadSizes(const Fields& fields, ModelConfig* config) {
  LECTERN_RETURN_IF_ERROR(fields.Whole("vocab_size", 1, 1u << 22, &config->vocab_size));
  LECTERN_RETURN_IF_ERROR(fields.Whole("hidden_size", 1, 1u << 17, &config->hidden_size));
  LECTERN_RETURN_IF_ERROR(
      fields.Whole("intermediate_size", 1, 1u << 20, &config->intermediate_size));
  LECTERN_RETURN_IF_ERROR(fields.Whole("num_hidden_layers", 1, 1024, &config->num_layers));
  LECTERN_RETURN_IF_ERROR(fields.Whole("num_attention_heads", 1, 1024, &config->num_heads));
  LECTERN_RETURN_IF_ERROR(
      fields.Whole("num_key_value_heads", 1, 1024, &config->num_kv_heads, config->num_heads));
  LECTERN_RETURN_IF_ERROR(
      fields.Whole("max_position_embeddings", 1, kMaxPositions, &config->max_positions, 2048));
  const bool has_head_dim = fields.Find("head_dim") != nullptr;
  LECTERN_RETURN_IF_ERROR(fields.Whole("head_dim", 2, 1024, &config->head_dim,
                                       config->hidden_size / config->num_heads));

  const std::string heads = std::to_string(config->num_heads);
  if (!has_head_dim && config->hidden_size % config->num_heads != 0) {
    return fields.Malformed("hidden_size", "is " + std::to_string(config->hidden_size) +
                                               ", not a multiple of the " + heads + " heads");
  }
  if (config->head_dim < 2 || config->head_dim > 1024 || config->head_dim % 2 != 0) {
    return fields.Malformed(
        "head_dim", "is " + std::to_string(config->head_dim) + "; it must be even and in 2..1024");
  }
  if (config->num_heads % config->num_kv_heads != 0) {
    return fields.Malformed("num_key_value_heads", "is " + std::to_string(config->num_kv_heads) +
                                                       "; it must divide the " + heads +
                                                       " query heads");
  }
  return Status();
}

Status ReadEosIds(const Fields& fields, ModelConfig* config) {
  const Json* eos = fields.Find("eos_token_id");
  if (eos == nullptr) return Status();
  const std::string wanted = "a token id below " + std::to_string(config->vocab_size);
  const Json::Array one = {*eos};
  for (const Json& item : eos->array() != nullptr ? *eos->array() : one) {
    const std::optional<uint64_t> id = item.unsigned_integer();
    if (!id || *id >= config->vocab_size) return fields.WrongValue("eos_token_id", item, wanted);
    config->eos_ids.push_back(static_cast<int32_t>(*id));
  }
  return Status();
}

// The recipe's own object: `rope_parameters`, or `rope_scaling` in older files.
Result<std::string> FindRopeObject(const Fields& fields) {
  const Json* parameters = fields.Find("rope_parameters");
  const Json* scaling = fields.Find("rope_scaling");
  if (parameters != nullptr && scaling != nullptr) {
    return fields.Malformed("rope_scaling", "is there together with \"rope_parameters\"");
  }
  const std::string name = parameters != nullptr ? "rope_parameters" : "rope_scaling";
  const Json* object = parameters != nullptr ? parameters : scaling;
  if (object == nullptr) return std::string();
  if (object->object() == nullptr) return fields.WrongValue(name, *object, "an object");
  return name;
}

// A number that may stand at the top level, in the rope object, or alike in both.
Status ReadRopeNumber(const Fields& top, const Fields& rope, std::string_view name, double low,
                      double high, double* out) {
  LECTERN_RETURN_IF_ERROR(top.Real(name, low, high, out));
  const double at_top = *out;
  LECTERN_RETURN_IF_ERROR(rope.Real(name, low, high, out));
  if (top.Find(name) != nullptr && *out != at_top) {
    return rope.Malformed(name,
                          "is " + Shown(*out) + " but " + Shown(at_top) + " at the top level");
  }
  return Status();
}

Status ReadLlama3(const Fields& top, const Fields& rope, const ModelConfig& config,
                  RopeRecipe* recipe) {
  recipe->kind = RopeRecipe::Kind::kLlama3;
  for (const char* name : {"factor", "low_freq_factor", "high_freq_factor"}) {
    if (rope.Find(name) == nullptr) return rope.Malformed(name, "is missing");
  }
  LECTERN_RETURN_IF_ERROR(rope.Real("factor", 1, 1e6, &recipe->factor));
  LECTERN_RETURN_IF_ERROR(rope.Real("low_freq_factor", 1e-6, 1e6, &recipe->low_freq_factor));
  LECTERN_RETURN_IF_ERROR(rope.Real("high_freq_factor", 1e-6, 1e6, &recipe->high_freq_factor));
  if (recipe->high_freq_factor <= recipe->low_freq_factor) {
    return rope.Malformed("high_freq_factor", "must be above \"low_freq_factor\"");
  }
  recipe->original_max_positions = config.max_positions;
  return ReadRopeNumber(top, rope, "original_max_position_embeddings", 1,
                        static_cast<double>(kMaxPositions), &recipe->original_max_positions);
}

Status ReadRope(const Json& root, const Fields& top, const ConfigFile& file, ModelConfig* config) {
  RopeRecipe* recipe = &config->rope;
  LECTERN_ASSIGN(const std::string name, FindRopeObject(top));
  const Json no_fields{Json::Object{}};
  const Fields rope(name.empty() ? no_fields : *root.Find(name), file, name + ".");
  LECTERN_RETURN_IF_ERROR(ReadRopeNumber(top, rope, "rope_theta", 1, 1e12, &recipe->theta));
  if (const Json* part = rope.Find("partial_rotary_factor"); part != nullptr && !IsOne(*part)) {
    return rope.Unsupported("partial_rotary_factor", "is " + Shown(*part) + "; supported: 1");
  }
  const Json* type = rope.Find("rope_type");
  const Json* old_type = rope.Find("type");
  if (type != nullptr && old_type != nullptr && Shown(*type) != Shown(*old_type)) {
    return rope.Malformed("rope_type",
                          "is " + Shown(*type) + " but \"type\" is " + Shown(*old_type));
  }
  const std::string_view field = type != nullptr ? "rope_type" : "type";
  if (type == nullptr) type = old_type;
  if (type == nullptr) {
    // Without a type only rope_theta may be here: a factor would be a recipe of unknown kind.
    if (rope.Find("factor") == nullptr) return Status();
    return rope.Malformed("rope_type", "is missing");
  }
  if (type->string() == nullptr) return rope.WrongValue(field, *type, "a string");
  if (*type->string() == "default") return Status();
  if (*type->string() == "llama3") return ReadLlama3(top, rope, *config, recipe);
  return rope.Unsupported(field, "is " + Shown(*type) + "; supported: \"default\", \"llama3\"");
}

Status ReadEpsilon(const Fields& fields, ModelConfig* config) {
  double epsilon = 1e-6;
  LECTERN_RETURN_IF_ERROR(fields.Real("rms_norm_eps", 0, 1, &epsilon));
  config->rms_norm_epsilon = static_cast<float>(epsilon);
  if (config->rms_norm_epsilon > 0 && config->rms_norm_epsilon < 1) return Status();
  return fields.Malformed("rms_norm_eps",
                          "is " + Shown(epsilon) + "; it must be above 0 and below 1");
}

}  // namespace

Result<ModelConfig> ParseConfig(std::string_view json, const std::string& path) {
  if (json.size() > kMaxConfig) {
    return Status(Code::kLimitExceeded,
                  path + ": larger than " + std::to_string(kMaxConfig) + " bytes");
  }
  Result<Json> parsed = ParseJson(json, {.max_depth = 16});
  if (!parsed.ok()) {
    return Status(parsed.status().code(), path + ": " + parsed.status().message());
  }
  return ReadConfig(*parsed, {.path = path, .own_names = {}});
}

Result<ModelConfig> ReadConfig(const Json& root, const ConfigFile& file) {
  if (root.object() == nullptr) {
    return Status(Code::kMalformedModel, file.path + ": not a JSON object");
  }
  const Fields fields(root, file);
  ModelConfig config;
  LECTERN_RETURN_IF_ERROR(CheckArchitecture(fields));
  LECTERN_RETURN_IF_ERROR(CheckRestrictions(fields));
  LECTERN_RETURN_IF_ERROR(ReadSizes(fields, &config));
  LECTERN_RETURN_IF_ERROR(CheckAttentionKinds(fields, config.num_layers));
  LECTERN_RETURN_IF_ERROR(ReadEpsilon(fields, &config));
  LECTERN_RETURN_IF_ERROR(fields.Bool("tie_word_embeddings", &config.tie_word_embeddings));
  LECTERN_RETURN_IF_ERROR(ReadRope(root, fields, file, &config));
  LECTERN_RETURN_IF_ERROR(ReadEosIds(fields, &config));
  config.attention.assign(config.num_layers, AttentionKind::kFull);
  return config;
}

namespace {

// modeling_rope_utils._compute_llama3_parameters, in float32 as torch does it. torch computes
// `scalar / tensor` as reciprocal(tensor) * scalar, and so do we.
float ScaleLlama3(const RopeRecipe& recipe, float frequency) {
  const float factor = static_cast<float>(recipe.factor);
  const float low_wavelen =
      static_cast<float>(recipe.original_max_positions / recipe.low_freq_factor);
  const float high_wavelen =
      static_cast<float>(recipe.original_max_positions / recipe.high_freq_factor);
  const float wavelen = (1.0f / frequency) * static_cast<float>(2 * std::numbers::pi);
  if (wavelen > low_wavelen) return frequency / factor;
  if (wavelen < high_wavelen) return frequency;
  const float turns = (1.0f / wavelen) * static_cast<float>(recipe.original_max_positions);
  const float smooth = (turns - static_cast<float>(recipe.low_freq_factor)) /
                       static_cast<float>(recipe.high_freq_factor - recipe.low_freq_factor);
  return (1.0f - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace

std::vector<float> InverseFrequencies(const RopeRecipe& recipe, uint32_t head_dim) {
  std::vector<float> frequencies(head_dim / 2);
  const float theta = static_cast<float>(recipe.theta);
  for (uint32_t pair = 0; pair < frequencies.size(); ++pair) {
    const float exponent = static_cast<float>(2 * pair) / static_cast<float>(head_dim);
    // Through double, so that the float power is the nearest one on every machine.
    const float power =
        static_cast<float>(std::pow(static_cast<double>(theta), static_cast<double>(exponent)));
    const float frequency = 1.0f / power;
    const bool is_llama3 = recipe.kind == RopeRecipe::Kind::kLlama3;
    frequencies[pair] = is_llama3 ? ScaleLlama3(recipe, frequency) : frequency;
    if (!recipe.divisors.empty()) frequencies[pair] /= recipe.divisors[pair];
  }
  return frequencies;
}

}  // namespace lectern
