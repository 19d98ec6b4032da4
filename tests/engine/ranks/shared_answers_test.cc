// Documents that several ranks attend to together: the outputs are those of one process within the
// rounding of joined sums, and an error of one rank is an error of the call.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "engine/engine.h"
#include "engine/ranks/rank_group.h"
#include "engine/ranks/rank_worker.h"
#include "tests/engine/ranks/thread_ranks.h"
#include "tests/engine/test_documents.h"
#include "tests/system_differences.h"

namespace lectern {
namespace {

using testing::ReaderModel;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::ThreadGroup;
using testing::ThreadRank;
using testing::WriteWholeFile;

constexpr char kHallQuestion[] = "Where does the Douquouth committee rent a hall?";

// A group of this thread, which leads, and of threads that follow.
class Ranks {
 public:
  explicit Ranks(uint32_t size, Env& env = Env::Default()) {
    const auto group = std::make_shared<ThreadGroup>(size);
    for (uint32_t rank = 1; rank < size; ++rank) {
      threads_.emplace_back([group, rank, &env, this] {
        ThreadPool pool(1);
        ThreadRank own(group, rank);
        const Status status =
            ServeRank(own, {.env = env, .backend = *DefaultBackend(), .threads = pool});
        EXPECT_TRUE(status.ok()) << status.message();
      });
    }
    leader_ = std::make_shared<RankGroup>(std::make_shared<ThreadRank>(group, 0));
    RankGroup::SetOfProcess(leader_);
  }
  ~Ranks() {
    RankGroup::SetOfProcess(nullptr);
    leader_.reset();
    for (std::thread& thread : threads_) thread.join();
  }
  RankGroup& leader() { return *leader_; }

