#include "tools/batch/lease_keeper.h"

#include <utility>

namespace lectern::batch {

LeaseKeeper::LeaseKeeper(WorkQueue& queue, const Claim& claim, std::chrono::milliseconds lease,
                         std::function<void()> on_lost)
    : queue_(queue), claim_(claim), lease_(lease), on_lost_(std::move(on_lost)) {
  thread_ = std::thread([this] { Run(); });
}

LeaseKeeper::~LeaseKeeper() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

bool LeaseKeeper::Wait(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !ends_.wait_for(lock, time, [this] { return is_ending_; });
}

// The lease counts from before the call that renewed it, by this machine's steady clock: the
// database's end of it can only be later.
void LeaseKeeper::Run() {
  using Clock = std::chrono::steady_clock;
  auto held_until = Clock::now() + lease_;
  while (Wait(lease_ / 3)) {
    const auto asked = Clock::now();
    const StopCheck stop = [this, held_until] {
      const std::lock_guard lock(mutex_);
      return is_ending_ || Clock::now() >= held_until;
    };
    auto renewed = queue_.Renew(claim_, stop);
    if (renewed.ok() && *renewed == Recorded::kYes) {
      held_until = asked + lease_;
      continue;
    }
    if (!renewed.ok() && Clock::now() < held_until) continue;
    is_lost_ = true;
    on_lost_();
    return;
  }
}

}  // namespace lectern::batch
