// Proposals of lookup decoding: the runs are those of a search through everything, and their number
// follows hits and costs.
#include "engine/asking/proposals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace lectern {
namespace {

// The definition: compares the latest tokens with every place.
TokenRuns::Run FindRun(const std::vector<int32_t>& ids) {
  TokenRuns::Run best;
  for (size_t next = 1; next < ids.size(); ++next) {
    size_t length = 0;
    while (length < next && length < TokenRuns::kLongestRun &&
           ids[next - 1 - length] == ids[ids.size() - 1 - length]) {
      ++length;
    }
    if (length >= TokenRuns::kShortestRun && length >= best.length) best = {length, next};
  }
  return best;
}

TEST(TokenRunsTest, AreThoseOfASearchThroughAllPlaces) {
  std::mt19937 random(1);
  size_t num_found = 0;
  for (const int32_t alphabet : {1, 2, 5, 60}) {
    TokenRuns runs;
    std::vector<int32_t> ids;
    for (int step = 0; step < 600; ++step) {
      if (step % 97 == 96) {  // a turn is given up
        const size_t kept = random() % ids.size();
        ids.resize(kept);
        runs.Truncate(kept);
      }
      std::vector<int32_t> more(step == 0 ? 300 : 1 + random() % 3);
      for (int32_t& id : more) id = static_cast<int32_t>(random()) % alphabet;
      if (ids.size() > 200 && random() % 4 == 0) {  // a quotation
        const size_t from = random() % (ids.size() - 100);
        more.assign(ids.begin() + static_cast<ptrdiff_t>(from),
                    ids.begin() + static_cast<ptrdiff_t>(from + 1 + random() % 90));
      }
      ids.insert(ids.end(), more.begin(), more.end());
      runs.Append(more);
      ASSERT_EQ(runs.size(), ids.size());
      const TokenRuns::Run expected = FindRun(ids), found = runs.Latest();
      ASSERT_EQ(found.length, expected.length) << alphabet << " " << step;
      if (expected.length == 0) continue;
      ++num_found;
      ASSERT_EQ(found.next, expected.next) << alphabet << " " << step;
      // The continuation that the tokens would have if they went on as before.
      std::vector<int32_t> longer = ids;
      for (size_t ahead = 0; ahead < 20; ++ahead) {
        ASSERT_EQ(runs.At(found, ahead), longer[found.next + ahead]);
        longer.push_back(longer[found.next + ahead]);
      }
    }
  }
  EXPECT_GT(num_found, 1000u);
}

// 0, 1, 2, …: every token is there once.
std::vector<int32_t> Counting(size_t size) {
  std::vector<int32_t> ids(size);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

const PassCosts kFree(0.0), kDear(1.0);

TEST(ProposalsTest, FollowTheDocument) {
  Proposals proposals;
  proposals.Begin(Counting(200), std::vector<int32_t>{500, 501}, std::vector<int32_t>{502}, 10);
  EXPECT_TRUE(proposals.Next(16, {kFree}).empty());
  EXPECT_FALSE(proposals.has_declined());
  proposals.Drew(50);
  EXPECT_TRUE(proposals.Next(16, {kFree}).empty());  // one token is no run
  proposals.Drew(51);
  struct Case {
    size_t most, proposed;  // with the token before them a power of two
  };
  for (const auto& [most, expected] : {Case{16, 15}, Case{5, 3}, Case{1, 1}, Case{0, 0}}) {
    const auto proposed = proposals.Next(most, {kFree});
    ASSERT_EQ(proposed.size(), expected);
    for (size_t i = 0; i < expected; ++i) EXPECT_EQ(proposed[i], 52 + static_cast<int32_t>(i));
  }
  proposals.Drew(52);
  EXPECT_EQ(proposals.Next(16, {kFree}).front(), 53);
  proposals.Drew(7);  // it leaves the document
  EXPECT_TRUE(proposals.Next(16, {kFree}).empty());
}

TEST(ProposalsTest, TheConversationCountsUntilItsTurnIsOver) {
  Proposals proposals;
  const std::vector<int32_t> said = {900, 901, 902, 903};
  proposals.Begin(Counting(20), said, {}, 10);
  proposals.Drew(900);
  proposals.Drew(901);
  EXPECT_EQ(proposals.Next(2, {kFree}).front(), 902);
  proposals.Begin(Counting(20), {}, {}, 10);
  proposals.Drew(900);
  proposals.Drew(901);
  EXPECT_TRUE(proposals.Next(2, {kFree}).empty());
}

TEST(ProposalsTest, StopWhereTheyMissAndBeginAgainWhereTheyWouldHit) {
  Proposals proposals;
  const PassCosts costs(0.2);
  proposals.Begin(Counting(4000), {}, {}, 4000);
  // Quotes two tokens, and goes on elsewhere.
  size_t last_proposed = 0;
  for (int32_t i = 1; i < 60; ++i) {
    proposals.Drew(10 * i);
    proposals.Drew(10 * i + 1);
    last_proposed = proposals.Next(16, {costs}).size();
    EXPECT_EQ(last_proposed == 0, proposals.has_declined());
  }
  EXPECT_EQ(last_proposed, 0u);
  // Quotes on and on.
  for (int32_t i = 2000; i < 2080; ++i) proposals.Drew(i);
  EXPECT_GE(proposals.Next(16, {costs}).size(), 7u);
}

TEST(ProposalsTest, TheirNumberFallsWithTheCostOfARow) {
  Proposals proposals;
  proposals.Begin(Counting(200), {}, {}, 100);
  for (int32_t i = 0; i < 40; ++i) proposals.Drew(i);
  size_t before = 17;
  for (const double slope : {0.0, 0.1, 0.3, 0.6, 1.0}) {
    const size_t count = proposals.Next(16, {PassCosts(slope)}).size();
    EXPECT_LE(count, before) << slope;
    before = count;
  }
  EXPECT_TRUE(proposals.Next(16, {kDear}).empty());
  EXPECT_EQ(proposals.Next(16, {kFree}).size(), kMostProposed);
}

TEST(PassCostsTest, AreWhatPassesTook) {
  PassCosts costs;
  EXPECT_FALSE(costs.is_known());
  costs.Took(8, 1);  // nothing to compare it with
  costs.Took(1, 0.010);
  EXPECT_TRUE(costs.is_known());
  EXPECT_DOUBLE_EQ(costs.Of(1), 0.010);
  for (int i = 0; i < 50; ++i) costs.Took(8, 0.017);
  EXPECT_NEAR(costs.Of(8), 0.017, 1e-4);
  EXPECT_NEAR(costs.Of(16), 0.025, 1e-4);  // as rows before it
  for (int i = 0; i < 50; ++i) costs.Took(16, 0.040);
  EXPECT_NEAR(costs.Of(16), 0.040, 1e-4);
  EXPECT_NEAR(costs.Of(8), 0.017, 1e-4);
  costs.Took(1, 10);  // the core was taken away for a while
  EXPECT_LT(costs.Of(1), 0.012);
  const double before = costs.Of(8) / costs.Of(1);
  for (int i = 0; i < 1000; ++i) costs.Forget();
  EXPECT_LT(costs.Of(8) / costs.Of(1), before);
  EXPECT_GT(costs.Of(8), costs.Of(1));
}

}  // namespace
}  // namespace lectern
