#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "tools/system_start.h"

namespace lectern::tools {
namespace {

// Source: XDG Base Directory Specification, which also says to ignore a variable whose folder is
// not absolute. `home`: the value of HOME.
std::string UserFolder(const char* variable, const std::string& home, const char* below_home) {
  const std::string folder = EnvironmentVariable(variable);
  if (folder.starts_with('/')) return folder;
  return home.empty() ? "" : home + below_home;
}

}  // namespace

SystemStart::SystemStart(int argc, char** argv) : pointers_(argv, argv + argc + 1) {}

const char* const kUserDataVariables = "XDG_DATA_HOME or HOME";
const char* const kUserCacheVariables = "HOME or XDG_CACHE_HOME";

std::string UserDataFolder() {
  return UserFolder("XDG_DATA_HOME", EnvironmentVariable("HOME"), "/.local/share");
}

std::string UserCacheFolder() {
  const std::string home = EnvironmentVariable("HOME");
  return UserFolder("XDG_CACHE_HOME", home.starts_with('/') ? home : "", "/.cache");
}

std::string EnvironmentVariable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string ProgramPath() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

}  // namespace lectern::tools
