// Makes paths that callers give independent of the working directory.
#ifndef LECTERN_ENGINE_REQUESTS_ABSOLUTE_PATH_H_
#define LECTERN_ENGINE_REQUESTS_ABSOLUTE_PATH_H_

#include <filesystem>
#include <string>
#include <system_error>

#include "engine/model/formats/path_text.h"

namespace lectern {

// Returns the path in a form that means the same from any working directory, without "." and "..",
// and without a slash at its end (but those of "/" and "C:/" stay). No link is followed: ".." takes
// the name before it away, also that of a link, where the system would go to the parent of the
// link's target. Empty stays empty, and where the working directory cannot be had, a path stays as
// it is. Any thread.
inline std::string AbsolutePath(const std::string& path) {
  if (path.empty()) return path;
  if constexpr (kHasBackslashes) {
    std::string full = ForwardSlashes(path);
    // Windows' own prefix of paths of any length.
    if (full.starts_with("//?/UNC/")) full = "//" + full.substr(8);
    if (full.starts_with("//?/") && full.find(':') == 5) full.erase(0, 4);
    // std::filesystem of GCC 12 takes the name of a machine for a folder of the current drive.
    if (RootOf(full) == "//") {
      return WithoutEndSlashes("/" + TextOf(PathOf(full.substr(1)).lexically_normal()));
    }
    if (full.size() < path.size()) return AbsolutePath(full);
  }
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(PathOf(path), error);
  if (error) return path;
  return WithoutEndSlashes(TextOf(absolute.lexically_normal()));
}

}  // namespace lectern

#endif  // LECTERN_ENGINE_REQUESTS_ABSOLUTE_PATH_H_
