// The engine's own threads. The host's pools, OpenMP's included, are never touched.
#ifndef LECTERN_KERNELS_THREAD_POOL_H_
#define LECTERN_KERNELS_THREAD_POOL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "kernels/function_ref.h"

namespace lectern {

// Runs items of work on `num_threads` threads, the calling one included.
// Thread-safe: several threads may call ParallelFor at once; workers help whichever has items.
// Takes no lock and allocates nothing but for its threads.
class ThreadPool {
 public:
  // >= 1; 1 starts no thread. `nice`, in [0, 19]: added to the niceness of the threads that it starts.
  // Throws system_error where the system gives no more threads.
  explicit ThreadPool(size_t num_threads, int nice = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t num_threads() const { return workers_.size() + 1; }

  using Body = FunctionRef<void(size_t item, size_t slot)>;
  // Calls body(item, slot) once for each item < num_items and returns when all are done. Items run
  // in any order; slot < num_threads() is distinct among calls that run at the same time, so it
  // may index scratch. `body` must not call ParallelFor of the same pool. What it throws
  // (bad_alloc) is thrown here, the first of several, when no item runs any more; items may then
  // not have run. Of more than kMostJobs calls at once the rest run on their own threads alone.
  void ParallelFor(size_t num_items, Body body);
  static constexpr size_t kMostJobs = 16;

 private:
  // One call of ParallelFor. Workers join it while it is open; what is not atomic is written by the
  // caller, before it opens and after all have left.
  struct alignas(64) Job {
    // kOpen or not, kTaken or not, and how many workers are inside.
    std::atomic<uint32_t> state = 0;
    std::atomic<uint32_t> next_slot;  // the caller has slot 0
    std::atomic<size_t> next;         // item
    size_t num_items;
    const Body* body;
    std::atomic<bool> has_thrown;
    std::exception_ptr thrown;  // of the first that set has_thrown
  };
  static constexpr uint32_t kOpen = 1u << 31, kTaken = 1u << 30, kInside = kTaken - 1;

  Job* TakeJob();
  bool Help(Job& job);
  void WorkerLoop();
  void Stop();  // and joins the workers
  static void RunItems(Job& job, size_t slot);

  std::array<Job, kMostJobs> jobs_;
  std::atomic<uint32_t> num_posted_ = 0;  // jobs ever, and one for the end
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> workers_;
};

// Physical cores that this process may run on, as far as its control groups grant them whole; at
// least 1. A thread more than they grant would stall all of them again and again.
size_t DefaultThreads();

}  // namespace lectern

#endif  // LECTERN_KERNELS_THREAD_POOL_H_
