#include "tests/store/simulated_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string_view>

#include "store/crc32c.h"

namespace lectern {
namespace {

constexpr uint64_t kSectorBytes = 512;

std::vector<std::string> Components(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool IsSimulated(const std::string& path) { return path.starts_with(kSimulatedRoot); }

std::string BaseName(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

void WriteBytesAt(std::string& bytes, uint64_t offset, const char* data, size_t size) {
  if (bytes.size() < offset + size) bytes.resize(offset + size);
  std::memcpy(bytes.data() + offset, data, size);
}

void AddToListing(const DiskImage& image, int node, const std::string& path, std::string& out) {
  const DiskImage::Node& n = image.nodes[static_cast<size_t>(node)];
  if (!n.is_directory) {
    out += path + " " + std::to_string(n.bytes->size()) + " " +
           std::to_string(Crc32c(0, n.bytes->data(), n.bytes->size())) + "\n";
    return;
  }
  out += path + "/\n";
  for (const auto& [name, child] : n.names) AddToListing(image, child, path + "/" + name, out);
}

uint64_t DigestOf(const DiskImage& image, int node) {
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
  const DiskImage::Node& n = image.nodes[static_cast<size_t>(node)];
  const std::hash<std::string_view> hash;
  if (!n.is_directory) return hash(*n.bytes);
  uint64_t digest = 1;
  for (const auto& [name, child] : n.names) {
    digest = (digest ^ hash(name)) * kMix;
    digest = (digest ^ digest >> 32 ^ DigestOf(image, child)) * kMix;
  }
  return digest;
}

}  // namespace

int DiskImage::Find(const std::string& path) const {
  int at = 0;
  for (const std::string& part : Components(path)) {
    const Node& node = nodes[static_cast<size_t>(at)];
    const auto entry = node.names.find(part);
    if (!node.is_directory || entry == node.names.end()) return -1;
    at = entry->second;
  }
  return at;
}

std::string DiskImage::Listing(const std::string& directory) const {
  std::string out;
  const int at = Find(directory);
  if (at >= 0) AddToListing(*this, at, directory, out);
  return out;
}

uint64_t DiskImage::Digest() const { return DigestOf(*this, 0); }

// ---- Env ----

namespace {

class SimulatedFile : public WritableFile {
 public:
  SimulatedFile(SimulatedDisk& disk, int node, std::string path)
      : disk_(disk), node_(node), path_(std::move(path)) {}
  Status WriteAt(uint64_t offset, const void* data, size_t bytes) override {
    return disk_.Write(node_, path_, offset, data, bytes);
  }
  Status ReadAt(uint64_t offset, void* data, size_t bytes) const override {
    const std::string& all = *disk_.node(node_).bytes;
    if (offset > all.size() || bytes > all.size() - offset) {
      return Status(Code::kTruncated, path_ + ": ends before the bytes wanted");
    }
    std::memcpy(data, all.data() + offset, bytes);
    return {};
  }
  Status Allocate(uint64_t bytes) override {
    if (disk_.node(node_).bytes->size() >= bytes) return {};
    return disk_.Truncate(node_, path_, bytes);
  }
  Status Sync() override { return disk_.Sync(node_, path_); }
  Status Close() override {
    const int error = disk_.fault ? disk_.fault("close", path_) : 0;
    return error == 0 ? Status() : ErrnoStatus(error, "close", path_);
  }

 private:
  SimulatedDisk& disk_;
  int node_;
  std::string path_;
};

class SimulatedMap : public MappedFile {
 public:
  SimulatedMap(SimulatedDisk& disk, int node)
      : disk_(disk), node_(node), size_(disk.node(node).bytes->size()) {}
  const std::byte* data() const override {
    return reinterpret_cast<const std::byte*>(disk_.node(node_).bytes->data());
  }
  uint64_t size() const override { return size_; }
  void WillNeed(uint64_t, uint64_t) const override {}
  void DontNeed(uint64_t, uint64_t) const override {}

 private:
  SimulatedDisk& disk_;
  int node_;
  uint64_t size_;
};

}  // namespace

SimulatedDisk::SimulatedDisk(DiskImage image) : image_(std::move(image)) {
  const std::string root = BaseName(kSimulatedRoot);
  if (image_.nodes[0].names.contains(root)) return;
  image_.nodes.push_back({true, nullptr, {}});
  image_.nodes[0].names[root] = static_cast<int>(image_.nodes.size()) - 1;
}

void SimulatedDisk::Mark(const std::string& what) {
  DiskChange change{};
  change.kind = DiskChange::Kind::kMark;
  change.name = what;
  Log(change);
}

int SimulatedDisk::Create(int directory, const std::string& name, bool is_directory) {
  const int index = static_cast<int>(image_.nodes.size());
  image_.nodes.push_back(
      {is_directory, is_directory ? nullptr : std::make_shared<std::string>(), {}});
  node(directory).names[name] = index;
  DiskChange change{};
  change.kind = DiskChange::Kind::kCreate;
  change.node = index;
  change.is_directory = is_directory;
  Log(change);
  change.kind = DiskChange::Kind::kLink;
  change.node = directory;
  change.target = index;
  change.name = name;
  Log(change);
  return index;
}

void SimulatedDisk::Unlink(int directory, const std::string& name) {
  node(directory).names.erase(name);
  DiskChange change{};
  change.kind = DiskChange::Kind::kUnlink;
  change.node = directory;
  change.name = name;
  Log(change);
}

Result<int> SimulatedDisk::OpenNode(const std::string& path, bool creates, bool exclusive) {
  const int found = image_.Find(path);
  if (found >= 0) {
    if (exclusive || node(found).is_directory) {
      return ErrnoStatus(exclusive ? EEXIST : EISDIR, "create", path);
    }
    return found;
  }
  if (!creates) return ErrnoStatus(ENOENT, "read", path);
  const int directory = image_.Find(ParentDirectory(path));
  if (directory < 0) return ErrnoStatus(ENOENT, "create", path);
  if (const int error = Fault("open", path)) return ErrnoStatus(error, "create", path);
  return Create(directory, BaseName(path), /*is_directory=*/false);
}

Status SimulatedDisk::Write(int index, const std::string& path, uint64_t offset, const void* data,
                            size_t bytes) {
  const int error = Fault("write", path);
  if (error != 0) bytes /= 2;
  if (bytes > 0) {
    DiskChange change{};
    change.kind = DiskChange::Kind::kWrite;
    change.node = index;
    change.offset = offset;
    change.bytes = std::make_shared<std::string>(static_cast<const char*>(data), bytes);
    WriteBytesAt(node(index).Writable(), offset, change.bytes->data(), bytes);
    Log(std::move(change));
  }
  return error == 0 ? Status() : ErrnoStatus(error, "write", path);
}

Status SimulatedDisk::Truncate(int index, const std::string& path, uint64_t size) {
  if (const int error = Fault("truncate", path)) {
    return ErrnoStatus(error, "reserve space for", path);
  }
  node(index).Writable().resize(size);
  DiskChange change{};
  change.kind = DiskChange::Kind::kTruncate;
  change.node = index;
  change.offset = size;
  Log(change);
  return {};
}

Status SimulatedDisk::Sync(int index, const std::string& path) {
  DiskChange change{};
  change.kind = DiskChange::Kind::kSync;
  change.node = index;
  if (const int error = Fault("sync", path)) {
    change.kind = DiskChange::Kind::kFailedSync;
    Log(change);
    if (bug.retries_failed_sync) return {};
    return ErrnoStatus(error, "sync", path);
  }
  if (!bug.ignores_sync || !bug.ignores_sync(path)) Log(change);
  return {};
}

Result<std::unique_ptr<WritableFile>> SimulatedDisk::OpenWritable(const std::string& path,
                                                                  bool exclusive) {
  LECTERN_ASSIGN(const int index, OpenNode(path, /*creates=*/true, exclusive));
  return std::unique_ptr<WritableFile>(new SimulatedFile(*this, index, path));
}

Result<std::unique_ptr<MappedFile>> SimulatedDisk::Map(const std::string& path) {
  if (!IsSimulated(path)) return Env::Default().Map(path);
  const int index = image_.Find(path);
  if (index < 0) return ErrnoStatus(ENOENT, "read", path);
  if (node(index).is_directory) return Status(Code::kIoError, path + ": not a regular file");
  return std::unique_ptr<MappedFile>(new SimulatedMap(*this, index));
}

std::string SimulatedDisk::Resolve(const std::string& path) {
  return IsSimulated(path) ? path : Env::Default().Resolve(path);
}

// The new name comes first, so that a state in between has both.
Status SimulatedDisk::Rename(const std::string& from, const std::string& to) {
  if (const int error = Fault("rename", to)) return ErrnoStatus(error, "rename to", to);
  const int source = image_.Find(from), directory = image_.Find(ParentDirectory(to));
  if (source < 0 || directory < 0) return ErrnoStatus(ENOENT, "rename to", to);
  node(directory).names[BaseName(to)] = source;
  DiskChange change{};
  change.kind = DiskChange::Kind::kLink;
  change.node = directory;
  change.target = source;
  change.name = BaseName(to);
  Log(change);
  Unlink(image_.Find(ParentDirectory(from)), BaseName(from));
  return {};
}

Status SimulatedDisk::Remove(const std::string& path) {
  const int index = image_.Find(path);
  if (index < 0) return ErrnoStatus(ENOENT, "remove", path);
  if (node(index).is_directory) return ErrnoStatus(EISDIR, "remove", path);
  if (const int error = Fault("remove", path)) return ErrnoStatus(error, "remove", path);
  Unlink(image_.Find(ParentDirectory(path)), BaseName(path));
  return {};
}

Status SimulatedDisk::RemoveTree(const std::string& path) {
  const int index = image_.Find(path);
  if (index < 0) return {};
  if (!node(index).is_directory) return Remove(path);
  const auto names = node(index).names;
  for (const auto& [name, child] : names) {
    LECTERN_RETURN_IF_ERROR(RemoveTree(path + "/" + name));
  }
  if (const int error = Fault("rmdir", path)) return ErrnoStatus(error, "remove", path);
  Unlink(image_.Find(ParentDirectory(path)), BaseName(path));
  return {};
}

Status SimulatedDisk::MakeDirectory(const std::string& path) {
  const int index = image_.Find(path);
  if (index >= 0) {
    return node(index).is_directory ? Status() : ErrnoStatus(EEXIST, "create directory", path);
  }
  const std::string parent = ParentDirectory(path);
  LECTERN_RETURN_IF_ERROR(MakeDirectory(parent));
  if (const int error = Fault("mkdir", path)) return ErrnoStatus(error, "create directory", path);
  Create(image_.Find(parent), BaseName(path), /*is_directory=*/true);
  return SyncDirectory(parent);
}

Status SimulatedDisk::SyncDirectory(const std::string& path) {
  const int index = image_.Find(path);
  if (index < 0) return ErrnoStatus(ENOENT, "sync", path);
  if (const int error = Fault("syncdir", path)) return ErrnoStatus(error, "sync", path);
  if (bug.ignores_dir_sync && bug.ignores_dir_sync(path)) return {};
  DiskChange change{};
  change.kind = DiskChange::Kind::kSync;
  change.node = index;
  Log(change);
  return {};
}

Result<std::vector<std::string>> SimulatedDisk::List(const std::string& path) {
  if (!IsSimulated(path)) return Env::Default().List(path);
  const int index = image_.Find(path);
  if (index < 0) return ErrnoStatus(ENOENT, "list", path);
  std::vector<std::string> names;
  for (const auto& [name, child] : node(index).names) names.push_back(name);
  return names;
}

Result<FileInfo> SimulatedDisk::Info(const std::string& path) {
  if (!IsSimulated(path)) return Env::Default().Info(path);
  const int index = image_.Find(path);
  if (index < 0) return FileInfo();
  if (node(index).is_directory) return FileInfo{FileInfo::Type::kDirectory, 0};
  return FileInfo{FileInfo::Type::kRegular, node(index).bytes->size()};
}

Result<uint64_t> SimulatedDisk::FreeBytes(const std::string&) { return uint64_t{1} << 40; }

Access SimulatedDisk::AccessTo(const std::string& path) {
  return image_.Find(path) >= 0 ? Access::kWritable : Access::kNotWritable;
}

// One process, which never locks twice: nothing to keep out.
Result<std::unique_ptr<FileLock>> SimulatedDisk::Lock(const std::string& path, int) {
  LECTERN_RETURN_IF_ERROR(OpenNode(path, /*creates=*/true, /*exclusive=*/false).status());
  return std::make_unique<FileLock>();
}

Result<std::unique_ptr<FileLock>> SimulatedDisk::LockDirectory(const std::string& path, Lease) {
  if (image_.Find(path) < 0) return ErrnoStatus(ENOENT, "read", path);
  return std::make_unique<FileLock>();
}

// ---- SQLite ----

namespace {

thread_local SimulatedDisk* opening = nullptr;  // whose catalog is opened next

struct VfsFile {
  sqlite3_file base;
  SimulatedDisk* disk;
  int node;
  bool syncs_directory;  // as SQLite's own VFS: a journal's first sync makes its name durable
  std::string* path;
};

VfsFile& Of(sqlite3_file* file) { return *reinterpret_cast<VfsFile*>(file); }

int ToSqlite(const Status& status, int otherwise) {
  if (status.ok()) return SQLITE_OK;
  return status.code() == Code::kNoSpace ? SQLITE_FULL : otherwise;
}

int Close(sqlite3_file* file) {
  delete Of(file).path;
  return SQLITE_OK;
}
int Read(sqlite3_file* file, void* data, int size, sqlite3_int64 offset) {
  const std::string& bytes = *Of(file).disk->node(Of(file).node).bytes;
  const size_t at = std::min(static_cast<size_t>(offset), bytes.size());
  const size_t n = std::min(static_cast<size_t>(size), bytes.size() - at);
  std::memcpy(data, bytes.data() + at, n);
  std::memset(static_cast<char*>(data) + n, 0, static_cast<size_t>(size) - n);
  return n == static_cast<size_t>(size) ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}
int Write(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
  VfsFile& f = Of(file);
  return ToSqlite(f.disk->Write(f.node, *f.path, static_cast<uint64_t>(offset), data,
                                static_cast<size_t>(size)),
                  SQLITE_IOERR_WRITE);
}
int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  VfsFile& f = Of(file);
  return ToSqlite(f.disk->Truncate(f.node, *f.path, static_cast<uint64_t>(size)),
                  SQLITE_IOERR_TRUNCATE);
}
int SyncFile(sqlite3_file* file, int) {
  VfsFile& f = Of(file);
  const Status synced = f.disk->Sync(f.node, *f.path);
  if (!synced.ok()) return SQLITE_IOERR_FSYNC;
  if (!std::exchange(f.syncs_directory, false)) return SQLITE_OK;
  return ToSqlite(f.disk->SyncDirectory(ParentDirectory(*f.path)), SQLITE_IOERR_DIR_FSYNC);
}
int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  *size = static_cast<sqlite3_int64>(Of(file).disk->node(Of(file).node).bytes->size());
  return SQLITE_OK;
}
int LockFile(sqlite3_file*, int) { return SQLITE_OK; }
int IsReserved(sqlite3_file*, int* reserved) {
  *reserved = 0;
  return SQLITE_OK;
}
int Control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int SectorSize(sqlite3_file*) { return 4096; }  // the defaults of SQLite's own VFS
int Characteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

const sqlite3_io_methods kMethods = {
    1,        Close,    Read,       Write,   Truncate,   SyncFile,        FileSize,
    LockFile, LockFile, IsReserved, Control, SectorSize, Characteristics, nullptr,
    nullptr,  nullptr,  nullptr,    nullptr, nullptr};

int OpenFile(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  VfsFile& f = Of(file);
  f.base.pMethods = nullptr;
  const auto node = opening->OpenNode(name, (flags & SQLITE_OPEN_CREATE) != 0, false);
  if (!node.ok()) {
    return node.status().code() == Code::kNoSpace ? SQLITE_FULL : SQLITE_CANTOPEN;
  }
  f = {{&kMethods}, opening, *node, (flags & SQLITE_OPEN_MAIN_JOURNAL) != 0, new std::string(name)};
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}
int Delete(sqlite3_vfs*, const char* name, int syncs_directory) {
  const Status removed = opening->Remove(name);
  if (removed.code() == Code::kMissingFile) return SQLITE_IOERR_DELETE_NOENT;
  if (!removed.ok()) return SQLITE_IOERR_DELETE;
  if (!syncs_directory) return SQLITE_OK;
  return ToSqlite(opening->SyncDirectory(ParentDirectory(name)), SQLITE_IOERR_DIR_FSYNC);
}
int AccessFile(sqlite3_vfs*, const char* name, int, int* result) {
  *result = opening->image().Find(name) >= 0;
  return SQLITE_OK;
}
int FullPath(sqlite3_vfs*, const char* name, int size, char* out) {
  if (std::strlen(name) >= static_cast<size_t>(size)) return SQLITE_CANTOPEN;
  std::strcpy(out, name);
  return SQLITE_OK;
}
int Randomness(sqlite3_vfs*, int size, char* out) {  // the same in every run
  static thread_local std::mt19937_64 random(1);
  for (int i = 0; i < size; ++i) out[i] = static_cast<char>(random());
  return size;
}
int Sleep(sqlite3_vfs*, int microseconds) { return microseconds; }
int CurrentTime(sqlite3_vfs*, double* days) {
  *days = 2460000.5;
  return SQLITE_OK;
}

}  // namespace

const char* SimulatedDisk::sqlite_vfs() const {
  static constexpr char kName[] = "lectern-simulated";
  static const bool registered = [] {
    static sqlite3_vfs vfs{};
    vfs.iVersion = 1;
    vfs.szOsFile = sizeof(VfsFile);
    vfs.mxPathname = 512;
    vfs.zName = kName;
    vfs.xOpen = OpenFile;
    vfs.xDelete = Delete;
    vfs.xAccess = AccessFile;
    vfs.xFullPathname = FullPath;
    vfs.xRandomness = Randomness;
    vfs.xSleep = Sleep;
    vfs.xCurrentTime = CurrentTime;
    return sqlite3_vfs_register(&vfs, 0) == SQLITE_OK;
  }();
  opening = const_cast<SimulatedDisk*>(this);
  return registered ? kName : nullptr;
}

// ---- Crashes ----

const DiskChange& CrashStates::Advance() {
  using Kind = DiskChange::Kind;
  const size_t index = position_++;
  const DiskChange& change = log_[index];
  const auto node = static_cast<size_t>(change.node);
  switch (change.kind) {
    case Kind::kMark:
      break;
    case Kind::kCreate:
      durable_.nodes.resize(std::max(durable_.nodes.size(), node + 1));
      pending_.resize(durable_.nodes.size());
      durable_.nodes[node].is_directory = change.is_directory;
      if (!change.is_directory) durable_.nodes[node].bytes = std::make_shared<std::string>();
      break;
    case Kind::kFailedSync:  // marked clean without having been written
      pending_[node].clear();
      break;
    case Kind::kSync: {
      for (const size_t i : pending_[node]) {
        const DiskChange& c = log_[i];
        DiskImage::Node& n = durable_.nodes[node];
        if (c.kind == Kind::kWrite) {
          WriteBytesAt(n.Writable(), c.offset, c.bytes->data(), c.bytes->size());
        } else if (c.kind == Kind::kTruncate) {
          n.Writable().resize(c.offset);
        } else if (c.kind == Kind::kLink) {
          n.names[c.name] = c.target;
        } else {
          n.names.erase(c.name);
        }
      }
      pending_[node].clear();
      break;
    }
    default:
      pending_[node].push_back(index);
  }
  return change;
}

bool CrashStates::HasPending() const {
  return std::any_of(pending_.begin(), pending_.end(), [](const auto& p) { return !p.empty(); });
}

DiskImage CrashStates::Make(Survivors survivors, std::mt19937_64& random) const {
  using Kind = DiskChange::Kind;
  DiskImage image = durable_;
  if (survivors == Survivors::kNone) return image;
  const size_t cut = survivors == Survivors::kPrefix ? random() % (position_ + 1) : position_;
  const uint64_t share = 1 + random() % 9;  // tenths of the subset that survive
  for (size_t node = 0; node < pending_.size(); ++node) {
    DiskImage::Node& n = image.nodes[node];
    for (const size_t i : pending_[node]) {
      const DiskChange& c = log_[i];
      if (i >= cut) break;
      if (survivors == Survivors::kSubset && random() % 10 >= share) continue;
      if (survivors == Survivors::kDataOnly && n.is_directory) continue;
      if (c.kind == Kind::kLink) {
        n.names[c.name] = c.target;
      } else if (c.kind == Kind::kUnlink) {
        n.names.erase(c.name);
      } else if (c.kind == Kind::kTruncate) {
        n.Writable().resize(c.offset);
      } else if (survivors == Survivors::kNamesOnly) {
        std::string& bytes = n.Writable();
        bytes.resize(std::max<size_t>(bytes.size(), c.offset + c.bytes->size()));
      } else if (survivors == Survivors::kSubset && random() % 2 == 0) {  // torn
        for (uint64_t at = 0; at < c.bytes->size(); at += kSectorBytes) {
          const size_t size = std::min<uint64_t>(kSectorBytes, c.bytes->size() - at);
          if (random() % 2 == 0)
            WriteBytesAt(n.Writable(), c.offset + at, c.bytes->data() + at, size);
        }
      } else {
        WriteBytesAt(n.Writable(), c.offset, c.bytes->data(), c.bytes->size());
      }
    }
  }
  return image;
}

}  // namespace lectern
