// Indexing on a GPU, or on the emulated one: keys and values are the CPU's within the stated
// tolerance, wherever rows are and however much memory there is; answers of such a document are
// those of dense attention; errors leave what an interrupted run leaves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "engine/gpu/memory_plan.h"
#include "engine/indexing/prefill.h"
#include "tests/engine/device_machine.h"
#include "tests/engine/invented_model.h"

namespace lectern {
namespace {

using testing::Floats;
using testing::InventedText;
using testing::Machine;
using testing::MachineName;
using testing::OnMachine;
using testing::ReaderModel;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::TextTokens;
using testing::TinyModel;
using testing::WriteInventedModel;

// engine/gpu/prefill.h: of the largest error; an eighth of it in the mean square.
constexpr double kF16Error = 4e-2, kBf16Error = 0.3;

// In units of the spread of what is expected.
struct Errors {
  double mean_square, largest;
};
Errors ErrorsOf(const std::vector<float>& found, const std::vector<float>& expected) {
  EXPECT_EQ(found.size(), expected.size());
  double sum = 0, squares = 0, largest = 0, of_errors = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    sum += expected[i];
    squares += double{expected[i]} * expected[i];
    const double error = std::abs(double{found[i]} - expected[i]);
    largest = std::max(largest, error);
    of_errors += error * error;
  }
  const double n = static_cast<double>(expected.size());
  const double spread = std::sqrt(squares / n - sum / n * (sum / n));
  return {std::sqrt(of_errors / n) / spread, largest / spread};
}
void ExpectSmall(const Errors& errors, double tolerance, const char* what) {
  EXPECT_LE(errors.mean_square, tolerance / 8) << what;
  EXPECT_LE(errors.largest, tolerance) << what;
}

class DevicePrefillTest : public OnMachine {
 protected:
  std::shared_ptr<const Model> Load(const std::string& path) {
    auto model = Model::Load(Env::Default(), path);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return *model;
  }
  std::shared_ptr<const DeviceTransformer> Bring(const std::shared_ptr<const Model>& model,
                                                 std::shared_ptr<Device> device) {
    auto brought = DeviceTransformer::Load(std::move(device), model, *DefaultBackend(), *threads_);
    EXPECT_TRUE(brought.ok()) << brought.status().message();
    return *brought;
  }

  SpillShape ShapeOf(const Model& model, size_t num_tokens, Dtype dtype) {
    const ModelConfig& config = model.config();
    SpillShape shape;
    shape.generation = 1;
    shape.num_tokens = num_tokens;
    shape.num_layers = config.num_layers;
    shape.num_kv_heads = config.num_kv_heads;
    shape.head_dim = config.head_dim;
    shape.query_cols = config.num_heads * config.head_dim;
    shape.softcap = config.attention_softcap;
    shape.dtype = dtype;
    shape.num_calibration = 20;
    shape.squared_sums = config.window == 0;
    return shape;
  }

  // nullptr: on the CPU. `folder` may hold what was done before.
  Result<std::unique_ptr<KvSpill>> Run(const Model& model, std::span<const int32_t> tokens,
                                       const SpillShape& shape, const std::string& folder,
                                       const DeviceTransformer* device,
                                       const PrefillOptions& options = {}) {
    Env& env = Env::Default();
    LECTERN_RETURN_IF_ERROR(env.MakeDirectory(folder));
    LECTERN_ASSIGN(auto spill, KvSpill::Open(env, folder + "/spill", folder, shape));
    const Transformer transformer(model, *DefaultBackend(), *threads_, tokens.size(), device);
    LECTERN_RETURN_IF_ERROR(Prefill(transformer, tokens, *spill, options));
    return spill;
  }

  void ExpectNear(const KvSpill& found, const KvSpill& expected, double tolerance) {
    const SpillShape& shape = expected.shape();
    for (uint32_t layer = 0; layer < shape.num_layers; ++layer) {
      SCOPED_TRACE("layer " + std::to_string(layer));
      for (const bool is_values : {false, true}) {
        std::vector<float> all_found, all_expected;
        for (uint32_t head = 0; head < shape.num_kv_heads; ++head) {
          const auto add = [&](const KvSpill& spill, std::vector<float>& all) {
            const std::vector<float> rows =
                Floats(is_values ? spill.Values(layer, head, shape.num_tokens)
                                 : spill.Keys(layer, head, shape.num_tokens));
            all.insert(all.end(), rows.begin(), rows.end());
          };
          add(found, all_found);
          add(expected, all_expected);
        }
        ExpectSmall(ErrorsOf(all_found, all_expected), tolerance, is_values ? "values" : "keys");
      }
      const auto rows = [&](const KvSpill& spill) {
        const Rows<const float> queries = spill.Queries(layer);
        return std::vector<float>(queries.data, queries.data + queries.num_rows * queries.num_cols);
      };
      ExpectSmall(ErrorsOf(rows(found), rows(expected)), tolerance, "queries");
      EXPECT_NEAR(found.MeanCosines()[layer], expected.MeanCosines()[layer], tolerance / 40);
      for (uint32_t head = 0; shape.squared_sums && head < shape.num_kv_heads; ++head) {
        const auto sums = [&](const KvSpill& spill) {
          const std::span<const float> all = spill.SquaredSums(layer, head);
          return std::vector<float>(all.begin(), all.end());
        };
        // A few keys draw most of it.
        EXPECT_LE(ErrorsOf(sums(found), sums(expected)).mean_square, tolerance / 4) << "squares";
      }
    }
  }

