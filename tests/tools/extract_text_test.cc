// CSV, numbers of cells, notebooks, manual pages, and the way from lectern-extract to Ingest.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/system_differences.h"
#include "tests/tools/zip_writer.h"
#include "tools/find_program.h"
#include "tools/ingest/extract/cell_format.h"
#include "tools/ingest/extract/extract.h"
#include "tools/ingest/extract/zip_parts.h"
#include "tools/ingest/extracted.h"
#include "tools/ingest/html.h"
#include "tools/ingest/ingest.h"
#include "tools/ingest/list_numbers.h"
#include "tools/ingest/old_word.h"
#include "tools/ingest/package_format.h"
#include "tools/ingest/rtf.h"
#include "tools/ingest/rtf_filter.h"

namespace lectern::tools {
namespace {

constexpr char kProgram[] = LECTERN_EXTRACT;

std::string FileBytes(const std::string& name) {
  std::ifstream file(LECTERN_SOURCE_DIR "/tests/tools/extract_files/" + name, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

std::string Text(std::string_view format, const std::string& bytes) {
  auto extracted = Extract(format, bytes);
  return extracted.ok() ? extracted->text : "refused: " + extracted.error().message;
}

// --- rows ----------------------------------------------------------------------------------------

TEST(CsvTest, DelimitersAreFound) {
  for (const std::string d : {",", ";", "\t", "|"}) {
    EXPECT_EQ(Text("csv", "Name" + d + "Age\r\nAda" + d + "36\r\nBo" + d + "41\r\n"),
              "Name | Age\nName: Ada | Age: 36\nName: Bo | Age: 41\n");
  }
  EXPECT_EQ(Text("csv", "sep=;\nName;Note;Age\nAda;a,b,c;36\n"),
            "Name | Note | Age\nName: Ada | Note: a,b,c | Age: 36\n");
  EXPECT_EQ(Text("tsv", "Name\tAge\nA, B; C\t36\n"), "Name | Age\nName: A, B; C | Age: 36\n");
}

TEST(CsvTest, QuotesAreThoseOfRfc4180) {
  EXPECT_EQ(Text("csv", "Name,Say,Age\n\"Brok, Ada\",\"\"\"Hi\"\",\nshe said\",36\n"),
            "Name | Say | Age\nName: Brok, Ada | Say: \"Hi\", she said | Age: 36\n");
  // Quotes that nothing closes are characters.
  EXPECT_EQ(Text("csv", "Pipe,Inch\nA,\"5\nB,6\n"),
            "Pipe | Inch\nPipe: A | Inch: \"5\nPipe: B | Inch: 6\n");
  const std::string quotes(200'000, '"');
  EXPECT_FALSE(Text("csv", "a,b\n" + quotes + ",\"x\n").empty());
}

TEST(CsvTest, RowsWithoutNamesStayRows) {
  // Pairs of a name and its value.
  EXPECT_EQ(Text("csv", "Name,Lectern\nTown,Osk\nYear,2020\n"),
            "Name | Lectern\nTown | Osk\nYear | 2020\n");
  EXPECT_EQ(Text("csv", "1,2,3\n4,5,6\n"), "1 | 2 | 3\n4 | 5 | 6\n");
  EXPECT_EQ(Text("csv", "a,b,b\n1,2,3\n"), "a | b | b\n1 | 2 | 3\n");
  EXPECT_EQ(Text("csv", "just text\nmore of it\n"), "just text\nmore of it\n");
  // Years are names; a table goes on behind an empty line; another one has names of its own.
  EXPECT_EQ(
      Text("csv", "Town,2020,2021\nOsk,5,6\n\nLund,7,8\n\nItem,Price,Stock\nPump,3,4\n"),
      "Town | 2020 | 2021\nTown: Osk | 2020: 5 | 2021: 6\n\nTown: Lund | 2020: 7 | 2021: 8\n\n"
      "Item | Price | Stock\nItem: Pump | Price: 3 | Stock: 4\n");
}

TEST(CsvTest, NamesWithDigitsDaysAndNamesThatStandTwice) {
  EXPECT_EQ(Text("csv", "Area,Q1,Q2\nNorth,3,\nSouth,,4\n"),
            "Area | Q1 | Q2\nArea: North | Q1: 3\nArea: South | Q2: 4\n");
  EXPECT_EQ(Text("csv", "Area,Lat,1/22/20,1/23/20\nNorth,3.5,0,2\n"),
            "Area | Lat | 1/22/20 | 1/23/20\n"
            "Area: North | Lat: 3.5 | 1/22/20: 0 | 1/23/20: 2\n");
  EXPECT_EQ(Text("csv", "Name,Charge,Bail,Charge,Bail\nAda,A1,100,B2,\nBob,,,C3,50\n"),
            "Name | Charge | Bail | Charge | Bail\n"
            "Name: Ada | Charge: A1 | Bail: 100 | Charge: B2\nName: Bob | Charge: C3 | Bail: 50\n");
  // Rows of values: neighbours are the same, or dates stand below dates.
  EXPECT_EQ(Text("csv", "Ada,none,none\nBob,1,2\n"), "Ada | none | none\nBob | 1 | 2\n");
  EXPECT_EQ(Text("csv", "Ada,2024-01-02,2024-02-03\nBob,2024-03-04,2024-04-05\n"),
            "Ada | 2024-01-02 | 2024-02-03\nBob | 2024-03-04 | 2024-04-05\n");
}

TEST(CsvTest, GroupsOfColumnsWithoutMergedCells) {
  EXPECT_EQ(Text("csv", ",2019,,2020,\nTown,Q1,Q2,Q1,Q2\nOsk,1,2,3,4\n"),
            "Town | 2019 Q1 | 2019 Q2 | 2020 Q1 | 2020 Q2\n"
            "Town: Osk | 2019 Q1: 1 | 2019 Q2: 2 | 2020 Q1: 3 | 2020 Q2: 4\n");
  // A column that the upper row alone names; a title above all.
  EXPECT_EQ(Text("csv", "Table 3: Sales,,,,\nTown,Shops,,Staff,\n,old,new,old,new\nOsk,1,2,3,4\n"),
            "Table 3: Sales\nTown | Shops old | Shops new | Staff old | Staff new\n"
            "Town: Osk | Shops old: 1 | Shops new: 2 | Staff old: 3 | Staff new: 4\n");
  // Columns behind the names that all groups have; groups of ages.
  EXPECT_EQ(
      Text("csv", ",Men,,Women,,\nTown,18 - 34,65+,18 - 34,65+,All\nOsk,1,2,3,4,10\n"),
      "Town | Men 18 - 34 | Men 65+ | Women 18 - 34 | Women 65+ | All\n"
      "Town: Osk | Men 18 - 34: 1 | Men 65+: 2 | Women 18 - 34: 3 | Women 65+: 4 | All: 10\n");
  // One group may be a title, and names may be missing over values.
  EXPECT_EQ(Text("csv", ",2019,,\nTown,Q1,Q2,Q3\nOsk,1,2,3\n"),
            "2019\nTown | Q1 | Q2 | Q3\nTown: Osk | Q1: 1 | Q2: 2 | Q3: 3\n");
  EXPECT_EQ(Text("csv", "A,,B,\nx,y,z,w\nx,v,z,u\n"), "A | B\nx | y | z | w\nx | v | z | u\n");
}

TEST(CsvTest, ATitleIsNoRowOfNames) {
  for (const char* const end : {"\n", ",,\n", "\n\n", ",,\n,,\n"}) {
    EXPECT_EQ(Text("csv", std::string("Table 3: Sales 2020") + end +
                              "Town,Price,Stock\nOsk,5,6\nLund,7,8\n"),
              std::string("Table 3: Sales 2020\n") +
                  (std::string(end).size() > 3 || std::string(end) == "\n\n" ? "\n" : "") +
                  "Town | Price | Stock\nTown: Osk | Price: 5 | Stock: 6\n"
                  "Town: Lund | Price: 7 | Stock: 8\n");
  }
  // A comma in the title.
  EXPECT_EQ(Text("csv", "Sales, 2020\nTown,Price,Stock\nOsk,5,6\nLund,7,8\n"),
            "Sales | 2020\nTown | Price | Stock\nTown: Osk | Price: 5 | Stock: 6\n"
            "Town: Lund | Price: 7 | Stock: 8\n");
}

TEST(CsvTest, AGuessIsSaid) {
  EXPECT_EQ(Extract("csv", "Name,Town,Work\nAda,Osk,mill\n")->note,
            "its first row was taken for the columns' names");
  EXPECT_EQ(Extract("csv", "Name,Town,Age\nAda,Osk,36\n")->note, "");
}

// Expected: as LibreOffice Calc 7.4 shows the values, but for dates, which are ISO 8601.
TEST(CellFormatTest, ValuesAreWrittenAsShown) {
  const auto shown = [](double value, const char* code) {
    return FormatCell(value, ParseCellFormat(code), false);
  };
  EXPECT_EQ(shown(0.125, "0.0%"), "12.5%");
  EXPECT_EQ(shown(1234.5, "#,##0.00\\ [$€-407]"), "1234.50 €");
  EXPECT_EQ(shown(-3.5, "\"$\"0.00"), "-$3.50");
  EXPECT_EQ(shown(2.5, "0.0#"), "2.5");
  EXPECT_EQ(shown(7, "0\" kg\""), "7 kg");
  EXPECT_EQ(shown(45429, "dd/mm/yyyy"), "2024-05-17");
  EXPECT_EQ(shown(45429.395833333336, "m/d/yy h:mm"), "2024-05-17 09:30");
  EXPECT_EQ(shown(0.395833333333, "h:mm AM/PM"), "09:30");
  EXPECT_EQ(shown(1.5, "[h]:mm"), "36:00");
  EXPECT_EQ(shown(36526, "[$-407]mmmm\\ yyyy;@"), "2000-01-01");
  EXPECT_EQ(shown(0.1, "General"), "0.1");
  EXPECT_EQ(shown(9783161484100, "General"), "9783161484100");
  EXPECT_EQ(shown(1e300, "dd/mm/yyyy"), "1e+300");
  EXPECT_EQ(shown(1234567, "0.0,,\"M\""), "1.2M");
  EXPECT_EQ(shown(1234567, "#,##0,"), "1235");
  EXPECT_EQ(shown(1234, "00000"), "01234");
  EXPECT_EQ(shown(-0.5, "00.0"), "-00.5");
  // A section for large values alone: the value is written in full.
  EXPECT_EQ(shown(5, "[>=1000000]0.0,,\"M\";0"), "5");
  EXPECT_EQ(FormatCell(2.5, BuiltInCellFormat(44), false), "2.50");
  EXPECT_EQ(shown(5, "\"broken"), "5");
  EXPECT_EQ(FormatCell(1, BuiltInCellFormat(14), false), "1900-01-01");
  EXPECT_EQ(FormatCell(59, BuiltInCellFormat(14), false), "1900-02-28");
  EXPECT_EQ(FormatCell(61, BuiltInCellFormat(14), false), "1900-03-01");
  EXPECT_EQ(FormatCell(0, BuiltInCellFormat(14), true), "1904-01-01");
}

TEST(ListNumbersTest, LettersAndRomanNumbers) {
  EXPECT_EQ(NumberText(1999, NumberStyle::kUpperRoman), "MCMXCIX");
  EXPECT_EQ(NumberText(4, NumberStyle::kLowerRoman), "iv");
  EXPECT_EQ(NumberText(28, NumberStyle::kLowerLetter), "bb");
  EXPECT_EQ(NumberText(0, NumberStyle::kUpperLetter), "0");
  EXPECT_EQ(NumberText(5000, NumberStyle::kLowerRoman), "5000");
}

// --- notebooks and manual pages ------------------------------------------------------------------

TEST(NotebookTest, CellsAndTheirOutputs) {
  EXPECT_EQ(Text("ipynb", R"json({"nbformat": 4, "cells": [
      {"cell_type": "markdown", "source": ["# Mills\n", "Of *Osk*."]},
      {"cell_type": "code", "source": "print(6*7)", "outputs": [
        {"output_type": "stream", "text": ["42\n"]},
        {"output_type": "execute_result", "data": {"text/plain": "'x'", "image/png": "iVBOR"}},
        {"output_type": "error", "ename": "KeyError", "evalue": "'y'", "traceback": ["\u001b[31m"]}
      ]}]})json"),
            "# Mills\nOf *Osk*.\n\n```\nprint(6*7)\n```\n\n```\n42\n```\n\n```\n'x'\n```\n\n"
            "```\nKeyError: 'y'\n```\n");
  EXPECT_EQ(Text("ipynb", "[1]"), "refused: is damaged: a notebook is a JSON object");
  EXPECT_EQ(Text("ipynb", "{\"cells\": [1, null, {\"source\": {}}]}"),
            "refused: has no text in it");
  EXPECT_TRUE(Text("ipynb", std::string(1'000'000, '[')).starts_with("refused"));
}

// As Jupyter shows the outputs.
TEST(NotebookTest, OutputsThatAreMoreThanTheirName) {
  EXPECT_EQ(Text("ipynb", R"json({"nbformat": 4, "cells": [
      {"cell_type": "markdown", 
       "source": "See ![a mill](data:image/png;base64,iVBORw0KGgo=) here (data: 5)."},
      {"cell_type": "code", "source": "show()", "outputs": [
        {"output_type": "display_data", "data": {"image/png": "iVBOR",
         "text/plain": "<Figure size 640x480 with 1 Axes>"}},
        {"output_type": "display_data", "data": {"text/markdown": "**Total**: 7",
         "text/plain": "<IPython.core.display.Markdown object>"}},
        {"output_type": "display_data",
         "data": {"text/html": "<table><tr><td>a</td><td>1</td></table>",
         "text/plain": "<IPython.core.display.HTML object>"}},
        {"output_type": "execute_result",
         "data": {"text/html": "<b>x</b>", "text/plain": "   a\n0  1"}}
      ]}]})json"),
            "See ![a mill]() here (data: 5).\n\n```\nshow()\n```\n\n**Total**: 7\n\na | 1\n\n"
            "```\n   a\n0  1\n```\n");
}

TEST(ManPageTest, SectionsOptionsAndFonts) {
  EXPECT_EQ(Text("man", R"(.\" a comment
.TH LS 1 "May 2024"
.SH NAME
ls \- list directory contents
.SH OPTIONS
Sort entries \fIalphabetically\fR.
.TP
\fB\-a\fR, \fB\-\-all\fR
do not ignore entries
starting with .
.TP
.BI \-\-block\-size= SIZE
scale sizes by
.I SIZE
.IP \(bu 2
a point
.SS "Exit status:"
.nf
0  if OK
.fi
.de XX
never shown
..
)"),
            "# LS(1)\n\n## NAME\n\nls - list directory contents\n\n## OPTIONS\n\n"
            "Sort entries alphabetically.\n\n- -a, --all: do not ignore entries starting with .\n"
            "- --block-size=SIZE: scale sizes by SIZE\n- a point\n\n### Exit status:\n\n"
            "```\n0  if OK\n```\n");
}

TEST(SubtitlesTest, CuesBecomeParagraphsWithTheirTime) {
  EXPECT_EQ(Text("srt",
                 "1\r\n00:00:01,500 --> 00:00:03,000\r\n<i>The mill at Osk</i>\r\n\r\n2\r\n"
                 "00:00:03,000 --> 00:00:05,000\r\n{\\an8}was built\r\nin 1871.\r\n"),
            "[0:00:01] The mill at Osk was built in 1871.\n");
  // Speakers, notes, styles and names of cues of WebVTT; captions that roll.
  EXPECT_EQ(
      Text("srt",
           "WEBVTT - x\n\nNOTE left\nout\n\nSTYLE\n::cue {}\n\nintro\n"
           "01:02:03.000 --> 01:02:05.000 align:start\n<v Ada Brok>Hello &amp; welcome.</v>\n\n"
           "01:02:05.000 --> 01:02:06.000\n<v Bo>Is 1 < 2?\nYes.</v>\n\n"
           "01:02:06.000 --> 01:02:07.000\n<v Bo>Yes.\n<01:02:06.500><c>So.</c>\n"),
      "[1:02:03] Ada Brok: Hello & welcome.\n\n[1:02:05] Bo: Is 1 < 2? Yes. So.\n");
  const std::string cue = "00:10.000 --> 00:11.000\n" + std::string(150, 'x') + ".\n\n";
  const std::string two = "[0:00:10] " + std::string(150, 'x') + ". " + std::string(150, 'y') + ".";
  EXPECT_EQ(Text("srt", cue + "00:11.000 --> 00:12.000\n" + std::string(150, 'y') + ".\n\n" +
                            "00:12.000 --> 00:13.000\n- Yes.\n- No.\n"),
            two + "\n\n[0:00:12] - Yes.\n- No.\n");
  EXPECT_EQ(Text("srt", "no cues\nat all\n"), "no cues\nat all\n");
  EXPECT_EQ(DetectFormat("WEBVTT\n\n", "a.txt"), Format::kSubtitles);
  EXPECT_EQ(DetectFormat("WEBVTTX\n", "a.txt"), Format::kText);
  EXPECT_EQ(DetectFormat("1\n", "A.SRT"), Format::kSubtitles);
}

TEST(FictionBookTest, ChaptersNotesAndVerses) {
  const std::string book =
      "<?xml version='1.0' encoding='windows-1251'?><FictionBook xmlns:l='x'><description>"
      "<title-info><author><first-name>Ada</first-name><last-name>Brok</last-name></author>"
      "<book-title>\xCC\xE8\xF0</book-title><annotation><p>Short.</p></annotation></title-info>"
      "</description><body><title><p>The "
      "Mill</p></title><section><title><p>One</p><p>Osk</p></title>"
      "<p>Built in <a l:href='#n1' type='note'>1</a> stone.</p><subtitle>* * *</subtitle><section>"
      "<title><p>Part</p></title><poem><stanza><v>First verse,</v><v>second.</v></stanza></poem>"
      "</section></section><section><title><p>Two</p></title><table><tr><th>a</th><th>b</th></tr>"
      "</table></section></body><body name='notes'><section id='n1'><title><p>1</p></title>"
      "<p>Of the hill.</p></section></body></FictionBook>";
  EXPECT_EQ(DetectFormat(book, "a.xml"), Format::kFictionBook);
  auto read = Extract("fb2", book);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->text,
            "# Мир\n\nAda Brok\n\nShort.\n\n# The Mill\n\n## One. Osk\n\nBuilt in [1] stone.\n\n"
            "[1] Of the hill.\n\n### Part\n\nFirst verse,\nsecond.\n\n## Two\n\na | b\n");
  EXPECT_EQ(read->pages.size(), 2u);
  EXPECT_EQ(Text("fb2", "<?xml version='1.0'?><other/>"),
            "refused: is damaged: it is no FictionBook");
  read = Extract("fb2", "<?xml version='1.0'?><FictionBook><body><p>Salt & sugar</p><p>Two</p>");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->text, "Salt sugar\n\nTwo\n");
  EXPECT_EQ(read->note, "the file is not well-formed XML, so that parts of it may be missing");
  EXPECT_TRUE(Text("fb2", "<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'b'>]><FictionBook/>")
                  .starts_with("refused: is damaged: its part text declares entities"));
}

