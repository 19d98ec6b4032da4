#include "tools/ingest/column_sections.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/ingest/letter_forms.h"
#include "tools/ingest/line_markers.h"
#include "tools/ingest/scripts.h"
#include "tools/ingest/table_columns.h"
#include "tools/ingest/visual_order.h"

namespace lectern::tools {
namespace {

// In heights of the text's lines, which are about 1.2 times the font's size.
constexpr double kSectionGutter = 0.75;  // at least: typesetters leave a font's size and more
constexpr double kSectionGap = 2.5;      // at most: between two lines of a section, one below
constexpr double kLevelTops = 1.1;   // at most: between the tops of columns, in their first lines
constexpr double kLevelLeft = 0.2;   // between the beginnings of a column's lines
constexpr double kBesideLine = 0.4;  // overlap of two pieces of one line
constexpr double kWordSpace = 0.25;  // of the space before a word

constexpr size_t kMostColumns = 4;
constexpr size_t kFewestLines = 5;        // of a section
constexpr double kLikeWidth = 0.7;        // of the narrowest column, in that of the widest
constexpr double kWordsOfLine = 2.5;      // at least, mean of a column: narrow columns have 3 or 4
constexpr double kSameLineHeight = 0.15;  // of two lines of one font, relative
// In steps between the lines of a paragraph. Lines of one font differ by marks and raised signs;
// paragraphs are parted by a third of a step and more.
constexpr double kSameStep = 0.15;
constexpr double kSameParagraphGap = 0.25;  // of two gaps between paragraphs
// Paragraphs of two lines have one that is wrapped for each that is not.
constexpr double kWrappedLines = 0.45;  // of a section's lines but the last ones of columns
constexpr double kWrappedLinesOfColumn = 0.3;
constexpr double kMostOddEnds = 0.34;  // of paragraph ends: without a gap, though others have one
constexpr double kStoppedEnds = 0.5;   // at least: of paragraph ends, behind a full stop
constexpr size_t kMostEnds = 8;        // of one section that are tried
// Pieces of lines looked at for each one of the page: texts that begin like a section and are none
// are looked at again from their second line on.
constexpr size_t kSectionLooks = 20;

// A line of a column: its pieces, which stand beside each other.
struct ColumnLine {
  std::vector<WordRun> runs;  // by x_min
  PdfBox box;
  size_t num_read = 0;
};

using ColumnLines = std::vector<ColumnLine>;

// The page's words without wide gaps between them, from the top.
std::vector<WordRun> PiecesOf(const PdfPage& page, double gutter) {
  std::vector<WordRun> runs;
  for (size_t i = 0; i < page.lines.size(); ++i) {
    const auto& words = page.lines[i].words;
    WordRun run{i, 0, 0, words.front().box};
    for (size_t at = 0; at < words.size(); ++at) {
      if (at > 0 && words[at].box.x_min - run.box.x_max >= gutter) {
        runs.push_back(run);
        run = {i, at, 0, words[at].box};
      }
      ++run.num_words;
      run.num_read += NumRead(words[at].text);
      run.box.Cover(words[at].box);
    }
    runs.push_back(run);
  }
  std::sort(runs.begin(), runs.end(), [](const WordRun& a, const WordRun& b) {
    return std::pair(a.box.y_min, a.box.x_min) < std::pair(b.box.y_min, b.box.x_min);
  });
  return runs;
}

bool StandBeside(const PdfBox& a, const PdfBox& b) {
  const double overlap = std::min(a.y_max, b.y_max) - std::max(a.y_min, b.y_min);
  return overlap > kBesideLine * std::min(a.Height(), b.Height());
}

// Whether columns may begin with these lines: space above a paragraph or a heading lowers one.
bool AreLevelTops(const PdfBox& a, const PdfBox& b) {
  return std::abs(a.y_min - b.y_min) <= kLevelTops * std::max(a.Height(), b.Height());
}

// Pieces [begin, end) that may be a section, and the strips between its columns.
struct SectionRange {
  size_t begin = 0, end = 0;
  std::vector<Strip> strips;
  bool ends_above_text = false;  // a line across all columns stands below it
};

// The strips that have text on both sides.
std::vector<Strip> InnerStrips(const std::vector<Strip>& strips, double left, double right) {
  std::vector<Strip> inner;
  for (const Strip& strip : strips) {
    if (strip.begin >= left && strip.end <= right) inner.push_back(strip);
  }
  return inner;
}

// The ranges from `begin` on that leave one strip free and more, each as long as the strips stay
// the same; the longest one comes last.
std::vector<SectionRange> RangesFrom(const std::vector<WordRun>& runs, size_t begin, double height,
                                     size_t& num_looked) {
  std::vector<SectionRange> ranges;
  std::vector<Strip> free = FreeStrips({runs[begin]}), inner;
  double left = runs[begin].box.x_min, right = runs[begin].box.x_max;
  double bottom = runs[begin].box.y_max;
  bool has_neighbour = false;
  size_t end = begin + 1;
  for (; end < runs.size(); ++end) {
    const PdfBox& box = runs[end].box;
    ++num_looked;
    // The column beside may begin with a heading, which is lower and set in a larger font.
    if (!has_neighbour && box.y_min - runs[begin].box.y_max > height) return {};
    if (box.y_min - bottom > kSectionGap * height) break;
    auto now_free = IntersectStrips(free, FreeStrips({runs[end]}), kSectionGutter * height);
    const double now_left = std::min(left, box.x_min), now_right = std::max(right, box.x_max);
    auto now_inner = InnerStrips(now_free, now_left, now_right);
    if (has_neighbour && now_inner.size() < inner.size() && ranges.size() < kMostEnds) {
      ranges.push_back({begin, end, inner, now_inner.empty()});
    }
    if (has_neighbour && now_inner.empty()) return ranges;
    has_neighbour |= !now_inner.empty();
    free = std::move(now_free);
    inner = std::move(now_inner);
    left = now_left;
    right = now_right;
    bottom = std::max(bottom, box.y_max);
  }
  if (has_neighbour) ranges.push_back({begin, end, std::move(inner), false});
  return ranges;
}

// The lines of each column, from the top.
std::vector<ColumnLines> ColumnsOfRange(const std::vector<WordRun>& runs,
                                        const SectionRange& range) {
  std::vector<ColumnLines> columns(range.strips.size() + 1);
  for (size_t i = range.begin; i < range.end; ++i) {
    ColumnLines& lines = columns[ColumnOf(runs[i].box, range.strips)];
    if (lines.empty() || !StandBeside(lines.back().box, runs[i].box)) lines.emplace_back();
    ColumnLine& line = lines.back();
    if (line.runs.empty()) line.box = runs[i].box;
    line.box.Cover(runs[i].box);
    line.num_read += runs[i].num_read;
    line.runs.push_back(runs[i]);
  }
  for (ColumnLines& lines : columns) {
    for (ColumnLine& line : lines) {
      std::sort(line.runs.begin(), line.runs.end(),
                [](const WordRun& a, const WordRun& b) { return a.box.x_min < b.box.x_min; });
    }
  }
  return columns;
}

bool IsOneFont(const ColumnLine& a, const ColumnLine& b) {
  const double height = std::max(a.box.Height(), b.box.Height());
  return std::abs(a.box.Height() - b.box.Height()) <= kSameLineHeight * height;
}

double StepBetweenLines(const ColumnLine& above, const ColumnLine& line) {
  return line.box.y_max - above.box.y_max;
}

// The height of most of a section's lines.
double HeightOfText(const std::vector<ColumnLines>& columns) {
  std::vector<double> heights;
  for (const ColumnLines& lines : columns) {
    for (const ColumnLine& line : lines) heights.push_back(line.box.Height());
  }
  const auto middle = heights.begin() + static_cast<ptrdiff_t>(heights.size() / 2);
  std::nth_element(heights.begin(), middle, heights.end());
  return *middle;
}

// The step between the lines of a paragraph: that of the narrowest quarter, since a section of
// short paragraphs has as many wider ones. 0: there are none.
double LineStep(const std::vector<ColumnLines>& columns) {
  std::vector<double> steps;
  for (const ColumnLines& lines : columns) {
    for (size_t i = 1; i < lines.size(); ++i) {
      if (!IsOneFont(lines[i - 1], lines[i])) continue;
      steps.push_back(StepBetweenLines(lines[i - 1], lines[i]));
    }
  }
  if (steps.empty()) return 0;
  const auto quarter = steps.begin() + static_cast<ptrdiff_t>(steps.size() / 4);
  std::nth_element(steps.begin(), quarter, steps.end());
  return *quarter;
}

// Takes away the heading of the text below a section: a line of its own, in the first column and
// below all others.
void CutHeading(std::vector<ColumnLines>& columns, SectionRange& range) {
  ColumnLines& first = columns.front();
  if (first.size() < 3 || first.back().runs.size() != 1) return;
  const ColumnLine &last = first.back(), &above = first[first.size() - 2];
  const bool is_below =
      std::all_of(columns.begin() + 1, columns.end(), [&](const ColumnLines& lines) {
        return lines.empty() || lines.back().box.y_max < last.box.y_min;
      });
  const double step = LineStep(columns);
  if (!is_below ||
      (IsOneFont(above, last) && StepBetweenLines(above, last) <= (1 + kSameStep) * step)) {
    return;
  }
  first.pop_back();
  --range.end;  // it stands lowest, so that it comes last
}

// Whether a sentence ends with the last word of a line. `is_reversed`: the word's letters stand in
// the order in which they are seen and are read from the right.
bool EndsInStop(std::string_view word, bool is_reversed) {
  constexpr std::string_view kStops[] = {".",  "!",  "?",  ":", ";", "。", "！",
                                         "？", "：", "；", "؟", "۔", "؛",  "।"};
  constexpr std::string_view kClosing[] = {"\"", "'", ")", "(", "]",  "[",  "”", "’",
                                           "»",  "«", "“", "„", "」", "』", "）"};
  const auto ends_with = [&](std::string_view sign) {
    return is_reversed ? word.starts_with(sign) : word.ends_with(sign);
  };
  for (bool is_closed = true; std::exchange(is_closed, false);) {
    for (const std::string_view sign : kClosing) {
      if (word.size() <= sign.size() || !ends_with(sign)) continue;
      is_reversed ? word.remove_prefix(sign.size()) : word.remove_suffix(sign.size());
      is_closed = true;
    }
  }
  return std::any_of(std::begin(kStops), std::end(kStops), ends_with);
}

// Finds out whether the columns of a range are columns of prose. Lines of a page that is read from
// the right are mirrored, so that they begin at the left.
class SectionJudge {
 public:
  SectionJudge(const PdfPage& page, const std::vector<ColumnLines>& columns, double height)
      : page_(page),
        columns_(columns),
        height_(height),
        text_height_(HeightOfText(columns)),
        step_(LineStep(columns)) {}

