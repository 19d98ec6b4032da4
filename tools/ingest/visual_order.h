// Turns words in visual order, as pdftotext prints their boxes, into text in logical order: the
// order in which Hebrew, Arabic and Persian are typed and searched. page_layout.h uses it.
#ifndef LECTERN_TOOLS_INGEST_VISUAL_ORDER_H_
#define LECTERN_TOOLS_INGEST_VISUAL_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// How many letters of a text are written from right to left, and from left to right.
struct LetterCounts {
  size_t right_to_left = 0, left_to_right = 0;

  // Whether a paragraph with these letters runs from right to left.
  bool IsRightToLeft() const { return right_to_left > 0 && right_to_left >= left_to_right; }
};

// Adds the letters of `text`, which may be in either order, to `counts`. Any thread.
void CountLetters(std::string_view text, LetterCounts& counts);

struct LineDirection {
  bool is_right_to_left = false;  // how the paragraph runs
  bool has_marks_behind = false;  // MarkCounts::AreBehind of the page (letter_marks.h)
};

// Whether two neighbouring words have less than a space between them.
bool Touch(const PdfWord& left, const PdfWord& right);

// Returns the text of neighbouring words, from left to right, of one line: joined by spaces, in
// logical order, in plain letters (letter_forms.h), without spaces at its ends. Brackets come out
// as they would be typed. Parts of words that touch each other in lines with right-to-left letters
// (programs draw such letters one by one) are joined without a space, as are those of scripts
// without spaces, and Han, kana or Hangul beside digits and Latin letters.
//
// Ambiguous places: a Latin word and a number beside it in a right-to-left line stay in the order
// in which they are seen ("Windows 10"). Lam-alef ligatures without a character of their own, which
// pdftotext reports as two letters, are recognised only where the wrong order would not be Arabic.
// Any thread.
std::string LogicalText(const std::vector<PdfWord>& words, const LineDirection& direction);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_VISUAL_ORDER_H_
