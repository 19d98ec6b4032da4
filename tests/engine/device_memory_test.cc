// Documents larger than the memory of a device: codes stay before rows do, rows come through a
// cache or are brought for each step, and whatever there is room for, what is attended is the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <new>
#include <numeric>
#include <random>
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
using testing::ModelFor;
using testing::OnMachine;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::TextTokens;
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

  static const std::shared_ptr<const Document>& DocumentOf(Dtype dtype,
                                                           uint32_t num_tokens = kTokens) {
    struct Indexed {
      TempFolder folder;
      TokenDocument document;
    };
    static std::map<std::pair<Dtype, uint32_t>, Indexed> documents;
    Indexed& indexed = documents[{dtype, num_tokens}];
    if (indexed.document.document) return indexed.document.document;
    indexed.document = IndexTokens(ModelFor(dtype), TextTokens(num_tokens), indexed.folder.path(),
                                   {.kv_dtype = dtype});
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
    return num_rows * (2 * RowBytes(document.kv_dtype(), document.shape().head_dim) + 4);
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
                       double budget, const Selector* selector = nullptr,
                       ObservedLogits* observed = nullptr) {
    for (const AttentionState& state : step.states) ResetState(state);
    return AttendDocument({.document = document,
                           .backend = *DefaultBackend(),
                           .threads = asker.threads,
                           .layer = layer,
                           .queries = step.views,
                           .num_tokens = step.num_tokens,
                           .first_position = document.row().num_tokens,
                           .kv_budget = budget,
                           .tail = true,
                           .states = step.states,
                           .is_cancelled = {},
                           .selector = selector,
                           .workspace = asker.workspace,
                           .observed = observed,
                           .device = asker.attention.get()},
                          step.read);
  }
  struct Stored {
    std::vector<std::byte> keys, values;
  };
  // Rows [at, at + count) of a device as a shard has them.
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
  static size_t NumRowsRead(const Step& step) {
    size_t num_rows = 0;
    for (const HeadSelection& selection : step.read.heads) num_rows += selection.rows.size();
    return num_rows;
  }
};

// ---- Two halves on their way

// Rows and numbers that fill small halves many times arrive as they are, also where the device
// copies late, and without pinned memory.
TEST_P(DeviceMemoryTest, WhatGoesThroughStagingMemoryArrives) {
  const auto stream = DeviceStream::Create(OpenDevice());
  ASSERT_TRUE(stream.ok());
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16, Dtype::kQ8}) {
    const std::span<const HeadIndex> heads = HeadsOf(*DocumentOf(dtype), 0);
    const HeadIndex& head = heads.front();
    const size_t dim = DocumentOf(dtype)->shape().head_dim;
    std::vector<uint32_t> rows;
    for (uint32_t row = head.num_exact(); row < head.num_rows(); row += 1 + row % 5) {
      rows.push_back(row);
    }
    std::vector<std::byte> keys, values;
    ASSERT_TRUE(head.GatherRows(rows, keys, values).ok());
    std::vector<float> numbers(3000);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
    for (const bool is_late : {false, true}) {
      for (const bool has_pinned : {false, true}) {
        SCOPED_TRACE(static_cast<int>(dtype) * 4 + is_late * 2 + has_pinned);
        cuda_emulation::SetLate(is_late);
        cuda_emulation::SetFaults({.has_pinned = has_pinned});
        KvStaging staging(4096);
        DeviceKvRows there;
        DeviceArray<float> there_numbers;
        ASSERT_TRUE(there_numbers.Reserve(**stream, numbers.size(), "a test").ok());
        ASSERT_TRUE(there.Reserve(**stream, dtype, dim, rows.size() + 7, "a test").ok());
        const WaitsForStream wait(**stream);
        staging.Begin(there, 3);
        ASSERT_TRUE(staging.AddGathered(**stream, head, std::span(rows).first(500)).ok());
        const size_t left = rows.size() - 500, row_bytes = RowBytes(dtype, dim);
        const TypedRows more = {keys.data() + 500 * row_bytes, dtype, left, dim};
        ASSERT_TRUE(
            staging.Add(**stream, more, {values.data() + 500 * row_bytes, dtype, left, dim}).ok());
        ASSERT_TRUE(staging.End(**stream).ok());
        EXPECT_EQ(staging.num_rows(), rows.size());
        ASSERT_TRUE(staging.Upload(**stream, std::span<const float>(numbers), there_numbers).ok());
        std::vector<float> back(numbers.size());
        ASSERT_TRUE(there_numbers.Download(**stream, back.data(), back.size()).ok());
        const Stored stored = Download(**stream, there, dim, 3, rows.size());
        EXPECT_EQ(stored.keys, keys);
        EXPECT_EQ(stored.values, values);
        EXPECT_EQ(back, numbers);
      }
    }
  }
}

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

