// Implements lectern.h, which includes it, by the C functions. Nothing here is for callers.
#ifndef LECTERN_ENGINE_LECTERN_INLINE_H_
#define LECTERN_ENGINE_LECTERN_INLINE_H_

#include <exception>
#include <type_traits>

#include "lectern.h"

namespace lectern::api {
namespace internal {

inline void FreeHandle(lectern_engine* handle) { lectern_engine_free(handle); }
inline void FreeHandle(lectern_session* handle) { lectern_session_free(handle); }
inline void FreeHandle(lectern_answer* handle) { lectern_answer_free(handle); }
inline void FreeHandle(lectern_index_report* handle) { lectern_index_report_free(handle); }
inline void FreeHandle(lectern_text* handle) { lectern_text_free(handle); }
inline void FreeHandle(lectern_error* handle) { lectern_error_free(handle); }
template <typename Handle>
void Free::operator()(Handle* handle) const {
  FreeHandle(handle);
}

// A string that belongs to `handle`, read through one of the C accessors.
template <typename Handle>
std::string_view View(const char* (*read)(const Handle*, size_t*), const Handle* handle) {
  size_t len = 0;
  const char* const text = read(handle, &len);
  return text ? std::string_view(text, len) : std::string_view();
}

// The error of a C call that returned `code`; frees `handle`. One without a handle, which is memory
// that ran out, has the code's name as its message.
inline Error TakeError(lectern_code code, lectern_error* handle) {
  const Owned<lectern_error> error(handle);
  if (!error) return {code, lectern_code_name(code), {}};
  return {code, std::string(View(lectern_error_message, handle)),
          std::string(View(lectern_error_param, handle)),
          std::string(View(lectern_error_cli_message, handle))};
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

// Runs a C call whose last parameter is the error.
template <typename Call>
Result<Done> Run(Call call) {
  lectern_error* error = nullptr;
  const lectern_code code = call(&error);
  if (code != LECTERN_OK) return TakeError(code, error);
  return Done{};
}

// Runs a C call like Take's whose out handle is a text, and returns a copy of it.
template <typename Call>
Result<std::string> TakeText(Call call) {
  auto text = Take<lectern_text>(call);
  if (!text.ok()) return text.error();
  return std::string(View(lectern_text_data, text->get()));
}

// For a call whose stop token was set already: the C functions would forget the cancel.
inline Error Stopped() { return {LECTERN_CANCELLED, "stopped before it began", {}}; }

// Carries a C++ callback through C: keeps an exception until the C call has returned, and ends the
// call when `stop` is requested.
template <typename Function>
struct Callback {
  const Function& function;
  std::stop_token stop = {};
  std::exception_ptr thrown = nullptr;

  // Calls the function. A C callback that returns nothing cannot pass the answer on: the call then
  // goes on after an exception, but a function of void is not called again.
  template <typename... Args>
  int32_t StopAfter(Args&&... args) noexcept {  // 0: go on
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<const Function&, Args...>>) {
        if (!thrown) function(std::forward<Args>(args)...);
        return 0;
      } else {
        const bool goes_on = !function || function(std::forward<Args>(args)...);
        return goes_on && !stop.stop_requested() ? 0 : 1;
      }
    } catch (...) {
      thrown = std::current_exception();
      return 1;
    }
  }
  // Whether C has to call back: also without a function, because only this callback ends the call
  // where the stop was requested just before the C function began.
  bool is_needed() const { return function || stop.stop_possible(); }
  // Throws the exception kept, if any; to be called once C has returned.
  void Rethrow() const {
    if (thrown) std::rethrow_exception(thrown);
  }
};

// The C callback that passes an Item to `callback`, a Callback of a function that returns nothing.
template <typename Item, typename Callback>
auto ItemFunction(Callback&) -> void (*)(const Item*, void*) {
  return [](const Item* item, void* user) { static_cast<Callback*>(user)->StopAfter(*item); };
}

// A C struct T with its size set, ready to be filled.
template <typename T>
T Sized() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}
// The value that a C function writes for a handle.
template <typename T, typename Handle>
T Read(lectern_code (*read)(const Handle*, T*), const Handle* handle) {
  T value = Sized<T>();
  read(handle, &value);
  return value;
}
// Lends C a text, which must outlive the call.
inline void Put(std::string_view from, const char*& data, size_t& len) {
  data = from.data(), len = from.size();
}