// As DocBook's style sheets and Asciidoctor write them.
TEST(ManPageTest, OptionsBeforeIndentedText) {
  EXPECT_EQ(Text("man",
                 ".TH LS 1\n.SH OPTIONS\n.PP\nThese are known:\n.RS 4\nText\n.RE\n"
                 ".PP\n\\fB\\-a\\fR, \\fB\\-\\-all\\fR\n.RS 4\nShows all\nfiles.\n"
                 ".sp\nMore.\n.PP\nsort\n.RS 4\nBy size.\n.RE\n.RE\n"
                 ".PP\nEnds here.\n.RS 4\nNo term.\n.RE\n.IP \\(em 2m\nA dash.\n"),
            "# LS(1)\n\n## OPTIONS\n\nThese are known:\n\nText\n\n- -a, --all: Shows all files.\n\n"
            "More.\n\n  - sort: By size.\n\nEnds here.\n\nNo term.\n\n- A dash.\n");
}

TEST(ManPageTest, TheMacrosOfBsd) {
  EXPECT_EQ(Text("man", R"(.Dd May 17, 2024
.Dt CAT 1
.Os
.Sh NAME
.Nm cat
.Nd concatenate files
.Sh SYNOPSIS
.Nm
.Op Fl bu
.Op Ar file ...
.Sh DESCRIPTION
The
.Nm
utility reads
.Pq see Xr ls 1 .
.Bl -tag -width Ds
.It Fl b
Number the lines
.It Fl o Ar out
Write to
.Ar out .
.It Fl L Xo
.Oo Ar host Oc :
.Ar port
.Xc
Forward.
.El
)"),
            "# CAT(1)\n\n## NAME\n\ncat - concatenate files\n\n## SYNOPSIS\n\n"
            "cat [-bu] [file ...]\n\n## DESCRIPTION\n\nThe cat utility reads (see ls(1)).\n\n"
            "- -b: Number the lines\n- -o out: Write to out.\n- -L [host]: port: Forward.\n");
}

