// Turns one layer's spill into clusters, and these into the layer's shard. Used by indexing.
#ifndef LECTERN_ENGINE_DOCUMENT_LAYER_SHARD_H_
#define LECTERN_ENGINE_DOCUMENT_LAYER_SHARD_H_

#include <vector>

#include "engine/document/kv_spill.h"
#include "engine/model/weights/config.h"
#include "index/build.h"
#include "index/retention/retention.h"
#include "store/shard_writer.h"

namespace lectern {

// The first and the last tokens of a document, which are always attended exactly and never
// clustered: 4 sinks as in StreamingLLM (arXiv:2309.17453), and the window W = 100 of Squeezed
// Attention (arXiv:2411.09688).
inline constexpr uint32_t kSinkTokens = 4;
inline constexpr uint32_t kWindowTokens = 100;
// How a document's rows are laid out; equal in every layer except windowed ones.
struct RowLayout {
  uint64_t num_tokens;
  uint32_t num_sinks, num_window;  // both 0 when nothing is clustered
  uint32_t num_levels;             // 0: nothing is clustered
  Dtype dtype;                     // dtype of stored rows; the spill may be wider (q8)
  Retention retention = {};        // which rows are stored; all if nothing is clustered
  // In a sliding-window layer: W, and the first token that a token after the document sees. Rows
  // from there on are stored unclustered.
  uint32_t window = 0, first_token = 0;
};

// The layout of a layer: the document's, or in a windowed layer the rows of its window.
RowLayout LayoutOfLayer(const RowLayout& document, const ModelConfig& config, uint32_t layer);

// The clusters of one kv head and all that its lookup needs.
struct HeadClusters {
  CentroidTree tree;
  // Positions of its keys, ascending: stored tokens of [num_sinks, num_tokens - num_window).
  std::vector<uint32_t> positions;
  std::vector<float> thresholds;  // [levels * kThresholdsPerLevel], logarithms (index/calibrate.h)
  // Scores of blocks over all stored rows (index/policies/kv_compress.h). Empty without statistics;
  // full_block_scores also unless the spill has sums for it.
  std::vector<float> block_scores, plain_block_scores, full_block_scores;
  double cluster_seconds = 0, calibrate_seconds = 0;
};

// How a head's keys are put into clusters, and coded.
struct ClusterBy {
  // Frequencies of RoPE, [head_dim / 2]: keys are assigned to clusters by their direction without
  // RoPE. Empty: by the keys as they are.
  std::span<const float> frequencies = {};
  // Whether codes, radii and variances are taken in the metric of the head's queries
  // (index/query_metric.h). The spill kept the queries of the last tokens. A question is asked from
  // there, so they stand for its queries. (Clusters made in that metric, too, are better on Gemma 3
  // and worse on the bundled reader: tools/evaluate/RESULTS.md.)
  bool queries = false;
};

// Clusters the head's keys as they will be stored, and calibrates thresholds with the queries of
// its group that the spill kept (at least one token's). Only for a layer that is clustered. If not
// all rows are kept, the spill must know how many. Single-threaded. kOutOfMemory, and the codes of
// BuildTree.
Result<HeadClusters> ClusterHead(const Backend& backend, const KvSpill& spill, uint32_t layer,
                                 uint32_t kv_head, const RowLayout& layout,
                                 const BuildOptions& options, const ClusterBy& by = {});

// The same for a document that is still being prefilled, of which the spill has at least
// layout.num_tokens tokens. All their rows count as stored, whatever the retention. Without the
// last tokens' queries every threshold lets everything pass, and blocks have no scores.
Result<HeadClusters> ClusterUnfinishedHead(const Backend& backend, const KvSpill& spill,
                                           uint32_t layer, uint32_t kv_head,
                                           const RowLayout& layout, const BuildOptions& options);

// Writes layer-NNN.shard in `temp_dir` and renames it into `directory`, durable on return.
// `header`: the document's; kind, layer and the layout's fields are set here. `heads`: one per kv
// head, or empty if layout.num_levels is 0. Codes of ShardWriter; after an error no file is left.
// May throw std::bad_alloc.
Result<ShardSummary> WriteLayerShard(Env& env, const std::string& temp_dir,
                                     const std::string& directory, const Backend& backend,
                                     const KvSpill& spill, uint32_t layer, const RowLayout& layout,
                                     const ShardHeader& header,
                                     std::span<const HeadClusters> heads);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_LAYER_SHARD_H_
