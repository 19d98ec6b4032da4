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
#include "tools/ingest/table_labels.h"
#include "tools/ingest/table_region.h"
#include "tools/ingest/table_rows.h"

namespace lectern::tools {
namespace {

constexpr size_t kMaxWords = size_t{1} << 16;
// In heights of a line, which are about 1.2 times the font's size.
constexpr double kMonospacedGap = 1.7;  // likewise, in widths of a letter of program text
constexpr double kRowOverlap = 0.3;     // overlap of two lines that stand beside each other
constexpr size_t kMinDividedRows = 3;   // of a table that only its division into rows tells
constexpr double kMaxDoubt = 0.6;       // a row, of such a table; other texts have 1 and more
constexpr double kRotated = 3;          // a line this many times higher than wide is rotated
constexpr size_t kMaxColumnDepth = 2;   // columns within columns: 4 at most
// Lines looked at for each line of the page: texts that begin like a table and are none are looked
// at again from their second line on, and a hostile page has nothing else.
constexpr size_t kLooks = 20;

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
  const size_t num_tables = tables.size();
  if (!gutter) {
    AppendTables({page, monospaced, {}}, rows, tables);
    runs = WithoutTables(std::move(runs), std::span(tables).subspan(num_tables));
    return AppendLabelTables(page, VisualRows(page, std::move(runs)), tables);
  }
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
