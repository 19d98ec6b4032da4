#include "engine/gpu/resident_document.h"

#include <algorithm>
#include <chrono>

#include "engine/gpu/memory_plan.h"

namespace lectern {
namespace {

// Fewer rows are hardly found again.
constexpr uint64_t kLeastCacheRows = 256;

// For who attends by the cache, where another wants its memory.
constexpr std::chrono::milliseconds kLongestWait{200};

}  // namespace

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
    // Wakes the threads that wait, whatever happens, also if the host has no memory
    // (std::bad_alloc).
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
                                                     DeviceStream& stream, KvStaging& staging,
                                                     Reads reads) {
  LECTERN_RETURN_IF_ERROR(Measure());
  return UseSlot<Layer>(layers_[layer], [&]() -> Result<std::unique_ptr<const Layer>> {
    if (!HasRoomForRows(layer, reads)) return Status(Code::kOutOfMemory, "there is no room");
    return BringRows(heads, stream, staging);
  });
}

bool DeviceDocument::HasRoomForRows(uint32_t layer, Reads reads) {
  const std::lock_guard lock(mutex_);
  const uint64_t rows = sizes_->rows[layer], others = MissingCodes() + room_for_asking_;
  if (plan_ == Plan::kNone && HasRoom(MissingRows(/*only_windowed=*/false) + others)) {
    plan_ = Plan::kWhole;
  }
  if (plan_ == Plan::kWhole) return HasRoom(rows + MissingCodes() - sizes_->lookup);
  if (reads == Reads::kSome) return false;
  const bool is_windowed = document_->is_windowed(layer);
  if (is_windowed && plan_ == Plan::kCache) return HasRoom(rows);
  return HasRoom(MissingRows(/*only_windowed=*/true) + (is_windowed ? 0 : rows) + others);
}

bool DeviceDocument::HasRoomForCodes(uint32_t layer) const {
  const std::lock_guard lock(mutex_);
  const uint64_t others = plan_ == Plan::kNone ? sizes_->lookup + room_for_asking_ : 0;
  return HasRoom(sizes_->codes[layer] + others);
}

