#include "engine/document/equal_passages.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lectern {
namespace {

// A text with one passage for each line.
struct Lines {
  explicit Lines(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      Passage& passage = passages.emplace_back();
      passage.begin = text.size();
      passage.end = text.size() + line.size();
      text += line + "\n";
    }
  }
  // first() of every passage.
  std::vector<size_t> Firsts() const {
    const EqualPassages equals(text, passages);
    std::vector<size_t> firsts;
    for (size_t i = 0; i < passages.size(); ++i) firsts.push_back(equals.first(i));
    return firsts;
  }
  std::string text;
  std::vector<Passage> passages;
};

using Firsts = std::vector<size_t>;

TEST(EqualPassagesTest, WhiteSpaceOfEveryKindIsOneSpace) {
  const Lines lines({"Rent is due.", "Rent\u00A0is due.", "Rent \t is\n> due.",
                     "Rent is\u3000\u2003due.", "Rent isdue."});
  EXPECT_EQ(lines.Firsts(), (Firsts{0, 0, 0, 0, 4}));
}

TEST(EqualPassagesTest, PassagesThatDifferInSpacesAloneAreApart) {
  EXPECT_EQ(Lines({"1 11", "11 1", "11 1", "1 11"}).Firsts(), (Firsts{0, 1, 1, 0}));
}

TEST(EqualPassagesTest, NamesTheOthers) {
  const Lines lines({"a", "b", "a", "c", "a"});
  const EqualPassages equals(lines.text, lines.passages);
  EXPECT_TRUE(equals.is_repeated(0) && equals.is_repeated(2) && equals.is_repeated(4));
  EXPECT_FALSE(equals.is_repeated(1) || equals.is_repeated(3));
  const auto others = equals.Others(lines.passages, 2, 9);
  ASSERT_EQ(others.size(), 2u);
  EXPECT_EQ(others[0].begin, lines.passages[0].begin);
  EXPECT_EQ(others[1].begin, lines.passages[4].begin);
  EXPECT_EQ(equals.Others(lines.passages, 2, 1).size(), 1u);
  EXPECT_TRUE(equals.Others(lines.passages, 1, 9).empty());
}

}  // namespace
}  // namespace lectern
