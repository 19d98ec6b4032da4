// Checks and launch geometry of row_lookup.h.
#include "kernels/cuda/lookup/row_lookup.h"

#include <algorithm>

#include "kernels/cuda/attention/tile_geometry.h"
#include "kernels/cuda/lookup/row_lookup_geometry.h"
#include "kernels/cuda/runtime/checks.h"
#include "kernels/cuda/runtime/kernels.h"

namespace lectern {
namespace {

constexpr const char* kName = "row_lookup";

// The parts of the scratch memory, into `pass`; how many floats they are.
size_t SetScratch(const DeviceRowCodes& codes, uint32_t num_queries, uint32_t num_coded,
                  uint32_t num_refined, CudaRowLookupPass& pass) {
  ScratchParts parts = {pass.lookup.scratch};
  pass.num_queries = num_queries;
  const size_t heads = codes.num_kv_heads, queries = heads * num_queries;
  const size_t clusters = codes.most_clusters, slot_tiles = SlotTiles(num_coded);
  const size_t states = num_queries * (slot_tiles + heads);
  parts.Take(pass.zeroed, 0);
  TakeZeroed(heads * ClusterTiles(codes.most_clusters), parts, pass.clusters);
  TakeZeroed(slot_tiles, parts, pass.slots);
  TakeZeroed(SlotTiles(num_refined), parts, pass.list.selection);
  parts.Take(pass.counters, heads);
  pass.num_zeroed = static_cast<uint32_t>(parts.used);
  TakeRest(parts, pass.clusters);
  TakeRest(parts, pass.slots);
  TakeRest(parts, pass.list.selection);
  TakeRefined(num_refined, parts, pass.list.refined);
  parts.Take(pass.tables, queries * codes.plane_bytes * 32);
  parts.Take(pass.scales, queries * 2);
  parts.Take(pass.centroid_logits, queries * clusters);
  parts.Take(pass.cluster_logits, queries * clusters);
  parts.Take(pass.cluster_scores, heads * clusters);
  parts.Take(pass.cluster_lse, queries);
  parts.Take(pass.all_max, queries * CentroidTiles(codes.most_clusters));
  parts.Take(pass.all_sum, queries * CentroidTiles(codes.most_clusters));
  parts.Take(pass.rest_max, queries * ClusterTiles(codes.most_clusters));
  parts.Take(pass.rest_sum, queries * ClusterTiles(codes.most_clusters));
  parts.Take(pass.cluster_slots, heads * (clusters + 1));
  parts.Take(pass.head_slots, heads + 1);
  parts.Take(pass.tile_starts, slot_tiles);
  parts.Take(pass.slot_rows, num_coded);
  parts.Take(pass.logits, num_queries * slot_tiles * kRowTile);
  parts.Take(pass.scores, slot_tiles * kRowTile);
  parts.Take(pass.slot_max, states);
  parts.Take(pass.slot_sum, states);
  parts.Take(pass.refined_logits, size_t{num_queries} * num_refined);
  return parts.used;
}

// Says what is wrong with the arguments of CudaRowLookup; nullptr: nothing.
const char* Wrong(const CudaRowLookupArgs& args) {
  if (const char* why = WrongCodesLookup(args)) return why;
  if (args.queries.num_tokens * args.queries.group > kMostLookupQueries) {
    return "too many query rows";
  }
  return nullptr;
}

}  // namespace

size_t CudaRowLookupScratch(const DeviceRowCodes& codes, uint32_t num_queries, uint32_t num_coded,
                            uint32_t num_refined) {
  CudaRowLookupPass pass = {};
  return SetScratch(codes, num_queries, num_coded, num_refined, pass);
}

CudaStatus CudaRowLookup(CudaStream& stream, const CudaRowLookupArgs& args) {
  if (const char* const why = Wrong(args)) return Refused(kName, why);
  const DeviceRowCodes& codes = args.codes;
  CudaRowLookupPass pass = {};
  pass.lookup = args;
  const uint32_t num_queries = args.queries.num_tokens * args.queries.group;
  SetScratch(codes, num_queries, args.num_coded, args.num_refined, pass);
  pass.clusters.wanted = args.num_coded;
  pass.slots.wanted = args.num_refined;
  SetList(args, pass.scores, pass.list);
  const CudaKernels& kernels = stream.kernels();
  CudaStatus status;
  const auto launch = [&](auto* kernel, CudaGrid grid, uint32_t shared, const auto& with) {
    if (!status.ok()) return;
    grid.shared_bytes = shared;
    status =
        HasShared(stream, grid) ? kernel(stream.handle(), grid, with) : Refused(kName, kTooWide);
  };
  const uint32_t heads = codes.num_kv_heads, dim = args.queries.head_dim;
  const uint32_t cluster_tiles = ClusterTiles(codes.most_clusters);
  const uint32_t slot_tiles = SlotTiles(args.num_coded);
  launch(
      kernels.row_queries,
      {.x = num_queries + CentroidTiles(codes.most_clusters), .y = heads, .threads = kTileThreads},
      TileBytes(kFewRows + kRowTileCentroids, dim), pass);  // tables need less
  launch(kernels.row_clusters, {.x = cluster_tiles, .y = heads, .threads = kRowThreads},
         kRowSharedBytes + kCountBytes + num_queries * uint32_t{sizeof(float)}, pass);
  launch(kernels.row_slots, {.x = cluster_tiles * heads, .threads = kRowThreads}, kRowSharedBytes,
         pass);
  constexpr uint32_t kTileWords = kRowTile * sizeof(uint32_t);
  // Blocks that fill the device, by their registers, take tiles or groups in turn.
  const uint32_t multiprocessors = stream.device().num_multiprocessors;
  launch(
      kernels.row_logits,
      {.x = std::clamp(kRowLogitsBlocks * multiprocessors, 1u, slot_tiles), .threads = kRowThreads},
      kRowSharedBytes + kCountBytes + kTileWords + RowTableBytes(kRowQueries, codes.plane_bytes),
      pass);
  launch(kernels.row_refine, {.x = slot_tiles + heads, .threads = kRowThreads},
         kRowSharedBytes + kTileWords + RowTableBytes(num_queries, codes.plane_bytes), pass);
  launch(kernels.row_scores, {.x = SlotTiles(args.num_refined), .threads = kRowThreads},
         kRowSharedBytes + kCountBytes, pass);
  launch(kernels.row_list, {.x = SlotTiles(args.num_refined), .threads = kRowThreads},
         kRowSharedBytes, pass.list);
  constexpr uint32_t kGroups = kRowThreads / 32;  // of a block
  launch(kernels.row_tail,
         {.x = std::clamp(kRowTailBlocks * multiprocessors / heads, 1u,
                          (codes.most_groups + kGroups - 1) / kGroups),
          .y = heads + (args.cut.items != nullptr),
          .threads = kRowThreads},
         kRowSharedBytes, pass);
  return status;
}

}  // namespace lectern
