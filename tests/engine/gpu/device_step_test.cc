// Tokens of an answer whose whole attention is the device's: the same as with the host between
// lookup and attention, with few waits, recorded or not, together or alone.
#include "engine/gpu/step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <thread>

#include "engine/gpu/placement.h"
#include "tests/engine/device_machine.h"
#include "tests/engine/invented_model.h"
#include "tests/store/env_for_tests.h"

namespace lectern {
namespace {

using testing::IndexTokens;
using testing::InventedText;
using testing::LargestError;
using testing::Machine;
using testing::MachineName;
using testing::ModelFor;
using testing::OnMachine;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::TextTokens;
using testing::TinyModel;
using testing::TokenDocument;
using testing::WriteInventedModel;

constexpr double kNearlyTheSame = 1e-2;  // of the logits' spread

class DeviceStepTest : public OnMachine {
 protected:
  // A question of `count` tokens, then one token at a time; the logits of all these.
  static std::vector<std::vector<float>> Logits(DocumentSession& session,
                                                std::span<const int32_t> tokens, size_t count,
                                                double budget, bool tail = true) {
    std::vector<std::vector<float>> logits;
    for (size_t done = 0; done < tokens.size(); done += count, count = 1) {
      const auto found = session.Step(tokens.subspan(done, count), budget, tail, nullptr);
      EXPECT_TRUE(found.ok()) << found.status().message() << cuda_emulation::TakeReport();
      if (!found.ok()) break;
      logits.emplace_back(found->begin(), found->end());
    }
    return logits;
  }

  static TokenDocument Index(Dtype dtype, std::span<const int32_t> tokens,
                             const std::string& folder) {
    return IndexTokens(ModelFor(dtype), {tokens.begin(), tokens.begin() + 2600}, folder,
                       {.kv_dtype = dtype});
  }

  // With the host between lookup and attention: what looks at a step's layers needs it there.
  std::unique_ptr<DocumentSession> NewHostDriven(const TokenDocument& indexed,
                                                 const Placement& placed) {
    auto session = NewSession(indexed, placed);
    session->probe().on_layer = [](const lectern::LayerStep&) {};
    return session;
  }

  void ExpectTheSame(const std::vector<std::vector<float>>& found,
                     const std::vector<std::vector<float>>& expected, double tolerance) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_LE(LargestError(found[i], expected[i]), tolerance) << "step " << i;
    }
  }
};

// Tokens after a question that both were asked with the host in between.
TEST_P(DeviceStepTest, ATokenReadsWhatTheHostDrivenOneReads) {
  const std::vector<int32_t> tokens = TextTokens(2630);
  const auto question = std::span(tokens).subspan(2600, 24),
             answer = std::span(tokens).subspan(2624);
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16, Dtype::kQ8}) {
    const TempFolder folder;
    const TokenDocument indexed = Index(dtype, tokens, folder.path());
    const auto placed = Place(indexed, OpenDevice());
    ASSERT_TRUE(placed.ok());
    // Mean values of q8 are rounded to f16; what is known is rounded to the queries' type, by
    // which few rows at a cut are others: of bf16 more than of f16. Of most steps it is a tenth.
    const double tolerance = dtype == Dtype::kF16 ? kNearlyTheSame : 5 * kNearlyTheSame;
    for (const double budget : {1.0, 0.25}) {
      for (const bool tail : {true, false}) {
        if (budget == 1 && !tail) continue;
        SCOPED_TRACE(static_cast<int>(dtype) * 1000 + budget * 100 + tail);
        const auto there = NewHostDriven(indexed, *placed),
                   driven = NewHostDriven(indexed, *placed);
        ExpectTheSame(Logits(*there, question, 24, budget, tail),
                      Logits(*driven, question, 24, budget, tail), 0);
        there->probe().on_layer = {};
        ExpectTheSame(Logits(*there, answer.first(5), 1, budget, tail),
                      Logits(*driven, answer.first(5), 1, budget, tail), tolerance);
        if (GetParam() == Machine::kGpu) continue;
        const uint64_t waits = cuda_emulation::NumWaits();
        ASSERT_TRUE(there->Step(answer.subspan(5), budget, tail, nullptr).ok());
        EXPECT_LE(cuda_emulation::NumWaits() - waits, 6u);
      }
    }
  }
}

