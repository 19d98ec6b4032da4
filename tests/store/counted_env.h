// An Env every call of which can be made to fail, but for SQLite's own calls.
#ifndef LECTERN_TESTS_STORE_COUNTED_ENV_H_
#define LECTERN_TESTS_STORE_COUNTED_ENV_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/store/env_for_tests.h"

namespace lectern {

// A file of a CountedEnv, which must outlive it: each call asks `count` first.
struct CountedFile : WritableFile {
  CountedFile(std::unique_ptr<WritableFile> f, std::function<Status()>& c)
      : file(std::move(f)), count(c) {}
  Status WriteAt(uint64_t offset, const void* data, size_t bytes) override {
    LECTERN_RETURN_IF_ERROR(count());
    return file->WriteAt(offset, data, bytes);
  }
  Status ReadAt(uint64_t offset, void* data, size_t bytes) const override {
    LECTERN_RETURN_IF_ERROR(count());
    return file->ReadAt(offset, data, bytes);
  }
  Status Allocate(uint64_t bytes) override {
    LECTERN_RETURN_IF_ERROR(count());
    return file->Allocate(bytes);
  }
  Status Sync() override {
    LECTERN_RETURN_IF_ERROR(count());
    return file->Sync();
  }
  Status Close() override {
    LECTERN_RETURN_IF_ERROR(count());
    return file->Close();
  }
  std::unique_ptr<WritableFile> file;
  std::function<Status()>& count;
};

// The same for a mapping; data, size and hints ask nobody.
struct CountedMap : MappedFile {
  CountedMap(std::unique_ptr<MappedFile> f, std::function<Status()>& c)
      : file(std::move(f)), count(c) {}
  const std::byte* data() const override { return file->data(); }
  uint64_t size() const override { return file->size(); }
  Status Load(uint64_t offset, uint64_t bytes) const override {
    LECTERN_RETURN_IF_ERROR(count());
    return file->Load(offset, bytes);
  }
  Status ReadAt(uint64_t offset, void* to, size_t bytes) const override {
    LECTERN_RETURN_IF_ERROR(count());
    return file->ReadAt(offset, to, bytes);
  }
  void WillNeed(uint64_t, uint64_t) const override {}
  void DontNeed(uint64_t, uint64_t) const override {}
  std::unique_ptr<MappedFile> file;
  std::function<Status()>& count;
};

// Asks `count` before every call, of its files too, but for AccessTo and hints; an error that
// `count` returns is the call's, which then does nothing. `base` must outlive it.
class CountedEnv : public ForwardingEnv {
 public:
  CountedEnv(Env& base, std::function<Status()> c) : ForwardingEnv(base), count(std::move(c)) {}
  Result<std::unique_ptr<WritableFile>> OpenWritable(const std::string& path,
                                                     bool exclusive) override {
    LECTERN_RETURN_IF_ERROR(count());
    LECTERN_ASSIGN(auto file, ForwardingEnv::OpenWritable(path, exclusive));
    return std::unique_ptr<WritableFile>(new CountedFile(std::move(file), count));
  }
  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override {
    LECTERN_RETURN_IF_ERROR(count());
    LECTERN_ASSIGN(auto file, ForwardingEnv::Map(path));
    return std::unique_ptr<MappedFile>(new CountedMap(std::move(file), count));
  }
  Result<std::unique_ptr<MappedFile>> Mirror(const std::string& path) override { return Map(path); }
  Status Rename(const std::string& from, const std::string& to) override {
    LECTERN_RETURN_IF_ERROR(count());
    return ForwardingEnv::Rename(from, to);
  }
  Status Remove(const std::string& path) override {
    LECTERN_RETURN_IF_ERROR(count());
    return ForwardingEnv::Remove(path);
  }
  Status RemoveTree(const std::string& directory) override {
    LECTERN_RETURN_IF_ERROR(count());
    return ForwardingEnv::RemoveTree(directory);
  }
  Status MakeDirectory(const std::string& path) override {
    LECTERN_RETURN_IF_ERROR(count());
    return ForwardingEnv::MakeDirectory(path);
  }
  Status SyncDirectory(const std::string& path) override {
    LECTERN_RETURN_IF_ERROR(count());
    return ForwardingEnv::SyncDirectory(path);
  }
  Result<std::vector<std::string>> List(const std::string& directory) override {
    LECTERN_RETURN_IF_ERROR(count());
    return ForwardingEnv::List(directory);
  }
  Result<FileInfo> Info(const std::string& path) override {
    LECTERN_RETURN_IF_ERROR(count());
    return ForwardingEnv::Info(path);
  }
  Result<uint64_t> FreeBytes(const std::string& directory) override {
    LECTERN_RETURN_IF_ERROR(count());
    return ForwardingEnv::FreeBytes(directory);
  }
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path, int timeout_ms) override {
    LECTERN_RETURN_IF_ERROR(count());
    return ForwardingEnv::Lock(path, timeout_ms);
  }
  Result<std::unique_ptr<FileLock>> LockDirectory(const std::string& path, Lease lease) override {
    LECTERN_RETURN_IF_ERROR(count());
    return ForwardingEnv::LockDirectory(path, lease);
  }

 private:
  std::function<Status()> count;
};

}  // namespace lectern

#endif  // LECTERN_TESTS_STORE_COUNTED_ENV_H_
