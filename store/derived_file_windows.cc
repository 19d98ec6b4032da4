#include <windows.h>

#include <utility>

#include "store/derived_file.h"

namespace lectern {
namespace {

// Takes memory for the pages of a range when it is loaded: Windows counts all memory that is taken,
// whether used or not, and a derived file may be larger than what it has.
class DerivedFile : public MappedFile {
 public:
  DerivedFile(char* data, uint64_t size, DeriveBytes derive)
      : data_(data), size_(size), derive_(std::move(derive)) {}
  ~DerivedFile() override { ::VirtualFree(data_, 0, MEM_RELEASE); }
  DerivedFile(const DerivedFile&) = delete;
  DerivedFile& operator=(const DerivedFile&) = delete;

  const std::byte* data() const override { return reinterpret_cast<const std::byte*>(data_); }
  uint64_t size() const override { return size_; }
  // Pages that have memory keep their content.
  Status Load(uint64_t offset, uint64_t bytes) const override {
    if (bytes == 0) return {};
    if (!::VirtualAlloc(data_ + offset, static_cast<SIZE_T>(bytes), MEM_COMMIT, PAGE_READWRITE)) {
      return Status(Code::kOutOfMemory, "not enough memory for rearranged weights");
    }
    return ReadAt(offset, data_ + offset, bytes);
  }
  Status ReadAt(uint64_t offset, void* to, size_t bytes) const override {
    if (bytes == 0) return {};
    return derive_(offset, to, bytes);
  }
  void WillNeed(uint64_t, uint64_t) const override {}
  void DontNeed(uint64_t offset, uint64_t bytes) const override {
    // Neighbours of the range on its first and last page may be in use.
    SYSTEM_INFO info;
    ::GetSystemInfo(&info);
    const uint64_t page = info.dwPageSize;
    const uint64_t begin = (offset + page - 1) / page * page, end = (offset + bytes) / page * page;
    if (begin < end) {
      ::VirtualFree(data_ + begin, static_cast<SIZE_T>(end - begin), MEM_DECOMMIT);
    }
  }

 private:
  char* const data_;
  const uint64_t size_;
  const DeriveBytes derive_;
};

}  // namespace

Result<std::unique_ptr<MappedFile>> MakeDerivedFile(uint64_t size, DeriveBytes derive) {
  void* const data =
      ::VirtualAlloc(nullptr, static_cast<SIZE_T>(size), MEM_RESERVE, PAGE_READWRITE);
  if (data == nullptr) {
    return Status(Code::kOutOfMemory,
                  "no addresses for " + std::to_string(size >> 20) + " MiB of rearranged weights");
  }
  return std::unique_ptr<MappedFile>(
      new DerivedFile(static_cast<char*>(data), size, std::move(derive)));
}

}  // namespace lectern
