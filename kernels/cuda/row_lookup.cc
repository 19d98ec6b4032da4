// Checks and launch geometry of row_lookup.h.
#include "kernels/cuda/row_lookup.h"

#include "kernels/cuda/checks.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/row_lookup_geometry.h"
#include "kernels/cuda/tile_geometry.h"

namespace lectern {
namespace {

constexpr const char* kName = "row_lookup";

// The parts of the scratch memory, into `pass`; how many floats they are.
size_t SetScratch(const DeviceRowCodes& codes, uint32_t num_queries, CudaRowLookupPass& pass) {
  pass.num_tiles = (codes.most_rows + kRowTile - 1) / kRowTile;
  const size_t tiles = size_t{codes.num_kv_heads} * pass.num_tiles;
  size_t used = 0;
  const auto take = [&](auto*& part, size_t size) {
    static_assert(sizeof(*part) % sizeof(float) == 0);
    part = reinterpret_cast<std::remove_reference_t<decltype(part)>>(pass.lookup.scratch + used);
    used += size * (sizeof(*part) / sizeof(float));
  };
  const size_t all_queries = size_t{codes.num_kv_heads} * num_queries;
  pass.num_queries = num_queries;
  float* tables = nullptr;
  take(pass.cut, 1);
  take(pass.counts, size_t{kRowDigits} * kRowDigitValues);
  take(pass.logits, tiles * num_queries * kRowTile);
  take(pass.tile_max, tiles * num_queries);
  take(pass.tile_sum, tiles * num_queries);
  take(pass.scores, tiles * kRowTile);
  take(pass.above, tiles);
  take(pass.equal, tiles);
  take(pass.list_begin, tiles);
  take(tables, all_queries * codes.plane_bytes * 32 / sizeof(float));
  pass.tables = reinterpret_cast<uint8_t*>(tables);
  take(pass.scales, all_queries * 2);
  take(pass.centroid_logits, all_queries * codes.most_clusters);
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
  if (!IsAligned(codes.planes, 4) || !IsAligned(codes.centroids, 16)) return "what is not aligned";
  if (codes.plane_bytes * 8 != args.queries.head_dim) return "planes of another width";
  if (codes.num_kv_heads != args.queries.num_kv_heads) return "codes of other kv heads";
  if (args.queries.num_tokens * args.queries.group > kMostLookupQueries) {
    return "too many query rows";
  }
  if (!(args.scale > 0)) return "a scale that is none";
  if (codes.num_kv_heads == 0 || codes.num_kv_heads > kRowScanThreads) return "too many kv heads";
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
  CudaStreamHandle* const handle = stream.handle();
  constexpr uint32_t kFloat = sizeof(float), kWarps = kRowThreads / 32;
  const CudaGrid tiles{.x = pass.num_tiles, .y = codes.num_kv_heads, .threads = kRowThreads};
  CudaStatus status;
  const auto launch = [&](CudaLaunch<CudaRowLookupPass>* kernel, CudaGrid grid, uint32_t shared) {
    if (!status.ok()) return;
    grid.shared_bytes = shared;
    status = kernel(handle, grid, pass);
  };
  const CudaGrid one{.threads = kRowScanThreads};
  constexpr uint32_t kScanBytes = kRowScanThreads / 32 * sizeof(uint32_t);
  // Scores by the logits as they are, and where their best end.
  const auto find_cut = [&] {
    launch(kernels.row_states, tiles, 2 * kWarps * kFloat);
    launch(kernels.row_lse, {.x = codes.num_kv_heads * num_queries, .threads = kRowThreads},
           2 * kWarps * kFloat);
    if (!status.ok()) return;
    status = kernels.fill(handle, pass.counts, 0, kRowDigits * kRowDigitValues * sizeof(uint32_t));
    launch(kernels.row_scores, tiles, kRowDigitValues * kFloat);
    for (pass.digit = 0; pass.digit < kRowDigits; ++pass.digit) {
      if (pass.digit > 0) launch(kernels.row_digits, tiles, kRowDigitValues * kFloat);
      launch(kernels.row_cut, one, kScanBytes);
    }
    pass.digit = 0;
    launch(kernels.row_counts, tiles, 2 * kWarps * sizeof(uint32_t));
    launch(kernels.row_begins, one, kScanBytes);
  };
  launch(kernels.row_tables,
         {.x = num_queries, .y = codes.num_kv_heads, .threads = kRowTableThreads},
         (2 * codes.plane_bytes + args.queries.head_dim) * kFloat);
  const CudaGrid of_centroids{.x = (codes.most_clusters - 1) / kRowTileCentroids + 1,
                              .y = codes.num_kv_heads,
                              .threads = kTileThreads};
  launch(kernels.row_centroids, of_centroids,
         TileBytes(kFewRows + kRowTileCentroids, args.queries.head_dim));
  CudaGrid of_queries = tiles;
  of_queries.z = (num_queries + kRowQueries - 1) / kRowQueries;
  launch(kernels.row_logits, of_queries, kRowQueries * codes.plane_bytes * 32);
  find_cut();
  launch(kernels.row_refine, tiles,
         num_queries * codes.plane_bytes * 32 + kWarps * uint32_t{sizeof(uint32_t)});
  pass.is_refined = 1;
  find_cut();
  launch(kernels.row_list, tiles, kWarps * sizeof(uint32_t));
  launch(kernels.row_tail,
         {.x = codes.most_groups, .y = codes.num_kv_heads, .threads = kRowTailThreads},
         kRowTailThreads / 32 * kFloat);
  if (args.tail_lse != nullptr) {
    launch(kernels.row_tail_lse,
           {.x = num_queries, .y = codes.num_kv_heads, .threads = kRowTailThreads},
           2 * kRowTailThreads / 32 * kFloat);
  }
  return status;
}

}  // namespace lectern
