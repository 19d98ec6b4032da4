// The C++ API of Lectern: inline over the C functions of lectern_c.h, so that it works with the
// shared and the static library and any compiler. Embedders include this header and no other.
//
// Namespace lectern::api, because the engine's insides (engine.h, no stable ABI) are in lectern.
// Handles are move-only; a moved-from one answers kInvalidHandle (LECTERN_INVALID_HANDLE).
// Strings are UTF-8 and not kept after a call. Any thread may call anything at any time.
// Nothing throws, except what your callbacks throw, which ends the call and comes through it, and
// std::bad_alloc of the strings and vectors made here.
#ifndef LECTERN_ENGINE_LECTERN_H_
#define LECTERN_ENGINE_LECTERN_H_

#include <cassert>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lectern_c.h"  // beside this one, in the tree and where it is installed

namespace lectern::api {

// --- results ------------------------------------------------------------------------------------

struct Error {
  lectern_code code = LECTERN_OK;  // lectern_code_name, lectern_exit_status
  std::string message;             // what is wrong, with which thing, and the way out
  std::string param;               // the option that is wrong ("kv_budget"), or empty
};

// A value or an error.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : error_(std::move(error)) { assert(error_.code != LECTERN_OK); }

  bool ok() const { return error_.code == LECTERN_OK; }
  const Error& error() const { return error_; }
  T& operator*() { return *value_; }  // these two: only when ok()
  T* operator->() { return &*value_; }

 private:
  Error error_;
  std::optional<T> value_;
};
struct Done {};  // the value of calls that have none: Result<Done>

// How the classes below hold and read C handles; not for callers.
namespace internal {

struct Free {
  void operator()(lectern_engine* handle) const { lectern_engine_free(handle); }
  void operator()(lectern_session* handle) const { lectern_session_free(handle); }
  void operator()(lectern_answer* handle) const { lectern_answer_free(handle); }
  void operator()(lectern_index_report* handle) const { lectern_index_report_free(handle); }
  void operator()(lectern_text* handle) const { lectern_text_free(handle); }
  void operator()(lectern_error* handle) const { lectern_error_free(handle); }
};
template <typename Handle>
using Owned = std::unique_ptr<Handle, Free>;

// A string that belongs to `handle`, read by one of the C accessors.
template <typename Handle>
std::string_view View(const char* (*read)(const Handle*, size_t*), const Handle* handle) {
  size_t len = 0;
  const char* const text = read(handle, &len);
  return text ? std::string_view(text, len) : std::string_view();
}

inline Error TakeError(lectern_code code, lectern_error* handle) {
  const Owned<lectern_error> error(handle);
  if (!error) return {code, lectern_code_name(code), {}};
  return {code, std::string(View(lectern_error_message, handle)),
          std::string(View(lectern_error_param, handle))};
}

// Runs a C call whose last two parameters are the out handle and the error.
template <typename Handle, typename Call>
Result<Owned<Handle>> Take(Call call) {
  Handle* handle = nullptr;
  lectern_error* error = nullptr;
  const lectern_code code = call(&handle, &error);
  if (code != LECTERN_OK) return TakeError(code, error);
  return Owned<Handle>(handle);
}

template <typename Call>
Result<std::string> TakeText(Call call) {
  auto text = Take<lectern_text>(call);
  if (!text.ok()) return text.error();
  return std::string(View(lectern_text_data, text->get()));
}

// A callback on its way through C: keeps what it throws until the C call has returned.
template <typename Function>
struct Callback {
  const Function& function;
  std::exception_ptr thrown = nullptr;

  template <typename... Args>
  int32_t StopAfter(Args&&... args) noexcept {  // 0: go on
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<const Function&, Args...>>) {
        if (!thrown) function(std::forward<Args>(args)...);
        return 0;
      } else {
        return function(std::forward<Args>(args)...) ? 0 : 1;
      }
    } catch (...) {
      thrown = std::current_exception();
      return 1;
    }
  }
  void Rethrow() const {
    if (thrown) std::rethrow_exception(thrown);
  }
};

