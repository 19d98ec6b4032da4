// Runs a task for each open connection of the server, each on a thread of its own, and keeps some
// threads for the next connections, which then need not wait for a thread to start.
#ifndef LECTERN_TOOLS_SERVER_CONNECTION_THREADS_H_
#define LECTERN_TOOLS_SERVER_CONNECTION_THREADS_H_

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace lectern::server {

// Run is called by one thread, the one that accepts connections. There are as many threads as tasks
// at once; no bound but the caller's.
class ConnectionThreads {
 public:
  ~ConnectionThreads();  // waits until every task, also those that wait, has ended
  // Runs `task`, which may not throw, on an idle thread or a new one. False: the system gives no
  // further thread, or no memory for one; `task` waits until a running one ends. Where no thread is
  // running at all, throws std::system_error or std::bad_alloc. Whenever it throws, `task` is not
  // run.
  bool Run(std::function<void()> task);

 private:
  // Begins a new thread; with the mutex held. The exception that tells why there is none; nullptr:
  // there is one.
  std::exception_ptr Begin() noexcept;
  void Work(std::list<std::thread>::iterator self);  // what a thread does

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::list<std::thread> threads_, ended_;  // ended_: to be joined by the next Run
  size_t idle_ = 0;                         // threads that wait for a task
  bool is_ending_ = false;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_CONNECTION_THREADS_H_
