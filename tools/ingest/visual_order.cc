#include "tools/ingest/visual_order.h"

#include <fribidi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "tools/ingest/letter_forms.h"
#include "tools/ingest/letter_marks.h"
#include "tools/ingest/scripts.h"

namespace lectern::tools {
namespace {

// Words of a line touch where the gap between them is below this share of their height. Spaces
// between words are at least 0.2 of it in all fonts tried.
constexpr double kTouching = 0.1;
constexpr double kThaiTouching = 0.15;  // the same for Thai, whose vowels stand apart; spaces: 0.25
// Below this share of a full-width character, a gap beside it is the space that LibreOffice and
// Word set between it and a Latin letter or a digit; a typed space is 0.28 of it and more.
constexpr double kSetSpace = 0.25;
constexpr double kSameWordSize =
    0.25;  // of two words, relative: else one is a raised or lowered sign
constexpr size_t kMaxLine = size_t{1} << 16;  // characters; longer lines stay as they are seen

FriBidiCharType TypeOf(uint32_t character) { return fribidi_get_bidi_type(character); }
bool IsSpace(uint32_t character) { return TypeOf(character) == FRIBIDI_TYPE_WS; }

// Whether a full-width character of Han, kana or Hangul stands on one side of a gap, and a
// character of another kind on the other one, or on both sides where they need no space.
bool IsBesideFullWidth(uint32_t left, uint32_t right) {
  if (IsHangul(left) || IsHangul(right)) return !(IsHangul(left) && IsHangul(right));
  return IsHanOrKana(left) || IsHanOrKana(right);
}

// The width of a full-width character of a word: the others are taken to be half as wide.
double FullWidth(const PdfWord& word, const Characters& characters) {
  double num_full = 0;
  for (const uint32_t character : characters) {
    num_full += IsHanOrKana(character) || IsHangul(character) ? 1 : 0.5;
  }
  return num_full == 0 ? 0 : word.box.Width() / num_full;
}

// Whether words of a line without right-to-left letters are one, with `gap` between them. pdftotext
// parts words where the font changes, and where marks and vowels overlap their letters.
bool IsOneWord(const PdfWord& left, const Characters& left_part, const PdfWord& right,
               const Characters& right_part, double gap) {
  const uint32_t last = left_part.back(), first = right_part.front();
  const double height = std::max(left.box.Height(), right.box.Height());
  if (std::abs(left.box.Height() - right.box.Height()) > kSameWordSize * height) return false;
  if (IsBesideFullWidth(last, first)) {
    const bool is_left_wide = IsHanOrKana(last) || IsHangul(last);
    const double em = is_left_wide ? FullWidth(left, left_part) : FullWidth(right, right_part);
    return gap < kSetSpace * em;
  }
  if (IsSoutheastAsian(last) && IsSoutheastAsian(first)) return gap < kThaiTouching * height;
  const auto is_joined = [](uint32_t character) {
    return IsHangul(character) || IsIndic(character);
  };
  return gap < kTouching * height && (IsMark(first) || (is_joined(last) && is_joined(first)));
}

// The characters of a line from left to right.
Characters VisualLine(const std::vector<PdfWord>& words, const LineDirection& direction) {
  std::vector<Characters> parts;
  parts.reserve(words.size());
  for (const PdfWord& word : words) parts.push_back(CodePoints(word.text));
  AttachMarks(words, direction.has_marks_behind, parts);
  const bool has_letter_from_right = std::any_of(parts.begin(), parts.end(), HasLetterFromRight);
  const bool is_drawn_by_letter = has_letter_from_right && IsDrawnByLetter(parts);
  Characters line;
  size_t last = words.size();
  for (size_t i = 0; i < parts.size(); ++i) {
    Characters& part = parts[i];
    if (part.empty()) continue;
    if (is_drawn_by_letter) TurnGlyph(direction.has_marks_behind, part);
    if (last != words.size()) {
      const double gap = words[i].box.x_min - words[last].box.x_max;
      const double height = std::max(words[last].box.Height(), words[i].box.Height());
      const bool is_one = has_letter_from_right
                              ? gap < kTouching * height
                              : IsOneWord(words[last], parts[last], words[i], part, gap);
      if (!is_one) line.push_back(' ');
    }
    last = i;
    line.insert(line.end(), part.begin(), part.end());
  }
  return line;
}

// Takes a number for part of the Latin phrase that it follows: "10" of "Windows 10". The line is
// reversed, so the phrase stands behind the number. The bidirectional algorithm does the same in
// lines from left to right (its rule W7).
void JoinNumbersToPhrases(const Characters& line, std::vector<FriBidiCharType>& types) {
  for (size_t i = 0; i < line.size();) {
    if (types[i] != FRIBIDI_TYPE_EN) {
      ++i;
      continue;
    }
    size_t end = i;
    const auto is_number = [&](size_t at) {
      return types[at] == FRIBIDI_TYPE_EN || types[at] == FRIBIDI_TYPE_CS ||
             types[at] == FRIBIDI_TYPE_ES || types[at] == FRIBIDI_TYPE_ET;
    };
    while (end < line.size() && is_number(end)) ++end;
    size_t next = end;
    while (next < line.size() && types[next] == FRIBIDI_TYPE_WS) ++next;
    if (next < line.size() && types[next] == FRIBIDI_TYPE_LTR) {
      std::fill(types.begin() + static_cast<ptrdiff_t>(i),
                types.begin() + static_cast<ptrdiff_t>(next), FRIBIDI_TYPE_LTR);
    }
    i = end;
  }
}

// Reverses each run of `line` whose level is at least `level`.
void ReverseRuns(Characters& line, const std::vector<FriBidiLevel>& levels, FriBidiLevel level) {
  for (size_t i = 0; i < line.size();) {
    size_t end = i;
    while (end < line.size() && levels[end] >= level) ++end;
    std::reverse(line.begin() + static_cast<ptrdiff_t>(i),
                 line.begin() + static_cast<ptrdiff_t>(end));
    i = std::max(end, i + 1);
  }
}

// Turns a line around. A paragraph from right to left is read backwards, and what runs from left to
// right in it (numbers, Latin words) is turned back. In a paragraph from left to right the runs of
// right-to-left letters are turned around.
void TurnAround(Characters& line, bool is_right_to_left) {
  if (is_right_to_left) std::reverse(line.begin(), line.end());
  const auto size = static_cast<FriBidiStrIndex>(line.size());
  std::vector<FriBidiCharType> types(line.size());
  std::vector<FriBidiBracketType> brackets(line.size());
  std::vector<FriBidiLevel> levels(line.size());
  fribidi_get_bidi_types(line.data(), size, types.data());
  // Marks of a reversed line stand before their letters: as letters they stay beside them.
  std::replace(types.begin(), types.end(), FriBidiCharType{FRIBIDI_TYPE_NSM},
               FriBidiCharType{FRIBIDI_TYPE_RTL});
  if (is_right_to_left) JoinNumbersToPhrases(line, types);
  fribidi_get_bracket_types(line.data(), size, types.data(), brackets.data());
  FriBidiParType base = is_right_to_left ? FRIBIDI_PAR_RTL : FRIBIDI_PAR_LTR;
  if (fribidi_get_par_embedding_levels_ex(types.data(), brackets.data(), size, &base,
                                          levels.data()) == 0) {
    return;
  }
  const FriBidiLevel highest = *std::max_element(levels.begin(), levels.end());
  for (FriBidiLevel level = highest; level >= (is_right_to_left ? 2 : 1); --level) {
    ReverseRuns(line, levels, level);
  }
}

// How many brackets of `line` close one that was opened in it, if each is mirrored or is not.
size_t NumPairs(const Characters& line, bool is_mirrored) {
  size_t num_pairs = 0;
  Characters open;
  for (uint32_t character : line) {
    FriBidiChar other = 0;
    if (!fribidi_get_mirror_char(character, &other)) continue;
    const bool opens = (fribidi_get_bracket(character) & FRIBIDI_BRACKET_OPEN_MASK) != 0;
    if (fribidi_get_bracket(character) == FRIBIDI_NO_BRACKET) continue;
    if (opens != is_mirrored) {
      open.push_back(other);
    } else if (!open.empty() && open.back() == character) {
      open.pop_back();
      ++num_pairs;
    }
  }
  return num_pairs;
}

// Mirrors the brackets of a line from right to left where that makes pairs of them: some programs
// write the bracket that is seen, some the one that was typed. Without pairs they are taken as
// seen: a bracket that touches a word on its inner side.
void MirrorBrackets(Characters& line) {
  const size_t as_is = NumPairs(line, false), mirrored = NumPairs(line, true);
  if (mirrored < as_is) return;
  if (mirrored == as_is) {
    // A lone bracket: one that is typed before a word opens.
    const auto opens = [](uint32_t c) {
      return (fribidi_get_bracket(c) & FRIBIDI_BRACKET_OPEN_MASK) != 0;
    };
    size_t num_wrong = 0, num_right = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      if (fribidi_get_bracket(line[i]) == FRIBIDI_NO_BRACKET) continue;
      const bool is_before_word =
          (i == 0 || IsSpace(line[i - 1])) && i + 1 < line.size() && !IsSpace(line[i + 1]);
      const bool is_behind_word =
          i > 0 && !IsSpace(line[i - 1]) && (i + 1 == line.size() || IsSpace(line[i + 1]));
      if (is_before_word) ++(opens(line[i]) ? num_right : num_wrong);
      if (is_behind_word) ++(opens(line[i]) ? num_wrong : num_right);
    }
    if (num_wrong <= num_right) return;
  }
  for (uint32_t& character : line) {
    FriBidiChar other = 0;
    if (fribidi_get_bracket(character) != FRIBIDI_NO_BRACKET &&
        fribidi_get_mirror_char(character, &other)) {
      character = other;
    }
  }
}

// Puts each run of marks behind the letter that follows it: where marks are drawn behind their
// letter, a line that was turned around has them before it.
void MoveMarksBehind(Characters& line) {
  for (size_t i = 0; i < line.size();) {
    size_t letter = i;
    while (letter < line.size() && IsMark(line[letter])) ++letter;
    if (letter > i && letter < line.size() && IsRightToLeftLetter(line[letter])) {
      std::rotate(line.begin() + static_cast<ptrdiff_t>(i),
                  line.begin() + static_cast<ptrdiff_t>(letter),
                  line.begin() + static_cast<ptrdiff_t>(letter) + 1);
      std::reverse(line.begin() + static_cast<ptrdiff_t>(i) + 1,
                   line.begin() + static_cast<ptrdiff_t>(letter) + 1);
    }
    i = letter + 1;
  }
}

// Puts marks that begin a word behind its first letter: no word begins with a mark.
void OrderMarks(Characters& line) {
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    const bool begins_word = i == 0 || !(IsRightToLeftLetter(line[i - 1]) || IsMark(line[i - 1]));
    if (!IsMark(line[i]) || !begins_word) continue;
    size_t letter = i;
    while (letter < line.size() && IsMark(line[letter])) ++letter;
    if (letter == line.size() || !IsRightToLeftLetter(line[letter])) continue;
    std::rotate(line.begin() + static_cast<ptrdiff_t>(i),
                line.begin() + static_cast<ptrdiff_t>(letter),
                line.begin() + static_cast<ptrdiff_t>(letter) + 1);
    i = letter;
  }
}

