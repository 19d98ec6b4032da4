// config.json to ModelConfig: one line a field, absent fields as transformers' LlamaConfig has
// them.
#include "engine/config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include "engine/architecture.h"
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
  // Also as null.
  bool Has(std::string_view name) const { return object_.Find(name) != nullptr; }

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

std::string LowerCase(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// Whether a class of transformers is a language model, whatever its body is.
bool IsLanguageModel(std::string_view class_name) {
  constexpr std::string_view kEndings[] = {"ForCausalLM", "Model", "ForConditionalGeneration"};
  return std::ranges::any_of(kEndings, [&](auto ending) { return class_name.ends_with(ending); });
}

// `architectures`, which transformers does not look at where it knows model_type: another name is
// taken and said. Other heads than a language model's are refused.
Status CheckClassNames(const Fields& fields, const Architecture& architecture,
                       std::vector<std::string>* assumptions) {
  const Json* architectures = fields.Find("architectures");
  if (architectures == nullptr) return {};
  const Json::Array* list = architectures->array();
  if (list == nullptr) return fields.WrongValue("architectures", *architectures, "a list");
  const std::string own = LowerCase(std::string(architecture.class_name));
  const bool is_own = list->empty() || std::ranges::any_of(*list, [&](const Json& name) {
    return name.string() != nullptr && LowerCase(*name.string()) == own;
  });
  if (is_own) return {};
  const bool is_language_model = std::ranges::all_of(*list, [](const Json& name) {
    return name.string() != nullptr && IsLanguageModel(*name.string());
  });
  if (!is_language_model) {
    return fields.Unsupported("architectures", "is " + Shown(*architectures) +
                                                   "; of this model_type this build runs [\"" +
                                                   std::string(architecture.class_name) + "\"]");
  }
  assumptions->push_back("\"architectures\" is " + Shown(*architectures) + "; run as " +
                         std::string(architecture.class_name) +
                         ", which \"model_type\" stands for");
  return {};
}

Result<const Architecture*> ReadArchitecture(const Fields& fields,
                                             std::vector<std::string>* assumptions) {
  const Json* type = fields.Find("model_type");
  if (type == nullptr) return fields.Malformed("model_type", "is missing");
  if (type->string() == nullptr) return fields.WrongValue("model_type", *type, "a string");
  const Architecture* const found = FindArchitecture(*type->string());
  if (found == nullptr) {
    return fields.Unsupported("model_type",
                              "is " + Shown(*type) + "; this build runs " + ArchitectureNames());
  }
  LECTERN_RETURN_IF_ERROR(CheckClassNames(fields, *found, assumptions));
  return found;
}

bool IsFalse(const Json& value) { return value.boolean() != nullptr && !*value.boolean(); }
bool IsAtMostOne(const Json& value) { return value.number() && *value.number() <= 1; }
bool IsNothing(const Json&) { return false; }  // any value but null or absent is refused

// Fields that would change the result in a way that we do not compute.
struct Restriction {
  std::string_view field;
  bool (*allowed)(const Json&);
  std::string_view supported;
};
constexpr Restriction kRestrictions[] = {
    {"mlp_bias", IsFalse, "false"},
    {"quantization_config", IsNothing, "F32, F16 and BF16 weights without it"},
    {"compression_config", IsNothing, "F32, F16 and BF16 weights without it"},
    {"num_experts", IsAtMostOne, "dense models"},
    {"num_local_experts", IsAtMostOne, "dense models"},
    {"n_routed_experts", IsAtMostOne, "dense models"},
    {"pretraining_tp", IsAtMostOne, "1"},
    {"use_bidirectional_attention", IsFalse, "false"},
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

// `hidden_activation`, or `hidden_act` where there is no other: what the architecture has.
Status CheckActivation(const Fields& fields, const Architecture& architecture) {
  std::string_view name = "hidden_activation";
  const Json* value = fields.Find(name);
  if (value == nullptr) value = fields.Find(name = "hidden_act");
  if (value == nullptr) return {};
  const std::string* const text = value->string();
  const bool is_silu = architecture.activation == Activation::kSilu;
  const std::vector<std::string_view> names =
      is_silu ? std::vector<std::string_view>{"silu", "swish"}
              : std::vector<std::string_view>{"gelu_pytorch_tanh", "gelu_new"};
  if (text != nullptr && std::ranges::find(names, *text) != names.end()) return {};
  return fields.Unsupported(
      name, "is " + Shown(*value) + "; supported: \"" + std::string(names[0]) + '"');
}

// `layer_types` of transformers 5 into config->attention. False: there are none.
Result<bool> ReadLayerTypes(const Fields& fields, ModelConfig* config) {
  const Json* layer_types = fields.Find("layer_types");
  if (layer_types == nullptr) return false;
  const Json::Array* list = layer_types->array();
  if (list == nullptr) return fields.WrongValue("layer_types", *layer_types, "a list");
  if (list->size() != config->num_layers) {
    return fields.Malformed("layer_types", "has " + std::to_string(list->size()) + " items for " +
                                               std::to_string(config->num_layers) + " layers");
  }
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string* const kind = (*list)[i].string();
    const bool is_full = kind != nullptr && *kind == "full_attention";
    if (!is_full && !(kind != nullptr && *kind == "sliding_attention")) {
      return fields.Unsupported("layer_types", "has " + Shown((*list)[i]) +
                                                   "; supported: \"full_attention\" and "
                                                   "\"sliding_attention\"");
    }
    config->attention[i] = is_full ? AttentionKind::kFull : AttentionKind::kSlidingWindow;
  }
  return true;
}

// Which layers are windowed by the architecture's rule.
Status ApplyWindowRule(const Fields& fields, const Architecture& architecture,
                       ModelConfig* config) {
  uint32_t first = 0, period = 0;
  switch (architecture.window) {
    case WindowRule::kNone:
      first = config->num_layers;
      break;
    case WindowRule::kAll:
      break;
    case WindowRule::kLastOnes:
      LECTERN_RETURN_IF_ERROR(fields.Whole("max_window_layers", 0, 1u << 20, &first, 28));
      break;
    case WindowRule::kAllButNth:
      LECTERN_RETURN_IF_ERROR(
          fields.Whole("sliding_window_pattern", 1, 1024, &period, architecture.period));
      break;
  }
  for (uint32_t layer = first; layer < config->num_layers; ++layer) {
    if (period > 0 && (layer + 1) % period == 0) continue;
    config->attention[layer] = AttentionKind::kSlidingWindow;
  }
  return {};
}

// Which layers see a window only, and how wide it is. A window that all positions fit into is none.
Status ReadWindows(const Fields& fields, const Architecture& architecture, ModelConfig* config) {
  config->attention.assign(config->num_layers, AttentionKind::kFull);
  bool is_used = architecture.window != WindowRule::kLastOnes;
  LECTERN_RETURN_IF_ERROR(fields.Bool("use_sliding_window", &is_used));
  uint32_t window = 0;
  // Null means none; only a field that is not there has the default.
  const bool is_absent = !fields.Has("sliding_window");
  LECTERN_RETURN_IF_ERROR(fields.Whole("sliding_window", 2, uint64_t{1} << 31, &window,
                                       is_absent ? architecture.default_window : 0));
  LECTERN_ASSIGN(const bool has_types, ReadLayerTypes(fields, config));
  if (!is_used) window = 0;
  if (architecture.window == WindowRule::kNone) {
    if (window > 0) {
      return fields.Unsupported("sliding_window", "is " + std::to_string(window) +
                                                      "; supported for this model_type: none");
    }
    if (config->num_full_layers() == config->num_layers) return {};
    return fields.Unsupported("layer_types",
                              "has \"sliding_attention\"; supported for this "
                              "model_type: \"full_attention\"");
  }
  if (!has_types && window > 0) {
    LECTERN_RETURN_IF_ERROR(ApplyWindowRule(fields, architecture, config));
  }
  const bool is_windowed = config->num_full_layers() < config->num_layers;
  if (is_windowed && window == 0) {
    return fields.Malformed("layer_types",
                            "has \"sliding_attention\", but there is no "
                            "\"sliding_window\"");
  }
  config->window = is_windowed && window < config->max_positions ? window : 0;
  if (config->window > 0) return {};
  // Their own RoPE they would keep.
  if (architecture.local_theta > 0 && is_windowed) config->window = window;
  if (config->window == 0) config->attention.assign(config->num_layers, AttentionKind::kFull);
  return {};
}

// What the table says of this architecture, and the fields that change it.
Status ReadParts(const Fields& fields, const Architecture& architecture, ModelConfig* config) {
  config->activation = architecture.activation;
  config->fused_qkv = config->fused_gate_up = architecture.fused;
  config->partial_rotary = architecture.partial_rotary;
  config->head_norms = architecture.head_norms;
  config->post_norms = architecture.post_norms;
  config->norms_from_one = architecture.norms_from_one;
  config->tie_word_embeddings = architecture.tied;
  LECTERN_RETURN_IF_ERROR(fields.Bool("tie_word_embeddings", &config->tie_word_embeddings));
  LECTERN_RETURN_IF_ERROR(CheckActivation(fields, architecture));
  bool attention_bias = false;
  LECTERN_RETURN_IF_ERROR(fields.Bool("attention_bias", &attention_bias));
  if (attention_bias && !architecture.may_have_attention_bias) {
    return fields.Unsupported("attention_bias", "is true; supported for this model_type: false");
  }
  config->qkv_bias = architecture.qkv_bias || attention_bias;
  config->output_bias = attention_bias;
  if (architecture.scales_embedding) {
    config->embedding_scale = std::sqrt(static_cast<float>(config->hidden_size));
  }
  if (architecture.query_scalar) {
    double scalar = 256;
    LECTERN_RETURN_IF_ERROR(fields.Real("query_pre_attn_scalar", 1e-3, 1e6, &scalar));
    config->query_scale = static_cast<float>(std::sqrt(config->head_dim / scalar));
  }
  for (const auto& [name, otherwise, softcap] :
       {std::tuple("attn_logit_softcapping", architecture.attention_softcap,
                   &config->attention_softcap),
        std::tuple("final_logit_softcapping", architecture.logit_softcap,
                   &config->logit_softcap)}) {
    double cap = fields.Has(name) ? 0 : double{otherwise};
    LECTERN_RETURN_IF_ERROR(fields.Real(name, 1e-3, 1e6, &cap));
    *softcap = static_cast<float>(cap);
  }
  return {};
}

// `sizes`: of fields that are not there; nullptr: most must be.
Status ReadSizes(const Fields& fields, const Architecture& architecture, const DefaultSizes* sizes,
                 ModelConfig* config) {
  const auto whole = [&](std::string_view name, uint64_t most, uint32_t* out,
                         std::optional<uint32_t> otherwise) {
    return fields.Whole(name, 1, most, out, otherwise);
  };
  const auto usual = [&](uint32_t DefaultSizes::* size) {
    return sizes != nullptr ? std::optional(sizes->*size) : std::nullopt;
  };
  LECTERN_RETURN_IF_ERROR(
      whole("vocab_size", 1u << 22, &config->vocab_size, usual(&DefaultSizes::vocab)));
  LECTERN_RETURN_IF_ERROR(
      whole("hidden_size", 1u << 17, &config->hidden_size, usual(&DefaultSizes::hidden)));
  LECTERN_RETURN_IF_ERROR(whole("intermediate_size", 1u << 20, &config->intermediate_size,
                                usual(&DefaultSizes::intermediate)));
  LECTERN_RETURN_IF_ERROR(
      whole("num_hidden_layers", 1024, &config->num_layers, usual(&DefaultSizes::layers)));
  LECTERN_RETURN_IF_ERROR(
      whole("num_attention_heads", 1024, &config->num_heads, usual(&DefaultSizes::heads)));
  LECTERN_RETURN_IF_ERROR(
      whole("num_key_value_heads", 1024, &config->num_kv_heads,
            usual(&DefaultSizes::kv_heads).value_or(config->num_heads)));
  LECTERN_RETURN_IF_ERROR(whole("max_position_embeddings", kMaxPositions, &config->max_positions,
                                usual(&DefaultSizes::positions).value_or(2048)));
  const bool has_head_dim = fields.Find("head_dim") != nullptr || architecture.head_dim > 0;
  const uint32_t head_dim =
      architecture.head_dim > 0 ? architecture.head_dim : config->hidden_size / config->num_heads;
  LECTERN_RETURN_IF_ERROR(fields.Whole("head_dim", 2, kWidestHead, &config->head_dim, head_dim));

  const std::string heads = std::to_string(config->num_heads);
  if (!has_head_dim && config->hidden_size % config->num_heads != 0) {
    return fields.Malformed("hidden_size", "is " + std::to_string(config->hidden_size) +
                                               ", not a multiple of the " + heads + " heads");
  }
  if (config->head_dim < 2 || config->head_dim > kWidestHead || config->head_dim % 2 != 0) {
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

// Adds what is not there yet. An id of no token, as of a vocabulary that was cut, ends nothing: it
// is left out and said.
Status ReadEosIds(const Fields& fields, ModelConfig* config) {
  const Json* eos = fields.Find("eos_token_id");
  if (eos == nullptr) return Status();
  const Json::Array one = {*eos};
  std::set<int32_t> known(config->eos_ids.begin(), config->eos_ids.end());
  const Json* left_out = nullptr;
  for (const Json& item : eos->array() != nullptr ? *eos->array() : one) {
    if (!item.integer()) return fields.WrongValue("eos_token_id", item, "a token id, or a list");
    const std::optional<uint64_t> id = item.unsigned_integer();
    if (!id || *id >= config->vocab_size) {
      left_out = &item;
      continue;
    }
    const auto end = static_cast<int32_t>(*id);
    if (known.insert(end).second) config->eos_ids.push_back(end);
  }
  if (left_out == nullptr) return Status();
  config->assumptions.push_back("the end of text " + Shown(*left_out) +
                                " is left out: the model has " +
                                std::to_string(config->vocab_size) + " tokens");
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

Status ReadRequired(const Fields& rope, std::string_view name, double low, double high,
                    double* out) {
  if (rope.Find(name) == nullptr) return rope.Malformed(name, "is missing");
  return rope.Real(name, low, high, out);
}

// The reader of one kind of recipe: fields of the object, some of which may stand at the top.
class RopeReader {
 public:
  RopeReader(const Fields& top, const Fields& rope, const ModelConfig& config, RopeRecipe* recipe)
      : top_(top), rope_(rope), config_(config), recipe_(recipe) {}

  Status Llama3() {
    recipe_->kind = RopeRecipe::Kind::kLlama3;
    LECTERN_RETURN_IF_ERROR(ReadRequired(rope_, "factor", 1, 1e6, &recipe_->factor));
    LECTERN_RETURN_IF_ERROR(
        ReadRequired(rope_, "low_freq_factor", 1e-6, 1e6, &recipe_->low_freq_factor));
    LECTERN_RETURN_IF_ERROR(
        ReadRequired(rope_, "high_freq_factor", 1e-6, 1e6, &recipe_->high_freq_factor));
    if (recipe_->high_freq_factor <= recipe_->low_freq_factor) {
      return rope_.Malformed("high_freq_factor", "must be above \"low_freq_factor\"");
    }
    return OriginalPositions();
  }

  Status Linear() {
    recipe_->kind = RopeRecipe::Kind::kLinear;
    return ReadRequired(rope_, "factor", 1, 1e6, &recipe_->factor);
  }

  Status Dynamic() {
    recipe_->kind = RopeRecipe::Kind::kDynamic;
    recipe_->original_max_positions = config_.max_positions;
    if (recipe_->dims <= 2) return rope_.Malformed("rope_type", "\"dynamic\" needs larger heads");
    return ReadRequired(rope_, "factor", 1, 1e6, &recipe_->factor);
  }

  Status Yarn() {
    recipe_->kind = RopeRecipe::Kind::kYarn;
    LECTERN_RETURN_IF_ERROR(OriginalPositions());
    LECTERN_RETURN_IF_ERROR(Factor());
    double scale = 0, scale_of_all = 0;
    LECTERN_RETURN_IF_ERROR(rope_.Real("mscale", 0, 1e3, &scale));
    LECTERN_RETURN_IF_ERROR(rope_.Real("mscale_all_dim", 0, 1e3, &scale_of_all));
    const auto attention = [&](double by) {
      return recipe_->factor <= 1 ? 1 : 0.1 * by * std::log(recipe_->factor) + 1;
    };
    recipe_->attention_factor =
        scale > 0 && scale_of_all > 0 ? attention(scale) / attention(scale_of_all) : attention(1);
    LECTERN_RETURN_IF_ERROR(rope_.Real("attention_factor", 1e-3, 1e3, &recipe_->attention_factor));
    LECTERN_RETURN_IF_ERROR(rope_.Real("beta_fast", 1e-3, 1e6, &recipe_->beta_fast));
    LECTERN_RETURN_IF_ERROR(rope_.Real("beta_slow", 1e-3, 1e6, &recipe_->beta_slow));
    if (recipe_->theta <= 1) return top_.Malformed("rope_theta", "must be above 1 for \"yarn\"");
    return rope_.Bool("truncate", &recipe_->truncate);
  }

  Status LongRope() {
    recipe_->kind = RopeRecipe::Kind::kLongRope;
    LECTERN_RETURN_IF_ERROR(OriginalPositions());
    LECTERN_RETURN_IF_ERROR(Factor());
    LECTERN_RETURN_IF_ERROR(Factors("short_factor", &recipe_->short_factors));
    LECTERN_RETURN_IF_ERROR(Factors("long_factor", &recipe_->long_factors));
    const double original = recipe_->original_max_positions;
    if (recipe_->factor > 1 && original > 1) {
      recipe_->attention_factor = std::sqrt(1 + std::log(recipe_->factor) / std::log(original));
    }
    recipe_->factor = 1;  // it has done its work
    return rope_.Real("attention_factor", 1e-3, 1e3, &recipe_->attention_factor);
  }

 private:
  Status OriginalPositions() {
    recipe_->original_max_positions = config_.max_positions;
    return ReadRopeNumber(top_, rope_, "original_max_position_embeddings", 1,
                          static_cast<double>(kMaxPositions), &recipe_->original_max_positions);
  }

  // Where it is absent, how many times the positions have grown.
  Status Factor() {
    recipe_->factor = std::max(1.0, config_.max_positions / recipe_->original_max_positions);
    return rope_.Real("factor", 1, 1e6, &recipe_->factor);
  }

  Status Factors(std::string_view name, std::vector<double>* out) {
    const Json* const value = rope_.Find(name);
    if (value == nullptr) return rope_.Malformed(name, "is missing");
    const size_t count = recipe_->dims / 2;
    const std::string wanted = "a list of " + std::to_string(count) + " numbers above 0";
    if (value->array() == nullptr || value->array()->size() != count) {
      return rope_.WrongValue(name, *value, wanted);
    }
    for (const Json& item : *value->array()) {
      const double factor = item.number().value_or(0);
      if (!(factor >= 1e-6 && factor <= 1e6)) return rope_.WrongValue(name, item, wanted);
      out->push_back(factor);
    }
    return {};
  }

  const Fields& top_;
  const Fields& rope_;
  const ModelConfig& config_;
  RopeRecipe* const recipe_;
};

// `type` or `rope_type` of the object.
Result<std::optional<std::string>> ReadRopeType(const Fields& rope) {
  const Json* type = rope.Find("rope_type");
  const Json* old_type = rope.Find("type");
  if (type != nullptr && old_type != nullptr && Shown(*type) != Shown(*old_type)) {
    return rope.Malformed("rope_type",
                          "is " + Shown(*type) + " but \"type\" is " + Shown(*old_type));
  }
  const std::string_view field = type != nullptr ? "rope_type" : "type";
  if (type == nullptr) type = old_type;
  if (type == nullptr) return std::optional<std::string>();
  if (type->string() == nullptr) return rope.WrongValue(field, *type, "a string");
  return std::optional(*type->string());
}

// The recipe that `rope` describes, of which some fields may stand at the top.
Status ReadRecipe(const Fields& top, const Fields& rope, const ModelConfig& config,
                  RopeRecipe* recipe) {
  LECTERN_RETURN_IF_ERROR(ReadRopeNumber(top, rope, "rope_theta", 1, 1e12, &recipe->theta));
  double part = 1;
  LECTERN_RETURN_IF_ERROR(ReadRopeNumber(top, rope, "partial_rotary_factor", 0, 1, &part));
  if (part != 1 && !config.partial_rotary) {
    const bool is_at_top = top.Find("partial_rotary_factor") != nullptr;
    return (is_at_top ? top : rope)
        .Unsupported("partial_rotary_factor",
                     "is " + Shown(part) + "; supported for this model_type: 1");
  }
  recipe->dims = static_cast<uint32_t>(config.head_dim * part);
  if (recipe->dims < 2 || recipe->dims % 2 != 0) {
    return rope.Malformed("partial_rotary_factor",
                          "is " + Shown(part) + ", which turns " + std::to_string(recipe->dims) +
                              " dimensions of a head; their number must be even and not 0");
  }
  LECTERN_ASSIGN(const auto found, ReadRopeType(rope));
  if (!found) {
    // Without a type only rope_theta may be here: a factor would be a recipe of unknown kind.
    if (rope.Find("factor") == nullptr) return Status();
    return rope.Malformed("rope_type", "is missing");
  }
  const std::string& type = *found;
  RopeReader reader(top, rope, config, recipe);
  if (type == "default") return Status();
  if (type == "llama3") return reader.Llama3();
  if (type == "linear") return reader.Linear();
  if (type == "dynamic") return reader.Dynamic();
  // The first Phi-3 files call theirs "su" and "yarn".
  const bool has_factors = rope.Find("short_factor") != nullptr;
  if (type == "longrope" || type == "su" || (type == "yarn" && has_factors)) {
    return reader.LongRope();
  }
  if (type == "yarn") return reader.Yarn();
  return rope.Unsupported("rope_type", "is " + Shown(Json(type)) +
                                           "; supported: \"default\", \"llama3\", \"linear\", "
                                           "\"dynamic\", \"yarn\", \"longrope\"");
}

// Recipes that reach further than config.json's positions: that is what they are for.
void StretchPositions(ModelConfig* config) {
  const RopeRecipe& rope = config->rope;
  const bool stretches =
      rope.kind == RopeRecipe::Kind::kDynamic || rope.kind == RopeRecipe::Kind::kYarn;
  if (!stretches) return;
  const double reach =
      std::min(rope.factor * rope.original_max_positions, static_cast<double>(kMaxPositions));
  config->max_positions = std::max(config->max_positions, static_cast<uint32_t>(reach));
}

Status ReadRope(const Json& root, const Fields& top, const ConfigFile& file,
                const Architecture& architecture, ModelConfig* config) {
  LECTERN_ASSIGN(const std::string name, FindRopeObject(top));
  const Json no_fields{Json::Object{}};
  const Json& object = name.empty() ? no_fields : *root.Find(name);
  config->rope.theta = architecture.theta;
  const bool is_nested = object.Find("full_attention") != nullptr;
  const Fields whole(object, file, name.empty() ? "" : name + ".");
  if (!is_nested) {
    LECTERN_RETURN_IF_ERROR(ReadRecipe(top, whole, *config, &config->rope));
  } else if (whole.Find("full_attention")->object() == nullptr) {
    return whole.WrongValue("full_attention", *whole.Find("full_attention"), "an object");
  } else {
    const Fields full(*whole.Find("full_attention"), file, name + ".full_attention.");
    LECTERN_RETURN_IF_ERROR(ReadRecipe(top, full, *config, &config->rope));
  }
  config->local_rope = config->rope;
  if (architecture.local_theta == 0) return {};
  // Windowed layers have a plain recipe with their own base.
  config->local_rope = {.theta = architecture.local_theta, .dims = config->head_dim};
  if (!is_nested) {
    return top.Real("rope_local_base_freq", 1, 1e12, &config->local_rope.theta);
  }
  const Json* const local = whole.Find("sliding_attention");
  if (local == nullptr) return {};
  if (local->object() == nullptr) return whole.WrongValue("sliding_attention", *local, "an object");
  const Fields fields(*local, file, name + ".sliding_attention.");
  return ReadRecipe(Fields(no_fields, file), fields, *config, &config->local_rope);
}

// The field that holds the configuration of a language model, of a model that also sees or hears;
// "": `root` is one itself.
std::string FindWrapped(const Json& root) {
  const Json* const type = root.Find("model_type");
  if (type != nullptr && type->string() != nullptr && FindArchitecture(*type->string())) return "";
  for (const char* name : {"text_config", "llm_config", "language_config"}) {
    const Json* const body = root.Find(name);
    if (body != nullptr && body->object() != nullptr) return name;
  }
  return "";
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

Result<std::vector<int32_t>> ParseGenerationEnds(std::string_view json, uint32_t vocab_size) {
  LECTERN_ASSIGN(const Json root, ParseJson(json, {.max_depth = 16}));
  if (root.object() == nullptr) return Status(Code::kMalformedModel, "not a JSON object");
  const ConfigFile file;
  ModelConfig config;
  config.vocab_size = vocab_size;
  LECTERN_RETURN_IF_ERROR(ReadEosIds(Fields(root, file), &config));
  return std::move(config.eos_ids);
}

Result<ModelConfig> ReadConfig(const Json& root, const ConfigFile& file) {
  if (root.object() == nullptr) {
    return Status(Code::kMalformedModel, file.path + ": not a JSON object");
  }
  const std::string wrapped = FindWrapped(root);
  const Json& body = wrapped.empty() ? root : *root.Find(wrapped);
  const Fields all(root, file), fields(body, file, wrapped.empty() ? "" : wrapped + ".");
  ModelConfig config;
  LECTERN_ASSIGN(const Architecture* const architecture,
                 ReadArchitecture(fields, &config.assumptions));
  config.architecture = architecture->model_type;
  LECTERN_RETURN_IF_ERROR(CheckRestrictions(all));
  LECTERN_RETURN_IF_ERROR(CheckRestrictions(fields));
  LECTERN_RETURN_IF_ERROR(
      ReadSizes(fields, *architecture, wrapped.empty() ? nullptr : &architecture->sizes, &config));
  LECTERN_RETURN_IF_ERROR(
      fields.Whole("num_nextn_predict_layers", 0, 1024, &config.num_extra_layers, 0));
  LECTERN_RETURN_IF_ERROR(ReadWindows(fields, *architecture, &config));
  LECTERN_RETURN_IF_ERROR(ReadEpsilon(fields, &config));
  LECTERN_RETURN_IF_ERROR(ReadParts(fields, *architecture, &config));
  LECTERN_RETURN_IF_ERROR(ReadRope(body, fields, file, *architecture, &config));
  StretchPositions(&config);
  LECTERN_RETURN_IF_ERROR(ReadEosIds(fields, &config));
  if (wrapped.empty()) return config;
  LECTERN_RETURN_IF_ERROR(ReadEosIds(all, &config));
  const Json* const type = root.Find("model_type");
  config.assumptions.push_back("of this " + (type != nullptr ? Shown(*type) + " " : "") +
                               "model the language model is run, which reads text alone");
  return config;
}

}  // namespace lectern
