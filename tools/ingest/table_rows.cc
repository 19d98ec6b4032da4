#include "tools/ingest/table_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "tools/ingest/characters.h"
#include "tools/ingest/hyphens.h"
#include "tools/ingest/table_columns.h"
#include "tools/ingest/visual_order.h"

namespace lectern::tools {
namespace {

using CellLine = std::vector<TableCell>;  // the cells of one line, by column

constexpr double kSameFont = 0.05;     // of the heights of two texts, relative
constexpr double kTightLines = 0.8;    // in heights, at most: between the lines of one cell
constexpr double kSpaceWidth = 0.2;    // in heights, of the space before a word
constexpr double kNearlyFits = 0.4;    // in heights: too little room, or too much, to tell by it
constexpr size_t kMaxLinesOfRow = 30;  // bounds the time of hostile pages

// Doubts. A line that goes on in each of its cells costs 1 to 1.5 a cell to cut off, so that one
// cell with three words a line outweighs kJoin, and two of them a new text in the first column.
constexpr double kJoin = 0.4;      // any line that is joined: most tables have none
constexpr double kNewFirst = 2;    // a joined line with text in the first column, as its row has
constexpr double kNewRow = 3;      // more, where it fills all columns and only widths speak for it
constexpr double kNoFirst = 0.3;   // a row without text in the first column
constexpr double kLoneCell = 0.3;  // more, of several columns, where it has one cell alone
constexpr double kOtherPlace =
    1.5;                            // the first column's text stands lower, or higher, than others'
constexpr double kUneven = 0.3;     // a row of centred cells whose lines do not tell that they are
constexpr double kEnded = 2;        // a cell that goes on though its line had room
constexpr double kTwoTexts = 3;     // a cell with an empty line between its lines
constexpr double kTwoNumbers = 3;   // a cell with a number in each of two lines
constexpr double kNarrowGap = 2.5;  // a cut where the gap says that none is
constexpr double kWideGap = 4;      // a joined line behind a gap between rows
constexpr double kDoubtOfLetter = 0.5;    // a cut before a small letter
constexpr double kDoubtOfCapital = 0.25;  // a cut before a capital that follows no full stop

double HeightOf(const CellLine& line) {
  double height = 0;
  for (const TableCell& cell : line) {
    for (const WordRun& run : cell) height = std::max(height, run.box.Height());
  }
  return height;
}

double TopOf(const CellLine& line) {
  double top = std::numeric_limits<double>::infinity();
  for (const TableCell& cell : line) {
    for (const WordRun& run : cell) top = std::min(top, run.box.y_min);
  }
  return top;
}

double BottomOf(const CellLine& line) {
  double bottom = -std::numeric_limits<double>::infinity();
  for (const TableCell& cell : line) {
    for (const WordRun& run : cell) bottom = std::max(bottom, run.box.y_max);
  }
  return bottom;
}

// The steps from a line to the next one, in points, of the columns that have text in both in fonts
// of one height, because others stand a little higher or lower.
struct FontStep {
  double height = 0, step = 0;
};

std::vector<FontStep> StepsBetween(const CellLine& above, const CellLine& line) {
  std::vector<FontStep> steps;
  for (size_t i = 0; i < line.size(); ++i) {
    for (const WordRun& upper : above[i]) {
      for (const WordRun& lower : line[i]) {
        const double height = lower.box.Height();
        if (std::abs(upper.box.Height() - height) > kSameFont * height) continue;
        steps.push_back({height, lower.box.y_max - upper.box.y_max});
      }
    }
  }
  return steps;
}

// How much wider the steps between the lines of a table are than the narrowest ones of their fonts:
// by line, in points; nothing for lines that tell nothing. If several columns tell, the one counts
// whose lines stand closest: it has the most of them in the row, and the others wait for it.
std::vector<std::optional<double>> ExcessSteps(const std::vector<CellLine>& lines) {
  std::vector<std::vector<FontStep>> steps(lines.size());
  std::vector<FontStep> fonts;  // with the narrowest step of each
  for (size_t i = 1; i < lines.size(); ++i) {
    steps[i] = StepsBetween(lines[i - 1], lines[i]);
    fonts.insert(fonts.end(), steps[i].begin(), steps[i].end());
  }
  std::sort(fonts.begin(), fonts.end(),
            [](const FontStep& a, const FontStep& b) { return a.height < b.height; });
  size_t num_fonts = 0;
  for (const FontStep& step : fonts) {
    if (num_fonts > 0 && step.height - fonts[num_fonts - 1].height <= kSameFont * step.height) {
      fonts[num_fonts - 1].step = std::min(fonts[num_fonts - 1].step, step.step);
    } else {
      fonts[num_fonts++] = step;
    }
  }
  fonts.resize(num_fonts);
  std::vector<std::optional<double>> excess(lines.size());
  for (size_t i = 1; i < lines.size(); ++i) {
    for (const FontStep& step : steps[i]) {
      const auto font = std::prev(
          std::upper_bound(fonts.begin(), fonts.end(), step.height,
                           [](double height, const FontStep& f) { return height < f.height; }));
      const double more = step.step - font->step;
      excess[i] = excess[i] ? std::min(*excess[i], more) : more;
    }
  }
  return excess;
}

// The excess that parts the rows of a table from the lines of its cells; nothing: steps do not
// tell.
std::optional<double> RowStep(const std::vector<std::optional<double>>& excess) {
  std::vector<double> known;
  for (const auto& more : excess) {
    if (more) known.push_back(*more);
  }
  if (known.size() < 3) return std::nullopt;
  const auto [low, high] = std::minmax_element(known.begin(), known.end());
  const double middle = (*low + *high) / 2;
  const auto num_wide = static_cast<size_t>(
      std::count_if(known.begin(), known.end(), [&](double step) { return step > middle; }));
  const bool is_clear = *high > *low + 2 && num_wide >= 2 && 4 * num_wide >= known.size();
  return is_clear ? std::optional(middle) : std::nullopt;
}

// The lines of a cell, from the top: runs beside each other are one.
std::vector<PdfBox> LinesOf(const TableCell& cell) {
  std::vector<PdfBox> lines;
  for (const WordRun& run : cell) {
    if (lines.empty() || run.box.y_min >= lines.back().CenterY()) {
      lines.push_back(run.box);
    } else {
      lines.back().Cover(run.box);
    }
  }
  return lines;
}

// A column of the table, over all lines.
struct ColumnWidth {
  double width = 0;               // of its widest line
  double words_per_line = 0;      // mean of the lines with text
  bool is_lower_telling = false;  // few cells begin with a small letter: a line that does, goes on
};

std::vector<ColumnWidth> WidthsOf(const std::vector<CellLine>& lines) {
  std::vector<ColumnWidth> columns(lines.front().size());
  std::vector<size_t> num_lines(columns.size());
  for (const CellLine& line : lines) {
    for (size_t i = 0; i < columns.size(); ++i) {
      for (const WordRun& run : line[i]) {
        columns[i].words_per_line += static_cast<double>(run.num_read);
      }
      for (const PdfBox& box : LinesOf(line[i])) {
        columns[i].width = std::max(columns[i].width, box.Width());
        ++num_lines[i];
      }
    }
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    if (num_lines[i] > 0) columns[i].words_per_line /= static_cast<double>(num_lines[i]);
  }
  return columns;
}

// Weighs the divisions of one table.
class RowDivider {
 public:
  RowDivider(const PdfPage& page, const std::vector<CellLine>& lines)
      : page_(page),
        lines_(lines),
        columns_(WidthsOf(lines)),
        excess_(ExcessSteps(lines)),
        row_step_(RowStep(excess_)) {
    LetterCounts counts;
    for (const CellLine& line : lines) {
      for (const TableCell& cell : line) {
        if (!cell.empty()) CountLetters(CellText(page, cell), counts);
      }
    }
    is_right_to_left_ = counts.IsRightToLeft();
  }

