#include "tools/ingest/limited_child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <utility>

#include "tools/find_program.h"

namespace lectern::tools {
namespace {

using Clock = std::chrono::steady_clock;
using How = ChildEnd::How;

constexpr int kPollMs = 50;             // between two looks at the clock and the cancellation
constexpr size_t kMaxComplaint = 4096;  // bytes of stderr that are kept

// An open file, closed at the end; negative: none.
class Descriptor {
 public:
  // Above the standard ones, so that giving it to the child as one of these closes no other.
  explicit Descriptor(int fd) : fd_(fd) {
    if (fd < 0 || fd > STDERR_FILENO) return;
    fd_ = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(fd);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Descriptor() { Close(); }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

struct Pipe {
  Descriptor read_end, write_end;
  static Pipe Make() {
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) ends[0] = ends[1] = -1;
    return {Descriptor(ends[0]), Descriptor(ends[1])};
  }
  bool ok() const { return read_end.get() >= 0 && write_end.get() >= 0; }
};

// A file in memory with these bytes, at its start; none (errno says why) where that fails. A pipe
// would not do: a PDF's table of objects is at its end, and pdftotext seeks.
Descriptor MemoryFile(std::string_view bytes) {
  Descriptor file(memfd_create("document", MFD_CLOEXEC));
  if (file.get() < 0) return file;
  while (!bytes.empty()) {
    const ssize_t count = write(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Descriptor(-1);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

// Failures are ignored: a limit that is lower already stays.
void Limit(__rlimit_resource resource, uint64_t soft, uint64_t hard) {
  const rlimit limit = {soft, hard};
  setrlimit(resource, &limit);
}

// The child's work between fork and exec: it takes its descriptors and limits, and becomes the
// program. The parent has threads, which may have held locks when it forked, so that only system
// calls may be made here (fork(2), signal-safety(7)): no allocation. If exec fails, its errno goes
// into the pipe `failed`, which exec otherwise closes.
[[noreturn]] void Become(const char* program, char* const* arguments, const ChildLimits& limits,
                         int in, int out, int err, int failed) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  Limit(RLIMIT_AS, limits.memory_bytes, limits.memory_bytes);
  Limit(RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1);  // SIGXCPU, then SIGKILL
  Limit(RLIMIT_CORE, 0, 0);
  Limit(RLIMIT_FSIZE, 0, 0);
  Limit(RLIMIT_NPROC, 0, 0);
  Limit(RLIMIT_NOFILE, 64, 64);  // for the program's libraries and fonts
  char locale[] = "LC_ALL=C", threads[] = "OMP_THREAD_LIMIT=1";
  char* const environment[] = {locale, threads, nullptr};
  execve(program, arguments, environment);
  const int error = errno;
  if (write(failed, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

// A running child and the parent's ends of its two pipes.
class Child {
 public:
  Child(pid_t pid, Pipe out, Pipe err) : pid_(pid), out_(std::move(out)), err_(std::move(err)) {
    out_.write_end.Close();
    err_.write_end.Close();
  }
  // An exception on the way: nobody waits for the child any more.
  ~Child() {
    if (!is_reaped_) Kill();
  }
  Child(const Child&) = delete;

  // Reads the child's output until it ends, or until a limit, the caller or a cancellation ends it;
  // Reap then kills it if it still runs.
  ChildEnd Watch(const ChildLimits& limits, const std::function<bool(std::string_view)>& on_output,
                 const std::function<bool()>& is_cancelled) {
    const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(limits.wall_seconds));
    uint64_t output_bytes = 0;
    while (!end_) {
      // A child that closed both pipes may still run; its end is waited for, with the same limits.
      const bool has_ended = !is_reading() && HasEnded();
      if (has_ended) break;
      if (is_cancelled && is_cancelled()) end_ = How::kCancelled;
      if (Clock::now() > deadline) end_ = How::kTooSlow;
      if (end_) break;
      Wait();
      Read(err_.read_end, [this](std::string_view piece) {
        complaint_.append(piece.substr(0, kMaxComplaint - complaint_.size()));
      });
      Read(out_.read_end, [&](std::string_view piece) {
        output_bytes += piece.size();
        if (output_bytes > limits.output_bytes) {
          end_ = How::kTooMuchOutput;
        } else if (!on_output(piece)) {
          end_ = How::kRefused;
        }
      });
    }
    return Reap();
  }

 private:
  bool is_reading() const { return out_.read_end.get() >= 0 || err_.read_end.get() >= 0; }

  // Whether the child has ended. WNOWAIT leaves it to be reaped: until then no other process can
  // have its number, which Reap's kill relies on.
  bool HasEnded() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid == pid_;
  }

  // Waits until one of the pipes has something, or for a moment. With both closed there is nothing
  // to be woken by, so that the moment is short.
  void Wait() {
    pollfd ends[2] = {{out_.read_end.get(), POLLIN, 0}, {err_.read_end.get(), POLLIN, 0}};
    poll(ends, 2, is_reading() ? kPollMs : 5);
    is_ready_[0] = ends[0].revents != 0;
    is_ready_[1] = ends[1].revents != 0;
  }

  // Gives what a pipe has to `take`; at its end, closes it.
  template <typename Take>
  void Read(Descriptor& end, Take take) {
    if (end.get() < 0 || !is_ready_[&end == &err_.read_end]) return;
    char buffer[1 << 16];
    const ssize_t count = read(end.get(), buffer, sizeof buffer);
    if (count > 0) return take(std::string_view(buffer, static_cast<size_t>(count)));
    if (count == 0 || errno != EINTR) end.Close();
  }

  // Kills the child's whole group, whether it still runs or not, and waits for its end. The status
  // that waitpid tells; nothing where somebody ignores SIGCHLD.
  std::optional<int> Kill() {
    kill(-pid_, SIGKILL);  // what has ended does not mind
    int status = 0;
    pid_t reaped;
    do reaped = waitpid(pid_, &status, 0);
    while (reaped < 0 && errno == EINTR);
    is_reaped_ = true;
    return reaped == pid_ ? std::optional(status) : std::nullopt;
  }

  // Ends the child, and says how it ended.
  ChildEnd Reap() {
    const std::optional<int> status = Kill();
    ChildEnd end;
    end.complaint = std::move(complaint_);
    if (end_) {
      end.how = *end_;
    } else if (status && WIFSIGNALED(*status)) {
      end.number = WTERMSIG(*status);
      end.how = end.number == SIGXCPU ? How::kTooSlow : How::kSignalled;
    } else if (status) {
      end.number = WEXITSTATUS(*status);
    }
    return end;
  }

  const pid_t pid_;
  bool is_reaped_ = false;
  Pipe out_, err_;
  bool is_ready_[2] = {false, false};
  std::string complaint_;
  std::optional<How> end_;  // why we end it
};

}  // namespace

ChildEnd RunLimited(const std::vector<std::string>& command, std::string_view input,
                    const ChildLimits& limits,
                    const std::function<bool(std::string_view)>& on_output,
                    const std::function<bool()>& is_cancelled) {
  // Everything that allocates is done before the fork (Become).
  const auto not_started = [](int error) { return ChildEnd{How::kNotStarted, error, ""}; };
  const std::string program = FindProgram(command.front());
  if (program.empty()) return not_started(ENOENT);
  const Descriptor in = MemoryFile(input);
  Pipe out = Pipe::Make(), err = Pipe::Make(), failed = Pipe::Make();
  if (in.get() < 0 || !out.ok() || !err.ok() || !failed.ok()) return not_started(errno);
  std::vector<char*> arguments;
  char standard_input[] = "-", its_path[] = "/dev/stdin";
  for (const std::string& argument : command) {
    arguments.push_back(argument == kInput       ? standard_input
                        : argument == kInputPath ? its_path
                                                 : const_cast<char*>(argument.data()));
  }
  arguments.push_back(nullptr);

  const pid_t pid = fork();
  if (pid < 0) return not_started(errno);
  if (pid == 0) {
    Become(program.c_str(), arguments.data(), limits, in.get(), out.write_end.get(),
           err.write_end.get(), failed.write_end.get());
  }
  setpgid(pid, pid);  // the child does the same: whoever comes first
  // Waits until exec has closed the pipe, or has sent an errno through it.
  failed.write_end.Close();
  int error = 0;
  ssize_t count;
  do count = read(failed.read_end.get(), &error, sizeof error);
  while (count < 0 && errno == EINTR);
  if (count == sizeof error) {
    waitpid(pid, nullptr, 0);
    return not_started(error);
  }
  return Child(pid, std::move(out), std::move(err)).Watch(limits, on_output, is_cancelled);
}

}  // namespace lectern::tools
