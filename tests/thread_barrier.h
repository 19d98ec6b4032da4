// Where threads of a test wait for each other. std::barrier waits by std::atomic::wait, whose
// wake-ups GCC 12 loses on Windows.
#ifndef LECTERN_TESTS_THREAD_BARRIER_H_
#define LECTERN_TESTS_THREAD_BARRIER_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace lectern {

class ThreadBarrier {
 public:
  explicit ThreadBarrier(size_t num_threads) : num_threads_(num_threads) {}

  // Returns when as many threads as there are have called it, again and again.
  void ArriveAndWait() {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t round = round_;
    if (++num_arrived_ == num_threads_) {
      num_arrived_ = 0;
      ++round_;
      all_arrived_.notify_all();
    }
    all_arrived_.wait(lock, [&] { return round_ != round; });
  }

 private:
  const size_t num_threads_;
  std::mutex mutex_;
  std::condition_variable all_arrived_;
  size_t num_arrived_ = 0;
  uint64_t round_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_TESTS_THREAD_BARRIER_H_