// ---- Rows that stay, are cached, or are brought each time

// A conversation's steps: a question of three tokens, a token twice, another token.
struct Talk {
  explicit Talk(const Document& document, unsigned seed = 0) {
    for (const auto& [num_tokens, number] : {std::pair(3u, 0u), {1u, 1u}, {1u, 1u}, {1u, 2u}}) {
      for (uint32_t layer = 0; layer < document.num_layers(); ++layer) {
        steps.push_back(
            std::make_unique<Step>(document, num_tokens, 100 * seed + 10 * number + layer));
      }
    }
  }
  std::vector<std::unique_ptr<Step>> steps;  // [steps][layers]
};

// Of a host's lookup, so that all attend to the same rows.
Result<std::vector<HeadSelection>> LookUpHere(uint32_t, const LookupArgs& args) {
  std::vector<HeadSelection> selections;
  LECTERN_RETURN_IF_ERROR(Lookup(args, selections));
  return selections;
}

class DeviceCacheTest : public DeviceMemoryTest {
 protected:
  static Status Take(Talk& talk, Asker& asker, const Document& document, double budget) {
    static const Selector selector = LookUpHere;
    for (size_t i = 0; i < talk.steps.size(); ++i) {
      const auto layer = static_cast<uint32_t>(i % document.num_layers());
      LECTERN_RETURN_IF_ERROR(Attend(asker, document, layer, *talk.steps[i], budget, &selector));
    }
    return {};
  }
  static double LargestDifference(const Talk& a, const Talk& b) {
    double largest = 0;
    for (size_t i = 0; i < a.steps.size(); ++i) {
      largest = std::max(largest, Difference(*a.steps[i], *b.steps[i]));
    }
    return largest;
  }
  // Room for codes and so many rows of a cache, and for the queries of a step.
  static uint64_t RoomForRows(const Document& document, uint64_t num_rows) {
    return CodesBytes(document) +
           num_rows * 2 * RowBytes(document.kv_dtype(), document.shape().head_dim) + 1024;
  }
  // What a step of a layer reads by the cache.
  static size_t NumCached(const Document& document, uint32_t layer, const Step& step) {
    size_t num_rows = NumRowsRead(step);
    for (const HeadIndex& head : HeadsOf(document, layer)) num_rows += head.num_exact();
    return num_rows;
  }
  static size_t NumRows(const Document& document) {
    size_t num_rows = 0;
    for (uint32_t layer = 0; layer < document.num_layers(); ++layer) {
      for (const HeadIndex& head : HeadsOf(document, layer)) num_rows += head.num_rows();
    }
    return num_rows;
  }
};

