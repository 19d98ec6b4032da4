// kv budget -> score threshold, from queries that the document itself asked.
#ifndef LECTERN_INDEX_CALIBRATE_H_
#define LECTERN_INDEX_CALIBRATE_H_

#include <array>
#include <vector>

#include "index/centroid_tree.h"
#include "kernels/backend.h"

namespace lectern {

// A mean score over fewer query rows is peakier, so thresholds are kept for several row counts
// (rows = tokens * query heads of the group), and for several shares of keys to keep.
inline constexpr std::array<uint32_t, 4> kRowCounts = {1, 8, 32, 128};
inline constexpr std::array<float, 8> kKeptShares = {0.5f, 0.3f,  0.2f,  0.125f,
                                                     0.1f, 0.05f, 0.02f, 0.01f};
inline constexpr size_t kThresholdsPerLevel = kRowCounts.size() * kKeptShares.size();

// T of every level of one kv head: [levels][row counts][kept shares], natural logarithms of S.
//
// Of each window of that many consecutive query rows the clusters are ranked by S; T is the score
// at which the share is reached, averaged (as logarithm) over the windows. Hooper et al. take one
// quantile over all layers and heads; ours is per layer, kv head, level and row count.
// `queries` [rows, head_dim]: post-RoPE rows of this head's query group of the last tokens of the
// document, token by token; at least 1 row.
std::vector<float> CalibrateThresholds(const Backend& backend, const CentroidTree& tree,
                                       Rows<const float> queries, float scale, float softcap = 0);

// Log threshold for a row count and a kept share: nearest row count by ratio, linear in the
// logarithm of the share between the stored ones, clamped at the ends.
float LogThreshold(std::span<const float> thresholds, uint32_t level_index, size_t num_rows,
                   double kept_share);

}  // namespace lectern

#endif  // LECTERN_INDEX_CALIBRATE_H_
