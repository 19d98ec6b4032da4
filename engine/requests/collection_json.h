// Writes the JSON of collections: one writer for the tools, the C API and REST.
#ifndef LECTERN_ENGINE_REQUESTS_COLLECTION_JSON_H_
#define LECTERN_ENGINE_REQUESTS_COLLECTION_JSON_H_

#include <span>
#include <string>
#include <string_view>

#include "engine/model/formats/json.h"
#include "engine/requests/evidence_json.h"
#include "engine/requests/requests.h"

namespace lectern {

// All texts are as report_json.h has them: compact, keys sorted, null where there is nothing. No
// call fails. Any thread. `collection`: its name.

// {"collections":[{"name","documents","indexed","text_bytes","bytes_on_disk"}]}.
std::string CollectionsJson(std::span<const CollectionSummary> collections);
// {"collection","documents":[{"name","source","document","text_bytes"}]}.
std::string CollectionDocumentsJson(std::string_view collection,
                                    std::span<const CollectionDocument> documents);
// {"collection","added":[{"name","change"}]}.
std::string AddedJson(std::string_view collection, std::span<const AddedToCollection> added);
std::string_view ChangeName(AddedToCollection::Change change);  // "new", "renewed", "unchanged"
// {"collection","words","count","documents":[{"name","source","document","passages","passage"}],
// "offset_unit"}: "passage" as evidence of an answer, without "mass" and "score".
std::string MentionsJson(std::string_view collection, std::string_view words,
                         const Mentions& mentions, OffsetUnit unit);
// {"collection","indexed","existed","left","failures","failed","note"}.
std::string IndexedCollectionJson(std::string_view collection, const IndexedCollection& indexed);
// The member "collection" of an answer: {"name","count","asked":[{"document","name","source",
// "probability","answer","support","logprob","chosen","new","passages"}]}; null where a document
// was asked.
Json AskedCollectionValue(const Answer& answer);

}  // namespace lectern

#endif  // LECTERN_ENGINE_REQUESTS_COLLECTION_JSON_H_