// A question's rows are chosen by all row codes there, of a small budget by those of the best
// clusters, as here: logits lie as close to those of all rows.
TEST_P(DeviceStepTest, AQuestionIsAnsweredAsCloselyAsByTheHost) {
  const std::vector<int32_t> tokens = TextTokens(2630);
  const auto steps = std::span(tokens).subspan(2600);
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16, Dtype::kQ8}) {
    const TempFolder folder;
    const TokenDocument indexed = Index(dtype, tokens, folder.path());
    const auto placed = Place(indexed, OpenDevice());
    ASSERT_TRUE(placed.ok());
    const auto heads = indexed.document->Heads(0);
    ASSERT_TRUE(heads.ok());
    uint32_t num_coded[2] = {};
    for (const double budget : {0.25, 0.12}) {
      SCOPED_TRACE(static_cast<int>(dtype) * 100 + budget);
      const auto share = DeviceLookup::ShareOfQuestion(*heads, budget, true, 18);
      ASSERT_TRUE(share);
      num_coded[budget < 0.2] = share->num_coded;
      double there_error = 0, here_error = 0;
      for (const size_t count : {2u, 9u, 28u}) {
        SCOPED_TRACE(count);
        const auto there = NewSession(indexed, *placed), here = NewSession(indexed);
        const auto exact = NewSession(indexed);
        const uint64_t waits = cuda_emulation::NumWaits();
        const auto found = Logits(*there, steps.first(count), count, budget);
        // Before, for the logits, after; for the first one layers are brought besides.
        if (GetParam() == Machine::kEmulated && (count > 2 || budget < 0.2)) {
          EXPECT_LE(cuda_emulation::NumWaits() - waits, 12u);
        }
        const auto expected = Logits(*here, steps.first(count), count, budget);
        const auto all = Logits(*exact, steps.first(count), count, 1);
        ASSERT_EQ(found.size() + expected.size() + all.size(), 3u);
        there_error += LargestError(found[0], all[0]);
        here_error += LargestError(expected[0], all[0]);
      }
      EXPECT_GT(there_error, 0);
      EXPECT_LE(there_error, 1.1 * here_error);
    }
    EXPECT_LT(num_coded[1], num_coded[0]);
  }
}

TEST_P(DeviceStepTest, OfEveryArchitecture) {
  const auto cases = ParseJson(ReadWholeFile(SourcePath("tests/golden/architectures.json")));
  ASSERT_TRUE(cases.ok());
  const std::vector<int32_t> tokens = TextTokens(340);
  for (const auto& [name, architecture] : *cases->object()) {
    SCOPED_TRACE(name);
    const TempFolder model, folder;
    WriteInventedModel(architecture, model.path());
    const TokenDocument indexed = IndexTokens(model.path(), {tokens.begin(), tokens.begin() + 300},
                                              folder.path(), {.kv_dtype = Dtype::kF16});
    if (!WhyCpuComputes(indexed.model->config()).empty()) continue;
    const auto placed = Place(indexed, OpenDevice());
    ASSERT_TRUE(placed.ok());
    const auto there = NewSession(indexed, *placed), driven = NewHostDriven(indexed, *placed);
    const auto steps = std::span(tokens).subspan(300);
    ExpectTheSame(Logits(*there, steps, 30, 1), Logits(*driven, steps, 30, 1), kNearlyTheSame);
  }
}

// Rows of the conversation get another place, and what was recorded is recorded anew.
TEST_P(DeviceStepTest, TheConversationGrowsInTheMiddleOfAnAnswer) {
  const std::vector<int32_t> tokens = TextTokens(900);
  const TempFolder folder;
  const TokenDocument indexed = IndexTokens(TinyModel(), {tokens.begin(), tokens.begin() + 300},
                                            folder.path(), {.kv_dtype = Dtype::kF16});
  const auto placed = Place(indexed, OpenDevice());
  ASSERT_TRUE(placed.ok());
  const auto there = NewSession(indexed, *placed), here = NewSession(indexed);
  const auto steps = std::span(tokens).subspan(300, 264);
  ExpectTheSame(Logits(*there, steps, 250, 1), Logits(*here, steps, 250, 1),
                testing::kF16Tolerance);
}

