#include "tools/server/generation_slots.h"

#include <algorithm>
#include <cmath>

namespace lectern::server {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(50);  // between two questions whether to give up
constexpr double kNewest = 0.2;  // weight of the last answer in the (exponential) mean

}  // namespace

std::variant<GenerationSlots::Slot, GenerationSlots::Refused> GenerationSlots::Take(
    const std::function<bool()>& give_up) {
  std::unique_lock lock(mutex_);
  // A slot that is free belongs to those who wait, if any does.
  const bool is_free = running_ < num_slots_ && waiting_.empty();
  if (!is_free && waiting_.size() >= max_waiting_) return Refused::kFull;
  const uint64_t ticket = next_ticket_++;
  waiting_.push_back(ticket);
  const auto is_my_turn = [&] { return running_ < num_slots_ && waiting_.front() == ticket; };
  while (!is_my_turn()) {
    if (changed_.wait_for(lock, kPoll) == std::cv_status::timeout && !is_my_turn() && give_up()) {
      std::erase(waiting_, ticket);
      changed_.notify_all();
      return Refused::kGaveUp;
    }
  }
  waiting_.pop_front();
  ++running_;
  changed_.notify_all();  // another slot may be free for the next in line
  return Slot(this);
}

void GenerationSlots::GiveBack(std::chrono::steady_clock::time_point since) {
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - since;
  {
    const std::lock_guard lock(mutex_);
    --running_;
    mean_seconds_ += kNewest * (took.count() - mean_seconds_);
  }
  changed_.notify_all();
}

GenerationSlots::Load GenerationSlots::load() const {
  const std::lock_guard lock(mutex_);
  return {running_, static_cast<uint32_t>(waiting_.size())};
}

uint32_t GenerationSlots::RetryAfterSeconds() const {
  const std::lock_guard lock(mutex_);
  const double seconds = mean_seconds_ * static_cast<double>(waiting_.size() + 1) / num_slots_;
  return static_cast<uint32_t>(std::clamp(std::ceil(seconds), 1.0, 3600.0));
}

}  // namespace lectern::server
