// Puts headings directly before the text below them: where articles stand beside each other,
// pdftotext prints all their headings, which stand in one row, and then the articles.
// page_layout.h uses it.
#ifndef LECTERN_TOOLS_INGEST_COLUMN_HEADINGS_H_
#define LECTERN_TOOLS_INGEST_COLUMN_HEADINGS_H_

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// Moves each block of a few lines in large letters directly before the block of text that begins
// close below it in its column, wherever it stands in the page's order. A heading above several
// columns goes before the first of them from the left. Pages without columns beside each other
// stay as they are. Any thread.
void MoveHeadings(PdfPage& page);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_COLUMN_HEADINGS_H_
