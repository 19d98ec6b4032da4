#include "tools/ingest/marked_words.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tools/ingest/characters.h"
#include "tools/ingest/letter_forms.h"
#include "tools/ingest/letter_marks.h"
#include "tools/ingest/letter_widths.h"

namespace lectern::tools {
namespace {

// Lengths are in heights of the line that they are measured in.
constexpr double kNoGap = 0.1;         // a gap below it is none, as visual_order.cc takes it
constexpr double kWidestSpace = 0.6;   // wider gaps are not taken for spaces between words
constexpr double kPlainSpace = 0.2;    // where a page shows none
constexpr double kEdgeMoves = 0.03;    // edges that move by less beside a mark are those of letters
constexpr double kFewMoved = 0.05;     // share of the gaps beside marks: else they tell spaces
constexpr double kFewDoubtful = 0.1;   // likewise, of the gaps beside hamzas
constexpr double kMuchBetter = 0.9;    // of the misfit of right edges: left ones are taken
constexpr double kGuessWeight = 0.25;  // the weight of a width that rests on a guess
constexpr size_t kLettersGuessed = size_t{1} << 15;  // of a page: bounds the time of hostile ones

// Words between which no space was drawn, or one word: from left to right.
struct MarkedPiece {
  Characters text;
  PdfBox box;
  Characters letters;            // without marks, in the order in which they are read
  Characters last_marks;         // of the last of the letters
  bool is_marked_left = false;   // its last letter has marks
  bool is_marked_right = false;  // its first letter has marks
  bool is_right_doubtful = false;  // the same, if the font draws its hamza as a mark
  bool is_from_right = false;
  bool has_marks = false;

  bool IsPlain() const { return is_from_right && !has_marks; }
};

struct MarkedLine {
  size_t index = 0;  // in the page
  std::vector<MarkedPiece> pieces;
  double height = 0;  // of most pieces
  double space = 0;   // between its words
  // These tell about the gap behind each piece:
  std::vector<bool> is_moved;    // a mark moves an edge, so that the gap does not tell a space
  std::vector<bool> is_guessed;  // nor does the writing
  std::vector<bool> is_space;
  bool has_marks = false;

