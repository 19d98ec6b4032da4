// Indexes a document: bytes -> text -> tokens -> prefill -> clusters -> shards -> catalog.
#ifndef LECTERN_ENGINE_INDEXING_INDEX_DOCUMENT_H_
#define LECTERN_ENGINE_INDEXING_INDEX_DOCUMENT_H_

#include <string_view>

#include "engine/indexing/index_context.h"
#include "engine/requests/requests.h"

namespace lectern {

// As Engine::Index; the caller makes sure that one runs at a time in this process, other processes
// are kept out by the store's lock file.
Result<IndexReport> IndexDocument(const IndexContext& context, std::string_view bytes,
                                  const IndexOptions& options);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_INDEX_DOCUMENT_H_
