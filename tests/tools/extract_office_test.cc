// Office files that were made here, part by part, for what is beside their running text: graphics,
// formulas, hidden cells, notes of what was left out. Expected texts are what LibreOffice or Word
// shows, in the form of html.h.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/tools/zip_writer.h"
#include "tools/ingest/extract/extract.h"

namespace lectern::tools {
namespace {

using Parts = std::vector<std::pair<std::string, std::string>>;

std::string Relations(const std::string& entries) {
  return "<Relationships>" + entries + "</Relationships>";
}
std::string Relation(const std::string& id, const std::string& type, const std::string& target) {
  return "<Relationship Id='" + id + "' Type='x/" + type + "' Target='" + target + "'/>";
}

Extracted ReadParts(std::string_view format, const std::string& main_part, Parts parts) {
  parts.emplace_back("_rels/.rels", Relations(Relation("m", "officeDocument", main_part)));
  auto extracted = Extract(format, WriteZip(parts));
  if (extracted.ok()) return *extracted;
  Extracted refused;
  refused.text = "refused: " + extracted.error().message;
  return refused;
}

// A Word document with this body, and parts that it refers to.
Extracted Word(const std::string& body, const std::string& relations = "", Parts parts = {}) {
  parts.emplace_back("d.xml",
                     "<w:document xmlns:w='w' xmlns:m='m' xmlns:r='x/relationships' xmlns:a='a' "
                     "xmlns:c='c' xmlns:wp='wp'><w:body>" +
                         body + "</w:body></w:document>");
  parts.emplace_back("_rels/d.xml.rels", Relations(relations));
  return ReadParts("docx", "d.xml", std::move(parts));
}
std::string Words(const std::string& text, const std::string& properties = "") {
  return "<w:r><w:rPr>" + properties + "</w:rPr><w:t>" + text + "</w:t></w:r>";
}
std::string Block(const std::string& inside, const std::string& properties = "") {
  return "<w:p><w:pPr>" + properties + "</w:pPr>" + inside + "</w:p>";
}

TEST(OfficeTest, DescriptionsOfImagesAreText) {
  const auto image = [](const std::string& attributes, const std::string& inside = "") {
    return "<w:r><w:drawing><wp:inline><wp:positionH><wp:posOffset>914400</wp:posOffset>"
           "</wp:positionH><wp:docPr id='1' name='Picture 1' " +
           attributes + ">" + inside + "</wp:docPr></wp:inline></w:drawing></w:r>";
  };
  EXPECT_EQ(Word(Block(Words("See ") + image("descr='A pump on a red base'") + Words("here.")) +
                 Block(image("descr='A dog&#10;&#10;Description automatically generated'")) +
                 Block(image("title='Map' descr='The river Osk'")))
                .text,
            "See [Image: A pump on a red base] here.\n\n[Image: A dog]\n\n"
            "[Image: Map: The river Osk]\n");
  EXPECT_EQ(Word(Block(Words("a") + image("descr=''") + image("descr='image2.png'") +
                       image("descr='Picture 2'") +
                       image("descr='A line'",
                             "<a:extLst><a:ext><a:decorative val='1'/></a:ext>"
                             "</a:extLst>")))
                .text,
            "a\n");
}

TEST(OfficeTest, StylesHideText) {
  const std::string styles =
      "<w:styles xmlns:w='w'><w:style w:type='paragraph' "
      "w:styleId='Base'><w:rPr><w:vanish/></w:rPr>"
      "</w:style><w:style w:type='paragraph' w:styleId='Sub'><w:basedOn w:val='Base'/></w:style>"
      "<w:style w:type='character' w:styleId='Key'><w:rPr><w:vanish/></w:rPr></w:style></w:styles>";
  EXPECT_EQ(
      Word(Block(Words("no") + Words("shown", "<w:vanish w:val='0'/>"), "<w:pStyle w:val='Sub'/>") +
               Block(Words("a") + Words("no", "<w:rStyle w:val='Key'/>") + Words("b")),
           Relation("s", "styles", "s.xml"), {{"s.xml", styles}})
          .text,
      "shown\n\nab\n");
}

TEST(OfficeTest, FormulasInALine) {
  const auto run = [](const std::string& text) { return "<m:r><m:t>" + text + "</m:t></m:r>"; };
  const std::string fraction = "<m:f><m:fPr><m:type m:val='bar'/></m:fPr><m:num>" + run("a+b") +
                               "</m:num><m:den>" + run("c") + "</m:den></m:f>";
  const std::string power =
      "<m:sSup><m:e>" + run("x") + "</m:e><m:sup>" + run("2") + "</m:sup></m:sSup>";
  const std::string sum = "<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:sub>" + run("i=1") +
                          "</m:sub><m:sup>" + run("n") + "</m:sup><m:e>" + run("i") +
                          "</m:e></m:nary>";
  EXPECT_EQ(Word(Block(Words("So ") + "<m:oMath>" + power + run("=") + fraction + "</m:oMath>") +
                 "<m:oMathPara><m:oMath>" + sum + "</m:oMath></m:oMathPara>")
                .text,
            "So x²=(a+b)/c\n\n∑_(i=1)^n i\n");
}

TEST(OfficeTest, SymbolsAndFieldsOfForms) {
  EXPECT_EQ(
      Word(
          Block("<w:r><w:sym w:font='Wingdings' w:char='F0FC'/><w:sym w:font='Symbol' "
                "w:char='F061'/><w:sym w:font='Unknown' w:char='F061'/></w:r>" +
                Words(" ") +
                "<w:r><w:fldChar><w:ffData><w:checkBox><w:default w:val='0'/><w:checked/>"
                "</w:checkBox></w:ffData></w:fldChar></w:r>" +
                Words(" yes ") +
                "<w:r><w:fldChar><w:ffData><w:ddList><w:result w:val='1'/><w:listEntry "
                "w:val='red'/><w:listEntry w:val='blue'/></w:ddList></w:ffData></w:fldChar></w:r>"))
          .text,
      "✓α ☒ yes blue\n");
}

TEST(OfficeTest, ListsWhoseStyleIsDefinedElsewhere) {
  const std::string numbering =
      "<w:numbering xmlns:w='w'><w:abstractNum w:abstractNumId='1'><w:numStyleLink w:val='Own'/>"
      "</w:abstractNum><w:abstractNum w:abstractNumId='2'><w:styleLink w:val='Own'/>"
      "<w:lvl w:ilvl='0'><w:start w:val='3'/><w:numFmt w:val='upperRoman'/>"
      "<w:lvlText w:val='%1)'/></w:lvl></w:abstractNum><w:num w:numId='5'><w:abstractNumId "
      "w:val='1'/></w:num></w:numbering>";
  const std::string item = "<w:numPr><w:ilvl w:val='0'/><w:numId w:val='5'/></w:numPr>";
  EXPECT_EQ(Word(Block(Words("a"), item) + Block(Words("b"), item),
                 Relation("n", "numbering", "n.xml"), {{"n.xml", numbering}})
                .text,
            "III) a\nIV) b\n");
}

constexpr char kChart[] =
    "<c:chartSpace xmlns:c='c' xmlns:a='a'><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Sales"
    "</a:t></a:r></a:p></c:rich></c:tx></c:title><c:plotArea><c:barChart><c:ser><c:tx><c:strRef>"
    "<c:strCache><c:pt idx='0'><c:v>North</c:v></c:pt></c:strCache></c:strRef></c:tx><c:cat>"
    "<c:strRef><c:strCache><c:pt idx='0'><c:v>2023</c:v></c:pt><c:pt idx='1'><c:v>2024</c:v></c:pt>"
    "</c:strCache></c:strRef></c:cat><c:val><c:numRef><c:numCache><c:formatCode>0%</c:formatCode>"
    "<c:pt idx='0'><c:v>0.25</c:v></c:pt><c:pt "
    "idx='1'><c:v>0.5</c:v></c:pt></c:numCache></c:numRef>"
    "</c:val></c:ser></c:barChart><c:valAx><c:title><c:tx><c:rich><a:p><a:r><a:t>Share</a:t></a:r>"
    "</a:p></c:rich></c:tx></c:title></c:valAx></c:plotArea></c:chart></c:chartSpace>";

TEST(OfficeTest, ChartsAndDiagramsBehindTheirParagraph) {
  const auto graphic = [](const std::string& inside) {
    return "<w:r><w:drawing><a:graphic><a:graphicData>" + inside +
           "</a:graphicData></a:graphic></w:drawing></w:r>";
  };
  const std::string diagram =
      "<d:dataModel xmlns:d='d' "
      "xmlns:a='a'><d:ptLst><d:pt><d:t><a:p><a:r><a:t>Plan</a:t></a:r></a:p>"
      "</d:t></d:pt><d:pt "
      "type='pres'/><d:pt><d:t><a:p><a:r><a:t>Build</a:t></a:r></a:p></d:t></d:pt>"
      "</d:ptLst></d:dataModel>";
  EXPECT_EQ(Word(Block(Words("As shown:") + graphic("<c:chart r:id='c'/>")) +
                     Block(graphic("<a:relIds r:dm='g'/>")),
                 Relation("c", "chart", "c.xml") + Relation("g", "diagramData", "g.xml"),
                 {{"c.xml", kChart}, {"g.xml", diagram}})
                .text,
            "As shown:\n\nSales (Share)\n\n| North\n2023 | 25%\n2024 | 50%\n\n- Plan\n- Build\n");
}

TEST(OfficeTest, AFileThatIsCutOffSaysThatPartsAreMissing) {
  const Parts parts = {{"_rels/.rels", Relations(Relation("m", "officeDocument", "d.xml"))},
                       {"d.xml", "<w:document xmlns:w='w'><w:body>" + Block(Words("Text")) +
                                     "</w:body></w:document>"},
                       {"_rels/d.xml.rels", Relations(Relation("f", "footnotes", "f.xml"))},
                       {"f.xml", "<w:footnotes xmlns:w='w'/>"}};
  const std::string zip = WriteZip(parts);
  auto whole = Extract("docx", zip);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_EQ(whole->note, "");
  // In the header of the last part, and in the directory.
  for (const std::string_view mark : {"PK\3\4", "PK\1\2"}) {
    const size_t cut = (mark[2] == 3 ? zip.rfind(mark) : zip.find(mark)) + 20;
    auto read = Extract("docx", zip.substr(0, cut));
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->text, "Text\n");
    EXPECT_EQ(read->note, "the file is cut off, so that parts of it may be missing");
  }
}

TEST(OfficeTest, PartsAreFoundByWindowsSeparatorAndTheFirstMainPartThatIsThereCounts) {
  auto read = Extract(
      "docx", WriteZip({{"_rels/.rels", Relations(Relation("a", "officeDocument", "word\\d.xml") +
                                                  Relation("b", "officeDocument", "gone.xml"))},
                        {"word/d.xml", "<w:document xmlns:w='w'><w:body>" +
                                           Block(Words("Title"), "<w:pStyle w:val='H'/>") +
                                           "</w:body></w:document>"},
                        {"word/_rels/d.xml.rels", Relations(Relation("s", "styles", "styles.xml"))},
                        {"word/styles.xml",
                         "<w:styles xmlns:w='w'><w:style w:type='paragraph' "
                         "w:styleId='H'><w:name w:val='heading 1'/></w:style>"
                         "</w:styles>"}}));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->text, "# Title\n");
}

