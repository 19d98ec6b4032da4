// How the words of a PDF and their places become text. The files of pdf_boxes/ are what pdftotext
// printed for PDFs of other programs; the texts expected are those that the PDFs were made of.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "tools/ingest/bbox_text.h"
#include "tools/ingest/letter_forms.h"
#include "tools/ingest/pdf_structure.h"

namespace lectern::tools {
namespace {

PagedText Parse(const std::string& output, const PdfStructure& structure = {}) {
  BboxText parser;
  PagedText paged;
  if (!parser.Take(output) || !parser.Finish(paged, structure)) paged.text = "refused";
  return paged;
}

PagedText FromFile(const std::string& name) {
  std::ifstream file(std::string(PDF_BOXES) + "/" + name);
  EXPECT_TRUE(file.good()) << name;
  return Parse(std::string(std::istreambuf_iterator<char>(file), {}));
}

// A page, 600 points wide and 800 high, of lines set in letters 10 points high and 5 wide.
class PageText {
 public:
  // One block of lines, the first one at (x, y), each 12 points below the one before.
  PageText& Block(double x, double y, const std::vector<std::string>& lines, double height = 10) {
    std::string inner;
    double right = x;
    for (size_t i = 0; i < lines.size(); ++i) {
      const double top = y + 12 * static_cast<double>(i);
      double at = x;
      std::string words;
      for (size_t begin = 0; begin < lines[i].size();) {
        const size_t end = std::min(lines[i].find(' ', begin), lines[i].size());
        const double width = height / 2 * static_cast<double>(end - begin);
        words += "<word" + Places(at, top, at + width, top + height) + ">" +
                 lines[i].substr(begin, end - begin) + "</word>";
        right = std::max(right, at + width);
        at += width + height / 4;
        begin = end + 1;
      }
      inner += "<line" + Places(x, top, at, top + height) + ">" + words + "</line>";
    }
    const double bottom = y + 12 * static_cast<double>(lines.size()) - 2;
    blocks_ += "<flow><block" + Places(x, y, right, bottom) + ">" + inner + "</block></flow>";
    return *this;
  }
  // A word drawn from `x` on, in a line and a block of its own.
  PageText& Word(double x, double y, double width, const std::string& text) {
    const std::string places = Places(x, y, x + width, y + 10);
    blocks_ += "<flow><block" + places + "><line" + places + "><word" + places + ">" + text +
               "</word></line></block></flow>";
    return *this;
  }
  // A line of words whose letters are of several widths.
  PageText& Prose(double x, double y) {
    const std::string places = Places(x, y, x + 150, y + 10);
    blocks_ += "<flow><block" + places + "><line" + places + "><word" +
               Places(x, y, x + 30, y + 10) + ">prose</word><word" +
               Places(x + 40, y, x + 90, y + 10) + ">around</word><word" +
               Places(x + 100, y, x + 150, y + 10) + ">programs</word></line></block></flow>";
    return *this;
  }
  std::string Xml() const { return "<page width=\"600\" height=\"800\">" + blocks_ + "</page>"; }
  std::string Text() const { return Parse("<doc>" + Xml() + "</doc>").text; }

