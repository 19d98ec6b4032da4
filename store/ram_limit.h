// Keeps an engine within a limit of memory (--max-ram, --device-memory): parts of the program
// reserve their share before they allocate, and pages of documents stay only while there is room
// for them.
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

std::string Mebibytes(uint64_t bytes);  // as text, rounded up, for messages

// Counts the memory that Lectern itself allocates or maps and uses: weights, texts, activations,
// keys and values of conversations, pages of shards and spills. Does not count the program and its
// libraries, the host's own allocations, allocator overhead, or the page cache. Thread-safe; create
// it with std::make_shared.
class RamLimit : public std::enable_shared_from_this<RamLimit> {
 public:
  // Which memory is limited; the option is named "max_ram" or "device_memory".
  enum class Kind { kHost, kDevice };
  // Must be made with std::make_shared: shares keep it alive.
  explicit RamLimit(uint64_t bytes, Kind kind = Kind::kHost) : bytes_(bytes), kind_(kind) {}
  uint64_t bytes() const { return bytes_; }  // the limit

  // Bytes that are reserved as long as this object lives.
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
  // Reserves bytes; droppable pages are dropped to make room. kOutOfMemory (param: the option's
  // name): the message says how much `what` needs ("the question needs 12 MiB"), how much is
  // reserved already, what the limit is, and `way_out`.
  Result<Share> Reserve(uint64_t bytes, const std::string& what, const Message& way_out);
  // The same in exchange for an existing (or empty) share, which grows or shrinks to `bytes`. After
  // an error it is as it was.
  Status Change(Share& share, uint64_t bytes, const std::string& what, const Message& way_out);
  uint64_t reserved() const { return reserved_.load(); }  // bytes of all shares

  // Reports that the number of bytes in droppable pages changed, up or down.
  void AddPages(int64_t bytes) { pages_ += bytes; }
  int64_t pages() const { return pages_.load(); }
  // Registers an owner of droppable pages. `drop` is called, on any thread and with a lock of this
  // object held, when room is needed: it lets go of all such pages that are not in use, and of
  // shares whose content can be restored, and must neither reserve nor register.
  void Register(const void* owner, std::function<void()> drop);
  // `drop` is not called any more when this returns.
  void Unregister(const void* owner);
  // Whether there is no room left for droppable pages.
  bool IsExceeded() const {
    return static_cast<int64_t>(reserved_.load()) + pages_.load() > static_cast<int64_t>(bytes_);
  }

 private:
  const uint64_t bytes_;
  const Kind kind_;
  std::atomic<uint64_t> reserved_ = 0;
  std::atomic<int64_t> pages_ = 0;
  std::mutex mutex_;  // guards owners_ and serialises reservations
  std::map<const void*, std::function<void()>> owners_;
};

}  // namespace lectern

#endif  // LECTERN_STORE_RAM_LIMIT_H_
