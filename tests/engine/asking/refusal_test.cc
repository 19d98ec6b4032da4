// The model's own sentence for "the document does not say": its probability is the oracle's, it is
// the answer from the threshold on and never below, and finding its probability changes nothing
// else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "engine/asking/barred_sentence.h"
#include "engine/model/formats/json.h"
#include "engine/model/template/sampled_tokens.h"
#include "engine/requests/report_json.h"
#include "tests/engine/dense_oracle.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::DenseOracle;
using testing::InventedText;
using testing::OpenChanged;
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
    name_ = report->document;
  }
  std::unique_ptr<DocumentSession> Open() const {
    return *AsDocumentSession(*engine_->Open("", nullptr));
  }
  // A copy of the document with these retrieval heads.
  std::unique_ptr<DocumentSession> OpenWith(const std::string& heads) const {
    const std::string copy = store_.path() + "/copy" + std::to_string(num_copies_++);
    const auto document = OpenChanged(*engine_, store_.path(), name_, copy,
                                      [&](SectionKind kind, const std::string& bytes) {
                                        if (kind != SectionKind::kModel)
                                          return std::optional(bytes);
                                        Json::Object object = *ParseJson(bytes)->object();
                                        object["retrieval_heads"] = *ParseJson(heads);
                                        return std::optional(Json(std::move(object)).Dump());
                                      });
    EXPECT_TRUE(document.ok()) << document.status().message();
    const auto model = Model::Load(Env::Default(), TinyModel(), {.adapter = folder_.path()});
    EXPECT_TRUE(model.ok()) << model.status().message();
    auto session = DocumentSession::Create(*document, *model, *DefaultBackend(),
                                           std::make_shared<ThreadPool>(2), 0);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return *std::move(session);
  }
  const std::string& text() const { return text_; }

 private:
  const std::string text_;
  const TempFolder folder_, store_;
  std::unique_ptr<Engine> engine_;
  std::string name_;
  mutable size_t num_copies_ = 0;
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

// The probability that the answer to a question begins with the sentence; `read`: what the
// question and the sentence read of the text, or everything.
double ProbabilityByOracle(const std::string& text, const DenseOracle::Kept& read = {}) {
  const auto model = *Model::Load(Env::Default(), TinyModel());
  DenseOracle oracle(TinyModel(), "f16");
  oracle.Append(model->EncodeDocument(text)->ids);
  oracle.RestrictTo(read);
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

// A value that the document does not give is null or left out where the schema allows that, and
// otherwise the warning names it.
TEST(RefusalTest, LeavesValuesOfAnObjectOut) {
  const RefusingDocument document(900);
  const auto ask = [&](float refuse_at) {
    AskOptions options = RefuseAt(refuse_at);
    options.max_tokens = 200;
    options.json_schema =
        R"({"type": "object", "properties": {"farm": {"type": ["integer", "null"]},
        "color": {"type": "string"}, "river": {"type": "integer", "maximum": 3},
        "field": {"type": "object", "properties": {"size": {"enum": [1, 2]}}}},
        "required": ["farm", "river"]})";
    std::string shown;
    const Answer answer = AskedOf(*document.Open(), options, &shown);
    EXPECT_EQ(shown, answer.text);
    EXPECT_TRUE(answer.refusal_probability);
    return answer;
  };
  const Answer refused = ask(1e-37f);
  EXPECT_TRUE(refused.text.starts_with(R"({"farm": null, "river": )")) << refused.text;
  EXPECT_TRUE(refused.text.find("field") == std::string::npos) << refused.text;
  EXPECT_EQ(std::ranges::count(refused.warnings, "refusal_likely"), 1);
  EXPECT_TRUE(refused.note.text().find(R"(does not answer this: "river")") != std::string::npos)
      << refused.note.text();
  const Answer given = ask(1);
  EXPECT_TRUE(given.text.find(R"("color": ")") != std::string::npos) << given.text;
  EXPECT_TRUE(given.text.find("null") == std::string::npos) << given.text;
  EXPECT_EQ(std::ranges::count(given.warnings, "refusal_likely"), 0);
}

