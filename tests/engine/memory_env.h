// Files that exist only in memory, for tests of readers.
#ifndef LECTERN_TESTS_ENGINE_MEMORY_ENV_H_
#define LECTERN_TESTS_ENGINE_MEMORY_ENV_H_

#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/env.h"

namespace lectern {

// The bytes of a file on disk; "" where it cannot be read.
inline std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Each mapping is a copy of exactly the file's size, so that ASan sees one byte too far.
class MemoryFile : public MappedFile {
 public:
  explicit MemoryFile(std::string_view bytes)
      : bytes_(new std::byte[bytes.size()]), size_(bytes.size()) {
    bytes.copy(reinterpret_cast<char*>(bytes_.get()), bytes.size());
  }
  const std::byte* data() const override { return bytes_.get(); }
  uint64_t size() const override { return size_; }
  void WillNeed(uint64_t, uint64_t) const override {}
  void DontNeed(uint64_t, uint64_t) const override {}

 private:
  std::unique_ptr<std::byte[]> bytes_;
  uint64_t size_;
};

// One folder, "m". Reading only: every change is kReadOnly. Map of a path that `files` lacks is
// kMissingFile; List gives the names of all files, whatever folder is asked for.
class MemoryEnv : public Env {
 public:
  std::map<std::string, std::string> files;  // "m/config.json" -> bytes

  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override {
    const auto at = files.find(path);
    if (at == files.end()) return Status(Code::kMissingFile, "map " + path + ": no such file");
    return std::unique_ptr<MappedFile>(new MemoryFile(at->second));
  }
  Result<FileInfo> Info(const std::string& path) override {
    const auto at = files.find(path);
    if (at == files.end()) return FileInfo();
    return FileInfo{FileInfo::Type::kRegular, at->second.size()};
  }
  Result<std::vector<std::string>> List(const std::string&) override {
    std::vector<std::string> names;
    for (const auto& [path, bytes] : files) names.push_back(path.substr(path.rfind('/') + 1));
    return names;
  }

  Result<std::unique_ptr<WritableFile>> OpenWritable(const std::string&, bool) override {
    return ReadOnly();
  }
  Status Rename(const std::string&, const std::string&) override { return ReadOnly(); }
  Status Remove(const std::string&) override { return ReadOnly(); }
  Status RemoveTree(const std::string&) override { return ReadOnly(); }
  Status MakeDirectory(const std::string&) override { return ReadOnly(); }
  Status SyncDirectory(const std::string&) override { return ReadOnly(); }
  Result<uint64_t> FreeBytes(const std::string&) override { return ReadOnly(); }
  Access AccessTo(const std::string&) override { return Access::kNotWritable; }
  Result<std::unique_ptr<FileLock>> Lock(const std::string&, int) override { return ReadOnly(); }
  Result<std::unique_ptr<FileLock>> LockDirectory(const std::string&, Lease) override {
    return ReadOnly();
  }

 private:
  static Status ReadOnly() { return Status(Code::kReadOnly, "a test writes to MemoryEnv"); }
};

}  // namespace lectern

#endif  // LECTERN_TESTS_ENGINE_MEMORY_ENV_H_
