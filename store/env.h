// Every file call of the store goes through here, so that tests can inject faults.
#ifndef LECTERN_STORE_ENV_H_
#define LECTERN_STORE_ENV_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/status.h"

namespace lectern {

// A file open for writing (and reading back). One thread at a time. Closes on destruction.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // All of it or an error; continues after EINTR and short writes.
  virtual Status WriteAt(uint64_t offset, const void* data, size_t bytes) = 0;
  virtual Status ReadAt(uint64_t offset, void* data, size_t bytes) const = 0;  // short: kTruncated
  virtual Status Allocate(uint64_t bytes) = 0;  // reserves space; kNoSpace before any write
  virtual Status Sync() = 0;                    // after a failure the file must be thrown away
  virtual Status Close() = 0;                   // reports what a deferred write did
};

// How the bytes of a file that stays open come to memory. kMmap: the file's pages themselves; where
// the file is cut or its disk fails behind our back, the process gets SIGBUS. kPread: copies; the
// same is an error of the call that copies.
enum class Io { kMmap, kPread };

// Read-only bytes of a whole file at one address: the file's pages (Env::Map) or copies of them
// (Env::Mirror). Unmaps on destruction. Thread-safe, except as Load and DontNeed say.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual const std::byte* data() const = 0;
  virtual uint64_t size() const = 0;  // as fstat said when it was opened
  // Before [offset, offset + bytes) of data() is read: a mirror copies it there from the file as it
  // is now; a mapping has it. One thread at a time for the same bytes. kTruncated, kIoError with
  // file and offset.
  virtual Status Load(uint64_t offset, uint64_t bytes) const {
    (void)offset, (void)bytes;
    return {};
  }
  // Copies bytes of the file as it is now, whatever Load brought. Codes of Load.
  virtual Status ReadAt(uint64_t offset, void* to, size_t bytes) const {
    if (bytes > 0) std::memcpy(to, data() + offset, bytes);
    return {};
  }
  // A hint that a range will be read soon: it is fetched into the page cache meanwhile.
  virtual void WillNeed(uint64_t offset, uint64_t bytes) const = 0;
  // A hint that it is not needed any more. What a mirror has of it is gone then (whole pages), until
  // Load brings it again: nobody may be reading it.
  virtual void DontNeed(uint64_t offset, uint64_t bytes) const = 0;
};

// An advisory lock on a file or directory, released on destruction and when its process ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

struct FileInfo {
  enum class Type { kNone, kRegular, kDirectory, kOther };  // a symbolic link is kOther
  Type type = Type::kNone;
  uint64_t bytes = 0;  // of a regular file
  // What changes when the file is another one or was written to.
  uint64_t device = 0, inode = 0;
  int64_t modified_ns = 0, changed_ns = 0;  // since 1970; of its bytes, of its inode

  bool operator==(const FileInfo&) const = default;
};

// What a directory lets us do: kNotWritable to this user, kReadOnlyMedia to nobody.
enum class Access { kWritable, kNotWritable, kReadOnlyMedia };

// Readers of a generation share its directory's lease; who removes it holds it alone.
enum class Lease { kShared, kExclusive };

// Thread-safe. Paths are plain strings; files are 0600, directories 0700; descriptors are
// close-on-exec. Files are never opened or removed through a symbolic link in the last component; a
// directory may be one (a store on another disk), except for RemoveTree.
class Env {
 public:
  virtual ~Env() = default;
  static Env& Default();  // POSIX

  // `exclusive`: fails when it exists; else opens what is there (created when missing).
  virtual Result<std::unique_ptr<WritableFile>> OpenWritable(const std::string& path,
                                                             bool exclusive) = 0;
  virtual Result<std::unique_ptr<MappedFile>> Map(const std::string& path) = 0;  // regular files
  // As Map, by Io::kPread: holds a descriptor, and memory for what was loaded. An Env whose files
  // are memory of ours has nothing to copy.
  virtual Result<std::unique_ptr<MappedFile>> Mirror(const std::string& path) { return Map(path); }
  // The file that a path leads to through symbolic links, for files that are not ours: models are
  // often links into a cache. The path itself when it leads nowhere.
  virtual std::string Resolve(const std::string& path) { return path; }
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status Remove(const std::string& path) = 0;           // kMissingFile when not there
  virtual Status RemoveTree(const std::string& directory) = 0;  // ok when not there
  // With parents; ok when there. What it made is durable: it syncs the parents.
  virtual Status MakeDirectory(const std::string& path) = 0;
  virtual Status SyncDirectory(const std::string& path) = 0;
  virtual Result<std::vector<std::string>> List(const std::string& directory) = 0;  // sorted names
  // Of the path itself: no link is followed. kNone when nothing is there.
  virtual Result<FileInfo> Info(const std::string& path) = 0;
  Result<bool> Exists(const std::string& path) {
    LECTERN_ASSIGN(const FileInfo info, Info(path));
    return info.type != FileInfo::Type::kNone;
  }
  virtual Result<uint64_t> FreeBytes(const std::string& directory) = 0;
  virtual Access AccessTo(const std::string& directory) = 0;
  // Waits up to timeout_ms. kLocked then.
  virtual Result<std::unique_ptr<FileLock>> Lock(const std::string& path, int timeout_ms) = 0;
  // Does not wait. kLocked, kMissingFile.
  virtual Result<std::unique_ptr<FileLock>> LockDirectory(const std::string& directory,
                                                          Lease lease) = 0;
  // The name of the SQLite VFS over the same files; nullptr: SQLite's own.
  virtual const char* sqlite_vfs() const { return nullptr; }
};

// The whole file by `io`: all of it loaded.
Result<std::unique_ptr<MappedFile>> OpenWhole(Env& env, const std::string& path, Io io);

// "/a" of "/a/b" and of "/a/b/"; "." of "b".
std::string ParentDirectory(const std::string& path);
// One component: not empty, ".", "..", and without '/' or NUL.
bool IsPlainName(std::string_view name);

}  // namespace lectern

#endif  // LECTERN_STORE_ENV_H_
