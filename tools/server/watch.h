// Ends work whose client has gone, whose time is up, or that stands in the way of the server's end.
#ifndef LECTERN_TOOLS_SERVER_WATCH_H_
#define LECTERN_TOOLS_SERVER_WATCH_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "tools/server/http.h"

namespace lectern::server {

enum class EndedBy { kNothing, kClient, kDeadline, kServer };

// One thread looks at all work 20 times a second. Thread-safe.
class Watch {
 public:
  Watch() : thread_(&Watch::Look, this) {}
  ~Watch();

  struct Work {
    const Peer* peer = nullptr;  // nullptr: nobody who could leave
    std::chrono::steady_clock::time_point deadline;
    std::function<void()> cancel;  // called again and again until the work is out
    std::function<void()> tick;    // called each time otherwise; may be empty
  };
  // The time that `work` is watched for. Destroy it before what it uses.
  class Scope {
   public:
    Scope(Watch& watch, Work work);
    ~Scope();
    Scope(const Scope&) = delete;
    EndedBy ended_by() const { return ended_by_; }

   private:
    friend class Watch;
    Watch& watch_;
    const Work work_;
    std::atomic<EndedBy> ended_by_ = EndedBy::kNothing;
    std::list<Scope*>::iterator place_;
  };

  // Ends everything that is watched, from now on.
  void EndAll() { is_ending_all_ = true; }
  bool is_ending_all() const { return is_ending_all_; }

 private:
  void Look();

  std::mutex mutex_;
  std::list<Scope*> scopes_;
  std::atomic<bool> is_ending_all_ = false, is_over_ = false;
  std::thread thread_;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_WATCH_H_
