// Converts the C API's structs of options and results to and from the engine's structs, for
// lectern_c.cc. Nothing here decides anything: ranges are checked in the engine, by the tables of
// engine/requests/options.h.
#ifndef LECTERN_ENGINE_API_C_STRUCTS_H_
#define LECTERN_ENGINE_API_C_STRUCTS_H_

#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/lectern_c.h"
#include "engine/model/formats/json.h"
#include "engine/requests/report_json.h"

namespace lectern::c_api {

// Options of one call, copied: nothing points into the caller's memory afterwards, except callbacks
// and their user pointers. `given`: NULL, or a struct with struct_size; a field of 0 has the
// default. kInvalidArgument. Param "struct_size": a size that can be no struct's (CheckStructSize),
// or a byte that is not 0 behind the fields that this version knows. Param the field's name: a text
// or array that is NULL but has a length, a page number beyond 2^32 - 1, or a number that is none
// of an enumeration. Reserved fields are not read. Ranges and the options' other rules are not
// checked here. May throw bad_alloc, as every function below may.
Result<EngineOptions> ReadEngineOptions(const lectern_engine_options* given);
Result<IndexOptions> ReadIndexOptions(const lectern_index_options* given);
Result<PlanChange> ReadPlanOptions(const lectern_plan_options* given);
Result<AskOptions> ReadAskOptions(const lectern_ask_options* given);
Result<CiteRequest> ReadCiteOptions(const lectern_cite_options* given);  // without the text
// Texts for a collection, copied.
Result<std::vector<CollectionText>> ReadCollectionTexts(const lectern_text_to_add* texts,
                                                        size_t num_texts);
// The unit of a text's offsets. kInvalidArgument, param "offset_unit": another number.
Result<OffsetUnit> ReadOffsetUnit(lectern_offset_unit unit);
// Parses a JSON object. kInvalidArgument, without param: not JSON, or another kind of value.
Result<Json> ParseObject(std::string_view json);

// Results. Texts in them are views of the argument: they are valid as long as it is. Numbers that
// the engine leaves empty become -1 (shares and divergences) or 0 (pages), as lectern_c.h says at
// each field. struct_size is this version's; in a receipt it is 0, which WriteStruct replaces.
lectern_index_estimate ToC(const IndexEstimate& estimate);
IndexEstimate FromC(const lectern_index_estimate& read);  // the inverse; checks nothing
lectern_counts ToC(const Engine::Counts& counts);
lectern_index_numbers ToC(const IndexReport& report);
lectern_collected ToC(const Collected& collected);
lectern_removed ToC(const Removed& removed);
lectern_evidence ToC(const Evidence& evidence);
lectern_asked_document ToC(const AskedDocument& asked);
lectern_indexed_collection ToC(const IndexedCollection& indexed);
lectern_receipt ReceiptOf(const Answer& answer);

// Hands one item of a list to the program's function, on the calling thread; does nothing where the
// function is NULL. It is called once; for a sentence once for each of its passages, or, if it has
// none, once with evidence NULL. The item and its texts are valid during the call only; struct_size
// is this version's. `user` is passed on as it is. A plan must have a layer, which is not checked.
void CallBack(const CitedSentence& sentence, lectern_citation_fn on_citation, void* user);
void CallBack(const DocumentRow& row, lectern_document_fn on_document, void* user);
void CallBack(const Recovered::Refused& refused, lectern_refused_fn on_refused, void* user);
void CallBack(const ShardSummary& shard, lectern_shard_fn on_shard, void* user);
void CallBack(const DocumentPlan& plan, lectern_plan_fn on_plan, void* user);
void CallBack(const Damage& damage, lectern_damage_fn on_damage, void* user);
void CallBack(const CollectionSummary& collection, lectern_collection_fn on_collection, void* user);
void CallBack(const CollectionDocument& document, lectern_collection_document_fn on_document,
              void* user);
void CallBack(const AddedToCollection& added, lectern_added_fn on_added, void* user);
void CallBack(const Mentions::One& mention, lectern_mention_fn on_mention, void* user);
// False: the function returned something other than 0, which ends the indexing. `number`, `count`:
// 0 where one document is indexed for a question.
bool CallBack(std::string_view document, uint64_t number, uint64_t count,
              const IndexProgress& progress, lectern_collection_progress_fn on_progress,
              void* user);

}  // namespace lectern::c_api

#endif  // LECTERN_ENGINE_API_C_STRUCTS_H_
