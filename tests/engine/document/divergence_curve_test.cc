// Predictions of divergence between measured budgets, and the budget that keeps a limit.
#include "engine/document/divergence_curve.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lectern {
namespace {

TEST(DivergenceCurveTest, IsLinearInLogBudgetAndInBothLogarithmsBeyond) {
  const DivergenceCurve curve = {{0.05, 0.2}, {0.04, 0.01}};
  EXPECT_NEAR(curve.At(0.05), 0.04, 1e-12);
  EXPECT_NEAR(curve.At(0.1), 0.025, 1e-12);
  EXPECT_NEAR(curve.At(0.2), 0.01, 1e-12);
  EXPECT_NEAR(curve.At(0.4), 0.005, 1e-12);
  EXPECT_NEAR(curve.At(0.025), 0.08, 1e-12);
  EXPECT_EQ(curve.At(1), 0);
}

TEST(DivergenceCurveTest, OneMeasurementFallsByTheSquareRoot) {
  const DivergenceCurve curve = {{0.1}, {0.02}};
  EXPECT_NEAR(curve.At(0.4), 0.01, 1e-12);
  EXPECT_NEAR(curve.At(0.025), 0.04, 1e-12);
}

TEST(DivergenceCurveTest, SmallestBudgetKeepsTheLimitAndHardlyMore) {
  const DivergenceCurve curve = {{0.05, 0.2}, {0.04, 0.01}};
  for (const double most : {0.035, 0.02, 0.011, 0.006}) {
    const double budget = curve.SmallestBudget(most);
    EXPECT_LE(curve.At(budget), most);
    EXPECT_GT(curve.At(budget * 0.999), most);
  }
  EXPECT_EQ(curve.SmallestBudget(0.04), 0.05);
  EXPECT_EQ(curve.SmallestBudget(1), 0.05);   // never below what was measured
  EXPECT_EQ(curve.SmallestBudget(0.003), 1);  // half of the document has 0.004
  EXPECT_LE(curve.SmallestBudget(0.0041), 0.5);
}

TEST(DivergenceCurveTest, NothingDivergesAnywhere) {
  const DivergenceCurve curve = FitDivergenceCurve({{0.1, 0}, {0.05, 0}});
  EXPECT_EQ(curve.SmallestBudget(0.01), 0.05);
  EXPECT_LE(curve.At(0.07), 2e-9);
}

// One of a few tokens is another one at 0.05 and not at 0.1: the budget between that keeps the
// limit is one at which it may still be the other with little probability.
TEST(DivergenceCurveTest, ASteepFallIsNotTrustedBetweenMeasurements) {
  const DivergenceCurve curve = FitDivergenceCurve({{0.1, 1e-4}, {0.05, 0.0241}});
  EXPECT_GT(curve.SmallestBudget(0.01), 0.07);
  EXPECT_EQ(FitDivergenceCurve({{0.1, 0}, {0.05, 0.02}}).At(0.2), 0);
}

// A larger budget that diverges more than a smaller one is noise: both get the mean.
TEST(DivergenceCurveTest, NeverAscends) {
  const DivergenceCurve curve =
      FitDivergenceCurve({{0.2, 0.03}, {0.05, 0.05}, {0.1, 0.01}, {0.4, 0.005}});
  EXPECT_EQ(curve.budgets, (std::vector<double>{0.05, 0.1, 0.2, 0.4}));
  EXPECT_EQ(curve.divergences, (std::vector<double>{0.05, 0.02, 0.02, 0.005}));
  const DivergenceCurve up = FitDivergenceCurve({{0.1, 1}, {0.2, 2}, {0.4, 3}});
  EXPECT_EQ(up.divergences, (std::vector<double>{2, 2, 2}));
  EXPECT_EQ(up.SmallestBudget(1.9), 1);
}

// Else the curve would be between two points with nothing between them, and a document with it
// would count as damaged.
TEST(DivergenceCurveTest, MeasurementsOfOneBudgetCountAsTheirMean) {
  const DivergenceCurve curve =
      FitDivergenceCurve({{0.1, 0.03}, {0.2, 0.01}, {0.1, 0.05}, {0.2, 0.01}});
  EXPECT_EQ(curve.budgets, (std::vector<double>{0.1, 0.2}));
  EXPECT_EQ(curve.divergences, (std::vector<double>{0.04, 0.01}));
  EXPECT_TRUE(std::isfinite(curve.At(0.1)) && std::isfinite(curve.At(0.05)));
  EXPECT_TRUE(ParseDivergenceCurve(*ParseJson(DivergenceCurveJson(curve).Dump())).has_value());
  // Three measurements weigh more than one where both budgets get the mean.
  const DivergenceCurve pooled =
      FitDivergenceCurve({{0.1, 0.01}, {0.1, 0.01}, {0.1, 0.01}, {0.2, 0.05}});
  EXPECT_NEAR(pooled.divergences[0], 0.02, 1e-12);
  EXPECT_EQ(pooled.divergences[0], pooled.divergences[1]);
}

TEST(DivergenceCurveTest, IsWrittenAndRead) {
  const DivergenceCurve written = FitDivergenceCurve({{0.1, 0.01}, {0.05, 0.03}});
  const auto read = ParseDivergenceCurve(*ParseJson(DivergenceCurveJson(written).Dump()));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->budgets, written.budgets);
  EXPECT_EQ(read->divergences, written.divergences);
  for (const char* damaged :
       {"{}", "[]", "3", R"({"budgets":[],"divergences":[]})",
        R"({"budgets":[0.1],"divergences":[]})", R"({"budgets":[0.1],"divergences":[-1]})",
        R"({"budgets":[0.1],"divergences":["1"]})", R"({"budgets":[0],"divergences":[1]})",
        R"({"budgets":[1],"divergences":[1]})", R"({"budgets":[0.2,0.1],"divergences":[1,1]})",
        R"({"budgets":[0.1,0.1],"divergences":[1,1]})",
        R"({"budgets":[0.1,0.2],"divergences":[1,2]})", R"({"budgets":0.1,"divergences":[1]})"}) {
    EXPECT_FALSE(ParseDivergenceCurve(*ParseJson(damaged)).has_value()) << damaged;
  }
}

}  // namespace
}  // namespace lectern