TEST(OfficeTest, CommentsAreCountedAndPagesInsideAreRead) {
  const Extracted read =
      Word(Block(Words("Text")) + "<w:altChunk r:id='h'/><w:altChunk r:id='x'/>",
           Relation("c", "comments", "c.xml") + Relation("h", "aFChunk", "h.html") +
               Relation("x", "aFChunk", "x.docx"),
           {{"c.xml", "<w:comments xmlns:w='w'><w:comment><w:p/></w:comment></w:comments>"},
            {"h.html", "<html><body><h1>In</h1><p>side</p></body></html>"}});
  EXPECT_EQ(read.text, "Text\n\n# In\n\nside\n");
  EXPECT_EQ(read.note, "1 embedded document is not read; 1 comment is left out");
}

TEST(OfficeTest, DocumentsInsideOfDocumentsAreRead) {
  const auto with = [](const std::string& name, const std::string& bytes) {
    return Word(Block(Words("Text")) + "<w:altChunk r:id='h'/>", Relation("h", "aFChunk", name),
                {{name, bytes}});
  };
  EXPECT_EQ(with("h.mht",
                 "MIME-Version: 1.0\nContent-Type: multipart/related; type=\"text/html\"; "
                 "boundary=b\n\n--b\nContent-Type: text/html\n\n<h1>In</h1><p>side</p>\n--b--\n")
                .text,
            "Text\n\n# In\n\nside\n");
  EXPECT_EQ(with("h.txt", "side").text, "Text\n\nside\n");
  const auto document = [](const std::string& body, Parts parts) {
    parts.emplace_back("_rels/.rels", Relations(Relation("m", "officeDocument", "d.xml")));
    parts.emplace_back("d.xml", "<w:document xmlns:w='w' xmlns:r='x/relationships'><w:body>" +
                                    Block(Words(body)) +
                                    "<w:altChunk r:id='h'/></w:body></w:document>");
    parts.emplace_back("_rels/d.xml.rels", Relations(Relation("h", "aFChunk", "h.docx")));
    return WriteZip(parts);
  };
  EXPECT_EQ(with("h.docx", document("side", {})).text, "Text\n\nside\n");
  // Documents in documents in documents are not read.
  EXPECT_EQ(with("h.docx", document("side", {{"h.docx", document("deep", {})}})).text,
            "Text\n\nside\n");
}

