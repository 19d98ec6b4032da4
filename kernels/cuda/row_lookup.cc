// Checks and launch geometry of row_lookup.h.
#include "kernels/cuda/row_lookup.h"

#include <algorithm>

#include "kernels/cuda/checks.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/row_lookup_geometry.h"
#include "kernels/cuda/tile_geometry.h"

namespace lectern {
namespace {

constexpr const char* kName = "row_lookup";

// The parts of the scratch memory, into `pass`; how many floats they are.
size_t SetScratch(const DeviceRowCodes& codes, uint32_t num_queries, CudaRowLookupPass& pass) {
  pass.num_queries = num_queries;
  pass.num_tiles = (codes.most_rows + kRowTile - 1) / kRowTile;
  const size_t heads = codes.num_kv_heads, queries = heads * num_queries;
  const size_t tiles = heads * pass.num_tiles;
  size_t used = 0;
  const auto take = [&](auto*& part, size_t size) {  // each aligned to 16 bytes
    part = reinterpret_cast<std::remove_reference_t<decltype(part)>>(pass.lookup.scratch + used);
    used += (size * sizeof(*part) + 15) / 16 * 4;
  };
  take(pass.counts, size_t{2} * kRowDigits * kRowDigitValues);
  take(pass.counters, heads * kRowHeadCounters + 1);
  pass.num_counts = static_cast<uint32_t>(used);
  take(pass.cut, 1);
  take(pass.heads, heads);
  take(pass.refined_counts, heads);
  take(pass.tables, queries * codes.plane_bytes * 32);
  take(pass.scales, queries * 2);
  take(pass.centroid_logits, queries * codes.most_clusters);
  take(pass.logits, tiles * num_queries * kRowTile);
  take(pass.tile_max, tiles * num_queries);
  take(pass.tile_sum, tiles * num_queries);
  take(pass.scores, tiles * kRowTile);
  take(pass.refined_rows, tiles * kRowTile);
  take(pass.refined_scores, tiles * kRowTile);
  take(pass.above, tiles);
  take(pass.equal, tiles);
  return used;
}

const char* Wrong(const CudaRowLookupArgs& args) {
  const DeviceRowCodes& codes = args.codes;
  if (const char* why = WrongQueries(args.queries)) return why;
  if (codes.planes == nullptr || codes.factors == nullptr || codes.clusters == nullptr ||
      codes.fine_planes == nullptr || codes.fine_factors == nullptr || codes.row_begin == nullptr ||
      codes.num_rows == nullptr || codes.group_begin == nullptr || codes.centroids == nullptr ||
      codes.cluster_begin == nullptr || codes.rotation == nullptr || args.scratch == nullptr ||
      args.rows == nullptr || args.counts == nullptr || args.lse == nullptr ||
      args.tail == nullptr) {
    return "an array that is missing";
  }
  if (!IsAligned(codes.planes, 4) || !IsAligned(codes.fine_planes, 4) ||
      !IsAligned(codes.factors, 16) || !IsAligned(codes.clusters, 16) ||
      !IsAligned(codes.centroids, 16) || !IsAligned(args.scratch, 16)) {
    return "what is not aligned";
  }
  if (codes.plane_bytes * 8 != args.queries.head_dim) return "planes of another width";
  if (codes.num_kv_heads != args.queries.num_kv_heads) return "codes of other kv heads";
  if (args.queries.num_tokens * args.queries.group > kMostLookupQueries) {
    return "too many query rows";
  }
  if (!(args.scale > 0)) return "a scale that is none";
  if (codes.num_kv_heads == 0 || codes.num_kv_heads > kMostGridY) return "too many kv heads";
  if (codes.most_rows == 0 || codes.most_rows > UINT32_MAX - kRowTile) return "too many rows";
  if (codes.most_clusters == 0 || codes.most_groups == 0) return "no clusters";
  if (args.num_wanted == 0 || args.num_wanted > args.num_refined ||
      args.num_refined > codes.all_rows) {
    return "more rows than there are";
  }
  if (!(args.softcap >= 0)) return "a soft-cap that is none";
  return nullptr;
}

}  // namespace

size_t CudaRowLookupScratch(const DeviceRowCodes& codes, uint32_t num_queries) {
  CudaRowLookupPass pass = {};
  return SetScratch(codes, num_queries, pass);
}

CudaStatus CudaRowLookup(CudaStream& stream, const CudaRowLookupArgs& args) {
  if (const char* const why = Wrong(args)) return Refused(kName, why);
  const DeviceRowCodes& codes = args.codes;
  CudaRowLookupPass pass = {};
  pass.lookup = args;
  const uint32_t num_queries = args.queries.num_tokens * args.queries.group;
  SetScratch(codes, num_queries, pass);
  const CudaKernels& kernels = stream.kernels();
  CudaStatus status;
  const auto launch = [&](CudaLaunch<CudaRowLookupPass>* kernel, CudaGrid grid, uint32_t shared) {
    if (!status.ok()) return;
    grid.shared_bytes = shared;
    if (!HasShared(stream, grid)) {
      status = Refused(kName, kTooWide);
    } else {
      status = kernel(stream.handle(), grid, pass);
    }
  };
  const uint32_t heads = codes.num_kv_heads, dim = args.queries.head_dim;
  const uint32_t table_bytes = codes.plane_bytes * 32;
  launch(kernels.row_queries,
         {.x = num_queries + (codes.most_clusters - 1) / kRowTileCentroids + 1,
          .y = heads,
          .threads = kTileThreads},
         TileBytes(kFewRows + kRowTileCentroids, dim));  // tables need less
  // Blocks that fill the device take tiles in turn: few load tables, and add to the counts of all.
  constexpr uint32_t kBlocksPerMultiprocessor = 8;
  const uint32_t at_once = kBlocksPerMultiprocessor * stream.device().num_multiprocessors;
  const CudaGrid tiles{.x = pass.num_tiles, .y = heads, .threads = kRowThreads};
  CudaGrid turns = tiles;
  turns.x = std::min(pass.num_tiles, (at_once + heads - 1) / heads);
  CudaGrid of_queries = turns;
  of_queries.z = (num_queries + kRowQueries - 1) / kRowQueries;
  launch(kernels.row_logits, of_queries, kRowSharedBytes + kRowQueries * table_bytes);
  // Scores by the logits as they are, and where their best are.
  const auto find_cut = [&] {
    constexpr uint32_t kShared = kRowSharedBytes + kRowDigitValues * sizeof(uint32_t);
    pass.digit = 0;
    launch(kernels.row_scores, turns, kShared);
    for (pass.digit = 1; pass.digit < kRowDigits; ++pass.digit) {
      launch(kernels.row_digits, turns, kShared);
    }
    launch(kernels.row_counts, turns, kRowSharedBytes);
  };
  find_cut();
  launch(kernels.row_refine, turns,
         kRowSharedBytes + num_queries * table_bytes + kRowTile * uint32_t{sizeof(uint32_t)});
  pass.is_refined = 1;
  find_cut();
  launch(kernels.row_list, tiles, kRowSharedBytes);
  constexpr uint32_t kGroups = kRowThreads / 32;  // of a block
  launch(kernels.row_tail,
         {.x = (codes.most_groups + kGroups - 1) / kGroups, .y = heads, .threads = kRowThreads},
         kRowSharedBytes);
  return status;
}

}  // namespace lectern
