#include "engine/document/headings.h"

#include <algorithm>

#include "engine/document/sentence_breaks.h"

namespace lectern {
namespace {

bool HasItemMark(std::string_view line) {
  return BulletLength(line) > 0 || ReadItemNumber(line).length > 0;
}

// At least six in ten of the words of four bytes or more begin with a capital. True without such
// words.
bool HasTitleCase(std::string_view line) {
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

// "R> time(z)"
bool HasPrompt(std::string_view line) { return line.substr(0, line.find(' ')).ends_with('>'); }

// A short line that begins with a capital, or with a letter of a script without capitals, and
// stands alone over something longer or at the head of lines that are indented.
bool IsTitle(const TextLayout& layout, size_t i, size_t num_words) {
  constexpr size_t kMostWords = 10, kFewWords = 6;
  constexpr uint32_t kWidest = 70, kWidestWithoutCase = 40;
  const TextRegion& region = layout.RegionOf(i);
  const TextLine& line = layout.lines[i];
  const uint32_t width = line.width - line.indent;
  const TextStart start = StartOf(layout.Line(i));
  const bool has_case = start == TextStart::kCapital;
  if (!has_case && start != TextStart::kOtherLetter) return false;
  if (width > (has_case ? kWidest : kWidestWithoutCase) || num_words > kMostWords ||
      IsKeyValue(layout.Line(i)))
    return false;
  const bool is_clause =
      layout.Line(i).find(',') != std::string_view::npos ||
      (region.last < layout.lines.size() && HasItemMark(layout.Line(region.last)));
  if (has_case && num_words > (is_clause ? 3 : kFewWords) && !HasTitleCase(layout.Line(i)))
    return false;
  if (region.last - region.first > 1) {  // over indented text, as in manuals
    return layout.lines[i + 1].indent >= line.indent + 2 && num_words <= 8 &&
           StartOf(layout.Line(i + 1)) != TextStart::kSmallLetter;
  }
  const size_t next = region.last;
  if (next >= layout.lines.size() || layout.lines[next].quotes != line.quotes ||
      layout.lines[next].is_page_edge)
    return false;
  const TextRegion& below = layout.RegionOf(next);
  return below.last - below.first > 1 || layout.lines[next].width > line.width + width / 4 ||
         EndOf(layout.Line(next)) == TextEnd::kClosed || layout.forms[next] != LineForm::kText ||
         HasItemMark(layout.Line(next));
}

// A question that stands alone over a paragraph, as in lists of questions and answers.
bool IsQuestion(const TextLayout& layout, size_t i) {
  const size_t next = layout.RegionOf(i).last;
  if (next != i + 1 || i != layout.RegionOf(i).first || !layout.Line(i).ends_with('?') ||
      next >= layout.lines.size())
    return false;
  const size_t last = layout.RegionOf(next).last - 1;
  return StartOf(layout.Line(i)) == TextStart::kCapital &&
         layout.lines[next].width > layout.lines[i].width && !layout.Line(last).ends_with('?') &&
         EndOf(layout.Line(last)) == TextEnd::kClosed;
}

// "1. Milk", a blank line, "2. Eggs".
bool IsInLooseList(const TextLayout& layout, size_t i) {
  const uint32_t value = ReadItemNumber(layout.Line(i)).value;
  const bool is_after = i > 0 && value > 1 && ReadItemNumber(layout.Line(i - 1)).value == value - 1;
  const bool is_before =
      i + 1 < layout.lines.size() && ReadItemNumber(layout.Line(i + 1)).value == value + 1;
  return is_after || is_before;
}

// Line i stands over text that is no part of its paragraph.
bool IsHeadOf(const TextLayout& layout, size_t i, size_t next) {
  if (StartOf(layout.Line(next)) == TextStart::kSmallLetter &&
      layout.lines[next].indent <= layout.lines[i].indent)
    return false;
  if (layout.lines[next].indent >= layout.lines[i].indent + 2) return true;
  return !layout.RegionOf(i).wrapping.has_keys && !layout.RegionOf(i).wrapping.is_verse &&
         !RunsOn(layout.text, layout.lines[i], layout.lines[next], layout.RegionOf(i).wrapping);
}

}  // namespace

// A heading of Markdown; no comment, which is a sentence over or between lines of a program.
MarkedHeading MarkedHeadingAt(const TextLayout& layout, size_t i) {
  const MarkedHeading heading = ReadMarkedHeading(layout.Line(i));
  if (heading.level == 0 || layout.lines[i].indent >= layout.base + 4) return {};
  if (layout.IsInComment(i) || (layout.has_hash_comments && i > 0)) return {};
  const bool is_alone = layout.RegionOf(i).last - layout.RegionOf(i).first == 1;
  const bool is_sentence =
      CountWords(layout.Line(i)) > 4 && EndOf(layout.Line(i)) == TextEnd::kClosed;
  return is_alone || !is_sentence ? heading : MarkedHeading();
}

uint8_t UnderlinedLevel(const TextLayout& layout, size_t i) {
  if (i + 1 >= layout.RegionOf(i).last || layout.lines[i].width > 100) return 0;
  const std::string_view rule = layout.Line(i + 1);
  const uint8_t level = UnderlineLevel(rule);
  return level > 0 && HasWords(layout.Line(i)) &&
                 rule.size() * 2 >= layout.lines[i].width - layout.lines[i].indent
             ? level
             : 0;
}

// The level of a heading that only its form and place tell; 0: line i is none.
uint8_t HeadingLevel(const TextLayout& layout, size_t i) {
  constexpr uint32_t kWidest = 80;
  constexpr size_t kMostWords = 12;
  const TextRegion& region = layout.RegionOf(i);
  const std::string_view line = layout.Line(i);
  const TextLine& place = layout.lines[i];
  if (place.width - place.indent > kWidest || i + 1 == layout.lines.size()) return 0;
  const size_t num_words = CountWords(line);
  if (num_words > kMostWords || BulletLength(line) > 0) return 0;
  const bool is_first = i == region.first, is_alone = is_first && i + 1 == region.last;
  const bool is_apart = is_alone || (i + 1 < region.last && IsHeadOf(layout, i, i + 1));
  if (!is_apart) return 0;
  const bool ends_like_text = line.ends_with(',') || line.ends_with(';') || line.ends_with(':') ||
                              line.ends_with("，") || line.ends_with("：") || line.ends_with("、");
  const uint8_t named = NamedHeadingLevel(line);
  if (is_first && named > 0 && !ends_like_text &&
      (num_words <= 3 || EndOf(line) != TextEnd::kClosed))
    return named;
  if (IsQuestion(layout, i)) return 4;
  const bool asks = line.ends_with('?') || line.ends_with("？");
  if (is_alone && asks && NumberedHeadingLevel(line) >= 2) return NumberedHeadingLevel(line);
  if (ends_like_text || EndOf(line) == TextEnd::kClosed) return 0;
  const uint8_t numbered = NumberedHeadingLevel(line);
  const bool has_colon = line.substr(0, line.find(' ')).ends_with(':');  // "3.10: Prompts"
  if (numbered >= 2 && has_colon) return is_alone ? numbered : 0;
  if (numbered >= 2 && (is_first || EndOf(layout.Line(i - 1)) == TextEnd::kClosed)) return numbered;
  if (numbered == 1) return is_alone && !IsInLooseList(layout, i) ? 1 : 0;
  if (!is_first || ReadItemNumber(line).length > 0 || HasPrompt(line)) return 0;
  if (IsAllCaps(line)) return i + 1 < region.last && IsAllCaps(layout.Line(i + 1)) ? 0 : 2;
  return IsTitle(layout, i, num_words) ? (i == 0 ? 1 : 3) : 0;
}

}  // namespace lectern
