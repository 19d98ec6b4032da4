#include "engine/document/text_blocks.h"

#include <algorithm>
#include <array>

#include "engine/document/line_forms.h"
#include "engine/document/sentence_breaks.h"
#include "engine/document/wrapped_lines.h"

namespace lectern {
namespace {

struct Region {
  size_t first, last;  // lines [first, last)
  bool is_code = false;
  Wrapping wrapping;
};

class BlockFinder {
 public:
  BlockFinder(std::string_view text, std::span<const TextLine> lines)
      : text_(text), lines_(lines) {}

  std::vector<TextBlock> Run() {
    FindFences();
    FindRegions();
    FindBase();
    FindRowsAndCode();
    for (size_t i = 0; i < lines_.size();) i = AddBlock(i);
    return std::move(blocks_);
  }

 private:
  enum class Form : uint8_t { kText, kRow, kFence, kFenced };

  std::string_view Line(size_t i) const { return lines_[i].In(text_); }
  const Region& RegionOf(size_t i) const { return regions_[region_of_[i]]; }
  std::span<const TextLine> LinesOf(const Region& region) const {
    return lines_.subspan(region.first, region.last - region.first);
  }

  // --- What lines and regions are ---

  void FindFences() {
    forms_.assign(lines_.size(), Form::kText);
    for (size_t i = 0; i < lines_.size(); ++i) {
      const size_t length = FenceLength(Line(i));
      if (length == 0) continue;
      const char mark = Line(i)[0];
      // A fence that nothing closes is looked for once, or a text of open fences would take long.
      bool& is_never_closed = is_never_closed_[mark == '~'];
      if (is_never_closed) continue;
      size_t end = i + 1;
      while (end < lines_.size() && !IsClosingFence(Line(end), mark, length)) ++end;
      if (end == lines_.size()) {
        is_never_closed = true;
        continue;
      }
      forms_[i] = forms_[end] = Form::kFence;
      std::fill(forms_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                forms_.begin() + static_cast<std::ptrdiff_t>(end), Form::kFenced);
      i = end;
    }
  }
  static bool IsClosingFence(std::string_view line, char mark, size_t length) {
    return line.size() >= length && line.find_first_not_of(mark) == std::string_view::npos;
  }

  void FindRegions() {
    region_of_.resize(lines_.size());
    for (size_t i = 0; i < lines_.size(); ++i) {
      const TextLine& line = lines_[i];
      const bool begins = i == 0 || line.is_after_blank || line.is_after_page ||
                          line.is_page_edge || lines_[i - 1].is_page_edge ||
                          line.quotes != lines_[i - 1].quotes || forms_[i] != forms_[i - 1];
      if (begins) regions_.push_back({.first = i, .last = i, .is_code = false, .wrapping = {}});
      regions_.back().last = i + 1;
      region_of_[i] = static_cast<uint32_t>(regions_.size() - 1);
    }
  }

  // The indentation of most prose.
  void FindBase() {
    std::array<size_t, 41> counts{};
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (lines_[i].indent < counts.size() && forms_[i] == Form::kText && LooksLikeProse(Line(i))) {
        ++counts[lines_[i].indent];
      }
    }
    base_ = static_cast<uint32_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  }

  void FindRowsAndCode() {
    WrapWidths widths;
    for (Region& region : regions_) {
      if (forms_[region.first] != Form::kText) continue;
      const bool has_rows = FindRows(region);
      region.is_code = !has_rows && IsCode(region);
      if (!has_rows && !region.is_code) widths.Add(text_, LinesOf(region));
    }
    widths.Decide();
    for (Region& region : regions_) region.wrapping = widths.Of(text_, LinesOf(region));
  }

  bool FindRows(const Region& region) {
    bool has_rows = false;
    Cells previous;
    size_t previous_line = region.last;
    for (size_t i = region.first; i < region.last; ++i) {
      if (IsRule(Line(i))) continue;  // the rule below a table's head
      const Cells cells = ReadCells(Line(i), lines_[i].indent);
      const bool is_alone =
          cells.has_leaders || cells.num_pipes >= 3 || (cells.is_boxed && cells.num_pipes >= 2);
      const bool is_code = LooksLikeCode(Line(i)) && !cells.is_boxed;
      if (previous_line < i && AreRows(previous, cells) && !is_code) {
        forms_[previous_line] = forms_[i] = Form::kRow;
      } else if (is_alone && !is_code) {
        forms_[i] = Form::kRow;
      }
      has_rows |= forms_[i] == Form::kRow;
      previous = cells;
      previous_line = i;
    }
    return has_rows;
  }

