// Ctrl-C, Ctrl-Break and the end of the console, of the user's session or of the system, by a
// handler that Windows runs on a thread of its own.
#include <windows.h>

#include <io.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>

#include "tools/interrupts.h"
#include "tools/terminal.h"

namespace lectern::tools {
namespace {

constexpr int kInterrupt = 2, kTerminate = 15;  // SIGINT and SIGTERM, of which the status is made

// The signals that nobody has taken yet; a handler cannot be given an object.
struct Arrived {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<int> signals;
};

Arrived& TheArrived() {
  static Arrived arrived;
  return arrived;
}

void Send(int signal) {
  Arrived& arrived = TheArrived();
  {
    const std::lock_guard lock(arrived.mutex);
    arrived.signals.push_back(signal);
  }
  arrived.changed.notify_one();
}

BOOL WINAPI OnControl(DWORD event) {
  const bool is_key = event == CTRL_C_EVENT;
  Send(is_key ? kInterrupt : kTerminate);
  // When the handler of the others returns, Windows ends the process: the work gets the time that
  // Windows grants, 5 s, to end by itself.
  if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) Sleep(INFINITE);
  return TRUE;
}

}  // namespace

Interrupts::Interrupts() {
  watcher_ = std::thread(&Interrupts::Watch, this);
  SetConsoleCtrlHandler(OnControl, TRUE);
}

Interrupts::~Interrupts() {
  Send(0);
  watcher_.join();
}

void Interrupts::QuitNow(int signal) {
  if (IsTerminal(stderr)) (void)_write(_fileno(stderr), "\n", 1);
  TerminateProcess(GetCurrentProcess(), static_cast<UINT>(128 + signal));
  for (;;) Sleep(INFINITE);
}

int Interrupts::Receive(bool is_brief) {
  Arrived& arrived = TheArrived();
  std::unique_lock lock(arrived.mutex);
  const auto has_one = [&] { return !arrived.signals.empty(); };
  if (is_brief) {
    if (!arrived.changed.wait_for(lock, std::chrono::milliseconds(100), has_one)) return -1;
  } else {
    arrived.changed.wait(lock, has_one);
  }
  const int signal = arrived.signals.front();
  arrived.signals.pop_front();
  return signal;
}

}  // namespace lectern::tools
