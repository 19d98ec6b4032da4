#include "tools/ingest/pdf.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/model/formats/text.h"

namespace lectern::tools {
namespace {

constexpr int kUsageStatus = 99;  // exit status of a pdftotext that does not know an option
constexpr char kInstall[] = "apt install poppler-utils";

api::Error FileError(lectern_code code, const std::string& message) {
  return {code, message, "file"};
}

// ": …" with the first line that the program complained with, at most 200 bytes, to end a message
// with; "" where it said nothing.
std::string Said(const ChildEnd& end) {
  const std::string line = end.complaint.substr(0, std::min(end.complaint.find('\n'), size_t{200}));
  return line.empty() ? "" : ": " + CleanUtf8(line).text;
}

// The error that the end of pdftotext means; nothing: it read the PDF to its end.
std::optional<api::Error> ErrorOf(const ChildEnd& end, const PdfOptions& options) {
  const std::string& name = options.name;
  switch (end.how) {
    case ChildEnd::How::kNotStarted:
      if (end.number == ENOENT || end.number == EACCES) {
        return api::Error{LECTERN_NOT_FOUND,
                          "reading a PDF needs the program " + options.pdftotext +
                              ", which is not installed: " + kInstall + ", or give the text",
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
      return FileError(LECTERN_IO_ERROR,
                       options.pdftotext + " does not print what poppler's does; " + kInstall);
    case ChildEnd::How::kSignalled:
      return FileError(LECTERN_INVALID_ARGUMENT,
                       "pdftotext crashed on " + name + " (signal " + std::to_string(end.number) +
                           "): the PDF is damaged, or needs too much memory" + Said(end));
    case ChildEnd::How::kExited:
      break;
  }
  if (end.number == 0) return std::nullopt;
  if (end.number == kUsageStatus) {
    return FileError(LECTERN_IO_ERROR, options.pdftotext + " does not know -bbox-layout, as " +
                                           "poppler's does; " + kInstall + Said(end));
  }
  if (end.complaint.find("Incorrect password") != std::string::npos) {
    return FileError(LECTERN_INVALID_ARGUMENT,
                     name + " is encrypted and asks for a password; save it without one");
  }
  return FileError(LECTERN_INVALID_ARGUMENT,
                   name + " is damaged: pdftotext cannot read it" + Said(end));
}

}  // namespace

ChildLimits LimitsFor(uint64_t pdf_bytes) {
  ChildLimits limits;
  limits.cpu_seconds = std::min<uint64_t>(20 + 10 * (pdf_bytes >> 20), 600);
  limits.wall_seconds = 3 * static_cast<double>(limits.cpu_seconds);  // others use it too
  return limits;
}

api::Result<PagedText> ReadPdf(std::string_view pdf, const PdfOptions& options) {
  const PdfStructure structure = ReadPdfStructure(
      pdf, {.is_cancelled = options.is_cancelled, .program = options.structure_program});
  BboxText parser;
  const ChildEnd end = RunLimited(
      {options.pdftotext, "-enc", "UTF-8", "-bbox-layout", "-", "-"}, pdf,
      options.limits.value_or(LimitsFor(pdf.size())),
      [&](std::string_view piece) {
        const bool is_taken = parser.Take(piece);
        if (options.on_pages) options.on_pages(parser.num_pages(), structure.num_pages);
        return is_taken;
      },
      options.is_cancelled);
  if (auto error = ErrorOf(end, options)) return *error;
  PagedText paged;
  if (!parser.Finish(paged, structure)) {
    return *ErrorOf({ChildEnd::How::kRefused, 0, ""}, options);
  }
  if (paged.num_pages == 0) {
    return FileError(LECTERN_INVALID_ARGUMENT, options.name + " is damaged: it has no pages");
  }
  if (paged.pages.empty()) {
    return FileError(LECTERN_EMPTY_DOCUMENT,
                     options.name + " has no text on its " + std::to_string(paged.num_pages) +
                         " pages: a scan? Recognise its text first (apt install ocrmypdf)");
  }
  if (paged.unmapped_pages.size() == paged.pages.size()) {
    return FileError(
        LECTERN_EMPTY_DOCUMENT,
        options.name + " has fonts without Unicode values on all pages, so its text " +
            "cannot be read; recognise it first (ocrmypdf --force-ocr in.pdf out.pdf)");
  }
  return paged;
}

}  // namespace lectern::tools
