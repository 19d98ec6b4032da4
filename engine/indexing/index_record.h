// Writes and reads the catalog's record of a document: how it was or is being indexed, under which
// names, and whether an interrupted run can go on. index_document.cc uses it.
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

// Returns the JSON for the catalog's row of a run that begins: its options, and the names under
// which the document will be found. `device`: "cuda:0"; `gpu`: the name of the device, or empty for
// the CPU. The name is part of the options, because the bits of keys depend on the kind of device.
// `part_of`: IndexContext::part_of.
std::string BuildingReport(const IndexOptions& options, const Model& model,
                           const PreparedDocument& prepared, const std::string& device,
                           const std::string& gpu, const std::string& part_of = {});
// Whether a run that was begun can go on with these options on this device (`gpu` as
// BuildingReport has it): then its bytes will be the same. `date`: PreparedDocument::date. Compares
// num_levels, seed, cluster_keys, stats and FAISS's version too, and no other option: those that
// change keys are part of the id, which the caller compares, and names, pages and budgets do not
// change the bytes. A run with `again` continues only what a run with `again` began, because others
// may have taken rows from an older version. False also for a row that cannot be read.
bool HasOptions(const DocumentRow& building, const IndexOptions& options, const std::string& gpu,
                const std::string& date);
// Adds sentences to a report: assumptions about the model, and bytes of the text that its
// vocabulary cannot represent. Replaces the report's assumptions, and appends them to its note.
void AddAssumptions(const Model& model, const PreparedDocument& prepared, IndexReport* report);

// The report of a run as far as it is known when the run begins: identity, names, model, retention,
// prefill and assumptions; a part leaves the assumptions to the document that it belongs to.
IndexReport NewReport(const IndexContext& context, const PreparedDocument& prepared,
                      const IndexOptions& options, const NamePlan& names);

// Adds to a report what a plan of names changes: its note, appended to the report's, and the
// version that is replaced. `keeps`: IndexOptions::keep_versions.
void AddNames(const NamePlan& names, bool keeps, IndexReport* report);

// Plans the names that a text gets and the version that they are taken from, and lists runs of
// other texts from the same source under the same name that were begun and are now useless. Changes
// nothing. The caller holds the store's lock. An older version whose text cannot be read counts as
// another text. Errors of reading the catalog.
Result<NamePlan> PlanNamesIn(const IndexContext& context, const Catalog& catalog,
                             const PreparedDocument& prepared, const IndexOptions& options);
// Does the same without the lock, by opening the catalog. Another process may be writing meanwhile,
// so that the plan serves to tell whether the lock is needed, and for reports, but not for changes.
// Errors of opening and reading the catalog.
Result<NamePlan> PlanNamesOf(const IndexContext& context, const PreparedDocument& prepared,
                             const IndexOptions& options);

// The report of a document that was there already, from its row; `existed` is true, times are 0,
// and budget and divergence are not filled in.
IndexReport ExistingReport(const DocumentRow& row, const NamePlan& names,
                           const IndexOptions& options);
// Finds the ready document `id`; nothing: there is none, or no store or an empty catalog yet. Needs
// no lock. Errors of opening and reading the catalog.
Result<std::optional<DocumentRow>> FindReady(const IndexContext& context, const DocumentId& id);
// The page map of a ready document; empty: it has none, or it cannot be read.
std::vector<PageMapEntry> StoredPages(const IndexContext& context, const DocumentRow& row);
// Their labels, likewise; empty: their numbers.
std::string StoredPageLabels(const IndexContext& context, const DocumentRow& row);
// Whether the document has the pages that the options ask for; true if they ask for none. False
// also where its pages cannot be read.
bool HasPages(const IndexContext& context, const DocumentRow& row, const IndexOptions& options);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_INDEX_RECORD_H_
