#include "engine/document/text_regions.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/document/line_forms.h"
#include "engine/document/sentence_breaks.h"

namespace lectern {
namespace {

// Whether "#" stands before words; a number, as in "#1", is no comment.
bool IsHashed(std::string_view line) {
  const size_t behind = std::min(line.find_first_not_of('#'), line.size());
  return behind > 0 && behind < line.size() && StartOf(line.substr(behind)) != TextStart::kDigit &&
         HasWords(line);
}

// Finds the layout of a text's lines in one run: each step uses those before it.
class LayoutFinder {
 public:
  LayoutFinder(std::string_view text, std::span<const TextLine> lines) {
    layout_.text = text;
    layout_.lines = lines;
  }

  TextLayout Run() {
    FindFences();
    FindRegions();
    FindBase();
    FindComments();
    FindRowsAndCode();
    return std::move(layout_);
  }

 private:
  std::span<const TextLine> LinesOf(const TextRegion& region) const {
    return layout_.lines.subspan(region.first, region.last - region.first);
  }

  // Marks the lines between Markdown's code fences, and all lines as text elsewhere. A fence that
  // nothing closes is text.
  void FindFences() {
    layout_.forms.assign(layout_.lines.size(), LineForm::kText);
    for (size_t i = 0; i < layout_.lines.size(); ++i) {
      const size_t length = FenceLength(layout_.Line(i));
      if (length == 0) continue;
      const char mark = layout_.Line(i)[0];
      if (mark == '~' && IsUnderline(i)) continue;
      // A fence that nothing closes is looked for once, or a text of open fences would take long.
      bool& is_never_closed = is_never_closed_[mark == '~'];
      if (is_never_closed) continue;
      size_t end = i + 1;
      while (end < layout_.lines.size() && !IsClosingFence(layout_.Line(end), mark, length)) ++end;
      if (end == layout_.lines.size()) {
        is_never_closed = true;
        continue;
      }
      layout_.forms[i] = layout_.forms[end] = LineForm::kFence;
      std::fill(layout_.forms.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                layout_.forms.begin() + static_cast<std::ptrdiff_t>(end), LineForm::kFenced);
      i = end;
    }
  }
  // "~~~~~" as long as the title right above it, as reStructuredText underlines.
  bool IsUnderline(size_t i) const {
    if (i == 0 || layout_.lines[i].is_after_blank || layout_.forms[i - 1] != LineForm::kText)
      return false;
    const TextLine &title = layout_.lines[i - 1], &rule = layout_.lines[i];
    return title.indent == rule.indent && title.quotes == rule.quotes &&
           rule.width >= title.width && IsClosingFence(layout_.Line(i), '~', 3) &&
           HasWords(layout_.Line(i - 1)) && !layout_.Line(i - 1).ends_with(':');
  }
  // A line of nothing but the mark, at least as long as the opening fence.
  static bool IsClosingFence(std::string_view line, char mark, size_t length) {
    return line.size() >= length && line.find_first_not_of(mark) == std::string_view::npos;
  }

  // A region ends at a blank line, a page's end or edge, and where quoting or fencing changes.
  void FindRegions() {
    layout_.region_of.resize(layout_.lines.size());
    for (size_t i = 0; i < layout_.lines.size(); ++i) {
      const TextLine& line = layout_.lines[i];
      const bool begins = i == 0 || line.is_after_blank || line.is_after_page ||
                          line.is_page_edge || layout_.lines[i - 1].is_page_edge ||
                          line.quotes != layout_.lines[i - 1].quotes ||
                          layout_.forms[i] != layout_.forms[i - 1];
      if (begins)
        layout_.regions.push_back({.first = i, .last = i, .is_code = false, .wrapping = {}});
      layout_.regions.back().last = i + 1;
      layout_.region_of[i] = static_cast<uint32_t>(layout_.regions.size() - 1);
    }
  }

  // Whether "# " marks comments: more regions have comments than there are headings with a capital.
  // The first line of a text may still be its title.
  void FindComments() {
    size_t num_comments = 0, num_headings = 0;
    for (const TextRegion& region : layout_.regions) {
      if (layout_.forms[region.first] != LineForm::kText) continue;
      bool has_comment = false;
      for (size_t i = region.first; i < region.last; ++i) {
        const std::string_view line = layout_.Line(i);
        if (line[0] != '#' || layout_.lines[i].indent >= layout_.base + 4) continue;
        const MarkedHeading heading = ReadMarkedHeading(line);
        if (layout_.IsInComment(i)) {
          has_comment = true;
        } else if (heading.level > 0) {
          const TextStart start = StartOf(line.substr(heading.begin));
          num_headings += start != TextStart::kSmallLetter && start != TextStart::kOther;
        }
      }
      num_comments += has_comment;
    }
    layout_.has_hash_comments = num_comments > num_headings;
  }

