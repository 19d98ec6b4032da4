// Tests the measurements that a document keeps from its indexing, and the budgets that follow from
// them.
#include "engine/indexing/calibrate_document.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/indexing/calibration_questions.h"
#include "engine/indexing/teacher_forcing.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::ReaderModel;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;

constexpr char kQuestion[] = "Who chairs the committee?";

// --- questions -----------------------------------------------------------------------------------

TEST(CalibrationQuestionsTest, AskAboutWordsThatATextHasAFewTimes) {
  std::string text;
  for (int i = 0; i < 900; ++i) text += "common words everywhere ";
  for (const size_t third : {0u, 1u, 2u}) {
    const char* const rare[] = {"mutexes", "semaphores", "barriers"};
    for (size_t place : {20u, 40u, 60u}) {
      text.insert(text.size() * (2 * third + 1) / 6 + place, std::string(" ") + rare[third] + " ");
    }
  }
  const std::vector<std::string> questions = CalibrationQuestions(text);
  ASSERT_EQ(questions.size(), 4u);
  EXPECT_EQ(questions[0], GenericQuestions()[0]);
  EXPECT_EQ(questions[1], "What does the text say about mutexes?");
  EXPECT_EQ(questions[2], "What does the text say about semaphores?");
  EXPECT_EQ(questions[3], "What does the text say about barriers?");
  EXPECT_EQ(CalibrationQuestions(text), questions);
}

TEST(CalibrationQuestionsTest, TakeWholeCharacters) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "条款规定租金按月支付。";
  for (const std::string& question : CalibrationQuestions(text)) {
    for (size_t i = 0, left = 0; i < question.size(); ++i) {
      const unsigned char c = static_cast<unsigned char>(question[i]);
      ASSERT_EQ((c & 0xC0) == 0x80, left > 0) << question;
      left = left > 0 ? left - 1 : c >= 0xE0 ? 2 : 0;
    }
  }
}

TEST(CalibrationQuestionsTest, AreGenericWhereThereAreNoWords) {
  const auto generic = GenericQuestions();
  for (const std::string& text :
       {std::string(), std::string(9000, '7'), std::string(9000, '\x80')}) {
    const std::vector<std::string> questions = CalibrationQuestions(text);
    ASSERT_EQ(questions.size(), 4u);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(questions[i], generic[i]);
  }
}

// --- measured and used ---------------------------------------------------------------------------

// The demo's document; one engine for all tests that do not change it.
class Store {
 public:
  Store() {
    engine = std::move(
                 Engine::Create({.store = folder.path(), .model = ReaderModel(), .num_threads = 2}))
                 .value();
  }
  IndexReport Index(const IndexOptions& options) {
    const auto report =
        engine->Index(ReadWholeFile(SourcePath("tools/demo/document.txt")), options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return *report;
  }
  std::unique_ptr<DocumentSession> Open() const {
    auto session = engine->Open("");
    EXPECT_TRUE(session.ok()) << session.status().message();
    return std::unique_ptr<DocumentSession>(
        static_cast<DocumentSession*>(std::move(session).value().release()));
  }

  const TempFolder folder;
  std::unique_ptr<Engine> engine;
};

Store& Demo() {
  static Store store;
  static const IndexReport report = store.Index({});
  return store;
}

TEST(AutoBudgetTest, IsTheSmallestThatKeepsTheLimit) {
  const auto session = Demo().Open();
  const DivergenceCurve& curve = session->indexed().divergence_curve();
  ASSERT_TRUE(curve.is_measured());
  EXPECT_GE(curve.budgets.size(), 2u);
  const auto answer = session->Ask(kQuestion, {});
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->kv.is_auto);
  EXPECT_FLOAT_EQ(static_cast<float>(answer->kv.max_divergence), kMaxDivergence);
  const double expected = curve.SmallestBudget(double{kMaxDivergence});
  EXPECT_FLOAT_EQ(answer->kv.budget, static_cast<float>(expected));
  ASSERT_TRUE(answer->kv.divergence.has_value());
  EXPECT_LE(*answer->kv.divergence, answer->kv.max_divergence + 1e-9);
  // Another limit is another budget; one that nothing keeps is exact mode.
  AskOptions strict;
  strict.max_divergence = 1e-12f;
  const auto exact = Demo().Open()->Ask(kQuestion, strict);
  ASSERT_TRUE(exact.ok());
  EXPECT_EQ(exact->kv.rule, "exact");
  EXPECT_EQ(exact->kv.budget, 1);
  EXPECT_EQ(exact->kv.divergence, 0.0);
  AskOptions loose;
  loose.max_divergence = 50;
  const auto least = Demo().Open()->Ask(kQuestion, loose);
  ASSERT_TRUE(least.ok());
  EXPECT_FLOAT_EQ(least->kv.budget, static_cast<float>(curve.budgets.front()));
}