// As groff prints them.
TEST(ManPageTest, StandardsLibrariesAndSystemsOfBsd) {
  EXPECT_EQ(
      Text("man",
           ".Dd May 1, 2024\n.Dt DUP 2\n.Sh STANDARDS\nIt conforms to\n.St -p1003.1-90 .\n"
           "It came with\n.Bx 4.3 Reno\nand\n.At v7 .\nOn\n.Bx\nit is in the\n.Lb libm .\n"),
      "# DUP(2)\n\n## STANDARDS\n\nIt conforms to ISO/IEC 9945-1:1990 (“POSIX.1”). It came "
      "with 4.3BSD-Reno and Version 7 AT&T UNIX. On BSD it is in the Math Library (libm, -lm).\n");
}

TEST(ManPageTest, TablesAndReferencesToOtherPages) {
  EXPECT_EQ(Text("man",
                 ".TH T 5\n.SH A\n.TS\nallbox tab(:);\nl l.\nName:Size\nT{\nlong\nname\nT}:5\n"
                 ".TE\n"),
            "# T(5)\n\n## A\n\nName | Size\nlong name | 5\n");
  EXPECT_EQ(Text("man", ".so man1/ls.1\n"),
            "refused: only refers to the page man1/ls.1; give that one");
}

TEST(ManPageTest, StringsThatHoldThemselvesEnd) {
  EXPECT_EQ(Text("man", ".TH T 1\n.ds a x\\*a\\*a\n.SH N\n.if n .if n .if n y\\*a\n").substr(0, 8),
            "# T(1)\n\n");
}