  // The indentation of most prose.
  void FindBase() {
    std::array<size_t, 41> counts{};
    for (size_t i = 0; i < layout_.lines.size(); ++i) {
      if (layout_.lines[i].indent < counts.size() && layout_.forms[i] == LineForm::kText &&
          LooksLikeProse(layout_.Line(i))) {
        ++counts[layout_.lines[i].indent];
      }
    }
    layout_.base =
        static_cast<uint32_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  }

  // Sorts the regions of text: tables, code, and what may be wrapped. The width of wrapped lines
  // comes from all regions together, so their wrapping is found last.
  void FindRowsAndCode() {
    WrapWidths widths;
    for (TextRegion& region : layout_.regions) {
      if (layout_.forms[region.first] != LineForm::kText) continue;
      const bool has_rows = FindRows(region);
      region.is_code = !has_rows && IsCode(region);
      if (!has_rows && !region.is_code) widths.Add(layout_.text, LinesOf(region));
    }
    widths.Decide();
    for (TextRegion& region : layout_.regions) {
      region.wrapping = widths.Of(layout_.text, LinesOf(region));
      region.wrapping.is_verse |= IsSignature(region);
    }
  }

  // The lines below "--" in a mail: a name, an address, a number. Longer ones are a disclaimer.
  bool IsSignature(const TextRegion& region) const {
    constexpr uint32_t kWidest = 64;
    return layout_.Line(region.first) == "--" &&
           std::ranges::all_of(LinesOf(region),
                               [](const TextLine& line) { return line.width <= kWidest; });
  }

  // Marks the rows of tables: lines that fit the line before them, and those that are rows by
  // themselves, such as an entry of a table of contents. Returns whether there are any.
  bool FindRows(TextRegion& region) {
    if (IsSeparated(region)) {
      std::fill(layout_.forms.begin() + static_cast<std::ptrdiff_t>(region.first),
                layout_.forms.begin() + static_cast<std::ptrdiff_t>(region.last), LineForm::kRow);
      return true;
    }
    bool has_rows = false, is_behind_rule = false;
    size_t num_boxes = 0;  // runs of boxed lines between rules
    const bool is_justified = IsJustified(region);
    Cells previous;
    size_t previous_line = region.last;
    for (size_t i = region.first; i < region.last; ++i) {
      if (IsRule(layout_.Line(i))) {  // the rule below a table's head
        is_behind_rule = true;
        continue;
      }
      const Cells cells = ReadCells(layout_.Line(i), layout_.lines[i].indent);
      const bool is_alone =
          cells.has_leaders || cells.num_pipes >= 3 || (cells.is_boxed && cells.num_pipes >= 2);
      const bool is_code = LooksLikeCode(layout_.Line(i)) && !cells.is_boxed;
      num_boxes += cells.is_boxed && is_behind_rule;
      is_behind_rule = false;
      const bool is_row = previous_line < i && AreRows(previous, cells) &&
                          !(is_justified && IsProse(previous_line, previous) && IsProse(i, cells));
      if (is_row && !is_code) {
        layout_.forms[previous_line] = layout_.forms[i] = LineForm::kRow;
      } else if (is_alone && !is_code) {
        layout_.forms[i] = LineForm::kRow;
      }
      has_rows |= layout_.forms[i] == LineForm::kRow;
      previous = cells;
      previous_line = i;
    }
    region.is_grid = num_boxes >= 3;  // one rule below the head makes two
    return has_rows;
  }
  // Whether the region is a table as spreadsheets write them: all lines have equally many
  // separators (CountSeparators), two at least.
  bool IsSeparated(const TextRegion& region) const {
    constexpr size_t kLeastMarks = 2;
    const size_t num_lines = region.last - region.first;
    if (num_lines < 2) return false;
    // Two lines of Chinese with ASCII commas may have equally many by chance.
    if (num_lines == 2 && LooksLikeProse(layout_.Line(region.first))) return false;
    for (const char mark : {',', ';'}) {
      const size_t num_marks = CountSeparators(layout_.Line(region.first), mark);
      if (num_marks < kLeastMarks || LooksLikeCode(layout_.Line(region.first))) continue;
      size_t i = region.first + 1;
      while (i < region.last && layout_.lines[i].indent == layout_.lines[region.first].indent &&
             CountSeparators(layout_.Line(i), mark) == num_marks)
        ++i;
      if (i == region.last) return true;
    }
    return false;
  }
  // Whether two of three lines, or more, end in the column of the widest.
  bool IsJustified(const TextRegion& region) const {
    constexpr uint32_t kLeastWidth = 50;
    uint32_t widest = 0;
    size_t num_widest = 0;
    for (const TextLine& line : LinesOf(region)) {
      if (line.width > widest) widest = line.width, num_widest = 0;
      num_widest += line.width == widest;
    }
    return widest >= kLeastWidth && num_widest >= 2 &&
           num_widest * 3 >= 2 * (region.last - region.first);
  }
  // Whether the gaps in a line can be those of justified prose.
  bool IsProse(size_t i, const Cells& cells) const {
    constexpr size_t kWidestGap = 3;
    return cells.widest_gap <= kWidestGap && cells.num_pipes == 0 && cells.num_tabs == 0 &&
           LooksLikeProse(layout_.Line(i));
  }

