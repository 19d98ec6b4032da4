// Items of work: as the host cuts them (attention.h), and as a device does.
#include "kernels/cuda/attention/cut_items.h"

#include <cstring>
#include <random>

#include "tests/kernels/cuda/cuda_case.h"

namespace lectern {
namespace {

TEST(CutAttentionTest, ItemsAreOfAFixedNumberOfRows) {
  const AttentionWork work =
      CutAttention({{1, 0, 10, 20}, {0, 0, 0, 257}, {1, 2, 5, 5}, {1, 1, 0, 128}}, 3, 128);
  EXPECT_EQ(work.item_begin, (std::vector<uint32_t>{0, 3, 5, 5}));
  ASSERT_EQ(work.items.size(), 5u);
  const auto is = [](const AttentionItem& item, uint32_t head, uint32_t source, uint32_t begin,
                     uint32_t end) {
    return item.kv_head == head && item.source == source && item.begin == begin && item.end == end;
  };
  EXPECT_TRUE(is(work.items[0], 0, 0, 0, 128));
  EXPECT_TRUE(is(work.items[2], 0, 0, 256, 257));
  EXPECT_TRUE(is(work.items[3], 1, 0, 10, 20));
  EXPECT_TRUE(is(work.items[4], 1, 1, 0, 128));
}

TEST(CutAttentionTest, RowsPerItemFollowFromTheShapes) {
  EXPECT_EQ(AttentionRowsPerItem(0, 8, 4, 132), 64u);
  EXPECT_EQ(AttentionRowsPerItem(0, 8, 40, 132), 256u);
  EXPECT_EQ(AttentionRowsPerItem(8 * 3000, 8, 4, 132), 64u);          // 376 items of 396 at once
  EXPECT_EQ(AttentionRowsPerItem(8 * 24400, 8, 4, 132), 512u);        // 384
  EXPECT_EQ(AttentionRowsPerItem(8 * 24900, 8, 4, 132), 256u);        // 784 of twice 396
  EXPECT_EQ(AttentionRowsPerItem(1 << 20, 8, 4, 132), 1344u);         // 784
  EXPECT_GE(AttentionRowsPerItem(1 << 20, 8, 4096, 132), 32u << 10);  // enough query tiles already
  EXPECT_EQ(AttentionRowsPerItem(1 << 20, 1000, 4, 132), 2688u);      // more ranges than blocks
}

// However many rows each range has, a device is filled once or twice, and no third time.
TEST(CutAttentionTest, ItemsAreOneRoundOrTwo) {
  std::mt19937 engine(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const uint32_t heads = 1 + static_cast<uint32_t>(engine()) % 32;
    const uint32_t most = 1 + static_cast<uint32_t>(engine()) % 60000;
    std::vector<AttentionRange> ranges;
    uint64_t num_rows = 0;
    for (uint32_t head = 0; head < heads; ++head) {
      ranges.push_back({head, 0, 0, static_cast<uint32_t>(engine()) % most});
      num_rows += ranges.back().end;
    }
    const uint32_t per_item = AttentionRowsPerItem(num_rows, heads, 4, 132);
    const size_t items = CutAttention(ranges, heads, per_item).items.size();
    EXPECT_LE(items, 2 * 396u) << num_rows;
    if (items <= 396) continue;
    EXPECT_GE(per_item, 256u) << num_rows;
    EXPECT_GE(items, 6 * 396u / 5) << num_rows;
  }
}

class CudaCutItemsTest : public CudaTest {};

TEST_P(CudaCutItemsTest, ListsHeadAfterHeadAreCutByTheirCountsAlone) {
  for (const uint32_t num_heads : {1u, 5u, 70u}) {
    std::vector<uint32_t> counts;
    std::vector<AttentionRange> ranges;
    std::vector<ExtraRange> extra;
    for (uint32_t head = 0, begin = 0; head < num_heads; begin += counts[head], ++head) {
      counts.push_back(head % 4 == 3 ? 0 : head * 37 % 200 + 1);
      extra.push_back({1, head * 10, head * 10 + 70});
      ranges.push_back({head, 0, begin, begin + counts[head]});
      ranges.push_back({head, 1, extra[head].begin, extra[head].end});
    }
    const AttentionWork expected = CutAttention(ranges, num_heads, 64);
    const auto device_counts = Upload(counts);
    const auto extras = Upload(extra);
    const auto items = Make<AttentionItem>(expected.items.size());
    const auto begins = Make<uint32_t>(num_heads + 1), num_items = Make<uint32_t>(1);
    Expect(CudaCutItems(stream_, {.list_begin = nullptr,
                                  .counts = device_counts.data(),
                                  .extra = extras.data(),
                                  .num_extra = 1,
                                  .num_kv_heads = num_heads,
                                  .rows_per_item = 64,
                                  .max_items = static_cast<uint32_t>(expected.items.size()),
                                  .items = items.data(),
                                  .item_begin = begins.data(),
                                  .num_items = num_items.data()}));
    EXPECT_EQ(Download(begins), expected.item_begin);
    ASSERT_EQ(Download(num_items)[0], expected.items.size());
    const auto got = Download(items);
    EXPECT_EQ(std::memcmp(got.data(), expected.items.data(), got.size() * sizeof got[0]), 0);
  }
}

// As a layer lists rows that keep their places: gaps between the heads, and two more sources.
TEST_P(CudaCutItemsTest, ListsBeginWhereTheyAreSaidTo) {
  const std::vector<uint32_t> list_begin = {0, 20000, 20030, 20030}, counts = {7011, 1, 0, 30517};
  std::vector<AttentionRange> ranges;
  std::vector<ExtraRange> extra;
  for (uint32_t head = 0; head < 4; ++head) {
    ranges.push_back({head, 0, list_begin[head], list_begin[head] + counts[head]});
    extra.push_back({2, head * 10, head * 10 + head * 100});  // head 0: empty
    extra.push_back({1, 3, 4});
    for (size_t e = 2 * head; e < 2 * head + 2; ++e) {
      ranges.push_back({head, extra[e].source, extra[e].begin, extra[e].end});
    }
  }
  const AttentionWork expected = CutAttention(ranges, 4, 128);
  const uint64_t most = MostAttentionItems(7011 + 1 + 30517 + 600 + 4, 12, 128);
  ASSERT_LE(expected.items.size(), most);
  const auto begin_of_lists = Upload(list_begin), device_counts = Upload(counts);
  const auto extras = Upload(extra);
  const auto items = Make<AttentionItem>(most);
  const auto begins = Make<uint32_t>(5), num_items = Make<uint32_t>(1);
  Expect(CudaCutItems(stream_, {.list_begin = begin_of_lists.data(),
                                .counts = device_counts.data(),
                                .extra = extras.data(),
                                .num_extra = 2,
                                .num_kv_heads = 4,
                                .rows_per_item = 128,
                                .max_items = static_cast<uint32_t>(most),
                                .items = items.data(),
                                .item_begin = begins.data(),
                                .num_items = num_items.data()}));
  EXPECT_EQ(Download(begins), expected.item_begin);
  ASSERT_EQ(Download(num_items)[0], expected.items.size());
  const auto got = Download(items);
  EXPECT_EQ(std::memcmp(got.data(), expected.items.data(), expected.items.size() * sizeof got[0]),
            0);
}

TEST_P(CudaCutItemsTest, ItemsNeverPassTheirRoom) {
  const auto list_begin = Upload(std::vector<uint32_t>{0, 1000});
  const auto counts = Upload(std::vector<uint32_t>{900, 900});
  const auto items = Make<AttentionItem>(9);
  const auto begins = Make<uint32_t>(3), num_items = Make<uint32_t>(1);
  Expect(CudaCutItems(stream_, {.list_begin = list_begin.data(),
                                .counts = counts.data(),
                                .extra = nullptr,
                                .num_extra = 0,
                                .num_kv_heads = 2,
                                .rows_per_item = 100,
                                .max_items = 9,
                                .items = items.data(),
                                .item_begin = begins.data(),
                                .num_items = num_items.data()}));
  EXPECT_EQ(Download(begins), (std::vector<uint32_t>{0, 9, 9}));
  EXPECT_EQ(Download(num_items)[0], 9u);
}

TEST_P(CudaCutItemsTest, RefusesWhatItCannotTake) {
  const auto words = Upload(std::vector<uint32_t>(64));
  const auto items = Make<AttentionItem>(4);
  const CudaCutItemsArgs good = {.list_begin = nullptr,
                                 .counts = words.data(),
                                 .extra = nullptr,
                                 .num_extra = 0,
                                 .num_kv_heads = 2,
                                 .rows_per_item = 64,
                                 .max_items = 4,
                                 .items = items.data(),
                                 .item_begin = words.data() + 8,
                                 .num_items = words.data() + 16};
  const auto refuses = [&](auto change) {
    CudaCutItemsArgs args = good;
    change(args);
    return CudaCutItems(stream_, args).code == CudaCode::kInvalidArgument;
  };
  EXPECT_FALSE(refuses([](auto&) {}));
  EXPECT_TRUE(refuses([](auto& a) { a.counts = nullptr; }));
  EXPECT_TRUE(refuses([](auto& a) { a.items = nullptr; }));
  EXPECT_TRUE(refuses([](auto& a) { a.item_begin = nullptr; }));
  EXPECT_TRUE(refuses([](auto& a) { a.num_items = nullptr; }));
  EXPECT_TRUE(refuses([](auto& a) { a.num_extra = 1; }));
  EXPECT_TRUE(refuses([](auto& a) { a.num_kv_heads = 0; }));
  EXPECT_TRUE(refuses([](auto& a) { a.rows_per_item = 0; }));
  EXPECT_TRUE(refuses([](auto& a) { a.max_items = 0; }));
}

LECTERN_CUDA_TESTS(CudaCutItemsTest);

}  // namespace
}  // namespace lectern