  double Gap(size_t i) const { return (pieces[i + 1].box.x_min - pieces[i].box.x_max) / height; }
};

std::optional<double> MedianOf(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool IsNoMark(uint32_t character) { return !IsMark(character); }

// Letters whose hamza or madda some fonts draw as a mark.
bool HasHamza(uint32_t letter) { return letter >= 0x622 && letter <= 0x626; }

// `word`: the word as pdftotext prints it, `text`: with marks that were words of their own, which
// do not move its edges.
MarkedPiece MarkedPieceOf(const Characters& word, Characters text, const PdfBox& box,
                          bool has_marks_behind) {
  MarkedPiece piece;
  piece.box = box;
  piece.is_from_right = HasLetterFromRight(text);
  piece.has_marks = std::any_of(word.begin(), word.end(), IsMark);
  std::copy_if(text.rbegin(), text.rend(), std::back_inserter(piece.letters), IsNoMark);
  piece.text = std::move(text);
  const auto leftmost = std::find_if(word.begin(), word.end(), IsNoMark);
  const auto rightmost = std::find_if(word.rbegin(), word.rend(), IsNoMark);
  if (leftmost == word.end()) return piece;
  if (piece.letters.size() == 1) {  // LibreOffice has marks before and behind letters
    std::copy_if(word.begin(), word.end(), std::back_inserter(piece.last_marks), IsMark);
    piece.is_marked_right = !piece.last_marks.empty();
  } else if (has_marks_behind) {
    piece.last_marks.assign(leftmost + 1, std::find_if(leftmost + 1, word.end(), IsNoMark));
    piece.is_marked_right = rightmost != word.rbegin();
  } else {
    // LibreOffice has some marks behind their letters: an edge that is in doubt is guessed.
    const auto next = std::find_if(leftmost + 1, word.end(), IsNoMark);
    std::copy_if(word.begin(), leftmost == word.begin() ? next : leftmost,
                 std::back_inserter(piece.last_marks), IsMark);
    piece.is_marked_right = rightmost + 1 != word.rend() && IsMark(*(rightmost + 1));
  }
  piece.is_marked_left = !piece.last_marks.empty();
  piece.is_right_doubtful = !piece.is_marked_right && HasHamza(*rightmost);
  piece.is_marked_right |= piece.is_right_doubtful;
  return piece;
}

MarkedLine MarkedLineOf(const PdfLine& source, size_t index, bool has_marks_behind) {
  std::vector<Characters> words, parts;
  for (const PdfWord& word : source.words) words.push_back(CodePoints(word.text));
  if (!has_marks_behind) {
    for (Characters& word : words) TurnHebrewGlyphs(word);
  }
  parts = words;
  AttachMarks(source.words, has_marks_behind, parts);
  if (IsDrawnByLetter(parts)) {
    for (Characters& part : parts) TurnGlyph(has_marks_behind, part);
    for (Characters& word : words) TurnGlyph(has_marks_behind, word);
  }
  MarkedLine line;
  line.index = index;
  std::vector<double> heights;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    const Characters& text = parts[i];
    const bool has_marks = std::any_of(text.begin(), text.end(), IsMark);
    if (HasLetterFromRight(text) && has_marks) line.has_marks = true;
    line.pieces.push_back(MarkedPieceOf(words[i], parts[i], source.words[i].box, has_marks_behind));
    heights.push_back(source.words[i].box.Height());
  }
  line.height = std::max(MedianOf(heights).value_or(0), 1.0);
  line.is_moved.resize(line.pieces.size());
  line.is_guessed.resize(line.pieces.size());
  line.is_space.resize(line.pieces.size());
  return line;
}

// Whether the writing tells that a word ends with `piece`.
bool EndsWord(const MarkedPiece& piece) {
  constexpr uint32_t kLast[] = {0x5DA, 0x5DD, 0x5DF, 0x5E3, 0x5E5,  // Hebrew final letters
                                0x629, 0x649};                      // teh marbuta, alef maksura
  if (std::ranges::find(kLast, piece.letters.back()) != std::end(kLast)) return true;
  return std::ranges::any_of(piece.last_marks, [&](uint32_t mark) {
    return mark == 0x64C || mark == 0x64D || (mark == 0x64B && piece.letters.back() == 0x627);
  });
}

// Whether the writing tells that a word goes on with `piece`.
bool BeginsNoWord(const MarkedPiece& piece) {
  constexpr uint32_t kLast[] = {0x629, 0x649};
  return std::ranges::find(kLast, piece.letters.front()) != std::end(kLast);
}

class MarkedLines {
 public:
  MarkedLines(const PdfPage& page, bool has_marks_behind) {
    for (size_t i = 0; i < page.lines.size(); ++i) {
      lines_.push_back(MarkedLineOf(page.lines[i], i, has_marks_behind));
    }
  }

  void Join(PdfPage& page) {
    if (std::none_of(lines_.begin(), lines_.end(),
                     [](const MarkedLine& l) { return l.has_marks; })) {
      return;
    }
    MeasureSpaces();
    if (NumLetters() <= kLettersGuessed && MarksMoveEdges()) {
      const double by_left = Guess(false), by_right = Guess(true);
      if (by_left < kMuchBetter * by_right) Guess(false);
    } else {
      for (MarkedLine& line : lines_) TakeGaps(line);
    }
    for (MarkedLine& line : lines_) {
      if (!line.has_marks) continue;
      LevelMarks(line);
      Write(line, page.lines[line.index]);
    }
    CoverLines(page);
  }

 private:
  size_t NumLetters() const {
    size_t num_letters = 0;
    for (const MarkedLine& line : lines_) {
      for (const MarkedPiece& piece : line.pieces) num_letters += piece.letters.size();
    }
    return num_letters;
  }

