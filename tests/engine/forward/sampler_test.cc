#include "engine/forward/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace lectern {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int kSeed0[] = {153, 191, 26, 106, 187, 255, 108, 137};
constexpr int kSeedOther[] = {162, 5, 98, 27, 223, 57, 181, 128};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

int32_t Greedy(std::vector<float> logits) { return Sampler({}).Sample(logits); }

TEST(SamplerTest, GreedyTakesTheLowestIdOfTheLargest) {
  EXPECT_EQ(Greedy({1, 3, 2, 3}), 1);
  EXPECT_EQ(Greedy({-kInfinity, -5}), 1);
  EXPECT_EQ(Greedy({0, kInfinity}), 1);
  EXPECT_EQ(Greedy({-0.0f, 0.0f}), 0);
}

TEST(SamplerTest, NanIsNeverChosenAndAllNanGivesZero) {
  EXPECT_EQ(Greedy({kNan, -3, kNan}), 1);
  EXPECT_EQ(Greedy({kNan, kNan}), 0);
  Sampler sampler({.temperature = 1, .top_p = 0.9f, .seed = 1});
  const std::vector<float> one = {kNan, 0, kNan, 0}, none = {kNan, kNan};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(sampler.Sample(one) % 2, 1);
  EXPECT_EQ(sampler.Sample(none), 0);
}

TEST(SamplerTest, InfiniteLogitsFallBackToGreedy) {
  Sampler sampler({.temperature = 1, .top_p = 1, .seed = 1});
  EXPECT_EQ(sampler.Sample(std::vector<float>{1, kInfinity, 2}), 1);
  EXPECT_EQ(sampler.Sample(std::vector<float>{-kInfinity, -kInfinity}), 0);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(sampler.Sample(std::vector<float>{-kInfinity, 2, -kInfinity}), 1);
  }
}

// With 256 equal logits the token is the top byte of the generator. Expected values: computed with
// Python from the published reference code of splitmix64 and xoshiro256** (prng.di.unimi.it); the
// first word for seed 0 is 0x99EC5F36CB75F2B4, the same that rust's rand_xoshiro documents.
TEST(SamplerTest, GeneratorIsXoshiro256StarStarSeededBySplitMix64) {
  const std::vector<float> equal(256, 0.5f);
  Sampler zero({.temperature = 1, .top_p = 1, .seed = 0});
  for (const int expected : kSeed0) EXPECT_EQ(zero.Sample(equal), expected);
  Sampler other({.temperature = 1, .top_p = 1, .seed = 0x123456789ABCDEFu});
  for (const int expected : kSeedOther) EXPECT_EQ(other.Sample(equal), expected);
}

TEST(SamplerTest, SameSeedGivesSameTokensAndOtherSeedsDiffer) {
  std::vector<float> logits(50);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = std::sin(static_cast<float>(i));
  const auto draw = [&](uint64_t seed) {
    Sampler sampler({.temperature = 0.8f, .top_p = 0.95f, .seed = seed});
    std::vector<int32_t> ids;
    for (int i = 0; i < 64; ++i) ids.push_back(sampler.Sample(logits));
    return ids;
  };
  EXPECT_EQ(draw(5), draw(5));
  EXPECT_NE(draw(5), draw(6));
}

// Counts of 200,000 draws lie within 5 standard deviations of the softmax.
TEST(SamplerTest, FrequenciesFollowTheSoftmaxAtTheTemperature) {
  const std::vector<float> logits = {0.0f, 1.0f, 2.0f, -1.0f, 0.5f};
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    Sampler sampler({.temperature = temperature, .top_p = 1, .seed = 42});
    constexpr int kDraws = 200000;
    std::vector<double> counts(logits.size());
    for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(sampler.Sample(logits))];
    double total = 0;
    for (const float x : logits) total += std::exp(static_cast<double>(x / temperature));
    for (size_t i = 0; i < logits.size(); ++i) {
      const double p = std::exp(static_cast<double>(logits[i] / temperature)) / total;
      EXPECT_NEAR(counts[i] / kDraws, p, 5 * std::sqrt(p * (1 - p) / kDraws)) << i;
    }
  }
}

TEST(SamplerTest, TopPKeepsTheSmallestSetThatReachesIt) {
  // Probabilities 0.5, 0.25, 0.125, 0.125.
  const std::vector<float> logits = {std::log(0.125f), std::log(0.5f), std::log(0.25f),
                                     std::log(0.125f)};
  const auto seen = [&](float top_p) {
    Sampler sampler({.temperature = 1, .top_p = top_p, .seed = 9});
    std::set<int32_t> ids;
    for (int i = 0; i < 2000; ++i) ids.insert(sampler.Sample(logits));
    return ids;
  };
  EXPECT_EQ(seen(0.01f), (std::set<int32_t>{1}));
  EXPECT_EQ(seen(0.49f), (std::set<int32_t>{1}));
  EXPECT_EQ(seen(0.6f), (std::set<int32_t>{1, 2}));
  EXPECT_EQ(seen(0.8f), (std::set<int32_t>{0, 1, 2}));  // the lower id among equals
  EXPECT_EQ(seen(1.0f), (std::set<int32_t>{0, 1, 2, 3}));
}

