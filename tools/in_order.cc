#include "tools/in_order.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>
#include <vector>

namespace lectern::tools {
namespace {

class InOrder {
 public:
  InOrder(size_t count, size_t most_at_once, const std::function<bool(size_t, bool)>& run)
      : run_(run), waiting_(count), is_done_(count), limit_(std::min(most_at_once, count)) {
    std::iota(waiting_.begin(), waiting_.end(), size_t{0});
  }

  // A thread's loop.
  void Work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      // The last pieces that run may yet come back.
      changed_.wait(lock, [&] {
        return is_ended_ || (waiting_.empty() ? num_running_ == 0 : num_running_ < limit_);
      });
      if (is_ended_ || waiting_.empty()) return;
      const size_t i = waiting_.front();
      waiting_.pop_front();
      const bool is_alone = limit_ == 1;
      ++num_running_;
      lock.unlock();
      bool is_done = false;
      std::exception_ptr error;
      try {
        is_done = run_(i, is_alone);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      --num_running_;
      if (error) {
        if (!error_) error_ = error;
        is_ended_ = true;
      } else if (is_done || is_alone) {
        is_done_[i] = true;
      } else {
        waiting_.push_front(i);
        limit_ = std::max<size_t>(1, std::min(limit_ - 1, num_running_));
      }
      changed_.notify_all();
    }
  }

  // Waits for piece i. False: it will not come.
  bool Wait(size_t i) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_ended_ || is_done_[i]; });
    return is_done_[i];
  }
  void End() {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
    changed_.notify_all();
  }
  std::exception_ptr error() const { return error_; }  // when all threads have ended

 private:
  const std::function<bool(size_t, bool)>& run_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<size_t> waiting_;  // ascending, but for those that came back
  std::vector<char> is_done_;
  size_t limit_, num_running_ = 0;
  bool is_ended_ = false;
  std::exception_ptr error_;
};

}  // namespace

void RunInOrder(size_t count, size_t most_at_once, const std::function<bool(size_t, bool)>& run,
                const std::function<bool(size_t)>& give) {
  InOrder work(count, most_at_once, run);
  {
    std::vector<std::jthread> threads;
    // Lets the threads end before they are joined, also where `give` throws.
    const std::unique_ptr<InOrder, void (*)(InOrder*)> end(&work, [](InOrder* w) { w->End(); });
    threads.reserve(std::min(most_at_once, count));
    while (threads.size() < std::min(most_at_once, count)) {
      try {
        threads.emplace_back([&work] { work.Work(); });
      } catch (const std::system_error&) {
        if (threads.empty()) throw;
        break;  // fewer at a time
      }
    }
    for (size_t i = 0; i < count && work.Wait(i); ++i) {
      if (!give(i)) break;
    }
  }
  if (work.error()) std::rethrow_exception(work.error());
}

}  // namespace lectern::tools
