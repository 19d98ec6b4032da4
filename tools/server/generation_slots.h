// Limits how many answers the server generates at the same time; further requests wait in the order
// in which they came, and those beyond the limit of the queue are refused.
#ifndef LECTERN_TOOLS_SERVER_GENERATION_SLOTS_H_
#define LECTERN_TOOLS_SERVER_GENERATION_SLOTS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <variant>

namespace lectern::server {

// Thread-safe. Slots must not outlive it.
class GenerationSlots {
 public:
  // `num_slots` >= 1; `max_waiting` may be 0.
  GenerationSlots(uint32_t num_slots, uint32_t max_waiting)
      : num_slots_(num_slots), max_waiting_(max_waiting) {}

  // The right to generate; given back when destroyed.
  class Slot {
   public:
    Slot(Slot&& other) noexcept
        : slots_(std::exchange(other.slots_, nullptr)), since_(other.since_) {}
    ~Slot() {
      if (slots_) slots_->GiveBack(since_);
    }
    Slot& operator=(Slot&&) = delete;

   private:
    friend class GenerationSlots;
    explicit Slot(GenerationSlots* slots)
        : slots_(slots), since_(std::chrono::steady_clock::now()) {}
    GenerationSlots* slots_;
    std::chrono::steady_clock::time_point since_;
  };

  enum class Refused { kFull, kGaveUp };
  // Waits for a slot; first come, first served. One that is free is given at once, without asking
  // `give_up`. kFull, at once: none is free and max_waiting others wait already. kGaveUp: `give_up`
  // said so, which is asked about 20 times a second with this object's lock held: it must return
  // soon and may not call this object.
  std::variant<Slot, Refused> Take(const std::function<bool()>& give_up);

  struct Load {
    uint32_t running, waiting;  // slots that are taken; calls of Take that wait
  };
  Load load() const;  // may have changed when it returns
  // Seconds after which a client that is refused now may try again, by how long answers took of
  // late and how many wait; from 1 to 3600.
  uint32_t RetryAfterSeconds() const;

 private:
  // Frees a slot that was taken at `since`, counts the time in mean_seconds_, and wakes all calls
  // of Take that wait. Takes mutex_. Slot's destructor calls it.
  void GiveBack(std::chrono::steady_clock::time_point since);

  const uint32_t num_slots_, max_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<uint64_t> waiting_;  // tickets of those who wait, the oldest first
  uint64_t next_ticket_ = 0;
  uint32_t running_ = 0;     // slots that are taken
  double mean_seconds_ = 1;  // that a slot was held, of late; 1 is a guess before the first
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_GENERATION_SLOTS_H_
