#include <fnmatch.h>
#include <sys/stat.h>

#include "tools/file_state.h"

namespace lectern::tools {

std::optional<FileState> StateOf(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileState{.is_folder = S_ISDIR(info.st_mode),
                   .is_regular = S_ISREG(info.st_mode),
                   .stamp = {.device = info.st_dev,
                             .inode = info.st_ino,
                             .bytes = static_cast<uint64_t>(info.st_size),
                             .modified_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 +
                                            info.st_mtim.tv_nsec}};
}

bool FitsPattern(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
}

}  // namespace lectern::tools