// An object of which the document gives nothing is null or left out where the schema allows that;
// nothing of it is shown before.
TEST(RefusalTest, LeavesObjectsOutOfWhichNothingIsGiven) {
  const RefusingDocument document(900);
  const auto ask = [&](float refuse_at) {
    AskOptions options = RefuseAt(refuse_at);
    options.max_tokens = 400;
    options.json_schema =
        R"({"$defs": {"Size": {"type": "object", "properties": {"width": {"enum": [1, 2]},
            "unit": {"const": "m"}}, "required": ["width", "unit"]}},
        "type": "object", "properties": {
        "field": {"anyOf": [{"$ref": "#/$defs/Size"}, {"type": "null"}]},
        "farm": {"type": ["object", "null"], "properties": {"color": {"enum": ["red", "blue"]},
            "pond": {"oneOf": [{"type": "null"}, {"allOf": [{"$ref": "#/$defs/Size"}]}]}},
            "required": ["color", "pond"]},
        "mill": {"$ref": "#/$defs/Size"}, "river": {"$ref": "#/$defs/Size"}},
        "required": ["field", "farm", "river"]})";
    std::string shown;
    size_t tokens = 0;
    options.on_token = [&](const SampledToken&) { ++tokens; };
    const Answer answer = AskedOf(*document.Open(), options, &shown);
    EXPECT_EQ(shown, answer.text);
    EXPECT_EQ(tokens, answer.answer_tokens);
    return answer;
  };
  const Answer refused = ask(1e-37f);
  EXPECT_TRUE(refused.text.starts_with(R"({"field": null, "farm": null, "river": {"width": )"))
      << refused.text;
  EXPECT_NE(refused.note.text().find(R"(does not answer this: "width")"), std::string::npos)
      << refused.note.text();
  EXPECT_EQ(refused.note.text().find(R"("color")"), std::string::npos) << refused.note.text();
  const Answer given = ask(1);
  EXPECT_TRUE(given.text.starts_with(R"({"field": {"width": )")) << given.text;
  EXPECT_TRUE(given.text.find(R"("pond": {"width": )") != std::string::npos) << given.text;
  EXPECT_TRUE(given.text.find("null") == std::string::npos) << given.text;
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

// All answers of three tokens out of three, with probabilities by a made-up model, are as likely as
// that model has them, the sentence apart, which the others share.
TEST(BarredSentenceTest, OthersKeepTheirProportions) {
  const std::vector<int32_t> sentence = {1, 0, 2};
  const auto logits_after = [](std::span<const int32_t> ids) {
    std::vector<float> logits = {0.5f, 1.25f, -0.75f};
    for (size_t i = 0; i < ids.size(); ++i) {
      logits[static_cast<size_t>(ids[i])] += 1.5f - static_cast<float>(i);
      std::rotate(logits.begin(), logits.begin() + 1, logits.end());
    }
    return logits;
  };
  std::vector<double> logprobs;
  for (size_t i = 0; i < sentence.size(); ++i) {
    const std::vector<float> logits = logits_after(std::span(sentence).first(i));
    logprobs.push_back(LogProbabilities(logits).Of(sentence[i]));
  }
  const double barred_share = std::exp(logprobs[0] + logprobs[1] + logprobs[2]);
  double sum = 0;
  for (int32_t code = 0; code < 27; ++code) {
    const std::vector<int32_t> ids = {code / 9, code / 3 % 3, code % 3};
    BarredSentence barred(sentence, logprobs);
    double plain = 0, conditioned = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::vector<float> logits = logits_after(std::span(ids).first(i));
      plain += LogProbabilities(logits).Of(ids[i]);
      EXPECT_EQ(barred.is_open(),
                std::ranges::equal(std::span(ids).first(i), std::span(sentence).first(i)));
      const std::span<const float> changed = barred.Condition(logits);
      EXPECT_EQ(changed.data() == logits.data(), !barred.is_open());
      conditioned += LogProbabilities(changed).Of(ids[i]);
      barred.Push(ids[i]);
    }
    EXPECT_FALSE(barred.is_open());
    sum += std::exp(conditioned);
    const double expected = ids == sentence ? 0 : std::exp(plain) / (1 - barred_share);
    EXPECT_NEAR(std::exp(conditioned), expected, 1e-6);
  }
  EXPECT_NEAR(sum, 1, 1e-6);
}

