// Reads the whole of a file that a user names on a command line, or of stdin: the document of
// index-document, the questions of ask-document.
#ifndef LECTERN_TOOLS_INPUT_FILE_H_
#define LECTERN_TOOLS_INPUT_FILE_H_

#include <cstdint>
#include <string>

#include "engine/lectern.h"

namespace lectern::tools {

// Far above any document that a model's context holds (a token is about 4 bytes): a larger file is
// a mistake, and is refused before it fills the memory.
inline constexpr uint64_t kMaxInputBytes = uint64_t{1} << 30;

// Returns every byte of the file, or of stdin where `path` is "-" (until its end; stdin stays
// open). Pipes and devices are read to their end, which may block for ever. NOT_FOUND (also: a part
// of the path is a file), INVALID_ARGUMENT (a directory), IO_ERROR (no permission, or a read that
// failed), EMPTY_DOCUMENT (no byte), LIMIT_EXCEEDED (more than kMaxInputBytes); messages name the
// file ("stdin" for "-") and the param is "file".
api::Result<std::string> ReadInputFile(const std::string& path);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INPUT_FILE_H_
