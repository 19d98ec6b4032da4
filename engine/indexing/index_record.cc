#include "engine/indexing/index_record.h"

#include <cstring>

#include "engine/document/page_map.h"
#include "engine/model/formats/json.h"
#include "engine/model/formats/text.h"
#include "engine/requests/report_json.h"
#include "index/kmeans.h"
#include "store/shard_reader.h"

namespace lectern {
namespace {

// Returns everything that must be equal for an interrupted run to go on: options that change
// clusters or statistics, FAISS's version, the device, and the date that the template's prefix
// says. Options that change keys are part of the document's id instead.
std::string OptionsSignature(const IndexOptions& options, const std::string& gpu,
                             const std::string& date) {
  Json::Object object = {{"levels", Json(int64_t{options.num_levels})},
                         {"seed", Json(options.seed)},
                         {"cluster_keys", Json(options.cluster_keys)},
                         {"stats", Json(options.stats)},
                         {"faiss", Json(FaissVersion())}};
  if (options.again) object["again"] = true;  // it must not go on from an older version's rows
  if (!gpu.empty()) object["gpu"] = Json(gpu);
  if (!date.empty()) object["date"] = Json(date);  // the rows before the document say it
  return Json(std::move(object)).Dump();
}

// Opens document.shard of a ready document and checks that it belongs to the row.
Result<std::unique_ptr<ShardReader>> OpenDocumentShard(const IndexContext& context,
                                                       const DocumentRow& row) {
  return ShardReader::Open(
      context.env, DocumentDirectory(context.store, row.id, row.generation) + "/" + kDocumentFile,
      {.kind = ShardKind::kDocument,
       .layer = 0,
       .document_id = row.id.data(),
       .fingerprint = row.fingerprint.data(),
       .generation = row.generation,
       .table_crc = std::nullopt},
      Io::kPread);
}

// Whether a document's stored text is this one. False also where it cannot be read.
bool HasText(const IndexContext& context, const DocumentRow& row, std::string_view text) {
  if (row.text_bytes != text.size()) return false;
  const auto shard = OpenDocumentShard(context, row);
  if (!shard.ok()) return false;
  const auto stored = shard.value()->Section(SectionKind::kText, 0, 0);
  return stored.ok() && stored->size() == text.size() &&
         std::memcmp(stored->data(), text.data(), text.size()) == 0;
}

// Returns the generations of runs that were begun with another text from the same source under the
// same name: this run replaces them. Without source and name nothing can be told, and none is
// returned.
std::vector<uint64_t> Abandoned(const std::vector<DocumentRow>& rows, const DocumentId& id,
                                const IndexOptions& options) {
  std::vector<uint64_t> abandoned;
  if (options.source.empty() && options.name.empty()) return abandoned;
  for (const DocumentRow& row : rows) {
    if (row.state != DocumentState::kBuilding || row.id == id) continue;
    const Result<Json> json = ParseJson(row.report_json);
    const auto is = [&](const char* key, const std::string& value) {
      const Json* const found = json.ok() ? json->Find(key) : nullptr;
      return found != nullptr && found->string() != nullptr && *found->string() == value;
    };
    if (is("name", options.name) && is("source", CleanUtf8(options.source).text)) {
      abandoned.push_back(row.generation);
    }
  }
  return abandoned;
}

}  // namespace

std::string BuildingReport(const IndexOptions& options, const Model& model,
                           const PreparedDocument& prepared, const std::string& device,
                           const std::string& gpu, const std::string& part_of) {
  Json::Object report = {{"name", Json(options.name)},
                         {"source", Json(options.source)},
                         {"weights", Json(WeightsName(model.weights().type()))},
                         {"options", Json(OptionsSignature(options, gpu, prepared.date))}};
  AddRetention(report, options.retention);
  AddPrefill(report, prepared.prefill_budget);
  AddDevice(report, device, gpu);
  if (!part_of.empty()) report["part_of"] = part_of;
  return Json(std::move(report)).Dump();
}

bool HasOptions(const DocumentRow& building, const IndexOptions& options, const std::string& gpu,
                const std::string& date) {
  const Result<Json> json = ParseJson(building.report_json);
  const Json* found = json.ok() ? json->Find("options") : nullptr;
  if (found == nullptr || found->string() == nullptr) return false;
  IndexOptions anew = options;
  anew.again = true;
  return *found->string() == OptionsSignature(options, gpu, date) ||
         *found->string() == OptionsSignature(anew, gpu, date);
}

void AddAssumptions(const Model& model, const PreparedDocument& prepared, IndexReport* report) {
  report->assumptions = model.assumptions();
  if (const uint64_t dropped = prepared.tokens.dropped_bytes; dropped > 0) {
    report->assumptions.push_back("the vocabulary has no piece for " + std::to_string(dropped) +
                                  " bytes of the text: the model does not see them");
  }
  for (const Message& sentence : report->assumptions) {
    report->note += (report->note.empty() ? "" : "; ") + sentence;
  }
}

IndexReport NewReport(const IndexContext& context, const PreparedDocument& prepared,
                      const IndexOptions& options, const NamePlan& names) {
  IndexReport report;
  report.document = ToHex(prepared.id);
  report.name = names.name;
  report.source = names.source;
  report.replaced_bytes = prepared.clean.replaced_bytes;
  report.fingerprint = ToHex(context.model.fingerprint());
  report.weights = WeightsName(context.model.weights().type());
  if (const Adapter* const adapter = context.model.adapter()) report.adapter = adapter->path();
  AddNames(names, options.keep_versions, &report);
  if (context.part_of.empty()) AddAssumptions(context.model, prepared, &report);
  report.retention = prepared.retention;
  report.prefill_budget = prepared.prefill_budget;
  return report;
}

void AddNames(const NamePlan& names, bool keeps, IndexReport* report) {
  const auto say = [&](const Message& sentence) {
    report->note += (report->note.empty() ? "" : "; ") + sentence;
  };
  if (!names.note.empty()) say(names.note);
  if (!names.before) return;
  report->replaced = ToHex(names.before->id);
  report->is_replaced_kept = names.change.replaced.empty();
  if (!report->is_replaced_kept) return;
  say("the version before stays, as document " + report->replaced +
      (keeps ? "" : ": it is of the same text, indexed with another model or other options"));
}

// The report of a document that was there already, from its row of the catalog.
IndexReport ExistingReport(const DocumentRow& row, const NamePlan& names,
                           const IndexOptions& options) {
  IndexReport report;
  AddNames(names, options.keep_versions, &report);
  report.source = names.source;
  report.existed = true;
  report.document = ToHex(row.id);
  report.name = names.name;
  report.tokens = row.num_tokens;
  report.replaced_bytes = row.replaced_bytes;
  report.bytes_on_disk = row.bytes_on_disk;
  report.fingerprint = ToHex(row.fingerprint);
  report.weights = WeightsOf(row);
  report.adapter = AdapterOf(row);
  report.generation = row.generation;
  report.retention = RetentionOf(row);
  report.prefill_budget = PrefillBudgetOf(row);
  report.device = DeviceOf(row);
  report.gpu = GpuOf(row);
  const Result<Json> json = ParseJson(row.report_json);
  report.parts = PartsOf(row);
  if (const Json* const bytes = json.ok() ? json->Find("bytes_on_disk") : nullptr;
      report.parts > 0 && bytes != nullptr) {
    report.bytes_on_disk = bytes->unsigned_integer().value_or(row.bytes_on_disk);  // of all parts
  }
  const Json* levels = json.ok() ? json->Find("levels") : nullptr;
  if (levels != nullptr && levels->array() != nullptr) {
    for (const Json& level : *levels->array()) {
      const Json* number = level.Find("level");
      const Json* centroids = level.Find("centroids");
      if (number == nullptr || centroids == nullptr) continue;
      report.levels.push_back({static_cast<uint32_t>(number->unsigned_integer().value_or(0)),
                               centroids->unsigned_integer().value_or(0)});
    }
  }
  return report;
}

Result<NamePlan> PlanNamesIn(const IndexContext& context, const Catalog& catalog,
                             const PreparedDocument& prepared, const IndexOptions& options) {
  LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog.List());
  NamePlan plan = PlanNames(
      rows, {.name = options.name, .source = options.source, .path = options.path}, prepared.id);
  const bool stays = options.keep_versions ||
                     (plan.before && HasText(context, *plan.before, prepared.clean.text));
  if (stays) plan.change.replaced.clear();
  plan.change.abandoned = Abandoned(rows, prepared.id, options);
  return plan;
}