// Options as C takes them: views into `options` and pointers to the callbacks, which must stay
// where they are until the C call has returned.
inline lectern_engine_options ToC(const EngineOptions& options) {
  auto c = Sized<lectern_engine_options>();
  Put(options.store, c.store, c.store_len);
  Put(options.model, c.model, c.model_len);
  c.num_threads = options.num_threads;
  c.quota_bytes = options.quota_bytes;
  c.io = options.io;
  c.max_ram_bytes = options.max_ram_bytes;
  c.rehash_model = options.rehash_model;
  Put(options.weights, c.weights, c.weights_len);
  c.nice = options.nice;
  Put(options.ollama_models, c.ollama_models, c.ollama_models_len);
  Put(options.chat_template, c.chat_template, c.chat_template_len);
  Put(options.device, c.device, c.device_len);
  c.device_memory_bytes = options.device_memory_bytes;
  Put(options.adapter, c.adapter, c.adapter_len);
  return c;
}

inline Progress FromC(const lectern_progress& item) {
  return {item.stage, item.done, item.total, item.tokens_per_second, item.eta_seconds};
}
inline CollectionProgress FromC(const lectern_collection_progress& item) {
  return {{item.document, item.document_len}, item.number, item.count, FromC(*item.progress)};
}
// The C function that passes such progress to `callback`; NULL where nobody needs it.
template <typename Callback>
lectern_collection_progress_fn IndexFunction(const Callback& callback) {
  if (!callback.is_needed()) return nullptr;
  return [](const lectern_collection_progress* item, void* user) {
    return static_cast<Callback*>(user)->StopAfter(FromC(*item));
  };
}

inline lectern_plan_options ToC(const PlanChange& change) {
  auto c = Sized<lectern_plan_options>();
  Put(change.layer_budget, c.layer_budget, c.layer_budget_len);
  Put(change.head_budget, c.head_budget, c.head_budget_len);
  c.kv_budget = change.kv_budget;
  c.max_divergence = double{change.max_divergence};
  return c;
}

inline lectern_cite_options ToC(const CiteOptions& options) {
  auto c = Sized<lectern_cite_options>();
  Put(options.question, c.question, c.question_len);
  c.max_evidence = options.max_evidence;
  return c;
}

template <typename Callback>
lectern_index_options ToC(const IndexOptions& options, Callback& callback) {
  auto c = Sized<lectern_index_options>();
  Put(options.name, c.name, c.name_len);
  c.kv_type = options.kv_type;
  c.kv_budget = options.kv_budget;
  c.num_levels = options.num_levels;
  c.seed = options.seed;
  c.again = options.again ? 1 : 0;
  Put(options.layer_budget, c.layer_budget, c.layer_budget_len);
  Put(options.head_budget, c.head_budget, c.head_budget_len);
  Put(options.cluster_keys, c.cluster_keys, c.cluster_keys_len);
  c.keep = options.keep;
  Put(options.retention, c.retention, c.retention_len);
  c.representatives = options.representatives;
  Put(options.stats, c.stats, c.stats_len);
  Put(options.prefill, c.prefill, c.prefill_len);
  c.prefill_budget = options.prefill_budget;
  c.pages = options.pages.data(), c.num_pages = options.pages.size();
  c.page_labels = options.page_labels.data(), c.page_labels_len = options.page_labels.size();
  Put(options.source, c.source, c.source_len);
  Put(options.path, c.path, c.path_len);
  c.keep_versions = options.keep_versions;
  c.max_divergence = double{options.max_divergence};
  c.progress_user = &callback;
  if (callback.is_needed()) {
    c.on_progress = [](const lectern_progress* item, void* user) {
      return static_cast<Callback*>(user)->StopAfter(FromC(*item));
    };
  }
  return c;
}

template <typename Callback, typename TokenCallback, typename WarningCallback,
          typename IndexCallback, typename PartCallback>
