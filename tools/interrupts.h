// Ctrl-C and SIGTERM: the first one cancels the work that is going on, the second one quits.
#ifndef LECTERN_TOOLS_INTERRUPTS_H_
#define LECTERN_TOOLS_INTERRUPTS_H_

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace lectern::tools {

// One for the process. The signal handler only hands the number to a thread, so that cancelling
// needs no code that is safe in a signal handler. (Blocking the signals and waiting for them would
// be less code, but BLAS starts threads before main that do not block them.)
class Interrupts {
 public:
  // Handles SIGINT and SIGTERM, unless the parent had them ignored. Ignores SIGPIPE: a write that
  // fails tells.
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // The time of one piece of work. Outside of it a signal ends the process at once, with 130 or
  // 143; inside, the first one calls `cancel` (in another thread, again every 100 ms, so that work
  // that was just about to begin is cancelled too) and the second one ends the process.
  class Scope {
   public:
    Scope(Interrupts& interrupts, std::function<void()> cancel);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Interrupts& interrupts_;
  };

  // These speak of the scope that is open or was the last: whether a signal came, and the exit
  // status that it asks for (130, 143; 0: none came).
  bool requested() const { return signal_ != 0; }
  int exit_status() const { return requested() ? 128 + signal_ : 0; }

 private:
  void Watch();

  int read_end_ = -1;  // of a pipe of signal numbers; 0: the end of this object
  std::mutex mutex_;
  std::function<void()> cancel_;  // empty: no scope is open
  std::atomic<int> signal_ = 0;
  std::thread watcher_;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INTERRUPTS_H_
