#include "tools/ingest/extract/text_builder.h"

#include <algorithm>
#include <utility>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

// Bytes of the invisible character at the start of `text`: a soft hyphen, a zero-width space, a
// byte order mark or a control other than white space; 0: none.
size_t InvisibleBytes(std::string_view text) {
  if (text.starts_with("\xC2\xAD")) return 2;
  if (text.starts_with("\xE2\x80\x8B") || text.starts_with(kByteOrderMark)) return 3;
  const auto byte = static_cast<uint8_t>(text.front());
  return (byte < 0x20 && byte != '\n' && byte != '\t' && byte != '\r') || byte == 0x7F ? 1 : 0;
}

}  // namespace

void AppendInline(std::string_view text, std::string& out) {
  while (!text.empty()) {
    if (const size_t invisible = InvisibleBytes(text)) {
      text.remove_prefix(invisible);
    } else if (text.starts_with("\xC2\xA0")) {
      out += ' ';
      text.remove_prefix(2);
    } else {
      const char c = text.front();
      out += c == '\n' || c == '\t' || c == '\r' ? ' ' : c;
      text.remove_prefix(1);
    }
  }
}

std::string CollapseSpace(std::string_view text, bool keeps_lines) {
  std::string out;
  bool is_space = false, is_line_end = false;
  for (const char c : text) {
    if (c == kPageMark) {
      out += c;
    } else if (c == '\n' && keeps_lines) {
      is_line_end = true;
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      is_space = true;
    } else {
      const bool is_first = out.find_first_not_of(kPageMark) == std::string::npos;
      if (!is_first && is_line_end) {
        out += '\n';
      } else if (!is_first && is_space) {
        out += ' ';
      }
      is_space = is_line_end = false;
      out += c;
    }
  }
  return out;
}

void AppendSuperscript(std::string_view text, std::string& out) {
  const char last = out.empty() ? ' ' : out.back();
  const std::string raised = last == ' ' || last == '\n' ? "" : Superscript(text);
  raised.empty() ? AppendInline(text, out) : static_cast<void>(out += raised);
}

void AddNote(std::string_view part, std::string& note) {
  if (part.empty()) return;
  if (!note.empty()) note += "; ";
  note += part;
}

std::string CountedNote(uint64_t count, std::string_view thing, std::string_view what_happened) {
  if (count == 0) return "";
  return std::to_string(count) + " " + std::string(thing) + (count == 1 ? " is " : "s are ") +
         std::string(what_happened);
}

void TextBuilder::BeginPage(uint64_t page) {
  page_ = page;
  is_new_page_ = true;
  has_gap_ = true;
}

// Adds a line (or lines) with its newline, after the empty line that was asked for.
void TextBuilder::Append(std::string_view line) {
  if (line.find_first_not_of(" \n\f") == std::string_view::npos) {
    const auto marks = std::count(line.begin(), line.end(), kPageMark);
    if (marks > 0) BeginPage(page_ + static_cast<uint64_t>(marks));
    return;
  }
  if (std::exchange(has_gap_, false) && !text_.empty()) text_ += '\n';
  for (const char c : line) {
    if (c == kPageMark) {
      ++page_;
      is_new_page_ = true;
      continue;
    }
    if (is_new_page_ && c != ' ' && c != '\n') {
      pages_.push_back({text_.size(), page_});
      is_new_page_ = false;
    }
    text_ += c;
  }
  if (text_.back() != '\n') text_ += '\n';
}

void TextBuilder::Heading(int level, std::string_view title) {
  const std::string line = CollapseSpace(title, false);
  if (line.find_first_not_of(kPageMark) == std::string::npos) return Append(line);
  Gap();
  // The page begins with the heading's mark, not behind it.
  const size_t begin = line.find_first_not_of(kPageMark);
  Append(line.substr(0, begin) + std::string(static_cast<size_t>(std::clamp(level, 1, 6)), '#') +
         " " + line.substr(begin));
  Gap();
}

