#include "kernels/cuda/attention/tile.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace lectern {
namespace {

// The part of 16 of a warp's query rows that a lane holds: rows lane / 4 and lane / 4 + 8, and two
// of every 8 columns.
template <uint32_t kHeadDim>
struct RowState {
  float out[kHeadDim / 8][4];
  float max[2];  // times log2(e)
  float sum[2];  // of this lane's columns only, until the end
  __device__ __forceinline__ void Reset() {
#pragma unroll
    for (uint32_t n = 0; n < kHeadDim / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[n][i] = 0;
    }
    max[0] = max[1] = NegativeInfinity();
    sum[0] = sum[1] = 0;
  }
};

// A block has four warps: kRowWarps of them share the query rows, kRowTiles times 16 each, and what
// is left of the four divides a tile's keys. Keys and values that a warp loads from shared memory
// serve all of its rows.
template <typename T, uint32_t kHeadDim, uint32_t kRowWarps, uint32_t kRowTiles, bool kIsQ8>
class Attention {
 public:
  static constexpr uint32_t kWarpQueryRows = 16 * kRowTiles, kRows = kWarpQueryRows * kRowWarps;
  static constexpr uint32_t kKeyWarps = 4 / kRowWarps;
  static constexpr uint32_t kWarpKeys = kTileKeys / kKeyWarps;
  // So many at a time: their weights with all of a warp's rows are in registers.
  static constexpr uint32_t kStepKeys = kRowTiles == 1 ? kWarpKeys : kWarpKeys / 2;
  static constexpr uint32_t kKeyTileBytes = kTileKeys * kHeadDim * 2;
  static constexpr uint32_t kQueryTileBytes = kRows * kHeadDim * 2;

  __device__ Attention(const CudaAttendArgs& args, uint32_t index)
      : args_(args),
        item_(args.items[index]),
        kv_(args.sources[item_.source]),
        first_position_(kv_.first_position + (kv_.step != nullptr ? *kv_.step : 0)),
        index_(index),
        // The last rows of a causal block see most: they begin first.
        first_row_((gridDim.y - 1 - blockIdx.y) * kRows),
        num_rows_(args.queries.num_tokens * args.queries.group),
        lane_(threadIdx.x % kWarpSize),
        warp_(threadIdx.x / kWarpSize),
        warp_row_(warp_ % kRowWarps * kWarpQueryRows),
        warp_key_(warp_ / kRowWarps * kWarpKeys) {}

  __device__ void Run() {
    FindKeys();
    next_row_ = FindRow(begin_);
    queries_ = SharedMemory();
    stages_ = queries_ + kQueryTileBytes;
    for (State& state : states_) state.Reset();
    CopyQueries<kHeadDim, kRows>(queries_, args_.queries, item_.kv_head, first_row_);
    if (begin_ < end_) LoadTile(begin_, 0);
    CommitCopies();
    uint32_t stage = 0;
    for (uint32_t key = begin_; key < end_; key += kTileKeys, stage ^= 1) {
      if (key + kTileKeys < end_) LoadTile(key + kTileKeys, stage ^ 1);
      CommitCopies();   // a group each time, even if empty, so that one is left under way
      WaitCopies<1>();  // this tile's own copies are here,
      __syncthreads();  // and everyone else's
      const bool is_plain = IsPlain(key);
#pragma unroll 1
      for (uint32_t step = 0; step < kWarpKeys; step += kStepKeys) {
        Attend(key, warp_key_ + step, is_plain, Keys(stage), Values(stage));
      }
      __syncthreads();  // all have read the stage that the next round writes
    }
    WaitCopies<0>();  // of queries, where there was no tile
    __syncthreads();
    SumLanes();
    if (kKeyWarps > 1) {
      JoinWarps();
    } else {
      Store();
    }
    __syncthreads();  // another item may write shared memory next
  }

 private:
  using State = RowState<kHeadDim>;
  using Products = float[kStepKeys / 8][4];  // of 16 rows

