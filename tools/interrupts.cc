// The watcher and its scopes, which are the same on all systems.
#include "tools/interrupts.h"

#include <utility>

namespace lectern::tools {

void Interrupts::Watch() {
  for (;;) {
    const int signal = Receive(requested());
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
