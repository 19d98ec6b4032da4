// Puts words of right-to-left lines together that pdftotext parts at vowel points, before tables
// and columns are looked for. page_layout.h uses it.
#ifndef LECTERN_TOOLS_INGEST_MARKED_WORDS_H_
#define LECTERN_TOOLS_INGEST_MARKED_WORDS_H_

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// pdftotext begins a new word where a mark stands far from the edge of its letter, and takes the
// mark's place for that edge, so that the gap beside a marked letter does not tell whether there is
// a space. The widths of the page's letters do, which its other words show.
//
// Changes lines whose words with right-to-left letters have marks; words stand from left to right
// in their lines. Afterwards a word of such a line is a whole one, and gaps that were spaces are as
// wide as those of the line. `has_marks_behind`: MarkCounts::AreBehind of the page. Any thread.
void JoinMarkedWords(bool has_marks_behind, PdfPage& page);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_MARKED_WORDS_H_
