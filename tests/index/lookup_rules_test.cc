// The rules over whole clusters, against their definitions in double.
#include <gtest/gtest.h>

#include "index/calibrate.h"
#include "tests/index/lookup_case.h"

namespace lectern {
namespace {

using namespace testing;

constexpr double kTie = 1e-3;  // relative difference of scores that does not decide

// A cluster that a lookup scored, and what it decided.
struct Scored {
  double score, mass;  // S, and N * S
  double bytes;        // finest level: of its rows, less the mean value that it needs no more
  bool chosen;         // opened, or read
};
struct ScoredLevel {
  std::vector<Scored> clusters;
  double known = 0;  // share of what is known
};

// Scores of what was looked up at a level: its total has the clusters that upper levels rejected.
ScoredLevel ScoreLevel(const HeadIndex& head, Rows<const float> queries,
                       const HeadSelection& selection, size_t level,
                       const std::vector<float>& known_lse, const std::vector<float>& row_weights,
                       bool tail, bool second_order = true) {
  const auto logits_of = [&](const HeadIndex::Level& view, const float* query) {
    return second_order ? MassLogits(head, view, query) : Logits(query, Floats(view.centroids));
  };
  const auto& levels = head.levels();
  const std::set<uint32_t> read = [&] {
    std::set<uint32_t> clusters;
    for (const uint32_t row : selection.rows) clusters.insert(FinestOf(head, row));
    return clusters;
  }();
  const auto is_chosen = [&](size_t l, uint32_t i) {
    if (l + 1 == levels.size()) return read.contains(i);
    return ToSet(selection.looked_up[l + 1]).contains(levels[l].children[i]);
  };
  ScoredLevel result;
  for (const uint32_t i : ToSet(selection.looked_up[level])) {
    double bytes = 0;
    if (level + 1 == levels.size()) {
      bytes = static_cast<double>(head.BlockBytes(head.ClusterRows(i))) - (tail ? kDim * 2 : 0);
    }
    result.clusters.push_back({0, 0, bytes, is_chosen(level, i)});
  }
  std::vector<std::set<uint32_t>> rejected(level);
  for (size_t l = 0; l < level; ++l) {
    for (const uint32_t i : ToSet(selection.looked_up[l])) {
      if (!is_chosen(l, i)) rejected[l].insert(i);
    }
  }
  for (size_t r = 0; r < queries.num_rows; ++r) {
    double total = std::exp(double{known_lse[r]});
    const double known = total;
    for (size_t l = 0; l < level; ++l) {
      const std::vector<double> logits = logits_of(levels[l], queries[r]);
      for (const uint32_t i : rejected[l]) total += levels[l].key_counts[i] * std::exp(logits[i]);
    }
    const std::vector<double> logits = logits_of(levels[level], queries[r]);
    const auto& counts = levels[level].key_counts;
    const std::set<uint32_t> open = ToSet(selection.looked_up[level]);
    for (const uint32_t i : open) total += counts[i] * std::exp(logits[i]);
    const double weight = row_weights[r] / total;
    result.known += known * weight;
    size_t column = 0;
    for (const uint32_t i : open) {
      result.clusters[column].score += std::exp(logits[i]) * weight;
      result.clusters[column++].mass += counts[i] * std::exp(logits[i]) * weight;
    }
  }
  return result;
}

struct RuleCase {
  uint32_t levels;
  bool tail;
};

class RuleTest : public ::testing::TestWithParam<RuleCase> {
 protected:
  static constexpr double kBudget = 0.1, kMass = 0.8;

