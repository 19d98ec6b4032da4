#include "tools/ingest/monospaced_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

constexpr double kSameWidth = 0.02;  // relative; pdftotext rounds places to a millionth of a point
constexpr size_t kWordsOfProgram = 6;
constexpr size_t kLettersOfWord = 3;  // digits have one width in most fonts
constexpr double kMostOfPage = 0.75;  // of its words with letters

// The mean width of a word's characters, in points; 0: it has none.
double CharacterWidth(const PdfWord& word) {
  const auto num_characters = std::count_if(word.text.begin(), word.text.end(), [](char c) {
    return (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  });
  return num_characters == 0 ? 0 : word.box.Width() / static_cast<double>(num_characters);
}

bool HasLetters(const PdfWord& word) {
  return static_cast<size_t>(std::count_if(word.text.begin(), word.text.end(), IsAsciiLetter)) >=
         kLettersOfWord;
}

}  // namespace

MonospacedText::MonospacedText(const PdfPage& page) : page_(page) {
  for (const PdfLine& line : page.lines) {
    for (const PdfWord& word : line.words) {
      if (HasLetters(word)) widths_.push_back(CharacterWidth(word));
    }
  }
  std::sort(widths_.begin(), widths_.end());
}

bool MonospacedText::Holds(const std::vector<std::vector<TableCell>>& rows) const {
  double least = 1e300, most = 0;
  size_t num_words = 0;
  for (const auto& row : rows) {
    for (const TableCell& cell : row) {
      for (const WordRun& run : cell) {
        for (size_t i = run.first; i < run.first + run.num_words; ++i) {
          const PdfWord& word = page_.lines[run.line].words[i];
          const double width = CharacterWidth(word);
          least = std::min(least, width);
          most = std::max(most, width);
          num_words += HasLetters(word);
        }
      }
    }
  }
  if (num_words < kWordsOfProgram || most > least * (1 + kSameWidth)) return false;
  const auto first = std::lower_bound(widths_.begin(), widths_.end(), least * (1 - kSameWidth));
  const auto last = std::upper_bound(widths_.begin(), widths_.end(), most * (1 + kSameWidth));
  return static_cast<double>(last - first) <= kMostOfPage * static_cast<double>(widths_.size());
}

}  // namespace lectern::tools
