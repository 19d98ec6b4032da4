#include "tools/default_reader.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

extern char** environ;

namespace lectern::tools {
namespace {

namespace fs = std::filesystem;

constexpr char kModelFile[] = "SmolLM2-135M-Instruct.Q4_1.gguf";  // $smollm2 of tools/fetch.sh

// The path of the installed file or folder `name`: ../share/lectern/`name`, seen from the executable,
// else where the install prefix puts it. NOT_FOUND (param "model") names both.
api::Result<std::string> Installed(const std::string& name, const std::string& noun) {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = executable.parent_path().parent_path() / "share/lectern" / name;
  const fs::path prefix = fs::path(LECTERN_DATA_DIR) / name;
  for (const fs::path& path : {beside, prefix}) {
    if (fs::exists(path, error)) return path.string();
  }
  return api::Error{LECTERN_NOT_FOUND,
                    noun + " is neither " + beside.string() + " nor " + prefix.string() +
                        "; give --model",
                    "model"};
}

std::string EnvironmentText(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Runs `program` from PATH with `arguments` and no standard input, waits for its end, and returns its
// exit status (128 + the signal that ended it). `output` gets what it wrote to stdout and stderr.
api::Result<int> Run(const std::string& program, std::vector<std::string> arguments,
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
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, program.c_str(), &actions, nullptr, pointers.data(), environ);
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
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The last line of `text` that is not empty.
std::string LastLine(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

// The released model in ReaderCache() with the installed adapter, whether or not it is there.
api::Result<Reader> ReleasedReader() {
  auto adapter = Installed("adapter", "the adapter");
  if (!adapter.ok()) return adapter.error();
  return Reader{ReaderCache() + "/" + kModelFile, *adapter};
}

}  // namespace

std::string ReaderCache() {
  const std::string cache = EnvironmentText("XDG_CACHE_HOME"), home = EnvironmentText("HOME");
  if (cache.starts_with('/')) return cache + "/lectern";
  return home.starts_with('/') ? home + "/.cache/lectern" : "";
}

api::Result<std::string> BundledReader() { return Installed("reader", "the bundled model"); }

api::Result<Reader> DefaultReader() {
  std::error_code error;
  auto released = ReleasedReader();
  if (released.ok() && !ReaderCache().empty() && fs::is_regular_file(released->model, error)) {
    return *released;
  }
  auto bundled = BundledReader();
  if (!bundled.ok()) return bundled.error();
  return Reader{*bundled, ""};
}

api::Result<Reader> FetchReader() {
  auto released = ReleasedReader();
  auto script = Installed("fetch.sh", "the script that fetches a model");
  if (!released.ok()) return released.error();
  if (!script.ok()) return script.error();
  if (ReaderCache().empty()) {
    return api::Error{LECTERN_NOT_FOUND,
                      "there is no place for a fetched model: set HOME or XDG_CACHE_HOME", "model"};
  }
  std::string output;
  auto status = Run("bash", {*script, ReaderCache()}, output);
  if (!status.ok()) return status.error();
  if (*status == 0) return *released;
  return api::Error{LECTERN_NOT_FOUND,
                    std::string(kReleasedModel) + " could not be fetched: " + LastLine(output) +
                        "; --model PATH takes a model of yours, and without --yes the small bundled "
                        "one is taken",
                    "model"};
}

}  // namespace lectern::tools
