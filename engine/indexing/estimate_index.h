// Estimates the time, memory and disk space that indexing a document would take. Engine::Estimate
// uses it.
#ifndef LECTERN_ENGINE_INDEXING_ESTIMATE_INDEX_H_
#define LECTERN_ENGINE_INDEXING_ESTIMATE_INDEX_H_

#include <string_view>

#include "engine/indexing/index_context.h"
#include "engine/requests/requests.h"

namespace lectern {

// Estimates as Engine::Estimate describes; `bytes` and `options` as for IndexDocument. Tokenises
// the text and runs a matrix product for 50 ms to time this machine; writes nothing, and needs
// neither lock nor an existing store: free bytes are then those of the nearest folder that exists.
// A document that is there already is estimated as if it were not. options.cancel is polled before
// and after the text is tokenised, and while the product runs. Any thread. Codes of
// PrepareDocument, kOutOfMemory, kCancelled, and errors of reading the catalog.
Result<IndexEstimate> EstimateIndex(const IndexContext& context, std::string_view bytes,
                                    const IndexOptions& options);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_ESTIMATE_INDEX_H_