TEST_P(DeviceStepTest, TokensThatCannotBeRecordedAreTheSame) {
  if (GetParam() == Machine::kGpu) GTEST_SKIP() << "refused by the emulation";
  const std::vector<int32_t> tokens = TextTokens(310);
  const TempFolder folder;
  const TokenDocument indexed = IndexTokens(TinyModel(), {tokens.begin(), tokens.begin() + 300},
                                            folder.path(), {.kv_dtype = Dtype::kF16});
  const auto device = OpenDevice();
  const auto placed = Place(indexed, device);
  ASSERT_TRUE(placed.ok());
  const auto recorded = NewSession(indexed, *placed), not_recorded = NewSession(indexed, *placed);
  const auto steps = std::span(tokens).subspan(300);
  const auto expected = Logits(*recorded, steps, 4, 1);
  cuda_emulation::SetFaults({.can_record = false});
  const uint64_t before = cuda_emulation::NumLaunchCalls();
  const auto logits = Logits(*not_recorded, steps, 4, 1);
  const uint64_t num_launch_calls = cuda_emulation::NumLaunchCalls() - before;
  cuda_emulation::SetFaults({});
  ExpectTheSame(logits, expected, 0);
  EXPECT_GT(num_launch_calls, 100u);  // of six tokens
  EXPECT_TRUE(device->CheckAlive().ok());
}

TEST_P(DeviceStepTest, NoMemoryIsTakenWhileAStepIsRecorded) {
  const auto device = OpenDevice();
  const auto stream = DeviceStream::Create(device);
  ASSERT_TRUE(stream.ok());
  CudaGraph graph;
  DeviceArray<float> numbers;
  const auto reserve = [&] { return numbers.Reserve(**stream, 100, "numbers"); };
  EXPECT_EQ((*stream)->Record(graph, reserve).code(), Code::kIoError);
  EXPECT_TRUE(numbers.empty());
  EXPECT_TRUE(device->CheckAlive().ok());
  EXPECT_TRUE(reserve().ok());
  EXPECT_TRUE((*stream)->Record(graph, reserve).ok());  // there is room
}

TEST_P(DeviceStepTest, ATokenWaitsForTheDeviceAFewTimes) {
  if (GetParam() == Machine::kGpu) GTEST_SKIP() << "counted by the emulation";
  const std::vector<int32_t> tokens = TextTokens(2620);
  const TempFolder folder;
  const TokenDocument indexed = IndexTokens(TinyModel(), {tokens.begin(), tokens.begin() + 2600},
                                            folder.path(), {.kv_dtype = Dtype::kF16});
  const auto placed = Place(indexed, OpenDevice());
  ASSERT_TRUE(placed.ok());
  const auto there = NewSession(indexed, *placed), driven = NewHostDriven(indexed, *placed);
  uint64_t waits[2], launches[2];
  for (const bool is_driven : {false, true}) {
    DocumentSession& session = is_driven ? *driven : *there;
    ASSERT_EQ(Logits(session, std::span(tokens).subspan(2600, 16), 8, 0.25).size(), 9u);
    const uint64_t waits_before = cuda_emulation::NumWaits();
    const uint64_t launches_before = cuda_emulation::NumLaunchCalls();
    ASSERT_TRUE(session.Step(std::span(tokens).subspan(2616, 1), 0.25, true, nullptr).ok());
    waits[is_driven] = cuda_emulation::NumWaits() - waits_before;
    launches[is_driven] = cuda_emulation::NumLaunchCalls() - launches_before;
  }
  // Whatever the number of layers: before, for the logits, after.
  EXPECT_LE(waits[false], 6u);
  EXPECT_LE(launches[false], 6u);  // all layers are one
  EXPECT_GT(waits[true], waits[false]);
  EXPECT_GT(launches[true], 40u);
}

class DeviceAnswerTest : public DeviceStepTest {
 protected:
  static const std::string& Store() {
    static const TempFolder folder;
    static const bool is_indexed = [] {
      auto engine =
          Engine::Create({.store = folder.path(), .model = TinyModel(), .num_threads = 2});
      EXPECT_TRUE(engine.ok());
      IndexOptions options;
      options.kv_dtype = Dtype::kF16;
      options.cluster_keys = "stored";  // the host looks up documents whose heads have metrics
      for (const char* const name : {"long", "short"}) {
        options.name = name;
        const auto report =
            (*engine)->Index(InventedText(options.name == "short" ? 700 : 7000, 3), options);
        EXPECT_TRUE(report.ok()) << report.status().message();
      }
      return true;
    }();
    EXPECT_TRUE(is_indexed);
    return folder.path();
  }
  static AskOptions Options(float budget) {
    AskOptions options;
    options.kv_budget = budget;
    options.max_tokens = 12;
    return options;
  }
};

