// Brings stored rows of keys and values to a device, and holds them there.
#ifndef LECTERN_ENGINE_GPU_KV_ROWS_H_
#define LECTERN_ENGINE_GPU_KV_ROWS_H_

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "engine/gpu/device.h"
#include "index/head_index.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/rows/rows.h"
#include "kernels/function_ref.h"

namespace lectern {

// Whether kernels can attend to rows of this type and width there: f16, bf16 and q8, up to 256
// numbers in multiples of 8, as far as a block has the shared memory for a question's tiles (an RTX
// 30 or 40: 128).
bool HasDeviceAttention(const Device& device, Dtype dtype, size_t head_dim);

// Keys and values as kernels read them (DeviceKv), of any number of heads. One thread at a time.
// All calls that enqueue may return errors of Device::Check.
class DeviceKvRows {
 public:
  // Room for so many rows of `head_dim` numbers; old rows may be lost. `what`: as in
  // DeviceArray::Reserve, whose errors it returns; it must then be called again before any use.
  Status Reserve(DeviceStream& stream, Dtype dtype, size_t head_dim, size_t num_rows,
                 const char* what);
  DeviceKv view() const {  // of all rows; holds until Reserve
    return {.keys = keys_.data(),
            .values = values_.data(),
            .dtype = dtype_,
            .key_scales = key_scales_.data(),
            .value_scales = value_scales_.data()};
  }
  // For kernels that store rows there.
  std::byte* keys() const { return keys_.data(); }
  std::byte* values() const { return values_.data(); }
  // Copies rows, not of q8, to those from `at` on. Enqueued: they must stay as they are until it
  // ran.
  Status Upload(DeviceStream& stream, const TypedRows& keys, const TypedRows& values,
                size_t at) const;
  // Copy: rows [first, first + count) of `from`, on the device and of the same type and width
  // (asserted), become those from `at` on; ranges must exist, which is not checked, and not overlap
  // where `from` is this object. Download: rows [first, first + count) go to the host. Not of q8
  // (asserted). Enqueued.
  Status Copy(DeviceStream& stream, const DeviceKvRows& from, size_t first, size_t count,
              size_t at) const;
  Status Download(DeviceStream& stream, size_t first, size_t count, std::byte* keys,
                  std::byte* values) const;
  // Copies rows [0, num_rows) of `from`, of the same type and width, to rows `places` (numbers on
  // the device, all different). Enqueued.
  Status Place(DeviceStream& stream, const DeviceKvRows& from, const uint32_t* places,
               size_t num_rows) const;

 private:
  friend class KvStaging;
  Dtype dtype_ = Dtype::kF16;
  size_t head_dim_ = 0;
  DeviceArray<std::byte> keys_, values_;
  DeviceArray<f16> key_scales_, value_scales_;  // of q8
};

// Holds rows on their way to a device, in memory of the host that the device copies from at full
// speed (pinned; where that cannot be had, pageable). It has two halves: one is filled while the
// device copies the other. Belongs to one stream, which must be waited for before this is
// destroyed.
class KvStaging {
 public:
  // `half_bytes`: room of each half, which must hold a row or more, and a number of Upload. Halves
  // are allocated at first use, which may throw bad_alloc.
  explicit KvStaging(size_t half_bytes = size_t{4} << 20) : half_bytes_(half_bytes) {}

  // Rows that are added from now on become those of `to` from `at` on. Borrows `to` until End;
  // rows that were added before and not enqueued (End) are dropped.
  void Begin(const DeviceKvRows& to, size_t at);
  // Rows since Begin.
  size_t num_rows() const { return num_rows_; }
  // Copies rows of the type and width that Begin's `to` has, and enqueues a half that is full. The
  // rows may be changed once it returns. Waits for a half that is still being copied. Errors of
  // Device::Check.
  Status Add(DeviceStream& stream, const TypedRows& keys, const TypedRows& values);
  // Adds some clustered rows of a head, ascending. Errors of Add, and kChecksumMismatch.
  Status AddGathered(DeviceStream& stream, const HeadIndex& head, std::span<const uint32_t> rows);
  // Enqueues the rest, if there is any. Errors of Add.
  Status End(DeviceStream& stream);
  // Copies elements to those of `to` from 0 on; enqueued, and `from` may be changed at once. Not
  // between Begin and End, as it fills the same halves. Errors of Add.
  template <typename T>
  Status Upload(DeviceStream& stream, std::span<const T> from, const DeviceArray<T>& to) {
    const size_t at_once = half_bytes_ / sizeof(T);
    for (size_t at = 0; at < from.size(); at += at_once) {
      const size_t count = std::min(at_once, from.size() - at);
      std::memcpy(Half(stream), from.data() + at, count * sizeof(T));
      LECTERN_RETURN_IF_ERROR(Turn(stream));
      LECTERN_RETURN_IF_ERROR(to.Upload(stream, reinterpret_cast<const T*>(Filled()), count, at));
    }
    return {};
  }

 private:
  // Parts of a half; scales are of q8.
  enum Part { kKeys, kValues, kKeyScales, kValueScales, kNumParts };
  std::byte* Half(DeviceStream& stream);  // the half to fill; no copy reads it
  std::byte* Filled() { return halves_[1 - current_].data(); }
  // Swaps the halves: the one that was filled is Filled() from now on, for the copy that the
  // caller enqueues next, and the other is free to be filled, for which it waits for the stream if
  // that half may still be copied. Errors of Device::Check.
  Status Turn(DeviceStream& stream);
  // Turns, and enqueues the copy of the filled half's num_filled_ rows to those of *to_ from at_
  // on; then at_ lies behind them and num_filled_ is 0. Errors of Device::Check.
  Status EnqueueRows(DeviceStream& stream);
  // Copies rows into `half` from its row `at` on: numbers to the part `data`, and with q8 the
  // scales, which are stored between them, to the part `scales`.
  void Copy(const TypedRows& rows, Part data, Part scales, size_t at, std::byte* half) const;
  size_t room() const { return rows_per_half_ - num_filled_; }

  const size_t half_bytes_;
  std::array<HostBuffer<std::byte>, 2> halves_;
  size_t current_ = 0;       // is filled
  bool is_copying_ = false;  // the other, perhaps
  const DeviceKvRows* to_ = nullptr;
  size_t at_ = 0;  // of the first row of the half
  size_t num_rows_ = 0, num_filled_ = 0, rows_per_half_ = 0;
  std::array<size_t, kNumParts> row_bytes_ = {}, offsets_ = {};
  std::vector<std::byte> keys_, values_;  // of q8, gathered
};

// Calls add(rows) with blocks of rows of a head, verified, that cover `rows`: some of its exact
// rows, then whole finest clusters, at whose borders `rows` must lie. Stops at the first error, of
// `add` or kChecksumMismatch. An empty range calls nothing.
Status ForEachStoredBlock(const HeadIndex& head, IndexRange rows,
                          FunctionRef<Status(const TypedRows& keys, const TypedRows& values)> add);

}  // namespace lectern

#endif  // LECTERN_ENGINE_GPU_KV_ROWS_H_
