#include "tools/server/watch.h"

#include <exception>
#include <utility>

namespace lectern::server {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(50);  // between two looks

}  // namespace

Watch::~Watch() {
  is_over_ = true;
  thread_.join();
}

Watch::Scope::Scope(Watch& watch, Work work) : watch_(watch), work_(std::move(work)) {
  const std::lock_guard lock(watch_.mutex_);
  place_ = watch_.scopes_.insert(watch_.scopes_.end(), this);
}

Watch::Scope::~Scope() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.scopes_.erase(place_);
}

void Watch::Look() {
  while (!is_over_) {
    std::this_thread::sleep_for(kInterval);
    const std::lock_guard lock(mutex_);
    for (Scope* const scope : scopes_) {
      try {
        LookAt(*scope);
      } catch (const std::exception&) {
        // An exception would end the server; this thread comes back.
      }
    }
  }
}

void Watch::LookAt(Scope& scope) const {
  const Work& work = scope.work_;
  if (scope.ended_by_ == EndedBy::kNothing) {
    if (is_ending_all_) {
      scope.ended_by_ = EndedBy::kServer;
    } else if (work.peer && work.peer->IsGone()) {
      scope.ended_by_ = EndedBy::kClient;
    } else if (std::chrono::steady_clock::now() > work.deadline) {
      scope.ended_by_ = EndedBy::kDeadline;
    }
  }
  if (scope.ended_by_ != EndedBy::kNothing) {
    work.cancel();
  } else if (work.tick) {
    work.tick();
  }
}

}  // namespace lectern::server
