// Reads a text file whose path a program gives, for Engine::IndexFile.
#ifndef LECTERN_ENGINE_INDEXING_TEXT_FILE_H_
#define LECTERN_ENGINE_INDEXING_TEXT_FILE_H_

#include <string>

#include "store/env.h"
#include "store/status.h"

namespace lectern {

// The content of a file, and where it really is.
struct TextFile {
  std::string bytes;
  std::string source;  // the real path, without links
};

// Reads the whole file, at most 1 GiB. `path`: absolute; links are followed. The bytes need not be
// UTF-8: PrepareDocument cleans them. Errors have the param "path" and a message that says which:
// kNotFound (no such file), kInvalidArgument (a folder, a device, a PDF, or no path of a file),
// kEmptyDocument, kLimitExceeded, kIoError (it may not be read or described, or reading failed).
Result<TextFile> ReadTextFile(Env& env, const std::string& path);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_TEXT_FILE_H_
