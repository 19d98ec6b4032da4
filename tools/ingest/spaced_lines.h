// Makes paragraphs whole whose lines stand far apart, as in double-spaced drafts, judgements and
// theses: pdftotext takes each of their lines for a block. page_layout.h uses it.
#ifndef LECTERN_TOOLS_INGEST_SPACED_LINES_H_
#define LECTERN_TOOLS_INGEST_SPACED_LINES_H_

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// Joins blocks of which the second one goes on with the paragraph of the first one. The sentences
// that go on from one line to the next one tell how far apart the lines of the page's paragraphs
// are: a full line without a stop, and below it a line that begins with a small letter. Blocks are
// joined where
//
//   - at least two sentences go on at the same distance, half as many as at smaller distances, and
//     hardly any of them behind a line that is not full,
//   - the upper block ends in a full line, and
//   - the lower one begins at the margin.
//
// Lines keep their order. For scripts from left to right. Linear time. Any thread.
void JoinSpacedLines(PdfPage& page);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_SPACED_LINES_H_
