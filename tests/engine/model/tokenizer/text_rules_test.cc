// Tests of the steps before pieces are joined: alignment, literals, normalisers, and the classes of
// characters that they ask for.
#include "engine/model/tokenizer/text_rules.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/model/tokenizer/charsmap.h"
#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

// --- Alignment ---

TEST(AlignedTextTest, KnowsWhereBytesComeFrom) {
  AlignedText text("abcdef", 10);
  AlignedText changed;
  changed.AppendReplaced("+", text, 0, 0);  // put before
  changed.AppendPart(text, 0, 2);
  changed.AppendReplaced("XYZ", text, 2, 4);
  changed.AppendPart(text, 5, 6);  // "e" was removed
  EXPECT_EQ(changed.text(), "+abXYZf");
  const std::pair<size_t, size_t> wanted[] = {{10, 10}, {10, 11}, {11, 12}, {12, 14},
                                              {12, 14}, {12, 14}, {15, 16}};
  for (size_t at = 0; at < changed.text().size(); ++at) {
    EXPECT_EQ(std::pair(changed.OriginalBegin(at), changed.OriginalEnd(at + 1)), wanted[at]) << at;
  }
  AlignedText twice;  // changes of changes
  twice.AppendReplaced("-", changed, 2, 4);
  twice.AppendPart(changed, 4, 7);
  EXPECT_EQ(twice.text(), "-YZf");
  EXPECT_EQ(twice.OriginalBegin(0), 11u);
  EXPECT_EQ(twice.OriginalEnd(1), 14u);
  EXPECT_EQ(twice.OriginalBegin(1), 12u);
  EXPECT_EQ(twice.OriginalEnd(4), 16u);
  changed.Truncate(2);
  EXPECT_EQ(changed.text(), "+a");
  EXPECT_EQ(changed.OriginalEnd(2), 11u);
  EXPECT_EQ(AlignedText().OriginalBegin(0), 0u);
  EXPECT_EQ(AlignedText().OriginalEnd(0), 0u);
}

// --- Classes of characters ---

TEST(UnicodeClassesTest, SearchesToTheLeftSeeTheCharactersOfTheRight) {
  EXPECT_EQ(SpaceBefore("a \u3000\u00A0", 7), 1u);
  EXPECT_EQ(SpaceBefore(" ", 1), 0u);
  EXPECT_EQ(SpaceBefore(" ", 0), 0u);
  EXPECT_EQ(SpaceBefore(" \xF0\x9F\x98\x80 ", 6), 5u);
  EXPECT_TRUE(EndsWithWordChar("\U00010400"));  // a letter of four bytes
  EXPECT_FALSE(EndsWithWordChar(""));
  // Stray continuation bytes are no part of the character before, and a cut one is none.
  EXPECT_EQ(SpaceBefore("a \x80", 3), 3u);
  EXPECT_EQ(SpaceBefore("\x80 ", 2), 1u);
  EXPECT_EQ(SpaceBefore("\u3000\x80 ", 5), 4u);
  EXPECT_FALSE(EndsWithWordChar("a\x80"));
  EXPECT_FALSE(EndsWithWordChar("\u00E9\x80"));
  EXPECT_FALSE(EndsWithWordChar("a\xC3"));
  EXPECT_FALSE(EndsWithWordChar("\x80\x80\x80\x80\x80"));
  EXPECT_TRUE(EndsWithWordChar("\x80\x80z"));
}

// --- Literals ---

Literals Make(const std::vector<std::string>& texts) {
  Literals literals;
  for (size_t i = 0; i < texts.size(); ++i) literals.Add({texts[i], static_cast<int32_t>(i)});
  literals.Finish();
  return literals;
}

std::string Found(const Literals& literals, std::string_view text, LiteralOrder order) {
  std::string out;
  for (const Literals::Match& match : literals.Find(text, order)) {
    out += std::to_string(match.id) + "[" + std::to_string(match.begin) + "," +
           std::to_string(match.end) + ") ";
  }
  return out;
}

TEST(LiteralsTest, AreTakenFromTheLeftOrTheLongestFirst) {
  const Literals literals = Make({"ab", "abc", "cdef", "", "ab", "ef"});
  EXPECT_EQ(Found(literals, "xabcdefx", LiteralOrder::kFromLeft), "1[1,4) 5[5,7) ");
  EXPECT_EQ(Found(literals, "xabcdefx", LiteralOrder::kLongest), "0[1,3) 2[3,7) ");
  EXPECT_EQ(Found(literals, "", LiteralOrder::kLongest), "");
  EXPECT_EQ(Found(literals, "xyz", LiteralOrder::kFromLeft), "");
  EXPECT_EQ(Found(Make({}), "ab", LiteralOrder::kFromLeft), "");
  EXPECT_EQ(literals.LongestSize("xabcd", 1), 3u);
  EXPECT_EQ(literals.LongestSize("xabcd", 2), 0u);
}

TEST(LiteralsTest, KnowWordsAndTakeSpace) {
  Literals literals;
  literals.Add({.text = "ab", .id = 0, .is_whole_word = true});
  literals.Add({.text = "+", .id = 1, .takes_left_space = true, .takes_right_space = true});
  literals.Finish();
  EXPECT_EQ(Found(literals, "ab xab abx é-ab_ ab", LiteralOrder::kFromLeft), "0[0,2) 0[18,20) ");
  EXPECT_EQ(Found(literals, "a + \u3000b+ + c", LiteralOrder::kFromLeft),
            "1[1,7) 1[8,10) 1[10,12) ");
}

