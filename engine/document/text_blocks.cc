#include "engine/document/text_blocks.h"

#include <algorithm>

#include "engine/document/headings.h"
#include "engine/document/line_forms.h"
#include "engine/document/sentence_breaks.h"
#include "engine/document/text_regions.h"
#include "engine/document/wrapped_lines.h"

namespace lectern {
namespace {

// Cuts a text's lines into blocks, from front to back. Used once.
class BlockFinder {
 public:
  explicit BlockFinder(const TextLayout& layout) : layout_(layout) {}

  std::vector<TextBlock> Run() {
    for (size_t i = 0; i < layout_.lines.size();) i = AddBlock(i);
    return std::move(blocks_);
  }

 private:
  // Adds the block that begins with line i, if it is one; returns the line behind it.
  size_t AddBlock(size_t i) {
    if (IsOverline(i)) {
      return Add(PassageKind::kHeading, UnderlinedLevel(layout_, i + 1), i + 1, i + 3, 0);
    }
    if (IsRecord(i)) return Add(PassageKind::kTableRow, 0, i, RecordEnd(i), 0);
    if (layout_.forms[i] == LineForm::kFenced || layout_.RegionOf(i).is_code) return AddCode(i);
    if (layout_.forms[i] == LineForm::kFence || IsRule(layout_.Line(i))) return i + 1;
    if (layout_.forms[i] == LineForm::kRow) return Add(PassageKind::kTableRow, 0, i, RowEnd(i), 0);
    if (layout_.lines[i].is_page_edge) return Add(PassageKind::kSentence, 0, i, i + 1, 0);
    if (const MarkedHeading heading = MarkedHeadingAt(layout_, i); heading.level > 0) {
      Add(PassageKind::kHeading, heading.level, i, i + 1, heading.begin);
      blocks_.back().end = layout_.lines[i].begin + heading.end;
      return i + 1;
    }
    if (const uint8_t level = UnderlinedLevel(layout_, i))
      return Add(PassageKind::kHeading, level, i, i + 2, 0);
    if (const uint8_t level = HeadingLevel(layout_, i))
      return Add(PassageKind::kHeading, level, i, i + 1, 0);
    if (IsItem(i)) return AddItem(i);
    return Add(PassageKind::kSentence, 0, i, ParagraphEnd(i, false), 0);
  }

  // `skipped`: bytes of the first line that are a mark. Returns `last`.
  size_t Add(PassageKind kind, uint8_t level, size_t first, size_t last, size_t skipped) {
    size_t end = last;  // without an underline
    while (end > first + 1 && IsRule(layout_.Line(end - 1)) && kind == PassageKind::kHeading) --end;
    blocks_.push_back({.kind = kind,
                       .level = level,
                       .first = first,
                       .last = end,
                       .begin = layout_.lines[first].begin + skipped,
                       .end = layout_.lines[end - 1].end});
    return last;
  }

  // The line behind the row that begins with line i.
  size_t RowEnd(size_t i) const {
    const TextRegion& region = layout_.RegionOf(i);
    size_t last = i + 1;
    while (region.is_grid && last < region.last && layout_.forms[last] == LineForm::kRow) ++last;
    return last;
  }

  size_t AddCode(size_t i) {
    size_t last = i + 1;
    if (layout_.forms[i] == LineForm::kFenced) {
      while (last < layout_.lines.size() && layout_.forms[last] == LineForm::kFenced) ++last;
    } else {
      last = layout_.RegionOf(i).last;
    }
    return Add(PassageKind::kCode, 0, i, last, 0);
  }

  size_t AddItem(size_t i) {
    const size_t bullet = BulletLength(layout_.Line(i));
    list_value_ = bullet > 0 ? 0 : ReadItemNumber(layout_.Line(i)).value;
    list_line_ = i;
    return Add(PassageKind::kListItem, 0, i, ParagraphEnd(i, true), bullet);
  }

  // The line behind the last one of the paragraph or item that begins with line i.
  size_t ParagraphEnd(size_t i, bool is_item) {
    size_t last = i + 1;
    while (last < layout_.lines.size()) {
      const TextRegion& region = layout_.RegionOf(last - 1);
      if (last == region.last) {
        const size_t next = NextOverPage(last);
        if (next == 0) break;
        last = next + 1;
        continue;
      }
      if (BeginsBlock(last)) break;
      const bool is_hanging = is_item && layout_.lines[last].indent >= layout_.lines[i].indent + 2;
      if (!is_hanging &&
          !RunsOn(layout_.text, layout_.lines[last - 1], layout_.lines[last], region.wrapping))
        break;
      ++last;
    }
    return last;
  }
  // Where a paragraph that ends a page before line i goes on; 0: it does not.
  size_t NextOverPage(size_t i) const {
    size_t next = i;
    bool is_break = false;
    while (next < layout_.lines.size()) {
      is_break |= layout_.lines[next].is_after_page;
      if (!layout_.lines[next].is_page_edge) break;
      ++next;
    }
    if (next == layout_.lines.size() || !is_break ||
        layout_.lines[next].quotes != layout_.lines[i - 1].quotes)
      return 0;
    if (layout_.forms[next] != LineForm::kText || layout_.RegionOf(next).is_code ||
        BeginsBlock(next))
      return 0;
    if (StartOf(layout_.Line(next)) != TextStart::kSmallLetter && HeadingLevel(layout_, next) > 0)
      return 0;
    return RunsOverPage(layout_.text, layout_.lines[i - 1], layout_.lines[next],
                        layout_.RegionOf(i - 1).wrapping)
               ? next
               : 0;
  }

