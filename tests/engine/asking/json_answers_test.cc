// Answers that keep to a JSON schema, from a document to the receipt.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/asking/ask.h"
#include "engine/asking/value_of_text.h"
#include "engine/constraint/grammar_matcher.h"
#include "engine/constraint/json_schema.h"
#include "engine/model/formats/json.h"
#include "engine/model/formats/text.h"
#include "tests/engine/test_documents.h"

namespace lectern::testing {
namespace {

constexpr std::string_view kSchema =
    R"({"type": "object", "properties": {
        "place_of_the_meeting": {"type": "string", "maxLength": 12},
        "number_of_members": {"type": "integer", "minimum": 1, "maximum": 99},
        "kind": {"enum": ["open", "closed", null]},
        "names": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 2}},
        "required": ["place_of_the_meeting", "number_of_members", "kind", "names"]})";

// Whether the text is a value of the schema.
bool Fits(std::string_view schema, std::string_view text) {
  const auto made = CompileJsonSchema(schema, true);
  if (!made.ok()) return false;
  GrammarMatcher matcher(made->grammar);
  int32_t place = matcher.Begin(made->grammar.root);
  for (const char byte : text) {
    if (place == GrammarMatcher::kNowhere) return false;
    place = matcher.Next(place, static_cast<uint8_t>(byte));
  }
  return place != GrammarMatcher::kNowhere && matcher.place(place).ends;
}

AskOptions InJson(std::string_view schema) {
  AskOptions options;
  options.json_schema = schema;
  options.refuse_at = 1;
  return options;
}

class JsonAnswersTest : public ::testing::TestWithParam<std::string> {
 protected:
  Indexed indexed_{GetParam(), InventedText(9000, 5)};
};

TEST_P(JsonAnswersTest, FitTheirSchemaHoweverTokensAreDrawn) {
  for (const float temperature : {0.0f, 1.0f, 3.0f}) {
    for (const float kv_budget : {1.0f, 0.2f}) {
      for (uint64_t seed = 1; seed <= (temperature > 0 ? 4 : 1); ++seed) {
        const auto session = indexed_.Open();
        AskOptions options = InJson(kSchema);
        options.kv_budget = kv_budget;
        options.sampling = {.temperature = temperature, .seed = seed};
        std::string shown;
        options.on_text = [&](std::string_view piece) {
          shown += piece;
          return true;
        };
        const auto answer = session->Ask("Where does the committee meet?", options);
        ASSERT_TRUE(answer.ok()) << answer.status().message();
        EXPECT_EQ(answer->finish_reason, "stop") << answer->text;
        EXPECT_EQ(shown, answer->text);
        EXPECT_TRUE(ParseJson(answer->text).ok()) << answer->text;
        EXPECT_TRUE(Fits(kSchema, answer->text)) << answer->text;
        // The names of members are forced, and take no step of their own.
        EXPECT_GT(answer->forced_tokens, 10u);
        EXPECT_LT(answer->forced_tokens, answer->answer_tokens);
      }
    }
  }
}

TEST_P(JsonAnswersTest, ConversationsGoOn) {
  const auto session = indexed_.Open();
  ASSERT_TRUE(session->Ask("Where?", InJson(kSchema)).ok());
  const auto second = session->Ask("And who?", InJson(R"({"enum": ["Ada", "Bob"]})"));
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_TRUE(second->text == "\"Ada\"" || second->text == "\"Bob\"") << second->text;
  AskOptions free;
  free.max_tokens = 5;
  const auto third = session->Ask("Why?", free);
  ASSERT_TRUE(third.ok()) << third.status().message();
  EXPECT_EQ(third->forced_tokens, 0u);
}

// Models without a chat template say in the first string what they say without a schema, up to what
// a string of one line cannot hold, and the conversation goes on as if the answer had been given.
TEST_P(JsonAnswersTest, BeginWithThePlainAnswerOfAModelThatKnowsNoOther) {
  constexpr std::string_view kOne =
      R"({"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]})";
  const std::vector<std::string> questions = {"Where does the committee meet?", "Who crossed it?"};
  size_t num_compared = 0;
  for (const float kv_budget : {1.0f, 0.2f}) {
    AskOptions free = InJson(""), json = InJson(kOne);
    free.kv_budget = json.kv_budget = kv_budget;
    free.max_tokens = 16, json.max_tokens = 80;
    for (const std::string& question : questions) {
      const auto plain = indexed_.Open()->Ask(question, free);
      const auto session = indexed_.Open();
      const auto answer = session->Ask(question, json);
      ASSERT_TRUE(plain.ok() && answer.ok());
      std::string expected = plain->text.substr(0, plain->text.find_first_of("\"\\\n\t\r"));
      while (!expected.empty() && !IsValidUtf8(expected)) expected.pop_back();
      constexpr std::string_view kFrame = R"({"answer": ")";
      ASSERT_TRUE(answer->text.starts_with(kFrame)) << answer->text;
      const std::string said = answer->text.substr(kFrame.size());
      // A token with a mark in it may hold more; what stands before the last of them is the same.
      const size_t size = std::min(expected.size(), said.size()) / 2;
      EXPECT_EQ(said.substr(0, size), expected.substr(0, size)) << plain->text;
      num_compared += size;

      // The second question sees the same conversation as one that is told of the first. Where
      // not all is read, a turn's rows depend on what they were fed with.
      if (kv_budget < 1) continue;
      AskOptions told = free;
      told.history.turns.push_back({question, answer->text, ""});
      const auto second = session->Ask("Why?", free), alone = indexed_.Open()->Ask("Why?", told);
      ASSERT_TRUE(second.ok() && alone.ok());
      EXPECT_EQ(second->text, alone->text);
    }
  }
  EXPECT_GT(num_compared, 10u);
}

