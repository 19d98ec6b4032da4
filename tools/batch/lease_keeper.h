// Renews the lease of a claimed document while its worker is busy, and tells the worker when the
// lease is lost.
#ifndef LECTERN_TOOLS_BATCH_LEASE_KEEPER_H_
#define LECTERN_TOOLS_BATCH_LEASE_KEEPER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "tools/batch/work_queue.h"

namespace lectern::batch {

// Renews three times in the time of a lease, on a thread of its own, from the constructor to the
// destructor.
class LeaseKeeper {
 public:
  // `queue` is used by this object's thread alone and must outlive it. `on_lost` is called once, on
  // that thread, when another worker has the document, or when the lease has run out while the
  // database could not be reached: the worker then stops at once and records nothing.
  LeaseKeeper(WorkQueue& queue, const Claim& claim, std::chrono::milliseconds lease,
              std::function<void()> on_lost);
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  bool is_lost() const { return is_lost_; }  // any thread

 private:
  void Run();
  // Waits for the time. False: this object is being destroyed.
  bool Wait(std::chrono::milliseconds time);

  WorkQueue& queue_;
  const Claim claim_;
  const std::chrono::milliseconds lease_;
  const std::function<void()> on_lost_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool is_ending_ = false;  // guarded by mutex_
  std::atomic<bool> is_lost_ = false;
  std::thread thread_;
};

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_LEASE_KEEPER_H_
