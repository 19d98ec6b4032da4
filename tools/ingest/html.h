// Extracts the text of a page's main content from HTML.
#ifndef LECTERN_TOOLS_INGEST_HTML_H_
#define LECTERN_TOOLS_INGEST_HTML_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "engine/lectern.h"

namespace lectern::tools {

struct HtmlOptions {
  std::string name = "the page";              // in messages
  std::function<bool()> is_cancelled = {};    // may be empty
  uint64_t most_bytes = uint64_t{64} << 20;   // of HTML
  uint64_t memory_bytes = uint64_t{1} << 30;  // of its tree: some HTML grows when it is read
  double seconds = 30;                        // and some takes long
};

// Returns HTML in UTF-8. The encoding is told by the byte order mark, by the declaration in the
// first 4,096 bytes, or else by the bytes: UTF-8 if they are that, windows-1252 if not. Declared
// latin-1 is windows-1252, as everywhere; other encodings are INVALID_ARGUMENT by name. Bytes that
// are no UTF-8 become U+FFFD.
api::Result<std::string> DecodeHtml(std::string_view bytes, const HtmlOptions& options);

// Returns the part of a page that a reader came for. Scripts, styles and hidden elements are left
// out; so are nav, aside, header and footer (those of an article stay) and forms, unless these hold
// most of the page. The main element of the rest is taken, else the article that has half of it,
// else the innermost block that has four fifths of the text outside links. Blocks are lines,
// paragraphs, headings, lists and tables stand between empty lines, list items begin with "- " or
// their number, cells are parted by " | ", pre is kept. Valid UTF-8. EMPTY_DOCUMENT,
// INVALID_ARGUMENT (DecodeHtml), LIMIT_EXCEEDED, CANCELLED; param "file".
api::Result<std::string> ReadHtml(std::string_view bytes, const HtmlOptions& options);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_HTML_H_
