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

Status DeviceKvRows::Copy(DeviceStream& stream, const DeviceKvRows& from, size_t first,
                          size_t count, size_t at) const {
  assert(dtype_ != Dtype::kQ8 && from.dtype_ == dtype_ && from.head_dim_ == head_dim_);
  const size_t row_bytes = RowBytes(dtype_, head_dim_), bytes = count * row_bytes;
  const auto copy = [&](std::byte* to, const std::byte* of) {
    return stream.Check(stream.stream().kernels().copy_on_device(
        stream.stream().handle(), to + at * row_bytes, of + first * row_bytes, bytes));
  };
  LECTERN_RETURN_IF_ERROR(copy(keys_.data(), from.keys_.data()));
  return copy(values_.data(), from.values_.data());
}

Status DeviceKvRows::Download(DeviceStream& stream, size_t first, size_t count, std::byte* keys,
                              std::byte* values) const {
  assert(dtype_ != Dtype::kQ8);
  const size_t row_bytes = RowBytes(dtype_, head_dim_);
  LECTERN_RETURN_IF_ERROR(keys_.Download(stream, keys, count * row_bytes, first * row_bytes));
  return values_.Download(stream, values, count * row_bytes, first * row_bytes);
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
                               std::shared_ptr<const Document> document, const Backend& backend,
                               uint64_t room_for_asking)
    : device_(std::move(device)),
      document_(std::move(document)),
      backend_(backend),
      room_for_asking_(room_for_asking + DeviceAttentionBytes(document_->shape().num_kv_heads,
                                                              document_->shape().head_dim,
                                                              device_->info().num_multiprocessors)),
      layers_(document_->num_layers()),
      codes_(document_->num_layers()) {
  device_->memory()->Register(this, [this] { DropUnused(); });
}

DeviceDocument::~DeviceDocument() { device_->memory()->Unregister(this); }

template <typename T, typename Bring>
Result<DeviceDocument::UseOf<T>> DeviceDocument::UseSlot(Slot<T>& slot, const Bring& bring) {
  std::unique_lock lock(mutex_);
  // Another session may bring it.
  arrived_.wait(lock, [&slot] { return !slot.is_coming; });
  if (slot.item == nullptr) {
    if (slot.is_refused) return UseOf<T>();
    // Those who wait go on whatever happens, also where the host has no memory (std::bad_alloc).
    struct Coming {
      std::unique_lock<std::mutex>& held;
      Slot<T>& of;
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
      return bring();
    }();
    if (!brought.ok()) {
      if (brought.status().code() != Code::kOutOfMemory) return std::move(brought).status();
      return UseOf<T>();
    }
    slot.item = std::move(brought).value();
    if (slot.item == nullptr) {
      slot.is_refused = true;
      return UseOf<T>();
    }
  }
  ++slot.num_users;
  return UseOf<T>(this, &slot);
}

Result<DeviceDocument::Use> DeviceDocument::UseLayer(uint32_t layer,
                                                     std::span<const HeadIndex> heads,
                                                     DeviceStream& stream, KvStaging& staging) {
  LECTERN_RETURN_IF_ERROR(Measure());
  return UseSlot<Layer>(layers_[layer], [&]() -> Result<std::unique_ptr<const Layer>> {
    if (!HasRoom(sizes_->rows[layer] + MissingCodes() + room_for_asking_)) {
      return Status(Code::kOutOfMemory, "there is no room for a layer of the document");
    }
    return BringRows(heads, stream, staging);
  });
}

Result<DeviceDocument::CodesUse> DeviceDocument::UseCodes(uint32_t layer,
                                                          std::span<const HeadIndex> heads,
                                                          DeviceStream& stream) {
  if (!DeviceCodes::Has(heads)) return CodesUse();
  LECTERN_RETURN_IF_ERROR(Measure());
  return UseSlot<DeviceCodes>(codes_[layer], [&]() -> Result<std::unique_ptr<const DeviceCodes>> {
    if (!HasRoom(sizes_->codes[layer] + sizes_->lookup + room_for_asking_)) {
      return Status(Code::kOutOfMemory, "there is no room for codes of the document");
    }
    auto codes = DeviceCodes::Bring(heads, backend_, stream);
    // Making them takes long: not again for every token.
    const bool is_refused = !codes.ok() && codes.status().code() == Code::kOutOfMemory;
    return is_refused ? std::unique_ptr<const DeviceCodes>() : std::move(codes);
  });
}

