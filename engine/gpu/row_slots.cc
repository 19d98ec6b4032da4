#include "engine/gpu/row_slots.h"

#include <algorithm>
#include <cassert>

namespace lectern {

void RowSlots::BeginGroup(uint32_t layer, uint32_t num_rows) {
  if (slot_of_[layer].empty()) slot_of_[layer].resize(num_rows, kNone);
  assert(slot_of_[layer].size() == num_rows);
  layer_ = layer;
  if (++group_ > 0) return;
  for (Slot& slot : slots_) slot.group = 0;  // numbers begin anew
  group_ = 1;
}

uint32_t RowSlots::Find(uint32_t row) {
  const uint32_t at = slot_of_[layer_][row];
  if (at == kNone) return kNone;
  Slot& slot = slots_[at];
  slot.group = group_;
  slot.chances = std::min<uint8_t>(slot.chances + 1, kMostChances);
  return at;
}

void RowSlots::Find(std::span<const uint32_t> rows, std::vector<uint32_t>& found) {
  // Slots are prefetched so many rows ahead, and entries twice as far. Chosen without measurement.
  constexpr size_t kAhead = 16;
  const std::vector<uint32_t>& slot_of = slot_of_[layer_];
  found.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + 2 * kAhead < rows.size()) __builtin_prefetch(&slot_of[rows[i + 2 * kAhead]]);
    if (i + kAhead < rows.size()) {
      const uint32_t at = slot_of[rows[i + kAhead]];
      if (at != kNone) __builtin_prefetch(&slots_[at], 1);
    }
    found.push_back(Find(rows[i]));
  }
}

uint32_t RowSlots::Place(uint32_t row) {
  assert(slot_of_[layer_][row] == kNone);
  // Round by round every slot of no group loses a chance.
  const uint64_t most = (uint64_t{kMostChances} + 1) * slots_.size();
  for (uint64_t i = 0; i < most; ++i) {
    const uint32_t at = hand_;
    Slot& slot = slots_[at];
    hand_ = at + 1 < slots_.size() ? at + 1 : 0;
    if (slot.group == group_) continue;
    if (slot.chances > 0) {
      --slot.chances;
      continue;
    }
    if (slot.row != kNone) slot_of_[slot.layer][slot.row] = kNone;
    slot = {layer_, row, group_, 0};
    slot_of_[layer_][row] = at;
    return at;
  }
  return kNone;
}

void RowSlots::Forget(uint32_t layer, uint32_t row) {
  uint32_t& at = slot_of_[layer][row];
  if (at == kNone) return;
  slots_[at] = {};
  at = kNone;
}

}  // namespace lectern
