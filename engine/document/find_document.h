// Which document a text stands for, for those who ask and those who remove.
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

// As Engine::Open has `text`. kNotFound and kAmbiguous list what there is; kNotReady: it is being
// indexed, or that was interrupted.
Result<DocumentRow> FindDocument(Env& env, const std::string& store, const Catalog& catalog,
                                 std::string_view text);

// As Engine::Remove, in one transaction, with its collection. By a name as it stands, or an id. For
// the one who holds the store's lock. Codes of FindDocument but kNotReady.
Result<Removed> RemoveNamed(Env& env, const std::string& store, Catalog& catalog,
                            std::string_view text);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_FIND_DOCUMENT_H_
