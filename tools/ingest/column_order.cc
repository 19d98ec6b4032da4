#include "tools/ingest/column_order.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace lectern::tools {
namespace {

constexpr double kGutterHeights = 1.0;  // width of a gutter in heights of the text, at least
constexpr double kMostAcross = 0.05;    // share of the lines that lie across a gutter
constexpr size_t kLinesOfColumn = 24;   // at least; a table of a few rows has fewer
constexpr size_t kLinesOfStrip = 4;     // of what may be a column, at first
constexpr double kColumnHeight = 0.6;   // of the page, at least
constexpr double kColumnShare = 0.18;   // of the page's width, at least
constexpr double kSameRow = 0.3;        // in heights of the text
constexpr double kSameDistance = 0.24;  // likewise
// Share of a column's rows that go on beyond the gutter: between the columns of eleven pages of
// reference cards 0.25 to 0.61, between those of their tables and others 0.72 to 1.
constexpr double kMostInRows = 0.65;
constexpr double kLeastLines = 0.6;  // of a column, in those of the one beside it
constexpr size_t kMostGutters = 16;  // pages have fewer; bounds the time of hostile ones
constexpr size_t kReturns = 2;       // over a gutter, in pdftotext's order

// The middles of the strips that few lines lie across, with lines on both sides, ascending.
std::vector<double> Gutters(const PdfPage& page) {
  std::vector<std::pair<double, int>> ends;  // where a line begins and ends
  for (const PdfLine& line : page.lines) {
    ends.emplace_back(line.box.x_min, 1);
    ends.emplace_back(std::max(line.box.x_max, line.box.x_min), -1);
  }
  std::sort(ends.begin(), ends.end());
  const double min_width = kGutterHeights * MedianLineHeight(page);
  const auto most = static_cast<int>(kMostAcross * static_cast<double>(page.lines.size()));
  std::vector<double> gutters;
  int across = 0;
  double begin = -1;  // of the strip that is open; below 0: none is
  for (const auto& [x, step] : ends) {
    across += step;
    if (across > most && begin >= 0) {
      if (x - begin >= min_width) gutters.push_back((begin + x) / 2);
      begin = -1;
    } else if (across <= most && begin < 0 && step < 0) {
      begin = x;
    }
  }
  return gutters;
}

// The columns of a page: the lines of each, and those that lie across a gutter.
struct Columns {
  std::vector<double> gutters;
  std::vector<size_t> column;  // by line; gutters.size() + 1: across a gutter
  std::vector<std::vector<size_t>> lines;
};

Columns ColumnsOf(const PdfPage& page, std::vector<double> gutters) {
  Columns columns{std::move(gutters), {}, {}};
  columns.lines.resize(columns.gutters.size() + 2);
  for (size_t i = 0; i < page.lines.size(); ++i) {
    const auto place = [&](double x) {
      return static_cast<size_t>(
          std::lower_bound(columns.gutters.begin(), columns.gutters.end(), x) -
          columns.gutters.begin());
    };
    const PdfBox& box = page.lines[i].box;
    const size_t first = place(box.x_min), last = place(box.x_max);
    columns.column.push_back(first == last ? first : columns.gutters.size() + 1);
    columns.lines[columns.column.back()].push_back(i);
  }
  return columns;
}

// The baselines of the rows in which lines stand, ascending.
std::vector<double> RowsOfColumn(const PdfPage& page, const std::vector<size_t>& lines) {
  std::vector<double> baselines, rows;
  for (const size_t i : lines) baselines.push_back(page.lines[i].box.y_max);
  std::sort(baselines.begin(), baselines.end());
  const double height = MedianLineHeight(page);
  for (const double baseline : baselines) {
    if (rows.empty() || baseline - rows.back() > kSameRow * height) rows.push_back(baseline);
  }
  return rows;
}

// How much a gutter looks like one between the columns of a table, in [0, 1]: the share of the rows
// of the side with fewer of them that are at the same distance, that of most of them and less than
// a line's height, from one of the other side: of rows set in two fonts, it is not 0.
double LikenessToTable(const PdfPage& page, const std::vector<size_t>& left,
                       const std::vector<size_t>& right) {
  std::vector<double> fewer = RowsOfColumn(page, left), more = RowsOfColumn(page, right), distances;
  if (fewer.size() > more.size()) fewer.swap(more);
  if (fewer.empty()) return 1;
  for (const double row : fewer) {
    const auto next = std::lower_bound(more.begin(), more.end(), row);
    if (next != more.end()) distances.push_back(*next - row);
    if (next != more.begin()) distances.push_back(*std::prev(next) - row);
  }
  const double height = MedianLineHeight(page), width = kSameDistance * height;
  std::erase_if(distances, [&](double distance) { return std::abs(distance) > height; });
  std::sort(distances.begin(), distances.end());
  size_t most = 0, first = 0;
  for (size_t last = 0; last < distances.size(); ++last) {
    while (distances[last] - distances[first] > width) ++first;
    most = std::max(most, last - first + 1);
  }
  return static_cast<double>(most) / static_cast<double>(fewer.size());
}

bool IsLarge(const PdfPage& page, const std::vector<size_t>& lines) {
  if (lines.size() < kLinesOfColumn) return false;
  PdfBox box = page.lines[lines.front()].box;
  for (const size_t i : lines) box.Cover(page.lines[i].box);
  return box.Width() >= kColumnShare * page.width && box.Height() >= kColumnHeight * page.height;
}

// Whether the columns beside a gutter have the size and the number of lines of texts.
bool AreLarge(const PdfPage& page, const std::vector<size_t>& a, const std::vector<size_t>& b) {
  const auto fewer = static_cast<double>(std::min(a.size(), b.size()));
  const auto more = static_cast<double>(std::max(a.size(), b.size()));
  return fewer >= kLeastLines * more && IsLarge(page, a) && IsLarge(page, b);
}

// Takes away the gutters beside columns of a few lines, which are there by chance.
void DropNarrowColumns(const PdfPage& page, std::vector<double>& gutters) {
  for (size_t i = 0; i <= gutters.size() && !gutters.empty();) {
    if (ColumnsOf(page, gutters).lines[i].size() >= kLinesOfStrip) {
      ++i;
      continue;
    }
    gutters.erase(gutters.begin() + static_cast<ptrdiff_t>(i > 0 ? i - 1 : 0));
    i = 0;
  }
}

// The gutters whose sides are texts of their own. Takes away first those of tables, all at once, so
// that the columns beside them are parts of one text.
std::vector<double> TextGutters(const PdfPage& page) {
  std::vector<double> gutters = Gutters(page);
  if (gutters.size() > kMostGutters) return {};
  DropNarrowColumns(page, gutters);
  while (!gutters.empty()) {
    const Columns columns = ColumnsOf(page, gutters);
    std::vector<double> kept;
    for (size_t i = 0; i < gutters.size(); ++i) {
      const auto &left = columns.lines[i], &right = columns.lines[i + 1];
      if (LikenessToTable(page, left, right) <= kMostInRows) kept.push_back(gutters[i]);
    }
    for (size_t i = 0; i < gutters.size() && kept.size() == gutters.size(); ++i) {
      if (!AreLarge(page, columns.lines[i], columns.lines[i + 1])) {
        kept.erase(kept.begin() + static_cast<ptrdiff_t>(i));
      }
    }
    if (kept.size() == gutters.size()) break;
    gutters = std::move(kept);
  }
  return gutters;
}

// How often pdftotext's order goes back from one column to one further left.
size_t NumReturns(const Columns& columns) {
  size_t num_returns = 0, last = 0;
  for (const size_t column : columns.column) {
    if (column > columns.gutters.size()) continue;
    num_returns += column < last;
    last = column;
  }
  return num_returns;
}

// Makes blocks of their own of the lines of a block that stand in several columns.
void PartBlocks(const Columns& columns, PdfPage& page) {
  std::map<std::pair<size_t, size_t>, size_t> parts;  // by block and column
  std::vector<PdfBox> blocks;
  for (size_t i = 0; i < page.lines.size(); ++i) {
    PdfLine& line = page.lines[i];
    const auto [part, is_new] =
        parts.try_emplace(std::pair(line.block, columns.column[i]), blocks.size());
    if (is_new) blocks.push_back(line.box);
    line.block = part->second;
    blocks[line.block].Cover(line.box);
  }
  page.blocks = std::move(blocks);
}

// Sorts the lines by part of the page, column and place of their block, of which each is in one
// column.
void SortBlocks(const Columns& columns, PdfPage& page) {
  std::vector<double> parts;  // where lines across a gutter stand
  for (const size_t i : columns.lines.back()) parts.push_back(page.lines[i].box.CenterY());
  std::sort(parts.begin(), parts.end());
  std::vector<std::tuple<size_t, size_t, double, size_t>> keys(page.blocks.size());
  for (size_t i = page.lines.size(); i-- > 0;) {
    const PdfLine& line = page.lines[i];
    const bool is_across = columns.column[i] > columns.gutters.size();
    const auto part = static_cast<size_t>(
        std::lower_bound(parts.begin(), parts.end(), line.box.CenterY()) - parts.begin());
    // Lines across a gutter stand behind the part above them and before the one below them.
    keys[line.block] = {2 * part + (is_across ? 1 : 0), is_across ? 0 : columns.column[i],
                        page.blocks[line.block].y_min, line.block};
  }
  std::stable_sort(page.lines.begin(), page.lines.end(), [&](const PdfLine& a, const PdfLine& b) {
    return keys[a.block] < keys[b.block];
  });
}

}  // namespace

std::vector<double> OrderColumns(PdfPage& page) {
  if (page.lines.size() < 2 * kLinesOfColumn) return {};
  const std::vector<double> gutters = TextGutters(page);
  if (gutters.empty()) return {};
  const Columns columns = ColumnsOf(page, gutters);
  if (NumReturns(columns) < kReturns) return {};
  PartBlocks(columns, page);
  SortBlocks(columns, page);
  return gutters;
}

}  // namespace lectern::tools