lectern_ask_options ToC(const AskOptions& options, Callback& callback, Callback& reasoning,
                        TokenCallback& tokens, WarningCallback& warnings, IndexCallback& index,
                        PartCallback& parts) {
  auto c = Sized<lectern_ask_options>();
  c.kv_budget = options.kv_budget;
  c.no_tail = options.tail ? 0 : 1;
  c.max_tokens = options.max_tokens;
  c.max_evidence = options.max_evidence;
  c.temperature = options.temperature;
  c.top_p = options.top_p;
  c.seed = options.seed;
  c.fallback = options.fallback;
  c.max_missed = options.max_missed;
  Put(options.rule, c.rule, c.rule_len);
  Put(options.focus, c.focus, c.focus_len);
  c.refuse_at = options.refuse_at;
  c.json_schema = options.json_schema.data();
  c.json_schema_len = options.json_schema.size();
  c.strict_schema = options.strict_schema;
  Put(options.lookup_decoding, c.lookup_decoding, c.lookup_decoding_len);
  c.mass = options.mass;
  Put(options.layer_budget, c.layer_budget, c.layer_budget_len);
  Put(options.head_budget, c.head_budget, c.head_budget_len);
  c.max_session_rows = options.max_session_rows;
  Put(options.instructions, c.instructions, c.instructions_len);
  c.text_user = &callback;
  if (callback.is_needed()) {
    c.on_text = [](const char* text, size_t len, void* user) {
      return static_cast<Callback*>(user)->StopAfter(std::string_view(text, len));
    };
  }
  c.reasoning_user = &reasoning;
  if (reasoning.is_needed()) {
    c.on_reasoning = [](const char* text, size_t len, void* user) {
      return static_cast<Callback*>(user)->StopAfter(std::string_view(text, len));
    };
  }
  c.frequency_penalty = options.frequency_penalty;
  c.presence_penalty = options.presence_penalty;
  c.min_p = options.min_p;
  c.top_k = options.top_k;
  c.logit_bias = options.logit_bias.data(), c.num_logit_bias = options.logit_bias.size();
  c.token_user = &tokens;
  if (tokens.function) c.on_token = ItemFunction<lectern_sampled_token>(tokens);
  c.top_logprobs = options.top_logprobs;
  c.max_divergence = double{options.max_divergence};
  c.index_user = &index;
  c.on_index = IndexFunction(index);
  c.part_user = &parts;
  if (parts.is_needed()) {
    c.on_part = [](uint64_t done, uint64_t count, void* user) {
      return static_cast<PartCallback*>(user)->StopAfter(done, count);
    };
  }
  c.warning_user = &warnings;
  if (warnings.function) {
    c.on_warning = [](const char* name, const char* note, void* user) {
      static_cast<WarningCallback*>(user)->StopAfter(std::string_view(name),
                                                     std::string_view(note));
    };
  }
  return c;
}

// Conversions of the items that C calls report one by one.
inline std::vector<DocumentName> NamesOf(const lectern_document& item) {
  std::vector<DocumentName> names;
  for (size_t i = 0; i < item.num_names; ++i) {
    const lectern_name& name = item.names[i];
    names.push_back({{name.name, name.name_len}, {name.source, name.source_len}});
  }
  return names;
}
inline Document FromC(const lectern_document& item) {
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
          item.prefill_budget,
          {item.source, item.source_len},
          NamesOf(item),
          {item.adapter, item.adapter_len},
          item.num_parts};
}
inline DocumentPlan FromC(const lectern_document_plan& item) {
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
          numbers(item.competed, item.num_layers),
          item.is_auto != 0,
          item.max_divergence,
          item.divergence};
}
// Each adds an item that C reports, copied, to the value that the call returns.
inline void Append(DocumentList& list, const lectern_document& item) {
  list.documents.push_back(FromC(item));
}
inline void Append(DocumentDetails& details, const lectern_document& item) {
  details.document = FromC(item);
}
inline void Append(DocumentDetails& details, const lectern_shard& item) {
  details.shards.push_back({{item.file, item.file_len}, item.bytes});
}
inline void Append(Recovered& recovered, const lectern_document& item) {
  recovered.documents.push_back(FromC(item));
}
inline void Append(Recovered& recovered, const lectern_refused& item) {
  recovered.refused.push_back(
      {{item.directory, item.directory_len}, {item.code, {item.message, item.message_len}, {}}});
}
inline void Append(Imported& imported, const lectern_document& item) {
  imported.document = FromC(item);
}
inline void Append(DamageList& list, const lectern_damage& item) {
  list.damaged.push_back({{item.document, item.document_len},
                          {item.name, item.name_len},
                          {item.code, {item.message, item.message_len}, {}},
                          {item.collection, item.collection_len}});
}

inline void Append(CollectionList& list, const lectern_collection& item) {
  list.collections.push_back({{item.name, item.name_len},
                              item.num_documents,
                              item.num_indexed,
                              item.text_bytes,
                              item.bytes_on_disk});
}
inline void Append(CollectionDocuments& list, const lectern_collection_document& item) {
  list.documents.push_back({{item.name, item.name_len},
                            {item.source, item.source_len},
                            {item.document, item.document_len},
                            item.text_bytes});
}
inline void Append(AddedList& list, const lectern_added& item) {
  list.added.push_back({{item.name, item.name_len}, item.change});
}