  // Gives blocks with marked lines the boxes of their lines.
  void CoverLines(PdfPage& page) const {
    std::vector<bool> is_begun(page.blocks.size()), is_changed(page.blocks.size());
    for (const MarkedLine& line : lines_) {
      if (line.has_marks) is_changed[page.lines[line.index].block] = true;
    }
    for (const PdfLine& line : page.lines) {
      if (!is_changed[line.block]) continue;
      PdfBox& block = page.blocks[line.block];
      if (!is_begun[line.block]) block = line.box;
      is_begun[line.block] = true;
      block.Cover(line.box);
    }
  }

  // Whether a gap is neither a space nor none.
  static bool IsOddGap(const MarkedLine& line, size_t i) {
    return std::min(std::abs(line.Gap(i)), std::abs(line.Gap(i) - line.space)) > kEdgeMoves;
  }

  static bool IsMarkedBeside(const MarkedLine& line, size_t i) {
    return line.pieces[i].is_marked_right || line.pieces[i + 1].is_marked_left;
  }

  // The spaces between words of which no mark stands at the gap.
  void MeasureSpaces() {
    std::vector<double> all;
    std::vector<std::vector<double>> by_line(lines_.size());
    for (size_t i = 0; i < lines_.size(); ++i) {
      const MarkedLine& line = lines_[i];
      for (size_t at = 0; at + 1 < line.pieces.size(); ++at) {
        const double gap = line.Gap(at);
        if (IsMarkedBeside(line, at) || gap < kNoGap || gap > kWidestSpace) continue;
        by_line[i].push_back(gap);
        all.push_back(gap);
      }
    }
    const double usual = MedianOf(all).value_or(kPlainSpace);
    for (size_t i = 0; i < lines_.size(); ++i) {
      lines_[i].space = by_line[i].size() > 1 ? *MedianOf(by_line[i]) : usual;
    }
  }

  // Whether words end elsewhere than their letters where these have marks: else the gaps beside
  // them are spaces or none.
  bool MarksMoveEdges() const {
    size_t num_moved = 0, num_marked = 0;
    for (const MarkedLine& line : lines_) {
      for (size_t i = 0; i + 1 < line.pieces.size(); ++i) {
        const double gap = line.Gap(i);
        if (gap > kWidestSpace || !IsMarkedBeside(line, i)) continue;
        ++num_marked;
        num_moved += IsOddGap(line, i);
      }
    }
    return num_moved > 0 &&
           static_cast<double>(num_moved) >= kFewMoved * static_cast<double>(num_marked);
  }

  // Guesses which gaps are spaces from the distances of the right or the left edges of pieces, and
  // returns how badly they fit.
  double Guess(bool by_right_edges) {
    by_right_edges_ = by_right_edges;
    widths_ = {};
    const bool are_hamzas_marks = AreHamzasMarks();
    for (MarkedLine& line : lines_) MarkGaps(by_right_edges, are_hamzas_marks, line);
    constexpr int kRounds = 5;
    std::vector<LetterWidths::Equation> equations;
    for (int round = 0; round < kRounds; ++round) {
      equations.clear();
      for (const MarkedLine& line : lines_) AddEquations(line, round > 0, equations);
      widths_.Solve(equations);
      for (MarkedLine& line : lines_) Decide(line);
    }
    double sum = 0;
    for (const LetterWidths::Equation& equation : equations)
      sum += std::min(std::abs(equation.error), 0.2);
    return sum;
  }

  // Whether the font draws hamzas as marks: some gaps there are neither spaces nor none.
  bool AreHamzasMarks() const {
    size_t num_moved = 0, num_doubtful = 0;
    for (const MarkedLine& line : lines_) {
      for (size_t i = 0; i + 1 < line.pieces.size(); ++i) {
        if (line.Gap(i) > kWidestSpace || !line.pieces[i].is_right_doubtful) continue;
        ++num_doubtful;
        num_moved += IsOddGap(line, i);
      }
    }
    return static_cast<double>(num_moved) > kFewDoubtful * static_cast<double>(num_doubtful);
  }

