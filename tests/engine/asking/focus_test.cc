// Focused reading: what a question's words choose, that nothing else counts, and what is said of
// it.
#include "engine/asking/focus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/document/layer_shard.h"
#include "engine/requests/report_json.h"
#include "tests/engine/dense_oracle.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::DenseOracle;
using testing::Indexed;
using testing::InventedText;
using testing::ReaderModel;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TinyModel;

constexpr char kFact[] = "Where does the Douquouth committee rent a hall?";

// The bundled reader on the demo's document.
Indexed& DemoDocument() {
  static Indexed document(ReaderModel(), ReadWholeFile(SourcePath("tools/demo/document.txt")));
  return document;
}

AskOptions Focused(uint32_t max_tokens = 8) {
  AskOptions options;
  options.focus = "only";
  options.max_tokens = max_tokens;
  return options;
}

TEST(FocusTest, ReadsThePassagesOfTheQuestionsWords) {
  const auto session = DemoDocument().Open();
  const Document& document = session->indexed();
  const auto tokens = FocusTokens(document, kFact);
  ASSERT_TRUE(tokens.ok()) << tokens.status().message();
  ASSERT_EQ(tokens->size(), document.tokens().size());
  const auto num_read = std::count(tokens->begin(), tokens->end(), true);
  EXPECT_GT(num_read, 20);
  EXPECT_LT(num_read, static_cast<ptrdiff_t>(tokens->size() / 10));
  std::string read;
  for (size_t t = 0; t < tokens->size(); ++t) {
    const TokenizedText::Range range = document.ranges()[t];
    if ((*tokens)[t]) read += document.text().substr(range.begin, range.end - range.begin);
  }
  EXPECT_NE(read.find("Douquouth committee"), std::string::npos);
}

TEST(FocusTest, AnswersFromThemAndSaysSo) {
  const auto answer = DemoDocument().Open()->Ask(kFact, Focused());
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  const auto exact = DemoDocument().Open()->Ask(kFact, [] {
    AskOptions options = Focused();
    options.kv_budget = 1;
    return options;
  }());
  ASSERT_TRUE(exact.ok());
  EXPECT_EQ(answer->text, exact->text);
  EXPECT_EQ(exact->kv.rule, "exact");
  EXPECT_EQ(exact->kv.budget, 1);
  EXPECT_EQ(answer->kv.rule, "words");
  EXPECT_LT(answer->kv.budget, 0.2f);
  EXPECT_GT(answer->kv.read_fraction_prefill, 0);
  EXPECT_LT(answer->kv.read_fraction_prefill, 0.2);
  EXPECT_FALSE(answer->kv.missed_mass_estimate);
  EXPECT_FALSE(answer->kv.divergence);
  EXPECT_NE(AnswerJson(*answer, OffsetUnit::kUtf8, {}).find("\"missed_mass_estimate\":null"),
            std::string::npos);
}

TEST(FocusTest, IsOffWhereNoWordIsShared) {
  const auto session = DemoDocument().Open();
  const auto answer = session->Ask("Qu'est-ce que Zimbel?", Focused());
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->kv.rule, "default");
  EXPECT_NE(answer->note.text().find("no passage shares a word"), std::string::npos);
  // The next question of the conversation has a focus of its own.
  const auto next = session->Ask(kFact, Focused());
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->kv.rule, "words");
  const auto unfocused = session->Ask(kFact, AskOptions());
  ASSERT_TRUE(unfocused.ok());
  EXPECT_EQ(unfocused->kv.rule, "default");
}

// A follow-up of stop words is about the passages of the question before.
TEST(FocusTest, AFollowUpWithoutWordsKeepsIt) {
  const auto session = DemoDocument().Open();
  const auto first = session->Ask(kFact, Focused());
  ASSERT_TRUE(first.ok());
  const auto next = session->Ask("And why is it so?", Focused());
  ASSERT_TRUE(next.ok()) << next.status().message();
  EXPECT_EQ(next->kv.rule, "words");
  EXPECT_NEAR(next->kv.budget, first->kv.budget, 1e-6);
  const auto alone = DemoDocument().Open()->Ask("And why is it so?", Focused());
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(alone->kv.rule, "default");
}

// Neither a plan that fills layers nor a document that keeps few rows is read whole instead.
TEST(FocusTest, HoldsWhateverThePlanAndTheKeptShareAre) {
  AskOptions options = Focused(2);
  options.layer_budget = "dense-first";
  const auto dense_first = DemoDocument().Open()->Ask(kFact, options);
  ASSERT_TRUE(dense_first.ok()) << dense_first.status().message();
  EXPECT_LT(dense_first->kv.read_fraction_prefill, 0.2);
  IndexOptions kept;
  kept.retention = {0.4, "kv-compress"};
  Indexed indexed(ReaderModel(), ReadWholeFile(SourcePath("tools/demo/document.txt")), kept);
  const auto answer = indexed.Open()->Ask(kFact, Focused(2));
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->kv.rule, "words");
  EXPECT_LT(answer->kv.read_fraction_prefill, 0.2);
  // A budget of all rows that are kept leaves nothing to read first.
  options = Focused(2);
  options.focus = "words";
  options.kv_budget = 0.5;
  const auto all = indexed.Open()->Ask(kFact, options);
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(all->kv.rule, "exact");
}