// The C callback that hands an Item to `callback`, a Callback for functions that return nothing.
template <typename Item, typename Callback>
auto ItemFunction(Callback&) -> void (*)(const Item*, void*) {
  return [](const Item* item, void* user) { static_cast<Callback*>(user)->StopAfter(*item); };
}

// The C struct T, ready to be filled.
template <typename T>
T Sized() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

}  // namespace internal

// --- indexing -----------------------------------------------------------------------------------

struct Progress {
  std::string_view stage;    // "read", "prefill", "cluster", "calibrate", "write"; more may come
  uint64_t done, total;      // prefill: tokens; other stages: items of work
  double tokens_per_second;  // of the prefill; 0: unknown
  double eta_seconds;        // of all that is left; below 0: unknown
};

struct IndexOptions {
  std::string_view name = {};  // points to the document afterwards; empty: none
  lectern_kv_type kv_type = LECTERN_KV_DEFAULT;
  float kv_budget = 0;      // (0, 1]: the default of later asks; 0: 0.1
  uint32_t num_levels = 0;  // of clusters: 1, 2 or 3; 0: 2
  uint64_t seed = 0;        // of the clustering; 0: 1234
  bool again = false;       // also when it is there: replaced by a new generation when that is done
  // The plan of later asks: lectern_ask_options. Empty: "uniform", "global".
  std::string_view layer_budget = {}, head_budget = {};
  // On the calling thread, at least every 250 ms of work. Returning false cancels.
  std::function<bool(const Progress&)> on_progress = {};
  std::string_view cluster_keys = {};  // lectern_index_options; empty: "stored"
  // Share of the rows that is stored, and which: lectern_index_options. 0: all.
  double keep = 0;
  std::string_view retention = {};
  double representatives = 0;
  std::string_view stats = {};  // what policies will know: "window" (or empty), "full"
  // "exact" (or empty), "sparse" and the share that it reads: lectern_index_options. 0: 0.1.
  std::string_view prefill = {};
  double prefill_budget = 0;
  std::span<const lectern_page> pages = {};  // of the source; not kept after the call
};

// lectern_plan_options.
struct PlanChange {
  std::string_view layer_budget = {}, head_budget = {};
  float kv_budget = 0;
};

class IndexReport {
 public:
  std::string_view document() const {  // id, 32 hex digits
    return internal::View(lectern_index_report_document, handle_.get());
  }
  std::string_view name() const { return internal::View(lectern_index_report_name, handle_.get()); }
  std::string_view json() const {  // what `index-document --json` prints
    return internal::View(lectern_index_report_json, handle_.get());
  }
  lectern_index_numbers numbers() const {
    auto numbers = internal::Sized<lectern_index_numbers>();
    lectern_index_report_numbers(handle_.get(), &numbers);
    return numbers;
  }

 private:
  friend class Engine;
  explicit IndexReport(internal::Owned<lectern_index_report> handle) : handle_(std::move(handle)) {}
  internal::Owned<lectern_index_report> handle_;
};

// --- asking -------------------------------------------------------------------------------------

struct AskOptions {
  float kv_budget = 0;        // (0, 1]; 0: the document's default; 1: exact, reads everything
  bool tail = true;           // clusters that are not read count through their centroid
  uint32_t max_tokens = 0;    // of the answer; 0: 256
  uint32_t max_evidence = 0;  // passages; 0: 3
  float temperature = 0;      // [0, 10]; 0: greedy
  float top_p = 0;            // (0, 1]; 0: 1
  uint64_t seed = 0;          // of the sampling
  // Of a question that draws on much of the document: warn, or answer it exactly.
  lectern_fallback fallback = LECTERN_FALLBACK_WARN;
  float max_missed = 0;   // (0, 1): read on until at most this share of the attention is missed
  std::string rule = {};  // "default" or empty, "threshold", "cap", "top-p": lectern_ask_options
  double mass = 0;        // (0, 1), of "top-p" alone; 0: 0.95
  // How layers, and the heads of a layer, share kv_budget: lectern_ask_options. Empty: as stored.
  std::string layer_budget = {}, head_budget = {};
  // Receives each piece of text as it is decoded (whole code points), on the calling thread.
  // Returning false ends the answer: what there is has finish reason "cancelled".
  std::function<bool(std::string_view)> on_text = {};
  // Rows of the conversation that stay after the answer: lectern_ask_options. 0: all.
  uint64_t max_session_rows = 0;
};