void TextBuilder::Paragraph(std::string_view text) {
  const std::string clean = CollapseSpace(text, true);
  if (clean.find_first_not_of(kPageMark) == std::string::npos) return Append(clean);
  Gap();
  Append(clean);
  Gap();
}

void TextBuilder::Line(std::string_view text) { Append(CollapseSpace(text, false)); }

void TextBuilder::Item(int depth, std::string_view marker, std::string_view text) {
  const std::string clean = CollapseSpace(text, true);
  if (clean.find_first_not_of(kPageMark) == std::string::npos) return Append(clean);
  std::string item(2 * static_cast<size_t>(std::clamp(depth, 0, 8)), ' ');
  const std::string behind(item.size() + marker.size(), ' ');
  item += marker;
  for (const char c : clean) {
    item += c;
    if (c == '\n') item += behind;
  }
  Append(item);
}

void TextBuilder::Row(std::span<const std::string> cells, std::span<const int> widths) {
  constexpr size_t kMostRepeated = 100;  // bytes; a longer one is no heading of columns
  constexpr int kMostWidth = 100;
  std::string row;
  const auto num_texts = std::count_if(cells.begin(), cells.end(), [](const std::string& cell) {
    return CollapseSpace(cell, false).find_first_not_of(kPageMark) != std::string::npos;
  });
  for (size_t i = 0; i < cells.size(); ++i) {
    std::string cell = CollapseSpace(cells[i], false);
    const bool is_only_text = num_texts == 1 && !cell.empty();
    const int width = i < widths.size() && !is_only_text ? std::min(widths[i], kMostWidth) : 1;
    for (int column = 0; column < std::max(width, 1); ++column) {
      // Empty cells stay places.
      if (i > 0 || column > 0) row += row.empty() || row.ends_with(' ') ? "| " : " | ";
      row += cell;
      std::erase(cell, kPageMark);
      if (cell.size() > kMostRepeated) cell.clear();
    }
  }
  if (num_texts == 0) std::erase_if(row, [](char c) { return c != kPageMark; });
  row.erase(row.find_last_not_of(' ') + 1);
  Append(row);
}

void TextBuilder::Code(std::string_view code) {
  if (code.find_first_not_of(" \t\r\n") == std::string_view::npos) return;
  const std::string fence = code.find("```") == std::string_view::npos ? "```" : "~~~~~";
  Verbatim(fence + "\n" + std::string(code) + (code.ends_with('\n') ? "" : "\n") + fence);
}

void TextBuilder::Verbatim(std::string_view text) {
  std::string kept;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if ((byte >= 0x20 && byte != 0x7F) || c == '\n' || c == '\t') kept += c;
  }
  if (kept.find_first_not_of(" \t\n") == std::string::npos) return;
  kept.erase(kept.find_last_not_of(" \t\n") + 1);
  Gap();
  Append(kept);
  Gap();
}

Extracted TextBuilder::Finish(uint64_t num_pages, std::string note) {
  Extracted extracted;
  // Replacements would move the pages: text that is not valid keeps its pieces' places.
  if (IsValidUtf8(text_)) {
    extracted.text = std::move(text_);
    extracted.pages = std::move(pages_);
  } else {
    size_t begin = 0;
    for (size_t i = 0; i <= pages_.size(); ++i) {
      const size_t end = i < pages_.size() ? pages_[i].text_begin : text_.size();
      extracted.text += CleanUtf8(std::string_view(text_).substr(begin, end - begin)).text;
      if (i < pages_.size()) extracted.pages.push_back({extracted.text.size(), pages_[i].page});
      begin = end;
    }
  }
  extracted.num_pages = page_ == 0 ? 0 : std::max(num_pages, page_);
  extracted.note = std::move(note);
  return extracted;
}

}  // namespace lectern::tools