Result<DeviceDocument::CodesUse> DeviceDocument::UseCodes(uint32_t layer,
                                                          std::span<const HeadIndex> heads,
                                                          DeviceStream& stream,
                                                          KvStaging& staging) {
  if (!DeviceCodes::Has(heads)) return CodesUse();
  LECTERN_RETURN_IF_ERROR(Measure());
  return UseSlot<DeviceCodes>(codes_[layer], [&]() -> Result<std::unique_ptr<const DeviceCodes>> {
    if (!HasRoomForCodes(layer)) return Status(Code::kOutOfMemory, "there is no room");
    auto codes = DeviceCodes::Bring(heads, backend_, stream, &staging);
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

Status DeviceDocument::Measure() {
  {
    const std::lock_guard lock(mutex_);
    if (sizes_) return {};
  }
  Sizes sizes;
  sizes.row = 2 * RowBytes(document_->kv_dtype(), document_->shape().head_dim);
  for (uint32_t layer = 0; layer < document_->num_layers(); ++layer) {
    LECTERN_ASSIGN(const std::span<const HeadIndex> heads, document_->Heads(layer));
    uint64_t num_rows = 0;
    for (const HeadIndex& head : heads) num_rows += head.num_rows();
    sizes.rows.push_back(num_rows * (sizes.row + sizeof(uint32_t)));  // and positions
    sizes.num_rows.push_back(num_rows);
    const bool has_codes = DeviceCodes::Has(heads);
    sizes.codes.push_back(has_codes ? DeviceCodes::Bytes(heads) : 0);
    if (has_codes) sizes.lookup = std::max(sizes.lookup, DeviceLookup::MostBytes(heads));
  }
  const std::lock_guard lock(mutex_);
  if (!sizes_) sizes_ = std::move(sizes);
  return {};
}

uint64_t DeviceDocument::MissingCodes() const {
  uint64_t bytes = sizes_->lookup;
  for (size_t layer = 0; layer < codes_.size(); ++layer) {
    const bool is_missing = codes_[layer].item == nullptr && !codes_[layer].is_refused;
    bytes += is_missing ? sizes_->codes[layer] : 0;
  }
  return bytes;
}

uint64_t DeviceDocument::MissingRows(bool only_windowed) const {
  uint64_t bytes = 0;
  for (uint32_t layer = 0; layer < layers_.size(); ++layer) {
    const bool is_missing =
        layers_[layer].item == nullptr && (!only_windowed || document_->is_windowed(layer));
    bytes += is_missing ? sizes_->rows[layer] : 0;
  }
  return bytes;
}

Result<DeviceDocument::CacheUse> DeviceDocument::UseCache(DeviceStream& stream) {
  LECTERN_RETURN_IF_ERROR(Measure());
  {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return !is_cache_used_ && !is_cache_wanted_; });
    if (cache_ == nullptr && is_cache_refused_) return CacheUse();
    is_cache_used_ = true;
    cache_user_ = std::this_thread::get_id();
  }
  CacheUse use(this);
  if (cache_ == nullptr) {
    const Status status = TakeCache(stream);
    if (!status.ok() && status.code() != Code::kOutOfMemory) return status;
  }
  return use;
}

// Windowed layers always stay, so that they neither make room nor are cached.
uint64_t DeviceDocument::RoomForCache(uint64_t& num_rows) {
  const std::lock_guard lock(mutex_);
  const uint64_t others = MissingCodes() + MissingRows(/*only_windowed=*/true) + room_for_asking_;
  const auto room = [&]() -> uint64_t {
    const RamLimit& memory = *device_->memory();
    const uint64_t taken = memory.reserved() + others;
    return memory.bytes() - std::min(memory.bytes(), taken);
  };
  const auto may_go = [&](uint32_t layer) {
    const Slot<Layer>& slot = layers_[layer];
    return slot.item != nullptr && slot.num_users == 0 && !document_->is_windowed(layer);
  };
  uint64_t staying = 0;
  for (uint32_t layer = 0; layer < layers_.size(); ++layer) {
    staying += may_go(layer) ? sizes_->rows[layer] : 0;
  }
  const uint64_t half = (room() + staying) / 2;
  for (auto layer = static_cast<uint32_t>(layers_.size()); layer-- > 0 && room() < half;) {
    if (may_go(layer)) layers_[layer].item.reset();
  }
  num_rows = 0;
  for (uint32_t layer = 0; layer < layers_.size(); ++layer) {
    const bool is_cached = layers_[layer].item == nullptr && !document_->is_windowed(layer);
    num_rows += is_cached ? sizes_->num_rows[layer] : 0;
  }
  return room() >> std::min(num_given_back_, 63u);
}

Status DeviceDocument::TakeCache(DeviceStream& stream) {
  uint64_t num_rows = 0;
  const uint64_t room = RoomForCache(num_rows) / sizes_->row;  // in rows
  auto taken = [&]() -> Result<std::unique_ptr<Cache>> {
    Status status(Code::kOutOfMemory, "there is no room");
    // Less than the limit allows may be free.
    for (uint64_t num_slots = std::min({room, num_rows, uint64_t{RowSlots::kNone}});
         num_slots >= kLeastCacheRows; num_slots /= 2) {
      auto cache =
          std::make_unique<Cache>(document_->num_layers(), static_cast<uint32_t>(num_slots));
      if (document_->ram() != nullptr) {
        LECTERN_ASSIGN(cache->host_memory,
                       document_->ram()->Reserve(RowSlots::Bytes(num_rows, num_slots), "a cache",
                                                 "give less device_memory"));
      }
      status = cache->rows.Reserve(stream, document_->kv_dtype(), document_->shape().head_dim,
                                   num_slots, "a cache of rows");
      if (status.ok()) return cache;
      if (status.code() != Code::kOutOfMemory) break;
    }
    return status;
  }();
  const std::lock_guard lock(mutex_);
  if (taken.ok()) {
    cache_ = std::move(taken).value();
    plan_ = Plan::kCache;
    return {};
  }
  is_cache_refused_ = room >= kLeastCacheRows;  // less is found quickly
  return std::move(taken).status();
}

void DeviceDocument::LeaveCache() {
  const std::lock_guard lock(mutex_);
  is_cache_used_ = false;
  arrived_.notify_all();
}

void DeviceDocument::DropCache() {
  const std::lock_guard lock(mutex_);
  cache_.reset();
  plan_ = Plan::kNone;
  ++num_given_back_;
}

void DeviceDocument::CountRows(uint64_t hits, uint64_t misses) {
  const std::lock_guard lock(mutex_);
  stats_.hits += hits;
  stats_.misses += misses;
}

DeviceDocument::CacheStats DeviceDocument::cache_stats() const {
  const std::lock_guard lock(mutex_);
  CacheStats stats = stats_;
  stats.num_slots = cache_ != nullptr ? cache_->slots.num_slots() : 0;
  return stats;
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
  staging.Begin(layer->rows, 0);
  for (const HeadIndex& head : heads) {
    LECTERN_RETURN_IF_ERROR(ForEachStoredBlock(head, {0, head.num_rows()},
                                               [&](const TypedRows& keys, const TypedRows& values) {
                                                 return staging.Add(stream, keys, values);
                                               }));
  }
  LECTERN_RETURN_IF_ERROR(staging.End(stream));
  LECTERN_RETURN_IF_ERROR(stream.Wait());
  return std::unique_ptr<const Layer>(std::move(layer));
}

// The limit's lock is held here; giving back a share does not take it.
void DeviceDocument::DropUnused() {
  std::unique_lock lock(mutex_);
  const auto drop = [](auto& slots) {
    for (auto& slot : slots) {
      if (slot.num_users > 0) continue;
      slot.item.reset();
      slot.is_refused = false;
    }
  };
  drop(layers_);
  drop(codes_);
  is_cache_refused_ = false;
  if (!WaitForCache(lock)) return;
  cache_.reset();
  plan_ = Plan::kNone;
}

// Until nobody uses it, which is soon; but who uses it may wait for the limit's lock, or be this
// thread: false then.
bool DeviceDocument::WaitForCache(std::unique_lock<std::mutex>& lock) {
  if (is_cache_used_ && cache_user_ == std::this_thread::get_id()) return false;
  is_cache_wanted_ = true;
  const bool is_free = arrived_.wait_for(lock, kLongestWait, [this] { return !is_cache_used_; });
  is_cache_wanted_ = false;
  arrived_.notify_all();
  return is_free;
}

}  // namespace lectern
