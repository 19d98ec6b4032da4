// Sessions that take their steps together: what each computes is what it computes alone, whatever
// becomes of the others.
#include "engine/forward/step_batch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/asking/ask.h"
#include "tests/engine/test_documents.h"
#include "tests/thread_barrier.h"

namespace lectern {
namespace {

using std::chrono::milliseconds;
using testing::IndexToAsk;
using testing::InventedText;
using testing::TempFolder;
using testing::TinyModel;

// Nobody goes on without another, nobody alone: who takes part in a step is known.
constexpr StepBatch::Limits kTogether = {.least_patience = std::chrono::minutes(10),
                                         .max_lag = 1e9};

// ---- sessions ----

AskOptions Options(float budget, uint32_t max_tokens) {
  AskOptions options;
  options.kv_budget = budget;
  options.max_tokens = max_tokens;
  return options;
}

// Attention of all layers and steps, and the answer.
struct Recorded {
  std::vector<float> attended;
  std::string text, finish_reason;
  uint64_t bytes_read = 0;
  Status status;
};

Recorded Record(DocumentSession& session, const std::string& question, const AskOptions& options) {
  Recorded recorded;
  const auto on_layer = session.probe().on_layer;
  session.probe().on_layer = [&](const LayerStep& step) {
    for (const Rows<float>& head : step.attended) {
      for (size_t r = 0; r < head.num_rows; ++r) {
        recorded.attended.insert(recorded.attended.end(), head[r], head[r] + head.num_cols);
      }
    }
    if (on_layer) on_layer(step);
  };
  const Result<Answer> answer = session.Ask(question, options);
  session.probe().on_layer = on_layer;
  recorded.status = answer.status();
  if (!answer.ok()) return recorded;
  recorded.text = answer->text;
  recorded.finish_reason = answer->finish_reason;
  recorded.bytes_read = answer->kv.bytes_read;
  return recorded;
}

void ExpectEqual(const Recorded& a, const Recorded& b) {
  EXPECT_TRUE(a.status.ok()) << a.status.message();
  EXPECT_TRUE(b.status.ok()) << b.status.message();
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.finish_reason, b.finish_reason);
  EXPECT_EQ(a.bytes_read, b.bytes_read);
  EXPECT_TRUE(a.attended == b.attended);
}

const std::vector<std::string> kQuestions = {
    "Which road?",       "What did the clerk open?", "Who watched the river?",
    "Where is the old?", "When did it rain?",        "How many stones?"};

class SessionsTogetherTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    store_ = new TempFolder;
    auto engine = Engine::Create({.store = store_->path(), .model = TinyModel(), .num_threads = 2});
    ASSERT_TRUE(engine.ok());
    engine_ = engine->release();
    IndexOptions index;
    for (const char* name : {"a", "b"}) {
      index.name = name;
      const std::string text = InventedText(6500, static_cast<uint64_t>(name[0]));
      const IndexReport report = IndexToAsk(store_->path(), TinyModel(), text, index);
      ASSERT_FALSE(report.levels.empty());  // long enough for clusters
    }
    index.name = "q8";
    IndexToAsk(store_->path(), TinyModel(), InventedText(700, 1), index, WeightsType::kQ8);
  }
  static void TearDownTestSuite() {
    delete engine_;
    delete store_;
  }
  static std::unique_ptr<DocumentSession> Open(const std::string& name,
                                               std::shared_ptr<StepBatch> batch) {
    auto session = engine_->Open(name);
    EXPECT_TRUE(session.ok());
    auto* opened = static_cast<DocumentSession*>(session->release());
    opened->ShareSteps(std::move(batch));
    return std::unique_ptr<DocumentSession>(opened);
  }
  static std::shared_ptr<StepBatch> NewBatch(WeightsType weights = WeightsType::kStored) {
    auto model =
        Model::Load(Env::Default(), TinyModel(), {.store = store_->path(), .weights = weights});
    EXPECT_TRUE(model.ok());
    return std::make_shared<StepBatch>(*model, *DefaultBackend(), std::make_shared<ThreadPool>(2),
                                       kTogether);
  }
  // A question each of the documents in turn, all generating from the same moment on.
  static std::vector<Recorded> AskTogether(std::shared_ptr<StepBatch> batch, size_t count,
                                           const AskOptions& options,
                                           const std::vector<std::string>& documents) {
    ThreadBarrier all_first(count);
    std::vector<Recorded> recorded(count);
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        const auto session = Open(documents[i % documents.size()], batch);
        session->probe().on_first_logits = [&](std::span<const float>) {
          all_first.ArriveAndWait();
        };
        int steps = 0;
        session->probe().on_layer = [&](const LayerStep& step) {
          // Who comes first is not through before the others are there.
          if (step.layer == 0 && steps++ == 1) std::this_thread::sleep_for(milliseconds(50));
        };
        recorded[i] = Record(*session, kQuestions[i], options);
      });
    }
    threads.clear();
    return recorded;
  }
  static Recorded AskAlone(size_t i, const AskOptions& options,
                           const std::vector<std::string>& documents = {"a", "b"}) {
    return Record(*Open(documents[i % documents.size()], nullptr), kQuestions[i], options);
  }

  static TempFolder* store_;
  static Engine* engine_;
};
TempFolder* SessionsTogetherTest::store_ = nullptr;
Engine* SessionsTogetherTest::engine_ = nullptr;

