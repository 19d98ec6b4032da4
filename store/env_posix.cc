// Env::Default(): the file system by POSIX calls, with interrupted calls repeated and errors turned
// into Status.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "store/env.h"
#include "store/large_pages_posix.h"
#include "store/reserved_memory.h"
#include "store/system_error.h"

namespace lectern {
namespace {

constexpr auto kLockPoll = std::chrono::milliseconds(10);  // between two tries of a lock
// A copy to large pages rests so many times as long as each page took. With 7 it takes an eighth of
// a thread: most programs end before they gain by the copy, and none may wait for it.
constexpr int kRestAfterPage = 7;
constexpr auto kLongestRest = std::chrono::milliseconds(50);  // cancelling waits for it

// Repeats a system call that was interrupted by a signal (-1 with errno EINTR) until it ends by
// itself.
template <typename Call>
auto Retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result == -1 && errno == EINTR);
  return result;
}

// A descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.Release()) {}
  Fd& operator=(Fd&&) = delete;
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// kInvalidArgument for a path that is empty, or holds a NUL: the system would take it for a shorter
// one.
Status CheckPath(const std::string& path) {
  if (!path.empty() && path.find('\0') == std::string::npos) return {};
  return Status(Code::kInvalidArgument, "a path is empty or holds a NUL byte");
}

// Opens a path; a file that O_CREAT makes gets mode 0600. `action` begins the error's message
// ("read", "create"), and decides its code (ErrnoStatus).
Result<Fd> Open(const std::string& path, int flags, const char* action) {
  LECTERN_RETURN_IF_ERROR(CheckPath(path));
  // O_NONBLOCK: opening a FIFO must not wait for its other end.
  flags |= O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  Fd fd(Retry([&] { return ::open(path.c_str(), flags, 0600); }));
  if (fd.get() < 0) return ErrnoStatus(errno, action, path);
  return fd;
}

// The size of an open file. kIoError: it is a FIFO, a device or the like, which would block or lie
// about its size.
Result<uint64_t> RegularFileSize(int fd, const std::string& path, const char* action) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, action, path);
  if (!S_ISREG(info.st_mode)) {
    return Status(Code::kIoError, path + ": not a regular file; move it away and try again");
  }
  return static_cast<uint64_t>(info.st_size);
}

// Whether this process itself holds the lock on the file, by the kernel's list of locks; false if
// that cannot be read. Only the message of kLocked depends on it. Lines look like "1: FLOCK
// ADVISORY  WRITE 4711 08:02:1311 0 EOF"; the device is not compared, because some file
// systems (btrfs, overlays) show another one there.
bool IsLockedHere(int fd) {
  struct stat info;
  std::FILE* const list = ::fstat(fd, &info) == 0 ? std::fopen("/proc/locks", "re") : nullptr;
  if (list == nullptr) return false;
  bool is_here = false;
  char line[256];
  while (!is_here && std::fgets(line, sizeof line, list) != nullptr) {
    long pid = 0;
    unsigned long long inode = 0;
    is_here = std::sscanf(line, "%*s FLOCK %*s %*s %ld %*x:%*x:%llu", &pid, &inode) == 2 &&
              pid == ::getpid() && inode == info.st_ino;
  }
  std::fclose(list);
  return is_here;
}

// Whether a range lies within the offsets that files can have (off_t).
bool FitsOffset(uint64_t offset, uint64_t bytes) {
  constexpr uint64_t kMax = std::numeric_limits<off_t>::max();
  return offset <= kMax && bytes <= kMax - offset;
}

// The error for a range that FitsOffset refuses.
Status TooLarge(const std::string& path) {
  return Status(Code::kLimitExceeded, path + ": offset beyond what files can have");
}

// Reads exactly `bytes` bytes. pread may return less than it was asked for, and 0 at the end of the
// file.
Status ReadFully(int fd, const std::string& path, uint64_t offset, void* data, size_t bytes) {
  if (!FitsOffset(offset, bytes)) return TooLarge(path);
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = Retry([&] { return ::pread(fd, to, bytes, static_cast<off_t>(offset)); });
    if (n < 0) return ErrnoStatus(errno, "read byte " + std::to_string(offset) + " of", path);
    if (n == 0) {
      return Status(Code::kTruncated, path + ": the file is cut short: it ends before byte " +
                                          std::to_string(offset));
    }
    to += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return {};
}

