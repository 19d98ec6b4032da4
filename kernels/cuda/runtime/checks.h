// What launches refuse, in one place.
#ifndef LECTERN_KERNELS_CUDA_RUNTIME_CHECKS_H_
#define LECTERN_KERNELS_CUDA_RUNTIME_CHECKS_H_

#include <cstdint>

#include "kernels/cuda/runtime/device.h"

namespace lectern {

inline CudaStatus Refused(const char* name, const char* why) {
  return {CudaCode::kInvalidArgument, name, why};
}

inline bool IsAligned(const void* data, size_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}

// Rows that can be there: of a plain type, columns within the stride, aligned as their elements.
inline bool AreRows(const DeviceRows& rows) {
  if (rows.dtype == Dtype::kQ8 || rows.num_cols == 0 || rows.stride < rows.num_cols) return false;
  if (rows.num_rows == 0) return true;
  return rows.data != nullptr && IsAligned(rows.data, RowBytes(rows.dtype, 1));
}

constexpr uint32_t kMostGridY = 65535;

// What is wrong with queries; nullptr: nothing.
inline const char* WrongQueries(const DeviceQueries& q) {
  if (q.data == nullptr || !IsAligned(q.data, 16)) return "queries that are not aligned";
  if (q.dtype != Dtype::kF16 && q.dtype != Dtype::kBf16) return "queries of neither f16 nor bf16";
  if (q.num_tokens == 0 || q.group == 0 || q.num_kv_heads == 0) return "no queries";
  if (q.head_dim == 0 || q.head_dim % 8 != 0 || q.head_dim > 256) {
    return "a head_dim that is no multiple of 8 up to 256";
  }
  const uint64_t cols = uint64_t{q.num_kv_heads} * q.group * q.head_dim;
  if (q.stride < cols || q.stride % 8 != 0) return "a stride that is too small or not aligned";
  if (uint64_t{q.num_tokens} * q.group > 0x7FFFFFFF) return "too many query rows";
  return nullptr;
}

// GPUs of one generation differ in it: an A100 has 163 KiB for a block, an RTX 30 or 40 has 99.
inline bool HasShared(const CudaStream& stream, const CudaGrid& grid) {
  return grid.shared_bytes <= stream.device().shared_bytes_per_block;
}
constexpr const char* kTooWide = "a head_dim too wide for this GPU's shared memory";

// So many blocks for `count` things; false: more than a grid's x can hold.
inline bool SetBlocks(size_t count, size_t per_block, uint32_t& blocks) {
  const size_t needed = count / per_block + (count % per_block != 0);
  blocks = static_cast<uint32_t>(needed);
  return needed <= 0x7FFFFFFF;
}

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_RUNTIME_CHECKS_H_
