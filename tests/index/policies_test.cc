// The arithmetic of each policy against what the papers work out.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "index/budget_plan.h"
#include "index/policies/kv_compress.h"

namespace lectern {
namespace {

PolicyInput OneHead(uint32_t num_layers, uint64_t rows, double kv_budget) {
  PolicyInput input;
  input.num_layers = num_layers;
  input.num_kv_heads = 1;
  input.rows.assign(num_layers, rows);
  input.kv_budget = kv_budget;
  return input;
}

// Rows of each layer, in a plan without floors.
std::vector<long> LayerRows(const std::string& policy, const PolicyInput& input) {
  const std::vector<double> floors(input.num_layers, 0.0);
  const auto plan = MakePlan({policy, "global"}, input, floors);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  std::vector<long> rows;
  for (size_t i = 0; i < input.num_layers; ++i) {
    const double exact = plan->layers[i] * static_cast<double>(input.rows[i]);
    rows.push_back(std::lround(exact));
    EXPECT_NEAR(exact, static_cast<double>(rows.back()), 1e-6) << "a share of whole rows";
  }
  return rows;
}

long Sum(const std::vector<long>& rows) { return std::accumulate(rows.begin(), rows.end(), 0L); }

// --- SqueezeAttention ---

// 32 layers of 1,000 tokens each in the mean, 14 of them unimportant.
PolicyInput AppendixA2() {
  PolicyInput input = OneHead(32, 4000, 0.25);
  for (int layer = 0; layer < 32; ++layer) {
    const bool special = layer < 2 || layer == 31;
    const bool unimportant = layer >= 17 && layer < 31;
    input.cosine.push_back((special ? 0.5 : unimportant ? 0.95 : 0.8) + 1e-4 * layer);
  }
  return input;
}

// With the paper's p of 0.3: 300 and (1000 * 18 + 1000 * 0.7 * 14) / 18 = 1544, and 8 of the 18 get
// one row more, because 8 rows remain.
TEST(SqueezeTest, ThirtyTwoLayersOfThePaper) {
  const std::vector<double> shares = SqueezeShares(AppendixA2(), 0.3);
  std::vector<PlanPart> parts;
  for (const double share : shares) parts.push_back({share * 4000, 0, 4000});
  const std::vector<uint64_t> rows = FillRows(parts, 32000);
  EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), uint64_t{0}), 32000u);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), 300), 14);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), 1545), 8);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), 1544), 10);
}

// With ours of 0.4: (32,000 - 14 * 400) / 18 = 1,466.67, so that 12 of the 18 get 1,467.
TEST(SqueezeTest, ThirtyTwoLayersWithOurShare) {
  const PolicyInput input = AppendixA2();
  const std::vector<long> rows = LayerRows("squeeze", input);
  EXPECT_EQ(Sum(rows), 32000);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), 400), 14);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), 1467), 12);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), 1466), 6);
  for (int layer = 17; layer < 31; ++layer) EXPECT_EQ(rows[layer], 400);
}

// Three groups of least squares, where cutting at the widest gaps or at quantiles would be wrong.
TEST(SqueezeTest, GroupsAreOfLeastSquares) {
  PolicyInput input = OneHead(7, 1000, 0.2);
  input.cosine = {0.0, 0.30, 0.31, 0.32, 0.33, 0.60, 0.85};
  // {0}, {.30 … .33}, {.60, .85}: 0.0313. {0}, {.30 … .60}, {.85}: 0.0633. {0 … .33}, {.6}, {.85}:
  // 0.080.
  const std::vector<long> rows = LayerRows("squeeze", input);
  EXPECT_EQ(rows[5], 80);
  EXPECT_EQ(rows[6], 80);
  EXPECT_EQ(std::vector<long>(rows.begin(), rows.begin() + 5), std::vector<long>(5, 248));
}

TEST(SqueezeTest, TheOrderOfLayersDoesNotMatter) {
  PolicyInput input = OneHead(5, 1000, 0.1);
  input.cosine = {0.9, 0.1, 0.5, 0.89, 0.52};
  EXPECT_EQ(LayerRows("squeeze", input), (std::vector<long>{40, 140, 140, 40, 140}));
}

TEST(SqueezeTest, FewerThanThreeDifferentLayersAreEqual) {
  PolicyInput input = OneHead(4, 1000, 0.1);
  input.cosine = {0.5, 0.9, 0.9, 0.5};
  EXPECT_EQ(LayerRows("squeeze", input), std::vector<long>(4, 100));
}

