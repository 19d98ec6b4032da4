// Which scripts are written without spaces, so that the readers of PDFs know where a gap between
// two words is none. Header only; any thread.
#ifndef LECTERN_TOOLS_INGEST_SCRIPTS_H_
#define LECTERN_TOOLS_INGEST_SCRIPTS_H_

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace lectern::tools {

struct CharacterRange {
  uint32_t first, last;
};

template <size_t N>
constexpr bool IsInRanges(uint32_t character, const CharacterRange (&ranges)[N]) {
  return std::any_of(std::begin(ranges), std::end(ranges), [&](const CharacterRange& range) {
    return range.first <= character && character <= range.last;
  });
}

// Han characters, kana, bopomofo, and the punctuation that is as wide as they are; no full-width
// letters and digits.
constexpr bool IsHanOrKana(uint32_t character) {
  constexpr CharacterRange kRanges[] = {{0x2E80, 0x312F}, {0x31A0, 0x4DBF},   {0x4E00, 0xA4CF},
                                        {0xF900, 0xFAFF}, {0xFE30, 0xFE4F},   {0xFF01, 0xFF0F},
                                        {0xFF1A, 0xFF20}, {0xFF3B, 0xFF40},   {0xFF5B, 0xFF9F},
                                        {0xFFE0, 0xFFEF}, {0x1B000, 0x1B16F}, {0x20000, 0x3FFFD}};
  return IsInRanges(character, kRanges);
}

constexpr bool IsHangul(uint32_t character) {
  constexpr CharacterRange kRanges[] = {
      {0x1100, 0x11FF}, {0x3130, 0x318F}, {0xA960, 0xA97F}, {0xAC00, 0xD7FF}};
  return IsInRanges(character, kRanges);
}

// Thai, Lao, Myanmar and Khmer: spaces part phrases, not words, and lines end between words.
constexpr bool IsSoutheastAsian(uint32_t character) {
  constexpr CharacterRange kRanges[] = {
      {0x0E00, 0x0EFF}, {0x1000, 0x109F}, {0x1780, 0x17FF}, {0x19E0, 0x19FF}};
  return IsInRanges(character, kRanges);
}

// Scripts of India and Tibet, whose letters are drawn in parts and out of order.
constexpr bool IsIndic(uint32_t character) {
  constexpr CharacterRange kRanges[] = {{0x0900, 0x0DFF}, {0x0F00, 0x0FFF}, {0xA8E0, 0xA8FF}};
  return IsInRanges(character, kRanges);
}

// Whether a line that ends in `last` and the next line of its paragraph, which begins with `first`,
// are joined without a space.
constexpr bool WrapsWithoutSpace(uint32_t last, uint32_t first) {
  return IsHanOrKana(last) || IsHanOrKana(first) ||
         (IsSoutheastAsian(last) && IsSoutheastAsian(first));
}

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_SCRIPTS_H_
