// Files other than text, web pages and PDFs are refused on Windows: their readers need packages that are not
// built for it (tools/packaging/windows/README.md says which).
#include "tools/ingest/extracted.h"
#include "tools/ingest/page_recognition.h"
#include "tools/ingest/rtf.h"

namespace lectern::tools {
namespace {

api::Error NotRead(const std::string& name, const std::string& kind) {
  return {LECTERN_INVALID_ARGUMENT,
          name + " is " + kind +
              ", which this program does not read on Windows; save it as text and "
              "index that, or index it on Linux and copy the store",
          "file"};
}

}  // namespace

api::Result<RtfText> ReadRtf(std::string_view, const RtfOptions& options) {
  return NotRead(options.name, "RTF");
}

api::Result<Extracted> ReadExtracted(std::string_view, const std::string& format,
                                     const ExtractOptions& options) {
  return NotRead(options.name, "of the format " + format);
}

api::Result<PageRecogniser> PageRecogniser::Start(const RecognitionOptions&) {
  return api::Error{LECTERN_NOT_FOUND,
                    "pages are not recognised on Windows; recognise the PDF first (ocrmypdf)",
                    "ocr"};
}

// No recogniser starts.
api::Result<PdfPage> PageRecogniser::Recognise(std::string_view, uint64_t) const {
  return api::Error{LECTERN_NOT_FOUND, "pages are not recognised on Windows", "ocr"};
}

}  // namespace lectern::tools
