// Checks and scratch memory of row_select.h.
#include "kernels/cuda/lookup/row_select.h"

#include "kernels/cuda/lookup/row_lookup_geometry.h"
#include "kernels/cuda/runtime/checks.h"

namespace lectern {

namespace {

// Says what is wrong with the codes for these queries; nullptr: nothing.
const char* WrongCodes(const DeviceRowCodes& codes, const DeviceQueries& queries) {
  if (codes.planes == nullptr || codes.factors == nullptr || codes.clusters == nullptr ||
      codes.fine_planes == nullptr || codes.fine_factors == nullptr || codes.row_begin == nullptr ||
      codes.num_rows == nullptr || codes.group_begin == nullptr ||
      codes.group_clusters == nullptr || codes.centroids == nullptr ||
      codes.cluster_begin == nullptr || codes.cluster_end == nullptr || codes.rotation == nullptr) {
    return "an array that is missing";
  }
  if (!IsAligned(codes.planes, 4) || !IsAligned(codes.fine_planes, 4) ||
      !IsAligned(codes.factors, 16) || !IsAligned(codes.clusters, 16) ||
      !IsAligned(codes.centroids, 16)) {
    return "what is not aligned";
  }
  if (codes.plane_bytes * 8 != queries.head_dim) return "planes of another width";
  if (codes.num_kv_heads != queries.num_kv_heads) return "codes of other kv heads";
  if (codes.num_kv_heads == 0 || codes.num_kv_heads > kMostGridY) return "too many kv heads";
  if (codes.most_rows == 0 || codes.most_rows > UINT32_MAX - kRowTile) return "too many rows";
  if (codes.all_rows > INT32_MAX) return "too many rows";
  if (codes.most_clusters == 0 || codes.most_groups == 0) return "no clusters";
  return nullptr;
}

}  // namespace

const char* WrongCodesLookup(const CudaCodesLookupArgs& args) {
  if (const char* why = WrongQueries(args.queries)) return why;
  if (const char* why = WrongCodes(args.codes, args.queries)) return why;
  if (args.scratch == nullptr || args.rows == nullptr || args.counts == nullptr ||
      args.lse == nullptr || args.tail == nullptr) {
    return "an array that is missing";
  }
  if (!IsAligned(args.scratch, 16)) return "what is not aligned";
  if (!(args.scale > 0)) return "a scale that is none";
  if (!(args.softcap >= 0)) return "a soft-cap that is none";
  if (args.num_wanted == 0 || args.num_wanted > args.num_refined ||
      args.num_refined > args.num_coded || args.num_coded > args.codes.all_rows) {
    return "more rows than there are";
  }
  if (args.cut.items == nullptr) return nullptr;
  if (args.codes.num_kv_heads == kMostGridY) return "too many kv heads";
  if (args.cut.counts != args.counts || args.cut.num_kv_heads != args.codes.num_kv_heads) {
    return "items of something else";
  }
  return WrongCutItems(args.cut);
}

void TakeZeroed(size_t num_tiles, ScratchParts& parts, RowSelection& selection) {
  parts.Take(selection.counts, kScoreBuckets);
  parts.Take(selection.counters, 2);
  parts.Take(selection.tiles, num_tiles);
}

void TakeRest(ScratchParts& parts, RowSelection& selection) { parts.Take(selection.cut, 1); }

void TakeRefined(size_t num_refined, ScratchParts& parts, RefinedRows& refined) {
  parts.Take(refined.rows, num_refined);
  parts.Take(refined.slots, num_refined);
  parts.Take(refined.heads, num_refined);
  parts.Take(refined.scores, num_refined);
}

void SetList(const CudaCodesLookupArgs& args, float* scores, CudaRowListPass& list) {
  list.selection.wanted = args.num_wanted;
  list.num_refined = args.num_refined;
  list.first_row = args.first_row;
  list.scores = scores;
  list.rows = args.rows;
  list.counts = args.counts;
}

}  // namespace lectern
