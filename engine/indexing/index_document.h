// Indexes a document, from bytes to a row of the catalog: bytes -> text -> tokens -> prefill ->
// clusters -> shards -> catalog. Engine::Index uses it.
#ifndef LECTERN_ENGINE_INDEXING_INDEX_DOCUMENT_H_
#define LECTERN_ENGINE_INDEXING_INDEX_DOCUMENT_H_

#include <functional>
#include <string_view>

#include "engine/document/document_names.h"
#include "engine/indexing/index_context.h"
#include "engine/indexing/index_input.h"
#include "engine/requests/requests.h"

namespace lectern {

// Indexes `bytes` as Engine::Index describes, or finds that the same document is there; then it
// only changes the document's names where these options do. Takes minutes to hours; all or nothing:
// the document becomes visible in one transaction at the end. Runs of the same document with other
// options, and of other texts from the same source, that were begun before are discarded.
// After an error, a cancellation or a crash the checkpoint stays, and the same call goes on from
// there. The caller makes sure that one call runs at a time in this process; the store's lock keeps
// other processes out. Progress is reported on the calling thread. Codes of PrepareDocument;
// kNoSpace (also beyond the quota), kLocked, kReadOnly, kOutOfMemory, kCancelled, kIoError, errors
// of reading the catalog, the checkpoint and its shards, and errors of the device. If the store
// cannot be written but the document is there under its name, this is no error.
Result<IndexReport> IndexDocument(const IndexContext& context, std::string_view bytes,
                                  const IndexOptions& options);

// Indexes a document that is not there yet, under the names that were planned. The store is locked
// and the catalog open. The options have the pages that the document had before.
using IndexNew = std::function<Result<IndexReport>(Catalog&, const NamePlan&, const IndexOptions&)>;
// Calls `index`, or finds that the same document is there and only changes its names, as
// IndexDocument explains; its report then has neither times nor assumptions. Takes the store's lock
// unless context.holds_lock.
Result<IndexReport> IndexUnlessThere(const IndexContext& context, const PreparedDocument& prepared,
                                     const IndexOptions& options, const IndexNew& index);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_INDEX_DOCUMENT_H_