// Such a model is asked for each value by itself, and says of each what it says when only that is
// asked for. The conversation goes on as if the object had been said. The string is short, because
// random models end it late, on some machines' arithmetic after the object's tokens are used up.
TEST_P(JsonAnswersTest, AskForEachValueByItself) {
  constexpr std::string_view kTwo =
      R"({"type": "object", "properties": {
          "place": {"type": "string", "maxLength": 40,
                    "description": "Where does the committee meet?"},
          "is_old": {"type": "boolean", "description": "Is the mill old?"},
          "count": {"type": "integer", "description": "How many members are there?"}},
          "required": ["place", "is_old", "count"]})";
  const auto alone = [&](const char* question, std::string_view schema) {
    return indexed_.Open()->Ask(question, InJson(schema))->text;
  };
  // The others are read out of the text that is said, where that has one.
  const auto read = [&](const char* question, std::string_view schema) {
    AskOptions text = InJson(R"({"type": "string"})");
    text.max_tokens = 64;
    const std::string value =
        ValueOfText(schema, question, indexed_.Open()->Ask(question, text)->text);
    return value.empty() ? alone(question, schema) : value;
  };
  const std::string expected =
      R"({"place": )" +
      alone("Where does the committee meet?", R"({"type": "string", "maxLength": 40})") +
      R"(, "is_old": )" + read("Is the mill old?", R"({"type": "boolean"})") + R"(, "count": )" +
      read("How many members are there?", R"({"type": "integer"})") + "}";
  const auto session = indexed_.Open();
  AskOptions options = InJson(kTwo);
  options.top_logprobs = 2;
  std::string told, shown;
  options.on_token = [&](const SampledToken& token) { told += token.bytes; };
  options.on_text = [&](std::string_view piece) {
    shown += piece;
    return true;
  };
  const auto answer = session->Ask("Tell me about the committee.", options);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->text, expected);
  EXPECT_EQ(shown, expected);
  // A normaliser may change blanks.
  EXPECT_GE(told.size() + 3, expected.size()) << told;
  EXPECT_EQ(answer->finish_reason, "stop");
  EXPECT_GT(answer->evidence.size(), 0u);
  EXPECT_LE(answer->evidence.size(), 3u);

  AskOptions next = InJson("");
  next.kv_budget = 1, next.max_tokens = 8;
  AskOptions knows = next;
  knows.history.turns.push_back({"Tell me about the committee.", answer->text, ""});
  const auto second = session->Ask("Why?", next), fresh = indexed_.Open()->Ask("Why?", knows);
  ASSERT_TRUE(second.ok() && fresh.ok());
  EXPECT_EQ(second->text, fresh->text);
}

// Cancelled, or failed, it leaves no trace in the conversation.
TEST_P(JsonAnswersTest, StopWhereTheyAreCancelled) {
  const auto session = indexed_.Open();
  AskOptions first = InJson("");
  first.kv_budget = 1, first.max_tokens = 8;
  ASSERT_TRUE(session->Ask("Where?", first).ok());
  AskOptions options = InJson(kSchema);
  std::string shown;
  options.on_text = [&](std::string_view piece) {
    shown += piece;
    return shown.find("number_of_members") == shown.npos;
  };
  const auto answer = session->Ask("Who?", options);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->finish_reason, "cancelled");
  EXPECT_EQ(answer->text, shown);
  AskOptions wrong = InJson(R"({"type": "object", "properties": {"a": {"type": "x"}}})");
  EXPECT_EQ(session->Ask("Who?", wrong).status().code(), Code::kInvalidArgument);
  AskOptions told = first;
  told.history.turns.push_back({"Where?", indexed_.Open()->Ask("Where?", first)->text, ""});
  told.history.turns.push_back({"Who?", answer->text, ""});
  const auto next = session->Ask("Why?", first), fresh = indexed_.Open()->Ask("Why?", told);
  ASSERT_TRUE(next.ok() && fresh.ok());
  EXPECT_EQ(next->text, fresh->text);
}