// --- PyramidKV ---

// beta = 20, window 8, 32 layers: B / beta in the last layer, 2 B - B / beta in the first, and the
// whole is kept to the row, where the published code comes to 4016 + 256.
TEST(PyramidTest, ArithmeticSequence) {
  PolicyInput input = OneHead(32, 12800, 0.01);  // C = 128, B = 120
  input.num_protected = 8;
  const std::vector<long> rows = LayerRows("pyramid", input);
  EXPECT_EQ(Sum(rows), 32 * 128);
  EXPECT_EQ(rows.front(), 234 + 8);
  EXPECT_EQ(rows.back(), 6 + 8);
  for (int layer = 0; layer < 32; ++layer) {
    const double exact = 8 + 234 - layer * 228 / 31.0;
    EXPECT_LE(std::abs(static_cast<double>(rows[layer]) - exact), 1) << layer;
  }
}

// C = 512, 2048 (B = 504, 2040): the ends of algorithm and code agree but for its rounding.
TEST(PyramidTest, EndsOfLongerSequences) {
  PolicyInput input = OneHead(32, 51200, 0.01);
  input.num_protected = 8;
  std::vector<long> rows = LayerRows("pyramid", input);
  EXPECT_EQ(Sum(rows), 32 * 512);
  EXPECT_NEAR(static_cast<double>(rows.front()), 8 + 2 * 504 - 25.2, 1);
  EXPECT_NEAR(static_cast<double>(rows.back()), 8 + 25.2, 1);
  input.kv_budget = 0.04;
  rows = LayerRows("pyramid", input);
  EXPECT_EQ(Sum(rows), 32 * 2048);
  EXPECT_EQ(rows.front(), 8 + 3978);
  EXPECT_EQ(rows.back(), 8 + 102);
}

// Where twice the mean is more than there is, the first layer gets all.
TEST(PyramidTest, TheFirstLayerGetsNoMoreThanItHas) {
  PolicyInput input = OneHead(5, 1008, 708 / 1008.0);  // B = 700 of 1000
  input.num_protected = 8;
  EXPECT_EQ(LayerRows("pyramid", input), (std::vector<long>{1008, 858, 708, 558, 408}));
}

// --- dense first layers ---

// Two layers whole, the rest alike; with a budget for one, one; with none for it, all alike.
TEST(DenseFirstTest, AsManyAsTheBudgetPays) {
  EXPECT_EQ(LayerRows("dense-first", OneHead(5, 1000, 0.52)),
            (std::vector<long>{1000, 1000, 200, 200, 200}));
  EXPECT_EQ(LayerRows("dense-first", OneHead(5, 1000, 0.28)),
            (std::vector<long>{1000, 100, 100, 100, 100}));
  EXPECT_EQ(LayerRows("dense-first", OneHead(5, 1000, 0.18)), std::vector<long>(5, 180));
  EXPECT_EQ(LayerRows("dense-first", OneHead(1, 1000, 0.3)), std::vector<long>{300});
}

// A second dense layer would leave the others less than their floors.
TEST(DenseFirstTest, FloorsComeBeforeDenseLayers) {
  const PolicyInput input = OneHead(5, 1000, 0.46);
  const auto rows_with = [&](double floor) {
    const auto plan = MakePlan({"dense-first", "global"}, input, std::vector<double>(5, floor));
    EXPECT_TRUE(plan.ok());
    return plan->layers;
  };
  EXPECT_EQ(rows_with(0.1), (std::vector<double>{1, 1, 0.1, 0.1, 0.1}));
  EXPECT_EQ(rows_with(0.101), (std::vector<double>{1, 0.325, 0.325, 0.325, 0.325}));
  EXPECT_EQ(rows_with(0.4), std::vector<double>(5, 0.46));
}

// The last layer's floor is above its part of what is left: the dense ones stay dense.
TEST(DenseFirstTest, AHighFloorIsPaidByTheOthers) {
  const std::vector<double> floors = {0.1, 0.1, 0.1, 0.1, 0.3};
  const auto plan = MakePlan({"dense-first", "global"}, OneHead(5, 1000, 0.54), floors);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->layers, (std::vector<double>{1, 1, 0.2, 0.2, 0.3}));
}

// --- KV-Compress ---

