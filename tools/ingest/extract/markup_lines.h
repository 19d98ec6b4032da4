// Helps the readers of light markup (reStructuredText, AsciiDoc, Org) to write headings and code as
// Markdown has them, which the index knows. All other lines stay as they are.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_MARKUP_LINES_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_MARKUP_LINES_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/ingest/extract/text_builder.h"

namespace lectern::tools {

// The lines of a text without their ends (LF, CR LF or CR) and without white space before those.
std::vector<std::string_view> MarkupLines(std::string_view text);

// The number of characters of a line of UTF-8.
size_t NumCharacters(std::string_view line);

// One document's text as it grows, line by line. One thread.
class MarkupWriter {
 public:
  // "## Title" between empty lines; deeper levels than 6 are of level 6. A title without text is
  // left out.
  void Heading(int level, std::string_view title);
  void Line(std::string_view line);
  // Code between empty lines and fences of Markdown.
  void Code(std::span<const std::string_view> lines);
  // Moves the result out; call it last.
  Extracted Finish();

 private:
  void Gap();

  std::string text_;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_MARKUP_LINES_H_
