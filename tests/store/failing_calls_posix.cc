#include "tests/store/failing_calls.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

// Ours come first when the program and SQLite's library look for these calls.

namespace {

using lectern::CallFault;
using lectern::CallPlan;

CallPlan own_plan;
CallPlan* plan = &own_plan;

// Before main. A plan that cannot be had would be a test that tests nothing.
__attribute__((constructor)) void TakeSharedPlan() {
  const char* const path = std::getenv(lectern::kCallPlanVariable);
  if (path == nullptr) return;
  const auto fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC));
  void* const shared = mmap(nullptr, sizeof(CallPlan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd < 0 || shared == MAP_FAILED) {
    std::fprintf(stderr, "%s: no plan\n", path);
    std::abort();
  }
  syscall(SYS_close, fd);
  plan = static_cast<CallPlan*>(shared);
}

CallFault Next() {
  const int64_t call = plan->num_calls++;
  int64_t last = plan->at;
  // An interrupted call is not interrupted forever.
  if (plan->sticky) last = plan->error == EINTR ? plan->at + 20 : INT64_MAX;
  return call >= plan->at && call <= last ? plan->fault : CallFault::kNone;
}

// True: the call fails; errno says how.
bool Fails() {
  switch (Next()) {
    case CallFault::kKill:
      kill(getpid(), SIGKILL);
      return true;
    case CallFault::kError:
      errno = plan->error;
      return true;
    default:
      return false;
  }
}

ssize_t PositionedWrite(int fd, const void* data, size_t bytes, off_t offset) {
  const CallFault fault = Next();
  if (fault == CallFault::kError) {
    errno = plan->error;
    return -1;
  }
  if (fault == CallFault::kShortWrite || fault == CallFault::kKill) bytes -= bytes / 2;
  const ssize_t written = syscall(SYS_pwrite64, fd, data, bytes, offset);
  if (fault == CallFault::kKill) kill(getpid(), SIGKILL);
  return written;
}

ssize_t PositionedRead(int fd, void* data, size_t bytes, off_t offset) {
  return Fails() ? -1 : syscall(SYS_pread64, fd, data, bytes, offset);
}

int OpenCall(int directory, const char* path, int flags, mode_t mode) {
  if (Fails()) return -1;
  return static_cast<int>(syscall(SYS_openat, directory, path, flags, mode));
}

// As posix_fallocate: the error is what it returns.
int AllocateCall(int fd, off_t begin, off_t bytes) {
  if (Fails()) return errno;
  return syscall(SYS_fallocate, fd, 0, begin, bytes) == 0 ? 0 : errno;
}

mode_t ModeOf(va_list list) { return va_arg(list, mode_t); }

}  // namespace

namespace lectern {

CallPlan& TheCallPlan() { return *plan; }

int RunWithPlan(const std::function<Status()>& run, const CallPlan& with) {
  const pid_t child = fork();
  if (child == 0) {
    TheCallPlan() = with;
    const Status status = run();
    TheCallPlan() = CallPlan();
    if (status.code() == Code::kInternal) std::fprintf(stderr, "%s\n", status.message().c_str());
    _exit(status.ok() ? 0 : status.code() == Code::kInternal ? 2 : 1);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) std::abort();
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

const bool kCanKill = true;

const char* const kErrorsOfCalls = "EIO ENOSPC EDQUOT EINTR EMFILE EROFS short";

std::vector<int> ErrorsOfCalls() { return {EIO, ENOSPC, EDQUOT, EINTR, EMFILE, EROFS, 0}; }

}  // namespace lectern

extern "C" {
int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = ModeOf(list);
  va_end(list);
  return OpenCall(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = ModeOf(list);
  va_end(list);
  return OpenCall(AT_FDCWD, path, flags, mode);
}
int openat(int directory, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = ModeOf(list);
  va_end(list);
  return OpenCall(directory, path, flags, mode);
}
ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  return PositionedWrite(fd, data, bytes, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t offset) {
  return PositionedWrite(fd, data, bytes, offset);
}
ssize_t pread(int fd, void* data, size_t bytes, off_t offset) {
  return PositionedRead(fd, data, bytes, offset);
}
ssize_t pread64(int fd, void* data, size_t bytes, off64_t offset) {
  return PositionedRead(fd, data, bytes, offset);
}
int posix_fallocate(int fd, off_t begin, off_t bytes) { return AllocateCall(fd, begin, bytes); }
int posix_fallocate64(int fd, off64_t begin, off64_t bytes) {
  return AllocateCall(fd, begin, bytes);
}
int fsync(int fd) { return Fails() ? -1 : static_cast<int>(syscall(SYS_fsync, fd)); }
int fdatasync(int fd) { return Fails() ? -1 : static_cast<int>(syscall(SYS_fdatasync, fd)); }
int close(int fd) {
  const bool fails = Fails();
  const int error = errno;
  const int result = static_cast<int>(syscall(SYS_close, fd));  // closed in any case
  if (fails) errno = error;
  return fails ? -1 : result;
}
int ftruncate(int fd, off_t size) noexcept {
  return Fails() ? -1 : static_cast<int>(syscall(SYS_ftruncate, fd, size));
}
int ftruncate64(int fd, off64_t size) noexcept {
  return Fails() ? -1 : static_cast<int>(syscall(SYS_ftruncate, fd, size));
}
int rename(const char* from, const char* to) noexcept {
  return Fails() ? -1 : static_cast<int>(syscall(SYS_rename, from, to));
}
int unlink(const char* path) noexcept {
  return Fails() ? -1 : static_cast<int>(syscall(SYS_unlink, path));
}
int unlinkat(int directory, const char* name, int flags) noexcept {
  return Fails() ? -1 : static_cast<int>(syscall(SYS_unlinkat, directory, name, flags));
}
int mkdir(const char* path, mode_t mode) noexcept {
  return Fails() ? -1 : static_cast<int>(syscall(SYS_mkdir, path, mode));
}
int flock(int fd, int operation) noexcept {
  return Fails() ? -1 : static_cast<int>(syscall(SYS_flock, fd, operation));
}
}
