// Asking on a GPU, or on the emulated one (tests/kernels/cuda_emulation): the CPU's results within
// the stated tolerance, typed errors for what cannot be had, and sessions that go on after them.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "engine/gpu/memory_plan.h"
#include "engine/gpu/placement.h"
#include "engine/indexing/index_cost.h"
#include "tests/engine/device_machine.h"
#include "tests/engine/invented_gguf.h"
#include "tests/engine/invented_model.h"

namespace lectern {
namespace {

using testing::AddInventedKeys;
using testing::AddInventedTensors;
using testing::AddTinyVocabulary;
using testing::GgufWriter;
using testing::IndexTokens;
using testing::InventedText;
using testing::kBf16Tolerance;
using testing::kF16Tolerance;
using testing::LargestError;
using testing::Machine;
using testing::MachineName;
using testing::OnMachine;
using testing::ReaderModel;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::TextTokens;
using testing::TinyModel;
using testing::TokenDocument;
using testing::WriteInventedModel;
using testing::WriteWholeFile;

// How far logits may be apart where the host chose the rows: some of nearly the same score may change
// places at the end of the budget.
constexpr double kSparseTolerance = 6e-2;

class DeviceTest : public OnMachine {
 protected:
  // The same steps here and there: a question, then tokens one by one.
  void ExpectTheCpusLogits(const TokenDocument& indexed, const Placement& placed,
                           std::span<const int32_t> tokens, double budget, double tolerance) {
    const auto here = NewSession(indexed), there = NewSession(indexed, placed);
    for (size_t done = 0, count = tokens.size() - 4; done < tokens.size();
         done += count, count = 1) {
      const auto ids = tokens.subspan(done, count);
      const auto expected = here->Step(ids, budget, true, nullptr);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      const std::vector<float> logits(expected->begin(), expected->end());
      const auto found = there->Step(ids, budget, true, nullptr);
      ASSERT_TRUE(found.ok()) << found.status().message() << cuda_emulation::TakeReport();
      EXPECT_LE(LargestError(*found, logits), tolerance) << "after " << done << " tokens";
    }
  }

