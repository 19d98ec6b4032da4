#include "index/window_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "index/full_attention.h"
#include "tests/index/random_keys.h"

namespace lectern {
namespace {

constexpr size_t kRowDim = 8, kGroup = 2, kTokens = 5, kWindowKeys = 61;

// The definition, in double: softmax over the keys that a token sees, powers summed over tokens,
// pooled, summed over heads.
std::vector<double> Expected(const std::vector<float>& queries, const std::vector<float>& keys,
                             double scale, double power) {
  std::vector<double> scores(kWindowKeys, 0.0);
  for (size_t head = 0; head < kGroup; ++head) {
    std::vector<double> sums(kWindowKeys, 0.0);
    for (size_t t = 0; t < kTokens; ++t) {
      const float* query = queries.data() + (t * kGroup + head) * kRowDim;
      std::vector<double> masses;
      double total = 0;
      for (size_t i = 0; i <= kWindowKeys - kTokens + t; ++i) {
        double logit = 0;
        for (size_t c = 0; c < kRowDim; ++c) logit += double{query[c]} * keys[i * kRowDim + c];
        masses.push_back(std::exp(scale * logit));
        total += masses.back();
      }
      for (size_t i = 0; i < masses.size(); ++i) {
        sums[i] += std::pow(masses[i] / total, power);
      }
    }
    for (int i = 0; i < static_cast<int>(kWindowKeys); ++i) {
      double largest = 0;
      for (int j = std::max(0, i - 3); j <= std::min(static_cast<int>(kWindowKeys) - 1, i + 3); ++j) {
        largest = std::max(largest, sums[j]);
      }
      scores[i] += largest;
    }
  }
  return scores;
}

TEST(WindowAttentionTest, IsTheLogOfPooledSquaresOrOfProbabilities) {
  const std::vector<float> queries = testing::NormalRows(kTokens * kGroup, kRowDim, 1).data;
  const std::vector<float> keys = testing::NormalRows(kWindowKeys, kRowDim, 2).data;
  const WindowAttentionArgs args = {
      .backend = *DefaultBackend(),
      .queries = {queries.data(), kTokens * kGroup, kRowDim},
      .group = kGroup,
      .keys = {reinterpret_cast<const std::byte*>(keys.data()), Dtype::kF32, kWindowKeys, kRowDim},
      .scale = 0.7f};
  const auto squared = SquaredWindowAttention(args), plain = PlainWindowAttention(args);
  const std::vector<double> squares = Expected(queries, keys, 0.7, 2);
  const std::vector<double> sums = Expected(queries, keys, 0.7, 1);
  ASSERT_EQ(squared.size(), kWindowKeys);
  ASSERT_EQ(plain.size(), kWindowKeys);
  for (size_t i = 0; i < kWindowKeys; ++i) {
    EXPECT_NEAR(squared[i], std::log(squares[i]), 1e-4) << i;
    EXPECT_NEAR(plain[i], std::log(sums[i]), 1e-4) << i;
  }
}

// Squares of probabilities far below the smallest number still order the rows.
TEST(WindowAttentionTest, FaintRowsAreStillOrdered) {
  std::vector<float> keys(kWindowKeys * kRowDim, 0.0f);
  for (size_t i = 0; i < kWindowKeys; ++i) keys[i * kRowDim] = static_cast<float>(5 * i);
  std::vector<float> queries(kRowDim, 0.0f);
  queries[0] = 1;
  const auto logs = SquaredWindowAttention(
      {.backend = *DefaultBackend(),
       .queries = {queries.data(), 1, kRowDim},
       .group = 1,
       .keys = {reinterpret_cast<const std::byte*>(keys.data()), Dtype::kF32, kWindowKeys, kRowDim},
       .scale = 1});
  EXPECT_NEAR(logs[0], 2 * (15 - 300), 0.1);  // pooled: the key three places on
  for (size_t i = 1; i + 3 < kWindowKeys; ++i) EXPECT_NEAR(logs[i] - logs[i - 1], 10, 0.1) << i;
}

// 37 tokens that see themselves and all before them, in two blocks of tokens and three of keys.
TEST(FullAttentionTest, SumsSquaresOfTokensTenAndMoreBehind) {
  constexpr size_t kLength = 37;
  const std::vector<float> queries = testing::NormalRows(kLength * kGroup, kRowDim, 3).data;
  const std::vector<float> keys = testing::NormalRows(kLength, kRowDim, 4).data;
  std::vector<float> lse;
  std::vector<double> expected(kLength, 0.0);
  for (size_t row = 0; row < kLength * kGroup; ++row) {
    const size_t token = row / kGroup;
    std::vector<double> masses;
    double total = 0;
    for (size_t j = 0; j <= token; ++j) {
      double logit = 0;
      for (size_t c = 0; c < kRowDim; ++c)
        logit += double{queries[row * kRowDim + c]} * keys[j * kRowDim + c];
      masses.push_back(std::exp(0.7 * logit));
      total += masses.back();
    }
    lse.push_back(static_cast<float>(std::log(total)));
    for (size_t j = 0; j + 10 <= token; ++j) expected[j] += std::pow(masses[j] / total, 2);
  }
  for (const Backend& backend : AvailableBackends()) {
    std::vector<float> sums(kLength, 0.0f);
    FullAttentionBuffers buffers;
    for (const auto& [first, last] : {std::pair<size_t, size_t>(0, 16), {16, kLength}}) {
      for (size_t key = 0; key < last; key += 15) {
        const size_t end = std::min(key + 15, last);
        const TypedRows all = {reinterpret_cast<const std::byte*>(keys.data()), Dtype::kF32,
                               kLength, kRowDim};
        const Rows<const float> rows(queries.data(), kLength * kGroup, kRowDim);
        AddSquaredAttention(
            {.backend = backend,
             .queries = rows.Slice(first * kGroup, last * kGroup),
             .lse = std::span<const float>(lse).subspan(first * kGroup, (last - first) * kGroup),
             .group = kGroup,
             .first_token = first,
             .keys = all.Slice(key, end),
             .first_key = key,
             .scale = 0.7f},
            buffers, std::span(sums).subspan(key, end - key));
      }
    }
    for (size_t j = 0; j < kLength; ++j) {
      EXPECT_NEAR(sums[j], expected[j], 1e-5 * expected[j] + 1e-9) << backend.name << " " << j;
    }
    EXPECT_GT(sums[0], 0);
    EXPECT_EQ(sums[kLength - 10], 0);  // none is ten behind it
  }
}

}  // namespace
}  // namespace lectern
