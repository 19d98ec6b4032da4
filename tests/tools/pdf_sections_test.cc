// Sections of short columns, paragraphs whose lines are far apart, the rows of tables in PDFs
// without rules, fields of forms, and vowelled text from right to left. The files of pdf_boxes/ are
// what pdftotext printed for PDFs of other programs; the texts expected are those that the PDFs
// were made of.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tools/ingest/bbox_text.h"
#include "tools/ingest/letter_forms.h"

namespace lectern::tools {
namespace {

std::string TextOfBoxes(const std::string& boxes) {
  BboxText parser;
  PagedText paged;
  return parser.Take(boxes) && parser.Finish(paged) ? paged.text : "refused";
}

std::string TextOfBoxFile(const std::string& name) {
  std::ifstream file(std::string(PDF_BOXES) + "/" + name);
  EXPECT_TRUE(file.good()) << name;
  return TextOfBoxes(std::string(std::istreambuf_iterator<char>(file), {}));
}

std::string BoxPlaces(double x_min, double y_min, double x_max, double y_max) {
  return " xMin=\"" + std::to_string(x_min) + "\" yMin=\"" + std::to_string(y_min) + "\" xMax=\"" +
         std::to_string(x_max) + "\" yMax=\"" + std::to_string(y_max) + "\"";
}

// A block of lines from (x, y) on, each 12 points below the one before, in letters 5 points wide.
std::string BlockBox(double x, double y, const std::vector<std::string>& lines) {
  std::string boxes;
  double right = x, top = y;
  for (const std::string& line : lines) {
    std::string words;
    double at = x;
    for (size_t begin = 0; begin < line.size();) {
      const size_t end = std::min(line.find(' ', begin), line.size());
      const double width = 5 * static_cast<double>(end - begin);
      words += "<word" + BoxPlaces(at, top, at + width, top + 10) + ">" +
               line.substr(begin, end - begin) + "</word>";
      right = std::max(right, at + width);
      at += width + 2.5;
      begin = end + 1;
    }
    boxes += "<line" + BoxPlaces(x, top, at - 2.5, top + 10) + ">" + words + "</line>";
    top += 12;
  }
  return "<flow><block" + BoxPlaces(x, y, right, top - 2) + ">" + boxes + "</block></flow>";
}

std::string TextOfPage(const std::string& boxes) {
  return TextOfBoxes("<doc><page width=\"600\" height=\"800\">" + boxes + "</page></doc>");
}

const char* const kBoatHouse =
    "The boat house at Alder Reach was built in 1964 and belongs to the rowing club. It has eleven "
    "boats, of which four are for beginners.\n\n"
    "1. Boats are taken out between sunrise and sunset only. Write your name and the hour into the "
    "book beside the door before you leave.\n\n"
    "2. Members under sixteen years row with an adult in the same boat, or with the trainer in the "
    "launch beside them.\n\n"
    "3. A boat that was damaged stays on the trestles. Tell the boatman on the same day; repairs "
    "up to 80 euros are paid by the club.\n\n"
    "4. The key is kept at the bakery in Mill Lane. It is given to members who show their card, "
    "and "
    "is brought back before seven.\n\n"
    "Guests pay five euros an hour. They sign the form about swimming, which lies in the drawer of "
    "the desk.\n";

// Their paragraphs have three lines each, so that they look like the rows of a table.
TEST(PdfSectionsTest, ShortColumnsAreReadOneAfterTheOther) {
  EXPECT_EQ(TextOfBoxFile("short-columns.xml"),
            "Rules of the boat house\n\n" + std::string(kBoatHouse));
  EXPECT_EQ(TextOfBoxFile("three-short-columns.xml"),
            "Opening hours of the pool in winter\n\n"
            "The pool opens at seven and closes at nine in the evening, on Sundays at six.\n\n"
            "Children under six swim with their parents only.\n\n"
            "The sauna costs four euros more; towels can be hired at the desk for one euro.\n\n"
            "Lockers take a coin of two euros, which comes back.\n\n"
            "Courses for beginners start in the second week of each month, on Tuesday at five.\n\n"
            "Nobody dives from the rim.\n");
}

TEST(PdfSectionsTest, ColumnsStandBetweenTheTextAboveAndBelowThem) {
  const std::string text = TextOfBoxFile("columns-among-text.xml");
  const size_t above = text.find("Nobody dives from the rim."), section = text.find(kBoatHouse),
               below = text.find("Notice\n\nThe library is closed on Friday");
  ASSERT_NE(section, std::string::npos) << text;
  ASSERT_NE(below, std::string::npos) << text;
  EXPECT_LT(above, section);
  EXPECT_LT(section, below);
}

TEST(PdfSectionsTest, ShortColumnsFromTheRightBeginAtTheRight) {
  const std::string text = TextOfBoxFile("short-columns-arabic.xml");
  EXPECT_EQ(text.find('|'), std::string::npos) << text;
  size_t last = 0;
  for (const char* const mark : {"1. قبل", "2. اضغط", "3. ي", "4. لا"}) {
    const size_t found = text.find(mark);
    ASSERT_NE(found, std::string::npos) << mark << "\n" << text;
    EXPECT_GE(found, last);
    last = found;
  }
}

// A row whose cells have several numbers of lines leaves a gap that columns of prose do not have;
// heads without a full stop are those of a table.
TEST(PdfSectionsTest, TablesOfProseAreNoSections) {
  const std::string rows = TextOfPage(
      BlockBox(50, 50, {"The river rises in the hills", "north of Varn and is cold."}) +
      BlockBox(310, 50,
               {"Its valley was settled early", "and many bridges were built",
                "of oak by monks there."}) +
      BlockBox(50, 98,
               {"The town has a square with", "a fountain made of granite", "and a clock."}) +
      BlockBox(310, 98, {"Its market is held on every", "Friday before noon."}) +
      BlockBox(50, 146, {"The harbour was dug by hand", "in nine years."}) +
      BlockBox(310, 146, {"Its quay takes ships of any", "draught up to ten metres."}));
  EXPECT_NE(rows.find("is cold. | Its valley"), std::string::npos) << rows;
  EXPECT_NE(rows.find("a clock. | Its market"), std::string::npos) << rows;
}

// Texts and program names of LibreOffice's cells have lines of different heights.
TEST(PdfSectionsTest, RowsOfCellsInTwoFontsStayRows) {
  const std::string text = TextOfBoxFile("two-fonts-cells.xml");
  for (const std::string row :
       {"\nPOST /v1/ask | the object that ask-document --json prints, or a stream of it",
        "\nPOST /v1/cite | the passages that support a given text , sentence by sentence, with the "
        "probability of each: the object that ask-document --cite --json prints. No model is "
        "used\n",
        "document=NAME | the text of one of its documents, indexed or not, into which the "
        "offsets"}) {
    EXPECT_NE(text.find(row), std::string::npos) << row << "\n" << text;
  }
}

// Numbers aligned at the right stand no farther from the texts behind them than two words do.
TEST(PdfSectionsTest, NumbersBesideTextsAreAColumn) {
  const std::vector<std::string> sizes = {"8", "16", "128", "4", "1024"},
                                 fields = {"magic", "id", "fingerprint", "kind", "name"};
  std::string boxes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const double y = 50 + 12 * static_cast<double>(i);
    boxes += BlockBox(50, y, {"row"}) +
             BlockBox(120 - 5 * static_cast<double>(sizes[i].size()), y, {sizes[i]}) +
             BlockBox(123, y, {fields[i]}) + BlockBox(300, y, {"used"});
  }
  EXPECT_EQ(TextOfPage(boxes),
            "row | 8 | magic | used\nrow | 16 | id | used\nrow | 128 | fingerprint | used\n"
            "row | 4 | kind | used\nrow | 1024 | name | used\n");
}

std::string InFormC(const char* text) { return PlainLetters(CodePoints(text)); }

// Words of a letter with its vowel points are higher than wide, and the page is upright.
TEST(PdfSectionsTest, VowelledWordsAreNotSideways) {
  const std::string text = TextOfBoxFile("arabic-vowelled.xml");
  EXPECT_TRUE(text.starts_with(InFormC("دَلِيلُ المَكْتَبَةِ"))) << text;
  EXPECT_NE(text.find(InFormC("فِي عَامِ 1952 فِي وَسَطِ المَدِينَةِ، وَفِيهَا سَبْعُونَ أَلْفَ")), std::string::npos)
      << text;
}

// The box of a letter begins at its mark, within the letter.
TEST(PdfSectionsTest, VowelledHebrewHasItsSpaces) {
  const std::string text = TextOfBoxFile("hebrew-vowelled.xml");
  for (const char* const words :
       {"הַסִּפְרִיָּה הָעִירוֹנִית", "נוֹסְדָה בִּשְׁנַת 1952 בְּמֶרְכַּז הָעִיר, וּבָהּ שִׁבְעִים אֶלֶף סְפָרִים.",
        "2. בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם וְאֵת הָאָרֶץ."}) {
    EXPECT_NE(text.find(InFormC(words)), std::string::npos) << words << "\n" << text;
  }
}

// pdftotext parts the lines of such text where a mark is drawn, in any order.
TEST(PdfSectionsTest, PartsOfVowelledLinesAreOneLine) {
  const std::string text = TextOfBoxFile("arabic-vowelled-parts.xml");
  for (const char* const words : {"دَلِيلُ المَكْتَبَةِ العَامَّةِ", "بِسْمِ اللَّهِ", "فِي وَسَطِ المَدِينَةِ،"}) {
    EXPECT_NE(text.find(InFormC(words)), std::string::npos) << words << "\n" << text;
  }
}

// A letter with a mark ends before its true edge, so that gaps do not tell which parts are words.
TEST(PdfSectionsTest, PartsOfWordsAtMarksAreToldByTheWidthsOfLetters) {
  const std::string text = TextOfBoxFile("hebrew-vowelled-keter.xml");
  for (const char* const words :
       {"הַסִּפְרִיָּה הָעִירוֹנִית", "הַסִּפְרִיָּה נוֹסְדָה בִּשְׁנַת 1952 בְּמֶרְכַּז הָעִיר, וּבָהּ שִׁבְעִים אֶלֶף סְפָרִים."}) {
    EXPECT_NE(text.find(InFormC(words)), std::string::npos) << words << "\n" << text;
  }
}

// LibreOffice draws some marks before their letters, and letters of one glyph with their marks in
// logical order.
TEST(PdfSectionsTest, MarksBeforeAndBehindLettersInOneLine) {
  const std::string text = TextOfBoxFile("hebrew-vowelled-libreoffice.xml");
  for (const char* const words : {"נוֹסְדָה בִּשְׁנַת 1952 בְּמֶרְכַּז הָעִיר, וּבָהּ שִׁבְעִים אֶלֶף סְפָרִים.",
                                  "תּוֹשָׁב רַשַּׁאי לִשְׁאֹל חֲמִשָּׁה סְפָרִים לְחֹדֶשׁ אֶחָד."}) {
    EXPECT_NE(text.find(InFormC(words)), std::string::npos) << words << "\n" << text;
  }
}

// Marks are set higher and lower than their words, whose lines are those of columns all the same.
TEST(PdfSectionsTest, ColumnsWithMarksAreReadOneAfterTheOther) {
  const std::string text = TextOfBoxFile("arabic-marked-columns.xml");
  const size_t first = text.find(InFormC("صُمّمت المضخة من طراز KX-200 في مدينة طنطا"));
  const size_t second = text.find(InFormC("لا تُشغّل المضخة في درجة حرارة أقل من 5 درجات"));
  const size_t last = text.find(InFormC("زيتًا غير الزيت المعتمد"));
  EXPECT_LT(first, second) << text;
  EXPECT_LT(second, last) << text;
  EXPECT_NE(last, std::string::npos) << text;
}

// Lines of two cells, the second at `x`.
std::string TwoColumns(double left, double x, double y, const std::vector<std::string>& firsts,
                       const std::vector<std::string>& lasts) {
  return BlockBox(left, y, firsts) + BlockBox(x, y, lasts);
}

// Signs of program text are explained on reference cards and in manuals.
TEST(PdfSectionsTest, OperatorsStandBesideTheirMeanings) {
  EXPECT_EQ(TextOfPage(TwoColumns(50, 120, 50, {"&amp;&amp;", "!=", "++ --", "&lt;&lt;", "\\\\"},
                                  {"logical and", "not equal", "increment, decrement",
                                   "shift to the left", "a backslash"})),
            "&& | logical and\n!= | not equal\n++ -- | increment, decrement\n"
            "<< | shift to the left\n\\\\ | a backslash\n");
  EXPECT_EQ(TextOfPage(TwoColumns(50, 250, 50,
                                  {"assignment", "modulus (remainder)", "comparisons", "negation"},
                                  {"+= -= *=", "%", "== !=", "!"})),
            "assignment | += -= *=\nmodulus (remainder) | %\ncomparisons | == !=\nnegation | !\n");
}

// The cells of aligned assignments begin at one place, too, and those of a shell's lines.
TEST(PdfSectionsTest, AlignedProgramTextIsNotExplained) {
  for (const std::string& text :
       {TextOfPage(TwoColumns(50, 150, 50, {"let width", "let height", "let x", "let count"},
                              {"= 3;", "= 5 + width;", "= read();", "= 0;"})),
        TextOfPage(TwoColumns(50, 90, 50, {"$", "$", "$", "$"},
                              {"tar -x; cd a", "make; make install", "cd ..; ls", "rm -r a;"}))}) {
    EXPECT_EQ(text.find(" | "), std::string::npos) << text;
  }
}

// Lines of a listing are numbered; its text is indented.
TEST(PdfSectionsTest, NumberedLinesOfAProgramStayBesideTheirNumbers) {
  const std::string text = TextOfPage(
      BlockBox(50, 50, {"101", "102", "103", "104"}) + BlockBox(120, 50, {"if (x == 1) {"}) +
      BlockBox(140, 62, {"y = 2;", "z = 3;"}) + BlockBox(120, 86, {"} // done"}));
  EXPECT_EQ(text, "101 | if (x == 1) {\n102 | y = 2;\n103 | z = 3;\n104 | } // done\n");
}

// A card of two columns, each with tables, whose rows are on baselines of their own. The strip
// within the left table is free in more rows than the gutter.
TEST(PdfSectionsTest, TablesBesideEachOtherAreReadOneByOne) {
  const std::vector<std::string> things = {"integer", "fraction",  "text",    "list of numbers",
                                           "path",    "colour",    "picture", "drawing of lines",
                                           "label",   "transform", "nothing", "any of these"};
  const std::vector<std::string> names = {"int",   "real", "string",  "vec",  "path", "pen",
                                          "image", "draw", "caption", "turn", "void", "object"};
  const std::vector<std::string> ends = {
      "leave a loop",      "next round", "give a value", "end all",
      "end with an error", "wait",       "go on",        "sleep"};
  const std::vector<std::string> words = {"break", "continue", "return", "exit",
                                          "abort", "wait",     "resume", "pause"};
  const std::string text =
      TextOfPage(TwoColumns(40, 180, 50, things, names) + TwoColumns(320, 480, 55, ends, words));
  for (size_t i = 0; i < things.size(); ++i) {
    EXPECT_NE(text.find(things[i] + " | " + names[i] + "\n"), std::string::npos) << text;
  }
  for (size_t i = 0; i < ends.size(); ++i) {
    EXPECT_NE(text.find(ends[i] + " | " + words[i] + "\n"), std::string::npos) << text;
  }
}

// Lines that are blocks of their own, `step` points apart, the first one at `y`.
std::string SpacedBoxes(double y, double step, const std::vector<std::string>& lines) {
  std::string boxes;
  for (const std::string& line : lines) {
    const size_t indent = line.find_first_not_of(' ');
    boxes += BlockBox(50 + 10 * static_cast<double>(indent), y, {line.substr(indent)});
    y += step;
  }
  return boxes;
}

TEST(PdfSectionsTest, SpacedLinesOfAParagraphAreOne) {
  const std::string court = SpacedBoxes(
      100, 24,
      {"   Samuel came to the hospital of the town on a Monday",
       "with a cough and a high temperature. A nurse took his",
       "history and called the case one of low priority, be-",
       "cause he did not say that his heart had been weak. So he", "was sent home.",
       "   The doctor did not read the file, which told of it,",
       "until an hour later. It was then that they called him", "back to the hospital."});
  const std::string whole =
      "Samuel came to the hospital of the town on a Monday with a cough and a high temperature. A "
      "nurse took his history and called the case one of low priority, because he did not say that "
      "his heart had been weak. So he was sent home.\n\n"
      "The doctor did not read the file, which told of it, until an hour later. It was then that "
      "they called him back to the hospital.\n";
  EXPECT_EQ(TextOfPage(court), whole);
  // Blocks beside them do not count: a line number, a note in the margin.
  EXPECT_EQ(TextOfPage(court + BlockBox(500, 700, {"7"})), whole + "\n7\n");
}

TEST(PdfSectionsTest, SpacedItemsStayApart) {
  const std::vector<std::string> items = {"arithmetic operations and their order", "comparisons",
                                          "logical operations", "shifts of numbers to the left",
                                          "assignments, which are operations too"};
  std::string apart;
  for (const std::string& item : items) apart += (apart.empty() ? "" : "\n\n") + item;
  EXPECT_EQ(TextOfPage(SpacedBoxes(100, 24, items)), apart + "\n");
  // Paragraphs of one full line each, far apart, among others whose lines are near.
  const std::vector<std::string> paragraph = {
      "The rules of the house are few, and all of them are",
      "known to the members since the day on which they came",
      "here. We read them aloud once a year, in the hall, for", "the guests."};
  const std::string rules = BlockBox(50, 100, paragraph) +
                            SpacedBoxes(172, 24,
                                        {"Boats go out between the rise and the fall of the sun",
                                         "Keys are kept by the baker, who asks for the red card",
                                         "nobody rows alone at night or in a storm of any force",
                                         "The last one to leave the house locks both its doors."});
  EXPECT_EQ(
      TextOfPage(rules),
      "The rules of the house are few, and all of them are known to the members since the day "
      "on which they came here. We read them aloud once a year, in the hall, for the guests.\n\n"
      "Boats go out between the rise and the fall of the sun\n\n"
      "Keys are kept by the baker, who asks for the red card\n\n"
      "nobody rows alone at night or in a storm of any force\n\n"
      "The last one to leave the house locks both its doors.\n");
}

// --- fields of forms ----------------------------------------------------------------------------

// pdftotext reads all labels before all values.
TEST(PdfSectionsTest, LabelsStandBesideTheirValues) {
  EXPECT_EQ(TextOfPage(BlockBox(50, 50, {"Invoice of the mill at Osk"}) +
                       BlockBox(250, 80, {"Invoice number:", "Date of the invoice:"}) +
                       BlockBox(480, 80, {"42183017", "August 3, 2014"}) +
                       // Across the strip that both have in common, so that it is no table.
                       BlockBox(250, 110, {"The total is due within thirty days of this"}) +
                       BlockBox(50, 140, {"Subtotal"}) + BlockBox(400, 140, {"$ 262.90"}) +
                       BlockBox(50, 170, {"The mill thanks you for the order of last summer."})),
            "Invoice of the mill at Osk\n\n"
            "Invoice number: | 42183017\nDate of the invoice: | August 3, 2014\n\n"
            "The total is due within thirty days of this\n\n"
            "Subtotal | $ 262.90\n\n"
            "The mill thanks you for the order of last summer.\n");
}

// The first line of an address, a formula's number, a head with a page's number, prose.
TEST(PdfSectionsTest, ValuesOfSeveralLinesStandBesideTheirLabel) {
  const std::string above = BlockBox(50, 50, {"A line above that is long enough"}),
                    below = BlockBox(50, 150, {"A line below that is long enough"});
  EXPECT_EQ(
      TextOfPage(above + BlockBox(50, 90, {"Bill to:"}) +
                 BlockBox(400, 90, {"Acme Corporation", "12 Main Street", "Lund 1200"}) + below),
      "A line above that is long enough\n\nBill to: | Acme Corporation 12 Main Street Lund 1200"
      "\n\nA line below that is long enough\n");
  // The text before the second line may be another label.
  EXPECT_EQ(TextOfPage(above + BlockBox(50, 90, {"Bill to:", "Lund"}) +
                       BlockBox(400, 90, {"Acme Corporation", "12 Main Street"}) + below)
                .find('|'),
            std::string::npos);
}

TEST(PdfSectionsTest, OtherTextsBesideEachOtherAreNoFields) {
  for (const auto& [label, value] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"Bill to:", {"One", "Two", "Three", "Four", "Five", "Six", "Seven"}},
           {"Bill to:", {"Acme Corporation", "Ship to:", "Lund 1200"}},
           {"%.pdf:", {"%.tex", "texi2dvi --pdf"}},
           {"F = R U ,", {"(2.24)"}},
           {"Chapter of the mills", {"12"}},
           {"The mill at Osk has these parts:", {"It was built in the year 1871"}}}) {
    const std::string text = TextOfPage(BlockBox(50, 50, {"A line above that is long enough"}) +
                                        BlockBox(50, 90, {label}) + BlockBox(400, 90, value) +
                                        BlockBox(50, 150, {"A line below that is long enough"}));
    EXPECT_EQ(text.find('|'), text.npos) << text;
  }
}

