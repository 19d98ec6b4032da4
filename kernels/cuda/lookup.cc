// Checks and launch geometry of lookup.h.
#include "kernels/cuda/lookup.h"

#include <algorithm>

#include "kernels/cuda/checks.h"
#include "kernels/cuda/tile_geometry.h"

namespace lectern {
namespace {

uint32_t Ceiling(uint32_t a, uint32_t b) { return a / b + (a % b != 0); }

const char* WrongLookup(const CudaLookupArgs& args) {
  if (const char* why = WrongQueries(args.queries)) return why;
  const DeviceClusters& clusters = args.clusters;
  if (clusters.centroids == nullptr || !IsAligned(clusters.centroids, 16)) {
    return "centroids that are not aligned";
  }
  if (clusters.key_counts == nullptr || clusters.begin == nullptr) return "no clusters";
  if (clusters.most_clusters > clusters.num_clusters) return "a head of more clusters than all";
  if (!(args.scale > 0) || !(args.softcap >= 0)) return "a scale that is none";
  if (args.scratch == nullptr || args.scores == nullptr) return "no place for the result";
  if ((clusters.deviations == nullptr) != (args.query_norms == nullptr)) {
    return "deviations without norms";
  }
  if ((args.thresholds == nullptr) != (args.selected == nullptr)) {
    return "thresholds without a selection";
  }
  if (args.queries.num_kv_heads > kMostGridY) return "too many kv heads";
  return nullptr;
}

// A few rows, or many: the parts of scratch, and their number of floats.
size_t SetScratch(const DeviceQueries& queries, const DeviceClusters& clusters,
                  CudaLookupPass& pass) {
  const uint32_t rows = queries.num_tokens * queries.group;
  const bool few = rows <= kFewRows;
  pass.num_tiles = few ? Ceiling(clusters.most_clusters, kTokenTileKeys)
                       : Ceiling(clusters.most_clusters, kPartTiles * kTileKeys);
  const size_t partial = size_t{queries.num_kv_heads} * pass.num_tiles * (few ? kFewRows : rows);
  const size_t masses = few ? size_t{kFewRows} * clusters.num_clusters : 0;
  const size_t lse = few ? 0 : size_t{queries.num_kv_heads} * rows;
  float* at = pass.lookup.scratch;
  if (at == nullptr) return masses + 2 * partial + lse;
  pass.masses = at;
  pass.partial_max = at + masses;
  pass.partial_sum = at + masses + partial;
  pass.lse = at + masses + 2 * partial;
  return masses + 2 * partial + lse;
}

CudaStatus LookUpToken(const CudaStream& stream, const CudaLookupPass& pass) {
  const uint32_t dim = pass.lookup.queries.head_dim, heads = pass.lookup.queries.num_kv_heads;
  const CudaGrid masses{.x = pass.num_tiles,
                        .y = heads,
                        .threads = kTileThreads,
                        .shared_bytes = TileBytes(kFewRows + kTokenTileKeys, dim) +
                                        2 * 4 * kFewRows * uint32_t{sizeof(float)}};
  if (!HasShared(stream, masses)) return Refused("lookup", kTooWide);
  const CudaStatus status = stream.kernels().lookup_masses(stream.handle(), masses, pass);
  if (!status.ok()) return status;
  const CudaGrid scores{.x = Ceiling(pass.num_tiles, kScoreTiles),
                        .y = heads,
                        .threads = kScoreThreads,
                        .shared_bytes = kFewRows * kScoreTiles * uint32_t{sizeof(float)}};
  return stream.kernels().lookup_scores(stream.handle(), scores, pass);
}

CudaStatus LookUpQuestion(const CudaStream& stream, const CudaLookupPass& pass) {
  const DeviceQueries& queries = pass.lookup.queries;
  const uint32_t dim = queries.head_dim, rows = queries.num_tokens * queries.group;
  const CudaGrid parts{.x = Ceiling(rows, kManyRows),
                       .y = pass.num_tiles,
                       .z = queries.num_kv_heads,
                       .threads = kTileThreads,
                       .shared_bytes = TileBytes(kManyRows + 2 * kTileKeys, dim)};
  if (!HasShared(stream, parts)) return Refused("lookup", kTooWide);
  CudaStatus status = stream.kernels().lookup_parts(stream.handle(), parts, pass);
  if (!status.ok()) return status;
  const CudaGrid lse{
      .x = Ceiling(rows, kTileThreads), .y = queries.num_kv_heads, .threads = kTileThreads};
  status = stream.kernels().lookup_lse(stream.handle(), lse, pass);
  if (!status.ok()) return status;
  const CudaGrid sums{.x = Ceiling(pass.lookup.clusters.most_clusters, kTileKeys),
                      .y = queries.num_kv_heads,
                      .threads = kTileThreads,
                      .shared_bytes = TileBytes(kTileKeys + 2 * kManyRows, dim) +
                                      4 * kTileKeys * uint32_t{sizeof(float)}};
  return stream.kernels().lookup_sums(stream.handle(), sums, pass);
}

}  // namespace

size_t CudaLookupScratch(const DeviceQueries& queries, const DeviceClusters& clusters) {
  CudaLookupPass pass = {};
  return SetScratch(queries, clusters, pass);
}

CudaStatus CudaLookup(const CudaStream& stream, const CudaLookupArgs& args) {
  if (const char* why = WrongLookup(args)) return Refused("lookup", why);
  if (args.clusters.most_clusters == 0) return {};
  CudaLookupPass pass = {};
  pass.lookup = args;
  SetScratch(args.queries, args.clusters, pass);
  if (pass.num_tiles > kMostGridY) return Refused("lookup", "too many clusters");
  const bool few = args.queries.num_tokens * args.queries.group <= kFewRows;
  return few ? LookUpToken(stream, pass) : LookUpQuestion(stream, pass);
}

// Checks the arguments; a block then lists the rows of one head.
CudaStatus CudaSelectRows(const CudaStream& stream, const CudaSelectRowsArgs& args) {
  constexpr const char* kName = "select_rows";
  if (args.selected == nullptr || args.row_begin == nullptr || args.row_end == nullptr ||
      args.cluster_begin == nullptr || args.heads == nullptr || args.rows == nullptr ||
      args.counts == nullptr) {
    return Refused(kName, "an array that is missing");
  }
  if ((args.log_counts == nullptr) != (args.tail_bias == nullptr)) {
    return Refused(kName, "a tail without counts");
  }
  if (args.num_kv_heads == 0 || args.num_kv_heads > kMostSelectHeads) {
    return Refused(kName, "too many kv heads");
  }
  const CudaGrid grid{.x = args.num_kv_heads,
                      .threads = kSelectThreads,
                      .shared_bytes = (kSelectThreads / 32) * uint32_t{sizeof(uint32_t)}};
  return stream.kernels().select_rows(stream.handle(), grid, args);
}

}  // namespace lectern