  // Most lines look like code; indented deeper than prose, fewer need to, or none where a colon
  // announces it.
  bool IsCode(const Region& region) const {
    size_t num_code = 0, num_prose = 0;
    uint32_t indent = UINT32_MAX;
    for (size_t i = region.first; i < region.last; ++i) {
      if (ReadItemNumber(Line(i)).length > 0 || BulletLength(Line(i)) > 0) return false;
      num_code += LooksLikeCode(Line(i));
      num_prose += LooksLikeProse(Line(i));
      indent = std::min(indent, lines_[i].indent);
    }
    const size_t num_lines = region.last - region.first;
    if (num_prose * 2 >= num_lines && num_code * 2 < num_lines) return false;
    if (indent < base_ + 4) return num_lines >= 2 && num_code * 10 >= num_lines * 6;
    const bool is_announced = region.first > 0 && Line(region.first - 1).ends_with(':');
    return num_code * 3 >= num_lines || (is_announced && num_prose == 0);
  }

  // --- Blocks ---

  // Adds the block that begins with line i, if it is one; returns the line behind it.
  size_t AddBlock(size_t i) {
    if (forms_[i] == Form::kFenced || RegionOf(i).is_code) return AddCode(i);
    if (forms_[i] == Form::kFence || IsRule(Line(i))) return i + 1;
    if (forms_[i] == Form::kRow) return Add(PassageKind::kTableRow, 0, i, i + 1, 0);
    if (lines_[i].is_page_edge) return Add(PassageKind::kSentence, 0, i, i + 1, 0);
    if (const MarkedHeading heading = MarkedHeadingAt(i); heading.level > 0) {
      Add(PassageKind::kHeading, heading.level, i, i + 1, heading.begin);
      blocks_.back().end = lines_[i].begin + heading.end;
      return i + 1;
    }
    if (const uint8_t level = UnderlinedLevel(i))
      return Add(PassageKind::kHeading, level, i, i + 2, 0);
    if (const uint8_t level = HeadingLevel(i))
      return Add(PassageKind::kHeading, level, i, i + 1, 0);
    if (IsItem(i)) return AddItem(i);
    return Add(PassageKind::kSentence, 0, i, ParagraphEnd(i, false), 0);
  }

  // `skipped`: bytes of the first line that are a mark. Returns `last`.
  size_t Add(PassageKind kind, uint8_t level, size_t first, size_t last, size_t skipped) {
    size_t end = last;  // without an underline
    while (end > first + 1 && IsRule(Line(end - 1)) && kind == PassageKind::kHeading) --end;
    blocks_.push_back({.kind = kind,
                       .level = level,
                       .first = first,
                       .last = end,
                       .begin = lines_[first].begin + skipped,
                       .end = lines_[end - 1].end});
    return last;
  }

  size_t AddCode(size_t i) {
    size_t last = i + 1;
    if (forms_[i] == Form::kFenced) {
      while (last < lines_.size() && forms_[last] == Form::kFenced) ++last;
    } else {
      last = RegionOf(i).last;
    }
    return Add(PassageKind::kCode, 0, i, last, 0);
  }

  size_t AddItem(size_t i) {
    const size_t bullet = BulletLength(Line(i));
    list_value_ = bullet > 0 ? 0 : ReadItemNumber(Line(i)).value;
    list_line_ = i;
    return Add(PassageKind::kListItem, 0, i, ParagraphEnd(i, true), bullet);
  }

  // The lines that the paragraph or item which begins with line i goes on for.
  size_t ParagraphEnd(size_t i, bool is_item) {
    size_t last = i + 1;
    while (last < lines_.size()) {
      const Region& region = RegionOf(last - 1);
      if (last == region.last) {
        const size_t next = NextOverPage(last);
        if (next == 0) break;
        last = next + 1;
        continue;
      }
      if (BeginsBlock(last)) break;
      const bool is_hanging = is_item && lines_[last].indent >= lines_[i].indent + 2;
      if (!is_hanging && !RunsOn(text_, lines_[last - 1], lines_[last], region.wrapping)) break;
      ++last;
    }
    return last;
  }
  // Where a paragraph that ends a page before line i goes on; 0: it does not.
  size_t NextOverPage(size_t i) const {
    size_t next = i;
    bool is_break = false;
    while (next < lines_.size()) {
      is_break |= lines_[next].is_after_page;
      if (!lines_[next].is_page_edge) break;
      ++next;
    }
    if (next == lines_.size() || !is_break || lines_[next].quotes != lines_[i - 1].quotes) return 0;
    if (forms_[next] != Form::kText || RegionOf(next).is_code || BeginsBlock(next)) return 0;
    if (StartOf(Line(next)) != TextStart::kSmallLetter && HeadingLevel(next) > 0) return 0;
    return RunsOverPage(text_, lines_[i - 1], lines_[next], RegionOf(i - 1).wrapping) ? next : 0;
  }

