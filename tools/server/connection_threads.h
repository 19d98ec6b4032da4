// Runs a thread for each connection that is open, and keeps some of them for the next connections.
#ifndef LECTERN_TOOLS_SERVER_CONNECTION_THREADS_H_
#define LECTERN_TOOLS_SERVER_CONNECTION_THREADS_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace lectern::server {

class ConnectionThreads {
 public:
  ~ConnectionThreads();  // after the last task has ended
  // One thread. False: no further thread can be had; `task` waits until one that is there ends its
  // own. Throws where none is there.
  bool Run(std::function<void()> task);

 private:
  bool Begin();
  void Work(std::list<std::thread>::iterator self);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::list<std::thread> threads_, ended_;
  size_t idle_ = 0;
  bool is_ending_ = false;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_CONNECTION_THREADS_H_
