// Tests estimates of missed attention: their margin, and reading on until little is missed.
#include "engine/indexing/measure_missed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::Indexed;
using testing::ReaderModel;
using testing::ReadWholeFile;
using testing::SourcePath;

TEST(ConformalMarginTest, IsTheRankedScore) {
  std::vector<double> scores;
  for (int i = 0; i < 199; ++i) scores.push_back((i * 37 % 199) * 0.01 - 1);
  // ceil(200 * 0.99) = 198: the second largest.
  EXPECT_NEAR(ConformalMargin(scores, 0.99), 0.97, 1e-9);
  EXPECT_NEAR(ConformalMargin(scores, 0.9), 0.79, 1e-9);  // 180th
  EXPECT_EQ(ConformalMargin(scores, 0.2), 0);             // never below the estimate
  scores.resize(20);                                      // too few for 99 %: the largest
  EXPECT_EQ(ConformalMargin(scores, 0.99), *std::max_element(scores.begin(), scores.end()));
}

TEST(ConformalMarginTest, MarginIsAddedToLogOdds) {
  EXPECT_NEAR(WithMargin(0.5, std::log(3.0)), 0.75, 1e-12);
  EXPECT_NEAR(WithMargin(0.1, 0), 0.1, 1e-12);
  EXPECT_EQ(WithMargin(0, 5), 0);
}

// Two layers, two budgets, three questions; truths are the formula's, but for the third question.
std::vector<MissedSample> Samples(double factor_of_last) {
  std::vector<MissedSample> samples;
  for (size_t question = 0; question < 3; ++question) {
    for (const uint32_t layer : {0u, 1u}) {
      for (const double kv_budget : {0.1, 0.4}) {
        for (const double p : {0.001, 0.02, 0.3}) {
          double factor = layer == 0 ? 0.05 : kv_budget;
          if (question == 2) factor = factor_of_last;
          const double truth = p + factor * std::sqrt(p) * (1 - p);
          samples.push_back({truth, p, layer, kv_budget, question});
        }
      }
    }
  }
  return samples;
}

TEST(MissedCalibrationTest, FindsTheFactorsOfEachLayerAndBudget) {
  std::vector<MissedSample> samples = Samples(0);
  samples.resize(24);  // without the third question
  const MissedCalibration calibration = CalibrateMissed(samples, 2);
  EXPECT_EQ(calibration.budgets, (std::vector<double>{0.1, 0.4}));
  const std::vector<double> factors = {0.05, 0.05, 0.1, 0.4};
  ASSERT_EQ(calibration.factors.size(), factors.size());
  for (size_t i = 0; i < factors.size(); ++i) {
    EXPECT_NEAR(calibration.factors[i], factors[i], 1e-12);
  }
  for (const MissedSample& sample : samples) {
    const double estimate = calibration.Estimate(sample.layer, sample.kv_budget, sample.estimate);
    EXPECT_NEAR(estimate, sample.truth, 1e-12);
    EXPECT_NEAR(calibration.Limit(sample.kv_budget, estimate), sample.truth, 1e-9);
  }
}

TEST(MissedCalibrationTest, BetweenBudgetsIsLinearInTheirLogarithm) {
  const MissedCalibration calibration = {{0.1, 0.4}, {0.1, 0.3}, {1, 2}};
  const double p = 0.001, unit = 0.01 * (1 - p);
  EXPECT_NEAR(calibration.Estimate(0, 0.2, p), p + 0.2 * unit, 1e-12);
  EXPECT_NEAR(calibration.Estimate(0, 0.01, p), p + 0.1 * unit, 1e-12);
  EXPECT_NEAR(calibration.Estimate(0, 0.9, p), p + 0.3 * unit, 1e-12);
  EXPECT_NEAR(calibration.Limit(0.2, 0.5), WithMargin(0.5, 1.5), 1e-12);
  EXPECT_EQ(calibration.Estimate(0, 0.2, 0), 0);
  EXPECT_EQ(calibration.Estimate(0, 0.2, 1), 1);
}

