// The C API: looks up tickets, converts structs, calls the engine, converts back. No logic.
#include "engine/lectern_c.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/handle_table.h"
#include "engine/json.h"
#include "engine/report_json.h"

namespace lectern {
namespace {

// --- codes --------------------------------------------------------------------------------------

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

Status InvalidArgument(std::string_view param, std::string message) {
  return Status(Code::kInvalidArgument, std::move(message)).WithParam(std::string(param));
}

// --- what handles stand for ---------------------------------------------------------------------

// The calls on one handle that run now, so that another thread can cancel them.
class RunningCalls {
 public:
  class Scope {
   public:
    explicit Scope(RunningCalls& calls) : calls_(calls) {
      const std::lock_guard lock(calls_.mutex_);
      is_alone_ = calls_.scopes_.empty();
      calls_.scopes_.push_back(this);
    }
    ~Scope() {
      const std::lock_guard lock(calls_.mutex_);
      std::erase(calls_.scopes_, this);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    bool is_alone() const { return is_alone_; }  // no other call ran when this one began
    const CancelFlag* cancel() const { return &cancel_; }

   private:
    friend class RunningCalls;
    RunningCalls& calls_;
    bool is_alone_;
    CancelFlag cancel_ = false;
  };

  void Cancel() {
    const std::lock_guard lock(mutex_);
    for (Scope* scope : scopes_) scope->cancel_ = true;
  }

