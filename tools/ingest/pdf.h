// Extracts the text of a PDF and the places where its pages begin, with poppler's program pdftotext
// in a process of its own (limited_child.h): readers of PDF have had many security holes.
#ifndef LECTERN_TOOLS_INGEST_PDF_H_
#define LECTERN_TOOLS_INGEST_PDF_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "engine/lectern.h"
#include "tools/ingest/bbox_text.h"
#include "tools/ingest/limited_child.h"
#include "tools/ingest/page_recognition.h"

namespace lectern::tools {

struct PdfOptions {
  std::string name = "the PDF";             // how messages call the file
  std::function<bool()> is_cancelled = {};  // asked about every 50 ms; may be empty
  std::string pdftotext = "pdftotext";      // the program, by name (PATH) or path
  std::optional<ChildLimits> limits = {};   // nothing: LimitsFor the PDF's size
  std::string structure_program = {};       // empty: PdfStructureOptions' default
  std::string ligature_program = {};        // empty: PdfLigatureOptions' default
  // Told how many pages have been read ("pages") or recognised ("recognise"), of how many, on the
  // calling thread, at each piece of pdftotext's output and at each recognised page; not where the
  // number of pages is not known. May be empty, may not throw.
  std::function<void(std::string_view stage, uint64_t done, uint64_t total)> on_pages = {};
  // How pages without readable text are recognised; nothing: they are not.
  std::optional<RecognitionOptions> recognition = {};
};

// The time that pdftotext gets: 20 s of processor time and 10 s for each whole MiB, at most 10
// minutes (a page of prose takes 3 ms), and three times as long by the clock, because the machine
// has other work too. Memory and output are ChildLimits' defaults.
ChildLimits LimitsFor(uint64_t pdf_bytes);

// Returns the text of a PDF; at least one page has some. Pages without text, and with garbage for
// it, are recognised where options.recognition says so, one after another; a page that fails stays
// as it is, and so do all of them without Tesseract where other pages are readable
// (PagedText::recognition_failure). Any thread. Errors, with the param "file" but for the first,
// and "ocr" for those of PageRecogniser:
//
// NOT_FOUND         there is no pdftotext, or it may not be run (param "pdftotext"); the message
//                   says what to install
// INVALID_ARGUMENT  it asks for a password; it is damaged or has no pages, or pdftotext died of it
//                   (also: for want of memory)
// EMPTY_DOCUMENT    it has no text: a scan; or none of it has Unicode values
// LIMIT_EXCEEDED    it takes too long, or pdftotext prints more than output_bytes
// IO_ERROR          pdftotext could not be started, is another program, or prints a tag, a word or
//                   a number of pages beyond BboxText's limits
// CANCELLED         options.is_cancelled said so
api::Result<PagedText> ReadPdf(std::string_view pdf, const PdfOptions& options);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_PDF_H_
