#include "store/derived_file.h"

#include <string>
#include <utility>

#include "store/reserved_memory.h"

namespace lectern {
namespace {

class DerivedFile : public MappedFile {
 public:
  DerivedFile(char* data, uint64_t size, DeriveBytes derive)
      : data_(data), size_(size), derive_(std::move(derive)) {}
  ~DerivedFile() override { FreeMemory(data_, size_); }
  DerivedFile(const DerivedFile&) = delete;
  DerivedFile& operator=(const DerivedFile&) = delete;

  const std::byte* data() const override { return reinterpret_cast<const std::byte*>(data_); }
  uint64_t size() const override { return size_; }
  Status Load(uint64_t offset, uint64_t bytes) const override {
    if (!TakePages(data_ + offset, bytes)) {
      return Status(Code::kOutOfMemory, "not enough memory for rearranged weights");
    }
    return ReadAt(offset, data_ + offset, bytes);
  }
  Status ReadAt(uint64_t offset, void* to, size_t bytes) const override {
    return bytes == 0 ? Status() : derive_(offset, to, bytes);
  }
  void WillNeed(uint64_t, uint64_t) const override {}
  void DontNeed(uint64_t offset, uint64_t bytes) const override { DropPages(data_, offset, bytes); }

 private:
  char* const data_;
  const uint64_t size_;
  const DeriveBytes derive_;
};

}  // namespace

Result<std::unique_ptr<MappedFile>> MakeDerivedFile(uint64_t size, DeriveBytes derive) {
  char* const data = ReserveMemory(size);
  if (data == nullptr) {
    return Status(Code::kOutOfMemory,
                  "no addresses for " + std::to_string(size >> 20) + " MiB of rearranged weights");
  }
  return std::unique_ptr<MappedFile>(new DerivedFile(data, size, std::move(derive)));
}

}  // namespace lectern
