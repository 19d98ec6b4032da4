// Checks, launch geometry and work items of attention.h.
#include "kernels/cuda/attention/attention.h"

#include <algorithm>
#include <cassert>

#include "kernels/cuda/attention/tile_geometry.h"
#include "kernels/cuda/runtime/checks.h"

namespace lectern {
namespace {

// Says what is wrong with keys and values for these queries; nullptr: nothing. Logits may stand in
// for the keys (the tail), and then need no keys and no scales of them.
const char* WrongKv(const DeviceKv& kv, const DeviceQueries& queries) {
  const bool has_keys = kv.logits == nullptr;
  if ((has_keys && kv.keys == nullptr) || kv.values == nullptr) return "no keys or values";
  if ((has_keys && !IsAligned(kv.keys, 16)) || !IsAligned(kv.values, 16)) {
    return "keys that are not aligned";
  }
  if (kv.dtype == Dtype::kQ8) {
    if (queries.dtype != Dtype::kF16) return "q8 with queries that are not f16";
    if (queries.head_dim % kQ8Block != 0) return "q8 of a head_dim that is no multiple of 32";
    if ((has_keys && kv.key_scales == nullptr) || kv.value_scales == nullptr) {
      return "q8 without scales";
    }
  } else if (kv.dtype != queries.dtype) {
    return "keys of another type than the queries";
  }
  if (kv.rows_per_head > 0 && kv.rows != nullptr) return "causal rows by a list";
  if (!has_keys &&
      (kv.logits_stride == 0 || kv.rows_per_head > 0 || kv.rows != nullptr || kv.bias != nullptr)) {
    return "logits without a stride, or with rows, a bias or causality";
  }
  return nullptr;
}

// So many blocks run at a time on a multiprocessor of compute capability 9.0 where heads are 128
// wide (two on 8.0, more where they are narrower), and so many rounds of them even out unequal
// ends.
constexpr uint64_t kBlocksAtOnce = 3, kRounds = 2;
uint64_t WantedBlocks(uint32_t num_multiprocessors) {
  return kRounds * kBlocksAtOnce * std::max(num_multiprocessors, 1u);
}

// Blocks that run at a time on a device, by their shared memory.
uint32_t BlocksAtOnce(const CudaDeviceInfo& device, uint32_t shared_bytes) {
  constexpr uint32_t kOfRuntime = 1 << 10;  // CUDA keeps 1 KiB of each block for itself
  const uint32_t fit = device.shared_bytes_per_block / (shared_bytes + kOfRuntime);
  return std::max(fit, 1u) * device.num_multiprocessors;
}

// Says what is wrong with the arguments of CudaAttend; nullptr: nothing.
const char* WrongAttend(const CudaAttendArgs& args) {
  if (const char* why = WrongQueries(args.queries)) return why;
  if (!(args.scale > 0) || !(args.softcap >= 0)) return "a scale that is none";
  if (args.num_sources < 1 || args.num_sources > kMostSources) return "too many sources";
  for (uint32_t i = 0; i < args.num_sources; ++i) {
    if (const char* why = WrongKv(args.sources[i], args.queries)) return why;
    if (args.sources[i].dtype != args.sources[0].dtype) return "sources of different types";
  }
  if (args.max_items > 0 && args.items == nullptr) return "no items";
  const bool has_states =
      args.states.out != nullptr && args.states.max != nullptr && args.states.sum != nullptr;
  if (args.output == nullptr && !has_states) return "no place for the result";
  if (args.output != nullptr &&
      (args.max_items != args.queries.num_kv_heads || args.num_items != nullptr)) {
    return "finished rows of more than an item for each kv head";
  }
  return nullptr;
}

}  // namespace

const char* WrongQueries(const DeviceQueries& q) {
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

CudaStatus CudaAttend(const CudaStream& stream, const CudaAttendArgs& args) {
  constexpr const char* kName = "attend";
  if (const char* why = WrongAttend(args)) return Refused(kName, why);
  const uint32_t num_rows = args.queries.num_tokens * args.queries.group;
  if (args.max_items == 0) return {};
  // Where the number of items is the device's to know, enough blocks to fill it take them in turn.
  const uint32_t shared_bytes = AttendSharedBytes(num_rows, args.queries.head_dim);
  const uint32_t at_once = BlocksAtOnce(stream.device(), shared_bytes);
  const uint32_t tile_rows = QueryTileRows(num_rows, args.queries.head_dim);
  const CudaGrid grid{
      .x = args.num_items == nullptr ? args.max_items : std::min(args.max_items, at_once),
      .y = (num_rows + tile_rows - 1) / tile_rows,
      .threads = kTileThreads,
      .shared_bytes = shared_bytes};
  if (grid.y > kMostGridY) return Refused(kName, "too many query rows");
  if (!HasShared(stream, grid)) return Refused(kName, kTooWide);
  return stream.kernels().attend(stream.handle(), grid, args);
}

CudaStatus CudaJoin(const CudaStream& stream, const CudaJoinArgs& args) {
  constexpr const char* kName = "join";
  if (args.num_lists < 1 || args.num_lists > kMostJoined) return Refused(kName, "too many lists");
  if (args.output == nullptr && args.lse == nullptr) return Refused(kName, "nothing is wanted");
  for (uint32_t l = 0; l < args.num_lists; ++l) {
    const auto& [states, item_begin] = args.lists[l];
    if (states.max == nullptr || states.sum == nullptr || item_begin == nullptr ||
        (args.output != nullptr && states.out == nullptr)) {
      return Refused(kName, "no states");
    }
  }
  if (args.dtype == Dtype::kQ8 || args.head_dim == 0 || args.head_dim > 256 || args.group == 0) {
    return Refused(kName, "rows that are none");
  }
  if (args.num_kv_heads > kMostGridY) return Refused(kName, "too many kv heads");
  const uint32_t num_rows = args.num_tokens * args.group;
  const uint32_t threads = JoinParts(num_rows) * JoinCols(args.head_dim);
  const CudaGrid grid{.x = num_rows,
                      .y = args.num_kv_heads,
                      .threads = threads,
                      .shared_bytes = (threads / 32 + threads) * uint32_t{sizeof(float)}};
  if (grid.x == 0 || grid.y == 0) return {};
  return stream.kernels().join(stream.handle(), grid, args);
}

AttentionWork CutAttention(const std::vector<AttentionRange>& ranges, uint32_t num_kv_heads,
                           uint32_t rows_per_item) {
  assert(rows_per_item > 0);
  AttentionWork work;
  work.item_begin.push_back(0);
  for (uint32_t head = 0; head < num_kv_heads; ++head) {
    for (const AttentionRange& range : ranges) {
      if (range.kv_head != head) continue;
      for (uint32_t begin = range.begin; begin < range.end;) {
        const uint32_t end = begin + std::min(rows_per_item, range.end - begin);
        work.items.push_back({head, range.source, begin, end});
        begin = end;
      }
    }
    work.item_begin.push_back(static_cast<uint32_t>(work.items.size()));
  }
  return work;
}

uint32_t AttentionRowsPerItem(uint64_t num_rows, uint64_t num_ranges, uint32_t num_query_rows,
                              uint32_t num_multiprocessors) {
  constexpr uint32_t kNarrow = 64;  // wide heads have smaller tiles: more blocks then
  const uint32_t tile_rows = QueryTileRows(num_query_rows, kNarrow);
  const uint64_t query_tiles = std::max(1u, (num_query_rows + tile_rows - 1) / tile_rows);
  // With one item more, a round of a single block would take as long as a whole round.
  const auto tiles_of = [&](uint64_t num_blocks) {
    const uint64_t blocks = std::max<uint64_t>(1, num_blocks / query_tiles);
    const uint64_t full = blocks > 2 * num_ranges ? blocks - num_ranges : (blocks + 1) / 2;
    return (num_rows + full * kTileKeys - 1) / (full * kTileKeys);
  };
  // One round where two were of few tiles. The states that an item writes weigh as much as a tile
  // of keys where there are many query rows. Both numbers are by hand, and no GPU has been measured
  // yet (tests/GPU-PENDING.md); beside the speed they change only the rounding of joined states.
  constexpr uint64_t kFewTiles = 8, kLeastTilesOfMany = 4;
  uint64_t tiles = tiles_of(WantedBlocks(num_multiprocessors) / kRounds);
  if (tiles > kFewTiles) tiles = tiles_of(WantedBlocks(num_multiprocessors));
  const uint64_t least = num_query_rows <= kFewRows ? 1 : kLeastTilesOfMany;
  return static_cast<uint32_t>(std::clamp<uint64_t>(tiles, least, 1 << 20)) * kTileKeys;
}

uint64_t MostAttentionItems(uint32_t num_multiprocessors) {
  return WantedBlocks(num_multiprocessors);
}

uint64_t MostAttentionStates(uint32_t num_multiprocessors) {
  return WantedBlocks(num_multiprocessors) * kMostRows;
}

}  // namespace lectern
