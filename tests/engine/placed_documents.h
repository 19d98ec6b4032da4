// For tests of documents on a device with limited memory: places documents there, and makes steps
// that attend to them.
#ifndef LECTERN_TESTS_ENGINE_PLACED_DOCUMENTS_H_
#define LECTERN_TESTS_ENGINE_PLACED_DOCUMENTS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/attention/document_attention.h"
#include "engine/gpu/memory_plan.h"
#include "tests/engine/device_machine.h"
#include "tests/kernels/matrix.h"

namespace lectern::testing {

inline constexpr size_t kGroup = 2;  // query heads of a kv head

// The queries of a step of a layer, and the memory for their attention states, which begin empty.
// `tokens`: of the step; `seed` draws the queries.
struct LayerStep {
  LayerStep(const Document& document, size_t tokens, unsigned seed) : num_tokens(tokens) {
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
  LayerStep(const LayerStep&) = delete;
  size_t num_tokens;
  std::vector<float> weights;  // as LookupArgs::row_weights
  std::vector<Matrix> queries;
  std::vector<std::vector<float>> numbers;
  std::vector<Rows<const float>> views;
  std::vector<AttentionState> states;
  DocumentRead read;
};

// The largest difference of outputs and log-sum-exps of two steps of the same shape.
inline double Difference(const LayerStep& a, const LayerStep& b) {
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

// A test with documents on a device with limited room. Errors fail the test, unless a Status is
// returned.
class PlacedDocuments : public OnMachine {
 protected:
  static constexpr uint32_t kTokens = 2600;

  // A document of invented tokens, indexed once for the process.
  static const std::shared_ptr<const Document>& DocumentOf(Dtype dtype,
                                                           uint32_t num_tokens = kTokens) {
    struct OnDisk {
      TempFolder folder;
      TokenDocument document;
    };
    static std::map<std::pair<Dtype, uint32_t>, OnDisk> documents;
    OnDisk& indexed = documents[{dtype, num_tokens}];
    if (indexed.document.document) return indexed.document.document;
    indexed.document = IndexTokens(ModelFor(dtype), TextTokens(num_tokens), indexed.folder.path(),
                                   {.kv_dtype = dtype});
    EXPECT_EQ(indexed.document.document->kv_dtype(), dtype);
    return indexed.document.document;
  }

  // Views of the document's heads; an error fails the test and gives none.
  static std::span<const HeadIndex> HeadsOf(const Document& document, uint32_t layer) {
    const auto heads = document.Heads(layer);
    EXPECT_TRUE(heads.ok());
    return heads.ok() ? *heads : std::span<const HeadIndex>();
  }
  // Bytes of a layer's rows on a device.
  static uint64_t RowsBytes(const Document& document, uint32_t layer) {
    uint64_t num_rows = 0;
    for (const HeadIndex& head : HeadsOf(document, layer)) num_rows += head.num_rows();
    return num_rows * (2 * RowBytes(document.kv_dtype(), document.shape().head_dim) + 4);
  }
  // Bytes of the codes of all layers on a device, and of the largest lookup.
  static uint64_t CodesBytes(const Document& document) {
    uint64_t bytes = 0, lookup = 0;
    for (uint32_t layer = 0; layer < document.num_layers(); ++layer) {
      bytes += DeviceCodes::Bytes(HeadsOf(document, layer));
      lookup = std::max(lookup, DeviceLookup::MostBytes(HeadsOf(document, layer)));
    }
    return bytes + lookup;
  }
  // The bytes that a device needs to hold the whole document.
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
  // `room`: bytes for the document; `num_sessions`: conversations that find memory beside it.
  Placed Place(Dtype dtype, uint64_t room, size_t num_sessions = 1) {
    return Place(DocumentOf(dtype), room, num_sessions);
  }
  Placed Place(std::shared_ptr<const Document> document, uint64_t room, size_t num_sessions = 1) {
    Placed placed;
    placed.document = std::move(document);
    const ShardHeader& shape = placed.document->shape();
    const uint64_t asking = DeviceAttentionBytes(shape.num_kv_heads, shape.head_dim,
                                                 OpenDevice()->info().num_multiprocessors);
    placed.device = OpenDevice(num_sessions * kDeviceStreamBytes + asking + room);
    placed.there =
        std::make_shared<DeviceDocument>(placed.device, placed.document, *DefaultBackend(), 0);
    return placed;
  }

  // One conversation on a placed document, which must outlive it; nullptr: of the CPU.
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
  // Attends one step of a layer: resets `step`'s states and fills them and step.read in.
  // `selector`: nullptr: the device's lookup, or the host's. Errors of AttendDocument.
  static Status Attend(Asker& asker, const Document& document, uint32_t layer, LayerStep& step,
                       double budget, const Selector* selector = nullptr,
                       ObservedLogits* observed = nullptr) {
    for (const AttentionState& state : step.states) ResetState(state);
    return AttendDocument({.query = {.backend = *DefaultBackend(),
                                     .threads = asker.threads,
                                     .rows = {.queries = step.views,
                                              .num_tokens = step.num_tokens,
                                              .softcap = 0,
                                              .states = step.states},
                                     .row_weights = step.weights,
                                     .is_cancelled = {},
                                     .workspace = asker.workspace},
                           .document = document,
                           .layer = layer,
                           .first_position = document.row().num_tokens,
                           .kv_budget = budget,
                           .tail = true,
                           .selector = selector,
                           .observed = observed,
                           .device = asker.attention.get()},
                          step.read);
  }
  struct Stored {
    std::vector<std::byte> keys, values;
  };
  // Rows [at, at + count) of a device as a shard has them; q8 in blocks. Waits for the stream.
  static Stored Download(DeviceStream& stream, const DeviceKvRows& rows, size_t dim, size_t at,
                         size_t count) {
    const DeviceKv view = rows.view();
    const auto read = [&](const void* data, const f16* scales) {
      const bool is_q8 = view.dtype == Dtype::kQ8;
      const size_t row = dim * (is_q8 ? 1 : 2), row_scales = dim / kQ8Block;
      std::vector<std::byte> numbers(count * row), of_scales(is_q8 ? 2 * count * row_scales : 0);
      const CudaKernels& kernels = stream.stream().kernels();
      const auto copy = [&](std::vector<std::byte>& to, const void* from) {
        EXPECT_TRUE(
            kernels.copy_from_device(stream.stream().handle(), to.data(), from, to.size()).ok());
      };
      copy(numbers, static_cast<const std::byte*>(data) + at * row);
      if (is_q8) copy(of_scales, scales + at * row_scales);
      EXPECT_TRUE(stream.Wait().ok());
      if (!is_q8) return numbers;
      std::vector<std::byte> blocks;
      for (size_t i = 0; i < count * row_scales; ++i) {
        const auto scale = of_scales.begin() + static_cast<ptrdiff_t>(2 * i);
        const auto block = numbers.begin() + static_cast<ptrdiff_t>(kQ8Block * i);
        blocks.insert(blocks.end(), scale, scale + 2);
        blocks.insert(blocks.end(), block, block + kQ8Block);
      }
      return blocks;
    };
    return {read(view.keys, view.key_scales), read(view.values, view.value_scales)};
  }
  // Rows that the last Attend chose, of all heads; sinks and window are not among them.
  static size_t NumRowsRead(const LayerStep& step) {
    size_t num_rows = 0;
    for (const HeadSelection& selection : step.read.heads) num_rows += selection.rows.size();
    return num_rows;
  }
};

}  // namespace lectern::testing

#endif  // LECTERN_TESTS_ENGINE_PLACED_DOCUMENTS_H_