TEST_P(DeviceCacheTest, WhateverThereIsRoomForTheSameIsAttended) {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16, Dtype::kQ8}) {
    const auto document = DocumentOf(dtype);
    const double tolerance = dtype == Dtype::kBf16 ? 0.1 : 0.02;
    const double between = dtype == Dtype::kBf16 ? 2e-3 : 2e-4;  // the weights' rounding
    const size_t num_rows = NumRows(*document);
    for (const double budget : {1.0, 0.3}) {
      Talk here(*document);
      Asker of_host(nullptr);
      ASSERT_TRUE(Take(here, of_host, *document, budget).ok());
      Talk by_whole(*document);
      const Placed whole = Place(dtype, uint64_t{1} << 30);
      Asker of_whole(&whole);
      ASSERT_TRUE(Take(by_whole, of_whole, *document, budget).ok());
      EXPECT_LE(LargestDifference(by_whole, here), tolerance);
      EXPECT_EQ(whole.there->num_resident(), document->num_layers());
      const DeviceDocument::CacheStats none = whole.there->cache_stats();
      EXPECT_EQ(none.num_slots + none.hits + none.misses, 0u);
      size_t num_cached = 0, num_streamed = 0;
      for (const uint64_t room :
           {AllBytes(*document) + 4096, AllBytes(*document) - 4096,
            RoomForRows(*document, num_rows / 2), RoomForRows(*document, num_rows / 5),
            RoomForRows(*document, 700), RoomForRows(*document, 300), RoomForRows(*document, 100),
            uint64_t{0}}) {
        for (const bool is_late : {false, true}) {
          if (is_late && dtype != Dtype::kF16) continue;
          SCOPED_TRACE(::testing::Message() << "dtype " << static_cast<int>(dtype) << " budget "
                                            << budget << " room " << room << " late " << is_late);
          cuda_emulation::SetLate(is_late);
          const Placed placed = Place(dtype, room);
          Asker asker(&placed);
          Talk there(*document);
          const Status taken = Take(there, asker, *document, budget);
          ASSERT_TRUE(taken.ok()) << taken.message() << cuda_emulation::TakeReport();
          EXPECT_LE(LargestDifference(there, by_whole), between);
          const DeviceDocument::CacheStats stats = placed.there->cache_stats();
          if (room > AllBytes(*document)) {
            EXPECT_EQ(placed.there->num_resident(), document->num_layers());
          } else {
            EXPECT_LT(placed.there->num_resident(), document->num_layers());
          }
          num_cached += stats.num_slots > 0;
          num_streamed += stats.num_slots == 0 && placed.there->num_resident() == 0;
        }
      }
      cuda_emulation::SetLate(false);
      const size_t times = dtype == Dtype::kF16 ? 2 : 1;
      EXPECT_EQ(num_cached, budget < 1 ? 5 * times : 0u);
      EXPECT_GE(num_streamed, 2 * times);
    }
  }
}

TEST_P(DeviceCacheTest, WhatWasReadIsFoundAgain) {
  const auto document = DocumentOf(Dtype::kF16);
  const size_t num_rows = NumRows(*document);
  const Placed placed = Place(Dtype::kF16, RoomForRows(*document, num_rows * 2 / 3));
  Asker asker(&placed);
  const Selector selector = LookUpHere;
  uint64_t misses = 0, hits = 0;
  std::vector<size_t> read;
  for (const unsigned seed : {1, 1, 2, 1}) {  // tokens
    uint64_t wanted = 0;
    for (uint32_t layer = 0; layer < document->num_layers(); ++layer) {
      Step step(*document, 1, 10 * seed + layer);
      ASSERT_TRUE(Attend(asker, *document, layer, step, 0.2, &selector).ok());
      wanted += NumCached(*document, layer, step);
    }
    const DeviceDocument::CacheStats stats = placed.there->cache_stats();
    EXPECT_EQ(stats.hits - hits + stats.misses - misses, wanted);
    read.push_back(stats.misses - misses);
    hits = stats.hits;
    misses = stats.misses;
    EXPECT_GT(stats.num_slots, num_rows * 2 / 3 - 20);
    EXPECT_LT(stats.num_slots, num_rows * 2 / 3 + 20);
    EXPECT_GT(wanted, 1000u);
  }
  EXPECT_GT(read[0], 1000u);    // each row once
  EXPECT_EQ(read[1], 0u);       // the same token: all is there
  EXPECT_LT(read[2], read[0]);  // another: sinks, window and more are
  EXPECT_GT(read[2], 0u);
  EXPECT_EQ(read[3], 0u);  // both fit
}

