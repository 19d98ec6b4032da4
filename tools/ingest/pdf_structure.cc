#include "tools/ingest/pdf_structure.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "engine/model/formats/text.h"
#include "tools/find_program.h"
#include "tools/ingest/limited_child.h"

namespace lectern::tools {
namespace {

// The first line of the form; "pages COUNT", lines "label PAGE TEXT" and "item LEVEL PAGE TITLE",
// and "end" follow it.
constexpr std::string_view kStructureHead = "lectern-pdf-structure 1";
constexpr uint64_t kMaxStructurePages = uint64_t{1} << 24;
constexpr uint64_t kMaxStructureBytes = uint64_t{64} << 20;

// `text` as one line of UTF-8 without white space at its ends; empty: nothing is left, or more than
// `max_bytes`.
std::string AsLine(std::string_view text, size_t max_bytes) {
  if (text.size() > 4 * max_bytes) return "";
  std::string line;
  for (const char c : CleanUtf8(text).text) {
    const bool is_space = static_cast<uint8_t>(c) <= 0x20 || c == 0x7F;
    if (is_space && (line.empty() || line.back() == ' ')) continue;
    line += is_space ? ' ' : c;
  }
  if (line.ends_with(' ')) line.pop_back();
  return line.size() <= max_bytes ? line : "";
}

// Takes the next line off the front of `bytes`, without its newline; nothing: no newline is left.
std::optional<std::string_view> TakeLine(std::string_view& bytes) {
  const size_t end = bytes.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = bytes.substr(0, end);
  bytes.remove_prefix(end + 1);
  return line;
}

// Takes `word` and the space behind it off the front of `line`.
bool TakeWord(std::string_view& line, std::string_view word) {
  if (!line.starts_with(word) || line.size() == word.size() || line[word.size()] != ' ') {
    return false;
  }
  line.remove_prefix(word.size() + 1);
  return true;
}

// Takes a number up to `max` off the front of `line`, with the space behind it if there is more.
bool TakeStructureNumber(std::string_view& line, uint64_t max, uint64_t& number) {
  const auto read = std::from_chars(line.data(), line.data() + line.size(), number);
  if (read.ec != std::errc() || number > max) return false;
  line.remove_prefix(static_cast<size_t>(read.ptr - line.data()));
  if (line.empty()) return true;
  if (line.front() != ' ') return false;
  line.remove_prefix(1);
  return true;
}

bool IsOneLine(std::string_view text, size_t max_bytes) {
  return !text.empty() && text == AsLine(text, max_bytes);
}

bool TakeLabel(std::string_view line, PdfStructure& structure) {
  PageLabel label;
  const uint64_t last = structure.labels.empty() ? 0 : structure.labels.back().page;
  if (!TakeStructureNumber(line, structure.num_pages, label.page) || label.page <= last ||
      !IsOneLine(line, kMaxPageLabel)) {
    return false;
  }
  label.text = line;
  structure.labels.push_back(std::move(label));
  return true;
}

bool TakeItem(std::string_view line, PdfStructure& structure) {
  OutlineItem item;
  uint64_t level = 0;
  if (!TakeStructureNumber(line, kMaxOutlineLevel, level) || level == 0 ||
      !TakeStructureNumber(line, structure.num_pages, item.page) ||
      !IsOneLine(line, kMaxOutlineTitle) || structure.outline.size() == kMaxOutlineItems) {
    return false;
  }
  item.level = static_cast<uint32_t>(level);
  item.title = line;
  structure.outline.push_back(std::move(item));
  return true;
}

}  // namespace

std::string WritePdfStructure(const PdfStructure& structure) {
  std::string out = std::string(kStructureHead) + "\npages " + std::to_string(structure.num_pages);
  out += '\n';
  for (const PageLabel& label : structure.labels) {
    const std::string text = AsLine(label.text, kMaxPageLabel);
    if (!text.empty()) out += "label " + std::to_string(label.page) + ' ' + text + '\n';
  }
  size_t num_items = 0;
  for (const OutlineItem& item : structure.outline) {
    const std::string title = AsLine(item.title, kMaxOutlineTitle);
    if (title.empty() || num_items++ == kMaxOutlineItems) continue;
    out += "item " + std::to_string(std::clamp(item.level, 1U, kMaxOutlineLevel)) + ' ' +
           std::to_string(item.page <= structure.num_pages ? item.page : 0) + ' ' + title + '\n';
  }
  return out + "end\n";
}

std::optional<PdfStructure> ParsePdfStructure(std::string_view bytes) {
  PdfStructure structure;
  const auto head = TakeLine(bytes);
  auto pages = TakeLine(bytes);
  if (head != kStructureHead || !pages || !TakeWord(*pages, "pages") ||
      !TakeStructureNumber(*pages, kMaxStructurePages, structure.num_pages) || !pages->empty()) {
    return std::nullopt;
  }
  while (auto line = TakeLine(bytes)) {
    if (*line == "end") return structure;
    const bool is_taken = TakeWord(*line, "label")  ? TakeLabel(*line, structure)
                          : TakeWord(*line, "item") ? TakeItem(*line, structure)
                                                    : false;
    if (!is_taken) break;
  }
  return std::nullopt;
}

PdfStructure ReadPdfStructure(std::string_view pdf, const PdfStructureOptions& options) {
  ChildLimits limits;
  limits.cpu_seconds = options.cpu_seconds;
  limits.wall_seconds = 3 * static_cast<double>(limits.cpu_seconds);
  limits.output_bytes = kMaxStructureBytes;
  const std::string program =
      options.program.empty() ? LibexecProgram("lectern-pdf-structure") : options.program;
  const auto output = OutputOf({program}, pdf, limits, options.is_cancelled);
  return output ? ParsePdfStructure(*output).value_or(PdfStructure()) : PdfStructure();
}

}  // namespace lectern::tools
