// Office files, books and mails as pandoc, LibreOffice, openpyxl and Python wrote them, and office
// files made here for what those do not write.
#include "tools/ingest/extract/extract.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/tools/zip_writer.h"
#include "tools/ingest/extract/zip_parts.h"

namespace lectern::tools {
namespace {

std::string FileBytes(const std::string& name) {
  std::ifstream file(LECTERN_SOURCE_DIR "/tests/tools/extract_files/" + name, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

Extracted Read(std::string_view format, const std::string& bytes) {
  auto extracted = Extract(format, bytes);
  if (extracted.ok()) return *extracted;
  Extracted refused;
  refused.text = "refused: " + extracted.error().message;
  return refused;
}

// --- files that other programs wrote -------------------------------------------------------------

constexpr char kLund[] = R"(# The Lund Report

Ada Brok

# Introduction

The mill at Osk was designed by Ada Brok in 1871.[1] It has three wheels and code.

[1] See the register of 1872.

## Rules

1. First rule
2. Second rule
  - nested bullet
  - another one
3. Third rule

- apples
- pears

Product | Price | Stock
Alpha pump | 120 EUR | 17
Beta valve | 45 EUR | 230

## Code
)";

TEST(ExtractTest, TextDocumentsOfPandocAndLibreOffice) {
  for (const char* const name : {"lund.docx", "libreoffice.docx", "lund.odt"}) {
    const std::string file = name;
    const Extracted read = Read(file.substr(file.find('.') + 1), FileBytes(file));
    EXPECT_EQ(read.text.substr(0, sizeof kLund - 1), kLund) << name;
    EXPECT_TRUE(read.text.ends_with("Line one\nline two. A link here. Déjà vu — “quoted”.\n"))
        << name;
    EXPECT_EQ(read.note, "");
  }
  // LibreOffice makes a list of its own of the nested one.
  std::string text = Read("odt", FileBytes("libreoffice.odt")).text;
  EXPECT_NE(text.find("2. Second rule\n\n  - nested bullet\n  - another one\n\n3. Third rule\n"),
            std::string::npos)
      << text;
}

TEST(ExtractTest, SlidesArePages) {
  for (const char* const name : {"lund.pptx", "libreoffice.odp"}) {
    const std::string file = name;
    const Extracted read = Read(file.substr(file.find('.') + 1), FileBytes(file));
    ASSERT_EQ(read.pages.size(), 4u) << name << read.text;
    EXPECT_EQ(read.num_pages, 4u);
    EXPECT_EQ(read.pages[0].text_begin, 0u);
    EXPECT_EQ(read.pages[3].page, 4u);
    EXPECT_TRUE(
        read.text.substr(read.pages[1].text_begin).starts_with("# Introduction\n\nThe mill"));
    EXPECT_TRUE(read.text.substr(read.pages[3].text_begin).starts_with("# Notes\n\n1. See the"));
    EXPECT_NE(read.text.find("\nAlpha pump | 120 EUR | 17\nBeta valve | 45 EUR | 230\n"),
              std::string::npos);
  }
}

TEST(ExtractTest, ABookWithoutItsContents) {
  const Extracted read = Read("epub", FileBytes("lund.epub"));
  EXPECT_TRUE(read.text.starts_with("# The Lund Report\n\nAda Brok\n\n# Introduction\n\nThe mill"))
      << read.text;
  EXPECT_NE(read.text.find("\n## Rules\n\n1. First rule\n"), std::string::npos);
  EXPECT_NE(read.text.find("\nBeta valve | 45 EUR | 230\n"), std::string::npos);
  ASSERT_EQ(read.pages.size(), 2u);  // the title page, the chapter
  EXPECT_TRUE(read.text.substr(read.pages[1].text_begin).starts_with("# Introduction"));
}

// Debian's live-manual.epub lists each chapter once more for each of its sections.
TEST(ExtractTest, ABookThatListsAChapterTwice) {
  const Extracted read = Read(
      "epub",
      WriteZip(
          {{"META-INF/container.xml",
            "<container><rootfiles><rootfile full-path='b.opf'/></rootfiles></container>"},
           {"b.opf",
            "<package><manifest>"
            "<item id='1' href='a.xhtml' media-type='application/xhtml+xml'/>"
            "<item id='2' href='a.xhtml#s1' media-type='application/xhtml+xml'/>"
            "<item id='3' href='b.xhtml' media-type='application/xhtml+xml'/></manifest>"
            "<spine><itemref idref='1'/><itemref idref='2'/><itemref idref='3'/></spine></package>"},
           {"a.xhtml", "<html><body><p>First.</p><p id='s1'>Second.</p></body></html>"},
           {"b.xhtml", "<html><body><p>Third.</p></body></html>"}}));
  EXPECT_EQ(read.text, "First.\n\nSecond.\n\nThird.\n");
  EXPECT_EQ(read.num_pages, 2u);
}

// Books of version 2 have a page of contents that nothing marks, as calibre's Quick Start Guide
// has.
TEST(ExtractTest, APageOfLinksIntoTheBookIsItsContents) {
  const std::string contents =
      "<html><body><h1>Contents</h1><ol><li><a href='b.xhtml#1'>The mill at Osk</a></li><li><a "
      "href='b.xhtml#2'>The river</a></li><li><a href='b.xhtml#3'>The bridge</a></li></ol></body>"
      "</html>";
  std::string sources = contents;  // links to elsewhere are text
  for (size_t at = sources.find("b.xhtml"); at != std::string::npos; at = sources.find("b.xhtml"))
    sources.replace(at, 7, "https://example.org/");
  const auto book = [&](const std::string& first) {
    return Read(
               "epub",
               WriteZip(
                   {{"META-INF/container.xml",
                     "<container><rootfiles><rootfile full-path='b.opf'/></rootfiles></container>"},
                    {"b.opf",
                     "<package><manifest><item id='1' href='a.xhtml' media-type='text/html'/>"
                     "<item id='2' href='b' media-type='text/html'/><item id='3' href='c.xht' "
                     "media-type='text/html'/></manifest><spine><itemref idref='1'/><itemref "
                     "idref='2'/>"
                     "<itemref idref='3'/></spine></package>"},
                    {"a.xhtml", first},
                    {"b", "<html><body><p>One <a href='a.xhtml'>back</a>.</p></body></html>"},
                    {"c.xht", sources}}))
        .text;
  };
  EXPECT_EQ(book(contents),
            "One back.\n\n# Contents\n\n1. The mill at Osk\n2. The river\n3. The bridge\n");
  // A front page that says something stays, as that of the Debian Policy.
  std::string front = contents;
  for (int i = 0; i < 100; ++i) front.insert(front.find("</ol>"), "<li><a href='b'>Link</a></li>");
  EXPECT_TRUE(book(front).starts_with("One back."));
  front.insert(front.find("<ol>"), "<p>This is version " + std::string(185, '4') + "</p>");
  EXPECT_TRUE(book(front).starts_with("# Contents\n\nThis is version 44"));
}

TEST(ExtractTest, SheetsWithTheirHeaders) {
  for (const char* const name : {"stock.xlsx", "stock.ods"}) {
    const std::string file = name;
    const Extracted read = Read(file.substr(file.find('.') + 1), FileBytes(file));
    EXPECT_EQ(read.text, R"(# Stock

Product | Price | Stock | Since | Share | Sold
Product: Alpha pump | Price: 120.00 € | Stock: 17 | Since: 2021-03-01 | Share: 25.0% | Sold: TRUE
Product: Beta valve | Price: 45.50 € | Stock: 230 | Since: 2024-05-17 | Share: 12.5% | Sold: FALSE
Product: Gamma hose | Price: 12.00 € | Stock: 5 | Since: 1999-12-31 | Share: 50.0% | Sold: TRUE

# Staff

Staff of 2024

Dept | Name | Start
Dept: Sales | Name: Ada Brok | Start: 2024-01-02 09:30
Dept: Sales | Name: Bo Lund | Start: 2023-07-01 08:00
Dept: Lab | Name: Cy Osk | Start: 2020-02-29 10:15
)") << name;
    ASSERT_EQ(read.pages.size(), 2u);
    EXPECT_EQ(read.num_pages, 3u);
    EXPECT_EQ(read.note, "hidden sheets are left out: Secret");
  }
}

TEST(ExtractTest, AMail) {
  const Extracted read = Read("eml", FileBytes("mail.eml"));
  EXPECT_EQ(read.text,
            "From: Jérôme Núñez <j@example.org>\nTo: Ada <ada@example.org>, Bo <bo@example.org>\n"
            "Date: Fri, 17 May 2024 09:30:00 +0200\nSubject: Die Größe der Mühle — ein Bericht\n\n"
            "Sehr geehrte Frau Brok,\n\ndie Mühle in Osk hat drei Räder.\n");
  EXPECT_EQ(read.note, "attachments are not read: Rechnung März.pdf");
}

// --- parts of OpenDocument texts -----------------------------------------------------------------

TEST(ExtractTest, HeadingsAreCountedByTheOutline) {
  const auto heading = [](const char* level, const char* title) {
    return std::string("<text:h text:outline-level=\"") + level + "\">" + title + "</text:h>";
  };
  const std::string flat =
      "<?xml version=\"1.0\"?><office:document xmlns:office=\"o\" xmlns:text=\"t\" "
      "xmlns:style=\"s\"><office:styles><text:outline-style>"
      "<text:outline-level-style text:level=\"1\" style:num-format=\"1\" style:num-suffix=\".\"/>"
      "<text:outline-level-style text:level=\"2\" style:num-format=\"a\" "
      "text:display-levels=\"2\"/></text:outline-style></office:styles><office:body><office:text>" +
      heading("1", "Rent") + heading("2", "Due") + heading("2", "Late") + heading("3", "Fees") +
      heading("1", "Roof") + heading("2", "Repair") +
      "</office:text></office:body></office:document>";
  EXPECT_EQ(Read("odt", flat).text,
            "# 1. Rent\n\n## 1.a Due\n\n## 1.b Late\n\n### Fees\n\n# 2. Roof\n\n## 2.a Repair\n");
}

// --- parts of Word documents ---------------------------------------------------------------------

constexpr char kWordSpaces[] =
    "xmlns:w=\"http://schemas.openxmlformats.org/wordprocessingml/2006/main\" "
    "xmlns:mc=\"http://schemas.openxmlformats.org/markup-compatibility/2006\"";

// The text of a Word document with this body.
std::string WordText(const std::string& body) {
  const std::string relationships =
      "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">"
      "<Relationship Id=\"r1\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/"
      "relationships/officeDocument\" Target=\"word/document.xml\"/></Relationships>";
  return Read("docx",
              WriteZip({{"_rels/.rels", relationships},
                        {"word/document.xml", "<w:document " + std::string(kWordSpaces) +
                                                  "><w:body>" + body + "</w:body></w:document>"}}))
      .text;
}
std::string TextRun(const std::string& text) { return "<w:r><w:t>" + text + "</w:t></w:r>"; }
std::string Par(const std::string& inside) { return "<w:p>" + inside + "</w:p>"; }

TEST(ExtractTest, ChangesAreThoseOfTheNewText) {
  EXPECT_EQ(
      WordText(Par(TextRun("Rent is ") + "<w:del><w:r><w:delText>500</w:delText></w:r></w:del>" +
                   "<w:ins>" + TextRun("600") + "</w:ins>" + TextRun(" EUR.")) +
               Par("<w:moveFrom>" + TextRun("away") + "</w:moveFrom>")),
      "Rent is 600 EUR.\n");
}

TEST(ExtractTest, WhatIsNotShownIsLeftOut) {
  EXPECT_EQ(WordText(Par(TextRun("a\xC2\xAD"
                                 "b") +
                         "<w:r><w:rPr><w:vanish/></w:rPr><w:t>secret</w:t></w:r>" +
                         "<w:r><w:instrText>HYPERLINK x</w:instrText></w:r>" +
                         "<w:r><w:tab/><w:t>c</w:t><w:br/><w:t>d</w:t><w:noBreakHyphen/></w:r>")),
            "ab c\nd-\n");
}

TEST(ExtractTest, PagesOfWord) {
  const std::string body =
      Par(TextRun("one")) +
      Par(TextRun("two ") + "<w:r><w:lastRenderedPageBreak/></w:r>" + TextRun("three")) +
      Par("<w:r><w:lastRenderedPageBreak/></w:r>" + TextRun("four"));
  const std::string relationships =
      "<Relationships><Relationship Id=\"a\" Type=\"x/officeDocument\" Target=\"/d.xml\"/>"
      "</Relationships>";
  const Extracted read =
      Read("docx", WriteZip({{"_rels/.rels", relationships},
                             {"d.xml", "<w:document " + std::string(kWordSpaces) + "><w:body>" +
                                           body + "</w:body></w:document>"}}));
  EXPECT_EQ(read.text, "one\n\ntwo three\n\nfour\n");
  ASSERT_EQ(read.pages.size(), 3u);
  EXPECT_EQ(read.text.substr(read.pages[1].text_begin), "three\n\nfour\n");
  EXPECT_EQ(read.text.substr(read.pages[2].text_begin), "four\n");
  EXPECT_EQ(read.pages[2].page, 3u);
}

TEST(ExtractTest, TextBoxesStandOnceBehindTheirParagraph) {
  const std::string box = "<w:txbxContent>" + Par(TextRun("boxed")) + "</w:txbxContent>";
  EXPECT_EQ(WordText(Par(TextRun("before") + "<w:r><mc:AlternateContent><mc:Choice>" + box +
                         "</mc:Choice><mc:Fallback>" + box + "</mc:Fallback>" +
                         "</mc:AlternateContent></w:r>" + TextRun(" after"))),
            "before after\n\nboxed\n");
}

TEST(ExtractTest, CellsThatGoOnDownwardsAreRepeated) {
  const auto cell = [](const std::string& merge, const std::string& text) {
    return "<w:tc><w:tcPr>" + merge + "</w:tcPr>" + Par(text.empty() ? "" : TextRun(text)) +
           "</w:tc>";
  };
  EXPECT_EQ(
      WordText("<w:tbl><w:tr>" + cell("<w:vMerge w:val=\"restart\"/>", "North") + cell("", "Osk") +
               "</w:tr><w:tr>" + cell("<w:vMerge/>", "") + cell("", "Lund") + "</w:tr></w:tbl>"),
      "North | Osk\nNorth | Lund\n");
  EXPECT_EQ(
      WordText("<w:tbl><w:tr>" + cell("<w:gridSpan w:val=\"3\"/>", "Sales") + "</w:tr><w:tr>" +
               cell("", "Item") + cell("<w:gridSpan w:val=\"2\"/>", "2024") + "</w:tr><w:tr>" +
               cell("", "") + cell("", "Q1") + cell("", "Q2") + "</w:tr></w:tbl>"),
      "Sales\nItem | 2024 | 2024\n| Q1 | Q2\n");
}

// In forms each row divides the page's width in its own way.
TEST(ExtractTest, ColumnsThatFewRowsNeedRepeatNoCell) {
  const auto row = [](const std::vector<std::pair<int, std::string>>& cells) {
    std::string xml = "<w:tr>";
    for (const auto& [span, text] : cells) {
      xml += "<w:tc><w:tcPr><w:gridSpan w:val=\"" + std::to_string(span) + "\"/></w:tcPr>" +
             Par(text.empty() ? "" : TextRun(text)) + "</w:tc>";
    }
    return xml + "</w:tr>";
  };
  const std::string grid = row({{1, ""}, {1, ""}, {1, ""}, {1, ""}, {1, ""}, {1, ""}});
  EXPECT_EQ(
      WordText("<w:tbl>" + grid + row({{1, "No."}, {4, "Item"}, {1, "Price"}}) +
               row({{1, "1"}, {4, "Pump"}, {1, "45"}}) + row({{1, "2"}, {4, "Valve"}, {1, "12"}}) +
               row({{5, "Sum"}, {1, "57"}}) + row({{3, "Seller"}, {3, "Buyer"}}) + grid +
               row({{1, ""}, {5, "Thank you"}}) + "</w:tbl>"),
      "No. | Item | Price\n1 | Pump | 45\n2 | Valve | 12\nSum | Sum | 57\n"
      "Seller | Seller | Buyer | Buyer\n| Thank you\n");
}

TEST(ExtractTest, SuperscriptsAreNoDigitsOfTheNumberBefore) {
  const std::string two =
      "<w:r><w:rPr><w:vertAlign w:val=\"superscript\"/></w:rPr><w:t>2</w:t></w:r>";
  EXPECT_EQ(WordText(Par(TextRun("10") + two + TextRun(" m") + two)), "10² m²\n");
}

// --- files that were made to do harm -------------------------------------------------------------

TEST(ExtractTest, EntitiesAreRefused) {
  std::string xml = "<!DOCTYPE l [<!ENTITY a0 \"ha\">";
  for (int i = 1; i < 10; ++i) {
    const std::string before = "&a" + std::to_string(i - 1) + ";";
    xml += "<!ENTITY a" + std::to_string(i) + " \"" + before + before + before + before + "\">";
  }
  xml += "<!ENTITY file SYSTEM \"file:///etc/passwd\">]><l>&a9;&file;</l>";
  for (const char* const format : {"odt", "ods"}) {
    const std::string text = Read(format, WriteZip({{"content.xml", xml}})).text;
    EXPECT_TRUE(text.starts_with("refused: is damaged: its part content.xml")) << text;
  }
}

TEST(ExtractTest, DeepElementsAreRefused) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<text:section>";
  for (const char* const format : {"odt", "odp", "ods", "docx", "xlsx", "pptx", "epub"}) {
    const std::string text = Read(format, WriteZip({{"content.xml", deep},
                                                    {"_rels/.rels", deep},
                                                    {"META-INF/container.xml", deep}}))
                                 .text;
    EXPECT_TRUE(text.starts_with("refused: is damaged")) << format << text.substr(0, 200);
  }
}

TEST(ExtractTest, ZipFilesUnpackWithinLimits) {
  const std::string bomb = WriteZip({{"content.xml", std::string(32 << 20, '0')}});
  EXPECT_LT(bomb.size(), size_t{1} << 20);
  auto parts = ZipParts::Unpack(bomb, {.most_bytes = 16 << 20});
  ASSERT_FALSE(parts.ok());
  EXPECT_EQ(parts.error().code, LECTERN_LIMIT_EXCEEDED);
  EXPECT_EQ(parts.error().message, "unpacks to more than 16 MiB; split it, or give its text");
  // A zip file inside of one stays packed.
  auto nested = ZipParts::Unpack(WriteZip({{"content.xml", "<a/>"}, {"inner.zip", bomb}}),
                                 {.most_bytes = 1 << 20});
  ASSERT_TRUE(nested.ok());
  EXPECT_FALSE(nested->Find("inner.zip"));
}

TEST(ExtractTest, RowsAndCellsThatRepeatAreBounded) {
  const std::string cell =
      "<table:table-cell table:number-columns-repeated=\"16384\" office:value-type=\"string\">"
      "<text:p>x</text:p></table:table-cell>";
  const std::string xml =
      "<d xmlns:table=\"t\" xmlns:text=\"x\" xmlns:office=\"o\"><table:table table:name=\"S\">"
      "<table:table-row table:number-rows-repeated=\"1048576\">" +
      cell + "</table:table-row><table:table-row table:number-rows-repeated=\"1048576\">" +
      "<table:table-cell table:number-columns-repeated=\"16384\"/></table:table-row>" +
      "</table:table></d>";
  const Extracted read = Read("ods", WriteZip({{"content.xml", xml}}));
  EXPECT_TRUE(read.text.starts_with("# S\n\nx | x | x"));
  EXPECT_LT(read.text.size(), size_t{100'000});
  EXPECT_EQ(read.note, "rows that repeat very often are written 100 times");
}

TEST(ExtractTest, EveryTruncationEnds) {
  for (const char* const name :
       {"lund.docx", "lund.odt", "lund.epub", "lund.pptx", "stock.xlsx", "stock.ods", "mail.eml"}) {
    const std::string file = name, bytes = FileBytes(file);
    const std::string format = file.substr(file.find('.') + 1);
    for (size_t size = 0; size < bytes.size(); size += 97) {
      auto read = Extract(format, bytes.substr(0, size));
      EXPECT_TRUE(read.ok() ? read->text.ends_with('\n') : !read.error().message.empty()) << size;
    }
  }
}

TEST(ExtractTest, OtherFilesAreRefused) {
  for (const char* const format : {"docx", "odt", "pptx", "odp", "xlsx", "ods", "epub"}) {
    EXPECT_TRUE(Read(format, "plain text").text.starts_with("refused: is damaged")) << format;
    EXPECT_TRUE(Read(format, "").text.starts_with("refused: ")) << format;
    EXPECT_TRUE(Read(format, WriteZip({{"a.txt", "x"}})).text.starts_with("refused: ")) << format;
  }
  EXPECT_EQ(Read("exe", "x").text, "refused: has an unknown format");
  EXPECT_EQ(Read("odt", WriteZip({{"content.xml", "<a/>"}})).text, "refused: has no text in it");
  EXPECT_EQ(Read("odt", WriteZip({{"content.xml", "<a/>"},
                                  {"META-INF/manifest.xml", "<m><encryption-data/></m>"}}))
                .text,
            "refused: asks for a password; save it without one");
}

}  // namespace
}  // namespace lectern::tools
