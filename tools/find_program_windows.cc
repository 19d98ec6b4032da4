#include <windows.h>

#include <algorithm>
#include <string_view>

#include "store/system_windows.h"
#include "tools/find_program.h"

namespace lectern::tools {
namespace {

constexpr DWORD kMaxPath = 32768;  // UTF-16 units of a path, and of a variable

bool IsFile(const std::string& path) {
  const DWORD attributes = ::GetFileAttributesW(SystemPath(path).c_str());
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) == 0;
}

// "C:…" or "\\server…": a path with only a backslash at its start depends on the current drive.
bool IsAbsolute(std::string_view folder) {
  return folder.starts_with("\\\\") ||
         (folder.size() > 2 && folder[1] == ':' && (folder[2] == '\\' || folder[2] == '/'));
}

// With a backslash at its end.
std::string FolderOfExecutable() {
  std::wstring path(kMaxPath, L'\0');
  path.resize(::GetModuleFileNameW(nullptr, path.data(), kMaxPath));
  return Narrow(path.substr(0, path.rfind(L'\\') + 1));
}

std::string WithSuffix(const std::string& name) {
  return name.ends_with(".exe") ? name : name + ".exe";
}

}  // namespace

std::string FindProgram(const std::string& name) {
  if (name.find_first_of("/\\") != std::string::npos) return name;
  const std::string beside = LibexecProgram(name);
  if (IsFile(beside)) return beside;
  std::wstring variable(kMaxPath, L'\0');
  variable.resize(
      std::min(::GetEnvironmentVariableW(L"PATH", variable.data(), kMaxPath), kMaxPath));
  const std::string path = Narrow(variable);
  for (std::string_view folders = path; !folders.empty();) {
    const std::string_view folder = folders.substr(0, folders.find(';'));
    folders.remove_prefix(std::min(folders.size(), folder.size() + 1));
    const std::string program = std::string(folder) + "\\" + WithSuffix(name);
    if (IsAbsolute(folder) && IsFile(program)) return program;
  }
  return "";
}

std::string LibexecProgram(const std::string& name) {
  return FolderOfExecutable() + WithSuffix(name);
}

std::string HowToInstall(const std::string& package) {
  return "put its programs (" + package + ") into a folder of PATH";
}

}  // namespace lectern::tools
