// The engine's own threads: a pool that runs numbered items of work in parallel. It never touches
// the host's pools, OpenMP's included.
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

// Runs items of work on `num_threads` threads, the calling one included. Thread-safe: several
// threads may call ParallelFor at once, and workers help whichever call has items left. Takes no
// lock, and allocates only when it starts its threads.
class ThreadPool {
 public:
  // `num_threads` >= 1 (0 counts as 1); 1 starts no thread. `nice`, in [0, 19], is added to the
  // niceness of the threads that the pool starts, as far as the system permits. These threads block
  // all signals except faults and SIGPROF. Throws system_error where the system gives no more
  // threads; none of them is then left.
  explicit ThreadPool(size_t num_threads, int nice = 0);
  ~ThreadPool();  // joins its threads; no ParallelFor may be running
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t num_threads() const { return workers_.size() + 1; }

  using Body = FunctionRef<void(size_t item, size_t slot)>;
  // Calls body(item, slot) once for each item < num_items and returns when all are done; 0 items:
  // at once. Items run in any order; slot < num_threads() is distinct among the calls of one
  // ParallelFor that run at the same time, so it may index scratch of that ParallelFor. (Two at
  // once use the same slots.) `body` may call ParallelFor itself, whose slots are then its own;
  // threads that have no item help there, except the outer call's own, which waits for its last
  // items. If a call throws (bad_alloc), ParallelFor waits until no item runs and rethrows the
  // first exception; later items may then not have run. When more than kMostJobs calls run at once,
  // the excess ones run on their own threads alone.
  void ParallelFor(size_t num_items, Body body);
  // Calls that can share their items with workers at the same time. A worker scans all of them for
  // work, so they should be few. By hand; no measurement is on record.
  static constexpr size_t kMostJobs = 16;

 private:
  // One call of ParallelFor. Workers join it while it is open. The members that are not atomic are
  // written by the caller only: before it opens the job, and after all workers have left.
  struct alignas(64) Job {
    // Two flags, kOpen (workers may join) and kTaken (a caller owns the job), and below them the
    // number of workers inside. One word, so that joining and closing cannot interleave.
    std::atomic<uint32_t> state = 0;
    std::atomic<uint32_t> next_slot;  // the caller has slot 0
    std::atomic<size_t> next;         // the next item that nobody has taken
    size_t num_items;
    const Body* body;
    std::atomic<bool> has_thrown;
    std::exception_ptr thrown;  // the exception of whoever set has_thrown first
  };
  static constexpr uint32_t kOpen = 1u << 31, kTaken = 1u << 30, kInside = kTaken - 1;

  // Takes an unused job for the caller by setting kTaken, without waiting; nullptr: all are taken.
  // The caller fills in the job, opens it, and gives it back by setting its state to 0.
  Job* TakeJob();
  // Joins the job if it is open, and runs its items until none is left. True: it had items left. A
  // worker leaves only when no item is left, and then never joins the same job again, so each
  // worker takes at most one slot. The last one to leave a closed job wakes its caller.
  bool Help(Job& job);
  // The body of a worker: helps open jobs, and sleeps where there are none, until the pool stops.
  void WorkerLoop();
  void Stop();  // tells the workers to end, and joins them
  // Takes items of the job and runs them in `slot` until none is left. After an item has thrown,
  // the first exception is kept in job.thrown, and the rest are taken but not run. Never throws.
  static void RunItems(Job& job, size_t slot);

  std::array<Job, kMostJobs> jobs_;
  // Jobs posted so far, plus one when the pool stops; idle workers wait on it.
  std::atomic<uint32_t> num_posted_ = 0;
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> workers_;
};

// Default number of threads: physical cores that this process may run on, no more than its control
// groups grant in whole cores, at least 1. One thread more than the quota allows would make the
// kernel stall all of them again and again.
size_t DefaultThreads();

}  // namespace lectern

#endif  // LECTERN_KERNELS_THREAD_POOL_H_
