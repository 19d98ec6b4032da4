// Cuts a text into lines and measures them: indentation, quote marks, width, blank lines and page
// breaks between them. From this the blocks of a document are found (text_blocks.h).
#ifndef LECTERN_ENGINE_DOCUMENT_TEXT_LINES_H_
#define LECTERN_ENGINE_DOCUMENT_TEXT_LINES_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "store/shard_format.h"

namespace lectern {

// Columns of a character: two for an East Asian wide one, else one.
uint32_t CharColumns(uint32_t c);

// A line that is not blank. Columns are those of CharColumns; a tab goes to the next multiple of 8.
struct TextLine {
  uint64_t begin = 0, end = 0;  // bytes without indentation, quote marks and space at the end
  uint32_t indent = 0;          // columns before `begin`, behind the quote marks
  uint32_t width = 0;           // columns from behind the quote marks to `end`
  uint32_t first_word = 0;  // columns of the first word, or character where no spaces part words
  uint16_t quotes = 0;      // number of ">" before the line, as mail and Markdown quote
  // A blank line, a form feed or U+2029 stands before it, or nothing.
  bool is_after_blank = false;
  // A page begins between the line before and this one, or with it; false for the first line.
  bool is_after_page = false;
  // A running head or foot between two pages: no part of a paragraph that runs over the break.
  bool is_page_edge = false;

  std::string_view In(std::string_view text) const { return text.substr(begin, end - begin); }
};

// Lines end with LF, CR, CRLF, form feed, vertical tab, U+0085, U+2028 and U+2029. A form feed and
// an entry of `pages` (ascending) begin a page. Any bytes will do; linear time.
std::vector<TextLine> ScanLines(std::string_view text, std::span<const PageMapEntry> pages);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_TEXT_LINES_H_
