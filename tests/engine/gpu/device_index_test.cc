// The first flow on a GPU, or on the emulated one: documents that are indexed there answer as the
// oracle does, their clusters are as good as the CPU's, and what cannot be had, fails or is
// interrupted leaves a store that the same call goes on from.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "engine/asking/ask.h"
#include "engine/gpu/memory_plan.h"
#include "tests/engine/dense_oracle.h"
#include "tests/engine/device_machine.h"
#include "tests/engine/invented_model.h"

namespace lectern {
namespace {

using testing::DenseOracle;
using testing::Floats;
using testing::InventedText;
using testing::Machine;
using testing::MachineName;
using testing::OnMachine;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::TinyModel;
using testing::WriteInventedModel;

// How far logits may be apart, in units of their spread: the document's keys and values differ by as
// much as engine/gpu/prefill.h says, the question is computed on the CPU.
constexpr double kTolerance = 1.5e-2;

bool Warns(const IndexReport& report, const char* name) {
  return std::ranges::count(report.warnings, name) == 1;
}

class DeviceIndexTest : public OnMachine {
 protected:
  std::unique_ptr<Engine> NewEngine(const std::string& store, const std::string& device) {
    return OnMachine::NewEngine(Options(store, device));
  }
  Result<IndexReport> Index(const std::string& store, const std::string& device,
                            const std::string& text, const IndexOptions& options = {}) {
    return NewEngine(store, device)->Index(text, options);
  }

  // Greedy tokens with everything read, beside those of a dense pass that shares nothing with the
  // engine: the same wherever its best two are further apart than the tolerance.
  static void ExpectTheOraclesAnswer(const std::string& store, const std::string& model,
                                     const std::string& text) {
    const auto loaded = Model::Load(Env::Default(), model);
    auto engine = Engine::Create({.store = store, .model = model, .num_threads = 2});
    ASSERT_TRUE(loaded.ok() && engine.ok());
    auto opened = (*engine)->Open("");
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    auto& session = static_cast<DocumentSession&>(**opened);
    // Lookups on a device apply no metric, so that its documents have none.
    const std::span<const HeadIndex> heads = *session.indexed().Heads(0);
    for (const HeadIndex& head : heads) EXPECT_EQ(head.metric(), nullptr);
    DenseOracle oracle(model, "f16");
    oracle.OnlyLogits();
    oracle.Append((*loaded)->EncodeDocument(text)->ids);
    std::vector<int32_t> next = *(*loaded)->EncodeQuestion("Who crossed the river?");
    for (int step = 0; step < 6; ++step) {
      const auto logits = session.Step(next, 1, true, nullptr);
      ASSERT_TRUE(logits.ok()) << logits.status().message();
      const std::vector<double> expected = oracle.Append(next);
      double sum = 0, squares = 0;
      for (const double x : expected) sum += x, squares += x * x;
      const double n = static_cast<double>(expected.size());
      const double tolerance = kTolerance * std::sqrt(squares / n - sum / n * (sum / n));
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR((*logits)[i], expected[i], tolerance) << "step " << step;
      }
      std::vector<double> sorted = expected;
      std::ranges::sort(sorted, std::greater<>());
      const auto best = std::ranges::max_element(expected) - expected.begin();
      if (sorted[0] - sorted[1] > 2 * tolerance) {
        EXPECT_EQ(std::ranges::max_element(*logits) - logits->begin(), best);
      }
      next = {static_cast<int32_t>(best)};
    }
  }

  // Interrupted when its keys are there and none is clustered; copies of it go on in many ways.
  const std::string& Prefilled() {
    static const TempFolder folders[2];
    static bool is_done[2] = {};
    const auto machine = static_cast<size_t>(GetParam());
    const std::string& folder = folders[machine].path();
    if (std::exchange(is_done[machine], true)) return folder;
    IndexOptions options;
    options.name = "long";
    options.on_progress = [](const IndexProgress& progress) {
      return progress.stage != IndexProgress::Stage::kCluster;
    };
    const auto cancelled = Index(folder, "cuda", Text(), options);
    EXPECT_EQ(cancelled.status().code(), Code::kCancelled) << cancelled.status().message();
    return folder;
  }
  static std::string Text() { return InventedText(3950, 3); }
  static void Copy(const std::string& from, const TempFolder& to) {
    std::filesystem::copy(from, to.path(), std::filesystem::copy_options::recursive);
  }

