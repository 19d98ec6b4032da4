// Runs the document through the model once, chunk by chunk, filling the spills with its KV.
#ifndef LECTERN_ENGINE_INDEXING_PREFILL_H_
#define LECTERN_ENGINE_INDEXING_PREFILL_H_

#include <functional>
#include <optional>

#include "engine/document/kv_spill.h"
#include "engine/forward/transformer.h"
#include "engine/gpu/memory_plan.h"
#include "engine/indexing/prefill_clusters.h"

namespace lectern {

struct PrefillOptions {
  double checkpoint_seconds = 30;  // at least this between two checkpoints, and one chunk
  bool keeps_spills = true;        // false: a layer's spill leaves our memory when a chunk had it
  std::optional<SparsePrefill> sparse;  // none: exact
  // Bytes of the rows that are brought to a device at a time (PlanDevicePrefill).
  uint64_t device_block_bytes = kDeviceStagingBytes;
  // Called after each chunk with the tokens done.
  std::function<void(uint64_t tokens_done)> on_chunk;
  // Called after clusters of the first `tokens` tokens were made, before the chunk that reads them.
  std::function<void(uint64_t tokens)> on_clusters;
  // Polled at least every 250 ms: true ends the prefill with kCancelled, after a checkpoint.
  std::function<bool()> is_cancelled;
};

// Causal attention of every token over all before it: blocked, online softmax, K and V as rounded
// in the spill; exact unless `sparse`. Goes on from spill.tokens_done(). Chunk boundaries are
// multiples of kChunkTokens whatever happened before, so that an interrupted run ends with the same
// bytes. The last layer ends with its keys and values: nothing reads its output. Only the tokens of
// each chunk from kUnsampledTokens on attend there, for the statistics. Where the spill keeps
// queries (the document will have clusters) it also gets each layer's sum of cosines between the
// residual stream before and after attention (SqueezeAttention, eq. 5). Where it keeps sums of
// squared attention, every layer attends in full and the logits of each chunk are computed a second
// time (index/full_attention.h); not with `sparse`. Sparse: chunks from token kDenseTokens on
// attend exactly to what is not clustered and to the sinks, and of the clusters
// (engine/indexing/prefill_clusters.h) to the rows that a lookup chooses for a block of tokens, and
// to its tail. All tokens of a block count alike, because later questions read the keys and values
// of each; a few of them, evenly spread, choose. Anonymous memory: one chunk's activations and one
// attention tile a thread; sparse: a lookup's buffers too, and what making the clusters takes
// (index_cost.h). With a transformer on a device attention is there too (device_prefill.h), where
// its kernels take the spill's rows. kCancelled, kIoError, kNoSpace, kChecksumMismatch,
// kOutOfMemory; of a device kOutOfMemory, param "device_memory", and the errors of Device::Check.
Status Prefill(const Transformer& transformer, std::span<const int32_t> tokens, KvSpill& spill,
               const PrefillOptions& options);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_PREFILL_H_