  // Where the device chooses the rows, its logits are as close to those of all rows as the CPU's.
  void ExpectLogitsAsCloseToExact(const TokenDocument& indexed, const Placement& placed,
                                  std::span<const int32_t> tokens, double budget) {
    const auto here = NewSession(indexed), there = NewSession(indexed, placed);
    const auto exact = NewSession(indexed);
    double here_error = 0, there_error = 0;
    for (size_t done = 0, count = tokens.size() - 4; done < tokens.size();
         done += count, count = 1) {
      const auto ids = tokens.subspan(done, count);
      const auto expected = here->Step(ids, budget, true, nullptr);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      const std::vector<float> logits(expected->begin(), expected->end());
      const auto found = there->Step(ids, budget, true, nullptr);
      ASSERT_TRUE(found.ok()) << found.status().message() << cuda_emulation::TakeReport();
      const auto whole = exact->Step(ids, 1, true, nullptr);
      ASSERT_TRUE(whole.ok());
      const std::vector<float> full(whole->begin(), whole->end());
      here_error += LargestError(logits, full);
      there_error += LargestError(*found, full);
    }
    EXPECT_GT(there_error, 0);
    EXPECT_LE(there_error, 1.1 * here_error);
  }
};

// ---- Every architecture: biases, norms of heads and of parts, caps, windows, recipes of RoPE

TEST_P(DeviceTest, EveryArchitectureHasTheCpusLogits) {
  const auto cases = ParseJson(ReadWholeFile(SourcePath("tests/golden/architectures.json")));
  ASSERT_TRUE(cases.ok());
  const std::vector<int32_t> tokens = TextTokens(190);
  size_t num_computed = 0;
  for (const auto& [name, architecture] : *cases->object()) {
    SCOPED_TRACE(name);
    const TempFolder model, folder;
    WriteInventedModel(architecture, model.path());
    const TokenDocument indexed =
        IndexTokens(model.path(), {tokens.begin(), tokens.begin() + 160}, folder.path(),
                    {.kv_dtype = Dtype::kF16});
    if (!WhyCpuComputes(indexed.model->config()).empty()) continue;
    const auto placed = Place(indexed, OpenDevice());
    ASSERT_TRUE(placed.ok()) << placed.status().message();
    ExpectTheCpusLogits(indexed, *placed, std::span(tokens).subspan(160), 1, kF16Tolerance);
    ++num_computed;
  }
  EXPECT_GE(num_computed, 20u);
}

// ---- Every kind of weights: f32, bf16, quantised, blocks whose pairs are neighbours

// Logits of a few tokens, with an attention of the test's own.
std::vector<float> LogitsOf(const Model& model, ThreadPool& threads,
                            const DeviceTransformer* device) {
  constexpr size_t kTokens = 5;
  const Transformer transformer(model, *DefaultBackend(), threads, 0, device);
  Activations a(model.config(), kTokens, threads.num_threads());
  const std::vector<int32_t> ids = {5, 250, 31, 7, 90};
  transformer.Embed(ids, 3, a);
  const auto attend = [&](uint32_t) {
    for (size_t i = 0; i < a.attended.size(); ++i) {
      a.attended[i] = 0.1f * a.queries[i] + 0.1f * a.keys[i % a.keys.size()] +
                      a.values[i % a.values.size()];
    }
    return Status();
  };
  std::vector<float> logits(model.config().vocab_size);
  const Rows<float> row(logits.data(), 1, logits.size());
  EXPECT_TRUE(transformer.RunLayers(kTokens, a, attend).ok());
  EXPECT_TRUE(transformer.Logits(kTokens - 1, 1, a, row).ok());
  return logits;
}

TEST_P(DeviceTest, EveryKindOfWeightsHasTheCpusLogits) {
  const TempFolder folder;
  const auto cases = ParseJson(ReadWholeFile(SourcePath("tests/golden/architectures.json")));
  ASSERT_TRUE(cases.ok());
  // Other architectures than llama leave the order of rows as it is.
  const auto write = [&](const char* architecture) {
    GgufWriter file;
    AddInventedKeys(*cases->Find(architecture), file);
    AddTinyVocabulary(file);
    AddInventedTensors(*cases->Find(architecture), TensorType::kF16, file);
    const std::string path = folder.path() + "/" + architecture + ".gguf";
    WriteWholeFile(path, file.Finish());
    return path;
  };
  const std::string llama = write("llama"), qwen2 = write("qwen2");
  // The CPU rounds what it multiplies packed matrices by to 8 bits, the GPU does not.
  constexpr double kPackedTolerance = 0.25;
  const struct {
    std::string path;
    WeightsType type;
    Dtype dtype;
    double tolerance;
  } models[] = {{TinyModel(), WeightsType::kStored, Dtype::kF16, kF16Tolerance},
                {TinyModel(), WeightsType::kQ8, Dtype::kF16, kPackedTolerance},
                {TinyModel(), WeightsType::kQ4, Dtype::kF16, kPackedTolerance},
                {ReaderModel(), WeightsType::kStored, Dtype::kBf16, kBf16Tolerance},
                {llama, WeightsType::kStored, Dtype::kF16, kF16Tolerance},
                {qwen2, WeightsType::kStored, Dtype::kF16, kF16Tolerance}};
  for (const auto& [path, type, dtype, tolerance] : models) {
    SCOPED_TRACE(path + " " + std::string(WeightsName(type)));
    const auto model = Model::Load(Env::Default(), path, {.weights = type});
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_EQ((*model)->config().rope.has_neighbours, path == llama);
    EXPECT_EQ(DeviceWeightsDtype((*model)->weights(), (*model)->config().num_layers), dtype);
    const auto device =
        DeviceTransformer::Load(OpenDevice(), *model, *DefaultBackend(), *threads_);
    ASSERT_TRUE(device.ok()) << device.status().message();
    EXPECT_LE(LargestError(LogitsOf(**model, *threads_, device->get()),
                           LogitsOf(**model, *threads_, nullptr)),
              tolerance);
  }
}

// ---- Clusters, and every type of rows; resident or brought each time

TEST_P(DeviceTest, EveryTypeOfRowsHasTheCpusLogits) {
  const std::vector<int32_t> tokens = TextTokens(2210);
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16, Dtype::kF32}) {
    const TempFolder folder;
    const TokenDocument indexed =
        IndexTokens(TinyModel(), {tokens.begin(), tokens.begin() + 2200}, folder.path(),
                    {.kv_dtype = dtype});
    const double tolerance = dtype == Dtype::kBf16 ? kBf16Tolerance : kF16Tolerance;
    const ModelConfig& config = indexed.model->config();
    uint64_t rows = 0, codes = 0, lookup = 0;
    for (uint32_t layer = 0; layer < config.num_layers; ++layer) {
      const auto heads = indexed.document->Heads(layer);
      ASSERT_TRUE(heads.ok());
      for (const HeadIndex& head : *heads) rows += head.dense_bytes() + 4 * head.num_rows();
      codes += DeviceCodes::Bytes(*heads);
      lookup = std::max(lookup, DeviceLookup::MostBytes(*heads));
    }
    // Device memory of a session for which the CPU attends to the document.
    const uint64_t session = [&] {
      auto placed = Place(indexed, OpenDevice());
      EXPECT_TRUE(placed.ok());
      placed->document = nullptr;
      const auto there = NewSession(indexed, *placed);
      EXPECT_TRUE(there->Step(std::span(tokens).subspan(2200, 6), 1, true, nullptr).ok());
      return placed->transformer->device()->memory()->reserved();
    }();
    // Room for all; for codes and a cache of half of the rows, beside this session and another;
    // and for nothing of the document.
    const uint64_t cached = session + kDeviceStreamBytes +
                            DeviceAttentionBytes(config.num_kv_heads, config.head_dim,
                                                 OpenDevice()->info().num_multiprocessors) +
                            codes + lookup + rows / 2;
    const uint64_t none = LeastDeviceBytes(config) + (uint64_t{100} << 20);
    for (const uint64_t memory : {uint64_t{0}, cached, none}) {
      SCOPED_TRACE(::testing::Message() << "dtype " << static_cast<int>(dtype) << " " << memory);
      const auto placed = Place(indexed, OpenDevice(memory));
      ASSERT_TRUE(placed.ok()) << placed.status().message();
      EXPECT_EQ(placed->document != nullptr, dtype != Dtype::kF32);
      const auto step_tokens = std::span(tokens).subspan(2200);
      if (memory != none && placed->document) {
        ExpectLogitsAsCloseToExact(indexed, *placed, step_tokens, 0.25);
      } else {
        ExpectTheCpusLogits(indexed, *placed, step_tokens, 0.25, kSparseTolerance);
      }
      ExpectTheCpusLogits(indexed, *placed, step_tokens, 1, tolerance);
      if (!placed->document) continue;
      EXPECT_EQ(placed->document->num_resident(), memory == 0 ? 2u : 0u);
      EXPECT_EQ(placed->document->num_coded(), memory == none ? 0u : 2u);
      const DeviceDocument::CacheStats stats = placed->document->cache_stats();
      EXPECT_EQ(stats.num_slots > 0, memory == cached);
      EXPECT_EQ(stats.hits > 0, memory == cached);
    }
  }
}