// A presentation with one slide of these shapes.
Extracted Slide(const std::string& shapes, const std::string& relations = "", Parts parts = {}) {
  const std::string spaces = " xmlns:p='p' xmlns:a='a' xmlns:c='c' xmlns:r='x/relationships'";
  parts.emplace_back("p.xml", "<p:presentation" + spaces +
                                  "><p:sldIdLst><p:sldId r:id='s'/></p:sldIdLst></p:presentation>");
  parts.emplace_back("_rels/p.xml.rels", Relations(Relation("s", "slide", "s.xml")));
  parts.emplace_back(
      "s.xml", "<p:sld" + spaces + "><p:cSld><p:spTree>" + shapes + "</p:spTree></p:cSld></p:sld>");
  parts.emplace_back("_rels/s.xml.rels", Relations(relations));
  return ReadParts("pptx", "p.xml", std::move(parts));
}
std::string Shape(const std::string& properties, const std::string& paragraphs) {
  return "<p:sp><p:nvSpPr><p:cNvPr " + properties + "/></p:nvSpPr><p:txBody>" + paragraphs +
         "</p:txBody></p:sp>";
}
std::string Bullet(const std::string& properties, const std::string& text) {
  return "<a:p><a:pPr>" + properties + "</a:pPr><a:r><a:t>" + text + "</a:t></a:r></a:p>";
}