  bool IsSection() { return HasShape() && HasOneStep() && HasWrappedLines() && HasTextOfProse(); }
  // Whether a line begins a block below the line above it in its column.
  bool BeginsBlock(const ColumnLine& above, const ColumnLine& line) const {
    return !IsOneFont(above, line) || StepBetweenLines(above, line) > (1 + kSameStep) * step_;
  }

 private:
  // Columns beside each other, of one height above and of one width.
  bool HasShape() const {
    if (columns_.size() < 2 || columns_.size() > kMostColumns || step_ <= 0) return false;
    size_t num_lines = 0;
    double narrowest = std::numeric_limits<double>::infinity(), widest = 0;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const ColumnLines& lines = columns_[i];
      const bool is_last = i + 1 == columns_.size();
      if (lines.size() < 2 || !HasLeftEdge(lines)) return false;
      if (!AreLevelTops(lines.front().box, columns_.front().front().box)) return false;
      num_lines += lines.size();
      const double width = WidthOf(lines);
      widest = std::max(widest, width);
      // The lines of a last column may be the rest of a paragraph.
      if (!is_last || lines.size() > 2) narrowest = std::min(narrowest, width);
    }
    return num_lines >= kFewestLines && narrowest >= kLikeWidth * widest;
  }

  // Whether most lines of a column begin at one place, as those of a gap by chance do not; the
  // first lines of paragraphs may be indented.
  bool HasLeftEdge(const ColumnLines& lines) const {
    double left = lines.front().box.x_min;
    for (const ColumnLine& line : lines) left = std::min(left, line.box.x_min);
    const auto num_level = std::count_if(lines.begin(), lines.end(), [&](const ColumnLine& line) {
      return line.box.x_min - left <= kLevelLeft * text_height_;
    });
    return 2 * num_level >= static_cast<ptrdiff_t>(lines.size());
  }