// The probabilities of a next token after `said`, in double precision, by the definition of
// SamplingOptions.
std::vector<double> Defined(const std::vector<float>& logits, const std::vector<int32_t>& said,
                            const SamplingOptions& options) {
  std::vector<double> x(logits.begin(), logits.end());
  for (const auto& [id, bias] : options.logit_bias) x[static_cast<size_t>(id)] += double{bias};
  for (size_t i = 0; i < x.size(); ++i) {
    const auto times = std::count(said.begin(), said.end(), static_cast<int32_t>(i));
    x[i] -= double{options.frequency_penalty} * static_cast<double>(times);
    x[i] -= times > 0 ? double{options.presence_penalty} : 0;
  }
  for (double& logit : x) logit = std::exp(logit / double{options.temperature});
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] > x[b]; });
  const double largest = x[order[0]];
  size_t count = 0;
  while (count < x.size() && x[order[count]] >= double{options.min_p} * largest) ++count;
  if (options.top_k > 0) count = std::min<size_t>(count, options.top_k);
  double total = 0, kept = 0;
  for (size_t i = 0; i < count; ++i) total += x[order[i]];
  size_t nucleus = 0;
  while (nucleus < count && kept < double{options.top_p} * total) kept += x[order[nucleus++]];
  std::vector<double> probabilities(x.size());
  for (size_t i = 0; i < nucleus; ++i) probabilities[order[i]] = x[order[i]] / kept;
  return probabilities;
}

// A second token of many answers, the first of which is 2, twice, and 4: chi-square of 40,000
// draws.
TEST(SamplerTest, DrawsFromThePenalisedAndBiasedDistribution) {
  const std::vector<float> logits = {0.3f, 1.0f, 2.0f, -1.0f, 1.5f, 0.0f, 0.9f, -3.0f};
  const auto only = [](size_t id) {
    std::vector<float> one(8, -kInfinity);
    one[id] = 300;
    return one;
  };
  const std::vector<SamplingOptions> all = {
      {.temperature = 1, .frequency_penalty = 0.7f, .presence_penalty = 0.4f},
      {.temperature = 0.7f, .frequency_penalty = -0.5f, .presence_penalty = 1.5f},
      {.temperature = 1.3f, .logit_bias = {{7, 4.0f}, {2, -100.0f}}},
      {.temperature = 1, .top_k = 3},
      {.temperature = 1, .min_p = 0.3f},
      {.temperature = 1.5f,
       .top_p = 0.8f,
       .top_k = 5,
       .min_p = 0.1f,
       .frequency_penalty = 1,
       .presence_penalty = 0.2f,
       .logit_bias = {{3, 2.5f}}}};
  for (size_t c = 0; c < all.size(); ++c) {
    const std::vector<double> wanted = Defined(logits, {2, 2, 4}, all[c]);
    constexpr int kDraws = 40000;
    std::vector<double> counts(logits.size());
    for (int i = 0; i < kDraws; ++i) {
      SamplingOptions options = all[c];
      options.seed = static_cast<uint64_t>(i);
      Sampler sampler(options);
      for (const size_t id : {2, 2, 4}) ASSERT_EQ(sampler.Sample(only(id)), id);
      ++counts[static_cast<size_t>(sampler.Sample(logits))];
    }
    double chi_square = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double expected = wanted[i] * kDraws, error = counts[i] - expected;
      EXPECT_TRUE(expected > 0 || counts[i] == 0) << c;
      if (expected > 0) chi_square += error * error / expected;
    }
    EXPECT_LT(chi_square, 26.1) << c;  // of 7 degrees of freedom: 0.05 %
  }
}

TEST(SamplerTest, GreedyTakesPenaltiesAndBiasesToo) {
  Sampler penalised({.frequency_penalty = 1, .presence_penalty = 0.5f});
  const std::vector<float> logits = {0, 2, 1};
  EXPECT_EQ(penalised.Sample(logits), 1);
  EXPECT_EQ(penalised.Sample(logits), 2);  // 1 has 0.5 now
  EXPECT_EQ(penalised.Sample(logits), 1);
  EXPECT_EQ(Sampler({.logit_bias = {{0, 2.5f}}}).Sample(logits), 0);
}

TEST(SamplerTest, TinyTemperatureIsGreedy) {
  Sampler sampler({.temperature = 1e-30f, .top_p = 1, .seed = 3});
  for (int i = 0; i < 50; ++i) EXPECT_EQ(sampler.Sample(std::vector<float>{1, 1.0001f, 0}), 1);
}

}  // namespace
}  // namespace lectern
