// Tests which rows retention methods keep, and KVCrush by hand.
#include "index/retention/retention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace lectern {
namespace {

// Eight rows, four heads: one bit for each head of whose attention the row is in the better half.
//
//   row   head 0  1  2  3   signature   distance to 0000   to 0101
//    0         9  1  1  1     1000              1              3
//    1         8  2  2  9     1001              2              2
//    2         7  8  3  8     1101              3              1
//    3         6  7  9  2     1110              3              3
//    4         1  9  8  3     0110              2              2
//    5         2  3  7  7     0011              2              2
//    6         3  6  6  4     0110              2              2
//    7         4  4  4  6     0001              1              1
const std::vector<std::vector<double>> kAttention = {{9, 8, 7, 6, 1, 2, 3, 4},
                                                     {1, 2, 8, 7, 9, 3, 6, 4},
                                                     {1, 2, 3, 9, 8, 7, 6, 4},
                                                     {1, 9, 8, 2, 3, 7, 4, 6}};

Signatures SignaturesOf(const std::vector<std::vector<double>>& attention, double keep) {
  Signatures signatures;
  signatures.num_heads = attention.size();
  for (size_t head = 0; head < attention.size(); ++head) {
    signatures.SetHead(head, attention[head], keep);
  }
  return signatures;
}

TEST(KvCrushTest, OneBitPerHeadForTheBetterHalf) {
  const Signatures signatures = SignaturesOf(kAttention, 0.5);
  EXPECT_EQ(signatures.num_rows(), 8u);
  EXPECT_EQ(signatures.bits,
            (std::vector<uint8_t>{1, 0, 0, 0, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 0,
                                  0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 1}));
}

// The mean anchor is 0000: each head's bit is set in four rows of eight, which is no majority.
TEST(KvCrushTest, BucketsAreOfRowsAtLikeDistanceFromTheAnchor) {
  const Signatures signatures = SignaturesOf(kAttention, 0.5);
  const std::vector<uint32_t> rows = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(Representatives({.share = 1}, signatures, rows, 8, 1), rows);
  // About 0000: {0, 7}, {1, 4}, {5, 6}, {2, 3}. About 0101: {2, 7}, {1, 4}, {5, 6}, {0, 3}.
  const std::vector<std::vector<uint32_t>> about_mean = {{0, 7}, {1, 4}, {5, 6}, {2, 3}};
  const std::vector<std::vector<uint32_t>> alternating = {{2, 7}, {1, 4}, {5, 6}, {0, 3}};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const Anchor anchor : {Anchor::kMean, Anchor::kAlternating}) {
      const auto chosen =
          Representatives({.share = 1, .anchor = anchor}, signatures, rows, 4, seed);
      ASSERT_EQ(chosen.size(), 4u);
      for (const auto& bucket : anchor == Anchor::kMean ? about_mean : alternating) {
        EXPECT_EQ(std::count(chosen.begin(), chosen.end(), bucket[0]) +
                      std::count(chosen.begin(), chosen.end(), bucket[1]),
                  1);
      }
    }
  }
}

// A page's signature is its rows' one after the other: pages {0, 1} 10001001, {2, 3} 11011110,
// {4, 5} 01100011, {6, 7} 01100001. More than two of the four have the second bit, and the eighth:
// 01000001, at distances 3, 6, 2 and 1.
TEST(KvCrushTest, PagesHaveTheBitsOfTheirRows) {
  const Signatures signatures = SignaturesOf(kAttention, 0.5);
  const std::vector<uint32_t> pages = {0, 2, 4, 6};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto chosen = Representatives({.share = 1, .page = 2}, signatures, pages, 2, seed);
    ASSERT_EQ(chosen.size(), 2u);
    const auto near = [](uint32_t page) { return page >= 4; };
    EXPECT_EQ(std::count_if(chosen.begin(), chosen.end(), near), 1) << chosen[0] << chosen[1];
  }
}

