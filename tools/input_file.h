// Reads the file that a user names, or stdin.
#ifndef LECTERN_TOOLS_INPUT_FILE_H_
#define LECTERN_TOOLS_INPUT_FILE_H_

#include <cstdint>
#include <string>

#include "engine/lectern.h"

namespace lectern::tools {

inline constexpr uint64_t kMaxInputBytes = uint64_t{1} << 30;

// Every byte of the file; "-": of stdin. NOT_FOUND, INVALID_ARGUMENT (a directory), IO_ERROR,
// EMPTY_DOCUMENT, LIMIT_EXCEEDED (more than kMaxInputBytes); the message names the file.
api::Result<std::string> ReadInputFile(const std::string& path);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INPUT_FILE_H_
