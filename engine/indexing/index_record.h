// Writes and reads what the catalog says of a document that is indexed, or was begun.
#ifndef LECTERN_ENGINE_INDEXING_INDEX_RECORD_H_
#define LECTERN_ENGINE_INDEXING_INDEX_RECORD_H_

#include <optional>
#include <string>
#include <vector>

#include "engine/document/document_names.h"
#include "engine/indexing/index_context.h"
#include "engine/indexing/index_input.h"
#include "store/catalog.h"

namespace lectern {

// The report of a building row: how it is built, and under which name it will be found. `gpu`: the
// name of the device, or empty: the bits of keys depend on the kind of device.
std::string BuildingReport(const IndexOptions& options, const Model& model,
                           const PreparedDocument& prepared, const std::string& device,
                           const std::string& gpu);
// Whether what was begun can go on with these. `date`: PreparedDocument::date.
bool HasOptions(const DocumentRow& building, const IndexOptions& options, const std::string& gpu,
                const std::string& date);
// Adds to a report what was assumed of the model and the text.
void AddAssumptions(const Model& model, const PreparedDocument& prepared, IndexReport* report);

// Adds what becomes of names. `keeps`: IndexOptions::keep_versions.
void AddNames(const NamePlan& names, bool keeps, IndexReport* report);

// The names that a text gets, and what they take the place of: also begun runs of other texts from
// the same source. The caller holds the store's lock.
Result<NamePlan> PlanNamesIn(const IndexContext& context, const Catalog& catalog,
                             const PreparedDocument& prepared, const IndexOptions& options);
// Does the same without the lock. Only IsChange() may be relied on, because another process may be
// writing.
Result<NamePlan> PlanNamesOf(const IndexContext& context, const PreparedDocument& prepared,
                             const IndexOptions& options);

IndexReport ExistingReport(const DocumentRow& row, const NamePlan& names,
                           const IndexOptions& options);
// Finds a ready document; needs no lock, and no store that is there already.
Result<std::optional<DocumentRow>> FindReady(const IndexContext& context, const DocumentId& id);
// The page map of a ready document; empty: it has none, or it cannot be read.
std::vector<PageMapEntry> StoredPages(const IndexContext& context, const DocumentRow& row);
// Whether the document has the pages that the options ask for, if any.
bool HasPages(const IndexContext& context, const DocumentRow& row, const IndexOptions& options);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_INDEX_RECORD_H_
