#include "tools/ingest/table_columns.h"

#include <algorithm>
#include <limits>
#include <string>

namespace lectern::tools {
namespace {

constexpr double kEdge = 1e9;  // beyond any page, in points

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsAsciiLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// What the cells of one column are like.
struct Column {
  size_t num_filled = 0;   // cells with text
  size_t num_words = 0;    // in all cells
  size_t num_numbers = 0;  // cells that are numbers
  size_t num_with_digits = 0;
  size_t num_markers = 0;    // cells that begin an item of a list: "•", "1.", "(a)"
  size_t num_equations = 0;  // cells like "(3.1)"
  double width = 0;          // of the widest cell
  double total_width = 0;    // of all cells

  double WordsPerCell() const {
    return num_filled == 0 ? 0 : static_cast<double>(num_words) / static_cast<double>(num_filled);
  }
  // How full the lines are, from 0 to 1: prose fills them.
  double Fill() const {
    return num_filled == 0 || width <= 0
               ? 0
               : total_width / (width * static_cast<double>(num_filled));
  }
};

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

bool IsListMarker(std::string_view text) {
  constexpr std::string_view kBullets[] = {"•", "–", "—", "-", "*", "◦", "▪", "·", "∙", "►", "➢", "o",
                                           "", "‣", "■", "□", "●", "○"};
  for (const std::string_view bullet : kBullets) {
    if (text == bullet) return true;
  }
  const bool is_closed = text.ends_with('.') || text.ends_with(')') || text.ends_with(']');
  if (!is_closed || text.size() > 6) return false;
  text.remove_suffix(1);
  if (text.starts_with('(') || text.starts_with('[')) text.remove_prefix(1);
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return IsDigit(c) || IsAsciiLetter(c) || c == '.';
  });
}

bool IsEquationNumber(std::string_view text) {
  return text.size() >= 3 && text.starts_with('(') && text.ends_with(')') &&
         std::all_of(text.begin() + 1, text.end() - 1,
                     [](char c) { return IsDigit(c) || c == '.' || IsAsciiLetter(c); }) &&
         IsDigit(text[text.size() - 2]);
}

bool HasLeaders(std::string_view text) {
  return text.find("....") != std::string_view::npos ||
         text.find(". . . .") != std::string_view::npos ||
         text.find("…") != text.rfind("…");
}

// Program text or a formula: signs that prose and tables of words lack.
bool IsCodeOrFormula(std::string_view text) {
  constexpr std::string_view kSigns[] = {"{", "}", ";", "//", "/*", "==", ":=", "->", "=", "∑", "∫",
                                         "√", "≤", "≥", "∈", "\\"};
  if (text.size() == 1 && !IsDigit(text[0]) && !IsAsciiLetter(text[0]) && text != "-") return true;
  return std::any_of(std::begin(kSigns), std::end(kSigns), [&](std::string_view sign) {
    return text.find(sign) != std::string_view::npos;
  });
}

void Count(const std::string& text, const TableCell& cell, Column& column) {
  ++column.num_filled;
  PdfBox box = cell.front().box;
  for (const WordRun& run : cell) {
    column.num_words += run.num_words;
    box.Cover(run.box);
  }
  column.width = std::max(column.width, box.Width());
  column.total_width += box.Width();
  column.num_numbers += LooksLikeNumber(text);
  column.num_with_digits += std::any_of(text.begin(), text.end(), IsDigit);
  column.num_markers += IsListMarker(text);
  column.num_equations += IsEquationNumber(text);
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
    num_digits += IsDigit(c);
    num_letters += IsAsciiLetter(c);
  }
  return num_digits > 0 && num_letters <= 3 && 2 * num_digits >= num_letters + 1 &&
         text.size() <= num_digits * 3 + 4;
}

bool IsTable(const PdfPage& page, const std::vector<std::vector<TableCell>>& lines) {
  if (lines.empty()) return false;
  std::vector<Column> columns(lines.front().size());
  size_t num_full = 0, num_leaders = 0, num_code = 0, num_cells = 0;
  for (const auto& line : lines) {
    size_t num_filled = 0;
    bool has_leaders = false;
    for (size_t i = 0; i < columns.size(); ++i) {
      if (line[i].empty()) continue;
      const std::string text = CellText(page, line[i]);
      Count(text, line[i], columns[i]);
      has_leaders |= HasLeaders(text);
      num_code += IsCodeOrFormula(text);
      ++num_filled;
    }
    num_full += num_filled >= 2;
    num_leaders += has_leaders;
    num_cells += num_filled;
  }
  const bool has_numbers = std::any_of(
      columns.begin(), columns.end(), [](const Column& column) { return column.num_numbers > 0; });
  if (num_full < (has_numbers && columns.size() > 2 ? 2u : 3u)) return false;
  if (2 * num_full < lines.size() - num_full / 2) return false;
  if (num_leaders * 4 >= lines.size() || num_code * 3 >= num_cells) return false;
  const auto num_prose = std::count_if(columns.begin(), columns.end(), [&](const Column& column) {
    return IsProse(column, lines.size());
  });
  if (num_prose >= 2) return false;
  const Column& first = columns.front();
  if (columns.size() == 2 && first.num_markers * 2 > first.num_filled) return false;
  if (columns.back().num_equations * 2 > columns.back().num_filled) return false;
  if (columns.size() == 2) {
    const bool is_typed = columns[1].num_numbers * 2 >= columns[1].num_filled ||
                          first.num_numbers * 2 >= first.num_filled;
    if (!is_typed && IsMixed(first) && IsMixed(columns[1])) return false;
  }
  return true;
}

}  // namespace lectern::tools
