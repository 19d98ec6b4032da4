#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>

#include "kernels/worker_thread.h"

namespace lectern {

struct WithoutSignals::Before {
  sigset_t signals;
};

WithoutSignals::WithoutSignals() : before_(std::make_unique<Before>()) {
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF}) {
    sigdelset(&blocked, own);
  }
  pthread_sigmask(SIG_BLOCK, &blocked, &before_->signals);
}

WithoutSignals::~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_->signals, nullptr); }

void AddNice(int nice) {
  if (nice > 0) setpriority(PRIO_PROCESS, 0, std::min(getpriority(PRIO_PROCESS, 0) + nice, 19));
}

void WaitForChange(const std::atomic<uint32_t>& value, uint32_t seen) { value.wait(seen); }
void WakeOne(std::atomic<uint32_t>& value) { value.notify_one(); }
void WakeAll(std::atomic<uint32_t>& value) { value.notify_all(); }

}  // namespace lectern