// The sentence is what the model says by itself. Below the threshold it says the next best instead,
// whatever is proposed and however many logits are computed; with a threshold of 1 its own word.
TEST(RefusalTest, IsNotDecodedBelowTheThreshold) {
  const std::string own = AskedOf(*RefusingDocument(900, "").Open(), RefuseAt()).text;
  const auto model = *Model::Load(Env::Default(), TinyModel());
  const std::vector<int32_t> ids = model->tokenizer().EncodeContinuation(own)->ids;
  ASSERT_GT(ids.size(), 4u);
  for (const size_t length : {1u, 2u, 4u}) {
    std::string sentence;
    for (size_t i = 0; i < length; ++i) sentence += model->tokenizer().TokenBytes(ids[i]);
    ASSERT_EQ(model->tokenizer().EncodeContinuation(sentence)->ids,
              std::vector<int32_t>(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(length)));
    const RefusingDocument document(
        900, R"({"refusal":{"text":")" + sentence + R"(","threshold":0.999}})");
    // By the oracle: the likeliest token each time, on condition that the sentence is not said.
    DenseOracle oracle(TinyModel(), "f16");
    oracle.Append(model->EncodeDocument(document.text())->ids);
    const std::vector<int32_t> question = *model->EncodeQuestion(kUnansweredQuestion);
    const auto logprob = [](const std::vector<double>& logits, int32_t id) {
      double sum = 0;
      for (const double logit : logits) sum += std::exp(logit);
      return logits[static_cast<size_t>(id)] - std::log(sum);
    };
    std::vector<std::vector<double>> logits = {oracle.Append(question)};
    for (size_t i = 0; i + 1 < length; ++i) logits.push_back(oracle.Append({ids[i]}));
    double rest = 0;
    std::vector<double> penalties(length);
    for (size_t i = length; i > 0; --i) {
      penalties[i - 1] = std::log(1 - std::exp(rest));
      rest += logprob(logits[i - 1], ids[i - 1]);
    }
    std::vector<int32_t> expected;
    for (size_t i = 0; i < length; ++i) {
      logits[i][static_cast<size_t>(ids[i])] += penalties[i];
      const auto best = std::ranges::max_element(logits[i]);
      expected.push_back(static_cast<int32_t>(best - logits[i].begin()));
      if (expected.back() != ids[i]) break;
    }
    ASSERT_NE(expected.back(), ids[expected.size() - 1]);
    std::set<std::string> answers;
    for (const std::string_view proposals : {"auto", "off"}) {
      AskOptions options = RefuseAt();
      options.lookup_decoding = proposals;
      const Answer answer = AskedOf(*document.Open(), options);
      EXPECT_FALSE(answer.is_refused);
      answers.insert(answer.text);
    }
    AskOptions watched = RefuseAt();
    std::vector<int32_t> told;
    watched.on_token = [&](const SampledToken& token) { told.push_back(token.id); };
    answers.insert(AskedOf(*document.Open(), watched).text);
    EXPECT_EQ(answers.size(), 1u);
    ASSERT_GE(told.size(), expected.size());
    told.resize(expected.size());
    EXPECT_EQ(told, expected);
    EXPECT_EQ(AskedOf(*document.Open(), RefuseAt(1)).text, own);
  }
}

TEST(RefusalTest, TheAdaptersThresholdHoldsUnlessAQuestionSaysOtherwise) {
  const RefusingDocument document(900, R"({"refusal":{"text":"A mill.","threshold":1e-37}})");
  EXPECT_TRUE(AskedOf(*document.Open(), RefuseAt()).is_refused);
  EXPECT_FALSE(AskedOf(*document.Open(), RefuseAt(1)).is_refused);
  EXPECT_EQ(document.Open()->Ask(kUnansweredQuestion, RefuseAt(1.5f)).status().param(),
            "refuse_at");
}

AskOptions FocusOnly(float refuse_at = 0) {
  AskOptions options = RefuseAt(refuse_at, kAutoBudget);
  options.focus = "only";
  return options;
}

// Heads by hand: any will do, because the question is only to be read twice.
constexpr char kHeads[] = "[[0,0,1],[1,1,0]]";

// The rows that the last pass of the question reads with a focus, in each layer and kv head.
DenseOracle::Kept ReadWithFocus(const RefusingDocument& document, const std::string& heads) {
  const auto session = document.OpenWith(heads);
  const size_t num_tokens = session->indexed().tokens().size();
  DenseOracle::Kept read(session->indexed().num_layers());
  session->probe().on_layer = [&](const LayerStep& step) {
    const auto kept = *session->indexed().Heads(step.layer);
    read[step.layer].assign(kept.size(), std::vector<bool>(num_tokens, step.read.exact));
    for (size_t h = 0; !step.read.exact && h < kept.size(); ++h) {
      for (const uint32_t row : step.read.heads[h].rows) {
        read[step.layer][h][kept[h].positions()[row]] = true;
      }
    }
  };
  AskOptions options = FocusOnly();
  options.max_tokens = 1;
  const Answer answer = AskedOf(*session, options);
  EXPECT_FALSE(answer.refusal_probability);
  return read;
}

double LogOddsOf(double probability) { return std::log(probability / (1 - probability)); }

