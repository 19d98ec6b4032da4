// Light markup (reStructuredText, AsciiDoc, Org), DocBook, calendars, address books, and the
// headings of RTF.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tools/ingest/extract/extract.h"
#include "tools/ingest/ingest.h"
#include "tools/ingest/package_format.h"
#include "tools/ingest/rtf.h"
#include "tools/ingest/rtf_filter.h"

namespace lectern::tools {
namespace {

std::string MarkupText(std::string_view format, const std::string& bytes) {
  auto extracted = Extract(format, bytes);
  return extracted.ok() ? extracted->text : "refused: " + extracted.error().message;
}

double SecondsToRead(std::string_view format, const std::string& bytes) {
  const auto begin = std::chrono::steady_clock::now();
  (void)Extract(format, bytes);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string Repeated(std::string_view text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

// --- reStructuredText ----------------------------------------------------------------------------

// Levels: as docutils 0.19 gives them.
TEST(RestructuredTextTest, SignsMarkTitles) {
  EXPECT_EQ(MarkupText("rst",
                       "****\nMill\n****\n\nOn the river.\n\n1. Parts\n========\nThe wheel.\n\n"
                       "Oak\n...\n\nOld.\n\nStones\n======\n"),
            "# Mill\n\nOn the river.\n\n## 1. Parts\n\nThe wheel.\n\n### Oak\n\nOld.\n\n"
            "## Stones\n");
  EXPECT_EQ(MarkupText("rst", "Überschrift\r\n+++++++++++\r\nText.\r\n"),
            "# Überschrift\n\nText.\n");
  // The same sign above and below is another style; the title may be indented.
  EXPECT_EQ(MarkupText("rst", "=====\n  One\n=====\n\nTwo\n===\n\nThree\n=====\n"),
            "# One\n\n## Two\n\n## Three\n");
  EXPECT_EQ(MarkupText("rst", ".. _here:\nOne\n---\n.. _there:\n\nTwo\n---\nThree\n~~~~~\n"),
            ".. _here:\n\n# One\n\n.. _there:\n\n# Two\n\n## Three\n");
  EXPECT_EQ(MarkupText("rst", ":mod:`os` --- ``env`` and more\n===========================\n"),
            "# os --- env and more\n");
}

TEST(RestructuredTextTest, OtherLinesOfSignsStay) {
  for (const std::string text :
       {"Text::\n\n   a\n   ===\n", "One\ntwo\n---\n", "===  ===\na    b\n===  ===\n",
        "+---+---+\n| a | b |\n+---+---+\n", "One\n\n----\n\nTwo\n", "A longer line\n---\n",
        "- item\n------\n", "Text ends\n::\n\n  code\n"}) {
    EXPECT_EQ(MarkupText("rst", text), text);
  }
}

// --- AsciiDoc ------------------------------------------------------------------------------------

TEST(AsciiDocTest, TitlesInOneLineOrTwo) {
  EXPECT_EQ(
      MarkupText("adoc", "= Mill\n\nText.\n\n== Parts ==\n=== Oak\n#### Stones\n======= x\n==y\n"),
      "# Mill\n\nText.\n\n## Parts\n\n### Oak\n\n#### Stones\n\n======= x\n==y\n");
  EXPECT_EQ(MarkupText("adoc",
                       "git-add(1)\n==========\n\nNAME\n----\ngit-add - x\n\n[[o]]\nOptions\n"
                       "~~~~~~~~\n\nOne\ntwo\n---\n"),
            "# git-add(1)\n\n## NAME\n\ngit-add - x\n\n[[o]]\n\n### Options\n\nOne\ntwo\n---\n");
}

TEST(AsciiDocTest, BlocksOfCodeHaveNoTitles) {
  EXPECT_EQ(MarkupText("adoc",
                       "Do:\n\n[source]\n----\n== no title\n\n# comment\n----\n\n....\na\n....\n"),
            "Do:\n\n[source]\n\n```\n== no title\n\n# comment\n```\n\n```\na\n```\n");
  EXPECT_EQ(MarkupText("adoc", "a\n\n////\n== hidden\n////\nb\n\n------\nnot closed\n\n== C\n"),
            "a\n\nb\n\n------\nnot closed\n\n## C\n");
}

// --- Org -----------------------------------------------------------------------------------------

TEST(OrgTest, HeadlinesCodeAndDrawers) {
  EXPECT_EQ(
      MarkupText("org",
                 "#+TITLE: The Mill\n#+STARTUP: showall\n# a comment\n* TODO Parts   :wood:\n"
                 ":PROPERTIES:\n:ID: 7\n:END:\nThe *wheel*.\n** Oak\n#+BEGIN_SRC sh\n"
                 "# shown\nls\n#+END_SRC\n * item\n"),
      "# The Mill\n\n## TODO Parts :wood:\n\nThe *wheel*.\n\n### Oak\n\n```\n# shown\nls\n```\n\n"
      " * item\n");
  EXPECT_EQ(MarkupText("org", "* A\n:PROPERTIES:\nx\n* B\n#+begin_src\ny\n* C\n"),
            "# A\n\n:PROPERTIES:\nx\n\n# B\n\ny\n\n# C\n");
}

TEST(MarkupTest, LongTextsTakeLinearTime) {
  for (const char* const format : {"rst", "adoc", "org"}) {
    for (const char* const piece : {"----\n", ":PROPERTIES:\n", "#+begin_src\n", "=\n", "a\n--\n",
                                    "----\na\n-----\n", "* x\n:logbook:\n"})
      EXPECT_LT(SecondsToRead(format, Repeated(piece, 200'000)), 5) << format << piece;
  }
}

// --- LaTeX ---------------------------------------------------------------------------------------

TEST(LatexTest, SectionsAreHeadingsAndCommandsGo) {
  EXPECT_EQ(
      MarkupText("latex",
                 "\\documentclass[a4paper]{article} % \\title{No}\n\\usepackage{x}\n"
                 "\\title[Short]{The \\emph{Mill}\\thanks{Paid by A.}}\n\\author{Ann \\and Bo}\n"
                 "\\newcommand{\\km}[1]{#1 kilometres}\n\\begin{document}\n\\maketitle\n"
                 "\\begin{abstract}\nOld.\n\\end{abstract}\n\\section[x]{On the river}\\label{a}\n"
                 "It cost 50\\,\\% of \\$9~--- ``much''. % a remark\nSee \\cite[p.~3]{k} and "
                 "Section~\\ref{a}.\\footnote{In {\\bf 1820}.}\n\n\\subsection*{Wheel}\n"
                 "{\\large Big} \\textbf{oak}.\n\\end{document}\nnot this"),
      "# The Mill (Paid by A.)\n\nAnn Bo\n\n## Abstract\n\nOld.\n\n## On the river\n\n"
      "It cost 50 % of $9 — “much”. See [k] and Section [a]. (In 1820.)\n\n### Wheel\n\n"
      "Big oak.\n");
  // A chapter of a book, which shows a document as an example.
  EXPECT_EQ(MarkupText("latex",
                       "\\chapter{One}\nText.\n\\begin{verbatim}\n\\begin{document}\n  \\a\n"
                       "\\end{document}\n\\end{verbatim}\nMore.\n"),
            "# One\n\nText.\n\n```\n\\begin{document}\n  \\a\n\\end{document}\n```\n\nMore.\n");
}

TEST(LatexTest, AccentsFormulasListsAndTables) {
  EXPECT_EQ(MarkupText("latex",
                       "M\\\"uller, \\'{e}t\\'e, \\c{c}a, \\v{S}koda, na\\\"{\\i}f, Stra\\ss e, "
                       "\\O{}re, \\~nandu, \\H{o}\n"),
            "Müller, été, ça, Škoda, naïf, Straße, Øre, ñandu, ő\n");
  EXPECT_EQ(MarkupText("latex",
                       "Let $a_1 < \\$5$ and \\(b\\).\n\\begin{equation*}\nx = \\frac{1}{2}\n"
                       "\\end{equation*}\nEnd of $5.\n"),
            "Let $a_1 < \\$5$ and $b$.\n\nx = \\frac{1}{2}\n\nEnd of $5.\n");
  EXPECT_EQ(MarkupText("latex",
                       "\\begin{itemize}\n  \\item One\n\\item[Two] is\n  long\n\\end{itemize}\n"),
            "- One\n- Two: is\nlong\n");
  EXPECT_EQ(
      MarkupText("latex",
                 "\\begin{tabular}{l|r@{}}\n\\hline\nCity & \\multicolumn{2}{c}{People} \\\\[2pt]"
                 "\n\\cmidrule(lr){1-2}\nOslo\n & 717\\,710 & x\\\\\n\\end{tabular}\n"
                 "\\caption{Sizes}\n"),
      "City | People\nOslo | 717 710 | x\n\nSizes\n");
  EXPECT_EQ(MarkupText("latex", "\\verb|a{b| \\url{http://x/~y} \\href{http://z}{here}\n"),
            "a{b http://x/~y here (http://z)\n");
}

TEST(LatexTest, AFileOfDefinitionsAloneStaysAsItIsWritten) {
  const std::string text = "\\newcommand{\\km}[1]{#1 kilometres}\n% a remark\n\\def\\a{b}\n";
  EXPECT_EQ(MarkupText("latex", text), text);
  EXPECT_EQ(MarkupText("latex", " \n"), "refused: has no text in it");
}

TEST(LatexTest, WhatNothingClosesIsReadInLinearTime) {
  EXPECT_EQ(MarkupText("latex", "\\section{One\n\\textbf{two $ three\n"), "One\ntwo $ three\n");
  for (const std::string_view part :
       {"\\section{", "\\item[", "\\item[{]", "$", "$$x$", "{", "\\begin{verbatim}",
        "\\footnote{a}", "\\footnote{", "\\begin{tabular}&", "%\\title", "\\'",
        "\\begin{document}%", "``", "\\verb|", "\\href{"}) {
    EXPECT_LT(SecondsToRead("latex", Repeated(part, 300'000)), 20) << part;
  }
}

// --- DocBook -------------------------------------------------------------------------------------

constexpr char kBook[] =
    "<?xml version='1.0'?>\n<!DOCTYPE book PUBLIC '-//OASIS//DTD DocBook XML V4.5//EN' "
    "'docbookx.dtd' "
    "[<!ENTITY mill \"<productname>Osk Mill</productname>\"><!-- ' --><!ENTITY more SYSTEM "
    "'more.xml'>"
    "<!ENTITY % iso SYSTEM 'iso'> %iso;]>\n";

TEST(DocBookTest, SectionsListsAndTables) {
  const std::string book =
      std::string(kBook) +
      "<book><bookinfo><title>&mill;</title><author><firstname>Ada</firstname> "
      "<surname>Brok</surname></author><abstract><para>Short &mdash; it is.</para></abstract>"
      "</bookinfo><chapter id='c'><title>Parts</title><para>See <xref linkend='t'/>, <quote>the "
      "wheel</quote><footnote><para>Of oak.</para></footnote>:<itemizedlist><listitem><para>one"
      "</para><para>more</para></listitem><listitem><para>two</para></listitem></itemizedlist>"
      "behind</para>&more;<orderedlist numeration='loweralpha'><listitem><para>first</para>"
      "</listitem></orderedlist><variablelist><varlistentry><term>-v</term><term>--verbose</term>"
      "<listitem><para>Says more.</para></listitem></varlistentry></variablelist>"
      "<table id='t'><title>Prices</title><tgroup cols='3'><colspec colname='a'/><colspec "
      "colname='b'/><colspec colname='c'/><thead><row><entry>Item</entry><entry namest='b' "
      "nameend='c'>Price</entry></row></thead><tbody><row><entry morerows='1'>Wheel</entry>"
      "<entry>1</entry><entry>2</entry></row><row><entry>3</entry><entry>4</entry></row></tbody>"
      "</tgroup></table><sect1><title>Run</title><programlisting>\nls  -l\n  x &lt; y\n"
      "</programlisting><note><para>Careful.</para></note></sect1></chapter></book>";
  EXPECT_EQ(DetectFormat(book, "a.xml"), Format::kDocBook);
  auto read = Extract("docbook", book);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(
      read->text,
      "# Osk Mill\n\nAda Brok\n\nShort — it is.\n\n## Parts\n\nSee Prices, “the wheel”[1]:\n\n"
      "[1] Of oak.\n\n- one\n  more\n- two\n\nbehind\n\na. first\n\n- -v, --verbose: Says "
      "more.\n\nPrices\n\nItem | Price | Price\nWheel | 1 | 2\nWheel | 3 | 4\n\n### Run\n\n"
      "```\nls  -l\n  x < y\n```\n\nNote: Careful.\n");
  EXPECT_EQ(read->note, "1 part is in another file and left out");
}

TEST(DocBookTest, MenusAndKeys) {
  EXPECT_EQ(
      MarkupText("docbook",
                 "<para>Use <menuchoice><shortcut><keycombo>&Ctrl;<keycap>O</keycap></keycombo>"
                 "</shortcut><guimenu>File</guimenu> <guimenuitem>Open</guimenuitem></menuchoice>,"
                 " a<indexterm><primary>no</primary></indexterm>b<optional>c</optional>.</para>"),
      "Use File > Open (Ctrl+O), ab[c].\n");
}

TEST(DocBookTest, ManualPages) {
  EXPECT_EQ(
      MarkupText(
          "docbook",
          "<refentry><refmeta><refentrytitle>ls</refentrytitle><manvolnum>1</manvolnum></refmeta>"
          "<refnamediv><refname>ls</refname><refname>dir</refname><refpurpose>list files"
          "</refpurpose></refnamediv><refsynopsisdiv><cmdsynopsis><command>ls</command><arg>-l"
          "</arg><arg choice='plain' rep='repeat'><replaceable>FILE</replaceable></arg><group>"
          "<arg choice='plain'>-a</arg><arg choice='plain'>-b</arg></group></cmdsynopsis>"
          "</refsynopsisdiv><refsect1><title>Bugs</title><para>See <citerefentry><refentrytitle>"
          "cp</refentrytitle><manvolnum>1</manvolnum></citerefentry>.</para></refsect1></"
          "refentry>"),
      "# ls(1)\n\nls, dir — list files\n\n## Synopsis\n\nls [-l] FILE... [-a | -b]\n\n## "
      "Bugs\n\nSee "
      "cp(1).\n");
}

TEST(DocBookTest, FilesAreRecognised) {
  const auto format = [](const std::string& bytes) { return std::string(MarkedTextFormat(bytes)); };
  EXPECT_EQ(format("<article xmlns=\"http://docbook.org/ns/docbook\" version=\"5.0\"/>"),
            "docbook");
  EXPECT_EQ(format("<!-- <x> --><chapter id='a'><title>A</title><para>b</para></chapter>"),
            "docbook");
  EXPECT_EQ(format("<d:book xmlns:d='http://docbook.org/ns/docbook'/>"), "docbook");
  EXPECT_EQ(format("<xsl:stylesheet xmlns:d='http://docbook.org/ns/docbook'/>"), "");
  EXPECT_EQ(format("<article><front/><body><p>JATS</p></body></article>"), "");
  EXPECT_EQ(format("<book><title>No DocBook</title></book>"), "");
  EXPECT_EQ(format("In <book> a <para> is"), "");
  EXPECT_EQ(DetectFormat("<x/>", "a.DocBook"), Format::kDocBook);
}

TEST(DocBookTest, HostileEntities) {
  std::string bomb = "<!DOCTYPE book [<!ENTITY a0 'aaaaaaaaaa'>";
  for (int i = 1; i < 12; ++i) {
    const std::string inner = "&a" + std::to_string(i - 1) + ";";
    bomb += "<!ENTITY a" + std::to_string(i) + " '" + Repeated(inner, 10) + "'>";
  }
  const std::string refusal = "refused: declares entities that expand to too much text";
  EXPECT_EQ(MarkupText("docbook", bomb + "]><book><para>&a11;</para></book>"), refusal);
  EXPECT_EQ(
      MarkupText("docbook", "<!DOCTYPE book [<!ENTITY a '&b;'><!ENTITY b '&a;'>]><book>&a;</book>"),
      refusal);
  EXPECT_EQ(MarkupText("docbook",
                       "<!DOCTYPE book [<!ENTITY p SYSTEM '/etc/passwd'>]><book><para>x&p;y"
                       "&kde; &amp; <![CDATA[&a;]]></para></book>"),
            "xykde & &a;\n");
  EXPECT_EQ(MarkupText("docbook", "<para>a&nbsp;b&eacute;&hellip;&copyright;&shy;c</para>"),
            "a bé…copyrightc\n");
  std::string names;
  for (int i = 0; i < 100'000; ++i) names += "&n" + std::to_string(i) + ";";
  EXPECT_LT(SecondsToRead("docbook", "<para>" + names + "</para>"), 5);
  EXPECT_EQ(Extract("docbook", "<book><para>Cut")->note,
            "the file is not well-formed XML, so that parts of it may be missing");
  EXPECT_TRUE(MarkupText("docbook", "no XML").starts_with("refused: is damaged"));
  EXPECT_TRUE(MarkupText("docbook", "<!DOCTYPE x [<!ENTITY").starts_with("refused: is damaged"));
}

// --- calendars -----------------------------------------------------------------------------------

TEST(CalendarTest, EventsAreLinesOfNamesAndValues) {
  const std::string calendar =
      "BEGIN:VCALENDAR\r\nX-WR-CALNAME:Mill\r\nBEGIN:VTIMEZONE\r\nDTSTART:19700101T000000\r\n"
      "BEGIN:STANDARD\r\nDTSTART:19701025T030000\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\n"
      "BEGIN:VEVENT\r\nDTEND;TZID=Europe/Berlin:20240301T093000\r\nDTSTART;TZID=Europe/"
      "Berlin:20240301T"
      "081500\r\nSUMMARY:Repair of the\r\n  wheel\\, again\r\nLOCATION:OSK\r\nDESCRIPTION:Bring "
      "oak.\\n"
      "\\nAnd nails\\; many.\r\nORGANIZER;CN=\"Brok: "
      "Ada\":mailto:ada@example.org\r\nATTENDEE;PARTSTAT="
      "NEEDS-ACTION:MAILTO:bo@example.org\r\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,-1FR;UNTIL="
      "20241231"
      "\r\nBEGIN:VALARM\r\nDESCRIPTION:no\r\nTRIGGER:-PT5M\r\nEND:VALARM\r\nUID:1\r\nEND:VEVENT\r\n"
      "BEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20240305\r\nDTEND;VALUE=DATE:20240307\r\nSUMMARY:Fair\r\n"
      "END:VEVENT\r\nBEGIN:VTODO\r\nDUE:20240310T120000Z\r\nSUMMARY:Pay\r\nDURATION:PT1H30M\r\n"
      "END:VTODO\r\nEND:VCALENDAR\r\n";
  EXPECT_EQ(DetectFormat(calendar, "a.txt"), Format::kCalendar);
  EXPECT_EQ(
      MarkupText("ics", calendar),
      "# Mill\n\n## Repair of the wheel, again\n\n"
      "Start: Friday, 2024-03-01, 08:15 (Europe/Berlin)\n"
      "End: Friday, 2024-03-01, 09:30 (Europe/Berlin)\nLocation: OSK\n"
      "Organizer: Brok: Ada <ada@example.org>\nAttendee: bo@example.org (needs action)\n"
      "Repeats: every 2 weeks, on Monday, last Friday, until Tuesday, 2024-12-31\n\n"
      "Bring oak.\nAnd nails; many.\n\n## Fair\n\nStart: Tuesday, 2024-03-05\nEnd: Wednesday, "
      "2024-03-06\n\n## Pay\n\nDue: Sunday, 2024-03-10, 12:00 UTC\nDuration: 1 hour 30 minutes\n");
  EXPECT_EQ(MarkupText("ics", "BEGIN:VEVENT\nSUMMARY:Cut"), "## Cut\n");
  EXPECT_EQ(
      MarkupText("ics",
                 "BEGIN:VFREEBUSY\nFREEBUSY:20240301T080000Z/PT1H,20240302T080000Z/"
                 "20240302T100000Z\nEND:VFREEBUSY\n"),
      "## Busy times\n\nBusy: Friday, 2024-03-01, 08:00 UTC for 1 hour; Saturday, 2024-03-02, "
      "08:00 UTC to Saturday, 2024-03-02, 10:00 UTC\n");
  EXPECT_EQ(MarkupText("ics", "no calendar"), "no calendar\n");
}

// --- address books -------------------------------------------------------------------------------

TEST(ContactsTest, CardsOfAllVersions) {
  const std::string cards =
      "BEGIN:VCARD\r\nVERSION:3.0\r\nFN:Ada Brok\r\nN:Brok;Ada;Maria,Eva;Dr.;\r\nORG:Osk "
      "Mill;Sales\r\n"
      "TEL;TYPE=work,voice:+49 30 1234\r\nitem1.EMAIL;type=INTERNET:ada@example.org\r\n"
      "item1.X-ABLabel:_$!<Home>!$_\r\nADR;TYPE=home:;;Mill Lane 1;Osk;;12345;Norway\r\n"
      "BDAY:1970-04-12\r\nPHOTO;ENCODING=b:AAAA\r\n BBBB\r\nNOTE:One\\, "
      "two\\nthree\r\nEND:VCARD\r\n"
      "begin:vcard\nVERSION:2.1\nN;CHARSET=ISO-8859-1;ENCODING=QUOTED-PRINTABLE:M=FCller;J=F6rg\n"
      "TEL;HOME;VOICE:030 9\nNOTE;ENCODING=QUOTED-PRINTABLE:first=\n second =3D "
      "2\nBDAY:--0412\nend:vcard\n";
  EXPECT_EQ(DetectFormat(cards, ""), Format::kContacts);
  EXPECT_EQ(
      MarkupText("vcf", cards),
      "## Ada Brok\n\nName: Dr. Ada Maria Eva Brok\nOrganization: Osk Mill, Sales\nTelephone "
      "(work): +49 30 "
      "1234\nE-mail (Home): ada@example.org\nAddress (home): Mill Lane 1, Osk, 12345, Norway\n"
      "Birthday: Sunday, 1970-04-12\nNote: One, two three\n\n## Jörg Müller\n\nTelephone (home): "
      "030 "
      "9\nNote: first second = 2\nBirthday: month 04, day 12\n");
  // Variants of genes.
  const std::string genes = "##fileformat=VCFv4.2\n##note:x\n#CHROM\tPOS\n1\t2\n";
  EXPECT_EQ(MarkupText("vcf", genes), genes);
  for (const char* const piece : {"BEGIN:VCARD\n", "TEL:1\n", " x\n", "a=\n", "N;X=\"\n", "\\;"}) {
    EXPECT_LT(SecondsToRead("vcf", "BEGIN:VCARD\n" + Repeated(piece, 200'000)), 5) << piece;
    EXPECT_LT(SecondsToRead("ics", "BEGIN:VEVENT\nDTEND:1\n" + Repeated(piece, 200'000)), 5)
        << piece;
  }
}

// --- headings of RTF -----------------------------------------------------------------------------

constexpr char kRtfStyles[] =
    "{\\rtf1\\ansi{\\stylesheet{\\s0 Normal;}{\\s1\\outlinelevel0 \\'dcberschrift 1;}"
    "{\\s2\\sbasedon0 heading 2;}{\\s3\\sbasedon2 Mine;}{\\s4 Title;}{\\*\\cs9 heading 1 Char;}"
    "{\\s5\\outlinelevel9\\sbasedon1 Body;}}";

TEST(RtfHeadingsTest, StylesAndOutlineLevels) {
  const auto text = [](const std::string& body) {
    auto read = ReadRtf(kRtfStyles + body + "}", {});
    return read.ok() ? read->text : "refused: " + read.error().message;
  };
  EXPECT_EQ(
      text(
          "\\pard\\s4 Mill\\par\\pard\\s1{\\*\\bkmkstart _Toc1}{\\b Parts}\\par\\pard Text.\\par"
          "{\\listtext\\pard 1.2 }\\pard\\s3 {Oak}\\par \\pard\\s5 Body.\\par\\pard\\outlinelevel2 "
          "Deep\\line er\\par\\pard Last."),
      "# Mill\n\n# Parts\n\nText.\n\n## 1.2 Oak\n\nBody.\n\n### Deep er\n\nLast.\n");
  // Paragraphs keep the style up to \pard; a cell is no heading.
  EXPECT_EQ(text("\\pard\\s1 One\\par Two\\par\\pard Three"), "# One\n\n# Two\n\nThree\n");
  EXPECT_EQ(text("\\trowd\\cellx100\\pard\\intbl\\s1 A\\cell\\pard\\intbl B\\cell\\row\\pard end"),
            "A | B\nend\n");
  // unrtf puts what stands between two tables into a cell.
  const std::string row = "\\trowd\\cellx1\\cellx2\\intbl c\\cell d\\cell\\row\\pard ";
  EXPECT_EQ(text(row + "One.\\par Two.\\par Three.\\par" + row + "End.\\par"),
            "c | d\nOne.\n\nTwo.\n\nThree.\n\nc\n\nd\nEnd.\n");
}

}  // namespace
}  // namespace lectern::tools
