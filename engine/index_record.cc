#include "engine/index_record.h"

#include "engine/json.h"
#include "engine/page_map.h"
#include "engine/report_json.h"
#include "index/kmeans.h"
#include "store/shard_reader.h"

namespace lectern {
namespace {

// What must be equal for an interrupted run to go on.
std::string OptionsSignature(const IndexOptions& options, const std::string& gpu,
                             const std::string& date) {
  Json::Object object = {{"levels", Json(int64_t{options.num_levels})},
                         {"seed", Json(options.seed)},
                         {"cluster_keys", Json(options.cluster_keys)},
                         {"stats", Json(options.stats)},
                         {"faiss", Json(FaissVersion())}};
  if (!gpu.empty()) object["gpu"] = Json(gpu);
  if (!date.empty()) object["date"] = Json(date);  // the rows before the document say it
  return Json(std::move(object)).Dump();
}

}  // namespace

std::string BuildingReport(const IndexOptions& options, const Model& model,
                           const PreparedDocument& prepared, const std::string& device,
                           const std::string& gpu) {
  Json::Object report = {{"name", Json(options.name)},
                         {"weights", Json(WeightsName(model.weights().type()))},
                         {"options", Json(OptionsSignature(options, gpu, prepared.date))}};
  AddRetention(report, options.retention);
  AddPrefill(report, prepared.prefill_budget);
  AddDevice(report, device, gpu);
  return Json(std::move(report)).Dump();
}

bool HasOptions(const DocumentRow& building, const IndexOptions& options, const std::string& gpu,
                const std::string& date) {
  const Result<Json> json = ParseJson(building.report_json);
  const Json* found = json.ok() ? json->Find("options") : nullptr;
  return found != nullptr && found->string() != nullptr &&
         *found->string() == OptionsSignature(options, gpu, date);
}

void AddAssumptions(const Model& model, const PreparedDocument& prepared, IndexReport* report) {
  report->assumptions = model.assumptions();
  if (const uint64_t dropped = prepared.tokens.dropped_bytes; dropped > 0) {
    report->assumptions.push_back("the vocabulary has no piece for " + std::to_string(dropped) +
                                  " bytes of the text: the model does not see them");
  }
  for (const std::string& sentence : report->assumptions) {
    report->note += (report->note.empty() ? "" : "; ") + sentence;
  }
}

IndexReport ExistingReport(const DocumentRow& row) {
  IndexReport report;
  report.existed = true;
  report.document = ToHex(row.id);
  report.name = row.name;
  report.tokens = row.num_tokens;
  report.replaced_bytes = row.replaced_bytes;
  report.bytes_on_disk = row.bytes_on_disk;
  report.fingerprint = ToHex(row.fingerprint);
  report.weights = WeightsOf(row);
  report.generation = row.generation;
  report.retention = RetentionOf(row);
  report.prefill_budget = PrefillBudgetOf(row);
  report.device = DeviceOf(row);
  report.gpu = GpuOf(row);
  const Result<Json> json = ParseJson(row.report_json);
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
  const auto shard = ShardReader::Open(
      context.env, DocumentDirectory(context.store, row.id, row.generation) + "/" + kDocumentFile,
      {.kind = ShardKind::kDocument,
       .layer = 0,
       .document_id = row.id.data(),
       .fingerprint = row.fingerprint.data(),
       .generation = row.generation,
       .table_crc = std::nullopt},
      Io::kPread);
  if (!shard.ok()) return {};
  const auto pages = shard.value()->Array<PageMapEntry>(SectionKind::kPageMap, 0, 0);
  if (!pages.ok() || !IsPageMap(*pages, row.text_bytes)) return {};
  return {pages->begin(), pages->end()};
}

bool HasPages(const IndexContext& context, const DocumentRow& row, const IndexOptions& options) {
  return options.pages.empty() || StoredPages(context, row) == options.pages;
}

}  // namespace lectern
