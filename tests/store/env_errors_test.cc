// Every system call behind Env::Default() fails: the error has its code and names the file.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "store/env.h"
#include "tests/store/sample_shard.h"

// ---- The calls. Ours come first when the program looks for them. ----

namespace {

// `name`: the call that fails, after `skip` that do not, `times` times; nullptr: none.
struct Fault {
  const char* name = nullptr;
  int error = 0;
  int skip = 0;
  int times = 1 << 30;
} fault;

bool Fails(const char* name) {
  if (fault.name == nullptr || std::strcmp(fault.name, name) != 0) return false;
  if (fault.skip-- > 0 || fault.times-- <= 0) return false;
  errno = fault.error;
  return true;
}

bool read_only_media = false;

}  // namespace

#define REAL(name) \
  static const auto real = reinterpret_cast<decltype(&::name)>(dlsym(RTLD_NEXT, #name))

extern "C" {
int open(const char* path, int flags, ...) {
  REAL(open);
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  return Fails("open") ? -1 : real(path, flags, mode);
}
int openat(int directory, const char* path, int flags, ...) {
  REAL(openat);
  return Fails("openat") ? -1 : real(directory, path, flags);
}
int fcntl(int fd, int command, ...) {
  REAL(fcntl);
  va_list list;
  va_start(list, command);
  const long argument = va_arg(list, long);
  va_end(list);
  return Fails("fcntl") ? -1 : real(fd, command, argument);
}
ssize_t pread(int fd, void* data, size_t bytes, off_t offset) {
  REAL(pread);
  return Fails("pread") ? -1 : real(fd, data, bytes, offset);
}
// errno 0: nothing is written, without an error.
ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  REAL(pwrite);
  return Fails("pwrite") ? (fault.error == 0 ? 0 : -1) : real(fd, data, bytes, offset);
}
int posix_fallocate(int fd, off_t offset, off_t bytes) {
  REAL(posix_fallocate);
  return Fails("posix_fallocate") ? errno : real(fd, offset, bytes);
}
int ftruncate(int fd, off_t size) noexcept {
  REAL(ftruncate);
  return Fails("ftruncate") ? -1 : real(fd, size);
}
int fsync(int fd) {
  REAL(fsync);
  return Fails("fsync") ? -1 : real(fd);
}
int close(int fd) {
  REAL(close);
  const int result = real(fd);
  return Fails("close") ? -1 : result;
}
int fstat(int fd, struct stat* info) noexcept {
  REAL(fstat);
  return Fails("fstat") ? -1 : real(fd, info);
}
int lstat(const char* path, struct stat* info) noexcept {
  REAL(lstat);
  return Fails("lstat") ? -1 : real(path, info);
}
int statvfs(const char* path, struct statvfs* info) noexcept {
  REAL(statvfs);
  if (Fails("statvfs")) return -1;
  const int result = real(path, info);
  if (read_only_media) info->f_flag |= ST_RDONLY;
  return result;
}
int faccessat(int directory, const char* path, int mode, int flags) noexcept {
  REAL(faccessat);
  return Fails("faccessat") ? -1 : real(directory, path, mode, flags);
}
void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t at) noexcept {
  REAL(mmap);
  return Fails("mmap") ? MAP_FAILED : real(address, bytes, protection, flags, fd, at);
}
DIR* fdopendir(int fd) {
  REAL(fdopendir);
  return Fails("fdopendir") ? nullptr : real(fd);
}
dirent* readdir(DIR* dir) {
  REAL(readdir);
  return Fails("readdir") ? nullptr : real(dir);
}
int unlinkat(int directory, const char* name, int flags) noexcept {
  REAL(unlinkat);
  return Fails(flags == AT_REMOVEDIR ? "rmdir" : "unlinkat") ? -1 : real(directory, name, flags);
}
int mkdir(const char* path, mode_t mode) noexcept {
  REAL(mkdir);
  if (Fails("mkdir by another")) {  // it is there, and not by this call
    real(path, mode);
    errno = EEXIST;
    return -1;
  }
  return Fails("mkdir") ? -1 : real(path, mode);
}
int flock(int fd, int operation) noexcept {
  REAL(flock);
  return Fails("flock") ? -1 : real(fd, operation);
}
}

namespace lectern {
namespace {

Env& env = Env::Default();

class EnvErrorsTest : public testing::Test {
 protected:
  // The status of `action` while `with` holds.
  template <typename Action>
  static Status While(const Fault& with, Action action) {
    fault = with;
    const Status status = action();
    fault = {};
    return status;
  }
  // With that error the action fails with this code and names the path; interrupted, it goes on.
  template <typename Action>
  static void Expect(Code code, const char* call, int error, const std::string& path,
                     Action action) {
    const Status status = While({.name = call, .error = error}, action);
    EXPECT_EQ(CodeName(status.code()), CodeName(code)) << call << " " << status.message();
    EXPECT_NE(status.message().find(path), std::string::npos) << call << " " << status.message();
  }
  template <typename Action>
  static void ExpectRetried(const char* call, Action action) {
    const Status status = While({.name = call, .error = EINTR, .times = 3}, action);
    EXPECT_TRUE(status.ok()) << call << " " << status.message();
  }

