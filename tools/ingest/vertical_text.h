// Recognises pages of Japanese and Chinese that are set in vertical lines, and turns them so that
// they are read as other pages are. page_layout.h uses it.
#ifndef LECTERN_TOOLS_INGEST_VERTICAL_TEXT_H_
#define LECTERN_TOOLS_INGEST_VERTICAL_TEXT_H_

#include <optional>
#include <vector>

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// Turns a page whose text runs from the top to the bottom, in lines from the right to the left: its
// coordinates become those of the page turned by a quarter to the left, so that lines run from left
// to right; each line is one word, and paragraphs are blocks. Lines that run from left to right
// above and below the text (running heads) stay lines at the head and the foot. Readings beside the
// characters (ruby) are left out.
//
// Returns the middles of the gutters between tiers of text, in points from the left of the turned
// page, ascending. std::nullopt, with the page as it was: its text is not vertical, or has fewer
// than twelve characters. pdftotext prints vertical text as rows of single characters, which is how
// it is told: down the page they are nearer to each other than across it. Time is proportional to
// the number of words, but for sorting. Any thread.
std::optional<std::vector<double>> TurnVerticalText(PdfPage& page);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_VERTICAL_TEXT_H_