// Views are valid until the answer is destroyed. It keeps its session's document open.
class Answer {
 public:
  std::string_view text() const { return internal::View(lectern_answer_text, handle_.get()); }
  std::string_view finish_reason() const {  // "stop", "length" or "cancelled"
    return internal::View(lectern_answer_finish_reason, handle_.get());
  }
  std::string_view note() const {  // something to tell the user, or empty
    return internal::View(lectern_answer_note, handle_.get());
  }
  // Names for programs; the note has them in words. lectern_answer_warning lists them.
  std::vector<std::string_view> warnings() const {
    std::vector<std::string_view> all;
    for (size_t i = 0; i < lectern_answer_warning_count(handle_.get()); ++i) {
      size_t len = 0;
      const char* const name = lectern_answer_warning(handle_.get(), i, &len);
      all.emplace_back(name, len);
    }
    return all;
  }
  // Passages of the document, by share of the attention, largest first.
  std::vector<lectern_evidence> evidence() const {
    std::vector<lectern_evidence> all(lectern_answer_evidence_count(handle_.get()),
                                      internal::Sized<lectern_evidence>());
    for (size_t i = 0; i < all.size(); ++i) lectern_answer_evidence(handle_.get(), i, &all[i]);
    return all;
  }
  // What was read and how long it took.
  lectern_receipt receipt() const {
    auto receipt = internal::Sized<lectern_receipt>();
    lectern_answer_receipt(handle_.get(), &receipt);
    return receipt;
  }
  // What `ask-document --json` prints. kInvalidArgument: no such unit.
  Result<std::string> Json(lectern_offset_unit unit = LECTERN_OFFSET_UTF8) const {
    return internal::TakeText([&](lectern_text** json, lectern_error** error) {
      return lectern_answer_json(handle_.get(), unit, json, error);
    });
  }

 private:
  friend class Session;
  explicit Answer(internal::Owned<lectern_answer> handle) : handle_(std::move(handle)) {}
  internal::Owned<lectern_answer> handle_;
};

// One conversation about one document: follow-ups see what was said before.
class Session {
 public:
  // kInvalidArgument, kBudgetTooSmall (the message has the smallest), kContextTooLong, kLocked (an
  // ask of this session runs), kCancelled only when nothing was decoded yet, kChecksumMismatch.
  // After an error the session stands where it stood.
  Result<Answer> Ask(std::string_view question, const AskOptions& options = {}) {
    internal::Callback<decltype(options.on_text)> callback{options.on_text};
    const lectern_ask_options c = ToC(options, callback);
    auto answer = internal::Take<lectern_answer>([&](lectern_answer** out, lectern_error** error) {
      return lectern_session_ask(handle_.get(), question.data(), question.size(), &c, out, error);
    });
    callback.Rethrow();
    if (!answer.ok()) return answer.error();
    return Answer(std::move(*answer));
  }
  // Ends the ask that runs now, within 250 ms. Any thread.
  void Cancel() { lectern_session_cancel(handle_.get()); }
  // The indexed text, into which all offsets point. Valid until the session is destroyed.
  std::string_view text() const { return internal::View(lectern_session_text, handle_.get()); }
  // As the document's model reads `text` alone, without template and control tokens.
  // kInvalidArgument (not UTF-8), kLimitExceeded (16 MiB). Any thread, also while the session
  // answers.
  Result<std::vector<lectern_token>> Tokenize(std::string_view text) const {
    std::vector<lectern_token> tokens;
    const auto keep = [&](const lectern_token* begin, size_t count) {
      tokens.assign(begin, begin + count);
    };
    internal::Callback<decltype(keep)> callback{keep};
    const auto on_tokens = [](const lectern_token* begin, size_t count, void* user) {
      static_cast<internal::Callback<decltype(keep)>*>(user)->StopAfter(begin, count);
    };
    lectern_error* error = nullptr;
    const lectern_code code = lectern_session_tokenize(handle_.get(), text.data(), text.size(),
                                                       on_tokens, &callback, &error);
    callback.Rethrow();
    if (code != LECTERN_OK) return internal::TakeError(code, error);
    return tokens;
  }

