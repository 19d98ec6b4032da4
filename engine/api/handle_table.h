// The table behind the C API's handles: it gives out a ticket for an object and finds the object by
// the ticket. A handle is a number that looks like a pointer and is never followed, so a freed or
// foreign one is recognised and never crashes. handles.h uses it.
#ifndef LECTERN_ENGINE_API_HANDLE_TABLE_H_
#define LECTERN_ENGINE_API_HANDLE_TABLE_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace lectern {

// The kind of object that a ticket stands for. It is never 0, so that an aligned pointer is no
// ticket.
enum class HandleKind : uint8_t { kEngine = 1, kSession, kAnswer, kIndexReport, kText, kError };

// A ticket is (generation: 32 bits, slot: 28 bits, kind: 4 bits). A slot is used again after its
// object was freed; its generation then differs, so an old ticket does not find the new object.
// Thread-safe: one lock for all; no function does more than a few steps under it. Objects are
// shared: the pointer that Find returns keeps one alive while another thread removes it.
class HandleTable {
 public:
  static_assert(sizeof(uintptr_t) == 8, "a ticket has 64 bits");

  // Gives out a ticket, never 0, for an object that is not nullptr (not checked). Throws bad_alloc,
  // also when all 2^28 slots are taken or used up; no ticket is then given out.
  uintptr_t Add(HandleKind kind, std::shared_ptr<void> object) {
    const std::lock_guard lock(mutex_);
    if (free_slots_.empty()) {
      if (slots_.size() >= kMaxSlots) throw std::bad_alloc();
      // Doubling by hand, because free_slots_ below must have the same capacity.
      slots_.reserve(slots_.size() + 1 > slots_.capacity() ? 2 * slots_.size() + 8 : 0);
      free_slots_.reserve(slots_.capacity());  // so that Remove cannot throw
      slots_.emplace_back();
      free_slots_.push_back(slots_.size() - 1);
    }
    const size_t index = free_slots_.back();
    free_slots_.pop_back();
    Slot& slot = slots_[index];
    slot.kind = kind;
    slot.object = std::move(object);
    return uintptr_t{slot.generation} << 32 | index << 4 | static_cast<uintptr_t>(kind);
  }

  // Returns the object of a ticket. nullptr: the ticket was freed, is of another kind, or was never
  // given out.
  std::shared_ptr<void> Find(HandleKind kind, uintptr_t ticket) {
    const std::lock_guard lock(mutex_);
    Slot* slot = SlotOf(kind, ticket);
    return slot ? slot->object : nullptr;
  }

  // Takes the ticket back and returns its object; nullptr as for Find. Never throws. The caller
  // destroys the object, outside the lock: its destructor may take long or free other handles.
  std::shared_ptr<void> Remove(HandleKind kind, uintptr_t ticket) {
    const std::lock_guard lock(mutex_);
    Slot* slot = SlotOf(kind, ticket);
    if (!slot) return nullptr;
    // A slot whose generations are used up is retired, so that no ticket ever comes twice.
    if (slot->generation++ < std::numeric_limits<uint32_t>::max() - 1) {
      free_slots_.push_back(static_cast<size_t>(slot - slots_.data()));
    }
    return std::exchange(slot->object, nullptr);
  }

 private:
  static constexpr size_t kMaxSlots = size_t{1} << 28;
  struct Slot {
    uint32_t generation = 1;  // of the ticket that is out, or of the next one
    HandleKind kind{};
    std::shared_ptr<void> object;  // nullptr: free
  };

  // The slot of a valid ticket, else nullptr. Call it with the lock held.
  Slot* SlotOf(HandleKind kind, uintptr_t ticket) {
    const size_t index = (ticket >> 4) & (kMaxSlots - 1);
    if ((ticket & 15) != static_cast<uintptr_t>(kind) || index >= slots_.size()) return nullptr;
    Slot& slot = slots_[index];
    return slot.object && slot.kind == kind && slot.generation == ticket >> 32 ? &slot : nullptr;
  }

  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<size_t> free_slots_;  // the last one is used next
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_API_HANDLE_TABLE_H_
