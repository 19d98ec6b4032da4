// The functions of the C API. Each looks up its tickets, converts its arguments, calls the engine
// and converts the result; it has no logic of its own. lectern_c.h describes them. A body runs
// inside Call (handles.h), which catches exceptions.
#include "engine/lectern_c.h"

#include "engine/api/build_info.h"
#include "engine/api/c_structs.h"
#include "engine/api/handles.h"

namespace lectern {

// The C codes are the engine's, number by number: casts between them rely on it. A code that is
// added to one list only does not compile.
#define LECTERN_SAME_CODE(c_code, code) static_assert(int{c_code} == static_cast<int>(Code::code))
LECTERN_SAME_CODE(LECTERN_OK, kOk);
LECTERN_SAME_CODE(LECTERN_INVALID_ARGUMENT, kInvalidArgument);
LECTERN_SAME_CODE(LECTERN_NOT_FOUND, kNotFound);
LECTERN_SAME_CODE(LECTERN_AMBIGUOUS, kAmbiguous);
LECTERN_SAME_CODE(LECTERN_MODEL_MISMATCH, kModelMismatch);
LECTERN_SAME_CODE(LECTERN_EMPTY_DOCUMENT, kEmptyDocument);
LECTERN_SAME_CODE(LECTERN_CONTEXT_TOO_LONG, kContextTooLong);
LECTERN_SAME_CODE(LECTERN_BUDGET_TOO_SMALL, kBudgetTooSmall);
LECTERN_SAME_CODE(LECTERN_NO_SPACE, kNoSpace);
LECTERN_SAME_CODE(LECTERN_OUT_OF_MEMORY, kOutOfMemory);
LECTERN_SAME_CODE(LECTERN_READ_ONLY, kReadOnly);
LECTERN_SAME_CODE(LECTERN_LOCKED, kLocked);
LECTERN_SAME_CODE(LECTERN_CANCELLED, kCancelled);
LECTERN_SAME_CODE(LECTERN_IO_ERROR, kIoError);
LECTERN_SAME_CODE(LECTERN_MISSING_FILE, kMissingFile);
LECTERN_SAME_CODE(LECTERN_TRUNCATED, kTruncated);
LECTERN_SAME_CODE(LECTERN_CHECKSUM_MISMATCH, kChecksumMismatch);
LECTERN_SAME_CODE(LECTERN_CORRUPT, kCorrupt);
LECTERN_SAME_CODE(LECTERN_UNSUPPORTED_VERSION, kUnsupportedVersion);
LECTERN_SAME_CODE(LECTERN_UNSUPPORTED_MODEL, kUnsupportedModel);
LECTERN_SAME_CODE(LECTERN_MALFORMED_MODEL, kMalformedModel);
LECTERN_SAME_CODE(LECTERN_UNSAFE_FORMAT, kUnsafeFormat);
LECTERN_SAME_CODE(LECTERN_LIMIT_EXCEEDED, kLimitExceeded);
LECTERN_SAME_CODE(LECTERN_NOT_READY, kNotReady);
LECTERN_SAME_CODE(LECTERN_INVALID_HANDLE, kInvalidHandle);
LECTERN_SAME_CODE(LECTERN_INTERNAL, kInternal);
static_assert(kNumCodes == int{LECTERN_INTERNAL} + 1);
#undef LECTERN_SAME_CODE

}  // namespace lectern

using namespace lectern;  // every function below is extern "C" and has its prefix
using namespace lectern::c_api;

// --- codes --------------------------------------------------------------------------------------

const char* lectern_code_name(lectern_code code) {
  return CodeName(static_cast<Code>(code)).data();  // a literal
}
int32_t lectern_exit_status(lectern_code code) { return ExitStatus(static_cast<Code>(code)); }
const char* lectern_version(void) { return LECTERN_VERSION; }
uint32_t lectern_abi_version(void) { return LECTERN_ABI_VERSION; }
// Made at the first call and kept for good, as lectern_version's text is. Without memory it is
// "{}".
const char* lectern_build_info(void) {
  try {
    static const std::string* const info = new std::string(BuildInfoJson());
    return info->c_str();
  } catch (...) {
    return "{}";
  }
}

// --- errors and texts ---------------------------------------------------------------------------

