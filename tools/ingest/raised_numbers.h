// Puts raised and lowered numbers to the word that they belong to. pdftotext prints them as words
// of their own, so that "10⁸ m²" would be "10 8 m 2", a note's mark behind a value a second number,
// and "H₂O" three words. bbox_text.h uses it.
#ifndef LECTERN_TOOLS_INGEST_RAISED_NUMBERS_H_
#define LECTERN_TOOLS_INGEST_RAISED_NUMBERS_H_

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// Joins smaller words of a line with the word that they touch: a raised number in raised digits
// ("10⁸", "umstritten.¹"), the letters of an ordinal ("19th"), a lowered number behind letters as
// it is ("H2O"), and what follows such a number without a gap. Words of right-to-left letters stay.
// Any thread.
void JoinRaisedNumbers(PdfPage& page);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_RAISED_NUMBERS_H_
