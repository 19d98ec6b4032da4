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

// The number of MiB as text without its unit, rounded up, for messages: "2" for 2^20 + 1 bytes.
std::string Mebibytes(uint64_t bytes);

// Counts the memory that Lectern itself allocates or maps and uses: weights, texts, activations,
// keys and values of conversations, pages of shards and spills. Does not count the program and its
// libraries, the host's own allocations, allocator overhead, or the page cache. Thread-safe; create
// it with std::make_shared. One share is for one thread at a time.
class RamLimit : public std::enable_shared_from_this<RamLimit> {
 public:
  // Which memory is limited; the option is named "max_ram" or "device_memory".
  enum class Kind { kHost, kDevice };
  // Must be made with std::make_shared: shares keep it alive. 0 bytes allow nothing; where there
  // is no limit, there is no RamLimit.
  explicit RamLimit(uint64_t bytes, Kind kind = Kind::kHost) : bytes_(bytes), kind_(kind) {}
  uint64_t bytes() const { return bytes_; }  // the limit

  // Bytes that are reserved as long as this object lives. Move construction leaves the other share
  // empty. Assignment swaps: the bytes that the left side held stay reserved until the right side
  // dies.
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
  // Reserves bytes. Where reservations and droppable pages would exceed the limit together, it
  // calls every owner's `drop` on this thread. kOutOfMemory (param: the option's name) if the bytes
  // do not fit beside the other shares; droppable pages do not count here. The message says how
  // much `what` needs ("the question needs 12 MiB"), how much is reserved already, what the limit
  // is, and `way_out`.
  Result<Share> Reserve(uint64_t bytes, const std::string& what, const Message& way_out);
  // The same in exchange for a share of this limit (or an empty one), which grows or shrinks to
  // `bytes`. Shrinking never fails. After an error the share is as it was.
  Status Change(Share& share, uint64_t bytes, const std::string& what, const Message& way_out);
  uint64_t reserved() const { return reserved_.load(); }  // bytes of all shares

  // Reports that the number of bytes in droppable pages changed, up or (a negative number) down. An
  // owner takes its pages back before it dies; Unregister does not.
  void AddPages(int64_t bytes) { pages_ += bytes; }
  int64_t pages() const { return pages_.load(); }
  // Registers an owner of droppable pages; a second call for the same owner replaces its `drop`.
  // `drop` is called, on any thread and with a lock of this object held, when room is needed: it
  // lets go of all such pages that are not in use, and of shares whose content can be restored, and
  // must neither reserve nor register nor unregister.
  void Register(const void* owner, std::function<void()> drop);
  // `drop` is not called any more when this returns: it waits for a call that runs. Does nothing
  // for an owner that is not registered.
  void Unregister(const void* owner);
  // Whether reservations and droppable pages together exceed the limit, so that pages must go.
  bool IsExceeded() const {
    const int64_t used = static_cast<int64_t>(reserved_.load()) + pages_.load();
    return used > 0 && static_cast<uint64_t>(used) > bytes_;
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
