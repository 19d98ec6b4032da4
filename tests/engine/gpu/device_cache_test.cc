// Documents larger than the memory of a device: rows come through a cache or are brought for each
// step, and whatever there is room for, what is attended is the same.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <new>
#include <numeric>
#include <thread>

#include "tests/engine/placed_documents.h"

namespace lectern {
namespace {

using testing::Difference;
using testing::IndexTokens;
using testing::kGroup;
using testing::LayerStep;
using testing::Machine;
using testing::MachineName;
using testing::PlacedDocuments;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::TextTokens;
using testing::TokenDocument;
using testing::WriteInventedModel;

// A conversation's steps: a question of three tokens, a token twice, another token.
struct Talk {
  explicit Talk(const Document& document, unsigned seed = 0) {
    for (const auto& [num_tokens, number] : {std::pair(3u, 0u), {1u, 1u}, {1u, 1u}, {1u, 2u}}) {
      for (uint32_t layer = 0; layer < document.num_layers(); ++layer) {
        steps.push_back(
            std::make_unique<LayerStep>(document, num_tokens, 100 * seed + 10 * number + layer));
      }
    }
  }
  std::vector<std::unique_ptr<LayerStep>> steps;  // [steps][layers]
};

// Looks up on the host, so that all compared steps attend to the same rows.
Result<std::vector<HeadSelection>> LookUpHere(uint32_t, const LookupArgs& args) {
  std::vector<HeadSelection> selections;
  LECTERN_RETURN_IF_ERROR(Lookup(args, selections));
  return selections;
}

class DeviceCacheTest : public PlacedDocuments {
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
  // The number of rows that a step of a layer reads through the cache.
  static size_t NumCached(const Document& document, uint32_t layer, const LayerStep& step) {
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
      LayerStep step(*document, 1, 10 * seed + layer);
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
  // The cache is so small that a step's rows fill all of its slots several times.
  const Placed placed = Place(Dtype::kF16, RoomForRows(*document, 500));
  const Placed whole = Place(Dtype::kF16, uint64_t{1} << 30);
  Asker asker(&placed), of_whole(&whole);
  for (unsigned seed = 0; seed < 3; ++seed) {
    for (uint32_t layer = 0; layer < document->num_layers(); ++layer) {
      const DeviceDocument::CacheStats before = placed.there->cache_stats();
      LayerStep step(*document, 1, 10 * seed + layer), expected(*document, 1, 10 * seed + layer);
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
  LayerStep expected(*document, 1, 7);
  ObservedLogits logits;
  logits.num_queries = kGroup;
  ASSERT_TRUE(Attend(of_host, *document, 0, expected, 0.3, &selector, &logits).ok());
  for (const uint64_t num_rows : {500, 4000, 1 << 20}) {
    const Placed placed = Place(Dtype::kF16, RoomForRows(*document, num_rows));
    Asker asker(&placed);
    for (int i = 0; i < 2; ++i) {
      LayerStep step(*document, 1, 7);
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
      LayerStep step(*document, 1, layer);
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
    LayerStep step(document, 2, layer), expected(document, 2, layer);
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
    LayerStep step(*document, 1, 5);
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

}  // namespace
}  // namespace lectern
