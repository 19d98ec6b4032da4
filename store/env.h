// The file system as Lectern's store sees it. Every file call of the store goes through Env, so
// that tests can inject faults (a full disk, a crash between two calls) at every one of them.
#ifndef LECTERN_STORE_ENV_H_
#define LECTERN_STORE_ENV_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/cancel_flag.h"
#include "store/status.h"

namespace lectern {

// A file that is open for writing (and for reading back). One thread at a time. Closes on
// destruction, without reporting whether that failed: call Close. After Close every other call that
// reaches the file fails with kIoError. Errors are those of ErrnoStatus; kLimitExceeded also for
// offsets beyond what files can have (2^63 - 1).
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // Writes everything or fails, perhaps with a part written; continues after EINTR and short
  // writes. The file grows as needed; a gap before `offset` reads as zeros.
  virtual Status WriteAt(uint64_t offset, const void* data, size_t bytes) = 0;
  // Reads exactly so many bytes, or fails with `data` undefined. kTruncated: the file ends before.
  virtual Status ReadAt(uint64_t offset, void* data, size_t bytes) const = 0;
  // Reserves space for a file of `bytes`, so that kNoSpace comes before any write. Makes the file
  // at least that long, never shorter, with zeros; 0 does nothing. On file systems that cannot
  // reserve, it only sets the length, and later writes may fail with kNoSpace.
  virtual Status Allocate(uint64_t bytes) = 0;
  // Makes everything written durable. After a failure the file must be discarded: the system may
  // have dropped the data, and a second call would succeed all the same.
  virtual Status Sync() = 0;
  // Closes the file, also where it fails. Reports failures of deferred writes; a second call does
  // nothing. Makes nothing durable: call Sync before.
  virtual Status Close() = 0;
};

// How the bytes of an open file come to memory (--io). kMmap maps the file's own pages: no copy,
// but if the file is cut or its disk fails meanwhile, the process gets SIGBUS. kPread copies them:
// the same failures are errors of the call that copies.
enum class Io { kMmap, kPread };

// The read-only bytes of a whole file at one address: mapped pages (Env::Map) or copies
// (Env::Mirror). Unmaps on destruction. Thread-safe, except as Load and DontNeed say. Ranges must
// lie within size(), which nobody checks.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  // nullptr if the file is empty. The same address until destruction.
  virtual const std::byte* data() const = 0;
  virtual uint64_t size() const = 0;  // in bytes, as fstat said on opening
  // Must be called before [offset, offset + bytes) of data() is read: a mirror copies the range
  // from the file as it is now; a mapping does nothing. One thread at a time for the same bytes.
  // kTruncated (the file was cut meanwhile), kIoError, with file and offset; never for a mapping.
  virtual Status Load(uint64_t offset, uint64_t bytes) const {
    (void)offset, (void)bytes;
    return {};
  }
  // Copies bytes of the file as it is now, independent of Load. Codes of Load.
  virtual Status ReadAt(uint64_t offset, void* to, size_t bytes) const {
    if (bytes > 0) std::memcpy(to, data() + offset, bytes);
    return {};
  }
  // Hints that a range will be read soon: it is fetched into the page cache in the background.
  virtual void WillNeed(uint64_t offset, uint64_t bytes) const = 0;
  // Hints that a range is not needed any more. A mirror drops its whole pages of the range until
  // Load brings them back (they read as zeros meanwhile), so nobody may be reading them. A mapping
  // reads its pages from the file again when they are next used; after CopyToLargePages it keeps
  // them.
  virtual void DontNeed(uint64_t offset, uint64_t bytes) const = 0;
  // Replaces the mapping of the first `bytes`, or of all, by a copy of the file's bytes in memory
  // of large pages, at the same address, because whoever reads all of it again and again otherwise
  // waits for the tables that map small pages. Any thread may read data() meanwhile. The process
  // grows by one large page at most, since each takes its place as soon as it is filled; it rests
  // between pages, so that it takes about an eighth of a thread. `cancel` ends it between two.
  // False, and nothing changed: it was cancelled before the first, the system gives no large pages,
  // the file or `bytes` is smaller than one or not mapped, or it is copied already. Of a page that
  // `bytes` ends in nothing is copied, unless the file ends there.
  virtual bool CopyToLargePages(uint64_t bytes, const CancelFlag* cancel) const {
    (void)bytes, (void)cancel;
    return false;
  }
};

// An advisory lock (flock) on a file or directory: it keeps out those who ask for the lock, and
// nobody else. Released on destruction and when the process ends, however it ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// The identity and state of a path. Equal infos at two times mean that the file was neither
// replaced nor written to in between, as far as timestamps tell.
struct FileInfo {
  enum class Type { kNone, kRegular, kDirectory, kOther };  // a symbolic link is kOther
  Type type = Type::kNone;
  uint64_t bytes = 0;  // size of a regular file
  // These change when the file is replaced or written to.
  uint64_t device = 0, inode = 0;
  int64_t modified_ns = 0, changed_ns = 0;  // nanoseconds since 1970: of its content, of its inode

  bool operator==(const FileInfo&) const = default;
};

// Whether a directory can be written. kNotWritable: not by this user. kReadOnlyMedia: by nobody,
// because the file system is mounted read-only; only there may SQLite ignore journals.
enum class Access { kWritable, kNotWritable, kReadOnlyMedia };

