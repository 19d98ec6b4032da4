// Indexes a document, from bytes to a row of the catalog: bytes -> text -> tokens -> prefill ->
// clusters -> shards -> catalog. Engine::Index uses it.
#ifndef LECTERN_ENGINE_INDEXING_INDEX_DOCUMENT_H_
#define LECTERN_ENGINE_INDEXING_INDEX_DOCUMENT_H_

#include <string_view>

#include "engine/indexing/index_context.h"
#include "engine/requests/requests.h"

namespace lectern {

// Indexes `bytes` as Engine::Index describes, or finds that the same document is there. Takes
// minutes to hours; all or nothing: the document becomes visible in one transaction at the end.
// After an error, a cancellation or a crash the checkpoint stays, and the same call goes on from
// there. The caller makes sure that one call runs at a time in this process; the store's lock keeps
// other processes out. Progress is reported on the calling thread. Codes of PrepareDocument;
// kNoSpace, kLocked, kReadOnly, kOutOfMemory, kCancelled, kIoError, and errors of the device.
Result<IndexReport> IndexDocument(const IndexContext& context, std::string_view bytes,
                                  const IndexOptions& options);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_INDEX_DOCUMENT_H_