// ---- From indexing to an answer

class DeviceAskTest : public DeviceTest {
 protected:
  static const std::string& Store() {
    static const TempFolder folder;
    static const bool is_indexed = [] {
      auto engine =
          Engine::Create({.store = folder.path(), .model = TinyModel(), .num_threads = 2});
      EXPECT_TRUE(engine.ok());
      // The emulated machine takes seconds for an answer to one that has clusters.
      for (const char* const name : {"f16", "queries", "f32", "short"}) {
        IndexOptions options;
        options.name = name;
        // Lookups on the device, but where heads have metrics: those are the host's.
        options.cluster_keys = options.name == "queries" ? "queries" : "stored";
        options.kv_dtype = options.name == "f32" ? Dtype::kF32 : Dtype::kF16;
        const auto report =
            (*engine)->Index(InventedText(options.name == "short" ? 700 : 7000,
                                          options.name == "queries" ? 4 : 3),
                             options);
        EXPECT_TRUE(report.ok()) << report.status().message();
        EXPECT_FALSE(report->existed);
        EXPECT_EQ(report->tokens >= kMinClusteredTokens, options.name != "short");
      }
      return true;
    }();
    EXPECT_TRUE(is_indexed);
    return folder.path();
  }

  using OnMachine::NewEngine;
  std::unique_ptr<Engine> NewEngine(const std::string& device = "cuda") {
    return NewEngine(Options(Store(), device));
  }
  static Result<Answer> Ask(Session& session, float budget, const CancelFlag* cancel = nullptr) {
    AskOptions options;
    options.kv_budget = budget;
    options.max_tokens = 8;
    options.cancel = cancel;
    return session.Ask("What is it?", options);
  }
  static Result<Answer> AskOnce(Engine& engine, float budget, const std::string& name = "short") {
    LECTERN_ASSIGN(const auto session, engine.Open(name));
    return Ask(*session, budget);
  }
};