 private:
  friend class Engine;
  explicit Session(internal::Owned<lectern_session> handle) : handle_(std::move(handle)) {}

  template <typename Callback>
  static lectern_ask_options ToC(const AskOptions& options, Callback& callback) {
    auto c = internal::Sized<lectern_ask_options>();
    c.kv_budget = options.kv_budget;
    c.no_tail = options.tail ? 0 : 1;
    c.max_tokens = options.max_tokens;
    c.max_evidence = options.max_evidence;
    c.temperature = options.temperature;
    c.top_p = options.top_p;
    c.seed = options.seed;
    c.fallback = options.fallback;
    c.max_missed = options.max_missed;
    c.rule = options.rule.data();
    c.rule_len = options.rule.size();
    c.mass = options.mass;
    c.layer_budget = options.layer_budget.data();
    c.layer_budget_len = options.layer_budget.size();
    c.head_budget = options.head_budget.data();
    c.head_budget_len = options.head_budget.size();
    c.max_session_rows = options.max_session_rows;
    c.text_user = &callback;
    if (options.on_text) {
      c.on_text = [](const char* text, size_t len, void* user) {
        return static_cast<Callback*>(user)->StopAfter(std::string_view(text, len));
      };
    }
    return c;
  }
  internal::Owned<lectern_session> handle_;
};

// --- the store ----------------------------------------------------------------------------------

struct Document {
  std::string id;     // 32 hex digits
  std::string name;   // empty: reachable by id only
  std::string state;  // "ready" or "building"
  std::string model;  // folder it was indexed with
  std::string fingerprint;
  uint64_t generation = 0, tokens = 0, text_bytes = 0, bytes_on_disk = 0;
  double keep = 1;            // share of its rows that is stored
  std::string retention;      // which of them; empty: all
  std::string weights;        // EngineOptions; empty: not known
  double prefill_budget = 1;  // below 1: it was prefilled sparsely
};
struct Shard {
  std::string file;
  uint64_t bytes = 0;
};
// lectern_document_plan: shares per layer, per kv head of each layer, statistics; empty: none.
struct DocumentPlan {
  std::string layer_budget, head_budget, stats;
  double kv_budget = 1;
  std::vector<double> layers, heads, cosine, competed;
};
struct DocumentDetails {
  Document document;
  std::vector<Shard> shards;
  std::string json;
};
struct DocumentList {
  std::vector<Document> documents;
  std::string json;
};
struct Damage {
  std::string document, name;  // id and name
  Error error;                 // the first damage of this document
};
struct DamageList {
  std::vector<Damage> damaged;  // empty: all good
  std::string json;
};
struct Collected {  // lectern_collected
  uint64_t generations = 0, files = 0, in_use = 0, unknown = 0;
  std::string json;
};
struct Refused {
  std::string directory;  // stays as it is
  Error error;
};
struct Recovered {
  std::vector<Document> documents;  // taken up
  std::vector<Refused> refused;
  bool replaced = false;  // the catalog was damaged and is a new one now
  std::string json;
};
struct Imported {
  Document document;
  bool existed = false;
  std::string json;
};

// --- the engine ---------------------------------------------------------------------------------