// Mends lam-alef and the name of God where a ligature's letters came in the wrong order and the
// result cannot be Arabic: two alefs before a lam, or a word of alef and lam alone.
void MendLigatures(Characters& line) {
  const auto is_letter = [&](size_t at) {
    return at < line.size() && IsRightToLeftLetter(line[at]);
  };
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    const bool begins_word = i == 0 || !is_letter(i - 1);
    if (begins_word && i + 1 < line.size() && IsAlef(line[i]) && line[i + 1] == kLam &&
        !is_letter(i + 2) && !(i + 2 < line.size() && IsMark(line[i + 2]))) {
      std::swap(line[i], line[i + 1]);
    } else if (i + 2 < line.size() && IsAlef(line[i]) && IsAlef(line[i + 1]) &&
               line[i + 2] == kLam) {
      std::swap(line[i + 1], line[i + 2]);
    } else if (i + 3 < line.size() && line[i] == kAlef && line[i + 1] == kHeh &&
               line[i + 2] == kLam && line[i + 3] == kLam && !is_letter(i + 4)) {
      std::rotate(line.begin() + static_cast<ptrdiff_t>(i) + 1,
                  line.begin() + static_cast<ptrdiff_t>(i) + 2,
                  line.begin() + static_cast<ptrdiff_t>(i) + 4);
    }
  }
}

}  // namespace

void CountLetters(std::string_view text, LetterCounts& counts) {
  for (const uint32_t character : CodePoints(text)) {
    if (IsRightToLeftLetter(character)) ++counts.right_to_left;
    if (TypeOf(character) == FRIBIDI_TYPE_LTR) ++counts.left_to_right;
  }
}

bool Touch(const PdfWord& left, const PdfWord& right) {
  const double height = std::max(left.box.Height(), right.box.Height());
  return right.box.x_min - left.box.x_max < kTouching * height;
}

std::string LogicalText(const std::vector<PdfWord>& words, const LineDirection& direction) {
  Characters line = VisualLine(words, direction);
  const bool is_right_to_left = direction.is_right_to_left;
  if (line.size() <= kMaxLine && (is_right_to_left || HasLetterFromRight(line))) {
    TurnAround(line, is_right_to_left);
    if (direction.has_marks_behind) MoveMarksBehind(line);
    OrderMarks(line);
    if (is_right_to_left) MirrorBrackets(line);
    MendLigatures(line);
  }
  std::string text = PlainLetters(line);
  text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace lectern::tools