TEST(AutoBudgetTest, AFixedBudgetThatIsTooSmallWarnsBeforeTheAnswer) {
  const DivergenceCurve curve = Demo().Open()->indexed().divergence_curve();
  const double predicted = curve.At(0.1);
  for (const bool is_kept : {true, false}) {
    AskOptions options;
    options.kv_budget = 0.1f;
    options.max_divergence = static_cast<float>(is_kept ? predicted * 1.01 : predicted * 0.99);
    std::vector<std::string> events;
    options.on_warning = [&](std::string_view name, const Message& note) {
      events.emplace_back(name);
      if (name == "low_budget") {
        EXPECT_NE(note.cli_text().find("--kv-budget"), std::string::npos) << note.cli_text();
        EXPECT_NE(note.text().find("kv_budget"), std::string::npos) << note.text();
      }
    };
    options.on_text = [&](std::string_view) {
      events.emplace_back("text");
      return true;
    };
    const auto answer = Demo().Open()->Ask(kQuestion, options);
    ASSERT_TRUE(answer.ok());
    EXPECT_FALSE(answer->kv.is_auto);
    EXPECT_NEAR(*answer->kv.divergence, predicted, 1e-9);
    ASSERT_FALSE(events.empty());
    EXPECT_EQ(events.front() == "low_budget", !is_kept);
    EXPECT_EQ(std::ranges::count(answer->warnings, "low_budget"), is_kept ? 0 : 1);
    if (is_kept) continue;
    EXPECT_NE(answer->note.text().find("would do"), std::string::npos);
  }
}

// Predictions hold for the document's own plan and the default rule: they were measured with these.
TEST(AutoBudgetTest, OtherPoliciesHaveNoPrediction) {
  AskOptions options;
  options.kv_budget = 0.3f;
  options.head_budget = "uniform";
  const auto answer = Demo().Open()->Ask(kQuestion, options);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_FALSE(answer->kv.divergence.has_value());
  options.head_budget = "";
  options.rule = "cap";
  const auto cap = Demo().Open()->Ask(kQuestion, options);
  ASSERT_TRUE(cap.ok()) << cap.status().message();
  EXPECT_FALSE(cap->kv.divergence.has_value());
}

TEST(AutoBudgetTest, PlansShowAndChangeIt) {
  Store store;
  IndexOptions options;
  options.name = "demo";
  options.kv_budget = 0.2f;
  options.max_divergence = 0.5f;
  const IndexReport report = store.Index(options);
  EXPECT_FALSE(report.is_budget_auto);
  EXPECT_FLOAT_EQ(static_cast<float>(report.kv_budget), 0.2f);
  ASSERT_TRUE(report.divergence.has_value());
  auto plan = store.engine->ShowPlan("demo");
  ASSERT_TRUE(plan.ok());
  EXPECT_FALSE(plan->is_auto);
  EXPECT_FLOAT_EQ(static_cast<float>(plan->max_divergence), 0.5f);
  EXPECT_NEAR(*plan->divergence, *report.divergence, 1e-9);

  ASSERT_TRUE(
      store.engine->ChangePlan("demo", {.layer_budget = {},
                                       .head_budget = {},
                                       .kv_budget = kAutoBudget,
                                       .max_divergence = 0.01f}).ok());
  plan = store.engine->ShowPlan("demo");
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->is_auto);
  EXPECT_FLOAT_EQ(static_cast<float>(plan->max_divergence), 0.01f);
  EXPECT_LE(*plan->divergence, 0.01 + 1e-6);

  ASSERT_TRUE(store.engine->ChangePlan("demo", {.layer_budget = {}, .head_budget = {}, .kv_budget = 0.3f}).ok());
  plan = store.engine->ShowPlan("demo");
  ASSERT_TRUE(plan.ok());
  EXPECT_FALSE(plan->is_auto);
  EXPECT_FLOAT_EQ(static_cast<float>(plan->kv_budget), 0.3f);
  EXPECT_FLOAT_EQ(static_cast<float>(plan->max_divergence), 0.01f);
}

TEST(AutoBudgetTest, OfAShortDocumentIsExact) {
  Store store;
  const auto report = store.engine->Index("A short text has no clusters.", {});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->kv_budget, 1);
  const auto answer = store.Open()->Ask(kQuestion, {});
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->kv.is_auto);
  EXPECT_EQ(answer->kv.rule, "exact");
  EXPECT_EQ(answer->kv.divergence, 0.0);
}

// --- documents from before budgets were measured
// ---------------------------------------------------

