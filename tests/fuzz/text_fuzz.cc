// CleanUtf8 always gives valid UTF-8, keeps valid text as it is, and counts what it replaced.
#include <cstdlib>

#include "engine/model/formats/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const lectern::CleanText clean = lectern::CleanUtf8(bytes);
  if (!lectern::IsValidUtf8(clean.text) || clean.replaced_bytes > size) std::abort();
  const bool was_valid = lectern::IsValidUtf8(bytes);
  if (was_valid != (clean.replaced_bytes == 0)) std::abort();
  const size_t mark = bytes.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  if (was_valid && clean.text != bytes.substr(mark)) std::abort();
  return 0;
}
