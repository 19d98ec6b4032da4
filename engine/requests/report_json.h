// Writes the JSON of results and errors: one writer for the tools, the C API and REST.
#ifndef LECTERN_ENGINE_REQUESTS_REPORT_JSON_H_
#define LECTERN_ENGINE_REQUESTS_REPORT_JSON_H_

#include <optional>
#include <string>
#include <string_view>

#include "engine/model/formats/json.h"
#include "engine/requests/evidence_json.h"
#include "engine/requests/requests.h"
#include "index/retention/retention.h"
#include "store/bundle.h"
#include "store/store.h"

namespace lectern {

// All texts are compact: one line, without a newline, keys sorted, null where there is nothing.
// A call that names no codes does not fail. Any thread.

// An answer. `text`: the document, valid UTF-8, needed for units other than kUtf8, which cost a
// pass over it; an offset behind its end becomes the end. An answer of a collection has its texts
// itself.
std::string AnswerJson(const Answer& answer, OffsetUnit unit, std::string_view text);
// Likewise for citations. `given`: the text that was cited.
std::string CitedTextJson(const CitedText& cited, OffsetUnit unit, std::string_view given);
// A document's `keep`, `retention` and `representatives`, as its recipe and its report have them.
// ReadRetention reads them back.
void AddRetention(Json::Object& object, const Retention& retention);
// Likewise its `prefill` ("exact", "sparse") and `prefill_budget`. ReadPrefillBudget: 1 where they
// are not there, nothing where they are damaged. PrefillBudgetOf a row's report: 1 for both.
void AddPrefill(Json::Object& object, double prefill_budget);
std::optional<double> ReadPrefillBudget(const Json& json);
double PrefillBudgetOf(const DocumentRow& row);
// Likewise its `device` ("cpu" where a row's report does not say) and, where that is a GPU, `gpu`:
// its name; empty: a CPU's document.
void AddDevice(Json::Object& object, const std::string& device, const std::string& gpu);
std::string DeviceOf(const DocumentRow& row);
std::string GpuOf(const DocumentRow& row);
// The members of AddRetention in `json`; without them everything is kept. Codes of CheckRetention.
Result<Retention> ReadRetention(const Json& json);
// The same of a row's report; everything is kept where the report is damaged or not there.
Retention RetentionOf(const DocumentRow& row);
// EngineOptions::weights of its indexing; empty where the catalog was recovered and cannot tell,
// and "stored" where the report does not say.
std::string WeightsOf(const DocumentRow& row);
// The path of the adapter that it was indexed with; empty: none, or a recovered row cannot tell.
std::string AdapterOf(const DocumentRow& row);
// IndexReport::parts of its indexing; 0 also where its report is damaged or not there.
uint64_t PartsOf(const DocumentRow& row);
std::string IndexReportJson(const IndexReport& report);
std::string IndexEstimateJson(const IndexEstimate& estimate);
std::string DocumentJson(const DocumentRow& row);
// {"documents":[…]}, {"…a document…","report","shards":[{"file","bytes"}],"plan"} and
// {"damaged":[{"document","name","collection","code","message"}]}: what lectern-store prints.
// "report" is null if the row's is damaged, "plan" if `plan` is an error.
std::string DocumentsJson(const std::vector<DocumentRow>& rows);
std::string DocumentDetailsJson(const DocumentRow& row, const std::vector<ShardSummary>& shards,
                                const Result<DocumentPlan>& plan);
std::string DamageJson(const std::vector<Damage>& damaged);
// In this order: {"generations","files","in_use","unknown":[…]}; {"removed" (the id),"names",
// "document_gone","left"}; {"documents":[…],"refused":[{"directory","code","message"}],"replaced"};
// {"document","name","existed","note"}.
std::string CollectedJson(const Collected& collected);
std::string RemovedJson(const Removed& removed);
std::string RecoveredJson(const Recovered& recovered);
std::string ImportedJson(const Imported& imported);
// Where the text under the row's `name` came from; empty: it has no name, or that is not known.
std::string SourceOf(const DocumentRow& row);
std::string_view StateName(DocumentState state);  // "building", "ready", "dead"
// {"error":{"message","type","param","code","request_id","retryable"}}: the type is
// "invalid_request_error" or "server_error", by HttpStatus; retryable: the same call may succeed
// later. `status` is not ok.
std::string ErrorJson(const Status& status, std::string_view request_id = {});

std::string_view DtypeName(Dtype dtype);  // "f16"

}  // namespace lectern

#endif  // LECTERN_ENGINE_REQUESTS_REPORT_JSON_H_
