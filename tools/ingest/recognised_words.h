// Reads the words that Tesseract recognised on the image of a page. page_recognition.h uses it.
#ifndef LECTERN_TOOLS_INGEST_RECOGNISED_WORDS_H_
#define LECTERN_TOOLS_INGEST_RECOGNISED_WORDS_H_

#include <optional>
#include <string_view>

#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// Reads the table that `tesseract … tsv` prints, as a page: its paragraphs are blocks. Places are
// multiplied by `scale`. Words of white space alone and control characters are left out. Nothing:
// these are other bytes, or more than 2^17 words. Any bytes will do.
std::optional<PdfPage> ParseRecognisedWords(std::string_view table, double scale);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_RECOGNISED_WORDS_H_