// --- RTF, and HTML of books ----------------------------------------------------------------------

TEST(RtfTest, TextAndTables) {
  auto read = Ingest(FileBytes("libreoffice.rtf"), {.file_name = "lund.rtf"});
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->format, Format::kRtf);
  EXPECT_EQ(read->note, "");
  EXPECT_TRUE(read->text.starts_with(
      "# The Lund Report\n\nAda Brok\n\n# Introduction\n\nThe mill at Osk "
      "was designed by Ada Brok in 1871.[1] It has three wheels and code.\n\n"
      "[1] See the register of 1872.\n\n## Rules"))
      << read->text;
  EXPECT_NE(read->text.find("\nAlpha pump | 120 EUR | 17\nBeta valve | 45 EUR | 230\n"),
            std::string::npos);
  EXPECT_NE(read->text.find("Déjà vu — “quoted”.\n"), std::string::npos);
}

TEST(OldWordTest, TextTablesAndNotes) {
  if (FindProgram("antiword").empty()) GTEST_SKIP() << "there is no antiword";
  const std::string bytes = FileBytes("libreoffice.doc");
  EXPECT_EQ(DetectFormat(bytes, "README"), Format::kDoc);
  auto read = ReadOldWord(bytes, {.extract = kProgram});
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(
      read->text.starts_with("The Lund Report\n\nAda Brok\n\n# Introduction\n\nThe mill at Osk "
                             "was designed by Ada Brok in 1871. It has three wheels and "
                             "code.\n\n## Rules"))
      << read->text;
  EXPECT_NE(read->text.find("\nProduct | Price | Stock\nAlpha pump | 120 EUR | 17\n"),
            std::string::npos)
      << read->text;
  EXPECT_NE(read->text.find("Déjà vu — “quoted”.\n"), std::string::npos) << read->text;
  EXPECT_EQ(read->note, "antiword gives no text of 1 footnote: save the file as .docx for them");
  EXPECT_NE(read->text.find("\nx = 1\ny = 2\n\nLine one\nline two. "), std::string::npos)
      << read->text;
  auto cut = ReadOldWord(bytes.substr(0, 3000), {.name = "\"a.doc\"", .extract = kProgram});
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().code, LECTERN_INVALID_ARGUMENT);
  EXPECT_TRUE(cut.error().message.starts_with("\"a.doc\" cannot be read by antiword ("))
      << cut.error().message;
  auto missing = ReadOldWord(bytes, {.name = "\"a.doc\"", .antiword = "/nonexistent/antiword"});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().param, "antiword");
  EXPECT_NE(missing.error().message.find(HowToInstall("antiword") + ", or save \"a.doc\" as .docx"),
            std::string::npos);
}