 private:
  std::mutex mutex_;
  std::vector<Scope*> scopes_;
};

struct EngineObject {
  std::unique_ptr<Engine> engine;
  RunningCalls running;
};
struct SessionObject {
  std::shared_ptr<EngineObject> engine;  // outlives `session`
  std::unique_ptr<Session> session;
  RunningCalls running;
};
struct AnswerObject {
  std::shared_ptr<SessionObject> session;  // its text converts offsets
  Answer answer;
};
struct IndexReportObject {
  IndexReport report;
  std::string json;
};

template <typename Handle>
struct HandleTraits;
template <HandleKind kKindOf, typename ObjectOf>
struct HandleTraitsOf {
  static constexpr HandleKind kKind = kKindOf;
  using Object = ObjectOf;
};
template <>
struct HandleTraits<lectern_engine> : HandleTraitsOf<HandleKind::kEngine, EngineObject> {};
template <>
struct HandleTraits<lectern_session> : HandleTraitsOf<HandleKind::kSession, SessionObject> {};
template <>
struct HandleTraits<lectern_answer> : HandleTraitsOf<HandleKind::kAnswer, AnswerObject> {};
template <>
struct HandleTraits<lectern_index_report>
    : HandleTraitsOf<HandleKind::kIndexReport, IndexReportObject> {};
template <>
struct HandleTraits<lectern_text> : HandleTraitsOf<HandleKind::kText, std::string> {};
template <>
struct HandleTraits<lectern_error> : HandleTraitsOf<HandleKind::kError, Status> {};

template <typename Handle>
using ObjectOf = typename HandleTraits<Handle>::Object;

// One for the process, and never destroyed: threads may still use handles while the process exits.
HandleTable& Handles() {
  static HandleTable* const table = new HandleTable;
  return *table;
}

template <typename Handle>
Handle* Issue(std::shared_ptr<ObjectOf<Handle>> object) {
  return reinterpret_cast<Handle*>(Handles().Add(HandleTraits<Handle>::kKind, std::move(object)));
}

// nullptr: not a handle of this kind, or freed.
template <typename Handle>
std::shared_ptr<ObjectOf<Handle>> Find(const Handle* handle) noexcept {
  return std::static_pointer_cast<ObjectOf<Handle>>(
      Handles().Find(HandleTraits<Handle>::kKind, reinterpret_cast<uintptr_t>(handle)));
}

template <typename Handle>
Result<std::shared_ptr<ObjectOf<Handle>>> FindOrFail(const Handle* handle) {
  std::shared_ptr<ObjectOf<Handle>> object = Find(handle);
  if (!object) {
    return Status(Code::kInvalidHandle, "the handle is NULL, freed, or of another kind");
  }
  return object;
}

template <typename Handle>
lectern_code Free(Handle* handle) noexcept {
  if (!handle) return LECTERN_OK;
  const std::shared_ptr<void> object =
      Handles().Remove(HandleTraits<Handle>::kKind, reinterpret_cast<uintptr_t>(handle));
  return object ? LECTERN_OK : LECTERN_INVALID_HANDLE;
}

// --- calls --------------------------------------------------------------------------------------

lectern_code Fail(Status status, lectern_error** error) noexcept {
  const auto code = static_cast<lectern_code>(status.code());
  if (!error) return code;
  try {
    *error = Issue<lectern_error>(std::make_shared<Status>(std::move(status)));
  } catch (...) {
    *error = nullptr;
  }
  return code;
}

// Fail for exceptions, whose messages may be what there is no memory for.
lectern_code FailWith(Code code, const char* message, lectern_error** error) noexcept {
  try {
    return Fail(Status(code, message), error);
  } catch (...) {
    return static_cast<lectern_code>(code);
  }
}

// Runs `body`, which returns a Status. Nothing that it throws gets out.
template <typename Body>
lectern_code Call(lectern_error** error, Body body) noexcept {
  if (error) *error = nullptr;
  try {
    Status status = body();
    return status.ok() ? LECTERN_OK : Fail(std::move(status), error);
  } catch (const std::bad_alloc&) {
    return FailWith(Code::kOutOfMemory, "out of memory", error);
  } catch (const std::exception& exception) {
    return FailWith(Code::kInternal, exception.what(), error);
  } catch (...) {
    return FailWith(Code::kInternal, "unknown exception", error);
  }
}

template <typename Handle>
Status Clear(Handle** out) {
  if (!out) return InvalidArgument("", "the place for the result is NULL");
  *out = nullptr;
  return Status();
}

Result<std::string_view> View(const char* text, size_t len, const char* param) {
  if (!text && len > 0) return InvalidArgument(param, "text is NULL but its length is not 0");
  return text ? std::string_view(text, len) : std::string_view();
}

Result<std::string> Copy(const char* text, size_t len, const char* param) {
  LECTERN_ASSIGN(const std::string_view view, View(text, len, param));
  return std::string(view);
}

// The string and its length; for a handle that is none NULL and 0.
const char* Give(const std::string* text, size_t* len) {
  if (len) *len = text ? text->size() : 0;
  return text ? text->c_str() : nullptr;
}

Status GiveText(std::string text, lectern_text** out) {
  *out = Issue<lectern_text>(std::make_shared<std::string>(std::move(text)));
  return Status();
}

// --- structs with struct_size -------------------------------------------------------------------

constexpr size_t kMaxStructSize = 4096;

Status CheckStructSize(size_t size) {
  if (size >= sizeof(size_t) && size <= kMaxStructSize && size % alignof(void*) == 0) {
    return Status();
  }
  return InvalidArgument("struct_size",
                         "struct_size is not the size of this struct in any version");
}

// Fields that the caller does not know are 0; those that we do not know have to be.
template <typename Struct>
Result<Struct> ReadStruct(const Struct* given) {
  Struct known{};
  if (!given) return known;
  const size_t size = given->struct_size;
  LECTERN_RETURN_IF_ERROR(CheckStructSize(size));
  std::memcpy(&known, given, std::min(size, sizeof(Struct)));
  const char* const bytes = reinterpret_cast<const char*>(given);
  if (size > sizeof(Struct) &&
      std::any_of(bytes + sizeof(Struct), bytes + size, [](char byte) { return byte != 0; })) {
    return InvalidArgument("struct_size", "a field is set that this version does not know");
  }
  return known;
}

// Sets the fields that the caller knows; those that only the caller knows become 0.
template <typename Struct>
Status WriteStruct(Struct value, Struct* out) {
  if (!out) return InvalidArgument("", "the place for the result is NULL");
  const size_t size = out->struct_size;
  LECTERN_RETURN_IF_ERROR(CheckStructSize(size));
  value.struct_size = size;
  std::memset(static_cast<void*>(out), 0, size);
  std::memcpy(static_cast<void*>(out), &value, std::min(size, sizeof(Struct)));
  return Status();
}

Result<Io> ReadIo(int32_t io) {
  switch (io) {
    case LECTERN_IO_DEFAULT:
      return EngineOptions().io;
    case LECTERN_IO_MMAP:
      return Io::kMmap;
    case LECTERN_IO_PREAD:
      return Io::kPread;
    default:
      return InvalidArgument("io", "io is not one of lectern_io");
  }
}

Result<EngineOptions> ReadEngineOptions(const lectern_engine_options* given) {
  LECTERN_ASSIGN(const lectern_engine_options read, ReadStruct(given));
  EngineOptions options;
  LECTERN_ASSIGN(options.store, Copy(read.store, read.store_len, "store"));
  LECTERN_ASSIGN(options.model, Copy(read.model, read.model_len, "model"));
  options.num_threads = read.num_threads;
  options.quota_bytes = read.quota_bytes;
  LECTERN_ASSIGN(options.io, ReadIo(read.io));
  options.max_ram_bytes = read.max_ram_bytes;
  options.rehash_model = read.rehash_model != 0;
  return options;
}

Result<Dtype> ReadKvType(int32_t kv_type) {
  switch (kv_type) {
    case LECTERN_KV_DEFAULT:
      return IndexOptions().kv_dtype;
    case LECTERN_KV_F16:
      return Dtype::kF16;
    case LECTERN_KV_BF16:
      return Dtype::kBf16;
    case LECTERN_KV_F32:
      return Dtype::kF32;
    case LECTERN_KV_Q8:
      return Dtype::kQ8;
    default:
      return InvalidArgument("kv_type", "kv_type is not one of lectern_kv_type");
  }
}

bool ReportProgress(const lectern_index_options& read, const IndexProgress& progress) {
  const std::string stage(StageName(progress.stage));
  const lectern_progress event = {
      sizeof(lectern_progress),   stage.c_str(),       progress.done, progress.total,
      progress.tokens_per_second, progress.eta_seconds};
  return read.on_progress(&event, read.progress_user) == 0;
}

Result<IndexOptions> ReadIndexOptions(const lectern_index_options* given) {
  LECTERN_ASSIGN(const lectern_index_options read, ReadStruct(given));
  IndexOptions options;
  LECTERN_ASSIGN(options.name, Copy(read.name, read.name_len, "name"));
  LECTERN_ASSIGN(options.kv_dtype, ReadKvType(read.kv_type));
  if (read.kv_budget != 0) options.kv_budget = read.kv_budget;
  if (read.num_levels != 0) options.num_levels = read.num_levels;
  if (read.seed != 0) options.seed = read.seed;
  options.again = read.again != 0;
  LECTERN_ASSIGN(const std::string layers,
                 Copy(read.layer_budget, read.layer_budget_len, "layer_budget"));
  LECTERN_ASSIGN(const std::string heads,
                 Copy(read.head_budget, read.head_budget_len, "head_budget"));
  if (!layers.empty()) options.layer_budget = layers;
  if (!heads.empty()) options.head_budget = heads;
  LECTERN_ASSIGN(const std::string cluster_keys,
                 Copy(read.cluster_keys, read.cluster_keys_len, "cluster_keys"));
  if (!cluster_keys.empty()) options.cluster_keys = cluster_keys;
  if (read.keep != 0) options.retention.keep = read.keep;
  LECTERN_ASSIGN(const std::string retention,
                 Copy(read.retention, read.retention_len, "retention"));
  if (!retention.empty()) options.retention.method = retention;
  options.retention.representatives = read.representatives;
  LECTERN_ASSIGN(const std::string stats, Copy(read.stats, read.stats_len, "stats"));
  if (!stats.empty()) options.stats = stats;
  if (read.on_progress) {
    options.on_progress = [read](const IndexProgress& progress) {
      return ReportProgress(read, progress);
    };
  }
  return options;
}

Result<PlanChange> ReadPlanOptions(const lectern_plan_options* given) {
  LECTERN_ASSIGN(const lectern_plan_options read, ReadStruct(given));
  PlanChange change;
  LECTERN_ASSIGN(change.layer_budget,
                 Copy(read.layer_budget, read.layer_budget_len, "layer_budget"));
  LECTERN_ASSIGN(change.head_budget, Copy(read.head_budget, read.head_budget_len, "head_budget"));
  change.kv_budget = read.kv_budget;
  return change;
}

Result<Fallback> ReadFallback(lectern_fallback fallback) {
  switch (fallback) {
    case LECTERN_FALLBACK_DEFAULT:
      return AskOptions().fallback;
    case LECTERN_FALLBACK_WARN:
      return Fallback::kWarn;
    case LECTERN_FALLBACK_EXACT:
      return Fallback::kExact;
  }
  return InvalidArgument("fallback",
                         "fallback is none of LECTERN_FALLBACK_DEFAULT, LECTERN_FALLBACK_WARN and "
                         "LECTERN_FALLBACK_EXACT");
}

Result<AskOptions> ReadAskOptions(const lectern_ask_options* given) {
  LECTERN_ASSIGN(const lectern_ask_options read, ReadStruct(given));
  AskOptions options;
  options.kv_budget = read.kv_budget;
  options.tail = read.no_tail == 0;
  if (read.max_tokens != 0) options.max_tokens = read.max_tokens;
  if (read.max_evidence != 0) options.max_evidence = read.max_evidence;
  options.sampling.temperature = read.temperature;
  if (read.top_p != 0) options.sampling.top_p = read.top_p;
  options.sampling.seed = read.seed;
  LECTERN_ASSIGN(options.fallback, ReadFallback(read.fallback));
  if (read.max_missed != 0) options.max_missed = read.max_missed;
  LECTERN_ASSIGN(const std::string rule, Copy(read.rule, read.rule_len, "rule"));
  if (!rule.empty()) options.rule = rule;
  options.mass = read.mass;
  LECTERN_ASSIGN(options.layer_budget,
                 Copy(read.layer_budget, read.layer_budget_len, "layer_budget"));
  LECTERN_ASSIGN(options.head_budget, Copy(read.head_budget, read.head_budget_len, "head_budget"));
  options.max_session_rows =
      static_cast<uint32_t>(std::min<uint64_t>(read.max_session_rows, UINT32_MAX));
  if (read.on_text) {
    options.on_text = [read](std::string_view piece) {
      const std::string text(piece);  // for the NUL behind it
      return read.on_text(text.c_str(), text.size(), read.text_user) == 0;
    };
  }
  return options;
}

Result<OffsetUnit> ReadOffsetUnit(lectern_offset_unit unit) {
  switch (unit) {
    case LECTERN_OFFSET_UTF8:
      return OffsetUnit::kUtf8;
    case LECTERN_OFFSET_UTF16:
      return OffsetUnit::kUtf16;
    case LECTERN_OFFSET_CODEPOINT:
      return OffsetUnit::kCodepoint;
  }
  return InvalidArgument("offset_unit", "offset_unit is not one of lectern_offset_unit");
}

lectern_index_estimate ToC(const IndexEstimate& estimate) {
  return {sizeof(lectern_index_estimate),
          estimate.tokens,
          estimate.bytes_on_disk,
          estimate.peak_bytes_on_disk,
          estimate.free_bytes,
          estimate.anonymous_bytes,
          estimate.flops,
          estimate.seconds,
          estimate.existed};
}

IndexEstimate FromC(const lectern_index_estimate& read) {
  IndexEstimate estimate;
  estimate.tokens = read.tokens;
  estimate.bytes_on_disk = read.bytes_on_disk;
  estimate.peak_bytes_on_disk = read.peak_bytes_on_disk;
  estimate.free_bytes = read.free_bytes;
  estimate.anonymous_bytes = read.anonymous_bytes;
  estimate.flops = read.flops;
  estimate.seconds = read.seconds;
  estimate.existed = read.existed != 0;
  return estimate;
}

lectern_index_numbers ToC(const IndexReport& report) {
  return {sizeof(lectern_index_numbers),
          report.tokens,
          report.replaced_bytes,
          report.bytes_on_disk,
          report.generation,
          report.resumed_tokens,
          report.existed,
          report.seconds.total,
          report.reused_tokens};
}

lectern_collected ToC(const Collected& collected) {
  return {sizeof(lectern_collected), collected.generations, collected.files, collected.in_use,
          collected.unknown.size()};
}

lectern_evidence ToC(const Evidence& evidence) {
  return {sizeof(lectern_evidence), evidence.begin,       evidence.end,
          evidence.text.c_str(),    evidence.text.size(), evidence.mass,
          evidence.page.value_or(0)};
}

lectern_receipt ReceiptOf(const Answer& answer) {
  lectern_receipt receipt{};
  receipt.document_tokens = answer.document_tokens;
  receipt.question_tokens = answer.question_tokens;
  receipt.answer_tokens = answer.answer_tokens;
  receipt.kv_budget = answer.kv.budget;
  receipt.read_fraction_prefill = answer.kv.read_fraction_prefill;
  receipt.read_fraction_decode = answer.kv.read_fraction_decode.value_or(-1);
  receipt.bytes_read = answer.kv.bytes_read;
  receipt.missed_mass_estimate = answer.kv.missed_mass_estimate;
  receipt.open_ms = answer.timings_ms.open;
  receipt.prefill_ms = answer.timings_ms.prefill;
  receipt.first_token_ms = answer.timings_ms.first_token;
  receipt.per_token_ms = answer.timings_ms.per_token;
  receipt.total_ms = answer.timings_ms.total;
  receipt.fallback = answer.kv.fallback;
  receipt.missed_mass_bound = answer.kv.missed_mass_bound.value_or(-1);
  receipt.max_missed_by = answer.kv.max_missed_by.empty()      ? 0
                          : answer.kv.max_missed_by == "bound" ? 1
                                                               : 2;
  receipt.keep = answer.kv.keep;
  receipt.session_rows = answer.kv.session_rows;
  return receipt;
}

void CallBack(const DocumentRow& row, lectern_document_fn on_document, void* user) {
  if (!on_document) return;
  const std::string id = ToHex(row.id), state(StateName(row.state)),
                    fingerprint = ToHex(row.fingerprint);
  const Retention retention = RetentionOf(row);
  const std::string method = retention.keeps_all() ? "" : retention.method;
  const lectern_document document = {
      sizeof(lectern_document), id.c_str(),          id.size(),          row.name.c_str(),
      row.name.size(),          state.c_str(),       state.size(),       row.model_path.c_str(),
      row.model_path.size(),    fingerprint.c_str(), fingerprint.size(), row.generation,
      row.num_tokens,           row.text_bytes,      row.bytes_on_disk,  retention.keep,
      method.c_str(),           method.size()};
  on_document(&document, user);
}

void CallBack(const Recovered::Refused& refused, lectern_refused_fn on_refused, void* user) {
  if (!on_refused) return;
  const std::string& message = refused.status.message();
  const lectern_refused item = {
      sizeof(lectern_refused),  refused.directory.c_str(),
      refused.directory.size(), static_cast<lectern_code>(refused.status.code()),
      message.c_str(),          message.size()};
  on_refused(&item, user);
}

void CallBack(const ShardSummary& shard, lectern_shard_fn on_shard, void* user) {
  if (!on_shard) return;
  const lectern_shard item = {sizeof(lectern_shard), shard.file.c_str(), shard.file.size(),
                              shard.bytes};
  on_shard(&item, user);
}

void CallBack(const DocumentPlan& plan, lectern_plan_fn on_plan, void* user) {
  if (!on_plan) return;
  const auto array = [](const std::vector<double>& all) {
    return all.empty() ? nullptr : all.data();
  };
  const lectern_document_plan item = {sizeof(lectern_document_plan),
                                      plan.layer_budget.c_str(),
                                      plan.layer_budget.size(),
                                      plan.head_budget.c_str(),
                                      plan.head_budget.size(),
                                      plan.stats.c_str(),
                                      plan.stats.size(),
                                      plan.kv_budget,
                                      plan.layers.size(),
                                      plan.heads.size() / plan.layers.size(),
                                      array(plan.layers),
                                      array(plan.heads),
                                      array(plan.cosine),
                                      array(plan.competed)};
  on_plan(&item, user);
}

void CallBack(const Engine::Damage& damage, lectern_damage_fn on_damage, void* user) {
  if (!on_damage) return;
  const std::string& message = damage.status.message();
  const lectern_damage item = {
      sizeof(lectern_damage), damage.document.c_str(),
      damage.document.size(), damage.name.c_str(),
      damage.name.size(),     static_cast<lectern_code>(damage.status.code()),
      message.c_str(),        message.size()};
  on_damage(&item, user);
}

Result<Json> ParseObject(std::string_view json) {
  Result<Json> parsed = ParseJson(json);
  if (!parsed.ok()) return InvalidArgument("", parsed.status().message());
  if (!parsed->object()) return InvalidArgument("", "not a JSON object");
  return parsed;
}

}  // namespace
}  // namespace lectern

using namespace lectern;  // every function below is extern "C" and has its prefix

// --- codes --------------------------------------------------------------------------------------

const char* lectern_code_name(lectern_code code) {
  return CodeName(static_cast<Code>(code)).data();  // a literal
}
int32_t lectern_exit_status(lectern_code code) { return ExitStatus(static_cast<Code>(code)); }
const char* lectern_version(void) { return LECTERN_VERSION; }
uint32_t lectern_abi_version(void) { return LECTERN_ABI_VERSION; }

// --- errors and texts ---------------------------------------------------------------------------

lectern_code lectern_error_code(const lectern_error* error) {
  const auto status = Find(error);
  return status ? static_cast<lectern_code>(status->code()) : LECTERN_INVALID_HANDLE;
}
const char* lectern_error_message(const lectern_error* error, size_t* len) {
  const auto status = Find(error);
  return Give(status ? &status->message() : nullptr, len);
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

// --- indexing -----------------------------------------------------------------------------------

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

lectern_code lectern_index_report_free(lectern_index_report* report) { return Free(report); }

// --- asking -------------------------------------------------------------------------------------

lectern_code lectern_session_open(lectern_engine* engine, const char* document, size_t document_len,
                                  lectern_session** session, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_RETURN_IF_ERROR(Clear(session));
    auto object = std::make_shared<SessionObject>();
    LECTERN_ASSIGN(object->engine, FindOrFail(engine));
    LECTERN_ASSIGN(const std::string_view name, View(document, document_len, "document"));
    LECTERN_ASSIGN(object->session, object->engine->engine->Open(name));
    *session = Issue<lectern_session>(std::move(object));
    return Status();
  });
}