  __device__ __forceinline__ unsigned char* Keys(uint32_t stage) const {
    return stages_ + stage * 2 * kKeyTileBytes;
  }
  __device__ __forceinline__ unsigned char* Values(uint32_t stage) const {
    return Keys(stage) + kKeyTileBytes;
  }

  // Entries that any row of the block sees.
  __device__ void FindKeys() {
    begin_ = item_.begin;
    end_ = item_.end;
    if (kv_.rows_per_head == 0) return;
    const uint32_t head_begin = item_.kv_head * kv_.rows_per_head;
    const uint32_t last_row = min(first_row_ + kRows, num_rows_) - 1;
    const uint32_t last = first_position_ + last_row / args_.queries.group;
    end_ = min(end_, head_begin + last + 1);
    const uint32_t first = first_position_ + first_row_ / args_.queries.group;
    if (kv_.window > 0 && first >= kv_.window) {
      begin_ = max(begin_, head_begin + first + 1 - kv_.window);
    }
  }

  // The lane's row of the keys from `key` on; past the last: none, whose zeros meet no NaN with a
  // weight of 0.
  __device__ __forceinline__ uint32_t FindRow(uint32_t key) const {
    const uint32_t entry = key + HeldRows<kHeadDim>::OfLane();
    if (entry >= end_) return kNoRow;
    return kv_.rows != nullptr ? kv_.rows[entry] : entry;
  }

  // Keys and values of entries [key, key + kTileKeys), whose rows were found before: the next ones
  // are on their way while this tile is.
  __device__ void LoadTile(uint32_t key, uint32_t stage) {
    const uint32_t head_dim = args_.queries.head_dim, held = next_row_;
    next_row_ = FindRow(key + kTileKeys);
    if (kIsQ8) {
      if (kv_.logits == nullptr) {
        LoadHeldQ8<T, kHeadDim>(Keys(stage), head_dim, kv_.keys, kv_.key_scales, held);
      }
      LoadHeldQ8<T, kHeadDim>(Values(stage), head_dim, kv_.values, kv_.value_scales, held);
      return;
    }
    if (kv_.logits == nullptr) CopyHeldRows<kHeadDim>(Keys(stage), head_dim, kv_.keys, held);
    CopyHeldRows<kHeadDim>(Values(stage), head_dim, kv_.values, held);
  }

  // Entries [key + of_tile, + kStepKeys).
  __device__ void Attend(uint32_t key, uint32_t of_tile, bool is_plain, const unsigned char* keys,
                         const unsigned char* values) {
    Products s[kRowTiles] = {};
    float scale = 1;  // of logits times log2(e)
    if (kv_.logits == nullptr) {
      TileProducts<T, kHeadDim, kStepKeys, kRowTiles>(queries_, warp_row_, keys, of_tile, s);
      if (is_plain) {
        scale = args_.scale * kLog2E;
      } else {
#pragma unroll
        for (uint32_t t = 0; t < kRowTiles; ++t) {
          ToLogits(key + of_tile, warp_row_ + 16 * t, s[t]);
        }
      }
    } else {
#pragma unroll
      for (uint32_t t = 0; t < kRowTiles; ++t) {
        LoadLogits(key + of_tile, warp_row_ + 16 * t, s[t]);
      }
    }
#pragma unroll
    for (uint32_t t = 0; t < kRowTiles; ++t) Rescale(scale, s[t], states_[t]);
    AddValues(values, of_tile, s);
  }

  // Whether all rows of the block see all of a tile's entries, and logits are products times a
  // scale alone.
  __device__ __forceinline__ bool IsPlain(uint32_t key) const {
    if (args_.softcap > 0 || kv_.bias != nullptr || key + kTileKeys > end_) return false;
    if (kv_.rows_per_head == 0) return true;
    const uint32_t position = key - item_.kv_head * kv_.rows_per_head;
    const uint32_t group = args_.queries.group, last_row = min(first_row_ + kRows, num_rows_) - 1;
    const uint32_t first_token = first_position_ + first_row_ / group;
    const uint32_t last_token = first_position_ + last_row / group;
    return position + kTileKeys - 1 <= first_token &&
           (kv_.window == 0 || last_token - position < kv_.window);
  }