  // Takes the gaps for what they are.
  static void TakeGaps(MarkedLine& line) {
    for (size_t i = 0; i + 1 < line.pieces.size(); ++i) line.is_space[i] = line.Gap(i) >= kNoGap;
  }

  // Finds the gaps that are to be guessed.
  static void MarkGaps(bool by_right_edges, bool are_hamzas_marks, MarkedLine& line) {
    for (size_t i = 0; i + 1 < line.pieces.size(); ++i) {
      const MarkedPiece &left = line.pieces[i], &right = line.pieces[i + 1];
      const bool is_marked =
          by_right_edges ? right.is_marked_left
                         : left.is_marked_right && (are_hamzas_marks || !left.is_right_doubtful);
      line.is_moved[i] = is_marked && left.is_from_right && right.is_from_right;
      line.is_guessed[i] = line.is_moved[i];
      line.is_space[i] = line.Gap(i) >= kNoGap;
      if (line.is_moved[i] && EndsWord(right) != BeginsNoWord(left)) {
        line.is_guessed[i] = false;
        line.is_space[i] = EndsWord(right);
      }
    }
  }

  // Whether the letters at the gap behind piece `i` are joined if it is no space.
  static bool Joins(const MarkedLine& line, size_t i) {
    const Characters &next = line.pieces[i].letters, &letters = line.pieces[i + 1].letters;
    return !next.empty() && !letters.empty() && JoinsNextLetter(letters.back()) &&
           JoinsPreviousLetter(next.front());
  }
  static bool AreJoined(const MarkedLine& line, size_t i) {
    return !line.is_space[i] && Joins(line, i);
  }

  // The distance of the edges of the pieces beside gap `i`.
  double Step(const MarkedLine& line, size_t i) const {
    const PdfBox &left = line.pieces[i].box, &right = line.pieces[i + 1].box;
    return (by_right_edges_ ? right.x_max - left.x_max : right.x_min - left.x_min) / line.height;
  }

  // How badly the gap behind piece `i` fits, as a space or as none: by the width of the piece at it
  // that has the mark, and by the place of the mark, which stands about in the middle of its
  // letter.
  double Misfit(const MarkedLine& line, size_t i, bool is_space) {
    constexpr double kWidthError = 0.05, kPlaceError = 0.45, kMost = 3, kLeastWidth = 0.05;
    const bool is_joined = !is_space && Joins(line, i);
    const size_t at = by_right_edges_ ? i + 1 : i;
    const bool before =
        by_right_edges_ ? i + 2 < line.pieces.size() && AreJoined(line, i + 1) : is_joined;
    const bool behind = by_right_edges_ ? is_joined : i > 0 && AreJoined(line, i - 1);
    const std::vector<size_t> forms = widths_.FormsOf(line.pieces[at].letters, before, behind);
    double width = 0;
    for (const size_t form : forms) width += widths_.WidthOf(form);
    const double space = is_space ? line.space : 0;
    const double marked =
        std::max(widths_.WidthOf(by_right_edges_ ? forms.back() : forms.front()), kLeastWidth);
    const double error = (Step(line, i) - space - width) / kWidthError;
    const double place = ((line.Gap(i) - space) / marked - 0.5) / kPlaceError;
    const double by_width = std::min(std::abs(error), kMost);
    const double by_place = std::min(std::abs(place), kMost);
    return by_width * by_width + by_place * by_place;
  }

