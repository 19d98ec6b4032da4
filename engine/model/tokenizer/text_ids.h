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

  // Brings the place of a text into the cache, for Set or Find of it a little later: the table of a
  // large vocabulary does not fit there.
  void Prefetch(std::string_view text) const {
    __builtin_prefetch(&slots_[std::hash<std::string_view>()(text) & (slots_.size() - 1)], 1);
  }

  // The id of a text; -1: it has none.
  int32_t Find(std::string_view text) const {
    return slots_.empty() || text.size() > kMostBytes ? -1 : slots_[PlaceOf(text).place].id;
  }

  // Gives a text of at most kMostBytes an id of at least 0, in place of the one that it may have.
  static constexpr size_t kMostBytes = UINT16_MAX;
  void Set(std::string_view text, int32_t id) {
    SlotOf(text, id, [](std::string_view key) { return key; }).id = id;
  }

  // The id of a text of at most kMostBytes. One that has none gets `id`, at least 0, and its key is
  // the view of the same bytes that `keep` returns.
  template <typename Keep>
  int32_t FindOrSet(std::string_view text, int32_t id, Keep keep) {
    return SlotOf(text, id, keep).id;
  }

 private:
  struct Slot {
    const char* data = nullptr;
    uint16_t size = 0;
    uint16_t tag = 0;  // bits of the text's hash, so that few other texts are read
    int32_t id = -1;   // the slot is empty
    std::string_view text() const { return {data, size}; }
  };
  struct Found {
    size_t place;
    uint16_t tag;
  };

  // The slot of a text, which is made if there is none.
  template <typename Keep>
  Slot& SlotOf(std::string_view text, int32_t id, Keep keep) {
    assert(id >= 0 && text.size() <= kMostBytes);
    Reserve(size_ + 1);
    const auto [place, tag] = PlaceOf(text);
    Slot& slot = slots_[place];
    if (slot.id < 0) {
      slot = {keep(text).data(), static_cast<uint16_t>(text.size()), tag, id};
      ++size_;
    }
    return slot;
  }

  // Where the text lies, or the empty slot where it would.
  Found PlaceOf(std::string_view text) const {
    const uint64_t hash = std::hash<std::string_view>()(text);
    const auto tag = static_cast<uint16_t>(hash >> 48);
    const size_t mask = slots_.size() - 1;
    size_t place = hash & mask;
    for (; slots_[place].id >= 0; place = (place + 1) & mask) {
      if (slots_[place].tag == tag && slots_[place].text() == text) break;
    }
    return {place, tag};
  }
  void Grow(size_t num_slots) {
    std::vector<Slot> smaller(num_slots);
    smaller.swap(slots_);
    for (const Slot& slot : smaller) {
      if (slot.id >= 0) slots_[PlaceOf(slot.text()).place] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, or none
  size_t size_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_TEXT_IDS_H_
