// Reuses the keys and values of an older text that begins with the same tokens, so that the part
// before an edit is not computed again.
#ifndef LECTERN_ENGINE_INDEXING_REUSE_KV_H_
#define LECTERN_ENGINE_INDEXING_REUSE_KV_H_

#include <span>

#include "engine/document/document.h"
#include "engine/document/kv_spill.h"

namespace lectern {

// Fills an empty spill with the KV of the tokens that `older` and `tokens` begin with, by whole
// chunks of the prefill, and with its sums over them; returns how many tokens that is. The spill is
// then as if they had been prefilled here, bit for bit, where `older` was made by the same build on
// the same kind of processor: KV depends on the tokens before it alone, rows are stored as the
// spill has them, and nothing that is kept looks further back than the last tokens of a document.
//
// 0, and the spill as it was: where the two have another model or KV type, q8 (its rows were
// rounded once more), no common chunk, or where `older` lacks rows or sums. On an error
// (kChecksumMismatch, kTruncated, kIoError, kNoSpace) the spill holds anything: start it over.
Result<uint64_t> ReusePrefix(const Document& older, std::span<const int32_t> tokens,
                             KvSpill& spill);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_REUSE_KV_H_
