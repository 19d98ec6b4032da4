#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <new>

#include "tests/store/worker_processes.h"

namespace lectern {

struct WorkerProcesses::State {
  std::string store;
  Shared* shared = nullptr;
  std::array<pid_t, std::size(kWork)> children{};  // 0: none
};

WorkerProcesses::WorkerProcesses(std::string store) : state_(std::make_unique<State>()) {
  state_->store = std::move(store);
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  state_->shared = static_cast<Shared*>(memory);
}

WorkerProcesses::~WorkerProcesses() {
  for (size_t work = 0; work < std::size(kWork); ++work) Kill(work);
  ::munmap(state_->shared, sizeof(Shared));
}

Shared& WorkerProcesses::shared() { return *state_->shared; }

bool WorkerProcesses::Start(size_t work, uint64_t seed) {
  const pid_t child = fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    Worker worker(state_->store, *state_->shared, seed);
    (worker.*kWork[work])();
  }
  state_->children[work] = child < 0 ? 0 : child;
  return child > 0;
}

bool WorkerProcesses::Kill(size_t work) {
  const pid_t child = std::exchange(state_->children[work], 0);
  return child != 0 && ::kill(child, SIGKILL) == 0 && ::waitpid(child, nullptr, 0) == child;
}

}  // namespace lectern
