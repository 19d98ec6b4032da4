// Reads fields of a model's configuration with range checks and messages that name the field as its
// file does. config.cc and config_rope.cc use it.
#ifndef LECTERN_ENGINE_MODEL_WEIGHTS_CONFIG_FIELDS_H_
#define LECTERN_ENGINE_MODEL_WEIGHTS_CONFIG_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/model/formats/excerpt.h"
#include "engine/model/formats/json.h"
#include "engine/model/weights/config.h"

namespace lectern {

inline constexpr uint64_t kMaxPositions = uint64_t{1} << 27;  // of any model

// A value as JSON for a message, cut to 80 bytes.
inline std::string Shown(const Json& value) { return Excerpt(value.Dump(), 80); }

inline std::string Shown(double value) { return Json(value).Dump(); }

// Reads the members of one JSON object. A member that is null counts as absent, as in transformers.
// The object and the file must outlive this. Errors are kMalformedModel and kUnsupportedModel, with
// the field as their param, by the file's own name for it: '<path>: "<field>" <what>'. A reading
// call that fails is kMalformedModel and leaves `out` as it was.
class ConfigFields {
 public:
  ConfigFields(const Json& object, const ConfigFile& file, std::string prefix = "")
      : object_(object), file_(file), prefix_(std::move(prefix)) {}

  // The member `name`; nullptr: it is absent or null.
  const Json* Find(std::string_view name) const {
    const Json* value = object_.Find(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  // Unlike Find, a member that is null counts here.
  bool Has(std::string_view name) const { return object_.Find(name) != nullptr; }

  // kMalformedModel about the field; `what` goes on after its name: "is missing".
  Status Malformed(std::string_view name, const std::string& what) const {
    return Make(Code::kMalformedModel, name, what);
  }
  // kUnsupportedModel about the field, likewise.
  Status Unsupported(std::string_view name, const std::string& what) const {
    return Make(Code::kUnsupportedModel, name, what);
  }
  // kMalformedModel: "is <value>; it must be <wanted>"; the value is shown cut to 80 bytes.
  Status WrongValue(std::string_view name, const Json& value, const std::string& wanted) const {
    return Malformed(name, "is " + Shown(value) + "; it must be " + wanted);
  }

  // Reads a whole number in [low, high], high < 2^32; where the field is absent `out` becomes
  // `otherwise`, which is not checked, and without it the field must be there.
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

  // Reads a number in [low, high]; `out` keeps its value where the field is absent. NaN is refused.
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

  // Reads true or false; `out` keeps its value where the field is absent.
  Status Bool(std::string_view name, bool* out) const {
    const Json* value = Find(name);
    if (value == nullptr) return Status();
    if (value->boolean() == nullptr) return WrongValue(name, *value, "true or false");
    *out = *value->boolean();
    return Status();
  }

 private:
  // An error about a field, by the name that the file itself has for it: a GGUF file's fields come
  // from keys of other names.
  Status Make(Code code, std::string_view name, const std::string& what) const {
    std::string field = prefix_ + std::string(name);
    const auto own = file_.own_names.find(field);
    if (own != file_.own_names.end()) field = own->second;
    return Status(code, file_.path + ": \"" + field + "\" " + what).WithParam(field);
  }

  const Json& object_;
  const ConfigFile& file_;
  std::string prefix_;  // of fields in an inner object, such as "rope_scaling."
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_WEIGHTS_CONFIG_FIELDS_H_
