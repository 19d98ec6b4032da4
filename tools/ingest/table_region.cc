#include "tools/ingest/table_region.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

namespace lectern::tools {
namespace {

// In heights of a line, but where another unit is named.
constexpr double kMinStrip = 0.3;      // at least: an empty strip between columns, over all rows
constexpr double kMinSpace = 0.15;     // at least: a space between words that parts two columns
constexpr double kMaxRowGap = 2.2;     // at most: between two rows of a table
constexpr double kSameEdge = 1;        // points: between the beginnings of a column's texts
constexpr size_t kEdgeRows = 8;        // rows above in which a column's edge is looked for
constexpr size_t kRowsOfEdge = 3;      // at least, where a line of prose is told by it
constexpr size_t kRowsOfOnlyEdge = 5;  // likewise, of a table with two columns
constexpr double kTableGap = 0.5;      // at least: between two tables
constexpr double kStretchedSpace = 3;  // at most: between the words of a justified line
constexpr size_t kMaxRows = 500;       // lines of a table on one page

// Whether a row's text crosses every strip, as a line of prose below a table does.
bool CrossesAll(const VisualRow& row, const std::vector<Strip>& strips) {
  return IntersectStrips(strips, StripsOf(row.runs, kCellGap * row.height), 0).empty() &&
         std::all_of(strips.begin(), strips.end(), [&](const Strip& strip) {
           return std::any_of(row.runs.begin(), row.runs.end(), [&](const WordRun& run) {
             return run.box.x_min < strip.end && run.box.x_max > strip.begin;
           });
         });
}

// Whether a space between words stands in each strip: a cell so long that it nearly reaches the
// next.
bool HasSpaceInStrips(const VisualRow& row, const std::vector<Strip>& strips) {
  const std::vector<Strip> spaces = FreeStrips(row.words);
  return std::all_of(strips.begin(), strips.end(), [&](const Strip& strip) {
    return !IntersectStrips({strip}, spaces, kMinSpace * row.height).empty();
  });
}

// The first word behind a strip and before the next one, which ends the column; nullptr: it has no
// text.
const WordRun* FirstBehind(const VisualRow& row, const std::vector<Strip>& strips, size_t strip) {
  const double begin = strips[strip].end - kSameEdge;
  const auto word = std::lower_bound(row.words.begin(), row.words.end(), begin,
                                     [](const WordRun& a, double x) { return a.box.x_min < x; });
  if (word == row.words.end()) return nullptr;
  const bool is_next_column =
      strip + 1 < strips.size() && word->box.x_min >= strips[strip + 1].end - kSameEdge;
  return is_next_column ? nullptr : &*word;
}

// The place where texts behind a strip begin, if they all begin at one place in at least `min_rows`
// rows; else nothing.
std::optional<double> LeftEdge(std::span<const VisualRow> rows, const std::vector<Strip>& strips,
                               size_t strip, size_t min_rows) {
  std::optional<double> edge;
  size_t num_rows = 0;
  for (const VisualRow& row : rows) {
    const WordRun* const first = FirstBehind(row, strips, strip);
    if (first == nullptr) continue;
    if (edge && std::abs(*edge - first->box.x_min) > kSameEdge) return std::nullopt;
    edge = first->box.x_min;
    ++num_rows;
  }
  return num_rows >= min_rows ? edge : std::nullopt;
}

bool HasWordAt(const VisualRow& row, double x) {
  const auto word =
      std::lower_bound(row.words.begin(), row.words.end(), x - kSameEdge,
                       [](const WordRun& a, double begin) { return a.box.x_min < begin; });
  return word != row.words.end() && word->box.x_min <= x + kSameEdge;
}

// Whether the row has no more than a space between words before texts that begin beside the left
// edges that the rows above keep: a line of prose whose spaces happen to stand in the strips.
bool MissesEdges(std::span<const VisualRow> above, const VisualRow& row,
                 const std::vector<Strip>& strips) {
  size_t num_kept = 0, num_missed = 0;
  const size_t min_rows = strips.size() > 1 ? kRowsOfEdge : kRowsOfOnlyEdge;
  for (size_t i = 0; i < strips.size(); ++i) {
    const auto edge = LeftEdge(above, strips, i, min_rows);
    const WordRun* const first = FirstBehind(row, strips, i);
    if (!edge || first == nullptr) continue;
    const bool is_spaced = first != row.words.data() &&
                           first->box.x_min - (first - 1)->box.x_max < kCellGap * row.height;
    num_kept += HasWordAt(row, *edge);
    num_missed += is_spaced && !HasWordAt(row, *edge);
  }
  return num_missed > num_kept && (num_missed >= 2 || strips.size() == 1);
}

// The part of a strip that the row leaves free before a word at the left edge of the column,
// however narrow; nothing: no word begins there. One row above is enough to know the edges of
// several columns.
std::optional<Strip> NarrowedToEdge(std::span<const VisualRow> above, const VisualRow& row,
                                    const std::vector<Strip>& strips, size_t strip) {
  const auto edge = LeftEdge(above, strips, strip, strips.size() > 1 ? 1 : 2);
  if (!edge || !HasWordAt(row, *edge)) return std::nullopt;
  const auto word =
      std::lower_bound(row.words.begin(), row.words.end(), *edge - kSameEdge,
                       [](const WordRun& a, double begin) { return a.box.x_min < begin; });
  const double end_before = word == row.words.begin() ? strips[strip].begin : (word - 1)->box.x_max;
  if (end_before > *edge) return std::nullopt;  // a word lies across the edge
  return Strip{std::max(strips[strip].begin, end_before), *edge};
}

// The number of places that are nearly one.
size_t MostAtOnePlace(std::vector<double> places) {
  std::sort(places.begin(), places.end());
  size_t most = 0;
  for (size_t first = 0, last = 0; last < places.size(); ++last) {
    while (places[last] - places[first] > kSameEdge) ++first;
    most = std::max(most, last - first + 1);
  }
  return most;
}

// The texts behind a strip and before the next one, and the widest gap before them.
struct TextsBehind {
  std::vector<double> begins, middles;
  size_t num_numbers = 0, num_behind_numbers = 0;  // that are numbers; that have one before them
  double widest_gap = 0;
};

TextsBehind BehindStrip(const PdfPage& page, std::span<const VisualRow> rows,
                        const std::vector<Strip>& strips, size_t strip) {
  TextsBehind behind;
  const double end = strip + 1 < strips.size() ? strips[strip + 1].end - kSameEdge
                                               : std::numeric_limits<double>::infinity();
  const auto is_number = [&](const WordRun& word) {
    return LooksLikeNumber(page.lines[word.line].words[word.first].text);
  };
  for (const VisualRow& row : rows) {
    const WordRun* const first = FirstBehind(row, strips, strip);
    if (first == nullptr) continue;
    double right = first->box.x_max;
    for (const WordRun* word = first; word != row.words.data() + row.words.size(); ++word) {
      if (word->box.x_min >= end) break;
      right = std::max(right, word->box.x_max);
    }
    behind.begins.push_back(first->box.x_min);
    behind.middles.push_back((first->box.x_min + right) / 2);
    behind.num_numbers += is_number(*first);
    if (first == row.words.data()) continue;
    behind.num_behind_numbers += is_number(*(first - 1));
    behind.widest_gap = std::max(behind.widest_gap, first->box.x_min - (first - 1)->box.x_max);
  }
  return behind;
}

// Whether a strip is a wide space in justified lines by chance: the texts behind it do not begin
// below each other, and nothing else says that they are a column.
bool IsStretchedSpace(const PdfPage& page, std::span<const VisualRow> rows,
                      const std::vector<Strip>& strips, size_t strip) {
  const TextsBehind behind = BehindStrip(page, rows, strips, strip);
  const size_t num_texts = behind.begins.size(), level = MostAtOnePlace(behind.begins);
  const size_t centred = MostAtOnePlace(behind.middles);
  // The ends of justified lines are level, so that two words of one length begin at one place.
  const bool has_head = FirstBehind(rows.front(), strips, strip) != nullptr;
  return behind.widest_gap < kStretchedSpace * rows.front().height &&
         2 * std::max(behind.num_numbers, behind.num_behind_numbers) < num_texts &&
         (level < (has_head ? 2 : 3) || 2 * level < num_texts) &&
         (centred < 3 || 5 * centred < 3 * num_texts);
}

// The strips without those that are wide spaces by chance.
std::vector<Strip> WithoutSpaces(const PdfPage& page, std::span<const VisualRow> rows,
                                 std::vector<Strip> strips) {
  for (size_t i = strips.size(); i-- > 0;) {
    if (!IsStretchedSpace(page, rows, strips, i)) continue;
    strips.erase(strips.begin() + static_cast<ptrdiff_t>(i));
  }
  return strips;
}

// Returns the strips that stay empty when `row` joins; nothing: it does not belong to the table.
std::optional<std::vector<Strip>> Join(const PdfPage& page, const Region& region,
                                       std::span<const VisualRow> above, const VisualRow& row,
                                       size_t num_full_rows) {
  const VisualRow& last = above.back();
  const double height = std::max(last.height, row.height);
  if (row.box.y_min - last.box.y_max > kMaxRowGap * height) return std::nullopt;
  const auto nearest = above.last(std::min(above.size(), kEdgeRows));
  if (MissesEdges(nearest, row, region.strips)) return std::nullopt;
  const bool crosses_all = CrossesAll(row, region.strips);
  const std::vector<Strip> free = crosses_all ? std::vector<Strip>() : FreeStrips(row.runs);
  std::vector<Strip> strips;
  size_t num_lost = 0;
  for (size_t i = 0; i < region.strips.size(); ++i) {
    const auto parts = IntersectStrips({region.strips[i]}, free, kMinStrip * row.height);
    strips.insert(strips.end(), parts.begin(), parts.end());
    if (!parts.empty()) continue;
    if (const auto narrowed = NarrowedToEdge(nearest, row, region.strips, i)) {
      strips.push_back(*narrowed);
    } else {
      ++num_lost;
    }
  }
  if (num_lost == 0) return strips;
  if (crosses_all) return std::nullopt;
  if (row.runs.size() > 1 && HasSpaceInStrips(row, region.strips)) return region.strips;
  const bool loses_spaces = WithoutSpaces(page, above, region.strips).size() <= strips.size();
  if (strips.empty() ||
      (!loses_spaces && (num_full_rows >= 3 || 2 * strips.size() < region.strips.size()))) {
    return std::nullopt;
  }
  return strips;
}

// Adds a column on the left for a row that has text before those above and a gap behind it: the
// head of many tables has no text above their first column.
void AddFirstColumn(const VisualRow& row, Region& region) {
  double end = -std::numeric_limits<double>::infinity();
  for (const WordRun& run : row.runs) {
    if (run.box.x_min < region.left) end = std::max(end, run.box.x_max);
  }
  if (region.left - end >= kCellGap * row.height && row.box.x_min < region.left) {
    region.strips.insert(region.strips.begin(), {end, region.left});
  }
  region.left = std::min(region.left, row.box.x_min);
}

// Whether row `next` stands apart from the rows before it as a running head or foot does: the first
// or the last row of the page, with a wider gap than the rows beside it have.
bool StandsApart(const std::vector<VisualRow>& rows, size_t next) {
  const bool is_head = next == 1, is_foot = next + 1 == rows.size();
  if (rows.size() < 4 || !(is_head || is_foot)) return false;
  const auto gap = [&](size_t i) { return rows[i].box.y_min - rows[i - 1].box.y_max; };
  return gap(next) > rows[next].height && gap(next) > 1.3 * gap(is_head ? next + 1 : next - 1);
}

// Whether the next row begins another table: behind a gap, and with more columns, as the row after
// it.
bool BeginsTable(const std::vector<VisualRow>& rows, const Region& region) {
  const size_t next = region.end, num_columns = region.strips.size() + 1;
  if (next + 1 >= rows.size() || next < region.begin + 2) return false;
  const double gap = rows[next].box.y_min - rows[next - 1].box.y_max;
  return gap > kTableGap * rows[next].height && rows[next].runs.size() > num_columns &&
         rows[next + 1].runs.size() > num_columns;
}

// The rows from `begin` on that share the strips of the first of them.
Region GrowFrom(const PdfPage& page, const std::vector<VisualRow>& rows, size_t begin) {
  Region region{begin, begin + 1, StripsOf(rows[begin].runs, kCellGap * rows[begin].height),
                rows[begin].box.x_min};
  size_t num_full_rows = 1;
  while (region.end < std::min(rows.size(), begin + kMaxRows) &&
         region.strips.size() < kMaxColumns) {
    const VisualRow& row = rows[region.end];
    if (StandsApart(rows, region.end) || BeginsTable(rows, region)) break;
    auto strips =
        Join(page, region, std::span(rows).subspan(begin, region.end - begin), row, num_full_rows);
    if (!strips) break;
    region.strips = std::move(*strips);
    AddFirstColumn(row, region);
    num_full_rows += row.runs.size() > 1;
    ++region.end;
  }
  if (region.strips.size() >= kMaxColumns) return region;
  region.strips =
      WithoutSpaces(page, std::span(rows).subspan(begin, region.end - begin), region.strips);
  return region;
}

// A gap between two words of a row, no wider than a space, and the words beside it.
struct NarrowGap {
  Strip strip;
  double left_begin = 0, right_end = 0;  // of the words
  bool is_behind_number = false;
};

// Whether the gaps stand behind a column of numbers: most words before them are numbers, and these,
// as the words behind the gaps, have several widths. So it is their alignment that puts the gaps
// below each other, and no word that recurs ("5 kg", "7 kg").
bool AreBehindNumbers(std::span<const NarrowGap> gaps) {
  const auto num_numbers = std::count_if(gaps.begin(), gaps.end(),
                                         [](const NarrowGap& gap) { return gap.is_behind_number; });
  if (2 * static_cast<size_t>(num_numbers) <= gaps.size()) return false;
  const auto [first, last] = std::minmax_element(
      gaps.begin(), gaps.end(),
      [](const NarrowGap& a, const NarrowGap& b) { return a.left_begin < b.left_begin; });
  const auto [least, most] = std::minmax_element(
      gaps.begin(), gaps.end(),
      [](const NarrowGap& a, const NarrowGap& b) { return a.right_end < b.right_end; });
  return last->left_begin - first->left_begin > 2 * kSameEdge &&
         most->right_end - least->right_end > 2 * kSameEdge;
}

// Whether no word of the rows lies across a strip.
bool IsEmpty(std::span<const VisualRow> rows, const Strip& strip) {
  return std::all_of(rows.begin(), rows.end(), [&](const VisualRow& row) {
    const auto next = std::lower_bound(row.words.begin(), row.words.end(), strip.end - kSameEdge,
                                       [](const WordRun& a, double x) { return a.box.x_min < x; });
    return next == row.words.begin() || (next - 1)->box.x_max <= strip.begin + kSameEdge;
  });
}

// Adds the strips between a column of numbers, aligned at the right, and one that is aligned at the
// left: these may stand as close as two words do.
void AddNarrowStrips(const PdfPage& page, std::span<const VisualRow> rows,
                     std::vector<Strip>& strips) {
  std::vector<NarrowGap> gaps;
  for (const VisualRow& row : rows) {
    for (size_t i = 1; i < row.words.size(); ++i) {
      const WordRun& before = row.words[i - 1];
      const PdfBox &left = before.box, &right = row.words[i].box;
      const double gap = right.x_min - left.x_max;
      if (gap < kMinSpace * row.height || gap >= kCellGap * row.height) continue;
      gaps.push_back({{left.x_max, right.x_min},
                      left.x_min,
                      right.x_max,
                      LooksLikeNumber(page.lines[before.line].words[before.first].text)});
    }
  }
  std::sort(gaps.begin(), gaps.end(), [](const NarrowGap& a, const NarrowGap& b) {
    return std::pair(a.strip.end, a.strip.begin) < std::pair(b.strip.end, b.strip.begin);
  });
  for (size_t begin = 0, end = 0; begin < gaps.size(); begin = end) {
    Strip strip = gaps[begin].strip;
    while (end < gaps.size() && gaps[end].strip.end - gaps[begin].strip.end <= kSameEdge &&
           std::abs(gaps[end].strip.begin - gaps[begin].strip.begin) <= kSameEdge) {
      strip.begin = std::max(strip.begin, gaps[end].strip.begin);
      ++end;
    }
    const auto group = std::span(gaps).subspan(begin, end - begin);
    const bool is_known = std::any_of(strips.begin(), strips.end(), [&](const Strip& known) {
      return known.begin < strip.end && known.end > strip.begin;
    });
    if (group.size() < kRowsOfEdge || is_known || strips.size() + 1 >= kMaxColumns ||
        !AreBehindNumbers(group) || !IsEmpty(rows, strip)) {
      continue;
    }
    const auto place = std::find_if(strips.begin(), strips.end(),
                                    [&](const Strip& known) { return known.begin > strip.begin; });
    strips.insert(place, strip);
  }
}

// The rows from `begin` on, with the strips that are wider than a space.
Region GrowWideRegion(const PdfPage& page, const std::vector<VisualRow>& rows, size_t begin) {
  Region region = GrowFrom(page, rows, begin);
  if (region.end < begin + 2 || rows[begin + 1].runs.size() <= rows[begin].runs.size()) {
    return region;
  }
  Region below = GrowFrom(page, rows, begin + 1);
  if (below.end >= region.end && below.strips.size() > region.strips.size() &&
      HasSpaceInStrips(rows[begin], below.strips)) {
    below.begin = begin;
    return below;
  }
  return region;
}

}  // namespace

Region GrowRegion(const PdfPage& page, const std::vector<VisualRow>& rows, size_t begin) {
  Region region = GrowWideRegion(page, rows, begin);
  AddNarrowStrips(page, std::span(rows).subspan(region.begin, region.end - region.begin),
                  region.strips);
  return region;
}

}  // namespace lectern::tools