lectern_code lectern_error_code(const lectern_error* error) {
  const auto status = Find(error);
  return status ? static_cast<lectern_code>(status->code()) : LECTERN_INVALID_HANDLE;
}
const char* lectern_error_message(const lectern_error* error, size_t* len) {
  const auto status = Find(error);
  return Give(status ? &status->message() : nullptr, len);
}
const char* lectern_error_cli_message(const lectern_error* error, size_t* len) {
  const auto status = Find(error);
  return Give(status ? &status->wordings().cli_text() : nullptr, len);
}
const char* lectern_error_param(const lectern_error* error, size_t* len) {
  const auto status = Find(error);
  return Give(status ? &status->param() : nullptr, len);
}
lectern_code lectern_error_free(lectern_error* error) { return Free(error); }

const char* lectern_text_data(const lectern_text* text, size_t* len) {
  return Give(Find(text).get(), len);
}
lectern_code lectern_text_free(lectern_text* text) { return Free(text); }

// --- the engine ---------------------------------------------------------------------------------

// The store is needed even to ask; other options have defaults.
lectern_code lectern_engine_create(const lectern_engine_options* options, lectern_engine** engine,
                                   lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_RETURN_IF_ERROR(Clear(engine));
    LECTERN_ASSIGN(const EngineOptions read, ReadEngineOptions(options));
    if (read.store.empty()) return InvalidArgument("store", "no store: say which directory");
    auto object = std::make_shared<EngineObject>();
    LECTERN_ASSIGN(object->engine, Engine::Create(read));
    *engine = Issue<lectern_engine>(std::move(object));
    return Status();
  });
}

lectern_code lectern_engine_free(lectern_engine* engine) { return Free(engine); }

lectern_code lectern_engine_cancel(lectern_engine* engine) {
  return Call(nullptr, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    object->running.Cancel();
    return Status();
  });
}

lectern_code lectern_engine_counts(const lectern_engine* engine, lectern_counts* counts) {
  return Call(nullptr, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    return WriteStruct(ToC(object->engine->counts()), counts);
  });
}

// --- indexing -----------------------------------------------------------------------------------

// Cancelling the engine cancels every indexing that runs on it. The report's JSON is made at once,
// while memory may still fail as an error.
lectern_code lectern_engine_index(lectern_engine* engine, const char* bytes, size_t len,
                                  const lectern_index_options* options,
                                  lectern_index_report** report, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_RETURN_IF_ERROR(Clear(report));
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view text, View(bytes, len, "bytes"));
    LECTERN_ASSIGN(IndexOptions read, ReadIndexOptions(options));
    const RunningCalls::Scope scope(object->running);
    read.cancel = scope.cancel();
    auto result = std::make_shared<IndexReportObject>();
    LECTERN_ASSIGN(result->report, object->engine->Index(text, read));
    result->json = IndexReportJson(result->report);
    *report = Issue<lectern_index_report>(std::move(result));
    return Status();
  });
}

// The same for a file that the engine reads.
lectern_code lectern_engine_index_file(lectern_engine* engine, const char* path, size_t path_len,
                                       const lectern_index_options* options,
                                       lectern_index_report** report, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_RETURN_IF_ERROR(Clear(report));
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string file, Copy(path, path_len, "path"));
    LECTERN_ASSIGN(IndexOptions read, ReadIndexOptions(options));
    const RunningCalls::Scope scope(object->running);
    read.cancel = scope.cancel();
    auto result = std::make_shared<IndexReportObject>();
    LECTERN_ASSIGN(result->report, object->engine->IndexFile(file, read));
    result->json = IndexReportJson(result->report);
    *report = Issue<lectern_index_report>(std::move(result));
    return Status();
  });
}

lectern_code lectern_engine_estimate(lectern_engine* engine, const char* bytes, size_t len,
                                     const lectern_index_options* options,
                                     lectern_index_estimate* estimate, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view text, View(bytes, len, "bytes"));
    LECTERN_ASSIGN(IndexOptions read, ReadIndexOptions(options));
    const RunningCalls::Scope scope(object->running);
    read.cancel = scope.cancel();
    LECTERN_ASSIGN(const IndexEstimate result, object->engine->Estimate(text, read));
    return WriteStruct(ToC(result), estimate);
  });
}

lectern_code lectern_index_estimate_json(const lectern_index_estimate* estimate,
                                         lectern_text** json, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_RETURN_IF_ERROR(Clear(json));
    if (!estimate) return InvalidArgument("estimate", "the estimate is NULL");
    LECTERN_ASSIGN(const lectern_index_estimate read, ReadStruct(estimate));
    return GiveText(IndexEstimateJson(FromC(read)), json);
  });
}

