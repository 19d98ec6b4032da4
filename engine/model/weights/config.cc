// Reads config.json into ModelConfig. Absent fields have the defaults of transformers' classes. The
// rule for unknown fields: a field that cannot change the result is ignored, and a field that can
// is read or refused (kRestrictions), never ignored.
#include "engine/model/weights/config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include "engine/model/weights/architecture.h"
#include "engine/model/weights/config_experts.h"
#include "engine/model/weights/config_fields.h"
#include "engine/model/weights/config_rope.h"

namespace lectern {
namespace {

constexpr size_t kMaxConfig = size_t{1} << 20;  // bytes

std::string ToLowerCase(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// Whether a class of transformers is a language model, whatever its body is: its name has one of
// these endings.
bool IsLanguageModel(std::string_view class_name) {
  constexpr std::string_view kEndings[] = {"ForCausalLM", "Model", "ForConditionalGeneration"};
  return std::ranges::any_of(kEndings, [&](auto ending) { return class_name.ends_with(ending); });
}

// Checks `architectures`, which transformers does not look at where it knows model_type: another
// name than the architecture's is accepted with an assumption, a head that is no language model's
// is refused.
Status CheckClassNames(const ConfigFields& fields, const Architecture& architecture,
                       std::vector<std::string>* assumptions) {
  const Json* architectures = fields.Find("architectures");
  if (architectures == nullptr) return {};
  const Json::Array* list = architectures->array();
  if (list == nullptr) return fields.WrongValue("architectures", *architectures, "a list");
  const std::string own = ToLowerCase(std::string(architecture.class_name));
  const bool is_own = list->empty() || std::ranges::any_of(*list, [&](const Json& name) {
                        return name.string() != nullptr && ToLowerCase(*name.string()) == own;
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

// Finds the architecture's row by `model_type`.
Result<const Architecture*> ReadArchitecture(const ConfigFields& fields,
                                             std::vector<std::string>* assumptions) {
  const Json* type = fields.Find("model_type");
  if (type == nullptr) return fields.Malformed("model_type", "is missing");
  if (type->string() == nullptr) return fields.WrongValue("model_type", *type, "a string");
  const Architecture* const found = FindArchitecture(*type->string());
  if (found == nullptr) {
    const std::string_view why = WhyNotRun(*type->string());
    return fields.Unsupported("model_type", "is " + Shown(*type) +
                                                (why.empty() ? "" : ", which " + std::string(why)) +
                                                "; this build runs " + ArchitectureNames());
  }
  LECTERN_RETURN_IF_ERROR(CheckClassNames(fields, *found, assumptions));
  return found;
}

bool IsFalse(const Json& value) { return value.boolean() != nullptr && !*value.boolean(); }
bool IsAtMostOne(const Json& value) { return value.number() && *value.number() <= 1; }
bool IsNothing(const Json&) { return false; }  // every value is refused; null counts as absent

// A field that would change the result in a way that we do not compute; it is refused unless its
// value is one of those `allowed`.
struct Restriction {
  std::string_view field;
  bool (*allowed)(const Json&);
  std::string_view supported;
};
constexpr Restriction kRestrictions[] = {
    {"quantization_config", IsNothing, "F32, F16 and BF16 weights without it"},
    {"compression_config", IsNothing, "F32, F16 and BF16 weights without it"},
    {"num_experts", IsAtMostOne, "dense models"},
    {"num_local_experts", IsAtMostOne, "dense models"},
    {"n_routed_experts", IsAtMostOne, "dense models"},
    {"pretraining_tp", IsAtMostOne, "1"},
    {"use_bidirectional_attention", IsFalse, "false"},
    {"use_qk_norm", IsFalse, "false"},  // Command R+: a norm of its own for each head
    {"clip_qkv", IsNothing, "null"},    // OLMo and OLMoE: queries, keys and values are cut
};
// Restrictions that do not hold where the architecture has experts.
constexpr std::string_view kExpertCounts[] = {"num_experts", "num_local_experts"};

// kUnsupportedModel: a field asks for something that is not computed here.
Status CheckRestrictions(const ConfigFields& fields, const Architecture& architecture) {
  for (const Restriction& rule : kRestrictions) {
    const bool is_count = std::ranges::find(kExpertCounts, rule.field) != std::end(kExpertCounts);
    if (architecture.experts.count > 0 && is_count) continue;
    const Json* value = fields.Find(rule.field);
    // Such experts are read as they are (engine/model/weights/interleaved_experts.h).
    if (rule.field == "quantization_config" && architecture.experts.interleaved &&
        value != nullptr) {
      const Json* const method = value->Find("quant_method");
      if (method != nullptr && method->string() != nullptr && *method->string() == "mxfp4")
        continue;
    }
    if (value == nullptr || rule.allowed(*value)) continue;
    return fields.Unsupported(
        rule.field, "is " + Shown(*value) + "; supported: " + std::string(rule.supported));
  }
  return Status();
}

// Checks `hidden_activation`, or `hidden_act` where there is no other: it must be the
// architecture's.
Status CheckActivation(const ConfigFields& fields, const Architecture& architecture) {
  std::string_view name = "hidden_activation";
  const Json* value = fields.Find(name);
  if (value == nullptr) value = fields.Find(name = "hidden_act");
  if (value == nullptr) return {};
  const std::string* const text = value->string();
  const bool is_silu = architecture.activation != Activation::kGeluTanh;
  const std::vector<std::string_view> names =
      is_silu ? std::vector<std::string_view>{"silu", "swish"}
              : std::vector<std::string_view>{"gelu_pytorch_tanh", "gelu_new"};
  if (text != nullptr && std::ranges::find(names, *text) != names.end()) return {};
  return fields.Unsupported(
      name, "is " + Shown(*value) + "; supported: \"" + std::string(names[0]) + '"');
}

// Reads `layer_types` of transformers 5 into config->attention. False: there are none.
Result<bool> ReadLayerTypes(const ConfigFields& fields, ModelConfig* config) {
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
    // A state that is carried along has no keys in which a document could be looked up.
    const bool is_state = kind != nullptr &&
                          (*kind == "mamba" || *kind == "linear_attention" || *kind == "recurrent");
    if (is_state) {
      return fields.Unsupported("layer_types",
                                "has " + Shown((*list)[i]) +
                                    ": such layers keep a state in place of keys, and this build "
                                    "runs none; take a model whose layers are all attention");
    }
    const bool is_full = kind != nullptr && (*kind == "full_attention" || *kind == "attention");
    if (!is_full && !(kind != nullptr && *kind == "sliding_attention")) {
      return fields.Unsupported("layer_types", "has " + Shown((*list)[i]) +
                                                   "; supported: \"full_attention\" and "
                                                   "\"sliding_attention\"");
    }
    config->attention[i] = is_full ? AttentionKind::kFull : AttentionKind::kSlidingWindow;
  }
  return true;
}

// Sets which layers are windowed by the architecture's rule: all layers from `first` on, except
// every `period`-th one.
Status ApplyWindowRule(const ConfigFields& fields, const Architecture& architecture,
                       ModelConfig* config) {
  uint32_t first = 0, period = 0;
  switch (architecture.window) {
    case WindowRule::kNone:
    case WindowRule::kSwitchedOff:
      first = config->num_layers;
      break;
    case WindowRule::kAll:
      break;
    case WindowRule::kLastOnes:
      LECTERN_RETURN_IF_ERROR(fields.Whole("max_window_layers", 0, 1u << 20, &first, 28));
      break;
    case WindowRule::kAllButNth:
      // A letter for each layer, again and again: L has a window, G has none.
      if (const Json* const letters = fields.Find("sliding_window_pattern");
          letters != nullptr && letters->string() != nullptr && !letters->string()->empty()) {
        for (uint32_t layer = 0; layer < config->num_layers; ++layer) {
          const char letter = (*letters->string())[layer % letters->string()->size()];
          if (letter == 'L') config->attention[layer] = AttentionKind::kSlidingWindow;
          if (letter != 'L' && letter != 'G') {
            return fields.WrongValue("sliding_window_pattern", *letters, "letters L and G");
          }
        }
        return {};
      }
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

// Reads which layers have a sliding window, and how wide it is. A window that all positions fit
// into hides nothing and counts as none.
Status ReadWindows(const ConfigFields& fields, const Architecture& architecture,
                   ModelConfig* config) {
  config->attention.assign(config->num_layers, AttentionKind::kFull);
  const bool is_off = architecture.window == WindowRule::kSwitchedOff;
  bool is_used = architecture.window != WindowRule::kLastOnes && !is_off;
  LECTERN_RETURN_IF_ERROR(fields.Bool("use_sliding_window", &is_used));
  uint32_t window = 0;
  // Null means none; only a field that is not there has the default.
  const bool is_absent = !fields.Has("sliding_window");
  if (!is_off || is_used) {  // transformers writes 0 where it is switched off
    LECTERN_RETURN_IF_ERROR(fields.Whole("sliding_window", 2, uint64_t{1} << 31, &window,
                                         is_absent ? architecture.default_window : 0));
  }
  LECTERN_ASSIGN(const bool has_types, ReadLayerTypes(fields, config));
  if (!is_used) window = 0;
  if (is_off && is_used) {
    return fields.Unsupported("use_sliding_window",
                              "is true; supported for this model_type: false");
  }
  if (architecture.window == WindowRule::kNone || is_off) {
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
  const bool turns_windowed = architecture.rope == RopeRule::kWindowed ||
                              (architecture.rope == RopeRule::kWindowedIfAny && is_windowed);
  if (turns_windowed) {
    for (uint32_t layer = 0; layer < config->num_layers; ++layer) {
      config->unturned.push_back(!config->is_windowed(layer));
    }
  }
  config->window = is_windowed && window < config->max_positions ? window : 0;
  if (config->window > 0) return {};
  // Such a window hides nothing, but layers that have a RoPE of their own must still be told apart.
  const bool has_local_rope = architecture.local_theta > 0 || architecture.plain_local_rope;
  if (has_local_rope && is_windowed) config->window = window;
  if (config->window == 0) config->attention.assign(config->num_layers, AttentionKind::kFull);
  return {};
}

// Reads Granite's multipliers. The attention's one stands in the place of 1 / sqrt(head_dim).
Status ReadMultipliers(const ConfigFields& fields, ModelConfig* config) {
  double embedding = 1, attention = 1, residual = 1, logits = 1;
  for (const auto& [name, out] :
       {std::pair("embedding_multiplier", &embedding),
        std::pair("attention_multiplier", &attention), std::pair("residual_multiplier", &residual),
        std::pair("logits_scaling", &logits)}) {
    LECTERN_RETURN_IF_ERROR(fields.Real(name, 1e-6, 1e6, out));
  }
  config->embedding_scale = static_cast<float>(embedding);
  config->query_scale = static_cast<float>(attention * std::sqrt(config->head_dim));
  config->residual_scale = static_cast<float>(residual);
  config->logit_scale = static_cast<float>(1 / logits);
  return {};
}

// Reads which layers RoPE turns, where windows do not say it (ReadWindows).
Status ReadTurnedLayers(const ConfigFields& fields, const Architecture& architecture,
                        ModelConfig* config) {
  std::vector<bool> unturned(config->num_layers);
  const bool may_be_nope = architecture.rope == RopeRule::kUnlessNope;
  if (architecture.rope == RopeRule::kPositionType || may_be_nope) {
    const Json* const type = fields.Find("position_embedding_type");
    if (type != nullptr && type->string() == nullptr) {
      return fields.WrongValue("position_embedding_type", *type, "\"rope\" or \"nope\"");
    }
    const std::string name = type != nullptr ? *type->string() : may_be_nope ? "rope" : "nope";
    if (may_be_nope ? name == "nope" : name != "rope") unturned.flip();
  } else if (architecture.rope == RopeRule::kByLayer) {
    uint32_t interval = 0;
    LECTERN_RETURN_IF_ERROR(fields.Whole("no_rope_layer_interval", 1, 1024, &interval, 4));
    const Json* const list = fields.Find("no_rope_layers");
    const bool is_list = list != nullptr && list->array() != nullptr;
    if (list != nullptr && (!is_list || list->array()->size() != config->num_layers)) {
      return fields.WrongValue("no_rope_layers", *list, "a list with a number for each layer");
    }
    for (uint32_t layer = 0; layer < config->num_layers; ++layer) {
      // In spite of its name the list has 1 where RoPE is.
      unturned[layer] =
          is_list ? (*list->array())[layer].number() == 0.0 : (layer + 1) % interval == 0;
    }
  }
  if (std::ranges::count(unturned, true) > 0) config->unturned = std::move(unturned);
  return {};
}

// Reads the parts of a layer from the architecture's row, and from the fields that change it.
Status ReadParts(const ConfigFields& fields, const Architecture& architecture,
                 ModelConfig* config) {
  config->activation = architecture.activation;
  config->sinks = architecture.sinks;
  if (config->activation == Activation::kClampedSilu) {
    double limit = config->glu_limit, alpha = config->glu_alpha;
    LECTERN_RETURN_IF_ERROR(fields.Real("swiglu_limit", 1e-3, 1e6, &limit));
    LECTERN_RETURN_IF_ERROR(fields.Real("swiglu_alpha", 1e-3, 1e3, &alpha));
    config->glu_limit = static_cast<float>(limit);
    config->glu_alpha = static_cast<float>(alpha);
  }
  config->fused_qkv = architecture.fused_qkv;
  config->fused_gate_up = architecture.fused_gate_up;
  config->partial_rotary = architecture.partial_rotary;
  config->head_norms = architecture.head_norms;
  config->whole_norms = architecture.whole_norms;
  config->pre_norms = architecture.pre_norms;
  config->centred_norms = architecture.centred_norms;
  config->parallel = architecture.parallel;
  config->post_norms = architecture.post_norms;
  config->norms_from_one = architecture.norms_from_one;
  config->tie_word_embeddings = architecture.tied;
  LECTERN_RETURN_IF_ERROR(fields.Bool("tie_word_embeddings", &config->tie_word_embeddings));
  LECTERN_RETURN_IF_ERROR(CheckActivation(fields, architecture));
  bool attention_bias = architecture.attention_bias;
  LECTERN_RETURN_IF_ERROR(fields.Bool("attention_bias", &attention_bias));
  if (attention_bias && !architecture.may_have_attention_bias) {
    return fields.Unsupported("attention_bias", "is true; supported for this model_type: false");
  }
  config->qkv_bias = architecture.qkv_bias || attention_bias;
  config->output_bias = attention_bias && architecture.attention_bias_is_of_o;
  LECTERN_RETURN_IF_ERROR(fields.Bool("mlp_bias", &config->mlp_bias));
  if (config->mlp_bias && !architecture.may_have_mlp_bias) {
    return fields.Unsupported("mlp_bias", "is true; supported for this model_type: false");
  }
  if (architecture.scales_embedding) {
    config->embedding_scale = std::sqrt(static_cast<float>(config->hidden_size));
  }
  if (architecture.query_scalar) {
    // The default of Gemma's classes. Kernels divide logits by sqrt(head_dim), so queries are
    // scaled by the quotient.
    double scalar = 256;
    LECTERN_RETURN_IF_ERROR(fields.Real("query_pre_attn_scalar", 1e-3, 1e6, &scalar));
    config->query_scale = static_cast<float>(std::sqrt(config->head_dim / scalar));
  }
  if (architecture.logit_scale > 0) {
    double scale = architecture.logit_scale;
    LECTERN_RETURN_IF_ERROR(fields.Real("logit_scale", 1e-6, 1e6, &scale));
    config->logit_scale = static_cast<float>(scale);
  }
  if (architecture.has_multipliers) LECTERN_RETURN_IF_ERROR(ReadMultipliers(fields, config));
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

// Reads the sizes, and checks that they fit together. `sizes`: defaults of fields that are not
// there; nullptr: most must be there. The upper bounds are several times those of published models,
// and small enough that products of sizes stay within 64 bits.
Status ReadSizes(const ConfigFields& fields, const Architecture& architecture,
                 const DefaultSizes* sizes, ModelConfig* config) {
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

// Adds the ids that are not known yet. An id of no token, as in a vocabulary that was cut, ends
// nothing: it is left out, and an assumption says so.
Status ReadEosIds(const ConfigFields& fields, ModelConfig* config) {
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

// Returns the fields under the names that the other classes have for them, and notes in `file` by
// which names messages shall call them.
Json WithUsualNames(const Json& given, const Architecture& architecture, const std::string& prefix,
                    ConfigFile* file) {
  Json::Object fields = *given.object();
  const auto rename = [&](std::string_view theirs, std::string_view ours) {
    const auto at = fields.find(theirs);
    if (at == fields.end()) return;
    fields[std::string(ours)] = at->second;
    file->own_names[prefix + std::string(ours)] = prefix + std::string(theirs);
  };
  for (const auto& [theirs, ours] : architecture.fields) rename(theirs, ours);
  // Versions of transformers write the one or the other, whatever the class reads.
  if (!fields.contains("num_experts")) rename("num_local_experts", "num_experts");
  return Json(std::move(fields));
}

// Returns the field that holds the configuration of the language model, in a model that also sees
// or hears; "": `root` is that configuration itself.
std::string FindWrapped(const Json& root) {
  const Json* const type = root.Find("model_type");
  if (type != nullptr && type->string() != nullptr && FindArchitecture(*type->string())) return "";
  for (const char* name : {"text_config", "llm_config", "language_config"}) {
    const Json* const body = root.Find(name);
    if (body != nullptr && body->object() != nullptr) return name;
  }
  return "";
}

// Reads the epsilon of RMSNorm. It must be above 0 also as a float: a row of zeros is divided by
// its root.
Status ReadEpsilon(const ConfigFields& fields, const Architecture& architecture,
                   ModelConfig* config) {
  double epsilon = architecture.epsilon;
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
  LECTERN_RETURN_IF_ERROR(ReadEosIds(ConfigFields(root, file), &config));
  return std::move(config.eos_ids);
}

// Reads all fields. The order matters: windows need the number of layers, RoPE needs head_dim and
// partial_rotary, and ends need the vocabulary's size. In a model that wraps a language model,
// `fields` are that one's and `all` the outer object's: both may hold restrictions and ends of
// text.
Result<ModelConfig> ReadConfig(const Json& root, const ConfigFile& file) {
  if (root.object() == nullptr) {
    return Status(Code::kMalformedModel, file.path + ": not a JSON object");
  }
  const std::string wrapped = FindWrapped(root);
  const Json& given = wrapped.empty() ? root : *root.Find(wrapped);
  const std::string prefix = wrapped.empty() ? "" : wrapped + ".";
  ModelConfig config;
  LECTERN_ASSIGN(const Architecture* const architecture,
                 ReadArchitecture(ConfigFields(given, file, prefix), &config.assumptions));
  ConfigFile named = file;
  const Json body = WithUsualNames(given, *architecture, prefix, &named);
  const ConfigFields all(root, file), fields(body, named, prefix);
  config.architecture = architecture->model_type;
  LECTERN_RETURN_IF_ERROR(CheckRestrictions(all, *architecture));
  LECTERN_RETURN_IF_ERROR(CheckRestrictions(fields, *architecture));
  LECTERN_RETURN_IF_ERROR(
      ReadSizes(fields, *architecture, wrapped.empty() ? nullptr : &architecture->sizes, &config));
  LECTERN_RETURN_IF_ERROR(
      fields.Whole("num_nextn_predict_layers", 0, 1024, &config.num_extra_layers, 0));
  LECTERN_RETURN_IF_ERROR(ReadWindows(fields, *architecture, &config));
  LECTERN_RETURN_IF_ERROR(ReadTurnedLayers(fields, *architecture, &config));
  LECTERN_RETURN_IF_ERROR(ReadEpsilon(fields, *architecture, &config));
  LECTERN_RETURN_IF_ERROR(ReadParts(fields, *architecture, &config));
  LECTERN_RETURN_IF_ERROR(ReadExperts(fields, *architecture, !wrapped.empty(), &config));
  LECTERN_RETURN_IF_ERROR(ReadRope(body, fields, named, *architecture, &config));
  config.rope.has_neighbours = config.local_rope.has_neighbours = architecture->has_neighbours;
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
