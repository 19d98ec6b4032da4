#include "tools/ingest/letter_spacing.h"

#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tools/ingest/letter_forms.h"

namespace lectern::tools {
namespace {

// All widths are in heights of the line, which are 0.9 to 1.2 of the font's size.

constexpr double kUsualWord = 5;     // letters of a word, in most languages that have spaces
constexpr double kShortestMean = 2;  // of the letters of a line's words
constexpr double kLongestMean = 12;  // likewise
// A line that fell apart: the mean length of its pieces, or else the share of single letters; and
// pieces as long as half of the words of ordinary lines are few.
constexpr double kMeanOfPieces = 2.7;
constexpr double kShareOfSingles = 0.4;
constexpr size_t kLettersOfLongPiece = 4;
constexpr double kShareOfLongPieces = 0.2;
constexpr double kShareWithinWords = 0.4;  // of its gaps, at least
constexpr double kShareOfLetters = 0.6;    // of a line's characters; formulas have fewer
constexpr size_t kFewestLetters = 8;       // of a line that tells by itself
constexpr size_t kFewestDifferent = 4;     // letters; marks in tables are of two or three kinds
// A gap between words is so many times as wide as the widest one between letters. Letter-spaced
// lines have twice the gap and the width of a space between their words; rounding takes some away.
constexpr double kWordGapOfLetters = 1.4;
constexpr double kLeastDifference = 0.08;
// Above this width, letters may be the cells of a table: then all gaps must be the same, although
// the letters have different widths.
constexpr double kWideLetterGap = 0.45;
constexpr double kSameGap = 0.15;
constexpr double kWidestGap = 1.6;  // between letters
constexpr double kSameBaselineOfLetters = 0.1;
// In a line of words the first and the last letter of a letter-spaced word have gaps beside them
// that are wider than those within it.
constexpr double kGapBesideRun = 1.2;
constexpr double kGapBehindRun = 1.35;
// Pages on which a few letters of most lines fell off their words: the share of the gaps that are
// narrow, and of the lines that have one.
constexpr double kShareOfNarrowGaps = 0.12;
constexpr double kShareOfBrokenLines = 0.6;
constexpr double kNarrowLetterGap = 0.22;
constexpr size_t kFewestGaps = 20;
// Joins of two words, of all joins: of the letters of a line, and where letters fell off the words
// of a page, which parts some long words in two halves. Narrow spaces beside formulas had a third
// of them and more.
constexpr double kMostWordsOfLetters = 0.1, kMostWordsOfBroken = 0.3;
// The mean length of words with and without their letters that fell off; English has 4.7, with
// punctuation 5, German 6.
constexpr double kMeanOfBroken = 4.2;
constexpr double kLongestMeanOfText = 7;

bool IsAlphabetic(uint32_t character) {
  const bool has_spaces = character < 0x0590 || (character >= 0x10A0 && character <= 0x10FF) ||
                          (character >= 0x1E00 && character <= 0x1FFF) ||
                          (character >= 0xFB00 && character <= 0xFB17);
  if (!has_spaces) return false;
  const int category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsCapitalLetter(uint32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character)) == UTF8PROC_CATEGORY_LU;
}

bool IsDigit(uint32_t character) { return character >= '0' && character <= '9'; }

bool IsPunctuation(uint32_t character) {
  const int category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

double GapBetween(const PdfWord& left, const PdfWord& right, double height) {
  return std::max(0.0, (right.box.x_min - left.box.x_max) / height);
}

// Whether two words stand on one baseline in one size, as the letters of a word do.
bool AreOnOneBaseline(const PdfWord& a, const PdfWord& b) {
  const double height = std::max(a.box.Height(), b.box.Height());
  return std::abs(a.box.y_max - b.box.y_max) <= kSameBaselineOfLetters * height &&
         std::abs(a.box.Height() - b.box.Height()) <= kSameBaselineOfLetters * height;
}

// A line's words as characters, and the gaps behind all but the last; a gap beside a word of
// another size or baseline is infinite.
struct Pieces {
  explicit Pieces(const PdfLine& line) {
    const double height = line.box.Height();
    for (size_t i = 0; i < line.words.size(); ++i) {
      texts.push_back(CodePoints(line.words[i].text));
      num_characters += texts.back().size();
      num_singles += texts.back().size() == 1 && IsAlphabetic(texts.back().front());
      size_t num_here = 0;
      for (const uint32_t character : texts.back()) {
        if (!IsAlphabetic(character)) continue;
        ++num_here;
        letters.insert(
            static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))));
      }
      num_letters += num_here;
      num_with_letters += num_here > 0;
      num_long += num_here >= kLettersOfLongPiece;
      if (i + 1 == line.words.size()) break;
      const bool are_level = AreOnOneBaseline(line.words[i], line.words[i + 1]);
      gaps.push_back(are_level && height > 0 ? GapBetween(line.words[i], line.words[i + 1], height)
                                             : std::numeric_limits<double>::infinity());
    }
  }
  size_t size() const { return texts.size(); }
  bool IsText() const {
    return static_cast<double>(num_letters) >=
           kShareOfLetters * static_cast<double>(num_characters);
  }
  // Whether its words are letters, and parts of words, in the main.
  bool AreApart() const {
    const auto num_words = static_cast<double>(num_with_letters);
    return (static_cast<double>(num_letters) < kMeanOfPieces * num_words ||
            static_cast<double>(num_singles) >= kShareOfSingles * num_words) &&
           static_cast<double>(num_long) <= kShareOfLongPieces * num_words;
  }

  std::vector<std::vector<uint32_t>> texts;
  std::vector<double> gaps;
  std::set<uint32_t> letters;  // different ones, as small letters
  size_t num_characters = 0, num_letters = 0;
  size_t num_singles = 0, num_with_letters = 0, num_long = 0;  // pieces: of one letter, and so on
};