TEST_P(DeviceCacheTest, NoRowIsFetchedTwiceInAStep) {
  const auto document = DocumentOf(Dtype::kF16);
  const Selector selector = LookUpHere;
  // Of which a step's rows are some turns of all slots.
  const Placed placed = Place(Dtype::kF16, RoomForRows(*document, 500));
  const Placed whole = Place(Dtype::kF16, uint64_t{1} << 30);
  Asker asker(&placed), of_whole(&whole);
  for (unsigned seed = 0; seed < 3; ++seed) {
    for (uint32_t layer = 0; layer < document->num_layers(); ++layer) {
      const DeviceDocument::CacheStats before = placed.there->cache_stats();
      Step step(*document, 1, 10 * seed + layer), expected(*document, 1, 10 * seed + layer);
      ASSERT_TRUE(Attend(asker, *document, layer, step, 0.3, &selector).ok());
      ASSERT_TRUE(Attend(of_whole, *document, layer, expected, 0.3, &selector).ok());
      EXPECT_LE(Difference(step, expected), 2e-4);
      const DeviceDocument::CacheStats after = placed.there->cache_stats();
      const size_t wanted = NumCached(*document, layer, step);
      ASSERT_GT(wanted, 2 * after.num_slots);
      EXPECT_EQ(after.hits - before.hits + after.misses - before.misses, wanted);
      if (before.misses == 0) {
        EXPECT_EQ(after.misses, wanted);
      }
    }
  }
}

// Logits of what was read, for evidence, are the same: of all slots, of some turns of them (by the
// host), and where rows stay.
TEST_P(DeviceCacheTest, WhatIsObservedIsTheSame) {
  const auto document = DocumentOf(Dtype::kF16);
  const Selector selector = LookUpHere;
  Asker of_host(nullptr);
  Step expected(*document, 1, 7);
  ObservedLogits logits;
  logits.num_queries = kGroup;
  ASSERT_TRUE(Attend(of_host, *document, 0, expected, 0.3, &selector, &logits).ok());
  for (const uint64_t num_rows : {500, 4000, 1 << 20}) {
    const Placed placed = Place(Dtype::kF16, RoomForRows(*document, num_rows));
    Asker asker(&placed);
    for (int i = 0; i < 2; ++i) {
      Step step(*document, 1, 7);
      ObservedLogits found;
      found.num_queries = kGroup;
      ASSERT_TRUE(Attend(asker, *document, 0, step, 0.3, &selector, &found).ok());
      for (const auto part : {&ObservedLogits::exact, &ObservedLogits::rest}) {
        ASSERT_EQ((found.*part).size(), (logits.*part).size());
        for (size_t h = 0; h < (logits.*part).size(); ++h) {
          ASSERT_EQ((found.*part)[h].size(), (logits.*part)[h].size());
          for (size_t c = 0; c < (logits.*part)[h].size(); ++c) {
            ASSERT_NEAR((found.*part)[h][c], (logits.*part)[h][c], 0.02);
          }
        }
      }
    }
  }
}

// Layers that are read whole do not sweep the cache, nor does what needs many turns of it.
TEST_P(DeviceCacheTest, WhatIsReadWholeLeavesTheCacheAlone) {
  const auto document = DocumentOf(Dtype::kQ8);
  const Selector selector = LookUpHere;
  ASSERT_EQ(document->num_layers(), 3u);
  const Placed placed = Place(Dtype::kQ8, RoomForRows(*document, NumRows(*document) * 3 / 4));
  Asker asker(&placed);
  const auto take = [&](double budget) {
    for (uint32_t layer = 0; layer < document->num_layers(); ++layer) {
      Step step(*document, 1, layer);
      EXPECT_TRUE(Attend(asker, *document, layer, step, budget, &selector).ok());
    }
    return placed.there->cache_stats();
  };
  // The first two layers stay as long as nobody needs the cache.
  EXPECT_EQ(take(1).num_slots, 0u);
  EXPECT_EQ(placed.there->num_resident(), 2u);
  EXPECT_EQ(take(1).num_slots, 0u);
  EXPECT_EQ(placed.there->num_resident(), 2u);
  // Nor does a question that two layers answer; the third's takes the room of the last of them.
  const DeviceDocument::CacheStats first = take(0.2);
  EXPECT_LT(placed.there->num_resident(), 2u);
  EXPECT_GT(first.misses, 0u);
  const DeviceDocument::CacheStats second = take(0.2), third = take(1), fourth = take(0.2);
  EXPECT_GT(second.misses + second.hits, first.misses + first.hits);
  EXPECT_EQ(third.misses + third.hits, second.misses + second.hits);
  EXPECT_EQ(fourth.misses, second.misses);
  EXPECT_GT(fourth.hits, third.hits);
}