// Figure 5: one layer of two heads, five and two rows, blocks of two. The last block of the first
// head is half empty, so its first block to go is one row. Two blocks go, both from the first head;
// a third would be the lone block of the second.
TEST(KvCompressTest, WalkThroughOfFigure5) {
  const std::vector<float> first = BlockScores({0.5f, 0.1f, 0.9f, 0.2f, 0.7f}, 2);
  const std::vector<float> second = BlockScores({0.6f, 0.3f}, 2);
  EXPECT_EQ(first, (std::vector<float>{0.1f, 0.5f, 0.9f}));
  EXPECT_EQ(second, (std::vector<float>{0.6f}));
  const std::span<const float> heads[] = {first, second};
  EXPECT_EQ(EvictBlocks(heads, 1), (std::vector<uint64_t>{1, 0}));
  EXPECT_EQ(EvictBlocks(heads, 2), (std::vector<uint64_t>{2, 0}));
  EXPECT_EQ(EvictBlocks(heads, 3), (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ(RowsOfBlocks(5, 2, 2), 3u);
  EXPECT_EQ(RowsOfBlocks(2, 1, 2), 2u);
}

TEST(KvCompressTest, ProtectedRowsStay) {
  std::vector<float> scores(20, -3.0f);
  scores[0] = scores[19] = INFINITY;
  const std::vector<float> head = BlockScores(scores);  // 4 rows, then 16 of which 2 are protected
  EXPECT_EQ(head, (std::vector<float>{-3.0f, INFINITY}));
  const std::span<const float> heads[] = {head};
  EXPECT_EQ(EvictBlocks(heads, 2), std::vector<uint64_t>{1});
}

TEST(KvCompressTest, EqualBlocksGoFromAllHeadsInTurn) {
  const std::vector<float> flat(10, -1.0f);
  const std::span<const float> heads[] = {flat, flat, flat};
  EXPECT_EQ(EvictBlocks(heads, 4), (std::vector<uint64_t>{2, 1, 1}));
}

// 2 layers of 2 heads of 8 blocks; 8 of 32 blocks stay: those of the largest scores, wherever.
TEST(KvCompressTest, LayersAndHeadsCompete) {
  PolicyInput input;
  input.num_layers = input.num_kv_heads = 2;
  input.rows.assign(4, 128);
  input.kv_budget = 0.25;
  std::vector<std::vector<float>> blocks(4, std::vector<float>(8));
  for (int head = 0; head < 4; ++head) {
    for (int i = 0; i < 8; ++i)
      blocks[head][i] = static_cast<float>(i) + 3.5f * static_cast<float>(head == 2);
  }
  for (const auto& head : blocks) input.block_scores.emplace_back(head);
  // The third head holds 10.5, 9.5, 8.5, 7.5, 6.5 and 5.5, the others 7 each: 7 of 8 are theirs.
  EXPECT_EQ(KvCompressShares(input), (std::vector<double>{0.125, 0.125, 0.625, 0.125}));
  const auto plan = MakePlan({"kv-compress", "kv-compress"}, input, std::vector<double>(4, 0.0));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->heads, (std::vector<double>{0.125, 0.125, 0.625, 0.125}));
  EXPECT_EQ(plan->layers, (std::vector<double>{0.125, 0.375}));
  // By other statistics another one: of plain attention, of all tokens.
  EXPECT_EQ(
      MakePlan({"kv-compress-plain", "global"}, input, std::vector<double>(2, 0.0)).status().code(),
      Code::kInvalidArgument);
  input.plain_block_scores = input.full_block_scores = input.block_scores;
  std::swap(input.plain_block_scores[0], input.plain_block_scores[2]);
  std::swap(input.full_block_scores[1], input.full_block_scores[2]);
  EXPECT_EQ(KvCompressPlainShares(input), (std::vector<double>{0.625, 0.125, 0.125, 0.125}));
  EXPECT_EQ(KvCompressFullShares(input), (std::vector<double>{0.125, 0.625, 0.125, 0.125}));
  // Within equal layers the second is shared as the competition would, 5 to 1.
  const auto heads = MakePlan({"uniform", "kv-compress"}, input, std::vector<double>(4, 0.0));
  ASSERT_TRUE(heads.ok());
  EXPECT_EQ(heads->layers, (std::vector<double>{0.25, 0.25}));
  EXPECT_EQ(heads->heads, (std::vector<double>{0.25, 0.25, 53 / 128.0, 11 / 128.0}));
}

}  // namespace
}  // namespace lectern
