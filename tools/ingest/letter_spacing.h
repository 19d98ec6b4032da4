// Puts words together again whose letters a PDF places singly: pdftotext prints each letter, or
// each few of them, as a word where letters stand further apart than usual ("C H A P T E R"), or
// where rounded places make the gaps between them uneven. bbox_text.h uses it.
#ifndef LECTERN_TOOLS_INGEST_LETTER_SPACING_H_
#define LECTERN_TOOLS_INGEST_LETTER_SPACING_H_

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// Joins the letters of words that fell apart, in lines of Latin, Greek, Cyrillic, Armenian and
// Georgian text. Lines that pdftotext made of the words of one letter-spaced line become one line
// again. Which gaps stand between words is told by the gaps of the line itself, or, where a line
// has too few of them, by those of the page's other lines of the same size. Lines whose letters are
// meant to stand alone stay: variables of formulas, marks in tables, lists of letters. Any thread.
void JoinLetters(PdfPage& page);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_LETTER_SPACING_H_
