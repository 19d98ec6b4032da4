// Puts the lines of a page's columns one after the other where pdftotext goes to and fro between
// them, as it does with reference cards: many short sections beside each other. page_layout.h uses
// it.
#ifndef LECTERN_TOOLS_INGEST_COLUMN_ORDER_H_
#define LECTERN_TOOLS_INGEST_COLUMN_ORDER_H_

#include <vector>

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// Orders the blocks of a page by its columns, from the left, and those of a column from the top.
// Blocks that lie across a gutter between columns part the page in an upper and a lower half, which
// stand one after the other. It does so where an empty gutter runs down the page, both of its
// sides are wide and high and have about as many lines, most lines have no neighbour on the same
// baseline beyond the gutter (the lines of a table have), and pdftotext's order goes back over the
// gutter twice or more; else the page stays as it is. Lines of a block stay neighbours. Returns the
// middles of the gutters, in points from the left, ascending; none: the page stays as it is. Any
// thread.
std::vector<double> OrderColumns(PdfPage& page);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_COLUMN_ORDER_H_
