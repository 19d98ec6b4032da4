// The flag by which any thread tells a running call to end early.
#ifndef LECTERN_STORE_CANCEL_FLAG_H_
#define LECTERN_STORE_CANCEL_FLAG_H_

#include <atomic>

namespace lectern {

// Set it from any thread to make the call that was given it end early with kCancelled. Long calls
// poll it at least once per layer and block of work, so that they end within 250 ms.
using CancelFlag = std::atomic<bool>;

// nullptr means that the call cannot be cancelled.
inline bool IsSet(const CancelFlag* flag) {
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

}  // namespace lectern

#endif  // LECTERN_STORE_CANCEL_FLAG_H_