  const TempDirectory dir_;
  const std::string file_ = dir_ / "file";
  const std::function<Status()> open_ = [&] { return env.OpenWritable(file_, false).status(); };
  const std::function<Status()> map_ = [&] { return env.Map(file_).status(); };
  const std::function<Status()> mirror_ = [&] { return env.Mirror(file_).status(); };
  const std::function<Status()> lock_ = [&] { return env.Lock(file_, 0).status(); };
  const std::function<Status()> lease_ = [&] {
    return env.LockDirectory(dir_.path(), Lease::kShared).status();
  };
};

TEST_F(EnvErrorsTest, OfOpeningAndMapping) {
  WriteBytes(file_, "abc");
  Expect(Code::kLimitExceeded, "open", EMFILE, file_, open_);
  Expect(Code::kReadOnly, "open", EACCES, file_, open_);
  Expect(Code::kIoError, "open", EACCES, file_, map_);
  Expect(Code::kReadOnly, "open", EROFS, file_, open_);
  Expect(Code::kNoSpace, "open", ENOSPC, file_, open_);
  ExpectRetried("open", open_);
  for (const auto& action : {open_, map_, mirror_, lock_}) {
    Expect(Code::kIoError, "fstat", EIO, file_, action);
  }
  Expect(Code::kOutOfMemory, "mmap", ENOMEM, file_, map_);
  Expect(Code::kIoError, "mmap", EPERM, file_, map_);
  Expect(Code::kOutOfMemory, "mmap", ENOMEM, file_, mirror_);
  Expect(Code::kIoError, "pread", EIO, file_,
         [&] { return OpenWhole(env, file_, Io::kPread).status(); });
  Expect(Code::kMissingFile, "none", 0, dir_ / "none",
         [&] { return OpenWhole(env, dir_ / "none", Io::kPread).status(); });
}

TEST_F(EnvErrorsTest, OfReadingAndWriting) {
  const auto file = *env.OpenWritable(file_, true);
  char bytes[3] = {};
  const auto write = [&] { return file->WriteAt(0, "abc", 3); };
  const auto read = [&] { return file->ReadAt(0, bytes, 3); };
  const auto sync = [&] { return file->Sync(); };
  Expect(Code::kIoError, "pwrite", EIO, file_, write);
  Expect(Code::kIoError, "pwrite", 0, file_, write);
  Expect(Code::kNoSpace, "pwrite", EDQUOT, file_, write);
  ExpectRetried("pwrite", write);
  Expect(Code::kIoError, "pread", EIO, file_, read);
  ExpectRetried("pread", read);
  EXPECT_EQ(std::string(bytes, 3), "abc");
  Expect(Code::kIoError, "fsync", EIO, file_, sync);
  ExpectRetried("fsync", sync);
  const uint64_t far = uint64_t{1} << 63;
  EXPECT_EQ(file->WriteAt(far, "abc", 3).code(), Code::kLimitExceeded);
  EXPECT_EQ(file->ReadAt(far - 2, bytes, 3).code(), Code::kLimitExceeded);
  Expect(Code::kIoError, "close", EIO, file_, [&] { return file->Close(); });
  EXPECT_TRUE(file->Close().ok());  // and is not closed twice
  const auto other = *env.OpenWritable(file_, false);
  ExpectRetried("close", [&] { return other->Close(); });
}

TEST_F(EnvErrorsTest, OfReservingSpace) {
  const auto file = *env.OpenWritable(file_, true);
  const auto allocate = [&] { return file->Allocate(5000); };
  Expect(Code::kNoSpace, "posix_fallocate", ENOSPC, file_, allocate);
  EXPECT_EQ(std::filesystem::file_size(file_), 0u);
  // File systems that reserve nothing: the length is set.
  for (const int error : {EOPNOTSUPP, EINVAL}) {
    EXPECT_TRUE(While({.name = "posix_fallocate", .error = error}, allocate).ok());
    EXPECT_EQ(std::filesystem::file_size(file_), 5000u);
    EXPECT_TRUE(While({.name = "posix_fallocate", .error = error}, [&] {
                  return file->Allocate(10);
                }).ok());
    EXPECT_EQ(std::filesystem::file_size(file_), 5000u);
    std::filesystem::resize_file(file_, 0);
  }
  ExpectRetried("posix_fallocate", allocate);
  EXPECT_EQ(std::filesystem::file_size(file_), 5000u);
}

TEST_F(EnvErrorsTest, OfDirectories) {
  const auto list = [&] { return env.List(dir_.path()).status(); };
  const auto sync = [&] { return env.SyncDirectory(dir_.path()); };
  Expect(Code::kOutOfMemory, "fdopendir", ENOMEM, dir_.path(), list);
  Expect(Code::kIoError, "open", EACCES, dir_.path(), list);
  Expect(Code::kIoError, "readdir", EIO, dir_.path(), list);
  Expect(Code::kIoError, "fsync", EIO, dir_.path(), sync);
  Expect(Code::kLimitExceeded, "open", ENFILE, dir_.path(), sync);
  EXPECT_TRUE(While({.name = "fsync", .error = EINVAL}, sync).ok());  // has no such thing
  Expect(Code::kNoSpace, "mkdir", ENOSPC, dir_ / "new",
         [&] { return env.MakeDirectory(dir_ / "new"); });
  Expect(Code::kIoError, "fsync", EIO, dir_.path(),
         [&] { return env.MakeDirectory(dir_ / "a/b"); });
  // Made by someone else at the same moment.
  EXPECT_TRUE(
      While({.name = "mkdir by another"}, [&] { return env.MakeDirectory(dir_ / "d/e"); }).ok());
  EXPECT_TRUE(std::filesystem::is_directory(dir_ / "d/e"));
  Expect(Code::kIoError, "mkdir", EEXIST, dir_ / "c",
         [&] { return env.MakeDirectory(dir_ / "c"); });
}

TEST_F(EnvErrorsTest, OfRemoving) {
  const std::string tree = dir_ / "tree", inner = tree + "/inner";
  ASSERT_TRUE(env.MakeDirectory(inner).ok());
  WriteBytes(tree + "/inner/file", "abc");
  const auto remove = [&] { return env.RemoveTree(tree); };
  Expect(Code::kIoError, "unlinkat", EIO, tree, remove);
  Expect(Code::kLimitExceeded, "openat", EMFILE, tree, remove);
  Expect(Code::kLimitExceeded, "fcntl", EMFILE, tree, remove);
  Expect(Code::kIoError, "readdir", EIO, tree, remove);
  // A file that may not be unlinked and is no directory: the first error counts.
  Expect(Code::kReadOnly, "unlinkat", EPERM, tree + "/inner/file",
         [&] { return env.RemoveTree(tree + "/inner/file"); });
  Expect(Code::kIoError, "rmdir", EBUSY, inner, remove);
  WriteBytes(file_, "abc");
  EXPECT_EQ(env.Remove(tree).code(), Code::kIoError);
  EXPECT_EQ(env.Rename(file_, dir_ / "none/x").code(), Code::kMissingFile);
  ExpectRetried("openat", remove);
  EXPECT_FALSE(*env.Exists(tree));
}

TEST_F(EnvErrorsTest, OfLooking) {
  const auto info = [&] { return env.Info(file_).status(); };
  Expect(Code::kIoError, "lstat", EACCES, file_, info);
  EXPECT_TRUE(While({.name = "lstat", .error = ENOTDIR}, info).ok());
  const auto free = [&] { return env.FreeBytes(dir_.path()).status(); };
  Expect(Code::kIoError, "statvfs", EIO, dir_.path(), free);
  ExpectRetried("statvfs", free);
  fault = {.name = "statvfs", .error = EIO};
  EXPECT_EQ(env.AccessTo(dir_.path()), Access::kWritable);
  fault = {.name = "faccessat", .error = EACCES};
  EXPECT_EQ(env.AccessTo(dir_.path()), Access::kNotWritable);
  fault = {};
  read_only_media = true;
  EXPECT_EQ(env.AccessTo(dir_.path()), Access::kReadOnlyMedia);
  read_only_media = false;
  std::filesystem::create_symlink("/dev/null", file_);
  EXPECT_EQ(env.Info(file_)->type, FileInfo::Type::kOther);
  EXPECT_EQ(env.Resolve(file_), "/dev/null");
  EXPECT_EQ(env.Resolve(dir_ / "none"), dir_ / "none");
}

TEST_F(EnvErrorsTest, OfLocking) {
  Expect(Code::kIoError, "flock", ENOLCK, file_, lock_);
  Expect(Code::kIoError, "flock", ENOLCK, dir_.path(), lease_);
  Expect(Code::kLocked, "flock", EWOULDBLOCK, file_, lock_);
  ExpectRetried("flock", lock_);
  ExpectRetried("flock", lease_);
}

TEST_F(EnvErrorsTest, OfPathsThatAreNone) {
  const std::string nul("a\0b", 3);
  for (const std::string& path : {std::string(), nul}) {
    for (const Status& status :
         {env.Rename(path, "x"), env.Rename("x", path), env.Remove(path), env.RemoveTree(path),
          env.MakeDirectory(path), env.SyncDirectory(path), env.List(path).status(),
          env.Info(path).status(), env.FreeBytes(path).status(), env.Lock(path, 0).status(),
          env.OpenWritable(path, false).status(), env.Mirror(path).status(),
          env.LockDirectory(path, Lease::kShared).status()}) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
    }
    EXPECT_EQ(env.AccessTo(path), Access::kNotWritable);
  }
}

}  // namespace
}  // namespace lectern
