// How much memory an engine may take: shares that are set aside before they are needed, and pages
// of documents that stay only while there is room for them.
#ifndef LECTERN_STORE_RAM_LIMIT_H_
#define LECTERN_STORE_RAM_LIMIT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "store/status.h"

namespace lectern {

std::string Mebibytes(uint64_t bytes);  // rounded up, for messages

// Counts what Lectern itself allocates or maps and uses: weights, texts, activations, KV of
// conversations, pages of shards and spills. Not counted: the program and its libraries, what the
// host allocates, allocator overhead, the page cache. Thread-safe; made by std::make_shared.
class RamLimit : public std::enable_shared_from_this<RamLimit> {
 public:
  // Which memory: the option that limits it is named "max_ram", or "device_memory".
  enum class Kind { kHost, kDevice };
  explicit RamLimit(uint64_t bytes, Kind kind = Kind::kHost) : bytes_(bytes), kind_(kind) {}
  uint64_t bytes() const { return bytes_; }

  // Bytes that are set aside until it goes.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : limit_(std::move(other.limit_)), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(limit_, other.limit_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (limit_) limit_->reserved_ -= bytes_;
    }

   private:
    friend class RamLimit;
    std::shared_ptr<RamLimit> limit_;
    uint64_t bytes_ = 0;
  };
  // kOutOfMemory, param the option's name: says what is needed for `what`, what is set aside already, what
  // the limit is, and `way_out`. Pages that can go make room.
  Result<Share> Reserve(uint64_t bytes, const std::string& what, const Message& way_out);
  // The same in the place of a share of this limit (or an empty one), which stays after an error.
  Status Change(Share& share, uint64_t bytes, const std::string& what, const Message& way_out);
  uint64_t reserved() const { return reserved_.load(); }

  // Of pages that can go: their number of bytes changed. `drop` lets all of them go that are not in
  // use, and shares of what can be had again; it must not reserve.
  void AddPages(int64_t bytes) { pages_ += bytes; }
  int64_t pages() const { return pages_.load(); }
  void Register(const void* owner, std::function<void()> drop);
  void Unregister(const void* owner);
  // No room is left for pages that can go.
  bool IsExceeded() const {
    return static_cast<int64_t>(reserved_.load()) + pages_.load() > static_cast<int64_t>(bytes_);
  }

 private:
  const uint64_t bytes_;
  const Kind kind_;
  std::atomic<uint64_t> reserved_ = 0;
  std::atomic<int64_t> pages_ = 0;
  std::mutex mutex_;  // guards what follows, and that reservations come one at a time
  std::map<const void*, std::function<void()>> owners_;
};

}  // namespace lectern

#endif  // LECTERN_STORE_RAM_LIMIT_H_