struct EngineOptions {
  std::string_view store = {};  // directory; created by the first Index. Required
  std::string_view model = {};  // Hugging Face folder; empty: the one a document was indexed with
  uint64_t num_threads = 0;     // 0: physical cores
  uint64_t quota_bytes = 0;     // of the store: lectern_engine_options; 0: none
  lectern_io io = LECTERN_IO_MMAP;
  uint64_t max_ram_bytes = 0;  // of memory: lectern_engine_options; 0: any
  bool rehash_model = false;   // hash weights although their files are unchanged
  // "stored", "q8", "q4": lectern_engine_options. Empty: the document's
  std::string_view weights = {};
  std::string_view chat_template = {};  // "llama3", …: lectern_engine_options. Empty: the document's
};

// A store and the models that its documents need. `document` is an id, a name, or empty for the
// only one: kNotFound, kAmbiguous (the message lists them).
class Engine {
 public:
  // Opens nothing yet: the store and models are opened when they are needed. kInvalidArgument.
  static Result<Engine> Create(const EngineOptions& options) {
    auto c = internal::Sized<lectern_engine_options>();
    c.store = options.store.data(), c.store_len = options.store.size();
    c.model = options.model.data(), c.model_len = options.model.size();
    c.num_threads = options.num_threads;
    c.quota_bytes = options.quota_bytes;
    c.io = options.io;
    c.max_ram_bytes = options.max_ram_bytes;
    c.rehash_model = options.rehash_model;
    c.weights = options.weights.data(), c.weights_len = options.weights.size();
    c.chat_template = options.chat_template.data();
    c.chat_template_len = options.chat_template.size();
    auto engine = internal::Take<lectern_engine>([&](lectern_engine** out, lectern_error** error) {
      return lectern_engine_create(&c, out, error);
    });
    if (!engine.ok()) return engine.error();
    return Engine(std::move(*engine));
  }

  // Prefills `bytes`, clusters its keys, commits its shards. Minutes, not seconds. All or nothing:
  // on error the store is as before, except for a checkpoint from which the same call goes on.
  // kEmptyDocument, kContextTooLong, kNoSpace, kReadOnly, kLocked, kCancelled, model errors.
  Result<IndexReport> Index(std::string_view bytes, const IndexOptions& options = {}) {
    internal::Callback<decltype(options.on_progress)> callback{options.on_progress};
    const lectern_index_options c = ToC(options, callback);
    auto report = internal::Take<lectern_index_report>(
        [&](lectern_index_report** out, lectern_error** error) {
          return lectern_engine_index(handle_.get(), bytes.data(), bytes.size(), &c, out, error);
        });
    callback.Rethrow();
    if (!report.ok()) return report.error();
    return IndexReport(std::move(*report));
  }

  // What Index would cost. Changes nothing. Codes as Index.
  Result<lectern_index_estimate> Estimate(std::string_view bytes,
                                          const IndexOptions& options = {}) {
    internal::Callback<decltype(options.on_progress)> callback{options.on_progress};
    const lectern_index_options c = ToC(options, callback);
    auto estimate = internal::Sized<lectern_index_estimate>();
    lectern_error* error = nullptr;
    const lectern_code code =
        lectern_engine_estimate(handle_.get(), bytes.data(), bytes.size(), &c, &estimate, &error);
    callback.Rethrow();
    if (code != LECTERN_OK) return internal::TakeError(code, error);
    return estimate;
  }

  // What this engine did since it was made.
  lectern_counts counts() const {
    auto counts = internal::Sized<lectern_counts>();
    lectern_engine_counts(handle_.get(), &counts);
    return counts;
  }

  // Ends the Index and Estimate calls that run now, within 250 ms. Any thread.
  void Cancel() { lectern_engine_cancel(handle_.get()); }

  // kNotFound, kAmbiguous, kModelMismatch (names both sides), kMissingFile, kTruncated,
  // kChecksumMismatch, kCorrupt. The session keeps what it needs of the engine.
  Result<Session> Open(std::string_view document = {}) {
    auto session =
        internal::Take<lectern_session>([&](lectern_session** out, lectern_error** error) {
          return lectern_session_open(handle_.get(), document.data(), document.size(), out, error);
        });
    if (!session.ok()) return session.error();
    return Session(std::move(*session));
  }

