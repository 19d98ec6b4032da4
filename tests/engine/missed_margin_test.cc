// What a step misses: the margin of its estimate, and reading on until little is missed.
#include "engine/missed_margin.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::Indexed;
using testing::ReaderModel;
using testing::ReadWholeFile;
using testing::SourcePath;

Missed WithScore(double score) { return {1 / (1 + std::exp(-score)), 0.5}; }

TEST(ConformalMarginTest, IsTheRankedScore) {
  std::vector<Missed> samples;
  for (int i = 0; i < 199; ++i) samples.push_back(WithScore((i * 37 % 199) * 0.01 - 1));
  // ceil(200 * 0.99) = 198: the second largest.
  EXPECT_NEAR(ConformalMargin(samples, 0.99), 0.97, 1e-9);
  EXPECT_NEAR(ConformalMargin(samples, 0.9), 0.79, 1e-9);  // 180th
  EXPECT_EQ(ConformalMargin(samples, 0.2), 0);             // never below the estimate
  samples.resize(20);                                      // too few for 99 %: the largest
  double largest = 0;
  for (const Missed& sample : samples) largest = std::max(largest, MissedScore(sample));
  EXPECT_EQ(ConformalMargin(samples, 0.99), largest);
}

TEST(ConformalMarginTest, MarginIsAddedToLogOdds) {
  EXPECT_NEAR(WithMargin(0.5, std::log(3.0)), 0.75, 1e-12);
  EXPECT_NEAR(WithMargin(0.1, 0), 0.1, 1e-12);
  EXPECT_EQ(WithMargin(0, 5), 0);
}

Indexed& Demo() {
  static Indexed document(ReaderModel(), ReadWholeFile(SourcePath("tools/demo/document.txt")));
  return document;
}
constexpr char kQuestion[] = "Where does the Douquouth committee rent a hall?";

AskOptions Options(float budget, std::optional<double> max_missed = {}) {
  AskOptions options;
  options.kv_budget = budget;
  options.max_tokens = 6;
  options.max_missed = max_missed;
  return options;
}

// Questions that the document was not measured with: the bound always holds, and the margin, for
// which 99 of 100 would do, for all but a few.
TEST(MissedMassTest, BoundAndMarginHold) {
  const auto session = Demo().Open();
  size_t samples = 0, covered = 0;
  session->on_layer = [&](const DocumentSession::LayerStep& step) {
    for (const double budget : {0.1, 0.2, 0.4}) {
      std::vector<float> output;
      const auto read =
          session->AttendAgain(step.layer, step.num_tokens, budget, true, output, Proof::kBound);
      ASSERT_TRUE(read.ok());
      const double truth = TrulyMissed(*read, step.lse, step.weights);
      ASSERT_TRUE(read->bounded);
      EXPECT_LE(truth, read->missed_bound + 1e-6);
      EXPECT_LE(read->missed_bound, 1);
      ++samples;
      covered += truth <= WithMargin(read->missed_mass, session->indexed().missed_margin()) + 1e-6;
    }
  };
  for (const char* question : {kQuestion, "What is the height of the tower?", "Who has the key?"}) {
    ASSERT_TRUE(session->Ask(question, Options(1)).ok());
    session->Forget();
  }
  EXPECT_GT(samples, 100u);
  EXPECT_GE(static_cast<double>(covered), 0.97 * static_cast<double>(samples));
}

TEST(MaxMissedTest, EveryStepReadsOn) {
  for (const double limit : {0.3, 0.05}) {
    const auto session = Demo().Open();
    size_t read_on = 0;
    bool by_bound = true;
    session->on_layer = [&](const DocumentSession::LayerStep& step) {
      const DocumentRead& read = step.read;
      read_on += read.attempts > 1;
      if (read.exact) return;
      ASSERT_TRUE(read.bounded);
      by_bound = by_bound && read.missed_bound <= limit;
      EXPECT_LE(std::min(read.missed_bound,
                         WithMargin(read.missed_mass, session->indexed().missed_margin())),
                limit);
    };
    const auto answer = session->Ask(kQuestion, Options(0.1f, limit));
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_GT(read_on, 0u);
    EXPECT_GT(answer->kv.read_fraction_prefill, 0.1);
    ASSERT_TRUE(answer->kv.missed_mass_bound.has_value());
    EXPECT_GE(*answer->kv.missed_mass_bound, 0);
    EXPECT_EQ(answer->kv.max_missed_by, by_bound ? "bound" : "estimate");
  }
}

// A limit that only reading everything keeps gives exact mode's numbers, bit for bit.
TEST(MaxMissedTest, TheSmallestLimitIsExact) {
  std::vector<float> logits[2];
  for (const bool exact : {false, true}) {
    const auto session = Demo().Open();
    session->on_first_logits = [&](std::span<const float> x) {
      logits[exact].assign(x.begin(), x.end());
    };
    ASSERT_TRUE(session->Ask(kQuestion, exact ? Options(1) : Options(0.1f, 1e-9)).ok());
  }
  EXPECT_EQ(logits[0], logits[1]);
}

TEST(MaxMissedTest, WithoutALimitNothingIsProved) {
  const auto answer = Demo().Open()->Ask(kQuestion, Options(0.1f));
  ASSERT_TRUE(answer.ok());
  EXPECT_FALSE(answer->kv.missed_mass_bound.has_value());
  EXPECT_EQ(answer->kv.max_missed_by, "");
}

TEST(MaxMissedTest, WrongLimitsAreNamed) {
  for (const double limit : {0.0, 1.0, -0.5, 2.0, std::nan("")}) {
    const auto answer = Demo().Open()->Ask(kQuestion, Options(0.1f, limit));
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(answer.status().param(), "max_missed");
  }
}

}  // namespace
}  // namespace lectern
