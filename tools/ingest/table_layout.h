// Finds tables on a page of a PDF by the places of its words: rows of short texts with the same
// empty strips between them. pdftotext itself reads a table column by column. page_layout.h uses
// it.
#ifndef LECTERN_TOOLS_INGEST_TABLE_LAYOUT_H_
#define LECTERN_TOOLS_INGEST_TABLE_LAYOUT_H_

#include <cstddef>
#include <span>
#include <vector>

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// Neighbouring words of one line of a page, without a wide gap between them.
struct WordRun {
  size_t line = 0;                  // index in PdfPage::lines
  size_t first = 0, num_words = 0;  // in the line's words
  PdfBox box;
  // How many words a reader would count: scripts without spaces have more than `num_words`.
  size_t num_read = 0;
};

// The lines of text in a cell, from the top; empty: the cell has no text.
using TableCell = std::vector<WordRun>;

struct PdfTable {
  std::vector<std::vector<TableCell>>
      rows;  // from the top; cells from the left, as many in each row
  // Its columns are read one after the other: addresses beside each other.
  bool is_by_column = false;
  // Lines of a program, whose parts are aligned by spaces: they are no cells.
  bool is_program_text = false;
};

// Returns the tables of a page, none of which share words. Columns of prose, lists, program
// text, formulas and tables of contents with dot leaders are none.
//
// `gutters` are places between columns of text, in points from the left, ascending; no table lies
// across one. Time is proportional to the number of words, but for sorting; pages with more than
// 2^16 words are not searched. Any thread.
std::vector<PdfTable> FindTables(const PdfPage& page, std::span<const double> gutters = {});

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_TABLE_LAYOUT_H_