  // Whether a line inside a region cannot continue the block before it.
  bool BeginsBlock(size_t i) const {
    if (layout_.forms[i] != LineForm::kText || IsRule(layout_.Line(i))) return true;
    if (MarkedHeadingAt(layout_, i).level > 0 || UnderlinedLevel(layout_, i) > 0) return true;
    if (IsRecord(i)) return true;
    return IsItem(i) || IsEntry(i);
  }
  // Whether line i is an entry of a table of contents behind another one, and no number that was
  // wrapped to the head of a line.
  bool IsEntry(size_t i) const {
    if (SectionNumberLength(layout_.Line(i)) == 0) return false;
    const std::string_view before = layout_.Line(i - 1);
    return SectionNumberLength(before) > 0 || ReadItemNumber(before).length > 0 ||
           list_line_ + 1 == i;
  }

  // The rule over a title that has one below it, too, as reStructuredText has them.
  bool IsOverline(size_t i) const {
    return layout_.forms[i] == LineForm::kText && UnderlineLevel(layout_.Line(i)) > 0 &&
           i + 2 < layout_.RegionOf(i).last && layout_.Line(i) == layout_.Line(i + 2) &&
           UnderlinedLevel(layout_, i + 1) > 0;
  }

  // Whether line i begins a record of a log: the lines next to it, or another one of its region,
  // begin with a time as well.
  bool IsRecord(size_t i) const {
    if (layout_.forms[i] == LineForm::kFenced || !BeginsWithTime(layout_.Line(i))) return false;
    if (i > 0 && BeginsWithTime(layout_.Line(i - 1))) return true;
    const TextRegion& region = layout_.RegionOf(i);
    const size_t last = std::min(region.last + 1, layout_.lines.size());
    for (size_t other = i + 1; other < last; ++other) {
      if (BeginsWithTime(layout_.Line(other))) return true;
    }
    // Most records have one after them, so that few lines are looked at.
    for (size_t other = i; other > region.first; --other) {
      if (BeginsWithTime(layout_.Line(other - 1))) return true;
    }
    return false;
  }
  size_t RecordEnd(size_t i) const {
    size_t last = i + 1;
    while (last < layout_.RegionOf(i).last && layout_.forms[last] != LineForm::kFenced &&
           !BeginsWithTime(layout_.Line(last))) {
      ++last;
    }
    return last;
  }

  // "am" and, below it, "2. Mai": the number at the head of an item's later line is a part of its
  // sentence, which the line before leaves open.
  bool IsWrappedNumber(size_t i) const {
    return layout_.lines[i].indent == layout_.lines[i - 1].indent + 2 * (list_line_ + 1 == i) &&
           EndOf(layout_.Line(i - 1)) != TextEnd::kClosed && !layout_.Line(i - 1).ends_with(':') &&
           RunsOn(layout_.text, layout_.lines[i - 1], layout_.lines[i],
                  layout_.RegionOf(i).wrapping);
  }

  // Whether line i begins a list item: at the head of a region, or behind an item or a line that
  // does not run on. A number in running text, wrapped to the head of a line, is none.
  bool IsItem(size_t i) const {
    const size_t bullet = BulletLength(layout_.Line(i));
    const ItemNumber number = bullet > 0 ? ItemNumber() : ReadItemNumber(layout_.Line(i));
    if (bullet == 0 && number.length == 0) return false;
    const TextRegion& region = layout_.RegionOf(i);
    if (i == region.first) return true;
    const bool is_in_list = list_line_ >= region.first && list_line_ < i;
    const bool is_indented =
        is_in_list && layout_.lines[i].indent != layout_.lines[list_line_].indent;
    if (is_in_list && (bullet > 0 || ((number.value == list_value_ + 1 || is_indented) &&
                                      !(is_indented && IsWrappedNumber(i))))) {
      return true;
    }
    if (layout_.Line(i - 1).ends_with(':') || EndOf(layout_.Line(i - 1)) == TextEnd::kClosed)
      return true;
    return (bullet > 0 || number.value == 1) &&
           !RunsOn(layout_.text, layout_.lines[i - 1], layout_.lines[i], region.wrapping);
  }

  const TextLayout& layout_;
  std::vector<TextBlock> blocks_;
  size_t list_line_ = SIZE_MAX;  // the last item, and its number
  uint32_t list_value_ = 0;
};

}  // namespace

std::vector<TextBlock> FindBlocks(std::string_view text, std::span<const TextLine> lines) {
  const TextLayout layout = FindLayout(text, lines);
  return BlockFinder(layout).Run();
}

}  // namespace lectern
