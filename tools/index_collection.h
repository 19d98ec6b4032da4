// Indexes the documents of a collection, for the tools that index and ask.
#ifndef LECTERN_TOOLS_INDEX_COLLECTION_H_
#define LECTERN_TOOLS_INDEX_COLLECTION_H_

#include <string>

#include "engine/lectern.h"
#include "tools/interrupts.h"
#include "tools/progress.h"
#include "tools/terminal.h"

namespace lectern::tools {

// Whether a document of the collection is indexed. NOT_FOUND (param "collection"): there is no such
// collection; codes of api::Engine::DocumentsOf.
api::Result<bool> HasIndexedDocument(api::Engine& engine, const std::string& collection);

struct CollectionRun {
  ErrorStyle style = ErrorStyle::kText;
  ProgressStyle progress = ProgressStyle::kAuto;
};
// Indexes the documents that are not indexed yet, with progress on stderr, and prints the result on
// stdout: a line for people, with documents that were left or failed as a note on stderr, or the
// object of api::IndexedCollection. `options`: as api::Engine::IndexCollection has them. To be
// called inside a scope of `interrupts` that cancels the engine. CANCELLED after a signal; codes of
// IndexCollection.
api::Result<api::Done> IndexDocumentsOf(api::Engine& engine, const std::string& collection,
                                        const api::IndexOptions& options,
                                        const Interrupts& interrupts, const CollectionRun& run);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INDEX_COLLECTION_H_