TEST_P(DeviceAskTest, AnswersAreTheCpusWithTheirEvidence) {
  const auto here = NewEngine("cpu"), there = NewEngine();
  for (const auto& [name, budget] : {std::pair("f16", 1.0f), {"f16", 0.25f}, {"queries", 0.25f}}) {
    SCOPED_TRACE(name);
    const auto expected = AskOnce(*here, budget, name), found = AskOnce(*there, budget, name);
    ASSERT_TRUE(expected.ok() && found.ok()) << found.status().message();
    EXPECT_EQ(found->text, expected->text);
    std::vector<std::string> warnings = expected->warnings;
    if (std::string(name) == "queries") warnings.push_back("cpu_fallback");
    EXPECT_EQ(found->warnings, warnings);
    EXPECT_NEAR(found->kv.read_fraction_prefill, expected->kv.read_fraction_prefill, 1e-3);
    EXPECT_NEAR(*found->kv.missed_mass_estimate, *expected->kv.missed_mass_estimate, 1e-2);
    ASSERT_EQ(found->evidence.size(), expected->evidence.size());
    for (size_t i = 0; i < found->evidence.size(); ++i) {
      EXPECT_EQ(found->evidence[i].begin, expected->evidence[i].begin);
      EXPECT_NEAR(found->evidence[i].mass, expected->evidence[i].mass, 1e-2);
    }
  }
}

TEST_P(DeviceAskTest, SessionsShareStepsOnTheDevice) {
  const auto engine = NewEngine();
  const auto alone = AskOnce(*engine, 1);
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const auto answer = AskOnce(*engine, 1);
      ASSERT_TRUE(answer.ok()) << answer.status().message();
      EXPECT_EQ(answer->text, alone->text);
    });
  }
}

TEST_P(DeviceAskTest, DocumentsOfFullPrecisionAreAttendedToByTheCpuAndSaySo) {
  const auto here = NewEngine("cpu"), there = NewEngine();
  const auto expected = AskOnce(*here, 1, "f32"), found = AskOnce(*there, 1, "f32");
  ASSERT_TRUE(expected.ok() && found.ok());
  EXPECT_EQ(found->text, expected->text);
  EXPECT_EQ(std::ranges::count(found->warnings, "cpu_fallback"), 1);
  EXPECT_NE(found->note.text().find("f16, bf16 and q8"), std::string::npos) << found->note.text();
}

TEST_P(DeviceAskTest, ACancelledQuestionLeavesTheSessionAsItWas) {
  const auto engine = NewEngine();
  const auto expected = AskOnce(*engine, 1);
  auto session = engine->Open("short");
  ASSERT_TRUE(expected.ok() && session.ok());
  const CancelFlag cancel = true;
  const auto cancelled = Ask(**session, 1, &cancel);
  EXPECT_EQ(cancelled.status().code(), Code::kCancelled);
  const auto answer = Ask(**session, 1);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->text, expected->text);
}

