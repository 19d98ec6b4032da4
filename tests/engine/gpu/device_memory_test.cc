// Tests which parts of a document come to a device, how, and that codes come before rows.
#include "tests/engine/placed_documents.h"

namespace lectern {
namespace {

using testing::Difference;
using testing::kGroup;
using testing::LayerStep;
using testing::Machine;
using testing::MachineName;
using testing::PlacedDocuments;

class DeviceMemoryTest : public PlacedDocuments {};

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
  for (uint32_t i = 0; i < 2 * document->num_layers(); ++i) {  // a question, then a token
    const uint32_t layer = i % document->num_layers(), num_tokens = i == layer ? 20 : 1;
    SCOPED_TRACE(::testing::Message() << num_tokens << " tokens, layer " << layer);
    LayerStep by_whole(*document, num_tokens, i), by_coded(*document, num_tokens, i),
        by_none(*document, num_tokens, i), by_host(*document, num_tokens, i);
    ASSERT_TRUE(Attend(of_whole, *document, layer, by_whole, 0.3).ok());
    const uint64_t before = cuda_emulation::NumLaunches();
    ASSERT_TRUE(Attend(of_coded, *document, layer, by_coded, 0.3).ok());
    const uint64_t after_coded = cuda_emulation::NumLaunches();
    ASSERT_TRUE(Attend(of_none, *document, layer, by_none, 0.3).ok());
    const uint64_t after_none = cuda_emulation::NumLaunches();
    ASSERT_TRUE(Attend(of_host, *document, layer, by_host, 0.3).ok());
    // Besides attention it has a lookup of eight (kernels/cuda/lookup/row_lookup.h,
    // question_lookup.h).
    if (GetParam() == Machine::kEmulated) {
      EXPECT_GE(after_coded - before, after_none - after_coded + 8);
    }
    for (size_t h = 0; h < by_whole.read.heads.size(); ++h) {
      EXPECT_EQ(by_coded.read.heads[h].rows, by_whole.read.heads[h].rows);
      EXPECT_EQ(by_none.read.heads[h].rows, by_host.read.heads[h].rows);
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

// Tests the tail of a document whose rows do not stay, looked up by the device and by the host (then
// brought to the device): for a token, for a question, and for one with more query rows than the
// device takes at once.
TEST_P(DeviceMemoryTest, TheTailIsAttendedToThereAsHere) {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kQ8}) {
    const auto document = DocumentOf(dtype);
    const Placed placed = Place(dtype, CodesBytes(*document) + (uint64_t{64} << 20), 2);
    Asker by_device(&placed), by_both(&placed);
    const auto stream = DeviceStream::Create(placed.device);
    ASSERT_TRUE(stream.ok()) << stream.status().message();
    DeviceLookup lookup(*stream, *DefaultBackend());
    KvStaging staging;
    const Selector bring = [&](uint32_t layer,
                               const LookupArgs& args) -> Result<std::vector<HeadSelection>> {
      std::vector<HeadSelection> selections;
      LECTERN_ASSIGN(const auto use, placed.there->UseCodes(layer, args.heads, **stream, staging));
      LECTERN_ASSIGN(const bool is_found, lookup.LookUp(*use.codes(), args, selections));
      EXPECT_TRUE(is_found);
      LECTERN_RETURN_IF_ERROR(lookup.BringTail(*use.codes(), args, selections));
      return selections;
    };
    const size_t too_many = kMostDeviceQueryRows / kGroup + 1;
    for (const size_t num_tokens : {size_t{1}, size_t{20}, too_many}) {
      if (num_tokens == too_many && dtype != Dtype::kF16) continue;
      SCOPED_TRACE(num_tokens);
      LayerStep there(*document, num_tokens, 7), here(*document, num_tokens, 7);
      if (num_tokens == too_many) {  // of which few choose
        there.weights.assign(num_tokens * kGroup, 0.0f);
        for (size_t i = 1; i <= 4; ++i) there.weights[i * 300] = 0.25f;
        here.weights = there.weights;
      }
      ASSERT_TRUE(Attend(by_device, *document, 1, there, 0.3).ok());
      const Status status = Attend(by_both, *document, 1, here, 0.3, &bring);
      ASSERT_TRUE(status.ok()) << status.message() << cuda_emulation::TakeReport();
      for (size_t h = 0; h < here.read.heads.size(); ++h) {
        EXPECT_EQ(there.read.heads[h].rows, here.read.heads[h].rows);
        EXPECT_GT(here.read.heads[h].logit_tail.num_clusters(), 0u);
        EXPECT_EQ(there.read.heads[h].logit_tail.num_clusters() > 0, num_tokens == too_many);
      }
      EXPECT_LE(Difference(there, here), 2e-3);
      EXPECT_NEAR(there.read.missed_mass, here.read.missed_mass, 1e-4);
      EXPECT_GT(here.read.missed_mass, 1e-3);
    }
  }
}

// Rows of a document that nobody asks now are no reason to refuse a model or a document.
TEST(DevicePlanTest, WhatCanBeDroppedIsRoom) {
  const auto model = Model::Load(Env::Default(), testing::TinyModel());
  ASSERT_TRUE(model.ok());
  const ModelConfig& config = (*model)->config();
  const DevicePrefillShape shape = PlanDevicePrefill(config, Dtype::kF16, 3000, 80);
  const std::pair<uint64_t, std::function<Status(RamLimit&)>> plans[] = {
      {LeastDeviceBytes(config),
       [&](RamLimit& memory) { return CheckDevicePlan(config, memory, "m"); }},
      {DevicePrefillBytes(config, shape),
       [&](RamLimit& memory) { return CheckPrefillPlan(config, shape, memory); }}};
  for (const auto& [bytes, check] : plans) {
    const auto memory = std::make_shared<RamLimit>(bytes, RamLimit::Kind::kDevice);
    RamLimit::Share rows = std::move(memory->Reserve(bytes / 2, "rows", "")).value();
    const Status refused = check(*memory);
    EXPECT_EQ(refused.code(), Code::kOutOfMemory);
    EXPECT_EQ(refused.param(), "device_memory");
    EXPECT_EQ(memory->reserved(), bytes / 2);
    memory->Register(&rows, [&] { rows = RamLimit::Share(); });
    EXPECT_TRUE(check(*memory).ok());
    EXPECT_EQ(memory->reserved(), 0u);
    memory->Unregister(&rows);
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, DeviceMemoryTest,
                         ::testing::Values(Machine::kEmulated, Machine::kGpu), MachineName);

}  // namespace
}  // namespace lectern
