#include "engine/model/tokenizer/control_tokens.h"

#include <gtest/gtest.h>

namespace lectern {
namespace {

TEST(ControlTokensTest, AreFoundByTextAndById) {
  ControlTokens tokens;
  tokens.Add(7, "<|end|>");
  tokens.Add(8, "<|end|>");
  tokens.Add(9, "");
  EXPECT_EQ(tokens.Find("<|end|>"), 7);
  EXPECT_EQ(tokens.Find("<|end|"), -1);
  EXPECT_EQ(tokens.Find(""), -1);
  EXPECT_EQ(tokens.Text(7), "<|end|>");
  EXPECT_EQ(tokens.Text(8), "<|end|>");
  EXPECT_EQ(tokens.Text(9), "");
  EXPECT_EQ(tokens.Text(-1), "");
}

TEST(ControlTokensTest, TheLongestThatBeginsATextIsFound) {
  ControlTokens tokens;
  const char* const texts[] = {"<", "<s>", "<s>a", "<s>abc", "<s>b", "[X]", "é"};
  for (int32_t id = 0; id < 7; ++id) tokens.Add(id, texts[id]);
  const auto found = [&](std::string_view text) {
    const auto token = tokens.FindPrefix(text);
    if (token) {
      EXPECT_EQ(token->length, tokens.Text(token->id).size());
    }
    return token ? token->id : -1;
  };
  EXPECT_EQ(found("<s>abd"), 2);
  EXPECT_EQ(found("<s>abcd"), 3);
  EXPECT_EQ(found("<s>"), 1);
  EXPECT_EQ(found("<s>zz"), 1);
  EXPECT_EQ(found("<s"), 0);
  EXPECT_EQ(found("[X]<s>"), 5);
  EXPECT_EQ(found("[Y]"), -1);
  EXPECT_EQ(found("a<s>"), -1);
  EXPECT_EQ(found("\xC3\xA9t"), 6);
  EXPECT_EQ(found("\xC3"), -1);
  EXPECT_EQ(found(""), -1);
  EXPECT_FALSE(ControlTokens().FindPrefix("<s>"));
}

}  // namespace
}  // namespace lectern
