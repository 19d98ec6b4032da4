// Vowel points and other marks of letters that are written from right to left, in text in visual
// order, as pdftotext prints it. visual_order.h and marked_words.h use it.
#ifndef LECTERN_TOOLS_INGEST_LETTER_MARKS_H_
#define LECTERN_TOOLS_INGEST_LETTER_MARKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

using Characters = std::vector<uint32_t>;

inline constexpr uint32_t kLam = 0x644, kAlef = 0x627, kHeh = 0x647;
// Alef, and alef with madda or hamza above or below.
inline bool IsAlef(uint32_t character) {
  return character == kAlef || character == 0x622 || character == 0x623 || character == 0x625;
}

bool IsRightToLeftLetter(uint32_t character);
bool HasLetterFromRight(const Characters& characters);
bool IsMark(uint32_t character);

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

// Moves words that are marks alone (vowel points and tone marks that pdftotext took for words) into
// the words that they stand on, and empties them. `parts` are the characters of `words`, which
// stand from left to right in one line; `is_behind` is MarkCounts::AreBehind. Any thread.
void AttachMarks(const std::vector<PdfWord>& words, bool is_behind, std::vector<Characters>& parts);

// Whether a line's letters were drawn one by one: most words with right-to-left letters hold one
// letter. Its marks, and the letters of a ligature, are then in logical order already. Any thread.
bool IsDrawnByLetter(const std::vector<Characters>& words);

// Puts the characters of one glyph, which are in logical order, into visual order, with the marks
// where the line has them. Any thread.
void TurnGlyph(bool is_behind, Characters& glyph);

// Puts marks that stand behind their Hebrew letters before them: LibreOffice draws a letter of
// which its font has one glyph with the mark in logical order, among marks that stand before
// theirs. Shin dots belong to a shin, holam and dagesh behind a vav mostly to it. Any thread.
void TurnHebrewGlyphs(Characters& word);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_LETTER_MARKS_H_
