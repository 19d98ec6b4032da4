#include "tools/ingest/extract/markup_lines.h"

#include <algorithm>

namespace lectern::tools {

std::vector<std::string_view> MarkupLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\r\n"), text.size());
    const std::string_view line = text.substr(0, end);
    lines.push_back(line.substr(0, line.find_last_not_of(" \t") + 1));
    text.remove_prefix(end);
    text.remove_prefix(text.starts_with("\r\n") ? 2 : std::min<size_t>(text.size(), 1));
  }
  return lines;
}

size_t NumCharacters(std::string_view line) {
  return static_cast<size_t>(std::count_if(
      line.begin(), line.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

void MarkupWriter::Gap() {
  if (!text_.empty() && !text_.ends_with("\n\n")) text_ += '\n';
}

void MarkupWriter::Heading(int level, std::string_view title) {
  const std::string line = CollapseSpace(title, false);
  if (line.empty()) return;
  Gap();
  text_ += std::string(static_cast<size_t>(std::clamp(level, 1, 6)), '#') + " " + line + "\n\n";
}

void MarkupWriter::Line(std::string_view line) {
  if (line.empty()) return Gap();
  text_ += line;
  text_ += '\n';
}

void MarkupWriter::Code(std::span<const std::string_view> lines) {
  if (std::all_of(lines.begin(), lines.end(), [](std::string_view line) { return line.empty(); }))
    return;
  const bool has_fence = std::any_of(lines.begin(), lines.end(), [](std::string_view line) {
    return line.find("```") != line.npos;
  });
  const std::string_view fence = has_fence ? "~~~~~" : "```";
  Gap();
  for (const std::string_view part : {fence, std::string_view("\n")}) text_ += part;
  for (const std::string_view line : lines) {
    text_ += line;
    text_ += '\n';
  }
  for (const std::string_view part : {fence, std::string_view("\n\n")}) text_ += part;
}

Extracted MarkupWriter::Finish() {
  TextBuilder writer;
  writer.Verbatim(text_);
  return writer.Finish(0, "");
}

}  // namespace lectern::tools
