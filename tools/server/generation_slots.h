// Limits how many answers are generated at a time; requests beyond that wait in order.
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
  // First come, first served. kFull at once when too many wait; kGaveUp when `give_up`, asked about
  // 20 times a second, says so.
  std::variant<Slot, Refused> Take(const std::function<bool()>& give_up);

  struct Load {
    uint32_t running, waiting;
  };
  Load load() const;
  // When one who is refused now may try again: from how long answers took, at least 1.
  uint32_t RetryAfterSeconds() const;

 private:
  void GiveBack(std::chrono::steady_clock::time_point since);

  const uint32_t num_slots_, max_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<uint64_t> waiting_;  // tickets
  uint64_t next_ticket_ = 0;
  uint32_t running_ = 0;
  double mean_seconds_ = 1;  // of late
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_GENERATION_SLOTS_H_
