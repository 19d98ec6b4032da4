// Windows as the store's file calls use it: handles, paths in UTF-16 and errors.
#ifndef LECTERN_STORE_SYSTEM_WINDOWS_H_
#define LECTERN_STORE_SYSTEM_WINDOWS_H_

#include <windows.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "store/status.h"

namespace lectern {

// Others may read, write, replace and remove the file meanwhile.
inline constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

// A HANDLE that closes itself.
class Handle {
 public:
  Handle() = default;
  explicit Handle(HANDLE handle) : handle_(handle == INVALID_HANDLE_VALUE ? nullptr : handle) {}
  Handle(Handle&& other) noexcept : handle_(other.Release()) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (handle_ != nullptr) ::CloseHandle(handle_);
  }
  HANDLE get() const { return handle_; }
  HANDLE Release() { return std::exchange(handle_, nullptr); }

 private:
  HANDLE handle_ = nullptr;
};

// The status of the call that failed just now. `action` and `path` as ErrnoStatus has them.
Status LastError(std::string_view action, std::string_view path);

// kInvalidArgument for a path that is empty, holds a NUL, or is no UTF-8.
Status CheckPath(const std::string& path);

// UTF-16 of valid UTF-8.
std::wstring Wide(std::string_view text);

// UTF-8 of the system's UTF-16.
std::string Narrow(std::wstring_view wide);

// The path as the system takes it at any length: absolute, with "\\?\" or "\\?\UNC\" before it. The
// path as it is where the system cannot make it absolute.
std::wstring SystemPath(const std::string& path);

// Whether the error is that somebody has the file open, which ends by itself.
bool IsShared(DWORD error);

// A 64-bit number of two halves, as structures of Windows have them.
inline uint64_t Join(DWORD high, DWORD low) { return uint64_t{high} << 32 | low; }

// A range of a file for ReadFile, WriteFile and LockFileEx.
OVERLAPPED At(uint64_t offset);

}  // namespace lectern

#endif  // LECTERN_STORE_SYSTEM_WINDOWS_H_