  // Calls body(queries, selections) for a decode step and a question, beside something known.
  template <typename Body>
  void ForEachLookup(Rule rule, const Body& body) {
    for (const size_t rows : {2, 30}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows");
      const Queries queries(heads_, rows, 31);
      known_.assign(heads_.size(), std::vector<float>(rows, 4.0f));
      known_[0].assign(rows, -INFINITY);
      weights_.assign(rows, 0.5f / static_cast<float>(rows - 1));
      weights_.back() = 0.5f;
      const auto selections = Lookup({.backend = *DefaultBackend(),
                                      .threads = threads_,
                                      .heads = heads_,
                                      .queries = queries.views,
                                      .scale = kScale,
                                      .kv_budget = kBudget,
                                      .tail = GetParam().tail,
                                      .known_lse = known_,
                                      .row_weights = weights_,
                                      .rule = {.kind = rule, .mass = kMass}});
      ASSERT_TRUE(selections.ok()) << selections.status().message();
      ExpectWholeClusters(*selections);
      ExpectMissedMass(queries, *selections);
      body(queries, *selections);
      if (HasFatalFailure()) return;
    }
  }
  // All of these rules read rows of whole clusters that were looked up, open only children of opened
  // clusters, and read as many bytes as they list.
  void ExpectWholeClusters(const std::vector<HeadSelection>& selections) {
    size_t rows_read = 0, rejected = 0;
    for (size_t h = 0; h < heads_.size(); ++h) {
      const HeadSelection& selection = selections[h];
      const auto& levels = heads_[h].levels();
      EXPECT_TRUE(selection.coded.empty());
      EXPECT_TRUE(selection.refined.empty());
      EXPECT_EQ(selection.bytes, CountedBytes(heads_[h], selection));
      EXPECT_EQ(ToSet(selection.looked_up[0]).size(), levels[0].num_clusters());
      for (size_t l = 0; l + 1 < levels.size(); ++l) {
        const auto below = ToSet(selection.looked_up[l + 1]);
        size_t children = 0;
        for (const uint32_t i : ToSet(selection.looked_up[l])) {
          const uint32_t first = levels[l].children[i], last = levels[l].children[i + 1];
          const bool is_open = below.contains(first);
          rejected += !is_open;
          for (uint32_t j = first; j < last; ++j) ASSERT_EQ(below.contains(j), is_open);
          children += is_open ? last - first : 0;
          if (GetParam().tail) {
            EXPECT_EQ(ToSet(selection.tail[l]).contains(i), !is_open);
          }
        }
        EXPECT_EQ(children, below.size()) << "a child of a cluster that was not even looked up";
      }
      const auto seen = ToSet(selection.looked_up.back());
      std::map<uint32_t, uint32_t> rows_of;
      for (const uint32_t row : selection.rows) ++rows_of[FinestOf(heads_[h], row)];
      for (const auto& [cluster, count] : rows_of) {
        EXPECT_TRUE(seen.contains(cluster));
        EXPECT_EQ(count, levels.back().key_counts[cluster]);
      }
      rows_read += selection.rows.size();
    }
    EXPECT_GT(rows_read, 0u);
    if (GetParam().levels > 1) {
      EXPECT_GT(rejected, 0u);  // else the hierarchy is not tested
    }
  }
  void ExpectMissedMass(const Queries& queries, const std::vector<HeadSelection>& selections) {
    for (size_t h = 0; h < heads_.size(); ++h) {
      double missed = 0;
      for (size_t level = 0; level <= finest(); ++level) {
        for (const Scored& cluster : Score(queries, selections, h, level).clusters) {
          if (!cluster.chosen) missed += cluster.mass;
        }
      }
      EXPECT_NEAR(selections[h].missed_mass, missed, 1e-4);
    }
  }
  ScoredLevel Score(const Queries& queries, const std::vector<HeadSelection>& selections, size_t h,
                    size_t level) const {
    return ScoreLevel(heads_[h], queries.views[h], selections[h], level, known_[h], weights_,
                      GetParam().tail);
  }
  // As thresholds were calibrated: by centroids, of clusters alone, and all rows alike.
  ScoredLevel CalibratedScore(const Queries& queries, const std::vector<HeadSelection>& selections,
                              size_t h, size_t level) const {
    const size_t rows = weights_.size();
    return ScoreLevel(heads_[h], queries.views[h], selections[h], level,
                      std::vector<float>(rows, -INFINITY),
                      std::vector<float>(rows, 1 / static_cast<float>(rows)), GetParam().tail,
                      /*second_order=*/false);
  }
  static void ExpectBestChosen(const std::vector<Scored>& clusters) {
    double worst_chosen = 1, best_left = 0;
    for (const Scored& cluster : clusters) {
      if (cluster.chosen) worst_chosen = std::min(worst_chosen, cluster.score);
      if (!cluster.chosen) best_left = std::max(best_left, cluster.score);
    }
    EXPECT_GT(worst_chosen, best_left * (1 - kTie));
  }
  size_t finest() const { return GetParam().levels - 1; }

