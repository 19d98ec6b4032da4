// The rules that choose what is read, through Ask: receipts, both phases, exact mode beside them.
#include <gtest/gtest.h>

#include <optional>

#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::InventedText;
using testing::TempFolder;
using testing::TinyModel;

Answer Ask(const std::string& rule, float budget, double mass = 0,
           std::optional<double> max_missed = {}) {
  static const TempFolder store;
  static const std::unique_ptr<Engine> engine = [] {
    auto created = Engine::Create({.store = store.path(), .model = TinyModel(), .num_threads = 2});
    EXPECT_TRUE((*created)->Index(InventedText(14000, 5), {}).ok());
    return std::move(created).value();
  }();
  AskOptions options;
  options.kv_budget = budget;
  options.rule = rule;
  options.mass = mass;
  options.max_missed = max_missed;
  options.max_tokens = 6;
  auto session = engine->Open("");
  EXPECT_TRUE(session.ok());
  auto answer = (*session)->Ask("Which quiet farmer crossed the river?", options);
  EXPECT_TRUE(answer.ok()) << answer.status().message();
  return std::move(answer).value();
}

class RulesTest : public ::testing::TestWithParam<std::string> {};

TEST_P(RulesTest, AnswersInBothPhases) {
  const Answer answer = Ask(GetParam(), 0.15f, GetParam() == "top-p" ? 0.5 : 0);
  EXPECT_EQ(answer.kv.rule, GetParam());
  EXPECT_FLOAT_EQ(answer.kv.budget, 0.15f);
  EXPECT_GT(answer.answer_tokens, 1u);
  ASSERT_TRUE(answer.kv.read_fraction_decode.has_value());
  for (const double read : {answer.kv.read_fraction_prefill, *answer.kv.read_fraction_decode}) {
    EXPECT_GT(read, 0.03);  // sinks and window
    EXPECT_LT(read, 0.95);
    if (GetParam() == "cap") {
      EXPECT_LE(read, 0.15);
    }
  }
  EXPECT_GT(answer.kv.missed_mass_estimate, 0);
}

TEST_P(RulesTest, TheNoteSaysWhatTheRuleMakesOfTheBudget) {
  const std::string rule = GetParam();
  const std::string note = Ask(rule, 0.15f).note.text();
  EXPECT_EQ(note.find("only in the mean over many questions") != note.npos, rule == "threshold");
  EXPECT_EQ(note.find("rule top-p has no budget: it reads what holds 95 % of") != note.npos,
            rule == "top-p");
}

// The document's margin was measured with the default rule, so the others do not rely on it.
TEST_P(RulesTest, ALimitOfWhatIsMissedIsKept) {
  const Answer answer = Ask(GetParam(), 0.15f, 0, 0.2);
  if (GetParam() != "default") {
    EXPECT_EQ(answer.kv.max_missed_by, "bound");
    EXPECT_LE(answer.kv.missed_mass_bound.value_or(1), 0.2);
  }
  EXPECT_EQ(answer.kv.rule, GetParam());
}

TEST_P(RulesTest, BudgetOneIsExactWhateverTheRule) {
  const Answer exact = Ask("default", 1), answer = Ask(GetParam(), 1);
  EXPECT_EQ(answer.kv.rule, "exact");
  EXPECT_EQ(answer.text, exact.text);
  EXPECT_EQ(answer.note.text(), exact.note.text());
  EXPECT_EQ(answer.kv.bytes_read, exact.kv.bytes_read);
  EXPECT_EQ(answer.kv.missed_mass_estimate, 0);
}

INSTANTIATE_TEST_SUITE_P(All, RulesTest, ::testing::Values("default", "threshold", "cap", "top-p"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(TopPTest, MoreMassReadsMore) {
  double before = 0;
  for (const double mass : {0.2, 0.5, 0.9}) {
    const double read = Ask("top-p", 0.15f, mass).kv.read_fraction_prefill;
    EXPECT_GT(read, before) << mass;
    before = read;
  }
}

}  // namespace
}  // namespace lectern