  // Every document, ready or building. kCorrupt, kIoError.
  Result<DocumentList> List() {
    return Collect<DocumentList>([&](auto& add, lectern_text** json, lectern_error** error) {
      return lectern_engine_list(handle_.get(), internal::ItemFunction<lectern_document>(add), &add,
                                 json, error);
    });
  }

  // What `document` stands for now. As Show, but nothing is opened for it: for programs that ask
  // often.
  Result<Document> Find(std::string_view document = {}) {
    Document found;
    lectern_error* error = nullptr;
    const lectern_code code = lectern_engine_show(
        handle_.get(), document.data(), document.size(),
        [](const lectern_document* item, void* user) {
          *static_cast<Document*>(user) = FromC(*item);
        },
        nullptr, &found, nullptr, &error);
    if (code != LECTERN_OK) return internal::TakeError(code, error);
    return found;
  }

  // One document and its shards. kNotFound, kAmbiguous, kCorrupt, kIoError.
  Result<DocumentDetails> Show(std::string_view document = {}) {
    return Collect<DocumentDetails>([&](auto& add, lectern_text** json, lectern_error** error) {
      return lectern_engine_show(handle_.get(), document.data(), document.size(),
                                 internal::ItemFunction<lectern_document>(add),
                                 internal::ItemFunction<lectern_shard>(add), &add, json, error);
    });
  }

  // How asks of it that name nothing share out its budget. As Show; kBudgetTooSmall where the
  // stored budget is below what a step costs.
  Result<DocumentPlan> ShowPlan(std::string_view document = {}) {
    DocumentPlan plan;
    lectern_error* error = nullptr;
    const lectern_code code = lectern_engine_show_plan(
        handle_.get(), document.data(), document.size(),
        [](const lectern_document_plan* item, void* user) {
          *static_cast<DocumentPlan*>(user) = FromC(*item);
        },
        &plan, &error);
    if (code != LECTERN_OK) return internal::TakeError(code, error);
    return plan;
  }

  // Checks the shards of the document (empty: of every document): sizes and identities, or with
  // kEveryByte all bytes. Damage is in the value; errors are what kept it from looking.
  enum class Depth { kHeaders, kEveryByte };
  Result<DamageList> Verify(std::string_view document, Depth depth) {
    return Collect<DamageList>([&](auto& add, lectern_text** json, lectern_error** error) {
      return lectern_engine_verify(handle_.get(), document.data(), document.size(),
                                   depth == Depth::kEveryByte,
                                   internal::ItemFunction<lectern_damage>(add), &add, json, error);
    });
  }

  // Makes another plan the one of asks that name none; what is empty or 0 stays. kInvalidArgument
  // also where the document lacks the statistics of a policy; kBudgetTooSmall, kModelMismatch,
  // kNoSpace, kReadOnly, kLocked, errors of Open.
  Result<Done> ChangePlan(std::string_view document, const PlanChange& change) {
    auto c = internal::Sized<lectern_plan_options>();
    c.layer_budget = change.layer_budget.data(), c.layer_budget_len = change.layer_budget.size();
    c.head_budget = change.head_budget.data(), c.head_budget_len = change.head_budget.size();
    c.kv_budget = change.kv_budget;
    lectern_error* error = nullptr;
    const lectern_code code =
        lectern_engine_plan(handle_.get(), document.data(), document.size(), &c, &error);
    if (code != LECTERN_OK) return internal::TakeError(code, error);
    return Done{};
  }

  // Gone for readers at once; files are deleted when nobody reads them. kNotFound, kAmbiguous,
  // kReadOnly, kLocked.
  Result<Done> Remove(std::string_view document) {
    lectern_error* error = nullptr;
    const lectern_code code =
        lectern_engine_remove(handle_.get(), document.data(), document.size(), &error);
    if (code != LECTERN_OK) return internal::TakeError(code, error);
    return Done{};
  }

