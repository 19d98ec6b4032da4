// Reuses the keys and values of an older text that begins with the same tokens, so that the part
// before an edit is not computed again.
#ifndef LECTERN_ENGINE_INDEXING_REUSE_KV_H_
#define LECTERN_ENGINE_INDEXING_REUSE_KV_H_

#include <span>

#include "engine/document/document.h"
#include "engine/document/kv_spill.h"

namespace lectern {

// Fills an empty spill with the keys and values of the tokens that `older` and `tokens` begin with,
// and with the sums of cosines over them; returns the number of these tokens, which is a multiple
// of kChunkTokens. The spill is then as if they had been prefilled here, bit for bit, where `older`
// was made by the same build on the same kind of processor: keys and values depend on the tokens
// before them alone, rows are stored as the spill has them, and nothing that is kept looks further
// back than the last tokens of a document. The caller checks that model, device and kind of prefill
// are the same.
//
// Returns 0 and leaves the spill as it was where the two differ in layers, heads or the type of
// rows (so also for q8, whose rows were rounded once more), have no chunk in common, or where
// `older` has no sums and the spill needs them. The spill's last tokens, as many as it keeps
// queries of, are never reused. Writes no checkpoint. On an error (kNotFound: `older` does not
// store every row, as in windowed layers; kChecksumMismatch, kCorrupt, kTruncated, kIoError,
// kNoSpace) the spill holds anything: start it over.
Result<uint64_t> ReusePrefix(const Document& older, std::span<const int32_t> tokens,
                             KvSpill& spill);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_REUSE_KV_H_