  // The mean product of a document's clustered keys with the directions of their finest clusters:
  // what spherical K-means makes large.
  double Objective(const std::string& store) {
    auto opened = NewEngine(store, "cpu")->Open("long");
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    const Document& document = static_cast<DocumentSession&>(**opened).indexed();
    double lengths = 0, num_keys = 0;
    for (uint32_t layer = 0; layer < document.num_layers(); ++layer) {
      const auto heads = document.Heads(layer);
      for (const HeadIndex& head : *heads) {
        for (uint32_t i = 0; i < head.levels().back().num_clusters(); ++i) {
          const IndexRange rows = head.ClusterRows(i);
          lengths += LengthOfSum(Floats(head.Keys(rows)), document.shape().head_dim);
          num_keys += rows.size();
        }
      }
    }
    return lengths / num_keys;
  }
  // The length of the sum of all keys, each scaled to length 1: their products with its direction.
  static double LengthOfSum(const std::vector<float>& keys, size_t dim) {
    std::vector<double> sum(dim);
    for (size_t row = 0; row < keys.size(); row += dim) {
      double squares = 0;
      for (size_t i = 0; i < dim; ++i) squares += double{keys[row + i]} * keys[row + i];
      for (size_t i = 0; i < dim; ++i) sum[i] += keys[row + i] / std::sqrt(squares);
    }
    double squares = 0;
    for (const double x : sum) squares += x * x;
    return std::sqrt(squares);
  }

  static constexpr const char* kShort = "The old road crossed the river. A clerk opened the gate.";
};

// ---- From a text to an answer

TEST_P(DeviceIndexTest, AnswersOfADocumentWithClustersAreTheOracles) {
  const TempFolder store, on_cpu;
  Copy(Prefilled(), store);
  IndexOptions options;
  options.name = "long";
  EngineOptions limited = Options(store.path());
  limited.max_ram_bytes = uint64_t{1} << 30;
  const auto report = OnMachine::NewEngine(limited)->Index(Text(), options);
  ASSERT_TRUE(report.ok()) << report.status().message() << cuda_emulation::TakeReport();
  EXPECT_EQ(report->resumed_tokens, report->tokens);
  EXPECT_EQ(report->device, "cuda:0");
  EXPECT_NE(report->gpu, "");
  EXPECT_TRUE(report->warnings.empty()) << report->note.text();
  ExpectTheOraclesAnswer(store.path(), TinyModel(), Text());

  const auto expected = Index(on_cpu.path(), "cpu", Text(), options);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  EXPECT_EQ(expected->document, report->document);  // which device is no part of what it is
  EXPECT_EQ(expected->device, "cpu");
  EXPECT_GT(Objective(store.path()), 0.98 * Objective(on_cpu.path()));

  const auto again = Index(store.path(), "cpu", Text(), options);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->existed);
  EXPECT_EQ(again->device, "cuda:0");
  EXPECT_EQ(again->gpu, report->gpu);
  // Rows of one device do not go on with those of another.
  const auto longer = Index(store.path(), "cpu", Text() + "More.", options);
  ASSERT_TRUE(longer.ok());
  EXPECT_EQ(longer->reused_tokens, 0u);
  EXPECT_EQ(longer->device, "cpu");
}