  const std::span<const HeadIndex> heads_ = Heads(GetParam().levels);
  std::vector<std::vector<float>> known_;  // of the running lookup
  std::vector<float> weights_;
  ThreadPool threads_{2};
};

TEST_P(RuleTest, ThresholdReadsWhatScoresAboveIt) {
  ForEachLookup(Rule::kThreshold, [&](const Queries& queries, const auto& selections) {
    for (size_t h = 0; h < heads_.size(); ++h) {
      const double threshold =
          std::exp(double{LogThreshold(heads_[h].thresholds(), static_cast<uint32_t>(finest()),
                                       queries.views[h].num_rows, kBudget)});
      for (const Scored& cluster : CalibratedScore(queries, selections, h, finest()).clusters) {
        if (std::abs(cluster.score - threshold) < kTie * threshold) continue;
        EXPECT_EQ(cluster.chosen, cluster.score > threshold);
      }
      for (size_t level = 0; level < finest(); ++level) {
        ExpectBestChosen(CalibratedScore(queries, selections, h, level).clusters);
      }
    }
  });
}

TEST_P(RuleTest, CapReadsTheBestThatFitIntoTheBudget) {
  ForEachLookup(Rule::kCap, [&](const Queries& queries, const auto& selections) {
    const auto of_all_heads = [&](size_t level) {
      std::vector<Scored> all;
      for (size_t h = 0; h < heads_.size(); ++h) {
        const auto clusters = Score(queries, selections, h, level).clusters;
        all.insert(all.end(), clusters.begin(), clusters.end());
      }
      return all;
    };
    for (size_t level = 0; level < finest(); ++level) ExpectBestChosen(of_all_heads(level));
    const std::vector<Scored> all = of_all_heads(finest());
    double budget = 0, read = 0;
    for (size_t h = 0; h < heads_.size(); ++h) {
      budget += kBudget * static_cast<double>(heads_[h].dense_bytes());
      read += static_cast<double>(selections[h].bytes);
    }
    EXPECT_LE(read, budget);
    double before = read;  // without any cluster
    for (const Scored& cluster : all) {
      if (cluster.chosen) before -= cluster.bytes;
    }
    // A cluster that was left out did not fit beside the better ones.
    for (const Scored& left : all) {
      if (left.chosen) continue;
      double bytes = before + left.bytes;
      for (const Scored& cluster : all) {
        const bool is_better = cluster.score > left.score * (1 - kTie);
        if (cluster.chosen && is_better) bytes += cluster.bytes;
      }
      ASSERT_GT(bytes, budget);
    }
  });
}

TEST_P(RuleTest, TopPReadsTheFewestClustersThatHoldTheMass) {
  size_t decided = 0;
  ForEachLookup(Rule::kTopP, [&](const Queries& queries, const auto& selections) {
    for (size_t h = 0; h < heads_.size(); ++h) {
      for (size_t level = 0; level <= finest(); ++level) {
        const double part = static_cast<double>(level + 1) / static_cast<double>(finest() + 1);
        const double share = 1 - (1 - kMass) * part;
        const ScoredLevel scored = Score(queries, selections, h, level);
        const double wanted = share * (1 - scored.known);
        double held = 0, least_chosen = 1, most_left = 0;
        for (const Scored& cluster : scored.clusters) {
          if (cluster.chosen) {
            held += cluster.mass;
            least_chosen = std::min(least_chosen, cluster.mass);
          } else {
            most_left = std::max(most_left, cluster.mass);
          }
        }
        // All that was opened may hold less: a level's masses are better known than its parents'.
        if (most_left > 0) {
          EXPECT_GE(held, wanted - 1e-4);
          ++decided;
        }
        EXPECT_LT(held - least_chosen, wanted + 1e-4);
        EXPECT_GT(least_chosen, most_left * (1 - kTie));
      }
    }
  });
  EXPECT_GT(decided, 2u);
}

INSTANTIATE_TEST_SUITE_P(LevelsAndTail, RuleTest,
                         ::testing::Values(RuleCase{1, true}, RuleCase{2, true}, RuleCase{3, true},
                                           RuleCase{2, false}),
                         [](const auto& param) {
                           return std::to_string(param.param.levels) + "Levels" +
                                  (param.param.tail ? "Tail" : "NoTail");
                         });

}  // namespace
}  // namespace lectern
