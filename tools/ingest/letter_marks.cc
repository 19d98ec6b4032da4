#include "tools/ingest/letter_marks.h"

#include <fribidi.h>

#include <algorithm>
#include <cmath>

#include "tools/ingest/letter_forms.h"
#include "tools/ingest/visual_order.h"

namespace lectern::tools {
namespace {

constexpr double kBesideLetter =
    0.1;                            // of a line's height: marks stand no further from their letter
constexpr double kSameEdge = 0.02;  // likewise, of two edges that are one
constexpr size_t kWordsBeside = 8;  // words on each side in which a mark's letter is looked for
constexpr uint32_t kHamzaAbove = 0x654;

// Hebrew, Arabic and Syriac with their marks.
bool IsFromRight(uint32_t character) { return character >= 0x590 && character < 0x900; }
// The letters that a hamza stands above: alef, waw, heh, and the forms of yeh.
bool CarriesHamza(uint32_t character) {
  constexpr uint32_t kLetters[] = {kAlef, 0x648, kHeh, 0x649, 0x64A, 0x6C1, 0x6CC, 0x6D5};
  return std::ranges::find(kLetters, character) != std::end(kLetters);
}
// Whether a letter may have the mark; true of all letters for marks that tell nothing.
bool MayCarry(uint32_t letter, uint32_t mark) {
  constexpr uint32_t kShadda = 0x651, kSukun = 0x652, kShinDot = 0x5C1, kSinDot = 0x5C2;
  constexpr uint32_t kNeverDoubled[] = {kAlef, 0x622, 0x623, 0x625, 0x621, 0x629, 0x649};
  if (mark == kHamzaAbove) return CarriesHamza(letter);
  if (mark == kShinDot || mark == kSinDot) return letter == 0x5E9;
  if (mark != kShadda && mark != kSukun) return true;
  return std::ranges::find(kNeverDoubled, letter) == std::end(kNeverDoubled);
}

size_t NumLettersFromRight(const Characters& characters) {
  return static_cast<size_t>(
      std::count_if(characters.begin(), characters.end(), IsRightToLeftLetter));
}

bool IsMarksAlone(const Characters& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), IsMark);
}

// Puts `marks`, whose centre is `x`, to the letter that they stand on in `host`: in visual order
// before it, so that they follow it once the line is turned around. Its letters are taken to be of
// one width.
// `is_behind`: the line has marks behind their letters, as LineDirection says.
void Attach(const Characters& marks, double x, const PdfBox& box, bool is_behind,
            Characters& host) {
  const auto num_letters = static_cast<double>(
      std::count_if(host.begin(), host.end(), [](uint32_t c) { return !IsMark(c); }));
  const double share = box.Width() > 0 ? (x - box.x_min) / box.Width() : 0;
  auto letters_before = static_cast<int64_t>(std::clamp(share, 0.0, 0.999) * num_letters);
  auto at = host.begin();
  while (at != host.end() && (IsMark(*at) || letters_before-- > 0)) ++at;
  if (is_behind && at != host.end()) at = std::find_if_not(at + 1, host.end(), IsMark);
  host.insert(at, marks.begin(), marks.end());
}

// The word that the marks of word `index` stand on: one that begins where they end (marks come
// first when a line is drawn from the left), else one that they stand in the middle of. Hebrew
// letters stand apart, so that the second one is surer unless the first one begins exactly there;
// Arabic marks may begin a little before their letter, within the one before. words.size(): none.
size_t HostOf(const std::vector<PdfWord>& words, const std::vector<Characters>& parts,
              size_t index) {
  const PdfBox& marks = words[index].box;
  const double height = std::max(marks.Height(), 1.0);
  size_t beginning = words.size(), around = words.size();
  double nearest = kBesideLetter * height;
  const size_t begin = index < kWordsBeside ? 0 : index - kWordsBeside;
  for (size_t i = begin; i < std::min(words.size(), index + kWordsBeside); ++i) {
    if (parts[i].empty() || IsMarksAlone(parts[i])) continue;
    const PdfBox& box = words[i].box;
    if (std::abs(box.x_min - marks.x_max) < nearest) {
      nearest = std::abs(box.x_min - marks.x_max);
      beginning = i;
    }
    if (box.x_min <= marks.x_max && marks.x_max <= box.x_max) around = i;
  }
  const bool stand_apart = parts[index].front() < 0x600;  // Hebrew and Latin
  const bool is_near = beginning < words.size() && (!stand_apart || nearest < kSameEdge * height);
  return is_near || around == words.size() ? beginning : around;
}

// The word that ends nearest to where the marks of word `index` stand, as letters from left to
// right do (Thai); words.size(): none is near.
size_t LeftHostOf(const std::vector<PdfWord>& words, const std::vector<Characters>& parts,
                  size_t index) {
  const PdfBox& marks = words[index].box;
  size_t host = words.size();
  if (IsFromRight(parts[index].front())) return host;
  double nearest = kBesideLetter * std::max(marks.Height(), 1.0);
  const size_t begin = index < kWordsBeside ? 0 : index - kWordsBeside;
  for (size_t i = begin; i < std::min(words.size(), index + kWordsBeside); ++i) {
    if (parts[i].empty() || IsMarksAlone(parts[i]) || HasLetterFromRight(parts[i])) continue;
    const double distance = std::abs(words[i].box.x_max - marks.x_min);
    if (distance < nearest) {
      nearest = distance;
      host = i;
    }
  }
  return host;
}

}  // namespace

