// Options of an answer that OpenAI's clients know: stop texts, log-probabilities, penalties, as
// many tokens as fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::Indexed;
using testing::InventedText;
using testing::ReadWholeFile;
using testing::TempFolder;
using testing::TinyModel;
using testing::WriteWholeFile;

struct Token {
  int32_t id;
  double logprob;
  std::vector<std::pair<int32_t, double>> likeliest;
};

class AnswerOptionsTest : public ::testing::Test {
 protected:
  Answer Ask(AskOptions options) {
    options.max_tokens = std::min(options.max_tokens, 24u);
    tokens_.clear();
    options.on_token = [&](const SampledToken& token) {
      tokens_.push_back({token.id, token.logprob, {}});
      for (const LikelyToken& likely : token.likeliest) {
        tokens_.back().likeliest.emplace_back(likely.id, likely.logprob);
      }
    };
    options.on_text = [&](std::string_view piece) {
      shown_ += piece;
      return true;
    };
    shown_.clear();
    const auto session = indexed_.Open();
    session->probe().on_first_logits = [&](std::span<const float> logits) {
      first_logits_.assign(logits.begin(), logits.end());
    };
    auto answer = session->Ask("Which old bridge?", options);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return answer.ok() ? *answer : Answer();
  }
  std::string Param(const AskOptions& options) {
    return indexed_.Open()->Ask("Which old bridge?", options).status().param();
  }

  Indexed indexed_{TinyModel(), InventedText(600, 22)};
  std::vector<Token> tokens_;
  std::vector<float> first_logits_;
  std::string shown_;
};

TEST_F(AnswerOptionsTest, LogprobsAreTheSoftmaxOfTheModelsLogits) {
  for (const float temperature : {0.0f, 2.0f}) {
    AskOptions options;
    options.top_logprobs = 3;
    options.sampling.temperature = temperature;
    options.sampling.logit_bias = {{5, 1.0f}};
    ASSERT_GT(Ask(options).answer_tokens, 0u);
    ASSERT_FALSE(tokens_.empty());
    double sum = 0;
    for (const float logit : first_logits_) sum += std::exp(double{logit});
    const auto logprob = [&](int32_t id) {
      return double{first_logits_[static_cast<size_t>(id)]} - std::log(sum);
    };
    EXPECT_NEAR(tokens_[0].logprob, logprob(tokens_[0].id), 1e-9);
    for (const Token& token : tokens_) EXPECT_EQ(token.likeliest.size(), 3u);
    for (const auto& [id, likely] : tokens_[0].likeliest) EXPECT_NEAR(likely, logprob(id), 1e-9);
    const auto best = std::max_element(first_logits_.begin(), first_logits_.end());
    EXPECT_EQ(tokens_[0].likeliest[0].first, best - first_logits_.begin());
  }
}

TEST_F(AnswerOptionsTest, AStopTextEndsTheAnswerWhereverItLies) {
  const std::string whole = Ask({}).text;
  AskOptions plain;
  plain.max_tokens = 24;
  // Who listens to tokens changes nothing.
  EXPECT_EQ(indexed_.Open()->Ask("Which old bridge?", plain)->text, whole);
  ASSERT_GT(whole.size(), 8u);
  for (size_t begin = 0; begin < whole.size(); ++begin) {
    for (const size_t size : {1, 2, 5}) {
      if ((whole[begin] & 0xC0) == 0x80 || begin + size > whole.size()) continue;
      AskOptions options;
      options.stop_texts = {"not there", whole.substr(begin, size)};
      const Answer answer = Ask(options);
      std::string wanted = whole.substr(0, whole.find(options.stop_texts[1]));
      wanted.erase(wanted.find_last_not_of(" \n\t") + 1);
      EXPECT_EQ(answer.text, wanted);
      EXPECT_EQ(shown_, wanted);
      EXPECT_EQ(answer.finish_reason, "stop");
      EXPECT_EQ(answer.stopped_by, "stop_sequence");
    }
  }
}

// A model without a template of its own may go on with a question of its own.
TEST_F(AnswerOptionsTest, TheNextQuestionEndsAPlainAnswer) {
  const auto session = indexed_.Open();
  const auto tokens = session->Tokenize("Carrow.\n\nQuestion: Which new bridge?");
  ASSERT_TRUE(tokens.ok());
  session->probe().answer = tokens->ids;
  AskOptions options;
  options.stop_texts = {"not there"};
  const auto answer = session->Ask("Which old bridge?", options);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->text, "Carrow.");
  EXPECT_EQ(answer->finish_reason, "stop");
  EXPECT_EQ(answer->stopped_by, "end");
}

