// Questions about the whole document: when the receipt warns, and what falling back costs and
// gives.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::Indexed;
using testing::InventedText;
using testing::ReaderModel;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TinyModel;

// The weights of the tiny model are random: its attention is flat whatever it is asked.
Indexed& FlatDocument() {
  static Indexed document(TinyModel(), InventedText(14000, 5));
  return document;
}
// The bundled reader on the demo's document.
Indexed& DemoDocument() {
  static Indexed document(ReaderModel(), ReadWholeFile(SourcePath("tools/demo/document.txt")));
  return document;
}
constexpr char kFact[] = "Where does the Douquouth committee rent a hall?";
constexpr char kWhole[] = "How many sentences does the document have?";

AskOptions Options(float budget, Fallback fallback, uint32_t max_tokens = 8) {
  AskOptions options;
  options.kv_budget = budget;
  options.fallback = fallback;
  options.max_tokens = max_tokens;
  return options;
}

// An answer, and the numbers that led to it: the first logits and every layer's attention output.
struct Traced {
  Answer answer;
  std::vector<float> numbers;  // those of the last prefill and what follows
};
Traced Trace(DocumentSession& session, const char* question, const AskOptions& options) {
  Traced traced;
  session.probe().on_first_logits = [&](std::span<const float> logits) {
    traced.numbers.insert(traced.numbers.end(), logits.begin(), logits.end());
  };
  session.probe().on_layer = [&](const LayerStep& step) {
    if (step.layer == 0 && step.num_tokens > 1) traced.numbers.clear();
    for (const Rows<float>& rows : step.attended) {
      for (size_t r = 0; r < rows.num_rows; ++r) {
        traced.numbers.insert(traced.numbers.end(), rows[r], rows[r] + rows.num_cols);
      }
    }
  };
  auto answer = session.Ask(question, options);
  EXPECT_TRUE(answer.ok()) << answer.status().message();
  traced.answer = std::move(answer).value();
  return traced;
}

void ExpectSame(const Traced& a, const Traced& b) {
  EXPECT_EQ(a.answer.text, b.answer.text);
  EXPECT_TRUE(a.numbers == b.numbers);
  ASSERT_EQ(a.answer.evidence.size(), b.answer.evidence.size());
  for (size_t i = 0; i < a.answer.evidence.size(); ++i) {
    EXPECT_EQ(a.answer.evidence[i].begin, b.answer.evidence[i].begin);
    EXPECT_EQ(a.answer.evidence[i].mass, b.answer.evidence[i].mass);
  }
}

bool Warns(const Answer& answer, const char* name) {
  return std::count(answer.warnings.begin(), answer.warnings.end(), name) == 1;
}

TEST(FallbackTest, FlatAttentionWarns) {
  const Answer answer = Trace(*FlatDocument().Open(), kFact, Options(0.1f, Fallback::kWarn)).answer;
  EXPECT_TRUE(Warns(answer, "whole_document"));
  EXPECT_NE(answer.note.text().find("draws on much of the text"), std::string::npos)
      << answer.note.text();
  EXPECT_FALSE(answer.kv.fallback);
  EXPECT_FLOAT_EQ(answer.kv.budget, 0.1f);
}

TEST(FallbackTest, AnAnswerWithoutAPassageSaysSo) {
  for (const float budget : {0.1f, 1.0f}) {
    const Answer answer = Trace(*DemoDocument().Open(), "Who wrote the Zimbel report?",
                                Options(budget, Fallback::kWarn))
                              .answer;
    EXPECT_EQ(answer.text, "The document does not say.");
    EXPECT_TRUE(answer.evidence.empty());
    EXPECT_EQ(answer.warnings, std::vector<std::string>{"no_evidence"});
    EXPECT_EQ(answer.note.text(),
              "no passage of the document has to do with this answer");
  }
}

TEST(FallbackTest, ExactModeDoesNotWarnOfWhatItReads) {
  const Answer answer = Trace(*FlatDocument().Open(), kFact, Options(1, Fallback::kExact)).answer;
  EXPECT_FALSE(Warns(answer, "whole_document"));
  EXPECT_FALSE(answer.kv.fallback);
}