// Readers of a generation share its directory's lease; whoever removes the generation must hold it
// alone.
enum class Lease { kShared, kExclusive };

// The calls themselves. Thread-safe. Paths are plain strings; an empty one, or one with a NUL byte,
// is kInvalidArgument. New files get mode 0600, directories 0700; descriptors are close-on-exec. A
// symbolic link in the last component is never followed to open or remove a file: opening one is
// kIoError. A directory may be a link (a store on another disk), except in RemoveTree and
// LockDirectory. Errors are those of ErrnoStatus where nothing else is said.
class Env {
 public:
  virtual ~Env() = default;
  static Env& Default();  // the real file system; lives as long as the process

  // `exclusive`: kIoError if the file exists. Otherwise opens the file with the content that it
  // has, creating it if it is missing. kIoError: it is not a regular file.
  virtual Result<std::unique_ptr<WritableFile>> OpenWritable(const std::string& path,
                                                             bool exclusive) = 0;
  // Maps a whole file. kIoError: it is not a regular file.
  virtual Result<std::unique_ptr<MappedFile>> Map(const std::string& path) = 0;
  // As Map, for Io::kPread: holds a descriptor and memory for the loaded ranges, and reads nothing
  // before Load. An Env whose files are in memory anyway need not copy.
  virtual Result<std::unique_ptr<MappedFile>> Mirror(const std::string& path) { return Map(path); }
  // Follows symbolic links of files that are not the store's: models are often links into a cache.
  // Returns the real path, or the path itself if it leads nowhere; no error.
  virtual std::string Resolve(const std::string& path) { return path; }
  // Replaces the file `to` if it is there, atomically. Durable only after SyncDirectory. kIoError:
  // the two are on different file systems.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  // Removes a file or link, not a directory. kMissingFile when not there.
  virtual Status Remove(const std::string& path) = 0;
  // Removes a directory with all that is in it, or a file or link. Ok when not there; after an
  // error a part may be gone.
  virtual Status RemoveTree(const std::string& directory) = 0;
  // Creates the directory and its parents; ok if it exists, and then nothing is synced. Directories
  // that it creates are durable on return: it syncs their parents. kIoError: something else is in
  // the place of one.
  virtual Status MakeDirectory(const std::string& path) = 0;
  // Makes the directory's entries durable: files that were created, renamed or removed in it.
  virtual Status SyncDirectory(const std::string& path) = 0;
  // The names in a directory, sorted by bytes, without "." and "..". kMissingFile: it is not there.
  virtual Result<std::vector<std::string>> List(const std::string& directory) = 0;
  // Describes the path itself without following a link. Type kNone, and no error, if nothing is
  // there, also below something that is no directory. Else all fields but `bytes` are set for every
  // type. kIoError: a parent cannot be searched.
  virtual Result<FileInfo> Info(const std::string& path) = 0;
  // Whether anything is at the path, a link that leads nowhere included. Codes of Info.
  virtual Result<bool> Exists(const std::string& path) {
    LECTERN_ASSIGN(const FileInfo info, Info(path));
    return info.type != FileInfo::Type::kNone;
  }
  // Bytes that this user may still write in the directory's file system.
  // kMissingFile: the directory is not there.
  virtual Result<uint64_t> FreeBytes(const std::string& directory) = 0;
  // kNotWritable also if the directory is not there or cannot be looked at.
  virtual Access AccessTo(const std::string& directory) = 0;
  // Locks a file for the caller alone; the file is created if it is missing, and stays. Waits up to
  // timeout_ms milliseconds (0: not at all), then fails with kLocked, also where this process holds
  // the lock; the message says which. kIoError: it is not a regular file.
  virtual Result<std::unique_ptr<FileLock>> Lock(const std::string& path, int timeout_ms) = 0;
  // Locks a directory, without waiting. kLocked: others hold it in a way that excludes this lease.
  // kMissingFile: it is not there. kIoError: it is a link or no directory.
  virtual Result<std::unique_ptr<FileLock>> LockDirectory(const std::string& directory,
                                                          Lease lease) = 0;
  // The name of the SQLite VFS for the same files, valid as long as this Env; nullptr: SQLite's
  // own.
  virtual const char* sqlite_vfs() const { return nullptr; }
};

// Opens a file by `io` and makes all of its bytes readable: with kPread the whole file is read now.
// Codes of Env::Map, or of Env::Mirror and MappedFile::Load.
Result<std::unique_ptr<MappedFile>> OpenWhole(Env& env, const std::string& path, Io io);

// The parent of a path: "/a" of "/a/b" and of "/a/b/"; "." of "b"; "/" of "/" and of "". On Windows
// '\' separates as '/' does, and a drive's root stays: "C:/" of "C:/a".
std::string ParentDirectory(const std::string& path);
// Whether a name is one plain component: not empty, ".", "..", and without '/' or NUL; on Windows
// also without '\' and ':'.
bool IsPlainName(std::string_view name);
// Whether a path means the same from any working directory: "/a"; on Windows "C:/a", "C:\a", "//a".
bool IsAbsolutePath(std::string_view path);

}  // namespace lectern

#endif  // LECTERN_STORE_ENV_H_
