// Checks the attention items that a lookup cuts of its list and tail, for the tests of both
// lookups.
#ifndef LECTERN_TESTS_KERNELS_CUDA_LOOKUP_CUT_OF_LOOKUP_H_
#define LECTERN_TESTS_KERNELS_CUDA_LOOKUP_CUT_OF_LOOKUP_H_

#include <cstring>
#include <vector>

#include "kernels/cuda/attention/cut_items.h"
#include "tests/kernels/cuda/cuda_case.h"

namespace lectern {

// Memory for the items that a lookup cuts; Check compares them with those of CutAttention.
class CutOfLookup {
 public:
  // num_wanted: rows that the lookup lists, of all heads; num_groups: of the tail, of each head.
  CutOfLookup(CudaTest& test, uint32_t num_heads, uint32_t num_wanted, uint32_t num_groups)
      : num_heads_(num_heads), num_groups_(num_groups) {
    std::vector<ExtraRange> tails;
    for (uint32_t h = 0; h < num_heads; ++h) {
      tails.push_back({1, h * num_groups, (h + 1) * num_groups});
    }
    extra_ = test.Upload(tails);
    items_ = test.Make<AttentionItem>(
        MostAttentionItems(num_wanted + uint64_t{num_heads} * num_groups, 2 * num_heads, kPerItem));
    begins_ = test.Make<uint32_t>(num_heads + 2);
  }
  // The arguments of a lookup, with `counts` (on the device, [heads]) as the rows that each head
  // lists.
  CudaCutItemsArgs Args(const uint32_t* counts) const {
    return {.list_begin = nullptr,
            .counts = counts,
            .extra = extra_.data(),
            .num_extra = 1,
            .num_kv_heads = num_heads_,
            .rows_per_item = kPerItem,
            .max_items = static_cast<uint32_t>(items_.size()),
            .items = items_.data(),
            .item_begin = begins_.data(),
            .num_items = begins_.data() + num_heads_ + 1};
  }
  // After the lookup: fails the test where the items are others than those for these counts.
  void Check(CudaTest& test, const std::vector<uint32_t>& counts) const {
    std::vector<AttentionRange> ranges;
    for (uint32_t h = 0, at = 0; h < num_heads_; at += counts[h++]) {
      ranges.push_back({h, 0, at, at + counts[h]});
      ranges.push_back({h, 1, h * num_groups_, (h + 1) * num_groups_});
    }
    AttentionWork expected = CutAttention(ranges, num_heads_, kPerItem);
    const auto items = test.Download(items_);
    expected.item_begin.push_back(static_cast<uint32_t>(expected.items.size()));
    ASSERT_EQ(test.Download(begins_), expected.item_begin);
    ASSERT_LE(expected.items.size(), items.size());
    EXPECT_EQ(std::memcmp(items.data(), expected.items.data(),
                          expected.items.size() * sizeof(AttentionItem)),
              0);
  }

 private:
  static constexpr uint32_t kPerItem = 64;
  const uint32_t num_heads_, num_groups_;
  DeviceBuffer<ExtraRange> extra_;
  DeviceBuffer<AttentionItem> items_;
  DeviceBuffer<uint32_t> begins_;
};

}  // namespace lectern

#endif  // LECTERN_TESTS_KERNELS_CUDA_LOOKUP_CUT_OF_LOOKUP_H_