// The decision does not hang on whether anybody wants passages.
TEST(FallbackTest, WarnsWithoutEvidence) {
  AskOptions options = Options(0.1f, Fallback::kWarn);
  options.max_evidence = 0;
  const Answer answer = Trace(*FlatDocument().Open(), kFact, options).answer;
  EXPECT_TRUE(Warns(answer, "whole_document"));
  EXPECT_FALSE(Warns(answer, "no_evidence"));
}

TEST(FallbackTest, WarnsWithoutTheTail) {
  AskOptions options = Options(0.1f, Fallback::kWarn);
  options.tail = false;
  EXPECT_TRUE(Warns(Trace(*FlatDocument().Open(), kFact, options).answer, "whole_document"));
}

TEST(FallbackTest, ExactEqualsExactModeBitForBit) {
  for (Indexed* document : {&FlatDocument(), &DemoDocument()}) {
    const auto fallen = document->Open(), exact = document->Open();
    // The follow-up goes on from there; the demo's reader takes it for a question about one fact.
    for (const char* question : {kWhole, "And how many?"}) {
      if (document == &DemoDocument() && question != kWhole) continue;
      const Traced a = Trace(*fallen, question, Options(0.1f, Fallback::kExact));
      const Traced b = Trace(*exact, question, Options(1, Fallback::kWarn));
      EXPECT_TRUE(a.answer.kv.fallback) << question;
      ExpectSame(a, b);
      EXPECT_EQ(a.answer.kv.rule, "exact");
      EXPECT_EQ(a.answer.kv.budget, 1);
      EXPECT_EQ(a.answer.kv.missed_mass_estimate, 0);
      EXPECT_EQ(a.answer.kv.read_fraction_decode, b.answer.kv.read_fraction_decode);
      EXPECT_FALSE(Warns(a.answer, "whole_document"));
      EXPECT_NE(a.answer.note.text().find("everything was read instead"), std::string::npos);
    }
  }
}

TEST(FallbackTest, TheReceiptCountsTheBytesOfBothPrefills) {
  const Answer fallen =
      Trace(*FlatDocument().Open(), kFact, Options(0.1f, Fallback::kExact)).answer;
  const Answer exact = Trace(*FlatDocument().Open(), kFact, Options(1, Fallback::kWarn)).answer;
  // One token: the prefill alone.
  const Answer given_up =
      Trace(*FlatDocument().Open(), kFact, Options(0.1f, Fallback::kWarn, 1)).answer;
  EXPECT_GT(given_up.kv.bytes_read, 0u);
  EXPECT_EQ(fallen.kv.bytes_read, exact.kv.bytes_read + given_up.kv.bytes_read);
  EXPECT_DOUBLE_EQ(fallen.kv.read_fraction_prefill, 1 + given_up.kv.read_fraction_prefill);
}

TEST(FallbackTest, NothingChangesWhereAPassageStandsOut) {
  const Traced warn = Trace(*DemoDocument().Open(), kFact, Options(0.1f, Fallback::kWarn));
  const Traced exact = Trace(*DemoDocument().Open(), kFact, Options(0.1f, Fallback::kExact));
  ExpectSame(warn, exact);
  EXPECT_EQ(warn.answer.kv.bytes_read, exact.answer.kv.bytes_read);
  EXPECT_EQ(warn.answer.kv.missed_mass_estimate, exact.answer.kv.missed_mass_estimate);
  for (const Answer* answer : {&warn.answer, &exact.answer}) {
    EXPECT_FALSE(answer->kv.fallback);
    EXPECT_TRUE(answer->warnings.empty());
    EXPECT_EQ(answer->note.text(), "");
    EXPECT_FALSE(answer->evidence.empty());
  }
}

TEST(FallbackTest, CancelledInTheSecondPrefillTheSessionStandsWhereItStood) {
  const auto session = FlatDocument().Open();
  CancelFlag cancel = false;
  int prefills = 0;
  session->probe().on_layer = [&](const LayerStep& step) {
    if (step.layer == 0 && ++prefills == 2) cancel = true;
  };
  AskOptions options = Options(0.1f, Fallback::kExact);
  options.cancel = &cancel;
  EXPECT_EQ(session->Ask(kFact, options).status().code(), Code::kCancelled);
  EXPECT_EQ(prefills, 2);
  EXPECT_EQ(session->num_past(), 0u);
  ExpectSame(Trace(*session, kFact, Options(0.1f, Fallback::kExact)),
             Trace(*FlatDocument().Open(), kFact, Options(1, Fallback::kWarn)));
}

}  // namespace
}  // namespace lectern
