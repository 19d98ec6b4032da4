// Many threads ask at once, of one document and of several, while others are indexed and removed.
#include <gtest/gtest.h>

#include <thread>

#include "engine/engine.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::IndexToAsk;
using testing::InventedText;
using testing::TempFolder;
using testing::TinyModel;

AskOptions Options(float budget) {
  AskOptions options;
  options.kv_budget = budget;
  options.max_tokens = 6;
  return options;
}

TEST(ConcurrentAsksTest, AnswersAreThoseOfOneAskAtATime) {
  const TempFolder store;
  auto engine = Engine::Create({.store = store.path(), .model = TinyModel(), .num_threads = 2});
  ASSERT_TRUE(engine.ok());
  IndexOptions index;
  for (const char* name : {"a", "b"}) {
    index.name = name;
    const std::string text = InventedText(6500, static_cast<uint64_t>(name[0]));
    const IndexReport report = IndexToAsk(store.path(), TinyModel(), text, index);
    ASSERT_FALSE(report.levels.empty());  // long enough for clusters
  }
  const std::vector<std::string> questions = {"Which road?", "What did the clerk open?",
                                              "Who watched the river?"};
  std::vector<std::string> expected;
  for (const char* name : {"a", "b"}) {
    for (const std::string& question : questions) {
      auto session = (*engine)->Open(name);
      ASSERT_TRUE(session.ok());
      expected.push_back((*session)->Ask(question, Options(0.2f))->text);
    }
  }
  std::vector<std::thread> threads;
  std::vector<std::string> failures(6);
  for (size_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 3; ++round) {
        auto session = (*engine)->Open(t < 3 ? "a" : "b");
        if (!session.ok()) {
          failures[t] = session.status().message();
          return;
        }
        const auto answer = (*session)->Ask(questions[t % 3], Options(0.2f));
        if (!answer.ok()) failures[t] = answer.status().message();
        if (answer.ok() && answer->text != expected[t]) failures[t] = "another answer";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
}

TEST(ConcurrentAsksTest, RemovingADocumentLeavesItsOpenSessionsWorking) {
  const TempFolder store;
  auto engine = Engine::Create({.store = store.path(), .model = TinyModel(), .num_threads = 2});
  ASSERT_TRUE(engine.ok());
  IndexToAsk(store.path(), TinyModel(), InventedText(6500, 1));
  auto session = (*engine)->Open("");
  ASSERT_TRUE(session.ok());
  const auto before = (*session)->Ask("Which road?", Options(0.2f));
  ASSERT_TRUE(before.ok());
  auto other = (*engine)->Open("");
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE((*engine)->Remove(before->document).ok());
  EXPECT_EQ((*engine)->Open("").status().code(), Code::kNotFound);
  const auto after = (*other)->Ask("Which road?", Options(0.2f));
  ASSERT_TRUE(after.ok()) << after.status().message();
  EXPECT_EQ(after->text, before->text);
}

TEST(ConcurrentAsksTest, IndexingAndCancellingBesideAsks) {
  const TempFolder store;
  auto engine = Engine::Create({.store = store.path(), .model = TinyModel(), .num_threads = 2});
  ASSERT_TRUE(engine.ok());
  IndexOptions index;
  index.name = "a";
  IndexToAsk(store.path(), TinyModel(), InventedText(6500, 2), index);
  CancelFlag cancel = false;
  std::thread indexer([&] {
    IndexOptions options;
    options.name = "long";
    options.cancel = &cancel;
    const auto report = (*engine)->Index(InventedText(30000, 3), options);
    EXPECT_TRUE(report.ok() || report.status().code() == Code::kCancelled ||
                report.status().code() == Code::kLocked)
        << report.status().message();
  });
  std::thread second([&] {  // one at a time: the one that comes later is told so
    const auto report = (*engine)->Index(InventedText(6500, 4), {});
    EXPECT_TRUE(report.ok() || report.status().code() == Code::kLocked)
        << report.status().message();
  });
  for (int i = 0; i < 3; ++i) {
    auto session = (*engine)->Open("a");
    ASSERT_TRUE(session.ok());
    EXPECT_TRUE((*session)->Ask("Which road?", Options(0.3f)).ok());
  }
  cancel = true;
  indexer.join();
  second.join();
}

// A latency promise is tested by counting: after the flag is set no further token is decoded.
TEST(ConcurrentAsksTest, CancelStopsBeforeTheNextToken) {
  const TempFolder store;
  auto engine = Engine::Create({.store = store.path(), .model = TinyModel(), .num_threads = 2});
  ASSERT_TRUE(engine.ok());
  IndexToAsk(store.path(), TinyModel(), InventedText(700, 5));
  auto session = (*engine)->Open("");
  ASSERT_TRUE(session.ok());
  CancelFlag cancel = false;
  AskOptions options = Options(0.2f);
  options.max_tokens = 200;
  options.cancel = &cancel;
  int pieces_after = 0;
  options.on_text = [&](std::string_view) {
    pieces_after += cancel.load();
    cancel = true;
    return true;
  };
  const auto answer = (*session)->Ask("Which road?", options);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->finish_reason, "cancelled");
  EXPECT_LE(pieces_after, 1);  // what the stream held back at most
  EXPECT_LE(answer->answer_tokens, 4u);

  // Set before the call: nothing is decoded, the session goes on as before.
  EXPECT_EQ((*session)->Ask("Which road?", options).status().code(), Code::kCancelled);
  cancel = false;
  EXPECT_TRUE((*session)->Ask("Which road?", Options(0.2f)).ok());
}

}  // namespace
}  // namespace lectern