// A session forgets the tokens that were drawn behind the stop text.
TEST_F(AnswerOptionsTest, AFollowUpSeesTheAnswerThatWasShown) {
  const std::string whole = Ask({}).text;
  AskOptions options;
  options.max_tokens = 24;
  options.kv_budget = 1;
  options.stop_texts = {whole.substr(whole.size() / 2, 3)};
  const auto session = indexed_.Open();
  const auto stopped = session->Ask("Which old bridge?", options);
  ASSERT_TRUE(stopped.ok() && stopped->stopped_by == "stop_sequence");
  options.stop_texts.clear();
  const auto later = session->Ask("Who saw it?", options);
  options.history.turns = {{"Which old bridge?", stopped->text}};
  const auto at_once = indexed_.Open()->Ask("Who saw it?", options);
  ASSERT_TRUE(later.ok() && at_once.ok());
  EXPECT_EQ(later->text, at_once->text);
}

TEST_F(AnswerOptionsTest, WhatCannotBeIsNamed) {
  AskOptions options;
  options.sampling.logit_bias = {{1 << 20, 1.0f}};
  EXPECT_EQ(Param(options), "logit_bias");
  options.sampling.logit_bias = {{-1, 1.0f}};
  EXPECT_EQ(Param(options), "logit_bias");
  options.sampling.logit_bias = {{1, 101.0f}};
  EXPECT_EQ(Param(options), "logit_bias");
  options.sampling = {.min_p = 1.5f};
  EXPECT_EQ(Param(options), "min_p");
  options.sampling = {.frequency_penalty = std::nanf("")};
  EXPECT_EQ(Param(options), "frequency_penalty");
  options.sampling = {.presence_penalty = -2.5f};
  EXPECT_EQ(Param(options), "presence_penalty");
  options.sampling = {};
  options.stop_texts = {""};
  EXPECT_EQ(Param(options), "stop_texts");
  options.stop_texts = {std::string(9000, 'x')};
  EXPECT_EQ(Param(options), "stop_texts");
}

TEST_F(AnswerOptionsTest, ABannedTokenIsNotSaid) {
  Ask({});
  AskOptions options;
  const int32_t first = tokens_[0].id;
  options.sampling.logit_bias = {{first, -100.0f}};
  Ask(options);
  for (const Token& token : tokens_) EXPECT_NE(token.id, first);
}

// The tiny model with few positions.
void WriteShortModel(const std::string& folder) {
  for (const char* file : {"/model.safetensors", "/tokenizer.model"}) {
    WriteWholeFile(folder + file, ReadWholeFile(TinyModel() + file));
  }
  std::string config = ReadWholeFile(TinyModel() + "/config.json");
  const std::string many = "\"max_position_embeddings\": 32768";
  ASSERT_NE(config.find(many), std::string::npos);
  config.replace(config.find(many), many.size(), "\"max_position_embeddings\": 3600");
  WriteWholeFile(folder + "/config.json", config);
}

TEST(LongAnswerTest, EndsWhereTheModelsPositionsOrTheMemoryDo) {
  const TempFolder store, model;
  WriteShortModel(model.path());
  const auto ask = [&](uint64_t max_ram_bytes, bool is_whole) -> Result<Answer> {
    auto engine = Engine::Create({.store = store.path(),
                                  .model = model.path(),
                                  .num_threads = 2,
                                  .max_ram_bytes = max_ram_bytes});
    if (max_ram_bytes == 0) (void)(*engine)->Index(InventedText(600, 22), {});
    auto session = (*engine)->Open("");
    if (!session.ok()) return session.status();
    AskOptions options;
    options.max_tokens = UINT32_MAX;
    options.sampling = {.temperature = 10, .seed = 3};  // goes round in no loop
    for (const int32_t id : {0, 1, 2}) options.sampling.logit_bias.emplace_back(id, -100.0f);
    options.on_text = [is_whole](std::string_view) { return is_whole; };
    return (*session)->Ask("Which old bridge?", options);
  };
  const auto free = ask(0, true);
  ASSERT_TRUE(free.ok()) << free.status().message();
  EXPECT_EQ(free->finish_reason, "length");
  EXPECT_EQ(free->document_tokens + free->question_tokens + free->answer_tokens, 3600u);
  uint64_t refused = 0, enough = uint64_t{1} << 28;
  while (enough - refused > 16 << 10) {
    const uint64_t middle = (refused + enough) / 2;
    const bool is_refused = ask(middle, false).status().code() == Code::kOutOfMemory;
    (is_refused ? refused : enough) = middle;
  }
  const auto limited = ask(enough, true);
  ASSERT_TRUE(limited.ok()) << limited.status().message();
  EXPECT_EQ(limited->finish_reason, "length");
  EXPECT_GE(limited->answer_tokens, 1024u);
  EXPECT_LT(limited->answer_tokens, free->answer_tokens);
  EXPECT_NE(limited->note.text().find("memory limit"), std::string::npos);
}

}  // namespace
}  // namespace lectern
