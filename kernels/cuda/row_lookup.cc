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
  ScratchParts parts = {pass.lookup.scratch};
  SetSelect(codes, 0, parts, pass.select);
  pass.num_queries = num_queries;
  const size_t queries = size_t{codes.num_kv_heads} * num_queries;
  const size_t tiles = queries * pass.select.num_tiles;
  parts.Take(pass.tables, queries * codes.plane_bytes * 32);
  parts.Take(pass.scales, queries * 2);
  parts.Take(pass.centroid_logits, queries * codes.most_clusters);
  parts.Take(pass.logits, tiles * kRowTile);
  parts.Take(pass.tile_max, tiles);
  parts.Take(pass.tile_sum, tiles);
  return parts.used;
}

const char* Wrong(const CudaRowLookupArgs& args) {
  const DeviceRowCodes& codes = args.codes;
  if (const char* why = WrongQueries(args.queries)) return why;
  if (const char* why = WrongCodes(codes, args.queries)) return why;
  if (args.scratch == nullptr || args.rows == nullptr || args.counts == nullptr ||
      args.lse == nullptr || args.tail == nullptr) {
    return "an array that is missing";
  }
  if (!IsAligned(args.scratch, 16)) return "what is not aligned";
  if (args.queries.num_tokens * args.queries.group > kMostLookupQueries) {
    return "too many query rows";
  }
  if (!(args.scale > 0)) return "a scale that is none";
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
  CudaRowSelectPass& select = pass.select;
  select.num_refined = args.num_refined;
  select.num_wanted = args.num_wanted;
  select.first_row = args.first_row;
  select.rows = args.rows;
  select.listed = args.counts;
  const CudaKernels& kernels = stream.kernels();
  CudaStatus status;
  const auto launch_with = [&](auto* kernel, CudaGrid grid, uint32_t shared, const auto& with) {
    if (!status.ok()) return;
    grid.shared_bytes = shared;
    if (!HasShared(stream, grid)) {
      status = Refused(kName, kTooWide);
    } else {
      status = kernel(stream.handle(), grid, with);
    }
  };
  const auto launch = [&](CudaLaunch<CudaRowLookupPass>* kernel, CudaGrid grid, uint32_t shared) {
    launch_with(kernel, grid, shared, pass);
  };
  const uint32_t heads = codes.num_kv_heads, dim = args.queries.head_dim;
  launch(kernels.row_queries,
         {.x = num_queries + (codes.most_clusters - 1) / kRowTileCentroids + 1,
          .y = heads,
          .threads = kTileThreads},
         TileBytes(kFewRows + kRowTileCentroids, dim));  // tables need less
  // Blocks that fill the device take tiles in turn: few load tables, and add to the counts of all.
  constexpr uint32_t kBlocksPerMultiprocessor = 8;
  const uint32_t at_once = kBlocksPerMultiprocessor * stream.device().num_multiprocessors;
  const CudaGrid tiles{.x = select.num_tiles, .y = heads, .threads = kRowThreads};
  CudaGrid turns = tiles;
  turns.x = std::min(select.num_tiles, (at_once + heads - 1) / heads);
  CudaGrid of_queries = turns;
  of_queries.z = (num_queries + kRowQueries - 1) / kRowQueries;
  launch(kernels.row_logits, of_queries,
         kRowSharedBytes + RowTableBytes(kRowQueries, codes.plane_bytes));
  // Scores by the logits as they are, and where their best are.
  const auto find_cut = [&] {
    constexpr uint32_t kShared = kRowSharedBytes + kRowDigitValues * sizeof(uint32_t);
    select.digit = 0;
    launch(kernels.row_scores, turns, kShared);
    for (select.digit = 1; select.digit < kRowDigits; ++select.digit) {
      launch_with(kernels.row_digits, turns, kShared, select);
    }
    launch_with(kernels.row_counts, turns, kRowSharedBytes, select);
  };
  find_cut();
  launch(kernels.row_refine, turns,
         kRowSharedBytes + RowTableBytes(num_queries, codes.plane_bytes) +
             kRowTile * uint32_t{sizeof(uint32_t)});
  select.is_refined = 1;
  find_cut();
  launch_with(kernels.row_list, tiles, kRowSharedBytes, select);
  constexpr uint32_t kGroups = kRowThreads / 32;  // of a block
  launch(kernels.row_tail,
         {.x = (codes.most_groups + kGroups - 1) / kGroups, .y = heads, .threads = kRowThreads},
         kRowSharedBytes);
  return status;
}

}  // namespace lectern
