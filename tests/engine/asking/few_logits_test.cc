// Answers whose draws look at few logits are those of draws from all of them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>
#include <thread>

#include "engine/asking/ask.h"
#include "engine/engine.h"
#include "engine/requests/report_json.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::IndexToAsk;
using testing::ReaderModel;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;

const std::vector<std::string> kAskedQuestions = {
    "Where does the Douquouth committee rent a hall?",
    "Repeat the first paragraph of the text word for word.", "And where is the hall?"};

class FewLogitsTest : public ::testing::Test {
 protected:
  struct Indexed {
    TempFolder store;
    std::unique_ptr<Engine> engine;
    std::shared_ptr<const Model> model;
    Indexed(WeightsType type, const std::string& text) {
      IndexToAsk(store.path(), ReaderModel(), text, {}, type);
      engine = *Engine::Create({.store = store.path(),
                                .model = ReaderModel(),
                                .num_threads = 2,
                                .weights = std::string(WeightsName(type))});
      model = *Model::Load(Env::Default(), ReaderModel(), {.store = store.path(), .weights = type});
    }
    std::unique_ptr<DocumentSession> Open() const {
      return *AsDocumentSession(*engine->Open("", nullptr));
    }
  };
  static const Indexed& Demo() {
    // It goes at exit, and its threads with it.
    static const Indexed indexed(WeightsType::kQ8, DemoText());
    return indexed;
  }
  static std::string DemoText() { return ReadWholeFile(SourcePath("tools/demo/document.txt")); }
  // Texts and receipts of the answers, without times and counts of proposals. `watched`: somebody
  // takes each token's probability, for which all logits are computed.
  static std::vector<std::string> Converse(DocumentSession& session, AskOptions options,
                                           bool watched, size_t num_questions = 3) {
    if (watched) options.on_token = [](const SampledToken&) {};
    std::vector<std::string> answers;
    for (const std::string& question : std::span(kAskedQuestions).first(num_questions)) {
      auto answer = session.Ask(question, options);
      EXPECT_TRUE(answer.ok()) << answer.status().message();
      if (!answer.ok()) continue;
      answer->timings_ms = {};
      answer->proposed_tokens = answer->accepted_tokens = 0;
      answers.push_back(AnswerJson(*answer, OffsetUnit::kUtf8, ""));
    }
    return answers;
  }
  // One of them wants all logits, one the largest, one the largest few.
  static void ExpectTheSameOfSessionsTogether(const Indexed& indexed) {
    AskOptions options[3];
    for (AskOptions& one : options) one.kv_budget = 0.3f, one.max_tokens = 15;
    options[1].sampling = {.temperature = 0.8f, .seed = 7, .top_k = 4};
    options[2].sampling = {.temperature = 0.8f, .top_p = 0.9f, .seed = 8};
    std::vector<std::string> expected[3], answers[3];
    for (size_t i = 0; i < 3; ++i) expected[i] = Converse(*indexed.Open(), options[i], true, 2);
    for (const size_t count : {2, 3}) {
      std::vector<std::unique_ptr<DocumentSession>> sessions;
      for (size_t i = 0; i < count; ++i) sessions.push_back(indexed.Open());
      {
        std::vector<std::jthread> threads;
        for (size_t i = 0; i < count; ++i) {
          threads.emplace_back(
              [&, i] { answers[i] = Converse(*sessions[i], options[i], false, 2); });
        }
      }
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(answers[i], expected[i]) << count;
    }
  }
};

TEST_F(FewLogitsTest, AStepGivesThoseThatAreWantedAndNoOthers) {
  const WeightMatrix& output = Demo().model->weights().output();
  ASSERT_TRUE(output.is_packed() && output.packed.has_planes());
  const auto whole = Demo().Open(), few = Demo().Open();
  size_t num_left_out = 0;
  for (const uint32_t count : {1, 3}) {
    for (int32_t id = 300; id < 330; ++id) {
      whole->settings().wanted = {};
      few->settings().wanted = {.count = count};
      const auto all = whole->Step({&id, 1}, 1, true, nullptr);
      const auto some = few->Step({&id, 1}, 1, true, nullptr);
      ASSERT_TRUE(all.ok() && some.ok());
      std::vector<float> sorted(all->begin(), all->end());
      std::ranges::sort(sorted, std::greater<>());
      for (size_t i = 0; i < all->size(); ++i) {
        if ((*some)[i] == -INFINITY) {
          ASSERT_LT((*all)[i], sorted[count - 1]);
          ++num_left_out;
        } else {
          ASSERT_EQ(std::memcmp(&(*some)[i], &(*all)[i], sizeof(float)), 0) << i;
        }
      }
    }
  }
  EXPECT_GT(num_left_out, 0u);
}

TEST_F(FewLogitsTest, ChangeNoAnswer) {
  const SamplingOptions kWaysToDraw[] = {
      {},
      {.temperature = 0.8f, .seed = 1, .top_k = 5},
      {.temperature = 1.2f, .top_p = 0.8f, .seed = 2, .top_k = 3},
      {.temperature = 0.9f, .seed = 3, .min_p = 0.1f},
      {.temperature = 0.9f, .top_p = 0.9f, .seed = 4},
      {.seed = 5, .frequency_penalty = 0.3f}};
  for (const SamplingOptions& sampling : kWaysToDraw) {
    for (const char* lookup : {"off", "auto"}) {
      AskOptions options;
      options.kv_budget = 0.3f;
      options.max_tokens = 30;
      options.sampling = sampling;
      options.lookup_decoding = lookup;
      EXPECT_EQ(Converse(*Demo().Open(), options, false), Converse(*Demo().Open(), options, true));
    }
  }
}

TEST_F(FewLogitsTest, ChangeNoAnswerWhereSessionsShareSteps) {
  ExpectTheSameOfSessionsTogether(Demo());
}

// The one for ThreadSanitizer, which would take a minute to index the whole document.
TEST_F(FewLogitsTest, ChangeNoAnswerOfAShortTextWhereSessionsShareSteps) {
  ExpectTheSameOfSessionsTogether(Indexed(WeightsType::kQ8, DemoText().substr(0, 1200)));
}

}  // namespace
}  // namespace lectern