const char* lectern_index_report_document(const lectern_index_report* report, size_t* len) {
  const auto object = Find(report);
  return Give(object ? &object->report.document : nullptr, len);
}
const char* lectern_index_report_name(const lectern_index_report* report, size_t* len) {
  const auto object = Find(report);
  return Give(object ? &object->report.name : nullptr, len);
}
const char* lectern_index_report_source(const lectern_index_report* report, size_t* len) {
  const auto object = Find(report);
  return Give(object ? &object->report.source : nullptr, len);
}
const char* lectern_index_report_replaced(const lectern_index_report* report, size_t* len) {
  const auto object = Find(report);
  return Give(object ? &object->report.replaced : nullptr, len);
}
const char* lectern_index_report_json(const lectern_index_report* report, size_t* len) {
  const auto object = Find(report);
  return Give(object ? &object->json : nullptr, len);
}

lectern_code lectern_index_report_numbers(const lectern_index_report* report,
                                          lectern_index_numbers* numbers) {
  return Call(nullptr, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(report));
    return WriteStruct(ToC(object->report), numbers);
  });
}

const char* lectern_index_report_note(const lectern_index_report* report, size_t* len) {
  const auto object = Find(report);
  return Give(object ? &object->report.note.text() : nullptr, len);
}
const char* lectern_index_report_cli_note(const lectern_index_report* report, size_t* len) {
  const auto object = Find(report);
  return Give(object ? &object->report.note.cli_text() : nullptr, len);
}

lectern_code lectern_index_report_free(lectern_index_report* report) { return Free(report); }

// --- asking -------------------------------------------------------------------------------------

lectern_code lectern_session_open(lectern_engine* engine, const char* document, size_t document_len,
                                  lectern_session** session, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_RETURN_IF_ERROR(Clear(session));
    auto object = std::make_shared<SessionObject>();
    LECTERN_ASSIGN(object->engine, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(document, document_len, "document"));
    // Opening is cancelled with the engine: there is no session to cancel yet.
    const RunningCalls::Scope scope(object->engine->running);
    LECTERN_ASSIGN(object->session, object->engine->engine->Open(name, scope.cancel()));
    *session = Issue<lectern_session>(std::move(object));
    return Status();
  });
}

const char* lectern_session_text(const lectern_session* session, size_t* len) {
  const auto object = Find(session);
  const std::string_view text = object ? object->session->text() : std::string_view();
  if (len) *len = text.size();
  // A text of no bytes may have no address; NULL is for invalid handles alone.
  return object && !text.data() ? "" : text.data();
}

// Tokens are copied into the C API's struct and handed over in one call: they need not outlive it.
lectern_code lectern_session_tokenize(const lectern_session* session, const char* text,
                                      size_t text_len, lectern_tokens_fn on_tokens, void* user,
                                      lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(session));
    LECTERN_ASSIGN(const std::string_view read, View(text, text_len, "text"));
    if (!on_tokens) return InvalidArgument("on_tokens", "on_tokens is NULL");
    LECTERN_ASSIGN(const TokenizedText tokenized, object->session->Tokenize(read));
    std::vector<lectern_token> tokens;
    tokens.reserve(tokenized.ids.size());
    for (size_t i = 0; i < tokenized.ids.size(); ++i) {
      tokens.push_back({tokenized.ranges[i].begin, tokenized.ranges[i].end, tokenized.ids[i], 0});
    }
    on_tokens(tokens.data(), tokens.size(), user);
    return Status();
  });
}

lectern_code lectern_session_ask(lectern_session* session, const char* question,
                                 size_t question_len, const lectern_ask_options* options,
                                 lectern_answer** answer, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_RETURN_IF_ERROR(Clear(answer));
    auto result = std::make_shared<AnswerObject>();
    LECTERN_ASSIGN(const auto object, FindOrFail(session));
    LECTERN_ASSIGN(const std::string_view text, View(question, question_len, "question"));
    LECTERN_ASSIGN(AskOptions read, ReadAskOptions(options));
    const RunningCalls::Scope scope(object->running);
    // Two questions at once would mix their tokens in one conversation.
    if (!scope.is_alone()) return Status(Code::kLocked, "this session is answering already");
    read.cancel = scope.cancel();
    // The handle is made before the question is asked, because memory for it may run out: an answer
    // that the session remembers but the program never gets would change the next question.
    const auto revoke = [](lectern_answer* handle) { (void)Free(handle); };
    std::unique_ptr<lectern_answer, decltype(revoke)> issued(Issue<lectern_answer>(result), revoke);
    LECTERN_ASSIGN(result->answer, object->session->Ask(text, read));
    result->engine = object->engine;
    result->document = object->session->KeepDocument();
    result->text = object->session->text();
    *answer = issued.release();
    return Status();
  });
}