  // Whether row `row` of this block sees entry `entry`, which is one.
  __device__ __forceinline__ bool Sees(uint32_t row, uint32_t entry) const {
    if (kv_.rows_per_head == 0) return true;
    const uint32_t position = entry - item_.kv_head * kv_.rows_per_head;
    const uint32_t token = first_position_ + (first_row_ + row) / args_.queries.group;
    return position <= token && (kv_.window == 0 || token - position < kv_.window);
  }

  // Turns products into logits, for 16 rows from `first_row` of the block on, as below.
  __device__ void ToLogits(uint32_t key, uint32_t first_row, Products& s) const {
    const LogitScale scale{args_.scale, args_.softcap};
#pragma unroll
    for (uint32_t n = 0; n < kStepKeys / 8; ++n) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t entry = key + 8 * n + 2 * (lane_ % 4) + i % 2;
        const uint32_t row = first_row + lane_ / 4 + 8 * (i / 2);
        float logit = NegativeInfinity();
        if (entry < end_ && Sees(row, entry)) {
          logit = scale(s[n][i]);
          if (kv_.bias != nullptr) logit += kv_.bias[entry] * kLog2E;
        }
        s[n][i] = logit;
      }
    }
  }

  // Logits that were found before (DeviceKv::logits), in the place of products; -inf past the end.
  __device__ void LoadLogits(uint32_t key, uint32_t first_row, Products& s) const {
    const uint32_t entry = key + 2 * (lane_ % 4);  // of column 0 of s[0]
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t row = first_row_ + first_row + lane_ / 4 + 8 * half;
      const uint32_t count = row < num_rows_ && entry < end_ ? end_ - entry : 0;
      const float* const logits =
          kv_.logits + (size_t{item_.kv_head} * num_rows_ + row) * kv_.logits_stride +
          (entry - item_.kv_head * kv_.logits_stride);
#pragma unroll
      for (uint32_t i = 0; i < 2 * (kStepKeys / 8); ++i) {
        const uint32_t at = i / 2 * 8 + i % 2;
        s[i / 2][2 * half + i % 2] = at < count ? logits[at] * kLog2E : NegativeInfinity();
      }
    }
  }

  // Products times `scale`, which are logits times log2(e), become weights under the new maximum,
  // and what was summed before is brought to it.
  __device__ void Rescale(float scale, Products& s, State& state) {
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = NegativeInfinity();
#pragma unroll
      for (uint32_t n = 0; n < kStepKeys / 8; ++n) {
        most = fmaxf(most, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      }
      // The four lanes of a row.
      most = fmaxf(state.max[half], LaneMax<4>(most) * scale);
      // For a row that has seen nothing this may be any finite number, so that no infinities are
      // subtracted.
      const float base = most == NegativeInfinity() ? 0 : most;
      factors[half] = Exp2(state.max[half] - base);
      state.max[half] = most;
      float sum = state.sum[half] * factors[half];
#pragma unroll
      for (uint32_t n = 0; n < kStepKeys / 8; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          s[n][i] = Exp2(fmaf(s[n][i], scale, -base));
          sum += s[n][i];
        }
      }
      state.sum[half] = sum;
    }
    // After the first tiles maxima rarely change.
    if (__ballot_sync(kAllLanes, factors[0] != 1 || factors[1] != 1) == 0) return;
