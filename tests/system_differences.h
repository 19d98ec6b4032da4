// The few things that tests ask of every system, which systems call differently.
#ifndef LECTERN_TESTS_SYSTEM_DIFFERENCES_H_
#define LECTERN_TESTS_SYSTEM_DIFFERENCES_H_

#include <cstdlib>
#include <filesystem>
#include <string>

namespace lectern {

// Sets a variable of this process's environment; an empty value removes it on Windows.
inline void SetVariable(const char* name, const std::string& value) {
#ifdef _WIN32
  _putenv_s(name, value.c_str());
#else
  setenv(name, value.c_str(), 1);
#endif
}

// Whether the file can be read and written by its owner alone. On Windows it has the rights of its
// folder, which tests do not look at.
inline bool IsPrivateFile(const std::filesystem::path& path) {
#ifdef _WIN32
  return std::filesystem::is_regular_file(path);
#else
  using std::filesystem::perms;
  return std::filesystem::status(path).permissions() == (perms::owner_read | perms::owner_write);
#endif
}

}  // namespace lectern

#endif  // LECTERN_TESTS_SYSTEM_DIFFERENCES_H_
