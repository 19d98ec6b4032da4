#include "tools/ingest/table_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "tools/ingest/monospaced_text.h"
#include "tools/ingest/table_columns.h"
#include "tools/ingest/table_rows.h"

namespace lectern::tools {
namespace {

constexpr size_t kMaxWords = size_t{1} << 16;
// In heights of a line, which are about 1.2 times the font's size.
constexpr double kCellGap = 0.62;       // at least: between words of different cells
constexpr double kMinStrip = 0.3;       // at least: an empty strip between columns, over all rows
constexpr double kMonospacedGap = 1.7;  // likewise, in widths of a letter of program text
constexpr double kMinSpace = 0.15;      // at least: a space between words that parts two columns
constexpr double kRowOverlap = 0.3;     // overlap of two lines that stand beside each other
constexpr double kMaxRowGap = 2.2;      // at most: between two rows of a table
constexpr double kSameEdge = 1;         // points: between the beginnings of a column's texts
constexpr size_t kEdgeRows = 8;         // rows above in which a column's edge is looked for
constexpr size_t kRowsOfEdge = 3;       // at least, where a line of prose is told by it
constexpr size_t kRowsOfOnlyEdge = 5;   // likewise, of a table with two columns
constexpr double kTableGap = 0.5;       // at least: between two tables
constexpr size_t kMaxColumns = 64;      // of a table
constexpr size_t kMinDividedRows = 3;   // of a table that only its division into rows tells
constexpr double kMaxDoubt = 0.6;         // a row, of such a table; other texts have 1 and more
constexpr double kStretchedSpace = 3;   // at most: between the words of a justified line
constexpr double kRotated = 3;          // a line this many times higher than wide is rotated
constexpr size_t kMaxColumnDepth = 2;   // columns within columns: 4 at most
constexpr size_t kMaxRows = 500;        // lines of a table on one page
// Lines looked at for each line of the page: texts that begin like a table and are none are looked
// at again from their second line on, and a hostile page has nothing else.
constexpr size_t kLooks = 20;

// Lines that stand beside each other.
struct VisualRow {
  std::vector<WordRun> runs;   // by x_min
  std::vector<WordRun> words;  // likewise, each alone
  PdfBox box;
  double height = 0;  // of its highest run
};

// The gap that parts cells, by block: wider for letters of one width (program text), whose spaces
// are wide.
std::vector<double> CellGaps(const PdfPage& page) {
  struct Widths {
    double min = std::numeric_limits<double>::infinity(), max = 0, height = 0;
    size_t num_words = 0;
  };
  std::vector<Widths> blocks(page.blocks.size());
  for (const PdfLine& line : page.lines) {
    Widths& block = blocks[line.block];
    block.height = std::max(block.height, line.box.Height());
    for (const PdfWord& word : line.words) {
      // Digits have one width in most fonts.
      const bool has_letter = std::any_of(word.text.begin(), word.text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      });
      if (word.text.size() < 3 || !has_letter) continue;
      const double width = word.box.Width() / static_cast<double>(word.text.size());
      block.min = std::min(block.min, width);
      block.max = std::max(block.max, width);
      ++block.num_words;
    }
  }
  std::vector<double> gaps;
  gaps.reserve(blocks.size());
  for (const Widths& block : blocks) {
    const bool is_monospaced = block.num_words >= 2 && block.max - block.min < 0.02 * block.max;
    gaps.push_back(is_monospaced ? kMonospacedGap * block.max : kCellGap * block.height);
  }
  return gaps;
}

void AppendRuns(const PdfPage& page, size_t index, double cell_gap, std::vector<WordRun>& runs) {
  const PdfLine& line = page.lines[index];
  if (line.box.Height() > kRotated * line.box.Width() && line.words.front().text.size() > 3) return;
  WordRun run{index, 0, 0, line.words.front().box};
  for (size_t i = 0; i < line.words.size(); ++i) {
    const PdfWord& word = line.words[i];
    if (i > 0 && word.box.x_min - run.box.x_max > cell_gap) {
      runs.push_back(run);
      run = {index, i, 0, word.box};
    }
    ++run.num_words;
    run.num_read += NumRead(word.text);
    run.box.Cover(word.box);
  }
  runs.push_back(run);
}

std::vector<VisualRow> VisualRows(const PdfPage& page, std::vector<WordRun> runs) {
  std::sort(runs.begin(), runs.end(), [](const WordRun& a, const WordRun& b) {
    return std::pair(a.box.CenterY(), a.box.x_min) < std::pair(b.box.CenterY(), b.box.x_min);
  });
  std::vector<VisualRow> rows;
  for (const WordRun& run : runs) {
    const double height = run.box.Height();
    const bool is_beside =
        !rows.empty() && rows.back().box.y_max - run.box.y_min >
                             kRowOverlap * std::min(height, rows.back().runs.back().box.Height());
    if (!is_beside) rows.push_back({{}, {}, run.box, 0});
    rows.back().runs.push_back(run);
    rows.back().box.Cover(run.box);
    rows.back().height = std::max(rows.back().height, height);
  }
  const auto by_x = [](const WordRun& a, const WordRun& b) { return a.box.x_min < b.box.x_min; };
  for (VisualRow& row : rows) {
    std::sort(row.runs.begin(), row.runs.end(), by_x);
    for (const WordRun& run : row.runs) {
      for (size_t i = run.first; i < run.first + run.num_words; ++i) {
        const PdfWord& word = page.lines[run.line].words[i];
        row.words.push_back({run.line, i, 1, word.box, NumRead(word.text)});
      }
    }
    std::sort(row.words.begin(), row.words.end(), by_x);
  }
  return rows;
}

// Rows [begin, end) with common empty strips, and those strips.
struct Region {
  size_t begin = 0, end = 0;
  std::vector<Strip> strips;
  double left = 0;  // where the texts of its rows begin
};

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

// The rows from `begin` on that are a table perhaps. The strips are those of its first row, or of
// the second one if a head is set more tightly.
Region GrowRegion(const PdfPage& page, const std::vector<VisualRow>& rows, size_t begin) {
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

// Appends the words of a run to the cells of their columns.
void AppendByColumn(const PdfPage& page, const WordRun& run, const std::vector<Strip>& strips,
                    std::vector<TableCell>& cells) {
  WordRun part{run.line, run.first, 0, {}};
  size_t part_column = 0;
  for (size_t i = run.first; i < run.first + run.num_words; ++i) {
    const PdfBox& box = page.lines[run.line].words[i].box;
    const size_t column = ColumnOf(box, strips);
    if (part.num_words > 0 && column != part_column) {
      cells[part_column].push_back(part);
      part = {run.line, i, 0, {}};
    }
    if (part.num_words == 0) part.box = box;
    part_column = column;
    part.box.Cover(box);
    ++part.num_words;
    part.num_read += NumRead(page.lines[run.line].words[i].text);
  }
  cells[part_column].push_back(part);
}

// The cells of visual rows, one row each.
std::vector<std::vector<TableCell>> CellsOf(const PdfPage& page, std::span<const VisualRow> rows,
                                            const std::vector<Strip>& strips) {
  std::vector<std::vector<TableCell>> cells;
  for (const VisualRow& row : rows) {
    auto& columns = cells.emplace_back(strips.size() + 1);
    for (const WordRun& run : row.runs) AppendByColumn(page, run, strips, columns);
    for (TableCell& cell : columns) {
      std::stable_sort(cell.begin(), cell.end(), [](const WordRun& a, const WordRun& b) {
        return a.box.y_max <= b.box.y_min;
      });
    }
  }
  return cells;
}

// How lines are to be read whose cells have so many of them that few fill their row, or that they
// look like columns of prose: as a table if they divide into rows without much doubt.
Arrangement ArrangeRows(const PdfPage& page, const RowDivision& division, TableSigns signs) {
  const auto num_rows = static_cast<double>(division.rows.size());
  const bool has_wrapped = std::any_of(
      division.rows.begin(), division.rows.end(), [](const std::vector<TableCell>& row) {
        return std::any_of(row.begin(), row.end(), [](const TableCell& cell) {
          return !cell.empty() && cell.back().box.y_min >= cell.front().box.CenterY();
        });
      });
  if (!has_wrapped || division.rows.size() < kMinDividedRows ||
      division.doubt > kMaxDoubt * num_rows) {
    return Arrangement::kNone;
  }
  signs.has_row_gaps = true;
  return Arrange(page, division.rows, signs) == Arrangement::kRows ? Arrangement::kRows
                                                                   : Arrangement::kNone;
}

bool IsLeaderRow(const PdfPage& page, const VisualRow& row) {
  return HasLeaders(CellText(page, row.runs));
}

// Where tables are looked for: the rows of a page or of one of its columns.
struct TableSearch {
  const PdfPage& page;
  const MonospacedText& monospaced;
  // A place between columns of prose: only tables across it, whose division into rows is sure, are
  // looked for.
  std::optional<double> gutter;
};

bool HasStripAt(const std::vector<Strip>& strips, double x) {
  return std::any_of(strips.begin(), strips.end(),
                     [x](const Strip& strip) { return strip.begin <= x && x <= strip.end; });
}

// How a candidate is to be read, and its rows. `is_rest`: it is the rest of a region that is no
// table.
std::pair<Arrangement, RowDivision> ArrangeCandidate(
    const TableSearch& search, const std::vector<std::vector<TableCell>>& lines,
    const std::vector<Strip>& strips, TableSigns signs, bool is_rest) {
  if (lines.empty() || strips.empty() || strips.size() >= kMaxColumns) return {};
  if (search.gutter && (is_rest || !HasStripAt(strips, *search.gutter))) return {};
  signs.has_row_gaps = HasRowGaps(lines);
  auto arrangement = search.gutter ? Arrangement::kNone : Arrange(search.page, lines, signs);
  if (is_rest && arrangement == Arrangement::kNone) return {};
  RowDivision division = DivideIntoRows(search.page, lines);
  if (arrangement == Arrangement::kNone) {
    arrangement = ArrangeRows(search.page, division, signs);
  }
  return {arrangement, std::move(division)};
}

// Appends the tables among rows.
void AppendTables(const TableSearch& search, const std::vector<VisualRow>& rows,
                  std::vector<PdfTable>& tables) {
  const PdfPage& page = search.page;
  std::vector<uint8_t> is_leader(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) is_leader[i] = IsLeaderRow(page, rows[i]);
  TableSigns signs;
  signs.is_among_leaders = std::count(is_leader.begin(), is_leader.end(), 1) >= 3;
  size_t num_looks = 0, rejected_end = 0;
  for (size_t begin = 0; begin < rows.size();) {
    if (rows[begin].runs.size() < 2 || is_leader[begin] != 0) {
      ++begin;
      continue;
    }
    const Region region = GrowRegion(page, rows, begin);
    size_t end = begin;
    while (end < region.end && is_leader[end] == 0) ++end;
    while (end > begin && rows[end - 1].runs.size() < 2 &&
           ColumnOf(rows[end - 1].runs.front().box, region.strips) == 0) {
      --end;
    }
    auto cells = CellsOf(page, std::span(rows).subspan(begin, end - begin), region.strips);
    auto [arrangement, division] =
        ArrangeCandidate(search, cells, region.strips, signs, begin < rejected_end);
    if (arrangement == Arrangement::kNone) {
      num_looks += end - begin;
      rejected_end = std::max(rejected_end, end);
      begin = num_looks < kLooks * rows.size() ? begin + 1 : std::max(end, begin + 1);
      continue;
    }
    const bool is_program_text =
        arrangement == Arrangement::kRows && search.monospaced.Holds(cells);
    if (arrangement == Arrangement::kRows && !is_program_text) cells = std::move(division.rows);
    tables.push_back({std::move(cells), arrangement == Arrangement::kColumns, is_program_text});
    begin = end;
  }
}

// The runs without those that tables have taken.
std::vector<WordRun> WithoutTables(std::vector<WordRun> runs, std::span<const PdfTable> tables) {
  std::vector<std::pair<size_t, size_t>> taken;  // line and word, ascending
  for (const PdfTable& table : tables) {
    for (const auto& row : table.rows) {
      for (const TableCell& cell : row) {
        for (const WordRun& run : cell) {
          for (size_t i = 0; i < run.num_words; ++i) taken.emplace_back(run.line, run.first + i);
        }
      }
    }
  }
  std::sort(taken.begin(), taken.end());
  std::erase_if(runs, [&](const WordRun& run) {
    return std::binary_search(taken.begin(), taken.end(), std::pair(run.line, run.first));
  });
  return runs;
}

// Appends the tables of each column of prose, or of the page if it has none.
void AppendTablesByColumn(const PdfPage& page, std::vector<WordRun> runs, size_t depth,
                          const MonospacedText& monospaced, std::vector<PdfTable>& tables) {
  const std::vector<VisualRow> rows = VisualRows(page, runs);
  std::vector<std::vector<WordRun>> runs_of_rows;
  runs_of_rows.reserve(rows.size());
  for (const VisualRow& row : rows) runs_of_rows.push_back(row.runs);
  const auto gutter = depth < kMaxColumnDepth ? ProseGutter(runs_of_rows) : std::nullopt;
  if (!gutter) return AppendTables({page, monospaced, {}}, rows, tables);
  const size_t num_tables = tables.size();
  AppendTables({page, monospaced, gutter}, rows, tables);
  if (tables.size() > num_tables) {
    runs = WithoutTables(std::move(runs), std::span(tables).subspan(num_tables));
    return AppendTablesByColumn(page, std::move(runs), depth + 1, monospaced, tables);
  }
  std::vector<WordRun> left, right;
  for (const WordRun& run : runs) (run.box.x_min < *gutter ? left : right).push_back(run);
  AppendTablesByColumn(page, std::move(left), depth + 1, monospaced, tables);
  AppendTablesByColumn(page, std::move(right), depth + 1, monospaced, tables);
}

}  // namespace

std::vector<PdfTable> FindTables(const PdfPage& page, std::span<const double> gutters) {
  std::vector<PdfTable> tables;
  if (page.num_words > kMaxWords) return tables;
  std::map<std::pair<size_t, size_t>, std::vector<WordRun>> columns;  // by area and gutter
  std::vector<WordRun> runs;
  const std::vector<double> cell_gaps = CellGaps(page);
  for (size_t i = 0; i < page.lines.size(); ++i) {
    AppendRuns(page, i, cell_gaps[page.lines[i].block], runs);
  }
  for (const WordRun& run : runs) {
    const auto column = std::lower_bound(gutters.begin(), gutters.end(), run.box.x_min);
    columns[{page.lines[run.line].area, static_cast<size_t>(column - gutters.begin())}].push_back(
        run);
  }
  const MonospacedText monospaced(page);
  for (auto& [place, column] : columns) {
    AppendTablesByColumn(page, std::move(column), 0, monospaced, tables);
  }
  return tables;
}

}  // namespace lectern::tools
