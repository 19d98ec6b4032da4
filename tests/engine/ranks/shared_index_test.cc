// Documents that several ranks index together: keys and values are those of one process within the
// rounding of sums, and runs that end early go on or leave the store as it was.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "engine/engine.h"
#include "engine/indexing/ranked_index.h"
#include "engine/indexing/ranked_prefill.h"
#include "engine/ranks/rank_group.h"
#include "tests/engine/ranks/thread_ranks.h"
#include "tests/engine/test_documents.h"
#include "tests/system_differences.h"

namespace lectern {
namespace {

using testing::Floats;
using testing::InventedText;
using testing::ReaderModel;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::ThreadGroup;
using testing::ThreadRank;
using testing::TinyModel;

TEST(RankTokensTest, EachTokenIsOneRanks) {
  for (const uint32_t size : {1u, 2u, 3u, 8u}) {
    std::vector<uint64_t> counts(size);
    for (uint64_t position = 0; position < 5000; ++position) {
      const auto owner = static_cast<uint32_t>(position / kChunkTokens % size);
      for (uint32_t rank = 0; rank < size; ++rank) {
        ASSERT_EQ((RankTokens{rank, size}.Below(position)), counts[rank]) << position;
      }
      ++counts[owner];
    }
  }
}

class SharedIndexTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  // Runs `body` as the first rank of a group whose others follow.
  template <typename Body>
  static void WithRanks(uint32_t size, const Body& body) {
    const auto group = std::make_shared<ThreadGroup>(size);
    std::vector<std::thread> threads;
    for (uint32_t rank = 1; rank < size; ++rank) {
      threads.emplace_back([group, rank] {
        ThreadPool pool(1);
        ThreadRank own(group, rank);
        const Status status =
            ServeRank(own, {.env = Env::Default(), .backend = *DefaultBackend(), .threads = pool},
                      IndexAsRank);
        EXPECT_TRUE(status.ok()) << status.message();
      });
    }
    RankGroup::SetOfProcess(std::make_shared<RankGroup>(std::make_shared<ThreadRank>(group, 0)));
    body();
    RankGroup::SetOfProcess(nullptr);
    for (std::thread& thread : threads) thread.join();
  }
  static std::unique_ptr<Engine> Open(const std::string& store, const std::string& model) {
    return *Engine::Create({.store = store, .model = model, .num_threads = 1});
  }
  static std::unique_ptr<DocumentSession> Session(Engine& engine) {
    auto session = engine.Open("", nullptr);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return AsDocumentSession(*std::move(session)).value();
  }
  // The rows of a head by position, K or V, as floats.
  static std::vector<std::vector<float>> RowsOf(const Document& document, uint32_t layer,
                                                uint32_t head, bool values) {
    const HeadIndex& index = (*document.Heads(layer))[head];
    std::vector<std::vector<float>> rows(document.tokens().size());
    const auto add = [&](IndexRange block) {
      const TypedRows all = values ? index.Values(block) : index.Keys(block);
      const std::vector<float> numbers = Floats(all);
      for (size_t i = 0; i < block.size(); ++i) {
        const auto begin = numbers.begin() + static_cast<ptrdiff_t>(i * all.num_cols);
        rows[index.positions()[block.begin + i]].assign(
            begin, begin + static_cast<ptrdiff_t>(all.num_cols));
      }
    };
    add({0, index.num_exact()});
    if (!index.levels().empty()) {
      for (uint32_t i = 0; i < index.levels().back().num_clusters(); ++i) add(index.ClusterRows(i));
    }
    return rows;
  }
};

// Texts of several rounds: one that ends with a part of a chunk, one with fewer chunks than ranks
// in its last round. The bundled reader has grouped queries, the tiny model two layers.
TEST_P(SharedIndexTest, RowsAreThoseOfOneProcess) {
  const std::string demo = ReadWholeFile(SourcePath("tools/demo/document.txt"));
  for (const auto& [model, text] :
       {std::pair(ReaderModel(), demo), std::pair(TinyModel(), InventedText(30000, 5))}) {
    TempFolder alone, together;
    IndexOptions options;
    options.kv_dtype = Dtype::kF32;
    const auto one = Open(alone.path(), model);
    const auto expected = one->Index(text, options);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    WithRanks(GetParam(), [&] {
      const auto engine = Open(together.path(), model);
      const auto report = engine->Index(text, options);
      ASSERT_TRUE(report.ok()) << report.status().message();
      EXPECT_TRUE(report->warnings.empty());
      EXPECT_EQ(report->document, expected->document);
      for (size_t level = 0; level < report->levels.size(); ++level) {
        EXPECT_EQ(report->levels[level].centroids, expected->levels[level].centroids);
      }
    });
    const auto engine = Open(together.path(), model);
    const auto damage = engine->Verify("", /*full=*/true);
    ASSERT_TRUE(damage.ok());
    EXPECT_TRUE(damage->empty());
    const auto ours = Session(*engine), theirs = Session(*one);
    const Document &a = ours->indexed(), &b = theirs->indexed();
    for (uint32_t layer = 0; layer < a.num_layers(); ++layer) {
      for (uint32_t head = 0; head < a.shape().num_kv_heads; ++head) {
        for (const bool values : {false, true}) {
          const auto rows = RowsOf(a, layer, head, values), others = RowsOf(b, layer, head, values);
          double error = 0, size = 0;
          for (size_t i = 0; i < rows.size(); ++i) {
            ASSERT_EQ(rows[i].size(), others[i].size()) << i;
            ASSERT_FALSE(rows[i].empty()) << i;
            for (size_t c = 0; c < rows[i].size(); ++c) {
              error += std::pow(rows[i][c] - others[i][c], 2);
              size += std::pow(others[i][c], 2);
            }
          }
          EXPECT_LT(std::sqrt(error / size), 1e-5) << layer << ' ' << head << ' ' << values;
        }
      }
    }
    // Nothing of the ranks is left beside the shards.
    for (const auto& entry : std::filesystem::recursive_directory_iterator(together.path())) {
      // Ranks of one process keep their files open, and on Windows so the folder.
      const bool is_of_rank = entry.path().filename().string().starts_with("rank");
      EXPECT_TRUE(!is_of_rank || kIsWindows) << entry.path();
      EXPECT_EQ(entry.path().filename().string().find("spill"), std::string::npos) << entry.path();
    }
  }
}

TEST_P(SharedIndexTest, AnswersAreRight) {
  TempFolder store;
  WithRanks(GetParam(), [&] {
    const auto engine = Open(store.path(), ReaderModel());
    const auto report = engine->Index(ReadWholeFile(SourcePath("tools/demo/document.txt")), {});
    ASSERT_TRUE(report.ok()) << report.status().message();
    // Asked by the ranks that indexed it.
    const auto answer =
        Session(*engine)->Ask("Where does the Douquouth committee rent a hall?", {});
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(answer->text, "Stuxwick");
  });
}

// Questions that come while the ranks index another document are answered by the first one alone.
TEST_P(SharedIndexTest, QuestionsDoNotWaitForIt) {
  TempFolder store, other;
  const std::string text = ReadWholeFile(SourcePath("tools/demo/document.txt"));
  ASSERT_TRUE(Open(store.path(), ReaderModel())->Index(text, {}).ok());
  WithRanks(GetParam(), [&] {
    const auto engine = Open(store.path(), ReaderModel());
    const auto indexer = Open(other.path(), ReaderModel());
    AskOptions ask;
    ask.kv_budget = 0.1f;
    IndexOptions options;
    int asked = 0;
    options.on_progress = [&](const IndexProgress& progress) {
      if (progress.stage != IndexProgress::Stage::kPrefill || progress.done == 0) return true;
      // Within the run, which holds the group.
      const auto answer =
          Session(*engine)->Ask("Where does the Douquouth committee rent a hall?", ask);
      EXPECT_TRUE(answer.ok()) << answer.status().message();
      EXPECT_EQ(answer->text, "Stuxwick");
      ++asked;
      return true;
    };
    ASSERT_TRUE(indexer->Index(text, options).ok());
    EXPECT_GT(asked, 0);
  });
}

// A cancelled run goes on where it stopped, with the same ranks; with others it begins anew.
TEST_P(SharedIndexTest, ACancelledRunGoesOn) {
  TempFolder store, whole;
  const std::string text = ReadWholeFile(SourcePath("tools/demo/document.txt"));
  CancelFlag cancel = false;
  IndexOptions options;
  options.checkpoint_seconds = 0;
  WithRanks(2, [&] {
    const auto engine = Open(store.path(), ReaderModel());
    options.cancel = &cancel;
    options.on_progress = [&](const IndexProgress& progress) {
      if (progress.done > 0) cancel = true;
      return true;
    };
    const auto report = engine->Index(text, options);
    EXPECT_EQ(report.status().code(), Code::kCancelled);
  });
  options.cancel = nullptr;
  options.on_progress = {};
  WithRanks(GetParam(), [&] {
    const auto engine = Open(store.path(), ReaderModel());
    const auto report = engine->Index(text, options);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->resumed_tokens, GetParam() == 2 ? 2 * kChunkTokens : 0);
    const auto damage = engine->Verify("", /*full=*/true);
    EXPECT_TRUE(damage.ok() && damage->empty());
    const auto answer =
        Session(*engine)->Ask("Where does the Douquouth committee rent a hall?", {});
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->text, "Stuxwick");
  });
}

