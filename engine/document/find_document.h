// Finds the document that a user's text means, for asking and for removing.
#ifndef LECTERN_ENGINE_DOCUMENT_FIND_DOCUMENT_H_
#define LECTERN_ENGINE_DOCUMENT_FIND_DOCUMENT_H_

#include <string>
#include <string_view>

#include "engine/requests/requests.h"
#include "store/catalog.h"
#include "store/env.h"

namespace lectern {

// The name that a document which is being indexed will have; empty: none.
std::string BuildingName(const DocumentRow& row);

// Finds the ready document that `text` means, as Engine::Open explains. kNotFound and kAmbiguous
// list the documents; kNotReady: it is being indexed, or its indexing was interrupted.
Result<DocumentRow> FindDocument(Env& env, const std::string& store, const Catalog& catalog,
                                 std::string_view text);

// Removes a document or one of its names in one transaction, as Engine::Remove explains, and
// collects its files. `text` is an exact name or an id. The caller must hold the store's lock.
// Codes of FindDocument except kNotReady.
Result<Removed> RemoveNamed(Env& env, const std::string& store, Catalog& catalog,
                            std::string_view text);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_FIND_DOCUMENT_H_