  // A file of settings with comments: "# Seconds.", "timeout = 40", "[pump]".
  bool AreSettings(const TextRegion& region) const {
    size_t num_comments = 0, num_values = 0;
    for (size_t i = region.first; i < region.last; ++i) {
      const std::string_view line = layout_.Line(i);
      const bool is_comment = line[0] == '#' || line[0] == ';';
      const bool is_marked = is_comment || (line[0] == '[' && line.back() == ']');
      const size_t equals = line.find('=');
      const bool is_value = !is_marked && equals != std::string_view::npos && equals > 0 &&
                            CountWords(line.substr(0, equals)) == 1 &&
                            !LooksLikeProse(line.substr(equals + 1));
      if (!is_marked && !is_value) return false;
      num_comments += is_comment;
      num_values += is_value;
    }
    return num_values > 0 && num_comments > 0;
  }

  // Most lines look like code; indented deeper than prose, fewer need to, or none where a colon
  // announces it.
  bool IsCode(const TextRegion& region) const {
    if (AreSettings(region)) return true;
    size_t num_code = 0, num_prose = 0, num_hashes = 0;
    bool has_comment = layout_.has_hash_comments;
    uint32_t indent = UINT32_MAX;
    for (size_t i = region.first; i < region.last; ++i) {
      if (ReadItemNumber(layout_.Line(i)).length > 0 || BulletLength(layout_.Line(i)) > 0)
        return false;
      num_code += LooksLikeCode(layout_.Line(i));
      num_prose += LooksLikeProse(layout_.Line(i));
      num_hashes += IsHashed(layout_.Line(i));
      has_comment |= layout_.IsInComment(i);
      indent = std::min(indent, layout_.lines[i].indent);
    }
    const size_t num_lines = region.last - region.first;
    if (has_comment && num_hashes > 0 && num_hashes * 3 >= num_lines) return true;
    if (num_prose * 2 >= num_lines && num_code * 2 < num_lines) return false;
    if (indent < layout_.base + 4) return num_lines >= 2 && num_code * 10 >= num_lines * 6;
    const bool is_announced = region.first > 0 && layout_.Line(region.first - 1).ends_with(':');
    return num_code * 3 >= num_lines || (is_announced && num_prose * 4 <= num_lines);
  }

  TextLayout layout_;
  bool is_never_closed_[2] = {};  // fences of ` and ~
};

}  // namespace

bool TextLayout::IsInComment(size_t i) const {
  const auto is_pair = [&](size_t a, size_t b) {
    if (!IsHashed(Line(a)) || !IsHashed(Line(b)) || lines[a].indent != lines[b].indent) return false;
    const uint8_t level_a = ReadMarkedHeading(Line(a)).level,
                  level_b = ReadMarkedHeading(Line(b)).level;
    return level_a == level_b || level_a == 0 || level_b == 0;
  };
  const TextRegion& region = RegionOf(i);
  return (i > region.first && is_pair(i - 1, i)) || (i + 1 < region.last && is_pair(i, i + 1));
}

TextLayout FindLayout(std::string_view text, std::span<const TextLine> lines) {
  return LayoutFinder(text, lines).Run();
}

}  // namespace lectern
