// The lookup on real shards: a text indexed with the tiny model, 1 to 3 levels, f16.
#include "index/lookup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "index/calibrate.h"
#include "index/head_lookup.h"
#include "index/row_codes.h"
#include "tests/engine/test_documents.h"
#include "tests/index/decoded_codes.h"

namespace lectern {
namespace {

using testing::Floats;
using testing::InventedText;
using testing::TempFolder;
using testing::TinyModel;
using testing::TokenDocument;

constexpr size_t kDim = 16;  // of the tiny model
constexpr float kScale = 0.25f;
constexpr uint32_t kLayer = 1;

// Indexed once for all tests of this program.
const Document& IndexedDocument(uint32_t num_levels) {
  static TempFolder folder;
  static std::map<uint32_t, TokenDocument> documents;
  if (!documents.contains(num_levels)) {
    const auto model = Model::Load(Env::Default(), TinyModel());
    const auto tokens = (*model)->EncodeDocument(InventedText(16000, 11));
    testing::TokenDocumentOptions options;
    options.kv_dtype = Dtype::kF16;
    options.num_levels = num_levels;
    const std::string path = folder.path() + "/" + std::to_string(num_levels);
    documents[num_levels] = testing::IndexTokens(TinyModel(), tokens->ids, path, options);
  }
  return *documents[num_levels].document;
}

std::span<const HeadIndex> Heads(uint32_t num_levels) {
  return *IndexedDocument(num_levels).Heads(kLayer);
}

// Query rows of every kv head: each asks for one key, more or less.
struct Queries {
  Queries(std::span<const HeadIndex> heads, size_t num_rows, unsigned seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0, 1);
    for (const HeadIndex& head : heads) {
      std::vector<float> rows;
      for (size_t r = 0; r < num_rows; ++r) {
        const IndexRange block =
            head.ClusterRows(engine() % static_cast<uint32_t>(head.levels().back().num_clusters()));
        const std::vector<float> key = Floats(head.Keys(block).Slice(0, 1));
        for (const float x : key) rows.push_back(1.5f * x + normal(engine));
      }
      data.push_back(std::move(rows));
    }
    for (const auto& rows : data) views.emplace_back(rows.data(), num_rows, kDim);
  }
  std::vector<std::vector<float>> data;
  std::vector<Rows<const float>> views;
};

struct LookupCase {
  uint32_t levels;
  bool row_codes, tail;
};

void PrintTo(const LookupCase& c, std::ostream* out) {
  *out << c.levels << " levels, row codes " << c.row_codes << ", tail " << c.tail;
}

std::set<uint32_t> ToSet(const std::vector<IndexRange>& ranges) {
  std::set<uint32_t> all;
  uint32_t end = 0;
  for (const IndexRange& range : ranges) {
    EXPECT_LT(range.begin, range.end);
    EXPECT_GE(range.begin, end) << "ranges are not ascending and disjoint";
    end = range.end;
    for (uint32_t i = range.begin; i < range.end; ++i) all.insert(i);
  }
  return all;
}

uint32_t FinestOf(const HeadIndex& head, uint32_t row) {
  const auto& rows = head.levels().back().children;
  return static_cast<uint32_t>(std::upper_bound(rows.begin(), rows.end(), row) - rows.begin()) - 1;
}

// Bytes of a selection, counted from what it lists alone.
uint64_t CountedBytes(const HeadIndex& head, const HeadSelection& selection) {
  constexpr uint64_t kRow = kDim * 2, kCode = kDim / 8 + 1, kFineCode = kDim / 4 + 1, kCount = 4;
  uint64_t bytes = head.num_exact() * 2 * kRow + selection.rows.size() * 2 * kRow;
  bytes += selection.refined.size() * kFineCode;
  for (size_t level = 0; level < selection.looked_up.size(); ++level) {
    bytes += ToSet(selection.looked_up[level]).size() * (kRow + kCount);
    bytes += ToSet(selection.tail[level]).size() * kRow;
  }
  for (const uint32_t cluster : ToSet(selection.coded)) {
    bytes += head.levels().back().key_counts[cluster] * kCode;
  }
  bytes += ToSet(selection.logit_tail.clusters).size() * kRow;
  return bytes;
}

class LookupTest : public ::testing::TestWithParam<LookupCase> {
 protected:
  std::span<const HeadIndex> heads() const { return Heads(GetParam().levels); }
  Result<std::vector<HeadSelection>> Run(const Queries& queries, double budget) {
    return Lookup(Args(queries, budget));
  }
  LookupArgs Args(const Queries& queries, double budget) {
    return {.backend = *DefaultBackend(),
            .threads = threads_,
            .heads = heads(),
            .queries = queries.views,
            .scale = kScale,
            .kv_budget = budget,
            .tail = GetParam().tail,
            .row_codes = GetParam().row_codes};
  }
  // Calls body(queries, budget, selections) for row counts and budgets.
  template <typename Body>
  void ForEachLookup(const Body& body) {
    const double smallest = SmallestBudget(heads(), GetParam().tail);
    size_t lookups = 0;
    for (const size_t rows : {1, 2, 8, 64, 300}) {
      const Queries queries(heads(), rows, 7 + static_cast<unsigned>(rows));
      for (const double budget : {smallest, 0.08, 0.1, 0.15, 0.2, 0.5, 0.9}) {
        if (budget < smallest) continue;
        SCOPED_TRACE(::testing::Message() << rows << " rows, budget " << budget);
        const auto selections = Run(queries, budget);
        ASSERT_TRUE(selections.ok()) << selections.status().message();
        ASSERT_EQ(selections->size(), heads().size());
        ++lookups;
        body(queries, budget, *selections);
        if (HasFatalFailure()) return;
      }
    }
    EXPECT_GE(lookups, 20u);
  }
  uint64_t DenseBytes() const {
    uint64_t bytes = 0;
    for (const HeadIndex& head : heads()) bytes += head.num_rows() * 2 * kDim * 2;
    return bytes;
  }
  ThreadPool threads_{2};
};

TEST_P(LookupTest, DocumentIsWorthTesting) {
  for (const HeadIndex& head : heads()) {
    EXPECT_GT(head.num_rows(), 5500u);
    EXPECT_EQ(head.num_exact(), 104u);
    EXPECT_EQ(head.levels().size(), GetParam().levels);
    EXPECT_TRUE(head.has_row_codes());
    EXPECT_EQ(head.dense_bytes(), head.num_rows() * 64u);
  }
  EXPECT_LT(SmallestBudget(heads(), GetParam().tail), 0.1);
}

TEST_P(LookupTest, ReadsTheBudget) {
  const double dense = static_cast<double>(DenseBytes());
  ForEachLookup([&](const Queries&, double budget, const std::vector<HeadSelection>& selections) {
    double bytes = 0;
    for (const HeadSelection& selection : selections) bytes += static_cast<double>(selection.bytes);
    const double share = bytes / (budget * dense);
    if (GetParam().row_codes) {
      EXPECT_GT(share, 0.93);
      EXPECT_LE(share, 1.0);
    } else {
      EXPECT_GE(share, 0.95);
      EXPECT_LE(share, 1.05);
    }
  });
}

TEST_P(LookupTest, BytesAreThoseOfWhatIsListed) {
  ForEachLookup([&](const Queries&, double, const std::vector<HeadSelection>& selections) {
    for (size_t h = 0; h < selections.size(); ++h) {
      EXPECT_EQ(selections[h].bytes, CountedBytes(heads()[h], selections[h]));
    }
  });
}

TEST_P(LookupTest, RowsAscendInsideClustersThatWereLookedUp) {
  ForEachLookup([&](const Queries&, double budget, const std::vector<HeadSelection>& selections) {
    size_t rows = 0;
    for (size_t h = 0; h < selections.size(); ++h) {
      const HeadSelection& selection = selections[h];
      const auto seen = ToSet(selection.looked_up.back()), coded = ToSet(selection.coded);
      std::map<uint32_t, uint32_t> rows_of;  // finest clusters
      for (size_t i = 0; i < selection.rows.size(); ++i) {
        const uint32_t row = selection.rows[i];
        ASSERT_GE(row, heads()[h].num_exact());
        ASSERT_LT(row, heads()[h].num_rows());
        if (i > 0) {
          ASSERT_GT(row, selection.rows[i - 1]);
        }
        const uint32_t cluster = FinestOf(heads()[h], row);
        ASSERT_TRUE(seen.contains(cluster));
        ++rows_of[cluster];
      }
      ASSERT_TRUE(std::is_sorted(selection.refined.begin(), selection.refined.end()));
      for (const uint32_t row : selection.refined) {
        ASSERT_TRUE(coded.contains(FinestOf(heads()[h], row)));
      }
      if (GetParam().row_codes) {
        ASSERT_TRUE(std::includes(selection.refined.begin(), selection.refined.end(),
                                  selection.rows.begin(), selection.rows.end()));
      } else {
        ASSERT_TRUE(selection.refined.empty());
      }
      rows += selection.rows.size();
      ASSERT_TRUE(std::includes(seen.begin(), seen.end(), coded.begin(), coded.end()));
      for (const auto& [cluster, count] : rows_of) {
        if (GetParam().row_codes) {
          ASSERT_TRUE(coded.contains(cluster));
        } else {
          ASSERT_EQ(count, heads()[h].levels().back().key_counts[cluster]);  // whole clusters
        }
      }
      if (!GetParam().row_codes) {
        EXPECT_TRUE(coded.empty());
      }
    }
    if (budget >= 0.1) {
      EXPECT_GT(rows, 0u);
    }
  });
}

// Looking up, and codes, must leave room for what they are for.
TEST_P(LookupTest, EveryBudgetReadsSomeRows) {
  const double smallest = SmallestBudget(heads(), GetParam().tail);
  const Queries queries(heads(), 8, 6);
  for (const double factor : {1.0, 1.1, 1.3, 1.6, 2.0}) {
    const auto selections = Run(queries, factor * smallest);
    ASSERT_TRUE(selections.ok());
    size_t rows = 0;
    for (const HeadSelection& selection : *selections) rows += selection.rows.size();
    EXPECT_GT(rows, 0u) << factor << " * smallest budget " << smallest;
  }
}

TEST_P(LookupTest, ChildrenOfUnopenedClustersAreNotLookedUp) {
  ForEachLookup([&](const Queries&, double budget, const std::vector<HeadSelection>& selections) {
    for (size_t h = 0; h < selections.size(); ++h) {
      const HeadSelection& selection = selections[h];
      const auto& levels = heads()[h].levels();
      if (levels.size() > 1 && selection.looked_up[0].empty()) {  // all finest ones fit at once
        EXPECT_TRUE(GetParam().row_codes);
        EXPECT_EQ(ToSet(selection.looked_up.back()).size(), levels.back().num_clusters());
        continue;
      }
      EXPECT_EQ(ToSet(selection.looked_up[0]).size(), levels[0].num_clusters());
      for (size_t l = 0; l + 1 < levels.size(); ++l) {
        const auto above = ToSet(selection.looked_up[l]), below = ToSet(selection.looked_up[l + 1]);
        const auto tail = ToSet(selection.tail[l]);
        size_t opened = 0, children = 0;
        for (const uint32_t i : above) {
          const uint32_t first = levels[l].children[i], last = levels[l].children[i + 1];
          const bool is_open = below.contains(first);
          for (uint32_t j = first; j < last; ++j) {
            ASSERT_EQ(below.contains(j), is_open) << "opened in part";
          }
          if (GetParam().tail) {
            ASSERT_EQ(tail.contains(i), !is_open);
          }
          opened += is_open;
          children += is_open ? last - first : 0;
        }
        EXPECT_EQ(children, below.size()) << "a child of a cluster that was not even looked up";
        if (budget < 0.15 && l + 2 == levels.size()) {
          EXPECT_LT(opened, levels[l].num_clusters());  // else this tests nothing
        }
      }
    }
  });
}

// With the tail every clustered key is counted once: as a row, behind its code, or in its centroid.
TEST_P(LookupTest, TailCoversWhatIsNotRead) {
  ForEachLookup([&](const Queries& queries, double, const std::vector<HeadSelection>& selections) {
    for (size_t h = 0; h < selections.size(); ++h) {
      const HeadSelection& selection = selections[h];
      const auto& levels = heads()[h].levels();
      if (!GetParam().tail) {
        for (const auto& tail : selection.tail) EXPECT_TRUE(tail.empty());
        EXPECT_EQ(selection.logit_tail.num_clusters(), 0u);
        continue;
      }
      uint64_t keys = 0;
      for (size_t l = 0; l < levels.size(); ++l) {
        const auto seen = ToSet(selection.looked_up[l]);
        for (const uint32_t i : ToSet(selection.tail[l])) {
          EXPECT_TRUE(seen.contains(i));
          keys += levels[l].key_counts[i];
        }
      }
      std::map<uint32_t, uint32_t> rows_of;  // finest clusters
      for (const uint32_t row : selection.rows) ++rows_of[FinestOf(heads()[h], row)];
      // Keys below the clusters of the logit tail, read or not; all those below others are read.
      const LogitTail& tail = selection.logit_tail;
      const auto in_tail = ToSet(tail.clusters), coded = ToSet(selection.coded);
      const auto seen = ToSet(selection.looked_up.back());
      if (GetParam().row_codes) {
        const size_t level = levels.size() == 1 ? 0 : levels.size() - 2;
        EXPECT_TRUE(in_tail.empty() || tail.level == level);
        for (uint32_t i = 0; i < levels[level].num_clusters(); ++i) {
          IndexRange below = {i, i + 1};  // finest clusters
          if (levels.size() > 1) {
            below = {levels[level].children[i], levels[level].children[i + 1]};
          } else if (!coded.contains(i)) {
            EXPECT_FALSE(in_tail.contains(i));
            continue;  // in `tail`
          }
          if (!seen.contains(below.begin)) {
            EXPECT_FALSE(in_tail.contains(i));
            continue;  // stands for itself in `tail`, or one above does
          }
          uint32_t num_keys = 0, num_read = 0;
          for (uint32_t j = below.begin; j < below.end; ++j) {
            num_keys += levels.back().key_counts[j];
            num_read += rows_of[j];
          }
          keys += num_keys;
          EXPECT_EQ(in_tail.contains(i), num_read < num_keys);
        }
      } else {
        EXPECT_TRUE(in_tail.empty());
        keys += selection.rows.size();
      }
      EXPECT_EQ(keys, heads()[h].num_rows() - heads()[h].num_exact());
      ASSERT_EQ(tail.logits.size(), queries.views[h].num_rows * tail.num_clusters());
      for (const float logit : tail.logits) EXPECT_TRUE(std::isfinite(logit));
    }
  });
}

TEST_P(LookupTest, MissedMassIsAShareThatFallsWithTheBudget) {
  const double smallest = SmallestBudget(heads(), GetParam().tail);
  const Queries queries(heads(), 8, 3);
  double before = 1.01;
  for (const double budget : {smallest, 0.15, 0.3, 0.6, 0.95}) {
    const auto selections = Run(queries, budget);
    ASSERT_TRUE(selections.ok());
    double missed = 0;
    for (const HeadSelection& selection : *selections) {
      EXPECT_GE(selection.missed_mass, 0);
      EXPECT_LE(selection.missed_mass, 1);
      missed += selection.missed_mass / static_cast<double>(selections->size());
    }
    EXPECT_LT(missed, before) << budget;
    before = missed;
  }
  EXPECT_LT(before, 0.1);
  EXPECT_GT(before, 0);
}

TEST_P(LookupTest, BudgetCloseToOneReadsNearlyEverything) {
  for (const size_t rows : {1, 64}) {
    const auto selections = Run(Queries(heads(), rows, 4), 0.995);
    ASSERT_TRUE(selections.ok());
    double read = 0, all = 0;
    for (size_t h = 0; h < heads().size(); ++h) {
      read += static_cast<double>((*selections)[h].rows.size());
      all += heads()[h].num_rows() - heads()[h].num_exact();
    }
    // Centroids (and codes) cost their part: rows of 64 bytes against 68 per cluster (and 8).
    EXPECT_GT(read / all, GetParam().row_codes ? 0.8 : 0.9);
  }
}

TEST_P(LookupTest, SameSelectionForAnyNumberOfThreads) {
  const Queries queries(heads(), 70, 5);
  const auto expected = Run(queries, 0.15);
  ThreadPool one(1);
  LookupArgs args = Args(queries, 0.15);
  const LookupArgs alone = {args.backend, one,  args.heads, args.queries,
                            args.scale,   0.15, args.tail,  args.row_codes};
  const auto again = Lookup(alone);
  ASSERT_TRUE(expected.ok() && again.ok());
  for (size_t h = 0; h < heads().size(); ++h) {
    EXPECT_EQ((*expected)[h].rows, (*again)[h].rows);
    EXPECT_EQ((*expected)[h].refined, (*again)[h].refined);
    EXPECT_EQ((*expected)[h].looked_up, (*again)[h].looked_up);
    EXPECT_EQ((*expected)[h].coded, (*again)[h].coded);
    EXPECT_EQ((*expected)[h].logit_tail.logits, (*again)[h].logit_tail.logits);
    EXPECT_EQ((*expected)[h].missed_mass, (*again)[h].missed_mass);
  }
}

// ---- against the formulas in double

// Logits by codes are off by what tables of 7 bits (kernels/sign_logits.h) lose.
constexpr double kTableRounding = 0.15;

std::vector<double> Logits(const float* query, const std::vector<float>& rows) {
  std::vector<double> logits(rows.size() / kDim);
  for (size_t j = 0; j < logits.size(); ++j) {
    for (size_t c = 0; c < kDim; ++c) logits[j] += double{query[c]} * rows[j * kDim + c];
    logits[j] *= kScale;
  }
  return logits;
}

// Stand-ins for the rotated residuals of a cluster's rows: by fine code where `refined` (ascending
// stored rows) has the row.
std::vector<float> Residuals(const HeadIndex& head, uint32_t cluster,
                             const std::vector<uint32_t>& refined) {
  const IndexRange rows = head.ClusterRows(cluster);
  std::vector<float> residuals(rows.size() * kDim);
  for (uint32_t row = rows.begin; row < rows.end; ++row) {
    const bool is_refined = std::binary_search(refined.begin(), refined.end(), row);
    const std::vector<float> residual =
        is_refined ? testing::DecodedFine(head.RowCodes(row), head.FineCodes(row), kDim)
                   : testing::DecodedRow(head.RowCodes(row), kDim);
    std::copy(residual.begin(), residual.end(), &residuals[(row - rows.begin) * kDim]);
  }
  return residuals;
}

std::vector<float> Rotated(const float* query) {
  std::vector<float> rotated(query, query + kDim);
  Rotate(rotated);
  return rotated;
}

struct Reference {
  std::vector<double> cluster_scores;  // S of one key of a finest cluster, all looked up
  std::vector<double> row_scores;      // S of the rows of `coded`, in order
};

// One level: every cluster is in the denominator, those of `coded` by their rows' codes; and what
// is known of the rest ([R], or empty).
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
  for (size_t r = 0; r < queries.num_rows; ++r) {
    const std::vector<double> clusters = Logits(queries[r], centroids);
    const double known = known_lse.empty() ? 0 : std::exp(double{known_lse[r]});
    double total = known;
    for (size_t i = 0; i < clusters.size(); ++i)
      total += level.key_counts[i] * std::exp(clusters[i]);
    for (size_t i = 0; i < clusters.size(); ++i) {
      result.cluster_scores[i] +=
          std::exp(clusters[i]) / total / static_cast<double>(queries.num_rows);
    }
    std::vector<double> rows = Logits(Rotated(queries[r]).data(), residuals);
    total = known;
    for (uint32_t i = 0; i < clusters.size(); ++i) {
      if (!coded.contains(i)) total += level.key_counts[i] * std::exp(clusters[i]);
    }
    for (size_t t = 0; t < rows.size(); ++t) {
      rows[t] += clusters[cluster_of[t]];
      total += std::exp(rows[t]);
    }
    for (size_t t = 0; t < rows.size(); ++t) {
      result.row_scores[t] += std::exp(rows[t]) / total / static_cast<double>(queries.num_rows);
    }
  }
  return result;
}

