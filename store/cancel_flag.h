// How a call is told to end early.
#ifndef LECTERN_STORE_CANCEL_FLAG_H_
#define LECTERN_STORE_CANCEL_FLAG_H_

#include <atomic>

namespace lectern {

// Set from any thread to make the call that was given it end early with kCancelled. Polled at
// least once per layer and block of work, so that a call ends within 250 ms.
using CancelFlag = std::atomic<bool>;

inline bool IsSet(const CancelFlag* flag) {
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

}  // namespace lectern

#endif  // LECTERN_STORE_CANCEL_FLAG_H_
