// Extracts the text of RTF files with the program unrtf in a process of its own (limited_child.h).
#ifndef LECTERN_TOOLS_INGEST_RTF_H_
#define LECTERN_TOOLS_INGEST_RTF_H_

#include <functional>
#include <string>
#include <string_view>

#include "engine/lectern.h"

namespace lectern::tools {

struct RtfOptions {
  std::string name = "the file";            // how messages call it
  std::function<bool()> is_cancelled = {};  // asked about every 50 ms; may be empty
  std::string unrtf = "unrtf";              // the program, by name (PATH) or path
};

struct RtfText {
  std::string text;  // valid UTF-8, ending with a newline
  std::string note;  // what was left out; or empty
};

// Returns the text: paragraphs between empty lines, headings as in Markdown, tables as in html.h,
// notes behind the paragraph that refers to them. Any thread. Errors,
// with the param "file" but for the first: NOT_FOUND: there is no unrtf (param "unrtf").
// INVALID_ARGUMENT: it dies of the file or complains. LIMIT_EXCEEDED: it takes too long or prints
// too much. IO_ERROR: it cannot be started. CANCELLED. Those of ReadHtml for unrtf's output.
api::Result<RtfText> ReadRtf(std::string_view rtf, const RtfOptions& options);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_RTF_H_