bool IsRightToLeftLetter(uint32_t character) {
  const FriBidiCharType type = fribidi_get_bidi_type(character);
  return type == FRIBIDI_TYPE_RTL || type == FRIBIDI_TYPE_AL;
}
bool IsMark(uint32_t character) { return fribidi_get_bidi_type(character) == FRIBIDI_TYPE_NSM; }

bool HasLetterFromRight(const Characters& characters) {
  return std::any_of(characters.begin(), characters.end(), IsRightToLeftLetter);
}

// Whether a line's letters were drawn one by one: most words with right-to-left letters hold one
// letter. Its marks, and the letters of a ligature, are then in logical order already.
bool IsDrawnByLetter(const std::vector<Characters>& words) {
  size_t num_single = 0, num_several = 0;
  for (const Characters& word : words) {
    const size_t num_letters = NumLettersFromRight(word);
    if (num_letters == 1) ++num_single;
    if (num_letters > 1) ++num_several;
  }
  return num_single >= 4 && num_single > 2 * num_several;
}

// Moves words that are marks alone (vowel points and tone marks that pdftotext took for words) into
// the words that they stand on, and empties them.
void AttachMarks(const std::vector<PdfWord>& words, bool is_behind,
                 std::vector<Characters>& parts) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (!IsMarksAlone(parts[i])) continue;
    const size_t left_host = LeftHostOf(words, parts, i);
    if (left_host != words.size()) {
      parts[left_host].insert(parts[left_host].end(), parts[i].begin(), parts[i].end());
      parts[i].clear();
      continue;
    }
    const size_t host = HostOf(words, parts, i);
    if (host == words.size()) continue;
    Attach(parts[i], (words[i].box.x_min + words[i].box.x_max) / 2, words[host].box, is_behind,
           parts[host]);
    parts[i].clear();
  }
}

// Puts the characters of one glyph, which are in logical order, into visual order, with the marks
// where the line has them.
void TurnGlyph(bool is_behind, Characters& glyph) {
  const auto letter = std::find_if(glyph.begin(), glyph.end(), IsRightToLeftLetter);
  if (letter == glyph.end()) return;
  if (NumLettersFromRight(glyph) > 1) {
    if (*letter == kLam) std::reverse(glyph.begin(), glyph.end());  // lam-alef or the name of God
    return;
  }
  if (is_behind) {
    const auto first = std::find_if(glyph.begin(), letter, IsMark);
    std::rotate(first, letter, letter + 1);
  } else if (letter == glyph.begin() || !IsMark(*(letter - 1))) {
    // Marks behind a letter that has some before it belong to the next one.
    const auto end = std::find_if_not(letter + 1, glyph.end(), IsMark);
    std::reverse(letter, end);
  }
}

void TurnHebrewGlyphs(Characters& word) {
  constexpr uint32_t kShin = 0x5E9, kVav = 0x5D5, kHolam = 0x5B9, kDagesh = 0x5BC;
  constexpr uint32_t kShinDot = 0x5C1, kSinDot = 0x5C2;
  for (auto letter = word.begin(); letter != word.end();) {
    const auto end = std::find_if_not(letter + 1, word.end(), IsMark);
    const bool has_dot = std::any_of(
        letter, end, [&](uint32_t mark) { return mark == kShinDot || mark == kSinDot; });
    const bool is_shin = *letter == kShin && has_dot && (end == word.end() || *end != kShin);
    const bool is_vav =
        *letter == kVav && end - letter == 2 && (letter[1] == kHolam || letter[1] == kDagesh);
    if (is_shin || is_vav) std::reverse(letter, end);
    letter = end;
  }
}

void CountMarks(const std::vector<PdfWord>& words, MarkCounts& counts) {
  for (size_t i = 0; i < words.size(); ++i) {
    const Characters word = CodePoints(words[i].text);
    if (word.size() < 2 || !HasLetterFromRight(word)) continue;
    const bool begins = i == 0 || !Touch(words[i - 1], words[i]);
    const bool ends = i + 1 == words.size() || !Touch(words[i], words[i + 1]);
    if (begins && IsMark(word.front()) && IsRightToLeftLetter(word.back())) ++counts.before;
    if (ends && IsMark(word.back()) && IsRightToLeftLetter(word.front())) ++counts.behind;
    for (size_t at = 1; at + 1 < word.size(); ++at) {
      const bool is_behind = MayCarry(word[at - 1], word[at]);
      const bool is_before = MayCarry(word[at + 1], word[at]);
      if (is_behind && !is_before) ++counts.behind;
      if (is_before && !is_behind) ++counts.before;
    }
  }
}

}  // namespace lectern::tools