  RowDivision Divide() {
    WeighBreaks();
    std::vector<size_t> at_top, centred;
    const double doubt_at_top = LeastDoubt(CellPlace::kTop, at_top);
    const bool is_centred = LeastDoubt(CellPlace::kMiddle, centred) < doubt_at_top;
    return Divided(is_centred ? CellPlace::kMiddle : CellPlace::kTop,
                   is_centred ? centred : at_top);
  }

 private:
  enum class CellPlace { kTop, kMiddle };  // where the lines of a table's cells stand in their row

  // A row that grows line by line.
  struct RowState {
    explicit RowState(size_t num_columns) : has_text(num_columns), is_open(num_columns) {}
    std::vector<uint8_t> has_text, is_open;  // by column; open: the last line had text
    size_t num_lines = 0;
    size_t first_begin = 0, first_end = 0;  // lines of the row with the first column's text
    double prior = 0, doubt = 0;  // what any such row costs, and what is odd about this one
  };

  // The doubt of the best division; `row_begin` gets, for each line's end, where the last row of
  // the best division of the lines up to it begins.
  double LeastDoubt(CellPlace place, std::vector<size_t>& row_begin) const {
    std::vector<double> doubt(lines_.size() + 1, std::numeric_limits<double>::infinity());
    row_begin.assign(lines_.size() + 1, 0);
    doubt[0] = 0;
    for (size_t begin = 0; begin < lines_.size(); ++begin) {
      const double before = doubt[begin] + (begin > 0 ? cut_[begin] : 0);
      RowState row(columns_.size());
      const size_t most = std::min(lines_.size(), begin + kMaxLinesOfRow);
      for (size_t line = begin; line < most; ++line) {
        Extend(place, line, row);
        const double total = before + row.prior + row.doubt + DoubtOfPlace(place, row);
        if (total < doubt[line + 1]) {
          doubt[line + 1] = total;
          row_begin[line + 1] = begin;
        }
      }
    }
    return doubt.back();
  }