TEST_F(SessionsTogetherTest, EverySessionsBitsAreThoseItHasAlone) {
  struct Case {
    std::vector<std::string> documents;
    WeightsType weights;
    float budget;
  };
  for (const auto& [documents, weights, budget] :
       {Case{{"a", "b"}, WeightsType::kStored, 0.1f}, Case{{"a", "b"}, WeightsType::kStored, 1.0f},
        Case{{"q8"}, WeightsType::kQ8, 1.0f}}) {
    const AskOptions options = Options(budget, 12);
    const auto batch = NewBatch(weights);
    const std::vector<Recorded> together = AskTogether(batch, 6, options, documents);
    for (size_t i = 0; i < together.size(); ++i) {
      SCOPED_TRACE(documents.front() + " " + std::to_string(i));
      const Recorded alone = AskAlone(i, options, documents);
      EXPECT_GT(alone.bytes_read, 0u);
      ExpectEqual(together[i], alone);
    }
    EXPECT_LT(batch->counts().passes, batch->counts().tokens / 2);
  }
}

TEST_F(SessionsTogetherTest, FourSessionsPassOverTheWeightsAboutOnceForFourTokens) {
  const auto batch = NewBatch();
  for (const Recorded& recorded : AskTogether(batch, 4, Options(0.1f, 24), {"a", "b"})) {
    ASSERT_TRUE(recorded.status.ok());
    EXPECT_EQ(recorded.finish_reason, "length");
  }
  const auto [passes, tokens] = batch->counts();
  EXPECT_EQ(tokens, 4u * 23);
  EXPECT_LT(passes, tokens / 2);  // 24 where the first one begins before the others are there
}

TEST_F(SessionsTogetherTest, OthersGoOnWhenOneIsCancelledFailsThrowsOrComesLate) {
  const auto batch = NewBatch();
  const AskOptions options = Options(0.1f, 20);
  ThreadBarrier all_first(6);
  std::atomic<int> steps_of_first = 0;
  std::vector<Recorded> whole(3), again(2);
  Recorded cancelled, said_enough, failed, threw;
  std::vector<std::jthread> threads;
  const auto start = [&](size_t i, auto&& run) {
    threads.emplace_back([&, i, run] {
      const auto session = Open(i % 2 == 0 ? "a" : "b", batch);
      session->probe().on_first_logits = [&](std::span<const float>) { all_first.ArriveAndWait(); };
      run(*session);
      session->probe().on_first_logits = {};
    });
  };
  const auto count_layers = [](DocumentSession& session, int& layers) {
    session.probe().on_layer = [&layers](const LayerStep& step) {
      if (step.num_tokens == 1) ++layers;
    };
  };
  start(0, [&](DocumentSession& session) {
    session.probe().on_layer = [&](const LayerStep& step) {
      if (step.num_tokens == 1 && step.layer == 0) ++steps_of_first;
    };
    whole[0] = Record(session, kQuestions[0], options);
  });
  start(1, [&](DocumentSession& session) { whole[1] = Record(session, kQuestions[1], options); });
  start(2, [&](DocumentSession& session) {  // in the middle of a step
    CancelFlag cancel = false;
    AskOptions mine = options;
    mine.cancel = &cancel;
    int steps = 0;
    session.probe().on_layer = [&](const LayerStep& step) {
      if (step.num_tokens == 1 && step.layer == 0 && ++steps == 3) cancel = true;
    };
    cancelled = Record(session, kQuestions[2], mine);
  });
  start(3, [&](DocumentSession& session) {
    AskOptions mine = options;
    int pieces = 0;
    mine.on_text = [&](std::string_view) { return ++pieces < 5; };
    said_enough = Record(session, kQuestions[3], mine);
  });
  start(4, [&](DocumentSession& session) {
    int layers = 0;
    count_layers(session, layers);
    session.probe().selector = [&](uint32_t,
                                   const LookupArgs& args) -> Result<std::vector<HeadSelection>> {
      if (layers == 5) return Status(Code::kChecksumMismatch, "damaged");
      return Lookup(args);
    };
    failed = Record(session, kQuestions[4], options);
    session.probe().selector = {};
    session.probe().on_layer = {};
    session.probe().on_first_logits = {};
    again[0] = Record(session, kQuestions[4], options);
  });
  start(5, [&](DocumentSession& session) {
    int layers = 0;
    count_layers(session, layers);
    session.probe().selector = [&](uint32_t,
                                   const LookupArgs& args) -> Result<std::vector<HeadSelection>> {
      if (layers == 8) throw std::bad_alloc();
      return Lookup(args);
    };
    threw = Record(session, kQuestions[5], options);
    session.probe().selector = {};
    session.probe().on_layer = {};
    session.probe().on_first_logits = {};
    again[1] = Record(session, kQuestions[5], options);
  });
  threads.emplace_back([&] {
    while (steps_of_first < 6) std::this_thread::sleep_for(milliseconds(1));
    whole[2] = Record(*Open("a", batch), kQuestions[2], options);
  });
  threads.clear();
  for (size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    ExpectEqual(whole[i], AskAlone(i, options));
  }
  EXPECT_EQ(cancelled.finish_reason, "cancelled");
  EXPECT_EQ(said_enough.finish_reason, "cancelled");
  EXPECT_EQ(failed.status.code(), Code::kChecksumMismatch);
  EXPECT_EQ(threw.status.code(), Code::kOutOfMemory);
  ExpectEqual(again[0], AskAlone(4, options));  // the sessions stand where they stood
  ExpectEqual(again[1], AskAlone(5, options));
  // They did go together, from the first step on; how often is a matter of scheduling.
  const auto [passes, tokens] = batch->counts();
  EXPECT_LT(passes, tokens);
}

