// Makes the entries of tables of contents whole: a number, a title, leader dots and a page number,
// which pdftotext takes for columns. page_layout.h uses it.
#ifndef LECTERN_TOOLS_INGEST_LEADER_LINES_H_
#define LECTERN_TOOLS_INGEST_LEADER_LINES_H_

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// On a page with three whole entries or more, puts the parts left and right of leader dots at
// the same height into one line (PdfLine::is_entry), and does the same for entries without dots
// whose page number ends where those of the others do, such as chapters. Dots that touch a title or
// a number are parted from it. Leader dots become "....". Unless entries stand beside each other,
// those that follow each other become one block, from top to bottom. Other pages stay as they are.
// Any thread.
void JoinLeaderLines(PdfPage& page);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_LEADER_LINES_H_