  void AddEquations(const MarkedLine& line, bool with_guesses,
                    std::vector<LetterWidths::Equation>& equations) {
    for (size_t i = 0; i < line.pieces.size(); ++i) {
      // The gap that ends the piece's distance to the next one.
      const size_t gap = by_right_edges_ ? i - 1 : i;
      const bool has_gap = by_right_edges_ ? i > 0 : i + 1 < line.pieces.size();
      const MarkedPiece& piece = line.pieces[i];
      if (!piece.is_from_right) continue;
      const bool is_guessed = has_gap && line.is_guessed[gap];
      if (is_guessed && !with_guesses) continue;
      const bool before = i + 1 < line.pieces.size() && AreJoined(line, i);
      const bool behind = i > 0 && AreJoined(line, i - 1);
      double width = piece.box.Width() / line.height;
      const bool is_marked = by_right_edges_ ? piece.is_marked_left : piece.is_marked_right;
      if (has_gap && line.Gap(gap) < kWidestSpace) {
        width = Step(line, gap) - (line.is_space[gap] ? line.space : 0);
      } else if (is_marked) {
        continue;
      }
      equations.push_back(
          {widths_.FormsOf(piece.letters, before, behind), width, is_guessed ? kGuessWeight : 1.0});
    }
  }

  void Decide(MarkedLine& line) {
    for (size_t n = 0; n + 1 < line.pieces.size(); ++n) {
      const size_t i = by_right_edges_ ? line.pieces.size() - 2 - n : n;
      if (!line.is_guessed[i]) continue;
      line.is_space[i] = Misfit(line, i, true) < Misfit(line, i, false);
    }
  }

  // Gives words with marks the height of the line's other words: marks that are set higher or lower
  // would make the line one of another font.
  static void LevelMarks(MarkedLine& line) {
    std::vector<double> tops, bottoms;
    for (const MarkedPiece& piece : line.pieces) {
      if (!piece.IsPlain()) continue;
      tops.push_back(piece.box.y_min);
      bottoms.push_back(piece.box.y_max);
    }
    if (tops.empty()) return;
    const double top = *MedianOf(tops), bottom = *MedianOf(bottoms);
    for (MarkedPiece& piece : line.pieces) {
      if (!piece.is_from_right || piece.IsPlain()) continue;
      piece.box.y_min = top;
      piece.box.y_max = bottom;
    }
  }

  void Write(const MarkedLine& line, PdfLine& out) const {
    out.words.clear();
    for (size_t i = 0; i < line.pieces.size(); ++i) {
      const MarkedPiece& piece = line.pieces[i];
      const bool is_same =
          i > 0 && !line.is_space[i - 1] && piece.is_from_right && line.pieces[i - 1].is_from_right;
      if (!is_same) out.words.emplace_back().box = piece.box;
      PdfWord& word = out.words.back();
      for (const uint32_t character : piece.text) AppendUtf8(character, word.text);
      word.box.Cover(piece.box);
    }
    // Gaps that are spaces beside marks.
    size_t at = 0;
    for (size_t i = 0; i + 1 < line.pieces.size(); ++i) {
      const bool are_from_right = line.pieces[i].is_from_right && line.pieces[i + 1].is_from_right;
      if (!line.is_space[i] && are_from_right) continue;
      PdfWord &left = out.words[at], &right = out.words[++at];
      if (!line.is_moved[i]) continue;
      const double gap = right.box.x_min - left.box.x_max;
      const double missing = line.space * line.height - gap;
      if (gap > kWidestSpace * line.height) continue;
      if (by_right_edges_) {
        right.box.x_min = std::min(right.box.x_min + missing, right.box.x_max);
      } else {
        left.box.x_max = std::max(left.box.x_max - missing, left.box.x_min);
      }
    }
    out.box = out.words.front().box;
    for (const PdfWord& word : out.words) out.box.Cover(word.box);
  }

  std::vector<MarkedLine> lines_;
  bool by_right_edges_ = true;  // widths are told by the distances of right edges
  LetterWidths widths_;
};

}  // namespace

void JoinMarkedWords(bool has_marks_behind, PdfPage& page) {
  MarkedLines(page, has_marks_behind).Join(page);
}

}  // namespace lectern::tools