inline Passage FromC(const lectern_evidence& item) {
  return {item.begin,
          item.end,
          std::string(item.text, item.text_len),
          item.score,
          item.page,
          item.page_end,
          std::string(item.heading, item.heading_len),
          {item.highlights, item.highlights + item.num_highlights},
          {item.places, item.places + item.num_places},
          std::string(item.page_label, item.page_label_len),
          std::string(item.page_end_label, item.page_end_label_len),
          std::string(item.document, item.document_len)};
}
inline void Append(MentionList& list, const lectern_mention& item) {
  list.mentions.push_back({{{item.name, item.name_len},
                            {item.source, item.source_len},
                            {item.document, item.document_len},
                            0},
                           item.num_passages,
                           FromC(*item.passage)});
}
// Sentences do not overlap, so that one that begins elsewhere is another one.
inline void Append(CitedText& cited, const lectern_citation& item) {
  if (cited.sentences.empty() || cited.sentences.back().begin != item.begin) {
    cited.sentences.push_back({item.begin, item.end, item.is_supported != 0, {}});
  }
  if (item.evidence) cited.sentences.back().passages.push_back(FromC(*item.evidence));
}

// Runs a C call that reports items by callback and everything as JSON; returns both. An error drops
// the items reported before it.
template <typename Value, typename Call>
Result<Value> Collect(Call call) {
  Value value;
  const auto append = [&value](const auto& item) { Append(value, item); };
  Callback<decltype(append)> add{append};
  auto json =
      TakeText([&](lectern_text** out, lectern_error** error) { return call(add, out, error); });
  add.Rethrow();
  if (!json.ok()) return json.error();
  value.json = std::move(*json);
  return value;
}

}  // namespace internal

// --- reports and answers ------------------------------------------------------------------------

inline std::string_view IndexReport::document() const {
  return internal::View(lectern_index_report_document, handle_.get());
}
inline std::string_view IndexReport::name() const {
  return internal::View(lectern_index_report_name, handle_.get());
}
inline std::string_view IndexReport::source() const {
  return internal::View(lectern_index_report_source, handle_.get());
}
inline std::string_view IndexReport::replaced() const {
  return internal::View(lectern_index_report_replaced, handle_.get());
}
inline std::string_view IndexReport::json() const {
  return internal::View(lectern_index_report_json, handle_.get());
}
inline std::string_view IndexReport::note() const {
  return internal::View(lectern_index_report_note, handle_.get());
}
inline std::string_view IndexReport::cli_note() const {
  return internal::View(lectern_index_report_cli_note, handle_.get());
}
inline lectern_index_numbers IndexReport::numbers() const {
  return internal::Read(lectern_index_report_numbers, handle_.get());
}

inline std::string_view Answer::text() const {
  return internal::View(lectern_answer_text, handle_.get());
}
inline std::string_view Answer::reasoning() const {
  return internal::View(lectern_answer_reasoning, handle_.get());
}
inline std::string_view Answer::stopped_by() const {
  return internal::View(lectern_answer_stopped_by, handle_.get());
}
inline std::string_view Answer::finish_reason() const {
  return internal::View(lectern_answer_finish_reason, handle_.get());
}
inline std::string_view Answer::note() const {
  return internal::View(lectern_answer_note, handle_.get());
}
inline std::string_view Answer::cli_note() const {
  return internal::View(lectern_answer_cli_note, handle_.get());
}
inline std::vector<std::string_view> Answer::warnings() const {
  std::vector<std::string_view> all;
  for (size_t i = 0; i < lectern_answer_warning_count(handle_.get()); ++i) {
    size_t len = 0;
    const char* const name = lectern_answer_warning(handle_.get(), i, &len);
    all.emplace_back(name, len);
  }
  return all;
}
inline std::vector<lectern_evidence> Answer::evidence() const {
  std::vector<lectern_evidence> all(lectern_answer_evidence_count(handle_.get()),
                                    internal::Sized<lectern_evidence>());
  for (size_t i = 0; i < all.size(); ++i) lectern_answer_evidence(handle_.get(), i, &all[i]);
  return all;
}
inline std::vector<lectern_asked_document> Answer::asked_documents() const {
  std::vector<lectern_asked_document> all(receipt().num_asked_documents,
                                          internal::Sized<lectern_asked_document>());
  for (size_t i = 0; i < all.size(); ++i) lectern_answer_asked_document(handle_.get(), i, &all[i]);
  return all;
}
inline lectern_receipt Answer::receipt() const {
  return internal::Read(lectern_answer_receipt, handle_.get());
}
inline Result<std::string> Answer::Json(lectern_offset_unit unit) const {
  return internal::TakeText([&](lectern_text** json, lectern_error** error) {
    return lectern_answer_json(handle_.get(), unit, json, error);
  });
}

