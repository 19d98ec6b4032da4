#include "engine/model/template/sampled_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "tests/engine/byte_tokenizer.h"

namespace lectern {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Where a text ends, by the definition: before the stop text that is complete first, the longest of
// those that are complete with the same byte.
std::string Stopped(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopTextsTest, ATextEndsBeforeTheFirstOneHoweverItIsCut) {
  std::mt19937 random(7);
  const auto word = [&](size_t most) {
    std::string text;
    for (size_t n = 1 + random() % most; n > 0; --n) text += "ab"[random() % 2];
    return text;
  };
  for (int round = 0; round < 20000; ++round) {
    const std::string text = word(24);
    std::vector<std::string> stops;
    for (size_t n = random() % 4; n > 0; --n) stops.push_back(word(6));
    const std::string wanted = Stopped(text, stops);
    StopTexts stop_texts(stops);
    std::string shown;
    for (size_t at = 0; at < text.size() && !stop_texts.is_found();) {
      const size_t size = 1 + random() % 5;
      shown += stop_texts.Push(text.substr(at, size));
      ASSERT_TRUE(wanted.starts_with(shown)) << text;  // no part of a stop text is ever shown
      at += size;
    }
    EXPECT_EQ(stop_texts.is_found(), wanted != text);
    EXPECT_EQ(shown + stop_texts.Flush(), wanted) << text;
    EXPECT_EQ(stop_texts.Flush(), "");
  }
}

TEST(LogProbabilitiesTest, AreTheLogarithmOfTheSoftmax) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 5);
  std::vector<float> logits(1000);
  for (float& logit : logits) logit = normal(random);
  logits[17] = 60, logits[18] = -2000;
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
  const LogProbabilities probabilities(logits);
  for (size_t i = 0; i < logits.size(); ++i) {
    const auto wanted = static_cast<double>(logits[i] - std::log(sum));
    EXPECT_NEAR(probabilities.Of(static_cast<int32_t>(i)), wanted, 1e-12 * std::abs(wanted));
  }
  const std::vector<int32_t> likeliest = probabilities.Likeliest(1000);
  EXPECT_EQ(likeliest.front(), 17);
  EXPECT_EQ(likeliest.back(), 18);
  EXPECT_TRUE(std::is_sorted(likeliest.begin(), likeliest.end(), [&](int32_t a, int32_t b) {
    return probabilities.Of(a) > probabilities.Of(b);
  }));
  EXPECT_EQ(probabilities.Likeliest(3), std::vector(likeliest.begin(), likeliest.begin() + 3));
  EXPECT_EQ(probabilities.Likeliest(5000).size(), logits.size());
}

TEST(LogProbabilitiesTest, WhatIsNoNumberIsImpossible) {
  const std::vector<float> logits = {std::nanf(""), 1, 1};
  const LogProbabilities probabilities(logits);
  EXPECT_EQ(probabilities.Of(0), -kNever);
  EXPECT_NEAR(probabilities.Of(1), -std::log(2.0), 1e-15);
  EXPECT_EQ(probabilities.Likeliest(2), (std::vector<int32_t>{1, 2}));
  const std::vector<float> none(2, std::nanf(""));
  EXPECT_EQ(LogProbabilities(none).Of(0), -kNever);
}

// The text and the tokens that a receiver got, one byte a token, and their order.
struct Told {
  std::string answer, tokens;
};
Told Tell(const std::string& text, const std::vector<std::string>& stops,
          const ThinkingMarks& marks, bool is_thinking) {
  const ByteTokenizer tokenizer("", "");
  const std::vector<float> logits(256, 0.0f);
  AnswerText answer(tokenizer, marks, is_thinking, stops);
  Told told;
  const SampledTokens::Receiver on_token = [&](const SampledToken& token) {
    told.tokens += token.bytes;
    EXPECT_NEAR(token.logprob, -std::log(256.0), 1e-12);
    EXPECT_EQ(token.likeliest.size(), 2u);
  };
  SampledTokens tokens(tokenizer, answer, 2, on_token);
  for (const char c : text) {
    const bool was_thinking = answer.is_thinking();
    const uint64_t brought = answer.num_brought();
    const ShownText shown = answer.Push(static_cast<uint8_t>(c));
    tokens.Push(static_cast<uint8_t>(c), logits, was_thinking, brought);
    told.answer += shown.answer;
    EXPECT_EQ(told.tokens, told.answer);
    if (answer.is_stopped()) break;
  }
  told.answer += answer.Flush().answer;
  tokens.Flush();
  return told;
}

TEST(SampledTokensTest, AreToldWithTheirTextAndNoneOfAStopText) {
  Told told = Tell("one\ntwo", {"\n"}, {}, false);
  EXPECT_EQ(told.answer, "one");
  EXPECT_EQ(told.tokens, "one");
  told = Tell("one two", {"one tw!", "o t"}, {}, false);
  EXPECT_EQ(told.tokens, "one two");
  told = Tell("3 € und 🏠.", {"🏡"}, {}, false);  // whose first three bytes are those of 🏠
  EXPECT_EQ(told.tokens, "3 € und 🏠.");
  told = Tell("3 € und 🏡.", {"🏡"}, {}, false);
  EXPECT_EQ(told.answer, "3 € und");
  EXPECT_EQ(told.tokens, "3 € und ");
  told = Tell("white \n", {}, {}, false);
  EXPECT_EQ(told.answer, "white");
  EXPECT_EQ(told.tokens, "white \n");
}

TEST(SampledTokensTest, ThoughtsAreNotToldAndMayHoldStopTexts) {
  const ThinkingMarks marks = {"<think>", "</think>"};
  const Told told = Tell("<think>a.b</think>c.d", {"."}, marks, false);
  EXPECT_EQ(told.answer, "c");
  EXPECT_EQ(told.tokens, "c");
  EXPECT_EQ(Tell("never.", {"."}, marks, true).tokens, "");
  EXPECT_EQ(Tell("<thin ice>", {"ice"}, marks, false).tokens, "<thin ");
}

}  // namespace
}  // namespace lectern