// As Word and LibreOffice show it.
TEST(RtfTest, HiddenAndDeletedTextIsLeftOutAndNotesStandBehindTheirParagraph) {
  auto read = ReadRtf(
      "{\\rtf1\\ansi Rent{\\v hidden\\v0 } is{\\deleted  500} 600{\\footnote\\chftn  In {\\b "
      "May}.} EUR"
      "{\\*\\atnid A}{\\*\\annotation {\\*\\atndate 1}Why?}.\\par\nNext\\v no\\plain  one"
      "{\\footnote Two.}.}",
      {});
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->text, "Rent is 600[1] EUR.\n\n[1] In May.\n\nNext one[2].\n\n[2] Two.\n");
  EXPECT_EQ(read->note, "1 comment is left out");
}

// The characters behind \u for readers without Unicode go, and nothing else, however many they are;
// the alignment of a cell's paragraph does not part the row.
TEST(RtfTest, UnicodeCharactersAndAlignedCells) {
  const auto text = [](const std::string& body) {
    auto read = ReadRtf("{\\rtf1\\ansi " + body + "}", {});
    return read.ok() ? read->text : read.error().message;
  };
  EXPECT_EQ(text("Here\\u8217's one, there\\u8217?s two, \\u8217\\'92s three.\\par"),
            "Here’s one, there’s two, ’s three.\n");
  EXPECT_EQ(text("{\\uc0 a\\u8217 s}{\\uc2 b\\u8217\\'81\\'66c}{\\uc2 d\\u8217?}e\\par"),
            "a’sb’cd’e\n");
  EXPECT_EQ(
      text("\\trowd\\cellx2000\\cellx4000\\cellx6000\\intbl{\\pard\\intbl\\qr Right\\par}\\cell"
           "{\\pard\\intbl\\qc Middle\\par}\\cell{\\pard\\intbl\\ql Left\\par}\\cell\\row"),
      "Right | Middle | Left\n");
}

