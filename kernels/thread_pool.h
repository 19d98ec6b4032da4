// The engine's own threads. The host's pools, OpenMP's included, are never touched.
#ifndef LECTERN_KERNELS_THREAD_POOL_H_
#define LECTERN_KERNELS_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lectern {

// Runs items of work on `num_threads` threads, the calling one included.
// Thread-safe: several threads may call ParallelFor at once; workers help whichever has items.
class ThreadPool {
 public:
  // >= 1; 1 starts no thread. Throws system_error where the system gives no more threads.
  explicit ThreadPool(size_t num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t num_threads() const { return workers_.size() + 1; }

  // Calls body(item, slot) once for each item < num_items and returns when all are done. Items run
  // in any order; slot < num_threads() is distinct among calls that run at the same time, so it
  // may index scratch. `body` must not call ParallelFor of the same pool. What it throws
  // (bad_alloc) is thrown here, the first of several, when no item runs any more; items may then
  // not have run.
  void ParallelFor(size_t num_items, const std::function<void(size_t item, size_t slot)>& body);

 private:
  struct Job;
  void Stop();  // and joins the workers
  void WorkerLoop();
  static void RunItems(Job& job, size_t slot);

  std::mutex mutex_;
  std::condition_variable work_;            // jobs_ may have something, or stop_
  std::vector<std::shared_ptr<Job>> jobs_;  // with items left to hand out
  std::atomic<uint64_t> num_posted_ = 0;    // jobs ever; written with mutex_ held
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

// Physical cores that this process may run on; at least 1.
size_t DefaultThreads();

}  // namespace lectern

#endif  // LECTERN_KERNELS_THREAD_POOL_H_
