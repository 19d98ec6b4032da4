// A disk in memory that knows what was made durable: Env and SQLite VFS over the same files.
//
// Every change is logged. From a log, CrashStates makes what a loss of power after any of its
// changes may leave: writes to a file are durable when it was synced after them, entries of a
// directory when the directory was. What is not durable is there, not there, or in part: writes in
// sectors of 512 bytes, in any order, and entries without the data that they name.
#ifndef LECTERN_TESTS_STORE_SIMULATED_DISK_H_
#define LECTERN_TESTS_STORE_SIMULATED_DISK_H_

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "store/env.h"

namespace lectern {

// Copies share the bytes of files until one of them writes.
struct DiskImage {
  struct Node {
    bool is_directory = false;
    std::shared_ptr<std::string> bytes;  // of a file
    std::map<std::string, int> names;    // of a directory; indexes of nodes
    // The bytes of a file, to be changed: a copy first where another image shares them.
    std::string& Writable() {
      if (bytes.use_count() > 1) bytes = std::make_shared<std::string>(*bytes);
      return *bytes;
    }
  };
  std::vector<Node> nodes = {Node{true, nullptr, {}}};  // [0]: the root
  int Find(const std::string& path) const;              // index of a node; -1: nothing there
  // "path size crc" of every file and "path/" of every directory at or below `directory`, by path;
  // "" where it is not there.
  std::string Listing(const std::string& directory) const;
  // The same for disks with the same names and bytes; else, but for one case in 2^64, another.
  uint64_t Digest() const;
};

struct DiskChange {
  enum class Kind { kCreate, kWrite, kTruncate, kSync, kFailedSync, kLink, kUnlink, kMark };
  Kind kind;
  int node = 0;                        // what is changed or synced; a directory for links
  int target = 0;                      // kLink: the node that gets the name
  uint64_t offset = 0;                 // kWrite; kTruncate: the new size
  std::shared_ptr<std::string> bytes;  // kWrite
  std::string name;                    // kLink, kUnlink; kMark: what was acknowledged
  bool is_directory = false;           // kCreate
};

// Mistakes of the disk, for tests that must notice them. `path` is of the file or directory.
struct DiskBug {
  std::function<bool(const std::string& path)> ignores_sync;      // of files
  std::function<bool(const std::string& path)> ignores_dir_sync;  // of directories
  bool retries_failed_sync = false;  // a sync that fails is reported as done
};

// One thread at a time. Paths that do not begin with kSimulatedRoot are the real disk's, to read.
// Mistakes in paths are the errors that ErrnoStatus makes of their errno. Locks are always got, at
// once, and every disk has 2^40 bytes free. Files and mappings must not outlive the disk; a pointer
// into a mapping holds until its file is written.
inline constexpr const char kSimulatedRoot[] = "/simulated";

class SimulatedDisk : public Env {
 public:
  explicit SimulatedDisk(DiskImage image = DiskImage());

  const DiskImage& image() const { return image_; }
  const std::vector<DiskChange>& log() const { return log_; }
  void Record() { records_ = true; }  // log() has the changes from now on
  // Notes in the log that something was promised to the user.
  void Mark(const std::string& what);

  DiskBug bug;
  // Asked before every call that changes or syncs something; an errno value makes it fail. A write
  // that fails leaves its first half. After a failed sync what was written is not durable, and no
  // later sync makes it so.
  std::function<int(const char* call, const std::string& path)> fault;

  Result<std::unique_ptr<WritableFile>> OpenWritable(const std::string& path,
                                                     bool exclusive) override;
  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override;
  std::string Resolve(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Remove(const std::string& path) override;
  Status RemoveTree(const std::string& directory) override;
  Status MakeDirectory(const std::string& path) override;
  Status SyncDirectory(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& directory) override;
  Result<FileInfo> Info(const std::string& path) override;
  Result<uint64_t> FreeBytes(const std::string& directory) override;
  Access AccessTo(const std::string& directory) override;
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path, int timeout_ms) override;
  Result<std::unique_ptr<FileLock>> LockDirectory(const std::string& directory,
                                                  Lease lease) override;
  // Also makes this the disk on which this thread opens its next catalog: call it right before.
  const char* sqlite_vfs() const override;

  // The operations that files of both kinds (Env's and SQLite's) have. `node`: of a file; `path` is
  // for `fault` and for messages. OpenNode: the file's node, made if it is missing and `creates`.
  Status Write(int node, const std::string& path, uint64_t offset, const void* data, size_t bytes);
  Status Truncate(int node, const std::string& path, uint64_t size);
  Status Sync(int node, const std::string& path);
  DiskImage::Node& node(int index) { return image_.nodes[static_cast<size_t>(index)]; }
  Result<int> OpenNode(const std::string& path, bool creates, bool exclusive);

 private:
  int Fault(const char* call, const std::string& path) { return fault ? fault(call, path) : 0; }
  void Log(DiskChange change) {
    if (records_) log_.push_back(std::move(change));
  }
  int Create(int directory, const std::string& name, bool is_directory);
  void Unlink(int directory, const std::string& name);

  DiskImage image_;
  std::vector<DiskChange> log_;
  bool records_ = false;
};

// Goes through a log, which must outlive it; after each change Make says which disk a crash there
// may leave. `before`: the disk when the log began.
class CrashStates {
 public:
  CrashStates(DiskImage before, const std::vector<DiskChange>& log)
      : log_(log), durable_(std::move(before)), pending_(durable_.nodes.size()) {}

  size_t position() const { return position_; }  // changes that have happened
  bool AtEnd() const { return position_ == log_.size(); }
  const DiskChange& Advance();  // takes the next change and returns it; not AtEnd

  enum class Survivors {
    kNone,       // only what is durable
    kAll,        // everything: the process was killed, the machine lives
    kPrefix,     // everything up to some moment
    kSubset,     // any changes, writes torn
    kNamesOnly,  // entries and sizes, but the unsynced data is zeros
    kDataOnly,   // data, but no unsynced entries
  };
  // Draws one such disk; `random` decides which, for kPrefix and kSubset.
  DiskImage Make(Survivors survivors, std::mt19937_64& random) const;
  bool HasPending() const;  // some change is not durable: Make may give different disks

 private:
  const std::vector<DiskChange>& log_;
  size_t position_ = 0;
  DiskImage durable_;
  std::vector<std::vector<size_t>> pending_;  // by node: changes since its last sync
};

}  // namespace lectern

#endif  // LECTERN_TESTS_STORE_SIMULATED_DISK_H_
