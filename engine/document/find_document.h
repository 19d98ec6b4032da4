// Finds the document that a user's text means, for asking and for removing.
#ifndef LECTERN_ENGINE_DOCUMENT_FIND_DOCUMENT_H_
#define LECTERN_ENGINE_DOCUMENT_FIND_DOCUMENT_H_

#include <string>
#include <string_view>

#include "engine/requests/requests.h"
#include "store/catalog.h"
#include "store/env.h"

namespace lectern {

// The name that a document which is being indexed will have, from the row's report: the one that
// was asked for, else its source's base name, though that may get folders. Empty: it will have
// none, or the report cannot be read.
std::string BuildingName(const DocumentRow& row);

// Finds the ready document that `text` means, as Engine::Open explains. kNotFound and kAmbiguous
// list the documents; kNotReady: it is being indexed, or its indexing was interrupted, which the
// store's lock tells apart for the message. All three have param "document". Codes of
// Catalog::List.
Result<DocumentRow> FindDocument(Env& env, const std::string& store, const Catalog& catalog,
                                 std::string_view text);

// Removes a document or one of its names in one transaction, as Engine::Remove explains, and
// runs CollectGarbage, whose errors are ignored: a later collection finishes. `text` is an exact
// name or an id, also of a document whose indexing was not finished; empty: the only document. The
// end of a path is kNotFound here. The parts of a document go with it. kInvalidArgument: it is such
// a part. The caller must hold the store's lock. Codes of FindDocument except kNotReady, and of
// RemoveDocument and Catalog::RemoveName.
Result<Removed> RemoveNamed(Env& env, const std::string& store, Catalog& catalog,
                            std::string_view text);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_FIND_DOCUMENT_H_
