// Finds the programs that the tools run (pdftotext), and that lectern-doctor reports on. Header
// only.
#ifndef LECTERN_TOOLS_FIND_PROGRAM_H_
#define LECTERN_TOOLS_FIND_PROGRAM_H_

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

namespace lectern::tools {

// The path of a program: `name` itself where it has a slash, else the first file of that name that
// may be run, in the absolute folders of PATH or, without PATH, in the system's usual ones. Empty:
// there is none. Folders that are not absolute are skipped: the current folder may be anybody's.
// Any thread.
inline std::string FindProgram(const std::string& name) {
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

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_FIND_PROGRAM_H_