TEST_F(SessionsTogetherTest, AnEnginesSessionsOfOneModelShareTheirSteps) {
  const auto a = engine_->Open("a"), b = engine_->Open("b");
  const auto& batch = static_cast<DocumentSession&>(**a).step_batch();
  EXPECT_NE(batch, nullptr);
  EXPECT_EQ(batch, static_cast<DocumentSession&>(**b).step_batch());
  const uint64_t before = batch->counts().tokens;
  ASSERT_TRUE((*b)->Ask("Which road?", Options(0.1f, 5)).ok());
  EXPECT_EQ(batch->counts().tokens, before + 4);
}

// ---- steps, with an attention of the test's own ----

class StepBatchTest : public ::testing::Test {
 protected:
  StepBatchTest()
      : model_(*Model::Load(Env::Default(), TinyModel(), {})),
        threads_(std::make_shared<ThreadPool>(2)) {}

  std::shared_ptr<StepBatch> NewBatch(const StepBatch::Limits& limits) {
    return std::make_shared<StepBatch>(model_, *DefaultBackend(), threads_, limits);
  }

  // Stands for a session: its activations, and an attention that depends on all of its arguments.
  struct Member {
    explicit Member(StepBatchTest& test)
        : activations(test.model_->config(), 1, 2),
          logits(test.model_->config().vocab_size),
          transformer(*test.model_, *DefaultBackend(), *test.threads_) {}
    Status Step(StepBatch* batch, int32_t id, const std::function<Status(uint32_t)>& before = {},
                const CancelFlag* cancel = nullptr) {
      transformer.Embed({&id, 1}, 7, activations);
      const auto attend = [&](uint32_t layer) {
        if (before) {
          if (Status status = before(layer); !status.ok()) return status;
        }
        for (size_t i = 0; i < activations.attended.size(); ++i) {
          activations.attended[i] =
              activations.queries[i] + activations.keys[i % activations.keys.size()] *
                                           activations.values[i % activations.values.size()];
        }
        return Status();
      };
      if (batch != nullptr) {
        return batch->Run(
            seat, activations, {logits.data(), 1, logits.size()},
            [&](uint32_t layer, Activations&, size_t) { return attend(layer); }, cancel);
      }
      const Status status = transformer.RunLayers(1, activations, attend);
      if (!status.ok()) return status;
      return transformer.Logits(0, 1, activations, {logits.data(), 1, logits.size()});
    }
    Activations activations;
    std::vector<float> logits;
    const Transformer transformer;
    StepBatch::Seat seat;
  };

  const std::shared_ptr<const Model> model_;
  const std::shared_ptr<ThreadPool> threads_;
};

