// Watches the work of the server's requests and cancels what nobody waits for any more: the client
// is gone, the time is up, or the server is ending.
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

// The reason why work was cancelled.
enum class EndedBy { kNothing, kClient, kDeadline, kServer };

// One thread, which the constructor starts, looks at all work 20 times a second. It calls the
// functions of Work with its lock held, so that they must return soon and may not make or destroy a
// Scope. What one throws, for want of memory, is dropped: the next look calls it again.
// Thread-safe. Scopes must not outlive it.
class Watch {
 public:
  Watch() : thread_(&Watch::Look, this) {}
  ~Watch();

  struct Work {
    const Peer* peer = nullptr;  // the client; nullptr: there is none who could leave
    std::chrono::steady_clock::time_point deadline;
    // Called at every look once the work is to end, until its scope ends: a cancellation that came
    // just before the work began would be lost. May not be empty.
    std::function<void()> cancel;
    std::function<void()> tick;  // called at every look before that; may be empty
  };
  // Watches `work` as long as it exists. Destroy it before the things that the functions use: the
  // destructor waits for a function that is running, and none is called after it.
  class Scope {
   public:
    Scope(Watch& watch, Work work);
    ~Scope();
    Scope(const Scope&) = delete;
    EndedBy ended_by() const { return ended_by_; }  // any thread; the first reason stays

   private:
    friend class Watch;
    Watch& watch_;
    const Work work_;
    std::atomic<EndedBy> ended_by_ = EndedBy::kNothing;
    std::list<Scope*>::iterator place_;
  };

  // Ends everything that is watched now or later, from the next look on; cannot be undone.
  void EndAll() { is_ending_all_ = true; }
  bool is_ending_all() const { return is_ending_all_; }

 private:
  // The thread's loop, until is_over_: every 50 ms takes mutex_, ends scopes whose client is gone,
  // whose time is up, or that EndAll meant, and calls `cancel` of each that has ended, else its
  // `tick`. The reason stays the first one.
  void Look();
  void LookAt(Scope& scope) const;  // one scope's turn

  std::mutex mutex_;
  std::list<Scope*> scopes_;
  std::atomic<bool> is_ending_all_ = false, is_over_ = false;
  std::thread thread_;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_WATCH_H_
