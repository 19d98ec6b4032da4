// Documents as users have them: what pdftotext and Tesseract print, HTML, formats.
#include "tools/ingest/ingest.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <random>

#include "engine/model/formats/text.h"
#include "tests/tools/printed_pages.h"
#include "tools/ingest/bbox_text.h"
#include "tools/ingest/html.h"
#include "tools/ingest/pdf.h"
#include "tools/ingest/recognised_words.h"

namespace lectern::tools {
namespace {

using namespace printed;

// --- what pdftotext prints ----------------------------------------------------------------------

std::optional<PagedText> Parse(const std::string& output, size_t piece = SIZE_MAX) {
  BboxText parser;
  for (size_t i = 0; i < output.size(); i += std::min(piece, output.size() - i)) {
    if (!parser.Take(std::string_view(output).substr(i, piece))) return std::nullopt;
  }
  PagedText paged;
  if (!parser.Finish(paged)) return std::nullopt;
  return paged;
}

TEST(BboxTextTest, WordsLinesBlocksAndPages) {
  const auto paged = Parse(ThreePages());
  ASSERT_TRUE(paged);
  EXPECT_EQ(paged->text, "A B C&AB<\n\nÄ\n\nlast\n");
  EXPECT_EQ(paged->num_pages, 3u);
  ASSERT_EQ(paged->pages.size(), 2u);
  EXPECT_EQ(paged->pages[0].text_begin, 0u);
  EXPECT_EQ(paged->pages[0].page, 1u);
  EXPECT_EQ(paged->text.substr(paged->pages[1].text_begin), "last\n");
  EXPECT_EQ(paged->pages[1].page, 3u);
}

TEST(BboxTextTest, PiecesOfAnySizeSayTheSame) {
  for (const size_t piece : {1, 2, 3, 7, 64}) {
    const auto paged = Parse(ThreePages(), piece);
    ASSERT_TRUE(paged) << piece;
    EXPECT_EQ(paged->text, "A B C&AB<\n\nÄ\n\nlast\n");
  }
}

// A line that ends at `end`, in a block that ends at 200.
std::string Ending(int end, const std::string& words) {
  return "<line xMin=\"100\" xMax=\"" + std::to_string(end) + "\">" + words + "</line>";
}
std::string Wide(int width, const std::string& text) {
  return "<word xMin=\"100.5\" yMin=\"1\" xMax=\"" + std::to_string(100 + width) + ".5\">" + text +
         "</word>";
}

TEST(BboxTextTest, LinesThatWereEndedOnPurposeStayLines) {
  const auto text = [](const std::string& lines) {
    const auto paged =
        Parse(Output(Page("<block xMin=\"100\" xMax=\"200\">" + lines + "</block>")));
    return paged ? paged->text : "refused";
  };
  EXPECT_EQ(text(Ending(200, Wide(90, "full")) + Ending(190, Wide(20, "next"))), "full next\n");
  EXPECT_EQ(text(Ending(185, Wide(80, "ragged")) + Ending(190, Wide(20, "next"))), "ragged next\n");
  EXPECT_EQ(text(Ending(179, Wide(79, "tight")) + Ending(190, Wide(20, "next"))), "tight next\n");
  EXPECT_EQ(text(Ending(140, Wide(40, "item")) + Ending(190, Wide(20, "next"))), "item\nnext\n");
  // An empty line between them is none.
  EXPECT_EQ(text(Ending(140, Wide(40, "item")) + Ending(200, "") + Ending(190, Wide(20, "next"))),
            "item\nnext\n");
  EXPECT_EQ(text(Ending(200, Wide(90, "exam-")) + Ending(190, Wide(20, "ple"))), "example\n");
  EXPECT_EQ(text(Ending(200, Wide(90, "1990-")) + Ending(190, Wide(20, "1995"))), "1990-1995\n");
  EXPECT_EQ(text(Ending(200, Wide(90, "-")) + Ending(190, Wide(20, "x"))), "- x\n");
  EXPECT_EQ(text(Ending(200, Wide(90, "Ann-")) + Ending(190, Wide(20, "Ford"))), "Ann-Ford\n");
  EXPECT_EQ(text(Ending(200, Wide(90, "für-")) + Ending(190, Wide(20, "ängstlich"))),
            "fürängstlich\n");
  EXPECT_EQ(text(Ending(200, Wide(90, "{x}-")) + Ending(190, Wide(20, "y"))), "{x}-y\n");
  // Numbers that are none say nothing.
  EXPECT_EQ(text("<line xMax=\"nan\">" + Wide(1, "a") +
                 "</line><line><word xMin=\"-inf\" "
                 "xMax=\"1e999\">b</word></line>"),
            "a b\n");
}

TEST(BboxTextTest, EveryTruncationIsSeen) {
  const std::string whole = ThreePages();
  const size_t last = whole.find("</doc>") + 6;
  for (size_t size = 0; size < last; ++size) EXPECT_FALSE(Parse(whole.substr(0, size))) << size;
  EXPECT_TRUE(Parse(whole.substr(0, last)));
}

TEST(BboxTextTest, OtherThingsAreRefused) {
  const std::string line = Line(Word("x"));
  for (const std::string& wrong : {
           std::string("plain text"),
           Output(line),                           // a line without a page
           Output(Page(line)),                     // without a block
           Output(Page(Block("text" + line))),     // text between elements
           Output(Page(Block("<word>x</word>"))),  // a word without a line
           Output(Page(Block(Line("<word>a<word>b</word></word>")))),
           Output(Page(Block(Line("<word/>")))),
           Output(Page(Block(Line("<word x=\"1\"/>")))),
           Output(Page(Block(Line(Word("&#;"))))),
           Output(Page(Block(Line(Word("&#12x;"))))),
           Output(Page(Block("<script>x</script>"))),
           Output(Page(Block(Line(Word("&nbsp;"))))),
           Output(Page(Block(Line(Word("&#x110000;"))))),
           Output(Page(Block(Line(Word("a & b"))))),
           Output("</page>"),
           Output("<page></flow>"),
           Head() + "<doc>" + std::string(3 << 20, ' ') + "<" + std::string(2 << 20, 'x'),
           std::string(2 << 20, 'x') + "<doc></doc>",
       }) {
    EXPECT_FALSE(Parse(wrong, 65536)) << wrong.substr(0, 400);
  }
}

TEST(BboxTextTest, WordsAreLimitedAndAFailureStays) {
  EXPECT_FALSE(Parse(Output(Page(Block(Line(Word(std::string(2 << 20, 'x'))))))));
  EXPECT_TRUE(Parse(Output("\r\n\t<page>\r\n</page>")));
  BboxText failed;
  EXPECT_FALSE(failed.Take("<doc>x<"));
  EXPECT_FALSE(failed.Take(ThreePages()));
  PagedText paged;
  EXPECT_FALSE(failed.Finish(paged));
}

TEST(BboxTextTest, TextIsValidUtf8WithoutControls) {
  const auto paged = Parse(
      Output(Page(Block(Line(Word("\xEF\xBB\xBF\xEF\xBB\xBF") +
                             Word("\xEF\xBB\xBF"
                                  "a\x01\x7F"
                                  "b") +
                             Word("\xFF") + Word("&#0;") + Word("&#xD800;") + Word("c\nd"))))));
  ASSERT_TRUE(paged);
  EXPECT_TRUE(IsValidUtf8(paged->text));
  EXPECT_EQ(paged->text.substr(0, 6), "ab \xEF\xBF\xBD");
  EXPECT_EQ(paged->text.find('\0'), std::string::npos);
  EXPECT_EQ(paged->pages.at(0).text_begin, 0u);
}

TEST(RecognisedWordsTest, OtherTablesAreRefused) {
  const std::string table = RecognisedTable();
  const auto page = ParseRecognisedWords(table, 0.5);
  ASSERT_TRUE(page.has_value());
  EXPECT_EQ(page->num_words, 4u);
  EXPECT_EQ(page->width, 1355.5);
  ASSERT_EQ(page->lines.size(), 3u);
  EXPECT_EQ(page->lines[0].box.Height(), page->lines[1].box.Height());
  EXPECT_EQ(page->lines[0].words[0].box.x_min, 150);
  const size_t head = table.find('\n') + 1;
  EXPECT_FALSE(ParseRecognisedWords(table.substr(0, table.size() - 1), 1).has_value());
  EXPECT_FALSE(ParseRecognisedWords("x" + table, 1).has_value());
  for (const std::string row : {"5\t1\t1\t1\t1\t1\t1\t1\t1\t1\t9\tword without a line\n", "text\n",
                                "1\t1\t0\t0\t0\t0\t0\t0\t9999999\t1\t-1\t\n", "\n",
                                "4\t1\t1\t1\t1\t0\t1\t1\t1\t1\t-1\t\n"}) {
    EXPECT_FALSE(ParseRecognisedWords(table.substr(0, head) + row, 1).has_value()) << row;
  }
}

// --- HTML ---------------------------------------------------------------------------------------

std::string Text(const std::string& html, HtmlOptions options = {}) {
  auto text = ReadHtml(html, options);
  return text.ok() ? *text : "error: " + text.error().message;
}

TEST(HtmlTest, MainContentOfAPage) {
  EXPECT_EQ(
      Text("<!doctype html><html><head><title>T</title><style>p{}</style></head><body>"
           "<header>Site</header><nav><a href=/>Home</a></nav>"
           "<main><header><h1>Bridges &amp; roads</h1></header>"
           "<p>The first\n   bridge was <b>long</b>.<br>It fell.</p>"
           "<script>alert(1)</script><p hidden>no</p><p style='color:red; Display : none'>no</p>"
           "<ul><li>one<li><p>two</p><ol><li>a</li><li>b</li></ol></li></ul>"
           "<table><tr><th>Name<th>Year</tr><tr><td>Fethol</td><td></td><td>1901</td></tr></table>"
           "<pre>x =\n  1\n\ny</pre><aside>Ad</aside></main>"
           "<form><input value=q>Search</form><footer>Imprint</footer></body></html>"),
      "Bridges & roads\n\nThe first bridge was long.\nIt fell.\n\n- one\n- two\n  1. a\n  2. b\n\n"
      "Name | Year\nFethol | | 1901\n\nx =\n  1\n\ny\n");
}

TEST(HtmlTest, WithoutMainTheArticleOrTheDensestBlock) {
  const std::string prose = "<p>Many words of prose about a bridge and its builder.</p>";
  const std::string menu = "<div><a href=a>One link</a> <a href=b>Another link</a></div>";
  EXPECT_EQ(Text("<body>" + menu + "<article>" + prose + "</article>" + menu),
            "Many words of prose about a bridge and its builder.\n");
  EXPECT_EQ(Text("<body>" + menu + "<div id=page><div>" + prose + prose + "</div></div>" + menu),
            "Many words of prose about a bridge and its builder.\n\n"
            "Many words of prose about a bridge and its builder.\n");
  // The heading beside it stays, and all of two equals.
  EXPECT_EQ(Text("<body><h1>Bridge</h1><div>" + prose + "</div>").substr(0, 13), "Bridge\n\nMany ");
  EXPECT_EQ(Text("<body><div>one two</div><div>six ten</div>"), "one two\nsix ten\n");
  // A form that is the page, and a page of nothing but navigation.
  EXPECT_EQ(Text("<body><form>" + prose + "</form>"),
            "Many words of prose about a bridge and its builder.\n");
  EXPECT_EQ(Text("<body><nav>only this</nav>"), "only this\n");
}

TEST(HtmlTest, WordsStayApartAndInvisibleCharactersGo) {
  EXPECT_EQ(Text("<p>a<span> b</span>&nbsp;&nbsp;c<i>d</i>\xC2\xAD"
                 "e\xE2\x80\x8B"
                 "f&#1;</p><div>g</div>h"),
            "a b cdef\n\ng\nh\n");
}

TEST(HtmlTest, RolesAndHiddenElements) {
  for (const char* role : {"navigation", "banner", "contentinfo", "search", "complementary"}) {
    EXPECT_EQ(Text("<p>a</p><div role=" + std::string(role) + ">b</div>"), "a\n") << role;
  }
  for (const char* hidden : {"aria-hidden=true", "style='visibility: hidden'", "hidden"}) {
    EXPECT_EQ(Text("<p>a</p><div " + std::string(hidden) + ">b</div>"), "a\n") << hidden;
  }
}

TEST(HtmlTest, NothingToShowIsSaid) {
  for (const char* html : {"<html></html>", "<body><script>x</script>",
                           "<frameset><frame></frameset>", "<body hidden>x", "<p> &nbsp; </p>"}) {
    auto text = ReadHtml(html, {});
    ASSERT_FALSE(text.ok()) << html;
    EXPECT_EQ(text.error().code, LECTERN_EMPTY_DOCUMENT);
  }
}

TEST(HtmlTest, Charsets) {
  const std::string meta = "<meta charset=", body = "><p>caf\xE9 \x80";
  EXPECT_EQ(Text("<meta charset=utf-8><p>café €"), "café €\n");
  EXPECT_EQ(Text("\xEF\xBB\xBF<meta charset=latin1><p>café €"), "café €\n");  // the mark wins
  EXPECT_EQ(Text("<p>café €"), "café €\n");
  EXPECT_EQ(Text("<p>caf\xE9 \x80"), "café €\n");
  for (const char* name : {"latin1", "'ISO-8859-1'", "\"windows-1252\""}) {
    EXPECT_EQ(Text(meta + name + body), "café €\n") << name;
  }
  EXPECT_EQ(Text("<meta http-equiv=Content-Type content='text/html; charset=cp1252'><p>caf\xE9"),
            "café\n");
  EXPECT_EQ(Text("<?xml version='1.0' encoding='iso-8859-1'?><html><p>caf\xE9"), "café\n");
  EXPECT_EQ(Text("<meta charset \t\r\n\f=\f'latin1'><p>caf\xE9"), "café\n");
}

TEST(HtmlTest, CharsetsAreFoundBehindOtherThings) {
  EXPECT_EQ(Text("<meta charset charset=latin1><p>caf\xE9"), "café\n");
  EXPECT_EQ(Text("<?xml version='1.0'?><meta name=a><META CHARSET='UTF8'><p>café"), "café\n");
  EXPECT_EQ(Text("<?xml version='1.0'?><p>café"), "café\n");
  EXPECT_EQ(Text("<p>café</p><meta charset"), "café\n");
  EXPECT_EQ(Text("<p>café</p><meta charset "), "café\n");
  EXPECT_EQ(Text("<meta charset=><p>café"), "café\n");
  EXPECT_EQ(Text("<meta charset=no-such><p>café"), "café\n");
}

TEST(HtmlTest, SpacesControlsAndForeignElements) {
  EXPECT_EQ(Text("<p>a\fb&#127;\xEF\xBB\xBF"
                 "c\td</p><pre>e\f\tf</pre><math><![CDATA[x < y]]></math><!-- no -->"
                 "<p Style='DISPLAY:None'>no"),
            "a bc d\n\ne\f\tf\n\nx < y\n");
}

TEST(HtmlTest, AnElementForNoScriptsEndsWhereItDoesInBrowsers) {
  EXPECT_EQ(Text("<noscript><div id=a></noscript><p>One</p><noscript></div></noscript><p>Two</p>"
                 "<noscript>Three</noscript>"),
            "One\n\nTwo\n");
  EXPECT_EQ(Text("<noscript><div>Never closed</noscript><p>One</p>"), "Never closed\n\nOne\n");
}

TEST(HtmlTest, OfSeveralMainPartsTheOneWithMostProse) {
  // Too small a main element is none.
  EXPECT_EQ(
      Text("<div><main>Photo</main><div>It rained all night, and the bridge held.</div></div>"),
      "It rained all night, and the bridge held.\n");
  EXPECT_EQ(Text("<main>one</main><div role=main>one two three</div><div role=main>x</div>"),
            "one two three\n");
  EXPECT_EQ(Text("<article>one</article><article>one two three</article><article>x</article>"),
            "one two three\n");
  EXPECT_EQ(Text("<article>one</article><p>two three four five</p>"),
            "one\n\ntwo three four five\n");
  // A title without links is the document's, that of a site leads to its front page.
  EXPECT_EQ(Text("<header><h1>Rent</h1><p>Ada Brok</p></header><p>It is due.</p>"),
            "Rent\n\nAda Brok\n\nIt is due.\n");
  EXPECT_EQ(Text("<header><h1><a href=/>Site</a></h1></header><p>It is due.</p>"), "It is due.\n");
  EXPECT_EQ(Text("<article><header>Title</header>one<footer>two</footer></article>"),
            "Title\none\ntwo\n");
}

TEST(HtmlTest, CellsOfLayoutsStandBelowEachOther) {
  const std::string list = "<ul><li>one</ul>", many(151, 'x');
  EXPECT_EQ(Text("<table><tr><td>" + list + "<td>two<td>three</table>"), "- one\n\ntwo | three\n");
  EXPECT_EQ(Text("<table><tr><td>" + many + "<br><td>b</table>", {.keeps_all = true}),
            many + "\nb\n");
  EXPECT_EQ(Text("<table><tr><td>a<br>b<tr><td><div>c</div></table>"), "a\nb\nc\n");
  EXPECT_EQ(Text("<table><tr><td>one two three four</table>"), "one two three four\n");
  // A few lines beside other columns are data, as editors write values and addresses.
  EXPECT_EQ(Text("<table><tr><td><div>Ada</div><td>Osk 3<br>Lund<td><div>45 EUR</div></table>"),
            "Ada | Osk 3 Lund | 45 EUR\n");
  // Paragraphs of a few words are cells of data, as DocBook and unrtf write them.
  EXPECT_EQ(
      Text("<table><tr><td><p>one</p><p>two</p></td><td><p>three</p></td></tr>"
           "<tr><td>four<p></td><td><div align=right>five<p></div></td></tr></table><p>six</p>",
           {.keeps_all = true}),
      "one two | three\nfour | five\n\nsix\n");
  const std::string prose(700, 'x');
  EXPECT_EQ(Text("<table><tr><td><p>" + prose + "</p><td><p>b</p></table>", {.keeps_all = true})
                .substr(700),
            "\n\nb\n");
  EXPECT_EQ(Text("<li>one<li>two"), "- one\n- two\n");
}

std::string Repeated(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

TEST(HtmlTest, DepthDoesNotOverflowTheStack) {
  EXPECT_EQ(Text(Repeated("<span>", 200000) + "deep"), "deep\n");
  const std::string text = Text(Repeated("<div><ul><li>", 3000) + "deep");
  EXPECT_EQ(text, "                - deep\n");  // indented by eight lists at most
}

TEST(HtmlTest, BombsEndAtALimit) {
  const auto expect_limit = [](const std::string& html, HtmlOptions options, const char* says) {
    auto text = ReadHtml(html, options);
    ASSERT_FALSE(text.ok());
    EXPECT_EQ(text.error().code, LECTERN_LIMIT_EXCEEDED);
    EXPECT_NE(text.error().message.find(says), std::string::npos) << text.error().message;
  };
  std::string formats = "<p>";  // each paragraph has all of them again
  for (int i = 0; i < 2000; ++i) formats += "<b id=" + std::to_string(i) + ">";
  expect_limit(formats + Repeated("<p>x", 20000), {.memory_bytes = 64 << 20}, "memory");
  expect_limit(Repeated("<div>", 2000000), {.seconds = 0.2}, "long");
  expect_limit("<p>" + Repeated("x", 1 << 21), {.memory_bytes = 1 << 20}, "memory");
  expect_limit("<p>x", {.most_bytes = 3}, "too long");
  auto cancelled = ReadHtml(Repeated("<p>x", 100000), {.is_cancelled = [] { return true; }});
  ASSERT_FALSE(cancelled.ok());
  EXPECT_EQ(cancelled.error().code, LECTERN_CANCELLED);
}

// --- formats ------------------------------------------------------------------------------------

TEST(FormatTest, ContentTellsThenTheName) {
  const std::tuple<const char*, const char*, Format> cases[] = {
      {"%PDF-1.7\n", "x.txt", Format::kPdf},
      {"about %PDF-", "x.txt", Format::kText},
      {"anything", "X.PDF", Format::kPdf},
      {"<!DOCTYPE HTML>", "", Format::kHtml},
      {"\xEF\xBB\xBF \n<?xml version='1.0'?><!-- <p> -->\n<html lang=en>", "", Format::kHtml},
      {"<!doctype htmlx>", "", Format::kText},
      {"<htmlfoo>", "", Format::kText},
      {"<!-- never ends", "", Format::kText},
      {"<p>part", "x", Format::kText},
      {"<p>part", "x.html", Format::kHtml},
      {"# Title", "x.md", Format::kMarkdown},
      {"As <html> says", "x.txt", Format::kText},
      {"", "", Format::kText},
  };
  for (const auto& [bytes, name, format] : cases) {
    EXPECT_EQ(DetectFormat(bytes, name), format) << bytes << " " << name;
  }
}

TEST(FormatTest, FormFeedsPartThePagesOfText) {
  auto paged = Ingest("One.\n\f\n \n\fThree.\n\f", {.format = "text"});
  ASSERT_TRUE(paged.ok());
  ASSERT_EQ(paged->pages.size(), 2u);  // the second has no words
  EXPECT_EQ(paged->pages[0].text_begin, 0u);
  EXPECT_EQ(paged->pages[0].page, 1u);
  EXPECT_EQ(paged->pages[1].text_begin, 10u);
  EXPECT_EQ(paged->pages[1].page, 3u);
  EXPECT_EQ(paged->num_pages, 3u);
  // One page is none; the engine replaces bad bytes, which would move the pages.
  for (const char* const text : {"One.\n\f", "One.", "One \xFF.\n\fTwo."}) {
    EXPECT_TRUE(Ingest(text, {.format = "markdown", .encoding = "UTF-8"})->pages.empty()) << text;
  }
}

TEST(FormatTest, HtmlIsReadWithinTheMemoryGiven) {
  const std::string page = "<p>" + Repeated("x ", 1 << 20);
  EXPECT_TRUE(Ingest(page, {.format = "html"}).ok());
  auto refused = Ingest(page, {.format = "html", .memory_bytes = 1 << 20});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, LECTERN_LIMIT_EXCEEDED);
}

TEST(FormatTest, TextAndMarkdownInUtf8StayAsTheyAreButForTheMark) {
  const std::string bytes = "# a\r\n\r\n<b>\xFF\f x  \n";
  for (const char* format : {"auto", "text", "markdown"}) {
    auto ingested = Ingest("\xEF\xBB\xBF" + bytes, {.format = format});
    ASSERT_TRUE(ingested.ok());
    EXPECT_EQ(ingested->text, bytes);
    EXPECT_TRUE(ingested->pages.empty());
  }
  const std::string html = "<!doctype html><p>x";
  EXPECT_EQ(Ingest(html, {.format = "text"})->text, html);
  EXPECT_EQ(Ingest(html, {})->text, "x\n");
  EXPECT_EQ(Ingest(bytes, {.format = "wps"}).error().param, "format");
}

}  // namespace
}  // namespace lectern::tools