INSTANTIATE_TEST_SUITE_P(Machines, DeviceTest, ::testing::Values(Machine::kEmulated, Machine::kGpu),
                         MachineName);
INSTANTIATE_TEST_SUITE_P(Machines, DeviceAskTest,
                         ::testing::Values(Machine::kEmulated, Machine::kGpu), MachineName);

// ---- What cannot be had, and what fails: of the emulated machine alone

class DeviceFailureTest : public DeviceAskTest {
 protected:
  void ExpectRefused(const EngineOptions& options, Code code, const std::string& param,
                     const std::string& text) {
    const auto engine = Engine::Create(options);
    ASSERT_FALSE(engine.ok());
    EXPECT_EQ(engine.status().code(), code);
    EXPECT_EQ(engine.status().param(), param);
    EXPECT_NE(engine.status().message().find(text), std::string::npos)
        << engine.status().message();
  }
};

TEST_P(DeviceFailureTest, DevicesThatCannotBeHadAreNamed) {
  for (const char* name : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "CUDA",
                           "cuda:99999999999"}) {
    ExpectRefused(Options(Store(), name), Code::kInvalidArgument, "device", name);
  }
  ExpectRefused(Options(Store(), "cuda:7"), Code::kInvalidArgument, "device",
                "there is cuda:0 (emulated)");
  cuda_emulation::SetMachine({.num_devices = 0});
  ExpectRefused(Options(Store()), Code::kInvalidArgument, "device", "run on the CPU");
  cuda_emulation::SetMachine({.driver = 0});
  ExpectRefused(Options(Store()), Code::kInvalidArgument, "device", "no NVIDIA driver");
  cuda_emulation::SetMachine({.driver = 11080});
  ExpectRefused(Options(Store()), Code::kInvalidArgument, "device", "update the NVIDIA driver");
  cuda_emulation::SetMachine({.major = 7});
  ExpectRefused(Options(Store()), Code::kInvalidArgument, "device", "8.0 or later");
  cuda_emulation::SetMachine({});
  EngineOptions options = Options(Store());
  options.device_memory_bytes = uint64_t{1} << 50;
  ExpectRefused(options, Code::kOutOfMemory, "device_memory", "4096 MiB free");
}

// Blocks of consumer GPUs have less shared memory than wide heads' tiles need.
TEST_P(DeviceFailureTest, HeadsThatAreTooWideForTheGpuAreTheCpus) {
  EXPECT_TRUE(HasDeviceAttention(*OpenDevice(), Dtype::kF16, 256));
  EXPECT_FALSE(HasDeviceAttention(*OpenDevice(), Dtype::kF16, 264));
  EXPECT_FALSE(HasDeviceAttention(*OpenDevice(), Dtype::kF32, 64));
  cuda_emulation::SetMachine({.shared_bytes = 101376});
  EXPECT_TRUE(HasDeviceAttention(*OpenDevice(), Dtype::kQ8, 128));
  EXPECT_FALSE(HasDeviceAttention(*OpenDevice(), Dtype::kF16, 136));
}

TEST_P(DeviceFailureTest, AutoFallsBackToTheCpuAndSaysSo) {
  const auto expected = AskOnce(*NewEngine("cpu"), 1);
  cuda_emulation::SetMachine({.num_devices = 0});
  const auto fallen = AskOnce(*NewEngine("auto"), 1);
  ASSERT_TRUE(expected.ok() && fallen.ok());
  EXPECT_EQ(fallen->text, expected->text);
  EXPECT_EQ(std::ranges::count(fallen->warnings, "cpu_fallback"), 1);
  EXPECT_NE(fallen->note.text().find("no CUDA-capable device"), std::string::npos)
      << fallen->note.text();
  cuda_emulation::SetMachine({});
  const auto found = AskOnce(*NewEngine("auto"), 1);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(std::ranges::count(found->warnings, "cpu_fallback"), 0);
}

