#include "engine/device_document.h"

#include <algorithm>
#include <cstring>

#include "engine/device_plan.h"

namespace lectern {

Status DeviceKvRows::Reserve(DeviceStream& stream, Dtype dtype, size_t head_dim, size_t num_rows,
                             const char* what) {
  dtype_ = dtype;
  head_dim_ = head_dim;
  const size_t bytes = num_rows * head_dim * (dtype == Dtype::kQ8 ? 1 : 2);
  LECTERN_RETURN_IF_ERROR(keys_.Reserve(stream, bytes, what));
  LECTERN_RETURN_IF_ERROR(values_.Reserve(stream, bytes, what));
  if (dtype != Dtype::kQ8) return {};
  LECTERN_RETURN_IF_ERROR(key_scales_.Reserve(stream, num_rows * (head_dim / kQ8Block), what));
  return value_scales_.Reserve(stream, num_rows * (head_dim / kQ8Block), what);
}

Status DeviceKvRows::Upload(DeviceStream& stream, const TypedRows& keys, const TypedRows& values,
                            size_t at) const {
  assert(dtype_ != Dtype::kQ8 && keys.dtype == dtype_ && keys.num_rows == values.num_rows);
  const size_t row_bytes = keys.row_bytes(), bytes = keys.num_rows * row_bytes;
  LECTERN_RETURN_IF_ERROR(keys_.Upload(stream, keys.data, bytes, at * row_bytes));
  return values_.Upload(stream, values.data, bytes, at * row_bytes);
}

void KvStaging::Begin(Dtype dtype, size_t head_dim) {
  dtype_ = dtype;
  head_dim_ = head_dim;
  num_rows_ = 0;
  for (auto* bytes : {&keys_, &values_}) bytes->clear();
  for (auto* scales : {&key_scales_, &value_scales_}) scales->clear();
}

void KvStaging::Add(const TypedRows& keys, const TypedRows& values) {
  assert(keys.dtype == dtype_ && keys.num_cols == head_dim_ && keys.num_rows == values.num_rows);
  Add(keys, keys_, key_scales_);
  Add(values, values_, value_scales_);
  num_rows_ += keys.num_rows;
}

void KvStaging::Add(const TypedRows& rows, std::vector<std::byte>& data, std::vector<f16>& scales) {
  const std::byte* const end = rows.row(rows.num_rows);
  if (rows.dtype != Dtype::kQ8) {
    data.insert(data.end(), rows.data, end);
    return;
  }
  for (const std::byte* block = rows.data; block < end; block += sizeof(f16) + kQ8Block) {
    std::memcpy(&scales.emplace_back(), block, sizeof(f16));
    data.insert(data.end(), block + sizeof(f16), block + sizeof(f16) + kQ8Block);
  }
}

Status KvStaging::Upload(DeviceStream& stream, const DeviceKvRows& to, size_t at) {
  const WaitsForStream wait(stream);
  const size_t row_bytes = head_dim_ * (dtype_ == Dtype::kQ8 ? 1 : 2);
  LECTERN_RETURN_IF_ERROR(to.keys_.Upload(stream, keys_.data(), keys_.size(), at * row_bytes));
  LECTERN_RETURN_IF_ERROR(
      to.values_.Upload(stream, values_.data(), values_.size(), at * row_bytes));
  if (dtype_ == Dtype::kQ8) {
    const size_t row_scales = head_dim_ / kQ8Block;
    LECTERN_RETURN_IF_ERROR(
        to.key_scales_.Upload(stream, key_scales_.data(), key_scales_.size(), at * row_scales));
    LECTERN_RETURN_IF_ERROR(to.value_scales_.Upload(stream, value_scales_.data(),
                                                    value_scales_.size(), at * row_scales));
  }
  LECTERN_RETURN_IF_ERROR(stream.Wait());
  Begin(dtype_, head_dim_);
  return {};
}

bool HasDeviceAttention(Dtype dtype, size_t head_dim) {
  return dtype != Dtype::kF32 && head_dim % 8 == 0 && head_dim <= 256;
}

Status ForEachStoredBlock(const HeadIndex& head, IndexRange rows,
                          FunctionRef<Status(const TypedRows& keys, const TypedRows& values)> add) {
  Status status;
  const auto add_blocks = [&](IndexRange range) {
    if (range.size() == 0 || !status.ok()) return;
    status = head.VerifyRows(range);
    if (!status.ok()) return;
    head.ForEachBlock(range, [&](IndexRange block) {
      if (status.ok()) status = add(head.Keys(block), head.Values(block));
    });
  };
  const uint32_t num_exact = head.num_exact();
  if (rows.begin < num_exact) add_blocks({rows.begin, std::min(rows.end, num_exact)});
  if (rows.end > num_exact) add_blocks({std::max(rows.begin, num_exact), rows.end});
  return status;
}

DeviceDocument::DeviceDocument(std::shared_ptr<const Device> device,
                               std::shared_ptr<const Document> document, const Backend& backend)
    : device_(std::move(device)),
      document_(std::move(document)),
      backend_(backend),
      slots_(document_->num_layers()) {
  device_->memory()->Register(this, [this] { DropUnused(); });
}

DeviceDocument::~DeviceDocument() { device_->memory()->Unregister(this); }

size_t DeviceDocument::num_resident() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::ranges::count_if(slots_, [](const Slot& slot) { return slot.layer != nullptr; }));
}

