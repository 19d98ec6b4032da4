#include "tools/server/connection_threads.h"

#include <chrono>

namespace lectern::server {
namespace {

constexpr size_t kIdleThreads = 32;                 // that wait for a task at the same time
constexpr auto kIdleFor = std::chrono::seconds(5);  // how long each of them waits

}  // namespace

ConnectionThreads::~ConnectionThreads() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  for (std::thread& thread : ended_) thread.join();
}

bool ConnectionThreads::Run(std::function<void()> task) {
  std::list<std::thread> ended;
  bool has_thread = true;
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (tasks_.size() > idle_) {
      const std::exception_ptr failure = Begin();
      if (failure && threads_.empty()) {  // nobody would ever take it
        tasks_.pop_back();
        std::rethrow_exception(failure);
      }
      has_thread = failure == nullptr;
    }
    ended.swap(ended_);
  }
  changed_.notify_one();
  for (std::thread& thread : ended) thread.join();
  return has_thread;
}

std::exception_ptr ConnectionThreads::Begin() noexcept {
  std::list<std::thread> made;  // joins threads_ once its thread has begun: these are joined
  try {
    const auto place = made.emplace(made.end());
    *place = std::thread(&ConnectionThreads::Work, this, place);
  } catch (...) {  // EAGAIN, a limit of the system or the container; or no memory
    return std::current_exception();
  }
  threads_.splice(threads_.end(), made);  // the new thread waits for the mutex until then
  return nullptr;
}

// Takes tasks until it has been idle for too long, or enough others are idle. `self`: this thread's
// place in threads_. A thread cannot join itself: it moves itself to ended_.
void ConnectionThreads::Work(std::list<std::thread>::iterator self) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (idle_ >= kIdleThreads && tasks_.empty() && !is_ending_) {
      ended_.splice(ended_.end(), threads_, self);
      return;
    }
    ++idle_;
    const bool goes_on =
        changed_.wait_for(lock, kIdleFor, [this] { return is_ending_ || !tasks_.empty(); });
    --idle_;
    if (!goes_on) ended_.splice(ended_.end(), threads_, self);
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace lectern::server
