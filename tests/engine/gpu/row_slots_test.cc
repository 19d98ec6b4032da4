#include "engine/gpu/row_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace lectern {
namespace {

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
