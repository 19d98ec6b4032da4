// Estimates what indexing a document costs (time, disk, memory) before it is done.
#ifndef LECTERN_ENGINE_INDEXING_INDEX_COST_H_
#define LECTERN_ENGINE_INDEXING_INDEX_COST_H_

#include "engine/forward/step_memory.h"
#include "engine/model/weights/config.h"
#include "kernels/backend.h"

namespace lectern {

// A document of fewer tokens has one exact run and no clusters.
inline constexpr uint64_t kMinClusteredTokens = 2048;

// Multiplications and additions of the prefill of the first `tokens` tokens; attention grows with
// their square. `full_stats`: with the second pass over the logits. `budget` below 1: of a sparse
// one (engine/indexing/prefill_clusters.h), with its clustering.
double PrefillFlops(const ModelConfig& config, double tokens, bool full_stats, double budget = 1);
// Operations of clustering these tokens, with 10 iterations for the tree of index/build.h.
double ClusterFlops(const ModelConfig& config, double tokens);
// One layer's shard, the document's, and all spills together. Upper estimates within a few percent,
// or one block.
uint64_t ShardBytes(const ModelConfig& config, Dtype dtype, uint64_t tokens);
uint64_t DocumentShardBytes(const ModelConfig& config, uint64_t tokens, uint64_t text_bytes);
uint64_t SpillBytes(const ModelConfig& config, Dtype dtype, uint64_t tokens);
// Memory of indexing: of one kv head's clustering, and of text and tokens as long as it runs. Upper
// estimates.
uint64_t ClusterHeadBytes(const ModelConfig& config, uint64_t document_tokens);
uint64_t TextBytes(uint64_t text_bytes, uint64_t document_tokens);
// The type of the spill of a shard of this type: the prefill sees f16 when the shard is q8.
Dtype SpillDtype(Dtype dtype);
// Memory of indexing a document of `tokens` tokens: one chunk's activations, or one layer's
// clustering. Upper estimate.
uint64_t IndexingBytes(const ModelConfig& config, uint64_t tokens, size_t num_threads,
                       double prefill_budget = 1);
// Operations a second of one thread of this machine: a matrix product is run for 50 ms.
double TrialFlopsPerSecond(const Backend& backend);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_INDEX_COST_H_