TEST_P(DeviceIndexTest, AnswersOfWindowsAndCapsAreTheOracles) {
  const auto cases = ParseJson(ReadWholeFile(SourcePath("tests/golden/architectures.json")));
  ASSERT_TRUE(cases.ok());
  const TempFolder model, store;
  WriteInventedModel(*cases->Find("gemma2"), model.path());
  EngineOptions options = Options(store.path());
  options.model = model.path();
  options.max_ram_bytes = uint64_t{1} << 30;  // spills leave memory after every layer
  const std::string text = InventedText(700, 5);
  const auto report = OnMachine::NewEngine(options)->Index(text, {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->device, "cuda:0");
  ExpectTheOraclesAnswer(store.path(), model.path(), text);
}

TEST_P(DeviceIndexTest, KeysOfFullPrecisionAreAttendedToByTheCpuAndSaySo) {
  const TempFolder store;
  IndexOptions options;
  options.kv_dtype = Dtype::kF32;
  const auto report = Index(store.path(), "cuda", kShort, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->device, "cuda:0");
  EXPECT_TRUE(Warns(*report, "cpu_fallback"));
  EXPECT_NE(report->note.text().find("f16, bf16 and q8"), std::string::npos) << report->note.text();
}

// ---- What was begun elsewhere

TEST_P(DeviceIndexTest, AnotherDeviceBeginsAnewAndSaysSo) {
  const TempFolder store, on_cpu;
  Copy(Prefilled(), store);
  IndexOptions options;
  options.name = "long";
  const auto report = Index(store.path(), "cpu", Text(), options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(Warns(*report, "restarted"));
  EXPECT_NE(report->note.text().find("had begun was begun anew on the CPU"), std::string::npos)
      << report->note.text();
  EXPECT_EQ(report->resumed_tokens, 0u);
  // Not a bit is the GPU's.
  const auto expected = Index(on_cpu.path(), "cpu", Text(), options);
  ASSERT_TRUE(expected.ok());
  EXPECT_EQ(Objective(store.path()), Objective(on_cpu.path()));

  // The other way round.
  const TempFolder other;
  IndexOptions cut;
  cut.on_progress = [](const IndexProgress& progress) {
    return progress.stage == IndexProgress::Stage::kRead;
  };
  EXPECT_EQ(Index(other.path(), "cpu", kShort, cut).status().code(), Code::kCancelled);
  const auto moved = Index(other.path(), "cuda", kShort);
  ASSERT_TRUE(moved.ok()) << moved.status().message();
  EXPECT_TRUE(Warns(*moved, "restarted"));
  EXPECT_EQ(moved->device, "cuda:0");
}

INSTANTIATE_TEST_SUITE_P(Machines, DeviceIndexTest,
                         ::testing::Values(Machine::kEmulated, Machine::kGpu), MachineName);

// ---- What cannot be had, and what fails: of the emulated machine alone

class DeviceIndexFailureTest : public DeviceIndexTest {};

TEST_P(DeviceIndexFailureTest, AutoFallsBackToTheCpuAndSaysSo) {
  cuda_emulation::SetMachine({.num_devices = 0});
  const TempFolder none, small;
  const auto report = Index(none.path(), "auto", kShort);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->device, "cpu");
  EXPECT_TRUE(Warns(*report, "cpu_fallback"));
  EXPECT_NE(report->note.text().find("indexed on the CPU: "), std::string::npos)
      << report->note.text();
  cuda_emulation::SetMachine({});
  // The weights fit, and beside them no chunk.
  const auto model = Model::Load(Env::Default(), TinyModel());
  ASSERT_TRUE(model.ok());
  EngineOptions options = Options(small.path(), "cuda");
  options.device_memory_bytes = DeviceWeightBytes((*model)->config()) + (uint64_t{64} << 20) + 100;
  const auto refused = OnMachine::NewEngine(options)->Index(kShort, {});
  EXPECT_EQ(refused.status().code(), Code::kOutOfMemory);
  EXPECT_EQ(refused.status().param(), "device_memory");
  EXPECT_NE(refused.status().message().find("device \"cpu\""), std::string::npos)
      << refused.status().message();
  options.device = "auto";
  const auto fallen = OnMachine::NewEngine(options)->Index(kShort, {});
  ASSERT_TRUE(fallen.ok()) << fallen.status().message();
  EXPECT_EQ(fallen->device, "cpu");
  EXPECT_TRUE(Warns(*fallen, "cpu_fallback"));
}

// Whatever allocation fails: the document is refused, or the CPU's, and the next one has its own.
TEST_P(DeviceIndexFailureTest, OutOfMemoryAnywhereLeavesEngineAndStoreUsable) {
  const uint64_t before = cuda_emulation::AllocatedBytes();
  size_t num_refused = 0, num_done = 0;
  for (uint64_t allocations = 0; num_done < 3; allocations += 7) {
    ASSERT_LT(allocations, 200u);
    const TempFolder store;
    const std::string device = allocations % 2 == 0 ? "cuda" : "auto";
    const auto engine = NewEngine(store.path(), device);
    cuda_emulation::SetFaults({.allocations_left = allocations});
    auto report = engine->Index(kShort, {});
    cuda_emulation::SetFaults({});
    if (report.ok() && report->device == "cuda:0") ++num_done;
    if (!report.ok() || report->device == "cpu") ++num_refused;
    if (!report.ok()) {
      EXPECT_EQ(device, "cuda");
      EXPECT_EQ(report.status().code(), Code::kOutOfMemory) << report.status().message();
      EXPECT_EQ(report.status().param(), "device_memory");
      report = engine->Index(kShort, {});
      ASSERT_TRUE(report.ok()) << report.status().message();
      EXPECT_EQ(report->device, "cuda:0");
    }
    EXPECT_EQ(Warns(*report, "cpu_fallback"), report->device == "cpu");
    auto session = engine->Open("");
    EXPECT_TRUE(session.ok()) << session.status().message();
  }
  EXPECT_GT(num_refused, 4u);
  EXPECT_EQ(cuda_emulation::AllocatedBytes(), before);
}

TEST_P(DeviceIndexFailureTest, WithoutRoomForClusteringTheCpuDoesItAndSaysSo) {
  const TempFolder store;
  Copy(Prefilled(), store);
  IndexOptions options;
  options.on_progress = [](const IndexProgress& progress) {
    if (progress.stage == IndexProgress::Stage::kCluster && progress.done == 0) {
      cuda_emulation::SetFaults({.allocations_left = 0});
    }
    return true;
  };
  options.name = "long";
  const auto report = Index(store.path(), "cuda", Text(), options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->resumed_tokens, report->tokens);
  EXPECT_EQ(report->device, "cuda:0");
  EXPECT_TRUE(Warns(*report, "cpu_fallback"));
  EXPECT_NE(report->note.text().find("clustered on the CPU"), std::string::npos)
      << report->note.text();
}

// On the GPU, and where it has no room left by the CPU, which says so.
TEST_P(DeviceIndexFailureTest, WhatLookupsMissIsMeasuredThereOrElseHere) {
  MissedCalibration measured[2];
  for (const bool has_room : {true, false}) {
    const TempFolder store;
    Copy(Prefilled(), store);
    uint64_t launches_before = 0;
    IndexOptions options;
    options.name = "long";
    options.on_progress = [&](const IndexProgress& progress) {
      if (progress.stage == IndexProgress::Stage::kWrite && progress.done == 0) {
        launches_before = cuda_emulation::NumLaunches();
        if (!has_room) cuda_emulation::SetFaults({.allocations_left = 0});
      }
      return true;
    };
    const auto report = Index(store.path(), "cuda", Text(), options);
    cuda_emulation::SetFaults({});
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(cuda_emulation::NumLaunches() > launches_before, has_room);
    EXPECT_EQ(Warns(*report, "cpu_fallback"), !has_room);
    EXPECT_EQ(report->note.text().find("measured on the CPU") != std::string::npos, !has_room);
    auto session = NewEngine(store.path(), "cpu")->Open("long");
    ASSERT_TRUE(session.ok()) << session.status().message();
    measured[has_room] = static_cast<DocumentSession&>(**session).indexed().missed_calibration();
    ASSERT_TRUE(measured[has_room].is_measured());
  }
  EXPECT_EQ(measured[0].budgets, measured[1].budgets);
  // Nearly the same: of equal scores other rows may be chosen, and each factor is fitted to 16 steps.
  const auto expect_near = [](const std::vector<double>& there, const std::vector<double>& here) {
    ASSERT_EQ(there.size(), here.size());
    for (size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(there[i], here[i], 0.2 * here[i]) << i;
  };
  expect_near(measured[1].factors, measured[0].factors);
  expect_near(measured[1].margins, measured[0].margins);
}

// In the midst of a prefill and of a clustering.
TEST_P(DeviceIndexFailureTest, ALostDeviceIsAnErrorAfterWhichTheRunGoesOn) {
  const uint64_t before = cuda_emulation::AllocatedBytes();
  for (const std::string device : {"cuda", "auto"}) {
    const TempFolder store;
    const auto engine = NewEngine(store.path(), device);
    cuda_emulation::SetFaults({.launches_left = 8});
    const auto lost = engine->Index(kShort, {});
    EXPECT_EQ(lost.status().code(), Code::kIoError) << lost.status().message();
    EXPECT_NE(lost.status().message().find("lost to this process"), std::string::npos)
        << lost.status().message();
    cuda_emulation::SetFaults({});
    const auto again = engine->Index(kShort, {});
    EXPECT_EQ(again.status().code(), device == "auto" ? Code::kOk : Code::kIoError);
    if (again.ok()) {
      EXPECT_TRUE(Warns(*again, "cpu_fallback") && Warns(*again, "restarted"))
          << again->note.text();
    }
  }
  const TempFolder store;
  Copy(Prefilled(), store);
  IndexOptions options;
  options.name = "long";
  options.on_progress = [](const IndexProgress& progress) {
    if (progress.stage == IndexProgress::Stage::kCluster && progress.done == 0) {
      cuda_emulation::SetFaults({.launches_left = 20});
    }
    return true;
  };
  const auto lost = Index(store.path(), "cuda", Text(), options);
  EXPECT_EQ(lost.status().code(), Code::kIoError) << lost.status().message();
  cuda_emulation::SetFaults({});
  options.on_progress = {};
  const auto resumed = Index(store.path(), "cuda", Text(), options);
  ASSERT_TRUE(resumed.ok()) << resumed.status().message();
  EXPECT_EQ(resumed->resumed_tokens, resumed->tokens);
  EXPECT_TRUE(resumed->warnings.empty()) << resumed->note.text();
  EXPECT_EQ(cuda_emulation::AllocatedBytes(), before);
}

INSTANTIATE_TEST_SUITE_P(Machines, DeviceIndexFailureTest, ::testing::Values(Machine::kEmulated),
                         MachineName);

}  // namespace
}  // namespace lectern