// A question's scores come from factors that have not seen it: one that misses more than all others
// is covered by the margin, though the factors with it would explain a part of it.
TEST(MissedCalibrationTest, MarginsAreOfQuestionsLeftOut) {
  const std::vector<MissedSample> samples = Samples(2);
  const MissedCalibration all = CalibrateMissed(samples, 2);
  const MissedCalibration others = CalibrateMissed(std::span(samples).first(24), 2);
  double largest = 0;
  for (const MissedSample& sample : samples) {
    if (sample.question != 2 || sample.kv_budget != 0.1) continue;
    largest = std::max(
        largest, MissedScore(sample.truth, others.Estimate(sample.layer, 0.1, sample.estimate)));
  }
  EXPECT_NEAR(all.margins[0], largest, 1e-12);
  EXPECT_GT(largest, MissedScore(samples[24].truth, all.Estimate(0, 0.1, samples[24].estimate)));
}

TEST(MissedCalibrationTest, NothingMeasuredSaysNothing) {
  const MissedCalibration nothing = CalibrateMissed({}, 2);
  EXPECT_FALSE(nothing.is_measured());
  EXPECT_EQ(nothing.Estimate(1, 0.1, 0.25), 0.25);
  EXPECT_EQ(nothing.Limit(0.1, 0.25), 1);
}

TEST(MissedCalibrationTest, IsWrittenAndRead) {
  const MissedCalibration written = CalibrateMissed(Samples(2), 2);
  const Result<Json> json = ParseJson(MissedCalibrationJson(written, 2).Dump());
  ASSERT_TRUE(json.ok());
  const auto read = ParseMissedCalibration(*json, 2);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->budgets, written.budgets);
  EXPECT_EQ(read->factors, written.factors);
  EXPECT_EQ(read->margins, written.margins);
  EXPECT_EQ(read->exponent, written.exponent);
  const auto old = ParseMissedCalibration(
      *ParseJson(R"({"budgets":[0.1],"margins":[1],"factors":[[1],[1]]})"), 2);
  ASSERT_TRUE(old.has_value());
  EXPECT_NEAR(old->Estimate(0, 0.1, 0.001), 0.001 + 0.01 * 0.999, 1e-12);
  EXPECT_FALSE(ParseMissedCalibration(*json, 3).has_value());
  for (const char* damaged :
       {"{}", "[]", R"({"budgets":[],"margins":[],"factors":[[],[]]})",
        R"({"budgets":[0.1],"margins":[1],"factors":[[1]]})",
        R"({"budgets":[0.1],"margins":[-1],"factors":[[1],[1]]})",
        R"({"budgets":[0.1],"margins":[1],"factors":[[1],["1"]]})",
        R"({"budgets":[0.1],"margins":[1],"factors":[[1],[1,1]]})",
        R"({"budgets":[0],"margins":[1],"factors":[[1],[1]]})",
        R"({"budgets":[0.2,0.1],"margins":[1,1],"factors":[[1,1],[1,1]]})",
        R"({"budgets":[0.1,0.1],"margins":[1,1],"factors":[[1,1],[1,1]]})",
        R"({"budgets":[0.1],"margins":1,"factors":[[1],[1]]})",
        R"({"budgets":[0.1],"margins":[1],"factors":[[1],[1]],"exponent":0})",
        R"({"budgets":[0.1],"margins":[1],"factors":[[1],[1]],"exponent":[]})"}) {
    EXPECT_FALSE(ParseMissedCalibration(*ParseJson(damaged), 2).has_value()) << damaged;
  }
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
  session->probe().on_layer = [&](const LayerStep& step) {
    for (const double budget : {0.1, 0.2, 0.4}) {
      std::vector<float> output;
      const auto read =
          session->AttendAgain(budget, true, output, /*bound=*/true);
      ASSERT_TRUE(read.ok());
      const double truth = TrulyMissed(*read, step.lse, step.weights);
      ASSERT_TRUE(read->bounded);
      EXPECT_LE(truth, read->missed_bound + 1e-6);
      EXPECT_LE(read->missed_bound, 1);
      ++samples;
      const MissedCalibration& calibration = session->indexed().missed_calibration();
      covered += truth <= calibration.Limit(budget, read->missed_mass) + 1e-6;
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
    session->probe().on_layer = [&](const LayerStep& step) {
      const DocumentRead& read = step.read;
      read_on += read.attempts > 1;
      if (read.exact) return;
      ASSERT_TRUE(read.bounded);
      by_bound = by_bound && read.missed_bound <= limit;
      const double nominal = 0.1 * std::pow(2, read.attempts - 1);
      const MissedCalibration& calibration = session->indexed().missed_calibration();
      EXPECT_LE(std::min(read.missed_bound, calibration.Limit(nominal, read.missed_mass)), limit);
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
    session->probe().on_first_logits = [&](std::span<const float> x) {
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
