#include <windows.h>

#include <fcntl.h>
#include <io.h>
#include <shellapi.h>

#include <algorithm>
#include <cstdio>
#include <cwchar>
#include <string_view>

#include "tools/system_start.h"

namespace lectern::tools {
namespace {

std::string Utf8(std::wstring_view wide) {
  const int units = static_cast<int>(wide.size());
  std::string text(static_cast<size_t>(WideCharToMultiByte(CP_UTF8, 0, wide.data(), units, nullptr,
                                                           0, nullptr, nullptr)),
                   '\0');
  WideCharToMultiByte(CP_UTF8, 0, wide.data(), units, text.data(), static_cast<int>(text.size()),
                      nullptr, nullptr);
  return text;
}

std::string WithSlashes(std::string path) {
  std::replace(path.begin(), path.end(), '\\', '/');
  while (path.ends_with('/')) path.pop_back();
  return path;
}

// Windows has one folder for what stays on this machine, and none for what can be fetched again.
std::string LocalFolder(const char* xdg_variable) {
  for (const char* const name : {xdg_variable, "LOCALAPPDATA"}) {
    const std::string folder = EnvironmentVariable(name);
    if (folder.size() > 2 && folder[1] == ':') return WithSlashes(folder);
  }
  return "";
}

}  // namespace

SystemStart::SystemStart(int argc, char** argv) {
  int count = 0;
  wchar_t** const wide = CommandLineToArgvW(GetCommandLineW(), &count);
  if (wide != nullptr) {
    for (int i = 0; i < count; ++i) texts_.push_back(Utf8(wide[i]));
    LocalFree(wide);
  } else {
    texts_.assign(argv, argv + argc);
  }
  for (std::string& text : texts_) pointers_.push_back(text.data());
  pointers_.push_back(nullptr);
  SetConsoleOutputCP(CP_UTF8);
  SetConsoleCP(CP_UTF8);
  for (std::FILE* const stream : {stdin, stdout, stderr}) _setmode(_fileno(stream), _O_BINARY);
  // The C library would keep messages back until the end where stderr is a pipe or a file.
  std::setvbuf(stderr, nullptr, _IONBF, 0);
}

const char* const kUserDataVariables = "LOCALAPPDATA";
const char* const kUserCacheVariables = "LOCALAPPDATA";

std::string UserDataFolder() { return LocalFolder("XDG_DATA_HOME"); }

std::string UserCacheFolder() {
  const std::string folder = LocalFolder("XDG_CACHE_HOME");
  return folder.empty() ? "" : folder + "/Cache";
}

std::string EnvironmentVariable(const char* name) {
  const std::string_view ascii = name;
  const wchar_t* const value = _wgetenv(std::wstring(ascii.begin(), ascii.end()).c_str());
  return value == nullptr ? "" : Utf8(value);
}

std::string ProgramPath() {
  std::wstring path(32768, L'\0');  // the longest path there is
  path.resize(GetModuleFileNameW(nullptr, path.data(), static_cast<DWORD>(path.size())));
  return WithSlashes(Utf8(path));
}

}  // namespace lectern::tools