// Whether the letters of pieces [begin, end) are consonants of English alone, as those of a word
// are not.
bool AreConsonants(const Pieces& pieces, size_t begin, size_t end) {
  constexpr std::u32string_view kConsonants = U"bcdfghjklmnpqrstvwxzBCDFGHJKLMNPQRSTVWXZ";
  for (size_t i = begin; i < end; ++i) {
    for (const uint32_t character : pieces.texts[i]) {
      if (IsAlphabetic(character) && kConsonants.find(character) == kConsonants.npos) return false;
    }
  }
  return true;
}

// Whether the letters of pieces [begin, end) follow the alphabet, as in a list of letters.
bool AreInOrder(const Pieces& pieces, size_t begin, size_t end) {
  uint32_t last = 0;
  for (size_t i = begin; i < end; ++i) {
    for (const uint32_t character : pieces.texts[i]) {
      if (!IsAlphabetic(character)) continue;
      if (character <= last) return false;
      last = character;
    }
  }
  return true;
}

// Whether gaps from `least` to `most` beside the words of a line are those of a text: in a row of
// cells, gaps differ as much as the widths of the words do.
bool AreEvenGaps(const PdfLine& line, double least, double most) {
  constexpr double kRounded = 0.05, kTimesGaps = 3;
  const auto [narrowest, widest] = std::minmax_element(
      line.words.begin(), line.words.end(),
      [](const auto& a, const auto& b) { return a.box.Width() < b.box.Width(); });
  const double widths = (widest->box.Width() - narrowest->box.Width()) / line.box.Height();
  return widths > kRounded + kTimesGaps * (most - least);
}

// Joins neighbouring words whose gap `is_within` a word: is_within(i) tells of the gap behind word
// i.
template <typename IsWithin>
void JoinWords(PdfLine& line, const IsWithin& is_within) {
  std::vector<PdfWord> words;
  for (size_t i = 0; i < line.words.size(); ++i) {
    if (i > 0 && is_within(i - 1)) {
      words.back().text += line.words[i].text;
      words.back().box.Cover(line.words[i].box);
    } else {
      words.push_back(std::move(line.words[i]));
    }
  }
  line.words = std::move(words);
}

// Ends the words of a letter-spaced line where the gap behind them is that of an ordinary line: a
// wide one would look like the gap between two columns. `most`: gaps above it are no spaces.
void NarrowWordGaps(PdfLine& line, double most) {
  constexpr double kSpace = 0.3;
  const double height = line.box.Height();
  for (size_t i = 0; i + 1 < line.words.size(); ++i) {
    PdfBox& box = line.words[i].box;
    const double next = line.words[i + 1].box.x_min;
    if (next - box.x_max <= most * height) box.x_max = std::max(box.x_max, next - kSpace * height);
  }
}