  // Adds a line to a row.
  void Extend(CellPlace place, size_t line, RowState& row) const {
    const bool is_joined = row.num_lines > 0;
    const bool has_first = !lines_[line][0].empty();
    if (is_joined) {
      row.prior += kJoin;
      row.doubt += join_[line];
    }
    size_t num_filled = 0, num_filled_above = 0;  // columns with text
    bool has_other = false;  // text in another column, not the first one there if cells are centred
    for (size_t i = 0; i < columns_.size(); ++i) {
      const bool has_text = !lines_[line][i].empty();
      num_filled += has_text;
      num_filled_above += row.has_text[i];
      has_other |= i > 0 && has_text && (place == CellPlace::kTop || row.has_text[i] != 0);
      if (has_text && row.has_text[i] != 0 && row.is_open[i] == 0) row.doubt += kTwoTexts;
      row.is_open[i] = has_text;
    }
    // A line that fills its first column alone is the rest of that cell rather than a new row.
    if (is_joined && row.has_text[0] != 0 && has_first && has_other) {
      const bool is_whole = num_filled >= num_filled_above && goes_on_[line] == 0;
      row.prior += kNewFirst + (is_whole ? kNewRow : 0);
    }
    for (size_t i = 0; i < columns_.size(); ++i) row.has_text[i] |= row.is_open[i];
    if (has_first && row.first_end == 0) row.first_begin = row.num_lines;
    ++row.num_lines;
    if (has_first) row.first_end = row.num_lines;
  }

  // Doubts about a row because of the place of its first column's text.
  static double DoubtOfPlace(CellPlace place, const RowState& row) {
    if (row.has_text[0] == 0) {
      const auto num_filled = std::count(row.has_text.begin(), row.has_text.end(), 1);
      return kNoFirst + (num_filled == 1 && row.has_text.size() > 2 ? kLoneCell : 0);
    }
    const size_t above = row.first_begin, below = row.num_lines - row.first_end;
    if (place == CellPlace::kTop) return above == 0 ? 0 : kOtherPlace;
    if (above > below + 1 || below > above + 1) return kOtherPlace;
    return above == below ? 0 : kUneven;
  }

  RowDivision Divided(CellPlace place, const std::vector<size_t>& row_begin) const {
    RowDivision division;
    for (size_t end = lines_.size(); end > 0; end = row_begin[end]) {
      CellLine row = lines_[row_begin[end]];
      RowState state(columns_.size());
      Extend(place, row_begin[end], state);
      for (size_t line = row_begin[end] + 1; line < end; ++line) {
        Extend(place, line, state);
        for (size_t i = 0; i < row.size(); ++i) {
          row[i].insert(row[i].end(), lines_[line][i].begin(), lines_[line][i].end());
        }
      }
      division.rows.push_back(std::move(row));
      division.doubt += state.doubt + cut_[row_begin[end]];
    }
    std::reverse(division.rows.begin(), division.rows.end());
    return division;
  }

  // Finds out in which columns a small letter tells that a line goes on, by the cells that surely
  // begin with their line.
  void CountLowerStarts() {
    for (size_t i = 0; i < columns_.size(); ++i) {
      size_t num_starts = 0, num_lower = 0;
      for (size_t line = 1; line < lines_.size(); ++line) {
        const TableCell &above = lines_[line - 1][i], &cell = lines_[line][i];
        if (cell.empty()) continue;
        if (!above.empty() && RoomFor(above, cell, i) <= kNearlyFits * cell.front().box.Height())
          continue;
        const std::string& next = FirstWord(cell).text;
        ++num_starts;
        num_lower += !next.empty() && IsAsciiLower(next[0]);
      }
      columns_[i].is_lower_telling = num_starts >= 2 && 5 * num_lower <= num_starts;
    }
  }