void DeviceDocument::Leave(uint32_t& num_users) {
  const std::lock_guard lock(mutex_);
  --num_users;
}

bool DeviceDocument::HasRoom(uint64_t bytes) const {
  const RamLimit& memory = *device_->memory();
  return bytes <= memory.bytes() && memory.reserved() <= memory.bytes() - bytes;
}

// Reads the clusters of all layers, once.
Status DeviceDocument::Measure() {
  {
    const std::lock_guard lock(mutex_);
    if (sizes_) return {};
  }
  Sizes sizes;
  const uint64_t row_bytes =
      2 * RowBytes(document_->kv_dtype(), document_->shape().head_dim) + sizeof(uint32_t);
  for (uint32_t layer = 0; layer < document_->num_layers(); ++layer) {
    LECTERN_ASSIGN(const std::span<const HeadIndex> heads, document_->Heads(layer));
    uint64_t num_rows = 0;
    for (const HeadIndex& head : heads) num_rows += head.num_rows();
    sizes.rows.push_back(num_rows * row_bytes);
    const bool has_codes = DeviceCodes::Has(heads);
    sizes.codes.push_back(has_codes ? DeviceCodes::Bytes(heads) : 0);
    if (has_codes) sizes.lookup = std::max(sizes.lookup, DeviceLookup::MostBytes(heads));
  }
  const std::lock_guard lock(mutex_);
  if (!sizes_) sizes_ = std::move(sizes);
  return {};
}

// And of what lookups take.
uint64_t DeviceDocument::MissingCodes() const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = sizes_->lookup;
  for (size_t layer = 0; layer < codes_.size(); ++layer) {
    const bool is_missing = codes_[layer].item == nullptr && !codes_[layer].is_refused;
    bytes += is_missing ? sizes_->codes[layer] : 0;
  }
  return bytes;
}

Result<std::unique_ptr<const DeviceDocument::Layer>> DeviceDocument::BringRows(
    std::span<const HeadIndex> heads, DeviceStream& stream, KvStaging& staging) const {
  const Dtype dtype = document_->kv_dtype();
  const size_t dim = document_->shape().head_dim;
  constexpr const char* kWhat = "a layer of the document";
  auto layer = std::make_unique<Layer>();
  std::vector<uint32_t> positions;
  for (const HeadIndex& head : heads) {
    layer->first_row.push_back(static_cast<uint32_t>(positions.size()));
    positions.insert(positions.end(), head.positions().begin(), head.positions().end());
  }
  const size_t num_rows = positions.size();
  if (num_rows > UINT32_MAX) return Status(Code::kOutOfMemory, "a layer has too many rows");
  LECTERN_RETURN_IF_ERROR(layer->rows.Reserve(stream, dtype, dim, num_rows, kWhat));
  LECTERN_RETURN_IF_ERROR(layer->positions.Reserve(stream, num_rows, kWhat));
  const WaitsForStream wait(stream);  // `positions` are read until then
  LECTERN_RETURN_IF_ERROR(layer->positions.Upload(stream, positions.data(), num_rows));
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
  return std::unique_ptr<const Layer>(std::move(layer));
}

// Under the limit's lock: shares are given back without it.
void DeviceDocument::DropUnused() {
  const std::lock_guard lock(mutex_);
  const auto drop = [](auto& slots) {
    for (auto& slot : slots) {
      if (slot.num_users > 0) continue;
      slot.item.reset();
      slot.is_refused = false;
    }
  };
  drop(layers_);
  drop(codes_);
}

}  // namespace lectern
