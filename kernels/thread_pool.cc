#include "kernels/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "hwy/cache_control.h"
#include "kernels/process_limits.h"
#include "kernels/worker_thread.h"

namespace lectern {
namespace {

// How long a thread spins before it sleeps. A token has some hundred jobs of a few microseconds
// each, and waking a sleeping thread takes longer than that, so spinning pays: 10.3 instead of 15.7
// ms a token with two threads (when introduced). It never spins longer, because the thread it waits
// for may have to share its core with another process.
constexpr std::chrono::microseconds kLooksFor(50);

// Spins until the condition holds or kLooksFor has passed. Reading the clock is dearer than the
// condition, hence 32 tries between two looks at it.
template <typename Condition>
void LookFor(const Condition& is_true) {
  const auto end = std::chrono::steady_clock::now() + kLooksFor;
  do {
    for (int i = 0; i < 32; ++i) {
      if (is_true()) return;
      hwy::Pause();
    }
  } while (std::chrono::steady_clock::now() < end);
}

}  // namespace

ThreadPool::ThreadPool(size_t num_threads, int nice) {
  const WithoutSignals without_signals;
  try {
    for (size_t i = 1; i < std::max<size_t>(num_threads, 1); ++i) {
      workers_.emplace_back([this, nice] {
        AddNice(nice);
        WorkerLoop();
      });
    }
  } catch (...) {
    Stop();  // joins the threads that did start
    throw;
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  // The count changes, so that workers that wait on it wake and see stop_.
  stop_ = true;
  ++num_posted_;
  WakeAll(num_posted_);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunItems(Job& job, size_t slot) {
  for (size_t item; (item = job.next.fetch_add(1, std::memory_order_relaxed)) < job.num_items;) {
    if (job.has_thrown.load(std::memory_order_relaxed)) continue;
    try {
      (*job.body)(item, slot);
    } catch (...) {
      if (!job.has_thrown.exchange(true)) job.thrown = std::current_exception();
    }
  }
}

bool ThreadPool::Help(Job& job) {
  uint32_t state = job.state.load(std::memory_order_relaxed);
  do {
    if ((state & kOpen) == 0) return false;
  } while (!job.state.compare_exchange_weak(state, state + 1, std::memory_order_acquire,
                                            std::memory_order_relaxed));
  const bool has_items = job.next.load(std::memory_order_relaxed) < job.num_items;
  if (has_items) RunItems(job, job.next_slot.fetch_add(1, std::memory_order_relaxed));
  const uint32_t before = job.state.fetch_sub(1);
  // The last worker to leave a closed job wakes its caller.
  if ((before & kOpen) == 0 && (before & kInside) == 1) WakeOne(job.state);  // its caller
  return has_items;
}

void ThreadPool::WorkerLoop() {
  for (size_t first = 0;;) {
    const uint32_t seen = num_posted_;
    if (stop_) return;
    bool has_helped = false;
    // Starts behind the job it helped last, so that a caller that posts one job after the other
    // does not keep all workers to itself.
    for (size_t i = 1; i <= jobs_.size() && !has_helped; ++i) {
      const size_t job = (first + i) % jobs_.size();
      has_helped = Help(jobs_[job]);
      if (has_helped) first = job;
    }
    if (has_helped) continue;
    LookFor([&] { return num_posted_ != seen; });
    WaitForChange(num_posted_, seen);
  }
}

ThreadPool::Job* ThreadPool::TakeJob() {
  for (Job& job : jobs_) {
    uint32_t expected = 0;
    if (job.state.compare_exchange_strong(expected, kTaken, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
      return &job;
    }
  }
  return nullptr;
}

// Posts a job, works on its items like a worker (as slot 0), closes the job when no item is left,
// and waits for the workers that are still inside. The first exception of an item is thrown here.
void ThreadPool::ParallelFor(size_t num_items, Body body) {
  if (num_items == 0) return;
  // One item, a pool without workers, or no free job: the caller runs everything itself.
  Job* const job = num_items == 1 || workers_.empty() ? nullptr : TakeJob();
  if (job == nullptr) {
    for (size_t item = 0; item < num_items; ++item) body(item, 0);
    return;
  }
  job->next_slot.store(1, std::memory_order_relaxed);
  job->next.store(0, std::memory_order_relaxed);
  job->num_items = num_items;
  job->body = &body;
  job->has_thrown.store(false, std::memory_order_relaxed);
  // Everything above is published by this store; workers that see kOpen see it too.
  job->state.store(kTaken | kOpen, std::memory_order_release);
  ++num_posted_;
  // The caller takes one of two items, so that one worker is enough.
  if (num_items > 2) {
    WakeAll(num_posted_);
  } else {
    WakeOne(num_posted_);
  }
  RunItems(*job, 0);
  // The job is closed: nobody joins any more. Workers still inside are running its last items.
  // From here on only workers inside can change the state; the caller waits until it is kTaken
  // alone.
  uint32_t state = job->state.fetch_and(~kOpen) & ~kOpen;
  const auto is_done = [&] {
    state = job->state.load(std::memory_order_acquire);
    return state == kTaken;
  };
  if (state != kTaken) LookFor(is_done);
  while (!is_done()) WaitForChange(job->state, state);
  const std::exception_ptr thrown = std::exchange(job->thrown, nullptr);
  job->state.store(0, std::memory_order_release);
  if (thrown) std::rethrow_exception(thrown);
}

size_t DefaultThreads() { return UsableCores(AllowedCpus()); }

}  // namespace lectern
