// Cuts texts that came out of a file, or from a caller, for messages.
#ifndef LECTERN_ENGINE_MODEL_FORMATS_EXCERPT_H_
#define LECTERN_ENGINE_MODEL_FORMATS_EXCERPT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "engine/model/formats/text.h"

namespace lectern {

// Returns the first `most` bytes of a text, or fewer, so that no character is cut in two, and "…"
// behind them; a text that is no longer is returned whole. Bytes that are not UTF-8 become U+FFFD.
inline std::string Excerpt(std::string_view text, size_t most) {
  if (text.size() <= most) return CleanUtf8(text).text;
  size_t end = most;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return CleanUtf8(text.substr(0, end)).text + "…";
}

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_FORMATS_EXCERPT_H_
