// Plans: what holds of every policy, whatever it decides.
#include "index/budget_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "index/policies/kv_compress.h"

namespace lectern {
namespace {

// A document with statistics of every kind, all of them random.
struct RandomDocument {
  RandomDocument(uint32_t num_layers, uint32_t num_kv_heads, double kv_budget, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<float> uniform;
    input.num_layers = num_layers;
    input.num_kv_heads = num_kv_heads;
    input.num_protected = 104;
    input.kv_budget = kv_budget;
    for (uint32_t i = 0; i < num_layers * num_kv_heads; ++i) {
      input.rows.push_back(3000 + random() % 1000);
      std::vector<float> scores;
      const float level = 10 * uniform(random);
      for (uint64_t row = 0; row < input.rows.back(); ++row) {
        scores.push_back(row < 104 ? INFINITY : level - 20 * uniform(random));
      }
      blocks.push_back(BlockScores(std::move(scores)));
      floors.push_back(0.03 + 0.01 * uniform(random));
    }
    for (uint32_t i = 0; i < num_layers; ++i) input.cosine.push_back(uniform(random));
    for (const auto& head : blocks) input.block_scores.emplace_back(head);
    input.plain_block_scores = input.full_block_scores = input.block_scores;
  }
  PolicyInput input;
  std::vector<std::vector<float>> blocks;
  std::vector<double> floors;
};

std::vector<PlanPolicies> AllPairs() {
  std::vector<PlanPolicies> pairs;
  for (const Policy& layers : Policies()) {
    for (const Policy& heads : Policies()) {
      if (!layers.for_layers || !heads.for_heads) continue;
      pairs.push_back({std::string(layers.name), std::string(heads.name)});
    }
  }
  return pairs;
}

double RowsOf(const PolicyInput& input, uint32_t layer) {
  double rows = 0;
  for (uint32_t h = 0; h < input.num_kv_heads; ++h) {
    rows += static_cast<double>(input.rows[layer * input.num_kv_heads + h]);
  }
  return rows;
}

class BudgetPlanTest : public ::testing::TestWithParam<PlanPolicies> {};

TEST_P(BudgetPlanTest, TotalIsExactFloorsAreKeptAndNoShareIsAboveOne) {
  for (const double budget : {0.05, 0.1, 0.37, 0.8, 1.0}) {
    const RandomDocument document(7, 3, budget, 11);
    const PolicyInput& input = document.input;
    const bool compete = HeadsCompete(GetParam());
    const auto plan = MakePlan(GetParam(), input, document.floors);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    double total = 0, all = 0;
    for (uint32_t layer = 0; layer < 7; ++layer) {
      const double share = plan->layers[layer], rows = RowsOf(input, layer);
      EXPECT_LE(share, 1);
      if (compete) {
        EXPECT_GE(share, document.floors[layer]);
      }
      total += share * rows;
      all += rows;
      double of_heads = 0;
      for (uint32_t h = 0; !compete && h < 3; ++h) {
        const double head = plan->heads[layer * 3 + h];
        EXPECT_LE(head, 1);
        EXPECT_GE(head, document.floors[layer * 3 + h]);
        of_heads += head * static_cast<double>(input.rows[layer * 3 + h]);
      }
      if (!compete) {
        EXPECT_NEAR(of_heads, share * rows, 1e-6);
      }
    }
    EXPECT_EQ(plan->heads.size(), compete ? 0u : 21u);
    EXPECT_NEAR(total, std::floor(budget * all), 1e-6) << budget;
  }
}

// Statistics, rows and floors of heads change places: so do their shares.
TEST_P(BudgetPlanTest, PermutingHeadsPermutesThePlan) {
  const RandomDocument document(4, 3, 0.2, 5);
  PolicyInput permuted = document.input;
  std::vector<double> floors = document.floors;
  const uint32_t order[] = {2, 0, 1};
  for (uint32_t layer = 0; layer < 4; ++layer) {
    for (uint32_t h = 0; h < 3; ++h) {
      permuted.rows[layer * 3 + h] = document.input.rows[layer * 3 + order[h]];
      permuted.block_scores[layer * 3 + h] = document.input.block_scores[layer * 3 + order[h]];
      permuted.plain_block_scores[layer * 3 + h] = permuted.block_scores[layer * 3 + h];
      permuted.full_block_scores[layer * 3 + h] = permuted.block_scores[layer * 3 + h];
      floors[layer * 3 + h] = document.floors[layer * 3 + order[h]];
    }
  }
  const bool compete = HeadsCompete(GetParam());
  const auto plan = MakePlan(GetParam(), document.input, document.floors);
  const auto other = MakePlan(GetParam(), permuted, compete ? document.floors : floors);
  ASSERT_TRUE(plan.ok() && other.ok());
  for (size_t i = 0; i < plan->heads.size(); ++i) {
    const double rows = static_cast<double>(permuted.rows[i]);  // a remainder may go elsewhere
    EXPECT_NEAR(other->heads[i], plan->heads[i / 3 * 3 + order[i % 3]], 1.001 / rows) << i;
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(other->layers[i], plan->layers[i], 1e-3);
}

TEST_P(BudgetPlanTest, FloorsThatExceedTheBudgetAreRefusedWithTheSmallest) {
  const RandomDocument document(4, 2, 0.02, 3);
  const auto plan = MakePlan(GetParam(), document.input, document.floors);
  ASSERT_EQ(plan.status().code(), Code::kBudgetTooSmall);
  const std::string& message = plan.status().message();
  PolicyInput again = document.input;
  again.kv_budget = std::stod(message.substr(message.rfind(' ')));
  EXPECT_TRUE(MakePlan(GetParam(), again, document.floors).ok()) << message;
}

INSTANTIATE_TEST_SUITE_P(AllPairs, BudgetPlanTest, ::testing::ValuesIn(AllPairs()),
                         [](const auto& param) {
                           std::string name = param.param.layers + "_" + param.param.heads;
                           std::erase(name, '-');
                           return name;
                         });

TEST(BudgetPlanErrorsTest, UnknownNamesListTheKnownOnes) {
  const Status layers = CheckPolicies({"globe", "global"});
  EXPECT_EQ(layers.code(), Code::kInvalidArgument);
  EXPECT_EQ(layers.param(), "layer_budget");
  for (const char* name :
       {"uniform", "pyramid", "squeeze", "kv-compress", "dense-first", "globe"}) {
    EXPECT_NE(layers.message().find(name), std::string::npos) << layers.message();
  }
  const Status heads = CheckPolicies({"uniform", "pyramid"});
  EXPECT_EQ(heads.param(), "head_budget");
  EXPECT_NE(heads.message().find("uniform, kv-compress, kv-compress-plain"), std::string::npos);
  EXPECT_TRUE(CheckPolicies({}).ok());
}

TEST(BudgetPlanErrorsTest, APolicyWithoutItsStatisticsIsRefused) {
  RandomDocument document(4, 2, 0.2, 3);
  document.input.cosine.clear();
  document.input.block_scores.clear();
  document.input.plain_block_scores.clear();
  document.input.full_block_scores.clear();
  for (const PlanPolicies& policies :
       {PlanPolicies{"squeeze", "global"}, PlanPolicies{"uniform", "kv-compress"},
        PlanPolicies{"kv-compress-plain", "global"}, PlanPolicies{"uniform", "kv-compress-full"}}) {
    const auto plan = MakePlan(policies, document.input, document.floors);
    EXPECT_EQ(plan.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(plan.status().message().find("stats \"full\"") != std::string::npos,
              policies.heads == "kv-compress-full");
    EXPECT_NE(plan.status().message().find("without the statistics"), std::string::npos);
  }
  EXPECT_TRUE(MakePlan({"pyramid", "uniform"}, document.input, document.floors).ok());
}

// A full part leaves its rows to the others in proportion; a floor is taken from all of them.
TEST(FillRowsTest, WaterFills) {
  const PlanPart parts[] = {{100, 0, 50}, {20, 0, 1000}, {10, 0, 1000}, {0, 8, 1000}};
  EXPECT_EQ(FillRows(parts, 118), (std::vector<uint64_t>{50, 40, 20, 8}));
  EXPECT_EQ(FillRows(parts, 8), (std::vector<uint64_t>{0, 0, 0, 8}));
  EXPECT_EQ(FillRows(parts, 3050), (std::vector<uint64_t>{50, 1000, 1000, 1000}));
}

TEST(FillRowsTest, RemaindersGoToTheLargest) {
  const PlanPart parts[] = {{1.2, 0, 9}, {1.7, 0, 9}, {1.6, 0, 9}, {1.5, 0, 9}};
  EXPECT_EQ(FillRows(parts, 6), (std::vector<uint64_t>{1, 2, 2, 1}));
}

}  // namespace
}  // namespace lectern
