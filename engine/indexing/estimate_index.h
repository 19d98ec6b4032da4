// Estimates the time, memory and disk that indexing a document would take.
#ifndef LECTERN_ENGINE_INDEXING_ESTIMATE_INDEX_H_
#define LECTERN_ENGINE_INDEXING_ESTIMATE_INDEX_H_

#include <string_view>

#include "engine/indexing/index_context.h"
#include "engine/requests/requests.h"

namespace lectern {

// As Engine::Estimate. Writes nothing; runs a matrix product for a moment to time it.
Result<IndexEstimate> EstimateIndex(const IndexContext& context, std::string_view bytes,
                                    const IndexOptions& options);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_ESTIMATE_INDEX_H_
