// Extracts the text of a web page's main content from its HTML, without menus, footers and scripts,
// for index-document and the server.
#ifndef LECTERN_TOOLS_INGEST_HTML_H_
#define LECTERN_TOOLS_INGEST_HTML_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "engine/lectern.h"
#include "tools/ingest/text_encoding.h"

namespace lectern::tools {

// Limits are there because HTML comes from anywhere: some grows much when it is parsed, and some
// takes long.
struct HtmlOptions {
  std::string name = "the page";              // how messages call the page
  std::string encoding = "auto";              // or a name for DecodeText
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

// Returns the HTML in valid UTF-8. The encoding is options.encoding; where that is "auto", it is
// told by the byte order mark, else by a declaration in the first 4,096 bytes (<?xml encoding=…?>,
// <meta charset=…>), read as browsers read it (EncodingOfLabel), else by the bytes (DecodeText). A
// declaration that the bytes contradict is ignored: of UTF-8 where they are not, of latin-1 or
// windows-1252 where they are UTF-8, of any other that makes them invalid while they are UTF-8. The
// note says so only where an encoding was assumed. LIMIT_EXCEEDED (param "file"): more than
// most_bytes. INVALID_ARGUMENT (param "encoding"): nobody knows options.encoding. It reads no other
// options than these two and `name`.
api::Result<DecodedText> DecodeHtml(std::string_view bytes, const HtmlOptions& options);

// Returns the text of the part of a page that a reader came for.
//
// Left out: scripts, styles and hidden elements always; nav, aside, header and footer (but those of
// an article stay) and forms, unless they hold all or most of the page. From the rest it takes the
// main element, else the article that has half of it, else the innermost block that has four fifths
// of the text outside of links.
//
// In the text, blocks are lines; paragraphs, headings, lists and tables stand between empty lines;
// list items begin with "- " or their number, as start, value, type and reversed say; pre is kept
// as it is. Cells are parted by " | ", empty ones too; one that spans rows is said in each, and one
// that spans columns in each where it is short and has a neighbour. Images say their alt text
// (ImageText), formulas their source or their parts in a line; raised numbers stay raised ("10²").
//
// Valid UTF-8, ending with a newline. Any thread. EMPTY_DOCUMENT: nothing is shown without scripts.
// Errors of DecodeHtml. LIMIT_EXCEEDED: parsing that takes longer than `seconds`, or a tree beyond
// memory_bytes or the machine's memory. CANCELLED. The param is "file".
api::Result<std::string> ReadHtml(std::string_view bytes, const HtmlOptions& options);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_HTML_H_
