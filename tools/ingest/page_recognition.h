// Recognises the text of a PDF's page from its image (OCR): pdftoppm draws the page, Tesseract
// reads it, each in a process of its own with limits (limited_child.h). For scans, and for pages
// whose fonts have no Unicode values. pdf.h uses it.
#ifndef LECTERN_TOOLS_INGEST_PAGE_RECOGNITION_H_
#define LECTERN_TOOLS_INGEST_PAGE_RECOGNITION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lectern.h"
#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

struct RecognitionOptions {
  // Names of Tesseract's languages, "eng" or "deu+eng"; empty: eng, else the first there is.
  std::string languages = {};
  std::function<bool()> is_cancelled = {};  // asked about every 50 ms; may be empty
  std::string tesseract = "tesseract", pdftoppm = "pdftoppm";  // by name (PATH) or path
};

// One thread at a time. Errors have the param "ocr" where they are not of a file.
class PageRecogniser {
 public:
  // Finds Tesseract and its languages. NOT_FOUND: it is not installed; INVALID_ARGUMENT: it does
  // not know a language; CANCELLED, IO_ERROR. Messages say what to install.
  static api::Result<PageRecogniser> Start(const RecognitionOptions& options);

  // Returns page `number` (from 1) of the PDF, without words where its image has none. A page takes
  // a second or two; at most a minute of processor time, 2 GiB for Tesseract and 1 GiB for
  // pdftoppm. LIMIT_EXCEEDED, IO_ERROR (both for this page alone), CANCELLED, and NOT_FOUND: there
  // is no pdftoppm.
  api::Result<PdfPage> Recognise(std::string_view pdf, uint64_t number) const;

  const std::string& languages() const { return options_.languages; }

 private:
  PageRecogniser(RecognitionOptions options, bool finds_direction)
      : options_(std::move(options)), finds_direction_(finds_direction) {}

  RecognitionOptions options_;  // with the languages that were chosen
  bool finds_direction_;        // Tesseract turns pages that lie on a side
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_PAGE_RECOGNITION_H_
