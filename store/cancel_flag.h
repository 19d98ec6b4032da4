// The flag by which any thread tells a running call to end early.
#ifndef LECTERN_STORE_CANCEL_FLAG_H_
#define LECTERN_STORE_CANCEL_FLAG_H_

#include <atomic>

namespace lectern {

// Set it from any thread to make the call that was given it end early with kCancelled; it is never
// reset by the call. Long computations look at it at least once per layer and block of work, so
// that they end within 250 ms; tokenising a text does not look.
using CancelFlag = std::atomic<bool>;

// Whether the call is to end. nullptr: the call cannot be cancelled. Relaxed: nothing else is read
// on the strength of it.
inline bool IsSet(const CancelFlag* flag) {
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

}  // namespace lectern

#endif  // LECTERN_STORE_CANCEL_FLAG_H_
