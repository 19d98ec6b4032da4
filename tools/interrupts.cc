#include "tools/interrupts.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

namespace lectern::tools {
namespace {

// The end of the pipe that the signal handler writes to: a handler cannot be given an object. Set
// before the handler is installed.
int write_end = -1;

// Async-signal-safe: one write of one byte, which pipes do not split.
void Send(int signal) {
  const auto byte = static_cast<uint8_t>(signal);
  // A pipe that is full has more signals than anybody needs.
  if (write(write_end, &byte, 1) < 0) return;
}

// The signal handler. It leaves errno as the interrupted code had it.
void OnSignal(int signal) {
  const int error = errno;
  Send(signal);
  errno = error;
}

// Installs the handler, unless the signal is ignored already. SA_RESTART: reads and writes of other
// threads go on instead of failing with EINTR.
void Handle(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  if (action.sa_handler == SIG_IGN) return;
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

// Ends the process without destructors, which could wait for the very work that the user wants to
// stop. The newline ends a progress bar's line.
[[noreturn]] void QuitNow(int signal) {
  if (isatty(STDERR_FILENO) == 1 && write(STDERR_FILENO, "\n", 1) < 0) _exit(1);
  _exit(128 + signal);
}

// The next signal number from the pipe; -1 after `timeout_ms` milliseconds (-1: wait for ever)
// without one.
int Receive(int fd, int timeout_ms) {
  pollfd pipe = {.fd = fd, .events = POLLIN, .revents = 0};
  uint8_t signal = 0;
  if (poll(&pipe, 1, timeout_ms) <= 0 || read(fd, &signal, 1) != 1) return -1;
  return signal;
}

}  // namespace

Interrupts::Interrupts() {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;  // signals end the process, as without us
  read_end_ = ends[0];
  write_end = ends[1];
  watcher_ = std::thread(&Interrupts::Watch, this);
  Handle(SIGINT);
  Handle(SIGTERM);
}

Interrupts::~Interrupts() {
  if (!watcher_.joinable()) return;
  Send(0);
  watcher_.join();
}

void Interrupts::Watch() {
  for (;;) {
    const int signal = Receive(read_end_, requested() ? 100 : -1);
    if (signal == 0) return;
    const std::lock_guard lock(mutex_);
    if (signal > 0) {
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