// llama.cpp goes through the texts by their length, and each through what is left.
std::string ByDefinition(const std::vector<std::string>& texts, std::string_view text) {
  std::vector<std::pair<size_t, size_t>> order;
  for (size_t i = 0; i < texts.size(); ++i) order.push_back({texts[i].size(), i});
  std::sort(order.rbegin(), order.rend());
  std::vector<int> taken(text.size(), -1);
  std::vector<size_t> begins;
  for (const auto& [size, index] : order) {
    for (size_t at = 0; at + size <= text.size(); ++at) {
      bool fits = text.substr(at, size) == texts[index];
      for (size_t i = at; fits && i < at + size; ++i) fits = taken[i] < 0;
      for (size_t i = at; fits && i < at + size; ++i) taken[i] = static_cast<int>(index);
      if (fits) begins.push_back(at);
    }
  }
  std::sort(begins.begin(), begins.end());
  std::string out;
  for (const size_t at : begins) {
    const auto id = static_cast<size_t>(taken[at]);
    out += std::to_string(id) + "[" + std::to_string(at) + "," +
           std::to_string(at + texts[id].size()) + ") ";
  }
  return out;
}

TEST(LiteralsTest, LongestFirstIsAsDefined) {
  std::mt19937 rng(3);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> texts;  // of one length at most one, which has no order of its own
    for (size_t size = 1; size < 6; ++size) {
      if (rng() % 2 == 0) continue;
      std::string& text = texts.emplace_back();
      while (text.size() < size) text += static_cast<char>('a' + rng() % 2);
    }
    std::string text;
    for (size_t n = rng() % 40; n > 0; --n) text += static_cast<char>('a' + rng() % 2);
    EXPECT_EQ(Found(Make(texts), text, LiteralOrder::kLongest), ByDefinition(texts, text)) << text;
  }
}

TEST(LiteralsTest, LongRunsEndSoon) {
  std::vector<std::string> texts;
  for (size_t size = 2; size < 32; ++size) texts.push_back(std::string(size, ' '));
  const std::string text(1 << 20, ' ');
  const auto matches = Make(texts).Find(text, LiteralOrder::kLongest);
  EXPECT_EQ(matches.size(), (1u << 20) / 31);  // one space is left, and no literal
}

// --- Normalisers ---

std::string Normal(std::vector<NormalizerStep> steps, std::string_view text,
                   bool has_prefix = true) {
  const auto made = Normalizer::Make(std::move(steps));
  EXPECT_TRUE(made.ok()) << made.status().message();
  const auto out = made->Apply(AlignedText(text, 0), has_prefix);
  EXPECT_TRUE(out.ok()) << out.status().message();
  return std::string(out->text());
}

TEST(NormalizerTest, StepsAreDoneInOrder) {
  using StepKind = NormalizerStep::Kind;
  EXPECT_EQ(Normal({}, "ab"), "ab");
  EXPECT_EQ(Normal({{.form = UnicodeForm::kNfc}}, "e\u0301\u212B"), "\u00E9\u00C5");
  EXPECT_EQ(Normal({{.form = UnicodeForm::kNfd}}, "\u00E9\uAC01x"), "e\u0301\u1100\u1161\u11A8x");
  EXPECT_EQ(Normal({{.form = UnicodeForm::kNfkc}}, "\uFB01\uFF76\uFF9E\u00BD"), "fi\u30AC1\u20442");
  EXPECT_EQ(Normal({{.form = UnicodeForm::kNfkd}}, "\uFB01\u00E9"), "fie\u0301");
  EXPECT_EQ(Normal({{.kind = StepKind::kLowerCase}}, "AÉ\u0130ß"), "aéi\u0307ß");
  EXPECT_EQ(Normal({{.kind = StepKind::kStrip}}, " \u3000a b\n"), "a b");
  EXPECT_EQ(Normal({{.kind = StepKind::kStrip, .left = false}}, " a "), " a");
  EXPECT_EQ(Normal({{.kind = StepKind::kStrip}}, "  "), "");
  EXPECT_EQ(Normal({{.form = UnicodeForm::kNfd}, {.kind = StepKind::kStripMarks}}, "éa"), "ea");
  EXPECT_EQ(Normal({{.kind = StepKind::kReplace, .pattern = "ab", .content = "-"}}, "abcab"),
            "-c-");
  EXPECT_EQ(
      Normal({{.kind = StepKind::kReplace, .pattern = " +", .content = " ", .is_literal = false}},
             "a   b c"),
      "a b c");
  const std::vector<NormalizerStep> llama = {
      {.kind = StepKind::kPrepend, .content = "\u2581"},
      {.kind = StepKind::kReplace, .pattern = " ", .content = "\u2581"}};
  EXPECT_EQ(Normal(llama, "a b"), "\u2581a\u2581b");
  EXPECT_EQ(Normal(llama, "a b", /*has_prefix=*/false), "a\u2581b");
  EXPECT_EQ(Normal(llama, ""), "");
}

TEST(NormalizerTest, GrowthIsLimited) {
  const auto made = Normalizer::Make({{.kind = NormalizerStep::Kind::kReplace,
                                       .pattern = "a",
                                       .content = std::string(1 << 20, 'b')}});
  ASSERT_TRUE(made.ok());
  const auto out = made->Apply(AlignedText(std::string(1000, 'a'), 0), true);
  EXPECT_EQ(out.status().code(), Code::kLimitExceeded);
}

}  // namespace
}  // namespace lectern
