// Puts a short text at the right margin back into the line that it ends: the years of a post in a
// curriculum vitae, the price of a dish. pdftotext takes such texts for a column of their own.
// page_layout.h uses it.
#ifndef LECTERN_TOOLS_INGEST_LINE_TAILS_H_
#define LECTERN_TOOLS_INGEST_LINE_TAILS_H_

#include <cstddef>
#include <vector>

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// A line at the right margin, and the line on its left that it ends; indexes of page.lines.
struct LineTail {
  size_t tail = 0, line = 0;
};

// The tails of a page, two or more: short lines with one right edge, in blocks that hold nothing
// else, each beside one line alone. Time: n log n. Any thread.
std::vector<LineTail> TailsOf(const PdfPage& page);

// Moves the words of tails to the ends of their lines, which are then lines of their own
// (is_entry). Tails that `is_taken` (by line) says are in tables, or whose lines are, stay.
void JoinTails(const std::vector<LineTail>& tails, const std::vector<bool>& is_taken,
               PdfPage& page);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_LINE_TAILS_H_
