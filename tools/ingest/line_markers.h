// Puts the number of a heading, and the bullet of a list's item, before its text again where
// pdftotext took the gap between them for one between columns. page_layout.h uses it.
#ifndef LECTERN_TOOLS_INGEST_LINE_MARKERS_H_
#define LECTERN_TOOLS_INGEST_LINE_MARKERS_H_

#include <string_view>

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// Whether a word begins an item of a list: a bullet, "1.", "(a)".
bool IsListMarker(std::string_view word);

// Moves each line that is a section's number or a list marker alone, of a block that has nothing
// else, to the front of the line that stands beside it on the right, at most 4 line heights away. A
// number without a stop ("2") must stand near a line in the same font that begins with a capital,
// and the raised mark of a note right before the note. Any thread.
void JoinMarkers(PdfPage& page);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_LINE_MARKERS_H_
