// Finds the id of a text in a vocabulary. One block of memory holds the whole table: the 262,144
// pieces of Gemma 3 in nodes of their own, as std::unordered_map keeps them, took 19 % of the CPU
// time of a program that asks one question where this takes 6 %, and 12 ms more to be freed
// (tests/bench/RESULTS.md).
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_TEXT_IDS_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_TEXT_IDS_H_

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace lectern {

// A hash table with open addressing and linear probing. Keys are views: their bytes must stay where
// they are. Reading is thread-safe.
class TextIds {
 public:
  // Makes room for so many texts, below 2^31.
  void Reserve(size_t num_texts) {
    // At most half full, so that a search ends soon.
    if (2 * num_texts > slots_.size()) Grow(std::bit_ceil(2 * num_texts));
  }

  // The id of a text; -1: it has none.
  int32_t Find(std::string_view text) const { return slots_.empty() ? -1 : slots_[Place(text)].id; }

  // Gives a text of less than 4 GiB an id of at least 0, in place of the one that it may have.
  void Set(std::string_view text, int32_t id) {
    assert(id >= 0 && text.size() <= UINT32_MAX);
    Reserve(size_ + 1);
    Slot& slot = slots_[Place(text)];
    if (slot.id < 0) {
      slot = {text.data(), static_cast<uint32_t>(text.size()), id};
      ++size_;
    }
    slot.id = id;
  }

 private:
  struct Slot {
    const char* data = nullptr;
    uint32_t size = 0;
    int32_t id = -1;  // the slot is empty
    std::string_view text() const { return {data, size}; }
  };

  // Where the text lies, or the empty slot where it would.
  size_t Place(std::string_view text) const {
    const size_t mask = slots_.size() - 1;
    size_t place = std::hash<std::string_view>()(text) & mask;
    while (slots_[place].id >= 0 && slots_[place].text() != text) place = (place + 1) & mask;
    return place;
  }
  void Grow(size_t num_slots) {
    std::vector<Slot> smaller(num_slots);
    smaller.swap(slots_);
    for (const Slot& slot : smaller) {
      if (slot.id >= 0) slots_[Place(slot.text())] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, or none
  size_t size_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_TEXT_IDS_H_
