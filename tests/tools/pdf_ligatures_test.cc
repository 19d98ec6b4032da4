// Lam-alef ligatures of Arabic fonts. Words are in visual order: "السلام" is seen from the left as
// meem, lam-alef, seen, lam, alef.
#include "tools/ingest/pdf_ligatures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tools/ingest/bbox_text.h"

namespace lectern::tools {
namespace {

constexpr uint32_t kMeem = 0x645, kLamLetter = 0x644, kAlefLetter = 0x627, kSeen = 0x633,
                   kDal = 0x62F;

using Letters = std::vector<LigatureFinder::Letter>;

// Widths in points of a font of 10 points: an initial lam has 3.1, a final alef too, an isolated
// alef 2.8, and half of a ligature 2.9.
const Letters kPeace = {{kMeem, 7}, {kLamLetter, 2.9}, {kAlefLetter, 2.9},
                        {kSeen, 8}, {kLamLetter, 3.1}, {kAlefLetter, 2.8}};
const Letters kNames = {{kDal, 6}, {kLamLetter, 3.1}, {kAlefLetter, 3.1}, {kSeen, 8}};
const Letters kHead = {{kSeen, 8}, {kAlefLetter, 3.1}, {kMeem, 7}};

std::vector<PdfLigature> Find(const std::vector<Letters>& words, double size = 10,
                              const std::string& font = "A") {
  LigatureFinder finder;
  double x = 0;
  for (const Letters& word : words) finder.AddWord(1, ++x, 5, font, size, word);
  return finder.Finish();
}

TEST(PdfLigaturesTest, AreToldByTheWidthsOfTheirLetters) {
  const auto found = Find({kPeace, kNames, kHead});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].page, 1u);
  EXPECT_EQ(found[0].x, 1);
  EXPECT_EQ(found[0].letter, 1u);
  // As LibreOffice rounds places: 0.1 points.
  Letters rounded = kPeace;
  rounded[2].width = 3.0;
  EXPECT_EQ(Find({rounded, kNames, kHead}).size(), 1u);
  rounded[2].width = 3.1;
  EXPECT_EQ(Find({rounded, kNames, kHead}).size(), 0u);
}

TEST(PdfLigaturesTest, FontsThatWriteTwoGlyphsHaveNone) {
  const Letters apart = {{kAlefLetter, 2.9}, {kLamLetter, 2.9}};  // "لا" by two glyphs
  EXPECT_TRUE(Find({kPeace, kNames, kHead, apart}).empty());
  // The alef of a ligature stands on the left of a lam, too.
  const Letters both = {{kLamLetter, 2.9}, {kAlefLetter, 2.9}, {kLamLetter, 3.3}};
  EXPECT_EQ(Find({kPeace, kNames, kHead, both}).size(), 2u);
  // Each font counts by itself.
  LigatureFinder finder;
  finder.AddWord(1, 1, 5, "A", 10, kPeace);
  finder.AddWord(1, 2, 5, "B", 10, apart);
  EXPECT_EQ(finder.Finish().size(), 1u);
}

// As "لم" of Kacst One, "لى" of Noto Sans Arabic. A hah is as wide as half of it, a rare pair tells
// nothing, and in a monospaced font every letter is as wide as its neighbour.
TEST(PdfLigaturesTest, OthersThanLamAlefAreBelievedWhereTheyAreFrequent) {
  const uint32_t hah = 0x62D;
  const Letters begins = {{kSeen, 8}, {kLamLetter, 2.3}, {kMeem, 2.3}};
  const Letters others = {{kSeen, 8}, {hah, 2.3}, {kSeen, 8}, {kMeem, 7}, {kLamLetter, 3.1}};
  EXPECT_EQ(Find({begins, begins, begins, begins, others}).size(), 4u);
  EXPECT_EQ(Find({begins, begins, begins, others}).size(), 0u);
  const Letters alone = {{kLamLetter, 2.3}, {kSeen, 8}, {kMeem, 2.3}};
  EXPECT_EQ(Find({begins, begins, begins, begins, alone}).size(), 0u);
  const Letters same = {{kSeen, 6}, {kLamLetter, 6}, {kMeem, 6}, {kDal, 6}};
  EXPECT_EQ(Find({same, same, same, same}).size(), 0u);
  // A letter is a half of one ligature.
  const Letters chain = {
      {kMeem, 2.3}, {kLamLetter, 2.3}, {kAlefLetter, 2.3}, {kSeen, 8}, {kDal, 5}};
  for (const PdfLigature& found : Find({chain, chain, chain, chain, chain})) {
    EXPECT_EQ(found.letter, 1u);
  }
}