TEST(OfficeTest, ShapesOfSlides) {
  const std::string lettered = "<a:buAutoNum type='alphaLcParenR' startAt='3'/>";
  EXPECT_EQ(Slide(Shape("id='1'", Bullet(lettered, "x") + Bullet(lettered, "y")) +
                  Shape("id='2' hidden='1'", Bullet("", "no")) +
                  "<p:pic><p:nvPicPr><p:cNvPr name='Picture 3' descr='The mill in 1901'/>"
                  "</p:nvPicPr></p:pic>" +
                  Shape("id='4'",
                        "<a:p><a:r><a:t>10</a:t></a:r><a:r><a:rPr baseline='30000'/>"
                        "<a:t>6</a:t></a:r></a:p>"))
                .text,
            "c) x\nd) y\n\n[Image: The mill in 1901]\n\n10⁶\n");
}

TEST(OfficeTest, TheTitleOfASlideWithoutAPlaceholderIsTheLineOnTop) {
  const auto box = [](int top, int size, const std::string& text) {
    const std::string letters = size > 0 ? "<a:rPr sz='" + std::to_string(size) + "'/>" : "";
    return "<p:sp><p:nvSpPr><p:cNvPr/></p:nvSpPr><p:spPr><a:xfrm><a:off x='0' y='" +
           std::to_string(top) + "'/><a:ext cx='9' cy='100'/></a:xfrm></p:spPr><p:txBody>" +
           "<a:p><a:r>" + letters + "<a:t>" + text + "</a:t></a:r></a:p></p:txBody></p:sp>";
  };
  EXPECT_EQ(Slide(box(200, 1800, "Built in 1871.") + box(10, 2800, "The mill")).text,
            "# The mill\n\nBuilt in 1871.\n");
  // Smaller letters, a line beside others, a text that stands alone, a slide with a title.
  EXPECT_EQ(Slide(box(200, 2800, "Large") + box(10, 900, "Small")).text, "Large\n\nSmall\n");
  EXPECT_EQ(Slide(box(50, 0, "Right") + box(10, 0, "Left")).text, "Right\n\nLeft\n");
  EXPECT_EQ(Slide(box(10, 0, "Alone")).text, "Alone\n");
  EXPECT_EQ(Slide("<p:graphicFrame><p:xfrm><a:off x='0' y='90'/><a:ext cx='9' cy='9'/></p:xfrm>"
                  "<a:graphic><a:graphicData><c:chart r:id='c'/></a:graphicData></a:graphic>"
                  "</p:graphicFrame>" +
                      box(10, 0, "Shares"),
                  Relation("c", "chart", "c.xml"), {{"c.xml", kChart}})
                .text,
            "# Shares\n\nSales (Share)\n\n| North\n2023 | 25%\n2024 | 50%\n");
  const std::string title =
      "<p:sp><p:nvSpPr><p:cNvPr/><p:nvPr><p:ph type='title'/></p:nvPr></p:nvSpPr><p:txBody>" +
      Bullet("", "Title") + "</p:txBody></p:sp>";
  EXPECT_EQ(Slide(box(10, 0, "Top") + title + box(300, 0, "Text")).text,
            "# Title\n\nTop\n\nText\n");
}