// By pwrite and pread, which leave no file position to share.
class PosixWritableFile : public WritableFile {
 public:
  PosixWritableFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Status WriteAt(uint64_t offset, const void* data, size_t bytes) override {
    if (!FitsOffset(offset, bytes)) return TooLarge(path_);
    const char* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t n =
          Retry([&] { return ::pwrite(fd_.get(), from, bytes, static_cast<off_t>(offset)); });
      if (n <= 0) return ErrnoStatus(n < 0 ? errno : EIO, "write", path_);
      from += n;
      offset += static_cast<uint64_t>(n);
      bytes -= static_cast<size_t>(n);
    }
    return {};
  }

  Status ReadAt(uint64_t offset, void* data, size_t bytes) const override {
    return ReadFully(fd_.get(), path_, offset, data, bytes);
  }

  Status Allocate(uint64_t bytes) override {
    if (!FitsOffset(0, bytes)) return TooLarge(path_);
    if (bytes == 0) return {};
    int error;
    do {
      error = ::posix_fallocate(fd_.get(), 0, static_cast<off_t>(bytes));
    } while (error == EINTR);
    if (error == 0) return {};
    if (error != EOPNOTSUPP && error != EINVAL) {
      return ErrnoStatus(error, "reserve space for", path_);
    }
    // This file system cannot reserve space; setting the length is all that is possible.
    LECTERN_ASSIGN(const uint64_t size, RegularFileSize(fd_.get(), path_, "reserve space for"));
    if (size >= bytes) return {};
    if (Retry([&] { return ::ftruncate(fd_.get(), static_cast<off_t>(bytes)); }) != 0) {
      return ErrnoStatus(errno, "reserve space for", path_);
    }
    return {};
  }

  Status Sync() override {
    if (Retry([&] { return ::fsync(fd_.get()); }) != 0) return ErrnoStatus(errno, "sync", path_);
    return {};
  }

  Status Close() override {
    const int fd = fd_.Release();
    // Never retried: after EINTR the descriptor is closed, and its number may belong to another
    // file.
    if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) return ErrnoStatus(errno, "close", path_);
    return {};
  }

 private:
  Fd fd_;
  std::string path_;
};

// Gives a hint in parts of 128 KiB: Linux reads no more for one hint than the disk takes at once,
// often that much.
template <typename Advise>
void ForEachAdvised(uint64_t offset, uint64_t bytes, const Advise& advise) {
  constexpr uint64_t kAtOnce = 128 << 10;
  for (uint64_t done = 0; done < bytes; done += kAtOnce) {
    advise(offset + done, std::min(kAtOnce, bytes - done));
  }
}

// A shared mapping of the file's pages, read-only. An empty file has none: mmap refuses a length of
// 0. From a large page's size on it lies within whole large pages, so that these can replace it.
class PosixMappedFile : public MappedFile {
 public:
  PosixMappedFile() = default;
  ~PosixMappedFile() override {
    if (size_ > 0) ::munmap(data_, mapped_bytes_);
  }
  PosixMappedFile(const PosixMappedFile&) = delete;
  PosixMappedFile& operator=(const PosixMappedFile&) = delete;
  // 0, or the errno of what failed; then nothing is mapped.
  int MapPages(int fd, uint64_t size) {
    void* at = nullptr;
    const bool is_large = size >= kLargePage;
    const uint64_t bytes = is_large ? WholeLargePages(size) : size;
    if (is_large) {
      at = ReserveLargePages(bytes, PROT_NONE);
      if (at == nullptr) return errno;
    }
    data_ = ::mmap(at, size, PROT_READ, MAP_SHARED | (is_large ? MAP_FIXED : 0), fd, 0);
    if (data_ == MAP_FAILED) {
      const int error = errno;
      if (is_large) ::munmap(at, bytes);
      return error;
    }
    size_ = size, mapped_bytes_ = bytes;
    return 0;
  }

