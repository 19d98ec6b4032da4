// Extracts text and pages from a PDF, with poppler's pdftotext in a process of its own.
#ifndef LECTERN_TOOLS_INGEST_PDF_H_
#define LECTERN_TOOLS_INGEST_PDF_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "engine/lectern.h"
#include "tools/ingest/bbox_text.h"
#include "tools/ingest/limited_child.h"

namespace lectern::tools {

struct PdfOptions {
  std::string name = "the PDF";             // in messages
  std::function<bool()> is_cancelled = {};  // asked at least every 50 ms; may be empty
  std::string pdftotext = "pdftotext";      // the program
  std::optional<ChildLimits> limits = {};   // else LimitsFor
};

// 20 s of processor time and 10 s for each MiB (a page of prose takes 3 ms), at most 10 minutes.
ChildLimits LimitsFor(uint64_t pdf_bytes);

// The text of a PDF. Its errors have the param "file", but for the first:
// NOT_FOUND         there is no pdftotext (param "pdftotext"); the message says what to install
// INVALID_ARGUMENT  it asks for a password; it is damaged, or pdftotext died of it
// EMPTY_DOCUMENT    it has no text: a scan
// LIMIT_EXCEEDED    it takes too long, or has too much text
// IO_ERROR          pdftotext could not be started, or is another program
// CANCELLED
api::Result<PagedText> ReadPdf(std::string_view pdf, const PdfOptions& options);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_PDF_H_
