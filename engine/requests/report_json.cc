#include "engine/requests/report_json.h"

#include <algorithm>
#include <string>

#include "engine/model/formats/json.h"
#include "engine/requests/collection_json.h"

namespace lectern {
namespace {

// Seconds and milliseconds.
Json Time(double value) { return Rounded(value, 3); }

Json Texts(const std::vector<Message>& messages) {
  Json::Array array;
  for (const Message& message : messages) array.emplace_back(message.text());
  return array;
}

Json Names(const std::vector<std::string>& names) {
  Json::Array array;
  for (const std::string& name : names) array.emplace_back(name);
  return array;
}

// A string of a document's report; empty: it has none.
std::string TextIn(const DocumentRow& row, std::string_view key) {
  const Result<Json> json = ParseJson(row.report_json);
  const Json* const text = json.ok() ? json->Find(key) : nullptr;
  return text != nullptr && text->string() != nullptr ? *text->string() : "";
}

Json KvValue(const KvReceipt& kv) {
  return Json::Object{
      {"budget", Share(kv.budget)},
      {"budget_auto", kv.is_auto},
      {"max_divergence", Rounded(kv.max_divergence, 6)},
      {"divergence", kv.divergence ? Rounded(*kv.divergence, 6) : Json()},
      {"rule", kv.rule},
      {"layer_budget", StringOrNull(kv.layer_budget)},
      {"head_budget", StringOrNull(kv.head_budget)},
      {"read_fraction_prefill", Share(kv.read_fraction_prefill)},
      {"read_fraction_decode", Share(kv.read_fraction_decode)},
      {"bytes_read", kv.bytes_read},
      {"window_bytes", kv.window_bytes},
      {"missed_mass_estimate", Share(kv.missed_mass_estimate)},
      {"missed_mass_bound", Share(kv.missed_mass_bound)},
      {"max_missed_by", kv.max_missed_by.empty() ? Json(nullptr) : Json(kv.max_missed_by)},
      {"fallback", kv.fallback},
      {"keep", Share(kv.keep)},
      {"retention", StringOrNull(kv.retention)},
      {"prefill", kv.prefill_budget < 1 ? "sparse" : "exact"},
      {"prefill_budget", kv.prefill_budget},
      {"session_rows", kv.session_rows},
  };
}

// Every name with its source.
Json NamesValue(const DocumentRow& row) {
  Json::Array names;
  for (const DocumentName& name : row.names) {
    names.emplace_back(
        Json::Object{{"name", name.name}, {"source", StringOrNull(name.source)}});
  }
  return names;
}

Json::Object DocumentObject(const DocumentRow& row) {
  Json::Object object = {
      {"document", ToHex(row.id)},
      {"name", StringOrNull(row.name)},
      {"names", NamesValue(row)},
      {"source", StringOrNull(SourceOf(row))},
      {"state", StateName(row.state)},
      {"generation", row.generation},
      {"tokens", row.num_tokens},
      {"parts", PartsOf(row)},
      {"text_bytes", row.text_bytes},
      {"replaced_bytes", row.replaced_bytes},
      {"bytes_on_disk", row.bytes_on_disk},
      {"fingerprint", ToHex(row.fingerprint)},
      {"model", StringOrNull(row.model_path)},
      {"weights", StringOrNull(WeightsOf(row))},
      {"adapter", StringOrNull(AdapterOf(row))},
  };
  AddRetention(object, RetentionOf(row));
  AddPrefill(object, PrefillBudgetOf(row));
  return object;
}

bool IsRetryable(Code code) {
  return code == Code::kLocked || code == Code::kNotReady || code == Code::kOutOfMemory;
}

}  // namespace

uint64_t PartsOf(const DocumentRow& row) {
  const Result<Json> json = ParseJson(row.report_json);
  const Json* const parts = json.ok() ? json->Find("parts") : nullptr;
  return parts != nullptr ? parts->unsigned_integer().value_or(0) : 0;
}

std::string SourceOf(const DocumentRow& row) {
  const auto named = std::ranges::find(row.names, row.name, &DocumentName::name);
  return named == row.names.end() ? "" : named->source;
}

std::string_view StateName(DocumentState state) {
  switch (state) {
    case DocumentState::kBuilding:
      return "building";
    case DocumentState::kReady:
      return "ready";
    case DocumentState::kDead:
      return "dead";
  }
  return "dead";
}

void AddRetention(Json::Object& object, const Retention& retention) {
  const bool all = retention.keeps_all();
  object["keep"] = all ? Json(1.0) : Json(retention.keep);
  object["retention"] = all ? Json() : Json(retention.method);
  object["representatives"] = all ? Json(0.0) : Json(MethodOf(retention).crush.share);
}

void AddPrefill(Json::Object& object, double prefill_budget) {
  object["prefill"] = prefill_budget < 1 ? "sparse" : "exact";
  object["prefill_budget"] = prefill_budget;
}

void AddDevice(Json::Object& object, const std::string& device, const std::string& gpu) {
  object["device"] = device;
  object["gpu"] = StringOrNull(gpu);
}

std::string DeviceOf(const DocumentRow& row) {
  const std::string device = TextIn(row, "device");
  return device.empty() ? "cpu" : device;
}

std::string GpuOf(const DocumentRow& row) { return TextIn(row, "gpu"); }

std::optional<double> ReadPrefillBudget(const Json& json) {
  const Json* const budget = json.Find("prefill_budget");
  if (budget == nullptr) return 1;
  const double share = budget->number().value_or(0);
  if (!(share > 0 && share <= 1)) return std::nullopt;
  return share;
}

double PrefillBudgetOf(const DocumentRow& row) {
  const Result<Json> json = ParseJson(row.report_json);
  return json.ok() ? ReadPrefillBudget(*json).value_or(1) : 1;
}

Result<Retention> ReadRetention(const Json& json) {
  Retention retention;
  if (const Json* const keep = json.Find("keep")) retention.keep = keep->number().value_or(-1);
  if (const Json* const method = json.Find("retention"); method && method->string()) {
    retention.method = *method->string();
  }
  if (const Json* const share = json.Find("representatives")) {
    retention.representatives = share->number().value_or(-1);
  }
  LECTERN_RETURN_IF_ERROR(CheckRetention(retention));
  return retention;
}

Retention RetentionOf(const DocumentRow& row) {
  const Result<Json> json = ParseJson(row.report_json);
  if (!json.ok()) return {};
  const Result<Retention> retention = ReadRetention(*json);
  return retention.ok() ? *retention : Retention();
}

std::string WeightsOf(const DocumentRow& row) {
  const Result<Json> json = ParseJson(row.report_json);
  if (!json.ok()) return "";
  const Json* const weights = json->Find("weights");
  return weights != nullptr && weights->string() != nullptr ? *weights->string() : "stored";
}

std::string AdapterOf(const DocumentRow& row) {
  const Result<Json> json = ParseJson(row.report_json);
  const Json* const adapter = json.ok() ? json->Find("adapter") : nullptr;
  return adapter != nullptr && adapter->string() != nullptr ? *adapter->string() : "";
}

namespace {

// {"count","asked":[{"part" (from 1),"begin","end","probability","answer","support","logprob",
// "chosen"}]}; null for a document that is not in parts.
Json PartsValue(const Answer& answer, const Offsets& offsets) {
  if (answer.num_parts == 0) return nullptr;
  Json::Array asked;
  for (const AskedPart& part : answer.parts) {
    Json::Object object = *offsets.Range(part.begin, part.end).object();
    object["part"] = uint64_t{part.number} + 1;
    object["probability"] = Rounded(part.probability, 4);
    object["answer"] = part.answer;
    object["support"] = Rounded(part.support, 4);
    object["logprob"] = Rounded(part.logprob, 4);
    object["chosen"] = part.is_chosen;
    asked.emplace_back(std::move(object));
  }
  return Json::Object{{"count", answer.num_parts}, {"asked", std::move(asked)}};
}

}  // namespace

std::string AnswerJson(const Answer& answer, OffsetUnit unit, std::string_view text) {
  OffsetsOfTexts texts(unit, text, answer.texts);
  Json::Array evidence;
  for (const Evidence& item : answer.evidence) {
    evidence.emplace_back(EvidenceObject(item, texts.Of(item.document)));
  }
  // In a collection attention and parts are those of the document whose answer was chosen.
  const auto chosen = std::ranges::find_if(answer.documents, [&](const AskedDocument& one) {
    return one.is_chosen && one.document == answer.document;
  });
  const Offsets& offsets =
      texts.Of(chosen == answer.documents.end() ? std::string_view() : chosen->name);
  Json::Array attention;
  for (const AttendedPassage& passage : answer.attention) {
    Json::Object object = *offsets.Range(passage.begin, passage.end).object();
    object["mass"] = Share(passage.mass);
    attention.emplace_back(std::move(object));
  }
  const auto& ms = answer.timings_ms;
  return Json(Json::Object{
                  {"answer", answer.text},
                  {"parts", PartsValue(answer, offsets)},
                  {"collection", AskedCollectionValue(answer)},
                  {"reasoning", StringOrNull(answer.reasoning)},
                  {"document", StringOrNull(answer.document)},
                  {"finish_reason", answer.finish_reason},
                  {"stopped_by", answer.stopped_by},
                  {"refusal_probability", Share(answer.refusal_probability)},
                  {"refused_by_probability", answer.is_refused},
                  {"tokens", Json::Object{{"document", answer.document_tokens},
                                          {"question", answer.question_tokens},
                                          {"answer", answer.answer_tokens},
                                          {"reasoning", answer.reasoning_tokens},
                                          {"forced", answer.forced_tokens},
                                          {"proposed", answer.proposed_tokens},
                                          {"accepted", answer.accepted_tokens}}},
                  {"timings_ms", Json::Object{{"open", Time(ms.open)},
                                              {"prefill", Time(ms.prefill)},
                                              {"first_token", Time(ms.first_token)},
                                              {"per_token", Time(ms.per_token)},
                                              {"total", Time(ms.total)}}},
                  {"kv", KvValue(answer.kv)},
                  {"evidence", std::move(evidence)},
                  {"attention", std::move(attention)},
                  {"warnings", Names(answer.warnings)},
                  {"note", StringOrNull(answer.note.text())},
                  {"offset_unit", offsets.unit_name()},
              })
      .Dump();
}

std::string CitedTextJson(const CitedText& cited, OffsetUnit unit, std::string_view given) {
  const Offsets offsets(unit, cited.document_text), given_offsets(unit, given);
  Json::Array sentences;
  for (const CitedSentence& sentence : cited.sentences) {
    Json::Array evidence;
    for (const Evidence& item : sentence.evidence) {
      Json::Object object = EvidenceObject(item, offsets);
      object.erase("mass");      // there is no attention without a model
      object.erase("document");  // it is the one that was asked
      evidence.emplace_back(std::move(object));
    }
    sentences.emplace_back(Json::Object{
        {"begin", given_offsets(sentence.begin)},
        {"end", given_offsets(sentence.end)},
        {"text", std::string(given.substr(sentence.begin, sentence.end - sentence.begin))},
        {"supported", sentence.IsSupported()},
        {"evidence", std::move(evidence)},
    });
  }
  return Json(Json::Object{{"document", cited.document},
                           {"sentences", std::move(sentences)},
                           {"offset_unit", offsets.unit_name()}})
      .Dump();
}

std::string IndexReportJson(const IndexReport& report) {
  Json::Array levels;
  for (const LevelReport& level : report.levels) {
    levels.emplace_back(
        Json::Object{{"level", uint64_t{level.level}}, {"centroids", level.centroids}});
  }
  const auto& seconds = report.seconds;
  Json::Object object = {
      {"document", report.document},
      {"name", StringOrNull(report.name)},
      {"tokens", report.tokens},
      {"parts", report.parts},
      {"replaced_bytes", report.replaced_bytes},
      {"bytes_on_disk", report.bytes_on_disk},
      {"fingerprint", report.fingerprint},
      {"weights", report.weights},
      {"adapter", StringOrNull(report.adapter)},
      {"generation", report.generation},
      {"levels", std::move(levels)},
      {"kv_budget", report.kv_budget > 0 ? Rounded(report.kv_budget, 6) : Json()},
      {"kv_budget_auto", report.is_budget_auto},
      {"divergence", report.divergence ? Rounded(*report.divergence, 6) : Json()},
      {"seconds", Json::Object{{"read", Time(seconds.read)},
                               {"prefill", Time(seconds.prefill)},
                               {"cluster", Time(seconds.cluster)},
                               {"calibrate", Time(seconds.calibrate)},
                               {"write", Time(seconds.write)},
                               {"total", Time(seconds.total)}}},
      {"existed", report.existed},
      {"source", StringOrNull(report.source)},
      {"replaced", StringOrNull(report.replaced)},
      {"reused_tokens", report.reused_tokens},
      {"warnings", Names(report.warnings)},
      {"note", StringOrNull(report.note.text())},
      {"assumptions", Texts(report.assumptions)},
  };
  AddDevice(object, report.device, report.gpu);
  AddRetention(object, report.retention);
  AddPrefill(object, report.prefill_budget);
  return Json(std::move(object)).Dump();
}

std::string IndexEstimateJson(const IndexEstimate& estimate) {
  return Json(Json::Object{
                  {"tokens", estimate.tokens},
                  {"bytes_on_disk", estimate.bytes_on_disk},
                  {"peak_bytes_on_disk", estimate.peak_bytes_on_disk},
                  {"free_bytes", estimate.free_bytes},
                  {"anonymous_bytes", estimate.anonymous_bytes},
                  {"flops", Rounded(estimate.flops, 0)},
                  {"seconds", Time(estimate.seconds)},
                  {"existed", estimate.existed},
              })
      .Dump();
}

std::string DocumentJson(const DocumentRow& row) { return Json(DocumentObject(row)).Dump(); }

std::string DocumentsJson(const std::vector<DocumentRow>& rows) {
  Json::Array documents;
  for (const DocumentRow& row : rows) documents.emplace_back(DocumentObject(row));
  return Json(Json::Object{{"documents", std::move(documents)}}).Dump();
}

// {"layer_budget","head_budget","kv_budget","kv_budget_auto","max_divergence","divergence","stats",
// "layers":[{"share","heads","cosine","competed"}]}: null where there is none; a plan that cannot be
// told is null as a whole.
Json PlanJson(const Result<DocumentPlan>& plan) {
  if (!plan.ok()) return nullptr;
  const size_t heads = plan->heads.size() / plan->layers.size();
  Json::Array layers;
  for (size_t i = 0; i < plan->layers.size(); ++i) {
    Json::Array of_heads;
    for (size_t h = i * heads; h < (i + 1) * heads; ++h) {
      of_heads.emplace_back(Rounded(plan->heads[h], 6));
    }
    const auto entry = [i](const std::vector<double>& all) {
      return all.empty() ? Json() : Rounded(all[i], 6);
    };
    layers.emplace_back(Json::Object{{"share", entry(plan->layers)},
                                     {"heads", heads == 0 ? Json() : Json(std::move(of_heads))},
                                     {"cosine", entry(plan->cosine)},
                                     {"competed", entry(plan->competed)}});
  }
  return Json::Object{{"layer_budget", plan->layer_budget},
                      {"head_budget", plan->head_budget},
                      {"kv_budget", Rounded(plan->kv_budget, 6)},
                      {"kv_budget_auto", plan->is_auto},
                      {"max_divergence", Rounded(plan->max_divergence, 6)},
                      {"divergence", plan->divergence ? Rounded(*plan->divergence, 6) : Json()},
                      {"stats", StringOrNull(plan->stats)},
                      {"layers", std::move(layers)}};
}

std::string DocumentDetailsJson(const DocumentRow& row, const std::vector<ShardSummary>& shards,
                                const Result<DocumentPlan>& plan) {
  Json::Object document = DocumentObject(row);
  if (Result<Json> report = ParseJson(row.report_json); report.ok()) {
    document.emplace("report", *std::move(report));
  } else {
    document.emplace("report", nullptr);
  }
  Json::Array files;
  for (const ShardSummary& shard : shards) {
    files.emplace_back(Json::Object{{"file", shard.file}, {"bytes", shard.bytes}});
  }
  document.emplace("shards", std::move(files));
  document.emplace("plan", PlanJson(plan));
  return Json(std::move(document)).Dump();
}

std::string DamageJson(const std::vector<Damage>& damaged) {
  Json::Array items;
  for (const Damage& damage : damaged) {
    items.emplace_back(Json::Object{{"document", StringOrNull(damage.document)},
                                    {"name", StringOrNull(damage.name)},
                                    {"collection", StringOrNull(damage.collection)},
                                    {"code", CodeName(damage.status.code())},
                                    {"message", damage.status.message()}});
  }
  return Json(Json::Object{{"damaged", std::move(items)}}).Dump();
}

std::string CollectedJson(const Collected& collected) {
  Json::Array unknown;
  for (const std::string& directory : collected.unknown) unknown.emplace_back(directory);
  return Json(Json::Object{{"generations", collected.generations},
                           {"files", collected.files},
                           {"in_use", collected.in_use},
                           {"unknown", std::move(unknown)}})
      .Dump();
}

std::string RemovedJson(const Removed& removed) {
  return Json(Json::Object{{"removed", removed.document},
                           {"names", Names(removed.names)},
                           {"document_gone", removed.is_document_gone},
                           {"left", Names(removed.left)}})
      .Dump();
}

std::string RecoveredJson(const Recovered& recovered) {
  Json::Array documents, refused;
  for (const DocumentRow& row : recovered.documents) documents.emplace_back(DocumentObject(row));
  for (const Recovered::Refused& one : recovered.refused) {
    refused.emplace_back(Json::Object{{"directory", one.directory},
                                      {"code", CodeName(one.status.code())},
                                      {"message", one.status.message()}});
  }
  return Json(Json::Object{{"documents", std::move(documents)},
                           {"refused", std::move(refused)},
                           {"replaced", recovered.replaced}})
      .Dump();
}

std::string ImportedJson(const Imported& imported) {
  return Json(Json::Object{{"document", ToHex(imported.row.id)},
                           {"name", StringOrNull(imported.row.name)},
                           {"existed", imported.existed},
                           {"note", StringOrNull(imported.note)}})
      .Dump();
}

// Writes an error in the shape of OpenAI's API, with two members more: request_id and retryable.
std::string ErrorJson(const Status& status, std::string_view request_id) {
  const bool is_callers = HttpStatus(status.code()) < 500;
  return Json(Json::Object{
                  {"error",
                   Json::Object{
                       {"message", status.message()},
                       {"type", is_callers ? "invalid_request_error" : "server_error"},
                       {"param", StringOrNull(status.param())},
                       {"code", CodeName(status.code())},
                       {"request_id", StringOrNull(request_id)},
                       {"retryable", IsRetryable(status.code())},
                   }},
              })
      .Dump();
}

std::string_view StageName(IndexProgress::Stage stage) {
  switch (stage) {
    case IndexProgress::Stage::kRead:
      return "read";
    case IndexProgress::Stage::kPrefill:
      return "prefill";
    case IndexProgress::Stage::kCluster:
      return "cluster";
    case IndexProgress::Stage::kCalibrate:
      return "calibrate";
    case IndexProgress::Stage::kWrite:
      return "write";
  }
  return "";
}

std::string_view DtypeName(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "f32";
    case Dtype::kF16:
      return "f16";
    case Dtype::kBf16:
      return "bf16";
    case Dtype::kQ8:
      return "q8";
  }
  return "";
}

}  // namespace lectern
