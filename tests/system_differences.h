// The few things that tests ask of every system, which systems call differently.
#ifndef LECTERN_TESTS_SYSTEM_DIFFERENCES_H_
#define LECTERN_TESTS_SYSTEM_DIFFERENCES_H_

#ifndef _WIN32
#include <sys/stat.h>
#endif

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace lectern {

// Whether a child with a limit is refused more memory, which its program can report. Wine limits no
// memory, so that RunLimited ends the child.
#ifdef _WIN32
inline constexpr bool kMemoryIsRefused = false;
#else
inline constexpr bool kMemoryIsRefused = true;
#endif

// The error of a disk quota that is used up; where there are none, that of a full disk.
#ifdef EDQUOT
inline constexpr int kQuotaError = EDQUOT;
#else
inline constexpr int kQuotaError = ENOSPC;
#endif

// Sets a variable of this process's environment; an empty value removes it on Windows.
inline void SetVariable(const char* name, const std::string& value) {
#ifdef _WIN32
  _putenv_s(name, value.c_str());
#else
  setenv(name, value.c_str(), 1);
#endif
}

// Whether the file or folder can be used by its owner alone, and files cannot be run. On Windows
// they have the rights of the folder that they are in, which tests do not look at.
inline bool IsPrivate(const std::filesystem::path& path) {
#ifdef _WIN32
  return std::filesystem::exists(path);
#else
  using std::filesystem::perms;
  const std::filesystem::file_status status = std::filesystem::symlink_status(path);
  const perms of_files = perms::owner_read | perms::owner_write;
  return status.permissions() ==
         (std::filesystem::is_directory(status) ? perms::owner_all : of_files);
#endif
}

// A path below the root as an absolute one of the system: "/a" is "C:/a" on Windows.
inline std::string AbsolutePath(const std::string& path) {
#ifdef _WIN32
  return "C:" + path;
#else
  return path;
#endif
}

// Makes a named pipe; false: the system has none among its files.
inline bool MakeFifo(const std::string& path) {
#ifdef _WIN32
  return false;
#else
  return mkfifo(path.c_str(), 0600) == 0;
#endif
}

}  // namespace lectern

#endif  // LECTERN_TESTS_SYSTEM_DIFFERENCES_H_