TEST_P(DeviceAnswerTest, AConversationGoesOnWhereverItsRowsAre) {
  const auto here = NewEngine(OnMachine::Options(Store(), "cpu"));
  const auto there = NewEngine(OnMachine::Options(Store()));
  auto expected = here->Open("short"), found = there->Open("short");
  ASSERT_TRUE(expected.ok() && found.ok());
  for (const uint32_t max_session_rows : {0u, 0u, 4096u, 0u}) {  // the third wants them here
    AskOptions options = Options(1);
    options.max_session_rows = max_session_rows;
    const auto a = (*expected)->Ask("What is it?", options);
    const auto b = (*found)->Ask("What is it?", options);
    ASSERT_TRUE(a.ok() && b.ok()) << b.status().message();
    EXPECT_EQ(b->text, a->text);
    EXPECT_EQ(b->kv.session_rows, a->kv.session_rows);
    EXPECT_EQ(b->kv.bytes_read, a->kv.bytes_read);
    ASSERT_EQ(b->evidence.size(), a->evidence.size());
    for (size_t i = 0; i < a->evidence.size(); ++i) {
      EXPECT_EQ(b->evidence[i].begin, a->evidence[i].begin);
      EXPECT_NEAR(b->evidence[i].mass, a->evidence[i].mass, 1e-2);
    }
  }
}

TEST_P(DeviceAnswerTest, AConversationGoesOnAfterACancelledAnswer) {
  std::vector<std::string> texts[2];
  for (const char* const device : {"cpu", "cuda"}) {
    const auto engine = NewEngine(OnMachine::Options(Store(), device));
    auto session = engine->Open("short");
    ASSERT_TRUE(session.ok());
    CancelFlag cancel = false;
    AskOptions options = Options(1);
    options.cancel = &cancel;
    int pieces = 0;
    options.on_text = [&](std::string_view) {
      cancel = ++pieces == 3;
      return true;
    };
    const auto cut = (*session)->Ask("What is it?", options);
    ASSERT_TRUE(cut.ok()) << cut.status().message();
    EXPECT_EQ(cut->finish_reason, "cancelled");
    const auto next = (*session)->Ask("What is it?", Options(1));
    ASSERT_TRUE(next.ok()) << next.status().message();
    texts[device[1] == 'u'] = {cut->text, next->text};
  }
  EXPECT_EQ(texts[1], texts[0]);
}

TEST_P(DeviceAnswerTest, SessionsTakeTheirTokensTogether) {
  const auto engine = NewEngine(OnMachine::Options(Store()));
  for (const float budget : {1.0f, 0.25f}) {
    auto session = engine->Open(budget == 1 ? "short" : "long");
    ASSERT_TRUE(session.ok());
    const auto alone = (*session)->Ask("What is it?", Options(budget));
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        auto one = engine->Open(budget == 1 ? "short" : "long");
        ASSERT_TRUE(one.ok());
        AskOptions options = Options(budget);
        if (i == 2) options.max_session_rows = 4096;  // attends here
        const auto answer = (*one)->Ask("What is it?", options);
        ASSERT_TRUE(answer.ok()) << answer.status().message();
        if (i == 2) return;
        EXPECT_EQ(answer->text, alone->text);
        EXPECT_EQ(answer->evidence.size(), alone->evidence.size());
      });
    }
  }
}

// Files that call `on_load`, where it is set, whenever a part of them is read.
class WatchedEnv : public ForwardingEnv {
 public:
  class File : public MappedFile {
   public:
    File(std::unique_ptr<MappedFile> file, const std::function<void()>& on_load)
        : file_(std::move(file)), on_load_(on_load) {}
    const std::byte* data() const override { return file_->data(); }
    uint64_t size() const override { return file_->size(); }
    Status Load(uint64_t offset, uint64_t bytes) const override {
      if (on_load_) on_load_();
      return file_->Load(offset, bytes);
    }
    Status ReadAt(uint64_t offset, void* to, size_t bytes) const override {
      return file_->ReadAt(offset, to, bytes);
    }
    void WillNeed(uint64_t, uint64_t) const override {}
    void DontNeed(uint64_t offset, uint64_t bytes) const override {
      file_->DontNeed(offset, bytes);
    }

