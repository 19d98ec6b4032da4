#include "tools/ingest/recognised_words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/letter_forms.h"

namespace lectern::tools {
namespace {

constexpr size_t kMostRecognisedWords = size_t{1} << 17;
constexpr std::string_view kTableHead =
    "level\tpage_num\tblock_num\tpar_num\tline_num\tword_"
    "num\tleft\ttop\twidth\theight\tconf\ttext\n";

// A row of Tesseract's table. Levels: 1 a page, 2 a block, 3 a paragraph, 4 a line, 5 a word.
struct TableRow {
  enum Level { kParagraphLevel = 3, kLineLevel = 4, kWordLevel = 5 };
  std::array<int64_t, 10> numbers;  // level, page, block, paragraph, line, word and the place
  std::string_view text;

  int64_t level() const { return numbers[0]; }
  PdfBox Box(double scale) const {
    const auto x = static_cast<double>(numbers[6]), y = static_cast<double>(numbers[7]);
    const auto width = static_cast<double>(numbers[8]), height = static_cast<double>(numbers[9]);
    return {x * scale, y * scale, (x + width) * scale, (y + height) * scale};
  }
};

// Parses a row without its newline; nothing: it is none. The confidence, before the text, is a
// fraction that is not needed.
std::optional<TableRow> ParseTableRow(std::string_view line) {
  TableRow row{};
  for (int64_t& number : row.numbers) {
    const auto read = std::from_chars(line.data(), line.data() + line.size(), number);
    const auto size = static_cast<size_t>(read.ptr - line.data());
    if (read.ec != std::errc() || size == line.size() || line[size] != '\t') return std::nullopt;
    if (std::abs(static_cast<double>(number)) > 1e6) return std::nullopt;
    line.remove_prefix(size + 1);
  }
  const size_t confidence = line.find('\t');
  if (confidence == std::string_view::npos) return std::nullopt;
  row.text = line.substr(confidence + 1);
  return row;
}

// The characters of a word that a document may have; empty: it is white space.
std::string CleanWord(std::string_view bytes) {
  std::string word;
  for (const uint32_t character : CodePoints(CleanUtf8(bytes).text)) {
    if (character > 0x20 && character != 0x7F && character != 0xA0) AppendUtf8(character, word);
  }
  return word;
}

// Gives the lines of the last block, and their words, one height, the median: Tesseract's places
// are those of the ink, so that a line without tall letters is lower, and layout takes the height
// for the size of the font.
void EvenHeights(PdfPage& page) {
  if (page.blocks.empty()) return;
  const size_t block = page.blocks.size() - 1;
  std::vector<double> heights;
  size_t first = page.lines.size();
  while (first > 0 && page.lines[first - 1].block == block) {
    heights.push_back(page.lines[--first].box.Height());
  }
  if (heights.empty()) return;
  const auto middle = heights.begin() + static_cast<ptrdiff_t>(heights.size() / 2);
  std::nth_element(heights.begin(), middle, heights.end());
  for (size_t i = first; i < page.lines.size(); ++i) {
    PdfLine& line = page.lines[i];
    const double center = line.box.CenterY();
    line.box.y_min = center - *middle / 2;
    line.box.y_max = center + *middle / 2;
    for (PdfWord& word : line.words) {
      word.box.y_min = line.box.y_min;
      word.box.y_max = line.box.y_max;
    }
  }
}

// Adds a paragraph, a line or a word to the page. False: it lies in none.
bool AddRow(const TableRow& row, double scale, PdfPage& page, bool& has_line) {
  if (row.level() == TableRow::kParagraphLevel) {
    EvenHeights(page);
    page.blocks.push_back(row.Box(scale));
    has_line = false;
  }
  if (row.level() == TableRow::kLineLevel) {
    if (page.blocks.empty()) return false;
    has_line = true;
    if (!page.lines.empty() && page.lines.back().words.empty()) page.lines.pop_back();
    page.lines.push_back({{}, row.Box(scale), page.blocks.size() - 1});
  }
  if (row.level() == TableRow::kWordLevel) {
    if (!has_line) return false;
    std::string word = CleanWord(row.text);
    if (word.empty()) return true;
    page.num_characters += CodePoints(word).size();
    page.lines.back().words.push_back({std::move(word), row.Box(scale)});
    ++page.num_words;
  }
  return true;
}

}  // namespace

std::optional<PdfPage> ParseRecognisedWords(std::string_view table, double scale) {
  if (!table.starts_with(kTableHead)) return std::nullopt;
  table.remove_prefix(kTableHead.size());
  PdfPage page;
  bool has_line = false;
  while (!table.empty()) {
    const size_t end = table.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const auto row = ParseTableRow(table.substr(0, end));
    if (!row || page.num_words == kMostRecognisedWords || !AddRow(*row, scale, page, has_line)) {
      return std::nullopt;
    }
    if (row->level() == 1) {
      page.width = row->Box(scale).Width();
      page.height = row->Box(scale).Height();
    }
    table.remove_prefix(end + 1);
  }
  EvenHeights(page);
  std::erase_if(page.lines, [](const PdfLine& line) { return line.words.empty(); });
  return page;
}

}  // namespace lectern::tools
