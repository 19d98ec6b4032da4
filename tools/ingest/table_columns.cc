#include "tools/ingest/table_columns.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tools/ingest/characters.h"
#include "tools/ingest/letter_forms.h"
#include "tools/ingest/line_markers.h"
#include "tools/ingest/scripts.h"

namespace lectern::tools {
namespace {

constexpr double kLevel = 0.15;    // of the height: texts with one baseline, at most
constexpr size_t kMaxAddress = 7;  // lines of an address
constexpr double kEdge = 1e9;      // beyond any page, in points
constexpr size_t kLinesOfCode = 4;    // with explanations, at least
constexpr double kFillOfWords = 0.7;  // of explanations, at most
constexpr double kSameBegin = 1.5;    // points between cells that begin at one place

// How many of the numbers lie within `width` of each other, at most.
size_t MostWithin(std::vector<double> numbers, double width) {
  std::sort(numbers.begin(), numbers.end());
  size_t most = 0, first = 0;
  for (size_t last = 0; last < numbers.size(); ++last) {
    while (numbers[last] - numbers[first] > width) ++first;
    most = std::max(most, last - first + 1);
  }
  return most;
}

// Counts of the cells of one column.
struct Column {
  size_t num_filled = 0;   // cells with text
  size_t num_words = 0;    // in all cells
  size_t num_numbers = 0;  // cells that are numbers
  size_t num_with_digits = 0;
  size_t num_markers = 0;    // cells that begin an item of a list: "•", "1.", "(a)"
  size_t num_equations = 0;  // cells like "(3.1)"
  size_t num_code = 0;       // cells of program text or formulas
  size_t num_assigned = 0;   // cells like "= 1"
  size_t num_same = 0;       // cells with the text of the first one
  std::string first;         // its text
  std::vector<double> begins;  // where cells begin, in points from the left
  double width = 0;          // of the widest cell
  double total_width = 0;    // of all cells

  double WordsPerCell() const {
    return num_filled == 0 ? 0 : static_cast<double>(num_words) / static_cast<double>(num_filled);
  }
  // Whether nearly all cells begin at one place.
  bool IsAligned() const { return 10 * MostWithin(begins, kSameBegin) >= 9 * num_filled; }
  // How full the lines are, from 0 to 1: prose fills them.
  double Fill() const {
    return num_filled == 0 || width <= 0 ? 0
                                         : total_width / (width * static_cast<double>(num_filled));
  }
};

bool IsEquationNumber(std::string_view text) {
  return text.size() >= 3 && text.starts_with('(') && text.ends_with(')') &&
         std::all_of(text.begin() + 1, text.end() - 1,
                     [](char c) { return IsAsciiDigit(c) || c == '.' || IsAsciiLetter(c); }) &&
         IsAsciiDigit(text[text.size() - 2]);
}

bool BeginsWithAssignment(std::string_view text) {
  constexpr std::string_view kSigns[] = {
      "= ", ":= ", "::= ", "+= ", "-= ", "/= ", "*= ", "==> ", "<- "};
  return std::any_of(std::begin(kSigns), std::end(kSigns),
                     [&](std::string_view sign) { return text.starts_with(sign); });
}

// Program text or a formula: signs that prose and tables of words lack.
bool IsCodeOrFormula(std::string_view text) {
  constexpr std::string_view kSigns[] = {"{", "}", ";", "//", "/*", "==", ":=", "->",
                                         "=", "∑", "∫", "√",  "≤",  "≥",  "∈",  "\\"};
  const bool has_word = std::any_of(text.begin(), text.end(), [](char c) {
    return IsAsciiDigit(c) || IsAsciiLetter(c) || static_cast<uint8_t>(c) >= 0x80;
  });
  if (!has_word && text != "-" && text != "--") return true;
  if (text.starts_with("# ") || text.starts_with("$ ")) return true;
  return std::any_of(std::begin(kSigns), std::end(kSigns), [&](std::string_view sign) {
    return text.find(sign) != std::string_view::npos;
  });
}

// Whether two texts have one baseline: the cells of a table have, columns of a page seldom.
bool AreLevel(const WordRun& a, const WordRun& b) {
  const double height = std::max(a.box.Height(), b.box.Height());
  return std::abs(a.box.CenterY() - b.box.CenterY()) <= kLevel * height;
}

void Count(const std::string& text, const TableCell& cell, Column& column) {
  ++column.num_filled;
  PdfBox box = cell.front().box;
  for (const WordRun& run : cell) {
    column.num_words += run.num_read;
    box.Cover(run.box);
  }
  column.begins.push_back(box.x_min);
  column.width = std::max(column.width, box.Width());
  column.total_width += box.Width();
  column.num_numbers += LooksLikeNumber(text);
  column.num_with_digits += std::any_of(text.begin(), text.end(), IsAsciiDigit);
  column.num_markers += IsListMarker(text);
  column.num_equations += IsEquationNumber(text);
  if (column.num_filled == 1) column.first = text;
  column.num_same += text == column.first;
  column.num_assigned += BeginsWithAssignment(text);
}

bool IsProse(const Column& column, size_t num_lines) {
  return column.WordsPerCell() >= 4.5 && column.Fill() >= 0.6 && 2 * column.num_filled >= num_lines;
}

// Whether a column mixes texts with and without digits, as an address does: name, street, town.
bool IsMixed(const Column& column) {
  return column.num_with_digits > 0 && column.num_with_digits < column.num_filled &&
         column.num_numbers * 2 < column.num_filled;
}

}  // namespace

size_t NumRead(const std::string& word) {
  constexpr auto kIsAscii = [](char c) { return static_cast<uint8_t>(c) < 0x80; };
  if (std::all_of(word.begin(), word.end(), kIsAscii)) return 1;
  size_t num_halves = 0, num_quarters = 0;
  for (const uint32_t character : CodePoints(word)) {
    num_halves += IsHanOrKana(character);
    num_quarters += IsSoutheastAsian(character);
  }
  return std::max<size_t>(1, num_halves / 2 + num_quarters / 4);
}

std::string CellText(const PdfPage& page, const TableCell& cell) {
  std::string text;
  for (const WordRun& run : cell) {
    const auto& words = page.lines[run.line].words;
    for (size_t i = 0; i < run.num_words; ++i) {
      if (!text.empty()) text += ' ';
      text += words[run.first + i].text;
    }
  }
  return text;
}

bool HasLeaders(std::string_view text) {
  return text.find("....") != std::string_view::npos ||
         text.find(". . . .") != std::string_view::npos || text.find("…") != text.rfind("…");
}

std::vector<Strip> StripsOf(const std::vector<WordRun>& runs, double min_width) {
  std::vector<Strip> strips;
  double end = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < runs.size(); ++i) {
    if (i > 0 && runs[i].box.x_min - end >= min_width) strips.push_back({end, runs[i].box.x_min});
    end = std::max(end, runs[i].box.x_max);
  }
  return strips;
}