  // The maintenance of a store: lectern_c.h says what they do. kLocked, kReadOnly, kNotFound.
  Result<Collected> Collect() {
    auto c = internal::Sized<lectern_collected>();
    auto json = internal::TakeText([&](lectern_text** out, lectern_error** error) {
      return lectern_engine_collect(handle_.get(), &c, out, error);
    });
    if (!json.ok()) return json.error();
    return Collected{c.generations, c.files, c.in_use, c.unknown, std::move(*json)};
  }
  Result<Recovered> Recover() {
    int32_t replaced = 0;
    auto recovered = Collect<Recovered>([&](auto& add, lectern_text** json, lectern_error** error) {
      return lectern_engine_recover(handle_.get(), internal::ItemFunction<lectern_document>(add),
                                    internal::ItemFunction<lectern_refused>(add), &add, &replaced,
                                    json, error);
    });
    if (recovered.ok()) recovered->replaced = replaced != 0;
    return recovered;
  }
  Result<Done> Seal() {
    lectern_error* error = nullptr;
    const lectern_code code = lectern_engine_seal(handle_.get(), &error);
    if (code != LECTERN_OK) return internal::TakeError(code, error);
    return Done{};
  }
  // One document as a single file, which must not be there yet; and back, under `name` or the one
  // it had.
  Result<Done> Export(std::string_view document, std::string_view path) {
    lectern_error* error = nullptr;
    const lectern_code code = lectern_engine_export(handle_.get(), document.data(), document.size(),
                                                    path.data(), path.size(), &error);
    if (code != LECTERN_OK) return internal::TakeError(code, error);
    return Done{};
  }
  Result<Imported> Import(std::string_view path, std::string_view name = {}) {
    int32_t existed = 0;
    auto imported = Collect<Imported>([&](auto& add, lectern_text** json, lectern_error** error) {
      return lectern_engine_import(handle_.get(), path.data(), path.size(), name.data(),
                                   name.size(), internal::ItemFunction<lectern_document>(add), &add,
                                   &existed, json, error);
    });
    if (imported.ok()) imported->existed = existed != 0;
    return imported;
  }

 private:
  explicit Engine(internal::Owned<lectern_engine> handle) : handle_(std::move(handle)) {}

  static Document FromC(const lectern_document& item) {
    return {{item.id, item.id_len},
            {item.name, item.name_len},
            {item.state, item.state_len},
            {item.model, item.model_len},
            {item.fingerprint, item.fingerprint_len},
            item.generation,
            item.tokens,
            item.text_bytes,
            item.bytes_on_disk,
            item.keep,
            {item.retention, item.retention_len},
            {item.weights, item.weights_len},
            item.prefill_budget};
  }
  static DocumentPlan FromC(const lectern_document_plan& item) {
    const auto numbers = [](const double* first, uint64_t count) {
      return first ? std::vector<double>(first, first + count) : std::vector<double>();
    };
    return {{item.layer_budget, item.layer_budget_len},
            {item.head_budget, item.head_budget_len},
            {item.stats, item.stats_len},
            item.kv_budget,
            numbers(item.layers, item.num_layers),
            numbers(item.heads, item.num_layers * item.num_kv_heads),
            numbers(item.cosine, item.num_layers),
            numbers(item.competed, item.num_layers)};
  }
  static void Append(DocumentList& list, const lectern_document& item) {
    list.documents.push_back(FromC(item));
  }
  static void Append(DocumentDetails& details, const lectern_document& item) {
    details.document = FromC(item);
  }
  static void Append(DocumentDetails& details, const lectern_shard& item) {
    details.shards.push_back({{item.file, item.file_len}, item.bytes});
  }
  static void Append(Recovered& recovered, const lectern_document& item) {
    recovered.documents.push_back(FromC(item));
  }
  static void Append(Recovered& recovered, const lectern_refused& item) {
    recovered.refused.push_back(
        {{item.directory, item.directory_len}, {item.code, {item.message, item.message_len}, {}}});
  }
  static void Append(Imported& imported, const lectern_document& item) {
    imported.document = FromC(item);
  }
  static void Append(DamageList& list, const lectern_damage& item) {
    list.damaged.push_back({{item.document, item.document_len},
                            {item.name, item.name_len},
                            {item.code, {item.message, item.message_len}, {}}});
  }