Result<NamePlan> PlanNamesOf(const IndexContext& context, const PreparedDocument& prepared,
                             const IndexOptions& options) {
  LECTERN_ASSIGN(const auto catalog,
                 Catalog::Open(context.env, CatalogPath(context.store), Catalog::Mode::kReadOnly));
  return PlanNamesIn(context, *catalog, prepared, options);
}

Result<std::optional<DocumentRow>> FindReady(const IndexContext& context, const DocumentId& id) {
  const std::string path = CatalogPath(context.store);
  LECTERN_ASSIGN(const bool exists, context.env.Exists(path));
  if (!exists) return std::optional<DocumentRow>();
  auto catalog = Catalog::Open(context.env, path, Catalog::Mode::kReadOnly);
  // Empty: whoever made it was stopped before there was anything in it.
  if (catalog.status().code() == Code::kNotFound) return std::optional<DocumentRow>();
  LECTERN_RETURN_IF_ERROR(catalog.status());
  return catalog.value()->FindReady(id);
}

std::vector<PageMapEntry> StoredPages(const IndexContext& context, const DocumentRow& row) {
  const auto shard = OpenDocumentShard(context, row);
  if (!shard.ok()) return {};
  const auto pages = shard.value()->Array<PageMapEntry>(SectionKind::kPageMap, 0, 0);
  if (!pages.ok() || !IsPageMap(*pages, row.text_bytes)) return {};
  return {pages->begin(), pages->end()};
}

std::string StoredPageLabels(const IndexContext& context, const DocumentRow& row) {
  const auto shard = OpenDocumentShard(context, row);
  if (!shard.ok() || shard.value()->Find(SectionKind::kPageLabels, 0, 0) == nullptr) return "";
  const auto labels = shard.value()->Section(SectionKind::kPageLabels, 0, 0);
  if (!labels.ok()) return "";
  return {reinterpret_cast<const char*>(labels->data()), labels->size()};
}

bool HasPages(const IndexContext& context, const DocumentRow& row, const IndexOptions& options) {
  return options.pages.empty() || (StoredPages(context, row) == options.pages &&
                                   StoredPageLabels(context, row) == options.page_labels);
}

}  // namespace lectern
