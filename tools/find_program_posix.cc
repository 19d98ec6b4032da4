#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "tools/find_program.h"

namespace lectern::tools {

std::string FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* const variable = std::getenv("PATH");
  std::string_view folders = variable ? variable : "/usr/local/bin:/usr/bin:/bin";
  while (!folders.empty()) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    folders.remove_prefix(std::min(folders.size(), folder.size() + 1));
    std::string path = std::string(folder) + "/" + name;
    if (folder.starts_with('/') && access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

std::string LibexecProgram(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = executable.parent_path().parent_path() / "libexec/lectern" / name;
  const fs::path installed = fs::path(LECTERN_LIBEXEC_DIR) / name;
  return !error && fs::exists(beside, error) ? beside.string() : installed.string();
}

std::string HowToInstall(const std::string& package) { return "apt install " + package; }

}  // namespace lectern::tools