 private:
  std::shared_ptr<RankGroup> leader_;
  std::vector<std::thread> threads_;
};

class SharedAnswersTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  // The store of an engine without ranks, with the demo's document.
  struct Demo {
    TempFolder store;
    std::unique_ptr<Engine> engine;
    Demo() {
      engine = Open(store.path());
      const auto report = engine->Index(ReadWholeFile(SourcePath("tools/demo/document.txt")), {});
      EXPECT_TRUE(report.ok()) << report.status().message();
    }
  };
  static const Demo& TheDemo() {
    static const Demo demo;
    return demo;
  }
  // An engine of the group that there is at the moment.
  static std::unique_ptr<Engine> Open(const std::string& store) {
    return *Engine::Create({.store = store, .model = ReaderModel(), .num_threads = 1});
  }
  static std::unique_ptr<DocumentSession> Session(Engine& engine) {
    auto session = engine.Open("", nullptr);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return AsDocumentSession(*std::move(session)).value();
  }
};

// The error of the logits `b`, as a share of how far the logits `a` spread.
double Distance(std::span<const float> a, std::span<const float> b) {
  double mean = 0, squares = 0, errors = 0;
  for (const float x : a) mean += x / static_cast<double>(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    squares += (a[i] - mean) * (a[i] - mean);
    errors += double{a[i] - b[i]} * (a[i] - b[i]);
  }
  return std::sqrt(errors / squares);
}

TEST_P(SharedAnswersTest, StepsAreThoseOfOneProcess) {
  const auto alone = Session(*TheDemo().engine);
  Ranks ranks(GetParam());
  const auto engine = Open(TheDemo().store.path());
  const auto shared = Session(*engine);
  const auto question = alone->Tokenize(kHallQuestion);
  ASSERT_TRUE(question.ok());
  for (const double budget : {0.08, 0.1, 0.3, 1.0}) {
    for (const bool tail : {true, false}) {
      SCOPED_TRACE(::testing::Message() << "budget " << budget << ", tail " << tail);
      alone->Forget();
      shared->Forget();
      std::vector<int32_t> ids = question->ids;
      for (int step = 0; step < 4; ++step) {
        const auto expected = alone->Step(ids, budget, tail, nullptr);
        const auto logits = shared->Step(ids, budget, tail, nullptr);
        ASSERT_TRUE(expected.ok() && logits.ok()) << logits.status().message();
        // Joined sums round otherwise; at a small budget a row may then change places with another
        // one of the same score.
        EXPECT_LT(Distance(*expected, *logits), budget == 1 ? 1e-4 : 5e-3) << step;
        const auto best = std::ranges::max_element(*expected);
        ids = {static_cast<int32_t>(best - expected->begin())};
      }
    }
  }
  uint64_t least = UINT64_MAX;
  for (const uint64_t bytes : ranks.leader().bytes_read()) least = std::min(least, bytes);
  EXPECT_GT(least, 0u);
}

TEST_P(SharedAnswersTest, AnswersAreThoseOfOneProcess) {
  Ranks ranks(GetParam());
  const auto engine = Open(TheDemo().store.path());
  AskOptions few, limited, exact;
  few.kv_budget = 0.1f;
  limited.kv_budget = 0.1f;
  limited.max_missed = 0.02f;
  exact.kv_budget = 1;
  for (const AskOptions& options : {AskOptions(), few, limited, exact}) {
    const auto expected = Session(*TheDemo().engine)->Ask(kHallQuestion, options);
    const auto answer = Session(*engine)->Ask(kHallQuestion, options);
    ASSERT_TRUE(expected.ok() && answer.ok()) << answer.status().message();
    EXPECT_EQ(answer->text, expected->text);
    ASSERT_FALSE(answer->evidence.empty());
    EXPECT_EQ(answer->evidence.front().text, expected->evidence.front().text);
    ASSERT_EQ(answer->kv.missed_mass_estimate.has_value(),
              expected->kv.missed_mass_estimate.has_value());
    EXPECT_NEAR(answer->kv.missed_mass_estimate.value_or(0),
                expected->kv.missed_mass_estimate.value_or(0), 1e-3);
    EXPECT_NEAR(answer->kv.read_fraction_prefill, expected->kv.read_fraction_prefill, 0.02);
  }
}

// Documents of two stores, which number their versions alike, are open at the same time.
TEST_P(SharedAnswersTest, DocumentsOfTwoStoresAreToldApart) {
  TempFolder other;
  const std::string text = testing::InventedText(30000, 7);
  ASSERT_TRUE(Open(other.path())->Index(text, {}).ok());
  AskOptions options;
  options.kv_budget = 1;
  Ranks ranks(GetParam());
  const auto first = Open(TheDemo().store.path()), second = Open(other.path());
  const auto asked_first = Session(*first), asked_second = Session(*second);
  ASSERT_EQ(asked_first->document().generation, asked_second->document().generation);
  for (int i = 0; i < 2; ++i) {
    const auto answer = asked_first->Ask(kHallQuestion, options);
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    const std::string right = "Stuxwick";
    EXPECT_EQ(answer->text.substr(0, right.size()), right);
    const auto others = asked_second->Ask(kHallQuestion, options);
    ASSERT_TRUE(others.ok()) << others.status().message();
    EXPECT_NE(others->text.substr(0, right.size()), right);
  }
}

// Two sessions of one engine take turns, layer by layer, also where they share steps.
TEST_P(SharedAnswersTest, SessionsTakeTurns) {
  AskOptions options;
  options.kv_budget = 0.1f;
  const auto expected = Session(*TheDemo().engine)->Ask(kHallQuestion, options);
  Ranks ranks(GetParam());
  const auto engine = Open(TheDemo().store.path());
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const auto answer = Session(*engine)->Ask(kHallQuestion, options);
      ASSERT_TRUE(answer.ok()) << answer.status().message();
      EXPECT_EQ(answer->text, expected->text);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The byte lies where the leader, which owns at most half of a head's rows, never reads.
TEST_P(SharedAnswersTest, DamageThatOneRankFindsIsTheErrorOfTheCall) {
  TempFolder store;
  std::filesystem::remove(store.path());  // GCC's library for Windows copies no folder onto another
  std::filesystem::copy(
      TheDemo().store.path(), store.path(),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  constexpr uint32_t kDamagedLayer = 1;
  std::string stored;
  {
    const auto engine = Open(store.path());
    const auto session = Session(*engine);
    const HeadIndex& head = (*session->indexed().Heads(kDamagedLayer))[0];
    // A checksum covers 64 KiB, of which other ranks may own a part.
    const auto cluster = static_cast<uint32_t>(head.levels().back().num_clusters() * 3 / 4);
    const TypedRows keys = head.Keys(head.ClusterRows(cluster));
    stored.assign(reinterpret_cast<const char*>(keys.data), keys.num_rows * keys.row_bytes());
  }
  size_t found = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(store.path())) {
    if (!entry.is_regular_file()) continue;
    std::string bytes = ReadWholeFile(entry.path());
    const size_t at = bytes.find(stored);
    if (at == std::string::npos) continue;
    ++found;
    bytes[at + 1] ^= 0x10;
    WriteWholeFile(entry.path(), bytes);
  }
  ASSERT_EQ(found, 1u);
  Ranks ranks(GetParam());
  const auto damaged = Open(store.path()), good = Open(TheDemo().store.path());
  AskOptions options;
  options.kv_budget = 1;
  const auto answer = Session(*damaged)->Ask(kHallQuestion, options);
  EXPECT_EQ(answer.status().code(), Code::kChecksumMismatch);
  EXPECT_EQ(answer.status().message().find("rank "), 0u) << answer.status().message();
  // The group goes on.
  const auto next = Session(*good)->Ask(kHallQuestion, options);
  EXPECT_TRUE(next.ok()) << next.status().message();
}

// A rank that cannot open the document says so.
TEST_P(SharedAnswersTest, ADocumentThatARankCannotOpenIsAnError) {
  if (kIsWindows) GTEST_SKIP() << "nobody can remove a document that somebody has open";
  TempFolder store;
  std::filesystem::remove(store.path());  // GCC's library for Windows copies no folder onto another
  std::filesystem::copy(
      TheDemo().store.path(), store.path(),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  Ranks ranks(GetParam());
  const auto engine = Open(store.path());
  const auto session = Session(*engine);
  std::filesystem::remove_all(store.path());
  const auto answer = session->Ask(kHallQuestion, {});
  EXPECT_EQ(answer.status().code(), Code::kNotFound);
  EXPECT_NE(answer.status().message().find("rank 1: "), std::string::npos)
      << answer.status().message();
}

INSTANTIATE_TEST_SUITE_P(All, SharedAnswersTest, ::testing::Values(2u, 3u, 4u, 8u));

}  // namespace
}  // namespace lectern