const char* lectern_session_text(const lectern_session* session, size_t* len) {
  const auto object = Find(session);
  const std::string_view text = object ? object->session->text() : std::string_view();
  if (len) *len = text.size();
  return object && !text.data() ? "" : text.data();
}

lectern_code lectern_session_ask(lectern_session* session, const char* question,
                                 size_t question_len, const lectern_ask_options* options,
                                 lectern_answer** answer, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_RETURN_IF_ERROR(Clear(answer));
    auto result = std::make_shared<AnswerObject>();
    LECTERN_ASSIGN(result->session, FindOrFail(session));
    LECTERN_ASSIGN(const std::string_view text, View(question, question_len, "question"));
    LECTERN_ASSIGN(AskOptions read, ReadAskOptions(options));
    const RunningCalls::Scope scope(result->session->running);
    if (!scope.is_alone()) return Status(Code::kLocked, "this session is answering already");
    read.cancel = scope.cancel();
    LECTERN_ASSIGN(result->answer, result->session->session->Ask(text, read));
    *answer = Issue<lectern_answer>(std::move(result));
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
const char* lectern_answer_finish_reason(const lectern_answer* answer, size_t* len) {
  const auto object = Find(answer);
  return Give(object ? &object->answer.finish_reason : nullptr, len);
}
const char* lectern_answer_note(const lectern_answer* answer, size_t* len) {
  const auto object = Find(answer);
  return Give(object ? &object->answer.note : nullptr, len);
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

lectern_code lectern_answer_json(const lectern_answer* answer, lectern_offset_unit unit,
                                 lectern_text** json, lectern_error** error) {
  return Call(error, [&]() -> Status {
    LECTERN_RETURN_IF_ERROR(Clear(json));
    LECTERN_ASSIGN(const auto object, FindOrFail(answer));
    LECTERN_ASSIGN(const OffsetUnit read, ReadOffsetUnit(unit));
    return GiveText(AnswerJson(object->answer, read, object->session->session->text()), json);
  });
}

lectern_code lectern_answer_free(lectern_answer* answer) { return Free(answer); }

// --- the store ----------------------------------------------------------------------------------

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
    LECTERN_ASSIGN(const std::vector<Engine::Damage> damaged,
                   object->engine->Verify(name, full != 0));
    for (const Engine::Damage& damage : damaged) CallBack(damage, on_damage, user);
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
    return object->engine->Remove(name);
  });
}

lectern_code lectern_engine_collect(lectern_engine* engine, lectern_collected* collected,
                                    lectern_text** json, lectern_error** error) {
  return Call(error, [&]() -> Status {
    if (json) *json = nullptr;
    LECTERN_ASSIGN(const auto object, FindOrFail(engine));
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