TEST_P(DeviceCacheTest, WindowsStayBesideTheCache) {
  const auto cases = ParseJson(ReadWholeFile(SourcePath("tests/golden/architectures.json")));
  ASSERT_TRUE(cases.ok());
  const TempFolder model, folder;
  WriteInventedModel(*cases->Find("gemma2"), model.path());
  const TokenDocument indexed =
      IndexTokens(model.path(), TextTokens(kTokens), folder.path(), {.kv_dtype = Dtype::kF16});
  Placed placed = Place(Dtype::kF16, 0);
  const Document& document = *(placed.document = indexed.document);
  size_t num_windowed = 0;
  uint64_t windows = 0, codes = 0;
  for (uint32_t layer = 0; layer < document.num_layers(); ++layer) {
    if (!document.is_windowed(layer)) {
      codes += DeviceCodes::Bytes(HeadsOf(document, layer)) +
               DeviceLookup::MostBytes(HeadsOf(document, layer));
      continue;
    }
    ++num_windowed;
    windows += RowsBytes(document, layer);
  }
  ASSERT_GT(num_windowed, 0u);
  ASSERT_LT(num_windowed, document.num_layers());
  placed.device = OpenDevice(placed.device->memory()->bytes() + windows + codes + 64 * 400 + 1024);
  placed.there =
      std::make_shared<DeviceDocument>(placed.device, placed.document, *DefaultBackend(), 0);
  Asker asker(&placed), of_host(nullptr);
  const Selector selector = LookUpHere;
  for (uint32_t layer = document.num_layers(); layer-- > 0;) {  // windows after the others
    Step step(document, 2, layer), expected(document, 2, layer);
    ASSERT_TRUE(Attend(asker, document, layer, step, 0.2, &selector).ok());
    ASSERT_TRUE(Attend(of_host, document, layer, expected, 0.2, &selector).ok());
    EXPECT_LE(Difference(step, expected), 0.02);
  }
  EXPECT_EQ(placed.there->num_resident(), num_windowed);
  EXPECT_GT(placed.there->cache_stats().num_slots, 300u);
}

// ---- Others want memory, too

TEST_P(DeviceCacheTest, TheCacheIsGivenBackToOthersAndComesAgainSmaller) {
  const auto document = DocumentOf(Dtype::kF16);
  const Selector selector = LookUpHere;
  const Placed placed = Place(Dtype::kF16, RoomForRows(*document, 4000));
  Asker asker(&placed);
  const auto take = [&] {
    Step step(*document, 1, 5);
    EXPECT_TRUE(Attend(asker, *document, 0, step, 0.2, &selector).ok());
    return placed.there->cache_stats().num_slots;
  };
  const uint64_t at_first = take();
  EXPECT_GT(at_first, 3900u);
  RamLimit& memory = *placed.device->memory();
  const auto other = [&](uint64_t bytes) { return memory.Reserve(bytes, "a test", "do not"); };
  {
    const auto share = other(memory.bytes() - memory.reserved() + 2000 * 64);
    ASSERT_TRUE(share.ok()) << share.status().message();
    EXPECT_EQ(placed.there->cache_stats().num_slots, 0u);
    const uint64_t later = take();  // no room is left to those who ask
    EXPECT_EQ(later, 0u);
  }
  {
    const auto share = other(2000 * 64);
    ASSERT_TRUE(share.ok());
    const uint64_t later = take();
    EXPECT_GT(later, 1200u);
    EXPECT_LT(later, 2100u);
  }
}