lectern_code lectern_session_cancel(lectern_session* session) {
  return Call(nullptr, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(session));
    object->running.Cancel();
    return Status();
  });
}

lectern_code lectern_session_free(lectern_session* session) { return Free(session); }

const char* lectern_answer_text(const lectern_answer* answer, size_t* len) {
  const auto object = Find(answer);
  return Give(object ? &object->answer.text : nullptr, len);
}
const char* lectern_answer_reasoning(const lectern_answer* answer, size_t* len) {
  const auto object = Find(answer);
  return Give(object ? &object->answer.reasoning : nullptr, len);
}
const char* lectern_answer_stopped_by(const lectern_answer* answer, size_t* len) {
  const auto object = Find(answer);
  return Give(object ? &object->answer.stopped_by : nullptr, len);
}
const char* lectern_answer_finish_reason(const lectern_answer* answer, size_t* len) {
  const auto object = Find(answer);
  return Give(object ? &object->answer.finish_reason : nullptr, len);
}
const char* lectern_answer_note(const lectern_answer* answer, size_t* len) {
  const auto object = Find(answer);
  return Give(object ? &object->answer.note.text() : nullptr, len);
}
const char* lectern_answer_cli_note(const lectern_answer* answer, size_t* len) {
  const auto object = Find(answer);
  return Give(object ? &object->answer.note.cli_text() : nullptr, len);
}
size_t lectern_answer_warning_count(const lectern_answer* answer) {
  const auto object = Find(answer);
  return object ? object->answer.warnings.size() : 0;
}
const char* lectern_answer_warning(const lectern_answer* answer, size_t index, size_t* len) {
  const auto object = Find(answer);
  const bool is_there = object && index < object->answer.warnings.size();
  return Give(is_there ? &object->answer.warnings[index] : nullptr, len);
}
size_t lectern_answer_evidence_count(const lectern_answer* answer) {
  const auto object = Find(answer);
  return object ? object->answer.evidence.size() : 0;
}

lectern_code lectern_answer_evidence(const lectern_answer* answer, size_t index,
                                     lectern_evidence* evidence) {
  return Call(nullptr, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(answer));
    const std::vector<Evidence>& all = object->answer.evidence;
    if (index >= all.size()) return InvalidArgument("index", "no such passage");
    return WriteStruct(ToC(all[index]), evidence);
  });
}

lectern_code lectern_answer_receipt(const lectern_answer* answer, lectern_receipt* receipt) {
  return Call(nullptr, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(answer));
    return WriteStruct(ReceiptOf(object->answer), receipt);
  });
}

// The document's text converts byte offsets to UTF-16 units or code points.
lectern_code lectern_answer_json(const lectern_answer* answer, lectern_offset_unit unit,
                                 lectern_text** json, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_RETURN_IF_ERROR(Clear(json));
    LECTERN_ASSIGN(const auto object, FindOrFail(answer));
    LECTERN_ASSIGN(const OffsetUnit read, ReadOffsetUnit(unit));
    return GiveText(AnswerJson(object->answer, read, object->text), json);
  });
}

lectern_code lectern_answer_free(lectern_answer* answer) { return Free(answer); }

// --- citing -------------------------------------------------------------------------------------

lectern_code lectern_cite(lectern_engine* engine, const char* document, size_t document_len,
                          const char* text, size_t text_len, const lectern_cite_options* options,
                          lectern_citation_fn on_citation, void* user, lectern_offset_unit unit,
                          lectern_text** json, lectern_error** error) {
  return Call(error, [&]() -> Status {
    if (json) *json = nullptr;
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(document, document_len, "document"));
    LECTERN_ASSIGN(CiteRequest request, ReadCiteOptions(options));
    LECTERN_ASSIGN(request.text, Copy(text, text_len, "text"));
    LECTERN_ASSIGN(const OffsetUnit read, ReadOffsetUnit(unit));
    LECTERN_ASSIGN(const CitedText cited, object->engine->Cite(name, request));
    for (const CitedSentence& sentence : cited.sentences) CallBack(sentence, on_citation, user);
    return json ? GiveText(CitedTextJson(cited, read, request.text), json) : Status();
  });
}

