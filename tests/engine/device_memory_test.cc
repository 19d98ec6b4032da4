// Documents larger than the memory of a device: codes stay before rows do, rows come through a
// cache or are brought for each step, and whatever there is room for, what is attended is the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "engine/device_plan.h"
#include "engine/document_attention.h"
#include "tests/engine/device_machine.h"
#include "tests/engine/invented_model.h"
#include "tests/kernels/matrix.h"

namespace lectern {
namespace {

using testing::IndexTokens;
using testing::Machine;
using testing::MachineName;
using testing::OnMachine;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::TextTokens;
using testing::TinyModel;
using testing::TokenDocument;
using testing::WriteInventedModel;

constexpr size_t kGroup = 2;  // query heads of a kv head

// Queries of a step of a layer, and what they attend to.
struct Step {
  Step(const Document& document, size_t tokens, unsigned seed) : num_tokens(tokens) {
    const size_t dim = document.shape().head_dim, num_rows = tokens * kGroup;
    for (uint32_t h = 0; h < document.shape().num_kv_heads; ++h) {
      queries.push_back(Matrix::Random(num_rows, dim, 11 * seed + h, 1.5f));
      numbers.emplace_back(num_rows * (dim + 2));
    }
    views.assign(queries.begin(), queries.end());
    for (std::vector<float>& of_head : numbers) {
      float* const base = of_head.data();
      states.push_back({{base, num_rows, dim},
                        {base + num_rows * dim, num_rows},
                        {base + num_rows * (dim + 1), num_rows}});
      ResetState(states.back());
    }
  }
  Step(const Step&) = delete;
  size_t num_tokens;
  std::vector<Matrix> queries;
  std::vector<std::vector<float>> numbers;
  std::vector<Rows<const float>> views;
  std::vector<AttentionState> states;
  DocumentRead read;
};

// The largest difference of outputs and log-sum-exps.
double Difference(const Step& a, const Step& b) {
  double largest = 0;
  for (size_t h = 0; h < a.states.size(); ++h) {
    for (size_t r = 0; r < a.states[h].num_rows(); ++r) {
      const float a_sum = a.states[h].sum[r], b_sum = b.states[h].sum[r];
      for (size_t c = 0; c < a.states[h].out.num_cols; ++c) {
        largest = std::max<double>(
            largest, std::abs(a.states[h].out[r][c] / a_sum - b.states[h].out[r][c] / b_sum));
      }
      largest = std::max<double>(largest, std::abs(a.states[h].max[r] + std::log(a_sum) -
                                                   b.states[h].max[r] - std::log(b_sum)));
    }
  }
  return largest;
}

class DeviceMemoryTest : public OnMachine {
 protected:
  static constexpr uint32_t kTokens = 2600;

  static const std::shared_ptr<const Document>& DocumentOf(Dtype dtype) {
    struct Indexed {
      TempFolder model, folder;
      TokenDocument document;
    };
    static std::map<Dtype, Indexed> documents;
    Indexed& indexed = documents[dtype];
    if (indexed.document.document) return indexed.document.document;
    if (dtype == Dtype::kQ8) {  // heads of 32 numbers
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
      WriteInventedModel(*parsed->Find("llama"), indexed.model.path());
    }
    indexed.document = IndexTokens(dtype == Dtype::kQ8 ? indexed.model.path() : TinyModel(),
                                   TextTokens(kTokens), indexed.folder.path(), {.kv_dtype = dtype});
    EXPECT_EQ(indexed.document.document->kv_dtype(), dtype);
    return indexed.document.document;
  }

  static std::span<const HeadIndex> HeadsOf(const Document& document, uint32_t layer) {
    const auto heads = document.Heads(layer);
    EXPECT_TRUE(heads.ok());
    return heads.ok() ? *heads : std::span<const HeadIndex>();
  }
  // Of a device.
  static uint64_t RowsBytes(const Document& document, uint32_t layer) {
    uint64_t num_rows = 0;
    for (const HeadIndex& head : HeadsOf(document, layer)) num_rows += head.num_rows();
    return num_rows * 2 * RowBytes(document.kv_dtype(), document.shape().head_dim);
  }
  // Of all layers, and of lookups.
  static uint64_t CodesBytes(const Document& document) {
    uint64_t bytes = 0, lookup = 0;
    for (uint32_t layer = 0; layer < document.num_layers(); ++layer) {
      bytes += DeviceCodes::Bytes(HeadsOf(document, layer));
      lookup = std::max(lookup, DeviceLookup::MostBytes(HeadsOf(document, layer)));
    }
    return bytes + lookup;
  }
  static uint64_t AllBytes(const Document& document) {
    uint64_t bytes = CodesBytes(document);
    for (uint32_t layer = 0; layer < document.num_layers(); ++layer) {
      bytes += RowsBytes(document, layer);
    }
    return bytes;
  }