// --- drop capitals, stamps, dots that touch ------------------------------------------------------

// A word in letters of one size; the box reaches from 0.73 of it above the baseline to 0.27 below.
std::string LargeWord(double x, double baseline, double size, double width,
                      const std::string& text) {
  const std::string places =
      BoxPlaces(x, baseline - 0.78 * size, x + width, baseline + 0.22 * size);
  return "<flow><block" + places + "><line" + places + "><word" + places + ">" + text +
         "</word></line></block></flow>";
}

TEST(PdfSectionsTest, DropCapitals) {
  // Lines of 10 points have their baselines at 107.8, 119.8 and 131.8.
  const auto page = [](const std::string& letter, const std::string& first) {
    return TextOfPage(LargeWord(50, 119.8, 30, 18, letter) +
                      BlockBox(70, 100, {first + " was founded by five", "brothers at Osk in"}) +
                      BlockBox(50, 124, {"1871, and by the end of", "the year it had a mill."}));
  };
  EXPECT_EQ(page("T", "he company").substr(0, 26), "The company was founded by");
  EXPECT_EQ(page("“T", "he company").substr(0, 29), "“The company was founded by");
  EXPECT_EQ(page("T", "HE COMPANY").substr(0, 26), "THE COMPANY was founded by");
  EXPECT_EQ(page("I", "n Osk").substr(0, 18), "In Osk was founded");
  // The letter is a word where its neighbour is one elsewhere on the page.
  EXPECT_EQ(page("A", "mill").substr(0, 18), "A mill was founded");
  // A number, a word, and a letter beside one line are none.
  EXPECT_EQ(page("1", "he company").find("1he"), std::string::npos);
  EXPECT_EQ(page("To", "he company").find("Tohe"), std::string::npos);
  EXPECT_EQ(
      TextOfPage(LargeWord(50, 119.8, 30, 18, "T") + BlockBox(70, 112, {"he company"})).find("The"),
      std::string::npos);
}

