// Tells program text in a page of other text by its font: one width for all characters.
// table_layout.h and page_layout.h use it.
#ifndef LECTERN_TOOLS_INGEST_MONOSPACED_TEXT_H_
#define LECTERN_TOOLS_INGEST_MONOSPACED_TEXT_H_

#include <vector>

#include "tools/ingest/table_layout.h"

namespace lectern::tools {

// The widths of the characters of one page, which must outlive this. Any thread.
class MonospacedText {
 public:
  explicit MonospacedText(const PdfPage& page);
  // The mean width of a word's characters, in points; 0: it has none.
  static double CharacterWidth(const PdfWord& word);
  // Whether all words of the rows have characters of one width, at least six of them have letters,
  // and most words of the page that have letters have not: a page in one monospaced font may have
  // tables.
  bool Holds(const std::vector<std::vector<TableCell>>& rows) const;
  // Whether the lines [begin, end) of the page are program text in a page of other text: the same
  // of all their words, of which two have letters, and a line of the page has letters of several
  // widths.
  bool HoldsLines(size_t begin, size_t end) const;

 private:
  class Widths;
  // Whether widths are one, and that of the fewer words of the page.
  bool AreOfProgram(const Widths& widths, size_t least_words) const;

  const PdfPage& page_;
  std::vector<double> widths_;  // of a character, of each word with letters, ascending
  bool has_proportional_ = false;  // a line with characters of several widths
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_MONOSPACED_TEXT_H_