TEST(KvCrushTest, SeedsDrawOthersAndTheSameAgain) {
  const Signatures signatures = SignaturesOf(kAttention, 0.5);
  const std::vector<uint32_t> rows = {0, 1, 2, 3, 4, 5, 6, 7};
  for (const Anchor anchor : {Anchor::kRandom, Anchor::kMean, Anchor::kAlternating}) {
    const KvCrush crush = {.share = 1, .anchor = anchor};
    const auto first = Representatives(crush, signatures, rows, 2, 1);
    EXPECT_EQ(Representatives(crush, signatures, rows, 2, 1), first);
    bool differs = false;
    for (uint64_t seed = 2; seed < 20; ++seed) {
      differs |= Representatives(crush, signatures, rows, 2, seed) != first;
    }
    EXPECT_TRUE(differs);
  }
}

// --- methods ---

constexpr RetentionShape kShape = {2, 3, 500, 4, 20};

std::vector<RowStatistics> RandomHeads(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  std::vector<RowStatistics> heads;
  for (size_t h = 0; h < 6; ++h) {
    RowStatistics rows;
    rows.attention.assign(2, {});
    for (uint32_t row = 0; row < kShape.num_rows; ++row) {
      for (auto& of_head : rows.attention) of_head.push_back(std::pow(uniform(random), 1.0 + h));
      rows.squared.push_back(static_cast<float>(std::log(uniform(random)) * (1.0 + h)));
    }
    rows.signatures = SignaturesOf(rows.attention, 0.25);
    heads.push_back(std::move(rows));
  }
  return heads;
}

class RetentionTest : public ::testing::TestWithParam<RetentionMethod> {
 protected:
  static std::vector<uint64_t> Allot(const std::vector<RowStatistics>& heads, uint64_t total) {
    std::vector<std::vector<float>> orders;
    for (const RowStatistics& rows : heads)
      orders.push_back(EvictionOrder(GetParam(), kShape, rows));
    return GetParam().allot(kShape, orders, total);
  }
};

TEST_P(RetentionTest, TotalsAreMetAndFloorsKept) {
  const auto heads = RandomHeads(1);
  const std::string name(GetParam().name);
  for (const double keep : {1.0, 0.7, 0.5, 0.25, 0.125, 0.08}) {
    const Retention retention = {keep, name};
    ASSERT_TRUE(CheckKeep(retention, kShape).ok()) << keep;
    const uint64_t total = RowsToKeep(retention, kShape);
    EXPECT_EQ(total, std::ceil(keep * 3000));
    const auto kept = Allot(heads, total);
    ASSERT_EQ(kept.size(), 6u);
    const uint64_t sum = std::accumulate(kept.begin(), kept.end(), uint64_t{0});
    if (name == "kv-compress") {  // whole blocks, of which each head's last may be short
      EXPECT_NEAR(static_cast<double>(sum), static_cast<double>(total), 16 * 6) << keep;
    } else {
      EXPECT_EQ(sum, total) << keep;
    }
    for (const uint64_t rows : kept) {
      EXPECT_GE(rows, kShape.least_kept());
      EXPECT_LE(rows, kShape.num_rows);
    }
  }
}

TEST_P(RetentionTest, KeepsSinksWindowAndAsManyAsItShould) {
  const auto heads = RandomHeads(2);
  for (const uint64_t count : {40, 41, 100, 333, 499, 500}) {
    const auto kept = ChooseRows(GetParam(), kShape, heads[1], count, 7);
    ASSERT_EQ(kept.size(), count);
    EXPECT_TRUE(std::adjacent_find(kept.begin(), kept.end(), std::greater_equal<>()) == kept.end());
    for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(kept[i], i);
    for (uint32_t i = 0; i < 20; ++i) EXPECT_EQ(kept[count - 20 + i], 480 + i);
    EXPECT_EQ(ChooseRows(GetParam(), kShape, heads[1], count, 7), kept);
  }
}

// Which head is which does not matter, within a layer.
TEST_P(RetentionTest, PermutedHeadsKeepTheirs) {
  const auto heads = RandomHeads(3);
  const std::vector<size_t> permuted = {2, 0, 1, 4, 5, 3};
  std::vector<RowStatistics> others;
  for (const size_t h : permuted) others.push_back(heads[h]);
  const auto kept = Allot(heads, 900), of_others = Allot(others, 900);
  for (size_t h = 0; h < 6; ++h) EXPECT_EQ(of_others[h], kept[permuted[h]]) << h;
}

