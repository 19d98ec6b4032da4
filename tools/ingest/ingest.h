// Turns a document as users have it (text, Markdown, HTML, PDF, office files, books, mails) into
// the text that is indexed, for index-document and the server. A compressed file ("notes.txt.gz")
// is read as the one in it. Text and pages may be in any encoding (text_encoding.h); files that are
// no text are refused by name (file_kind.h).
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
  kDoc,
  // lectern-extract reads these (extracted.h).
  kDocx,
  kOdt,
  kPptx,
  kOdp,
  kXlsx,
  kOds,
  kEpub,
  kXls,
  kPpt,
  kMsg,
  kMail,
  kNotebook,
  kCsv,
  kTsv,
  kManPage,
  kSubtitles,
  kFictionBook,
  kRst,
  kAsciiDoc,
  kOrg,
  kLatex,
  kDocBook,
  kCalendar,
  kContacts
};
// The formats, for messages. Names are those of ParseFormat, and "auto".
inline constexpr std::string_view kFormatNames =
    "auto, text, markdown, html, pdf, rtf, doc, docx, odt, pptx, odp, xlsx, ods, epub, xls, ppt, "
    "msg, eml, ipynb, csv, tsv, man, srt, fb2, rst, adoc, org, latex, docbook, ics or vcf";

// The format that a name stands for, one of kFormatNames but "auto"; nothing for any other name.
std::optional<Format> ParseFormat(std::string_view name);

// Whether a client that may be anybody may name this encoding: "auto", or a label of
// encoding.spec.whatwg.org. iconv knows more (IngestOptions::encoding), with a history of security
// holes.
bool IsEncodingLabel(std::string_view name);
// The names, for messages.
inline constexpr std::string_view kEncodingLabels =
    "auto, or a label of encoding.spec.whatwg.org, such as windows-1251";

// Detects the format. PDF is told by its first bytes ("%PDF-"), so is RTF, HTML by a doctype or
// <html at its start, behind a byte order mark, spaces, comments and an XML declaration, office
// files and books by the parts of their zip file, those of before 2007 by their streams, mails by
// their headers and manual pages by their macros, DocBook by its document type or first elements,
// calendars and address books by their first line; where the bytes do not tell, by the ending of
// `file_name` (.pdf, .html, .htm, .xhtml, .md, .markdown, .docx and so on, .csv, .ipynb, .eml,
// .srt, .vtt, .rst, .adoc, .org, .tex; in any case); else it is text. A compressed file is none of
// these.
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
  // pdftotext and lectern-extract have limits of their own in processes of their own.
  uint64_t memory_bytes = 0;
  // Languages of Tesseract ("eng", "deu+eng"; empty: its default) that recognises pages of a PDF
  // without readable text; nothing: they are left out.
  std::optional<std::string> ocr = {};
  // PdfOptions::on_pages.
  std::function<void(std::string_view stage, uint64_t done, uint64_t total)> on_pages = {};
};

struct Ingested {
  // UTF-8. In text and Markdown, a byte order mark and bad bytes stay: the engine replaces them.
  std::string text = {};
  // Pages that have text: of a PDF and some Word files, and of text with form feeds; slides,
  // sheets, chapters, a mailbox's mails.
  std::vector<lectern_page> pages = {};
  std::string page_labels = {};   // a PDF's: api::IndexOptions::page_labels
  uint64_t num_pages = 0;         // all of them; 0: it has no pages
  Format format = Format::kText;  // the one that was named or detected
  std::string note = {};  // what was assumed, changed or left out; may be empty
  bool is_encoding_assumed = false;  // the user may want to name another
};

// All that the user should be told about how the file was read, in one line: the note, and how to
// name another encoding where one was assumed. `encoding_option` is how the user names one
// ("--encoding"). Empty where there is nothing to tell.
std::string IngestNote(const Ingested& ingested, std::string_view encoding_option);

// The object of an index report with the member "file_note": `note`, or null where that is empty.
// `report` as it is where it is no JSON object.
std::string WithFileNote(std::string_view report, const std::string& note);

// The object that `index-document --text-only --json` prints: {"text", as the engine stores it,
// "pages":[{"begin" (byte of the text),"page","label" (null: the number)}],"num_pages" (null: it
// has no pages),"replaced_bytes" (of invalid UTF-8),"note" (or null)}. `note`: as of IngestNote.
std::string IngestedJson(const Ingested& ingested, const std::string& note);

// Returns the text of a document; text and Markdown may be empty. INVALID_ARGUMENT: options.format
// names none (param "format"), or options.encoding (param "encoding"); with the format "auto", the
// bytes are no text (param "file"): "photo.png" is a PNG image and not text … Errors of ReadHtml,
// ReadPdf, ReadRtf and ReadExtracted, whose messages name the file. Blocks for as long as a child
// process takes. Any thread.
api::Result<Ingested> Ingest(std::string bytes, const IngestOptions& options);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_INGEST_H_