  const std::byte* data() const override { return static_cast<const std::byte*>(data_); }
  uint64_t size() const override { return size_; }
  void WillNeed(uint64_t offset, uint64_t bytes) const override {
    ForEachAdvised(offset, bytes,
                   [&](uint64_t begin, uint64_t n) { Advise(begin, n, MADV_WILLNEED); });
  }
  void DontNeed(uint64_t offset, uint64_t bytes) const override {
    const std::lock_guard lock(copy_mutex_);  // a copied page would read as zeros afterwards
    if (!is_copied_) Advise(offset, bytes, MADV_DONTNEED);
  }
  // Page by page, so that never more than one exists twice.
  bool CopyToLargePages(uint64_t bytes, const CancelFlag* cancel) const override {
    const uint64_t end = bytes < size_ ? bytes / kLargePage * kLargePage : size_;
    if (end < kLargePage || !HasLargePages()) return false;
    {
      const std::lock_guard lock(copy_mutex_);
      if (std::exchange(is_copied_, true)) return false;
    }
    uint64_t at = 0;
    while (at < end && !IsSet(cancel)) {
      const auto start = std::chrono::steady_clock::now();
      if (!MoveToLargePage(static_cast<char*>(data_) + at, std::min(kLargePage, size_ - at))) break;
      at += kLargePage;
      if (at >= end) break;
      const auto rest = kRestAfterPage * (std::chrono::steady_clock::now() - start);
      std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(rest, kLongestRest));
    }
    if (at > 0) return true;
    const std::lock_guard lock(copy_mutex_);
    return is_copied_ = false;
  }

 private:
  // Passes a hint on; its result does not matter.
  void Advise(uint64_t offset, uint64_t bytes, int advice) const {
    if (offset >= size_) return;
    const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t begin = offset / page * page;
    const uint64_t end = offset + std::min(bytes, size_ - offset);
    ::madvise(static_cast<char*>(data_) + begin, end - begin, advice);
  }

  void* data_ = nullptr;
  uint64_t size_ = 0, mapped_bytes_ = 0;  // the rest of the latter has no pages, or zeros
  mutable std::mutex copy_mutex_;
  mutable bool is_copied_ = false;  // at least in part
};

// Anonymous memory of the file's size, into which ranges are copied when they are loaded. Only
// pages that were loaded take memory; MAP_NORESERVE, so that the system does not count the others.
class PosixMirror : public MappedFile {
 public:
  PosixMirror(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  ~PosixMirror() override {
    if (size_ > 0) FreeMemory(data_, size_);
  }
  PosixMirror(const PosixMirror&) = delete;
  PosixMirror& operator=(const PosixMirror&) = delete;
  void Take(char* data, uint64_t size) { data_ = data, size_ = size; }

  const std::byte* data() const override { return reinterpret_cast<const std::byte*>(data_); }
  uint64_t size() const override { return size_; }
  Status Load(uint64_t offset, uint64_t bytes) const override {
    return ReadAt(offset, data_ + offset, bytes);
  }
  Status ReadAt(uint64_t offset, void* to, size_t bytes) const override {
    return ReadFully(fd_.get(), path_, offset, to, bytes);
  }
  void WillNeed(uint64_t offset, uint64_t bytes) const override {
    ForEachAdvised(offset, bytes, [&](uint64_t begin, uint64_t n) {
      ::posix_fadvise(fd_.get(), static_cast<off_t>(begin), static_cast<off_t>(n),
                      POSIX_FADV_WILLNEED);
    });
  }
  void DontNeed(uint64_t offset, uint64_t bytes) const override { DropPages(data_, offset, bytes); }

 private:
  const Fd fd_;
  const std::string path_;
  char* data_ = nullptr;
  uint64_t size_ = 0;
};

class PosixFileLock : public FileLock {
 public:
  explicit PosixFileLock(Fd fd) : fd_(std::move(fd)) {}
  // Unlocks explicitly, since closing would not release the lock while a child of fork has a copy
  // of the descriptor.
  ~PosixFileLock() override { ::flock(fd_.get(), LOCK_UN); }
  PosixFileLock(const PosixFileLock&) = delete;

 private:
  Fd fd_;
};

// A DIR that closes itself.
class DirectoryStream {
 public:
  explicit DirectoryStream(DIR* dir) : dir_(dir) {}
  ~DirectoryStream() { ::closedir(dir_); }
  DirectoryStream(const DirectoryStream&) = delete;
  DirectoryStream& operator=(const DirectoryStream&) = delete;
  DIR* get() const { return dir_; }

