// Keeps a document on a device: the codes and the rows of its layers, each apart, stay there as
// long as there is room for them; those that do not fit are brought when they are read.
//
// Codes come first: they say which rows are read, and take a fraction of the rows' room. If all
// rows of the document fit, they stay layer by layer. If they do not, a cache of rows of all layers
// takes the room that codes and sessions leave, because most rows that a step chose are chosen by
// the next one, too. Layers that are read whole (all the budget, or a window) would sweep such a
// cache, and do not use it. While there is no cache, the first of these layers that come stay: a
// step visits the layers in turn, so the one that was used longest ago is needed next. A cache
// leaves them half of the room at most, and windowed layers always have theirs. Whatever has no
// place is brought for each step.
#ifndef LECTERN_ENGINE_GPU_RESIDENT_DOCUMENT_H_
#define LECTERN_ENGINE_GPU_RESIDENT_DOCUMENT_H_

#include <algorithm>
#include <concepts>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "engine/document/document.h"
#include "engine/gpu/device.h"
#include "engine/gpu/kv_rows.h"
#include "engine/gpu/lookup.h"
#include "engine/gpu/row_slots.h"

namespace lectern {

// Thread-safe; shared by the sessions of a document. It registers with the device's memory limit:
// a reservation by anybody, on any thread, may drop rows, codes and the cache that nobody uses.
class DeviceDocument {
 public:
  // Borrows the backend, which rounds. `room_for_asking`: bytes of the device that are left to
  // those who ask, beside what attention takes (DeviceRoomForAsking).
  DeviceDocument(std::shared_ptr<const Device> device, std::shared_ptr<const Document> document,
                 const Backend& backend, uint64_t room_for_asking = kDeviceStreamBytes);
  ~DeviceDocument();
  DeviceDocument(const DeviceDocument&) = delete;

  struct Layer {
    DeviceKvRows rows;
    std::vector<uint32_t> first_row;  // [kv heads]: where each head's begin
    DeviceArray<uint32_t> positions;  // [rows]: of the document
  };

 private:
  // The state of a layer's rows, or of its codes, on the device.
  template <typename T>
  struct Slot {
    std::unique_ptr<const T> item;
    uint32_t num_users = 0;
    bool is_coming = false;
    bool is_refused = false;  // it cannot be had, until memory is given back
  };

 public:
  // Rows or codes of a layer, which stay for as long as it lives. The document outlives it.
  template <typename T>
  class UseOf {
   public:
    UseOf() = default;
    UseOf(UseOf&& other) noexcept { *this = std::move(other); }
    UseOf& operator=(UseOf&& other) noexcept {
      std::swap(document_, other.document_);
      std::swap(slot_, other.slot_);
      return *this;
    }
    ~UseOf() {
      if (document_ != nullptr) document_->Leave(slot_->num_users);
    }
    // nullptr: there is no room for them, or none of the document has them (UseCodes).
    const Layer* layer() const requires std::same_as<T, Layer> { return item(); }
    const DeviceCodes* codes() const requires std::same_as<T, DeviceCodes> { return item(); }

   private:
    friend class DeviceDocument;
    UseOf(DeviceDocument* document, Slot<T>* slot) : document_(document), slot_(slot) {}
    const T* item() const { return document_ != nullptr ? slot_->item.get() : nullptr; }
    DeviceDocument* document_ = nullptr;
    Slot<T>* slot_ = nullptr;
  };
  using Use = UseOf<Layer>;
  using CodesUse = UseOf<DeviceCodes>;

  // Which of a layer's rows a step reads: those that were chosen, or all.
  enum class Reads { kSome, kAll };
  // UseLayer and UseCodes bring rows or codes that are not on the device, verified, if there is
  // room, and wait while another thread brings them. The caller has a Document::LayerUse of the
  // layer. The first call reads the clusters of all layers. Without room the result is ok and
  // empty. Errors of Document::Heads, kChecksumMismatch, kCorrupt, errors of Device::Check except
  // for lack of memory.
  Result<Use> UseLayer(uint32_t layer, std::span<const HeadIndex> heads, DeviceStream& stream,
                       KvStaging& staging, Reads reads = Reads::kSome);
  // The result is empty, too, if the document has no codes or a centroid that its queries' type
  // does not hold. Codes that could not be brought for lack of memory are not tried again before
  // somebody reserves memory that is short.
  Result<CodesUse> UseCodes(uint32_t layer, std::span<const HeadIndex> heads, DeviceStream& stream,
                            KvStaging& staging);

  // Rows of any layers, each in a slot of its own.
  struct Cache {
    Cache(uint32_t num_layers, uint32_t num_slots) : slots(num_layers, num_slots) {}
    DeviceKvRows rows;
    RowSlots slots;
    RamLimit::Share host_memory;  // of the slots' numbers
  };
  // The cache, of one thread for as long as it lives: it must have waited for its stream by then.
  class CacheUse {
   public:
    CacheUse() = default;
    CacheUse(CacheUse&& other) noexcept : document_(std::exchange(other.document_, nullptr)) {}
    CacheUse& operator=(CacheUse&& other) noexcept {
      std::swap(document_, other.document_);
      return *this;
    }
    ~CacheUse() {
      if (document_ != nullptr) document_->LeaveCache();
    }
    Cache* cache() const { return document_ != nullptr ? document_->cache_.get() : nullptr; }
    // Frees the cache, as it left too little memory to attend: there is none now, and later one of
    // half the size.
    void GiveBack() {
      if (document_ != nullptr) document_->DropCache();
    }
    // Adds rows that were found in the cache, and rows that were brought, to cache_stats.
    void Count(uint64_t hits, uint64_t misses) {
      if (document_ != nullptr) document_->CountRows(hits, misses);
    }

