// Which passages texts of many kinds have, and that any bytes have some in little time.
#include "engine/document/passages.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "engine/model/formats/text.h"

namespace lectern {
namespace {

using Texts = std::vector<std::string>;

// Passages that a test expects: of prose unless `kind` says otherwise.
Texts PlainTexts(const std::string& text, std::optional<PassageKind> kind = {},
                 const std::vector<PageMapEntry>& pages = {}) {
  const std::vector<Passage> passages = SplitPassages(text, pages);
  EXPECT_TRUE(ArePassagesOf(passages, text)) << text;
  Texts texts;
  for (const Passage& passage : passages) {
    if (!kind || passage.kind == *kind) texts.push_back(PlainText(text, passage));
  }
  return texts;
}

// Breaks a paragraph at spaces so that lines have at most `width` bytes.
std::string Wrap(const std::string& paragraph, size_t width, const std::string& margin = "") {
  std::string text, line;
  for (size_t at = 0; at < paragraph.size();) {
    const size_t end = std::min(paragraph.find(' ', at), paragraph.size());
    const std::string word = paragraph.substr(at, end - at);
    if (!line.empty() && margin.size() + line.size() + 1 + word.size() > width) {
      text += margin + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return text + margin + line + "\n";
}

const std::vector<Texts> kParagraphs = {
    {"The Douquouth committee meets in Stuxwick on the first Monday of every month.",
     "It rents a hall from Prof. B. Carrow of St. Harn, who asks for 42.50 EUR an evening."},
    {"The mill at Osk was designed by Dr. Ada Brok in 1871.",
     "J. R. Smith repaired its roof in 1904, e.g. with slates from the quarry of Lund.",
     "It still grinds."},
    {"Who repairs the bridge?",
     "Nobody in the valley knows, because the firm of Brok and Sons went bankrupt."}};

Texts AllSentences() {
  Texts all;
  for (const Texts& paragraph : kParagraphs)
    all.insert(all.end(), paragraph.begin(), paragraph.end());
  return all;
}
std::string Paragraph(const Texts& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += (text.empty() ? "" : " ") + sentence;
  return text;
}

class WrappedTest : public ::testing::TestWithParam<std::pair<size_t, std::string>> {};

// At any width and with any margin a passage is a whole sentence, as in text that is not wrapped.
TEST_P(WrappedTest, SentencesAreWhole) {
  const auto& [width, margin] = GetParam();
  std::string text, crlf;
  for (const Texts& sentences : kParagraphs) {
    text += (text.empty()            ? ""
             : margin.find('>') == 0 ? ">\n"
                                     : "\n") +
            Wrap(Paragraph(sentences), width, margin);
  }
  EXPECT_EQ(PlainTexts(text), AllSentences()) << text;
  for (const char c : text) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(PlainTexts(crlf), AllSentences());
}

INSTANTIATE_TEST_SUITE_P(Kinds, WrappedTest,
                         ::testing::Values(std::pair(1000, ""), std::pair(30, ""),
                                           std::pair(40, ""), std::pair(72, ""), std::pair(79, ""),
                                           std::pair(72, "   "), std::pair(72, "> "),
                                           std::pair(74, "> > "), std::pair(60, ">> ")));

// Capitals begin each line, as in verse; but the lines are full.
TEST(PassagesTest, GermanNounsAreNoVerse) {
  EXPECT_EQ(
      PlainTexts("Die Mühle in Osk wurde 1871 von Dr. Ada\nBrok entworfen und aus Stein aus der\n"
                 "Gegend gebaut. Der Besitzer der Mühle in\nLund ist Prof. Carrow.\n"),
      (Texts{"Die Mühle in Osk wurde 1871 von Dr. Ada Brok entworfen und aus Stein aus der Gegend "
             "gebaut.",
             "Der Besitzer der Mühle in Lund ist Prof. Carrow."}));
}

TEST(PassagesTest, LinesThatAreMeantStayApart) {
  const Texts verse = {"The river bends below the hill", "And nobody is at the mill",
                       "The stones are cold and white with flour",
                       "Then comes the miller's final hour"};
  const Texts address = {"Ada Brok", "12 Mill Lane", "Osk 4711"};
  const Texts values = {"Town: Osk", "Mayor: Dr. Ada Brok", "Founded: 1204"};
  const std::string prose = Wrap(Paragraph(kParagraphs[0]), 72);
  for (const Texts& lines : {verse, address, values}) {
    std::string block;
    for (const std::string& line : lines) block += line + "\n";
    EXPECT_EQ(PlainTexts(block), lines);
    Texts both = kParagraphs[0];
    both.insert(both.end(), lines.begin(), lines.end());
    EXPECT_EQ(PlainTexts(prose + "\n" + block), both);
  }
}

TEST(PassagesTest, MailHasHeadersQuotesAndSignature) {
  EXPECT_EQ(
      PlainTexts("From: Ada Brok <ada@example.org>\nSubject: The roof of the\n Lund mill\n\n"
                 "On Monday Bob wrote:\n> > Who repairs the roof, and what does it\n> > cost?\n"
                 "> The firm of J. R. Smith, which asks for\n> 4,200 EUR.\n\n"
                 "Please tell Mr.\nSmith about the key.\n\n-- \nAda Brok\n"),
      (Texts{"From: Ada Brok <ada@example.org>", "Subject: The roof of the Lund mill",
             "On Monday Bob wrote:", "Who repairs the roof, and what does it cost?",
             "The firm of J. R. Smith, which asks for 4,200 EUR.",
             "Please tell Mr. Smith about the key.", "Ada Brok"}));
}

const char kMarkdown[] =
    "# The lease\n\nIt is by **Dr. Brok**. It has two\nsentences.\n\n## Rent ##\n\n* Flat 7 pays "
    "410 EUR. It is old.\n"
    "* Flat 8 pays 420 EUR\n  and heats.\n1. First\n2. Second\n\n| Flat | Rent "
    "|\n|------|------|\n| 7 | 410 EUR |\n\n"
    "```python\ndef rent(flat):\n    # Not a heading.\n\n    return 400 + flat\n```\n\nRun it:\n\n "
    "   $ lectern ask\n    make\n\n"
    "Deposit\n-------\nIt is two rents.\n\nKeys\n====\n\n> Three keys\n> are given.\n";

TEST(PassagesTest, MarkdownHasHeadingsListsTablesAndCode) {
  EXPECT_EQ(PlainTexts(kMarkdown, PassageKind::kHeading),
            (Texts{"The lease", "Rent", "Deposit", "Keys"}));
  EXPECT_EQ(PlainTexts(kMarkdown, PassageKind::kListItem),
            (Texts{"Flat 7 pays 410 EUR.", "It is old.", "Flat 8 pays 420 EUR and heats.",
                   "1. First", "2. Second"}));
  EXPECT_EQ(PlainTexts(kMarkdown, PassageKind::kTableRow),
            (Texts{"| Flat | Rent |", "| 7 | 410 EUR |"}));
  EXPECT_EQ(PlainTexts(kMarkdown, PassageKind::kCode),
            (Texts{"def rent(flat): # Not a heading. return 400 + flat", "$ lectern ask make"}));
  EXPECT_EQ(PlainTexts(kMarkdown, PassageKind::kSentence),
            (Texts{"It is by **Dr. Brok**.", "It has two sentences.", "Run it:", "It is two rents.",
                   "Three keys are given."}));
}

TEST(PassagesTest, HeadingsAreKeptWithWhatTheyHead) {
  const std::string text = kMarkdown;
  const std::vector<Passage> passages = SplitPassages(text, {});
  const auto path_of = [&](std::string_view words) {
    for (size_t i = 0; i < passages.size(); ++i) {
      if (PlainText(text, passages[i]).starts_with(words)) return HeadingPath(text, passages, i);
    }
    return std::string("none");
  };
  EXPECT_EQ(path_of("The lease"), "");
  EXPECT_EQ(path_of("It has two"), "The lease");
  EXPECT_EQ(path_of("Flat 8"), "The lease > Rent");
  EXPECT_EQ(path_of("It is two"), "The lease > Deposit");
  EXPECT_EQ(path_of("Three keys"), "Keys");
}

TEST(PassagesTest, HeadingsWithoutMarksAreFound) {
  const std::string text =
      "Chapter 2\n\nRENT AND COSTS\n\n2.1 When it is due\n\nThe rent is due on the "
      "first.\n\n第三章 钥匙\n\n钥匙在办公室。\n\n"
      "The Rules of the House\n\nNobody sings at night. Nobody dances.\n\nNAME\n       mill - "
      "grinds corn\n";
  EXPECT_EQ(PlainTexts(text, PassageKind::kHeading),
            (Texts{"Chapter 2", "RENT AND COSTS", "2.1 When it is due", "第三章 钥匙",
                   "The Rules of the House", "NAME"}));
}

TEST(PassagesTest, TableRowsAreOnePassageEach) {
  const Texts rows = {"Product Price Stock", "Alpha pump 120 EUR 12", "Beta valve. New 45 EUR 230"};
  EXPECT_EQ(PlainTexts("Product          Price     Stock\nAlpha pump       120 EUR      12\nBeta "
                       "valve. New   45 EUR     230\n",
                       PassageKind::kTableRow),
            rows);
  EXPECT_EQ(
      PlainTexts("Product\tPrice\tStock\nAlpha pump\t120 EUR\t12\nBeta valve. New\t45 EUR\t230\n",
                 PassageKind::kTableRow),
      rows);
  EXPECT_EQ(PlainTexts("Product | Price\nAlpha pump | 120 EUR\n", PassageKind::kTableRow),
            (Texts{"Product | Price", "Alpha pump | 120 EUR"}));
  EXPECT_EQ(PlainTexts("1. Introduction ............ 2\n2. Rent .................... 17\n",
                       PassageKind::kTableRow),
            (Texts{"1. Introduction ............ 2", "2. Rent .................... 17"}));
}

TEST(PassagesTest, CjkLinesAreJoinedWithoutSpaces) {
  EXPECT_EQ(PlainTexts("伦德磨坊的主人是住在哈恩的卡罗教授他每月\n付四百元的租金。钥匙在办公室的绿"
                       "色大门后\n面。\n\n"
                       "奥斯克磨坊由艾达·布罗克设计它用石头建成\n高四十米。\n")
                .size(),
            3u);
}

const char kPages[] =
    "   A mill MUST answer within 30 seconds, and it MUST close the connection\n\n\n\n"
    "Brok                         Informational                      [Page 1]\n\f\n"
    "RFC 9999                      Mill Protocol                   March 2024\n\n\n"
    "   when the answer does not come.  The timer starts with the first octet.\n";

TEST(PassagesTest, ASentenceRunsOverAPageBreak) {
  const std::string text = kPages;
  const std::vector<Passage> passages = SplitPassages(text, {});
  ASSERT_EQ(passages.size(), 2u);
  EXPECT_TRUE(PlainText(text, passages[0]).starts_with("A mill MUST"));
  EXPECT_TRUE(PlainText(text, passages[0]).ends_with("does not come."));
  EXPECT_EQ(PlainText(text, passages[1]), "The timer starts with the first octet.");
}

TEST(PassagesTest, ASentenceThatEndsWithItsPageDoesNotRunOn) {
  const std::string text =
      "The mill is owned by Carrow, who lives there\n\nThe tower is old and belongs to nobody.\n";
  EXPECT_EQ(PlainTexts(text, {}, {{0, 1, 0}, {text.find("The tower"), 2, 0}}),
            (Texts{"The mill is owned by Carrow, who lives there",
                   "The tower is old and belongs to nobody."}));
  const std::string open =
      "The mill is owned by Carrow, who lives in the\n\nold tower and pays nothing.\n";
  EXPECT_EQ(PlainTexts(open).size(), 2u);
  EXPECT_EQ(PlainTexts(open, {}, {{0, 1, 0}, {open.find("old tower"), 2, 0}}).size(), 1u);
}

TEST(PassagesTest, LongSentencesAreCutAtClausesSpacesOrCharacters) {
  std::string clauses = "It begins";
  while (clauses.size() < 1500) clauses += ", and it goes on and on about the mill";
  for (const std::string& text : {clauses, std::string(3000, 'x'), [] {
                                    std::string cjk;
                                    for (int i = 0; i < 500; ++i) cjk += "磨";
                                    return cjk;
                                  }()}) {
    const std::vector<Passage> passages = SplitPassages(text, {});
    EXPECT_TRUE(ArePassagesOf(passages, text));
    EXPECT_GE(passages.size(), text.size() / kMaxPassageBytes);
    for (const Passage& passage : passages)
      EXPECT_LE(passage.end - passage.begin, kMaxPassageBytes);
  }
  EXPECT_TRUE(PlainTexts(clauses)[0].ends_with(","));
}

TEST(PassagesTest, DamagedOnesAreFound) {
  const std::string text = "# Rent\n\nÜber 400 EUR. It is due.\n";
  const std::vector<Passage> good = SplitPassages(text, {});
  ASSERT_EQ(good.size(), 3u);
  ASSERT_TRUE(ArePassagesOf(good, text));
  const auto damaged = [&](auto change) {
    std::vector<Passage> passages = good;
    change(passages);
    return !ArePassagesOf(passages, text);
  };
  EXPECT_TRUE(damaged([](auto& all) { all[2].end = 1000; }));
  EXPECT_TRUE(damaged([](auto& all) { all[1].begin += 1; }));  // inside of Ü
  EXPECT_TRUE(damaged([](auto& all) { all[1].end = all[1].begin; }));
  EXPECT_TRUE(damaged([](auto& all) { std::swap(all[1], all[2]); }));
  EXPECT_TRUE(damaged([](auto& all) { all[1].heading = 2; }));
  EXPECT_TRUE(damaged([](auto& all) { all[2].heading = 2; }));
  EXPECT_TRUE(damaged([](auto& all) { all[1].level = 1; }));
  EXPECT_TRUE(damaged([](auto& all) { all[0].level = 0; }));
  EXPECT_TRUE(damaged([](auto& all) { all[1].kind = PassageKind{5}; }));
  EXPECT_TRUE(damaged([](auto& all) { all[1].reserved = 1; }));
}

// Texts that a search which looks ahead or back without a limit would take minutes for.
TEST(PassagesTest, AnyBytesAreSplitInLinearTime) {
  std::mt19937 random(1);
  std::string bytes(300'000, ' ');
  for (char& c : bytes) c = static_cast<char>(random());
  std::string alphabet;
  static constexpr std::string_view kPieces[] = {
      "a",     "B",  ". ", "\n", "\n\n", "\f",       "> ", "- ", "1. ",   "|",    "\t", "    ",
      "```\n", "。", "「", "」", "ก",    "\xCC\x81", "(",  "# ", "===\n", "\r\n", "\0"};
  for (int i = 0; i < 100'000; ++i) alphabet += kPieces[random() % std::size(kPieces)];
  std::vector<std::string> texts = {CleanUtf8(bytes).text, alphabet, std::string(1'000'000, '\0'),
                                    ""};
  for (const std::string_view piece :
       {"a", "a\n", "Aa\n\n", "```x\n~~~y\n", "「", "(. A ", "> ", "\n\f", "ก ", "# a\n", "a | b\n",
        "1. a\n", "The mill. ", "\xCC\x81", "\x80", ". ", "1 A\n\nb c\n\n"}) {
    std::string text;
    while (text.size() < 300'000) text += piece;
    texts.push_back(text);
  }
  std::string padded;
  while (padded.size() < 1'000'000) padded += "|a" + std::string(500, ' ');
  texts.push_back(padded + "|");
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& text : texts) {
    const std::vector<Passage> passages = SplitPassages(text, {});
    if (IsValidUtf8(text)) {
      EXPECT_TRUE(ArePassagesOf(passages, text)) << text.substr(0, 20);
    }
    for (const Passage& passage : passages)
      ASSERT_LE(passage.end - passage.begin, kMaxPassageBytes);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(PassagesTest, ARecordOfALogIsWhole) {
  const std::string log =
      "2024-03-01 08:15:02,113 INFO  [main] Server - Listening on port 8443\n"
      "2024-03-01 08:15:04,870 WARN  [pool-1] Db - Slow query took 2.4 s. Table: orders\n"
      "2024-03-01 08:16:11,002 ERROR [pool-3] Mail - Could not connect\n"
      "java.net.SocketTimeoutException: connect timed out\n"
      "\tat mail.Sender.send(Sender.java:88)\n"
      "2024-03-01 08:17:00,501 INFO  [main] Server - Retrying in 60 s\n";
  EXPECT_EQ(
      PlainTexts(log),
      (Texts{"2024-03-01 08:15:02,113 INFO [main] Server - Listening on port 8443",
             "2024-03-01 08:15:04,870 WARN [pool-1] Db - Slow query took 2.4 s. Table: orders",
             "2024-03-01 08:16:11,002 ERROR [pool-3] Mail - Could not connect "
             "java.net.SocketTimeoutException: connect timed out at "
             "mail.Sender.send(Sender.java:88)",
             "2024-03-01 08:17:00,501 INFO [main] Server - Retrying in 60 s"}));
  for (const char* begin : {"Mar  1 08:20:01 web1 ", "[10:15] <anna> ", "[12345.678901] usb: ",
                            "01.03.2024 08:15 ", "10.0.0.7 - anna [01/Mar/2024:08:15:02 +0000] "}) {
    const std::string first = std::string(begin) + "the first", second = std::string(begin) + "two";
    Texts lines = PlainTexts(first + "\n" + second + "\n");
    ASSERT_EQ(lines.size(), 2u) << begin;
    EXPECT_TRUE(lines[0].ends_with("the first") && lines[1].ends_with("two")) << begin;
  }
}

TEST(PassagesTest, RecordsMayHaveEmptyLinesBetweenThem) {
  EXPECT_EQ(PlainTexts("\n\n[10:15] one\n\n[10:16] two\n\n"),
            (Texts{"[10:15] one", "[10:16] two"}));
}

TEST(PassagesTest, OneTimeAtTheHeadOfALineIsNoLog) {
  EXPECT_EQ(
      PlainTexts("The night train to Osk leaves the northern platform of the old station at\n"
                 "10:15:30 precisely, and nobody has ever seen it wait for a passenger there.\n"),
      (Texts{"The night train to Osk leaves the northern platform of the old station at "
             "10:15:30 precisely, and nobody has ever seen it wait for a passenger there."}));
}

TEST(PassagesTest, ATitleBetweenRulesIsAHeading) {
  const std::string text = "=============\nGarden Manual\n=============\n\nWater the roses.\n";
  EXPECT_EQ(PlainTexts(text, PassageKind::kHeading), Texts{"Garden Manual"});
  EXPECT_EQ(PlainTexts(text), (Texts{"Garden Manual", "Water the roses."}));
}

// A limit in bytes would cut these at a third of the length of Latin text.
TEST(PassagesTest, SentencesOfAllScriptsHaveTheSameLength) {
  for (const auto& [word, columns] :
       {std::pair<std::string, size_t>("mill ", 5), {"чаща ", 5}, {"წისქვილი ", 9}, {"磨", 2}}) {
    std::string sentence;
    for (size_t i = 0; i < 399 / columns; ++i) sentence += word;
    EXPECT_EQ(PlainTexts(sentence + "\n").size(), 1u) << word;
    EXPECT_GT(PlainTexts(sentence + sentence + "\n").size(), 1u) << word;
  }
}

TEST(PassagesTest, CommentsOfProgramsAreNoHeadings) {
  const std::string settings =
      "Settings\n========\n\nWrite this file.\n\n# Where the mill takes its water from, which may\n"
      "# be a river.\nsource = river\n\n# How many\n# stones it has\nstones = 2\n\n# Name of the "
      "mill\nname = Osk\n\n# mount /dev/sda6\n\n"
      "Then start it.\n";
  EXPECT_EQ(PlainTexts(settings, PassageKind::kHeading), (Texts{"Settings"}));
  EXPECT_EQ(PlainTexts(settings, PassageKind::kCode),
            (Texts{"# Where the mill takes its water from, which may # be a river. source = river",
                   "# How many # stones it has stones = 2", "# Name of the mill name = Osk",
                   "# mount /dev/sda6"}));
  // A document with more headings than comments keeps them.
  EXPECT_EQ(PlainTexts("# The mill\n\nIt is old.\n\n# Its owner\n\nRun:\n\n# ls\n# cat x\n",
                       PassageKind::kHeading),
            (Texts{"The mill", "Its owner"}));
}

TEST(PassagesTest, TildesUnderATitleAreNoFence) {
  const std::string text =
      "Rent\n~~~~\n\nIt is 400 EUR. It is due.\n\nKeys\n~~~~\n\nThere are three.\n";
  EXPECT_EQ(PlainTexts(text, PassageKind::kHeading), (Texts{"Rent", "Keys"}));
  EXPECT_EQ(PlainTexts(text, PassageKind::kSentence),
            (Texts{"It is 400 EUR.", "It is due.", "There are three."}));
  EXPECT_EQ(PlainTexts("Run:\n~~~\nls\n~~~\n", PassageKind::kCode), (Texts{"ls"}));
}

TEST(PassagesTest, RowsBetweenRulesAreWhole) {
  EXPECT_EQ(PlainTexts("+------+-----------+\n| Flat | Rent      |\n+======+===========+\n"
                       "| 7    | 410 EUR,  |\n|      | in March  |\n+------+-----------+\n"
                       "| 8    | 420 EUR   |\n+------+-----------+\n",
                       PassageKind::kTableRow),
            (Texts{"| Flat | Rent |", "| 7 | 410 EUR, | | | in March |", "| 8 | 420 EUR |"}));
  EXPECT_EQ(PlainTexts("┌───┬─────┐\n│ 7 │ 410 │\n├───┼─────┤\n│ 8 │ 420 │\n└───┴─────┘\n",
                       PassageKind::kTableRow),
            (Texts{"│ 7 │ 410 │", "│ 8 │ 420 │"}));
}

TEST(PassagesTest, JustifiedProseIsNoTable) {
  EXPECT_EQ(PlainTexts("The  mill  at Osk was designed by the daughter of the\n"
                       "man  from  Lund whom nobody in the valley had seen at\nall.\n"),
            (Texts{"The mill at Osk was designed by the daughter of the man from Lund whom nobody "
                   "in the valley had seen at all."}));
}

// Without capitals only the width tells that a line goes on: the third one is not full.
TEST(PassagesTest, LinesOfScriptsWithoutCapitalsAreJoined) {
  EXPECT_EQ(
      PlainTexts("磨坊的主人在村子里有一座很老的房子而且每天都要走过河边的桥去看他的朋友们并且说\n"
                 "话磨坊的主人在村子里有一座很老的房子而且每天都要走过河边的桥去看他的朋友们并且\n"
                 "说话磨坊的主人在村子里有一座很老的房子而且每天都要走过河边的桥去看\n"
                 "他的朋友们并且说话磨坊的主人在村子里有一座很老的房子而且每天都要走过河边的桥去\n"
                 "磨坊。\n")
          .size(),
      1u);
}

TEST(PassagesTest, EntriesOfATableOfContentsStayApart) {
  EXPECT_EQ(PlainTexts("Table of Contents\n\n1. The mill\n    1.1. Its owner\n    1.2. Its roof\n"
                       "        1.2.1. Slates\nA. The lease\n    A.1. Rent\n    A.2. Keys\n"),
            (Texts{"Table of Contents", "1. The mill", "1.1. Its owner", "1.2. Its roof",
                   "1.2.1. Slates", "A. The lease", "A.1. Rent", "A.2. Keys"}));
  // A number that was wrapped to the head of a line is none.
  EXPECT_EQ(
      PlainTexts("The mill of the village is described well in the part that has the number\n"
                 "1.2. Nobody reads it, as all who live there know what it says about them.\n"),
      (Texts{"The mill of the village is described well in the part that has the number 1.2.",
             "Nobody reads it, as all who live there know what it says about them."}));
}

TEST(PassagesTest, ANoBreakSpaceIsNoPlaceToWrap) {
  EXPECT_EQ(
      PlainTexts(
          "Les recherches du meunier peuvent parcourir toute la maison et\n"
          "la grange, les toits et aussi toutes les copies\n"
          "«\u00A0Moulins\u00A0de\u00A0Lund\u00A0» qui sont dans la vallée ou dans le village du\n"
          "meunier, près du vieux pont et de la rivière qui passe devant la\nmaison.\n")
          .size(),
      1u);
}

TEST(PassagesTest, PromptsAreNoHeadings) {
  EXPECT_EQ(PlainTexts("The Mill\n\nIt has a clock, which R knows.\n\nR> time(z)\n\nIt prints the "
                       "time of the mill in Osk.\n",
                       PassageKind::kHeading),
            (Texts{"The Mill"}));
}

TEST(PassagesTest, NumberedQuestionsAreHeadings) {
  EXPECT_EQ(PlainTexts("8.4. Who owns the mill?\n\nDr. Brok of Osk owns it, as all know.\n\n"
                       "8.5: Where it is\n\nIt is in Osk. Nobody goes there.\n",
                       PassageKind::kHeading),
            (Texts{"8.4. Who owns the mill?", "8.5: Where it is"}));
}

// A spreadsheet's rows are whole, sentences in their fields included.
TEST(PassagesTest, RowsWithSeparatorsAreWhole) {
  const Texts rows = {"ship,berth,master", "Sigrid,4,\"Halvorsen, J.\"",
                      "Nordlys,11,Fog. No ferry today."};
  EXPECT_EQ(PlainTexts(rows[0] + "\n" + rows[1] + "\n" + rows[2] + "\n", PassageKind::kTableRow),
            rows);
  EXPECT_EQ(PlainTexts("a;b;c\n1;2;\n", PassageKind::kTableRow), Texts());
  EXPECT_EQ(PlainTexts("He came, saw,\nand won, at last.\n", PassageKind::kTableRow), Texts());
}

TEST(PassagesTest, DottedRowsNeedNoNumber) {
  EXPECT_EQ(PlainTexts("Prices:\n\n    Adults ........ 4.50 EUR\n    Dogs .......... free\n",
                       PassageKind::kTableRow),
            (Texts{"Adults ........ 4.50 EUR", "Dogs .......... free"}));
}

TEST(PassagesTest, SettingsWithCommentsAreCode) {
  EXPECT_EQ(
      PlainTexts("# Where the board is. Use COM7.\nport = /dev/ttyS4\n[pump.7]\nenabled = no\n",
                 PassageKind::kCode)
          .size(),
      1u);
  EXPECT_EQ(PlainTexts("NAME=Fedora\nVERSION=32\n"), (Texts{"NAME=Fedora", "VERSION=32"}));
}

// Copies of paged texts lack the form feeds, but have the numbers of the pages.
TEST(PassagesTest, SentencesRunOverPrintedPageNumbers) {
  const std::string prose =
      "   A ferry that receives no ACK within 90 seconds MUST drop anchor\n"
      "   and wait for the harbour.  It then sends one more message to the\n"
      "   harbour, which has to answer within the time that is given in the\n";
  const std::string rest = "   next section of this memo.  It SHOULD NOT answer twice.\n";
  const std::string sentence =
      "It then sends one more message to the harbour, which has to answer within the time that is "
      "given in the";
  for (const std::string foot :
       {"\n\nHalden                 Informational                [Page 1]\n"
        "RFC 9871             Ferry Protocol             March 2019\n\n",
        "\n                             - 7 -\n\n", "\n\n[Page 7]\n\n", "\n[Pg 7]\n\n"}) {
    const Texts texts = PlainTexts(prose + foot + rest);
    ASSERT_GE(texts.size(), 3u) << foot;
    EXPECT_TRUE(texts[1].starts_with(sentence) && texts[1].ends_with("section of this memo."))
        << foot;
  }
}

TEST(PassagesTest, PageNumbersNeedNoBlankLineAtAPagesEnd) {
  EXPECT_EQ(
      PlainTexts(
          "Nobody came.\n              - 2 -\n\f\nThe roof was mended.\n              - 3 -\n")[2],
      "The roof was mended.");
}

TEST(PassagesTest, NumbersAtTheHeadOfAnItemsLaterLinesAreNoItems) {
  EXPECT_EQ(
      PlainTexts("- Der Kaiser reiste nach Augsburg und wohnte dort im Hause. Am\n"
                 "  2. Tag kam Dr. Eck hinzu, und der Rat zahlte dafür einige\n"
                 "  a. fl. für den Wein.\n- Er blieb.\n"),
      (Texts{"Der Kaiser reiste nach Augsburg und wohnte dort im Hause.",
             "Am 2. Tag kam Dr. Eck hinzu, und der Rat zahlte dafür einige a. fl. für den Wein.",
             "Er blieb."}));
  EXPECT_EQ(PlainTexts("- We need\n  1. a saw\n  2. nails\n"),
            (Texts{"We need", "1. a saw", "2. nails"}));
}

TEST(PassagesTest, LinesOfASignatureStayApart) {
  EXPECT_EQ(
      PlainTexts(
          "Thanks!\n\n--\nUwe Klein * Am Markt 3 * 06108 Halle an der Saale\nTel. 0345 / 12 34\n"),
      (Texts{"Thanks!", "Uwe Klein * Am Markt 3 * 06108 Halle an der Saale", "Tel. 0345 / 12 34"}));
  EXPECT_EQ(PlainTexts("Jane Doe\nExample Corp.\nEmail: jane@example.com\n"),
            (Texts{"Jane Doe", "Example Corp.", "Email: jane@example.com"}));
}

TEST(PassagesTest, WrappedChineseIsWithoutSpaces) {
  EXPECT_EQ(PlainTexts("磨坊由艾达·布罗克博士于一八七一年设计，位于奥\n斯克镇以北。\n"),
            (Texts{"磨坊由艾达·布罗克博士于一八七一年设计，位于奥斯克镇以北。"}));
  EXPECT_EQ(PlainTexts("- 钥匙放在物业处……\n  需要时可以领取。\n"),
            (Texts{"钥匙放在物业处……需要时可以领取。"}));
}

// People who wrap by hand leave room, so that a name at the head of a line begins no sentence.
TEST(PassagesTest, LinesThatAreNearlyFullRunOn) {
  EXPECT_EQ(
      PlainTexts("The table may hold fewer rows than lsof wants on the systems\n"
                 "that were built before it, and then a user has to upgrade to\n"
                 "a newer one, of which the best and safest seems to be Solaris\n"
                 "9 of the year 2003. Each of these has its own list, which is\n"
                 "too long for this text. See the pages of Sun for what is in\n"
                 "NAME columns, the appearance of which should be no cause for\n"
                 "alarm.\n\nIf you have a system of other makers, go and ask Ada\n"
                 "Brok for help.\n"),
      (Texts{"The table may hold fewer rows than lsof wants on the systems that were built before "
             "it, and then a user has to upgrade to a newer one, of which the best and safest "
             "seems to be Solaris 9 of the year 2003.",
             "Each of these has its own list, which is too long for this text.",
             "See the pages of Sun for what is in NAME columns, the appearance of which should be "
             "no cause for alarm.",
             "If you have a system of other makers, go and ask Ada Brok for help."}));
}

TEST(PassagesTest, JapaneseBulletsNeedNoSpace) {
  EXPECT_EQ(PlainTexts("・飲み水は各自でご用意ください。\n・エレベーターは使えます。\n",
                       PassageKind::kListItem),
            (Texts{"飲み水は各自でご用意ください。", "エレベーターは使えます。"}));
}

}  // namespace
}  // namespace lectern