// Whether the characters of all words have one width, as in a monospaced font, whose spaces are as
// wide as letters.
bool IsMonospaced(const PdfLine& line, const Pieces& pieces) {
  constexpr double kSameWidth = 0.05;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const double width = line.words[i].box.Width() / static_cast<double>(pieces.texts[i].size());
    least = std::min(least, width);
    most = std::max(most, width);
  }
  return most - least <= kSameWidth * most;
}

// Whether a line of text has wide gaps between its words that are all the same: pdftotext has put
// its letters together.
bool HasWideWordGaps(const PdfLine& line, const Pieces& pieces) {
  constexpr size_t kFewestWordGaps = 3;
  constexpr double kWideWordGap = 0.6;  // justified lines seldom have so wide ones
  if (pieces.gaps.size() < kFewestWordGaps || !pieces.IsText() ||
      pieces.num_letters < kFewestLetters) {
    return false;
  }
  const auto [least, most] = std::minmax_element(pieces.gaps.begin(), pieces.gaps.end());
  return *least > kWideWordGap && *most < kGapBesideRun * *least &&
         AreEvenGaps(line, *least, *most) && !IsMonospaced(line, pieces);
}

// The widest gap between the letters of a line, and the narrowest one between its words.
struct Split {
  double letters = 0, words = 0;
  double Middle() const { return (letters + words) / 2; }
};

// Whether a gap within a word may stand between two pieces: between digits, small letters or
// capitals, or behind a capital.
bool MayBeWithin(const Pieces& pieces, size_t i) {
  const uint32_t last = pieces.texts[i].back(), next = pieces.texts[i + 1].front();
  if (IsDigit(last) && IsDigit(next)) return true;
  if (!IsAlphabetic(last) || !IsAlphabetic(next)) return false;
  return IsCapitalLetter(last) || !IsCapitalLetter(next);
}

// Counts the gaps between letters up to `widest`, and those of them that would part two words
// rather than letters of one: so few words have so many letters.
struct JoinCounts {
  void Add(const Pieces& pieces, double widest) {
    constexpr size_t kLettersOfWord = 3, kLettersOfTwoWords = 7;
    for (size_t i = 0; i < pieces.gaps.size(); ++i) {
      if (pieces.gaps[i] > widest || !MayBeWithin(pieces, i)) continue;
      ++num_joined;
      const size_t left = pieces.texts[i].size(), right = pieces.texts[i + 1].size();
      num_words +=
          left + right >= kLettersOfTwoWords || (left >= kLettersOfWord && right >= kLettersOfWord);
    }
  }
  // Whether more than this share of them would.
  bool AreOfWords(double most) const {
    return static_cast<double>(num_words) > most * static_cast<double>(num_joined);
  }

  size_t num_joined = 0, num_words = 0;
};

// Tells the gaps between letters from those between words, in a line that fell apart. Of several
// jumps between the line's gaps it takes the one that is wide and leaves words of a usual length.
std::optional<Split> FindSplit(const PdfLine& line, const Pieces& pieces) {
  if (!pieces.AreApart() || !pieces.IsText() || pieces.size() < 4 ||
      pieces.num_letters < kFewestLetters || pieces.letters.size() < kFewestDifferent ||
      AreInOrder(pieces, 0, pieces.size())) {
    return std::nullopt;
  }
  std::vector<double> gaps = pieces.gaps;
  std::sort(gaps.begin(), gaps.end());
  // Formulas have raised and lowered letters.
  if (!std::isfinite(gaps[gaps.size() - 1 - gaps.size() / 10])) return std::nullopt;
  // A gap beside a letter of another size, such as a small capital, tells nothing.
  std::erase_if(gaps, [](double gap) { return !std::isfinite(gap); });
  std::optional<Split> best;
  double best_score = -std::numeric_limits<double>::infinity();
  const auto fewest_within =
      static_cast<size_t>(kShareWithinWords * static_cast<double>(gaps.size()));
  for (size_t num_within = std::max(fewest_within, size_t{1}); num_within < gaps.size();
       ++num_within) {
    const Split split{gaps[num_within - 1], gaps[num_within]};
    if (split.letters > kWidestGap) break;
    if (split.words < kWordGapOfLetters * split.letters ||
        split.words < split.letters + kLeastDifference) {
      continue;
    }
    const double mean = static_cast<double>(pieces.num_characters) /
                        static_cast<double>(pieces.size() - num_within);
    if (mean < kShortestMean || mean > kLongestMean) continue;
    if (split.letters > kWideLetterGap && !AreEvenGaps(line, gaps.front(), split.letters)) continue;
    JoinCounts counts;
    counts.Add(pieces, split.letters);
    if (counts.AreOfWords(kMostWordsOfLetters)) continue;
    const double words = std::min(split.words, 3 * split.letters + 0.5);
    const double score =
        std::log((words + 0.05) / (split.letters + 0.05)) - std::abs(std::log(mean / kUsualWord));
    if (score <= best_score) continue;
    best_score = score;
    best = split;
  }
  return best;
}

