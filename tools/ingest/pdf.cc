#include "tools/ingest/pdf.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "engine/model/formats/text.h"
#include "tools/find_program.h"
#include "tools/ingest/pdf_ligatures.h"
#include "tools/ingest/pdf_structure.h"

namespace lectern::tools {
namespace {

constexpr int kUsageStatus = 99;  // exit status of a pdftotext that does not know an option
constexpr char kPackage[] = "poppler-utils";

std::string ScanAdvice() {
  return ": a scan? Recognise its text first (" + HowToInstall("ocrmypdf") +
         "), or index it with --ocr (" + HowToInstall("tesseract-ocr") + ")";
}

std::string GarbageAdvice() {
  return "; recognise it first (ocrmypdf --force-ocr in.pdf out.pdf), or index it with --ocr (" +
         HowToInstall("tesseract-ocr") + ")";
}

api::Error FileError(lectern_code code, const std::string& message) {
  return {code, message, "file"};
}

// ": …" with the first line that the program complained with, at most 200 bytes, to end a message
// with; "" where it said nothing.
std::string Said(const ChildEnd& end) {
  const std::string line = end.complaint.substr(0, std::min(end.complaint.find('\n'), size_t{200}));
  return line.empty() ? "" : ": " + CleanUtf8(line).text;
}

api::Error NoPages(const std::string& name) {
  return FileError(LECTERN_INVALID_ARGUMENT, name + " is damaged: it has no pages");
}

// The error that the end of pdftotext means; nothing: it read the PDF to its end.
std::optional<api::Error> ErrorOf(const ChildEnd& end, const PdfOptions& options) {
  const std::string& name = options.name;
  switch (end.how) {
    case ChildEnd::How::kNotStarted:
      if (end.number == ENOENT || end.number == EACCES) {
        return api::Error{LECTERN_NOT_FOUND,
                          "reading a PDF needs the program " + options.pdftotext +
                              ", which is not installed: " + HowToInstall(kPackage) +
                              ", or give the text",
                          "pdftotext"};
      }
      return FileError(LECTERN_IO_ERROR,
                       "start " + options.pdftotext + ": " + std::strerror(end.number));
    case ChildEnd::How::kCancelled:
      return FileError(LECTERN_CANCELLED, "cancelled while " + name + " was read");
    case ChildEnd::How::kTooSlow:
      return FileError(LECTERN_LIMIT_EXCEEDED,
                       "pdftotext takes too long to read " + name + "; split it, or give the text");
    case ChildEnd::How::kTooMuchOutput:
      return FileError(LECTERN_LIMIT_EXCEEDED,
                       name + " has too much text for one document; split it");
    case ChildEnd::How::kRefused:
      return FileError(
          LECTERN_IO_ERROR,
          options.pdftotext + " does not print what poppler's does; " + HowToInstall(kPackage));
    case ChildEnd::How::kSignalled:
      return FileError(LECTERN_INVALID_ARGUMENT,
                       "pdftotext crashed on " + name + " (signal " + std::to_string(end.number) +
                           "): the PDF is damaged, or needs too much memory" + Said(end));
    case ChildEnd::How::kExited:
      break;
  }
  if (end.number == 0) return std::nullopt;
  // Poppler has one status for options that it does not know, behind which it explains its own, and
  // for a PDF without pages, whose first one "can not be after the last page"; that comes behind
  // all complaints about the file, of which the first ones are kept.
  const bool is_usage = end.complaint.empty() || end.complaint.find("Usage") != std::string::npos;
  if (end.number == kUsageStatus && !is_usage) return NoPages(name);
  if (end.number == kUsageStatus) {
    return FileError(LECTERN_IO_ERROR, options.pdftotext + " does not know -bbox-layout, as " +
                                           "poppler's does; " + HowToInstall(kPackage) + Said(end));
  }
  if (end.complaint.find("Incorrect password") != std::string::npos) {
    return FileError(LECTERN_INVALID_ARGUMENT,
                     name + " is encrypted and asks for a password; save it without one");
  }
  if (end.complaint.find("Adobe.PubSec") != std::string::npos) {
    return FileError(LECTERN_INVALID_ARGUMENT,
                     name + " is encrypted for a certificate; save it without encryption");
  }
  return FileError(LECTERN_INVALID_ARGUMENT,
                   name + " is damaged: pdftotext cannot read it" + Said(end));
}

// The results of other programs that reading the pages needs.
struct Preparation {
  PdfStructure structure;
  std::vector<PdfLigature> ligatures;
};

// Reads the PDF with pdftotext; `replacements` stand for pages of their numbers, ascending. The
// text may be empty.
api::Result<PagedText> ReadPages(std::string_view pdf, const PdfOptions& options,
                                 const Preparation& prepared, std::vector<PdfPage> replacements) {
  const PdfStructure& structure = prepared.structure;
  BboxText parser(std::move(replacements), prepared.ligatures);
  const ChildEnd end = RunLimited(
      {options.pdftotext, "-enc", "UTF-8", "-bbox-layout", kInput, "-"}, pdf,
      options.limits.value_or(LimitsFor(pdf.size())),
      [&](std::string_view piece) {
        const bool is_taken = parser.Take(piece);
        if (options.on_pages && structure.num_pages > 0) {
          options.on_pages("pages", std::min(parser.num_pages(), structure.num_pages),
                           structure.num_pages);
        }
        return is_taken;
      },
      options.is_cancelled);
  if (auto error = ErrorOf(end, options)) return *error;
  PagedText paged;
  if (!parser.Finish(paged, structure)) return *ErrorOf({ChildEnd::How::kRefused, 0, ""}, options);
  paged.may_have_ligatures = parser.may_have_ligatures();
  paged.lacks_cjk_tables = end.complaint.find("Missing language pack") != std::string::npos;
  return paged;
}

// The pages whose text is to be recognised: without any, or with garbage; ascending.
std::vector<uint64_t> UnreadPages(const PagedText& paged) {
  std::vector<uint64_t> pages;
  std::set_union(paged.pages_without_text.begin(), paged.pages_without_text.end(),
                 paged.unmapped_pages.begin(), paged.unmapped_pages.end(),
                 std::back_inserter(pages));
  return pages;
}

bool HasReadablePage(const PagedText& paged) {
  return paged.pages.size() > paged.unmapped_pages.size();
}

// Reads the PDF once more, with the text of images in the place of pages without text. Without
// Tesseract, a PDF with a readable page is returned as it is, with the reason: its other pages may
// be empty.
api::Result<PagedText> Recognised(std::string_view pdf, const PdfOptions& options,
                                  const Preparation& prepared, PagedText paged) {
  const std::vector<uint64_t> unread = UnreadPages(paged);
  if (unread.empty()) return paged;
  auto recogniser = PageRecogniser::Start(*options.recognition);
  if (!recogniser.ok() && recogniser.error().code == LECTERN_NOT_FOUND && HasReadablePage(paged)) {
    paged.recognition_failure =
        "pages without readable text were not recognised: " + recogniser.error().message;
    return paged;
  }
  if (!recogniser.ok()) return recogniser.error();
  std::vector<PdfPage> recognised;
  std::string failure;
  for (size_t i = 0; i < unread.size(); ++i) {
    if (options.on_pages) options.on_pages("recognise", i, unread.size());
    auto page = recogniser->Recognise(pdf, unread[i]);
    const lectern_code code = page.ok() ? LECTERN_OK : page.error().code;
    if (code == LECTERN_CANCELLED || code == LECTERN_NOT_FOUND) return page.error();
    if (!page.ok() && failure.empty()) {
      failure =
          "page " + std::to_string(unread[i]) + " was not recognised: " + page.error().message;
    }
    if (page.ok()) recognised.push_back(std::move(*page));
  }
  if (options.on_pages) options.on_pages("recognise", unread.size(), unread.size());
  std::vector<uint64_t> numbers;
  for (const PdfPage& page : recognised) {
    if (page.num_words > 0) numbers.push_back(page.number);
  }
  auto read = ReadPages(pdf, options, prepared, std::move(recognised));
  if (!read.ok()) return read.error();
  read->recognised_pages = std::move(numbers);
  read->recogniser = "Tesseract, " + recogniser->languages();
  read->recognition_failure = std::move(failure);
  return read;
}

}  // namespace

ChildLimits LimitsFor(uint64_t pdf_bytes) {
  ChildLimits limits;
  limits.cpu_seconds = std::min<uint64_t>(20 + 10 * (pdf_bytes >> 20), 600);
  limits.wall_seconds = 3 * static_cast<double>(limits.cpu_seconds);  // others use it too
  return limits;
}

api::Result<PagedText> ReadPdf(std::string_view pdf, const PdfOptions& options) {
  Preparation prepared;
  prepared.structure = ReadPdfStructure(
      pdf, {.is_cancelled = options.is_cancelled, .program = options.structure_program});
  auto read = ReadPages(pdf, options, prepared, {});
  // A PDF without an Arabic word that may have a ligature is read once. Where the second reading
  // fails, the first one stands.
  if (read.ok() && read->may_have_ligatures) {
    prepared.ligatures = ReadPdfLigatures(pdf, {.is_cancelled = options.is_cancelled,
                                                .program = options.ligature_program,
                                                .cpu_seconds = LimitsFor(pdf.size()).cpu_seconds});
    if (!prepared.ligatures.empty()) {
      auto again = ReadPages(pdf, options, prepared, {});
      if (again.ok() || again.error().code == LECTERN_CANCELLED) read = std::move(again);
    }
  }
  if (read.ok() && options.recognition) {
    read = Recognised(pdf, options, prepared, std::move(*read));
  }
  if (!read.ok()) return read.error();
  PagedText& paged = *read;
  if (paged.num_pages == 0) {
    return NoPages(options.name);
  }
  const std::string& failure = paged.recognition_failure;
  const std::string found_none =
      paged.recogniser.empty()
          ? ""
          : "; " + (failure.empty() ? paged.recogniser + " found none in their images" : failure);
  if (paged.pages.empty() && paged.lacks_cjk_tables) {
    return FileError(
        LECTERN_EMPTY_DOCUMENT,
        options.name + " has no text that can be read without poppler's tables of " +
            "Chinese, Japanese and Korean characters: " + HowToInstall("poppler-data"));
  }
  if (paged.pages.empty()) {
    return FileError(LECTERN_EMPTY_DOCUMENT, options.name + " has no text on its " +
                                                 std::to_string(paged.num_pages) + " pages" +
                                                 (found_none.empty() ? ScanAdvice() : found_none));
  }
  if (!HasReadablePage(paged)) {
    return FileError(LECTERN_EMPTY_DOCUMENT,
                     options.name + " has fonts without Unicode values on all pages, so its text " +
                         "cannot be read" + (found_none.empty() ? GarbageAdvice() : found_none));
  }
  return read;
}

}  // namespace lectern::tools