// The model is another one by the time that the other ranks read it: an error, and nothing is left
// that a later run would trip over.
TEST_P(SharedIndexTest, AnErrorOfOneRankIsTheErrorOfTheRun) {
  TempFolder store, model;
  std::filesystem::remove(model.path());  // GCC's library for Windows copies no folder onto another
  std::filesystem::copy(
      TinyModel(), model.path(),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  const std::string text = InventedText(30000, 5);
  WithRanks(GetParam(), [&] {
    const auto engine = Open(store.path(), model.path());
    const auto first = engine->Index(text, {});
    ASSERT_TRUE(first.ok()) << first.status().message();
    std::filesystem::rename(model.path() + "/config.json", model.path() + "/away.json");
    IndexOptions again;
    again.again = true;
    const auto report = engine->Index(text, again);
    EXPECT_FALSE(report.ok());
    EXPECT_EQ(report.status().message().find("rank 1: "), 0u) << report.status().message();
    std::filesystem::rename(model.path() + "/away.json", model.path() + "/config.json");
    const auto repaired = engine->Index(text, again);
    ASSERT_TRUE(repaired.ok()) << repaired.status().message();
    const auto damage = engine->Verify("", /*full=*/true);
    EXPECT_TRUE(damage.ok() && damage->empty());
  });
}

TEST(SharedIndexAloneTest, WhatRanksCannotDoTheFirstOneDoes) {
  IndexOptions options;
  EXPECT_EQ(RankedIndex::WhyAlone(options, 1), "");
  EXPECT_NE(RankedIndex::WhyAlone(options, 0.1), "");
  options.stats = "full";
  EXPECT_NE(RankedIndex::WhyAlone(options, 1), "");
}

INSTANTIATE_TEST_SUITE_P(All, SharedIndexTest, ::testing::Values(2u, 3u, 4u, 8u));

}  // namespace
}  // namespace lectern