  // Whether a line is set in the font of the text, as headings are not.
  bool IsText(const ColumnLine& line) const {
    return std::abs(line.box.Height() - text_height_) <= kSameLineHeight * text_height_;
  }

  static double WidthOf(const ColumnLines& lines) {
    PdfBox box = lines.front().box;
    for (const ColumnLine& line : lines) box.Cover(line.box);
    return box.Width();
  }

  // No line stands closer to the one above than the lines of a paragraph do, and all gaps between
  // paragraphs are the same.
  bool HasOneStep() const {
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (const ColumnLines& lines : columns_) {
      for (size_t i = 1; i < lines.size(); ++i) {
        const double step = StepBetweenLines(lines[i - 1], lines[i]);
        if (step < (1 - kSameStep) * step_) return false;
        if (step > kSectionGap * 2 * height_) return false;
        if (!IsText(lines[i - 1]) || !IsText(lines[i]) || step <= (1 + kSameStep) * step_) continue;
        least = std::min(least, step);
        most = std::max(most, step);
      }
    }
    return most - least <= kSameParagraphGap * step_;
  }

  // Whether the first word of `line` would have fitted behind `above` in the column.
  bool HasRoom(const ColumnLine& above, const ColumnLine& line, double right) const {
    const WordRun& run = line.runs.front();
    const PdfWord& word = page_.lines[run.line].words[run.first];
    double width = word.box.Width();
    // Scripts without spaces break lines between their letters.
    if (NumRead(word.text) > 1) width /= static_cast<double>(CodePoints(word.text).size());
    return right - above.box.x_max > width + kWordSpace * line.box.Height();
  }

