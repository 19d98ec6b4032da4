// Rows of a document on a device: layers stay there as long as there is room for them, and what
// does not is brought when it is read.
//
// A step comes to every layer once, in turn: of layers of which some do not fit, a cache that lets
// the one go that was used longest ago would keep none. So the first that come stay, and the others
// are brought each time, as much of them as is read.
#ifndef LECTERN_ENGINE_DEVICE_DOCUMENT_H_
#define LECTERN_ENGINE_DEVICE_DOCUMENT_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "engine/device.h"
#include "engine/device_lookup.h"
#include "engine/document.h"
#include "kernels/cuda/attention.h"

namespace lectern {

// What queries are rounded to that meet such rows.
inline Dtype QueryDtype(Dtype rows) { return rows == Dtype::kBf16 ? Dtype::kBf16 : Dtype::kF16; }

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
  // Borrows the backend, which rounds.
  DeviceDocument(std::shared_ptr<const Device> device, std::shared_ptr<const Document> document,
                 const Backend& backend);
  ~DeviceDocument();
  DeviceDocument(const DeviceDocument&) = delete;

  struct Layer {
    DeviceKvRows rows;
    std::vector<uint32_t> first_row;  // [kv heads]: where each head's begin
    // For lookups; nullptr: the document has none, or there is no room for them.
    std::unique_ptr<const DeviceCodes> codes;
  };
  // Rows of a layer, which stay for as long as it lives.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept { *this = std::move(other); }
    Use& operator=(Use&& other) noexcept {
      std::swap(document_, other.document_);
      std::swap(slot_, other.slot_);
      return *this;
    }
    ~Use() {
      if (document_ != nullptr) document_->Leave(slot_);
    }
    // nullptr: there is no room for it.
    const Layer* layer() const {
      return document_ != nullptr ? document_->slots_[slot_].layer.get() : nullptr;
    }

   private:
    friend class DeviceDocument;
    Use(DeviceDocument* document, uint32_t slot) : document_(document), slot_(slot) {}
    DeviceDocument* document_ = nullptr;
    uint32_t slot_ = 0;
  };
  // Brings the layer, verified, where there is room and it is not there; waits where another thread
  // brings it. kChecksumMismatch, errors of Device::Check but for want of memory.
  Result<Use> UseLayer(uint32_t layer, std::span<const HeadIndex> heads, DeviceStream& stream,
                       KvStaging& staging);

  const Document& document() const { return *document_; }
  size_t num_resident() const;  // layers

 private:
  struct Slot {
    std::unique_ptr<const Layer> layer;
    uint32_t num_users = 0;
    bool is_coming = false;
  };
  void Leave(uint32_t slot);
  bool HasRoom(uint64_t bytes) const;
  Result<std::unique_ptr<Layer>> Bring(std::span<const HeadIndex> heads, DeviceStream& stream,
                                       KvStaging& staging) const;
  void DropUnused();

  const std::shared_ptr<const Device> device_;
  const std::shared_ptr<const Document> document_;
  const Backend& backend_;
  std::condition_variable arrived_;
  mutable std::mutex mutex_;  // guards what follows; nothing is reserved while it is held
  std::vector<Slot> slots_;   // a layer in use stays as it is
};

// Calls add(rows) with blocks of rows of a head, verified, that cover [begin, end): its exact rows
// (from 0) and whole clusters. Stops at the first error.
Status ForEachStoredBlock(const HeadIndex& head, IndexRange rows,
                          FunctionRef<Status(const TypedRows& keys, const TypedRows& values)> add);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DEVICE_DOCUMENT_H_
