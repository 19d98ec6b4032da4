#include "tools/ingest/monospaced_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

constexpr double kSameWidth = 0.02;  // relative; pdftotext rounds places to a millionth of a point
constexpr size_t kWordsOfProgram = 6;
constexpr size_t kWordsOfBlock = 2;
constexpr size_t kLettersOfWord = 3;  // digits have one width in most fonts
constexpr double kMostOfPage = 0.75;  // of its words with letters

bool HasLetters(const PdfWord& word) {
  return static_cast<size_t>(std::count_if(word.text.begin(), word.text.end(), IsAsciiLetter)) >=
         kLettersOfWord;
}

}  // namespace

double MonospacedText::CharacterWidth(const PdfWord& word) {
  const auto num_characters = std::count_if(word.text.begin(), word.text.end(), [](char c) {
    return (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  });
  return num_characters == 0 ? 0 : word.box.Width() / static_cast<double>(num_characters);
}

// The widths of the characters of some words.
class MonospacedText::Widths {
 public:
  void Add(const PdfWord& word) {
    const double width = MonospacedText::CharacterWidth(word);
    least = std::min(least, width);
    most = std::max(most, width);
    num_words += HasLetters(word);
  }

  bool AreSeveral() const { return most > least * (1 + kSameWidth); }

  double least = 1e300, most = 0;
  size_t num_words = 0;  // with letters
};

MonospacedText::MonospacedText(const PdfPage& page) : page_(page) {
  for (const PdfLine& line : page.lines) {
    Widths widths;
    for (const PdfWord& word : line.words) {
      if (!HasLetters(word)) continue;
      widths_.push_back(CharacterWidth(word));
      widths.Add(word);
    }
    has_proportional_ |= widths.num_words >= 2 && widths.AreSeveral();
  }
  std::sort(widths_.begin(), widths_.end());
}

bool MonospacedText::AreOfProgram(const Widths& widths, size_t least_words) const {
  if (widths.num_words < least_words || widths.AreSeveral()) return false;
  const auto first =
      std::lower_bound(widths_.begin(), widths_.end(), widths.least * (1 - kSameWidth));
  const auto last =
      std::upper_bound(widths_.begin(), widths_.end(), widths.most * (1 + kSameWidth));
  return static_cast<double>(last - first) <= kMostOfPage * static_cast<double>(widths_.size());
}

bool MonospacedText::Holds(const std::vector<std::vector<TableCell>>& rows) const {
  Widths widths;
  for (const auto& row : rows) {
    for (const TableCell& cell : row) {
      for (const WordRun& run : cell) {
        for (size_t i = run.first; i < run.first + run.num_words; ++i) {
          widths.Add(page_.lines[run.line].words[i]);
        }
      }
    }
  }
  return AreOfProgram(widths, kWordsOfProgram);
}

bool MonospacedText::HoldsLines(size_t begin, size_t end) const {
  Widths widths;
  for (size_t i = begin; i < end; ++i) {
    for (const PdfWord& word : page_.lines[i].words) widths.Add(word);
  }
  return has_proportional_ && AreOfProgram(widths, kWordsOfBlock);
}

}  // namespace lectern::tools
