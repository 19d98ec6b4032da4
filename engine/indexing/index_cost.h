// Computes what indexing a document costs (operations, bytes on disk, memory) from its length and
// the model, before anything is done. Estimates, free-space checks and progress use it.
#ifndef LECTERN_ENGINE_INDEXING_INDEX_COST_H_
#define LECTERN_ENGINE_INDEXING_INDEX_COST_H_

#include "engine/forward/step_memory.h"
#include "engine/model/weights/config.h"
#include "kernels/backend.h"
#include "store/cancel_flag.h"

namespace lectern {

// A document of fewer tokens has no clusters: all rows are one run that every question reads
// exactly. By hand: at 2,048 tokens sinks and window (104 rows) already take half of a budget of
// 0.1.
inline constexpr uint64_t kMinClusteredTokens = 2048;

// Multiplications and additions of the prefill of the first `tokens` tokens; attention grows with
// their square. `full_stats`: includes the second pass over the logits (IndexOptions::stats
// "full"). `budget`, in (0, 1]: the share that a sparse prefill reads; below 1 its clustering is
// included (engine/indexing/prefill_clusters.h). This and ClusterFlops count windowed layers as if
// they attended to everything and were clustered: for them the result is too large.
double PrefillFlops(const ModelConfig& config, double tokens, bool full_stats, double budget = 1);
// Operations of clustering the keys of `tokens` tokens in all layers and heads, with 10 iterations
// of K-means for the tree of index/build.h; also for documents that are too short to be clustered.
double ClusterFlops(const ModelConfig& config, double tokens);
// Bytes of one layer's shard. This and the two functions below are upper estimates, within a few
// percent or one block of the truth.
uint64_t ShardBytes(const ModelConfig& config, Dtype dtype, uint64_t tokens);
// Bytes of the document's own shard.
uint64_t DocumentShardBytes(const ModelConfig& config, uint64_t tokens, uint64_t text_bytes);
// Bytes of the spills of all layers together; `dtype` is theirs (SpillDtype).
uint64_t SpillBytes(const ModelConfig& config, Dtype dtype, uint64_t tokens);
// Memory in bytes that the clustering of one kv head takes; an upper estimate.
uint64_t ClusterHeadBytes(const ModelConfig& config, uint64_t document_tokens);
// Memory in bytes for text and tokens, held as long as indexing runs; an upper estimate.
uint64_t TextBytes(uint64_t text_bytes, uint64_t document_tokens);
// The type of a spill's rows for shards of type `dtype`: the same, but f16 for q8. Rows are rounded
// to q8 only when a layer's shard is written, so the prefill attends to f16.
Dtype SpillDtype(Dtype dtype);
// Memory in bytes that indexing takes beside text and model: the larger of one chunk's activations
// and the clusterings that run at a time, one on each thread. An estimate: small buffers of
// activations are left out (engine/forward/step_memory.h).
uint64_t IndexingBytes(const ModelConfig& config, uint64_t tokens, size_t num_threads,
                       double prefill_budget = 1);
// Operations that one thread of this machine does in a second, in a matrix product that is run for
// 50 ms on the calling thread. Above 0, unless `cancel` is set, which ends it early.
double TrialFlopsPerSecond(const Backend& backend, const CancelFlag* cancel = nullptr);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_INDEX_COST_H_