  // A document on a device with so much room for it beside what sessions take.
  struct Placed {
    std::shared_ptr<const Document> document;
    std::shared_ptr<Device> device;
    std::shared_ptr<DeviceDocument> there;
  };
  Placed Place(Dtype dtype, uint64_t room, size_t num_sessions = 1) {
    Placed placed;
    placed.document = DocumentOf(dtype);
    const ShardHeader& shape = placed.document->shape();
    const uint64_t asking = DeviceAttentionBytes(shape.num_kv_heads, shape.head_dim,
                                                 OpenDevice()->info().num_multiprocessors);
    placed.device = OpenDevice(num_sessions * kDeviceStreamBytes + asking + room);
    placed.there =
        std::make_shared<DeviceDocument>(placed.device, placed.document, *DefaultBackend(), 0);
    return placed;
  }

  // One conversation; nullptr: of the CPU.
  struct Asker {
    explicit Asker(const Placed* placed) {
      if (placed == nullptr) return;
      auto stream = DeviceStream::Create(placed->device);
      EXPECT_TRUE(stream.ok()) << stream.status().message();
      attention = std::make_unique<DeviceAttention>(*stream, placed->there, *DefaultBackend());
    }
    std::unique_ptr<DeviceAttention> attention;
    AttentionWorkspace workspace;
    ThreadPool threads{1};
  };
  // `selector`: nullptr: the device's lookup, or the host's.
  static Status Attend(Asker& asker, const Document& document, uint32_t layer, Step& step,
                       double budget, const Selector* selector = nullptr) {
    for (const AttentionState& state : step.states) ResetState(state);
    return AttendDocument({.document = document,
                           .backend = *DefaultBackend(),
                           .threads = asker.threads,
                           .layer = layer,
                           .queries = step.views,
                           .num_tokens = step.num_tokens,
                           .first_position = kTokens,
                           .kv_budget = budget,
                           .tail = true,
                           .states = step.states,
                           .is_cancelled = {},
                           .selector = selector,
                           .workspace = asker.workspace,
                           .device = asker.attention.get()},
                          step.read);
  }
  static size_t NumRowsRead(const Step& step) {
    size_t num_rows = 0;
    for (const HeadSelection& selection : step.read.heads) num_rows += selection.rows.size();
    return num_rows;
  }
};

// ---- Codes before rows

TEST_P(DeviceMemoryTest, CodesStayWhereRowsDoNotAndTheDeviceLooksUp) {
  const auto document = DocumentOf(Dtype::kF16);
  const Placed whole = Place(Dtype::kF16, uint64_t{1} << 30);
  const Placed coded = Place(Dtype::kF16, CodesBytes(*document) + RowsBytes(*document, 0) / 2);
  const Placed none = Place(Dtype::kF16, 0);
  Asker of_whole(&whole), of_coded(&coded), of_none(&none), of_host(nullptr);
  for (uint32_t layer = 0; layer < document->num_layers(); ++layer) {
    Step by_whole(*document, 1, layer), by_coded(*document, 1, layer), by_none(*document, 1, layer),
        by_host(*document, 1, layer);
    ASSERT_TRUE(Attend(of_whole, *document, layer, by_whole, 0.3).ok());
    ASSERT_TRUE(Attend(of_coded, *document, layer, by_coded, 0.3).ok());
    ASSERT_TRUE(Attend(of_none, *document, layer, by_none, 0.3).ok());
    ASSERT_TRUE(Attend(of_host, *document, layer, by_host, 0.3).ok());
    for (size_t h = 0; h < by_whole.read.heads.size(); ++h) {
      EXPECT_EQ(by_coded.read.heads[h].rows, by_whole.read.heads[h].rows);
      EXPECT_EQ(by_none.read.heads[h].rows, by_host.read.heads[h].rows);
      // Which is how they are told apart.
      EXPECT_NE(by_coded.read.heads[h].rows, by_host.read.heads[h].rows);
    }
    EXPECT_LE(Difference(by_coded, by_whole), 1e-5);
    EXPECT_LE(Difference(by_none, by_host), 1e-2);
  }
  EXPECT_EQ(whole.there->num_coded(), document->num_layers());
  EXPECT_EQ(whole.there->num_resident(), document->num_layers());
  EXPECT_EQ(coded.there->num_coded(), document->num_layers());
  EXPECT_EQ(coded.there->num_resident(), 0u);
  EXPECT_EQ(none.there->num_coded(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Machines, DeviceMemoryTest,
                         ::testing::Values(Machine::kEmulated, Machine::kGpu), MachineName);

}  // namespace
}  // namespace lectern
