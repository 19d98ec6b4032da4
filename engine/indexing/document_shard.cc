#include "engine/indexing/document_shard.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/document/document.h"
#include "engine/document/passages.h"
#include "engine/document/word_index.h"
#include "engine/model/formats/json.h"
#include "engine/requests/report_json.h"
#include "index/kmeans.h"

namespace lectern {
namespace {

// The JSON of section kModel: everything that says how the document was indexed, so that it can be
// opened and judged without the catalog. Fields that have the usual value are left out; older
// documents do not have them either.
std::string ModelJson(const DocumentShardParts& parts) {
  const auto& [context, options, prepared, text_index, names, layout, header, report, spill,
               in_parts, measured, cluster_keys, heads] = parts;
  const Calibration calibration = measured != nullptr ? *measured : Calibration();
  const MissedCalibration& missed = calibration.missed;
  const ChatTemplate& chat = context.model.chat_template();
  Json::Object json = {{"model", Json(context.model.folder())},
                       {"template", Json(chat.name())},
                       // A number, too, for builds from before automatic budgets.
                       {"kv_budget", Json(StoredBudget(options, calibration.divergence))},
                       {"kv_budget_auto", Json(options.kv_budget == kAutoBudget)},
                       {"max_divergence", Json(double{options.max_divergence})},
                       {"kv_type", Json(DtypeName(layout.dtype))},
                       {"layer_budget", Json(options.layer_budget)},
                       {"head_budget", Json(options.head_budget)},
                       {"levels", Json(int64_t{layout.num_levels})},
                       {"seed", Json(options.seed)},
                       {"cluster_keys", Json(cluster_keys)},
                       {"stats", Json(options.stats)},
                       {"faiss", Json(FaissVersion())}};
  if (chat.name() == kFileTemplate) json["template_text"] = Json(chat.jinja());
  if (!prepared.date.empty()) json["template_date"] = Json(prepared.date);
  if (const WeightsType type = context.model.weights().type(); type != WeightsType::kStored) {
    json["weights"] = Json(WeightsName(type));
  }
  if (const Adapter* const adapter = context.model.adapter()) json["adapter"] = adapter->path();
  if (prepared.prefill_budget < 1) AddPrefill(json, prepared.prefill_budget);
  if (!report.gpu.empty()) AddDevice(json, report.device, report.gpu);
  if (missed.is_measured()) {
    json["missed"] = MissedCalibrationJson(missed, context.model.config().num_layers);
  }
  if (calibration.divergence.is_measured()) {
    json["divergence"] = DivergenceCurveJson(calibration.divergence);
  }
  if (spill == nullptr) json["parts"] = uint64_t{in_parts.size()};
  if (heads != nullptr) json["retrieval_heads"] = RetrievalHeadsJson(*heads);
  if (!layout.retention.keeps_all()) {
    AddRetention(json, layout.retention);
  }
  if (!layout.retention.keeps_all() && spill != nullptr) {
    const std::span<const uint64_t> kept = spill->kept_rows();
    json["kept_rows"] = Json(std::accumulate(kept.begin(), kept.end(), uint64_t{0}));
  }
  return Json(std::move(json)).Dump();
}

// The JSON of section kStatistics: for each layer the mean cosine between the residual stream
// before and after attention, by which the policy "squeeze" groups layers.
std::string StatisticsJson(const KvSpill& spill) {
  Json::Array cosines;
  for (const double cosine : spill.MeanCosines()) cosines.emplace_back(cosine);
  return Json(Json::Object{{"cosine", std::move(cosines)}}).Dump();
}

}  // namespace

double StoredBudget(const IndexOptions& options, const DivergenceCurve& curve) {
  if (options.kv_budget != kAutoBudget) return double{options.kv_budget};
  return curve.is_measured() ? curve.SmallestBudget(double{options.max_divergence}) : 1;
}

ShardHeader ShardHeaderOf(const DocumentRow& row, const RowLayout& layout,
                          const ModelConfig& config) {
  ShardHeader header{};
  std::copy(row.id.begin(), row.id.end(), header.document_id);
  std::copy(row.fingerprint.begin(), row.fingerprint.end(), header.fingerprint);
  header.generation = row.generation;
  header.num_tokens = layout.num_tokens;
  header.num_layers = config.num_layers;
  header.num_kv_heads = config.num_kv_heads;
  header.head_dim = config.head_dim;
  header.kv_dtype = static_cast<uint32_t>(layout.dtype);
  header.num_levels = layout.num_levels;
  header.num_sinks = layout.num_sinks;
  header.num_window = layout.num_window;
  return header;
}

Result<TextIndex> IndexText(std::string_view text, std::span<const PageMapEntry> pages) {
  TextIndex index = {SplitPassages(text, pages), {}};
  if (!index.passages.empty()) {
    LECTERN_ASSIGN(index.words, WordIndex::Build(text, index.passages));
  }
  return index;
}

Result<ShardSummary> WriteDocumentShard(const DocumentShardParts& parts,
                                        const std::string& directory, const std::string& temp_dir) {
  const IndexContext& context = parts.context;
  ShardHeader header = parts.header;
  header.kind = static_cast<uint32_t>(ShardKind::kDocument);
  // A leftover of an interrupted run is written again: the name may differ.
  if (Status removed = context.env.Remove(directory + "/" + kDocumentFile);
      !removed.ok() && removed.code() != Code::kMissingFile) {
    return removed;
  }
  LECTERN_ASSIGN(const auto writer,
                 ShardWriter::Create(context.env, temp_dir, directory, kDocumentFile, header));
  const auto add = [&](SectionKind kind, const void* data, size_t bytes) {
    return writer->AddSection(kind, 0, 0, data, bytes);
  };
  const FixedContext& tokens = parts.prepared.tokens;
  const std::string& text = parts.prepared.clean.text;
  const std::string model = ModelJson(parts), chat = context.model.chat_template().identity();
  LECTERN_RETURN_IF_ERROR(add(SectionKind::kText, text.data(), text.size()));
  if (parts.spill != nullptr) {
    LECTERN_RETURN_IF_ERROR(
        add(SectionKind::kTokens, tokens.ids.data(), tokens.ids.size() * sizeof(int32_t)));
    LECTERN_RETURN_IF_ERROR(add(SectionKind::kTokenRanges, tokens.ranges.data(),
                                tokens.ranges.size() * sizeof(tokens.ranges[0])));
  } else {
    LECTERN_RETURN_IF_ERROR(
        add(SectionKind::kParts, parts.in_parts.data(), parts.in_parts.size_bytes()));
  }
  LECTERN_RETURN_IF_ERROR(add(SectionKind::kTemplate, chat.data(), chat.size()));
  LECTERN_RETURN_IF_ERROR(
      add(SectionKind::kName, parts.names.name.data(), parts.names.name.size()));
  LECTERN_RETURN_IF_ERROR(add(SectionKind::kModel, model.data(), model.size()));
  const std::string& source = parts.names.source;
  if (!source.empty()) {
    LECTERN_RETURN_IF_ERROR(add(SectionKind::kSource, source.data(), source.size()));
  }
  if (!parts.options.pages.empty()) {
    LECTERN_RETURN_IF_ERROR(add(SectionKind::kPageMap, parts.options.pages.data(),
                                parts.options.pages.size() * sizeof(PageMapEntry)));
  }
  if (const std::string& labels = parts.options.page_labels; !labels.empty()) {
    LECTERN_RETURN_IF_ERROR(add(SectionKind::kPageLabels, labels.data(), labels.size()));
  }
  if (const auto& [passages, words] = parts.text_index; !passages.empty()) {
    LECTERN_RETURN_IF_ERROR(
        add(SectionKind::kPassages, passages.data(), passages.size() * sizeof(Passage)));
    LECTERN_RETURN_IF_ERROR(add(SectionKind::kWords, words.data(), words.size()));
  }
  // Statistics serve budgets below 1, so only documents with clusters have them. The sums let a
  // later version of the text reuse rows (reuse_kv.h).
  if (parts.layout.num_levels > 0) {
    const std::string statistics = StatisticsJson(*parts.spill);
    LECTERN_RETURN_IF_ERROR(add(SectionKind::kStatistics, statistics.data(), statistics.size()));
    const std::span<const double> sums = parts.spill->CosineSums();
    LECTERN_RETURN_IF_ERROR(add(SectionKind::kCosineSums, sums.data(), sums.size_bytes()));
  }
  return writer->Finish();
}

}  // namespace lectern
