// The lookup against its formulas in double.
#include <gtest/gtest.h>

#include "index/head_lookup.h"
#include "kernels/second_order.h"
#include "tests/index/lookup_case.h"

namespace lectern {
namespace {

using namespace testing;

// Logits by codes are off by what tables of 6 bits (kernels/sign_logits.h) lose, and shares of all
// mass by that of the rows that hold most of it too.
constexpr double kTableRounding = 0.45;

// The mean of log(1/N sum exp(x)) over draws of N normal logits lies below the formula, which holds
// for N without end, by no more than 0.65 deviations; the second cumulant alone grows with their
// square.
TEST(LogMeanExpTest, IsThatOfNormalDraws) {
  std::mt19937 engine(41);
  std::normal_distribution<double> normal;
  for (const int num_keys : {1, 8, 50, 400}) {
    const float log_count = std::log(static_cast<float>(num_keys));
    for (const float deviation : {0.0f, 0.1f, 1.0f, 2.0f, 3.0f, 6.0f, 12.0f}) {
      constexpr int kDraws = 400;
      double mean = 0;
      for (int draw = 0; draw < kDraws; ++draw) {
        double sum = 0;
        for (int i = 0; i < num_keys; ++i) sum += std::exp(deviation * normal(engine));
        mean += std::log(sum / num_keys) / kDraws;
      }
      const double formula = LogMeanExp(deviation, log_count);
      EXPECT_GE(formula, mean - 0.1) << num_keys << " keys, " << deviation;
      EXPECT_LE(formula, mean + 0.1 + 0.65 * deviation) << num_keys << " keys, " << deviation;
      EXPECT_LE(formula, deviation * deviation / 2 + 1e-6);
    }
  }
}

// SquaredDeviation undoes LogMeanExp in both of its branches.
TEST(SquaredDeviationTest, IsTheInverse) {
  for (const float log_count : {0.7f, 2.0f, 6.0f}) {
    for (const float deviation : {0.0f, 0.5f, 1.0f, 2.0f, 4.0f, 30.0f}) {
      const float square = SquaredDeviation(LogMeanExp(deviation, log_count), log_count);
      EXPECT_NEAR(square, deviation * deviation, 1e-4f * (1 + square));
    }
  }
}

struct Reference {
  std::vector<double> cluster_scores;  // S of one key of a finest cluster, all looked up
  std::vector<double> row_scores;      // S of the rows of `coded`, in order
  std::vector<double> row_squares;     // the same with squares of shares
};

// One level: every cluster is in the denominator; where rows are `refined`, those of `coded` by
// their rows' codes; and what is known of the rest ([R], or empty).
Reference Score(const HeadIndex& head, Rows<const float> queries, const std::set<uint32_t>& coded,
                const std::vector<uint32_t>& refined = {},
                const std::vector<float>& known_lse = {}) {
  const HeadIndex::Level& level = head.levels().back();
  const std::vector<float> centroids = Floats(level.centroids);
  std::vector<float> residuals;  // of the rows of `coded`
  std::vector<uint32_t> cluster_of;
  for (const uint32_t i : coded) {
    const std::vector<float> more = Residuals(head, i, refined);
    residuals.insert(residuals.end(), more.begin(), more.end());
    cluster_of.insert(cluster_of.end(), head.ClusterRows(i).size(), i);
  }
  Reference result;
  result.cluster_scores.resize(level.num_clusters());
  result.row_scores.resize(cluster_of.size());
  result.row_squares.resize(cluster_of.size());
  for (size_t r = 0; r < queries.num_rows; ++r) {
    const std::vector<double> clusters = MassLogits(head, level, queries[r]);
    const double known = known_lse.empty() ? 0 : std::exp(double{known_lse[r]});
    double total = known;
    for (size_t i = 0; i < clusters.size(); ++i)
      total += level.key_counts[i] * std::exp(clusters[i]);
    for (size_t i = 0; i < clusters.size(); ++i) {
      result.cluster_scores[i] +=
          std::exp(clusters[i]) / total / static_cast<double>(queries.num_rows);
    }
    const std::vector<double> by_centroid = Logits(queries[r], centroids);
    std::vector<double> rows = Logits(Rotated(head, queries[r]).data(), residuals);
    double with_rows = known;
    for (uint32_t i = 0; i < clusters.size(); ++i) {
      if (!coded.contains(i)) with_rows += level.key_counts[i] * std::exp(clusters[i]);
    }
    for (size_t t = 0; t < rows.size(); ++t) {
      rows[t] += by_centroid[cluster_of[t]];
      with_rows += std::exp(rows[t]);
    }
    if (!refined.empty()) total = with_rows;
    for (size_t t = 0; t < rows.size(); ++t) {
      const double share = std::exp(rows[t]) / total;
      result.row_scores[t] += share / static_cast<double>(queries.num_rows);
      result.row_squares[t] += share * share / static_cast<double>(queries.num_rows);
    }
  }
  return result;
}

// With a tail or not, and of heads with metrics or not.
class LookupFormulaTest : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  static std::span<const HeadIndex> heads() { return Heads(1, std::get<1>(GetParam())); }
  LookupArgs Args(const Queries& queries, bool row_codes) {
    return {.backend = *DefaultBackend(),
            .threads = threads_,
            .heads = heads(),
            .queries = queries.views,
            .scale = kScale,
            .kv_budget = 0.15,
            .tail = std::get<0>(GetParam()),
            .row_codes = row_codes};
  }
  ThreadPool threads_{2};
};

TEST_P(LookupFormulaTest, ScoresOfClustersAreThoseOfTheFormula) {
  for (const size_t rows : {1, 8, 130}) {
    const Queries queries(heads(), rows, 21);
    const LookupArgs args = Args(queries, false);
    for (size_t h = 0; h < args.heads.size(); ++h) {
      HeadBuffers buffers;
      HeadSelection filled;
      HeadLookup lookup(args, h, 0, buffers, filled);
      ASSERT_TRUE(lookup.Score(0).ok());
      const Reference expected = Score(args.heads[h], queries.views[h], {});
      ASSERT_EQ(lookup.scores().size(), expected.cluster_scores.size());
      double mass = 0;
      for (size_t i = 0; i < lookup.scores().size(); ++i) {
        EXPECT_NEAR(lookup.scores()[i], expected.cluster_scores[i],
                    1e-4 * expected.cluster_scores[i]);
        mass += double{lookup.scores()[i]} * args.heads[h].levels()[0].key_counts[i];
      }
      EXPECT_NEAR(mass, 1, 1e-4);
    }
  }
}

TEST_P(LookupFormulaTest, WholeClustersAreTheBestAndTheRestIsMissed) {
  const Queries queries(heads(), 8, 22);
  const LookupArgs args = Args(queries, false);
  const auto selections = Lookup(args);
  ASSERT_TRUE(selections.ok());
  for (size_t h = 0; h < args.heads.size(); ++h) {
    const Reference expected = Score(args.heads[h], queries.views[h], {});
    std::set<uint32_t> read;
    for (const uint32_t row : (*selections)[h].rows) read.insert(FinestOf(args.heads[h], row));
    double missed = 0, worst_read = 1, best_left = 0;
    for (uint32_t i = 0; i < expected.cluster_scores.size(); ++i) {
      const double score = expected.cluster_scores[i];
      const uint32_t count = args.heads[h].levels()[0].key_counts[i];
      if (read.contains(i)) {
        worst_read = std::min(worst_read, score);
      } else {
        missed += score * count;
        if (count < 10) best_left = std::max(best_left, score);  // large ones may not have fitted
      }
    }
    EXPECT_NEAR((*selections)[h].missed_mass, missed, 1e-4);
    // No cluster that would have fitted is passed over for a worse one on its side of the threshold.
    EXPECT_LT(best_left, 2 * worst_read);
    EXPECT_GT(missed, 0.01);
    EXPECT_LT(missed, 0.99);
  }
}

// Fine codes are read of the best rows by their row codes; the best of those by these are read, by
// squares of shares where heads have metrics.
TEST_P(LookupFormulaTest, RowsAreTheBestByTheirCodes) {
  for (const size_t rows : {1, 8, 130}) {
    const Queries queries(heads(), rows, 23);
    const LookupArgs args = Args(queries, true);
    const auto selections = Lookup(args);
    ASSERT_TRUE(selections.ok());
    double worst_refined = 1, best_not_refined = 0, worst_read = 1, best_left = 0;
    for (size_t h = 0; h < args.heads.size(); ++h) {
      const HeadIndex& head = args.heads[h];
      const HeadSelection& selection = (*selections)[h];
      const std::set<uint32_t> coded = ToSet(selection.coded);
      const std::vector<uint32_t>& refined = selection.refined;
      ASSERT_FALSE(coded.empty());
      const Reference by_code = Score(head, queries.views[h], coded);
      const Reference by_fine_code = Score(head, queries.views[h], coded, refined);

      HeadBuffers buffers;
      HeadSelection filled;
      HeadLookup lookup(args, h, 0, buffers, filled);
      ASSERT_TRUE(lookup.Score(0).ok());
      ASSERT_TRUE(lookup.ScoreRows(std::vector<uint32_t>(coded.begin(), coded.end())).ok());
      const std::span<const float> code_scores = lookup.row_scores();
      const auto is_refined = [&](size_t t) {
        return std::binary_search(refined.begin(), refined.end(), lookup.StoredRow(t));
      };
      std::vector<uint32_t> indices;
      for (uint32_t t = 0; t < code_scores.size(); ++t) {
        if (is_refined(t)) indices.push_back(t);
      }
      ASSERT_TRUE(lookup.RefineRows(indices).ok());
      lookup.ScoreRefined();
      ASSERT_EQ(code_scores.size(), by_code.row_scores.size());

      double missed = 0;
      for (uint32_t i = 0; i < by_code.cluster_scores.size(); ++i) {
        if (!coded.contains(i))
          missed += by_code.cluster_scores[i] * head.levels()[0].key_counts[i];
      }
      ASSERT_EQ(lookup.refined_scores().size(), indices.size());
      size_t place = 0;  // of the next refined row
      for (size_t t = 0; t < code_scores.size(); ++t) {
        const double code = by_code.row_scores[t], fine = by_fine_code.row_scores[t];
        EXPECT_NEAR(code_scores[t], code, kTableRounding * code);
        if (is_refined(t)) {
          EXPECT_NEAR(lookup.refined_scores()[place++], fine, kTableRounding * fine);
        }
        const uint32_t row = lookup.StoredRow(t);
        const bool is_read = std::binary_search(selection.rows.begin(), selection.rows.end(), row);
        const double chosen_by = std::get<1>(GetParam()) ? by_fine_code.row_squares[t] : fine;
        if (is_read) {
          worst_read = std::min(worst_read, chosen_by);
        } else {
          missed += fine;
          if (is_refined(t)) best_left = std::max(best_left, chosen_by);
        }
        if (is_refined(t)) {
          worst_refined = std::min(worst_refined, code);
        } else {
          best_not_refined = std::max(best_not_refined, code);
        }
      }
      EXPECT_NEAR(selection.missed_mass, std::min(missed, 1.0), 5e-3);
    }
    // All heads share the budget, so this holds across them.
    EXPECT_GE(worst_refined, best_not_refined * (1 - 2 * kTableRounding));
    EXPECT_GE(worst_read, best_left * (1 - 2 * kTableRounding));
    EXPECT_GT(best_not_refined, 0);
    EXPECT_GT(best_left, 0);
  }
}

// For one query row the sum of squares of shares is the square of the share.
TEST_P(LookupFormulaTest, SquaresOfSharesAreScores) {
  const Queries queries(heads(), 1, 24);
  const LookupArgs args = Args(queries, true);
  std::vector<float> scores[2];
  for (const bool by_squares : {false, true}) {
    HeadBuffers buffers;
    HeadSelection filled;
    HeadLookup lookup(args, 0, 0, buffers, filled);
    if (by_squares) lookup.ScoreBySquares();
    ASSERT_TRUE(lookup.Score(0).ok());
    ASSERT_TRUE(lookup.ScoreRows(std::vector<uint32_t>{0, 3, 5}).ok());
    ASSERT_TRUE(lookup.RefineRows(std::vector<uint32_t>{0, 1, 2, 7, 11}).ok());
    lookup.ScoreRefined();
    scores[by_squares].assign(lookup.refined_scores().begin(), lookup.refined_scores().end());
  }
  for (size_t i = 0; i < 5; ++i) {
    const float square = scores[0][i] * scores[0][i];
    EXPECT_NEAR(scores[1][i], square, 1e-4f * square);
  }
}

// The rows that are not read never draw more than what is proved of them, at any level, with and
// without codes, for queries long and short.
void ExpectBoundsHold(uint32_t num_documents, unsigned num_seeds) {
  ThreadPool threads(2);
  size_t checks = 0;
  for (uint32_t document = 1; document <= num_documents; ++document) {
    const std::span<const HeadIndex> heads = Heads((document + 1) / 2, document % 2 == 0);
    for (unsigned seed = 1; seed <= num_seeds; ++seed) {
      const Queries queries(heads, 40, seed);
      for (const bool row_codes : {true, false}) {
        for (const double budget : {0.12, 0.3}) {
          const auto selections = Lookup({.backend = *DefaultBackend(),
                                          .threads = threads,
                                          .heads = heads,
                                          .queries = queries.views,
                                          .scale = kScale,
                                          .kv_budget = budget,
                                          .tail = true,
                                          .row_codes = row_codes,
                                          .bound = true});
          ASSERT_TRUE(selections.ok());
          for (size_t h = 0; h < heads.size(); ++h) {
            const HeadSelection& selection = (*selections)[h];
            ASSERT_EQ(selection.unread_bound.size(), 40u);
            const std::set<uint32_t> read(selection.rows.begin(), selection.rows.end());
            for (size_t r = 0; r < 40; ++r, ++checks) {
              double unread = 0;
              for (uint32_t i = 0; i < heads[h].levels().back().num_clusters(); ++i) {
                const IndexRange rows = heads[h].ClusterRows(i);
                const std::vector<double> logits =
                    Logits(queries.views[h][r], Floats(heads[h].Keys(rows)));
                for (uint32_t t = 0; t < rows.size(); ++t) {
                  if (!read.contains(rows.begin + t)) unread += std::exp(logits[t]);
                }
              }
              EXPECT_LE(std::log(unread), selection.unread_bound[r]);
            }
          }
        }
      }
    }
  }
  EXPECT_GT(checks, 1000u);
}

TEST(UnreadBoundTest, IsNeverExceeded) { ExpectBoundsHold(6, 1); }
TEST(UnreadBoundTest, IsNeverExceededByMoreQueries) { ExpectBoundsHold(6, 3); }

// A head that mostly looks elsewhere has small scores, and gets less of the layer's budget.
TEST_P(LookupFormulaTest, WhatIsKnownIsInTheDenominator) {
  const Queries queries(heads(), 8, 26);
  LookupArgs args = Args(queries, true);
  const auto before = Lookup(args);
  std::vector<std::vector<float>> known(args.heads.size(), std::vector<float>(8, -INFINITY));
  for (size_t r = 0; r < 8; ++r) known[0][r] = 20.0f + static_cast<float>(r);
  args.known_lse = known;
  HeadBuffers buffers;
  HeadSelection filled;
  HeadLookup lookup(args, 0, 0, buffers, filled);
  ASSERT_TRUE(lookup.Score(0).ok());
  const Reference expected = Score(args.heads[0], queries.views[0], {}, {}, known[0]);
  for (size_t i = 0; i < lookup.scores().size(); ++i) {
    EXPECT_NEAR(lookup.scores()[i], expected.cluster_scores[i], 1e-4 * expected.cluster_scores[i]);
  }
  const auto after = Lookup(args);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_LT((*after)[0].rows.size(), (*before)[0].rows.size() / 2);
  EXPECT_GT((*after)[1].rows.size(), (*before)[1].rows.size());
  EXPECT_LT((*after)[0].missed_mass, (*before)[0].missed_mass);
}

// The factor of all clusters' deviations along this query, as the row codes of `coded` tell it.
double Stretch(const HeadIndex& head, const float* query, const std::set<uint32_t>& coded) {
  const HeadIndex::Level& level = head.levels().back();
  const std::vector<float> rotated = Rotated(head, query);
  double squares = 0, variances = 0;
  for (const uint32_t i : coded) {
    const double count = level.key_counts[i];
    if (count == 1) continue;
    double mean = 0;
    for (const double logit : Logits(rotated.data(), Residuals(head, i, {}))) {
      mean += std::exp(logit) / count;
    }
    const auto log_mean = static_cast<float>(std::max(0.0, std::log(mean)));
    squares += count * SquaredDeviation(log_mean, level.log_counts[i]);
    variances += count * level.variances[i];
  }
  double norm = 0;
  for (const double x : Measured(head, query)) norm += double{kScale} * kScale * x * x;
  return kCaution * std::sqrt(std::max(0.0, squares / (norm * variances) - kCodeNoise));
}

// Unread rows keep the mass that their codes tell, or else their own centroid and variance: those of
// the only level's clusters, or of parents.
TEST(LogitTailTest, LogitsAreTheMassOfWhatIsNotRead) {
  ThreadPool threads(2);
  for (const uint32_t document : {1u, 2u, 3u, 4u, 5u, 6u}) {
    const uint32_t num_levels = (document + 1) / 2;
    const std::span<const HeadIndex> heads = Heads(num_levels, document % 2 == 0);
    const Queries queries(heads, 70, 25);  // more than a tile of query rows
    const auto selections = Lookup({.backend = *DefaultBackend(),
                                    .threads = threads,
                                    .heads = heads,
                                    .queries = queries.views,
                                    .scale = kScale,
                                    .kv_budget = 0.15,
                                    .tail = true,
                                    .row_codes = true});
    ASSERT_TRUE(selections.ok());
    for (size_t h = 0; h < heads.size(); ++h) {
      const auto& levels = heads[h].levels();
      const HeadSelection& selection = (*selections)[h];
      const LogitTail& tail = selection.logit_tail;
      const std::vector<float> centroids = Floats(levels.back().centroids);
      const std::set<uint32_t> coded = ToSet(selection.coded), clusters = ToSet(tail.clusters);
      ASSERT_FALSE(clusters.empty());
      for (const size_t r : {0, 1, 63, 64, 69}) {
        const float* query = queries.views[h][r];
        const bool is_measured = num_levels > 1 && tail.level + 1 == num_levels;
        const double stretch = is_measured ? Stretch(heads[h], query, coded) : 1;
        const std::vector<double> logits = Logits(query, centroids),
                                  mass_logits = MassLogits(heads[h], levels.back(), query, stretch);
        const std::vector<float> rotated = Rotated(heads[h], query);
        size_t column = 0;
        for (const uint32_t cluster : clusters) {
          IndexRange below = {cluster, cluster + 1};
          if (num_levels > 1) {
            below = {levels[tail.level].children[cluster],
                     levels[tail.level].children[cluster + 1]};
          }
          double mass = 0;
          for (uint32_t i = below.begin; i < below.end; ++i) {
            if (!coded.contains(i)) {
              mass += levels.back().key_counts[i] * std::exp(mass_logits[i]);
              continue;
            }
            const IndexRange rows = heads[h].ClusterRows(i);
            const std::vector<double> more =
                Logits(rotated.data(), Residuals(heads[h], i, selection.refined));
            for (uint32_t t = 0; t < rows.size(); ++t) {
              if (std::binary_search(selection.rows.begin(), selection.rows.end(),
                                     rows.begin + t)) {
                continue;
              }
              mass += std::exp(logits[i] + more[t]);
            }
          }
          EXPECT_NEAR(tail.logits[r * clusters.size() + column++], std::log(mass), kTableRounding);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TailOrNot, LookupFormulaTest,
                         ::testing::Combine(::testing::Bool(), ::testing::Bool()),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param) ? "Tail" : "NoTail") +
                                  (std::get<1>(param.param) ? "Metric" : "");
                         });

}  // namespace
}  // namespace lectern