// Opens the demo's document without what builds of that time did not store, or with a damaged
// curve.
Result<std::shared_ptr<const Document>> Older(const std::string& name, const std::string& curve) {
  return testing::OpenChanged(
      *Demo().engine, Demo().folder.path(), "", Demo().folder.path() + "/" + name,
      [&](SectionKind kind, const std::string& bytes) -> std::optional<std::string> {
        if (kind == SectionKind::kWords || kind == SectionKind::kPassages) return std::nullopt;
        if (kind != SectionKind::kModel) return bytes;
        Json::Object options = *ParseJson(bytes)->object();
        for (const char* key : {"kv_budget_auto", "max_divergence", "divergence"})
          options.erase(key);
        options["kv_budget"] = Json(0.1);
        if (!curve.empty()) options["divergence"] = *ParseJson(curve);
        return Json(std::move(options)).Dump();
      });
}

TEST(OlderDocumentTest, KeepsItsBudgetAndSaysSoWhereAnotherIsWanted) {
  const auto older = Older("older", "");
  ASSERT_TRUE(older.ok()) << older.status().message();
  const ChosenBudget own = (*older)->ChooseBudget(0, 0);
  EXPECT_FALSE(own.is_auto);
  EXPECT_FLOAT_EQ(static_cast<float>(own.kv_budget), 0.1f);
  EXPECT_FALSE(own.divergence.has_value());
  const ChosenBudget wanted = (*older)->ChooseBudget(kAutoBudget, 0);
  EXPECT_FALSE(wanted.is_auto);
  EXPECT_FLOAT_EQ(static_cast<float>(wanted.kv_budget), 0.1f);

  const auto model = Model::Load(Env::Default(), ReaderModel());
  ASSERT_TRUE(model.ok());
  const auto ask = [&](float kv_budget) {
    auto session = DocumentSession::Create(*older, *model, *DefaultBackend(),
                                           std::make_shared<ThreadPool>(2), 0);
    AskOptions options;
    options.kv_budget = kv_budget;
    return (*session)->Ask(kQuestion, options);
  };
  const auto plain = ask(0), answer = ask(kAutoBudget);
  ASSERT_TRUE(plain.ok() && answer.ok());
  EXPECT_EQ(plain->note.text().find("before budgets were measured"), std::string::npos);
  EXPECT_NE(answer->note.text().find("before budgets were measured"), std::string::npos);
  EXPECT_EQ(answer->text, plain->text);
}

TEST(OlderDocumentTest, ADamagedCurveIsCorrupt) {
  EXPECT_EQ(Older("damaged", R"({"budgets":[0.1],"divergences":[-1]})").status().code(),
            Code::kCorrupt);
}

// --- teacher forcing -----------------------------------------------------------------------------

TEST(TeacherForcingTest, DivergenceIsThatOfTheDefinition) {
  const std::vector<float> x = {1, -2, 0.5f, 3}, y = {0, 1, 0.25f, 2};
  double px = 0, py = 0, expected = 0;
  for (size_t i = 0; i < 4; ++i) px += std::exp(double{x[i]}), py += std::exp(double{y[i]});
  for (size_t i = 0; i < 4; ++i) {
    const double p = std::exp(double{x[i]}) / px, q = std::exp(double{y[i]}) / py;
    expected += p * std::log(p / q);
  }
  const auto session = Demo().Open();
  EXPECT_NEAR(Divergence(session->backend(), x, y), expected, 1e-5);
  EXPECT_NEAR(Divergence(session->backend(), x, x), 0, 1e-6);
}

TEST(TeacherForcingTest, ForcedAnswersSayTheExactOne) {
  AskOptions options;
  options.max_tokens = 8;
  const auto session = Demo().Open();
  const auto exact = AskExactly(*session, kQuestion, options);
  ASSERT_TRUE(exact.ok());
  ASSERT_EQ(exact->ids.size(), exact->logits.size());
  session->Forget();
  options.kv_budget = 1;
  const auto same = AskForced(*session, kQuestion, *exact, options);
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->num_same, exact->ids.size());
  for (const double divergence : same->divergences) EXPECT_LE(divergence, 1e-6);
  session->Forget();
  // At a budget that leaves nothing but sinks and window, tokens are still those of the exact
  // answer.
  options.kv_budget = static_cast<float>(*session->SmallestServed(true) * 1.001);
  const auto forced = AskForced(*session, kQuestion, *exact, options);
  ASSERT_TRUE(forced.ok()) << forced.status().message();
  EXPECT_EQ(forced->answer.text, exact->answer.text);
  ASSERT_EQ(forced->divergences.size(), exact->ids.size());
  double sum = 0;
  for (const double divergence : forced->divergences) sum += divergence;
  EXPECT_GT(sum, 0);
  // Afterwards the session draws its own tokens again.
  EXPECT_TRUE(session->probe().answer.empty());
}

}  // namespace
}  // namespace lectern