TEST_P(DeviceCacheTest, WhoWantsMemoryWaitsForTheCacheButNotForItself) {
  const auto document = DocumentOf(Dtype::kF16);
  const Placed placed = Place(Dtype::kF16, RoomForRows(*document, 4000));
  const auto stream = DeviceStream::Create(placed.device);
  ASSERT_TRUE(stream.ok());
  RamLimit& memory = *placed.device->memory();
  const auto take_all = [&] {
    return memory.Reserve(memory.bytes() - kDeviceStreamBytes - 100, "a test", "do not");
  };
  auto use = placed.there->UseCache(**stream);
  ASSERT_TRUE(use.ok());
  ASSERT_NE(use->cache(), nullptr);
  EXPECT_EQ(take_all().status().code(), Code::kOutOfMemory);  // at once
  EXPECT_NE(use->cache(), nullptr);
  std::atomic<bool> has_memory = false;
  std::jthread other([&] {
    // Some waits, should this machine be slow.
    for (int i = 0; i < 10 && !has_memory; ++i) has_memory = take_all().ok();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(has_memory);
  const uint32_t num_slots = use->cache()->slots.num_slots();
  *use = {};
  other.join();
  EXPECT_TRUE(has_memory);
  EXPECT_EQ(placed.there->cache_stats().num_slots, 0u);
  // One that left too little memory to who uses it comes again half as large.
  use = placed.there->UseCache(**stream);
  ASSERT_TRUE(use.ok());
  ASSERT_NE(use->cache(), nullptr);
  EXPECT_EQ(use->cache()->slots.num_slots(), num_slots);
  use->GiveBack();
  EXPECT_EQ(use->cache(), nullptr);
  *use = {};
  use = placed.there->UseCache(**stream);
  ASSERT_TRUE(use.ok());
  ASSERT_NE(use->cache(), nullptr);
  EXPECT_EQ(use->cache()->slots.num_slots(), num_slots / 2);
}

TEST_P(DeviceCacheTest, SessionsShareTheCache) {
  const auto document = DocumentOf(Dtype::kF16, 8000);
  constexpr size_t kSessions = 4;
  constexpr uint64_t kOfSessions = kSessions * 150'000;  // what they take themselves
  const Placed whole = Place(document, uint64_t{1} << 30);
  std::vector<std::unique_ptr<Talk>> expected;
  for (unsigned seed = 0; seed < kSessions; ++seed) {
    Asker asker(&whole);
    expected.push_back(std::make_unique<Talk>(*document, seed % 2));
    ASSERT_TRUE(Take(*expected.back(), asker, *document, 0.1).ok());
  }
  for (const uint64_t num_rows : {600, 12'000}) {
    const Placed placed =
        Place(document, RoomForRows(*document, num_rows) + kOfSessions, kSessions);
    std::vector<std::unique_ptr<Asker>> askers;  // each takes its stream's memory first
    for (size_t i = 0; i < kSessions; ++i) askers.push_back(std::make_unique<Asker>(&placed));
    std::vector<std::jthread> threads;
    for (unsigned seed = 0; seed < kSessions; ++seed) {
      threads.emplace_back([&, seed] {
        for (int i = 0; i < 2; ++i) {
          Talk talk(*document, seed % 2);
          const Status taken = Take(talk, *askers[seed], *document, 0.1);
          ASSERT_TRUE(taken.ok()) << taken.message();
          EXPECT_LE(LargestDifference(talk, *expected[seed]), 2e-4);
          // Somebody wants more than there is: what nobody uses goes.
          RamLimit& memory = *placed.device->memory();
          if (i > 0) continue;
          EXPECT_FALSE(memory.Reserve(memory.bytes(), "a test", "do not").ok());
        }
      });
    }
    for (std::jthread& thread : threads) thread.join();
    const DeviceDocument::CacheStats stats = placed.there->cache_stats();
    EXPECT_GT(stats.misses, 1000u);
    EXPECT_GT(stats.hits, num_rows > 10'000 ? 1000u : 0u);
    EXPECT_EQ(placed.there->num_resident(), 0u);
  }
}

// ---- What fails

// Whatever allocation fails, of the device or of pinned memory: what can do without goes on, else
// the step is refused and the next one has its answer.
TEST_P(DeviceCacheTest, OutOfMemoryAnywhereIsNoWrongAnswer) {
  if (GetParam() == Machine::kGpu) GTEST_SKIP() << "a GPU does not fail when told";
  const auto document = DocumentOf(Dtype::kF16);
  Talk expected(*document);
  const Placed whole = Place(Dtype::kF16, uint64_t{1} << 30);
  Asker of_whole(&whole);
  ASSERT_TRUE(Take(expected, of_whole, *document, 0.2).ok());
  size_t num_refused = 0, num_answered = 0;
  const uint64_t before = cuda_emulation::AllocatedBytes();
  for (uint64_t allocations = 0; num_answered < 20; ++allocations) {
    ASSERT_LT(allocations, 200u);
    const Placed placed = Place(Dtype::kF16, RoomForRows(*document, 3000));
    Asker asker(&placed);
    cuda_emulation::SetFaults({.allocations_left = allocations, .has_pinned = false});
    Talk talk(*document);
    const Status taken = Take(talk, asker, *document, 0.2);
    cuda_emulation::SetFaults({});
    if (taken.ok()) {
      ++num_answered;
    } else {
      ++num_refused;
      EXPECT_EQ(taken.code(), Code::kOutOfMemory) << taken.message();
      EXPECT_EQ(taken.param(), "device_memory");
      ASSERT_TRUE(Take(talk, asker, *document, 0.2).ok());
    }
    EXPECT_LE(LargestDifference(talk, expected), 2e-4) << allocations;
  }
  EXPECT_GT(num_refused, 3u);
  EXPECT_EQ(cuda_emulation::AllocatedBytes(), before);
}

// The table of a machine on which the host has no memory at some call.
std::atomic<int> calls_left = -1;
void MayThrow() {
  if (calls_left < 0) return;
  if (calls_left.fetch_sub(1) > 0) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // others come to wait
  throw std::bad_alloc();
}
const CudaKernels* ThrowingKernels() {
  static const CudaKernels kernels = [] {
    CudaKernels table = *lectern_cuda_kernels();
    table.allocate = [](int device, size_t bytes, void** data) {
      MayThrow();
      return lectern_cuda_kernels()->allocate(device, bytes, data);
    };
    table.copy_to_device = [](CudaStreamHandle* stream, void* to, const void* from, size_t bytes) {
      MayThrow();
      return lectern_cuda_kernels()->copy_to_device(stream, to, from, bytes);
    };
    return table;
  }();
  return &kernels;
}

// Whoever waits for what another brings goes on when that one has no memory, and nobody reads what
// did not come.
TEST_P(DeviceCacheTest, BadAllocAnywhereLeavesOthersToGoOn) {
  if (GetParam() == Machine::kGpu) GTEST_SKIP() << "a GPU does not fail when told";
  const auto document = DocumentOf(Dtype::kF16);
  Talk expected(*document);
  const Placed whole = Place(Dtype::kF16, uint64_t{1} << 30);
  Asker of_whole(&whole);
  ASSERT_TRUE(Take(expected, of_whole, *document, 0.2).ok());
  kernels_ = ThrowingKernels();
  for (const uint64_t room : {uint64_t{1} << 30, RoomForRows(*document, 3000) + (1 << 16)}) {
    size_t num_thrown = 0;
    for (int calls = 0; calls < 80; calls += calls < 6 ? 1 : 15) {
      const Placed placed = Place(Dtype::kF16, room, 2);
      std::vector<std::jthread> threads;
      std::atomic<size_t> num_caught = 0;
      calls_left = calls;
      for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&] {
          Asker asker(&placed);
          for (int attempt = 0; attempt < 2; ++attempt) {
            try {
              Talk talk(*document);
              ASSERT_TRUE(Take(talk, asker, *document, 0.2).ok());
              EXPECT_LE(LargestDifference(talk, expected), 2e-4) << calls;
            } catch (const std::bad_alloc&) {
              ++num_caught;
            }
          }
        });
      }
      threads.clear();
      EXPECT_LE(num_caught, 1u);
      num_thrown += num_caught;
    }
    calls_left = -1;
    EXPECT_GT(num_thrown, 5u);
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, DeviceCacheTest,
                         ::testing::Values(Machine::kEmulated, Machine::kGpu), MachineName);
INSTANTIATE_TEST_SUITE_P(Machines, DeviceMemoryTest,
                         ::testing::Values(Machine::kEmulated, Machine::kGpu), MachineName);

// ---- Slots

TEST(RowSlotsTest, EveryRowHasOneSlotAndAGroupKeepsItsOwn) {
  constexpr uint32_t kSlots = 40, kRows = 100, kLayers = 3;
  RowSlots slots(kLayers, kSlots);
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> present;  // layer, row -> slot
  std::mt19937 random(1);
  for (int group = 0; group < 2000; ++group) {
    const uint32_t layer = random() % kLayers, size = 1 + random() % kSlots;
    std::vector<uint32_t> rows(kRows);
    std::iota(rows.begin(), rows.end(), 0);
    std::shuffle(rows.begin(), rows.end(), random);
    rows.resize(size);
    slots.BeginGroup(layer, kRows);
    std::map<uint32_t, uint32_t> of_group;  // slot -> row
    std::vector<uint32_t> missing;
    for (const uint32_t row : rows) {
      const uint32_t at = slots.Find(row);
      const auto known = present.find({layer, row});
      ASSERT_EQ(at, known == present.end() ? RowSlots::kNone : known->second);
      if (at == RowSlots::kNone) {
        missing.push_back(row);
      } else {
        ASSERT_TRUE(of_group.emplace(at, row).second);
      }
    }
    for (const uint32_t row : missing) {
      const uint32_t at = slots.Place(row);
      ASSERT_LT(at, kSlots);
      ASSERT_TRUE(of_group.emplace(at, row).second) << "a slot of the group was given again";
      std::erase_if(present, [&](const auto& other) { return other.second == at; });
      present[{layer, row}] = at;
    }
    if (of_group.size() == kSlots) {
      uint32_t other = 0;
      while (present.contains({layer, other})) ++other;
      ASSERT_EQ(slots.Place(other), RowSlots::kNone);
    }
    if (group % 7 == 0 && !missing.empty()) {
      slots.Forget(layer, missing.front());
      present.erase({layer, missing.front()});
    }
  }
}

TEST(RowSlotsTest, WhatIsReadOnceMakesRoomForWhatIsReadOften) {
  constexpr uint32_t kSlots = 100;
  RowSlots slots(1, kSlots);
  const auto read = [&](uint32_t begin, uint32_t end) {
    uint32_t misses = 0;
    slots.BeginGroup(0, 10000);
    for (uint32_t row = begin; row < end; ++row) {
      if (slots.Find(row) != RowSlots::kNone) continue;
      ++misses;
      EXPECT_NE(slots.Place(row), RowSlots::kNone);
    }
    return misses;
  };
  EXPECT_EQ(read(0, 60), 60u);
  EXPECT_EQ(read(0, 60), 0u);
  for (uint32_t step = 0; step < 50; ++step) {
    EXPECT_EQ(read(0, 60), 0u);
    EXPECT_EQ(read(100 + 30 * step, 130 + 30 * step), 30u);
  }
}

}  // namespace
}  // namespace lectern