class LookupFormulaTest : public ::testing::TestWithParam<bool> {  // tail
 protected:
  LookupArgs Args(const Queries& queries, bool row_codes) {
    return {.backend = *DefaultBackend(),
            .threads = threads_,
            .heads = Heads(1),
            .queries = queries.views,
            .scale = kScale,
            .kv_budget = 0.15,
            .tail = GetParam(),
            .row_codes = row_codes};
  }
  ThreadPool threads_{2};
};

TEST_P(LookupFormulaTest, ScoresOfClustersAreThoseOfTheFormula) {
  for (const size_t rows : {1, 8, 130}) {
    const Queries queries(Heads(1), rows, 21);
    const LookupArgs args = Args(queries, false);
    for (size_t h = 0; h < args.heads.size(); ++h) {
      HeadBuffers buffers;
      HeadLookup lookup(args, h, 0, buffers);
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
  const Queries queries(Heads(1), 8, 22);
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
    // Of clusters on the same side of the threshold none is passed over that would have fitted.
    EXPECT_LT(best_left, 2 * worst_read);
    EXPECT_GT(missed, 0.01);
    EXPECT_LT(missed, 0.99);
  }
}

// Fine codes are read of the best rows by their row codes; the best of those by these are read.
TEST_P(LookupFormulaTest, RowsAreTheBestByTheirCodes) {
  for (const size_t rows : {1, 8, 130}) {
    const Queries queries(Heads(1), rows, 23);
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
      HeadLookup lookup(args, h, 0, buffers);
      ASSERT_TRUE(lookup.Score(0).ok());
      ASSERT_TRUE(lookup.ScoreRows({coded.begin(), coded.end()}).ok());
      const std::vector<float> code_scores = lookup.row_scores();
      const auto is_refined = [&](size_t t) {
        return std::binary_search(refined.begin(), refined.end(), lookup.StoredRow(t));
      };
      std::vector<uint32_t> indices;
      for (uint32_t t = 0; t < code_scores.size(); ++t) {
        if (is_refined(t)) indices.push_back(t);
      }
      ASSERT_TRUE(lookup.RefineRows(indices).ok());
      ASSERT_EQ(code_scores.size(), by_code.row_scores.size());

      double missed = 0;
      for (uint32_t i = 0; i < by_code.cluster_scores.size(); ++i) {
        if (!coded.contains(i))
          missed += by_code.cluster_scores[i] * head.levels()[0].key_counts[i];
      }
      for (size_t t = 0; t < code_scores.size(); ++t) {
        const double code = by_code.row_scores[t], fine = by_fine_code.row_scores[t];
        EXPECT_NEAR(code_scores[t], code, kTableRounding * code);
        EXPECT_NEAR(lookup.row_scores()[t], fine, kTableRounding * fine);
        const uint32_t row = lookup.StoredRow(t);
        const bool is_read = std::binary_search(selection.rows.begin(), selection.rows.end(), row);
        if (is_read) {
          worst_read = std::min(worst_read, fine);
        } else {
          missed += fine;
          if (is_refined(t)) best_left = std::max(best_left, fine);
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

// The rows that are not read never draw more than what is proved of them, at any level, with and
// without codes, for queries long and short.
TEST(UnreadBoundTest, IsNeverExceeded) {
  ThreadPool threads(2);
  size_t checks = 0;
  for (const uint32_t num_levels : {1, 2, 3}) {
    const std::span<const HeadIndex> heads = Heads(num_levels);
    for (const unsigned seed : {1, 2, 3}) {
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

// A head that mostly looks elsewhere has small scores, and gets less of the layer's budget.
TEST_P(LookupFormulaTest, WhatIsKnownIsInTheDenominator) {
  const Queries queries(Heads(1), 8, 26);
  LookupArgs args = Args(queries, true);
  const auto before = Lookup(args);
  std::vector<std::vector<float>> known(args.heads.size(), std::vector<float>(8, -INFINITY));
  for (size_t r = 0; r < 8; ++r) known[0][r] = 20.0f + static_cast<float>(r);
  args.known_lse = known;
  HeadBuffers buffers;
  HeadLookup lookup(args, 0, 0, buffers);
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

// What is not read keeps the mass that its codes tell, or else its own centroid: of the only
// level's clusters, or of parents.
TEST(LogitTailTest, LogitsAreTheMassOfWhatIsNotRead) {
  ThreadPool threads(2);
  for (const uint32_t num_levels : {1u, 2u, 3u}) {
    const std::span<const HeadIndex> heads = Heads(num_levels);
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
        const std::vector<double> logits = Logits(query, centroids);
        const std::vector<float> rotated = Rotated(query);
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
              mass += levels.back().key_counts[i] * std::exp(logits[i]);
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

// ---- the rules over whole clusters, against their definitions in double

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
                       bool tail) {
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
      const std::vector<double> logits = Logits(queries[r], Floats(levels[l].centroids));
      for (const uint32_t i : rejected[l]) total += levels[l].key_counts[i] * std::exp(logits[i]);
    }
    const std::vector<double> logits = Logits(queries[r], Floats(levels[level].centroids));
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
  // What any of these rules keeps: rows of whole clusters that were looked up, children of opened
  // clusters alone, bytes as listed.
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
  // As thresholds were calibrated: of clusters alone, and all rows alike.
  ScoredLevel CalibratedScore(const Queries& queries, const std::vector<HeadSelection>& selections,
                              size_t h, size_t level) const {
    const size_t rows = weights_.size();
    return ScoreLevel(heads_[h], queries.views[h], selections[h], level,
                      std::vector<float>(rows, -INFINITY),
                      std::vector<float>(rows, 1 / static_cast<float>(rows)), GetParam().tail);
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
    // What was left out did not fit beside what is better.
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
        EXPECT_GE(held, wanted - 1e-4);
        EXPECT_LT(held - least_chosen, wanted + 1e-4);
        EXPECT_GT(least_chosen, most_left * (1 - kTie));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(LevelsAndTail, RuleTest,
                         ::testing::Values(RuleCase{1, true}, RuleCase{2, true}, RuleCase{3, true},
                                           RuleCase{2, false}),
                         [](const auto& param) {
                           return std::to_string(param.param.levels) + "Levels" +
                                  (param.param.tail ? "Tail" : "NoTail");
                         });

INSTANTIATE_TEST_SUITE_P(All, LookupTest, ::testing::ValuesIn([] {
                           std::vector<LookupCase> cases;
                           for (const uint32_t levels : {1u, 2u, 3u}) {
                             for (const bool row_codes : {false, true}) {
                               for (const bool tail : {false, true})
                                 cases.push_back({levels, row_codes, tail});
                             }
                           }
                           return cases;
                         }()),
                         [](const auto& param) {
                           return std::to_string(param.param.levels) + "Levels" +
                                  (param.param.row_codes ? "RowCodes" : "WholeClusters") +
                                  (param.param.tail ? "Tail" : "NoTail");
                         });
INSTANTIATE_TEST_SUITE_P(TailOrNot, LookupFormulaTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Tail" : "NoTail"; });

}  // namespace
}  // namespace lectern
