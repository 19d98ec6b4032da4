#include <windows.h>

#include "kernels/worker_thread.h"

namespace lectern {

struct WithoutSignals::Before {};

WithoutSignals::WithoutSignals() = default;
WithoutSignals::~WithoutSignals() = default;

void AddNice(int nice) {
  if (nice <= 0) return;
  SetThreadPriority(GetCurrentThread(),
                    nice < 10 ? THREAD_PRIORITY_BELOW_NORMAL : THREAD_PRIORITY_LOWEST);
}

void WaitForChange(const std::atomic<uint32_t>& value, uint32_t seen) {
  static_assert(sizeof value == sizeof seen);  // the system compares the bytes
  while (value == seen) {
    WaitOnAddress(const_cast<std::atomic<uint32_t>*>(&value), &seen, sizeof seen, INFINITE);
  }
}
void WakeOne(std::atomic<uint32_t>& value) { WakeByAddressSingle(&value); }
void WakeAll(std::atomic<uint32_t>& value) { WakeByAddressAll(&value); }

}  // namespace lectern
