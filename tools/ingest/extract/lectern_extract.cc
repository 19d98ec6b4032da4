// lectern-extract: reads an office file, a book or a mail from stdin and writes its text to stdout,
// in the form of extracted.h. The tools start it with limits (limited_child.h), one file a process;
// it opens no other file and no connection.
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <new>
#include <string>

#include "tools/ingest/extract/extract.h"

namespace {

bool ReadAll(std::string& bytes) {
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = read(STDIN_FILENO, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count == 0;
    bytes.append(buffer, static_cast<size_t>(count));
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace lectern;
  std::setlocale(LC_CTYPE, "C.UTF-8");  // for the names of parts in zip files
  if (argc != 2) {
    std::fputs("lectern-extract FORMAT < FILE: used by index-document and lectern-server\n",
               stderr);
    return 2;
  }
  std::string output;
  try {
    std::string bytes;
    if (!ReadAll(bytes)) return 1;
    output = tools::WriteExtracted(tools::Extract(argv[1], bytes));
  } catch (const std::bad_alloc&) {
    output = tools::WriteExtracted(api::Error{
        LECTERN_LIMIT_EXCEEDED, "needs too much memory; split it, or give its text", "file"});
  }
  const bool is_written = std::fwrite(output.data(), 1, output.size(), stdout) == output.size();
  return is_written && std::fflush(stdout) == 0 ? 0 : 1;
}