TEST(PdfSectionsTest, StampsInTheMarginStandBehindThePage) {
  std::string stamp =
      "<flow><block" + BoxPlaces(10, 200, 30, 560) + "><line" + BoxPlaces(10, 200, 30, 560) + ">";
  double y = 500;
  for (const char* const word : {"arXiv:2401.00001v1", "[cs.CL]", "2024"}) {
    stamp += "<word" + BoxPlaces(10, y, 30, y + 60) + ">" + word + "</word>";
    y -= 70;
  }
  stamp += "</line></block></flow>";
  EXPECT_EQ(
      TextOfPage(
          BlockBox(50, 100, {"The mill at Osk was built by", "five brothers in the year of"}) +
          stamp + BlockBox(50, 124, {"the great flood. It stood on", "the river."})),
      "The mill at Osk was built by five brothers in the year of the great flood. It stood on "
      "the river.\n\narXiv:2401.00001v1 [cs.CL] 2024\n");
  // The last paragraph goes on on the next page.
  EXPECT_EQ(TextOfBoxes("<doc><page width=\"600\" height=\"800\">" +
                        BlockBox(50, 100, {"The mill was lost in the flood."}) + stamp +
                        BlockBox(50, 140, {"It had stood on the river and"}) +
                        "</page><page width=\"600\" height=\"800\">" +
                        BlockBox(50, 100, {"was built by five brothers."}) + "</page></doc>"),
            "The mill was lost in the flood.\n\narXiv:2401.00001v1 [cs.CL] 2024\n\n"
            "It had stood on the river and was built by five brothers.\n");
}