// Whether a line is one letter-spaced word: single letters with equal gaps, which are neither a
// list of letters nor the cells of a row.
bool IsSpacedWord(const PdfLine& line, const Pieces& pieces) {
  if (pieces.size() < 4 || pieces.num_singles + 1 < pieces.size() ||
      pieces.num_characters > pieces.size() || pieces.letters.size() < 3 ||
      AreInOrder(pieces, 0, pieces.size()) || AreConsonants(pieces, 0, pieces.size())) {
    return false;
  }
  const auto [least, most] = std::minmax_element(pieces.gaps.begin(), pieces.gaps.end());
  if (*most > kWidestGap || *most - *least > kSameGap) return false;
  return *most <= kWideLetterGap || AreEvenGaps(line, *least, *most);
}

// --- letter-spaced words among others -----------------------------------------------------------

bool IsSingleLetter(const std::vector<uint32_t>& text) {
  if (text.empty() || text.size() > 2 || !IsAlphabetic(text.front())) return false;
  return text.size() == 1 || IsPunctuation(text.back());
}

// Whether pieces [begin, end), single letters with equal gaps, are one word: the gaps beside them
// are wider, or there are more of them than a text names letters in a row.
bool IsRunOfWord(const Pieces& pieces, size_t begin, size_t end) {
  constexpr size_t kFewest = 3, kFewestAlike = 4, kFewestAmongAlike = 5;
  const size_t size = end - begin;
  if (size < kFewest || AreInOrder(pieces, begin, end) || AreConsonants(pieces, begin, end)) {
    return false;
  }
  double least = std::numeric_limits<double>::infinity(), most = 0;
  std::set<uint32_t> letters;
  for (size_t i = begin; i < end; ++i) {
    letters.insert(pieces.texts[i].front());
    if (i + 1 == end) break;
    least = std::min(least, pieces.gaps[i]);
    most = std::max(most, pieces.gaps[i]);
  }
  const double same = most > kWideLetterGap ? kSameGap / 4 : kSameGap / 2;
  if (letters.size() < 2 || most > kWidestGap || most - least > same) return false;
  const double infinity = std::numeric_limits<double>::infinity();
  const double before = begin > 0 ? pieces.gaps[begin - 1] : infinity;
  const double behind = end < pieces.size() ? pieces.gaps[end - 1] : infinity;
  const bool ends_in_stop = pieces.texts[end - 1].size() > 1;
  const bool is_apart = before > kGapBesideRun * most && behind > kGapBehindRun * most;
  if (is_apart && (begin > 0 || end < pieces.size())) return true;
  if (size >= kFewestAlike && behind > kGapBehindRun * most && std::isfinite(behind) &&
      !ends_in_stop) {
    return true;
  }
  return size >= kFewestAmongAlike;
}

// Joins each letter-spaced word of a line of words.
void JoinRuns(PdfLine& line, const Pieces& pieces) {
  std::vector<uint8_t> is_within(pieces.gaps.size());
  for (size_t begin = 0; begin < pieces.size();) {
    size_t end = begin + 1;
    while (end < pieces.size() && IsSingleLetter(pieces.texts[end - 1]) &&
           pieces.texts[end - 1].size() == 1 && IsSingleLetter(pieces.texts[end]) &&
           pieces.gaps[end - 1] < kGapBesideRun * pieces.gaps[begin] + kSameGap / 4) {
      ++end;
    }
    if (IsSingleLetter(pieces.texts[begin]) && IsRunOfWord(pieces, begin, end)) {
      std::fill(is_within.begin() + static_cast<ptrdiff_t>(begin),
                is_within.begin() + static_cast<ptrdiff_t>(end - 1), 1);
    }
    begin = end;
  }
  if (std::count(is_within.begin(), is_within.end(), 1) == 0) return;
  JoinWords(line, [&](size_t i) { return is_within[i] != 0; });
}