TEST(FocusTest, ExcludesALimitOfMissedAttention) {
  AskOptions options = Focused();
  options.max_missed = 0.1;
  const auto answer = DemoDocument().Open()->Ask(kFact, options);
  EXPECT_EQ(answer.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(answer.status().param(), "focus");
  options = {};
  options.focus = "all";
  EXPECT_EQ(DemoDocument().Open()->Ask(kFact, options).status().param(), "focus");
}

// A question with a focus, and all that its first pass read.
struct Asked {
  std::string text, question;
  std::vector<bool> focus;  // [tokens], with sinks and window
  DenseOracle::Kept read;   // by what the session says of each layer
  std::vector<float> logits;
  Answer answer;
};

Asked AskWithFocus(size_t bytes, const std::string& focus) {
  Asked asked;
  asked.text = InventedText(bytes, 31), asked.question = InventedText(12, 77);
  Indexed indexed(TinyModel(), asked.text);
  const auto session = indexed.Open();
  const Document& document = session->indexed();
  asked.focus = *FocusTokens(document, asked.question);
  EXPECT_TRUE(std::ranges::find(asked.focus, true) != asked.focus.end());
  std::fill_n(asked.focus.begin(), kSinkTokens, true);
  std::fill_n(asked.focus.rbegin(), kWindowTokens, true);
  session->probe().on_first_logits = [&](std::span<const float> first) {
    asked.logits.assign(first.begin(), first.end());
  };
  asked.read.resize(document.num_layers());
  session->probe().on_layer = [&](const LayerStep& step) {
    const auto heads = *document.Heads(step.layer);
    for (size_t h = 0; h < heads.size(); ++h) {
      const std::span<const uint32_t> positions = heads[h].positions();
      std::vector<bool>& tokens =
          asked.read[step.layer].emplace_back(asked.focus.size(), step.read.exact);
      if (step.read.exact) continue;
      const uint32_t num_ends = step.read.reads_ends ? heads[h].num_exact() : 0;
      for (uint32_t row = 0; row < num_ends; ++row) tokens[positions[row]] = true;
      for (const uint32_t row : step.read.heads[h].rows) tokens[positions[row]] = true;
    }
  };
  AskOptions options = Focused(1);
  options.focus = focus;
  auto answer = session->Ask(asked.question, options);
  EXPECT_TRUE(answer.ok()) << answer.status().message();
  if (answer.ok()) asked.answer = std::move(answer).value();
  return asked;
}

// The dense oracle attends to what the session said that it read, and to nothing else.
void CheckNothingElseCounts(const Asked& asked) {
  const auto model = *Model::Load(Env::Default(), TinyModel());
  DenseOracle oracle(TinyModel(), "f16");
  oracle.Append(model->EncodeDocument(asked.text)->ids);
  oracle.RestrictTo(asked.read);
  const std::vector<double> expected = oracle.Append(*model->EncodeQuestion(asked.question));
  ASSERT_EQ(expected.size(), asked.logits.size());
  double mean = 0, squares = 0;
  for (const double x : expected) mean += x / static_cast<double>(expected.size());
  for (const double x : expected) squares += (x - mean) * (x - mean);
  const double spread = std::sqrt(squares / static_cast<double>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(asked.logits[i], expected[i], 2e-3 * spread);
  }
}

// Some documents have clusters, and short ones do not.
TEST(FocusTest, NothingElseIsRead) {
  for (const size_t bytes : {7600, 2500}) {
    const Asked asked = AskWithFocus(bytes, "only");
    EXPECT_EQ(asked.answer.kv.rule, "words");
    EXPECT_LT(asked.answer.kv.read_fraction_prefill, 0.6);
    for (const auto& layer : asked.read) {
      for (const std::vector<bool>& tokens : layer) EXPECT_EQ(tokens, asked.focus);
    }
    CheckNothingElseCounts(asked);
  }
}

// Each head reads the focus, and within the budget what the lookup adds.
TEST(FocusTest, WordsAreReadFirst) {
  const Asked asked = AskWithFocus(7600, "words");
  EXPECT_EQ(asked.answer.kv.rule, "words+lookup");
  EXPECT_LT(asked.answer.kv.read_fraction_prefill, 0.6);
  size_t num_added = 0;
  for (const auto& layer : asked.read) {
    for (const std::vector<bool>& tokens : layer) {
      for (size_t t = 0; t < tokens.size(); ++t) {
        EXPECT_TRUE(tokens[t] || !asked.focus[t]);
        num_added += tokens[t] && !asked.focus[t];
      }
    }
  }
  EXPECT_GT(num_added, 0u);
  CheckNothingElseCounts(asked);
  EXPECT_EQ(AskWithFocus(2500, "words").answer.kv.rule, "exact");  // its budget is everything
}

}  // namespace
}  // namespace lectern