 private:
  DIR* dir_;
};

// The names in an open directory, sorted, without "." and "..". Takes the descriptor. `path` and
// `action` are for the error's message.
Result<std::vector<std::string>> ReadNames(Fd fd, const std::string& path, const char* action) {
  DIR* dir = ::fdopendir(fd.get());
  if (dir == nullptr) return ErrnoStatus(errno, action, path);
  fd.Release();  // the stream owns it now
  DirectoryStream stream(dir);
  std::vector<std::string> names;
  while (true) {
    errno = 0;  // readdir's result is the same at the end and after an error
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return ErrnoStatus(errno, action, path);
  std::sort(names.begin(), names.end());
  return names;
}

// Removes `name` in the open directory `parent`, a file or a whole tree, without following links:
// by descriptors, so that nobody can exchange a directory for a link meanwhile. It recurses as deep
// as the tree, which here is a generation's few folders. `path` is for messages.
Status RemoveAt(int parent, const std::string& name, const std::string& path) {
  if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return ErrnoStatus(errno, "remove", path);
  // EISDIR (Linux) and EPERM (POSIX) say that it is a directory.
  const int unlink_error = errno;
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  Fd fd(Retry([&] { return ::openat(parent, name.c_str(), kFlags); }));
  if (fd.get() < 0) return ErrnoStatus(errno == ENOTDIR ? unlink_error : errno, "remove", path);
  Fd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (copy.get() < 0) return ErrnoStatus(errno, "remove", path);
  LECTERN_ASSIGN(const auto names, ReadNames(std::move(copy), path, "remove"));
  for (const std::string& child : names) {
    LECTERN_RETURN_IF_ERROR(RemoveAt(fd.get(), child, path + "/" + child));
  }
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "remove", path);
  }
  return {};
}

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Follows links: a store's folder may be one. False also if the path cannot be looked at.
bool IsDirectory(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// Without state: all of it is in the file system.
class PosixEnv : public Env {
 public:
  Result<std::unique_ptr<WritableFile>> OpenWritable(const std::string& path,
                                                     bool exclusive) override {
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | (exclusive ? O_EXCL : 0);
    LECTERN_ASSIGN(Fd fd, Open(path, flags, "create"));
    LECTERN_RETURN_IF_ERROR(RegularFileSize(fd.get(), path, "create").status());
    return std::unique_ptr<WritableFile>(new PosixWritableFile(std::move(fd), path));
  }

  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override {
    LECTERN_ASSIGN(Fd fd, Open(path, O_RDONLY | O_NOFOLLOW, "read"));
    LECTERN_ASSIGN(const uint64_t size, RegularFileSize(fd.get(), path, "read"));
    // Made first: if this failed later, a mapping would stay.
    auto file = std::make_unique<PosixMappedFile>();
    if (size > 0) {
      if (const int error = file->MapPages(fd.get(), size)) return ErrnoStatus(error, "map", path);
    }
    return std::unique_ptr<MappedFile>(std::move(file));
  }

  Result<std::unique_ptr<MappedFile>> Mirror(const std::string& path) override {
    LECTERN_ASSIGN(Fd fd, Open(path, O_RDONLY | O_NOFOLLOW, "read"));
    LECTERN_ASSIGN(const uint64_t size, RegularFileSize(fd.get(), path, "read"));
    auto file = std::make_unique<PosixMirror>(std::move(fd), path);  // first, as above
    if (size > 0) {
      char* const data = ReserveMemory(size);
      if (data == nullptr) return ErrnoStatus(errno, "read", path);
      file->Take(data, size);
    }
    return std::unique_ptr<MappedFile>(std::move(file));
  }

  Status Rename(const std::string& from, const std::string& to) override {
    LECTERN_RETURN_IF_ERROR(CheckPath(from));
    LECTERN_RETURN_IF_ERROR(CheckPath(to));
    if (::rename(from.c_str(), to.c_str()) != 0) return ErrnoStatus(errno, "rename to", to);
    return {};
  }

  Status Remove(const std::string& path) override {
    LECTERN_RETURN_IF_ERROR(CheckPath(path));
    if (::unlink(path.c_str()) != 0) return ErrnoStatus(errno, "remove", path);
    return {};
  }

  Status RemoveTree(const std::string& directory) override {
    LECTERN_RETURN_IF_ERROR(CheckPath(directory));
    return RemoveAt(AT_FDCWD, directory, directory);
  }

  Status MakeDirectory(const std::string& path) override {
    LECTERN_RETURN_IF_ERROR(CheckPath(path));
    if (IsDirectory(path)) return {};
    const std::string parent = ParentDirectory(path);
    if (parent != path && !IsDirectory(parent)) LECTERN_RETURN_IF_ERROR(MakeDirectory(parent));
    if (::mkdir(path.c_str(), 0700) != 0) {
      const int error = errno;
      if (error != EEXIST || !IsDirectory(path)) {
        return ErrnoStatus(error, "create directory", path);
      }
    }
    return SyncDirectory(parent);
  }

  Status SyncDirectory(const std::string& path) override {
    LECTERN_ASSIGN(const Fd fd, Open(path, O_RDONLY | O_DIRECTORY, "sync"));
    // EINVAL: this file system has no fsync for directories.
    if (Retry([&] { return ::fsync(fd.get()); }) != 0 && errno != EINVAL) {
      return ErrnoStatus(errno, "sync", path);
    }
    return {};
  }

  Result<std::vector<std::string>> List(const std::string& directory) override {
    LECTERN_ASSIGN(Fd fd, Open(directory, O_RDONLY | O_DIRECTORY, "list"));
    return ReadNames(std::move(fd), directory, "list");
  }

  std::string Resolve(const std::string& path) override {
    const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), ::free);
    return real ? std::string(real.get()) : path;
  }

  Result<FileInfo> Info(const std::string& path) override {
    LECTERN_RETURN_IF_ERROR(CheckPath(path));
    struct stat info;
    if (::lstat(path.c_str(), &info) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return FileInfo();
      return ErrnoStatus(errno, "read", path);
    }
    FileInfo found;
    found.type = S_ISREG(info.st_mode)   ? FileInfo::Type::kRegular
                 : S_ISDIR(info.st_mode) ? FileInfo::Type::kDirectory
                                         : FileInfo::Type::kOther;
    if (S_ISREG(info.st_mode)) found.bytes = static_cast<uint64_t>(info.st_size);
    found.device = info.st_dev;
    found.inode = info.st_ino;
    found.modified_ns = Nanoseconds(info.st_mtim);
    found.changed_ns = Nanoseconds(info.st_ctim);
    return found;
  }

  Result<uint64_t> FreeBytes(const std::string& directory) override {
    LECTERN_RETURN_IF_ERROR(CheckPath(directory));
    struct statvfs info;
    if (Retry([&] { return ::statvfs(directory.c_str(), &info); }) != 0) {
      return ErrnoStatus(errno, "read free space of", directory);
    }
    return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  }

  Access AccessTo(const std::string& directory) override {
    struct statvfs info;
    if (!CheckPath(directory).ok()) return Access::kNotWritable;
    if (::statvfs(directory.c_str(), &info) == 0 && (info.f_flag & ST_RDONLY) != 0) {
      return Access::kReadOnlyMedia;
    }
    const bool writable = ::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
    return writable ? Access::kWritable : Access::kNotWritable;
  }

  Result<std::unique_ptr<FileLock>> Lock(const std::string& path, int timeout_ms) override {
    LECTERN_ASSIGN(Fd fd, Open(path, O_RDWR | O_CREAT | O_NOFOLLOW, "lock"));
    LECTERN_RETURN_IF_ERROR(RegularFileSize(fd.get(), path, "lock").status());
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    // flock has no timeout, so the lock is polled.
    while (Retry([&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB); }) != 0) {
      if (errno != EWOULDBLOCK) return ErrnoStatus(errno, "lock", path);
      if (std::chrono::steady_clock::now() >= deadline) {
        return Status(Code::kLocked,
                      path + (IsLockedHere(fd.get())
                                  ? ": another engine of this program is changing the store; wait "
                                    "until that is done, or use one engine for a store"
                                  : ": another process holds this lock; try again when it is done"));
      }
      std::this_thread::sleep_for(kLockPoll);
    }
    return std::unique_ptr<FileLock>(new PosixFileLock(std::move(fd)));
  }

  Result<std::unique_ptr<FileLock>> LockDirectory(const std::string& directory,
                                                  Lease lease) override {
    LECTERN_ASSIGN(Fd fd, Open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, "read"));
    const int operation = lease == Lease::kShared ? LOCK_SH : LOCK_EX;
    if (Retry([&] { return ::flock(fd.get(), operation | LOCK_NB); }) != 0) {
      if (errno != EWOULDBLOCK) return ErrnoStatus(errno, "read", directory);
      return Status(Code::kLocked, directory + ": another process reads or removes it");
    }
    return std::unique_ptr<FileLock>(new PosixFileLock(std::move(fd)));
  }
};

}  // namespace

std::string ParentDirectory(const std::string& path) {
  const size_t last = path.find_last_not_of('/');
  if (last == std::string::npos) return "/";
  const size_t slash = path.find_last_of('/', last);
  if (slash == std::string::npos) return ".";
  const size_t end = path.find_last_not_of('/', slash);
  return end == std::string::npos ? "/" : path.substr(0, end + 1);
}

bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

bool IsAbsolutePath(std::string_view path) { return path.starts_with('/'); }

int ErrnoOfSystem(int error) { return error; }

Env& Env::Default() {
  static PosixEnv env;  // stateless
  return env;
}

}  // namespace lectern
