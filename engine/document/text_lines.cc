#include "engine/document/text_lines.h"

#include <utf8proc.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "engine/document/sentence_breaks.h"
#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

// Length of the line break at `at`, or 0.
size_t BreakLength(std::string_view text, size_t at) {
  switch (text[at]) {
    case '\n':
    case '\f':
    case '\v':
      return 1;
    case '\r':
      return at + 1 < text.size() && text[at + 1] == '\n' ? 2 : 1;
    case '\xC2':
      return text.substr(at).starts_with("\xC2\x85") ? 2 : 0;
    case '\xE2': {
      const std::string_view mark = text.substr(at, 3);
      return mark == "\xE2\x80\xA8" || mark == "\xE2\x80\xA9" ? 3 : 0;
    }
    default:
      return 0;
  }
}

// Cuts a text into its lines, without the blank ones, from front to back. Used once.
class LineScanner {
 public:
  LineScanner(std::string_view text, std::span<const PageMapEntry> pages)
      : text_(text), pages_(pages) {}

  std::vector<TextLine> Run() {
    while (at_ < text_.size()) Scan();
    return std::move(lines_);
  }

 private:
  // Reads one line and its break.
  void Scan() {
    TextLine line;
    ReadMargin(&line);
    ReadContent(&line);
    if (line.end == line.begin) {
      is_after_blank_ = true;
    } else {
      while (next_page_ < pages_.size() && pages_[next_page_].text_begin <= line.begin) {
        is_after_page_ = true;
        ++next_page_;
      }
      line.is_after_blank = is_after_blank_ || lines_.empty();
      line.is_after_page = is_after_page_ && !lines_.empty();
      is_after_blank_ = is_after_page_ = false;
      lines_.push_back(line);
    }
    if (at_ >= text_.size()) return;
    if (text_[at_] == '\f') is_after_page_ = is_after_blank_ = true;
    if (text_[at_] == '\xE2' && text_[at_ + 2] == '\xA9') is_after_blank_ = true;  // U+2029
    at_ += BreakLength(text_, at_);
  }

  // Indentation and "> > " marks.
  void ReadMargin(TextLine* line) {
    uint32_t columns = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '>' && line->quotes < UINT16_MAX && columns <= 3) {
        ++line->quotes;
        columns = 0;
        if (text_.substr(at_ + 1).starts_with(' ')) ++at_;
        ++at_;
        continue;
      }
      if (BreakLength(text_, at_) > 0) break;
      size_t length = 1;
      uint32_t character = static_cast<unsigned char>(c);
      if (character >= 0x80) character = DecodeChar(text_, at_, &length);
      if (!IsWhiteSpace(character)) break;
      columns = c == '\t' ? (columns / 8 + 1) * 8 : columns + CharColumns(character);
      at_ += length;
    }
    line->begin = line->end = at_;
    line->indent = line->width = columns;
  }

  // From behind the margin to the line's break, which stays: where the content ends without the
  // space behind it, and its width and that of its first word in columns.
  void ReadContent(TextLine* line) {
    uint32_t columns = line->indent;
    while (at_ < text_.size()) {
      const auto byte = static_cast<unsigned char>(text_[at_]);
      size_t length = 1;
      uint32_t c = byte;
      if (byte < 0x20 || byte >= 0x80) {
        if (BreakLength(text_, at_) > 0) break;
        if (byte >= 0x80) c = DecodeChar(text_, at_, &length);
      }
      at_ += length;
      columns = c == '\t' ? (columns / 8 + 1) * 8 : columns + (c < 0x80 ? 1 : CharColumns(c));
      const bool is_space = c == ' ' || ((c < 0x20 || c >= 0x80) && IsWhiteSpace(c));
      if (!is_space) {
        line->end = at_;
        line->width = columns;
      }
      const bool may_break = is_space && c != 0xA0 && c != 0x202F;  // "« Packages »" stays whole
      if (line->first_word == 0 && (may_break || (c >= 0x80 && IsWithoutSpaces(c)))) {
        line->first_word = line->width - line->indent;
      }
    }
    if (line->first_word == 0) line->first_word = line->width - line->indent;
  }

  const std::string_view text_;
  const std::span<const PageMapEntry> pages_;
  size_t at_ = 0, next_page_ = 0;
  bool is_after_blank_ = true, is_after_page_ = false;
  std::vector<TextLine> lines_;
};

