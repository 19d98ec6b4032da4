#include "index/window_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/index/random_keys.h"

namespace lectern {
namespace {

constexpr size_t kDim = 8, kGroup = 2, kTokens = 5, kKeys = 61;

// The definition, in double: softmax over the keys that a token sees, squares summed over tokens,
// pooled, summed over heads.
std::vector<double> Expected(const std::vector<float>& queries, const std::vector<float>& keys,
                             double scale) {
  std::vector<double> scores(kKeys, 0.0);
  for (size_t head = 0; head < kGroup; ++head) {
    std::vector<double> sums(kKeys, 0.0);
    for (size_t t = 0; t < kTokens; ++t) {
      const float* query = queries.data() + (t * kGroup + head) * kDim;
      std::vector<double> masses;
      double total = 0;
      for (size_t i = 0; i <= kKeys - kTokens + t; ++i) {
        double logit = 0;
        for (size_t c = 0; c < kDim; ++c) logit += double{query[c]} * keys[i * kDim + c];
        masses.push_back(std::exp(scale * logit));
        total += masses.back();
      }
      for (size_t i = 0; i < masses.size(); ++i) {
        sums[i] += masses[i] / total * (masses[i] / total);
      }
    }
    for (int i = 0; i < static_cast<int>(kKeys); ++i) {
      double largest = 0;
      for (int j = std::max(0, i - 3); j <= std::min(static_cast<int>(kKeys) - 1, i + 3); ++j) {
        largest = std::max(largest, sums[j]);
      }
      scores[i] += largest;
    }
  }
  return scores;
}

TEST(WindowAttentionTest, IsTheLogOfPooledSquares) {
  const std::vector<float> queries = testing::NormalRows(kTokens * kGroup, kDim, 1).data;
  const std::vector<float> keys = testing::NormalRows(kKeys, kDim, 2).data;
  const auto logs = SquaredWindowAttention(
      {.backend = *DefaultBackend(),
       .queries = {queries.data(), kTokens * kGroup, kDim},
       .group = kGroup,
       .keys = {reinterpret_cast<const std::byte*>(keys.data()), Dtype::kF32, kKeys, kDim},
       .scale = 0.7f});
  const std::vector<double> expected = Expected(queries, keys, 0.7);
  ASSERT_EQ(logs.size(), kKeys);
  for (size_t i = 0; i < kKeys; ++i) EXPECT_NEAR(logs[i], std::log(expected[i]), 1e-4) << i;
}

// Squares of probabilities far below the smallest number still order the rows.
TEST(WindowAttentionTest, FaintRowsAreStillOrdered) {
  std::vector<float> keys(kKeys * kDim, 0.0f);
  for (size_t i = 0; i < kKeys; ++i) keys[i * kDim] = static_cast<float>(5 * i);
  std::vector<float> queries(kDim, 0.0f);
  queries[0] = 1;
  const auto logs = SquaredWindowAttention(
      {.backend = *DefaultBackend(),
       .queries = {queries.data(), 1, kDim},
       .group = 1,
       .keys = {reinterpret_cast<const std::byte*>(keys.data()), Dtype::kF32, kKeys, kDim},
       .scale = 1});
  EXPECT_NEAR(logs[0], 2 * (15 - 300), 0.1);  // pooled: the key three places on
  for (size_t i = 1; i + 3 < kKeys; ++i) EXPECT_NEAR(logs[i] - logs[i - 1], 10, 0.1) << i;
}

}  // namespace
}  // namespace lectern
