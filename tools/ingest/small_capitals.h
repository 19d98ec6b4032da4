// Puts words in small capitals together again: pdftotext prints "I NTRODUCTION" where a capital in
// one size is followed by capitals in a smaller one. bbox_text.h uses it.
#ifndef LECTERN_TOOLS_INGEST_SMALL_CAPITALS_H_
#define LECTERN_TOOLS_INGEST_SMALL_CAPITALS_H_

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// Joins neighbouring words of a line that touch each other, stand on one baseline and have letters
// of two sizes, if both are made of capitals, digits and punctuation, or the first one is a large
// capital and the second one begins with two small letters. Raised and lowered signs stay: they
// stand on another baseline, and indices, which seem to stand on the same one in some fonts, are
// numbers or single letters. Linear time. Any thread.
void JoinSmallCapitals(PdfPage& page);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_SMALL_CAPITALS_H_
