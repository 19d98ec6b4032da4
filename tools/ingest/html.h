// Extracts the text of a web page's main content from its HTML, without menus, footers and scripts,
// for index-document and the server.
#ifndef LECTERN_TOOLS_INGEST_HTML_H_
#define LECTERN_TOOLS_INGEST_HTML_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "engine/lectern.h"

namespace lectern::tools {

// Limits are there because HTML comes from anywhere: some grows much when it is parsed, and some
// takes long.
struct HtmlOptions {
  std::string name = "the page";              // how messages call the page
  // Asked now and then while parsing, on the calling thread; may be empty. May not throw: it is
  // called from C code.
  std::function<bool()> is_cancelled = {};
  uint64_t most_bytes = uint64_t{64} << 20;   // of the HTML
  uint64_t memory_bytes = uint64_t{1} << 30;  // of the tree; below 1 MiB every page is too large
  double seconds = 30;                        // of parsing, by the clock
  // Whether the whole body is the content, with what else counts as a menu, a head or a foot: for
  // books and mails, which have none.
  bool keeps_all = false;
  bool marks_headings = false;  // h1 to h6 begin with "# " to "###### ", as in Markdown
};

// Returns the HTML in UTF-8. The encoding is told by the byte order mark, else by a declaration in
// the first 4,096 bytes (<?xml encoding=…?>, <meta charset=…>), else by the bytes: UTF-8 if they
// are valid UTF-8, windows-1252 if not. Declared latin-1 and ASCII are read as windows-1252, as
// browsers do (encoding.spec.whatwg.org). Bytes that are no UTF-8 become U+FFFD; a byte order mark
// of UTF-8 stays. INVALID_ARGUMENT (param "file"): another encoding, which the message names;
// UTF-16 is known by its byte order mark. The only option that it reads is `name`.
api::Result<std::string> DecodeHtml(std::string_view bytes, const HtmlOptions& options);

// Returns the text of the part of a page that a reader came for.
//
// Left out: scripts, styles and hidden elements always; nav, aside, header and footer (but those of
// an article stay) and forms, unless they hold all or most of the page. From the rest it takes the
// main element, else the article that has half of it, else the innermost block that has four fifths
// of the text outside of links.
//
// In the text, blocks are lines; paragraphs, headings, lists and tables stand between empty lines;
// list items begin with "- " or their number; cells are parted by " | "; pre is kept as it is.
//
// Valid UTF-8, ending with a newline. Any thread. EMPTY_DOCUMENT: nothing is shown without scripts.
// INVALID_ARGUMENT: the encoding (DecodeHtml). LIMIT_EXCEEDED: more than most_bytes, parsing that
// takes longer than `seconds`, or a tree beyond memory_bytes or the machine's memory. CANCELLED.
// The param is "file".
api::Result<std::string> ReadHtml(std::string_view bytes, const HtmlOptions& options);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_HTML_H_
