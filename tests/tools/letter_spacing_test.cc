// Words of PDFs whose letters were placed singly or are small capitals, as pdftotext prints them.
#include "tools/ingest/letter_spacing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/ingest/letter_forms.h"
#include "tools/ingest/raised_numbers.h"
#include "tools/ingest/small_capitals.h"

namespace lectern::tools {
namespace {

constexpr double kSize = 10;  // of the font, and the height of a line

// The width of a letter in a font such as Helvetica, in points.
double WidthOf(char c) {
  constexpr std::string_view kNarrow = "ijlftrI.,:;1()";
  if (c == ' ' || kNarrow.find(c) != std::string_view::npos) return 0.28 * kSize;
  if (c == 'm' || c == 'w' || c == 'M' || c == 'W') return 0.8 * kSize;
  if (c == 'O' || c == 'G' || c == 'Q') return 0.78 * kSize;
  if (c == 'E' || c == 'F' || c == 'L' || c == 'T') return 0.6 * kSize;
  return (c >= 'A' && c <= 'Z' ? 0.7 : 0.53) * kSize;
}

struct Spacing {
  double gap = 0;          // behind each letter and each space, in heights of the line
  double least_break = 0;  // pdftotext begins a new word at a gap of more than it
  double grid = 0;         // places are rounded to multiples of it, in points
};

// A line at (x, y) whose letters stand apart.
PdfLine Letters(double x, double y, std::string_view text, const Spacing& spacing) {
  PdfLine line;
  bool is_behind_space = true;
  for (const char c : text) {
    const double width = WidthOf(c);
    const double at = spacing.grid > 0 ? std::round(x / spacing.grid) * spacing.grid : x;
    if (c != ' ') {
      const PdfBox box{at, y, at + width, y + kSize};
      const bool is_new =
          is_behind_space || at - line.words.back().box.x_max > spacing.least_break * kSize + 1e-6;
      if (is_new) line.words.push_back({"", box});
      line.words.back().text += c;
      line.words.back().box.Cover(box);
    }
    is_behind_space = c == ' ';
    x += width + spacing.gap * kSize;
  }
  line.box = line.words.front().box;
  for (const PdfWord& word : line.words) line.box.Cover(word.box);
  return line;
}

PdfPage PageOf(std::vector<PdfLine> lines) {
  PdfPage page;
  page.width = 600;
  page.height = 800;
  for (PdfLine& line : lines) {
    line.block = page.blocks.size();
    page.blocks.push_back(line.box);
    page.lines.push_back(std::move(line));
  }
  return page;
}

std::string TextOf(const PdfLine& line) {
  std::string text;
  for (const PdfWord& word : line.words) text += (text.empty() ? "" : " ") + word.text;
  return text;
}

std::vector<std::string> Joined(PdfPage page) {
  JoinLetters(page);
  std::vector<std::string> texts;
  size_t num_words = 0;
  for (const PdfLine& line : page.lines) {
    texts.push_back(TextOf(line));
    num_words += line.words.size();
  }
  EXPECT_EQ(page.num_words, num_words);
  return texts;
}

const std::vector<std::string> kText = {
    "The harbour office keeps a register of every boat that stays",
    "longer than three nights. A skipper signs in with the name of",
    "the vessel, its length and the number of people on board. In",
    "June 2024 there were 318 visitors, of whom forty came twice."};

std::vector<std::string> JoinedText(const Spacing& spacing) {
  std::vector<PdfLine> lines;
  for (size_t i = 0; i < kText.size(); ++i)
    lines.push_back(Letters(50, 100 + 12 * static_cast<double>(i), kText[i], spacing));
  lines.push_back(Letters(50, 150, "Page 3", spacing));
  auto joined = Joined(PageOf(lines));
  EXPECT_EQ(joined.back(), "Page 3");
  joined.pop_back();
  return joined;
}

TEST(LetterSpacingTest, LettersFarApartAreWords) {
  for (const double gap : {0.1, 0.15, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5})
    EXPECT_EQ(JoinedText({.gap = gap}), kText) << gap;
}

TEST(LetterSpacingTest, LettersAtRoundedPlacesAreWords) {
  for (const double grid : {0.5, 1.0, 1.5}) {
    for (const double gap : {0.0, 0.05, 0.1, 0.2})
      EXPECT_EQ(JoinedText({.gap = gap, .least_break = 0.03, .grid = grid}), kText) << grid << gap;
  }
  // As pdftotext parts letters that are drawn in reading order: few words of each line break.
  EXPECT_EQ(JoinedText({.gap = 0.05, .least_break = 0.1, .grid = 1}), kText);
}

TEST(LetterSpacingTest, OrdinaryLinesStay) {
  const PdfPage page = PageOf({Letters(50, 100, kText[0], {.least_break = 0.1}),
                               Letters(50, 112, "I am at a sea, as is he: so be it.", {}),
                               Letters(50, 124, kText[1], {.least_break = 0.1})});
  PdfPage same = page;
  for (PdfLine& line : same.lines) {
    for (size_t i = line.words.size(); i-- > 1;) {
      // Letters without gaps between them are words already.
      if (line.words[i].box.x_min - line.words[i - 1].box.x_max > 1e-6) continue;
      line.words[i - 1].text += line.words[i].text;
      line.words[i - 1].box.Cover(line.words[i].box);
      line.words.erase(line.words.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  EXPECT_EQ(Joined(same),
            (std::vector<std::string>{kText[0], "I am at a sea, as is he: so be it.", kText[1]}));
}

TEST(LetterSpacingTest, HeadingsOfSpacedLettersAreOneLine) {
  const Spacing body{.least_break = 0.1};
  for (const double gap : {0.5, 0.8, 1.0}) {
    // pdftotext takes each word, or parts of it, for a line in a block of its own.
    const PdfLine whole = Letters(50, 80, "CHAPTER ONE THE HARBOUR", {.gap = gap});
    std::vector<PdfLine> lines;
    for (const auto& [first, end] :
         std::vector<std::pair<size_t, size_t>>{{0, 2}, {2, 7}, {7, 10}, {10, 13}, {13, 20}}) {
      PdfLine part;
      part.words.assign(whole.words.begin() + static_cast<ptrdiff_t>(first),
                        whole.words.begin() + static_cast<ptrdiff_t>(end));
      part.box = part.words.front().box;
      part.box.Cover(part.words.back().box);
      lines.push_back(part);
    }
    lines.push_back(Letters(50, 100, kText[0], body));
    EXPECT_EQ(Joined(PageOf(lines)),
              (std::vector<std::string>{"CHAPTER ONE THE HARBOUR", kText[0]}))
        << gap;
    EXPECT_EQ(Joined(PageOf({Letters(50, 80, "Contents", {.gap = gap})})),
              std::vector<std::string>{"Contents"});
  }
  // Spaces that were typed between letters, two between words.
  EXPECT_EQ(Joined(PageOf({Letters(50, 80, "C H A P T E R  O N E", {}),
                           Letters(50, 100, kText[0], body)}))[0],
            "CHAPTER ONE");
}

TEST(LetterSpacingTest, SpacedWordsAmongOthers) {
  // "sehr" and "nicht" are emphasised.
  PdfLine line = Letters(50, 100, "Das war ", {.least_break = 0.1});
  double x = line.box.x_max + 0.28 * kSize;
  for (const std::string_view word : {"sehr", "gut und", "nicht", "falsch."}) {
    const bool is_spaced = word == "sehr" || word == "nicht";
    const double gap = is_spaced ? 0.2 : 0;
    const PdfLine part = Letters(x, 100, word, {.gap = gap, .least_break = 0.1});
    line.words.insert(line.words.end(), part.words.begin(), part.words.end());
    line.box.Cover(part.box);
    x = part.box.x_max + (0.28 + gap) * kSize;
  }
  EXPECT_EQ(TextOf(line), "Das war s e h r gut und n i c h t falsch.");
  EXPECT_EQ(Joined(PageOf({line}))[0], "Das war sehr gut und nicht falsch.");
}

TEST(LetterSpacingTest, LettersThatAreMeantToStandAloneStay) {
  const auto words = [](double x, double y, const std::vector<std::string>& texts, double step) {
    PdfLine line;
    for (const std::string& text : texts) {
      double width = 0;
      for (const char c : text) width += WidthOf(c);
      line.words.push_back({text, {x, y, x + width, y + kSize}});
      x += step > 0 ? step : width + 0.28 * kSize;
    }
    line.box = line.words.front().box;
    line.box.Cover(line.words.back().box);
    return line;
  };
  for (const auto& [texts, step] : std::vector<std::pair<std::vector<std::string>, double>>{
           {{"A", "B", "C", "D", "E", "F", "G"}, 0},
           {{"A", "B", "C", "D", "E", "F", "G"}, 20},
           {{"Let", "x", "y", "z", "be", "points", "and", "a", "b", "c", "d", "masses."}, 0},
           {{"Y", "N", "Y", "Y", "N", "N", "Y", "N"}, 30},
           {{"W", "D", "L", "F", "A", "P"}, 40},
           {{"Beta", "A", "B", "C", "M", "W", "I"}, 40},
           {{"x", "=", "a", "+", "b", "(", "c", "-", "d", ")"}, 0},
           {{"1", "0", "0", "1", "1", "0", "0", "1"}, 0}}) {
    const PdfLine line = words(50, 100, texts, step);
    EXPECT_EQ(Joined(PageOf({line, words(50, 112, texts, step)}))[0], TextOf(line));
  }
}

// A word of a line: its size, where its baseline is above that of the others, and the gap before
// it.
struct SizedWord {
  std::string text;
  double size = 10, raised = 0, gap = 0;
};

std::string JoinedBy(void (*join)(PdfPage&), const std::vector<SizedWord>& words) {
  PdfLine line;
  double x = 50;
  for (const SizedWord& word : words) {
    x += word.gap;
    const double bottom = 100 - word.raised + 0.22 * word.size;
    const double width = 0.6 * word.size * static_cast<double>(word.text.size());
    line.words.push_back({word.text, {x, bottom - word.size, x + width, bottom}});
    x += width;
  }
  line.box = line.words.front().box;
  for (const PdfWord& word : line.words) line.box.Cover(word.box);
  PdfPage page = PageOf({line});
  join(page);
  std::string text;
  for (const PdfWord& word : page.lines[0].words) text += (text.empty() ? "" : " ") + word.text;
  EXPECT_EQ(page.num_words, page.lines[0].words.size());
  return text;
}
std::string WithSmallCapitals(const std::vector<SizedWord>& words) {
  return JoinedBy(JoinSmallCapitals, words);
}
std::string WithRaisedNumbers(const std::vector<SizedWord>& words) {
  return JoinedBy(JoinRaisedNumbers, words);
}

TEST(SmallCapitalsTest, WordsAreWhole) {
  EXPECT_EQ(WithSmallCapitals({{"I."}, {"I", 10, 0, 3}, {"NTRODUCTION", 8, 0, 0.3}}),
            "I. INTRODUCTION");
  EXPECT_EQ(
      WithSmallCapitals({{"STRESS", 8}, {"-E"}, {"NGINEERED", 8}, {"M", 10, 0, 2}, {"UD", 8}}),
      "STRESS-ENGINEERED MUD");
  EXPECT_EQ(WithSmallCapitals({{"É"}, {"CHEANCIER", 8, 0, -0.3}, {":"}}), "ÉCHEANCIER:");
  EXPECT_EQ(WithSmallCapitals({{"T", 16}, {"his", 10}, {"release", 10, 0, 3}}), "This release");
}

TEST(SmallCapitalsTest, OtherWordsStayApart) {
  // Capitals behind a space; an index; a mark of a footnote; small letters of two fonts.
  EXPECT_EQ(WithSmallCapitals({{"A"}, {"BODY", 8, 0, 2}}), "A BODY");
  EXPECT_EQ(WithSmallCapitals({{"V"}, {"P", 7, -1.5}}), "V P");
  EXPECT_EQ(WithSmallCapitals({{"X"}, {"1", 7}, {"Y"}, {"i", 7}}), "X 1 Y i");
  EXPECT_EQ(WithSmallCapitals({{"NATO"}, {"12", 7, 4}}), "NATO 12");
  EXPECT_EQ(WithSmallCapitals({{"the"}, {"main", 8}}), "the main");
  EXPECT_EQ(WithSmallCapitals({{"A"}, {"B"}}), "A B");
}

TEST(RaisedNumbersTest, BelongToTheirWord) {
  EXPECT_EQ(WithRaisedNumbers({{"3×10"}, {"−8", 7, 4}, {"m", 10, 0, 3}, {"2", 7, 4}, {","}}),
            "3×10⁻⁸ m²,");
  // Marks of notes, also those that WeasyPrint sets nearly as high as the text.
  EXPECT_EQ(WithRaisedNumbers({{"known."}, {"1", 9, 4}, {"So", 10, 0, 3}}), "known.¹ So");
  EXPECT_EQ(WithRaisedNumbers({{"12,408"}, {"1,2", 7, 4}, {"97", 10, 0, 30}}), "12,408¹,² 97");
  EXPECT_EQ(WithRaisedNumbers({{"H"}, {"2", 7, -2}, {"O"}, {"is", 10, 0, 3}}), "H2O is");
  EXPECT_EQ(WithRaisedNumbers({{"the", 10}, {"19", 10, 0, 3}, {"th", 7, 4}}), "the 19th");
  // A stop in another font.
  EXPECT_EQ(WithRaisedNumbers({{"name"}, {"3", 7, 4}, {".", 12}}), "name³.");
}

TEST(RaisedNumbersTest, OtherWordsStayApart) {
  EXPECT_EQ(WithRaisedNumbers({{"Rent"}, {"1", 7, 4, 3}}), "Rent 1");       // behind a space
  EXPECT_EQ(WithRaisedNumbers({{"Rent"}, {"1", 7}}), "Rent 1");             // on the baseline
  EXPECT_EQ(WithRaisedNumbers({{"Rent"}, {"1", 10, 4}}), "Rent 1");         // as large
  EXPECT_EQ(WithRaisedNumbers({{"Rent"}, {"a", 7, 4}}), "Rent a");          // a letter
  EXPECT_EQ(WithRaisedNumbers({{"12"}, {"2", 7, -2}}), "12 2");             // below a digit
  EXPECT_EQ(WithRaisedNumbers({{"1", 7, 4}, {"See", 10, 0, 1}}), "1 See");  // the note itself
  EXPECT_EQ(WithRaisedNumbers({{"שלום"}, {"1", 7, 4}}), "שלום 1");
}

TEST(LetterFormsTest, TheVowelAmIsOneCharacter) {
  const auto plain = [](const char* text) { return PlainLetters(CodePoints(text)); };
  EXPECT_EQ(plain("ท\u0E4Dา"), "ท\u0E33");
  EXPECT_EQ(plain("น\u0E4D\u0E49า"), "น\u0E49\u0E33");
  EXPECT_EQ(plain("น\u0E49\u0E4Dา"), "น\u0E49\u0E33");
  EXPECT_EQ(plain("ຄ\u0ECDາ"), "ຄ\u0EB3");
  EXPECT_EQ(plain("\u0E4Dก"), "\u0E4Dก");  // a ring alone
}

TEST(LetterFormsTest, SwappedBytesOfLigaturesAreLetters) {
  const auto mended = [](const char* text) {
    std::vector<uint32_t> word = CodePoints(text);
    MendSwappedLigatures(word);
    return PlainLetters(word);
  };
  EXPECT_EQ(mended("de昀椀ne"), "define");
  EXPECT_EQ(mended("tra昀케c"), "traffic");
  EXPECT_EQ(mended("Lö昀툀er,"), "Löffler,");
  EXPECT_EQ(mended("de琀琀e"), "dette");
  EXPECT_EQ(mended("o昀昀ers"), "offers");
  for (const char* word : {"昀椀", "昀椀的", "A昀", "第一最", "office"})
    EXPECT_EQ(mended(word), word);
}

}  // namespace
}  // namespace lectern::tools
