// Sizes that host and device code of question_lookup.h agree on.
#ifndef LECTERN_KERNELS_CUDA_LOOKUP_QUESTION_LOOKUP_GEOMETRY_H_
#define LECTERN_KERNELS_CUDA_LOOKUP_QUESTION_LOOKUP_GEOMETRY_H_

#include "kernels/cuda/attention/tile_geometry.h"
#include "kernels/cuda/lookup/row_lookup_geometry.h"

namespace lectern {

// By hand; no GPU has been measured yet (tests/GPU-PENDING.md). They change the speed alone.
constexpr uint32_t kQuestionGroups = 16;  // groups of a part, and of a block that is about clusters
constexpr uint32_t kQuestionBatch = 64;   // groups whose refined rows a block looks for at a time

// Blocks that take groups in turn, of all heads; each has room for its own sums. By hand.
constexpr uint32_t kMostQuestionBlocks = 1536;

// Rows that choose, of a tile.
constexpr uint32_t QuestionColumns(uint32_t num_chosen) {
  return num_chosen <= kFewRows ? kFewRows : kManyRows;
}

// Clusters: queries and two stages of centroids; what is known of a cluster, twice; where groups
// end; and their masses.
constexpr uint32_t kQuestionMassStride = kQuestionGroups + 1;  // meets no bank twice
constexpr uint32_t QuestionClusterBytes(uint32_t head_dim) {
  return kRowSharedBytes + TileBytes(kManyRows + 2 * kTileKeys, head_dim) +
         2 * kTileKeys * uint32_t{sizeof(ClusterKeys)} +
         (kQuestionGroups + 4 + kManyRows * kQuestionMassStride) * 4;
}
// So many blocks a multiprocessor runs at once, by their registers: as many are started.
constexpr uint32_t QuestionCodeBlocks(uint32_t columns, uint32_t width) {
  if (columns == kFewRows) return width < 256 ? 7 : 5;
  return 3;
}
constexpr uint32_t QuestionFineBlocks(uint32_t columns, uint32_t width) {
  if (columns == kFewRows) return width < 128 ? 7 : width < 256 ? 5 : 4;
  return width < 256 ? 3 : 2;
}
// Scores of clusters: counts, and of each column its norm, reference and weight.
constexpr uint32_t QuestionClusterScoreBytes(uint32_t num_columns) {
  return kRowSharedBytes + kCountBytes + num_columns * 16;
}
// Row codes: counts, queries, their references and weights, sums of each warp, twice.
constexpr uint32_t QuestionCodeBytes(uint32_t columns, uint32_t head_dim) {
  return kRowSharedBytes + kCountBytes + TileBytes(columns, head_dim) + columns * (8 + 32);
}
// Fine codes: queries, their references and weights, two sums of each warp, twice, and a batch.
constexpr uint32_t QuestionFineBytes(uint32_t columns, uint32_t head_dim) {
  return kRowSharedBytes + TileBytes(columns, head_dim) + columns * (8 + 64) + kQuestionBatch * 8;
}
// Their scores: counts, and what each column counts.
constexpr uint32_t QuestionScoreBytes(uint32_t num_columns) {
  return kRowSharedBytes + kCountBytes + num_columns * 4;
}
// The tail: where groups begin, what is left of them, and that of each column.
constexpr uint32_t QuestionTailBytes(uint32_t num_columns) {
  return kRowSharedBytes + (2 * kQuestionGroups + 4 + kQuestionGroups * num_columns) * 4;
}

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_LOOKUP_QUESTION_LOOKUP_GEOMETRY_H_