  // The room that the first word of `cell` would have left behind `above`, in points.
  double RoomFor(const TableCell& above, const TableCell& cell, size_t column) const {
    return columns_[column].width - LinesOf(above).back().Width() -
           kSpaceWidth * cell.front().box.Height() - FirstWord(cell).box.Width();
  }

  // Weighs for each line but the first what speaks against cutting and against joining before it.
  void WeighBreaks() {
    CountLowerStarts();
    goes_on_.assign(lines_.size(), 0);
    cut_.assign(lines_.size(), 0);
    join_.assign(lines_.size(), 0);
    for (size_t line = 1; line < lines_.size(); ++line) {
      const std::optional<double>& step = excess_[line];
      const double space = TopOf(lines_[line]) - BottomOf(lines_[line - 1]);
      goes_on_[line] = row_step_ && step && *step < *row_step_;
      if (row_step_ && step) {
        (*step < *row_step_ ? cut_ : join_)[line] += *step < *row_step_ ? kNarrowGap : kWideGap;
      } else if (space > kTightLines * HeightOf(lines_[line])) {
        join_[line] += kWideGap;
      }
      for (size_t i = 0; i < columns_.size(); ++i) WeighCell(line, i);
    }
  }

  void WeighCell(size_t line, size_t column) {
    const TableCell &above = lines_[line - 1][column], &cell = lines_[line][column];
    if (above.empty() || cell.empty()) return;
    const std::string& next = FirstWord(cell).text;
    const std::string text = CellText(page_, above);
    if (IsNumber(above) && IsNumber(cell)) join_[line] += kTwoNumbers;
    if (EndingHyphen(text) > 0 && !next.empty() && IsAsciiLower(next[0])) {
      cut_[line] += 1 + kDoubtOfLetter;
      goes_on_[line] = 1;
      return;
    }
    const double height = cell.front().box.Height();
    const double room = RoomFor(above, cell, column);
    if (room > kNearlyFits * height) join_[line] += kEnded;
    if (room > 0) return;
    if (text.ends_with(',')) cut_[line] += kDoubtOfLetter;
    const double words = std::clamp((columns_[column].words_per_line - 1) / 2, 0.0, 1.0);
    if (!next.empty() && IsAsciiLower(next[0])) {
      cut_[line] += words + std::min(kDoubtOfLetter, words);
      goes_on_[line] |= static_cast<uint8_t>(columns_[column].is_lower_telling && words > 0);
    } else if (!next.empty() && (IsAsciiUpper(next[0]) || IsAsciiDigit(next[0]))) {
      cut_[line] += text.ends_with('.') ? words / 4 : words / 2 + std::min(kDoubtOfCapital, words);
    } else {
      cut_[line] += 0.7 * words;
    }
  }

  // The first word of a cell's first line, as it is read.
  const PdfWord& FirstWord(const TableCell& cell) const {
    const WordRun& run = cell.front();
    return page_.lines[run.line].words[run.first + (is_right_to_left_ ? run.num_words - 1 : 0)];
  }

  bool IsNumber(const TableCell& cell) const {
    return cell.front().num_words <= 2 &&
           LooksLikeNumber(page_.lines[cell.front().line].words[cell.front().first].text);
  }

  const PdfPage& page_;
  const std::vector<CellLine>& lines_;
  std::vector<ColumnWidth> columns_;
  const std::vector<std::optional<double>> excess_;
  const std::optional<double> row_step_;
  bool is_right_to_left_ = false;
  std::vector<uint8_t> goes_on_;  // by line: a letter, a hyphen or the gap says that a cell goes on
  std::vector<double> cut_, join_;  // by line: doubts of a row that ends, or goes on, before it
};

}  // namespace

bool HasRowGaps(const std::vector<std::vector<TableCell>>& lines) {
  return RowStep(ExcessSteps(lines)).has_value();
}

RowDivision DivideIntoRows(const PdfPage& page, const std::vector<std::vector<TableCell>>& lines) {
  if (lines.empty()) return {};
  return RowDivider(page, lines).Divide();
}

}  // namespace lectern::tools