  // Runs a C call that calls back per item and gives everything as JSON.
  template <typename Value, typename Call>
  static Result<Value> Collect(Call call) {
    Value value;
    const auto append = [&value](const auto& item) { Append(value, item); };
    internal::Callback<decltype(append)> add{append};
    auto json = internal::TakeText(
        [&](lectern_text** out, lectern_error** error) { return call(add, out, error); });
    add.Rethrow();
    if (!json.ok()) return json.error();
    value.json = std::move(*json);
    return value;
  }

  template <typename Callback>
  static lectern_index_options ToC(const IndexOptions& options, Callback& callback) {
    auto c = internal::Sized<lectern_index_options>();
    c.name = options.name.data(), c.name_len = options.name.size();
    c.kv_type = options.kv_type;
    c.kv_budget = options.kv_budget;
    c.num_levels = options.num_levels;
    c.seed = options.seed;
    c.again = options.again ? 1 : 0;
    c.layer_budget = options.layer_budget.data();
    c.layer_budget_len = options.layer_budget.size();
    c.head_budget = options.head_budget.data();
    c.head_budget_len = options.head_budget.size();
    c.cluster_keys = options.cluster_keys.data();
    c.cluster_keys_len = options.cluster_keys.size();
    c.keep = options.keep;
    c.retention = options.retention.data(), c.retention_len = options.retention.size();
    c.representatives = options.representatives;
    c.stats = options.stats.data(), c.stats_len = options.stats.size();
    c.prefill = options.prefill.data(), c.prefill_len = options.prefill.size();
    c.prefill_budget = options.prefill_budget;
    c.pages = options.pages.data(), c.num_pages = options.pages.size();
    c.progress_user = &callback;
    if (options.on_progress) {
      c.on_progress = [](const lectern_progress* item, void* user) {
        return static_cast<Callback*>(user)->StopAfter(Progress{
            item->stage, item->done, item->total, item->tokens_per_second, item->eta_seconds});
      };
    }
    return c;
  }
  internal::Owned<lectern_engine> handle_;
};

// --- JSON ---------------------------------------------------------------------------------------

// {"error":{…}} as the tools and the REST endpoint print it.
inline Result<std::string> ToJson(const Error& error) {
  return internal::TakeText([&](lectern_text** json, lectern_error** failed) {
    return lectern_error_json(error.code, error.message.data(), error.message.size(),
                              error.param.data(), error.param.size(), json, failed);
  });
}
// What `index-document --estimate --json` prints.
inline Result<std::string> ToJson(const lectern_index_estimate& estimate) {
  return internal::TakeText([&](lectern_text** json, lectern_error** error) {
    return lectern_index_estimate_json(&estimate, json, error);
  });
}
// A string member of a JSON object. kNotFound: no such member; kInvalidArgument: no object, or not
// a string.
inline Result<std::string> GetString(std::string_view json, std::string_view key) {
  return internal::TakeText([&](lectern_text** value, lectern_error** error) {
    return lectern_json_get_string(json.data(), json.size(), key.data(), key.size(), value, error);
  });
}
// The JSON object with a string member set. kInvalidArgument: no object.
inline Result<std::string> SetString(std::string_view json, std::string_view key,
                                     std::string_view value) {
  return internal::TakeText([&](lectern_text** result, lectern_error** error) {
    return lectern_json_set_string(json.data(), json.size(), key.data(), key.size(), value.data(),
                                   value.size(), result, error);
  });
}

}  // namespace lectern::api

#endif  // LECTERN_ENGINE_LECTERN_H_