  static void ExpectSameBits(const KvSpill& one, const KvSpill& other) {
    const SpillShape& shape = one.shape();
    for (uint32_t layer = 0; layer < shape.num_layers; ++layer) {
      for (uint32_t head = 0; head < shape.num_kv_heads; ++head) {
        EXPECT_EQ(Floats(one.Keys(layer, head, shape.num_tokens)),
                  Floats(other.Keys(layer, head, shape.num_tokens)));
        EXPECT_EQ(Floats(one.Values(layer, head, shape.num_tokens)),
                  Floats(other.Values(layer, head, shape.num_tokens)));
      }
    }
  }
};

// Biases, norms, caps, windows of layers that are brought; blocks of one chunk.
TEST_P(DevicePrefillTest, EveryArchitectureHasTheCpusKeysAndValues) {
  const auto cases = ParseJson(ReadWholeFile(SourcePath("tests/golden/architectures.json")));
  ASSERT_TRUE(cases.ok());
  const std::vector<int32_t> tokens = TextTokens(530);
  for (const char* name : {"llama biases", "gemma2", "gemma3"}) {
    SCOPED_TRACE(name);
    const TempFolder path, folder;
    WriteInventedModel(*cases->Find(name), path.path());
    const auto model = Load(path.path());
    const SpillShape shape = ShapeOf(*model, tokens.size(), Dtype::kF16);
    const auto expected = Run(*model, tokens, shape, folder.path() + "/cpu", nullptr);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    const auto device = OpenDevice();
    PrefillOptions options;
    options.device_block_bytes = 1;
    const auto found =
        Run(*model, tokens, shape, folder.path() + "/device", Bring(model, device).get(), options);
    ASSERT_TRUE(found.ok()) << found.status().message() << cuda_emulation::TakeReport();
    ExpectNear(**found, **expected, kF16Error);
  }
}

TEST_P(DevicePrefillTest, WeightsOfBf16HaveTheCpusKeysAndValues) {
  const auto model = Load(ReaderModel());
  const std::vector<int32_t> tokens = TextTokens(24);
  SpillShape shape = ShapeOf(*model, tokens.size(), Dtype::kF16);
  shape.squared_sums = false;  // of so few tokens they say nothing
  const TempFolder folder;
  const auto expected = Run(*model, tokens, shape, folder.path() + "/cpu", nullptr);
  const auto found =
      Run(*model, tokens, shape, folder.path() + "/device", Bring(model, OpenDevice()).get());
  ASSERT_TRUE(expected.ok() && found.ok()) << found.status().message();
  ExpectNear(**found, **expected, kBf16Error);
}

// Both types of rows. Layers stay all, one of two, none: what is taken is what the plan says, and
// no bit is another.
TEST_P(DevicePrefillTest, WhereRowsAreChangesNoBit) {
  const auto model = Load(TinyModel());
  const ModelConfig& config = model->config();
  const std::vector<int32_t> tokens = TextTokens(530);
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16}) {
    const TempFolder folder;
    const SpillShape shape = ShapeOf(*model, tokens.size(), dtype);
    const auto expected = Run(*model, tokens, shape, folder.path() + "/cpu", nullptr);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    const DevicePrefillShape cut = PlanDevicePrefill(config, dtype, tokens.size(),
                                                     OpenDevice()->info().num_multiprocessors, 1);
    const uint64_t layer = PrefillLayerBytes(config, cut);
    uint64_t before = 0;
    {
      const auto device = OpenDevice();
      const auto brought = Bring(model, device);
      const auto stream = DeviceStream::Create(device);
      ASSERT_TRUE(stream.ok());
      before = device->memory()->reserved();
    }
    const uint64_t least = before + DevicePrefillBytes(config, cut);
    std::unique_ptr<KvSpill> first;
    for (const uint64_t num_resident : {2, 1, 0}) {
      if (dtype == Dtype::kBf16 && num_resident > 0) continue;
      SCOPED_TRACE(std::to_string(num_resident) + " layers stay");
      const uint64_t room = num_resident > 0 ? DeviceRoomForAsking(config) : 0;
      const auto device = OpenDevice(least + num_resident * layer + room);
      PrefillOptions options;
      options.device_block_bytes = 1;
      uint64_t taken = 0;
      options.on_chunk = [&](uint64_t) { taken = device->memory()->reserved() - before; };
      auto found = Run(*model, tokens, shape, folder.path() + "/" + std::to_string(num_resident),
                       Bring(model, device).get(), options);
      ASSERT_TRUE(found.ok()) << found.status().message() << cuda_emulation::TakeReport();
      const uint64_t beside = taken - num_resident * layer;
      EXPECT_LE(beside, DevicePrefillBytes(config, cut));
      EXPECT_GE(beside, DevicePrefillBytes(config, cut) * 9 / 10);
      if (first) {
        ExpectSameBits(**found, *first);
      } else {
        ExpectNear(**found, **expected, dtype == Dtype::kBf16 ? kBf16Error : kF16Error);
        first = std::move(found).value();
      }
    }
  }
}

