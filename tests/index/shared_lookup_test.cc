// Lookups of several ranks together: they select what one process selects.
#include <atomic>
#include <thread>

#include "engine/ranks/rank_peers.h"
#include "tests/engine/ranks/thread_ranks.h"
#include "tests/index/lookup_case.h"

namespace lectern {
namespace {

using namespace testing;

struct SharedCase {
  uint32_t levels;
  uint32_t ranks;
  bool by_queries = false;  // its heads have metrics
};

class SharedLookupTest : public ::testing::TestWithParam<SharedCase> {
 protected:
  std::span<const HeadIndex> heads() const {
    return Heads(GetParam().levels, GetParam().by_queries);
  }
  // The selections of all ranks, [ranks][kv heads]. change(rank, args) changes a rank's arguments.
  template <typename Change>
  std::vector<std::vector<HeadSelection>> Run(const LookupArgs& args, std::vector<Status>& statuses,
                                              const Change& change) {
    const uint32_t size = GetParam().ranks;
    const auto group = std::make_shared<ThreadGroup>(size);
    std::vector<std::vector<HeadSelection>> selections(size);
    statuses.assign(size, {});
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        ThreadRank own(group, rank);
        RankPeers peers(own);
        const LookupShare share = {&peers, rank, size};
        ThreadPool alone(1);
        LookupArgs of_rank = {args.backend,   alone,     args.heads,    args.queries, args.scale, 0,
                              args.kv_budget, args.tail, args.row_codes};
        of_rank.known_lse = args.known_lse;
        of_rank.row_weights = args.row_weights;
        of_rank.head_budgets = args.head_budgets;
        of_rank.bound = args.bound;
        of_rank.share = &share;
        change(rank, of_rank);
        statuses[rank] = Lookup(of_rank, selections[rank]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return selections;
  }

  LookupArgs Args(const Queries& queries, double budget) {
    return {.backend = *DefaultBackend(),
            .threads = threads_,
            .heads = heads(),
            .queries = queries.views,
            .scale = kScale,
            .kv_budget = budget,
            .tail = true};
  }

  // Compares what all ranks select with what one process selects. Returns the rows that differ.
  size_t Compare(const LookupArgs& args) {
    std::vector<Status> statuses;
    const auto parts = Run(args, statuses, [](uint32_t, LookupArgs&) {});
    const auto whole = Lookup(args);
    EXPECT_TRUE(whole.ok());
    size_t different = 0;
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.message();
    if (HasFailure()) return 0;
    for (size_t h = 0; h < heads().size(); ++h) {
      const HeadSelection& expected = (*whole)[h];
      std::vector<uint32_t> rows, refined;
      uint64_t bytes = 0;
      double missed = 0;
      std::vector<float> bound(expected.unread_bound.size(), -INFINITY);
      for (const auto& part : parts) {
        rows.insert(rows.end(), part[h].rows.begin(), part[h].rows.end());
        refined.insert(refined.end(), part[h].refined.begin(), part[h].refined.end());
        bytes += part[h].bytes;
        missed += part[h].missed_mass;
        for (size_t r = 0; r < bound.size(); ++r) {
          bound[r] = LogAddExp(bound[r], part[h].unread_bound[r]);
        }
      }
      EXPECT_TRUE(std::ranges::is_sorted(rows));
      std::vector<uint32_t> apart;
      std::ranges::set_symmetric_difference(rows, expected.rows, std::back_inserter(apart));
      different += apart.size();
      num_rows_ += expected.rows.size();
      if (refined == expected.refined && rows == expected.rows) {
        EXPECT_EQ(bytes, expected.bytes);
        for (size_t r = 0; r < bound.size(); ++r) {
          EXPECT_NEAR(bound[r], expected.unread_bound[r], 1e-3);
        }
        ExpectSameTail(parts, h, args.queries[h], expected.logit_tail);
      }
      EXPECT_NEAR(missed, expected.missed_mass, 1e-4);
    }
    return different;
  }

  // The masses that all ranks' tails give their clusters of a head, one rank after the other, are
  // those of one process, next to the mass of the likeliest key.
  void ExpectSameTail(const std::vector<std::vector<HeadSelection>>& parts, size_t head,
                      Rows<const float> queries, const LogitTail& expected) const {
    const size_t num_clusters = expected.num_clusters();
    if (num_clusters == 0) return;
    const HeadIndex& index = heads()[head];
    std::vector<float> keys;
    for (uint32_t i = 0; i < index.levels().back().num_clusters(); ++i) {
      const std::vector<float> more = Floats(index.Keys(index.ClusterRows(i)));
      keys.insert(keys.end(), more.begin(), more.end());
    }
    for (size_t r = 0; r < queries.num_rows; ++r) {
      std::vector<float> logits;
      for (const auto& part : parts) {
        const LogitTail& tail = part[head].logit_tail;
        const size_t count = tail.num_clusters();
        const auto begin = tail.logits.begin() + static_cast<ptrdiff_t>(r * count);
        logits.insert(logits.end(), begin, begin + static_cast<ptrdiff_t>(count));
      }
      ASSERT_EQ(logits.size(), num_clusters);
      const float* const whole = expected.logits.data() + r * num_clusters;
      const std::vector<double> of_keys = Logits(queries[r], keys);
      const double largest = *std::ranges::max_element(of_keys);
      for (size_t i = 0; i < num_clusters; ++i) {
        EXPECT_NEAR(std::exp(logits[i] - largest), std::exp(whole[i] - largest), 1e-3);
      }
    }
  }

  ThreadPool threads_{2};
  size_t num_rows_ = 0;  // that one process selected in all comparisons
};

// Denominators are summed in another order, so that a row whose score is within their rounding of
// the least kept one may change places with it.
TEST_P(SharedLookupTest, SelectsWhatOneProcessSelects) {
  size_t different = 0;
  for (const size_t rows : {1, 8, 64}) {
    const Queries queries(heads(), rows, 7 + static_cast<unsigned>(rows));
    for (const double budget : {0.08, 0.1, 0.2, 0.5}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows, budget " << budget);
      different += Compare(Args(queries, budget));
    }
  }
  EXPECT_GT(num_rows_, 10000u);
  EXPECT_LE(different, num_rows_ / 1000);
}

TEST_P(SharedLookupTest, SelectsTheSameWithWeightsKnownMassesAndBounds) {
  const Queries queries(heads(), 64, 3);
  std::vector<float> weights(64, 0.0f);
  weights[10] = 0.25f;
  weights[63] = 0.75f;
  const std::vector<std::vector<float>> known(heads().size(), std::vector<float>(64, 5.0f));
  LookupArgs args = Args(queries, 0.1);
  args.row_weights = weights;
  args.known_lse = known;
  size_t different = Compare(args);
  args.bound = true;
  different += Compare(args);
  EXPECT_LE(different, num_rows_ / 1000);
}

TEST_P(SharedLookupTest, SelectsTheSameWithBudgetsOfHeads) {
  const Queries queries(heads(), 8, 4);
  std::vector<double> budgets(heads().size(), 0.15);
  budgets.back() = 1;
  LookupArgs args = Args(queries, 0.1);
  args.head_budgets = budgets;
  EXPECT_LE(Compare(args), num_rows_ / 1000);
}

// A rank that cannot go on tells the others at their next meeting, wherever that is.
TEST_P(SharedLookupTest, AnErrorOfOneRankIsTheErrorOfAll) {
  const Queries queries(heads(), 8, 4);
  class FailingPeers final : public LookupPeers {
   public:
    FailingPeers(LookupPeers& peers, int fails_at) : peers_(peers), left_(fails_at) {}
    Status AddLse(Status local, std::span<float> lse) override {
      return peers_.AddLse(Fail(std::move(local)), lse);
    }
    Status Add(Status local, std::span<double> numbers) override {
      return peers_.Add(Fail(std::move(local)), numbers);
    }
    Status Gather(std::span<const std::byte> own, std::vector<std::byte>& all,
                  size_t& first) override {
      return peers_.Gather(own, all, first);
    }
    bool has_failed() const { return left_ < 0; }

   private:
    Status Fail(Status local) {
      return left_-- == 0 ? Status(Code::kChecksumMismatch, "a block") : std::move(local);
    }
    LookupPeers& peers_;
    int left_;
  };
  for (int meeting = 0;; ++meeting) {
    ASSERT_LT(meeting, 100);
    std::vector<Status> statuses;
    std::atomic<bool> has_failed = false;
    std::vector<std::unique_ptr<FailingPeers>> peers(GetParam().ranks);
    std::vector<LookupShare> shares(GetParam().ranks);
    (void)Run(Args(queries, 0.1), statuses, [&](uint32_t rank, LookupArgs& args) {
      if (rank + 1 != GetParam().ranks) return;
      peers[rank] = std::make_unique<FailingPeers>(*args.share->peers, meeting);
      shares[rank] = {peers[rank].get(), rank, GetParam().ranks};
      args.share = &shares[rank];
    });
    has_failed = peers.back()->has_failed();
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code(), has_failed ? Code::kChecksumMismatch : Code::kOk) << meeting;
    }
    if (!has_failed) {
      EXPECT_GE(meeting, 6);
      break;
    }
  }
}

TEST_P(SharedLookupTest, RanksOwnAllClustersOnce) {
  for (const uint32_t size : {1u, 2u, 3u, 7u, 200u}) {
    for (const HeadIndex& head : heads()) {
      uint32_t next = head.num_exact();
      for (uint32_t rank = 0; rank < size; ++rank) {
        const IndexRange rows = LookupShare{nullptr, rank, size}.Rows(head);
        EXPECT_EQ(rows.begin, next);
        next = rows.end;
      }
      EXPECT_EQ(next, head.num_rows());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SharedLookupTest,
                         ::testing::Values(SharedCase{1, 3}, SharedCase{2, 2}, SharedCase{2, 3},
                                           SharedCase{2, 8}, SharedCase{3, 4},
                                           SharedCase{2, 4, true}, SharedCase{3, 3, true}),
                         [](const auto& param) {
                           return std::to_string(param.param.levels) + "Levels" +
                                  std::to_string(param.param.ranks) + "Ranks" +
                                  (param.param.by_queries ? "Metric" : "");
                         });

}  // namespace
}  // namespace lectern
