// Which experts tokens go to, in plain numbers.
#include "engine/forward/routing.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lectern {
namespace {

TEST(RoutingTest, TheBestOfEachTokenAreGrouped) {
  const std::vector<float> scores = {0,  3,  1, 2,    // 1 and 3
                                     5,  5,  5, 5,    // of equal ones the first: 0 and 1
                                     -1, -9, 4, -1};  // 2 and, of the equal ones, 0
  Routing routing;
  Route({scores.data(), 3, 4},
        {.count = 4, .used = 2, .width = 1, .normalised = true, .dense_layers = {}}, &routing);
  ASSERT_EQ(routing.groups.size(), 4u);
  const std::vector<std::pair<size_t, size_t>> wanted = {{0, 2}, {2, 4}, {4, 5}, {5, 6}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(routing.groups[i].expert, i);
    EXPECT_EQ(std::pair(routing.groups[i].begin, routing.groups[i].end), wanted[i]);
  }
  EXPECT_EQ(routing.tokens, (std::vector<uint32_t>{1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(routing.rows, (std::vector<uint32_t>{2, 5, 0, 3, 1, 4}));
  const float e = std::exp(1.0f);
  EXPECT_NEAR(routing.weights[2], e / (e + 1), 1e-6);  // scores 3 and 2
  EXPECT_NEAR(routing.weights[5], 1 / (e + 1), 1e-6);
  EXPECT_NEAR(routing.weights[0], 0.5, 1e-6);
}

TEST(RoutingTest, OtherwiseWeightsAreOfAllExperts) {
  const std::vector<float> scores = {0, 0, 0, 0};
  Routing routing;
  Route({scores.data(), 1, 4}, {.count = 4, .used = 2, .width = 1, .dense_layers = {}}, &routing);
  EXPECT_NEAR(routing.weights[0], 0.25, 1e-6);
  ASSERT_EQ(routing.groups.size(), 2u);
  EXPECT_EQ(routing.groups[1].expert, 1u);
}

// Nothing is read out of bounds for a token whose scores are no numbers.
TEST(RoutingTest, ScoresThatAreNoNumbers) {
  const std::vector<float> scores = {NAN, NAN, NAN, 1, NAN, INFINITY};
  Routing routing;
  Route({scores.data(), 2, 3}, {.count = 3, .used = 3, .width = 1, .dense_layers = {}}, &routing);
  EXPECT_EQ(routing.rows.size(), 6u);
  for (const uint32_t row : routing.rows) EXPECT_LT(row, 6u);
}

}  // namespace
}  // namespace lectern
