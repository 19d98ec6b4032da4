// Reads a text file that a program gives by its path.
#ifndef LECTERN_ENGINE_INDEXING_TEXT_FILE_H_
#define LECTERN_ENGINE_INDEXING_TEXT_FILE_H_

#include <string>

#include "store/env.h"
#include "store/status.h"

namespace lectern {

struct TextFile {
  std::string bytes;
  std::string source;  // the real path, without links
};

// `path`: absolute. All with param "path", and a message that says which: kNotFound (no such file),
// kInvalidArgument (a folder, no regular file, or a PDF), kEmptyDocument, kLimitExceeded, kIoError
// (it may not be read, or reading failed).
Result<TextFile> ReadTextFile(Env& env, const std::string& path);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_TEXT_FILE_H_