// --- the store ----------------------------------------------------------------------------------

// Functions of the store call back for each item, and make JSON only if the caller gives a place.
lectern_code lectern_engine_list(lectern_engine* engine, lectern_document_fn on_document,
                                 void* user, lectern_text** json, lectern_error** error) {
  return Call(error, [&]() -> Status {
    if (json) *json = nullptr;
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::vector<DocumentRow> rows, object->engine->List());
    for (const DocumentRow& row : rows) CallBack(row, on_document, user);
    return json ? GiveText(DocumentsJson(rows), json) : Status();
  });
}

// Shards are read before the first callback, so that an error comes before any item.
lectern_code lectern_engine_show(lectern_engine* engine, const char* document, size_t document_len,
                                 lectern_document_fn on_document, lectern_shard_fn on_shard,
                                 void* user, lectern_text** json, lectern_error** error) {
  return Call(error, [&]() -> Status {
    if (json) *json = nullptr;
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(document, document_len, "document"));
    LECTERN_ASSIGN(const DocumentRow row, object->engine->Find(name));
    LECTERN_ASSIGN(const std::vector<ShardSummary> shards, object->engine->Shards(row));
    CallBack(row, on_document, user);
    for (const ShardSummary& shard : shards) CallBack(shard, on_shard, user);
    if (!json) return {};
    return GiveText(DocumentDetailsJson(row, shards, object->engine->ShowPlan(name)), json);
  });
}

lectern_code lectern_engine_show_plan(lectern_engine* engine, const char* document,
                                      size_t document_len, lectern_plan_fn on_plan, void* user,
                                      lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(document, document_len, "document"));
    LECTERN_ASSIGN(const DocumentPlan plan, object->engine->ShowPlan(name));
    CallBack(plan, on_plan, user);
    return {};
  });
}

lectern_code lectern_engine_verify(lectern_engine* engine, const char* document,
                                   size_t document_len, int32_t full, lectern_damage_fn on_damage,
                                   void* user, lectern_text** json, lectern_error** error) {
  return Call(error, [&]() -> Status {
    if (json) *json = nullptr;
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(document, document_len, "document"));
    LECTERN_ASSIGN(const std::vector<Damage> damaged,
                   object->engine->Verify(name, full != 0));
    for (const Damage& damage : damaged) CallBack(damage, on_damage, user);
    return json ? GiveText(DamageJson(damaged), json) : Status();
  });
}

lectern_code lectern_engine_plan(lectern_engine* engine, const char* document, size_t document_len,
                                 const lectern_plan_options* options, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(document, document_len, "document"));
    LECTERN_ASSIGN(const PlanChange change, ReadPlanOptions(options));
    return object->engine->ChangePlan(name, change);
  });
}

lectern_code lectern_engine_remove(lectern_engine* engine, const char* document,
                                   size_t document_len, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(document, document_len, "document"));
    return object->engine->Remove(name).status();
  });
}

// Removes a name, and the document with its last name (lectern_c.h).
lectern_code lectern_engine_remove_named(lectern_engine* engine, const char* document,
                                         size_t document_len, lectern_removed* removed,
                                         lectern_text** json, lectern_error** error) {
  return Call(error, [&]() -> Status {
    if (json) *json = nullptr;
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(document, document_len, "document"));
    // Before anything is removed: afterwards an error could not say what has become of the
    // document.
    if (removed) LECTERN_RETURN_IF_ERROR(CheckStructSize(removed->struct_size));
    LECTERN_ASSIGN(const Removed done, object->engine->Remove(name));
    if (removed) LECTERN_RETURN_IF_ERROR(WriteStruct(ToC(done), removed));
    return json ? GiveText(RemovedJson(done), json) : Status();
  });
}

