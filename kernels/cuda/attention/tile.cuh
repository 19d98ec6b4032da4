// Tiles of 16-bit rows in shared memory, and products of two of them on tensor cores.
//
// A row has kHeadDim elements, in chunks of 16 bytes. Chunk c of row r lies where chunk c ^ (r % 8)
// would: eight rows' chunks of one number, what ldmatrix reads at a time, are then in eight
// different sixteenths of 128 bytes and meet no bank twice (rows are multiples of 128 bytes, so
// that without it they would all lie in the same four banks); eight neighbouring chunks of a row,
// what a quarter of a warp writes at a time, stay within one 128-byte line, each bank once.
#ifndef LECTERN_KERNELS_CUDA_ATTENTION_TILE_CUH_
#define LECTERN_KERNELS_CUDA_ATTENTION_TILE_CUH_

#include <type_traits>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/tile_geometry.h"
#include "kernels/cuda/runtime/kernels.h"
#include "kernels/cuda/runtime/primitives.cuh"

namespace lectern {

constexpr uint32_t kChunk = 8;  // elements of 16 bytes

// Bytes from a tile's begin to chunk `chunk` of row `row`.
template <uint32_t kHeadDim>
__device__ __forceinline__ uint32_t TileOffset(uint32_t row, uint32_t chunk) {
  static_assert(kHeadDim % 64 == 0, "the swizzle needs rows of whole 128 bytes");
  return row * kHeadDim * 2 + (chunk ^ (row & 7)) * 16;
}

// Starts copies of kRows rows: row_at(r) is where row r begins, nullptr: zeros. Columns from
// head_dim on are zeros. `any`: some address of the device's memory, as a copy of nothing has one.
template <uint32_t kHeadDim, uint32_t kRows, typename RowAt>
__device__ __forceinline__ void CopyRows(unsigned char* tile, uint32_t head_dim, const void* any,
                                         const RowAt& row_at) {
  constexpr uint32_t kChunks = kHeadDim / kChunk, kRowsPerPass = kTileThreads / kChunks;
  const uint32_t chunk = threadIdx.x % kChunks;
  const bool is_column = chunk * kChunk < head_dim;
#pragma unroll
  for (uint32_t pass = 0; pass < kRows / kRowsPerPass; ++pass) {
    const uint32_t row = pass * kRowsPerPass + threadIdx.x / kChunks;
    const unsigned char* const from = static_cast<const unsigned char*>(row_at(row));
    const bool is_read = is_column && from != nullptr;
    CopyAsync16(tile + TileOffset<kHeadDim>(row, chunk), is_read ? from + 16 * chunk : any,
                is_read ? 16 : 0);
  }
}

// Where the rows of a tile of keys are is read from a list, all at once: a warp copies sixteen of
// them, pass after pass, and its lanes hold one of these each, lanes 16 … as lanes 0 ….
constexpr uint32_t kNoRow = 0xFFFFFFFFu;
constexpr uint32_t kWarpRows = kTileKeys / (kTileThreads / kWarpSize);
template <uint32_t kHeadDim>
struct HeldRows {
  static constexpr uint32_t kOfPass = kWarpSize / (kHeadDim / kChunk);  // rows of a warp
  static constexpr uint32_t kPasses = kWarpRows / kOfPass;
  static constexpr uint32_t kRowsPerPass = kTileKeys / kPasses;
  // OfLane is the row of the tile that the lane holds; the other is the row that this thread copies
  // in a pass.
  static __device__ __forceinline__ uint32_t OfLane() {
    const uint32_t held = threadIdx.x % kWarpRows;
    return held / kOfPass * kRowsPerPass + threadIdx.x / kWarpSize * kOfPass + held % kOfPass;
  }
  static __device__ __forceinline__ uint32_t OfPass(uint32_t pass) {
    return pass * kRowsPerPass + threadIdx.x / (kHeadDim / kChunk);
  }
  // Where the latter is, by what the lanes hold. Whole warps come here.
  static __device__ __forceinline__ uint32_t Held(uint32_t held, uint32_t pass) {
    const uint32_t lane = threadIdx.x % kWarpSize / (kHeadDim / kChunk);
    return __shfl_sync(kAllLanes, held, static_cast<int>(pass * kOfPass + lane));
  }
};

// Starts copies of a tile of keys of 16-bit elements, row `held` of `rows` for the row that a lane
// holds; kNoRow: zeros, as columns from head_dim on are. A copy of nothing has the address of a
// row.
template <uint32_t kHeadDim>
__device__ __forceinline__ void CopyHeldRows(unsigned char* tile, uint32_t head_dim,
                                             const void* rows, uint32_t held) {
  using Rows = HeldRows<kHeadDim>;
  const uint32_t chunk = threadIdx.x % (kHeadDim / kChunk);
  const bool is_column = chunk * kChunk < head_dim;
  const auto* const column = static_cast<const uint16_t*>(rows) + (is_column ? chunk * kChunk : 0);
  uint32_t at[Rows::kPasses];
#pragma unroll
  for (uint32_t pass = 0; pass < Rows::kPasses; ++pass) at[pass] = Rows::Held(held, pass);
#pragma unroll
  for (uint32_t pass = 0; pass < Rows::kPasses; ++pass) {
    const bool is_read = is_column && at[pass] != kNoRow;
    CopyAsync16(tile + TileOffset<kHeadDim>(Rows::OfPass(pass), chunk),
                column + size_t{is_read ? at[pass] : 0} * head_dim, is_read ? 16 : 0);
  }
}

// The elements of bits [shift, shift + 16) of int8 numbers, times scale.
template <typename T>
__device__ __forceinline__ uint32_t PackQ8(uint32_t bytes, int shift, float scale) {
  const auto low = static_cast<int8_t>(bytes >> shift & 0xFF);
  const auto high = static_cast<int8_t>(bytes >> (shift + 8) & 0xFF);
  return Pack<T>(scale * static_cast<float>(low), scale * static_cast<float>(high));
}

// As CopyHeldRows, of int8 with scales and by way of registers: half the bytes of f16 are read, and
// converted once per tile.
template <typename T, uint32_t kHeadDim>
__device__ __forceinline__ void LoadHeldQ8(unsigned char* tile, uint32_t head_dim, const void* rows,
                                           const f16* scales, uint32_t held) {
  using Rows = HeldRows<kHeadDim>;
  const uint32_t chunk = threadIdx.x % (kHeadDim / kChunk);
#pragma unroll 4
  for (uint32_t pass = 0; pass < Rows::kPasses; ++pass) {
    const uint32_t at = Rows::Held(held, pass);
    uint4 packed = {0, 0, 0, 0};
    if (at != kNoRow && chunk * kChunk < head_dim) {
      const size_t first = size_t{at} * head_dim + chunk * kChunk;
      const uint2 bytes = *reinterpret_cast<const uint2*>(static_cast<const int8_t*>(rows) + first);
      const float scale = ToFloat(scales[first / kQ8Block]);
      packed = {PackQ8<T>(bytes.x, 0, scale), PackQ8<T>(bytes.x, 16, scale),
                PackQ8<T>(bytes.y, 0, scale), PackQ8<T>(bytes.y, 16, scale)};
    }
    *reinterpret_cast<uint4*>(tile + TileOffset<kHeadDim>(Rows::OfPass(pass), chunk)) = packed;
  }
}

// Query rows [first, first + kRows) of a kv head; past the last: zeros.
template <uint32_t kHeadDim, uint32_t kRows>
__device__ __forceinline__ void CopyQueries(unsigned char* tile, const DeviceQueries& queries,
                                            uint32_t kv_head, uint32_t first) {
  const uint32_t num_rows = queries.num_tokens * queries.group;
  CopyRows<kHeadDim, kRows>(tile, queries.head_dim, queries.data, [&](uint32_t r) -> const void* {
    const uint32_t row = first + r;
    if (row >= num_rows) return nullptr;
    const size_t head = size_t{kv_head} * queries.group + row % queries.group;
    return static_cast<const uint16_t*>(queries.data) + (row / queries.group) * queries.stride +
           head * queries.head_dim;
  });
}

// s[t][n][.] += rows [row + 16 t, + 16) of tile `a` times rows [key + 8 n, + 8) of tile `b`, for t
// below kTiles: what a lane holds of a [16, 8] product (primitives.cuh).
template <typename T, uint32_t kHeadDim, uint32_t kKeys, uint32_t kTiles = 1>
__device__ __forceinline__ void TileProducts(const unsigned char* a, uint32_t row,
                                             const unsigned char* b, uint32_t key,
                                             float (*s)[kKeys / 8][4]) {
  const uint32_t lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (uint32_t step = 0; step < kHeadDim / 16; ++step) {
    uint32_t left[kTiles][4];
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
      LoadMatrices(left[t],
                   a + TileOffset<kHeadDim>(row + 16 * t + lane % 16, 2 * step + lane / 16));
    }
#pragma unroll
    for (uint32_t n = 0; n < kKeys / 16; ++n) {
      uint32_t right[4];  // keys 0 … 7, their first and second 8 columns; then keys 8 … 15
      LoadMatrices(right, b + TileOffset<kHeadDim>(key + 16 * n + lane / 16 * 8 + lane % 8,
                                                   2 * step + lane / 8 % 2));
#pragma unroll
      for (uint32_t t = 0; t < kTiles; ++t) {
        MultiplyAdd<T>(s[t][2 * n], left[t], right[0], right[1]);
        MultiplyAdd<T>(s[t][2 * n + 1], left[t], right[2], right[3]);
      }
    }
  }
}

// run(type, width) with values of the queries' element type and of the tile width (an
// std::integral_constant), from which a launch takes its kernel.
template <typename Run>
CudaStatus ForShape(const DeviceQueries& queries, const Run& run) {
  const auto of_type = [&](auto type) -> CudaStatus {
    switch (TileWidth(queries.head_dim)) {
      case 64:
        return run(type, std::integral_constant<uint32_t, 64>());
      case 128:
        return run(type, std::integral_constant<uint32_t, 128>());
      default:
        return run(type, std::integral_constant<uint32_t, 256>());
    }
  };
  return queries.dtype == Dtype::kF16 ? of_type(f16()) : of_type(bf16());
}

// Logits are kept times log2(e): exp2 is one instruction.
constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.69314718055994531f;

struct LogitScale {
  float scale, softcap;
  __device__ __forceinline__ float operator()(float product) const {
    float logit = product * scale;
    if (softcap > 0) logit = softcap * tanhf(logit / softcap);
    return logit * kLog2E;
  }
};

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ATTENTION_TILE_CUH_
