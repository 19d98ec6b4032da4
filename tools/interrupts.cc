#include "tools/interrupts.h"

#include <pthread.h>
#include <unistd.h>

#include <ctime>
#include <utility>

namespace lectern::tools {
namespace {

constexpr int kWakeUp = SIGUSR1;  // to the watcher alone, when the process ends

bool IsIgnored(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

[[noreturn]] void QuitNow(int signal) {
  if (isatty(STDERR_FILENO) == 1 && write(STDERR_FILENO, "\n", 1) < 0) _exit(1);
  _exit(128 + signal);
}

}  // namespace

Interrupts::Interrupts() {
  std::signal(SIGPIPE, SIG_IGN);
  sigemptyset(&signals_);
  sigaddset(&signals_, kWakeUp);
  for (const int signal : {SIGINT, SIGTERM}) {
    if (!IsIgnored(signal)) sigaddset(&signals_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  watcher_ = std::thread(&Interrupts::Watch, this);
}

Interrupts::~Interrupts() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  pthread_kill(watcher_.native_handle(), kWakeUp);
  watcher_.join();
}

void Interrupts::Watch() {
  const timespec repeat = {.tv_sec = 0, .tv_nsec = 100'000'000};
  for (;;) {
    const int signal = requested() ? sigtimedwait(&signals_, nullptr, &repeat)  // -1: time is up
                                   : sigwaitinfo(&signals_, nullptr);
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return;
    if (signal == SIGINT || signal == SIGTERM) {
      if (!cancel_ || requested()) QuitNow(signal);
      signal_ = signal;
    }
    if (cancel_ && requested()) cancel_();
  }
}

Interrupts::Scope::Scope(Interrupts& interrupts, std::function<void()> cancel)
    : interrupts_(interrupts) {
  const std::lock_guard lock(interrupts_.mutex_);
  interrupts_.signal_ = 0;
  interrupts_.cancel_ = std::move(cancel);
}

Interrupts::Scope::~Scope() {
  const std::lock_guard lock(interrupts_.mutex_);
  interrupts_.cancel_ = nullptr;
}

}  // namespace lectern::tools
