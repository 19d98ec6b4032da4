#include "tools/ingest/rtf.h"

#include <cerrno>
#include <cstring>

#include "tools/ingest/html.h"
#include "tools/ingest/limited_child.h"

namespace lectern::tools {
namespace {

// The error that the end of unrtf means, with the code OK where it ended as it should.
api::Error RtfError(const ChildEnd& end, const RtfOptions& options) {
  using How = ChildEnd::How;
  const bool is_missing =
      end.how == How::kNotStarted && (end.number == ENOENT || end.number == EACCES);
  if (is_missing) {
    return {LECTERN_NOT_FOUND,
            "reading RTF needs the program unrtf, which is not installed: apt install unrtf, or save " +
                options.name + " as .docx or .odt",
            "unrtf"};
  }
  switch (end.how) {
    case How::kNotStarted:
      return {LECTERN_IO_ERROR, std::string("start unrtf: ") + std::strerror(end.number), "file"};
    case How::kCancelled:
      return {LECTERN_CANCELLED, "cancelled while " + options.name + " was read", "file"};
    case How::kTooSlow:
    case How::kTooMuchOutput:
      return {LECTERN_LIMIT_EXCEEDED,
              options.name + " takes too much to read as RTF; save it as .docx or .odt", "file"};
    case How::kExited:
      if (end.number == 0) return {LECTERN_OK, "", ""};
      break;
    default:
      break;
  }
  return {LECTERN_INVALID_ARGUMENT,
          options.name + " is damaged: unrtf cannot read it; save it as .docx or .odt", "file"};
}

// With unrtf's line breaks, which end paragraphs, as paragraphs.
std::string WithParagraphs(const std::string& html) {
  constexpr std::string_view kBreak = "<br>";
  std::string paragraphs;
  for (size_t at = 0; at < html.size();) {
    const size_t end = html.find(kBreak, at);
    paragraphs += html.substr(at, end == std::string::npos ? end : end - at);
    if (end == std::string::npos) break;
    paragraphs += "<p>";
    at = end + kBreak.size();
  }
  return paragraphs;
}

}  // namespace

api::Result<std::string> ReadRtf(std::string_view rtf, const RtfOptions& options) {
  std::string html;
  const ChildEnd end = RunLimited(
      {options.unrtf, "--html", "--nopict"}, rtf, {},
      [&html](std::string_view piece) { return html.append(piece), true; }, options.is_cancelled);
  if (const api::Error error = RtfError(end, options); error.code != LECTERN_OK) return error;
  return ReadHtml(WithParagraphs(html), {.name = options.name,
                                         .is_cancelled = options.is_cancelled,
                                         .keeps_all = true});
}

}  // namespace lectern::tools
