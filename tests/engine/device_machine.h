// The machines that tests of a device run on: an emulated one, and a GPU where there is one.
#ifndef LECTERN_TESTS_ENGINE_DEVICE_MACHINE_H_
#define LECTERN_TESTS_ENGINE_DEVICE_MACHINE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/asking/ask.h"
#include "engine/engine.h"
#include "engine/gpu/device.h"
#include "kernels/thread_pool.h"
#include "tests/engine/invented_model.h"
#include "tests/engine/test_documents.h"
#include "tests/kernels/cuda_emulation/emulation.h"

namespace lectern::testing {

enum class Machine { kEmulated, kGpu };

inline std::string MachineName(const ::testing::TestParamInfo<Machine>& info) {
  return info.param == Machine::kGpu ? "gpu" : "emulated";
}

inline constexpr double kF16Tolerance = 1.5e-2;  // engine/gpu/linear_layers.h
inline constexpr double kBf16Tolerance = 4e-2;

// Ids of every model's vocabulary: 1, then ids from 3 to 399; the same for all who ask for so many.
// `count`: at least 1.
inline std::vector<int32_t> TextTokens(int64_t count) {
  std::vector<int32_t> tokens = {1};
  for (int64_t i = 1; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>((7 * i * i + 13 * i + i / 397 * 5 + 5) % 397 + 3));
  }
  return tokens;
}

// The folder of a model that has documents of such rows: for q8 a model with heads of 32 numbers,
// written once for the process, else the tiny model.
inline std::string ModelFor(Dtype rows) {
  if (rows != Dtype::kQ8) return TinyModel();
  static const TempFolder folder;
  static const bool is_written = [] {
    std::string cases = ReadWholeFile(SourcePath("tests/golden/architectures.json"));
    for (const auto& [from, to] :
         {std::pair("\"head_dim\": 16", "\"head_dim\": 32"),
          std::pair("\"num_attention_heads\": 4", "\"num_attention_heads\": 2"),
          std::pair("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 1")}) {
      for (size_t at = 0; (at = cases.find(from, at)) != std::string::npos; ++at) {
        cases.replace(at, std::string(from).size(), to);
      }
    }
    const auto parsed = ParseJson(cases);
    EXPECT_TRUE(parsed.ok());
    WriteInventedModel(*parsed->Find("llama"), folder.path());
    return true;
  }();
  EXPECT_TRUE(is_written);
  return folder.path();
}

// The largest difference of the logits, in standard deviations of `expected`, whose size `logits`
// has at least.
inline double LargestError(std::span<const float> logits, const std::vector<float>& expected) {
  double sum = 0, squares = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    sum += expected[i];
    squares += double{expected[i]} * expected[i];
    largest = std::max<double>(largest, std::abs(logits[i] - expected[i]));
  }
  const double n = static_cast<double>(expected.size());
  return largest / std::sqrt(squares / n - sum / n * (sum / n));
}

// A test that runs on each machine. SetUp resets the emulation and skips, with the reason, where
// there is no GPU; TearDown fails the test if the emulation has found a mistake. Where an engine,
// device or session cannot be made, the test fails; engine and device are then nullptr.
class OnMachine : public ::testing::TestWithParam<Machine> {
 protected:
  void SetUp() override {
    cuda_emulation::SetMachine({});
    cuda_emulation::SetFaults({});
    cuda_emulation::SetLate(false);
    kernels_ = lectern_cuda_kernels();
    if (GetParam() == Machine::kEmulated) return;
    std::string why;
    std::vector<CudaDeviceInfo> devices;
    kernels_ = LoadCudaKernels(&why);
    if (kernels_ == nullptr) GTEST_SKIP() << "NOT TESTED ON A GPU: " << why;
    const CudaStatus listed = ListCudaDevices(*kernels_, devices);
    if (!listed.ok()) GTEST_SKIP() << "NOT TESTED ON A GPU: " << CudaMessage(listed);
  }
  void TearDown() override {
    cuda_emulation::SetFaults({});
    cuda_emulation::SetLate(false);
    EXPECT_EQ(cuda_emulation::TakeReport(), "");
  }

  // `memory_bytes`: the most of the device's memory that is used; 0: nearly all that is free.
  std::shared_ptr<Device> OpenDevice(uint64_t memory_bytes = 0) {
    auto choice = ChooseDevice("cuda", memory_bytes, kernels_);
    EXPECT_TRUE(choice.ok()) << choice.status().message();
    return choice.ok() ? choice->device : nullptr;
  }

  // The tiny model on two threads, with the kernels of this machine.
  EngineOptions Options(const std::string& store, const std::string& device = "cuda") {
    return {.store = store,
            .model = TinyModel(),
            .num_threads = 2,
            .device = device,
            .cuda_kernels = kernels_};
  }

  std::unique_ptr<Engine> NewEngine(const EngineOptions& options) {
    auto engine = Engine::Create(options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    return engine.ok() ? std::move(engine).value() : nullptr;
  }

  // Copies the model's layers to the device, and prepares the document where the device attends.
  Result<Placement> Place(const TokenDocument& indexed, std::shared_ptr<Device> device) {
    Placement placed;
    LECTERN_ASSIGN(placed.transformer,
                   DeviceTransformer::Load(device, indexed.model, *DefaultBackend(), *threads_));
    if (HasDeviceAttention(*device, indexed.document->kv_dtype(),
                           indexed.document->shape().head_dim)) {
      placed.document =
          std::make_shared<DeviceDocument>(device, indexed.document, *DefaultBackend());
    }
    return placed;
  }

  // A session on the device, or on the CPU where `device` is empty.
  std::unique_ptr<DocumentSession> NewSession(const TokenDocument& indexed,
                                              const Placement& device = {}) {
    auto session = DocumentSession::Create(indexed.document, indexed.model, *DefaultBackend(),
                                           threads_, 0, device);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return std::move(session).value();
  }

  const CudaKernels* kernels_ = nullptr;
  const std::shared_ptr<ThreadPool> threads_ = std::make_shared<ThreadPool>(2);
};

}  // namespace lectern::testing

#endif  // LECTERN_TESTS_ENGINE_DEVICE_MACHINE_H_
