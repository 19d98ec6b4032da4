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

}  // namespace lectern