// --- sessions -----------------------------------------------------------------------------------

inline Result<Answer> Session::Ask(std::string_view question, const AskOptions& options) {
  if (options.stop.stop_requested()) return internal::Stopped();
  internal::Callback<decltype(options.on_text)> callback{options.on_text, options.stop};
  internal::Callback<decltype(options.on_reasoning)> reasoning{options.on_reasoning, options.stop};
  internal::Callback<decltype(options.on_token)> tokens{options.on_token};
  internal::Callback<decltype(options.on_warning)> warnings{options.on_warning};
  internal::Callback<decltype(options.on_index)> index{options.on_index, options.stop};
  internal::Callback<decltype(options.on_part)> parts{options.on_part, options.stop};
  lectern_ask_options c =
      internal::ToC(options, callback, reasoning, tokens, warnings, index, parts);
  std::vector<lectern_turn> turns;
  for (const Turn& turn : options.turns) {
    turns.push_back(
        {turn.question.data(), turn.question.size(), turn.answer.data(), turn.answer.size()});
  }
  c.turns = turns.data(), c.num_turns = turns.size();
  std::vector<lectern_string> stop_texts;
  for (const std::string& text : options.stop_texts) {
    stop_texts.push_back({text.data(), text.size()});
  }
  c.stop_texts = stop_texts.data(), c.num_stop_texts = stop_texts.size();
  const std::stop_callback cancel(options.stop, [this] { Cancel(); });
  auto answer = internal::Take<lectern_answer>([&](lectern_answer** out, lectern_error** error) {
    return lectern_session_ask(handle_.get(), question.data(), question.size(), &c, out, error);
  });
  callback.Rethrow();
  reasoning.Rethrow();
  tokens.Rethrow();
  warnings.Rethrow();
  index.Rethrow();
  parts.Rethrow();
  if (!answer.ok()) return answer.error();
  return Answer(std::move(*answer));
}
inline void Session::Cancel() { lectern_session_cancel(handle_.get()); }
inline std::string_view Session::text() const {
  return internal::View(lectern_session_text, handle_.get());
}
inline Result<std::vector<lectern_token>> Session::Tokenize(std::string_view text) const {
  std::vector<lectern_token> tokens;
  const auto keep = [&](const lectern_token* begin, size_t count) {
    tokens.assign(begin, begin + count);
  };
  internal::Callback<decltype(keep)> callback{keep};
  const auto on_tokens = [](const lectern_token* begin, size_t count, void* user) {
    static_cast<internal::Callback<decltype(keep)>*>(user)->StopAfter(begin, count);
  };
  const auto done = internal::Run([&](lectern_error** error) {
    return lectern_session_tokenize(handle_.get(), text.data(), text.size(), on_tokens, &callback,
                                    error);
  });
  callback.Rethrow();
  if (!done.ok()) return done.error();
  return tokens;
}

// --- the engine ---------------------------------------------------------------------------------

inline Result<Engine> Engine::Create(const EngineOptions& options) {
  const lectern_engine_options c = internal::ToC(options);
  auto engine = internal::Take<lectern_engine>([&](lectern_engine** out, lectern_error** error) {
    return lectern_engine_create(&c, out, error);
  });
  if (!engine.ok()) return engine.error();
  return Engine(std::move(*engine));
}

inline Result<IndexReport> Engine::Index(std::string_view bytes, const IndexOptions& options) {
  if (options.stop.stop_requested()) return internal::Stopped();
  internal::Callback<decltype(options.on_progress)> callback{options.on_progress, options.stop};
  const lectern_index_options c = internal::ToC(options, callback);
  const std::stop_callback cancel(options.stop, [this] { Cancel(); });
  auto report =
      internal::Take<lectern_index_report>([&](lectern_index_report** out, lectern_error** error) {
        return lectern_engine_index(handle_.get(), bytes.data(), bytes.size(), &c, out, error);
      });
  callback.Rethrow();
  if (!report.ok()) return report.error();
  return IndexReport(std::move(*report));
}
inline Result<IndexReport> Engine::IndexFile(std::string_view path, const IndexOptions& options) {
  if (options.stop.stop_requested()) return internal::Stopped();
  internal::Callback<decltype(options.on_progress)> callback{options.on_progress, options.stop};
  const lectern_index_options c = internal::ToC(options, callback);
  const std::stop_callback cancel(options.stop, [this] { Cancel(); });
  auto report =
      internal::Take<lectern_index_report>([&](lectern_index_report** out, lectern_error** error) {
        return lectern_engine_index_file(handle_.get(), path.data(), path.size(), &c, out, error);
      });
  callback.Rethrow();
  if (!report.ok()) return report.error();
  return IndexReport(std::move(*report));
}
inline Result<lectern_index_estimate> Engine::Estimate(std::string_view bytes,
                                                       const IndexOptions& options) {
  if (options.stop.stop_requested()) return internal::Stopped();
  internal::Callback<decltype(options.on_progress)> callback{options.on_progress, options.stop};
  const lectern_index_options c = internal::ToC(options, callback);
  const std::stop_callback cancel(options.stop, [this] { Cancel(); });
  auto estimate = internal::Sized<lectern_index_estimate>();
  const auto done = internal::Run([&](lectern_error** error) {
    return lectern_engine_estimate(handle_.get(), bytes.data(), bytes.size(), &c, &estimate, error);
  });
  callback.Rethrow();
  if (!done.ok()) return done.error();
  return estimate;
}
inline void Engine::Cancel() { lectern_engine_cancel(handle_.get()); }