// unrtf drops such bytes, and makes two characters of two surrogates.
TEST(RtfTest, BytesOutsideOfAsciiAndSurrogates) {
  const auto text = [](const std::string& rtf) {
    auto read = ReadRtf(rtf, {});
    return read.ok() ? read->text : read.error().message;
  };
  EXPECT_EQ(text("{\\rtf1\\ansi{\\fonttbl{\\f0\\fcharset204 A;}{\\f1\\fcharset0 B;}}\\f0 "
                 "\xC1\xE0\xED\xEA\\f1  caf\xE9\\par}"),
            "Банк café\n");
  EXPECT_EQ(text("{\\rtf1\\ansi Caf\u00E9 \u2014 \U0001F600\\par}"), "Café — 😀\n");
  EXPECT_EQ(text("{\\rtf1\\ansi a\\u-10179?\\u-8704?b\\u-10179?c\\par}"), "a😀bc\n");
}

// Letters that a mark may follow, spaces of Vietnamese, and characters of two bytes.
TEST(RtfTest, CharacterSetsThatUnrtfDoesNotReadWell) {
  const auto text = [](int charset, const std::string& body) {
    auto read = ReadRtf("{\\rtf1\\ansi\\deff0{\\fonttbl{\\f0\\fcharset0 A;}{\\f1\\fcharset" +
                            std::to_string(charset) + " B;}}{\\f1 " + body + "} end\\par}",
                        {});
    return read.ok() ? read->text : read.error().message;
  };
  EXPECT_EQ(text(177, "\\'f2\\'e5\\'f1\\'f7 \\'ee\\'e5\\'f8\\'f9\\'e4"), "עוסק מורשה end\n");
  EXPECT_EQ(text(163, "Vi\\'ea\\'f2t Nam"), "Việt Nam end\n");
  EXPECT_EQ(text(128, "\\'83e\\'83X\\'83g {\\b \\'93\n\\'fa}\\'96\\'7b"), "テスト 日本 end\n");
}

// Boxes of today's Word, which writes them a second time for old readers, and of old programs.
TEST(RtfTest, TheTextOfBoxesStandsBehindTheirParagraph) {
  auto read = ReadRtf(
      "{\\rtf1\\ansi Rent{\\shp{\\*\\shpinst{\\sp{\\sn shapeType}{\\sv 202}}{\\shptxt Paid in "
      "May.\\par}}{\\shprslt{\\*\\do{\\dptxbxtext Paid in May.\\par}}}} is 500.\\par\n"
      "{\\*\\do\\dptxbx{\\dptxbxtext To: Ada\\par}}Next\\par}",
      {});
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->text, "Rent is 500.\n\nPaid in May.\n\nNext\n\nTo: Ada\n");
}

TEST(RtfTest, AnyBytesAreFiltered) {
  EXPECT_EQ(FilterRtf("{a}}{{\\footnote").rtf, "{a}{{[1]\\par [1] {");
  EXPECT_EQ(FilterRtf("{\\footnote a}b}").rtf, "{[1]\\par [1] {a}}b");
  EXPECT_EQ(FilterRtf("\\bin3 {{{x\\").rtf, "\\bin3 {{{x\\");
  EXPECT_EQ(FilterRtf("\\bin99999999 {").rtf, "\\bin99999999 {");
  EXPECT_EQ(FilterRtf("{\\*\\generator x}").rtf, "{\\*\\generator x}");
  // unrtf would not see the second font, and read its letters as Latin.
  EXPECT_EQ(FilterRtf("{\\fonttbl\n{\\f0 A B;} \n {\\f1\\fcharset204 C;}}{a} b").rtf,
            "{\\fonttbl\n{\\f0 A B;}\n{\\f1\\fcharset204 C;}}{a} b");
}

TEST(RtfTest, TheTextOfLinks) {
  auto text = ReadRtf(
      "{\\rtf1\\ansi See {\\field{\\*\\fldinst{HYPERLINK \"http://a.b/\\{c\"}}{\\fldrslt the manual}} for "
      "all.\\par {\\field{\\*\\fldinst{HYPERLINK", {});
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_TRUE(text->text.starts_with("See the manual for all.\n")) << text->text;
}

TEST(RtfTest, ErrorsSayTheWayOut) {
  auto missing = ReadRtf("{\\rtf1 x}", {.name = "\"a.rtf\"", .unrtf = "/nonexistent/unrtf"});
  EXPECT_EQ(missing.error().code, LECTERN_NOT_FOUND);
  EXPECT_NE(missing.error().message.find(HowToInstall("unrtf") + ", or save \"a.rtf\" as .docx"),
            std::string::npos);
  EXPECT_EQ(ReadRtf("{\\rtf1 x}", {.unrtf = kProgram}).error().code, LECTERN_INVALID_ARGUMENT);
  EXPECT_EQ(ReadRtf("{\\rtf1 x}", {.is_cancelled = [] { return true; }}).error().code,
            LECTERN_CANCELLED);
}

