// Finds the parts of a page that are set in a few short columns of prose, which pdftotext reads to
// and fro and which look like the rows of a table, and puts their columns one after the other.
// page_layout.h uses it; column_order.h does the same for columns that run down a whole page.
#ifndef LECTERN_TOOLS_INGEST_COLUMN_SECTIONS_H_
#define LECTERN_TOOLS_INGEST_COLUMN_SECTIONS_H_

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// Orders the lines of each section of columns by column, from the left, and gives each column an
// area of its own (PdfLine::area) and a block for each of its paragraphs. A section has two to four
// columns of about one width that begin at one height; their lines are wrapped, one paragraph
// follows the other, and the gap between paragraphs, if there is one, is the same in all of them.
// The cells of a table leave other gaps as soon as one of them has more lines than the cell beside
// it. Lines of a block stay neighbours. Time is proportional to the number of words, but for
// sorting. Any thread.
void OrderSections(PdfPage& page);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_COLUMN_SECTIONS_H_