TEST_P(JsonAnswersTest, AreCutByTheirLimit) {
  for (const uint32_t most : {1u, 4u, 30u}) {
    const auto session = indexed_.Open();
    AskOptions options = InJson(kSchema);
    options.max_tokens = most;
    const auto answer = session->Ask("Where?", options);
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->finish_reason, "length");
    EXPECT_EQ(answer->answer_tokens, most);
    EXPECT_FALSE(answer->document.empty());
    EXPECT_GT(answer->document_tokens, 0u);
    EXPECT_TRUE(answer->text.starts_with("{")) << answer->text;
  }
}

TEST_P(JsonAnswersTest, TokensHaveTheProbabilitiesOfThoseThatMayCome) {
  const auto session = indexed_.Open();
  AskOptions options = InJson(R"({"type": "array", "items": {"enum": [1, 2]}, "minItems": 2})");
  options.max_tokens = 40;
  options.top_logprobs = 20;
  std::string told;
  options.on_token = [&](const SampledToken& token) {
    told += token.bytes;
    double sum = 0;
    for (const LikelyToken& one : token.likeliest) sum += std::exp(one.logprob);
    EXPECT_NEAR(sum, 1, 1e-6) << told;
  };
  const auto answer = session->Ask("Which?", options);
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(told.find("[") != told.npos) << told;
}

TEST_P(JsonAnswersTest, WhatCannotBeKeptIsWarnedOfOrRefused) {
  const auto session = indexed_.Open();
  AskOptions options = InJson(R"({"type": "array", "maxItems": 2, "uniqueItems": true,
                                  "items": {"type": "array", "maxItems": 0}})");
  const auto answer = session->Ask("Which?", options);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(std::ranges::count(answer->warnings, "schema_not_kept"), 1);
  EXPECT_NE(answer->note.text().find("uniqueItems"), std::string::npos);
  options.strict_schema = true;
  const auto refused = session->Ask("Which?", options);
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(refused.status().param(), "json_schema");
  EXPECT_TRUE(session->Ask("Which?", InJson(kSchema)).ok());
}

// The same word, again and again, in every string: JSON ends all the same, unless the schema wants
// more.
TEST_P(JsonAnswersTest, LoopsAreLedOutOf) {
  int32_t word = -1;
  AskOptions options = InJson(R"({"type": "string", "maxLength": 12})");
  options.top_logprobs = 20;
  options.on_token = [&](const SampledToken& token) {
    for (const LikelyToken& one : token.likeliest) {
      const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
      if (std::ranges::all_of(one.bytes, is_letter) && one.bytes.size() > 2) word = one.id;
    }
  };
  ASSERT_TRUE(indexed_.Open()->Ask("Which?", options).ok());
  ASSERT_GE(word, 0);
  const auto ask = [&](const std::string& schema) {
    AskOptions looping = InJson(schema);
    looping.max_tokens = 3000;
    looping.sampling.logit_bias = {{word, 100.0f}};
    auto answer = indexed_.Open()->Ask("Which?", looping);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(std::ranges::count(answer->warnings, "repetition"), 1) << schema;
    return std::move(answer).value();
  };
  const std::string text = R"({"type": "string"})";
  const std::string list = R"({"type": "array", "minItems": 1, "items": )" + text + "}";
  const auto object = [](const std::string& a, const std::string& b) {
    return R"({"type": "object", "properties": {"a": )" + a + R"(, "b": )" + b +
           R"(}, "required": ["a", "b"]})";
  };
  const std::string in_list =
      R"({"type": "array", "minItems": 1, "items": )" + object(text, list) + "}";
  for (const std::string& schema : {text, list, object(text, text), object(text, list),
                                    object(object(text, text), list), in_list}) {
    const Answer answer = ask(schema);
    EXPECT_EQ(answer.finish_reason, "stop") << schema;
    EXPECT_TRUE(ParseJson(answer.text).ok()) << schema << ": " << answer.text;
    EXPECT_TRUE(Fits(schema, answer.text)) << schema << ": " << answer.text;
  }
  const Answer cut = ask(R"({"type": "string", "minLength": 1900})");
  EXPECT_EQ(cut.finish_reason, "length");
  EXPECT_EQ(cut.stopped_by, "repetition");
}

INSTANTIATE_TEST_SUITE_P(Models, JsonAnswersTest, ::testing::Values(TinyModel(), ReaderModel()),
                         [](const auto& model) { return model.index == 0 ? "Tiny" : "Reader"; });

}  // namespace
}  // namespace lectern::testing
