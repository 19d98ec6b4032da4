// Turns pages whose text runs up or down the page, such as a wide table that is printed sideways,
// so that they are read as other pages are. page_layout.h uses it.
#ifndef LECTERN_TOOLS_INGEST_SIDEWAYS_PAGE_H_
#define LECTERN_TOOLS_INGEST_SIDEWAYS_PAGE_H_

#include <vector>

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// Turns the coordinates of a page by a quarter if most of its characters stand in words that are
// higher than wide. Words of a line then go from left to right. Pages that are mostly upright stay
// as they are, and so do upright words of a sideways page but for their places. Any thread.
void TurnSidewaysPage(PdfPage& page);

// Takes the lines out of an upright page that run up or down in its margin, as arXiv's stamp does,
// so that they do not stand in the middle of the text. Any thread.
std::vector<PdfLine> TakeSidewaysStamps(PdfPage& page);
// Puts them before the last paragraph of the page that begins behind a stop, each as a block of its
// own, or else behind all lines: the last paragraph may go on on the next page.
void InsertStamps(std::vector<PdfLine> stamps, PdfPage& page);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_SIDEWAYS_PAGE_H_