// --- lines that pdftotext parts -----------------------------------------------------------------

bool IsOfSingles(const PdfLine& line) {
  return std::all_of(line.words.begin(), line.words.end(),
                     [](const PdfWord& word) { return CodePoints(word.text).size() == 1; });
}

// Puts lines of single letters together that stand beside each other, as long as they read as one
// letter-spaced line: pdftotext takes wide gaps for those between columns.
void JoinParts(PdfPage& page) {
  std::vector<size_t> parts;
  for (size_t i = 0; i < page.lines.size(); ++i) {
    if (IsOfSingles(page.lines[i]) && page.lines[i].box.Height() > 0) parts.push_back(i);
  }
  if (parts.size() < 2) return;
  std::sort(parts.begin(), parts.end(), [&](size_t a, size_t b) {
    const PdfBox &left = page.lines[a].box, &right = page.lines[b].box;
    return std::tuple(left.y_max, left.x_min, a) < std::tuple(right.y_max, right.x_min, b);
  });
  std::vector<uint8_t> is_taken(page.lines.size());
  for (size_t begin = 0, end = 0; begin < parts.size(); begin = end) {
    PdfLine whole = page.lines[parts[begin]];
    const double height = whole.box.Height();
    // Two gaps and a space lie between the words of a letter-spaced line.
    constexpr double kWidestWordGap = 2 * kWidestGap + 1;
    for (end = begin + 1; end < parts.size(); ++end) {
      const PdfLine& part = page.lines[parts[end]];
      if (!AreOnOneBaseline(whole.words.back(), part.words.front()) ||
          part.box.x_min - whole.box.x_max > kWidestWordGap * height ||
          part.box.x_min < whole.box.x_max) {
        break;
      }
      whole.words.insert(whole.words.end(), part.words.begin(), part.words.end());
      whole.box.Cover(part.box);
    }
    if (end == begin + 1) continue;
    const Pieces pieces(whole);
    if (!IsSpacedWord(whole, pieces) && !FindSplit(whole, pieces)) continue;
    const size_t first = *std::min_element(parts.begin() + static_cast<ptrdiff_t>(begin),
                                           parts.begin() + static_cast<ptrdiff_t>(end));
    for (size_t i = begin; i < end; ++i) is_taken[parts[i]] = 1;
    is_taken[first] = 0;
    whole.block = page.lines[first].block;
    page.blocks[whole.block].Cover(whole.box);
    page.lines[first] = std::move(whole);
  }
  size_t i = 0;
  std::erase_if(page.lines, [&](const PdfLine&) { return is_taken[i++] != 0; });
}

// --- lines of one size --------------------------------------------------------------------------

// Joins the letters that fell off the words of most lines, by the jump between the gaps of all
// lines together.
void JoinFallenLetters(std::span<PdfLine> lines, const std::vector<size_t>& indices) {
  std::vector<double> gaps;
  std::vector<Pieces> pieces;
  for (const size_t i : indices) {
    pieces.emplace_back(lines[i]);
    if (!pieces.back().IsText()) continue;
    for (const double gap : pieces.back().gaps) {
      if (gap <= kWidestGap) gaps.push_back(gap);
    }
  }
  if (gaps.size() < kFewestGaps) return;
  std::sort(gaps.begin(), gaps.end());
  Split split;
  for (size_t i = 1; i < gaps.size() && gaps[i - 1] <= kNarrowLetterGap; ++i) {
    if (gaps[i] - gaps[i - 1] > split.words - split.letters) split = {gaps[i - 1], gaps[i]};
  }
  if (split.words < kWordGapOfLetters * split.letters ||
      split.words < split.letters + kLeastDifference) {
    return;
  }
  JoinCounts counts;
  for (const Pieces& line : pieces) counts.Add(line, split.Middle());
  if (counts.AreOfWords(kMostWordsOfBroken)) return;  // which have narrow spaces
  size_t num_narrow = 0, num_broken = 0, num_long = 0;
  double num_pieces = 0, num_letters = 0;
  for (const Pieces& line : pieces) {
    size_t num_here = 0;
    for (size_t i = 0; i < line.gaps.size(); ++i)
      num_here += line.gaps[i] < split.Middle() && MayBeWithin(line, i);
    num_narrow += num_here;
    num_pieces += static_cast<double>(line.num_with_letters);
    num_letters += static_cast<double>(line.num_letters);
    if (line.size() < 5) continue;
    ++num_long;
    num_broken += num_here > 0;
  }
  const auto narrow = static_cast<double>(num_narrow);
  const double mean_before = num_letters / num_pieces;
  const double mean_behind = num_letters / (num_pieces - narrow);
  if (mean_before > kMeanOfBroken || mean_behind > kLongestMeanOfText ||
      narrow < kShareOfNarrowGaps * static_cast<double>(gaps.size()) ||
      static_cast<double>(num_broken) < kShareOfBrokenLines * static_cast<double>(num_long)) {
    return;
  }
  for (size_t i = 0; i < indices.size(); ++i) {
    JoinWords(lines[indices[i]], [&](size_t gap) {
      const bool is_before_stop = IsPunctuation(pieces[i].texts[gap + 1].front());
      return pieces[i].gaps[gap] < split.Middle() &&
             (is_before_stop || MayBeWithin(pieces[i], gap));
    });
  }
}

