// The sizes of tiles, on which host and device code agree.
#ifndef LECTERN_KERNELS_CUDA_ATTENTION_TILE_GEOMETRY_H_
#define LECTERN_KERNELS_CUDA_ATTENTION_TILE_GEOMETRY_H_

#include <cstdint>

namespace lectern {

// A tile of keys, and the query rows that meet it. By hand; no GPU has been measured yet
// (tests/GPU-PENDING.md). Kernels are written for these sizes.
constexpr uint32_t kTileThreads = 128;  // four warps
constexpr uint32_t kTileKeys = 64;
constexpr uint32_t kFewRows = 16;    // query rows of a tile: of a token's group,
constexpr uint32_t kManyRows = 64;   // of a question or a document,
constexpr uint32_t kMostRows = 128;  // of a long one where attention's rows are not too wide

// Kernels are made for these widths; others run as the next one, with columns of zeros.
constexpr uint32_t TileWidth(uint32_t head_dim) {
  return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
}
// Bytes of shared memory of a tile of 16-bit rows.
constexpr uint32_t TileBytes(uint32_t num_rows, uint32_t head_dim) {
  return num_rows * TileWidth(head_dim) * 2;
}
// Rows of a tile of queries, for so many query rows.
constexpr uint32_t QueryTileRows(uint32_t num_rows, uint32_t head_dim) {
  if (num_rows <= kFewRows) return kFewRows;
  return num_rows <= kManyRows || TileWidth(head_dim) > 128 ? kManyRows : kMostRows;
}

// Attention: queries, two stages of keys and of values.
constexpr uint32_t AttendSharedBytes(uint32_t num_query_rows, uint32_t head_dim) {
  return TileBytes(QueryTileRows(num_query_rows, head_dim), head_dim) +
         4 * TileBytes(kTileKeys, head_dim);
}

// The join: threads of a part of a block, which go along a head; and how many parts there are.
constexpr uint32_t JoinCols(uint32_t head_dim) { return (head_dim + 31) / 32 * 32; }
constexpr uint32_t JoinParts(uint32_t num_query_rows) { return num_query_rows <= kFewRows ? 4 : 1; }

// key_squares: where the tiles of each kv head begin is in shared memory, 4 KiB of it for the most
// heads. Models have far fewer.
constexpr uint32_t kMostSquaresHeads = 1024;

constexpr uint32_t kCutThreads = 256;  // of the block that cuts items, by hand

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ATTENTION_TILE_GEOMETRY_H_
