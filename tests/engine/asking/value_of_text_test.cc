// Values of JSON schemas that are read out of plain answers.
#include "engine/asking/value_of_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/asking/word_scan.h"

namespace lectern {
namespace {

std::string ValueIn(std::string_view text, std::string_view schema) {
  return ValueOfText(schema, "What is it?", text);
}

TEST(ValueOfTextTest, ReadsNumbersInDigits) {
  constexpr std::string_view kInteger = R"({"type": "integer"})", kNumber = R"({"type": "number"})";
  struct Case {
    std::string_view text, integer, number;
  };
  const std::vector<Case> cases = {{"474 packages", "474", "474"},
                                   {"about 1,200 of them", "1200", "1200"},
                                   {"more than 1.200.000", "1200000", "1200000"},
                                   {"12 345 678 bytes", "12345678", "12345678"},
                                   {"1,024,512,000", "1024512000", "1024512000"},
                                   {"1.200", "1200", "1.2"},
                                   {"3,5 %", "", "3.5"},
                                   {"version 3.50 of 7", "7", "3.5"},
                                   {"1,200.25", "", "1200.25"},
                                   {"$1.9 billion USD", "1900000000", "1900000000"},
                                   {"over 15 thousand", "15000", "15000"},
                                   {"100K blobs", "100000", "100000"},
                                   {"10 kB", "10", "10"},
                                   {"the value of \"-1\"", "-1", "-1"},
                                   {"−4 °C", "-4", "-4"},
                                   {"2017-06-05", "2017", "2017"},
                                   {"fifty percent (50%)", "50", "50"},
                                   {"SQLite 3.3.14 has 512", "512", "512"},
                                   {"Win7 has 2 disks", "2", "2"},
                                   {"Win7", "7", "7"},
                                   {"007", "7", "7"},
                                   {"٢٣ كتابا", "23", "23"},
                                   {"0.0", "0", "0"},
                                   {"-0", "0", "0"},
                                   {"many", "", ""},
                                   {"", "", ""},
                                   {"\xFF 5", "", ""}};
  for (const Case& one : cases) {
    EXPECT_EQ(ValueIn(one.text, kInteger), one.integer) << one.text;
    EXPECT_EQ(ValueIn(one.text, kNumber), one.number) << one.text;
  }
}

TEST(ValueOfTextTest, ReadsNumbersInWords) {
  constexpr std::string_view kInteger = R"({"type": "integer"})";
  const std::vector<std::pair<std::string_view, std::string_view>> cases = {
      {"two separate flushes", "2"},
      {"twenty-three", "23"},
      {"More than nine hundred developers", "900"},
      {"one thousand and thirty", "1030"},
      {"three hundred and twenty-one thousand and five", "321005"},
      {"two million", "2000000"},
      {"a hundred", "100"},
      {"several hundred", ""},
      {"two and three", "2"},
      {"seventeen or eighteen", "17"},
      {"one of the 12 members", "12"},
      {"only one", "1"},
      {"the second edition", "2"},
      {"the second of three", "3"},
      {"a dozen", "12"},
      {"two dozen eggs", "24"},
      {"zero", "0"},
      {"and", ""},
      {"one two three four", "2"}};
  for (const auto& [text, value] : cases) EXPECT_EQ(ValueIn(text, kInteger), value) << text;
}

TEST(ValueOfTextTest, TakesTheFirstNumberThatTheSchemaAllows) {
  const std::string_view text = "on August 16th, 1993, by 2 people";
  EXPECT_EQ(ValueIn(text, R"({"type": "integer"})"), "16");
  EXPECT_EQ(ValueIn(text, R"({"type": "integer", "minimum": 1900})"), "1993");
  EXPECT_EQ(ValueIn(text, R"({"enum": [1, 2, 3]})"), "2");
  EXPECT_EQ(ValueIn(text, R"({"type": "integer", "minimum": 5000})"), "");
  const std::string_view schema = R"({"type": "integer"})";
  EXPECT_EQ(ValueOfText(schema, "In which year was it?", text), "1993");
  EXPECT_EQ(ValueOfText(schema, "In welchem Jahr?", "am 16. August"), "16");
}

TEST(ValueOfTextTest, ReadsDates) {
  constexpr std::string_view kDate = R"({"type": "string", "format": "date"})";
  const std::vector<std::pair<std::string_view, std::string_view>> cases = {
      {"on August 16th, 1993.", "1993-08-16"},
      {"August 16, 1993", "1993-08-16"},
      {"the 16th of August, 1993", "1993-08-16"},
      {"19 July 2002", "2002-07-19"},
      {"4 MAY 2013", "2013-05-04"},
      {"Sept. 3, 1999", "1999-09-03"},
      {"1999 Sept 3", "1999-09-03"},
      {"from March 2003 until April 5, 2005", "2005-04-05"},
      {"2021-10-05 17:51:47 UTC", "2021-10-05"},
      {"2021/1/5", "2021-01-05"},
      {"16.08.1993", "1993-08-16"},
      {"am 3. März 2020", "2020-03-03"},
      {"le 14 juillet 1789", "1789-07-14"},
      {"el 2 de mayo de 1808", "1808-05-02"},
      {"2013年5月4日", "2013-05-04"},
      {"25/12/2020", "2020-12-25"},
      {"12/25/2020", "2020-12-25"},
      {"5/6/2020", ""},  // of June or of May
      {"5/5/2020", "2020-05-05"},
      {"August 1993", ""},
      {"February 30, 2001", ""},
      {"February 29, 2000", "2000-02-29"},
      {"it may be 12 or 2000", ""},
      {"1.2.3.2000", ""},
      {"99999999999.1.2000", ""},
      {"never", ""}};
  for (const auto& [text, date] : cases) {
    EXPECT_EQ(ValueIn(text, kDate), date.empty() ? "" : "\"" + std::string(date) + "\"") << text;
  }
}

TEST(ValueOfTextTest, ChoosesByWords) {
  constexpr std::string_view kAreas = R"({"enum": ["main", "contrib", "non-free", "free", null]})";
  EXPECT_EQ(ValueIn("It belongs into Contrib.", kAreas), R"("contrib")");
  EXPECT_EQ(ValueIn("the non-free area", kAreas), R"("non-free")");
  EXPECT_EQ(ValueIn("main or contrib", kAreas), "");
  EXPECT_EQ(ValueIn("maintainers", kAreas), "");
  EXPECT_EQ(ValueIn("", kAreas), "");
  constexpr std::string_view kNames =
      R"({"$ref": "#/$defs/N", "$defs": {"N": {"anyOf": [{"const": "MOZILLA_FOUNDATION"},
          {"const": "Linux Foundation"}, {"enum": ["+", "L'Été"]}]}}})";
  EXPECT_EQ(ValueIn("The Mozilla Foundation is it", kNames), R"("MOZILLA_FOUNDATION")");
  EXPECT_EQ(ValueIn("Mozilla", kNames), R"("MOZILLA_FOUNDATION")");
  EXPECT_EQ(ValueIn("Foundation", kNames), "");
  EXPECT_EQ(ValueIn("pendant l'été", kNames), R"("L'Été")");
  EXPECT_EQ(ValueIn("+", kNames), "");
  constexpr std::string_view kAnswers = R"({"enum": ["YES", "No", "unknown"]})";
  EXPECT_EQ(ValueIn("Yes, they may", kAnswers), R"("YES")");
  EXPECT_EQ(ValueIn("They must not", kAnswers), R"("No")");
  EXPECT_EQ(ValueIn("It is unknown", kAnswers), R"("unknown")");
  EXPECT_EQ(ChoicesOf(kAnswers), (std::vector<std::string>{"YES", "No", "unknown"}));
  EXPECT_TRUE(ChoicesOf(R"({"type": "string"})").empty());
  EXPECT_TRUE(ChoicesOf("{").empty());
}

