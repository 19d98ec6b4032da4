#include "engine/indexing/change_plan.h"

#include <algorithm>
#include <new>

#include "engine/document/document.h"
#include "engine/indexing/calibrate_document.h"
#include "engine/indexing/index_cost.h"
#include "engine/model/formats/json.h"
#include "engine/requests/options.h"
#include "engine/requests/report_json.h"
#include "store/store.h"

namespace lectern {
namespace {

// One change of one document's plan. The caller holds the store's lock.
class PlanChanger {
 public:
  PlanChanger(const IndexContext& context, Catalog& catalog, const DocumentRow& row)
      : context_(context), catalog_(catalog), old_(row), row_(row) {}

  // Does the change. On an error the new generation is discarded, and the old one is as it was.
  Status Run(const PlanChange& change) {
    LECTERN_RETURN_IF_ERROR(ReadOld(change));
    // Space and memory for a second copy are checked before the catalog has a row of it.
    LECTERN_RETURN_IF_ERROR(CheckFreeSpace(context_.env, context_.store, old_.bytes_on_disk));
    LECTERN_RETURN_IF_ERROR(
        CheckQuota(context_.env, context_.store, context_.quota_bytes, old_.bytes_on_disk));
    LECTERN_RETURN_IF_ERROR(ReserveRam());
    row_.state = DocumentState::kBuilding;
    LECTERN_ASSIGN(row_.generation, catalog_.BeginDocument(row_));
    directory_ = DocumentDirectory(context_.store, row_.id, row_.generation);
    Status status = WriteAll();
    if (status.ok()) status = Commit();
    // If something cannot be removed now, the next writer removes it: the old generation if it is
    // being read, or the unfinished new one.
    if (status.ok()) {
      (void)CollectGarbage(context_.env, context_.store, catalog_);
    } else {
      (void)DiscardGeneration(context_.env, context_.store, catalog_, row_);
    }
    return status;
  }