std::vector<Strip> FreeStrips(const std::vector<WordRun>& runs) {
  std::vector<Strip> strips;
  double end = -kEdge;
  for (const WordRun& run : runs) {
    if (run.box.x_min > end) strips.push_back({end, run.box.x_min});
    end = std::max(end, run.box.x_max);
  }
  strips.push_back({end, std::max(end, kEdge)});
  return strips;
}

std::vector<Strip> IntersectStrips(const std::vector<Strip>& a, const std::vector<Strip>& b,
                                   double min_width) {
  std::vector<Strip> both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Strip strip{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (strip.end - strip.begin > 0 && strip.end - strip.begin >= min_width) both.push_back(strip);
    if (a[i].end < b[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return both;
}

size_t ColumnOf(const PdfBox& box, const std::vector<Strip>& strips) {
  const double center = (box.x_min + box.x_max) / 2;
  return static_cast<size_t>(std::count_if(strips.begin(), strips.end(), [&](const Strip& strip) {
    return (strip.begin + strip.end) / 2 < center;
  }));
}

bool LooksLikeNumber(std::string_view text) {
  size_t num_digits = 0, num_letters = 0;
  for (const char c : text) {
    num_digits += IsAsciiDigit(c);
    num_letters += IsAsciiLetter(c);
  }
  return num_digits > 0 && num_letters <= 3 && 2 * num_digits >= num_letters + 1 &&
         text.size() <= num_digits * 3 + 4;
}

namespace {

// Counts of lines of cells.
struct LineCounts {
  std::vector<Column> columns;
  size_t num_lines = 0;
  size_t num_cells = 0;     // with text
  size_t num_full = 0;      // lines with two cells or more
  size_t num_complete = 0;  // lines with all cells
  size_t num_simple = 0;    // lines with two cells or more, none of which has several lines
  size_t num_level = 0;     // of these: on one baseline
  size_t num_leaders = 0;   // lines
  size_t num_code = 0;      // cells
};

bool IsLevel(const std::vector<TableCell>& line) {
  const WordRun* first = nullptr;
  for (const TableCell& cell : line) {
    if (cell.empty()) continue;
    if (first == nullptr) first = &cell.front();
    if (!AreLevel(*first, cell.front())) return false;
  }
  return true;
}

LineCounts Measure(const PdfPage& page, const std::vector<std::vector<TableCell>>& lines) {
  LineCounts all;
  all.num_lines = lines.size();
  all.columns.resize(lines.front().size());
  for (const auto& line : lines) {
    size_t num_filled = 0;
    bool has_leaders = false;
    for (size_t i = 0; i < all.columns.size(); ++i) {
      if (line[i].empty()) continue;
      const std::string text = CellText(page, line[i]);
      Count(text, line[i], all.columns[i]);
      has_leaders |= HasLeaders(text);
      if (IsCodeOrFormula(text)) {
        ++all.num_code;
        ++all.columns[i].num_code;
      }
      ++num_filled;
    }
    if (num_filled >= 2 && std::all_of(line.begin(), line.end(),
                                       [](const TableCell& cell) { return cell.size() <= 1; })) {
      ++all.num_simple;
      all.num_level += IsLevel(line);
    }
    all.num_full += num_filled >= 2;
    all.num_complete += num_filled == all.columns.size();
    all.num_leaders += has_leaders;
    all.num_cells += num_filled;
  }
  return all;
}

// Whether enough lines have enough cells. Two lines are enough where each has three cells or more,
// and one of them is a number.
bool IsFilled(const LineCounts& lines) {
  const bool has_numbers = std::any_of(lines.columns.begin(), lines.columns.end(),
                                       [](const Column& column) { return column.num_numbers > 0; });
  if (lines.num_full < 2) return false;
  if (lines.num_full == 2) {
    return has_numbers && lines.columns.size() >= 3 && lines.num_complete == 2;
  }
  return 2 * lines.num_full + lines.num_full / 2 >= lines.num_lines &&
         5 * lines.num_cells >= 2 * lines.num_lines * lines.columns.size();
}

// Whether code and formulas are explained, as on reference cards: two columns, one of words and one
// of code, begin at one place each, or the lines of a program are numbered. Words of program text
// that stand below each other by chance begin at several, assignments are often aligned, lines of a
// shell begin with one sign, and prose beside program text is wrapped, so that its lines are full.
bool IsCodeExplained(const LineCounts& all) {
  const Column &first = all.columns.front(), &last = all.columns.back();
  if (all.columns.size() != 2 || all.num_lines < kLinesOfCode) return false;
  if (10 * first.num_numbers >= 9 * first.num_filled) return first.IsAligned();
  if (2 * first.num_same > first.num_filled || 2 * last.num_same > last.num_filled) return false;
  if (2 * last.num_assigned > last.num_filled) return false;
  const auto is_of_words = [&](const Column& column) {
    return 10 * column.num_code <= column.num_filled &&
           3 * column.num_filled >= 2 * all.num_lines &&
           (column.WordsPerCell() < 2 || column.Fill() < kFillOfWords);
  };
  return (is_of_words(first) || is_of_words(last)) && first.IsAligned() && last.IsAligned();
}

// Whether lines are a table as far as their columns alone tell.
bool IsTable(const LineCounts& all, const TableSigns& signs) {
  const std::vector<Column>& columns = all.columns;
  const Column& last = columns.back();
  if (!IsFilled(all) || all.num_leaders * 4 >= all.num_lines) return false;
  if (10 * all.num_level < 7 * all.num_simple) return false;
  if (all.num_code * 3 >= all.num_cells && !IsCodeExplained(all)) return false;
  if (signs.is_among_leaders && last.num_numbers * 2 > last.num_filled) return false;
  const auto num_prose = std::count_if(columns.begin(), columns.end(), [&](const Column& column) {
    return IsProse(column, all.num_lines);
  });
  if (num_prose >= 2 && !signs.has_row_gaps) return false;
  return last.num_equations * 2 <= last.num_filled;
}

}  // namespace

Arrangement Arrange(const PdfPage& page, const std::vector<std::vector<TableCell>>& lines,
                    const TableSigns& signs) {
  if (lines.empty()) return Arrangement::kNone;
  const LineCounts all = Measure(page, lines);
  if (!IsTable(all, signs)) return Arrangement::kNone;
  const Column &first = all.columns.front(), &last = all.columns.back();
  if (all.columns.size() > 2) return Arrangement::kRows;
  if (first.num_markers * 2 > first.num_filled) return Arrangement::kNone;
  const bool is_typed =
      last.num_numbers * 2 >= last.num_filled || first.num_numbers * 2 >= first.num_filled;
  const bool are_addresses =
      !is_typed && all.num_lines <= kMaxAddress && IsMixed(first) && IsMixed(last);
  return are_addresses ? Arrangement::kColumns : Arrangement::kRows;
}

namespace {

constexpr double kBin = 2;         // points
constexpr size_t kNumBins = 2048;  // of a page; what is beyond them is not looked at
constexpr size_t kMinRows = 12;    // of a page with columns of prose
constexpr size_t kMostPlaces = 8;  // looked at, which bounds the time of hostile pages

size_t BinOf(double x) {
  return static_cast<size_t>(std::clamp(x / kBin, 0.0, static_cast<double>(kNumBins - 1)));
}

// Pairs of neighbouring runs of a row.
struct Pairs {
  size_t num_beside = 0;
  size_t num_level = 0;  // of them: on one baseline
  void Add(const WordRun& left, const WordRun& right) {
    ++num_beside;
    num_level += AreLevel(left, right);
  }
  // Whether there are enough of them, and less than `share` is level.
  bool AreUnlevel(double share) const {
    return num_beside >= kMinRows / 2 &&
           static_cast<double>(num_level) < share * static_cast<double>(num_beside);
  }
};

// The text on both sides of a place on the page.
struct Sides {
  size_t num_words[2] = {}, num_runs[2] = {};
  Pairs across, within;  // the place; either side
};

Sides SidesOf(const std::vector<std::vector<WordRun>>& rows, double x) {
  Sides sides;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const WordRun& run = row[i];
      if (run.box.x_min < x && run.box.x_max > x) continue;
      const size_t side = run.box.x_min < x ? 0 : 1;
      sides.num_words[side] += run.num_read;
      ++sides.num_runs[side];
      if (i == 0 || (row[i - 1].box.x_min < x && row[i - 1].box.x_max > x)) continue;
      const bool is_across = side == 1 && row[i - 1].box.x_max < x;
      (is_across ? sides.across : sides.within).Add(row[i - 1], run);
    }
  }
  return sides;
}

// Whether the sides are columns of a page: prose with many words in a line, or lines that do not
// stand beside each other, as the cells of a table do.
bool AreColumns(const Sides& sides) {
  return sides.across.AreUnlevel(0.6) || (sides.num_words[0] >= 4 * sides.num_runs[0] &&
                                          sides.num_words[1] >= 4 * sides.num_runs[1]);
}

// Whether the sides have tables of their own: the cells of either are level, and few lines are
// across the place. Wrapped cells of one table are level nowhere.
bool AreTables(const Sides& sides) {
  return sides.across.AreUnlevel(0.4) && sides.within.num_beside >= kMinRows / 2 &&
         10 * sides.within.num_level >= 9 * sides.within.num_beside;
}

}  // namespace

std::optional<double> ProseGutter(const std::vector<std::vector<WordRun>>& rows) {
  if (rows.size() < kMinRows) return std::nullopt;
  // Rows that leave a place free and have text on both of its sides, less those of the place
  // before; and the same for rows that cover it.
  std::vector<int64_t> free(kNumBins + 1), covered(kNumBins + 1);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      ++covered[BinOf(row[i].box.x_min)];
      --covered[std::max(BinOf(row[i].box.x_max), BinOf(row[i].box.x_min))];
      if (i == 0 || row[i].box.x_min <= row[i - 1].box.x_max) continue;
      const size_t begin = BinOf(row[i - 1].box.x_max) + 1, end = BinOf(row[i].box.x_min);
      if (begin >= end) continue;
      ++free[begin];
      --free[end];
    }
  }
  // The best place of each strip that enough rows leave free.
  std::vector<std::pair<int64_t, size_t>> places;  // by the number of rows
  int64_t num_free = 0, num_covered = 0;
  const auto num_rows = static_cast<int64_t>(rows.size());
  bool is_in_strip = false;
  for (size_t bin = 0; bin < kNumBins; ++bin) {
    num_free += free[bin];
    num_covered += covered[bin];
    const bool was_in_strip = is_in_strip;
    is_in_strip = 10 * num_free >= 4 * num_rows && 10 * num_covered <= 3 * num_rows;
    if (!is_in_strip) continue;
    if (!was_in_strip) places.emplace_back();
    if (num_free > places.back().first) places.back() = {num_free, bin};
  }
  // Tables that stand beside each other may have strips that are free in more rows than the one
  // between the tables.
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; i < std::min(places.size(), kMostPlaces); ++i) {
    const double x = (static_cast<double>(places[i].second) + 0.5) * kBin;
    const Sides sides = SidesOf(rows, x);
    if (i == 0 ? AreColumns(sides) : AreTables(sides)) return x;
  }
  return std::nullopt;
}

}  // namespace lectern::tools