  // Most lines are wrapped, in each column some; and where gaps part paragraphs, no line that had
  // room for more stands close above the next one.
  bool HasWrappedLines() {
    size_t num_wrapped = 0, num_lines = 0, num_gaps = 0, num_odd_ends = 0, num_short_heads = 0;
    for (const ColumnLines& lines : columns_) {
      double right = 0;
      for (const ColumnLine& line : lines) right = std::max(right, line.box.x_max);
      size_t num_wrapped_here = 0;
      for (size_t i = 1; i < lines.size(); ++i) {
        if (!IsOneFont(lines[i - 1], lines[i])) continue;
        const bool is_gap = BeginsBlock(lines[i - 1], lines[i]);
        const bool has_room = HasRoom(lines[i - 1], lines[i], right);
        num_wrapped_here += !is_gap && !has_room;
        num_gaps += is_gap;
        num_odd_ends += !is_gap && has_room;
        num_short_heads += i == 1 && has_room && !EndsSentence(lines[0]);
        ++num_lines;
        if (is_gap || has_room) ends_.push_back(&lines[i - 1]);
      }
      ends_.push_back(&lines.back());
      if (lines.size() > 2 && static_cast<double>(num_wrapped_here) <
                                  kWrappedLinesOfColumn * static_cast<double>(lines.size() - 1)) {
        return false;
      }
      num_wrapped += num_wrapped_here;
    }
    // A short line at the head of each column is the head of a table.
    if (num_short_heads == columns_.size()) return false;
    if (num_gaps > 0 &&
        static_cast<double>(num_odd_ends) > kMostOddEnds * static_cast<double>(num_gaps)) {
      return false;
    }
    return static_cast<double>(num_wrapped) >= kWrappedLines * static_cast<double>(num_lines);
  }

  // Lines of several words; paragraphs that end in full stops; no numbers of rows.
  bool HasTextOfProse() const {
    size_t num_stopped = 0, num_ends = 0;
    for (const ColumnLine* line : ends_) {
      const auto characters = CodePoints(TextOf(*line));
      // Thai and its neighbours have no full stops.
      if (std::any_of(characters.begin(), characters.end(), IsSoutheastAsian)) continue;
      ++num_ends;
      num_stopped += EndsSentence(*line);
    }
    if (static_cast<double>(num_stopped) < kStoppedEnds * static_cast<double>(num_ends)) {
      return false;
    }
    for (const ColumnLines& lines : columns_) {
      size_t num_read = 0;
      for (const ColumnLine& line : lines) {
        num_read += line.num_read;
        if (HasLeaders(TextOf(line))) return false;
      }
      if (static_cast<double>(num_read) < kWordsOfLine * static_cast<double>(lines.size())) {
        return false;
      }
    }
    return !HasRowNumbers();
  }

