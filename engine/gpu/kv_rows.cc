#include "engine/gpu/kv_rows.h"

#include <cassert>

#include "kernels/cuda/attention/tile_geometry.h"

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

Status DeviceKvRows::Place(DeviceStream& stream, const DeviceKvRows& from, const uint32_t* places,
                           size_t num_rows) const {
  const bool is_q8 = dtype_ == Dtype::kQ8;
  const auto data = static_cast<uint32_t>(head_dim_ * (is_q8 ? 1 : 2));
  const auto scales = static_cast<uint32_t>(head_dim_ / kQ8Block * sizeof(f16));
  return stream.Check(CudaPlaceRows(
      stream.stream(), {.arrays = {{from.keys_.data(), keys_.data(), data},
                                   {from.values_.data(), values_.data(), data},
                                   {from.key_scales_.data(), key_scales_.data(), scales},
                                   {from.value_scales_.data(), value_scales_.data(), scales}},
                        .num_arrays = is_q8 ? 4u : 2u,
                        .places = places,
                        .num_rows = static_cast<uint32_t>(num_rows)}));
}

std::byte* KvStaging::Half(DeviceStream& stream) {
  HostBuffer<std::byte>& half = halves_[current_];
  if (half.size() == 0) half = HostBuffer<std::byte>(stream.stream(), half_bytes_);
  return half.data();
}

Status KvStaging::Turn(DeviceStream& stream) {
  if (is_copying_) LECTERN_RETURN_IF_ERROR(stream.Wait());
  is_copying_ = true;
  current_ = 1 - current_;
  return {};
}

void KvStaging::Begin(const DeviceKvRows& to, size_t at) {
  to_ = &to;
  at_ = at;
  num_rows_ = num_filled_ = 0;
  const bool is_q8 = to.dtype_ == Dtype::kQ8;
  const size_t data = to.head_dim_ * (is_q8 ? 1 : 2);
  const size_t scales = is_q8 ? to.head_dim_ / kQ8Block * sizeof(f16) : 0;
  row_bytes_ = {data, data, scales, scales};
  rows_per_half_ = half_bytes_ / (2 * (data + scales));
  for (size_t part = 1; part < kNumParts; ++part) {
    offsets_[part] = offsets_[part - 1] + rows_per_half_ * row_bytes_[part - 1];
  }
}

Status KvStaging::Add(DeviceStream& stream, const TypedRows& keys, const TypedRows& values) {
  assert(keys.dtype == to_->dtype_ && keys.num_cols == to_->head_dim_ &&
         keys.num_rows == values.num_rows);
  for (size_t begin = 0; begin < keys.num_rows;) {
    const size_t end = begin + std::min(keys.num_rows - begin, room());
    std::byte* const half = Half(stream);
    Copy(keys.Slice(begin, end), kKeys, kKeyScales, num_filled_, half);
    Copy(values.Slice(begin, end), kValues, kValueScales, num_filled_, half);
    num_filled_ += end - begin;
    num_rows_ += end - begin;
    begin = end;
    if (room() == 0) LECTERN_RETURN_IF_ERROR(EnqueueRows(stream));
  }
  return {};
}

void KvStaging::Copy(const TypedRows& rows, Part data, Part scales, size_t at,
                     std::byte* half) const {
  std::byte* to = half + offsets_[data] + at * row_bytes_[data];
  const std::byte* const end = rows.row(rows.num_rows);
  if (rows.dtype != Dtype::kQ8) {
    std::memcpy(to, rows.data, static_cast<size_t>(end - rows.data));
    return;
  }
  std::byte* to_scales = half + offsets_[scales] + at * row_bytes_[scales];
  for (const std::byte* block = rows.data; block < end; block += sizeof(f16) + kQ8Block) {
    std::memcpy(to_scales, block, sizeof(f16));
    std::memcpy(to, block + sizeof(f16), kQ8Block);
    to_scales += sizeof(f16);
    to += kQ8Block;
  }
}

Status KvStaging::AddGathered(DeviceStream& stream, const HeadIndex& head,
                              std::span<const uint32_t> rows) {
  while (!rows.empty()) {
    const size_t count = std::min(rows.size(), room());
    if (to_->dtype_ == Dtype::kQ8) {
      LECTERN_RETURN_IF_ERROR(head.GatherRows(rows.first(count), keys_, values_));
      LECTERN_RETURN_IF_ERROR(Add(stream, head.AsRows(keys_), head.AsRows(values_)));
    } else {
      std::byte* const half = Half(stream);
      LECTERN_RETURN_IF_ERROR(head.GatherRows(
          rows.first(count), half + offsets_[kKeys] + num_filled_ * row_bytes_[kKeys],
          half + offsets_[kValues] + num_filled_ * row_bytes_[kValues]));
      num_filled_ += count;
      num_rows_ += count;
      if (room() == 0) LECTERN_RETURN_IF_ERROR(EnqueueRows(stream));
    }
    rows = rows.subspan(count);
  }
  return {};
}

Status KvStaging::End(DeviceStream& stream) {
  return num_filled_ > 0 ? EnqueueRows(stream) : Status();
}

Status KvStaging::EnqueueRows(DeviceStream& stream) {
  LECTERN_RETURN_IF_ERROR(Turn(stream));
  const std::byte* const half = Filled();
  const size_t count = num_filled_, at = at_;
  at_ += count;
  num_filled_ = 0;
  const auto upload = [&](const auto& to, Part part) {
    using T = std::remove_pointer_t<decltype(to.data())>;
    const size_t row = row_bytes_[part] / sizeof(T);
    return to.Upload(stream, reinterpret_cast<const T*>(half + offsets_[part]), count * row,
                     at * row);
  };
  LECTERN_RETURN_IF_ERROR(upload(to_->keys_, kKeys));
  LECTERN_RETURN_IF_ERROR(upload(to_->values_, kValues));
  if (to_->dtype_ != Dtype::kQ8) return {};
  LECTERN_RETURN_IF_ERROR(upload(to_->key_scales_, kKeyScales));
  return upload(to_->value_scales_, kValueScales);
}

bool HasDeviceAttention(const Device& device, Dtype dtype, size_t head_dim) {
  return dtype != Dtype::kF32 && head_dim % 8 == 0 && head_dim <= 256 &&
         AttendSharedBytes(kMostRows, static_cast<uint32_t>(head_dim)) <=
             device.info().shared_bytes_per_block;
}

Status ForEachStoredBlock(const HeadIndex& head, IndexRange rows,
                          FunctionRef<Status(const TypedRows& keys, const TypedRows& values)> add) {
  const IndexRange exact = {0, head.num_exact()};
  if (rows.begin < exact.end && rows.size() > 0) {
    const uint32_t end = std::min(rows.end, exact.end);
    LECTERN_RETURN_IF_ERROR(head.VerifyRows(exact));
    LECTERN_RETURN_IF_ERROR(
        add(head.Keys(exact).Slice(rows.begin, end), head.Values(exact).Slice(rows.begin, end)));
    rows.begin = end;
  }
  if (rows.size() == 0) return {};
  LECTERN_RETURN_IF_ERROR(head.VerifyRows(rows));
  Status status;
  head.ForEachBlock(rows, [&](IndexRange block) {
    if (status.ok()) status = add(head.Keys(block), head.Values(block));
  });
  return status;
}

}  // namespace lectern