TEST(ValueOfTextTest, ReadsYesAndNo) {
  constexpr std::string_view kBoolean = R"({"type": "boolean"})";
  const auto says = [&](std::string_view question, std::string_view text) {
    return ValueOfText(kBoolean, question, text);
  };
  constexpr std::string_view kMay = "May pets be kept?", kNot = "Are pets not allowed?";
  EXPECT_EQ(says(kMay, "Yes, no pet is refused"), "true");
  EXPECT_EQ(says(kMay, "No, they may be kept elsewhere"), "false");
  EXPECT_EQ(says(kMay, "Pets may be kept"), "true");
  EXPECT_EQ(says(kMay, "Pets must not be kept"), "false");
  EXPECT_EQ(says(kMay, "There aren't any"), "false");
  EXPECT_EQ(says(kMay, "It is notable to AT&T"), "true");
  EXPECT_EQ(says(kMay, "There must be no pets"), "false");
  EXPECT_EQ(says("O gato fica em casa?", "O gato fica no telhado"), "true");
  EXPECT_EQ(says(kNot, "Pets are not allowed"), "true");
  EXPECT_EQ(says(kNot, "Pets are allowed"), "false");
  EXPECT_EQ(says("Sind Tiere erlaubt?", "Nein, Tiere sind verboten"), "false");
  EXPECT_EQ(says("Sind Tiere erlaubt?", "Tiere sind nicht erlaubt"), "false");
  EXPECT_EQ(says(kMay, ""), "");
  EXPECT_EQ(says(kMay, "!"), "");
  // A number that the schema allows, too, is the value.
  constexpr std::string_view kEither = R"({"type": ["boolean", "integer"]})";
  EXPECT_EQ(ValueOfText(kEither, kMay, "up to 2"), "2");
  EXPECT_EQ(ValueOfText(kEither, kMay, "never"), "false");
}

