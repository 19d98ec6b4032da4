// A document on a device: codes and rows of its layers, each apart, that stay there as long as
// there is room for them; what does not is brought when it is read.
//
// Codes come first: they say which rows are read, and take a fraction of their room. A step comes
// to every layer once, in turn: of layers of which some do not fit, a cache that lets the one go
// that was used longest ago would keep none. So the first that come stay, and the others are
// brought each time, as much of them as is read.
#ifndef LECTERN_ENGINE_DEVICE_DOCUMENT_H_
#define LECTERN_ENGINE_DEVICE_DOCUMENT_H_

#include <algorithm>
#include <concepts>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/device.h"
#include "engine/device_lookup.h"
#include "engine/document.h"
#include "kernels/cuda/attention.h"

namespace lectern {

// Keys and values as kernels read them (DeviceKv), of any number of heads.
class DeviceKvRows {
 public:
  Status Reserve(DeviceStream& stream, Dtype dtype, size_t head_dim, size_t num_rows,
                 const char* what);
  DeviceKv view() const {
    return {.keys = keys_.data(),
            .values = values_.data(),
            .dtype = dtype_,
            .key_scales = key_scales_.data(),
            .value_scales = value_scales_.data()};
  }
  // For kernels that store rows there.
  std::byte* keys() const { return keys_.data(); }
  std::byte* values() const { return values_.data(); }
  // Rows, not of q8, to those from `at` on. Enqueued: they must stay as they are until it ran.
  Status Upload(DeviceStream& stream, const TypedRows& keys, const TypedRows& values,
                size_t at) const;
  // Rows [first, first + count), not of q8, from others of the device, or to the host. Enqueued.
  Status Copy(DeviceStream& stream, const DeviceKvRows& from, size_t first, size_t count,
              size_t at) const;
  Status Download(DeviceStream& stream, size_t first, size_t count, std::byte* keys,
                  std::byte* values) const;

 private:
  friend class KvStaging;
  Dtype dtype_ = Dtype::kF16;
  size_t head_dim_ = 0;
  DeviceArray<std::byte> keys_, values_;
  DeviceArray<f16> key_scales_, value_scales_;  // of q8
};

// Rows on their way to a device, in memory of the host. Its memory stays from use to use.
class KvStaging {
 public:
  void Begin(Dtype dtype, size_t head_dim);
  size_t num_rows() const { return num_rows_; }
  // Of the type and width of Begin.
  void Add(const TypedRows& keys, const TypedRows& values);
  // To rows [at, at + num_rows()) of `to`, and waits; then there are none here.
  Status Upload(DeviceStream& stream, const DeviceKvRows& to, size_t at);

 private:
  void Add(const TypedRows& rows, std::vector<std::byte>& data, std::vector<f16>& scales);
  Dtype dtype_ = Dtype::kF16;
  size_t head_dim_ = 0, num_rows_ = 0;
  std::vector<std::byte> keys_, values_;
  std::vector<f16> key_scales_, value_scales_;
};

// Whether kernels can attend to rows of this type and width.
bool HasDeviceAttention(Dtype dtype, size_t head_dim);

// Thread-safe; shared by the sessions of a document.
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
  // What there is of a layer on the device.
  template <typename T>
  struct Slot {
    std::unique_ptr<const T> item;
    uint32_t num_users = 0;
    bool is_coming = false;
    bool is_refused = false;  // it cannot be had, until memory is given back
  };

 public:
  // Rows or codes of a layer, which stay for as long as it lives.
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
    // nullptr: there is no room for them.
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

  // Each brings what it hands out, verified, where there is room and it is not there, and waits
  // where another thread brings it. kChecksumMismatch, kCorrupt, errors of Device::Check but for
  // want of memory. Rows come where they leave room for all codes.
  Result<Use> UseLayer(uint32_t layer, std::span<const HeadIndex> heads, DeviceStream& stream,
                       KvStaging& staging);
  // None where the document has no codes, or one that f16 does not hold.
  Result<CodesUse> UseCodes(uint32_t layer, std::span<const HeadIndex> heads, DeviceStream& stream);

  const Document& document() const { return *document_; }
  // Layers whose rows, or codes, are there.
  size_t num_resident() const { return Count(layers_); }
  size_t num_coded() const { return Count(codes_); }

 private:
  // Bytes that parts of the document take of the device.
  struct Sizes {
    std::vector<uint64_t> rows, codes;  // [layers]
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
  void Leave(uint32_t& num_users);
  bool HasRoom(uint64_t bytes) const;
  Status Measure();
  uint64_t MissingCodes() const;
  Result<std::unique_ptr<const Layer>> BringRows(std::span<const HeadIndex> heads,
                                                 DeviceStream& stream, KvStaging& staging) const;
  void DropUnused();

  const std::shared_ptr<const Device> device_;
  const std::shared_ptr<const Document> document_;
  const Backend& backend_;
  const uint64_t room_for_asking_;
  std::condition_variable arrived_;
  mutable std::mutex mutex_;  // guards what follows; nothing is reserved while it is held
  std::optional<Sizes> sizes_;  // written once
  // [layers]; what is in use stays as it is.
  std::vector<Slot<Layer>> layers_;
  std::vector<Slot<DeviceCodes>> codes_;
};

// Calls add(rows) with blocks of rows of a head, verified, that cover [begin, end): its exact rows
// (from 0) and whole clusters. Stops at the first error.
Status ForEachStoredBlock(const HeadIndex& head, IndexRange rows,
                          FunctionRef<Status(const TypedRows& keys, const TypedRows& values)> add);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DEVICE_DOCUMENT_H_
