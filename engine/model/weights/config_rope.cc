#include "engine/model/weights/config_rope.h"

#include <algorithm>
#include <cmath>

namespace lectern {
namespace {

// Returns the name of the field that holds the recipe: `rope_parameters` (transformers 5), or
// `rope_scaling` in older files; "" where there is none.
Result<std::string> FindRopeObject(const ConfigFields& fields) {
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

// Reads a number that may stand at the top level, in the rope object, or alike in both.
Status ReadRopeNumber(const ConfigFields& top, const ConfigFields& rope, std::string_view name,
                      double low, double high, double* out) {
  LECTERN_RETURN_IF_ERROR(top.Real(name, low, high, out));
  const double at_top = *out;
  LECTERN_RETURN_IF_ERROR(rope.Real(name, low, high, out));
  if (top.Find(name) != nullptr && *out != at_top) {
    return rope.Malformed(name,
                          "is " + Shown(*out) + " but " + Shown(at_top) + " at the top level");
  }
  return Status();
}

// Reads a number that the recipe cannot do without.
Status ReadRequired(const ConfigFields& rope, std::string_view name, double low, double high,
                    double* out) {
  if (rope.Find(name) == nullptr) return rope.Malformed(name, "is missing");
  return rope.Real(name, low, high, out);
}

// Reads the fields of one kind of recipe; some may stand at the top level of the configuration. The
// ranges keep later computations finite: a factor of 0 would divide by it.
class RopeReader {
 public:
  RopeReader(const ConfigFields& top, const ConfigFields& rope, const ModelConfig& config,
             RopeRecipe* recipe)
      : top_(top), rope_(rope), config_(config), recipe_(recipe) {}

  // Llama 3's recipe: low frequencies are slowed, high ones kept, and those between are blended.
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

  // All frequencies are divided by the factor.
  Status Linear() {
    recipe_->kind = RopeRecipe::Kind::kLinear;
    return ReadRequired(rope_, "factor", 1, 1e6, &recipe_->factor);
  }

  // The base grows with the length of the text (NTK). Its formula divides by dims - 2.
  Status Dynamic() {
    recipe_->kind = RopeRecipe::Kind::kDynamic;
    recipe_->original_max_positions = config_.max_positions;
    if (recipe_->dims <= 2) return rope_.Malformed("rope_type", "\"dynamic\" needs larger heads");
    return ReadRequired(rope_, "factor", 1, 1e6, &recipe_->factor);
  }

  // As transformers' _compute_yarn_parameters: unless `attention_factor` is given, it is
  // 0.1 ln(factor) + 1, or a quotient of two such terms where both mscale fields are there.
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

  // Phi-3's recipe: a divisor for each pair, in two lists. The factor only gives the scale of
  // attention, as in transformers' _compute_longrope_parameters.
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
  // The positions that the model was first trained for; max_positions where the file does not say.
  Status OriginalPositions() {
    recipe_->original_max_positions = config_.max_positions;
    return ReadRopeNumber(top_, rope_, "original_max_position_embeddings", 1,
                          static_cast<double>(kMaxPositions), &recipe_->original_max_positions);
  }

  // Reads the factor; where it is absent it is the number of times that the positions have grown.
  Status Factor() {
    recipe_->factor = std::max(1.0, config_.max_positions / recipe_->original_max_positions);
    return rope_.Real("factor", 1, 1e6, &recipe_->factor);
  }

  // Reads a list of divisors, one for each pair that is turned.
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

  const ConfigFields& top_;
  const ConfigFields& rope_;
  const ModelConfig& config_;
  RopeRecipe* const recipe_;
};

// Reads `type` or `rope_type` of the object.
Result<std::optional<std::string>> ReadRopeType(const ConfigFields& rope) {
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

// Reads the recipe that `rope` describes, some of whose fields may stand at the top. `part`: of
// each head that is turned, where no field says it.
Status ReadRecipe(const ConfigFields& top, const ConfigFields& rope, const ModelConfig& config,
                  double part, RopeRecipe* recipe) {
  LECTERN_RETURN_IF_ERROR(ReadRopeNumber(top, rope, "rope_theta", 1, 1e12, &recipe->theta));
  LECTERN_RETURN_IF_ERROR(ReadRopeNumber(top, rope, "partial_rotary_factor", 0, 1, &part));
  if (part != 1 && !config.partial_rotary) {
    const bool is_at_top = top.Find("partial_rotary_factor") != nullptr;
    return (is_at_top ? top : rope)
        .Unsupported("partial_rotary_factor",
                     "is " + Shown(part) + "; supported for this model_type: 1");
  }
  // Down to a whole number, as transformers does it. The product of a head of 44 and 30 / 44, as
  // GGUF files give the part, is a little below 30.
  recipe->dims = static_cast<uint32_t>(config.head_dim * (part + 1e-9));
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

}  // namespace

// Dynamic and YaRN recipes name the positions before they were stretched; the model serves `factor`
// times as many. The product is cut to kMaxPositions.
void StretchPositions(ModelConfig* config) {
  const RopeRecipe& rope = config->rope;
  const bool stretches =
      rope.kind == RopeRecipe::Kind::kDynamic || rope.kind == RopeRecipe::Kind::kYarn;
  if (!stretches) return;
  const double reach =
      std::min(rope.factor * rope.original_max_positions, static_cast<double>(kMaxPositions));
  config->max_positions = std::max(config->max_positions, static_cast<uint32_t>(reach));
}

Status ReadRope(const Json& root, const ConfigFields& top, const ConfigFile& file,
                const Architecture& architecture, ModelConfig* config) {
  LECTERN_ASSIGN(const std::string name, FindRopeObject(top));
  const Json no_fields{Json::Object{}};
  const Json& object = name.empty() ? no_fields : *root.Find(name);
  config->rope.theta = architecture.theta;
  const double part = architecture.rotary_factor;
  const bool is_nested = object.Find("full_attention") != nullptr;
  const ConfigFields whole(object, file, name.empty() ? "" : name + ".");
  if (!is_nested) {
    LECTERN_RETURN_IF_ERROR(ReadRecipe(top, whole, *config, part, &config->rope));
  } else if (whole.Find("full_attention")->object() == nullptr) {
    return whole.WrongValue("full_attention", *whole.Find("full_attention"), "an object");
  } else {
    const ConfigFields full(*whole.Find("full_attention"), file, name + ".full_attention.");
    LECTERN_RETURN_IF_ERROR(ReadRecipe(top, full, *config, part, &config->rope));
  }
  config->local_rope = config->rope;
  if (architecture.local_theta == 0 && !architecture.plain_local_rope) return {};
  // Windowed layers have a plain recipe, perhaps with their own base.
  const double theta =
      architecture.plain_local_rope ? config->rope.theta : architecture.local_theta;
  config->local_rope = {.theta = theta, .dims = config->head_dim};
  if (!is_nested) {
    if (architecture.plain_local_rope) return {};
    return top.Real("rope_local_base_freq", 1, 1e12, &config->local_rope.theta);
  }
  const Json* const local = whole.Find("sliding_attention");
  if (local == nullptr) return {};
  if (local->object() == nullptr) return whole.WrongValue("sliding_attention", *local, "an object");
  const ConfigFields fields(*local, file, name + ".sliding_attention.");
  return ReadRecipe(ConfigFields(no_fields, file), fields, *config, part, &config->local_rope);
}

}  // namespace lectern