// Cancelled in the midst of the second chunk, and taken up where less memory is.
TEST_P(DevicePrefillTest, AnInterruptedRunEndsWithTheSameBits) {
  const auto model = Load(TinyModel());
  const std::vector<int32_t> tokens = TextTokens(530);
  SpillShape shape = ShapeOf(*model, tokens.size(), Dtype::kF16);
  shape.squared_sums = false;
  const TempFolder folder;
  const auto device = OpenDevice();
  const auto brought = Bring(model, device);
  const auto whole = Run(*model, tokens, shape, folder.path() + "/whole", brought.get());
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  PrefillOptions options;
  int polls = 0;  // one before each layer
  options.is_cancelled = [&] { return ++polls > 3; };
  const std::string path = folder.path() + "/cut";
  const auto cancelled = Run(*model, tokens, shape, path, brought.get(), options);
  EXPECT_EQ(cancelled.status().code(), Code::kCancelled);
  EXPECT_NE(cancelled.status().message().find("from token 512"), std::string::npos)
      << cancelled.status().message();
  const DevicePrefillShape plan = PlanDevicePrefill(model->config(), Dtype::kF16, tokens.size(),
                                                    device->info().num_multiprocessors);
  const auto little = OpenDevice(DeviceWeightBytes(model->config()) + kDeviceStreamBytes +
                                 DevicePrefillBytes(model->config(), plan));
  const auto resumed = Run(*model, tokens, shape, path, Bring(model, little).get());
  ASSERT_TRUE(resumed.ok()) << resumed.status().message();
  ExpectSameBits(**resumed, **whole);
}

// A sparse prefill whose dense chunks the CPU has done goes on: the device does the rows that are not
// clustered, the CPU the clusters, and keys and values are near those of the CPU alone.
TEST_P(DevicePrefillTest, ASparsePrefillAddsItsClusters) {
  const auto model = Load(TinyModel());
  const std::vector<int32_t> tokens = TextTokens(kDenseTokens + 300);
  SpillShape shape = ShapeOf(*model, tokens.size(), Dtype::kF16);
  shape.squared_sums = false;
  const TempFolder folder;
  const std::string here = folder.path() + "/here", there = folder.path() + "/there";
  PrefillOptions options;
  uint64_t done = 0;
  options.on_chunk = [&](uint64_t tokens_done) { done = tokens_done; };
  options.is_cancelled = [&] { return done == kDenseTokens; };
  const auto dense = Run(*model, tokens, shape, here, nullptr, options);
  EXPECT_EQ(dense.status().code(), Code::kCancelled);
  std::filesystem::copy(here, there, std::filesystem::copy_options::recursive);
  const auto run = [&](const std::string& path, const DeviceTransformer* device) {
    PrefillOptions sparse;
    sparse.sparse.emplace(SparsePrefill{
        .env = Env::Default(), .directory = path + "/clusters", .temp_dir = path, .budget = 1});
    auto spill = Run(*model, tokens, shape, path, device, sparse);
    EXPECT_TRUE(spill.ok()) << spill.status().message();
    return std::move(spill).value();
  };
  const auto expected = run(here, nullptr);
  const auto found = run(there, Bring(model, OpenDevice()).get());
  ExpectNear(*found, *expected, kF16Error);
}

INSTANTIATE_TEST_SUITE_P(Machines, DevicePrefillTest,
                         ::testing::Values(Machine::kEmulated, Machine::kGpu), MachineName);

}  // namespace
}  // namespace lectern