  // Whether the paragraphs of the first column alone are numbered, as the rows of a table are.
  bool HasRowNumbers() const {
    size_t num_marked[2] = {}, num_paragraphs[2] = {};
    for (size_t column = 0; column < columns_.size(); ++column) {
      const ColumnLines& lines = columns_[column];
      for (size_t i = 0; i < lines.size(); ++i) {
        if (i > 0 && !BeginsBlock(lines[i - 1], lines[i])) continue;
        const WordRun& run = lines[i].runs.front();
        ++num_paragraphs[column > 0];
        num_marked[column > 0] += IsListMarker(page_.lines[run.line].words[run.first].text);
      }
    }
    return num_paragraphs[0] > 1 && num_marked[0] == num_paragraphs[0] && num_marked[1] == 0;
  }

  // The words of a mirrored line stand in the order in which they are read, each as it is seen.
  std::string TextOf(const ColumnLine& line) const { return CellText(page_, line.runs); }

  bool EndsSentence(const ColumnLine& line) const {
    LetterCounts letters;
    CountLetters(TextOf(line), letters);
    const WordRun& run = line.runs.back();
    return EndsInStop(page_.lines[run.line].words[run.first + run.num_words - 1].text,
                      letters.IsRightToLeft());
  }

  const PdfPage& page_;
  const std::vector<ColumnLines>& columns_;
  const double height_;                  // of the page's text
  const double text_height_, step_;      // of the section's text, which may be set in another size
  std::vector<const ColumnLine*> ends_;  // the lines that end a paragraph
};

// Whether all words of each line that has some in [begin, end) are there.
bool HoldsWholeLines(const PdfPage& page, std::span<const WordRun> runs) {
  std::vector<std::pair<size_t, size_t>> taken;  // line, words
  for (const WordRun& run : runs) taken.emplace_back(run.line, run.num_words);
  std::sort(taken.begin(), taken.end());
  for (size_t i = 0; i < taken.size();) {
    size_t num_words = 0;
    const size_t line = taken[i].first;
    for (; i < taken.size() && taken[i].first == line; ++i) num_words += taken[i].second;
    if (num_words != page.lines[line].words.size()) return false;
  }
  return true;
}

// Whether the range begins within longer columns, as a row of a table does: text stands above two
// of its columns, or goes on in one; a heading may stand above one.
bool BeginsMidway(const std::vector<WordRun>& runs, const SectionRange& range,
                  const std::vector<ColumnLines>& columns, const SectionJudge& judge,
                  double height) {
  constexpr size_t kPiecesLookedAt = 8;  // more pieces do not stand beside each other
  std::vector<uint8_t> has_above(columns.size());
  for (size_t i = range.begin < kPiecesLookedAt ? 0 : range.begin - kPiecesLookedAt;
       i < range.begin; ++i) {
    const ColumnLine above{{runs[i]}, runs[i].box, 0};
    const bool is_across =
        std::any_of(range.strips.begin(), range.strips.end(), [&](const Strip& strip) {
          return above.box.x_min < strip.end && above.box.x_max > strip.begin;
        });
    if (is_across) continue;
    const size_t column = ColumnOf(above.box, range.strips);
    const ColumnLine& first = columns[column].front();
    if (first.box.y_min - above.box.y_max < kSectionGap * height) has_above[column] = 1;
    if (!judge.BeginsBlock(above, first)) return true;
  }
  return std::count(has_above.begin(), has_above.end(), 1) > 1;
}

// The lines of a section, column after column, and which lines of the page they replace.
struct OrderedSection {
  std::vector<PdfLine> lines;
  std::vector<size_t> replaced;
  PdfBox box;
};

OrderedSection OrderedLines(const PdfPage& page, const std::vector<ColumnLines>& columns,
                            const SectionJudge& judge, size_t& num_blocks, size_t& num_areas) {
  OrderedSection section;
  section.box = columns.front().front().box;
  for (const ColumnLines& lines : columns) {
    ++num_areas;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (i == 0 || judge.BeginsBlock(lines[i - 1], lines[i])) ++num_blocks;
      PdfLine& out = section.lines.emplace_back();
      out.box = lines[i].box;
      out.block = num_blocks - 1;
      out.area = num_areas;
      section.box.Cover(out.box);
      for (const WordRun& run : lines[i].runs) {
        const auto first = page.lines[run.line].words.begin() + static_cast<ptrdiff_t>(run.first);
        out.words.insert(out.words.end(), first, first + static_cast<ptrdiff_t>(run.num_words));
        section.replaced.push_back(run.line);
      }
    }
  }
  std::sort(section.replaced.begin(), section.replaced.end());
  return section;
}

