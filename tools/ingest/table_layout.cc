#include "tools/ingest/table_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "tools/ingest/monospaced_text.h"
#include "tools/ingest/table_columns.h"

namespace lectern::tools {
namespace {

constexpr size_t kMaxWords = size_t{1} << 16;
// In heights of a line, which are about 1.2 times the font's size.
constexpr double kCellGap = 0.62;       // at least: between words of different cells
constexpr double kMinStrip = 0.3;       // at least: an empty strip between columns, over all rows
constexpr double kMonospacedGap = 1.7;  // likewise, in widths of a letter of program text
constexpr double kMinSpace = 0.15;      // at least: a space between words that parts two columns
constexpr double kRowOverlap = 0.3;        // overlap of two lines that stand beside each other
constexpr double kMaxRowGap = 2.2;      // at most: between two rows of a table
constexpr double kTight = 0.8;          // at most: between the lines of one cell
constexpr double kSameEdge = 1;         // points: between the beginnings of a column's texts
constexpr size_t kEdgeRows = 4;         // rows above in which a column's edge is looked for
constexpr double kRotated = 3;          // a line this many times higher than wide is rotated
constexpr size_t kMaxColumnDepth = 2;   // columns within columns: 4 at most
constexpr size_t kMaxRows = 500;        // lines of a table on one page
// Lines looked at for each line of the page: texts that begin like a table and are none are looked
// at again from their second line on, and a hostile page has nothing else.
constexpr size_t kLooks = 20;

// Lines that stand beside each other.
struct VisualRow {
  std::vector<WordRun> runs;  // by x_min
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
    run.box.Cover(word.box);
  }
  runs.push_back(run);
}

std::vector<VisualRow> VisualRows(std::vector<WordRun> runs) {
  std::sort(runs.begin(), runs.end(), [](const WordRun& a, const WordRun& b) {
    return std::pair(a.box.CenterY(), a.box.x_min) < std::pair(b.box.CenterY(), b.box.x_min);
  });
  std::vector<VisualRow> rows;
  for (const WordRun& run : runs) {
    const double height = run.box.Height();
    const bool is_beside =
        !rows.empty() && rows.back().box.y_max - run.box.y_min >
                             kRowOverlap * std::min(height, rows.back().runs.back().box.Height());
    if (!is_beside) rows.push_back({{}, run.box, 0});
    rows.back().runs.push_back(run);
    rows.back().box.Cover(run.box);
    rows.back().height = std::max(rows.back().height, height);
  }
  for (VisualRow& row : rows) {
    std::sort(row.runs.begin(), row.runs.end(),
              [](const WordRun& a, const WordRun& b) { return a.box.x_min < b.box.x_min; });
  }
  return rows;
}

// Rows [begin, end) with common empty strips, and those strips.
struct Region {
  size_t begin = 0, end = 0;
  std::vector<Strip> strips;
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

// Whether spaces between words stand in all strips: a cell so long that it nearly reaches the next.
bool HasSpaceInStrips(const PdfPage& page, const VisualRow& row, const std::vector<Strip>& strips) {
  std::vector<WordRun> words;
  for (const WordRun& run : row.runs) {
    for (size_t i = run.first; i < run.first + run.num_words; ++i) {
      words.push_back({run.line, i, 1, page.lines[run.line].words[i].box});
    }
  }
  std::sort(words.begin(), words.end(),
            [](const WordRun& a, const WordRun& b) { return a.box.x_min < b.box.x_min; });
  return IntersectStrips(strips, FreeStrips(words), kMinSpace * row.height).size() == strips.size();
}

// The place where texts behind a strip begin, if they all begin at one place; else nothing.
std::optional<double> LeftEdge(const PdfPage& page, std::span<const VisualRow> rows,
                               const Strip& strip) {
  std::optional<double> edge;
  size_t num_rows = 0;
  for (const VisualRow& row : rows) {
    double first = std::numeric_limits<double>::infinity();
    for (const WordRun& run : row.runs) {
      for (size_t i = run.first; i < run.first + run.num_words; ++i) {
        const double begin = page.lines[run.line].words[i].box.x_min;
        if (begin >= strip.end - kSameEdge) first = std::min(first, begin);
      }
    }
    if (first == std::numeric_limits<double>::infinity()) continue;
    if (edge && std::abs(*edge - first) > kSameEdge) return std::nullopt;
    edge = first;
    ++num_rows;
  }
  return num_rows >= 2 ? edge : std::nullopt;
}

// Whether a word of the row begins at the left edge of each column but the first.
bool BeginsAtEdges(const PdfPage& page, std::span<const VisualRow> above, const VisualRow& row,
                   const std::vector<Strip>& strips) {
  return std::all_of(strips.begin(), strips.end(), [&](const Strip& strip) {
    const auto edge = LeftEdge(page, above, strip);
    return edge && std::any_of(row.runs.begin(), row.runs.end(), [&](const WordRun& run) {
             const auto& words = page.lines[run.line].words;
             return std::any_of(words.begin() + static_cast<ptrdiff_t>(run.first),
                                words.begin() + static_cast<ptrdiff_t>(run.first + run.num_words),
                                [&](const PdfWord& word) {
                                  return std::abs(word.box.x_min - *edge) <= kSameEdge;
                                });
           });
  });
}

// Returns the strips that stay empty when `row` joins; nothing: it does not belong to the table.
std::optional<std::vector<Strip>> Join(const PdfPage& page, const Region& region,
                                       std::span<const VisualRow> above, const VisualRow& row,
                                       size_t num_full_rows) {
  const VisualRow& last = above.back();
  const double height = std::max(last.height, row.height);
  if (row.box.y_min - last.box.y_max > kMaxRowGap * height) return std::nullopt;
  const auto nearest = above.last(std::min(above.size(), kEdgeRows));
  const auto keeps = [&] { return BeginsAtEdges(page, nearest, row, region.strips); };
  if (CrossesAll(row, region.strips)) {
    return keeps() ? std::optional(region.strips) : std::nullopt;
  }
  auto strips = IntersectStrips(region.strips, FreeStrips(row.runs), kMinStrip * row.height);
  const bool loses = strips.size() < region.strips.size();
  const bool has_spaces =
      loses && row.runs.size() > 1 && HasSpaceInStrips(page, row, region.strips);
  if (has_spaces || (loses && keeps())) return region.strips;
  if (strips.empty() ||
      (loses && (num_full_rows >= 3 || 2 * strips.size() < region.strips.size()))) {
    return std::nullopt;
  }
  return strips;
}

// Whether row `next` stands apart from the rows before it as a running head or foot does: the first
// or the last row of the page, with a wider gap than the rows beside it have.
bool StandsApart(const std::vector<VisualRow>& rows, size_t next) {
  const bool is_head = next == 1, is_foot = next + 1 == rows.size();
  if (rows.size() < 4 || !(is_head || is_foot)) return false;
  const auto gap = [&](size_t i) { return rows[i].box.y_min - rows[i - 1].box.y_max; };
  return gap(next) > rows[next].height && gap(next) > 1.3 * gap(is_head ? next + 1 : next - 1);
}

// The rows from `begin` on that share the strips of the first of them.
Region GrowFrom(const PdfPage& page, const std::vector<VisualRow>& rows, size_t begin) {
  Region region{begin, begin + 1, StripsOf(rows[begin].runs, kCellGap * rows[begin].height)};
  size_t num_full_rows = 1;
  while (region.end < std::min(rows.size(), begin + kMaxRows)) {
    const VisualRow& row = rows[region.end];
    if (StandsApart(rows, region.end)) break;
    auto strips =
        Join(page, region, std::span(rows).subspan(begin, region.end - begin), row, num_full_rows);
    if (!strips) break;
    region.strips = std::move(*strips);
    num_full_rows += row.runs.size() > 1;
    ++region.end;
  }
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
      HasSpaceInStrips(page, rows[begin], below.strips)) {
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

double FirstWordWidth(const PdfPage& page, const WordRun& run) {
  return page.lines[run.line].words[run.first].box.Width();
}

// Whether the first word of `cell` would not have fitted behind `above` in a column that ends at
// `column_end`: the layout broke the line.
bool IsWrapped(const PdfPage& page, const TableCell& above, const TableCell& cell,
               double column_end) {
  if (above.empty() || cell.empty()) return false;
  const double space = 0.2 * cell.front().box.Height();
  return above.back().box.x_max + space + FirstWordWidth(page, cell.front()) > column_end;
}

bool IsNumber(const PdfPage& page, const TableCell& cell) {
  return !cell.empty() && cell.front().num_words <= 2 &&
         LooksLikeNumber(page.lines[cell.front().line].words[cell.front().first].text);
}

double Top(const std::vector<TableCell>& row) {
  double top = std::numeric_limits<double>::infinity();
  for (const TableCell& cell : row) {
    for (const WordRun& run : cell) top = std::min(top, run.box.y_min);
  }
  return top;
}

double Bottom(const std::vector<TableCell>& row) {
  double bottom = -std::numeric_limits<double>::infinity();
  for (const TableCell& cell : row) {
    for (const WordRun& run : cell) bottom = std::max(bottom, run.box.y_max);
  }
  return bottom;
}

// The gap that parts the rows of a table from the lines of its cells; infinity: gaps do not tell.
double RowGap(const std::vector<std::vector<TableCell>>& rows) {
  std::vector<double> gaps;
  for (size_t i = 1; i < rows.size(); ++i) gaps.push_back(Top(rows[i]) - Bottom(rows[i - 1]));
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  if (gaps.size() < 3) return kUnknown;
  const auto [low, high] = std::minmax_element(gaps.begin(), gaps.end());
  const double middle = (*low + *high) / 2;
  const auto num_wide = static_cast<size_t>(
      std::count_if(gaps.begin(), gaps.end(), [&](double gap) { return gap > middle; }));
  const bool is_clear = *high > *low + 2 && num_wide >= 2 && 4 * num_wide >= gaps.size();
  return is_clear ? middle : kUnknown;
}

// Whether `row` holds further lines of the cells of `above`.
bool Continues(const PdfPage& page, const std::vector<TableCell>& above,
               const std::vector<TableCell>& row, const std::vector<double>& column_ends,
               double row_gap) {
  bool is_wrapped = false, has_number = false;
  size_t num_filled = 0, num_filled_above = 0;
  double height = 0;
  for (size_t column = 0; column < row.size(); ++column) {
    is_wrapped |= IsWrapped(page, above[column], row[column], column_ends[column]);
    has_number |= IsNumber(page, row[column]) && IsNumber(page, above[column]);
    num_filled += !row[column].empty();
    num_filled_above += !above[column].empty();
    if (!row[column].empty()) height = std::max(height, row[column].front().box.Height());
  }
  if (!is_wrapped || has_number) return false;
  const double gap = Top(row) - Bottom(above);
  if (row_gap != std::numeric_limits<double>::infinity()) return gap < row_gap;
  return gap <= kTight * height && num_filled < num_filled_above;
}

// Joins the rows that hold further lines of cells to the rows above them.
std::vector<std::vector<TableCell>> JoinLines(const PdfPage& page,
                                              std::vector<std::vector<TableCell>> lines) {
  std::vector<double> column_ends(lines.front().size(), -1e300);
  for (const auto& line : lines) {
    for (size_t column = 0; column < line.size(); ++column) {
      for (const WordRun& run : line[column]) {
        column_ends[column] = std::max(column_ends[column], run.box.x_max);
      }
    }
  }
  const double row_gap = RowGap(lines);
  std::vector<std::vector<TableCell>> rows;
  const std::vector<TableCell>* above = nullptr;
  for (auto& line : lines) {
    if (above != nullptr && Continues(page, *above, line, column_ends, row_gap)) {
      for (size_t column = 0; column < line.size(); ++column) {
        TableCell& cell = rows.back()[column];
        cell.insert(cell.end(), line[column].begin(), line[column].end());
      }
    } else {
      rows.push_back(line);
    }
    above = &rows.back();
  }
  return rows;
}

bool IsLeaderRow(const PdfPage& page, const VisualRow& row) {
  return HasLeaders(CellText(page, row.runs));
}

// Appends the tables among rows, which are those of a page or of one of its columns.
void AppendTables(const PdfPage& page, const std::vector<VisualRow>& rows,
                  const MonospacedText& monospaced, std::vector<PdfTable>& tables) {
  std::vector<uint8_t> is_leader(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) is_leader[i] = IsLeaderRow(page, rows[i]);
  TableSigns signs;
  signs.is_among_leaders = std::count(is_leader.begin(), is_leader.end(), 1) >= 3;
  size_t num_looks = 0;
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
    signs.has_row_gaps = RowGap(cells) != std::numeric_limits<double>::infinity();
    const Arrangement arrangement =
        cells.empty() || region.strips.empty() ? Arrangement::kNone : Arrange(page, cells, signs);
    if (arrangement == Arrangement::kRows) {
      const bool is_program_text = monospaced.Holds(cells);
      if (!is_program_text) cells = JoinLines(page, std::move(cells));
      tables.push_back({std::move(cells), false, is_program_text});
      begin = end;
    } else if (arrangement == Arrangement::kColumns) {
      tables.push_back({std::move(cells), true, false});
      begin = end;
    } else {
      num_looks += end - begin;
      begin = num_looks < kLooks * rows.size() ? begin + 1 : std::max(end, begin + 1);
    }
  }
}

// Appends the tables of each column of prose, or of the page if it has none.
void AppendTablesByColumn(const PdfPage& page, std::vector<WordRun> runs, size_t depth,
                          const MonospacedText& monospaced, std::vector<PdfTable>& tables) {
  const std::vector<VisualRow> rows = VisualRows(runs);
  std::vector<std::vector<WordRun>> runs_of_rows;
  runs_of_rows.reserve(rows.size());
  for (const VisualRow& row : rows) runs_of_rows.push_back(row.runs);
  const auto gutter = depth < kMaxColumnDepth ? ProseGutter(runs_of_rows) : std::nullopt;
  if (!gutter) return AppendTables(page, rows, monospaced, tables);
  std::vector<WordRun> left, right;
  for (const WordRun& run : runs) (run.box.x_min < *gutter ? left : right).push_back(run);
  AppendTablesByColumn(page, std::move(left), depth + 1, monospaced, tables);
  AppendTablesByColumn(page, std::move(right), depth + 1, monospaced, tables);
}

}  // namespace

std::vector<PdfTable> FindTables(const PdfPage& page, std::span<const double> gutters) {
  std::vector<PdfTable> tables;
  if (page.num_words > kMaxWords) return tables;
  std::vector<std::vector<WordRun>> columns(gutters.size() + 1);
  std::vector<WordRun> runs;
  const std::vector<double> cell_gaps = CellGaps(page);
  for (size_t i = 0; i < page.lines.size(); ++i) {
    AppendRuns(page, i, cell_gaps[page.lines[i].block], runs);
  }
  for (const WordRun& run : runs) {
    const auto column = std::lower_bound(gutters.begin(), gutters.end(), run.box.x_min);
    columns[static_cast<size_t>(column - gutters.begin())].push_back(run);
  }
  const MonospacedText monospaced(page);
  for (auto& column : columns) {
    AppendTablesByColumn(page, std::move(column), 0, monospaced, tables);
  }
  return tables;
}

}  // namespace lectern::tools