TEST(PdfLigaturesTest, StrangeWordsAreLeftOut) {
  EXPECT_TRUE(Find({kPeace}, 0).empty());
  EXPECT_TRUE(Find({{}, {{kLamLetter, 1}}, {{kAlefLetter, 1}}}).empty());
  LigatureFinder finder;
  finder.AddWord(1, -1, 5, "A", 10, kPeace);
  finder.AddWord(1, 1e9, 5, "A", 10, kPeace);
  finder.AddWord(1, 1, 5, "A", 10, Letters{{kLamLetter, NAN}, {kAlefLetter, NAN}});
  EXPECT_TRUE(finder.Finish().empty());
}

TEST(PdfLigaturesTest, AreWrittenAndRead) {
  const std::vector<PdfLigature> ligatures = {{1, 10.25, 7, 0}, {1, 10.25, 7, 3}, {2, 0, 0.001, 9}};
  const std::string bytes = WritePdfLigatures(ligatures);
  const auto read = ParsePdfLigatures(bytes);
  ASSERT_TRUE(read.has_value()) << bytes;
  ASSERT_EQ(read->size(), 3u);
  EXPECT_EQ((*read)[1].x, 10.25);
  EXPECT_EQ((*read)[1].letter, 3u);
  EXPECT_EQ((*read)[2].y, 0.001);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParsePdfLigatures(bytes.substr(0, size)).has_value()) << size;
  }
  for (const std::string wrong :
       {"1 2 3\nend\n", "1 2 3 4 5\nend\n", "1 2 3 -4\nend\n", "2 1 1 1\n1 1 1 1\nend\n",
        "1 9999999999999 1 1\nend\n", "x\nend\n"}) {
    EXPECT_FALSE(ParsePdfLigatures("lectern-pdf-ligatures 1\n" + wrong).has_value()) << wrong;
  }
}

TEST(PdfLigaturesTest, TheirLettersAreTurnedInTheText) {
  const std::string seen = "ملاسلا";  // in visual order, as pdftotext prints it
  EXPECT_TRUE(MayHaveLigature(seen));
  EXPECT_FALSE(MayHaveLigature("السمك"));
  const std::string xml =
      "<doc><page width=\"100\" height=\"100\"><flow><block xMin=\"10\" yMin=\"20\" "
      "xMax=\"40\" yMax=\"30\"><line xMin=\"10\" yMin=\"20\" xMax=\"40\" yMax=\"30\">"
      "<word xMin=\"10\" yMin=\"20\" xMax=\"40\" yMax=\"30\">" +
      seen + "</word></line></block></flow></page></doc>";
  const auto text = [&](std::vector<PdfLigature> ligatures) {
    BboxText parser({}, std::move(ligatures));
    PagedText paged;
    EXPECT_TRUE(parser.Take(xml) && parser.Finish(paged));
    EXPECT_TRUE(parser.may_have_ligatures());
    return paged.text;
  };
  EXPECT_EQ(text({}), "السالم\n");
  EXPECT_EQ(text({{1, 10.004, 19.996, 1}}), "السلام\n");
  // Another page, place or letter.
  for (const PdfLigature& other :
       {PdfLigature{2, 10, 20, 1}, PdfLigature{1, 11, 20, 1}, PdfLigature{1, 10, 21, 1},
        PdfLigature{1, 10, 20, 5}, PdfLigature{1, 10, 20, 99}}) {
    EXPECT_EQ(text({other}), "السالم\n");
  }
}

}  // namespace
}  // namespace lectern::tools
