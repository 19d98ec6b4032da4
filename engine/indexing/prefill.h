// Runs a document through the model once, chunk by chunk, and fills the spill with its keys and
// values. index_document.cc uses it.
#ifndef LECTERN_ENGINE_INDEXING_PREFILL_H_
#define LECTERN_ENGINE_INDEXING_PREFILL_H_

#include <functional>
#include <optional>

#include "engine/document/kv_spill.h"
#include "engine/forward/transformer.h"
#include "engine/gpu/memory_plan.h"
#include "engine/indexing/prefill_clusters.h"

namespace lectern {

// How a prefill runs; the defaults are an exact prefill without anyone who watches.
struct PrefillOptions {
  double checkpoint_seconds = 30;  // at least, between two checkpoints
  bool keeps_spills = true;        // false: a layer's rows leave our memory after each chunk's use
  std::optional<SparsePrefill> sparse;  // none: exact
  // Bytes of the rows that are brought to a device at a time (PlanDevicePrefill).
  uint64_t device_block_bytes = kDeviceStagingBytes;
  // Called after each chunk with the tokens done. This and the two functions below may be empty.
  std::function<void(uint64_t tokens_done)> on_chunk;
  // Called after clusters of the first `tokens` tokens were made, before the chunk that reads them.
  std::function<void(uint64_t tokens)> on_clusters;
  // Polled at least every 250 ms: true ends the prefill with kCancelled, after a checkpoint.
  std::function<bool()> is_cancelled;
};

// Attends causally from every token to all tokens before it, with K and V as they are rounded in
// the spill: blocked, online softmax. Exact unless options.sparse. Goes on from
// spill.tokens_done(); does nothing where all tokens are done. Writes checkpoints of the spill as
// options.checkpoint_seconds says, and one at the end. After another error than kCancelled, the
// spill holds half a chunk, and the last checkpoint is the one that was written before.
//
// Bits: chunk boundaries are multiples of kChunkTokens whatever happened before, so an interrupted
// run ends with the same bytes as one that was not.
//
// The last layer ends with its keys and values: nothing reads its output. Only the tokens of each
// chunk from kUnsampledTokens on attend there, for the statistics.
//
// Statistics: where the spill keeps queries (the document will have clusters) it also gets each
// layer's sum of cosines between the residual stream before and after attention (SqueezeAttention,
// eq. 5). Where it keeps sums of squared attention, every layer attends in full and the logits of
// each chunk are computed a second time (index/full_attention.h); not with `sparse`.
//
// Sparse: chunks from token kDenseTokens on attend exactly to keys that are not clustered and to
// the sinks; of the clusters (engine/indexing/prefill_clusters.h) to the rows that a lookup chooses
// for a block of tokens, and to stand-ins for the rest. All tokens of a block count alike, because
// later questions read the keys and values of each; a few of them, evenly spread, choose.
//
// Device: with a transformer on a device, attention runs there too (engine/gpu/prefill.h), if its
// kernels take the spill's rows.
//
// Memory beside the spill's pages: one chunk's activations and one attention tile a thread; sparse
// also a lookup's buffers and what making the clusters takes (index_cost.h).
//
// `tokens`: the whole document, as many as spill.shape() says. Call it from one thread; it uses all
// of the transformer's, and the callbacks on_chunk and on_clusters run on the calling thread.
// is_cancelled may be called from any of them. kCancelled (after a checkpoint), kIoError, kNoSpace,
// kChecksumMismatch, kOutOfMemory; of a device kOutOfMemory, param "device_memory", and the errors
// of Device::Check.
Status Prefill(const Transformer& transformer, std::span<const int32_t> tokens, KvSpill& spill,
               const PrefillOptions& options);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_PREFILL_H_