inline Result<Session> Engine::Open(std::string_view document) {
  auto session = internal::Take<lectern_session>([&](lectern_session** out, lectern_error** error) {
    return lectern_session_open(handle_.get(), document.data(), document.size(), out, error);
  });
  if (!session.ok()) return session.error();
  return Session(std::move(*session));
}

inline lectern_counts Engine::counts() const {
  return internal::Read(lectern_engine_counts, handle_.get());
}
inline Result<DocumentList> Engine::List() {
  return internal::Collect<DocumentList>(
      [&](auto& add, lectern_text** json, lectern_error** error) {
        return lectern_engine_list(handle_.get(), internal::ItemFunction<lectern_document>(add),
                                   &add, json, error);
      });
}
inline Result<Document> Engine::Find(std::string_view document) {
  Document found;
  const auto done = internal::Run([&](lectern_error** error) {
    return lectern_engine_show(
        handle_.get(), document.data(), document.size(),
        [](const lectern_document* item, void* user) {
          *static_cast<Document*>(user) = internal::FromC(*item);
        },
        nullptr, &found, nullptr, error);
  });
  if (!done.ok()) return done.error();
  return found;
}
inline Result<DocumentDetails> Engine::Show(std::string_view document) {
  return internal::Collect<DocumentDetails>(
      [&](auto& add, lectern_text** json, lectern_error** error) {
        return lectern_engine_show(handle_.get(), document.data(), document.size(),
                                   internal::ItemFunction<lectern_document>(add),
                                   internal::ItemFunction<lectern_shard>(add), &add, json, error);
      });
}
inline Result<DocumentPlan> Engine::ShowPlan(std::string_view document) {
  DocumentPlan plan;
  const auto done = internal::Run([&](lectern_error** error) {
    return lectern_engine_show_plan(
        handle_.get(), document.data(), document.size(),
        [](const lectern_document_plan* item, void* user) {
          *static_cast<DocumentPlan*>(user) = internal::FromC(*item);
        },
        &plan, error);
  });
  if (!done.ok()) return done.error();
  return plan;
}
inline Result<Done> Engine::ChangePlan(std::string_view document, const PlanChange& change) {
  const lectern_plan_options c = internal::ToC(change);
  return internal::Run([&](lectern_error** error) {
    return lectern_engine_plan(handle_.get(), document.data(), document.size(), &c, error);
  });
}
inline Result<CitedText> Engine::Cite(std::string_view document, std::string_view text,
                                      const CiteOptions& options) {
  const lectern_cite_options c = internal::ToC(options);
  return internal::Collect<CitedText>([&](auto& add, lectern_text** json, lectern_error** error) {
    return lectern_cite(handle_.get(), document.data(), document.size(), text.data(), text.size(),
                        &c, internal::ItemFunction<lectern_citation>(add), &add, options.unit, json,
                        error);
  });
}
inline Result<DamageList> Engine::Verify(std::string_view document, Depth depth) {
  return internal::Collect<DamageList>([&](auto& add, lectern_text** json, lectern_error** error) {
    return lectern_engine_verify(handle_.get(), document.data(), document.size(),
                                 depth == Depth::kEveryByte,
                                 internal::ItemFunction<lectern_damage>(add), &add, json, error);
  });
}