TEST_P(DeviceFailureTest, AModelThatDoesNotFitIsRefusedWithNumbers) {
  EngineOptions options = Options(Store());
  options.device_memory_bytes = 1;
  const auto refused = AskOnce(*NewEngine(options), 1);
  EXPECT_EQ(refused.status().code(), Code::kOutOfMemory);
  EXPECT_EQ(refused.status().param(), "device_memory");
  options.device = "auto";
  const auto fallen = AskOnce(*NewEngine(options), 1);
  ASSERT_TRUE(fallen.ok()) << fallen.status().message();
  EXPECT_EQ(std::ranges::count(fallen->warnings, "cpu_fallback"), 1);
}

// Whatever allocation fails: the question, the session or the model is refused, and the next one
// has its answer. A layer of the document that finds no room is brought each time instead.
TEST_P(DeviceFailureTest, OutOfMemoryAnywhereLeavesEngineAndSessionUsable) {
  const auto expected = AskOnce(*NewEngine(), 1);
  ASSERT_TRUE(expected.ok());
  const uint64_t before = cuda_emulation::AllocatedBytes();
  size_t num_refused = 0, num_answered = 0;
  for (uint64_t allocations = 0; num_answered < 3; allocations += allocations < 60 ? 7 : 3) {
    ASSERT_LT(allocations, 300u);
    const auto engine = NewEngine();
    cuda_emulation::SetFaults({.allocations_left = allocations});
    auto session = engine->Open("short");
    auto answer = session.ok() ? Ask(**session, 1) : Result<Answer>(session.status());
    if (answer.ok()) {
      ++num_answered;
    } else {
      ++num_refused;
      EXPECT_EQ(answer.status().code(), Code::kOutOfMemory) << answer.status().message();
      EXPECT_EQ(answer.status().param(), "device_memory");
      cuda_emulation::SetFaults({});
      if (!session.ok()) session = engine->Open("short");
      ASSERT_TRUE(session.ok()) << session.status().message();
      answer = Ask(**session, 1);
    }
    cuda_emulation::SetFaults({});
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(answer->text, expected->text) << "after " << allocations << " allocations";
  }
  EXPECT_GT(num_refused, 5u);
  EXPECT_EQ(cuda_emulation::AllocatedBytes(), before);
}