TEST(HtmlOptionsTest, BooksKeepAllAndMarkHeadings) {
  const char* const page = "<header><h2>A<br>B</h2></header><nav>menu</nav><p>text";
  EXPECT_EQ(*ReadHtml(page, {}), "text\n");
  EXPECT_EQ(*ReadHtml(page, {.keeps_all = true, .marks_headings = true}),
            "## A B\n\nmenu\n\ntext\n");
}

// --- formats, and the program --------------------------------------------------------------------

TEST(PackageFormatTest, ContentTellsTheFormat) {
  for (const char* const name : {"lund.docx", "libreoffice.docx", "lund.odt", "lund.epub",
                                 "lund.pptx", "libreoffice.odp", "stock.xlsx", "stock.ods"}) {
    const std::string file = name;
    EXPECT_EQ(ZipFormat(FileBytes(file)), file.substr(file.find('.') + 1)) << name;
  }
  EXPECT_EQ(ZipFormat(WriteZip({{"a.txt", "word/document.xml"}})), "");
  // Word in the browser numbers its main part.
  EXPECT_EQ(ZipFormat(WriteZip({{"word/document2.xml", "x"}})), "docx");
  EXPECT_EQ(ZipFormat(WriteZip({{"xl/workbook.bin", "x"}})), "");
  EXPECT_EQ(MarkedTextFormat(FileBytes("mail.eml")), "eml");
  EXPECT_EQ(MarkedTextFormat("<?xml version=\"1.0\"?>\n<office:document xmlns:office=\"o\" "
                             "office:mimetype=\"application/vnd.oasis.opendocument.text\">"),
            "odt");
  EXPECT_EQ(MarkedTextFormat(".\\\" x\n.TH LS 1\n"), "man");
  EXPECT_EQ(MarkedTextFormat("Package: lectern\nFrom: x\n\nText\n"), "");
  EXPECT_EQ(MarkedTextFormat("From: here to there.\n\nMessage-ID: none\n"), "");
  const std::string whole = FileBytes("lund.docx");
  for (size_t size = 0; size < whole.size(); size += size < 100 ? 1 : 31)
    EXPECT_EQ(ZipFormat(whole.substr(0, size)), "") << size;
  EXPECT_EQ(DetectFormat("a,b\n", "table.CSV"), Format::kCsv);
  EXPECT_EQ(DetectFormat(".so man1/ls.1\n", "dir.1"), Format::kManPage);
  EXPECT_EQ(DetectFormat(".so man4/ptnet.4\n", "netmap.4freebsd"), Format::kManPage);
  EXPECT_EQ(DetectFormat(".so much for that\n", "notes.txt"), Format::kText);
  // With definitions before the title, as Pod::Man writes, and behind an empty line.
  EXPECT_EQ(DetectFormat(".\\\" By Pod::Man\n.de Sp\n.if t .sp\n..\n.TH LS 1\n", "ls.1ssl"),
            Format::kManPage);
  EXPECT_EQ(DetectFormat("\n.TH \"LS\" 1\n", "ls.1"), Format::kManPage);
  EXPECT_EQ(DetectFormat("Nov 30 kernel: .TH\n", "syslog.1"), Format::kText);
  EXPECT_EQ(ParseFormat("ods"), Format::kOds);
}

TEST(ExtractProgramTest, ReadsAFile) {
  const auto read = [](const std::string& file, const ExtractOptions& options) {
    return ReadExtracted(FileBytes(file), file.substr(file.find('.') + 1), options);
  };
  auto sheet = read("stock.xlsx", {.program = kProgram});
  ASSERT_TRUE(sheet.ok()) << sheet.error().message;
  auto same = Extract("xlsx", FileBytes("stock.xlsx"));
  EXPECT_EQ(sheet->text, same->text);
  EXPECT_EQ(sheet->note, same->note);
  ASSERT_EQ(sheet->pages.size(), 2u);
  EXPECT_EQ(sheet->pages[1].text_begin, same->pages[1].text_begin);

  auto damaged = ReadExtracted("PK", "docx", {.name = "\"a.docx\"", .program = kProgram});
  EXPECT_EQ(damaged.error().code, LECTERN_INVALID_ARGUMENT);
  EXPECT_TRUE(damaged.error().message.starts_with("\"a.docx\" is damaged"));
  EXPECT_EQ(damaged.error().param, "file");

  auto missing = read("stock.xlsx", {.program = "/nonexistent/lectern-extract"});
  EXPECT_EQ(missing.error().code, LECTERN_NOT_FOUND);
  EXPECT_NE(missing.error().message.find(HowToInstall("lectern-tools")), std::string::npos);
  for (const char* const other : {"/bin/true", "/bin/echo", "/bin/false"}) {
    if (!std::filesystem::exists(other)) continue;  // on Windows
    EXPECT_EQ(read("stock.xlsx", {.program = other}).error().code, LECTERN_IO_ERROR) << other;
  }
  auto cancelled = read("stock.xlsx", {.is_cancelled = [] { return true; }, .program = kProgram});
  EXPECT_EQ(cancelled.error().code, LECTERN_CANCELLED);
}

