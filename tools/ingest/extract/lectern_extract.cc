// lectern-extract: reads an office file, a book or a mail from stdin and writes its text to stdout,
// in the form of extracted.h; as "lectern-extract unpack" the bytes of a compressed file, as
// "lectern-extract msg-rtf" the RTF in a message of Outlook. The tools
// start it with limits (limited_child.h), one file a process; it opens no other file and no
// connection.
#include <clocale>
#include <cstdio>
#include <new>
#include <string>
#include <string_view>

#include "tools/ingest/extract/compressed_rtf.h"
#include "tools/ingest/extract/extract.h"
#include "tools/ingest/extract/standard_input.h"
#include "tools/ingest/extract/unpack.h"
#include "tools/system_start.h"

int main(int argc, char** argv) {
  using namespace lectern;
  const tools::SystemStart start(argc, argv);
  std::setlocale(LC_CTYPE, "C.UTF-8");  // for the names of parts in zip files
  if (argc != 2) {
    std::fputs("lectern-extract FORMAT < FILE: used by index-document and lectern-server\n",
               stderr);
    return 2;
  }
  std::string output;
  try {
    std::string bytes;
    if (!tools::ReadStandardInput(bytes)) return 1;
    const std::string_view format = argv[1];
    output = format == tools::kUnpack   ? tools::WriteUnpacked(tools::Unpack(bytes))
             : format == tools::kMsgRtf ? tools::WriteUnpacked(tools::ReadMsgRtf(bytes))
                                        : tools::WriteExtracted(tools::Extract(format, bytes));
  } catch (const std::bad_alloc&) {
    return tools::kOutOfMemoryStatus;
  }
  const bool is_written = std::fwrite(output.data(), 1, output.size(), stdout) == output.size();
  return is_written && std::fflush(stdout) == 0 ? 0 : 1;
}
