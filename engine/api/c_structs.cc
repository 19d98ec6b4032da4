#include "engine/api/c_structs.h"

#include <span>

#include "engine/api/handles.h"
#include "engine/requests/options.h"

namespace lectern::c_api {
namespace {

// Copies the list of pages. The C struct has 64 bits for a page, the engine 32; whether pages
// ascend is checked where they are used (PrepareDocument).
Result<std::vector<PageMapEntry>> ReadPages(const lectern_page* pages, size_t num_pages) {
  if (num_pages > 0 && !pages) return InvalidArgument("pages", "pages is NULL");
  std::vector<PageMapEntry> read;
  for (size_t i = 0; i < num_pages; ++i) {
    if (pages[i].page > UINT32_MAX) return InvalidArgument("pages", "a page is beyond 2^32 - 1");
    read.push_back({pages[i].text_begin, static_cast<uint32_t>(pages[i].page), 0});
  }
  return read;
}

// Copies the turns that come before a question, and the instructions.
Result<ChatHistory> ReadHistory(const lectern_ask_options& read) {
  if (read.num_turns > 0 && !read.turns) return InvalidArgument("turns", "turns is NULL");
  ChatHistory history;
  LECTERN_ASSIGN(history.instructions,
                 Copy(read.instructions, read.instructions_len, "instructions"));
  for (size_t i = 0; i < read.num_turns; ++i) {
    const lectern_turn& turn = read.turns[i];
    LECTERN_ASSIGN(std::string question, Copy(turn.question, turn.question_len, "turns"));
    LECTERN_ASSIGN(std::string answer, Copy(turn.answer, turn.answer_len, "turns"));
    history.turns.push_back({std::move(question), std::move(answer)});
  }
  return history;
}

// Lists have no row in the table of options: they are copied by hand, here and below.
Result<std::vector<std::pair<int32_t, float>>> ReadLogitBias(const lectern_ask_options& read) {
  if (read.num_logit_bias > 0 && !read.logit_bias) {
    return InvalidArgument("logit_bias", "logit_bias is NULL");
  }
  std::vector<std::pair<int32_t, float>> biases;
  for (size_t i = 0; i < read.num_logit_bias; ++i) {
    biases.emplace_back(read.logit_bias[i].id, read.logit_bias[i].bias);
  }
  return biases;
}

// Empty texts are refused later, with the options' other rules.
Result<std::vector<std::string>> ReadStopTexts(const lectern_ask_options& read) {
  if (read.num_stop_texts > 0 && !read.stop_texts) {
    return InvalidArgument("stop_texts", "stop_texts is NULL");
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < read.num_stop_texts; ++i) {
    const lectern_string& stop = read.stop_texts[i];
    LECTERN_ASSIGN(std::string text, Copy(stop.text, stop.text_len, "stop_texts"));
    texts.push_back(std::move(text));
  }
  return texts;
}

// The second field is reserved and 0.
lectern_likely_token ToC(const LikelyToken& token) {
  return {token.id, 0, token.logprob, token.bytes.data(), token.bytes.size()};
}

// Hands one token of an answer to the program, with the likeliest tokens in its place.
void ReportToken(const lectern_ask_options& read, const SampledToken& token) {
  std::vector<lectern_likely_token> likeliest;
  for (const LikelyToken& likely : token.likeliest) likeliest.push_back(ToC(likely));
  const lectern_sampled_token item = {sizeof(lectern_sampled_token),
                                      ToC(static_cast<const LikelyToken&>(token)), likeliest.data(),
                                      likeliest.size()};
  read.on_token(&item, read.token_user);
}

// The progress of indexing. Names of stages are literals with a 0 behind them.
lectern_progress ToC(const IndexProgress& progress) {
  return {sizeof(lectern_progress), StageName(progress.stage).data(), progress.done,
          progress.total,           progress.tokens_per_second,       progress.eta_seconds};
}

// Hands it to the program. False: the program returned something other than 0, which ends the
// indexing.
bool ReportProgress(const lectern_index_options& read, const IndexProgress& progress) {
  const lectern_progress event = ToC(progress);
  return read.on_progress(&event, read.progress_user) == 0;
}

// Wraps the program's function for pieces of text. A piece is copied to have a NUL behind it, as
// lectern_c.h promises. The result is empty where the program gives no function, so that the engine
// does not make the pieces at all.
std::function<bool(std::string_view)> TextFunction(lectern_answer_fn on_text, void* user) {
  if (!on_text) return nullptr;
  return [on_text, user](std::string_view piece) {
    const std::string text(piece);
    return on_text(text.c_str(), text.size(), user) == 0;
  };
}

}  // namespace

Result<EngineOptions> ReadEngineOptions(const lectern_engine_options* given) {
  LECTERN_ASSIGN(const lectern_engine_options read, ReadStruct(given));
  EngineOptions options;
  LECTERN_RETURN_IF_ERROR(ReadOptions(EngineOptionRows(), read, options));
  return options;
}

// The lambda keeps a copy of the C struct: the caller's may be gone, its user pointer is passed on.
Result<IndexOptions> ReadIndexOptions(const lectern_index_options* given) {
  LECTERN_ASSIGN(const lectern_index_options read, ReadStruct(given));
  IndexOptions options;
  LECTERN_RETURN_IF_ERROR(ReadOptions(IndexOptionRows(), read, options));
  LECTERN_ASSIGN(options.pages, ReadPages(read.pages, read.num_pages));
  LECTERN_ASSIGN(options.page_labels, Copy(read.page_labels, read.page_labels_len, "page_labels"));
  if (read.on_progress) {
    options.on_progress = [read](const IndexProgress& progress) {
      return ReportProgress(read, progress);
    };
  }
  return options;
}

Result<std::vector<CollectionText>> ReadCollectionTexts(const lectern_text_to_add* texts,
                                                        size_t num_texts) {
  if (num_texts > 0 && !texts) return InvalidArgument("texts", "texts is NULL");
  std::vector<CollectionText> all;
  for (const lectern_text_to_add& given : std::span(texts, num_texts)) {
    CollectionText& text = all.emplace_back();
    LECTERN_ASSIGN(text.name, Copy(given.name, given.name_len, "name"));
    LECTERN_ASSIGN(text.source, Copy(given.source, given.source_len, "source"));
    LECTERN_ASSIGN(text.path, Copy(given.path, given.path_len, "path"));
    LECTERN_ASSIGN(text.bytes, Copy(given.bytes, given.bytes_len, "bytes"));
    LECTERN_ASSIGN(text.pages, ReadPages(given.pages, given.num_pages));
    LECTERN_ASSIGN(text.page_labels, Copy(given.page_labels, given.page_labels_len, "page_labels"));
  }
  return all;
}

Result<CiteRequest> ReadCiteOptions(const lectern_cite_options* given) {
  LECTERN_ASSIGN(const lectern_cite_options read, ReadStruct(given));
  CiteRequest request;
  LECTERN_RETURN_IF_ERROR(ReadOptions(CiteOptionRows(), read, request));
  return request;
}

Result<PlanChange> ReadPlanOptions(const lectern_plan_options* given) {
  LECTERN_ASSIGN(const lectern_plan_options read, ReadStruct(given));
  PlanChange change;
  LECTERN_RETURN_IF_ERROR(ReadOptions(PlanOptionRows(), read, change));
  return change;
}

Result<AskOptions> ReadAskOptions(const lectern_ask_options* given) {
  LECTERN_ASSIGN(const lectern_ask_options read, ReadStruct(given));
  AskOptions options;
  LECTERN_RETURN_IF_ERROR(ReadOptions(AskOptionRows(), read, options));
  LECTERN_ASSIGN(options.sampling.logit_bias, ReadLogitBias(read));
  LECTERN_ASSIGN(options.stop_texts, ReadStopTexts(read));
  LECTERN_ASSIGN(options.history, ReadHistory(read));
  options.on_text = TextFunction(read.on_text, read.text_user);
  options.on_reasoning = TextFunction(read.on_reasoning, read.reasoning_user);
  if (read.on_token) {
    options.on_token = [read](const SampledToken& token) { ReportToken(read, token); };
  }
  if (read.on_warning) {
    options.on_warning = [read](std::string_view name, const Message& note) {
      read.on_warning(std::string(name).c_str(), note.cli_text().c_str(), read.warning_user);
    };
  }
  if (read.on_index) {
    options.on_index = [read](std::string_view document, const IndexProgress& progress) {
      return CallBack(document, 0, 0, progress, read.on_index, read.index_user);
    };
  }
  if (read.on_part) {
    options.on_part = [read](uint64_t done, uint64_t count) {
      return read.on_part(done, count, read.part_user) == 0;
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

lectern_counts ToC(const Engine::Counts& counts) {
  return {sizeof(lectern_counts), counts.step_passes, counts.step_tokens};
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
          report.reused_tokens,
          report.kv_budget,
          report.divergence.value_or(-1),
          report.parts};
}

lectern_collected ToC(const Collected& collected) {
  return {sizeof(lectern_collected), collected.generations, collected.files, collected.in_use,
          collected.unknown.size()};
}

lectern_removed ToC(const Removed& removed) {
  return {sizeof(lectern_removed), removed.names.size(), removed.is_document_gone,
          removed.left.size()};
}

lectern_evidence ToC(const Evidence& evidence) {
  return {sizeof(lectern_evidence),
          evidence.begin,
          evidence.end,
          evidence.text.c_str(),
          evidence.text.size(),
          evidence.mass,
          evidence.page.value_or(0),
          evidence.heading.c_str(),
          evidence.heading.size(),
          evidence.page_end.value_or(0),
          evidence.score,
          evidence.highlights.data(),
          evidence.highlights.size(),
          evidence.places.data(),
          evidence.places.size(),
          evidence.page_label.c_str(),
          evidence.page_label.size(),
          evidence.page_end_label.c_str(),
          evidence.page_end_label.size(),
          evidence.document.c_str(),
          evidence.document.size()};
}

lectern_asked_document ToC(const AskedDocument& asked) {
  return {sizeof(lectern_asked_document),
          asked.name.c_str(),
          asked.name.size(),
          asked.source.c_str(),
          asked.source.size(),
          asked.document.c_str(),
          asked.document.size(),
          asked.probability,
          asked.answer.c_str(),
          asked.answer.size(),
          asked.support,
          asked.logprob,
          asked.is_chosen,
          asked.is_new,
          asked.num_passages};
}

lectern_indexed_collection ToC(const IndexedCollection& indexed) {
  return {sizeof(lectern_indexed_collection), indexed.indexed, indexed.existed, indexed.left,
          indexed.failures};
}

// struct_size stays 0 here: WriteStruct sets the caller's. The C struct has no empty numbers; -1
// means that a share was not measured.
lectern_receipt ReceiptOf(const Answer& answer) {
  lectern_receipt receipt{};
  receipt.document_tokens = answer.document_tokens;
  receipt.question_tokens = answer.question_tokens;
  receipt.answer_tokens = answer.answer_tokens;
  receipt.kv_budget = answer.kv.budget;
  receipt.read_fraction_prefill = answer.kv.read_fraction_prefill;
  receipt.read_fraction_decode = answer.kv.read_fraction_decode.value_or(-1);
  receipt.bytes_read = answer.kv.bytes_read;
  receipt.missed_mass_estimate = answer.kv.missed_mass_estimate.value_or(-1);
  receipt.open_ms = answer.timings_ms.open;
  receipt.prefill_ms = answer.timings_ms.prefill;
  receipt.first_token_ms = answer.timings_ms.first_token;
  receipt.per_token_ms = answer.timings_ms.per_token;
  receipt.total_ms = answer.timings_ms.total;
  receipt.fallback = answer.kv.fallback;
  receipt.missed_mass_bound = answer.kv.missed_mass_bound.value_or(-1);
  // 0: no limit was asked for; 1: kept by proof; 2: kept by estimate (lectern_c.h).
  receipt.max_missed_by = answer.kv.max_missed_by.empty()      ? 0
                          : answer.kv.max_missed_by == "bound" ? 1
                                                               : 2;
  receipt.keep = answer.kv.keep;
  receipt.session_rows = answer.kv.session_rows;
  receipt.prefill_budget = answer.kv.prefill_budget;
  receipt.reasoning_tokens = answer.reasoning_tokens;
  receipt.is_auto = answer.kv.is_auto;
  receipt.max_divergence = answer.kv.max_divergence;
  receipt.divergence = answer.kv.divergence.value_or(-1);
  receipt.num_parts = answer.num_parts;
  receipt.num_asked_parts = answer.parts.size();
  receipt.num_documents = answer.num_documents;
  receipt.num_asked_documents = answer.documents.size();
  receipt.refusal_probability = answer.refusal_probability.value_or(-1);
  receipt.is_refused = answer.is_refused;
  receipt.forced_tokens = answer.forced_tokens;
  receipt.proposed_tokens = answer.proposed_tokens;
  receipt.accepted_tokens = answer.accepted_tokens;
  return receipt;
}

void CallBack(const CitedSentence& sentence, lectern_citation_fn on_citation, void* user) {
  if (!on_citation) return;
  lectern_citation item = {sizeof(lectern_citation), sentence.begin, sentence.end,
                           sentence.IsSupported(), nullptr};
  if (sentence.evidence.empty()) on_citation(&item, user);
  for (const Evidence& one : sentence.evidence) {
    const lectern_evidence evidence = ToC(one);
    item.evidence = &evidence;
    on_citation(&item, user);
  }
}
void CallBack(const DocumentRow& row, lectern_document_fn on_document, void* user) {
  if (!on_document) return;
  // Every text of the struct needs an owner that lives during the call.
  const std::string id = ToHex(row.id), state(StateName(row.state)),
                    fingerprint = ToHex(row.fingerprint);
  const Retention retention = RetentionOf(row);
  const std::string method = retention.keeps_all() ? "" : retention.method;
  const std::string weights = WeightsOf(row), source = SourceOf(row), adapter = AdapterOf(row);
  std::vector<lectern_name> names;
  for (const DocumentName& name : row.names) {
    names.push_back(
        {name.name.c_str(), name.name.size(), name.source.c_str(), name.source.size()});
  }
  const lectern_document document = {sizeof(lectern_document),
                                     id.c_str(),
                                     id.size(),
                                     row.name.c_str(),
                                     row.name.size(),
                                     state.c_str(),
                                     state.size(),
                                     row.model_path.c_str(),
                                     row.model_path.size(),
                                     fingerprint.c_str(),
                                     fingerprint.size(),
                                     row.generation,
                                     row.num_tokens,
                                     row.text_bytes,
                                     row.bytes_on_disk,
                                     retention.keep,
                                     method.c_str(),
                                     method.size(),
                                     weights.c_str(),
                                     weights.size(),
                                     PrefillBudgetOf(row),
                                     source.c_str(),
                                     source.size(),
                                     names.data(),
                                     names.size(),
                                     adapter.c_str(),
                                     adapter.size(),
                                     PartsOf(row)};
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

// Hands a plan to the caller's function; the views are valid during the call.
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
                                      plan.heads.size() / plan.layers.size(),  // kv heads
                                      array(plan.layers),
                                      array(plan.heads),
                                      array(plan.cosine),
                                      array(plan.competed),
                                      plan.is_auto,
                                      plan.max_divergence,
                                      plan.divergence.value_or(-1)};
  on_plan(&item, user);
}

void CallBack(const Damage& damage, lectern_damage_fn on_damage, void* user) {
  if (!on_damage) return;
  const std::string& message = damage.status.message();
  const lectern_damage item = {
      sizeof(lectern_damage),    damage.document.c_str(),
      damage.document.size(),    damage.name.c_str(),
      damage.name.size(),        static_cast<lectern_code>(damage.status.code()),
      message.c_str(),           message.size(),
      damage.collection.c_str(), damage.collection.size()};
  on_damage(&item, user);
}

void CallBack(const CollectionSummary& collection, lectern_collection_fn on_collection,
              void* user) {
  if (!on_collection) return;
  const lectern_collection item = {sizeof(lectern_collection), collection.name.c_str(),
                                   collection.name.size(),     collection.num_documents,
                                   collection.num_indexed,     collection.text_bytes,
                                   collection.bytes_on_disk};
  on_collection(&item, user);
}

void CallBack(const CollectionDocument& document, lectern_collection_document_fn on_document,
              void* user) {
  if (!on_document) return;
  const lectern_collection_document item = {sizeof(lectern_collection_document),
                                            document.name.c_str(),
                                            document.name.size(),
                                            document.source.c_str(),
                                            document.source.size(),
                                            document.document.c_str(),
                                            document.document.size(),
                                            document.text_bytes};
  on_document(&item, user);
}

void CallBack(const AddedToCollection& added, lectern_added_fn on_added, void* user) {
  if (!on_added) return;
  const lectern_added item = {sizeof(lectern_added), added.name.c_str(), added.name.size(),
                              static_cast<lectern_change>(added.change), 0};
  on_added(&item, user);
}

void CallBack(const Mentions::One& mention, lectern_mention_fn on_mention, void* user) {
  if (!on_mention) return;
  const lectern_evidence passage = ToC(mention.passage);
  const lectern_mention item = {
      sizeof(lectern_mention), mention.name.c_str(),  mention.name.size(),
      mention.source.c_str(),  mention.source.size(), mention.document.c_str(),
      mention.document.size(), mention.num_passages,  &passage};
  on_mention(&item, user);
}

bool CallBack(std::string_view document, uint64_t number, uint64_t count,
              const IndexProgress& progress, lectern_collection_progress_fn on_progress,
              void* user) {
  if (!on_progress) return true;
  const std::string name(document);  // with a 0 behind it
  const lectern_progress of_document = ToC(progress);
  const lectern_collection_progress item = {
      sizeof(lectern_collection_progress), name.c_str(), name.size(), number, count, &of_document};
  return on_progress(&item, user) == 0;
}

Result<Json> ParseObject(std::string_view json) {
  Result<Json> parsed = ParseJson(json);
  if (!parsed.ok()) return InvalidArgument("", parsed.status().message());
  if (!parsed->object()) return InvalidArgument("", "not a JSON object");
  return parsed;
}

}  // namespace lectern::c_api