 private:
  // Opens the document and merges the change into its stored options. Fails if the document cannot
  // serve the new plan at a budget that was given, so that no question fails because of it later;
  // an automatic budget is measured, and can be served.
  Status ReadOld(const PlanChange& change) {
    old_directory_ = DocumentDirectory(context_.store, old_.id, old_.generation);
    LECTERN_ASSIGN(old_shards_, catalog_.Shards(old_.generation));
    LECTERN_ASSIGN(const auto document, Document::Open(context_.env, old_directory_, old_,
                                                       old_shards_, context_.reading()));
    LECTERN_ASSIGN(const auto shard, OpenShard(kDocumentFile, ShardKind::kDocument, 0));
    LECTERN_ASSIGN(const auto bytes, shard->Section(SectionKind::kModel, 0, 0));
    LECTERN_ASSIGN(const Json json,
                   ParseJson({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    options_ = *json.object();  // an object: Document::Open has checked that
    // Calibration belongs to the old plan; WriteAll measures again.
    options_.erase("missed");
    options_.erase("divergence");
    PlanPolicies policies = document->policies();
    if (!change.layer_budget.empty()) policies.layers = change.layer_budget;
    if (!change.head_budget.empty()) policies.heads = change.head_budget;
    const ChosenBudget before = document->ChooseBudget(0, change.max_divergence);
    is_auto_ = change.kv_budget == kAutoBudget || (change.kv_budget == 0 && before.is_auto);
    const double kv_budget = change.kv_budget > 0 ? double{change.kv_budget} : before.kv_budget;
    max_divergence_ = before.max_divergence;
    options_["layer_budget"] = Json(policies.layers);
    options_["head_budget"] = Json(policies.heads);
    // Until it is measured, an automatic budget is that of a document that nothing is known of.
    options_["kv_budget"] = Json(is_auto_ ? 1.0 : kv_budget);
    options_["kv_budget_auto"] = Json(is_auto_);
    options_["max_divergence"] = Json(max_divergence_);
    has_clusters_ = document->has_clusters();
    if (is_auto_ || document->ReadsAll(kv_budget)) return CheckPolicies(policies);
    return document->Plan(policies, kv_budget, /*tail=*/true, /*has_floors=*/true).status();
  }

  // Reserves memory for the document's shard, which stays open, and for the largest layer: layers
  // are copied one after the other. kOutOfMemory: the limit leaves no room.
  Status ReserveRam() {
    if (!context_.ram) return {};
    uint64_t document = 0, layer = 0;
    for (const ShardSummary& shard : old_shards_) {
      uint64_t& bytes = shard.file == kDocumentFile ? document : layer;
      bytes = std::max(bytes, shard.bytes);
    }
    const auto reserve = [&](uint64_t bytes) {
      return context_.ram->Reserve(bytes, "copying the document", "raise the limit");
    };
    LECTERN_ASSIGN(document_ram_, reserve(document));
    LECTERN_ASSIGN(layer_ram_, reserve(layer));
    return {};
  }

  // Opens a shard of the old generation and checks that it belongs to the document.
  Result<std::unique_ptr<ShardReader>> OpenShard(const std::string& file, ShardKind kind,
                                                 uint32_t layer) {
    return ShardReader::Open(context_.env, old_directory_ + "/" + file,
                             {.kind = kind,
                              .layer = layer,
                              .document_id = old_.id.data(),
                              .fingerprint = old_.fingerprint.data(),
                              .generation = old_.generation,
                              .table_crc = std::nullopt},
                             context_.io);
  }

  // Writes the shards of the new generation: layers as they are, and the document's shard twice,
  // because its calibration is measured by asking the document in its new form.
  Status WriteAll() {
    LECTERN_RETURN_IF_ERROR(context_.env.MakeDirectory(directory_));
    LECTERN_ASSIGN(const auto document, OpenShard(kDocumentFile, ShardKind::kDocument, 0));
    for (uint32_t layer = 0; layer < document->header().num_layers; ++layer) {
      LECTERN_ASSIGN(const auto shard, OpenShard(LayerFile(layer), ShardKind::kLayer, layer));
      LECTERN_RETURN_IF_ERROR(Copy(*shard, LayerFile(layer)));
    }
    LECTERN_RETURN_IF_ERROR(Copy(*document, kDocumentFile));
    layer_ram_ = {};
    if (!has_clusters_) return {};
    if (context_.ram) {
      LECTERN_ASSIGN(layer_ram_,
                     context_.ram->Reserve(CalibrationBytes(context_.model.config()),
                                           "measuring the document", "raise the limit"));
    }
    // Measures what estimates by the new plan are worth, then writes the document with that.
    LECTERN_ASSIGN(auto changed,
                   Document::Open(context_.env, directory_, row_, shards_, context_.reading()));
    LECTERN_ASSIGN(const Calibration calibration,
                   CalibrateDocument(std::move(changed), context_.model, context_.backend,
                                     context_.threads, max_divergence_, [] { return false; }));
    const DivergenceCurve& curve = calibration.divergence;
    if (!calibration.missed.is_measured() && !curve.is_measured()) return {};
    if (calibration.missed.is_measured()) {
      options_["missed"] = MissedCalibrationJson(calibration.missed, document->header().num_layers);
    }
    if (curve.is_measured()) {
      options_["divergence"] = DivergenceCurveJson(curve);
      if (is_auto_) options_["kv_budget"] = Json(curve.SmallestBudget(max_divergence_));
    }
    shards_.pop_back();
    LECTERN_RETURN_IF_ERROR(context_.env.Remove(directory_ + "/" + kDocumentFile));
    return Copy(*document, kDocumentFile);
  }

  // Writes the same sections, except the options, under the new generation.
  Status Copy(const ShardReader& from, const std::string& file) {
    ShardHeader header = from.header();
    header.generation = row_.generation;
    LECTERN_ASSIGN(const auto writer, ShardWriter::Create(context_.env, context_.store + "/tmp",
                                                          directory_, file, header));
    const std::string options = Json(options_).Dump();
    for (const SectionEntry& section : from.sections()) {
      const auto kind = static_cast<SectionKind>(section.kind);
      if (kind == SectionKind::kModel) {
        LECTERN_RETURN_IF_ERROR(writer->AddSection(kind, 0, 0, options.data(), options.size()));
        continue;
      }
      LECTERN_ASSIGN(const auto bytes, from.Section(kind, section.kv_head, section.level));
      LECTERN_RETURN_IF_ERROR(
          writer->AddSection(kind, section.kv_head, section.level, bytes.data(), bytes.size()));
    }
    LECTERN_ASSIGN(ShardSummary summary, writer->Finish());
    shards_.push_back(std::move(summary));
    return {};
  }

  // Makes the new generation the visible one, in one transaction of the catalog.
  Status Commit() {
    row_.state = DocumentState::kReady;
    row_.bytes_on_disk = 0;
    for (const ShardSummary& shard : shards_) row_.bytes_on_disk += shard.bytes;
    return catalog_.CommitDocument(row_, shards_);
  }

  const IndexContext& context_;
  Catalog& catalog_;
  const DocumentRow old_;
  DocumentRow row_;
  std::string old_directory_, directory_;  // of the two generations
  std::vector<ShardSummary> old_shards_, shards_;
  Json::Object options_;
  RamLimit::Share document_ram_, layer_ram_;
  bool has_clusters_ = false, is_auto_ = false;
  double max_divergence_ = 0;
};

}  // namespace

Status ChangePlan(const IndexContext& context, const DocumentId& id, const PlanChange& change) try {
  LECTERN_RETURN_IF_ERROR(CheckOptions(PlanOptionRows(), change));
  LECTERN_ASSIGN(const auto lock, LockStore(context.env, context.store));
  LECTERN_ASSIGN(const auto catalog,
                 Catalog::Open(context.env, CatalogPath(context.store), Catalog::Mode::kReadWrite));
  LECTERN_ASSIGN(const auto row, catalog->FindReady(id));
  if (!row) return {Code::kNotFound, "the document was removed meanwhile"};
  if (context.model.fingerprint() != row->fingerprint) {
    return {Code::kModelMismatch,
            "document \"" + row->name + "\" was indexed with another model (" + row->model_path +
                ", weights " + WeightsOf(*row) + ") than " + context.model.folder() + ", weights " +
                std::string(WeightsName(context.model.weights().type())) + "; give that model"};
  }
  return PlanChanger(context, *catalog, *row).Run(change);
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "not enough memory to change the plan");
}

}  // namespace lectern
