// Whatever a page is: valid text that ends with a newline, or an error, within limits.
#include <cstdlib>

#include "engine/model/formats/text.h"
#include "tools/ingest/html.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view html(reinterpret_cast<const char*>(data), size);
  auto text = lectern::tools::ReadHtml(html, {.memory_bytes = uint64_t{64} << 20, .seconds = 5});
  if (!text.ok()) {
    if (text.error().message.empty()) std::abort();
    return 0;
  }
  if (!lectern::IsValidUtf8(*text) || text->empty() || text->back() != '\n') std::abort();
  return 0;
}