   private:
    friend class DeviceDocument;
    explicit CacheUse(DeviceDocument* document) : document_(document) {}
    DeviceDocument* document_ = nullptr;
  };
  // Waits for another that uses it. Takes memory for it where there is none and there is room, for
  // which unused layers may be dropped; without room, cache() is nullptr. One use at a time for
  // each thread. Errors of Document::Heads, and of Device::Check but for want of memory.
  Result<CacheUse> UseCache(DeviceStream& stream);
  struct CacheStats {
    uint64_t num_slots = 0;         // now
    uint64_t hits = 0, misses = 0;  // rows, since there is this document
  };
  CacheStats cache_stats() const;

  const Document& document() const { return *document_; }
  // Layers whose rows, or codes, are there.
  size_t num_resident() const { return Count(layers_); }
  size_t num_coded() const { return Count(codes_); }

 private:
  // Bytes that parts of the document take of the device.
  struct Sizes {
    std::vector<uint64_t> rows, codes;  // [layers]
    std::vector<uint64_t> num_rows;     // [layers]
    uint64_t row = 0;                   // keys and values of one
    uint64_t lookup = 0;                // of a session's lookups at most
  };
  // bring() -> Result<std::unique_ptr<const T>>, without the lock; kOutOfMemory: there is no room.
  template <typename T, typename Bring>
  Result<UseOf<T>> UseSlot(Slot<T>& slot, const Bring& bring);
  template <typename T>
  size_t Count(const std::vector<Slot<T>>& slots) const {
    const std::lock_guard lock(mutex_);
    return static_cast<size_t>(
        std::ranges::count_if(slots, [](const Slot<T>& slot) { return slot.item != nullptr; }));
  }
  // Takes one user off a slot, `num_users`, so that its rows or codes may be dropped when there is
  // none left. Takes mutex_. UseOf's destructor calls it.
  void Leave(uint32_t& num_users);
  // Whether the device's memory limit has `bytes` free now. Nothing is left out for others: callers
  // add what room_for_asking_ and missing parts take. Layers that could be dropped count as taken.
  // It is only a look: it reserves nothing and needs no lock.
  bool HasRoom(uint64_t bytes) const;
  // Sets sizes_ where it is not set; reads the clusters of all layers. Takes mutex_. Errors of
  // Document::Heads.
  Status Measure();
  // Whether the rows, or the codes, of a layer that are not there may be brought now. The first
  // also decides for Plan::kWhole where all rows fit. They take mutex_.
  bool HasRoomForRows(uint32_t layer, Reads reads);
  bool HasRoomForCodes(uint32_t layer) const;
  // With mutex_ held. Bytes of codes that are not on the device yet and were not refused, and of
  // lookups; bytes of rows that are not there yet.
  uint64_t MissingCodes() const;
  uint64_t MissingRows(bool only_windowed) const;
  // Takes memory for the cache, and decides for Plan::kCache; only for the cache's user. Takes
  // mutex_. kOutOfMemory: there is no room for 256 rows, of the host's memory limit too.
  Status TakeCache(DeviceStream& stream);
  // Returns the bytes that the cache may take, half as many for each time that it was given back;
  // sets `num_rows` to the rows of the layers that do not stay, of which it is. Drops layers that
  // nobody uses, the last ones first, until half of the room is free. Takes mutex_.
  uint64_t RoomForCache(uint64_t& num_rows);
  // Ends this thread's use of the cache, which stays, and wakes who waits for it. Takes mutex_.
  void LeaveCache();
  // Frees the cache; the next one has half the size. Only for its user. Takes mutex_.
  void DropCache();
  void CountRows(uint64_t hits, uint64_t misses);
  // Takes device memory for all rows of a layer, verifies the rows, uploads them and waits for the
  // stream. Call it without mutex_. kOutOfMemory (no room, or more rows than 32 bits count),
  // kChecksumMismatch, with Io::kPread also kTruncated and kIoError; errors of Device::Check.
  Result<std::unique_ptr<const Layer>> BringRows(std::span<const HeadIndex> heads,
                                                 DeviceStream& stream, KvStaging& staging) const;
  // Drops rows, codes and the cache that nobody uses, and forgets what was refused. The memory
  // limit calls it with its lock held. Takes mutex_.
  void DropUnused();
  // Waits at most 200 ms until nobody uses the cache; `lock` holds mutex_. Takes nothing itself.
  // False: this thread is the user, or another one still is.
  bool WaitForCache(std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<const Device> device_;
  const std::shared_ptr<const Document> document_;
  const Backend& backend_;
  const uint64_t room_for_asking_;
  std::condition_variable arrived_;
  mutable std::mutex mutex_;    // guards what follows; nothing is reserved while it is held
  std::optional<Sizes> sizes_;  // written once
  // [layers]; what is in use stays as it is.
  std::vector<Slot<Layer>> layers_;
  std::vector<Slot<DeviceCodes>> codes_;
  // The plan that the room left for codes, windows and sessions allows: all rows stay, or there is
  // a cache.
  enum class Plan { kNone, kWhole, kCache } plan_ = Plan::kNone;
  std::unique_ptr<Cache> cache_;                          // stays as it is while it is used
  bool is_cache_used_ = false, is_cache_wanted_ = false;  // the second: back, by others
  std::thread::id cache_user_;
  bool is_cache_refused_ = false;  // as of a slot
  uint32_t num_given_back_ = 0;    // as it left too little: each time it comes half as large
  CacheStats stats_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_GPU_RESIDENT_DOCUMENT_H_
