// Ctrl-C and SIGTERM (on Windows Ctrl-Break and the console's end): the first one cancels the work
// that is going on, the second one quits.
#ifndef LECTERN_TOOLS_INTERRUPTS_H_
#define LECTERN_TOOLS_INTERRUPTS_H_

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace lectern::tools {

// Turns SIGINT (Ctrl-C) and SIGTERM into a cancellation of the work that is going on. One object
// for the process, made by main's thread and destroyed after all its scopes. The signal handler
// only writes the signal's number into a pipe; a thread reads it and calls `cancel`, which
// therefore may take locks and allocate. (Blocking the signals and waiting for them would be less
// code, but BLAS starts threads before main that do not block them.)
class Interrupts {
 public:
  // Handles SIGINT and SIGTERM, unless the parent process had them ignored (nohup does). Ignores
  // SIGPIPE for good: a write to a closed pipe then fails, and the tool says so. Where no pipe can
  // be made, signals end the process as they do by default, and no scope changes that. Throws
  // std::system_error where no thread can be started.
  Interrupts();
  // Ends the watching thread. The handlers stay: SIGINT and SIGTERM then have no effect.
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // The time of one piece of work that can be cancelled; at most one is open at a time. Inside of
  // it, the first signal calls `cancel` on another thread, and again every 100 ms until the scope
  // ends, so that work that was just about to begin is cancelled too; the second signal ends the
  // process. Outside of any scope a signal ends the process at once, with status 130 (SIGINT) or
  // 143 (SIGTERM) and without destructors. The constructor forgets an earlier signal (requested is
  // false again). The destructor waits for a call of `cancel` that is running: none comes after it.
  // `cancel` must not be empty, must return soon, and may neither open nor end a scope.
  class Scope {
   public:
    Scope(Interrupts& interrupts, std::function<void()> cancel);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Interrupts& interrupts_;
  };

  // Whether a signal came during the scope that is open or was the last, and the exit status that
  // the tool should end with: 130 (SIGINT), 143 (SIGTERM), 0 where none came. Any thread.
  bool requested() const { return signal_ != 0; }
  int exit_status() const { return requested() ? 128 + signal_ : 0; }

 private:
  // The watcher's loop, on watcher_: waits for signals, ends the process or sets signal_ and calls
  // cancel_ as Scope says, and then wakes every 100 ms to call it again. Takes mutex_, and holds
  // it during the call. Returns when the destructor writes the number 0.
  void Watch();
  // The next signal's number, 0 from the destructor; -1: none came within 100 ms, where `is_brief`.
  int Receive(bool is_brief);
  // Ends the process without destructors, which could wait for the very work that the user wants to
  // stop. A newline ends a progress bar's line.
  [[noreturn]] static void QuitNow(int signal);

  int read_end_ = -1;             // POSIX: of a pipe of signal numbers; 0 ends the watcher
  std::mutex mutex_;              // guards cancel_, and is held while it is called
  std::function<void()> cancel_;  // empty: no scope is open
  std::atomic<int> signal_ = 0;   // the first one of the scope; 0: none came
  std::thread watcher_;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INTERRUPTS_H_