TEST(OfficeTest, TablesAndChartsOfSlides) {
  const auto cell = [](const std::string& attributes, const std::string& text) {
    return "<a:tc " + attributes + "><a:txBody>" + Bullet("", text) + "</a:txBody></a:tc>";
  };
  const auto frame = [](const std::string& data) {
    return "<p:graphicFrame><a:graphic><a:graphicData>" + data +
           "</a:graphicData></a:graphic></p:graphicFrame>";
  };
  EXPECT_EQ(
      Slide(frame("<a:tbl><a:tr>" + cell("rowSpan='2'", "North") + cell("", "Osk") +
                  "</a:tr><a:tr>" + cell("vMerge='1'", "") + cell("", "Lund") + "</a:tr></a:tbl>") +
                frame("<c:chart r:id='c'/>"),
            Relation("c", "chart", "c.xml"), {{"c.xml", kChart}})
          .text,
      "North | Osk\nNorth | Lund\n\nSales (Share)\n\n| North\n2023 | 25%\n2024 | 50%\n");
}

// A workbook with one sheet.
Extracted Sheet(const std::string& inside, const std::string& relations = "", Parts parts = {}) {
  const std::string spaces = " xmlns='s' xmlns:r='x/relationships'";
  parts.emplace_back(
      "b.xml", "<workbook" + spaces + "><sheets><sheet name='S' r:id='s'/></sheets></workbook>");
  parts.emplace_back("_rels/b.xml.rels", Relations(Relation("s", "worksheet", "s.xml")));
  parts.emplace_back("s.xml", "<worksheet" + spaces + ">" + inside + "</worksheet>");
  parts.emplace_back("_rels/s.xml.rels", Relations(relations));
  return ReadParts("xlsx", "b.xml", std::move(parts));
}
std::string SheetRow(const std::string& attributes, const std::vector<std::string>& values) {
  std::string row = "<row " + attributes + ">";
  for (const std::string& value : values) row += "<c><v>" + value + "</v></c>";
  return row + "</row>";
}

TEST(OfficeTest, RowsAndColumnsHiddenByHandAreLeftOutAndCounted) {
  const std::string rows =
      "<cols><col min='2' max='3' hidden='1'/><col min='4' max='4' hidden='1' "
      "outlineLevel='1'/></cols><sheetData>" +
      SheetRow("", {"1", "2", "3", "4", "5"}) + SheetRow("hidden='1'", {"6", "7", "8", "9", "10"}) +
      SheetRow("hidden='1' outlineLevel='1'", {"11", "12", "13", "14", "15"}) + "</sheetData>";
  const Extracted read = Sheet(rows);
  EXPECT_EQ(read.text, "# S\n\n1 | 4 | 5\n11 | 14 | 15\n");
  EXPECT_EQ(read.note, "1 hidden row and 2 hidden columns are left out");
  EXPECT_EQ(
      Sheet(SheetRow("", {"1"}) + "<row><c><f>A1</f></c></row>", Relation("c", "comments", "c.xml"),
            {{"c.xml", "<comments><commentList><comment/><comment/></commentList></comments>"}})
          .note,
      "2 comments are left out; 1 formula is without a stored value: open and save the file in a "
      "spreadsheet program");
  // A filter hides rows too, which are still in the table.
  EXPECT_EQ(Sheet(rows + "<autoFilter ref='A1:E3'><filterColumn colId='0'/></autoFilter>").text,
            "# S\n\n1 | 4 | 5\n6 | 9 | 10\n11 | 14 | 15\n");
  EXPECT_EQ(Sheet(rows, Relation("t", "table", "t.xml"),
                  {{"t.xml", "<table><autoFilter><filterColumn/></autoFilter></table>"}})
                .text,
            "# S\n\n1 | 4 | 5\n6 | 9 | 10\n11 | 14 | 15\n");
}

