// Calibrates the lookup when a document is indexed: finds the score thresholds that keep a given
// share of the keys, from queries that the document's own last tokens asked.
#ifndef LECTERN_INDEX_CALIBRATE_H_
#define LECTERN_INDEX_CALIBRATE_H_

#include <array>
#include <vector>

#include "index/centroid_tree.h"
#include "kernels/backend.h"

namespace lectern {

// A mean score over fewer query rows is peakier, so thresholds are kept for several row counts
// (rows = tokens * query heads of the group) and for several shares of keys to keep. Both grids
// are by hand, and no measurement is on record; LogThreshold interpolates between their points.
inline constexpr std::array<uint32_t, 4> kRowCounts = {1, 8, 32, 128};
inline constexpr std::array<float, 8> kKeptShares = {0.5f, 0.3f,  0.2f,  0.125f,
                                                     0.1f, 0.05f, 0.02f, 0.01f};
inline constexpr size_t kThresholdsPerLevel = kRowCounts.size() * kKeptShares.size();

// Thresholds T of every level of one kv head: [levels][row counts][kept shares], as natural
// logarithms of S (kernels/centroid_scores.h).
//
// For each window of consecutive query rows the clusters are ranked by S. T is the score at which
// the wanted share of keys is reached, averaged as logarithm over the windows (a score of 0 counts
// as the least normal float). A window has as many rows as the row count says, or all `queries` if
// they are fewer. Hooper et al. take one quantile over all layers and heads; here there is one per
// layer, kv head, level and row count.
//
// `queries` [rows, head_dim]: post-RoPE query rows of this head's group from the last tokens of the
// document, token by token; at least 1 row (asserted). One thread.
std::vector<float> CalibrateThresholds(const Backend& backend, const CentroidTree& tree,
                                       Rows<const float> queries, float scale, float softcap = 0);

// The log threshold for a level (0 is the coarsest), a row count and a kept share. Takes the
// stored row count that is nearest by ratio, and interpolates linearly in the logarithm of the
// share; shares outside the grid get its end. `thresholds`: those of a head, as CalibrateThresholds
// makes them; `num_rows` >= 1.
float LogThreshold(std::span<const float> thresholds, uint32_t level_index, size_t num_rows,
                   double kept_share);

}  // namespace lectern

#endif  // LECTERN_INDEX_CALIBRATE_H_
