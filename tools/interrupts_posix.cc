// Ctrl-C and SIGTERM by a handler that writes into a pipe.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

#include "tools/interrupts.h"

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

void Interrupts::QuitNow(int signal) {
  if (isatty(STDERR_FILENO) == 1 && write(STDERR_FILENO, "\n", 1) < 0) _exit(1);
  _exit(128 + signal);
}

int Interrupts::Receive(bool is_brief) {
  pollfd pipe = {.fd = read_end_, .events = POLLIN, .revents = 0};
  uint8_t signal = 0;
  if (poll(&pipe, 1, is_brief ? 100 : -1) <= 0 || read(read_end_, &signal, 1) != 1) return -1;
  return signal;
}

}  // namespace lectern::tools
