// Whatever ParseJson accepts, Dump writes, and both agree.
#include <cstdlib>

#include "engine/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const lectern::JsonLimits limits = {.max_depth = 8, .max_values = 200, .max_string = 200};
  const lectern::Result<lectern::Json> json = lectern::ParseJson(text, limits);
  if (!json.ok()) return 0;
  const std::string once = json->Dump();
  const lectern::Result<lectern::Json> again = lectern::ParseJson(once);
  if (!again.ok() || again->Dump() != once) std::abort();
  return 0;
}