Result<DeviceDocument::Use> DeviceDocument::UseLayer(uint32_t layer,
                                                     std::span<const HeadIndex> heads,
                                                     DeviceStream& stream, KvStaging& staging) {
  Slot& slot = slots_[layer];
  std::unique_lock lock(mutex_);
  // Another session may bring it.
  arrived_.wait(lock, [&slot] { return !slot.is_coming; });
  if (slot.layer == nullptr) {
    // Those who wait go on whatever happens, also where the host has no memory (std::bad_alloc).
    struct Coming {
      std::unique_lock<std::mutex>& held;
      Slot& of;
      std::condition_variable& arrived;
      ~Coming() {
        held.lock();
        of.is_coming = false;
        arrived.notify_all();
      }
    };
    slot.is_coming = true;
    lock.unlock();
    auto brought = [&] {
      const Coming coming = {lock, slot, arrived_};
      return Bring(heads, stream, staging);
    }();
    if (!brought.ok()) {
      if (brought.status().code() != Code::kOutOfMemory) return std::move(brought).status();
      return Use();
    }
    slot.layer = std::move(brought).value();
  }
  ++slot.num_users;
  return Use(this, layer);
}

void DeviceDocument::Leave(uint32_t slot) {
  const std::lock_guard lock(mutex_);
  --slots_[slot].num_users;
}

bool DeviceDocument::HasRoom(uint64_t bytes) const {
  const RamLimit& memory = *device_->memory();
  return bytes <= memory.bytes() && memory.reserved() <= memory.bytes() - bytes;
}

Result<std::unique_ptr<DeviceDocument::Layer>> DeviceDocument::Bring(
    std::span<const HeadIndex> heads, DeviceStream& stream, KvStaging& staging) const {
  constexpr const char* kWhat = "a layer of the document";
  const Dtype dtype = document_->kv_dtype();
  const size_t dim = document_->shape().head_dim;
  auto layer = std::make_unique<Layer>();
  size_t num_rows = 0;
  for (const HeadIndex& head : heads) {
    layer->first_row.push_back(static_cast<uint32_t>(num_rows));
    num_rows += head.num_rows();
  }
  const uint64_t bytes = 2 * num_rows * RowBytes(dtype, dim);
  // Room is left for the staging memory of what does not stay, and for a step.
  if (num_rows > UINT32_MAX || !HasRoom(bytes + kDeviceStagingBytes)) {
    return Status(Code::kOutOfMemory, "there is no room for a layer of the document");
  }
  LECTERN_RETURN_IF_ERROR(layer->rows.Reserve(stream, dtype, dim, num_rows, kWhat));
  const size_t most_staged = std::max<size_t>(1, kDeviceStagingBytes / (2 * RowBytes(dtype, dim)));
  staging.Begin(dtype, dim);
  size_t at = 0;
  const auto upload = [&]() -> Status {
    const size_t count = staging.num_rows();
    LECTERN_RETURN_IF_ERROR(staging.Upload(stream, layer->rows, at));
    at += count;
    return {};
  };
  for (const HeadIndex& head : heads) {
    LECTERN_RETURN_IF_ERROR(ForEachStoredBlock(
        head, {0, head.num_rows()}, [&](const TypedRows& keys, const TypedRows& values) -> Status {
          staging.Add(keys, values);
          return staging.num_rows() < most_staged ? Status() : upload();
        }));
  }
  LECTERN_RETURN_IF_ERROR(upload());
  if (DeviceCodes::Has(heads) &&
      HasRoom(DeviceCodes::Bytes(heads) + DeviceLookup::MostBytes(heads) + kDeviceStagingBytes)) {
    auto codes = DeviceCodes::Bring(heads, backend_, stream);
    if (codes.ok()) {
      layer->codes = std::move(codes).value();
    } else if (codes.status().code() != Code::kOutOfMemory) {
      return std::move(codes).status();
    }
  }
  return layer;
}

// Under the limit's lock: shares are given back without it.
void DeviceDocument::DropUnused() {
  const std::lock_guard lock(mutex_);
  for (Slot& slot : slots_) {
    if (slot.num_users == 0) slot.layer.reset();
  }
}

}  // namespace lectern
