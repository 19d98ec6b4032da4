#include <windows.h>

#include <system_error>

#include "kernels/cuda/runtime/find_in_library.h"

namespace lectern {
namespace {

// The directory of the library or program that this function is in, with its last '\\'; "" where
// the system will not say.
std::wstring OwnDirectory() {
  HMODULE module = nullptr;
  constexpr DWORD kFlags =
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  if (!GetModuleHandleExW(kFlags, reinterpret_cast<LPCWSTR>(&OwnDirectory), &module)) return {};
  std::wstring path(32768, L'\0');  // the longest path there is
  path.resize(GetModuleFileNameW(module, path.data(), static_cast<DWORD>(path.size())));
  return path.substr(0, path.rfind(L'\\') + 1);
}

std::string LastError(const std::string& library) {
  const int error = static_cast<int>(GetLastError());
  return library + ": " + std::system_category().message(error);
}

}  // namespace

const char* const kCudaLibraryName = "lectern_cuda.dll";

// Never from the working directory, which may be anybody's.
FoundFunction FindInLibrary(const std::string& library, const char* function) {
  const std::wstring name(library.begin(), library.end());  // ASCII
  const std::wstring beside = OwnDirectory() + name;
  const bool is_beside = GetFileAttributesW(beside.c_str()) != INVALID_FILE_ATTRIBUTES;
  const HMODULE loaded =
      is_beside ? LoadLibraryExW(beside.c_str(), nullptr, LOAD_WITH_ALTERED_SEARCH_PATH)
                : LoadLibraryExW(name.c_str(), nullptr, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
  if (loaded == nullptr) return {nullptr, LastError(library)};
  void* const found = reinterpret_cast<void*>(GetProcAddress(loaded, function));
  if (found == nullptr) return {nullptr, LastError(library)};
  return {found, {}};
}

}  // namespace lectern
