#include "kernels/cuda/attention/key_squares.h"

#include "kernels/cuda/attention/tile.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace lectern {
namespace {

// Where the entries and the tiles of each head begin; [heads + 1] each, of shared memory.
struct HeadTiles {
  uint32_t *entries, *tiles;
  // By all threads, with [warps] of shared memory.
  __device__ void Find(const uint32_t* counts, uint32_t num_heads, uint32_t* of_warps) {
    uint32_t num_entries = 0, num_tiles = 0;
    for (uint32_t first = 0; first < num_heads; first += kTileThreads) {
      const uint32_t head = first + threadIdx.x;
      const uint32_t count = head < num_heads ? counts[head] : 0;
      uint32_t all_entries = 0, all_tiles = 0;
      const uint32_t entry = num_entries + BlockScan(count, of_warps, all_entries);
      const uint32_t tile =
          num_tiles + BlockScan((count + kTileKeys - 1) / kTileKeys, of_warps, all_tiles);
      if (head < num_heads) {
        entries[head] = entry;
        tiles[head] = tile;
      }
      num_entries += all_entries;
      num_tiles += all_tiles;
    }
    if (threadIdx.x == 0) {
      entries[num_heads] = num_entries;
      tiles[num_heads] = num_tiles;
    }
    __syncthreads();
  }
  // Finds the head of a tile, among those that have rows.
  __device__ __forceinline__ uint32_t HeadOf(uint32_t tile, uint32_t num_heads) const {
    uint32_t head = 0;
    for (uint32_t end = num_heads; end - head > 1;) {
      const uint32_t middle = head + (end - head) / 2;
      (tiles[middle] <= tile ? head : end) = middle;
    }
    return head;
  }
};

// Over the lanes of a column, of a product's 8 rows each.
__device__ __forceinline__ float ColumnSum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 4);
  x += __shfl_xor_sync(kAllLanes, x, 8);
  return x + __shfl_xor_sync(kAllLanes, x, 16);
}

__device__ __forceinline__ void AddUnits(uint64_t* to, float x) {
  const auto units = static_cast<unsigned long long>(kSquareUnits * x + 0.5);
  if (units > 0) atomicAdd(reinterpret_cast<unsigned long long*>(to), units);
}

// Blocks take tiles of keys in turn; a warp has a quarter of one.
template <typename T, uint32_t kHeadDim, bool kIsQ8>
__global__ __launch_bounds__(kTileThreads) void KeySquaresKernel(const CudaKeySquaresArgs args) {
  WaitForEarlierKernels();
  constexpr uint32_t kWarpKeys = kTileKeys / 4;
  const DeviceQueries& q = args.queries;
  const DeviceKv& source = args.source;
  const uint32_t num_rows = q.num_tokens * q.group;
  const uint32_t lse_stride = args.lse_stride > 0 ? args.lse_stride : num_rows;
  const uint32_t lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  unsigned char* const queries = SharedMemory();
  unsigned char* const keys = queries + kFewRows * kHeadDim * 2;
  auto* const of_warps = reinterpret_cast<uint32_t*>(keys + kTileKeys * kHeadDim * 2);
  HeadTiles heads = {of_warps + kTileThreads / kWarpSize,
                     of_warps + kTileThreads / kWarpSize + q.num_kv_heads + 1};
  heads.Find(args.counts, q.num_kv_heads, of_warps);
  const LogitScale scale{args.scale, args.softcap};
  const uint32_t num_tiles = heads.tiles[q.num_kv_heads];
  for (uint32_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    const uint32_t head = heads.HeadOf(tile, q.num_kv_heads);
    const uint32_t first = heads.entries[head] + (tile - heads.tiles[head]) * kTileKeys;
    const uint32_t end = heads.entries[head + 1];
    const auto row_of = [&](uint32_t entry) {
      return source.rows != nullptr ? source.rows[entry] : entry;
    };
    const uint32_t of_lane = first + HeldRows<kHeadDim>::OfLane();
    const uint32_t held = of_lane < end ? row_of(of_lane) : kNoRow;
    if (kIsQ8) {
      LoadHeldQ8<T, kHeadDim>(keys, q.head_dim, source.keys, source.key_scales, held);
    } else {
      CopyHeldRows<kHeadDim>(keys, q.head_dim, source.keys, held);
    }
    float masses[kWarpKeys / 8][2] = {}, squares[kWarpKeys / 8][2] = {};  // of this lane's columns
    for (uint32_t first_row = 0; first_row < num_rows; first_row += kFewRows) {
      CopyQueries<kHeadDim, kFewRows>(queries, q, head, first_row);
      CommitCopies();
      WaitCopies<0>();
      __syncthreads();
      float s[kWarpKeys / 8][4] = {};
      TileProducts<T, kHeadDim, kWarpKeys>(queries, 0, keys, warp * kWarpKeys, &s);
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t row = first_row + lane / 4 + 8 * half;
        if (row >= num_rows) continue;
        const float lse = args.lse[size_t{head} * lse_stride + row] * kLog2E;
        if (!(lse > NegativeInfinity())) continue;
#pragma unroll
        for (uint32_t n = 0; n < kWarpKeys / 8; ++n) {
#pragma unroll
          for (uint32_t i = 0; i < 2; ++i) {
            const float mass = exp2f(fminf(scale(s[n][2 * half + i]) - lse, kLog2E));
            masses[n][i] += mass;
            squares[n][i] += mass * mass;
          }
        }
      }
      __syncthreads();  // all have read what is written next
    }
#pragma unroll
    for (uint32_t n = 0; n < kWarpKeys / 8; ++n) {
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) {
        const float mass = ColumnSum(masses[n][i]), square = ColumnSum(squares[n][i]);
        const uint32_t entry = first + warp * kWarpKeys + 8 * n + 2 * lane + i;
        if (lane >= 4 || entry >= end) continue;
        const uint32_t position = args.positions[row_of(entry)];
        if (args.squares != nullptr && square >= args.least) {
          AddUnits(args.squares + position, square);
        }
        if (args.masses != nullptr) AddUnits(args.masses + position, mass);
      }
    }
  }
}

}  // namespace

CudaStatus LaunchKeySquares(CudaStreamHandle* stream, const CudaGrid& grid,
                            const CudaKeySquaresArgs& args) {
  return ForShape(args.queries, [&](auto type, auto width) {
    using T = decltype(type);
    constexpr uint32_t kWidth = decltype(width)::value;
    // Keys of q8 meet queries of f16 alone.
    constexpr bool kMayBeQ8 = std::is_same_v<T, f16>;
    return Launch(stream, grid, "key_squares",
                  kMayBeQ8 && args.source.dtype == Dtype::kQ8
                      ? KeySquaresKernel<T, kWidth, kMayBeQ8>
                      : KeySquaresKernel<T, kWidth, false>,
                  args);
  });
}

}  // namespace lectern
