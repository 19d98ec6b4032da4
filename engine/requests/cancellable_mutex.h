// A mutex that may be held for long, such as while a model is loaded: a call that waits for it can be
// cancelled.
#ifndef LECTERN_ENGINE_REQUESTS_CANCELLABLE_MUTEX_H_
#define LECTERN_ENGINE_REQUESTS_CANCELLABLE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "store/cancel_flag.h"

namespace lectern {

// Any thread. Not recursive. Why not std::timed_mutex: ThreadSanitizer of gcc 12 does not know its
// timed waits and reports races that are none.
class CancellableMutex {
 public:
  // Waits for the lock, and looks at `cancel` (may be nullptr) every 50 ms. False: `cancel` is set,
  // and this call has not locked the mutex, even if it was free.
  bool Lock(const CancelFlag* cancel) {
    std::unique_lock lock(mutex_);
    while (is_locked_ && !IsSet(cancel)) unlocked_.wait_for(lock, std::chrono::milliseconds(50));
    if (IsSet(cancel)) return false;
    return is_locked_ = true;
  }
  void unlock() {  // named for std::unique_lock
    const std::lock_guard lock(mutex_);
    is_locked_ = false;
    unlocked_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable unlocked_;
  bool is_locked_ = false;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_REQUESTS_CANCELLABLE_MUTEX_H_
