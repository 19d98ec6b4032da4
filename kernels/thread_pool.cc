#include "kernels/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <set>
#include <utility>

#include "hwy/cache_control.h"

namespace lectern {
namespace {

// A token has some hundred jobs of a few microseconds each: waking a thread for one takes longer.
// So whoever waits looks for so long before it sleeps; never longer, as the one it waits for may
// have to share its core with another process.
constexpr std::chrono::microseconds kLooksFor(50);

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

struct ThreadPool::Job {
  Job(size_t n, const std::function<void(size_t, size_t)>& f) : num_items(n), body(f) {}

  const size_t num_items;
  const std::function<void(size_t, size_t)>& body;  // outlives every started item
  std::atomic<size_t> next{0};
  size_t next_slot = 1;  // guarded by mutex_; the caller has slot 0
  std::mutex done_mutex;
  std::condition_variable done;
  std::atomic<size_t> num_done{0};  // written with done_mutex held
  std::exception_ptr thrown;  // guarded by done_mutex: the first
};

ThreadPool::ThreadPool(size_t num_threads) {
  try {
    for (size_t i = 1; i < std::max<size_t>(num_threads, 1); ++i) {
      workers_.emplace_back([this] { WorkerLoop(); });
    }
  } catch (...) {
    Stop();  // those that did start
    throw;
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// Takes items until none is left; after one that throws, the rest are taken but not run. The last
// one done wakes the caller.
void ThreadPool::RunItems(Job& job, size_t slot) {
  size_t done = 0;
  std::exception_ptr thrown;
  for (size_t item; (item = job.next.fetch_add(1, std::memory_order_relaxed)) < job.num_items;) {
    ++done;
    if (thrown) continue;
    try {
      job.body(item, slot);
    } catch (...) {
      thrown = std::current_exception();
    }
  }
  if (done == 0) return;
  std::lock_guard lock(job.done_mutex);
  if (!job.thrown) job.thrown = std::move(thrown);
  job.num_done += done;
  if (job.num_done == job.num_items) job.done.notify_all();
}

void ThreadPool::WorkerLoop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!stop_ && jobs_.empty()) {
      const uint64_t seen = num_posted_;
      lock.unlock();
      LookFor([&] { return num_posted_ != seen; });
      lock.lock();
    }
    work_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    const std::shared_ptr<Job> job = jobs_.front();
    const size_t slot = job->next_slot++;
    // A job leaves the list once every worker that can help has joined it or its items are gone.
    if (slot >= workers_.size() || job->next.load(std::memory_order_relaxed) >= job->num_items) {
      std::erase(jobs_, job);
    }
    lock.unlock();
    RunItems(*job, slot);
    lock.lock();
    std::erase(jobs_, job);
  }
}

void ThreadPool::ParallelFor(size_t num_items,
                             const std::function<void(size_t item, size_t slot)>& body) {
  if (num_items == 0) return;
  if (num_items == 1 || workers_.empty()) {
    for (size_t item = 0; item < num_items; ++item) body(item, 0);
    return;
  }
  const auto job = std::make_shared<Job>(num_items, body);
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(job);
    ++num_posted_;
  }
  if (num_items > 2) {
    work_.notify_all();
  } else {
    work_.notify_one();
  }
  RunItems(*job, 0);
  LookFor([&] { return job->num_done == num_items; });
  std::unique_lock lock(job->done_mutex);
  job->done.wait(lock, [&] { return job->num_done == job->num_items; });
  lock.unlock();
  {
    std::lock_guard list_lock(mutex_);
    std::erase(jobs_, job);
  }
  if (job->thrown) std::rethrow_exception(std::exchange(job->thrown, nullptr));
}

namespace {

// "core_id" of /sys may be missing (containers, other kernels): then every CPU counts as a core.
int ReadTopology(int cpu, const char* name) {
  char path[128];
  std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, name);
  int value = -1;
  if (FILE* file = std::fopen(path, "r")) {
    if (std::fscanf(file, "%d", &value) != 1) value = -1;
    std::fclose(file);
  }
  return value;
}

}  // namespace

size_t DefaultThreads() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    return std::max(1u, std::thread::hardware_concurrency());
  }
  std::set<std::pair<int, int>> cores;
  int unknown = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const int core = ReadTopology(cpu, "core_id");
    if (core < 0) {
      ++unknown;
    } else {
      cores.insert({ReadTopology(cpu, "physical_package_id"), core});
    }
  }
  return std::max<size_t>(1, cores.size() + static_cast<size_t>(unknown));
}

}  // namespace lectern
