// Whatever ParseJson accepts, Dump writes, and both agree.
#include <cstdlib>

#include "engine/model/formats/json.h"

namespace {

// Whatever a value is, each question about its type has an answer, and a whole number is a number.
void Ask(const lectern::Json& json) {
  if ((json.integer() || json.unsigned_integer()) && !json.number()) std::abort();
  if (json.is_null() && (json.boolean() != nullptr || json.string() != nullptr)) std::abort();
  if (json.array() != nullptr) {
    for (const lectern::Json& item : *json.array()) Ask(item);
  }
  if (json.object() == nullptr) return;
  for (const auto& [key, value] : *json.object()) {
    if (json.Find(key) != &value) std::abort();
    Ask(value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const lectern::JsonLimits limits = {.max_depth = 8, .max_values = 200, .max_string = 200};
  const lectern::Result<lectern::Json> json = lectern::ParseJson(text, limits);
  if (!json.ok()) return 0;
  Ask(*json);
  const std::string once = json->Dump();
  const lectern::Result<lectern::Json> again = lectern::ParseJson(once);
  if (!again.ok() || again->Dump() != once) std::abort();
  return 0;
}
