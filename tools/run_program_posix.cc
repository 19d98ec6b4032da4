#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tools/run_program.h"

extern char** environ;

namespace lectern::tools {
namespace {

std::vector<char*> PointersTo(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

int ExitStatusOf(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

api::Result<int> RunProgram(const std::string& program, std::vector<std::string> arguments,
                            std::string& output) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return api::Error{LECTERN_IO_ERROR, std::string("pipe: ") + std::strerror(errno), ""};
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  arguments.insert(arguments.begin(), program);
  const std::vector<char*> pointers = PointersTo(arguments);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, program.c_str(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  char buffer[4096];
  while (failed == 0) {
    const ssize_t got = read(ends[0], buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    output.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  if (failed != 0) {
    return api::Error{LECTERN_IO_ERROR, program + ": " + std::strerror(failed), ""};
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return ExitStatusOf(status);
}

api::Result<int> RunUntil(std::vector<std::string> words, const std::function<bool()>& is_over) {
  const std::vector<char*> pointers = PointersTo(words);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, pointers.front(), nullptr, nullptr, pointers.data(), environ);
  if (failed != 0) {
    return api::Error{LECTERN_IO_ERROR, words.front() + ": " + std::strerror(failed), ""};
  }
  for (bool is_told = false;;) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return ExitStatusOf(status);
    if (!is_told && is_over()) {
      kill(child, SIGTERM);
      is_told = true;
    }
    usleep(50000);
  }
}

}  // namespace lectern::tools