// The section that begins at piece `begin`, and the end of its pieces; nothing: none does.
// `num_looked` grows by the number of pieces that were looked at.
std::optional<std::pair<OrderedSection, size_t>> SectionAt(const PdfPage& page,
                                                           const std::vector<WordRun>& runs,
                                                           size_t begin, double height,
                                                           size_t& num_blocks, size_t& num_areas,
                                                           size_t& num_looked) {
  auto ranges = RangesFrom(runs, begin, height, num_looked);
  for (; !ranges.empty(); ranges.pop_back()) {
    SectionRange& range = ranges.back();
    num_looked += range.end - range.begin;
    auto columns = ColumnsOfRange(runs, range);
    if (range.ends_above_text) CutHeading(columns, range);
    SectionJudge judge(page, columns, height);
    if (!judge.IsSection() || BeginsMidway(runs, range, columns, judge, height)) continue;
    const auto pieces = std::span(runs).subspan(range.begin, range.end - range.begin);
    if (!HoldsWholeLines(page, pieces)) continue;
    return std::pair(OrderedLines(page, columns, judge, num_blocks, num_areas), range.end);
  }
  ++num_looked;
  return std::nullopt;
}

// Puts the section where its first line stood: behind what stands above it, before what stands
// below it.
void Place(const std::vector<OrderedSection>& sections, PdfPage& page) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  std::vector<size_t> section_of(page.lines.size(), kNone);
  for (size_t i = 0; i < sections.size(); ++i) {
    for (const size_t line : sections[i].replaced) section_of[line] = i;
  }
  std::vector<uint8_t> is_placed(sections.size());
  std::vector<PdfLine> lines;
  for (size_t i = 0; i < page.lines.size(); ++i) {
    if (section_of[i] == kNone) {
      lines.push_back(std::move(page.lines[i]));
      continue;
    }
    if (std::exchange(is_placed[section_of[i]], 1) != 0) continue;
    const auto& section = sections[section_of[i]].lines;
    lines.insert(lines.end(), section.begin(), section.end());
  }
  page.lines = std::move(lines);
}

// Numbers the blocks by their place in the order of the lines.
void RenumberBlocks(PdfPage& page, size_t num_blocks) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  std::vector<size_t> number(num_blocks, kNone);
  std::vector<PdfBox> blocks;
  size_t last = kNone;  // before it was numbered
  for (PdfLine& line : page.lines) {
    // The rest of a block that a section parts is a block of its own.
    const bool is_new = line.block != last;
    last = line.block;
    if (is_new) {
      number[last] = blocks.size();
      blocks.push_back(line.box);
    }
    line.block = number[last];
    blocks.back().Cover(line.box);
  }
  page.blocks = std::move(blocks);
}

}  // namespace

void OrderSections(PdfPage& page) {
  if (page.lines.size() < kFewestLines) return;
  const double height = MedianLineHeight(page);
  if (height <= 0) return;
  const auto runs = PiecesOf(page, kSectionGutter * height);
  std::vector<OrderedSection> sections;
  size_t num_blocks = page.blocks.size(), num_areas = 0, num_looked = 0;
  for (size_t begin = 0; begin + 1 < runs.size() && num_looked < kSectionLooks * runs.size();) {
    auto section = SectionAt(page, runs, begin, height, num_blocks, num_areas, num_looked);
    begin = section ? section->second : begin + 1;
    if (section) sections.push_back(std::move(section->first));
  }
  if (sections.empty()) return;
  Place(sections, page);
  RenumberBlocks(page, num_blocks);
}

}  // namespace lectern::tools
