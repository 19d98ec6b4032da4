// Puts the first letter of a paragraph before its word again where it is set several lines high
// (a drop capital), which pdftotext takes for a block of its own. page_layout.h uses it.
#ifndef LECTERN_TOOLS_INGEST_DROP_CAPITALS_H_
#define LECTERN_TOOLS_INGEST_DROP_CAPITALS_H_

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// Joins a single capital letter, with or without a quotation mark, to the first word of the line
// beside its top, if two or more lines begin right behind it one below the other, and the letter
// ends near the baseline of the last of them. For scripts from left to right. Any thread; linear
// time, but for sorting.
void JoinDropCapitals(PdfPage& page);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_DROP_CAPITALS_H_
