// Envs that tests and fuzz targets put between the store and the disk.
#ifndef LECTERN_TESTS_STORE_ENV_FOR_TESTS_H_
#define LECTERN_TESTS_STORE_ENV_FOR_TESTS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/env.h"

namespace lectern {

// Another Env, to be overridden in part. `base` must outlive it. Resolve is not forwarded: paths
// stay as they are.
class ForwardingEnv : public Env {
 public:
  explicit ForwardingEnv(Env& base = Env::Default()) : base_(base) {}
  Result<std::unique_ptr<WritableFile>> OpenWritable(const std::string& path,
                                                     bool exclusive) override {
    return base_.OpenWritable(path, exclusive);
  }
  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override {
    return base_.Map(path);
  }
  Result<std::unique_ptr<MappedFile>> Mirror(const std::string& path) override {
    return base_.Mirror(path);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return base_.Rename(from, to);
  }
  Status Remove(const std::string& path) override { return base_.Remove(path); }
  Status RemoveTree(const std::string& directory) override { return base_.RemoveTree(directory); }
  Status MakeDirectory(const std::string& path) override { return base_.MakeDirectory(path); }
  Status SyncDirectory(const std::string& path) override { return base_.SyncDirectory(path); }
  Result<std::vector<std::string>> List(const std::string& directory) override {
    return base_.List(directory);
  }
  Result<FileInfo> Info(const std::string& path) override { return base_.Info(path); }
  Result<uint64_t> FreeBytes(const std::string& directory) override {
    return base_.FreeBytes(directory);
  }
  Access AccessTo(const std::string& directory) override { return base_.AccessTo(directory); }
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path, int timeout_ms) override {
    return base_.Lock(path, timeout_ms);
  }
  Result<std::unique_ptr<FileLock>> LockDirectory(const std::string& directory,
                                                  Lease lease) override {
    return base_.LockDirectory(directory, lease);
  }
  const char* sqlite_vfs() const override { return base_.sqlite_vfs(); }

 private:
  Env& base_;
};

// Files are `age_ns` (an hour) older here than they are, so that digests of theirs are kept.
class LaterEnv : public ForwardingEnv {
 public:
  Result<FileInfo> Info(const std::string& path) override {
    LECTERN_ASSIGN(FileInfo info, ForwardingEnv::Info(path));
    info.modified_ns -= age_ns;
    info.changed_ns -= age_ns;
    return info;
  }
  int64_t age_ns = int64_t{3600} * 1'000'000'000;
};

// Every Map gives these bytes, whatever the path, and never fails. This object must outlive the
// mappings, which are views of `bytes`. One thread.
class BytesEnv : public ForwardingEnv {
 public:
  explicit BytesEnv(std::string b) : bytes(std::move(b)) {}

  Result<std::unique_ptr<MappedFile>> Map(const std::string&) override {
    return std::unique_ptr<MappedFile>(new File(*this));
  }
  Result<std::unique_ptr<MappedFile>> Mirror(const std::string& path) override { return Map(path); }

  std::string bytes;
  std::vector<std::pair<uint64_t, uint64_t>> will_need;  // offsets and bytes of hints

 private:
  struct File : MappedFile {
    explicit File(BytesEnv& e) : env(e), bytes(e.bytes) {}
    const std::byte* data() const override {
      return reinterpret_cast<const std::byte*>(bytes.data());
    }
    uint64_t size() const override { return bytes.size(); }
    void WillNeed(uint64_t offset, uint64_t size) const override {
      env.will_need.emplace_back(offset, size);
    }
    void DontNeed(uint64_t, uint64_t) const override {}
    BytesEnv& env;
    const std::string& bytes;
  };
};

// Counts the calls that write: opening, renaming and syncing, and of the files writing, allocating,
// syncing and closing. Number `fail_at` (from 0; negative: none) and, when `sticky`, all after it
// fail with `code`. Removing always works, as it frees space, and making directories does. SQLite's
// calls are not counted. It must outlive its files. One thread.
class FaultEnv : public ForwardingEnv {
 public:
  Result<std::unique_ptr<WritableFile>> OpenWritable(const std::string& path,
                                                     bool exclusive) override {
    LECTERN_RETURN_IF_ERROR(Count());
    LECTERN_ASSIGN(auto file, ForwardingEnv::OpenWritable(path, exclusive));
    return std::unique_ptr<WritableFile>(new File(*this, std::move(file)));
  }
  Status Rename(const std::string& from, const std::string& to) override {
    LECTERN_RETURN_IF_ERROR(Count());
    return ForwardingEnv::Rename(from, to);
  }
  Status SyncDirectory(const std::string& path) override {
    LECTERN_RETURN_IF_ERROR(Count());
    return ForwardingEnv::SyncDirectory(path);
  }

  int num_calls = 0;
  int fail_at = -1;
  bool sticky = false;
  Code code = Code::kNoSpace;

 private:
  Status Count() {
    const int call = num_calls++;
    const bool fails = fail_at >= 0 && (sticky ? call >= fail_at : call == fail_at);
    return fails ? Status(code, "injected") : Status();
  }

  struct File : WritableFile {
    File(FaultEnv& e, std::unique_ptr<WritableFile> f) : env(e), file(std::move(f)) {}
    // Half of the bytes arrive before a failing write gives up.
    Status WriteAt(uint64_t offset, const void* data, size_t bytes) override {
      Status status = env.Count();
      if (!status.ok()) {
        (void)file->WriteAt(offset, data, bytes / 2);
        return status;
      }
      return file->WriteAt(offset, data, bytes);
    }
    Status ReadAt(uint64_t offset, void* data, size_t bytes) const override {
      return file->ReadAt(offset, data, bytes);
    }
    Status Allocate(uint64_t bytes) override {
      LECTERN_RETURN_IF_ERROR(env.Count());
      return file->Allocate(bytes);
    }
    Status Sync() override {
      LECTERN_RETURN_IF_ERROR(env.Count());
      return file->Sync();
    }
    Status Close() override {
      LECTERN_RETURN_IF_ERROR(env.Count());
      return file->Close();
    }
    FaultEnv& env;
    std::unique_ptr<WritableFile> file;
  };
};

}  // namespace lectern

#endif  // LECTERN_TESTS_STORE_ENV_FOR_TESTS_H_
