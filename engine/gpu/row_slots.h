// Decides which rows of a document lie in which slots of a cache on the device, and which row gives
// its slot to a new one.
//
// The rule is a clock with chances (CLOCK, Corbató 1968, here with counts). A hand goes round the
// slots: a slot whose row was found since loses one chance each time the hand comes by, and a slot
// without chances is given away. A new row has no chances until it is found again, so rows that one
// step reads once make room for rows that many steps read.
#ifndef LECTERN_ENGINE_GPU_ROW_SLOTS_H_
#define LECTERN_ENGINE_GPU_ROW_SLOTS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace lectern {

// One thread at a time.
class RowSlots {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  RowSlots(uint32_t num_layers, uint32_t num_slots) : slot_of_(num_layers), slots_(num_slots) {}
  uint32_t num_slots() const { return static_cast<uint32_t>(slots_.size()); }
  // Bytes of host memory, including the entries of all rows of the layers that it is for.
  static uint64_t Bytes(uint64_t num_rows, uint64_t num_slots) {
    return num_rows * sizeof(uint32_t) + num_slots * sizeof(Slot);
  }

  // Begins a group of rows of a layer that has `num_rows` rows (always as many, asserted): slots of
  // rows that are found or placed belong to the group, and are not given away, until the next group
  // begins.
  void BeginGroup(uint32_t layer, uint32_t num_rows);
  // Finds a row's slot, which then belongs to the group and gets a chance; kNone: it has none.
  uint32_t Find(uint32_t row);
  // Finds the slots of many rows, into `found`; the entries of later rows are prefetched, because
  // they lie apart in memory.
  void Find(std::span<const uint32_t> rows, std::vector<uint32_t>& found);
  // Places a row that has no slot (asserted), perhaps in that of another row, which then has none;
  // kNone: all slots belong to the group.
  uint32_t Place(uint32_t row);
  // Frees the slot of a row that was placed and did not come, in any layer that had a group; does
  // nothing if it has none.
  void Forget(uint32_t layer, uint32_t row);

 private:
  // A slot keeps a row that is not found any more for at most so many turns of the hand. Chosen
  // without measurement.
  static constexpr uint8_t kMostChances = 3;
  struct Slot {
    uint32_t layer = 0, row = kNone;
    uint32_t group = 0;  // that used it last
    uint8_t chances = 0;
  };
  std::vector<std::vector<uint32_t>> slot_of_;  // [layers][rows], from a layer's first group on
  std::vector<Slot> slots_;
  uint32_t hand_ = 0, layer_ = 0, group_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_GPU_ROW_SLOTS_H_
