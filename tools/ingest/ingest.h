// Turns a document as users have it (text, Markdown, HTML, PDF, office files, books, mails) into
// the text that is indexed, for index-document and the server.
#ifndef LECTERN_TOOLS_INGEST_INGEST_H_
#define LECTERN_TOOLS_INGEST_INGEST_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lectern.h"

namespace lectern::tools {

enum class Format {
  kText,
  kMarkdown,
  kHtml,
  kPdf,
  kRtf,
  // lectern-extract reads these (extracted.h).
  kDocx,
  kOdt,
  kPptx,
  kOdp,
  kXlsx,
  kOds,
  kEpub,
  kMail,
  kNotebook,
  kCsv,
  kTsv,
  kManPage
};
// The formats, for messages. Names are those of ParseFormat, and "auto".
inline constexpr std::string_view kFormatNames =
    "auto, text, markdown, html, pdf, rtf, docx, odt, pptx, odp, xlsx, ods, epub, eml, ipynb, csv, "
    "tsv "
    "or man";

// The format that a name stands for, one of kFormatNames but "auto"; nothing for any other name.
std::optional<Format> ParseFormat(std::string_view name);

// Detects the format. PDF is told by its first bytes ("%PDF-"), so is RTF, HTML by a doctype or
// <html at its start, behind a byte order mark, spaces, comments and an XML declaration, office
// files and books by the parts of their zip file, mails by their headers and manual pages by their
// macros; where the bytes do not tell, by the ending of `file_name` (.pdf, .html, .htm, .xhtml,
// .md, .markdown, .docx and so on, .csv, .ipynb, .eml, .1.gz and the like for manual pages; in any
// case); else it is text.
Format DetectFormat(std::string_view bytes, std::string_view file_name);

struct IngestOptions {
  std::string format = "auto";  // or a name of ParseFormat
  std::string file_name = {};   // for messages, and its ending may tell the format; may be empty
  // Whether to stop; called on the calling thread, about every 50 ms while a PDF or an HTML page
  // takes long, never for text; may be empty; may not throw.
  std::function<bool()> is_cancelled = {};
  // The most memory that an HTML page's tree may take, in bytes; 0, and more than it: 1 GiB.
  // pdftotext and lectern-extract have limits of their own in processes of their own.
  uint64_t memory_bytes = 0;
};

struct Ingested {
  std::string text;                 // text and Markdown: the bytes as they are, of any encoding
  std::vector<lectern_page> pages;  // a PDF's pages that have text; else empty
  uint64_t num_pages = 0;           // all pages of a PDF, slides, sheets, chapters; else 0
  Format format = Format::kText;  // the one that was named or detected
  std::string note;               // for the user: parts that were left out or assumed; may be empty
};

// "2 of 5 pages have no text: scans are not read", then `note`; empty where there is nothing to
// say. Pages count for PDFs alone.
std::string PagesNote(const Ingested& ingested);

// Returns the text of a document; text and Markdown are moved through, even if empty.
// INVALID_ARGUMENT: options.format names none (param "format"); errors of ReadHtml, ReadPdf,
// ReadRtf and ReadExtracted, whose messages name the file. Text and Markdown cannot fail: the
// engine checks them when it indexes. Blocks for as long as a child process takes (LimitsFor). Any
// thread.
api::Result<Ingested> Ingest(std::string bytes, const IngestOptions& options);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_INGEST_H_
