#include "tools/ingest/rtf.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "tools/find_program.h"
#include "tools/ingest/html.h"
#include "tools/ingest/limited_child.h"
#include "tools/ingest/rtf_filter.h"

namespace lectern::tools {
namespace {

// The error that the end of unrtf means, with the code OK where it ended as it should.
api::Error RtfError(const ChildEnd& end, const RtfOptions& options) {
  const bool is_missing =
      end.how == ChildEnd::How::kNotStarted && (end.number == ENOENT || end.number == EACCES);
  if (is_missing) {
    return {LECTERN_NOT_FOUND,
            "reading RTF needs the program unrtf, which is not installed: " +
                HowToInstall("unrtf") + ", or save " + options.name + " as .docx or .odt",
            "unrtf"};
  }
  switch (end.how) {
    case ChildEnd::How::kNotStarted:
      return {LECTERN_IO_ERROR, std::string("start unrtf: ") + std::strerror(end.number), "file"};
    case ChildEnd::How::kCancelled:
      return {LECTERN_CANCELLED, "cancelled while " + options.name + " was read", "file"};
    case ChildEnd::How::kTooSlow:
    case ChildEnd::How::kTooMuchOutput:
      return {LECTERN_LIMIT_EXCEEDED,
              options.name + " takes too much to read as RTF; save it as .docx or .odt", "file"};
    case ChildEnd::How::kExited:
      if (end.number == 0) return {LECTERN_OK, "", ""};
      break;
    default:
      break;
  }
  return {LECTERN_INVALID_ARGUMENT,
          options.name + " is damaged: unrtf cannot read it; save it as .docx or .odt", "file"};
}

// Without the addresses of links, in place of whose text unrtf would print "hyperlink".
std::string WithoutAddresses(std::string_view rtf) {
  constexpr std::string_view kBegin = "{\\*\\fldinst";
  constexpr size_t kMostBytes = 4096;  // of one; a longer one, or one without an end, stays
  std::string kept;
  while (true) {
    const size_t begin = rtf.find(kBegin);
    kept += rtf.substr(0, begin);
    if (begin == std::string_view::npos) return kept;
    size_t end = begin, depth = 0;
    do {
      if (rtf[end] == '\\') {
        ++end;  // what follows is no brace of a group
      } else if (rtf[end] == '{') {
        ++depth;
      } else if (rtf[end] == '}') {
        --depth;
      }
      ++end;
    } while (depth > 0 && end < rtf.size() && end - begin < kMostBytes);
    const std::string_view field = rtf.substr(begin, end - begin);
    const bool is_link = depth == 0 && field.find("HYPERLINK") != std::string_view::npos;
    if (!is_link) kept += field;
    rtf.remove_prefix(std::min(end, rtf.size()));
  }
}

// Without the alignment of paragraphs, whose elements would make a cell's text a block of its own.
std::string WithoutAlignment(std::string_view html) {
  constexpr std::string_view kAlignments[] = {"<center>", "</center>", "<div align=\"right\">",
                                              "<div align=\"justify\">", "</div>"};
  std::string kept;
  while (!html.empty()) {
    const size_t tag = std::min(html.find('<'), html.size());
    kept += html.substr(0, tag);
    html.remove_prefix(tag);
    const auto* const found =
        std::find_if(std::begin(kAlignments), std::end(kAlignments),
                     [&](std::string_view alignment) { return html.starts_with(alignment); });
    const bool is_alignment = found != std::end(kAlignments);
    if (!is_alignment) kept += html.substr(0, 1);
    html.remove_prefix(std::min(html.size(), is_alignment ? found->size() : size_t{1}));
  }
  return kept;
}

// With unrtf's line breaks, which end paragraphs, as paragraphs. A cell of several gets empty
// blocks too, so that it is a layout for ReadHtml: unrtf puts all text between two tables into a
// cell.
std::string WithParagraphs(std::string_view html) {
  constexpr std::string_view kBreak = "<br>", kCell = "<td>", kCellEnd = "</td>";
  constexpr size_t kMostCellBytes = 1 << 16;  // that are looked at
  std::string paragraphs;
  size_t cell_end = 0;
  bool is_layout = false;
  for (size_t at = 0; at < html.size();) {
    const size_t end = html.find(kBreak, at);
    const std::string_view text = html.substr(at, end == std::string_view::npos ? end : end - at);
    paragraphs += text;
    if (end == std::string_view::npos) break;
    if (const size_t cell = text.rfind(kCell); cell != std::string_view::npos) {
      const std::string_view rest = html.substr(at + cell, kMostCellBytes);
      cell_end = at + cell + std::min(rest.find(kCellEnd), rest.size());
      is_layout = end < cell_end && html.find(kBreak, end + kBreak.size()) < cell_end;
    }
    paragraphs += end < cell_end && is_layout ? "<section></section><p>" : "<p>";
    at = end + kBreak.size();
  }
  return paragraphs;
}

}  // namespace

api::Result<RtfText> ReadRtf(std::string_view rtf, const RtfOptions& options) {
  std::string html;
  const FilteredRtf filtered = FilterRtf(rtf);
  const ChildEnd end = RunLimited(
      {options.unrtf, "--html", "--nopict"}, WithoutAddresses(filtered.rtf), {},
      [&html](std::string_view piece) { return html.append(piece), true; }, options.is_cancelled);
  if (const api::Error error = RtfError(end, options); error.code != LECTERN_OK) return error;
  auto text =
      ReadHtml(WithParagraphs(WithoutAlignment(html)),
               {.name = options.name, .is_cancelled = options.is_cancelled, .keeps_all = true});
  if (!text.ok() && text.error().code == LECTERN_EMPTY_DOCUMENT)
    return api::Error{LECTERN_EMPTY_DOCUMENT, options.name + " has no text in it", "file"};
  if (!text.ok()) return text.error();
  const uint64_t count = filtered.num_comments;
  std::string note = count == 0 ? "" : std::to_string(count) + " comment";
  if (count > 0) note += count == 1 ? " is left out" : "s are left out";
  return RtfText{std::move(*text), std::move(note)};
}

}  // namespace lectern::tools
