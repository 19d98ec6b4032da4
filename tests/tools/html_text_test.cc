// The text of the parts of web pages that are more than their words: lists that count, cells that
// span, images, formulas. Expected texts are what browsers show, in the form of html.h.
#include <gtest/gtest.h>

#include <string>

#include "tools/ingest/html.h"

namespace lectern::tools {
namespace {

std::string PageText(const std::string& html) {
  auto text = ReadHtml(html, {});
  return text.ok() ? *text : text.error().message;
}

std::string Times(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

// As browsers show them (HTML Standard, "The ol element", "The li element").
TEST(HtmlTextTest, NumbersOfListsAreThoseThatAreShown) {
  EXPECT_EQ(PageText("<ol start=4 type=a><li>x<li value=9>y</ol><ol reversed><li>p<li>q</ol>"
                     "<ol style='list-style-type: upper-roman'><li>z</ol><ol start=-3><li>w</ol>"),
            "d. x\ni. y\n\n2. p\n1. q\n\nI. z\n\n1. w\n");
}

// DocBook's questions and answers, callouts and references, and parts of contracts: their numbers
// are no column.
TEST(HtmlTextTest, TablesWithAColumnOfMarkersAreLists) {
  EXPECT_EQ(PageText("<table><tr class=question><td><b>1.1.</b></td><td><b>Who made it?</b>"
                     "<tr class=answer><td></td><td><p>Two brothers.</p><p>In 1901.</p>"
                     "<tr><td>1.2. <td>Why?<pre>a  b</pre></table>"),
            "1.1. Who made it?\n\nTwo brothers.\n\nIn 1901.\n\n1.2. Why?\n\na  b\n");
  EXPECT_EQ(
      PageText("<table><tr><td>[12]<td>A. Smith. Mills.<tr><td>(a)<td>the tenant<tr><td>•<td>x"
               "<tr><td>Q:<td>When?<tr><td>A3.<td>Now.<tr><td>10.11.12.<td>y</table>"),
      "[12] A. Smith. Mills.\n(a) the tenant\n• x\nQ: When?\nA3. Now.\n10.11.12. y\n");
  // A title above, rows without a marker, and a table inside, whose columns stay.
  EXPECT_EQ(
      PageText("<table><tr><td colspan=2>Terms<tr><td>2)<td>Pay.<tr><td><td>Twice.<tr><td>3)<td>"
               "<table><tr><td>1<td>2</table></table>"),
      "Terms\n2) Pay.\nTwice.\n\n3) 1 | 2\n");
  // Columns of numbers, words or signs, a head, a third column, cells that go on downwards.
  for (const std::string rows :
       {"<tr><td>1<td>one", "<tr><td>1.5<td>one", "<tr><td>A<td>one", "<tr><td>Q4<td>one",
        "<tr><td>note.<td>one", "<tr><td>...<td>one", "<tr><th>No.<th>Name<tr><td>1.<td>one",
        "<tr><td>No.<td>Name<tr><td>1.<td>one", "<tr><td>1.<td>one<td>two",
        "<tr><td rowspan=2>1.<td>one<tr><td>two"}) {
    EXPECT_NE(PageText("<table>" + rows + "</table>").find(" | one"), std::string::npos) << rows;
  }
  // Without markers or without texts nothing is lost.
  EXPECT_EQ(PageText("<table><tr><td><td>one</table>"), "one\n");
  EXPECT_EQ(PageText("<table><tr><td>1.<td><tr><td>2.<td>two</table>"), "1.\n2. | two\n");
}

TEST(HtmlTextTest, CellsThatGoOnDownwardsAreRepeatedAndEmptyOnesKeepTheirPlace) {
  EXPECT_EQ(PageText("<table><tr><th>Year<th>City<th>People<tr><td rowspan=2>2020<td>Rome<td>3"
                     "<tr><td>Oslo<td rowspan=0>1<tr><td><td>Bern<td>2<tr><td>a<td></table>"),
            "Year | City | People\n2020 | Rome | 3\n2020 | Oslo | 1\n| Bern | 2\na\n");
  EXPECT_EQ(
      PageText("<table><tr><td colspan=2>A<td rowspan=3>B<tr><td>C<td>D<tr><td>E<td>F</table>"),
      "A | A | B\nC | D | B\nE | F | B\n");
  EXPECT_EQ(PageText("<table><tr><th colspan=3>Sales<tr><th rowspan=2>Item<th colspan=2>2024"
                     "<tr><th>Q1<th>Q2<tr><td>Pump<td colspan=2>none</table>"),
            "Sales\nItem | 2024 | 2024\nItem | Q1 | Q2\nPump | none | none\n");
  // Groups of rows end it.
  EXPECT_EQ(PageText("<table><thead><tr><th rowspan=9>N<th>M<tbody><tr><td>1<td>2</table>"),
            "N | M\n1 | 2\n");
}

TEST(HtmlTextTest, RepeatedCellsAreBounded) {
  const std::string cells = "<table><tr>" + Times("<td rowspan=65000>wide words", 1000) +
                            Times("<tr><td>x", 50'000) + "</table>";
  EXPECT_LT(PageText(cells).size(), 4 * cells.size());
}

TEST(HtmlTextTest, ImagesSayTheirText) {
  EXPECT_EQ(PageText("<p>See <img alt='A pump on a red base'> and <img alt='$x^2$'>.</p>"),
            "See [Image: A pump on a red base] and $x^2$.\n");
  EXPECT_EQ(PageText("<p>a<img alt=''><img alt='logo.png'><img alt='Picture 3'><img alt='Save it' "
                     "width=16 height=16><img role=presentation alt='A line'><img alt='***'></p>"),
            "a\n");
  EXPECT_EQ(PageText("<figure><img alt='The old mill'><figcaption>The old\n mill in "
                     "1901</figcaption></figure><p><a href=x><img alt='Next page'> Next page</a>"
                     "<a href=y><img alt=Next></a></p>"
                     "<table><tr><td><img alt='[Note]'></td><th>Note</th></tr></table>"
                     "<svg role=img aria-label='Sales by year'><text>9</text></svg>"),
            "The old mill in 1901\n\nNext page\n\n| Note\n\n[Image: Sales by year]\n");
}

TEST(HtmlTextTest, RaisedNumbersFormulasAndQuotations) {
  EXPECT_EQ(PageText("<p>10<sup>6</sup> m<sup>-2</sup>, 1<sup>st</sup>, <sup>2</sup>H, "
                     "<q>yes</q>, <ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby></p>"),
            "10⁶ m⁻², 1st, 2H, “yes”, 漢\n");
  EXPECT_EQ(
      PageText("<p><math><msup><mi>x</mi><mn>2</mn></msup><mo>+</mo><mfrac><mrow><mi>a</mi>"
               "<mo>+</mo><mi>b</mi></mrow><mi>c</mi></mfrac></math>; <math><semantics><mi>q</mi>"
               "<annotation encoding='application/x-tex'>\\frac{1}{2}</annotation></semantics>"
               "</math>; <math alttext='e^x'><mi>e</mi></math></p>"),
      "x² + (a + b)/c; \\frac{1}{2}; e^x\n");
  EXPECT_EQ(PageText("<p>a<math>" + Times("<mrow>", 50'000) + "x</math></p>"), "a\n");
}

// As pandoc, Standard Ebooks, Sphinx and wikis write them.
TEST(HtmlTextTest, MarksOfNotesAndWhatLeadsBackToThem) {
  EXPECT_EQ(
      PageText("<p>In 191<a href='#n1' epub:type='noteref'>2</a> and 1913.<a role=doc-noteref "
               "href='#n2'>3</a> <a role=doc-noteref href='#n3'><span>[</span>4<span>]</span>"
               "</a></p><ol><li>Ibid. <a href='a.html#r2' role=doc-backlink>↩︎</a><li>"
               "<b><a href='#r3'>^</a></b> See <a href='#r4'>↑ above</a>.</ol>"),
      "In 191² and 1913.³ [4]\n\n1. Ibid.\n2. See ↑ above.\n");
  EXPECT_EQ(PageText("<h2>Mills<span class=mw-editsection>[<a href=e>edit</a>]</span></h2>x"),
            "Mills\n\nx\n");
}

TEST(HtmlTextTest, TwoLineBreaksLeaveAnEmptyLine) {
  EXPECT_EQ(
      PageText("one<br>two<br><br>three<br/> <br>\n<br>four<div>five</div><div><br></div>six"),
      "one\ntwo\n\nthree\n\nfour\nfive\n\nsix\n");
  // Items and cells stay together; an element's break with one of its own is one.
  EXPECT_EQ(PageText("<ul><li>a<br><br>b<li>c</ul><table><tr><td>d<br><br>e<td>f</table>"),
            "- a\nb\n- c\n\nd e | f\n");
  EXPECT_EQ(PageText("<div>a<br></div><div>b</div>"), "a\nb\n");
}

// As Sphinx, Texinfo and DocBook write them.
TEST(HtmlTextTest, SignsOfLinksToHeadingsAndLinesThatLeadThroughABookAreLeftOut) {
  EXPECT_EQ(PageText("<h2>Arrays<a class=headerlink href='#arrays' title='Permalink'>¶</a></h2>"
                     "<p>Text<a href='#note'>*</a> in <a href='#s3'>§ 3</a>. <a href='#n'>#1</a>"),
            "Arrays\n\nText* in § 3. #1\n");
  const std::string pager =
      "<div><p>Next: <a accesskey=n rel=next href=b.html>Lists</a>, Up: <a rel=up href=i.html>Data"
      "</a> &nbsp; [<a rel=contents href=c.html>Contents</a>]</p></div>";
  EXPECT_EQ(PageText(pager + "<h2>Arrays</h2><p>Text.</p>" + pager), "Arrays\n\nText.\n");
  EXPECT_EQ(PageText("<p>Text.</p><table><tr><td><a accesskey=p href=a.html>Prev</a></td><td>"
                     "<a accesskey=n href=c.html>Next</a></td></tr><tr><td>Sets</td></tr></table>"),
            "Text.\n");
  // Words among them, or one such link alone, are text.
  const std::string text =
      "<p>As the <a rel=prev href=a.html>chapter before</a> and the <a rel=next "
      "href=b.html>one behind</a> tell in all their many words.</p>";
  EXPECT_EQ(PageText(text),
            "As the chapter before and the one behind tell in all their many words.\n");
  EXPECT_EQ(PageText("<p>See <a rel=next href=b.html>Lists</a>.</p>"), "See Lists.\n");
}

// As pages that scripts made are saved, and those of word processors (ARIA 1.2; CSS Display).
TEST(HtmlTextTest, BlocksPlayThePartsThatTheirRolesAndStylesGiveThem) {
  const std::string cells = "<span role=cell>Oslo</span><span role=cell>717,710</span>";
  EXPECT_EQ(PageText("<div role=table><div role=rowgroup><div role=row><div role=columnheader>City"
                     "</div><div role=columnheader>People</div></div></div><div role=row>" +
                     cells + "</div></div>"),
            "City | People\nOslo | 717,710\n");
  EXPECT_EQ(PageText("<p>a<div style='display:table'><div style='Display : table-row'><div "
                     "style='display:table-cell'>b</div><div style='display:table-cell !important'>"
                     "c</div></div></div>d"),
            "a\n\nb | c\n\nd\n");
  EXPECT_EQ(PageText("<div role=heading aria-level=3>Title</div><my-list role=list><my-item "
                     "role=listitem>x</my-item><my-item role=listitem>y</my-item></my-list>"),
            "Title\n\n- x\n- y\n");
  HtmlOptions marked;
  marked.marks_headings = true;
  EXPECT_EQ(
      *ReadHtml("<p role=heading>One</p><div role=heading aria-level=9>Two</div><p>x", marked),
      "## One\n\n###### Two\n\nx\n");
  EXPECT_EQ(*ReadHtml("<h2>a<span style='display:block'>b</span>c<br>d</h2><p>x", marked),
            "## a b c d\n\nx\n");
  EXPECT_EQ(
      PageText("<p>a <div style='display:inline'>b</div><span style='display:block'>c</span>"),
      "a\n\nb\nc\n");
  EXPECT_EQ(PageText("<div style='white-space: pre'><div>if x:</div><div>  y()</div></div>"
                     "<span style='white-space:pre-wrap'>p  q</span>  r"),
            "if x:\n  y()\np  q r\n");
  // Cells without a row, and elements that have a part of their own.
  EXPECT_EQ(PageText("<div style='display:table'><div style='display:table-cell'>a</div></div>"
                     "<div style='display:table-cell'>b</div><div role=cell>c</div>"
                     "<ul style='display:table-row'><li style='display:table-cell'>d</ul>"),
            "a\n\nb\nc\n\n- d\n");
}

TEST(HtmlTextTest, TablesOfJavadocAreReadByRow) {
  EXPECT_EQ(PageText("<main><p>Begin</p><div class='summary-table two-column-summary'>"
                     "<div class='table-header col-first'>Method</div>"
                     "<div class='table-header col-last'>Description</div>"
                     "<div class='col-first even-row-color'><code>get()</code></div>\n"
                     "<div class='col-last even-row-color'>\n<div class='block'>Returns the value."
                     "</div>\n</div><div class='col-first'>size()</div><div class='col-last'>&nbsp;"
                     "</div></div><p>End</p></main>"),
            "Begin\n\nMethod | Description\nget() | Returns the value.\nsize()\n\nEnd\n");
}

TEST(HtmlTextTest, ClosedDialogsAreHidden) {
  EXPECT_EQ(PageText("<p>a</p><dialog>no</dialog><dialog open>b</dialog><p popover>no</p>"
                     "<p style='display:\n none'>no</p><template>no</template>"
                     "<details><summary>c</summary>d</details>"),
            "a\n\nb\nc\nd\n");
}

}  // namespace
}  // namespace lectern::tools
