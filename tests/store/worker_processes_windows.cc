// Windows has no fork: a worker is this program again, which runs one disabled test.
#include <windows.h>

#include <array>
#include <cstdlib>
#include <new>
#include <sstream>

#include "tests/store/worker_processes.h"

namespace lectern {
namespace {

constexpr char kVariable[] = "LECTERN_TEST_WORKER";  // "NAME WORK SEED STORE", for a worker

// The memory of this name, which lasts as long as a process has it.
Shared* OpenShared(const std::string& name, HANDLE* mapping) {
  *mapping = CreateFileMappingA(INVALID_HANDLE_VALUE, nullptr, PAGE_READWRITE, 0, sizeof(Shared),
                                name.c_str());
  return static_cast<Shared*>(MapViewOfFile(*mapping, FILE_MAP_ALL_ACCESS, 0, 0, sizeof(Shared)));
}

TEST(ProcessesTest, DISABLED_Worker) {
  const char* const text = std::getenv(kVariable);
  ASSERT_NE(text, nullptr);
  std::istringstream fields(text);
  std::string name, store;
  size_t work = 0;
  uint64_t seed = 0;
  fields >> name >> work >> seed >> std::ws;
  std::getline(fields, store);
  HANDLE mapping;
  Shared* const shared = OpenShared(name, &mapping);
  ASSERT_NE(shared, nullptr);
  Worker worker(store, *shared, seed);
  (worker.*kWork[work])();
}

}  // namespace

struct WorkerProcesses::State {
  std::string store, name;
  HANDLE mapping = nullptr, job = nullptr;  // the job ends its processes with this one
  Shared* shared = nullptr;
  std::array<HANDLE, std::size(kWork)> children{};
};

WorkerProcesses::WorkerProcesses(std::string store) : state_(std::make_unique<State>()) {
  state_->store = std::move(store);
  state_->name = "lectern-test-" + std::to_string(GetCurrentProcessId());
  state_->shared = OpenShared(state_->name, &state_->mapping);
  if (state_->shared == nullptr) throw std::bad_alloc();
  state_->job = CreateJobObjectW(nullptr, nullptr);
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits{};
  limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
  SetInformationJobObject(state_->job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
}

WorkerProcesses::~WorkerProcesses() {
  for (size_t work = 0; work < std::size(kWork); ++work) Kill(work);
  UnmapViewOfFile(state_->shared);
  CloseHandle(state_->mapping);
  CloseHandle(state_->job);
}

Shared& WorkerProcesses::shared() { return *state_->shared; }

bool WorkerProcesses::Start(size_t work, uint64_t seed) {
  const std::string value =
      state_->name + " " + std::to_string(work) + " " + std::to_string(seed) + " " + state_->store;
  SetEnvironmentVariableA(kVariable, value.c_str());
  char program[MAX_PATH];
  GetModuleFileNameA(nullptr, program, sizeof program);
  std::string command = "\"" + std::string(program) +
                        "\" --gtest_brief=1 --gtest_filter=ProcessesTest.DISABLED_Worker "
                        "--gtest_also_run_disabled_tests";
  STARTUPINFOA startup{};
  startup.cb = sizeof startup;
  PROCESS_INFORMATION started{};
  const bool is_started = CreateProcessA(program, command.data(), nullptr, nullptr, FALSE, 0,
                                         nullptr, nullptr, &startup, &started);
  if (!is_started) return false;
  AssignProcessToJobObject(state_->job, started.hProcess);
  CloseHandle(started.hThread);
  state_->children[work] = started.hProcess;
  return true;
}

bool WorkerProcesses::Kill(size_t work) {
  const HANDLE child = std::exchange(state_->children[work], nullptr);
  if (child == nullptr) return false;
  const bool is_killed = TerminateProcess(child, 9);
  WaitForSingleObject(child, INFINITE);
  CloseHandle(child);
  return is_killed;
}

}  // namespace lectern