  // Whether a line inside a region cannot continue the block before it.
  bool BeginsBlock(size_t i) const {
    if (forms_[i] != Form::kText || IsRule(Line(i))) return true;
    if (MarkedHeadingAt(i).level > 0 || UnderlinedLevel(i) > 0) return true;
    return IsItem(i);
  }

  // Whether line i begins a list item: at the head of a region, or behind an item or a line that
  // does not run on. A number in running text, wrapped to the head of a line, is none.
  bool IsItem(size_t i) const {
    const size_t bullet = BulletLength(Line(i));
    const ItemNumber number = bullet > 0 ? ItemNumber() : ReadItemNumber(Line(i));
    if (bullet == 0 && number.length == 0) return false;
    const Region& region = RegionOf(i);
    if (i == region.first) return true;
    const bool is_in_list = list_line_ >= region.first && list_line_ < i;
    if (is_in_list && (bullet > 0 || number.value == list_value_ + 1 ||
                       lines_[i].indent != lines_[list_line_].indent)) {
      return true;
    }
    if (Line(i - 1).ends_with(':') || EndOf(Line(i - 1)) == TextEnd::kClosed) return true;
    return (bullet > 0 || number.value == 1) &&
           !RunsOn(text_, lines_[i - 1], lines_[i], region.wrapping);
  }

  // --- Headings ---

  // A heading of Markdown; no comment, which is a sentence over or between lines of a program.
  MarkedHeading MarkedHeadingAt(size_t i) const {
    const MarkedHeading heading = ReadMarkedHeading(Line(i));
    if (heading.level == 0 || lines_[i].indent >= base_ + 4) return {};
    const bool is_alone = RegionOf(i).last - RegionOf(i).first == 1;
    const bool is_sentence = CountWords(Line(i)) > 4 && EndOf(Line(i)) == TextEnd::kClosed;
    return is_alone || !is_sentence ? heading : MarkedHeading();
  }

  uint8_t UnderlinedLevel(size_t i) const {
    if (i + 1 >= RegionOf(i).last || lines_[i].width > 100) return 0;
    const std::string_view rule = Line(i + 1);
    const uint8_t level = UnderlineLevel(rule);
    return level > 0 && HasWords(Line(i)) && rule.size() * 2 >= lines_[i].width - lines_[i].indent
               ? level
               : 0;
  }

