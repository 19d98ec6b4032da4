#include "store/system_windows.h"

#include "store/env.h"
#include "store/system_error.h"

namespace lectern {
namespace {

bool IsSeparator(char c) { return c == '/' || c == '\\'; }

// The bytes of the path's root: "C:/" or "C:", "/", or nothing.
size_t RootBytes(std::string_view path) {
  const bool has_drive = path.size() >= 2 && path[1] == ':';
  const size_t drive = has_drive ? 2 : 0;
  return drive + (path.size() > drive && IsSeparator(path[drive]) ? 1 : 0);
}

}  // namespace

Status LastError(std::string_view action, std::string_view path) {
  const DWORD error = ::GetLastError();
  Status status = ErrnoStatus(ErrnoOfSystem(static_cast<int>(error)), action, path);
  if (error != ERROR_SHARING_VIOLATION) return status;
  return Status(status.code(), status.message() + "; another program has it open");
}

Status CheckPath(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Status(Code::kInvalidArgument, "a path is empty or holds a NUL byte");
  }
  const int units = ::MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path.data(),
                                          static_cast<int>(path.size()), nullptr, 0);
  if (units > 0) return {};
  return Status(Code::kInvalidArgument, "a path is not UTF-8: " + path);
}

std::wstring Wide(std::string_view text) {
  const int bytes = static_cast<int>(text.size());
  const int units = ::MultiByteToWideChar(CP_UTF8, 0, text.data(), bytes, nullptr, 0);
  std::wstring wide(static_cast<size_t>(units), L'\0');
  ::MultiByteToWideChar(CP_UTF8, 0, text.data(), bytes, wide.data(), units);
  return wide;
}

std::string Narrow(std::wstring_view wide) {
  const int units = static_cast<int>(wide.size());
  const int bytes =
      ::WideCharToMultiByte(CP_UTF8, 0, wide.data(), units, nullptr, 0, nullptr, nullptr);
  std::string text(static_cast<size_t>(bytes), '\0');
  ::WideCharToMultiByte(CP_UTF8, 0, wide.data(), units, text.data(), bytes, nullptr, nullptr);
  return text;
}

std::wstring SystemPath(const std::string& path) {
  const std::wstring wide = Wide(path);
  if (wide.starts_with(L"\\\\?\\") || wide.starts_with(L"\\\\.\\")) return wide;
  std::wstring full(::GetFullPathNameW(wide.c_str(), 0, nullptr, nullptr), L'\0');
  const DWORD units =
      ::GetFullPathNameW(wide.c_str(), static_cast<DWORD>(full.size()), full.data(), nullptr);
  if (units == 0 || units >= full.size()) return wide;
  full.resize(units);
  while (full.size() > 3 && full.back() == L'\\') full.pop_back();  // "C:\" keeps its own
  // A device such as NUL, or a path that was written as "//?/C:/a".
  if (full.starts_with(L"\\\\.\\") || full.starts_with(L"\\\\?\\")) return full;
  if (full.starts_with(L"\\\\")) return L"\\\\?\\UNC" + full.substr(1);
  return L"\\\\?\\" + full;
}

bool IsShared(DWORD error) {
  return error == ERROR_SHARING_VIOLATION || error == ERROR_LOCK_VIOLATION;
}

OVERLAPPED At(uint64_t offset) {
  OVERLAPPED at{};
  at.Offset = static_cast<DWORD>(offset);
  at.OffsetHigh = static_cast<DWORD>(offset >> 32);
  return at;
}

std::string ParentDirectory(const std::string& path) {
  if (path.empty()) return "/";
  const size_t root = RootBytes(path);
  size_t end = path.size();
  while (end > root && IsSeparator(path[end - 1])) --end;
  while (end > root && !IsSeparator(path[end - 1])) --end;
  while (end > root && IsSeparator(path[end - 1])) --end;
  return end == 0 ? "." : path.substr(0, end);
}

bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\:\0", 4)) == std::string_view::npos;
}

bool IsAbsolutePath(std::string_view path) {
  if (path.starts_with("//") || path.starts_with("\\\\")) return true;  // of another machine
  return path.size() >= 3 && path[1] == ':' && IsSeparator(path[2]);
}

}  // namespace lectern
