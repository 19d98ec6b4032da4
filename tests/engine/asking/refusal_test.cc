// The model's own sentence for "the document does not say": its probability is the oracle's, it is
// the answer from the threshold on, and finding its probability changes nothing else.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "engine/requests/report_json.h"
#include "tests/engine/dense_oracle.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::DenseOracle;
using testing::InventedText;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::TinyModel;
using testing::WriteWholeFile;

constexpr char kUnansweredQuestion[] = "Which quiet farmer crossed the river?";
constexpr char kSentence[] = "A mill.";

// The tiny model with an adapter that adds nothing, on a text of `bytes`.
class RefusingDocument {
 public:
  explicit RefusingDocument(
      size_t bytes, const std::string& settings = R"({"refusal":{"text":"A mill.","threshold":1}})")
      : text_(InventedText(bytes, 5)) {
    std::filesystem::copy(SourcePath("tests/golden/adapter/lora"), folder_.path(),
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
    const std::string path = folder_.path() + "/adapter_config.json";
    std::string json = ReadWholeFile(path);
    const std::string alpha = "\"lora_alpha\": 8";
    WriteWholeFile(path, json.replace(json.find(alpha), alpha.size(), "\"lora_alpha\": 0"));
    if (!settings.empty()) WriteWholeFile(folder_.path() + "/lectern.json", settings);
    EngineOptions options;
    options.store = store_.path(), options.model = TinyModel(), options.num_threads = 2;
    options.adapter = folder_.path();
    engine_ = *Engine::Create(options);
    const auto report = engine_->Index(text_, {});
    EXPECT_TRUE(report.ok()) << report.status().message();
  }
  std::unique_ptr<DocumentSession> Open() const {
    return *AsDocumentSession(*engine_->Open("", nullptr));
  }
  const std::string& text() const { return text_; }

 private:
  const std::string text_;
  const TempFolder folder_, store_;
  std::unique_ptr<Engine> engine_;
};

AskOptions RefuseAt(float refuse_at = 0, float kv_budget = 1) {
  AskOptions options;
  options.refuse_at = refuse_at;
  options.kv_budget = kv_budget;
  options.max_tokens = 12;
  return options;
}

Answer AskedOf(DocumentSession& session, AskOptions options, std::string* shown = nullptr) {
  options.on_text = [&](std::string_view piece) {
    if (shown != nullptr) *shown += piece;
    return true;
  };
  auto answer = session.Ask(kUnansweredQuestion, options);
  EXPECT_TRUE(answer.ok()) << answer.status().message();
  return answer.ok() ? *std::move(answer) : Answer();
}

// The probability that the answer to a question begins with the sentence.
double ProbabilityByOracle(const std::string& text) {
  const auto model = *Model::Load(Env::Default(), TinyModel());
  DenseOracle oracle(TinyModel(), "f16");
  oracle.Append(model->EncodeDocument(text)->ids);
  std::vector<double> logits = oracle.Append(*model->EncodeQuestion(kUnansweredQuestion));
  double logprob = 0;
  const auto sentence = model->tokenizer().EncodeContinuation(kSentence);
  EXPECT_GT(sentence->ids.size(), 2u);
  for (const int32_t id : sentence->ids) {
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    logprob += logits[static_cast<size_t>(id)] - std::log(sum);
    logits = oracle.Append({id});
  }
  return std::exp(logprob);
}

TEST(RefusalTest, ItsProbabilityIsTheOracles) {
  for (const size_t bytes : {900, 7600}) {
    const RefusingDocument document(bytes);
    const Answer answer = AskedOf(*document.Open(), RefuseAt());
    ASSERT_TRUE(answer.refusal_probability);
    const double expected = ProbabilityByOracle(document.text());
    EXPECT_GT(*answer.refusal_probability, 0);
    EXPECT_NEAR(std::log(*answer.refusal_probability), std::log(expected), 0.02);
    EXPECT_FALSE(answer.is_refused);
  }
}

// Sums, rows and receipt are as without it; only the bytes count it.
TEST(RefusalTest, FindingItChangesNoAnswer) {
  const RefusingDocument with(7600), without(7600, "");
  for (const float budget : {1.0f, 0.2f}) {
    const auto session = with.Open(), plain = without.Open();
    for (const char* question : {kUnansweredQuestion, "Where is the mill?"}) {
      const auto answer = session->Ask(question, RefuseAt(0, budget));
      const auto expected = plain->Ask(question, RefuseAt(0, budget));
      ASSERT_TRUE(answer.ok() && expected.ok());
      EXPECT_TRUE(answer->refusal_probability);
      EXPECT_FALSE(expected->refusal_probability);
      EXPECT_EQ(answer->text, expected->text);
      EXPECT_EQ(answer->kv.session_rows, expected->kv.session_rows);
      EXPECT_EQ(answer->kv.read_fraction_prefill, expected->kv.read_fraction_prefill);
      EXPECT_EQ(answer->kv.read_fraction_decode, expected->kv.read_fraction_decode);
      EXPECT_EQ(answer->kv.missed_mass_estimate, expected->kv.missed_mass_estimate);
      EXPECT_GT(answer->kv.bytes_read, expected->kv.bytes_read);
      ASSERT_EQ(answer->attention.size(), expected->attention.size());
      for (size_t i = 0; i < answer->attention.size(); ++i) {
        EXPECT_EQ(answer->attention[i].mass, expected->attention[i].mass);
      }
    }
  }
}

// From the threshold on the sentence is the answer, shown once, whatever the sampling.
TEST(RefusalTest, IsTheAnswerFromTheThresholdOn) {
  const RefusingDocument document(900);
  const auto probability =
      static_cast<float>(*AskedOf(*document.Open(), RefuseAt()).refusal_probability);
  for (const float temperature : {0.0f, 5.0f}) {
    AskOptions options = RefuseAt(probability * 0.99f);
    options.sampling.temperature = temperature;
    std::string shown;
    const Answer answer = AskedOf(*document.Open(), options, &shown);
    EXPECT_TRUE(answer.is_refused);
    EXPECT_EQ(answer.text, kSentence);
    EXPECT_EQ(shown, kSentence);
    EXPECT_EQ(answer.stopped_by, "end");
    EXPECT_EQ(answer.finish_reason, "stop");
    EXPECT_NEAR(*answer.refusal_probability, probability, 1e-4 * probability);
  }
  const Answer above = AskedOf(*document.Open(), RefuseAt(probability * 1.01f));
  EXPECT_FALSE(above.is_refused);
  EXPECT_NE(above.text, kSentence);
  const std::string json = AnswerJson(above, OffsetUnit::kUtf8, {});
  EXPECT_NE(json.find("\"refused_by_probability\":false"), std::string::npos);
  AskOptions cut = RefuseAt(probability * 0.99f);
  cut.max_tokens = 1;
  const Answer begun = AskedOf(*document.Open(), cut);
  EXPECT_TRUE(begun.is_refused);
  EXPECT_EQ(begun.stopped_by, "max_tokens");
  EXPECT_EQ(begun.answer_tokens, 1u);
}

// The next question is asked as if the model itself had said the sentence.
TEST(RefusalTest, IsPartOfTheConversation) {
  const RefusingDocument document(900);
  const auto session = document.Open();
  EXPECT_TRUE(AskedOf(*session, RefuseAt(1e-37f)).is_refused);
  const auto next = session->Ask("Where is the mill?", RefuseAt(1));
  AskOptions told = RefuseAt(1);
  told.history.turns.push_back({kUnansweredQuestion, kSentence, ""});
  const auto expected = document.Open()->Ask("Where is the mill?", told);
  ASSERT_TRUE(next.ok() && expected.ok()) << next.status().message();
  EXPECT_EQ(next->text, expected->text);
  EXPECT_NEAR(*next->refusal_probability, *expected->refusal_probability,
              1e-3 * *expected->refusal_probability);
}

TEST(RefusalTest, TheAdaptersThresholdHoldsUnlessAQuestionSaysOtherwise) {
  const RefusingDocument document(900, R"({"refusal":{"text":"A mill.","threshold":1e-37}})");
  EXPECT_TRUE(AskedOf(*document.Open(), RefuseAt()).is_refused);
  EXPECT_FALSE(AskedOf(*document.Open(), RefuseAt(1)).is_refused);
  EXPECT_EQ(document.Open()->Ask(kUnansweredQuestion, RefuseAt(1.5f)).status().param(),
            "refuse_at");
}

// A probe that watches what the model says gets that, and no refusal.
TEST(RefusalTest, IsLeftOutWhereAProbeWatches) {
  const RefusingDocument document(900, R"({"refusal":{"text":"A mill.","threshold":1e-37}})");
  const auto session = document.Open();
  session->probe().on_token = [](std::span<const float>, int32_t) {};
  const Answer answer = AskedOf(*session, RefuseAt());
  EXPECT_FALSE(answer.refusal_probability);
  EXPECT_NE(answer.text, kSentence);
}

}  // namespace
}  // namespace lectern
