// The files of a store's collections: where they lie, and what they are called.
#ifndef LECTERN_ENGINE_DOCUMENT_COLLECTIONS_FOLDER_H_
#define LECTERN_ENGINE_DOCUMENT_COLLECTIONS_FOLDER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/document/collection.h"
#include "store/env.h"
#include "store/status.h"

namespace lectern {

// kInvalidArgument, param "collection", if a name is empty, longer than 80 bytes, no valid UTF-8,
// or has control characters.
Status CheckCollectionName(std::string_view name);

// The paths of all collections of a store; empty where it has none. Codes of Env.
Result<std::vector<std::string>> CollectionFiles(Env& env, const std::string& store);
// A path for a new collection, which no file has. Names that differ in capitals alone get files
// that differ in more, for file systems that do not tell them apart. Codes of Env.
Result<std::string> NewCollectionPath(Env& env, const std::string& store, std::string_view name);
// The path of the collection of this name; empty: the store has none. A file that cannot be read is
// found by the name that it was made for, so that it can be removed. Codes of Env.
Result<std::string> FindCollection(Env& env, const std::string& store, std::string_view name);
// Removes a collection's file. The caller holds the store's lock. Codes of Env.
Status RemoveCollectionFile(Env& env, const std::string& path);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_COLLECTIONS_FOLDER_H_
