// The lookup on real shards: budgets, ranges, tails, threads.
#include "index/lookup.h"

#include <functional>

#include "tests/index/lookup_case.h"

namespace lectern {
namespace {

using namespace testing;

struct LookupCase {
  uint32_t levels;
  bool row_codes, tail;
  bool by_queries = false;  // its heads have metrics
};

void PrintTo(const LookupCase& c, std::ostream* out) {
  *out << c.levels << " levels, row codes " << c.row_codes << ", tail " << c.tail << ", metrics "
       << c.by_queries;
}

class LookupTest : public ::testing::TestWithParam<LookupCase> {
 protected:
  std::span<const HeadIndex> heads() const {
    return Heads(GetParam().levels, GetParam().by_queries);
  }
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
  ForEachLookup([&](const Queries& queries, double budget,
                    const std::vector<HeadSelection>& selections) {
    double bytes = 0, rows = 0, read = 0;
    for (size_t h = 0; h < selections.size(); ++h) {
      bytes += static_cast<double>(selections[h].bytes);
      rows += heads()[h].num_rows() - heads()[h].num_exact();
      read += static_cast<double>(selections[h].rows.size());
    }
    const double share = bytes / (budget * dense);
    if (GetParam().row_codes) {
      // A few query rows to so short a document read no more than this, whatever the budget leaves
      // for rows.
      const double most = 2 * std::max(0.1, budget) * std::max(0.1, budget) * rows;
      const bool has_read_most = queries.views.front().num_rows <= 8 && read >= std::floor(most);
      EXPECT_TRUE(share > 0.93 || has_read_most) << share << ", " << read << " rows of " << most;
      if (queries.views.front().num_rows <= 8) {
        EXPECT_LE(read, most);
      }
      EXPECT_LE(share, 1.0);
    } else {
      EXPECT_GE(share, 0.95);
      EXPECT_LE(share, 1.05);
    }
  });
}

// Logits of hundreds, of a model that learnt nothing: codes are wrong by powers of ten, and what is
// left of a sum without what they took for all of it is rounding.
TEST_P(LookupTest, ReadsNoMoreThanTheBudgetWhateverTheLogits) {
  for (const float sharpness : {30.0f, 100.0f, 1000.0f}) {
    const Queries queries(heads(), 64, 7, sharpness);
    for (const double budget : {0.1, 0.2, 0.25, 0.5}) {
      SCOPED_TRACE(::testing::Message() << sharpness << ", budget " << budget);
      const auto selections = Run(queries, budget);
      ASSERT_TRUE(selections.ok()) << selections.status().message();
      double bytes = 0;
      for (const HeadSelection& selection : *selections) {
        bytes += static_cast<double>(selection.bytes);
        EXPECT_TRUE(std::isfinite(selection.missed_mass));
      }
      EXPECT_LE(bytes,
                (GetParam().row_codes ? 1 : 1.05) * budget * static_cast<double>(DenseBytes()));
    }
  }
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
  ForEachLookup(
      [&](const Queries& queries, double budget, const std::vector<HeadSelection>& selections) {
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
          // Keys below the clusters of the logit tail, read or not; all those below others are
          // read.
          const LogitTail& tail = selection.logit_tail;
          const auto in_tail = ToSet(tail.clusters), coded = ToSet(selection.coded);
          const auto seen = ToSet(selection.looked_up.back());
          if (GetParam().row_codes) {
            // The finest clusters stand for themselves where heads have metrics and all are looked
            // up.
            const bool may_be_finest =
                levels.size() > 1 && GetParam().by_queries && selection.looked_up[0].empty();
            const bool is_finest = may_be_finest && tail.level + 1 == levels.size();
            EXPECT_TRUE(is_finest || !may_be_finest || budget < 0.45 || in_tail.empty());
            const size_t levels_above = levels.size() == 1 || is_finest ? 1 : 2;
            const size_t level = levels.size() - levels_above;
            EXPECT_TRUE(in_tail.empty() || tail.level == level);
            for (uint32_t i = 0; i < levels[level].num_clusters(); ++i) {
              IndexRange below = {i, i + 1};  // finest clusters
              if (levels.size() > 1 && !is_finest) {
                below = {levels[level].children[i], levels[level].children[i + 1]};
              } else if (levels.size() == 1 && !coded.contains(i)) {
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

// Rows of weight 0 change nothing of what is chosen, and get a tail of their own.
TEST_P(LookupTest, RowsThatDoNotCountDoNotChoose) {
  const Queries all(heads(), 60, 5);
  Queries counted = all;
  std::vector<float> weights(60, 0.0f);
  for (size_t r = 0; r < 60; r += 3) weights[r] = 1 / 20.0f;
  counted.views.clear();
  for (std::vector<float>& rows : counted.data) {
    for (size_t r = 0; r < 20; ++r) std::copy_n(&rows[3 * r * kDim], kDim, &rows[r * kDim]);
    counted.views.emplace_back(rows.data(), 20, kDim);
  }
  LookupArgs args = Args(all, 0.3);
  args.row_weights = weights;
  const auto found = Lookup(args), expected = Lookup(Args(counted, 0.3));
  ASSERT_TRUE(found.ok() && expected.ok());
  for (size_t h = 0; h < heads().size(); ++h) {
    const HeadSelection &f = (*found)[h], &e = (*expected)[h];
    EXPECT_EQ(f.rows, e.rows);
    EXPECT_EQ(f.refined, e.refined);
    EXPECT_EQ(f.bytes, e.bytes);
    const size_t columns = e.logit_tail.num_clusters();
    ASSERT_EQ(f.logit_tail.logits.size(), 60 * columns);
    for (size_t i = 0; i < 60 * columns; ++i) {
      const size_t r = i / columns;
      EXPECT_TRUE(std::isfinite(f.logit_tail.logits[i]) && f.logit_tail.logits[i] != 0) << r;
      if (r % 3 != 0) continue;
      EXPECT_NEAR(f.logit_tail.logits[i], e.logit_tail.logits[r / 3 * columns + i % columns], 1e-3);
    }
  }
}

// A key's logit is at most the cap, whoever chose.
TEST_P(LookupTest, TailsOfRowsThatDoNotChooseAreSoftcapped) {
  if (!GetParam().tail || !GetParam().row_codes) return;
  constexpr float kCap = 0.5f;
  const Queries queries(heads(), 6, 5);
  std::vector<float> weights(6, 0.0f);
  weights[5] = 1;
  LookupArgs args = Args(queries, 0.3);
  args.row_weights = weights;
  args.softcap = kCap;
  const auto found = Lookup(args);
  ASSERT_TRUE(found.ok()) << found.status().message();
  for (size_t h = 0; h < heads().size(); ++h) {
    const LogitTail& tail = (*found)[h].logit_tail;
    std::vector<float> log_counts;
    for (const IndexRange& range : tail.clusters) {
      const std::vector<float>& counts = heads()[h].levels()[tail.level].log_counts;
      log_counts.insert(log_counts.end(), counts.begin() + range.begin, counts.begin() + range.end);
    }
    ASSERT_FALSE(log_counts.empty());
    ASSERT_EQ(tail.logits.size(), 6 * log_counts.size());
    for (size_t i = 0; i < tail.logits.size(); ++i) {
      EXPECT_LE(tail.logits[i], kCap + log_counts[i % log_counts.size()] + 1e-3f);
    }
  }
}

// A head with a budget of its own is looked up as if the layer had no other, whatever else the
// lookup is asked for: softcap, weights of rows, what is known, bounds, rules.
TEST_P(LookupTest, AHeadWithItsOwnBudgetIsLookedUpAlone) {
  const Queries queries(heads(), 6, 5, 3.0f);
  const std::vector<double> budgets(heads().size(), 0.3);
  const std::vector<float> weights = {0, 0, 0.1f, 0, 0.3f, 0.6f};
  const std::vector<std::vector<float>> known(heads().size(), std::vector<float>(6, 1.0f));
  const std::vector<std::function<void(LookupArgs&)>> changes = {
      [](LookupArgs&) {},
      [](LookupArgs& args) { args.softcap = 0.5f; },
      [](LookupArgs& args) { args.second_order = false; },
      [](LookupArgs& args) { args.bound = true; },
      [](LookupArgs& args) { args.rule = {.kind = Rule::kTopP, .mass = 0.7}; },
      [&](LookupArgs& args) { args.row_weights = weights; },
      [&](LookupArgs& args) { args.known_lse = known; }};
  for (size_t change = 0; change < changes.size(); ++change) {
    SCOPED_TRACE(change);
    LookupArgs args = Args(queries, 0.3);
    changes[change](args);
    LookupArgs with_budgets = args;
    with_budgets.head_budgets = budgets;
    const auto found = Lookup(with_budgets);
    ASSERT_TRUE(found.ok()) << found.status().message();
    for (size_t h = 0; h < heads().size(); ++h) {
      LookupArgs of_head = args;
      of_head.heads = args.heads.subspan(h, 1);
      of_head.queries = args.queries.subspan(h, 1);
      if (!args.known_lse.empty()) of_head.known_lse = args.known_lse.subspan(h, 1);
      const auto alone = Lookup(of_head);
      ASSERT_TRUE(alone.ok()) << alone.status().message();
      const HeadSelection &f = (*found)[h], &e = alone->front();
      EXPECT_EQ(f.rows, e.rows);
      EXPECT_EQ(f.refined, e.refined);
      EXPECT_EQ(f.second_order, e.second_order);
      EXPECT_EQ(f.logit_tail.logits, e.logit_tail.logits);
      EXPECT_EQ(f.unread_bound, e.unread_bound);
      EXPECT_EQ(f.bytes, e.bytes);
      EXPECT_EQ(f.missed_mass, e.missed_mass);
    }
  }
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
  const LookupArgs alone = {args.backend, one,       args.heads,    args.queries, args.scale, 0,
                            0.15,         args.tail, args.row_codes};
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

INSTANTIATE_TEST_SUITE_P(All, LookupTest, ::testing::ValuesIn([] {
                           std::vector<LookupCase> cases;
                           for (const uint32_t levels : {1u, 2u, 3u}) {
                             for (const bool row_codes : {false, true}) {
                               for (const bool tail : {false, true})
                                 cases.push_back({levels, row_codes, tail});
                             }
                             cases.push_back({levels, true, true, true});
                           }
                           return cases;
                         }()),
                         [](const auto& param) {
                           return std::to_string(param.param.levels) + "Levels" +
                                  (param.param.row_codes ? "RowCodes" : "WholeClusters") +
                                  (param.param.tail ? "Tail" : "NoTail") +
                                  (param.param.by_queries ? "Metric" : "");
                         });

}  // namespace
}  // namespace lectern