TEST_P(RetentionTest, BestRowsStayButForTheShareOfRepresentatives) {
  const auto heads = RandomHeads(4);
  RetentionMethod method = GetParam();
  const auto scores = method.score(kShape, heads[0]);
  if (method.crush.page > 1) return;  // pages: below
  const auto kept = ChooseRows(method, kShape, heads[0], 224, 3);
  std::vector<uint32_t> best(476);
  std::iota(best.begin(), best.end(), 4u);
  std::sort(best.begin(), best.end(), [&](uint32_t a, uint32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  const size_t representatives = method.crush.share > 0 ? 56 : 0;  // a quarter of 224
  size_t others = 0;
  for (size_t i = 0; i < best.size(); ++i) {
    const bool stays = std::binary_search(kept.begin(), kept.end(), best[i]);
    if (i < 200 - representatives) {
      EXPECT_TRUE(stays) << i;
    } else {
      others += stays;
    }
  }
  EXPECT_EQ(others, representatives);
}

INSTANTIATE_TEST_SUITE_P(All, RetentionTest, ::testing::ValuesIn(RetentionMethods()),
                         [](const auto& param) {
                           std::string name(param.param.name);
                           std::erase(name, '-');
                           return name;
                         });

TEST(RetentionPagesTest, WholePagesStay) {
  const auto heads = RandomHeads(5);
  const RetentionMethod method = MethodOf({0.5, "kvcrush-pages"});
  const auto kept = ChooseRows(method, kShape, heads[0], 24 + 10 * 16, 1);
  for (uint32_t page = 4; page + 16 <= 480; page += 16) {
    const auto rows = std::count_if(kept.begin(), kept.end(),
                                    [&](uint32_t row) { return row >= page && row < page + 16; });
    EXPECT_TRUE(rows == 0 || rows == 16) << page;
  }
}

TEST(RetentionPyramidTest, LowLayersKeepMore) {
  const auto heads = RandomHeads(6);
  const std::vector<std::vector<float>> none(6);
  // 150 rows in the mean; 126 beside sinks and window, of which the last layer keeps 126 / 20 or,
  // here, the least, 16.
  const auto kept = MethodOf({0.3, "pyramid"}).allot(kShape, none, 900);
  EXPECT_EQ(kept, (std::vector<uint64_t>{260, 260, 260, 40, 40, 40}));
}

// Heads whose last tokens look nowhere in particular lose most; what each has left are its best.
TEST(RetentionKvCompressTest, HeadsCompete) {
  std::vector<RowStatistics> heads = RandomHeads(7);
  for (float& score : heads[0].squared) score += 100;
  std::vector<std::vector<float>> orders;
  const RetentionMethod method = MethodOf({0.3, "kv-compress"});
  for (const RowStatistics& rows : heads) orders.push_back(EvictionOrder(method, kShape, rows));
  const auto kept = method.allot(kShape, orders, 900);
  EXPECT_EQ(kept[0], 500u);
  EXPECT_LT(kept[5], kept[1]);
}

TEST(RetentionErrorsTest, WrongValuesAreNamed) {
  EXPECT_EQ(CheckRetention({1.5, "kvcrush"}).param(), "keep");
  EXPECT_EQ(CheckRetention({0, "kvcrush"}).param(), "keep");
  EXPECT_EQ(CheckRetention({0.5, "kvcrush", 1.5}).param(), "representatives");
  const Status unknown = CheckRetention({0.5, "crush"});
  EXPECT_EQ(unknown.param(), "retention");
  EXPECT_NE(unknown.message().find("kv-compress, pyramid"), std::string::npos);
  const Status little = CheckKeep({0.079, "kvcrush"}, kShape);
  EXPECT_EQ(little.code(), Code::kInvalidArgument);
  EXPECT_NE(little.message().find("0.0800"), std::string::npos) << little.message();
  EXPECT_EQ(MethodOf({0.5, "kv-compress", 0.5}).crush.share, 0.5);
  EXPECT_EQ(MethodOf({0.5, "kvcrush"}).crush.share, 0.25);
}

}  // namespace
}  // namespace lectern
