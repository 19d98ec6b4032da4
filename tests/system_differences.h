// The few things that tests ask of every system, which systems call differently.
#ifndef LECTERN_TESTS_SYSTEM_DIFFERENCES_H_
#define LECTERN_TESTS_SYSTEM_DIFFERENCES_H_

#ifndef _WIN32
#include <sys/stat.h>
#endif

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace lectern {

// Windows keeps a file's name, and its folder, while somebody has the file open; names that are too
// long are not found.
inline constexpr bool kIsWindows = std::filesystem::path::preferred_separator == '\\';

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

// Whether the system has large pages for whoever asks for them. On Windows nobody does.
inline bool HasLargePages() {
#ifdef _WIN32
  return false;
#else
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  return std::getline(file, line) && line.find("[never]") == line.npos;
#endif
}

// A path below the root as an absolute one of the system: "/a" is "C:/a" on Windows.
inline std::string PathFromRoot(const std::string& path) {
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
