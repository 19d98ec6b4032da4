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
}

TEST(FocusTest, ExcludesALimitOfMissedAttention) {
  AskOptions options = Focused();
  options.max_missed = 0.1;
  const auto answer = DemoDocument().Open()->Ask(kFact, options);
  EXPECT_EQ(answer.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(answer.status().param(), "focus");
  options = {};
  options.focus = "words";
  EXPECT_EQ(DemoDocument().Open()->Ask(kFact, options).status().param(), "focus");
}

// The dense oracle attends to the tokens of the focus, the sinks and the window alone. Some
// documents have clusters, and short ones do not.
void CheckNothingElseCounts(size_t bytes, bool has_clusters) {
  const std::string text = InventedText(bytes, 31), question = InventedText(12, 77);
  Indexed indexed(TinyModel(), text);
  const auto session = indexed.Open();
  const Document& document = session->indexed();
  ASSERT_EQ(document.has_clusters(), has_clusters);
  const auto model = *Model::Load(Env::Default(), TinyModel());
  const auto tokens = model->EncodeDocument(text);
  DenseOracle oracle(TinyModel(), "f16");
  oracle.Append(tokens->ids);
  std::vector<bool> focus = *FocusTokens(document, question);
  ASSERT_TRUE(std::ranges::find(focus, true) != focus.end());
  ASSERT_GT(focus.size(), 2u * (kSinkTokens + kWindowTokens));
  std::fill_n(focus.begin(), kSinkTokens, true);
  std::fill_n(focus.rbegin(), kWindowTokens, true);
  DenseOracle::Kept kept(document.num_layers());
  for (uint32_t layer = 0; layer < document.num_layers(); ++layer) {
    kept[layer].assign(document.shape().num_kv_heads, focus);
  }
  oracle.RestrictTo(std::move(kept));
  std::vector<float> logits;
  session->probe().on_first_logits = [&](std::span<const float> first) {
    logits.assign(first.begin(), first.end());
  };
  uint64_t num_rows = 0;
  session->probe().on_layer = [&](const LayerStep& step) {
    for (const HeadSelection& selection : step.read.heads) num_rows += selection.rows.size();
  };
  const auto answer = session->Ask(question, Focused(1));
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->kv.rule, "words");
  EXPECT_GT(num_rows, 0u);
  const std::vector<double> expected = oracle.Append(*model->EncodeQuestion(question));
  ASSERT_EQ(expected.size(), logits.size());
  double mean = 0, squares = 0;
  for (const double x : expected) mean += x / static_cast<double>(expected.size());
  for (const double x : expected) squares += (x - mean) * (x - mean);
  const double spread = std::sqrt(squares / static_cast<double>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 2e-3 * spread);
  EXPECT_LT(answer->kv.read_fraction_prefill, 0.6);
}

TEST(FocusTest, NothingElseCounts) { CheckNothingElseCounts(7600, true); }

TEST(FocusTest, NothingElseCountsInAShortDocument) { CheckNothingElseCounts(2500, false); }

}  // namespace
}  // namespace lectern