TEST(OfficeTest, TextBoxesOverSheetsAreRead) {
  const std::string shapes =
      "<xdr:twoCellAnchor><xdr:grpSp><xdr:sp><xdr:nvSpPr><xdr:cNvPr id='1' descr='A note'/>"
      "</xdr:nvSpPr><xdr:txBody><a:p><a:r><a:t>Prices </a:t></a:r><a:r><a:t>in "
      "EUR</a:t></a:r></a:p>"
      "<a:p><a:r><a:t>without VAT</a:t></a:r></a:p></xdr:txBody></xdr:sp></xdr:grpSp>"
      "<xdr:sp><xdr:nvSpPr><xdr:cNvPr id='2' hidden='1'/></xdr:nvSpPr><xdr:txBody><a:p><a:r>"
      "<a:t>no</a:t></a:r></a:p></xdr:txBody></xdr:sp>"
      "<xdr:pic><xdr:nvPicPr><xdr:cNvPr id='3' descr='The mill in 1901'/></xdr:nvPicPr></xdr:pic>"
      "</xdr:twoCellAnchor>";
  EXPECT_EQ(Sheet("<sheetData>" + SheetRow("", {"1", "2"}) + "</sheetData>",
                  Relation("d", "drawing", "g.xml"),
                  {{"g.xml", "<xdr:wsDr xmlns:xdr='x' xmlns:a='a'>" + shapes + "</xdr:wsDr>"}})
                .text,
            "# S\n\n1 | 2\n\nPrices in EUR\nwithout VAT\n\n[Image: The mill in 1901]\n");
  const auto frame = [](const std::string& text) {
    return "<draw:frame><draw:text-box><text:p>" + text + "</text:p></draw:text-box></draw:frame>";
  };
  auto read = Extract(
      "ods",
      "<?xml version=\"1.0\"?><office:document xmlns:office='o' xmlns:text='t' xmlns:table='b' "
      "xmlns:draw='d'><office:body><office:spreadsheet><table:table table:name='S'><table:shapes>" +
          frame("Prices in EUR") +
          "</table:shapes><table:table-row><table:table-cell><text:p>1"
          "</text:p>" +
          frame("rounded") +
          "</table:table-cell><table:table-cell><text:p>2</text:p>"
          "</table:table-cell></table:table-row></table:table><table:table table:name='T'/>"
          "</office:spreadsheet></office:body></office:document>");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->text, "# S\n\n1 | 2\n\nPrices in EUR\n\nrounded\n\n# T\n");
}

// As people read the merged cells that LibreOffice shows.
TEST(OfficeTest, NamesOfColumnsInTwoRows) {
  const auto texts = [](const std::vector<std::pair<char, std::string>>& cells, int row) {
    std::string xml = "<row>";
    for (const auto& [column, text] : cells)
      xml += "<c t='str' r='" + std::string(1, column) + std::to_string(row) + "'><v>" + text +
             "</v></c>";
    return xml + "</row>";
  };
  const std::string names = texts({{'A', "Item"}, {'B', "2023"}, {'D', "2024"}}, 1) +
                            texts({{'B', "Q1"}, {'C', "Q2"}, {'D', "Q1"}, {'E', "Q2"}}, 2);
  const std::string merged =
      "</sheetData><mergeCells><mergeCell ref='A1:A2'/><mergeCell ref='B1:C1'/>"
      "<mergeCell ref='D1:E1'/><mergeCell ref='B4:C4'/></mergeCells>";
  EXPECT_EQ(Sheet("<sheetData>" + names + SheetRow("r='3'", {"7", "1", "2", "3", "4"}) +
                  texts({{'A', "Valve"}, {'B', "none"}}, 4) + merged)
                .text,
            "# S\n\nItem | 2023 Q1 | 2023 Q2 | 2024 Q1 | 2024 Q2\n"
            "Item: 7 | 2023 Q1: 1 | 2023 Q2: 2 | 2024 Q1: 3 | 2024 Q2: 4\n"
            "Item: Valve | 2023 Q1: none | 2023 Q2: none\n");
  // A cell that spans rows and columns is the name of each of the columns.
  EXPECT_EQ(Sheet("<sheetData>" + texts({{'A', "Asked in May"}, {'C', "All"}, {'D', "Sex"}}, 1) +
                  texts({{'D', "Men"}, {'E', "Women"}}, 2) +
                  "<row><c t='str' r='A3'><v>Happy?</v></c><c t='str' r='B3'><v>Yes</v></c>"
                  "<c r='C3'><v>7</v></c><c r='D3'><v>3</v></c><c r='E3'><v>4</v></c></row>"
                  "</sheetData><mergeCells><mergeCell ref='A1:B2'/><mergeCell ref='C1:C2'/>"
                  "<mergeCell ref='D1:E1'/></mergeCells>")
                .text,
            "# S\n\nAsked in May | Asked in May | All | Sex Men | Sex Women\n"
            "Asked in May: Happy? | Asked in May: Yes | All: 7 | Sex Men: 3 | Sex Women: 4\n");
  // Questions and answers of a form, of which one spans columns, are no names in two rows.
  EXPECT_EQ(Sheet("<sheetData>" + texts({{'A', "State"}, {'B', "Measure"}, {'D', "Year"}}, 1) +
                  texts({{'A', "Ohio"}, {'B', "Days"}, {'D', "all"}}, 2) +
                  SheetRow("r='3'", {"1", "2", "3", "4"}) +
                  "</sheetData><mergeCells><mergeCell ref='B1:C1'/><mergeCell ref='B2:C2'/>"
                  "</mergeCells>")
                .text,
            "# S\n\nState | Measure | Measure | Year\n"
            "State: Ohio | Measure: Days | Year: all\n"
            "State: 1 | Measure: 2 | Measure: 3 | Year: 4\n");
  // A title over the whole table is said once.
  EXPECT_EQ(Sheet("<sheetData>" + texts({{'A', "Sales"}}, 1) +
                  texts({{'A', "Item"}, {'B', "Price"}, {'C', "Stock"}}, 2) +
                  SheetRow("r='3'", {"7", "1", "2"}) +
                  "</sheetData><mergeCells><mergeCell ref='A1:C1'/></mergeCells>")
                .text,
            "# S\n\nSales\nItem | Price | Stock\nItem: 7 | Price: 1 | Stock: 2\n");
}