#pragma unroll
    for (uint32_t n = 0; n < kHeadDim / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) state.out[n][i] *= factors[i / 2];
    }
  }

  // The weights are where a product leaves them, which is where the next wants its left side.
  __device__ void AddValues(const unsigned char* values, uint32_t of_tile,
                            const Products (&s)[kRowTiles]) {
#pragma unroll
    for (uint32_t step = 0; step < kStepKeys / 16; ++step) {
      uint32_t weights[kRowTiles][4];
#pragma unroll
      for (uint32_t t = 0; t < kRowTiles; ++t) {
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
          const float* const pair = s[t][2 * step + i / 2] + 2 * (i % 2);
          weights[t][i] = Pack<T>(pair[0], pair[1]);
        }
      }
#pragma unroll
      for (uint32_t n = 0; n < kHeadDim / 16; ++n) {
        uint32_t right[4];
        LoadTransposedMatrices(
            right,
            values + TileOffset<kHeadDim>(of_tile + 16 * step + lane_ % 16, 2 * n + lane_ / 16));
#pragma unroll
        for (uint32_t t = 0; t < kRowTiles; ++t) {
          MultiplyAdd<T>(states_[t].out[2 * n], weights[t], right[0], right[1]);
          MultiplyAdd<T>(states_[t].out[2 * n + 1], weights[t], right[2], right[3]);
        }
      }
    }
  }

  __device__ __forceinline__ void SumLanes() {
#pragma unroll
    for (State& state : states_) {
      state.sum[0] = LaneSum<4>(state.sum[0]);
      state.sum[1] = LaneSum<4>(state.sum[1]);
    }
  }

  // Every warp has seen other keys of the same 16 rows. Their sums are added in the warps' order.
  __device__ void JoinWarps() {
    static_assert(kKeyWarps == 1 || kRowTiles == 1, "rows that several warps hold");
    const State& state = states_[0];
    // Over keys and values, which nobody reads any more.
    auto* const out = reinterpret_cast<float*>(stages_);   // [warps][16][kHeadDim]
    auto* const max = reinterpret_cast<float*>(queries_);  // [warps][16]
    float* const sum = max + kKeyWarps * 16;               // [warps][16]
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t row = lane_ / 4 + 8 * half;
      if (lane_ % 4 == 0) {
        max[warp_ * 16 + row] = state.max[half];
        sum[warp_ * 16 + row] = state.sum[half];
      }
#pragma unroll
      for (uint32_t n = 0; n < kHeadDim / 8; ++n) {
        *reinterpret_cast<float2*>(out + (warp_ * 16 + row) * kHeadDim + 8 * n + 2 * (lane_ % 4)) =
            float2{state.out[n][2 * half], state.out[n][2 * half + 1]};
      }
    }
    __syncthreads();
    const uint32_t head_dim = args_.queries.head_dim;
    for (uint32_t i = threadIdx.x; i < 16 * head_dim; i += kTileThreads) {
      const uint32_t row = i / head_dim, col = i % head_dim;
      if (first_row_ + row >= num_rows_) break;
      float most = NegativeInfinity();
#pragma unroll
      for (uint32_t w = 0; w < kKeyWarps; ++w) most = fmaxf(most, max[w * 16 + row]);
      const float base = most == NegativeInfinity() ? 0 : most;
      float total = 0, value = 0;
#pragma unroll
      for (uint32_t w = 0; w < kKeyWarps; ++w) {
        const float factor = exp2f(max[w * 16 + row] - base);
        total += factor * sum[w * 16 + row];
        value += factor * out[(w * 16 + row) * kHeadDim + col];
      }
      if (col == 0) StoreRow(first_row_ + row, most, total);
      StoreValue(first_row_ + row, col, value, total);
    }
  }

  // Stores this warp's rows: their states, or finished rows.
  __device__ void Store() const {
#pragma unroll
    for (uint32_t of_warp = 0; of_warp < 2 * kRowTiles; ++of_warp) {
      const State& state = states_[of_warp / 2];
      const uint32_t row = first_row_ + warp_row_ + lane_ / 4 + 8 * of_warp, half = of_warp % 2;
      if (row >= num_rows_) continue;
      if (lane_ % 4 == 0) StoreRow(row, state.max[half], state.sum[half]);
#pragma unroll
      for (uint32_t n = 0; n < kHeadDim / 8; ++n) {
#pragma unroll
        for (uint32_t i = 0; i < 2; ++i) {
          const uint32_t col = 8 * n + 2 * (lane_ % 4) + i;
          if (col < args_.queries.head_dim) {
            StoreValue(row, col, state.out[n][2 * half + i], state.sum[half]);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void StoreRow(uint32_t row, float most, float sum) const {
    if (args_.output != nullptr) {
      if (args_.lse != nullptr) {
        args_.lse[size_t{item_.kv_head} * num_rows_ + row] = most * kLn2 + logf(sum);
      }
      return;
    }
    args_.states.max[size_t{index_} * num_rows_ + row] = most * kLn2;
    args_.states.sum[size_t{index_} * num_rows_ + row] = sum;
  }
  __device__ __forceinline__ void StoreValue(uint32_t row, uint32_t col, float value,
                                             float sum) const {
    const uint32_t head_dim = args_.queries.head_dim, group = args_.queries.group;
    if (args_.output == nullptr) {
      args_.states.out[(size_t{index_} * num_rows_ + row) * head_dim + col] = value;
      return;
    }
    const size_t head = size_t{item_.kv_head} * group + row % group;
    const size_t heads = size_t{args_.queries.num_kv_heads} * group;
    static_cast<T*>(args_.output)[(row / group * heads + head) * head_dim + col] =
        FromFloat<T>(sum > 0 ? value / sum : 0);
  }

  const CudaAttendArgs& args_;
  const AttentionItem item_;
  const DeviceKv& kv_;
  const uint32_t first_position_, index_, first_row_, num_rows_, lane_, warp_, warp_row_, warp_key_;
  uint32_t begin_ = 0, end_ = 0, next_row_ = kNoRow;
  unsigned char *queries_ = nullptr, *stages_ = nullptr;
  State states_[kRowTiles];
};

// Blocks take items in turn: their number may be known to the device alone.
template <typename T, uint32_t kHeadDim, uint32_t kRowWarps, uint32_t kRowTiles, bool kIsQ8>
__global__ __launch_bounds__(kTileThreads) void AttendKernel(const CudaAttendArgs args) {
  WaitForEarlierKernels();
  const uint32_t num_items = args.num_items != nullptr ? *args.num_items : args.max_items;
  for (uint32_t item = blockIdx.x; item < num_items; item += gridDim.x) {
    Attention<T, kHeadDim, kRowWarps, kRowTiles, kIsQ8>(args, item).Run();
  }
}

// A block is one query row of one kv head. Threads go along the head, in parts that take items in
// turn, so that the many items of a token's few rows are not read one after the other.
template <typename T>
__global__ void JoinKernel(const CudaJoinArgs args) {
  WaitForEarlierKernels();
  const uint32_t row = blockIdx.x, kv_head = blockIdx.y, num_rows = args.num_tokens * args.group;
  const uint32_t cols = JoinCols(args.head_dim), num_parts = blockDim.x / cols;
  const uint32_t part = threadIdx.x / cols, col = threadIdx.x % cols;
  auto* const of_warps = reinterpret_cast<float*>(SharedMemory());  // [warps]
  float* const of_threads = of_warps + blockDim.x / kWarpSize;      // [threads]
  float most = NegativeInfinity();
  for (uint32_t l = 0; l < args.num_lists; ++l) {
    const JoinList& list = args.lists[l];
    const uint32_t end = list.item_begin[kv_head + 1];
    for (uint32_t item = list.item_begin[kv_head] + threadIdx.x; item < end; item += blockDim.x) {
      most = fmaxf(most, list.states.max[size_t{item} * num_rows + row]);
    }
  }
  most = BlockMax(most, of_warps);
  const float base = most == NegativeInfinity() ? 0 : most;
  float value = 0, sum = 0;
  for (uint32_t l = 0; l < args.num_lists; ++l) {
    const JoinList& list = args.lists[l];
    const uint32_t end = list.item_begin[kv_head + 1];
    for (uint32_t first = list.item_begin[kv_head]; first < end; first += blockDim.x) {
      const uint32_t count = min(blockDim.x, end - first);
      if (threadIdx.x < count) {
        const size_t at = size_t{first + threadIdx.x} * num_rows + row;
        of_threads[threadIdx.x] = expf(list.states.max[at] - base);
        sum += of_threads[threadIdx.x] * list.states.sum[at];
      }
      __syncthreads();
      if (args.output != nullptr && col < args.head_dim) {
        Strided<8>(
            part, count, num_parts,
            [&](uint32_t i) {
              return list.states.out[(size_t{first + i} * num_rows + row) * args.head_dim + col];
            },
            [&](uint32_t i, float x) { value += of_threads[i] * x; });
      }
      __syncthreads();
    }
  }
  sum = BlockSum(sum, of_warps);
  if (threadIdx.x == 0 && args.lse != nullptr) {
    args.lse[size_t{kv_head} * num_rows + row] = most + logf(sum);
  }
  if (args.output == nullptr) return;
  of_threads[threadIdx.x] = value;
  __syncthreads();
  if (part > 0 || col >= args.head_dim) return;
  for (uint32_t p = 1; p < num_parts; ++p) value += of_threads[p * cols + col];
  const size_t head = size_t{kv_head} * args.group + row % args.group;
  const size_t heads = size_t{args.num_kv_heads} * args.group;
  static_cast<T*>(args.output)[(row / args.group * heads + head) * args.head_dim + col] =
      FromFloat<T>(sum > 0 ? value / sum : 0);
}

}  // namespace

CudaStatus LaunchAttend(CudaStreamHandle* stream, const CudaGrid& grid,
                        const CudaAttendArgs& args) {
  return ForShape(args.queries, [&](auto type, auto width) {
    using T = decltype(type);
    constexpr uint32_t kWidth = decltype(width)::value;
    // Rows of q8 meet queries of f16 alone.
    constexpr bool kMayBeQ8 = std::is_same_v<T, f16>;
    const bool is_q8 = kMayBeQ8 && args.sources[0].dtype == Dtype::kQ8;
    const auto launch = [&](auto row_warps, auto row_tiles) {
      constexpr uint32_t kRowWarps = decltype(row_warps)::value;
      constexpr uint32_t kRowTiles = decltype(row_tiles)::value;
      return Launch(stream, grid, "attend",
                    is_q8 ? AttendKernel<T, kWidth, kRowWarps, kRowTiles, kMayBeQ8>
                          : AttendKernel<T, kWidth, kRowWarps, kRowTiles, false>,
                    args);
    };
    using One = std::integral_constant<uint32_t, 1>;
    using Four = std::integral_constant<uint32_t, 4>;
    constexpr uint32_t kMostTiles = QueryTileRows(kMostRows, kWidth) / kManyRows;
    switch (QueryTileRows(args.queries.num_tokens * args.queries.group, kWidth)) {
      case kFewRows:
        return launch(One(), One());
      case kManyRows:
        return launch(Four(), One());
      default:
        return launch(Four(), std::integral_constant<uint32_t, kMostTiles>());
    }
  });
}

CudaStatus LaunchJoin(CudaStreamHandle* stream, const CudaGrid& grid, const CudaJoinArgs& args) {
  switch (args.dtype) {
    case Dtype::kF32:
      return Launch(stream, grid, "join", JoinKernel<float>, args);
    case Dtype::kF16:
      return Launch(stream, grid, "join", JoinKernel<f16>, args);
    default:
      return Launch(stream, grid, "join", JoinKernel<bf16>, args);
  }
}

}  // namespace lectern
