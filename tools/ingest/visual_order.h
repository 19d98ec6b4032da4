// Turns words in visual order, as pdftotext prints their boxes, into text in logical order: the
// order in which Hebrew, Arabic and Persian are typed and searched. page_layout.h uses it.
#ifndef LECTERN_TOOLS_INGEST_VISUAL_ORDER_H_
#define LECTERN_TOOLS_INGEST_VISUAL_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
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

// How many words with right-to-left letters show that marks (vowel points) stand before the letters
// that they belong to as these are drawn from left to right (LibreOffice), and how many that they
// stand behind them (Chromium): at an end of a word, or beside a letter that has no such mark, only
// one of the two is possible.
struct MarkCounts {
  size_t before = 0, behind = 0;

  bool AreBehind() const { return behind > before; }
};

// Adds the words of a line, from left to right, to `counts`. Any thread.
void CountMarks(const std::vector<PdfWord>& words, MarkCounts& counts);

// The widths of letters that were drawn alone, in heights of their line. The box of a letter whose
// mark was drawn before it begins where the mark does, so that its width tells less than the
// distance between the right ends of two letters.
using LetterWidths = std::map<uint32_t, double>;

// Adds the letters of a line, whose words stand from left to right, to `widths`: the least of the
// widths that may be theirs. Any thread.
void CountLetterWidths(const std::vector<PdfWord>& words, LetterWidths& widths);

struct LineDirection {
  bool is_right_to_left = false;         // how the paragraph runs
  bool has_marks_behind = false;         // MarkCounts::AreBehind of the page
  const LetterWidths* widths = nullptr;  // of the page's letters; nullptr: they are not known
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