// Activations that never had a stream or buffers of the device.
TEST_P(DeviceFailureTest, EveryCallSaysThatTheFirstStepHasNoMemory) {
  const auto model = Model::Load(Env::Default(), TinyModel());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto device = OpenDevice();
  const auto loaded = DeviceTransformer::Load(device, *model, *DefaultBackend(), *threads_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const LinearLayers& layers = **loaded;
  const Transformer transformer(**model, *DefaultBackend(), *threads_, 0, loaded->get());
  const std::vector<int32_t> ids(3, 5);
  std::vector<float> logits((*model)->config().vocab_size);
  std::vector<double> cosines(3);
  const Rows<float> row(logits.data(), 1, logits.size());
  RamLimit& memory = *device->memory();
  auto rest = memory.Reserve(memory.bytes() - memory.reserved(), "a test", {});
  ASSERT_TRUE(rest.ok());
  const std::vector<std::function<Status(Activations&)>> calls = {
      [&](Activations& a) { return layers.Prepare(a); },
      [&](Activations& a) { return layers.PrepareCosines(a); },
      [&](Activations& a) { return layers.Project(0, 3, a); },
      [&](Activations& a) { return layers.AddAttention(0, 3, a, {}); },
      [&](Activations& a) { return layers.AddAttention(0, 3, a, cosines); },
      [&](Activations& a) { return layers.AddMlp(0, 3, a); },
      [&](Activations& a) { return layers.Logits(2, 1, a, row); },
      [&](Activations& a) { return layers.RunRecorded(a, [] { return Status(); }); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    Activations a((*model)->config(), 3, 2);
    transformer.Embed(ids, 0, a);
    EXPECT_EQ(calls[i](a).code(), Code::kOutOfMemory) << i;
    EXPECT_EQ(a.device, nullptr) << i;
  }
  rest = RamLimit::Share();
  Activations a((*model)->config(), 3, 2);
  transformer.Embed(ids, 0, a);
  EXPECT_TRUE(transformer.RunLayers(3, a, [](uint32_t) { return Status(); }).ok());
}

TEST_P(DeviceFailureTest, ALostDeviceIsAnErrorOfEveryLaterQuestion) {
  const uint64_t before = cuda_emulation::AllocatedBytes();
  for (const uint64_t launches : {0, 1, 25, 120}) {
    const bool is_auto = launches == 25;
    const auto engine = NewEngine(is_auto ? "auto" : "cuda");
    auto session = engine->Open("f16");
    ASSERT_TRUE(session.ok());
    cuda_emulation::SetFaults({.launches_left = launches});
    const auto lost = Ask(**session, 1);
    EXPECT_EQ(lost.status().code(), Code::kIoError);
    EXPECT_NE(lost.status().message().find("lost to this process"), std::string::npos)
        << lost.status().message();
    cuda_emulation::SetFaults({});
    const auto again = Ask(**session, 1);
    EXPECT_EQ(again.status().code(), Code::kIoError);
    const auto another = engine->Open("f16");
    EXPECT_EQ(another.status().code(), is_auto ? Code::kOk : Code::kIoError);
    if (!is_auto) continue;
    const auto fallen = Ask(**another, 1);
    ASSERT_TRUE(fallen.ok()) << fallen.status().message();
    EXPECT_EQ(std::ranges::count(fallen->warnings, "cpu_fallback"), 1);
  }
  EXPECT_TRUE(AskOnce(*NewEngine("cpu"), 1).ok());
  EXPECT_EQ(cuda_emulation::AllocatedBytes(), before);
}

INSTANTIATE_TEST_SUITE_P(Machines, DeviceFailureTest, ::testing::Values(Machine::kEmulated),
                         MachineName);

// ---- The plan: what it says is what is taken

TEST(DevicePlanTest, CountsWhatIsUploaded) {
  cuda_emulation::SetMachine({});
  const auto cases = ParseJson(ReadWholeFile(SourcePath("tests/golden/architectures.json")));
  ASSERT_TRUE(cases.ok());
  ThreadPool threads(2);
  for (const auto& [name, architecture] : *cases->object()) {
    SCOPED_TRACE(name);
    const TempFolder folder;
    WriteInventedModel(architecture, folder.path());
    const auto model = Model::Load(Env::Default(), folder.path());
    const auto choice = ChooseDevice("cuda", 0, lectern_cuda_kernels());
    ASSERT_TRUE(model.ok() && choice.ok());
    if (!WhyCpuComputes((*model)->config()).empty()) continue;
    const auto loaded =
        DeviceTransformer::Load(choice->device, *model, *DefaultBackend(), threads);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    const ModelConfig& config = (*model)->config();
    EXPECT_EQ(choice->device->memory()->reserved(), DeviceWeightBytes(config));

    const Transformer transformer(**model, *DefaultBackend(), threads, 0, loaded->get());
    Activations a(config, 9, 2);
    const std::vector<int32_t> ids(9, 5);
    const auto stream = DeviceStream::Create(choice->device);
    ASSERT_TRUE(stream.ok());
    a.stream = *stream;
    const uint64_t before = choice->device->memory()->reserved();
    transformer.Embed(ids, 0, a);
    std::vector<float> logits(config.vocab_size);
    ASSERT_TRUE(transformer.RunLayers(9, a, [](uint32_t) { return Status(); }).ok());
    ASSERT_TRUE(transformer.Logits(8, 1, a, {logits.data(), 1, logits.size()}).ok());
    const uint64_t taken = choice->device->memory()->reserved() - before;
    EXPECT_LE(taken, DeviceActivationBytes(config, 9));
    EXPECT_GE(taken, DeviceActivationBytes(config, 9) * 8 / 10);
  }
}

}  // namespace
}  // namespace lectern