// A line with each number as '#' and spaces as one: running heads of two pages are equal then.
std::string EdgeKey(std::string_view line) {
  std::string key;
  for (const char c : line) {
    const bool is_digit = c >= '0' && c <= '9';
    const char kept = is_digit ? '#' : c == '\t' ? ' ' : c;
    if ((kept == '#' || kept == ' ') && !key.empty() && key.back() == kept) continue;
    key += kept;
  }
  return key;
}

// "7", "- 7 -", "Page 7", "[Page 7]", "[Pg 7]", "Page 7 of 9", "Mills Standards Track [Page 7]".
bool IsPageNumber(const std::string& key) {
  static constexpr std::string_view kForms[] = {
      "#",       "- # -",  "Page #",   "[Page #]", "Page # of #",   "# / #",  "p. #",
      "Seite #", "page #", "Página #", "Pagina #", "Seite # von #", "[Pg #]", "{#}"};
  return std::find(std::begin(kForms), std::end(kForms), key) != std::end(kForms) ||
         key.ends_with(" [Page #]");
}

// Marks the line behind each printed page number ("Halden  Informational  [Page 7]", "- 7 -") as a
// page's first: copies of paged texts often lack the form feeds. The number stands between blank
// lines, or its running head follows at once.
void FindPrintedPages(std::string_view text, std::vector<TextLine>* lines) {
  constexpr size_t kLongest = 100;
  for (size_t i = 1; i + 1 < lines->size(); ++i) {
    const TextLine& line = (*lines)[i];
    if (!line.is_after_blank || line.end - line.begin > kLongest) continue;
    const char last = text[line.end - 1];
    if (last != ']' && last != '-' && !(last >= '0' && last <= '9')) continue;
    const std::string key = EdgeKey(line.In(text));
    TextLine& next = (*lines)[i + 1];
    const bool is_wide = line.In(text).find("    ") != std::string_view::npos;
    const bool is_before_head = is_wide && key.ends_with(" [Page #]") && i + 2 < lines->size() &&
                                (*lines)[i + 2].is_after_blank;
    if ((next.is_after_blank && IsPageNumber(key)) || is_before_head)
      next.is_after_page = next.is_after_blank = true;
  }
}

// Marks the last line before a page break and the first one behind it where they are a page number
// or come with two pages, and blank lines part them from the text; the last line of the text too.
// Lines of more than 200 bytes are text.
void MarkPageEdges(std::string_view text, std::vector<TextLine>* lines) {
  constexpr size_t kLongest = 200;
  struct Edge {
    size_t line;
    std::string key;
  };
  std::vector<Edge> edges;
  std::unordered_map<std::string, uint32_t> counts;
  const auto add = [&](size_t i) {
    const TextLine& line = (*lines)[i];
    if (line.end - line.begin > kLongest) return;
    edges.push_back({i, EdgeKey(line.In(text))});
    ++counts[edges.back().key];
  };
  if (std::ranges::none_of(*lines, &TextLine::is_after_page)) return;
  for (size_t i = 0; i < lines->size(); ++i) {
    const TextLine& line = (*lines)[i];
    const TextLine* const next = i + 1 < lines->size() ? &(*lines)[i + 1] : nullptr;
    const bool is_last = next == nullptr || next->is_after_page;
    const bool is_foot = line.is_after_blank && is_last;
    const bool is_head = line.is_after_page && (next == nullptr || next->is_after_blank);
    // A page's number needs no blank line before it.
    const bool is_number = is_last && i > 0 && line.end - line.begin <= kLongest &&
                           line.indent > (*lines)[i - 1].indent &&
                           IsPageNumber(EdgeKey(line.In(text)));
    if (is_foot || is_head || is_number) add(i);
  }
  for (const Edge& edge : edges) {
    (*lines)[edge.line].is_page_edge = IsPageNumber(edge.key) || counts[edge.key] > 1;
  }
  // Where the foot of a page is one, a line with wide gaps at the head of the next is, too.
  for (const Edge& edge : edges) {
    TextLine& line = (*lines)[edge.line];
    const bool is_head =
        line.is_after_page && edge.line > 0 && (*lines)[edge.line - 1].is_page_edge;
    if (is_head && line.In(text).find("    ") != std::string_view::npos) line.is_page_edge = true;
  }
}

}  // namespace

uint32_t CharColumns(uint32_t c) {
  return utf8proc_charwidth(static_cast<utf8proc_int32_t>(c)) == 2 ? 2 : 1;
}

std::vector<TextLine> ScanLines(std::string_view text, std::span<const PageMapEntry> pages) {
  std::vector<TextLine> lines = LineScanner(text, pages).Run();
  FindPrintedPages(text, &lines);
  MarkPageEdges(text, &lines);
  return lines;
}

}  // namespace lectern
