// Options and results of the C API from and to those of the engine. INVALID_ARGUMENT, with the
// field's name, where a value is none.
#ifndef LECTERN_ENGINE_API_C_STRUCTS_H_
#define LECTERN_ENGINE_API_C_STRUCTS_H_

#include <string_view>

#include "engine/engine.h"
#include "engine/lectern_c.h"
#include "engine/model/formats/json.h"
#include "engine/requests/report_json.h"

namespace lectern::c_api {

Result<EngineOptions> ReadEngineOptions(const lectern_engine_options* given);
Result<IndexOptions> ReadIndexOptions(const lectern_index_options* given);
Result<PlanChange> ReadPlanOptions(const lectern_plan_options* given);
Result<AskOptions> ReadAskOptions(const lectern_ask_options* given);
Result<OffsetUnit> ReadOffsetUnit(lectern_offset_unit unit);
Result<Json> ParseObject(std::string_view json);

// Texts of what these give are borrowed from what they are given.
lectern_index_estimate ToC(const IndexEstimate& estimate);
IndexEstimate FromC(const lectern_index_estimate& read);
lectern_counts ToC(const Engine::Counts& counts);
lectern_index_numbers ToC(const IndexReport& report);
lectern_collected ToC(const Collected& collected);
lectern_removed ToC(const Removed& removed);
lectern_evidence ToC(const Evidence& evidence);
lectern_receipt ReceiptOf(const Answer& answer);

// Calls back with one of a list, whose texts live as long as the call.
void CallBack(const DocumentRow& row, lectern_document_fn on_document, void* user);
void CallBack(const Recovered::Refused& refused, lectern_refused_fn on_refused, void* user);
void CallBack(const ShardSummary& shard, lectern_shard_fn on_shard, void* user);
void CallBack(const DocumentPlan& plan, lectern_plan_fn on_plan, void* user);
void CallBack(const Damage& damage, lectern_damage_fn on_damage, void* user);

}  // namespace lectern::c_api

#endif  // LECTERN_ENGINE_API_C_STRUCTS_H_