TEST(OfficeTest, HiddenRowsOfOpenDocument) {
  const auto row = [](const std::string& attributes, const std::string& first) {
    return "<t:table-row " + attributes + "><t:table-cell><x:p>" + first +
           "</x:p></t:table-cell><t:table-cell><x:p>b</x:p></t:table-cell><t:table-cell><x:p>c</"
           "x:p>"
           "</t:table-cell></t:table-row>";
  };
  const std::string content =
      "<?xml version='1.0'?><o:document xmlns:o='o' xmlns:t='t' xmlns:x='x'><o:body><o:spreadsheet>"
      "<t:table t:name='S'><t:table-column/><t:table-column t:visibility='collapse'/>"
      "<t:table-column t:number-columns-repeated='9'/>" +
      row("", "1") + row("t:visibility='collapse'", "2") + row("t:visibility='filter'", "3") +
      "<t:table-row-group t:display='false'>" + row("t:visibility='collapse'", "4") +
      "</t:table-row-group></t:table></o:spreadsheet></o:body></o:document>";
  auto read = Extract("ods", content);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->text, "# S\n\n1 | c\n3 | c\n4 | c\n");
  EXPECT_EQ(read->note, "1 hidden row and 1 hidden column are left out");
}

// --- OpenDocument texts
// ----------------------------------------------------------------------------

// A text with these styles and this body, and parts that it refers to.
Extracted OpenText(const std::string& body, const std::string& styles = "", Parts parts = {}) {
  parts.emplace_back("content.xml",
                     "<o:document-content xmlns:o='o' xmlns:t='t' xmlns:d='d' xmlns:v='v' "
                     "xmlns:s='s' xmlns:b='b' xmlns:l='l'><o:automatic-styles>" +
                         styles + "</o:automatic-styles><o:body><o:text>" + body +
                         "</o:text></o:body></o:document-content>");
  auto extracted = Extract("odt", WriteZip(parts));
  if (extracted.ok()) return *extracted;
  Extracted refused;
  refused.text = "refused: " + extracted.error().message;
  return refused;
}

TEST(OfficeTest, DescriptionsOfImagesInOpenDocument) {
  const auto frame = [](const std::string& attributes, const std::string& inside) {
    return "<t:p>See<d:frame " + attributes + "><d:image l:href='Pictures/1.png'/>" + inside +
           "</d:frame></t:p>";
  };
  EXPECT_EQ(OpenText(frame("", "<v:title>Mill</v:title><v:desc>A mill by the river</v:desc>") +
                     frame("", "<v:title>image1.png</v:title>") +
                     frame("l:decorative='true'", "<v:desc>A line of gold</v:desc>"))
                .text,
            "See\n\n[Image: Mill: A mill by the river]\n\nSee\n\nSee\n");
}

TEST(OfficeTest, FormulasAndChartsInOpenDocument) {
  const std::string formula =
      "<?xml version='1.0'?><math xmlns='http://www.w3.org/1998/Math/MathML'><semantics><mrow>"
      "<mi>E</mi><mo>=</mo><mi>m</mi><msup><mi>c</mi><mn>2</mn></msup></mrow>"
      "<annotation encoding='StarMath 5.0'>E = m c^2</annotation></semantics></math>";
  const std::string chart =
      "<o:document-content xmlns:o='o' xmlns:c='c' xmlns:t='t' "
      "xmlns:b='b'><o:body><o:chart><c:chart>"
      "<c:title><t:p>Sales</t:p></"
      "c:title><b:table><b:table-rows><b:table-row><b:table-cell><t:p>2023"
      "</t:p></b:table-cell><b:table-cell><t:p>7</t:p></b:table-cell></b:table-row></b:table-rows>"
      "</b:table></c:chart></o:chart></o:body></o:document-content>";
  EXPECT_EQ(OpenText("<t:p>So <d:frame><d:object l:href='./Object 1'/></d:frame>.</t:p><t:p>"
                     "<d:frame><d:object l:href='./Object%202'/></d:frame></t:p>",
                     "", {{"Object 1/content.xml", formula}, {"Object 2/content.xml", chart}})
                .text,
            "So E = mc².\n\nSales\n\n2023 | 7\n");
}