lectern_code lectern_engine_collect(lectern_engine* engine, lectern_collected* collected,
                                    lectern_text** json, lectern_error** error) {
  return Call(error, [&]() -> Status {
    if (json) *json = nullptr;
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    if (collected)
      LECTERN_RETURN_IF_ERROR(CheckStructSize(collected->struct_size));  // before it acts
    LECTERN_ASSIGN(const Collected done, object->engine->Collect());
    if (collected) LECTERN_RETURN_IF_ERROR(WriteStruct(ToC(done), collected));
    return json ? GiveText(CollectedJson(done), json) : Status();
  });
}

lectern_code lectern_engine_recover(lectern_engine* engine, lectern_document_fn on_document,
                                    lectern_refused_fn on_refused, void* user, int32_t* replaced,
                                    lectern_text** json, lectern_error** error) {
  return Call(error, [&]() -> Status {
    if (json) *json = nullptr;
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const Recovered recovered, object->engine->Recover());
    for (const DocumentRow& row : recovered.documents) CallBack(row, on_document, user);
    for (const Recovered::Refused& one : recovered.refused) CallBack(one, on_refused, user);
    if (replaced) *replaced = recovered.replaced;
    return json ? GiveText(RecoveredJson(recovered), json) : Status();
  });
}

lectern_code lectern_engine_seal(lectern_engine* engine, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    return object->engine->Seal();
  });
}

lectern_code lectern_engine_export(lectern_engine* engine, const char* document,
                                   size_t document_len, const char* path, size_t path_len,
                                   lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(document, document_len, "document"));
    LECTERN_ASSIGN(const std::string file, Copy(path, path_len, "path"));
    return object->engine->Export(name, file);
  });
}

lectern_code lectern_engine_import(lectern_engine* engine, const char* path, size_t path_len,
                                   const char* name, size_t name_len,
                                   lectern_document_fn on_document, void* user, int32_t* existed,
                                   lectern_text** json, lectern_error** error) {
  return Call(error, [&]() -> Status {
    if (json) *json = nullptr;
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string file, Copy(path, path_len, "path"));
    LECTERN_ASSIGN(const std::string as, Copy(name, name_len, "name"));
    LECTERN_ASSIGN(const Imported imported, object->engine->Import(file, as));
    CallBack(imported.row, on_document, user);
    if (existed) *existed = imported.existed;
    return json ? GiveText(ImportedJson(imported), json) : Status();
  });
}

// --- JSON ---------------------------------------------------------------------------------------

// Makes the JSON of an error that a tool found itself, in the same form as the engine's.
lectern_code lectern_error_json(lectern_code code, const char* message, size_t message_len,
                                const char* param, size_t param_len, lectern_text** json,
                                lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_RETURN_IF_ERROR(Clear(json));
    if (code == LECTERN_OK) return InvalidArgument("code", "LECTERN_OK is no error");
    LECTERN_ASSIGN(std::string said, Copy(message, message_len, "message"));
    LECTERN_ASSIGN(std::string option, Copy(param, param_len, "param"));
    const Status status =
        Status(static_cast<Code>(code), std::move(said)).WithParam(std::move(option));
    return GiveText(ErrorJson(status), json);
  });
}

// Two small helpers for programs without a JSON library.
lectern_code lectern_json_get_string(const char* json, size_t json_len, const char* key,
                                     size_t key_len, lectern_text** value, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_RETURN_IF_ERROR(Clear(value));
    LECTERN_ASSIGN(const std::string_view text, View(json, json_len, "json"));
    LECTERN_ASSIGN(const std::string name, Copy(key, key_len, "key"));
    LECTERN_ASSIGN(const Json object, ParseObject(text));
    const Json* const member = object.Find(name);
    if (!member) return Status(Code::kNotFound, "no \"" + name + "\"").WithParam(name);
    if (!member->string()) return InvalidArgument(name, "\"" + name + "\" is not a string");
    return GiveText(*member->string(), value);
  });
}

lectern_code lectern_json_set_string(const char* json, size_t json_len, const char* key,
                                     size_t key_len, const char* value, size_t value_len,
                                     lectern_text** result, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_RETURN_IF_ERROR(Clear(result));
    LECTERN_ASSIGN(const std::string_view text, View(json, json_len, "json"));
    LECTERN_ASSIGN(std::string name, Copy(key, key_len, "key"));
    LECTERN_ASSIGN(std::string member, Copy(value, value_len, "value"));
    LECTERN_ASSIGN(const Json parsed, ParseObject(text));
    Json::Object object = *parsed.object();
    object[std::move(name)] = std::move(member);
    return GiveText(Json(std::move(object)).Dump(), result);
  });
}