  // The level of a heading that only its form and place tell; 0: line i is none.
  uint8_t HeadingLevel(size_t i) const {
    constexpr uint32_t kWidest = 80;
    constexpr size_t kMostWords = 12;
    const Region& region = RegionOf(i);
    const std::string_view line = Line(i);
    const TextLine& place = lines_[i];
    if (place.width - place.indent > kWidest || i + 1 == lines_.size()) return 0;
    const size_t num_words = CountWords(line);
    if (num_words > kMostWords || BulletLength(line) > 0) return 0;
    const bool is_first = i == region.first, is_alone = is_first && i + 1 == region.last;
    const bool is_apart = is_alone || (i + 1 < region.last && IsHeadOf(i, i + 1));
    if (!is_apart) return 0;
    const bool ends_like_text = line.ends_with(',') || line.ends_with(';') || line.ends_with(':') ||
                                line.ends_with("，") || line.ends_with("：") ||
                                line.ends_with("、");
    const uint8_t named = NamedHeadingLevel(line);
    if (is_first && named > 0 && !ends_like_text &&
        (num_words <= 3 || EndOf(line) != TextEnd::kClosed))
      return named;
    if (IsQuestion(i)) return 4;
    if (ends_like_text || EndOf(line) == TextEnd::kClosed) return 0;
    const uint8_t numbered = NumberedHeadingLevel(line);
    if (numbered >= 2 && (is_first || EndOf(Line(i - 1)) == TextEnd::kClosed)) return numbered;
    if (numbered == 1) return is_alone && !IsInLooseList(i) ? 1 : 0;
    if (!is_first || ReadItemNumber(line).length > 0) return 0;
    if (IsAllCaps(line)) return i + 1 < region.last && IsAllCaps(Line(i + 1)) ? 0 : 2;
    return IsTitle(i, num_words) ? (i == 0 ? 1 : 3) : 0;
  }
  // Line i stands over text that is no part of its paragraph.
  bool IsHeadOf(size_t i, size_t next) const {
    if (StartOf(Line(next)) == TextStart::kSmallLetter && lines_[next].indent <= lines_[i].indent)
      return false;
    if (lines_[next].indent >= lines_[i].indent + 2) return true;
    return !RegionOf(i).wrapping.has_keys && !RegionOf(i).wrapping.is_verse &&
           !RunsOn(text_, lines_[i], lines_[next], RegionOf(i).wrapping);
  }
  // A question that stands alone over a paragraph, as in lists of questions and answers.
  bool IsQuestion(size_t i) const {
    const size_t next = RegionOf(i).last;
    if (next != i + 1 || i != RegionOf(i).first || !Line(i).ends_with('?') || next >= lines_.size())
      return false;
    const size_t last = RegionOf(next).last - 1;
    return StartOf(Line(i)) == TextStart::kCapital && lines_[next].width > lines_[i].width &&
           !Line(last).ends_with('?') && EndOf(Line(last)) == TextEnd::kClosed;
  }
  // "1. Milk", a blank line, "2. Eggs".
  bool IsInLooseList(size_t i) const {
    const uint32_t value = ReadItemNumber(Line(i)).value;
    const bool is_after = i > 0 && value > 1 && ReadItemNumber(Line(i - 1)).value == value - 1;
    const bool is_before = i + 1 < lines_.size() && ReadItemNumber(Line(i + 1)).value == value + 1;
    return is_after || is_before;
  }
  // A short line that begins with a capital and stands alone over something longer.
  bool IsTitle(size_t i, size_t num_words) const {
    constexpr size_t kMostWords = 10, kFewWords = 6;
    constexpr uint32_t kWidest = 70, kWidestWithoutCase = 40;
    const Region& region = RegionOf(i);
    const TextLine& line = lines_[i];
    const uint32_t width = line.width - line.indent;
    const TextStart start = StartOf(Line(i));
    const bool has_case = start == TextStart::kCapital;
    if (!has_case && start != TextStart::kOtherLetter) return false;
    if (width > (has_case ? kWidest : kWidestWithoutCase) || num_words > kMostWords ||
        IsKeyValue(Line(i)))
      return false;
    const bool is_clause = Line(i).find(',') != std::string_view::npos ||
                           (region.last < lines_.size() && IsItem(region.last));
    if (has_case && num_words > (is_clause ? 3 : kFewWords) && !HasTitleCase(Line(i))) return false;
    if (region.last - region.first > 1) {  // over indented text, as in manuals
      return lines_[i + 1].indent >= line.indent + 2 && num_words <= 8 &&
             StartOf(Line(i + 1)) != TextStart::kSmallLetter;
    }
    const size_t next = region.last;
    if (next >= lines_.size() || lines_[next].quotes != line.quotes || lines_[next].is_page_edge)
      return false;
    const Region& below = RegionOf(next);
    return below.last - below.first > 1 || lines_[next].width > line.width + width / 4 ||
           EndOf(Line(next)) == TextEnd::kClosed || forms_[next] != Form::kText || IsItem(next);
  }
  // Most words of four letters and more begin with a capital.
  static bool HasTitleCase(std::string_view line) {
    size_t num_long = 0, num_capitals = 0;
    for (size_t at = 0; at < line.size();) {
      const size_t end = std::min(line.find(' ', at), line.size());
      if (end - at >= 4) {
        ++num_long;
        num_capitals += StartOf(line.substr(at, end - at)) == TextStart::kCapital;
      }
      at = end + 1;
    }
    return num_capitals * 10 >= num_long * 6;
  }

  const std::string_view text_;
  const std::span<const TextLine> lines_;
  std::vector<Form> forms_;  // [lines]
  std::vector<Region> regions_;
  std::vector<uint32_t> region_of_;  // [lines]
  std::vector<TextBlock> blocks_;
  uint32_t base_ = 0;             // columns
  bool is_never_closed_[2] = {};  // fences of ` and ~
  size_t list_line_ = SIZE_MAX;   // the last item, and its number
  uint32_t list_value_ = 0;
};

}  // namespace

std::vector<TextBlock> FindBlocks(std::string_view text, std::span<const TextLine> lines) {
  return BlockFinder(text, lines).Run();
}

}  // namespace lectern