TEST(OfficeTest, ParentsOfStylesHide) {
  EXPECT_EQ(OpenText("<t:p>a<o:annotation><t:p>Why?</t:p></o:annotation>b</t:p>").note,
            "1 comment is left out");
  EXPECT_EQ(
      OpenText("<t:p t:style-name='B'>no</t:p><t:p t:style-name='C'>yes</t:p>",
               "<s:style s:name='A' s:family='paragraph'><s:text-properties t:display='none'/>"
               "</s:style><s:style s:name='B' s:family='paragraph' s:parent-style-name='A'/>"
               "<s:style s:name='C' s:family='paragraph' s:parent-style-name='B'>"
               "<s:text-properties t:display='true'/></s:style>")
          .text,
      "yes\n");
}

TEST(OfficeTest, CellsThatSpanColumnsInOpenDocument) {
  EXPECT_EQ(OpenText("<b:table><b:table-row><b:table-cell b:number-rows-spanned='2'><t:p>Item</t:p>"
                     "</b:table-cell><b:table-cell b:number-columns-spanned='2'><t:p>2024</t:p>"
                     "</b:table-cell><b:covered-table-cell/></b:table-row><b:table-row>"
                     "<b:covered-table-cell/><b:table-cell><t:p>Q1</t:p></b:table-cell>"
                     "<b:table-cell><t:p>Q2</t:p></b:table-cell></b:table-row></b:table>")
                .text,
            "Item | 2024 | 2024\nItem | Q1 | Q2\n");
}

TEST(OfficeTest, LayoutsAreNoTables) {
  std::string cell = "<b:table-cell>";
  for (int i = 0; i < 9; ++i) cell += "<t:p>Line</t:p>";
  cell += "</b:table-cell>";
  const std::string text = OpenText("<b:table><b:table-row>" + cell +
                                    "<b:table-cell><t:p>Side</t:p></b:table-cell>"
                                    "</b:table-row></b:table>")
                               .text;
  EXPECT_TRUE(text.starts_with("Line\n\nLine\n")) << text;
  EXPECT_TRUE(text.ends_with("Line\n\nSide\n")) << text;
}

// A row with a table or a long text in a cell does not part the rows around it.
TEST(OfficeTest, RowsOfLayoutsLeaveTheOthersAsTheyAre) {
  const auto row = [](const std::string& first, const std::string& second) {
    return "<w:tr><w:tc>" + first + "</w:tc><w:tc>" + second + "</w:tc></w:tr>";
  };
  const auto cell = [](const std::string& text) { return Block(Words(text)); };
  const std::string rows = row(cell("Day"), cell("Hours")) + row(cell("Monday"), cell("8 to 12"));
  const std::string inner = "<w:tbl>" + row(cell("Winter"), cell("closed")) + "</w:tbl>";
  EXPECT_EQ(Word("<w:tbl>" + rows + row(cell("Sunday"), inner) + "</w:tbl>").text,
            "Day | Hours\nMonday | 8 to 12\n\nSunday\n\nWinter | closed\n");
  // Half of the rows: a layout. A cell that is the only one of its row holds paragraphs.
  EXPECT_EQ(Word("<w:tbl>" + row(cell("a"), cell("b")) + row(cell("c"), inner) + "</w:tbl>").text,
            "a\n\nb\n\nc\n\nWinter | closed\n");
  EXPECT_EQ(Word("<w:tbl>" + rows + "<w:tr><w:tc>" + cell("One.") + cell("Two.") +
                 "</w:tc></w:tr></w:tbl>")
                .text,
            "Day | Hours\nMonday | 8 to 12\n\nOne.\n\nTwo.\n");
  const auto open_cell = [](const std::string& inside) {
    return "<b:table-cell>" + inside + "</b:table-cell>";
  };
  const auto open_row = [&](const std::string& first, const std::string& second) {
    return "<b:table-row>" + open_cell(first) + open_cell(second) + "</b:table-row>";
  };
  EXPECT_EQ(OpenText("<b:table>" + open_row("<t:p>Day</t:p>", "<t:p>Hours</t:p>") +
                     open_row("<t:p>Monday</t:p>", "<t:p>8 to 12</t:p>") +
                     open_row("<t:p>Sunday</t:p>",
                              "<b:table>" + open_row("<t:p>Winter</t:p>", "<t:p>closed</t:p>") +
                                  "</b:table>") +
                     "</b:table>")
                .text,
            "Day | Hours\nMonday | 8 to 12\n\nSunday\n\nWinter | closed\n");
}

}  // namespace
}  // namespace lectern::tools
