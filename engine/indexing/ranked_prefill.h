// The prefill of a document by several ranks: each computes the keys and values of its own tokens,
// and queries go around the ring of ranks to meet the rows of all of them.
//
// Sources: Ring Attention (arXiv:2310.01889) passes keys and values around. Here the queries go, as
// in "pass-Q" of Context Parallelism (arXiv:2411.01783): a document is prefilled chunk by chunk, so
// that the rows behind a chunk soon outnumber its queries.
#ifndef LECTERN_ENGINE_INDEXING_RANKED_PREFILL_H_
#define LECTERN_ENGINE_INDEXING_RANKED_PREFILL_H_

#include <span>

#include "engine/document/kv_spill.h"
#include "engine/forward/transformer.h"
#include "engine/indexing/prefill.h"
#include "engine/ranks/communicator.h"

namespace lectern {

// A rank's tokens: every size'th chunk of kChunkTokens, from chunk `rank` on. So each rank has its
// share of the rows behind any chunk, and the ranks' work is even.
struct RankTokens {
  uint32_t rank, size;  // rank < size
  // How many of the first `position` tokens of a document are the rank's.
  uint64_t Below(uint64_t position) const;
};

// One rank's part; borrowed for the call.
struct RankedPrefillArgs {
  const Transformer& transformer;   // without a device
  std::span<const int32_t> tokens;  // the whole document
  Communicator& ranks;
  // Holds all layers of the rank's tokens: num_tokens is RankTokens::Below(tokens.size()); without
  // queries for calibration.
  KvSpill& own;
  // Holds all tokens of the rank's layers (SpillShape::rank). That of the first rank also gets the
  // sums of cosines of all layers.
  KvSpill& layers;
  const PrefillOptions& options;  // exact; the first rank's callbacks alone are called
};

// Fills both spills, on all ranks together: attention is exact, with K and V as they are rounded in
// the spills. Goes on from the spills' checkpoints where those of all ranks are of the same moment,
// and else begins anew. Rows differ from those of Prefill by the rounding of sums that are added up
// in another order. Memory beside the spills' pages: one chunk's activations, and the queries and
// outputs of two chunks. Errors of Prefill on any rank become the error of all; kCancelled after a
// checkpoint. A rank without memory for its buffers is kOutOfMemory of all; one that runs out of it
// later ends the group (Communicator::Abort).
Status PrefillWithRanks(const RankedPrefillArgs& args);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_RANKED_PREFILL_H_
