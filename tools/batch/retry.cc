#include "tools/batch/retry.h"

#include <algorithm>
#include <random>
#include <thread>

namespace lectern::batch {

bool WaitUnless(const StopCheck& stop, std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds kSlice(50);
  const auto end = std::chrono::steady_clock::now() + time;
  for (;;) {
    if (IsStopped(stop)) return false;
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= left.zero()) return true;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, kSlice));
  }
}

bool IsRetryableStatus(long status) {
  constexpr long kWorthIt[] = {0, 408, 429, 500, 502, 503, 504};
  return std::find(std::begin(kWorthIt), std::end(kWorthIt), status) != std::end(kWorthIt);
}

bool IsRetryableSqlState(std::string_view state) {
  return state.empty() || state.starts_with("08") || state.starts_with("40") ||
         state.starts_with("53") || state.starts_with("57P");
}

Backoff::Backoff(const Limits& limits, uint64_t seed)
    : limits_(limits),
      random_(seed != 0 ? seed
                        : static_cast<uint64_t>(
                              std::chrono::steady_clock::now().time_since_epoch().count())) {}

std::chrono::milliseconds Backoff::Next() {
  if (done_ >= limits_.tries) return std::chrono::milliseconds(0);
  const int doublings = std::min(done_ - 1, 20);
  ++done_;
  const auto full = std::min(limits_.first * (1 << doublings), limits_.most);
  std::mt19937_64 random(random_);
  random_ = random();
  const double share = 0.5 + 0.5 * static_cast<double>(random_ >> 11) * 0x1p-53;
  return std::max(std::chrono::milliseconds(1),
                  std::chrono::milliseconds(static_cast<int64_t>(full.count() * share)));
}

bool Backoff::Wait(const StopCheck& stop) {
  const auto delay = Next();
  return delay.count() > 0 && WaitUnless(stop, delay);
}

}  // namespace lectern::batch
