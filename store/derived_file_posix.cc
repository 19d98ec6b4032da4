#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "store/derived_file.h"

namespace lectern {
namespace {

class DerivedFile : public MappedFile {
 public:
  DerivedFile(char* data, uint64_t size, DeriveBytes derive)
      : data_(data), size_(size), derive_(std::move(derive)) {}
  ~DerivedFile() override { ::munmap(data_, size_); }
  DerivedFile(const DerivedFile&) = delete;
  DerivedFile& operator=(const DerivedFile&) = delete;

  const std::byte* data() const override { return reinterpret_cast<const std::byte*>(data_); }
  uint64_t size() const override { return size_; }
  Status Load(uint64_t offset, uint64_t bytes) const override {
    return ReadAt(offset, data_ + offset, bytes);
  }
  Status ReadAt(uint64_t offset, void* to, size_t bytes) const override {
    if (bytes == 0) return {};
    return derive_(offset, to, bytes);
  }
  void WillNeed(uint64_t, uint64_t) const override {}
  void DontNeed(uint64_t offset, uint64_t bytes) const override {
    // Neighbours of the range on its first and last page may be in use.
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t begin = (offset + page - 1) / page * page, end = (offset + bytes) / page * page;
    if (begin < end) ::madvise(data_ + begin, end - begin, MADV_DONTNEED);
  }

 private:
  char* const data_;
  const uint64_t size_;
  const DeriveBytes derive_;
};

}  // namespace

Result<std::unique_ptr<MappedFile>> MakeDerivedFile(uint64_t size, DeriveBytes derive) {
  void* const data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return Status(Code::kOutOfMemory,
                  "no addresses for " + std::to_string(size >> 20) + " MiB of rearranged weights");
  }
  return std::unique_ptr<MappedFile>(
      new DerivedFile(static_cast<char*>(data), size, std::move(derive)));
}

}  // namespace lectern
