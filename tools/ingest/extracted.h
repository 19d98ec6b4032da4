// The result of reading an office file, a book or a mail, and the form in which the program
// lectern-extract hands it to the process that started it.
#ifndef LECTERN_TOOLS_INGEST_EXTRACTED_H_
#define LECTERN_TOOLS_INGEST_EXTRACTED_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lectern.h"
#include "tools/ingest/limited_child.h"

namespace lectern::tools {

// The text of a document in UTF-8, and the positions in it.
struct Extracted {
  std::string text;                 // ends with a newline; valid UTF-8
  std::vector<lectern_page> pages;  // pages that have text, ascending; empty: it has no pages
  uint64_t num_pages = 0;           // all of them, at least pages.size()
  std::string note;                 // for the user: parts that were left out or assumed, or empty
};

// The exit status of lectern-extract where it got no more memory.
inline constexpr int kOutOfMemoryStatus = 3;

// Writes a result or an error as bytes that ParseExtracted reads.
std::string WriteExtracted(api::Result<Extracted> result);

// The same for the bytes of a compressed file, which may be any; ReadUnpacked reads them.
std::string WriteUnpacked(api::Result<std::string> result);

// lectern-extract is told this instead of a format to write the bytes of a compressed file.
inline constexpr std::string_view kUnpack = "unpack";

// lectern-extract is told this to write the RTF in a message of Outlook, in the same form.
inline constexpr std::string_view kMsgRtf = "msg-rtf";
// How the note of the format "msg" begins where the message's own text is there in RTF alone.
inline constexpr std::string_view kRtfAlone = "the text is there in RTF alone, and is left out";

// Reads those bytes; nothing where they are any others: text that is not valid UTF-8, pages that do
// not ascend or lie behind the text, an unknown error code, something behind the end. Any bytes
// will do.
std::optional<api::Result<Extracted>> ParseExtracted(std::string_view bytes);

struct ExtractOptions {
  std::string name = "the file";            // how messages call the file
  std::function<bool()> is_cancelled = {};  // asked about every 50 ms; may be empty
  std::string program = {};                 // empty: lectern-extract, by LibexecProgram
  std::optional<ChildLimits> limits = {};   // nothing: by the file's size, as for a PDF
};

// Reads a file of a format ("docx", a name of ParseFormat) in a process of its own with limits, for
// its parsers meet bytes that nobody vouches for. Any thread. Errors, with the param "file":
//
// NOT_FOUND         there is no lectern-extract (param "lectern-extract")
// INVALID_ARGUMENT  the file is damaged, of another format, or asks for a password
// EMPTY_DOCUMENT    it has no text
// LIMIT_EXCEEDED    it takes too long, unpacks to too much, needs much more memory than a file of
//                   its size, or has too much text
// IO_ERROR          the program could not be started, or is another one
// CANCELLED         options.is_cancelled said so
api::Result<Extracted> ReadExtracted(std::string_view bytes, const std::string& format,
                                     const ExtractOptions& options);

// Returns the bytes that a compressed file holds ("notes.txt.gz"; extract/unpack.h), which a
// process of its own decompresses with the same limits. Any thread. Errors: the same but
// EMPTY_DOCUMENT.
api::Result<std::string> ReadUnpacked(std::string_view bytes, const ExtractOptions& options);

// Returns the RTF of the text of a message of Outlook, likewise; empty: it has none.
api::Result<std::string> ReadMessageRtf(std::string_view bytes, const ExtractOptions& options);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACTED_H_