TEST_F(StepBatchTest, AStepWhoseLeaderFailsIsEndedByAnother) {
  const auto batch = NewBatch(kTogether);
  std::atomic<int> handed_over = 0;
  std::vector<std::jthread> threads;
  for (int32_t m = 0; m < 3; ++m) {
    threads.emplace_back([&, m] {
      Member member(*this), alone(*this);
      const auto self = std::this_thread::get_id();
      for (int32_t step = 0; step < 8; ++step) {
        const int32_t id = 10 + m * 20 + step;
        const bool fails = m == 2 && step == 3;
        // Who comes first is not through before the others are there; who comes last leads.
        if (m == 2 && step > 0) std::this_thread::sleep_for(milliseconds(20));
        std::thread::id leader;
        const Status status = member.Step(batch.get(), id, [&](uint32_t layer) {
          if (step == 0) std::this_thread::sleep_for(milliseconds(50));
          if (layer == 0) leader = std::this_thread::get_id();
          if (leader != std::this_thread::get_id()) ++handed_over;
          return fails && leader == self ? Status(Code::kChecksumMismatch, "damaged") : Status();
        });
        if (!status.ok()) {
          EXPECT_TRUE(fails);
          EXPECT_EQ(status.code(), Code::kChecksumMismatch);
          continue;
        }
        EXPECT_TRUE(alone.Step(nullptr, id).ok());
        EXPECT_TRUE(member.logits == alone.logits) << m << " " << step;
      }
      batch->Leave(member.seat);
    });
  }
  threads.clear();
  EXPECT_GT(handed_over, 0);
}

TEST_F(StepBatchTest, WhoWaitsForAStepOfOthersCanBeCancelled) {
  const auto batch = NewBatch(kTogether);
  std::atomic<bool> has_begun = false, is_cancelled = false;
  std::jthread other([&] {
    Member member(*this);
    const Status status = member.Step(batch.get(), 11, [&](uint32_t) {
      has_begun = true;
      for (int i = 0; !is_cancelled && i < 30000; ++i) std::this_thread::sleep_for(milliseconds(1));
      return is_cancelled ? Status() : Status(Code::kInvalidArgument, "waited half a minute");
    });
    EXPECT_TRUE(status.ok()) << status.message();
    batch->Leave(member.seat);
  });
  while (!has_begun) std::this_thread::sleep_for(milliseconds(1));
  Member member(*this);
  const CancelFlag cancel = true;
  EXPECT_EQ(member.Step(batch.get(), 12, {}, &cancel).code(), Code::kCancelled);
  is_cancelled = true;
  other.join();
  EXPECT_TRUE(member.Step(batch.get(), 12).ok());
}

TEST_F(StepBatchTest, WhoDoesNotComeBackIsWaitedForOnceAndNotForLong) {
  const auto batch = NewBatch({});
  Member stays(*this);
  std::atomic<bool> is_gone = false;
  std::jthread other([&] {
    Member goes(*this);
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(goes.Step(batch.get(), 11).ok());
    is_gone = true;
  });
  while (!is_gone) ASSERT_TRUE(stays.Step(batch.get(), 12).ok());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(stays.Step(batch.get(), 12).ok());  // or never
}

TEST_F(StepBatchTest, WhoLeavesIsNotWaitedFor) {
  const auto batch = NewBatch(kTogether);
  ThreadBarrier both(2);
  std::vector<std::jthread> threads;
  for (const int steps : {5, 50}) {
    threads.emplace_back([&, steps] {
      Member member(*this);
      both.ArriveAndWait();
      for (int i = 0; i < steps; ++i) EXPECT_TRUE(member.Step(batch.get(), 12).ok());
      batch->Leave(member.seat);
    });
  }
  threads.clear();  // or else in ten minutes
}

// One whose attention takes long must not hold up others: after its first step it goes alone.
TEST_F(StepBatchTest, ASlowAttentionGoesAlone) {
  const auto batch = NewBatch({.least_patience = std::chrono::minutes(10), .max_lag = 1});
  std::atomic<bool> slow_is_done = false;
  std::atomic<int> quick_steps = 0;
  ThreadBarrier both(2);
  std::vector<std::jthread> threads;
  threads.emplace_back([&] {
    Member slow(*this);
    both.ArriveAndWait();
    for (int i = 0; i < 8; ++i) {
      const Status status = slow.Step(batch.get(), 11, [](uint32_t) {
        std::this_thread::sleep_for(milliseconds(60));
        return Status();
      });
      EXPECT_TRUE(status.ok());
    }
    slow_is_done = true;
    batch->Leave(slow.seat);
  });
  threads.emplace_back([&] {
    Member quick(*this);
    both.ArriveAndWait();
    for (; !slow_is_done; ++quick_steps) EXPECT_TRUE(quick.Step(batch.get(), 12).ok());
    batch->Leave(quick.seat);
  });
  threads.clear();
  EXPECT_GT(quick_steps, 16);
  const auto [passes, tokens] = batch->counts();
  EXPECT_LE(tokens - passes, 2u);  // steps that were taken together
}

}  // namespace
}  // namespace lectern
