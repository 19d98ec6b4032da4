// Paths of std::filesystem from UTF-8 and back. A path that is made of a std::string has the
// system's encoding, which on Windows is not UTF-8.
#ifndef LECTERN_ENGINE_MODEL_FORMATS_PATH_TEXT_H_
#define LECTERN_ENGINE_MODEL_FORMATS_PATH_TEXT_H_

#include <filesystem>
#include <string>
#include <string_view>

namespace lectern {

inline std::filesystem::path PathOf(std::string_view text) {
  return std::filesystem::path(std::u8string(text.begin(), text.end()));
}

// With '/' between its parts, on Windows too.
inline std::string TextOf(const std::filesystem::path& path) {
  const std::u8string text = path.generic_u8string();
  return std::string(text.begin(), text.end());
}

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_FORMATS_PATH_TEXT_H_
