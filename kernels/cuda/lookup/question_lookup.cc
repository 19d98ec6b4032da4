// Checks and launch geometry of question_lookup.h.
#include "kernels/cuda/lookup/question_lookup.h"

#include <algorithm>

#include "kernels/cuda/lookup/question_lookup_geometry.h"
#include "kernels/cuda/runtime/checks.h"
#include "kernels/cuda/runtime/kernels.h"

namespace lectern {
namespace {

constexpr const char* kQuestionName = "question_lookup";

constexpr uint32_t QuestionTiles(uint32_t num_rows) {
  return (num_rows + kManyRows - 1) / kManyRows;
}

// The parts of the scratch memory, into `pass`; how many floats they are.
size_t SetQuestionScratch(const DeviceRowCodes& codes, uint32_t num_chosen, uint32_t num_coded,
                          uint32_t num_refined, CudaQuestionLookupPass& pass) {
  const uint32_t of_tile = QuestionColumns(num_chosen);
  const size_t heads = codes.num_kv_heads;
  pass.num_columns = (num_chosen + of_tile - 1) / of_tile * of_tile;
  pass.num_parts = (codes.most_groups + kQuestionGroups - 1) / kQuestionGroups;
  const size_t columns = pass.num_columns, num_tiles = QuestionTiles(pass.num_columns);
  ScratchParts parts = {pass.lookup.scratch};
  pass.num_tiles = SlotTiles(codes.most_rows);
  const bool is_all_coded = num_coded == codes.all_rows;
  parts.Take(pass.zeroed, 0);
  if (!is_all_coded) TakeZeroed(heads * SlotTiles(codes.most_clusters), parts, pass.clusters);
  TakeZeroed(heads * pass.num_tiles, parts, pass.slots);
  TakeZeroed(SlotTiles(num_refined), parts, pass.list.selection);
  parts.Take(pass.counters, heads);
  parts.Take(pass.reference_counts, heads * num_tiles);
  pass.num_zeroed = static_cast<uint32_t>(parts.used);
  if (!is_all_coded) {
    TakeRest(parts, pass.clusters);
    parts.Take(pass.norms, heads * columns);
    parts.Take(pass.cluster_scores, heads * codes.most_clusters);
    parts.Take(pass.coded_end, heads * codes.most_clusters);
  }
  TakeRest(parts, pass.slots);
  TakeRest(parts, pass.list.selection);
  TakeRefined(num_refined, parts, pass.list.refined);
  parts.Take(pass.refined_begin, heads + 1);
  parts.Take(pass.scores, heads * pass.num_tiles * kRowTile);
  float* tiles = nullptr;  // of halves as many
  parts.Take(tiles, heads * columns * TileWidth(codes.plane_bytes * 8) / 2);
  pass.tiles = tiles;
  parts.Take(pass.centroid_logits, heads * codes.most_clusters * columns);
  parts.Take(pass.part_max, heads * pass.num_parts * columns);
  parts.Take(pass.part_sum, heads * pass.num_parts * columns);
  parts.Take(pass.references, heads * columns);
  parts.Take(pass.coded, heads * codes.most_groups * columns);
  parts.Take(
      pass.block_masses,
      std::max(heads, std::min<size_t>(kMostQuestionBlocks, heads * codes.most_groups)) * columns);
  parts.Take(pass.score_weights, heads * columns);
  parts.Take(pass.fine_masses, size_t{num_refined} * columns);
  return parts.used;
}

// Says what is wrong with the arguments of CudaQuestionLookup; nullptr: nothing.
const char* WrongQuestion(const CudaQuestionLookupArgs& args) {
  if (const char* why = WrongCodesLookup(args)) return why;
  if (args.chosen == nullptr || args.weights == nullptr) return "an array that is missing";
  if (args.num_chosen == 0 || args.num_chosen > kMostChosenQueries ||
      args.num_chosen > uint64_t{args.queries.num_tokens} * args.queries.group) {
    return "no query rows that choose, or too many";
  }
  if (args.codes.most_clusters > UINT32_MAX / kMostChosenQueries / 2) return "too many clusters";
  if (args.codes.most_groups > kMostGridY * kQuestionGroups) return "too many groups";
  return nullptr;
}

}  // namespace

size_t CudaQuestionLookupScratch(const DeviceRowCodes& codes, uint32_t num_chosen,
                                 uint32_t num_coded, uint32_t num_refined) {
  CudaQuestionLookupPass pass = {};
  return SetQuestionScratch(codes, num_chosen, num_coded, num_refined, pass);
}

CudaStatus CudaQuestionLookup(CudaStream& stream, const CudaQuestionLookupArgs& args) {
  if (const char* const why = WrongQuestion(args)) return Refused(kQuestionName, why);
  const DeviceRowCodes& codes = args.codes;
  CudaQuestionLookupPass pass = {};
  pass.lookup = args;
  pass.num_queries = args.queries.num_tokens * args.queries.group;
  SetQuestionScratch(codes, args.num_chosen, args.num_coded, args.num_refined, pass);
  pass.clusters.wanted = args.num_coded;
  pass.slots.wanted = args.num_refined;
  SetList(args, pass.scores, pass.list);
  const uint32_t heads = codes.num_kv_heads, dim = args.queries.head_dim;
  const uint32_t columns = QuestionColumns(args.num_chosen);
  const uint32_t most_bytes =
      std::max({QuestionClusterBytes(dim), QuestionCodeBytes(columns, dim),
                QuestionFineBytes(columns, dim), QuestionClusterScoreBytes(pass.num_columns),
                QuestionScoreBytes(pass.num_columns), QuestionTailBytes(pass.num_columns)});
  if (!HasShared(stream, {.shared_bytes = most_bytes})) return Refused(kQuestionName, kTooWide);
  const CudaKernels& kernels = stream.kernels();
  CudaStatus status;
  const auto launch = [&](auto* kernel, const CudaGrid& grid, const auto& with) {
    if (status.ok()) status = kernel(stream.handle(), grid, with);
  };
  launch(kernels.question_queries,
         {.x = pass.num_columns,
          .y = heads,
          .threads = kTileThreads,
          .shared_bytes = TileWidth(dim) * uint32_t{sizeof(float)}},
         pass);
  launch(kernels.question_clusters,
         {.x = QuestionTiles(pass.num_queries) + QuestionTiles(pass.num_columns),
          .y = pass.num_parts,
          .z = heads,
          .threads = kTileThreads,
          .shared_bytes = QuestionClusterBytes(dim)},
         pass);
  // Blocks that fill the device, by their registers or shared memory, take groups, or tiles of
  // rows, in turn.
  const auto turns = [&](uint32_t most, uint32_t per_multiprocessor, uint32_t threads,
                         uint32_t bytes) {
    const CudaDeviceInfo& device = stream.device();
    const uint32_t at_once = std::min(per_multiprocessor, device.shared_bytes_per_block / bytes) *
                             device.num_multiprocessors;
    return CudaGrid{.x = std::clamp(std::min(at_once, kMostQuestionBlocks) / heads, 1u, most),
                    .y = heads,
                    .threads = threads,
                    .shared_bytes = bytes};
  };
  if (pass.coded_end != nullptr) {
    constexpr uint32_t kWarps = kRowThreads / 32;  // of a block: each takes clusters in turn
    launch(kernels.question_cluster_scores,
           turns((codes.most_clusters + kWarps - 1) / kWarps, 4, kRowThreads,
                 QuestionClusterScoreBytes(pass.num_columns)),
           pass);
    launch(kernels.question_coded,
           {.x = heads * SlotTiles(codes.most_clusters),
            .threads = kRowThreads,
            .shared_bytes = kRowSharedBytes},
           pass);
  }
  const uint32_t width = TileWidth(dim);
  // The scores' buckets are counted where they are found.
  launch(kernels.question_codes,
         turns(codes.most_groups, QuestionCodeBlocks(columns, width), kTileThreads,
               QuestionCodeBytes(columns, dim)),
         pass);
  launch(kernels.question_refined,
         {.x = heads * pass.num_tiles, .threads = kRowThreads, .shared_bytes = kRowSharedBytes},
         pass);
  launch(kernels.question_fine_codes,
         turns(codes.most_groups, QuestionFineBlocks(columns, width), kTileThreads,
               QuestionFineBytes(columns, dim)),
         pass);
  launch(kernels.question_scores,
         turns(pass.num_tiles, 8, kRowThreads, QuestionScoreBytes(pass.num_columns)), pass);
  launch(
      kernels.row_list,
      {.x = SlotTiles(args.num_refined), .threads = kRowThreads, .shared_bytes = kRowSharedBytes},
      pass.list);
  launch(kernels.question_tail,
         {.x = pass.num_parts,
          .y = heads + (args.cut.items != nullptr),
          .threads = kRowThreads,
          .shared_bytes = QuestionTailBytes(pass.num_columns)},
         pass);
  return status;
}

}  // namespace lectern