// A question that is read twice has the mean of the log-odds of both readings, which decides; by
// words alone it is read once.
TEST(RefusalTest, WithAFocusBothReadingsDecide) {
  const RefusingDocument document(2500);  // without clusters: the first reading reads everything
  const auto session = document.OpenWith(kHeads);
  const Answer answer = AskedOf(*session, FocusOnly());
  EXPECT_EQ(answer.kv.rule, "words+heads");
  ASSERT_TRUE(answer.refusal_probability);
  const double first = ProbabilityByOracle(document.text());
  const double second = ProbabilityByOracle(document.text(), ReadWithFocus(document, kHeads));
  const double mean = (LogOddsOf(first) + LogOddsOf(second)) / 2;
  EXPECT_NEAR(LogOddsOf(*answer.refusal_probability), mean, 0.02);
  EXPECT_GT(std::abs(LogOddsOf(second) - mean), 0.1);  // so that one alone would be found out
  const auto probability = static_cast<float>(*answer.refusal_probability);
  session->Forget();
  EXPECT_TRUE(AskedOf(*session, FocusOnly(probability * 0.99f)).is_refused);
  session->Forget();
  EXPECT_FALSE(AskedOf(*session, FocusOnly(probability * 1.01f)).is_refused);
  const Answer once = AskedOf(*document.OpenWith("[]"), FocusOnly());
  EXPECT_EQ(once.kv.rule, "words");
  const double alone = ProbabilityByOracle(document.text(), ReadWithFocus(document, "[]"));
  EXPECT_NEAR(LogOddsOf(*once.refusal_probability), LogOddsOf(alone), 0.02);
}

// Focus, answer and shares are as without it, also in the next question; the bytes count both.
TEST(RefusalTest, FindingItTwiceChangesNoAnswer) {
  for (const size_t bytes : {2500, 7600}) {
    const RefusingDocument with(bytes), without(bytes, "");
    const auto session = with.OpenWith(kHeads), plain = without.OpenWith(kHeads);
    for (const char* question : {kUnansweredQuestion, "Where is the mill?"}) {
      const auto answer = session->Ask(question, FocusOnly());
      const auto expected = plain->Ask(question, FocusOnly());
      ASSERT_TRUE(answer.ok() && expected.ok());
      EXPECT_EQ(answer->kv.rule, "words+heads");
      EXPECT_TRUE(answer->refusal_probability);
      EXPECT_EQ(answer->text, expected->text);
      EXPECT_EQ(answer->kv.session_rows, expected->kv.session_rows);
      EXPECT_EQ(answer->kv.read_fraction_prefill, expected->kv.read_fraction_prefill);
      EXPECT_EQ(answer->kv.read_fraction_decode, expected->kv.read_fraction_decode);
      ASSERT_EQ(answer->evidence.size(), expected->evidence.size());
      for (size_t i = 0; i < answer->evidence.size(); ++i) {
        EXPECT_EQ(answer->evidence[i].begin, expected->evidence[i].begin);
        EXPECT_EQ(answer->evidence[i].score, expected->evidence[i].score);
      }
      // The sentence's first reading reads what the question's does: by the budget, which in the
      // short document is everything.
      const uint64_t first = bytes == 2500 ? session->dense_bytes() : 0;
      EXPECT_GT(answer->kv.bytes_read, expected->kv.bytes_read + first);
    }
  }
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

// The decoded sentence stands in the document, so that by words alone there would be evidence. Many
// passages are shown, because the question, which ranks them, has other words.
TEST(RefusalTest, HasNoEvidenceWhetherChosenOrDecoded) {
  const auto warns = [](const Answer& answer) {
    return std::ranges::count(answer.warnings, "no_evidence") == 1;
  };
  AskOptions options = RefuseAt(1e-37f);
  options.max_evidence = 100, options.max_tokens = 64;
  const auto chosen = RefusingDocument(900).Open()->Ask(kUnansweredQuestion, options);
  ASSERT_TRUE(chosen.ok());
  EXPECT_TRUE(chosen->is_refused && warns(*chosen));

  const std::string sentence = InventedText(900, 5).substr(0, 60);
  const auto model = Model::Load(Env::Default(), TinyModel());
  ASSERT_TRUE(model.ok());
  std::vector<int32_t> ids = (*model)->tokenizer().EncodeContinuation(sentence)->ids;
  ids.push_back((*model)->tokenizer().eos_id());
  const std::string taught = R"({"refusal":{"text":")" + sentence + R"(","threshold":1}})";
  for (const std::string& settings : {taught, std::string()}) {
    const RefusingDocument document(900, settings);
    const auto session = document.Open();
    session->probe().answer = ids;
    const auto decoded = session->Ask(kUnansweredQuestion, options);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(decoded->text, sentence);
    EXPECT_FALSE(decoded->is_refused);
    EXPECT_FALSE(decoded->evidence.empty());
    EXPECT_EQ(warns(*decoded), !settings.empty());
  }
}

}  // namespace
}  // namespace lectern
