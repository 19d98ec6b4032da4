// Documents as users have them -> the text that is indexed.
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

enum class Format { kText, kMarkdown, kHtml, kPdf };
inline constexpr std::string_view kFormatNames = "auto, text, markdown, html or pdf";

// Returns the format of this name: "text", "markdown", "html" or "pdf".
std::optional<Format> ParseFormat(std::string_view name);

// Detects the format: PDF by its magic, HTML by a doctype or <html at its start, behind spaces,
// comments and an XML declaration; where the bytes do not tell, by the ending of `file_name`; else
// text.
Format DetectFormat(std::string_view bytes, std::string_view file_name);

struct IngestOptions {
  std::string format = "auto";  // or a name of ParseFormat
  std::string file_name = {};   // its ending may tell the format; may be empty
  std::function<bool()> is_cancelled =
      {};  // asked at least every 50 ms while it takes long; may be empty
  // At most so much for an HTML page's tree; 0: 1 GiB. pdftotext has its own limit (ChildLimits) in
  // a process of its own.
  uint64_t memory_bytes = 0;
};

struct Ingested {
  std::string text;                 // of text and Markdown the bytes as they are
  std::vector<lectern_page> pages;  // of a PDF: those that have text
  uint64_t num_pages = 0;           // of a PDF: all
  Format format = Format::kText;
};

// "2 of 5 pages have no text: scans are not read"; empty where all have.
std::string PagesNote(const Ingested& ingested);

// INVALID_ARGUMENT (format), errors of ReadHtml and ReadPdf. Messages name the file.
api::Result<Ingested> Ingest(std::string bytes, const IngestOptions& options);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_INGEST_H_