   private:
    const std::unique_ptr<MappedFile> file_;
    const std::function<void()>& on_load_;
  };
  Result<std::unique_ptr<MappedFile>> Mirror(const std::string& path) override {
    LECTERN_ASSIGN(auto file, ForwardingEnv::Mirror(path));
    return std::unique_ptr<MappedFile>(new File(std::move(file), on_load));
  }
  std::function<void()> on_load;
};

// A document within a limit of host memory lets go of what it has read whenever others need room,
// but not of a layer that is on its way to the device.
TEST_P(DeviceStepTest, ALayerStaysInMemoryUntilItIsOnTheDevice) {
  const TempFolder store;
  const auto engine = NewEngine(Options(store.path(), "cpu"));
  IndexOptions stored;
  stored.cluster_keys = "stored";  // else the host looks it up (DeviceCodes::Has)
  ASSERT_TRUE(engine->Index(InventedText(14000, 5), stored).ok());
  const DocumentRow row = engine->List()->front();
  const auto limit = std::make_shared<RamLimit>(uint64_t{1} << 40);
  WatchedEnv env;
  const auto document = Document::Open(env, DocumentDirectory(store.path(), row.id, row.generation),
                                       row, *engine->Shards(row), {.io = Io::kPread, .ram = limit});
  const auto model = Model::Load(Env::Default(), TinyModel());
  ASSERT_TRUE(document.ok() && model.ok());
  const TokenDocument indexed = {*model, *document};
  const auto device = OpenDevice();
  auto placed = Place(indexed, device);
  ASSERT_TRUE(placed.ok());
  const std::vector<int32_t> question = {5, 6, 7};
  const auto ask = [&] {
    placed->document = std::make_shared<DeviceDocument>(device, *document, *DefaultBackend());
    const auto session = NewSession(indexed, *placed);
    const auto logits = session->Step(question, 0.25, true, nullptr);
    EXPECT_TRUE(logits.ok()) << logits.status().message();
    return logits.ok() ? std::vector<float>(logits->begin(), logits->end()) : std::vector<float>();
  };
  const std::vector<float> expected = ask();
  const auto need_room = [&] {
    EXPECT_FALSE(limit->Reserve(limit->bytes() + 1, "a test", "no way out").ok());
  };
  need_room();
  size_t num_loads = 0;
  env.on_load = [&] {
    ++num_loads;
    std::jthread{need_room};
  };
  EXPECT_EQ(ask(), expected);
  EXPECT_GT(num_loads, 4u);
}

// Others may need the room of the rows, although the program goes on to keep the session.
TEST_P(DeviceStepTest, AnExceptionOfACallbackLetsGoOfTheRows) {
  const TempFolder store;
  ASSERT_TRUE(NewEngine(Options(store.path(), "cpu"))->Index(InventedText(700, 5), {}).ok());
  const auto reader = NewEngine(Options(store.path(), "cpu"));
  const DocumentRow row = reader->List()->front();
  const auto document =
      Document::Open(Env::Default(), DocumentDirectory(store.path(), row.id, row.generation), row,
                     *reader->Shards(row));
  const auto model = Model::Load(Env::Default(), TinyModel());
  ASSERT_TRUE(document.ok() && model.ok());
  const TokenDocument indexed = {*model, *document};
  const auto device = OpenDevice(uint64_t{1} << 30);
  const auto placed = Place(indexed, device);
  ASSERT_TRUE(placed.ok());
  const auto session = NewSession(indexed, *placed);
  struct Thrown {};
  AskOptions options;
  options.max_tokens = 4;
  size_t num_tokens = 0;
  options.on_token = [&](const SampledToken&) {
    if (++num_tokens < 3) return;
    EXPECT_GT(placed->document->num_resident(), 0u);
    throw Thrown();
  };
  EXPECT_THROW((void)session->Ask("Which road?", options), Thrown);
  (void)device->memory()->Reserve(device->memory()->bytes() + 1, "a test", "no way out");
  EXPECT_EQ(placed->document->num_resident(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Machines, DeviceStepTest,
                         ::testing::Values(Machine::kEmulated, Machine::kGpu), MachineName);
INSTANTIATE_TEST_SUITE_P(Machines, DeviceAnswerTest,
                         ::testing::Values(Machine::kEmulated, Machine::kGpu), MachineName);

}  // namespace
}  // namespace lectern