TEST(PdfSectionsTest, LeaderDotsThatTouchTheirTitle) {
  EXPECT_EQ(TextOfPage(BlockBox(50, 100,
                                {"1 Introduction........3", "2 The mill of Osk........14",
                                 "Index..............................27"})),
            "1 Introduction .... 3\n2 The mill of Osk .... 14\nIndex .... 27\n");
  // Two lines are no table of contents.
  EXPECT_NE(
      TextOfPage(BlockBox(50, 100, {"Name.......Osk", "Town.......Lund"})).find("Name......."),
      std::string::npos);
}

TEST(PdfSectionsTest, NumbersOfHeadingsWithoutAStop) {
  EXPECT_EQ(TextOfPage(BlockBox(50, 100, {"2"}) + BlockBox(65, 100, {"The mill of Osk"}) +
                       BlockBox(50, 120, {"It was built by five brothers."})),
            "2 The mill of Osk\n\nIt was built by five brothers.\n");
  // A number far from the text, one before a small letter, and two of a column.
  for (const std::string& boxes :
       {BlockBox(50, 100, {"2"}) + BlockBox(80, 100, {"The mill of Osk"}),
        BlockBox(50, 100, {"2"}) + BlockBox(65, 100, {"mills of Osk"}),
        BlockBox(50, 100, {"2", "3"}) + BlockBox(65, 100, {"The mill of Osk"})}) {
    const std::string text =
        TextOfPage(boxes + BlockBox(50, 140, {"It was built by five brothers."}));
    EXPECT_EQ(text.find("2 The"), std::string::npos) << text;
    EXPECT_EQ(text.find("2 mills"), std::string::npos) << text;
  }
}

TEST(PdfSectionsTest, MarksOfNotesStandBeforeThem) {
  const std::string mark = "<flow><block" + BoxPlaces(50, 699, 53, 706) + "><line" +
                           BoxPlaces(50, 699, 53, 706) + "><word" + BoxPlaces(50, 699, 53, 706) +
                           ">7</word></line></block></flow>";
  EXPECT_EQ(TextOfPage(BlockBox(50, 100, {"The mill was built by five brothers."}) + mark +
                       BlockBox(54, 700, {"See the register of Osk"})),
            "The mill was built by five brothers.\n\n7 See the register of Osk\n");
}

}  // namespace
}  // namespace lectern::tools
