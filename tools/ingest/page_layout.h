// Turns the words of one page of a PDF into lines of text in reading order: tables by row,
// footnotes last, right-to-left scripts as they are typed. document_text.h joins the lines of all
// pages.
#ifndef LECTERN_TOOLS_INGEST_PAGE_LAYOUT_H_
#define LECTERN_TOOLS_INGEST_PAGE_LAYOUT_H_

#include <string>
#include <vector>

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// Names the text between a line and the line before it on the page.
enum class LineBreak : uint8_t {
  kParagraph,  // an empty line: another block of the page
  kLine,       // a newline, which the author meant: a list, an address, a row of a table
  kWrap,       // a space: the layout broke the line because the next word did not fit
  kCell,       // " | ": the next cell of a row
};

struct LaidOutLine {
  std::string text;  // UTF-8 in logical order; empty: an empty cell
  LineBreak before = LineBreak::kParagraph;
  PdfBox box;
  // The layout broke the line: the words behind it, in whatever block, may belong to its paragraph.
  bool is_full = false;
  bool is_footnote = false;
  bool is_in_table = false;
};

// Returns the page's lines; the first one's `before` is kParagraph. Words of white space alone are
// left out. Any thread.
//
// Lines of a block are wrapped where the next word would not have fitted behind the line before.
// Why they are joined at all: passages are sentences within a line. The bundled reader was asked
// 120 questions about four documents of 3K tokens, typeset on 65 columns:
//
//   text                        answers right   first passage holds the answer
//   every line of its own            55               55 of 91
//   lines joined as above            71               75
//   before it was typeset            73               77
std::vector<LaidOutLine> LayOutPage(PdfPage page);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_PAGE_LAYOUT_H_