TEST(ExtractProgramTest, MemoryIsLimited) {
  const std::string bomb =
      WriteZip({{"content.xml", "<a>" + std::string(128 << 20, ' ') + "</a>"}});
  ChildLimits limits;
  limits.memory_bytes = 160 << 20;
  auto refused = ReadExtracted(bomb, "odt", {.program = kProgram, .limits = limits});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code,
            kMemoryIsRefused ? LECTERN_LIMIT_EXCEEDED : LECTERN_INVALID_ARGUMENT);
  EXPECT_NE(refused.error().message.find(kMemoryIsRefused
                                             ? "needs more than 160 MiB of memory, the limit for a "
                                               "file of its size; split it, or give its text"
                                             : "needs too much memory"),
            std::string::npos)
      << refused.error().message;
}

// Small files that expand to gigabytes: a limit in proportion to their size ends them.
TEST(ExtractProgramTest, BombsEndAtALimit) {
  if (!kMemoryIsRefused) GTEST_SKIP();
  const auto repeated = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  const std::string long_text(1 << 20, 'x');
  const std::string row = "<row>" + repeated("<c t='s'><v>0</v></c>", 1000) + "</row>";
  const std::string workbook = WriteZip(
      {{"_rels/.rels",
        "<Relationships><Relationship Id='m' Type='x/officeDocument' Target='w.xml'/>"
        "</Relationships>"},
       {"_rels/w.xml.rels",
        "<Relationships><Relationship Id='s' Type='x/sharedStrings' Target='s.xml'/>"
        "<Relationship Id='a' Type='x/worksheet' Target='a.xml'/></Relationships>"},
       {"w.xml",
        "<workbook xmlns:r='x/relationships'><sheets><sheet name='A' r:id='a'/></sheets>"
        "</workbook>"},
       {"s.xml", "<sst><si><t>" + long_text + "</t></si></sst>"},
       {"a.xml", "<worksheet><sheetData>" + repeated(row, 10) + "</sheetData></worksheet>"}});
  const std::string cell = "<table:table-cell table:number-columns-repeated='100'><text:p>" +
                           std::string(1 << 16, 'x') + "</text:p></table:table-cell>";
  const std::string sheet = WriteZip(
      {{"content.xml",
        "<office:document-content xmlns:office='o' xmlns:table='t' xmlns:text='p'><office:body>"
        "<office:spreadsheet><table:table table:name='A'>" +
            repeated(
                "<table:table-row table:number-rows-repeated='100'>" + cell + "</table:table-row>",
                10) +
            "</table:table></office:spreadsheet></office:body></office:document-content>"}});
  const std::string tree =
      WriteZip({{"content.xml", "<a>" + repeated(repeated("<b/>", 1000), 8000) + "</a>"}});
  for (const auto& [format, bytes] : {std::pair("xlsx", workbook), {"ods", sheet}, {"odt", tree}}) {
    const auto begin = std::chrono::steady_clock::now();
    auto refused = ReadExtracted(bytes, format, {.name = "a", .program = kProgram});
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    ASSERT_FALSE(refused.ok()) << format;
    EXPECT_LT(bytes.size(), size_t{1} << 20) << format;
    EXPECT_EQ(refused.error().code, LECTERN_LIMIT_EXCEEDED) << format;
    EXPECT_TRUE(refused.error().message.starts_with("a needs more than "))
        << format << ": " << refused.error().message;
    EXPECT_LT(seconds.count(), 30) << format;
  }
}

TEST(ExtractedTest, OnlyWhatTheProgramWritesIsTaken) {
  const Extracted extracted{"one\ntwo\n", {{0, 1}, {4, 3}}, 3, "a note"};
  const std::string bytes = WriteExtracted(extracted);
  auto parsed = ParseExtracted(bytes);
  ASSERT_TRUE(parsed && parsed->ok());
  EXPECT_EQ((*parsed)->text, extracted.text);
  EXPECT_EQ((*parsed)->note, "a note");
  EXPECT_EQ((*parsed)->pages[1].page, 3u);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(ParseExtracted(bytes.substr(0, size))) << size;
  EXPECT_FALSE(ParseExtracted(bytes + "x"));
  EXPECT_FALSE(ParseExtracted(WriteExtracted(Extracted{"one\n", {{2, 1}, {2, 2}}, 2, ""})));
  EXPECT_FALSE(ParseExtracted(WriteExtracted(Extracted{"one\n", {{0, 2}, {1, 1}}, 2, ""})));
  EXPECT_FALSE(ParseExtracted(WriteExtracted(Extracted{"one\n", {{9, 1}}, 1, ""})));
  EXPECT_FALSE(ParseExtracted(WriteExtracted(Extracted{"one\n", {{0, 2}}, 1, ""})));
  EXPECT_FALSE(ParseExtracted(WriteExtracted(Extracted{"\xFF\n", {}, 0, ""})));
  EXPECT_FALSE(ParseExtracted(WriteExtracted(Extracted{"", {}, 0, ""})));
  auto error = ParseExtracted(WriteExtracted(api::Error{LECTERN_EMPTY_DOCUMENT, "has none", ""}));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->error().code, LECTERN_EMPTY_DOCUMENT);
  EXPECT_FALSE(ParseExtracted("lectern-extract 1 999 0 0 0 1 \nx"));
}

}  // namespace
}  // namespace lectern::tools
