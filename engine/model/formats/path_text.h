// Paths of std::filesystem from UTF-8 and back. A path that is made of a std::string has the
// system's encoding, which on Windows is not UTF-8.
#ifndef LECTERN_ENGINE_MODEL_FORMATS_PATH_TEXT_H_
#define LECTERN_ENGINE_MODEL_FORMATS_PATH_TEXT_H_

#include <algorithm>
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

// A path with '/' between its parts, as documents' sources and names have them: a user of Windows
// may have written '\'. Elsewhere '\' is a character like others, and stays.
inline std::string ForwardSlashes(std::string path) {
  if constexpr (std::filesystem::path::preferred_separator == '\\') {
    std::replace(path.begin(), path.end(), '\\', '/');
  }
  return path;
}

// A path without slashes at its end; those of its root ("/", "C:/") stay, because "C:" is the
// current folder of that drive.
inline std::string WithoutEndSlashes(std::string path) {
  const size_t root = std::max<size_t>(TextOf(PathOf(path).root_path()).size(), 1);
  while (path.size() > root && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_FORMATS_PATH_TEXT_H_