TEST(ValueOfTextTest, ReadsOtherStringsAsRunsOfWords) {
  EXPECT_EQ(ValueIn("Write to <leasing@example.com>, please.",
                    R"({"type": "string", "format": "email"})"),
            R"("leasing@example.com")");
  EXPECT_EQ(ValueIn("the host 10.0.0.7.", R"({"type": "string", "format": "ipv4"})"),
            R"("10.0.0.7")");
  EXPECT_EQ(ValueIn("a number AB-12 and", R"({"type": "string", "pattern": "^[A-Z]+-[0-9]+$"})"),
            R"("AB-12")");
  EXPECT_EQ(ValueIn("Ada rents it.", R"({"type": "string", "minLength": 1})"),
            R"("Ada rents it.")");
  EXPECT_EQ(ValueIn("Ada rents", R"({"type": "string", "pattern": "^[0-9]+$"})"), "");
  // A long text is read up to a limit, which divides no character.
  const std::string text = "a";
  std::string accents;
  for (int i = 0; i < 3000; ++i) accents += "é";
  const std::string value = ValueIn(text + accents, R"({"type": "string", "minLength": 1})");
  ASSERT_GT(value.size(), 1000u);
  EXPECT_EQ(value, "\"" + text + accents.substr(0, value.size() - 3) + "\"");
  EXPECT_EQ(value.size() % 2, 1u);  // two quotation marks, one letter of a byte, others of two
  EXPECT_EQ(ValueIn("5", R"({"type": "strange"})"), "");
  EXPECT_EQ(ValueIn("5", "{"), "");
}

TEST(WordScanTest, SpacesWords) {
  EXPECT_EQ(SpacedWords("L'Été: non-free, 2×!"), " l été non free 2 ");
  EXPECT_EQ(SpacedWords(""), " ");
}

}  // namespace
}  // namespace lectern
