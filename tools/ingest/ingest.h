// Turns a document as users have it (text, Markdown, HTML, PDF) into the text that is indexed, for
// index-document and the server. Text and pages may be in any encoding (text_encoding.h); files
// that are no text are refused by name (file_kind.h).
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
// The formats, for messages. Names are those of ParseFormat, and "auto".
inline constexpr std::string_view kFormatNames = "auto, text, markdown, html or pdf";

// The format that a name stands for: "text", "markdown", "html" or "pdf"; nothing for any other
// name.
std::optional<Format> ParseFormat(std::string_view name);

// Whether a client that may be anybody may name this encoding: "auto", or a label of
// encoding.spec.whatwg.org. iconv knows more (IngestOptions::encoding), with a history of security
// holes.
bool IsEncodingLabel(std::string_view name);
// The names, for messages.
inline constexpr std::string_view kEncodingLabels =
    "auto, or a label of encoding.spec.whatwg.org, such as windows-1251";

// Detects the format. PDF is told by its first bytes ("%PDF-"), HTML by a doctype or <html at its
// start, behind a byte order mark, spaces, comments and an XML declaration; where the bytes do not
// tell, by the ending of `file_name` (.pdf, .html, .htm, .xhtml, .md, .markdown, in any case); else
// it is text.
Format DetectFormat(std::string_view bytes, std::string_view file_name);

struct IngestOptions {
  std::string format = "auto";  // or a name of ParseFormat
  // The encoding of text, Markdown and HTML: "auto", or a name that iconv or a browser knows. A PDF
  // has none.
  std::string encoding = "auto";
  std::string file_name = {};   // for messages, and its ending may tell the format; may be empty
  // Whether to stop; called on the calling thread, about every 50 ms while a PDF or an HTML page
  // takes long, never for text; may be empty; may not throw.
  std::function<bool()> is_cancelled = {};
  // The most memory that an HTML page's tree may take, in bytes; 0, and more than it: 1 GiB.
  // pdftotext has its own limit (ChildLimits) in a process of its own.
  uint64_t memory_bytes = 0;
};

struct Ingested {
  // UTF-8. In text and Markdown, a byte order mark and bad bytes stay: the engine replaces them.
  std::string text;
  std::vector<lectern_page> pages;  // a PDF's pages that have text; else empty
  uint64_t num_pages = 0;           // all pages of a PDF; else 0
  Format format = Format::kText;  // the one that was named or detected
  std::string note = {};          // what was assumed about the encoding, or changed; may be empty
  bool is_encoding_assumed = false;  // the user may want to name another
};

// All that the user should be told about how the file was read: the note, and of a PDF "2 of 5
// pages have no text: scans are not read". `encoding_option` is how the user names an encoding
// ("--encoding"). Empty where there is nothing to tell.
std::string IngestNote(const Ingested& ingested, std::string_view encoding_option);

// "2 of 5 pages have no text: scans are not read"; empty where all have, and for other formats.
std::string PagesNote(const Ingested& ingested);

// Returns the text of a document; text and Markdown may be empty. INVALID_ARGUMENT: options.format
// names none (param "format"), or options.encoding (param "encoding"); with the format "auto", the
// bytes are no text (param "file"): "photo.png" is a PNG image and not text … Errors of ReadHtml
// and ReadPdf, whose messages name the file. Blocks for as long as pdftotext takes (LimitsFor). Any
// thread.
api::Result<Ingested> Ingest(std::string bytes, const IngestOptions& options);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_INGEST_H_
