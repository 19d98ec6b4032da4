// One layer's spill -> clusters -> shard.
#ifndef LECTERN_ENGINE_DOCUMENT_LAYER_SHARD_H_
#define LECTERN_ENGINE_DOCUMENT_LAYER_SHARD_H_

#include <vector>

#include "engine/document/kv_spill.h"
#include "engine/model/weights/config.h"
#include "index/build.h"
#include "index/retention/retention.h"
#include "store/shard_writer.h"

namespace lectern {

// How the rows of a document are laid out, the same in every layer but windowed ones.
struct RowLayout {
  uint64_t num_tokens;
  uint32_t num_sinks, num_window;  // both 0 when nothing is clustered
  uint32_t num_levels;             // 0: nothing is clustered
  Dtype dtype;                     // of stored rows; the spill may be wider (q8)
  Retention retention = {};        // which rows are stored; all when nothing is clustered
  // Of a sliding-window layer: W, and the first token that one after the document sees. Its rows
  // from there on are stored, as they are.
  uint32_t window = 0, first_token = 0;
};

// Of a layer of a document that is laid out like this: itself, or where the layer has a window that
// window's rows.
RowLayout LayoutOfLayer(const RowLayout& document, const ModelConfig& config, uint32_t layer);

// The clusters of one kv head and what its lookup needs.
struct HeadClusters {
  CentroidTree tree;
  // Of its keys, ascending: those of tokens [num_sinks, num_tokens - num_window) that are stored.
  std::vector<uint32_t> positions;
  std::vector<float> thresholds;
  // Of all stored rows: index/policies/kv_compress.h. Empty where there are no statistics; the last
  // also unless the spill has sums for it.
  std::vector<float> block_scores, plain_block_scores, full_block_scores;
  double cluster_seconds = 0, calibrate_seconds = 0;
};

// How a head's keys are put into clusters, and coded.
struct ClusterBy {
  // Of RoPE, [head_dim / 2]: keys are put into clusters by what they are without it; empty: as they
  // are.
  std::span<const float> frequencies = {};
  // Codes, radii and variances are taken in the metric of the head's queries (index/query_metric.h).
  // The spill has those of the last tokens; a question is asked from there, so they stand for its
  // own. (Clusters made in that metric too are better on Gemma 3 and worse on the bundled reader:
  // tools/evaluate/RESULTS.md.)
  bool queries = false;
};

// Clusters the head's keys as they will be stored and calibrates with the spill's queries of its
// group. Where not all rows are kept the spill must know how many. Single-threaded.
Result<HeadClusters> ClusterHead(const Backend& backend, const KvSpill& spill, uint32_t layer,
                                 uint32_t kv_head, const RowLayout& layout,
                                 const BuildOptions& options, const ClusterBy& by = {});

// The same without what the lookups of a finished document know of its last tokens: every threshold
// lets everything pass, and blocks have no scores. For a document that is still being prefilled, of
// whose tokens the spill has layout.num_tokens at least.
Result<HeadClusters> ClusterUnfinishedHead(const Backend& backend, const KvSpill& spill,
                                           uint32_t layer, uint32_t kv_head,
                                           const RowLayout& layout, const BuildOptions& options);

// Writes layer-NNN.shard. `heads`: one per kv head, empty when layout.num_levels is 0.
Result<ShardSummary> WriteLayerShard(Env& env, const std::string& temp_dir,
                                     const std::string& directory, const Backend& backend,
                                     const KvSpill& spill, uint32_t layer, const RowLayout& layout,
                                     const ShardHeader& header,
                                     std::span<const HeadClusters> heads);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_LAYER_SHARD_H_