inline Result<Removed> Engine::Remove(std::string_view document) {
  auto c = internal::Sized<lectern_removed>();
  auto json = internal::TakeText([&](lectern_text** out, lectern_error** error) {
    return lectern_engine_remove_named(handle_.get(), document.data(), document.size(), &c, out,
                                       error);
  });
  if (!json.ok()) return json.error();
  return Removed{c.names, c.is_document_gone != 0, c.left, std::move(*json)};
}
inline Result<Collected> Engine::Collect() {
  auto c = internal::Sized<lectern_collected>();
  auto json = internal::TakeText([&](lectern_text** out, lectern_error** error) {
    return lectern_engine_collect(handle_.get(), &c, out, error);
  });
  if (!json.ok()) return json.error();
  return Collected{c.generations, c.files, c.in_use, c.unknown, std::move(*json)};
}
inline Result<Recovered> Engine::Recover() {
  int32_t replaced = 0;
  auto recovered =
      internal::Collect<Recovered>([&](auto& add, lectern_text** json, lectern_error** error) {
        return lectern_engine_recover(handle_.get(), internal::ItemFunction<lectern_document>(add),
                                      internal::ItemFunction<lectern_refused>(add), &add, &replaced,
                                      json, error);
      });
  if (recovered.ok()) recovered->replaced = replaced != 0;
  return recovered;
}
inline Result<Done> Engine::Seal() {
  return internal::Run(
      [&](lectern_error** error) { return lectern_engine_seal(handle_.get(), error); });
}
inline Result<Done> Engine::Export(std::string_view document, std::string_view path) {
  return internal::Run([&](lectern_error** error) {
    return lectern_engine_export(handle_.get(), document.data(), document.size(), path.data(),
                                 path.size(), error);
  });
}
inline Result<Imported> Engine::Import(std::string_view path, std::string_view name) {
  int32_t existed = 0;
  auto imported =
      internal::Collect<Imported>([&](auto& add, lectern_text** json, lectern_error** error) {
        return lectern_engine_import(handle_.get(), path.data(), path.size(), name.data(),
                                     name.size(), internal::ItemFunction<lectern_document>(add),
                                     &add, &existed, json, error);
      });
  if (imported.ok()) imported->existed = existed != 0;
  return imported;
}

// --- collections --------------------------------------------------------------------------------

