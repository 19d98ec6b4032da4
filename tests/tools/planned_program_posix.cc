#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#include "tests/tools/planned_program.h"

namespace lectern {

PlannedProgram::PlannedProgram(const std::string& plan_path) {
  const int fd = ::open(plan_path.c_str(), O_RDWR | O_CLOEXEC);
  void* const shared = ::mmap(nullptr, sizeof(CallPlan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (shared == MAP_FAILED) throw std::bad_alloc();
  ::close(fd);
  plan_ = static_cast<CallPlan*>(shared);
  ::setenv(kCallPlanVariable, plan_path.c_str(), 1);
}

PlannedProgram::~PlannedProgram() {
  ::unsetenv(kCallPlanVariable);
  ::munmap(plan_, sizeof(CallPlan));
}

int PlannedProgram::Run(std::vector<std::string> command, const std::string& output) {
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::execv(arguments.front(), arguments.data());
    ::_exit(127);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace lectern
