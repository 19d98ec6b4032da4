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

inline constexpr bool kHasBackslashes = std::filesystem::path::preferred_separator == '\\';

// A path with '/' between its parts, as documents' sources and names have them: a user of Windows
// may have written '\'. Elsewhere '\' is a character like others, and stays.
inline std::string ForwardSlashes(std::string path) {
  if constexpr (kHasBackslashes) std::replace(path.begin(), path.end(), '\\', '/');
  return path;
}

// With '/' between its parts, on Windows too. The generic form of GCC 12 is not for Windows: it
// makes "/server/share" of "//server/share".
inline std::string TextOf(const std::filesystem::path& path) {
  const std::u8string text = kHasBackslashes ? path.u8string() : path.generic_u8string();
  return ForwardSlashes(std::string(text.begin(), text.end()));
}

// The root of a path with forward slashes: "/", on Windows also "C:/", "C:", and "//" before the
// name of a machine. Empty: the path depends on the current folder.
inline std::string_view RootOf(std::string_view path) {
  if (kHasBackslashes && path.size() > 1 && path[1] == ':') {
    return path.substr(0, path.size() > 2 && path[2] == '/' ? 3 : 2);
  }
  if (kHasBackslashes && path.starts_with("//")) return path.substr(0, 2);
  return path.substr(0, path.starts_with('/') ? 1 : 0);
}

// A path without slashes at its end; those of its root stay, because "C:" without its slash is the
// current folder of that drive.
inline std::string WithoutEndSlashes(std::string path) {
  const size_t least = std::max<size_t>(RootOf(path).size(), 1);
  while (path.size() > least && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_FORMATS_PATH_TEXT_H_