 private:
  static std::string Places(double x_min, double y_min, double x_max, double y_max) {
    return " xMin=\"" + std::to_string(x_min) + "\" yMin=\"" + std::to_string(y_min) +
           "\" xMax=\"" + std::to_string(x_max) + "\" yMax=\"" + std::to_string(y_max) + "\"";
  }
  std::string blocks_;
};

// --- articles beside each other -----------------------------------------------------------------

// pdftotext prints all headings of a row of articles, and then the articles.
TEST(PdfLayoutTest, HeadingsStandBeforeTheirArticles) {
  const auto lines = [](const std::string& word) {
    return std::vector<std::string>{"The first line of " + word + " ends",
                                    "here, and the next one of", word + " is a little shorter"};
  };
  const std::string text = PageText()
                               .Block(50, 50, {"Boats in Osk"}, 16)
                               .Block(320, 50, {"Mills of Lund"}, 16)
                               .Block(50, 72, lines("boats"))
                               .Block(320, 72, lines("mills"))
                               .Text();
  EXPECT_LT(text.find("Boats in Osk"), text.find("of boats ends")) << text;
  EXPECT_LT(text.find("of boats ends"), text.find("Mills of Lund")) << text;
  EXPECT_LT(text.find("Mills of Lund"), text.find("of mills ends")) << text;
}

// --- right to left ------------------------------------------------------------------------------

TEST(PdfLayoutTest, HebrewIsInTheOrderInWhichItIsTyped) {
  const std::string text = FromFile("hebrew.xml").text;
  EXPECT_NE(
      text.find("הגרסה של Windows 10 נבדקה [ראו פרק 4] על ידי דן כהן; בין השנים 2019-2020 נמכרו"
                " 12,345 עותקים ו-50% הוחזרו."),
      std::string::npos)
      << text;
  // Vowel points go to their letters. In one word pdftotext has lost their places.
  EXPECT_NE(text.find("בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת"), std::string::npos) << text;
  EXPECT_NE(text.find("וְאֵת הָאָרֶץ."), std::string::npos) << text;
}

TEST(PdfLayoutTest, ArabicAndPersianOfSingleLettersAreWords) {
  const std::string text = FromFile("arabic.xml").text;
  for (const std::string part :
       {"السلام عليكم. الأولاد يلعبون في الحديقة (الكبيرة) منذ عام 2019 مع لاعب من فريق Real "
        "Madrid "
        "الإسباني.",
        "لا إله إلا الله. هذا الإصدار 3.5 من برنامج LibreOffice يعمل على Windows 10 بين 2019-2020 "
        "ونسبة 50% من العمال.",
        "کتابخانهٔ ملی ایران در سال ۱۳۱۶ تأسیس شد"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(PdfLayoutTest, MarksFollowTheirLettersHoweverTheyAreDrawn) {
  const std::string text = FromFile("arabic-marks-behind.xml").text;
  for (const char* const words :
       {"صُمّمت المضخة من طراز KX-200 في مدينة طنطا عام 1998، وتُستخدم في الري",
        "لا تُشغّل المضخة في درجة حرارة أقل من 5 درجات مئوية، ولا تستخدم زيتًا غير الزيت المعتمد "
        "\"نيل 46\".",
        "لمدة 3 ثوانٍ."}) {
    std::string plain = PlainLetters(CodePoints(words));  // as NFC orders marks
    EXPECT_NE(text.find(plain), std::string::npos) << words << "\n" << text;
  }
  const std::string persian = FromFile("persian-marks-behind.xml").text;
  EXPECT_NE(persian.find("راهنمای کتابخانهٔ روستا"), std::string::npos) << persian;
  EXPECT_NE(persian.find("رایانهٔ Linux در اتاق خواندن رایگان است."), std::string::npos);
}

// A cell without a letter from the right stands in a line that runs from the right.
TEST(PdfLayoutTest, SignsBehindNumbersStayBehindThem) {
  const std::string text = PageText().Block(400, 100, {"ריחמה", "₪ 120", "₪ 45"}).Text();
  EXPECT_EQ(text, "המחיר 120 ₪ 45 ₪\n");
}

TEST(PdfLayoutTest, VerticalLinesAreReadFromTheRight) {
  EXPECT_EQ(FromFile("vertical-japanese.xml").text,
            "自転車組合の規約\n\n"
            "当組合は二〇〇九年に松本市で設立された。組合員は現在四十二名である。\n\n"
            "第一条 組合員は、毎月三日までに会費千二百円を納めなければならない。\n\n"
            // Nothing tells that the next paragraph is one: the line before it is full.
            "第二条 "
            "共用の自転車は、一回につき六時間まで借りることができる。返却が遅れた場合は、一時間ごと"
            "に百円を支払う。第三条 "
            "鍵は事務所の黄色い箱に保管する。鍵を失くした者は、会計の田中に届け出る"
            "こと。\n\n"
            "第四条 "
            "総会は毎年五月の第二日曜日に公民館で開く。議決には出席者の三分の二の賛成を要する。\n");
  const std::string chinese = FromFile("vertical-chinese.xml").text;
  for (const char* const words :
       {"青山茶场建于1957年，位于云和县北部，海拔820米，现有茶园三百四十亩。",
        "一、参观时间为每天上午9时至下午4时，每周二休息。",
        "四、如遇台风，茶场关闭，已购门票可在十日内退款，联系电话为0578-512-3300。"}) {
    EXPECT_NE(chinese.find(words), std::string::npos) << words << "\n" << chinese;
  }
}

// Two tiers of vertical lines, a running head above them and a page number below.
TEST(PdfLayoutTest, TiersOfVerticalLinesAreReadOneAfterTheOther) {
  PageText page;
  page.Block(250, 20, {"規約集の第一部"}).Block(290, 780, {"17"});
  const std::u32string upper[] = {U"　当組合は松本市で設立", U"された。組合員は四十二",
                                  U"名である。"};
  const std::u32string lower[] = {U"　会費は毎月三日までに", U"納める。鍵は黄色い箱に",
                                  U"保管する。"};
  const auto draw = [&](const std::u32string& line, double x, double y) {
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] != U'　') {
        page.Word(x, y + 12 * static_cast<double>(i), 11, PlainLetters({line[i]}));
      }
    }
  };
  for (size_t i = 0; i < 3; ++i) {
    draw(lower[i], 500 - 20 * static_cast<double>(i), 400);
    draw(upper[i], 500 - 20 * static_cast<double>(i), 100);
  }
  EXPECT_EQ(page.Text(),
            "規約集の第一部\n\n当組合は松本市で設立された。組合員は四十二名である。\n\n"
            "会費は毎月三日までに納める。鍵は黄色い箱に保管する。\n\n17\n");
}

// A page of 600 by 800 points with a table that is printed sideways: its lines run up the page, or
// down.
std::string SidewaysTable(bool runs_up) {
  const std::vector<std::vector<std::string>> rows = {{"Product", "Price", "Stock"},
                                                      {"Alpha pump", "120 EUR", "14"},
                                                      {"Beta valve", "45 EUR", "230"},
                                                      {"Gamma filter", "9.50 EUR", "1,200"}};
  std::string xml = "<doc><page width=\"600\" height=\"800\">";
  for (size_t i = 0; i < rows.size(); ++i) {
    const double y = 100 + 20 * static_cast<double>(i);
    for (size_t j = 0; j < rows[i].size(); ++j) {
      const double x = 100 + 200 * static_cast<double>(j);
      const double end = x + 6 * static_cast<double>(rows[i][j].size());
      const auto places = [&](double from, double to) {
        const double x_min = runs_up ? y : 600 - y - 10;
        const double y_min = runs_up ? 800 - to : from, y_max = runs_up ? 800 - from : to;
        return " xMin=\"" + std::to_string(x_min) + "\" yMin=\"" + std::to_string(y_min) +
               "\" xMax=\"" + std::to_string(x_min + 10) + "\" yMax=\"" + std::to_string(y_max) +
               "\"";
      };
      xml += "<flow><block" + places(x, end) + "><line" + places(x, end) + ">";
      double at = x;
      std::istringstream words(rows[i][j]);
      for (std::string word; words >> word;) {
        const double word_end = at + 6 * static_cast<double>(word.size());
        xml += "<word" + places(at, word_end) + ">" + word + "</word>";
        at = word_end + 6;
      }
      xml += "</line></block></flow>";
    }
  }
  return xml + "</page></doc>";
}

TEST(PdfLayoutTest, ATableThatIsPrintedSidewaysIsReadByRow) {
  const std::string expected =
      "Product | Price | Stock\nAlpha pump | 120 EUR | 14\nBeta valve | 45 EUR | 230\n"
      "Gamma filter | 9.50 EUR | 1,200\n";
  EXPECT_EQ(Parse(SidewaysTable(true)).text, expected);
  EXPECT_EQ(Parse(SidewaysTable(false)).text, expected);
}

TEST(PdfLayoutTest, LettersSetApartInALineAreHorizontal) {
  PageText page;
  for (size_t row = 0; row < 3; ++row) {
    for (size_t i = 0; i < 8; ++i) {
      page.Word(100 + 18 * static_cast<double>(i), 100 + 24 * static_cast<double>(row), 11,
                row == 0   ? "一"
                : row == 1 ? "二"
                           : "三");
    }
  }
  const std::string text = page.Text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\xE4'), 24) << text;  // all are there
  ASSERT_NE(text.find("二"), std::string::npos) << text;
  EXPECT_LT(text.rfind("一"), text.find("二")) << text;
  EXPECT_LT(text.rfind("二"), text.find("三")) << text;
}

TEST(PdfLayoutTest, ScriptsWithoutSpacesGetNone) {
  EXPECT_NE(FromFile("thai.xml").text.find("ห้องสมุดเปิดทุกวันยกเว้นวันจันทร์ ตั้งแต่เวลา 9.00 น. ถึง 18.00 น."),
            std::string::npos);
  EXPECT_NE(FromFile("thai.xml").text.find("กระเป๋าให้ฝากไว้ที่ตู้หมายเลข 12"), std::string::npos);
  EXPECT_NE(FromFile("korean.xml")
                .text.find("목공소는 1993년에 박정호 씨가 세웠으며, 현재 회원은 87명이다."),
            std::string::npos);
  EXPECT_NE(FromFile("chinese.xml")
                .text.find("青山茶场建于1957年，位于云和县北部，海拔820米，现有茶园三百四十亩。"),
            std::string::npos);
  // The lines of a paragraph are joined without a space, too.
  EXPECT_EQ(
      PageText()
          .Block(100, 100,
                 {"返却が遅れた場合は、一時間ごとに百円を支払うものとし、これを", "会計に納める。"})
          .Text(),
      "返却が遅れた場合は、一時間ごとに百円を支払うものとし、これを会計に納める。\n");
}

TEST(PdfLayoutTest, PresentationFormsBecomeLetters) {
  // Seen from the left: meem (end), lam-alef (end), seen (start): "salam".
  EXPECT_EQ(PageText().Block(100, 100, {"\uFEE1\uFEFC\uFEB3"}).Text(), "سلام\n");
  // Hebrew in a line of English, whose order is that of the line.
  EXPECT_EQ(PageText().Block(100, 100, {"The word \u05DD\u05D5\u05DC\u05E9 means peace."}).Text(),
            "The word שלום means peace.\n");
}

// --- letters ------------------------------------------------------------------------------------

TEST(PdfLayoutTest, LigaturesBecomeLettersAndOthersStay) {
  EXPECT_EQ(PageText().Block(50, 50, {"e\uFB03ciency \uFB02at \uFB06ale ﬁn"}).Text(),
            "efficiency flat stale fin\n");
  EXPECT_EQ(PageText().Block(50, 50, {"Ａ１ x² ½ ，"}).Text(), "A1 x² ½，\n");
  EXPECT_EQ(PlainLetters(CodePoints("\u2F08\uF900\uFF76\uFF9E")), "人豈ガ");
}

// --- hyphens ------------------------------------------------------------------------------------

std::string Wrapped(const std::string& first, const std::string& second,
                    const std::vector<std::string>& more = {}) {
  std::vector<std::string> lines = {"The first line of this text ends with " + first,
                                    second + " which the second one has"};
  PageText page;
  page.Block(50, 50, lines);
  if (!more.empty()) page.Block(50, 200, more);
  const std::string text = page.Text();
  const size_t begin = text.find("with ") + 5;
  return text.substr(begin, text.find(" which") - begin);
}

TEST(PdfLayoutTest, HyphensOfDividedWordsGo) {
  EXPECT_EQ(Wrapped("environ-", "mental"), "environmental");
  EXPECT_EQ(Wrapped("exam\u00AD", "ple"), "example");
  EXPECT_EQ(Wrapped("ENVIRON-", "MENTAL"), "ENVIRONMENTAL");
  EXPECT_EQ(Wrapped("state-", "ment"), "statement");  // though "state-" begins compounds
  EXPECT_EQ(Wrapped("für-", "ängstlich"), "fürängstlich");
  EXPECT_EQ(Wrapped("well-", "known", {"a wellknown place"}), "wellknown");
}

TEST(PdfLayoutTest, WordsThatBeginAsCompoundsDoAreMadeWhole) {
  for (const std::string second : {"teen", "teenth"}) {
    EXPECT_EQ(Wrapped("seven-", second), "seven" + second);
  }
  EXPECT_EQ(Wrapped("non-", "sense"), "nonsense");
  EXPECT_EQ(Wrapped("high-", "lighting"), "highlighting");
  EXPECT_EQ(Wrapped("open-", "ings"), "openings");
}

TEST(PdfLayoutTest, HyphensOfCompoundsStay) {
  EXPECT_EQ(Wrapped("well-", "known"), "well-known");
  EXPECT_EQ(Wrapped("A-", "frames"), "A-frames");
  EXPECT_EQ(Wrapped("2019-", "2020"), "2019-2020");
  EXPECT_EQ(Wrapped("Ann-", "Ford"), "Ann-Ford");
  EXPECT_EQ(Wrapped("USB-", "based"), "USB-based");
  EXPECT_EQ(Wrapped("mother-in-", "law"), "mother-in-law");
  EXPECT_EQ(Wrapped("SmolLM2-135M-", "Instruct"), "SmolLM2-135M-Instruct");
  EXPECT_EQ(Wrapped("pre-", "and post-war"), "pre- and post-war");
  EXPECT_EQ(Wrapped("Hard-", "und Software"), "Hard- und Software");
  EXPECT_EQ(Wrapped("non-", "interactive"), "non-interactive");
  EXPECT_EQ(Wrapped("ridge-", "board", {"the ridge-board of a roof"}), "ridge-board");
  EXPECT_EQ(Wrapped("river-", "mouth", {"a river, a mouth, the river and its mouth"}),
            "river-mouth");
}

TEST(PdfLayoutTest, SoftHyphensWithinLinesGo) {
  EXPECT_EQ(PageText().Block(50, 50, {"an ex\u00ADam\u00ADple of it"}).Text(),
            "an example of it\n");
}

std::string InXml(std::string text) {
  for (size_t at = 0; (at = text.find('&', at)) != std::string::npos; ++at) {
    text.replace(at, 1, "&amp;");
  }
  return text;
}

TEST(PdfLayoutTest, AddressesThatLinesDivideAreMadeWhole) {
  for (const std::string address :
       {"https://|example.org/a", "(https:|//example.org/a)", "(http://|example.org),",
        "http://example.org/a/|b/c.html).", "https://example.org/a-|b.html",
        "https://lists.example.org/list?|can=1&q=2", "https://example.org/list?can=1&|q=fixed",
        "https://example.org/a.html#|Part_2", "http://www.example.|co.uk/a",
        "http://example.org/a-1.|html),", "www.example.|org", "www.example.org/a_|b",
        "https://example.org|/a/b", "https://example.org/a|?b=c",
        "ftp://example.org/|pub/a.tar.gz"}) {
    const size_t cut = address.find('|');
    const std::string first = address.substr(0, cut), second = address.substr(cut + 1);
    EXPECT_EQ(Wrapped(InXml(first), InXml(second)), first + second);
  }
  // Over three lines.
  const std::string text =
      PageText()
          .Block(50, 50,
                 {"The sources are at https://example.org/a/", "a-very-long-folder/with/",
                  "sources-1.2.tar.gz for everybody."})
          .Text();
  EXPECT_NE(text.find("https://example.org/a/a-very-long-folder/with/sources-1.2.tar.gz for"),
            std::string::npos)
      << text;
}

// Each of the first lines is so long that the next word would not have fitted behind it.
TEST(PdfLayoutTest, ShortLinesThatBeginWithCapitalsStayLines) {
  const auto text = [](const std::vector<std::string>& lines, double height = 10) {
    const std::string prose = "these are words of a page of prose";
    return PageText().Block(50, 50, lines, height).Block(50, 400, {prose, prose, prose}).Text();
  };
  const std::vector<std::string> address = {"Dr. Johanna Brok-Lund", "Physician for Inner Medicine",
                                            "12 Market Square", "Osk 4711"};
  EXPECT_TRUE(text(address).starts_with(
      "Dr. Johanna Brok-Lund\nPhysician for Inner Medicine\n12 Market Square\nOsk 4711\n\n"))
      << text(address);
  // Prose; a title in larger letters, and one in capitals; letters without capitals.
  EXPECT_TRUE(
      text({"The mill was bought by", "Hanna Brok, who lives at", "Osk and has two", "sons."})
          .starts_with("The mill was bought by Hanna Brok, who lives at Osk"));
  EXPECT_TRUE(text(address, 14).starts_with("Dr. Johanna Brok-Lund Physician"));
  EXPECT_TRUE(text({"THE GREAT MILL", "SUPERINTENDENTS OF", "OSK IN", "LUND"})
                  .starts_with("THE GREAT MILL SUPERINTENDENTS"));
}

// As a curriculum vitae has them.
TEST(PdfLayoutTest, ShortTextsAtTheRightMarginEndTheirLines) {
  const std::string work =
      "Leads a team that repairs the mills of Osk and Lund, and of ten others.";
  const auto post = [](PageText& page, double y, const std::string& name, const std::string& years,
                       const std::string& work_there) {
    page.Block(50, y, {name, work_there})
        .Block(550 - 5 * static_cast<double>(years.size()), y, {years});
  };
  PageText page;
  post(page, 50, "Miller, Osk Mills", "1911-1914", work);
  post(page, 100, "Clerk, Lund", "1909", work);
  EXPECT_EQ(page.Text(),
            "Miller, Osk Mills 1911-1914\n" + work + "\n\nClerk, Lund 1909\n" + work + "\n");
  // One alone may be anything, and so may a text beside two others.
  PageText one, three;
  post(one, 50, "Miller, Osk Mills", "1911-1914", work);
  EXPECT_EQ(one.Text().find("Mills 1911"), std::string::npos) << one.Text();
  post(three.Block(300, 50, {"Osk"}).Block(300, 100, {"Lund"}), 50, "Miller", "1911-1914", "Leads");
  post(three, 100, "Clerk", "1909", "Writes");
  EXPECT_EQ(three.Text().find("Miller 1911"), std::string::npos) << three.Text();
}

TEST(PdfLayoutTest, WordsBehindAnAddressAreNotOfIt) {
  for (const std::string words :
       {"https://example.org/ and", "https://example.org/a the", "(https://example.org) that",
        "https://example.org. Then", "https://example.org/ e.g. that",
        "https://example.org/ and/or", "https://example.org? Yes", "www.example.org, it",
        "https:// and", "a/ b/c", "a.b. c.org", "https://example.org/ (a)",
        "https://example.org/ 2019", "https://a.org/ https://b.org/c", "href{http://#2}{#2}}% 4994",
        "http://, a/b", "https: // that", "https: the"}) {
    const size_t space = words.find(' ');
    EXPECT_EQ(Wrapped(words.substr(0, space), words.substr(space + 1)), words);
  }
}

// --- tables of contents -------------------------------------------------------------------------

const std::string kDots = " . . . . . . . . . . . .";

TEST(PdfLayoutTest, EntriesOfContentsAreLines) {
  // As LaTeX sets them and pdftotext parts them: numbers, titles and pages are columns; a chapter
  // has no dots.
  const std::string text = PageText()
                               .Word(50, 62, 10, "1")
                               .Block(70, 62, {"Scope of this document"})
                               .Block(70, 76, {"1.1", "1.2", "1.3"})
                               .Block(100, 76,
                                      {"Getting started" + kDots, "Debian mentors" + kDots,
                                       "Registering as a member" + kDots})
                               .Word(395, 62, 5, "3")
                               .Block(395, 76, {"5", "6", "7"})
                               .Block(50, 300, {"The text begins here, behind it."})
                               .Text();
  EXPECT_EQ(text,
            "1 Scope of this document 3\n1.1 Getting started .... 5\n1.2 Debian mentors .... 6\n"
            "1.3 Registering as a member .... 7\n\nThe text begins here, behind it.\n");
}

TEST(PdfLayoutTest, ATitleOfTwoLinesStandsAmongTheEntries) {
  const std::string text = PageText()
                               .Block(50, 50,
                                      {"Alpha of it" + kDots, "Beta, which has a title that is too",
                                       "long" + kDots, "Gamma of it" + kDots})
                               .Word(395, 50, 5, "i")
                               .Block(395, 74, {"iv", "xii"})
                               .Text();
  EXPECT_EQ(text,
            "Alpha of it .... i\nBeta, which has a title that is too\nlong .... iv\n"
            "Gamma of it .... xii\n");
}

// A head or foot with the page's number, and text between two lists with dots, are no entries.
TEST(PdfLayoutTest, TextBesideContentsIsWrapped) {
  const std::vector<std::string> prose = {"A paragraph of several lines that are all as wide as",
                                          "this one, which goes on in the next line until it is",
                                          "at its end and stops, which is in the next line after",
                                          "this one here."};
  const std::string text = PageText()
                               .Block(50, 20, {"The title of the book"})
                               .Word(395, 20, 5, "1")
                               .Block(50, 100, prose)
                               .Block(50, 200, {"Alpha of it" + kDots, "Beta of it" + kDots})
                               .Block(395, 200, {"5", "6"})
                               .Block(50, 300, prose)
                               .Block(50, 400, {"Gamma of it" + kDots, "Delta of it" + kDots})
                               .Block(395, 400, {"7", "8"})
                               .Text();
  for (const char* part : {"all as wide as this one", "Alpha of it .... 5\nBeta of it .... 6\n\nA ",
                           "here.\n\nGamma of it .... 7\nDelta of it .... 8"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_EQ(text.find("as wide as\n"), std::string::npos) << text;
}

TEST(PdfLayoutTest, TwoColumnsOfAnIndexStayApart) {
  const std::string text =
      PageText()
          .Block(50, 50, {"apple" + kDots + " 1", "bread" + kDots + " 2", "cheese" + kDots + " 3"})
          .Block(300, 50, {"D", "dates" + kDots + " 4", "eggs" + kDots + " 5"})
          .Text();
  EXPECT_LT(text.find("cheese .... 3"), text.find("D\n"));
  EXPECT_LT(text.find("D\n"), text.find("dates .... 4"));
  // Pages of the left column, near titles of the right one that stand a little higher.
  const std::string parted =
      PageText()
          .Block(50, 50, {"apple" + kDots, "bread" + kDots, "cheese" + kDots})
          .Block(290, 50, {"11", "12", "13"})
          .Block(320, 49, {"dates" + kDots + " 4", "eggs" + kDots + " 5"})
          .Text();
  EXPECT_NE(parted.find("apple .... 11\nbread .... 12\ncheese .... 13"), std::string::npos)
      << parted;
  EXPECT_NE(parted.find("dates .... 4\neggs .... 5"), std::string::npos) << parted;
}

TEST(PdfLayoutTest, OtherDotsStay) {
  const std::string map = PageText()
                              .Block(50, 50,
                                     {". . . . . . E . 1", ". * . . . . . . 2", ". . . . . . . . 3",
                                      ". . . # . . . . 4"})
                              .Text();
  EXPECT_EQ(map.find("...."), std::string::npos) << map;
  EXPECT_NE(map.find(". * . . . . . ."), std::string::npos) << map;
  const std::string form =
      PageText().Block(50, 50, {"Name: ............", "Date: ........"}).Text();
  EXPECT_NE(form.find("Name: ............"), std::string::npos) << form;
}

// --- tables -------------------------------------------------------------------------------------

TEST(PdfLayoutTest, TablesAreReadByRow) {
  EXPECT_EQ(PageText()
                .Block(50, 50, {"Product", "Alpha pump", "Beta valve"})
                .Block(300, 50, {"Price", "120 EUR", "45 EUR"})
                .Block(450, 50, {"Stock", "14", "230"})
                .Text(),
            "Product | Price | Stock\nAlpha pump | 120 EUR | 14\nBeta valve | 45 EUR | 230\n");
}

// A listing whose comments are aligned, in letters 5 points wide, among text in a proportional
// font: letters 4 to 6 points wide, by word.
TEST(PdfLayoutTest, ProgramTextIsNoTable) {
  const auto listing = [](PageText& page) {
    const std::vector<std::string> statements = {"count", "total", "limit", "width"};
    for (size_t i = 0; i < statements.size(); ++i) {
      const double y = 300 + 12 * static_cast<double>(i);
      page.Word(50, y, 25, statements[i]).Word(200, y, 35, "integer").Word(330, y, 20, "used");
    }
  };
  PageText page;
  for (int i = 0; i < 8; ++i) {
    page.Word(50, 60 + 12 * i, 36, "wwwmmm").Word(90, 60 + 12 * i, 24, "illfit");
  }
  listing(page);
  const std::string text = page.Text();
  EXPECT_NE(text.find("count integer used\ntotal integer used\n"), std::string::npos) << text;
  PageText alone;
  listing(alone);
  EXPECT_NE(alone.Text().find("count | integer | used\n"), std::string::npos) << alone.Text();
}

// The block of a program whose longest line leaves no room for the words that begin the others.
TEST(PdfLayoutTest, LinesOfProgramTextStayLines) {
  PageText page;
  // Words of other text, whose letters are of several widths.
  page.Prose(50, 50);
  page.Block(50, 100,
             {"cmake_minimum_required(VERSION", "project(embed)", "find_package(lectern)"});
  EXPECT_NE(
      page.Text().find("cmake_minimum_required(VERSION\nproject(embed)\nfind_package(lectern)"),
      std::string::npos)
      << page.Text();
}

TEST(PdfLayoutTest, CellsOfSeveralLinesAreOne) {
  EXPECT_EQ(FromFile("wrapped-cells.xml").text,
            "Before the table there is a paragraph that goes on for some time so that it fills one "
            "line and some more.\n\n"
            "Item | Supplier | Description | Price\n"
            "Alpha pump | Osk Works | A pump with two stages, made of cast iron, for wells down to "
            "a depth of forty metres; spare parts are kept in store | 120 EUR\n"
            "Beta valve | Lund & Sons | A brass valve | 45 EUR\n"
            "Gamma seal | Varn Rubber Company of the Lower Valley | A seal that fits all pumps of "
            "the series, sold by the dozen, with a year's warranty | 7 EUR\n\n"
            "After the table.\n");
  EXPECT_EQ(FromFile("empty-cells.xml").text,
            "Fruit | Kind | Count\nApple | Red | 3\n| Green | 4\nPear | Brown | 12\n"
            "| Yellow | 5\n");
}

// Made by tests/evaluation/wrapped_tables.py: LaTeX's columns of justified lines, without more
// space between rows than between lines; its cells that stand in the middle of their row;
// LibreOffice's columns, between which there is hardly more than a space.
TEST(PdfLayoutTest, RowsOfWrappedCellsStayRows) {
  const auto expect_rows = [](const std::string& file, const std::vector<std::string>& rows) {
    const std::string text = "\n" + FromFile(file).text;
    for (const std::string& row : rows) {
      EXPECT_NE(text.find("\n" + row + "\n"), std::string::npos) << row << "\n" << text;
    }
  };
  expect_rows("justified-cells.xml",
              {"Feature | Household edition | Business edition",
               "Backup of one computer | Every night, kept for thirty days | Every hour, kept for "
               "one year or longer",
               "Restoring single files | From the programme on the computer itself | From any "
               "browser, also by a colleague who has been given the right",
               "Support | Mail | Telephone on working days from eight to six",
               "Encryption of stored data | With a key that the maker holds | With a key of your "
               "own, on a card",
               "Price | 4 euros a month | 19 euros a month for each person"});
  expect_rows("centred-cells.xml",
              {"Hinge of brass, polished, with screws for doors up to forty kilograms | 12 | 7.40 "
               "| 88.80",
               "Door handle | 4 | 21.00 | 84.00",
               "Lock with three keys, for inner doors, left and right hand, galvanised | 4 | 18.50 "
               "| 74.00",
               "Delivery to the second floor without a lift, on a weekday before noon | 1 | 35.00 "
               "| 35.00",
               "Screws | 200 | 0.04 | 8.00"});
  expect_rows(
      "narrow-columns.xml",
      {"No. | Requirement | Reason | State",
       "R1 | The pump stops when the level in the upper basin reaches the red mark. | The "
       "basin has no overflow. | done",
       "R2 | A warning is shown when a valve has not been moved for ninety days. | Valves "
       "that rest seize up, as happened twice in the dry summer. | open",
       "R3 | All readings are stored. | The district asks for them at the end of each year, "
       "sorted by basin. | done",
       "R4 | The display can be read from three metres. | It hangs above the door. | tested"});
}

// Lines of single cells, each of which would have no room for the next word: they are rows.
TEST(PdfLayoutTest, RowsOfOneLineAreNotJoined) {
  PageText page;
  for (int i = 0; i < 6; ++i) {
    const double y = 100 + 12 * i;
    page.Block(50, y, {"read one large file"}).Block(200, y, {"returns the number of bytes"});
  }
  const std::string text = page.Text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6) << text;
}

TEST(PdfLayoutTest, AddressesAndProseBesideEachOtherAreNoTable) {
  const std::string addresses = FromFile("addresses.xml").text;
  EXPECT_TRUE(
      addresses.starts_with("Jane Doe\n12 Main Street\nOsk 4711\nVarnland\n\n"
                            "Acme Corporation\nBox 45\nLund 1200\nVarnland\n"))
      << addresses;
  const std::vector<std::string> left = {"The river rises in the hills north of",
                                         "Varn and flows for ninety miles until",
                                         "it reaches the sea beside the harbour"},
                                 right = {"Its valley was settled early and many",
                                          "bridges were built of oak by monks in",
                                          "the years before the great canal came"};
  EXPECT_EQ(
      PageText().Block(50, 50, left).Block(310, 50, right).Text(),
      "The river rises in the hills north of Varn and flows for ninety miles until it reaches "
      "the sea beside the harbour\n\nIts valley was settled early and many bridges were built "
      "of oak by monks in the years before the great canal came\n");
}

TEST(PdfLayoutTest, ListsAndContentsAreNoTables) {
  const std::string list = PageText()
                               .Block(50, 50, {"1.", "2.", "3."})
                               .Block(80, 50, {"First thing", "Second thing", "Third thing"})
                               .Text();
  EXPECT_EQ(list.find('|'), std::string::npos) << list;
  const std::string contents =
      PageText()
          .Block(50, 50,
                 {"1 Rivers . . . . . . . .", "2 Hills . . . . . . . .", "3 Sea . . . . . . ."})
          .Block(400, 50, {"5", "9", "12"})
          .Text();
  EXPECT_EQ(contents.find('|'), std::string::npos) << contents;
}

// As LibreOffice draws a list: the bullets are smaller, and pdftotext takes them for a column.
TEST(PdfLayoutTest, BulletsStandBeforeTheirItems) {
  const auto page = [](const std::string& first, const std::string& second) {
    std::string xml =
        PageText()
            .Block(60, 100, {first, second}, 8)
            .Block(80, 99, {"Answers are shown as they come.", "Links copy an address."})
            .Xml();
    return Parse("<doc>" + xml + "</doc>").text;
  };
  EXPECT_EQ(page("•", "•"), "• Answers are shown as they come.\n• Links copy an address.\n");
  EXPECT_EQ(page("1.", "2."), "1. Answers are shown as they come.\n2. Links copy an address.\n");
}

// pdftotext begins a block where a line begins in another font.
TEST(PdfLayoutTest, ASentenceGoesOnBelowALineOfAnotherBlock) {
  const std::vector<std::string> rest = {
      "core, four to sixteen). They share each pass over weights,",
      "and each is the answer that it would be alone."};
  const std::string first = "--parallel answers are generated at the same time (one for each";
  EXPECT_EQ(PageText().Block(60, 100, {first}).Block(60, 112, rest).Text(),
            first + " " + rest[0] + " " + rest[1] + "\n");
  // It does not below a gap, or further right.
  const std::string apart = first + "\n\n" + rest[0] + " " + rest[1] + "\n";
  EXPECT_EQ(PageText().Block(60, 100, {first}).Block(60, 120, rest).Text(), apart);
  EXPECT_EQ(PageText().Block(60, 100, {first}).Block(66, 112, rest).Text(), apart);
}

TEST(PdfLayoutTest, ASectionsNumberStandsBeforeItsTitle) {
  EXPECT_EQ(PageText()
                .Block(80, 50, {"The harbour"})
                .Block(50, 300, {"Prose about the harbour of the town."})
                .Word(50, 50, 15, "3.2")
                .Text(),
            "3.2 The harbour\n\nProse about the harbour of the town.\n");
}

// --- footnotes, heads, pages --------------------------------------------------------------------

TEST(PdfLayoutTest, FootnotesComeAfterThePagesText) {
  EXPECT_EQ(
      PageText()
          .Block(50, 600,
                 {"The left column ends here and goes", "on at the top of the right hand side"})
          .Block(50, 750, {"1 A note about the column."}, 7)
          .Block(310, 50, {"column, which has a few more lines", "of text in it than one."})
          .Text(),
      "The left column ends here and goes on at the top of the right hand side column, which has a "
      "few "
      "more lines of text in it than one.\n\n1 A note about the column.\n");
}

std::string Pages(size_t num_pages, const std::string& head, bool has_numbers) {
  const std::vector<std::string> texts = {"alpha", "beta", "gamma", "delta", "epsilon", "zeta"};
  std::string pages;
  for (size_t i = 0; i < num_pages; ++i) {
    PageText page;
    page.Block(50, 20, {head});
    page.Block(50, 100, {"Page about " + texts[i] + " and what belongs to it.", "Its end."});
    if (has_numbers) page.Block(290, 780, {std::to_string(41 + i)});
    pages += page.Xml();
  }
  return "<doc>" + pages + "</doc>";
}

TEST(PdfLayoutTest, RunningHeadsAndPageNumbersAreKeptApart) {
  const PagedText paged = Parse(Pages(4, "The Valley", true));
  EXPECT_TRUE(paged.text.starts_with("Page about alpha")) << paged.text;
  EXPECT_EQ(paged.text.find("The Valley"), std::string::npos);
  EXPECT_EQ(paged.text.find("42"), std::string::npos);
  ASSERT_EQ(paged.recurring.size(), 2u);
  const auto head =
      std::find_if(paged.recurring.begin(), paged.recurring.end(),
                   [](const RecurringLine& line) { return line.text == "The Valley"; });
  ASSERT_NE(head, paged.recurring.end());
  EXPECT_EQ(head->num_pages, 4u);
  ASSERT_EQ(paged.pages.size(), 4u);
  EXPECT_EQ(paged.text.substr(paged.pages[2].text_begin, 16), "Page about gamma");
  EXPECT_NE(NoteOf(paged).find("\"The Valley\" (4 pages)"), std::string::npos) << NoteOf(paged);
}

TEST(PdfLayoutTest, TwoPagesLoseNothing) {
  const PagedText paged = Parse(Pages(2, "The Valley", true));
  EXPECT_TRUE(paged.recurring.empty());
  EXPECT_NE(paged.text.find("The Valley"), std::string::npos);
  EXPECT_NE(paged.text.find("42"), std::string::npos);
  EXPECT_EQ(NoteOf(paged), "");
}

TEST(PdfLayoutTest, NumbersThatDoNotCountWithThePagesStay) {
  std::string pages;
  for (const char* total : {"310", "295", "77", "1204"}) {
    pages += PageText()
                 .Block(50, 100, {"The total of the goods sold in this year was"})
                 .Block(290, 780, {total})
                 .Xml();
  }
  const PagedText paged = Parse("<doc>" + pages + "</doc>");
  EXPECT_NE(paged.text.find("1204"), std::string::npos) << paged.text;
}

TEST(PdfLayoutTest, AWatermarkIsKeptApart) {
  std::string pages;
  for (const char* word : {"alpha", "beta", "gamma"}) {
    pages += PageText()
                 .Block(50, 100, {std::string("The text of the page is about ") + word + " today."})
                 .Block(100, 400, {"DRAFT"}, 60)
                 .Xml();
  }
  const PagedText paged = Parse("<doc>" + pages + "</doc>");
  EXPECT_EQ(paged.text.find("DRAFT"), std::string::npos);
  ASSERT_EQ(paged.recurring.size(), 1u);
  EXPECT_EQ(paged.recurring[0].text, "DRAFT");
}

// Three columns of short sections, which pdftotext prints from the top of the page: the first block
// of each column, then the second one of each. Their lines do not stand in rows.
TEST(PdfLayoutTest, ColumnsOfSectionsAreReadOneAfterTheOther) {
  PageText page;
  std::string expected;
  std::vector<std::string> columns(3);
  for (int section = 0; section < 8; ++section) {
    for (int column = 0; column < 3; ++column) {
      const std::string name = "Section " + std::to_string(8 * column + section + 1);
      const std::vector<std::string> lines = {
          name + " of the reference", "card has lines that are of", "about the same length, so",
          "that they fill the column."};
      page.Block(20 + 200 * column, 40 + (70 + 4 * column) * section, lines);
      columns[column] += name +
                         " of the reference card has lines that are of about the same length, "
                         "so that they fill the column.\n\n";
    }
  }
  for (const std::string& column : columns) expected += column;
  expected.pop_back();
  EXPECT_EQ(page.Text(), expected);
}

// The same words in rows are a table's: cells of wrapped lines, whose rows begin at one height.
TEST(PdfLayoutTest, ColumnsOfATableAreNoTexts) {
  PageText page;
  for (int row = 0; row < 16; ++row) {
    page.Block(20, 40 + 40 * row, {"Name " + std::to_string(row), "in two lines"});
    page.Block(220, 40 + 40 * row, {"Value of some length", "in two lines too"});
  }
  const std::string text = page.Text();
  EXPECT_LT(text.find("Name 0"), text.find("Value"));
  EXPECT_LT(text.find("Value"), text.find("Name 1")) << text;
}

// --- what a PDF states about itself -------------------------------------------------------------

TEST(PdfLayoutTest, TitlesOfTheOutlineAreHeadings) {
  const std::string contents = PageText().Block(50, 100, {"Bridges", "Mills"}).Xml();
  const std::string first =
      PageText()
          .Block(50, 60, {"Chapter 1"}, 20)
          .Block(50, 100, {"Bridges"}, 20)
          .Block(50, 150, {"Bridges stand over rivers, and there are", "many of them."})
          .Block(50, 200, {"1.1 The bridge of Fethol, which was", "built by Mara"}, 12)
          .Block(50, 250, {"Mills", "are elsewhere."})
          .Xml();
  const std::string second =
      PageText().Block(50, 100, {"MILLS"}, 20).Block(50, 150, {"They grind."}).Xml();
  PdfStructure structure;
  structure.num_pages = 3;
  structure.outline = {{1, 0, "1 Bridges"},
                       {2, 2, "The bridge of Fethol, which was built by Mara"},
                       {1, 3, "Mills"},
                       {7, 3, "They do not"}};
  EXPECT_EQ(Parse("<doc>" + contents + first + second + "</doc>", structure).text,
            "Bridges Mills\n\n# Chapter 1 Bridges\n\n"
            "Bridges stand over rivers, and there are many of them.\n\n"
            "## 1.1 The bridge of Fethol, which was built by Mara\n\nMills\nare elsewhere.\n\n"
            "# MILLS\n\nThey grind.\n");
}

TEST(PdfLayoutTest, PagesHaveTheirLabels) {
  const std::string page = PageText().Block(50, 100, {"Some text of the page."}).Xml();
  PdfStructure structure;
  structure.num_pages = 4;
  structure.labels = {{1, "i"}, {2, "ii"}, {4, "A-1"}};
  const PagedText paged =
      Parse("<doc>" + page + "<page></page>" + page + page + "</doc>", structure);
  ASSERT_EQ(paged.pages.size(), 3u);
  EXPECT_EQ(paged.page_labels, (std::vector<std::string>{"i", "", "A-1"}));
  structure.labels = {{2, "ii"}};
  EXPECT_TRUE(Parse("<doc>" + page + "<page></page></doc>", structure).page_labels.empty());
}

TEST(PdfStructureTest, IsWrittenAndRead) {
  PdfStructure structure;
  structure.num_pages = 3;
  structure.labels = {{1, " x\n"}, {2, ""}, {3, std::string(100, 'x')}};
  structure.outline = {
      {1, 2, "A\ttitle \xFF of\n two lines"}, {0, 9, "Nowhere"}, {99, 1, "Deep"}, {2, 1, " "}};
  const std::string bytes = WritePdfStructure(structure);
  const auto read = ParsePdfStructure(bytes);
  ASSERT_TRUE(read.has_value()) << bytes;
  EXPECT_EQ(read->num_pages, 3u);
  ASSERT_EQ(read->labels.size(), 1u);
  EXPECT_EQ(read->labels[0].text, "x");
  ASSERT_EQ(read->outline.size(), 3u);
  EXPECT_EQ(read->outline[0].title, "A title \uFFFD of two lines");
  EXPECT_EQ(read->outline[1].level, 1u);
  EXPECT_EQ(read->outline[1].page, 0u);
  EXPECT_EQ(read->outline[2].level, kMaxOutlineLevel);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParsePdfStructure(bytes.substr(0, size)).has_value()) << size;
  }
  const std::string head = "lectern-pdf-structure 1\n";
  for (const std::string wrong :
       {"pages x\nend\n", "pages 99999999999\nend\n", "pages 2\nlabel 3 x\nend\n",
        "pages 2\nlabel 2 x\nlabel 1 x\nend\n", "pages 2\nlabel 1 \x01\nend\n",
        "pages 2\nitem 0 1 x\nend\n", "pages 2\nitem 1 3 x\nend\n", "pages 2\nitem 1 1 \nend\n",
        "pages 2\nother\nend\n"}) {
    EXPECT_FALSE(ParsePdfStructure(head + wrong).has_value()) << wrong;
  }
}

// A font without Unicode values whose codes count from 33, and program text, which has many signs.
TEST(PdfLayoutTest, PagesOfSignsAreGarbage) {
  const std::vector<std::string> garbage(8, "!#$% ('&quot;)# $%!(' &amp;)*+ ,!$ (%#!");
  const std::vector<std::string> program(8, "if (a[i] &lt; b[j]) { c[k++] = a[i++]; }");
  const std::string pages = PageText().Block(50, 100, garbage).Xml() +
                            PageText().Block(50, 100, program).Xml() +
                            PageText().Block(50, 100, {"Contents . . . . . . . . . . . 12"}).Xml();
  EXPECT_EQ(Parse("<doc>" + pages + "</doc>").unmapped_pages, (std::vector<uint64_t>{1}));
}

TEST(PdfLayoutTest, PagesWithoutReadableTextAreNamed) {
  std::string garbage;
  for (int i = 0; i < 30; ++i) garbage += "\uE123";
  const std::string text = PageText().Block(50, 100, {"Some text of the page."}).Xml();
  const std::string empty = "<page></page>";
  const PagedText paged = Parse("<doc>" + text + empty + empty + empty + text +
                                PageText().Block(50, 100, {garbage}).Xml() + empty + "</doc>");
  EXPECT_EQ(paged.pages_without_text, (std::vector<uint64_t>{2, 3, 4, 7}));
  EXPECT_EQ(paged.unmapped_pages, (std::vector<uint64_t>{6}));
  const std::string note = NoteOf(paged);
  EXPECT_NE(note.find("pages 2 to 4, 7 have no text"), std::string::npos) << note;
  EXPECT_NE(note.find("ocrmypdf in.pdf out.pdf"), std::string::npos) << note;
  EXPECT_NE(note.find("page 6: most characters have no Unicode value"), std::string::npos) << note;
}

// Ligatures and quotes of a font of Type 3, the bullets of Symbol, and codes that count from 33.
TEST(PdfLayoutTest, CharactersWithoutUnicodeValuesAreNamedByPage) {
  const std::string program = "if (a[i] &lt; b[j]) { c[k++] = a[i++]; }";
  const std::string pages =
      PageText()
          .Block(50, 100,
                 {"A di\x0E"
                  "cult and e\x0E"
                  "cient office of the page, with words around them."})
          .Xml() +
      PageText().Block(50, 100, {"\uF0B7 One item of a list.", program, program, program}).Xml() +
      PageText()
          .Block(50, 100,
                 {"Some text stands here, !#$%('&quot;) and #$!&amp;%(+* and %'(!#$&amp;) too",
                  "and so does more of it, which can be read by everybody here."})
          .Xml();
  const PagedText paged = Parse("<doc>" + pages + "</doc>");
  EXPECT_TRUE(paged.unmapped_pages.empty());
  EXPECT_EQ(paged.partly_unmapped_pages, (std::vector<uint64_t>{1, 3}));
  EXPECT_EQ(paged.num_unmapped, 26u);
  EXPECT_NE(paged.text.find("• One item of a list."), std::string::npos) << paged.text;
  const std::string note = NoteOf(paged);
  EXPECT_NE(note.find("26 characters of pages 1, 3 have no Unicode value"), std::string::npos)
      << note;
}

}  // namespace
}  // namespace lectern::tools