// Whether a line tells by itself that it fell apart: half of its pieces are single letters, and
// hardly anything in it is no letter.
bool IsApartByItself(const Pieces& pieces) {
  constexpr double kSinglesOfHeading = 0.5, kLettersOfHeading = 0.8;
  constexpr size_t kFewestLettersOfLine = 10;
  return pieces.num_letters >= kFewestLettersOfLine &&
         static_cast<double>(pieces.num_letters) >=
             kLettersOfHeading * static_cast<double>(pieces.num_characters) &&
         static_cast<double>(pieces.num_singles) >=
             kSinglesOfHeading * static_cast<double>(pieces.size());
}

// Joins the letters of lines of one size. A line that looks as if it had fallen apart among many
// that have not is one of formulas or of program text, unless it tells by itself.
void JoinLettersOfSize(std::span<PdfLine> lines, const std::vector<size_t>& indices) {
  std::vector<Pieces> pieces;
  std::vector<std::optional<Split>> splits;
  std::vector<double> middles;
  size_t num_long = 0;
  for (const size_t i : indices) {
    pieces.emplace_back(lines[i]);
    splits.push_back(FindSplit(lines[i], pieces.back()));
    if (splits.back()) middles.push_back(splits.back()->Middle());
    num_long += pieces.back().size() >= 4;
  }
  constexpr size_t kFewestApart = 3;  // lines that tell together
  const bool are_apart = 2 * middles.size() >= num_long && middles.size() >= kFewestApart;
  std::vector<size_t> others;
  for (size_t i = 0; i < indices.size(); ++i) {
    PdfLine& line = lines[indices[i]];
    const auto& split = splits[i];
    if (split && (are_apart || IsApartByItself(pieces[i]))) {
      JoinWords(line, [&](size_t gap) { return pieces[i].gaps[gap] < split->Middle(); });
      NarrowWordGaps(line, 2 * split->words);
    } else if (IsSpacedWord(line, pieces[i])) {
      JoinWords(line, [](size_t) { return true; });
    } else if (HasWideWordGaps(line, pieces[i])) {
      NarrowWordGaps(line, 2 * pieces[i].gaps.front());
    } else {
      others.push_back(indices[i]);
    }
  }
  if (others.empty()) return;
  if (are_apart) {
    // Short lines, and those of digits, follow the others of their size.
    const auto middle = middles.begin() + static_cast<ptrdiff_t>(middles.size() / 2);
    std::nth_element(middles.begin(), middle, middles.end());
    for (const size_t i : others) {
      const Pieces of_line(lines[i]);
      JoinWords(lines[i], [&](size_t gap) { return of_line.gaps[gap] < *middle; });
    }
    return;
  }
  JoinFallenLetters(lines, others);
  for (const size_t i : others) JoinRuns(lines[i], Pieces(lines[i]));
}

}  // namespace

void JoinLetters(PdfPage& page) {
  JoinParts(page);
  std::map<int64_t, std::vector<size_t>> sizes;  // lines, by their height in half points
  for (size_t i = 0; i < page.lines.size(); ++i) {
    const double height = page.lines[i].box.Height();
    if (height > 0) sizes[std::llround(2 * height)].push_back(i);
  }
  for (const auto& [height, lines] : sizes) JoinLettersOfSize(page.lines, lines);
  page.num_words = 0;
  for (const PdfLine& line : page.lines) page.num_words += line.words.size();
}

}  // namespace lectern::tools
