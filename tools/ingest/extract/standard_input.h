// Reads the document that a program of this folder gets on its standard input.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_STANDARD_INPUT_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_STANDARD_INPUT_H_

#include <cstdio>
#include <string>

namespace lectern::tools {

// Appends all of it to `bytes`. False: it could not be read to its end. Throws std::bad_alloc.
inline bool ReadStandardInput(std::string& bytes) {
  char buffer[1 << 16];
  size_t count;
  while ((count = std::fread(buffer, 1, sizeof buffer, stdin)) > 0) bytes.append(buffer, count);
  return std::ferror(stdin) == 0;
}

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_STANDARD_INPUT_H_