inline Result<CollectionList> Engine::Collections() {
  return internal::Collect<CollectionList>(
      [&](auto& add, lectern_text** json, lectern_error** error) {
        return lectern_list_collections(
            handle_.get(), internal::ItemFunction<lectern_collection>(add), &add, json, error);
      });
}
inline Result<CollectionDocuments> Engine::DocumentsOf(std::string_view collection) {
  return internal::Collect<CollectionDocuments>([&](auto& add, lectern_text** json,
                                                    lectern_error** error) {
    return lectern_collection_documents(handle_.get(), collection.data(), collection.size(),
                                        internal::ItemFunction<lectern_collection_document>(add),
                                        &add, json, error);
  });
}
inline Result<AddedList> Engine::AddToCollection(std::string_view collection,
                                                 std::span<const CollectionText> texts) {
  std::vector<lectern_text_to_add> all;
  for (const CollectionText& text : texts) {
    lectern_text_to_add& c = all.emplace_back();
    internal::Put(text.name, c.name, c.name_len);
    internal::Put(text.source, c.source, c.source_len);
    internal::Put(text.path, c.path, c.path_len);
    internal::Put(text.bytes, c.bytes, c.bytes_len);
    c.pages = text.pages.data(), c.num_pages = text.pages.size();
    internal::Put(text.page_labels, c.page_labels, c.page_labels_len);
  }
  return internal::Collect<AddedList>([&](auto& add, lectern_text** json, lectern_error** error) {
    return lectern_collection_add(handle_.get(), collection.data(), collection.size(), all.data(),
                                  all.size(), internal::ItemFunction<lectern_added>(add), &add,
                                  json, error);
  });
}
inline Result<AddedList> Engine::AddToCollection(std::string_view collection,
                                                 std::string_view document) {
  return internal::Collect<AddedList>([&](auto& add, lectern_text** json, lectern_error** error) {
    return lectern_collection_add_document(
        handle_.get(), collection.data(), collection.size(), document.data(), document.size(),
        internal::ItemFunction<lectern_added>(add), &add, json, error);
  });
}
inline Result<std::string> Engine::ReadInCollection(std::string_view collection,
                                                    std::string_view document) {
  return internal::TakeText([&](lectern_text** text, lectern_error** error) {
    return lectern_collection_text(handle_.get(), collection.data(), collection.size(),
                                   document.data(), document.size(), text, error);
  });
}
inline Result<Done> Engine::RemoveFromCollection(std::string_view collection,
                                                 std::string_view document) {
  return internal::Run([&](lectern_error** error) {
    return lectern_collection_remove(handle_.get(), collection.data(), collection.size(),
                                     document.data(), document.size(), error);
  });
}
inline Result<Done> Engine::RenameInCollection(std::string_view collection, std::string_view from,
                                               std::string_view to) {
  return internal::Run([&](lectern_error** error) {
    return lectern_collection_rename_document(handle_.get(), collection.data(), collection.size(),
                                              from.data(), from.size(), to.data(), to.size(),
                                              error);
  });
}
inline Result<Done> Engine::RemoveCollection(std::string_view collection) {
  return internal::Run([&](lectern_error** error) {
    return lectern_remove_collection(handle_.get(), collection.data(), collection.size(), error);
  });
}
inline Result<Done> Engine::RenameCollection(std::string_view collection, std::string_view to) {
  return internal::Run([&](lectern_error** error) {
    return lectern_rename_collection(handle_.get(), collection.data(), collection.size(), to.data(),
                                     to.size(), error);
  });
}
inline Result<Done> Engine::VerifyCollection(std::string_view collection) {
  return internal::Run([&](lectern_error** error) {
    return lectern_verify_collection(handle_.get(), collection.data(), collection.size(), error);
  });
}
inline Result<Session> Engine::OpenCollection(std::string_view collection) {
  auto session = internal::Take<lectern_session>([&](lectern_session** out, lectern_error** error) {
    return lectern_open_collection(handle_.get(), collection.data(), collection.size(), out, error);
  });
  if (!session.ok()) return session.error();
  return Session(std::move(*session));
}
inline Result<MentionList> Engine::FindMentions(std::string_view collection, std::string_view words,
                                                uint64_t most, lectern_offset_unit unit) {
  uint64_t num_documents = 0;
  auto found =
      internal::Collect<MentionList>([&](auto& add, lectern_text** json, lectern_error** error) {
        return lectern_find_mentions(
            handle_.get(), collection.data(), collection.size(), words.data(), words.size(), most,
            internal::ItemFunction<lectern_mention>(add), &add, &num_documents, unit, json, error);
      });
  if (found.ok()) found->num_documents = num_documents;
  return found;
}
inline Result<IndexedCollection> Engine::IndexCollection(
    std::string_view collection, const IndexOptions& options,
    const std::function<bool(const CollectionProgress&)>& on_progress) {
  if (options.stop.stop_requested()) return internal::Stopped();
  internal::Callback<decltype(options.on_progress)> none{options.on_progress};
  lectern_index_options c = internal::ToC(options, none);
  internal::Callback<std::function<bool(const CollectionProgress&)>> index{on_progress,
                                                                           options.stop};
  const std::stop_callback cancel(options.stop, [this] { Cancel(); });
  auto numbers = internal::Sized<lectern_indexed_collection>();
  auto json = internal::TakeText([&](lectern_text** out, lectern_error** error) {
    return lectern_index_collection(handle_.get(), collection.data(), collection.size(), &c,
                                    internal::IndexFunction(index), &index, &numbers, out, error);
  });
  index.Rethrow();
  if (!json.ok()) return json.error();
  return IndexedCollection{numbers.indexed, numbers.existed, numbers.left, numbers.failures,
                           std::move(*json)};
}

// --- JSON ---------------------------------------------------------------------------------------

inline Result<std::string> ToJson(const Error& error) {
  return internal::TakeText([&](lectern_text** json, lectern_error** failed) {
    return lectern_error_json(error.code, error.message.data(), error.message.size(),
                              error.param.data(), error.param.size(), json, failed);
  });
}
inline Result<std::string> ToJson(const lectern_index_estimate& estimate) {
  return internal::TakeText([&](lectern_text** json, lectern_error** error) {
    return lectern_index_estimate_json(&estimate, json, error);
  });
}
inline Result<std::string> GetString(std::string_view json, std::string_view key) {
  return internal::TakeText([&](lectern_text** value, lectern_error** error) {
    return lectern_json_get_string(json.data(), json.size(), key.data(), key.size(), value, error);
  });
}
inline Result<std::string> SetString(std::string_view json, std::string_view key,
                                     std::string_view value) {
  return internal::TakeText([&](lectern_text** result, lectern_error** error) {
    return lectern_json_set_string(json.data(), json.size(), key.data(), key.size(), value.data(),
                                   value.size(), result, error);
  });
}

}  // namespace lectern::api

#endif  // LECTERN_ENGINE_LECTERN_INLINE_H_
