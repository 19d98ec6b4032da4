// Files as the list of files to index sees them (file_list.h).
#ifndef LECTERN_TOOLS_FILE_STATE_H_
#define LECTERN_TOOLS_FILE_STATE_H_

#include <optional>
#include <string>

#include "tools/file_list.h"

namespace lectern::tools {

struct FileState {
  bool is_folder = false, is_regular = false;
  FileStamp stamp = {};
};

// Describes a file or folder; follows links. Nothing, with errno set, where there is nothing. Any
// thread.
std::optional<FileState> StateOf(const std::string& path);

// Whether a name of one folder fits a pattern with * ? and [a-z], [!a-z]; a backslash takes the
// next character's meaning away, except on Windows, where it parts folders. A name with a dot at
// its start fits only a pattern with one. Source: fnmatch of POSIX with FNM_PERIOD.
bool FitsPattern(const std::string& pattern, const std::string& name);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_FILE_STATE_H_
