#include "engine/indexing/index_document.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "engine/document/document.h"
#include "engine/document/kept_rows.h"
#include "engine/document/kv_spill.h"
#include "engine/document/layer_shard.h"
#include "engine/document/parts.h"
#include "engine/gpu/clustering.h"
#include "engine/gpu/memory_plan.h"
#include "engine/indexing/calibrate_document.h"
#include "engine/indexing/cluster_layers.h"
#include "engine/indexing/document_shard.h"
#include "engine/indexing/find_retrieval_heads.h"
#include "engine/indexing/index_cost.h"
#include "engine/indexing/index_input.h"
#include "engine/indexing/index_progress.h"
#include "engine/indexing/index_record.h"
#include "engine/indexing/ranked_index.h"
#include "engine/indexing/reuse_kv.h"
#include "engine/requests/report_json.h"
#include "engine/requests/seconds.h"

namespace lectern {
namespace {

using Clock = std::chrono::steady_clock;

Status IndexingCancelled() {
  return {Code::kCancelled, "indexing was cancelled; the same command goes on from here"};
}

// Removes what a version that was replaced leaves, its parts included. Errors are ignored: a later
// collection goes on.
void Collect(const IndexContext& context, Catalog& catalog) {
  if (RemoveOrphanedParts(context.env, context.store, catalog).ok()) {
    (void)CollectGarbage(context.env, context.store, catalog);
  }
}

// The way out that messages about the memory limit name.
constexpr char kLessText[] = "split the document";

// The processor's name in a sentence: "the GPU NVIDIA H100", "the CPU".
std::string Processor(const std::string& gpu) { return gpu.empty() ? "the CPU" : "the GPU " + gpu; }

// One run of indexing a document that is not there yet. The caller holds the store's lock;
// everything but `device` is borrowed.
class Indexer {
 public:
  // Decides the layout, and fills in everything of the report that is known beforehand.
  Indexer(const IndexContext& context, Placement device, const IndexOptions& options,
          const PreparedDocument& prepared, Catalog& catalog, IndexProgressMeter& progress,
          const NamePlan& names)
      : context_(context),
        device_(std::move(device)),
        config_(context.model.config()),
        options_(options),
        prepared_(prepared),
        catalog_(catalog),
        progress_(progress),
        names_(names),
        temp_dir_(context.store + "/tmp") {
    // A short document, or a model whose layers are all windowed, is not clustered: no sinks, no
    // window.
    const uint64_t tokens = prepared.tokens.ids.size();
    const bool clustered = tokens >= kMinClusteredTokens && config_.num_full_layers() > 0;
    layout_ = {.num_tokens = tokens,
               .num_sinks = clustered ? kSinkTokens : 0,
               .num_window = clustered ? kWindowTokens : 0,
               .num_levels = clustered ? options.num_levels : 0,
               .dtype = options.kv_dtype,
               .retention = prepared.retention};
    report_ = NewReport(context, prepared, options, names);
    report_.tokens = tokens;
    if (device_.transformer) {
      report_.device = device_.transformer->device()->name();
      report_.gpu = device_.transformer->device()->info().name;
    }
  }

  // Runs the steps in order. Each begins where a run before this one stopped: the spill, its
  // checkpoint and finished shards say how far that was.
  Result<IndexReport> Run() {
    SayWhereItIsDone();
    LECTERN_RETURN_IF_ERROR(FindHeads());
    LECTERN_RETURN_IF_ERROR(ReserveRam());
    LECTERN_RETURN_IF_ERROR(FindOrBeginRow());
    LECTERN_RETURN_IF_ERROR(RunPrefill());
    if (!layout_.retention.keeps_all()) LECTERN_RETURN_IF_ERROR(DecideKeptRows());
    LECTERN_RETURN_IF_ERROR(Cluster());
    const auto start = Clock::now();
    progress_.Begin(IndexProgress::Stage::kWrite, 0, 1);
    if (progress_.Stopped()) return IndexingCancelled();
    LECTERN_ASSIGN(text_index_, IndexText(prepared_.clean.text, options_.pages));
    LECTERN_RETURN_IF_ERROR(WriteDocument());
    if (layout_.num_levels > 0) {
      // The document is asked in its finished form, so its own shard is written before that, and
      // once more with the result.
      LECTERN_RETURN_IF_ERROR(Calibrate());
      shards_.pop_back();
      LECTERN_RETURN_IF_ERROR(WriteDocument());
    }
    if (IsSet(options_.cancel)) return IndexingCancelled();
    LECTERN_RETURN_IF_ERROR(Commit());
    report_.seconds.write += SecondsSince(start);
    // The document is visible from here on. Errors of cleaning up are ignored: a later collection
    // removes what is left.
    (void)spill().RemoveCheckpoint();
    if (ranked_) RemoveRankFolders(context_.env, directory_, context_.ranks->size());
    Collect(context_, catalog_);
    return report_;
  }

  // The report as far as it is filled in.
  IndexReport& report() { return report_; }

 private:
  // Adds a warning's name to the report, once, and its sentence to the note.
  void Warn(const std::string& name, const Message& why) {
    if (std::ranges::count(report_.warnings, name) == 0) report_.warnings.push_back(name);
    report_.note += (report_.note.empty() ? "" : "; ") + why;
  }

  // Warns if the CPU does work that a device was asked for.
  void SayWhereItIsDone() {
    if (!device_.fallback.empty()) Warn("cpu_fallback", device_.fallback);
    if (!device_.transformer) return;
    const std::string why =
        WhyCpuAttends(*device_.transformer->device(), SpillDtype(layout_.dtype), config_.head_dim);
    if (!why.empty()) Warn("cpu_fallback", why);
  }

  // Looks for the model's retrieval heads, on the CPU alone. Where that cannot be done, because
  // disk, memory, the model's positions or its template do not allow it, the document goes without:
  // passages are then chosen by words and by the attention of all heads. Any other error ends the
  // run, so that equal runs make equal documents.
  Status FindHeads() {
    if (!context_.finds_heads || device_.transformer) return {};
    auto found = FindRetrievalHeads(context_, catalog_, [this] { return progress_.Stopped(); });
    if (found.ok()) heads_ = *std::move(found);
    switch (found.status().code()) {
      case Code::kOutOfMemory:
      case Code::kContextTooLong:
      case Code::kInvalidArgument:
        return {};
      default:
        return found.status();
    }
  }

  // Reserves memory within the engine's limit before anything is computed, and decides how many
  // heads cluster at a time. The prefill needs a chunk's activations, clustering at least one kv
  // head's rows; both need one layer's spill. They do not overlap with one another or with
  // measuring, so the largest counts. Where
  // memory for all threads is missing, fewer heads cluster at a time. kOutOfMemory: not even one
  // fits.
  Status ReserveRam() {
    memory_.num_clustering = context_.threads.num_threads();
    if (!context_.ram) return {};
    const uint64_t tokens = layout_.num_tokens;
    const uint64_t text = TextBytes(prepared_.clean.text.size(), tokens);
    LECTERN_ASSIGN(memory_.text, context_.ram->Reserve(text, "the text", kLessText));
    const uint64_t spill =
        SpillBytes(config_, SpillDtype(layout_.dtype), tokens) / config_.num_layers;
    const uint64_t queries = uint64_t{layout_.num_window} * config_.num_layers * config_.num_heads *
                             config_.head_dim * sizeof(float);
    const bool is_sparse = prepared_.prefill_budget < 1;
    uint64_t prefill = ActivationBytes(config_, std::min<uint64_t>(tokens, kChunkTokens)) +
                       (is_sparse ? LookupBytes(config_, kChunkTokens, tokens) +
                                        ShardBytes(config_, SpillDtype(layout_.dtype), tokens)
                                  : 0);
    if (device_.transformer) {
      prefill += PrefillHostBytes(config_, SpillDtype(layout_.dtype), tokens);
    }
    uint64_t head = layout_.num_levels > 0 ? ClusterHeadBytes(config_, tokens) : 0;
    if (head > 0 && device_.transformer)
      head += PinnedAssignBytes(HeadAssignShape(layout_, config_, memory_.num_clustering));
    const uint64_t measuring = layout_.num_levels > 0 ? CalibrationBytes(config_) : 0;
    const uint64_t least = std::max(spill + queries + std::max(prefill, head), measuring);
    LECTERN_ASSIGN(memory_.work, context_.ram->Reserve(least, "indexing it", kLessText));
    const uint64_t room =
        context_.ram->bytes() - std::min(context_.ram->bytes(), context_.ram->reserved());
    if (head > 0)
      memory_.num_clustering =
          std::min<uint64_t>(memory_.num_clustering, 1 + room / (head + spill));
    return {};
  }

  // Finds the catalog's row of an interrupted run of the same document and options, or begins a new
  // one and discards the others: their bytes cannot be continued with these options.
  Status FindOrBeginRow() {
    LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog_.List());
    for (const DocumentRow& row : rows) {
      if (row.id != prepared_.id || row.state != DocumentState::kBuilding) continue;
      if (HasOptions(row, options_, report_.gpu, prepared_.date)) {
        row_ = row;
        continue;
      }
      if (GpuOf(row) != report_.gpu) {
        Warn("restarted", "what " + Processor(GpuOf(row)) + " had begun was begun anew on " +
                              Processor(report_.gpu) + ": their keys differ in the last digits");
      }
      LECTERN_RETURN_IF_ERROR(DiscardGeneration(context_.env, context_.store, catalog_, row));
    }
    const bool found = row_.generation != 0;
    row_.id = prepared_.id;
    row_.name = names_.name;
    row_.fingerprint = context_.model.fingerprint();
    row_.model_path = context_.model.folder();
    row_.num_tokens = layout_.num_tokens;
    row_.text_bytes = prepared_.clean.text.size();
    row_.replaced_bytes = prepared_.clean.replaced_bytes;
    row_.report_json = BuildingReport(options_, context_.model, prepared_, report_.device,
                                      report_.gpu, context_.part_of);
    LECTERN_RETURN_IF_ERROR(CheckSpace(found));
    if (!found) {
      LECTERN_ASSIGN(row_.generation, catalog_.BeginDocument(row_));
    }
    report_.generation = row_.generation;
    directory_ = DocumentDirectory(context_.store, row_.id, row_.generation);
    return {};
  }

  // Checks the disk and the quota before the first write. The files of a run that goes on are part
  // of the space that is needed: the quota does not count them twice, and free disk space is not
  // checked again.
  Status CheckSpace(bool resumes) {
    uint64_t needed = CostOnDisk(config_, options_, prepared_).peak;
    // Ranks keep the rows of their tokens beside those of their layers.
    if (MayUseRanks() && RankedIndex::WhyAlone(options_, prepared_.prefill_budget).empty()) {
      needed += SpillBytes(config_, SpillDtype(layout_.dtype), layout_.num_tokens);
    }
    if (!resumes) LECTERN_RETURN_IF_ERROR(CheckFreeSpace(context_.env, context_.store, needed));
    const std::string there =
        resumes ? DocumentDirectory(context_.store, row_.id, row_.generation) : "";
    return CheckQuota(context_.env, context_.store, context_.quota_bytes, needed, there);
  }

  SpillShape ShapeOfSpill() const {
    SpillShape shape;
    shape.document = row_.id;
    shape.generation = row_.generation;
    shape.num_tokens = layout_.num_tokens;
    shape.num_layers = config_.num_layers;
    shape.num_kv_heads = config_.num_kv_heads;
    shape.head_dim = config_.head_dim;
    shape.query_cols = config_.num_heads * config_.head_dim;
    shape.dtype = SpillDtype(layout_.dtype);
    shape.num_calibration = layout_.num_window;
    shape.squared_sums = layout_.num_levels > 0 && options_.stats == "full";
    shape.softcap = config_.attention_softcap;
    return shape;
  }

  bool MayUseRanks() const {
    return context_.ranks && !device_.transformer && layout_.num_levels > 0;
  }

  // Gives the document to all ranks of this process's group, where there is one and they can index
  // it together. A device, and rows of an older version of the text, are this process's alone; a
  // text without clusters is done before the ranks have met.
  Status FindRanks(const SpillShape& shape) {
    if (!MayUseRanks()) return {};
    const std::string why = RankedIndex::WhyAlone(options_, prepared_.prefill_budget);
    if (!why.empty()) {
      Warn("ranks_idle", "the first rank indexed alone: " + why);
      return {};
    }
    const ShardHeader header = ShardHeaderOf(row_, layout_, config_);
    LECTERN_ASSIGN(ranked_, RankedIndex::Begin(*context_.ranks, {.context = context_,
                                                                 .options = options_,
                                                                 .layout = layout_,
                                                                 .header = header,
                                                                 .tokens = prepared_.tokens.ids,
                                                                 .directory = directory_,
                                                                 .temp_dir = temp_dir_,
                                                                 .shape = shape}));
    return {};
  }

  KvSpill& spill() { return ranked_ ? ranked_->spill() : *spill_; }

  // Computes keys and values of all tokens into the spill, from the checkpoint on, or from the rows
  // of an older version of the text.
  Status RunPrefill() {
    const auto start = Clock::now();
    const SpillShape shape = ShapeOfSpill();
    LECTERN_RETURN_IF_ERROR(FindRanks(shape));
    if (!ranked_) {
      LECTERN_ASSIGN(spill_, KvSpill::Open(context_.env, directory_, temp_dir_, shape));
    }
    report_.resumed_tokens = spill().tokens_done();
    if (!ranked_ && spill().tokens_done() == 0) LECTERN_RETURN_IF_ERROR(ReuseOlder());
    progress_.Begin(IndexProgress::Stage::kPrefill, spill().tokens_done(), layout_.num_tokens);
    const Transformer transformer(context_.model, context_.backend, context_.threads,
                                  layout_.num_tokens, device_.transformer.get());
    PrefillOptions prefill;
    prefill.checkpoint_seconds = options_.checkpoint_seconds;
    // With a memory limit, mapped pages of the spills would count against it.
    prefill.keeps_spills = context_.ram == nullptr;
    prefill.on_chunk = [this](uint64_t done) { progress_.Done(done); };
    prefill.is_cancelled = [this] { return progress_.Stopped(); };
    const std::string clusters = directory_ + "/prefill";
    if (prepared_.prefill_budget < 1) {
      prefill.sparse.emplace(SparsePrefill{.env = context_.env,
                                           .directory = clusters,
                                           .temp_dir = temp_dir_,
                                           .budget = prepared_.prefill_budget,
                                           .num_clustering = memory_.num_clustering});
    }
    LECTERN_RETURN_IF_ERROR(
        ranked_ ? ranked_->Prefill(transformer, prefill)
                : context_.prefill(transformer, prepared_.tokens.ids, *spill_, prefill));
    if (prefill.sparse) LECTERN_RETURN_IF_ERROR(context_.env.RemoveTree(clusters));
    report_.seconds.prefill = SecondsSince(start);
    return {};
  }

  // Decides, where not all rows are kept, how many rows of each head go to disk, and writes the
  // decision to the checkpoint: it needs the rows of all layers, and once a layer is in its shard
  // its spill is gone.
  Status DecideKeptRows() {
    if (!spill_->kept_rows().empty()) return {};
    const auto start = Clock::now();
    LECTERN_ASSIGN(auto kept,
                   AllotKeptRows(context_.backend, context_.threads, *spill_,
                                 ShapeOf(spill_->shape(), layout_.num_sinks, layout_.num_window),
                                 layout_.retention, [this] { return progress_.Stopped(); }));
    spill_->DecideKeptRows(std::move(kept));
    report_.seconds.cluster += SecondsSince(start);
    return spill_->Checkpoint();
  }

  // Takes over the rows of the tokens that an older version of the text begins with, if they would
  // be computed to the same bits here: same model, device and kind of prefill. An older document
  // that cannot be read is no reason to fail: then all is computed.
  Status ReuseOlder() {
    if (options_.again) return {};
    if (options_.stats == "full") return {};  // sums of squared attention are not stored with rows
    LECTERN_ASSIGN(const auto row, RowToReuse());
    if (!row || row->fingerprint != row_.fingerprint) return {};
    if (PrefillBudgetOf(*row) != prepared_.prefill_budget) return {};
    if (GpuOf(*row) != report_.gpu) return {};
    LECTERN_ASSIGN(const auto shards, catalog_.Shards(row->generation));
    const auto older =
        Document::Open(context_.env, DocumentDirectory(context_.store, row->id, row->generation),
                       *row, shards, context_.reading());
    if (!older.ok()) return {};
    const auto reused = ReusePrefix(**older, prepared_.tokens.ids, *spill_);
    if (!reused.ok()) return spill_->StartOver();
    report_.reused_tokens = *reused;
    return *reused > 0 ? spill_->Checkpoint() : Status();
  }

  // Finds a document whose text may begin alike. In this order: the version that had the name
  // before; the document of this name, which is this document when it is indexed again with other
  // pages; a document of the same base name, because a file may be a copy of a version.
  Result<std::optional<DocumentRow>> RowToReuse() const {
    const std::string& name = names_.name;
    if (names_.before || name.empty()) return names_.before;
    LECTERN_ASSIGN(auto row, catalog_.FindReadyByName(name));
    if (row) return row;
    return catalog_.FindReadyByName(name.substr(name.find_last_of('/') + 1));
  }

  // The device that prefills; nullptr: the CPU does everything.
  const Device* device() const {
    return device_.transformer ? device_.transformer->device().get() : nullptr;
  }

  // Clusters keys and writes the shards of all layers.
  Status Cluster() {
    const ShardHeader header = ShardHeaderOf(row_, layout_, config_);
    const LayersToCluster work = {.context = context_,
                                  .options = options_,
                                  .layout = layout_,
                                  .header = header,
                                  .directory = directory_,
                                  .temp_dir = temp_dir_,
                                  .spill = spill(),
                                  .device = device(),
                                  .num_heads = memory_.num_clustering,
                                  .progress = progress_};
    LECTERN_ASSIGN(ClusteredLayers layers, ranked_ ? ranked_->Cluster(work) : ClusterLayers(work));
    shards_ = std::move(layers.shards);
    for (uint32_t level = 0; level < layout_.num_levels; ++level) {
      report_.levels.push_back({level + 1, layers.centroids[level]});
    }
    if (!layers.fallback.empty()) Warn("cpu_fallback", layers.fallback);
    report_.seconds.cluster += layers.cluster_seconds;
    report_.seconds.calibrate += layers.calibrate_seconds;
    report_.seconds.write += layers.write_seconds;
    return {};
  }

  // Writes the document's own shard and adds it to shards_.
  Status WriteDocument() {
    const ShardHeader header = ShardHeaderOf(row_, layout_, config_);
    LECTERN_ASSIGN(ShardSummary summary,
                   WriteDocumentShard({.context = context_,
                                       .options = options_,
                                       .prepared = prepared_,
                                       .text_index = text_index_,
                                       .names = names_,
                                       .layout = layout_,
                                       .header = header,
                                       .report = report_,
                                       .spill = &spill(),
                                       .calibration = &calibration_,
                                       .cluster_keys = ClusterKeys(options_, device()),
                                       .heads = heads_ ? &*heads_ : nullptr},
                                      directory_, temp_dir_));
    shards_.push_back(std::move(summary));
    return {};
  }

  // Asks the document, which is complete but not yet visible, a few questions, and measures how far
  // its estimates of missed attention are from the truth and how far answers diverge at smaller
  // budgets (calibrate_document.h). If the device has no memory left, the CPU does it, with a
  // warning.
  Status Calibrate() {
    const auto start = Clock::now();
    // Asking reserves memory by itself, beside what is measured; the limit has no room for all.
    if (context_.ram) {
      LECTERN_RETURN_IF_ERROR(
          context_.ram->Change(memory_.work, CalibrationBytes(config_), "measuring it", kLessText));
    }
    LECTERN_ASSIGN(const std::shared_ptr<const Document> document,
                   Document::Open(context_.env, directory_, row_, shards_, context_.reading()));
    const auto measure = [&](const Placement& device) {
      return CalibrateDocument(
          document, context_.model, context_.backend, context_.threads,
          double{options_.max_divergence}, [this] { return progress_.Stopped(); }, device);
    };
    auto measured = measure(PlacementOf(document));
    if (IsForWantOfDeviceMemory(measured.status())) {
      Warn("cpu_fallback", "estimates were measured on the CPU: " + measured.status().wordings());
      measured = measure({});
    }
    LECTERN_ASSIGN(calibration_, std::move(measured));
    report_.seconds.calibrate += SecondsSince(start);
    return {};
  }

  // Where this document will be asked, and so where it is measured.
  Placement PlacementOf(const std::shared_ptr<const Document>& document) const {
    if (!device_.transformer) return {};
    const std::shared_ptr<const Device>& device = device_.transformer->device();
    Placement placement = {.transformer = device_.transformer};
    if (WhyCpuAttends(*device, document->kv_dtype(), config_.head_dim).empty()) {
      placement.document = PlaceDocument(device, document, config_, context_.backend);
    }
    return placement;
  }

  // Makes the document visible: the only point at which it can be found by others.
  Status Commit() {
    row_.state = DocumentState::kReady;
    for (const ShardSummary& shard : shards_) report_.bytes_on_disk += shard.bytes;
    row_.bytes_on_disk = report_.bytes_on_disk;
    const DivergenceCurve& curve = calibration_.divergence;
    report_.kv_budget = StoredBudget(options_, curve);
    report_.is_budget_auto = options_.kv_budget == kAutoBudget;
    if (curve.is_measured()) report_.divergence = curve.At(report_.kv_budget);
    if (report_.is_budget_auto && report_.kv_budget == 1 && curve.is_measured()) {
      Warn("exact_budget", "no budget below 1 is predicted to keep " +
                               OptionName("max_divergence") +
                               ": questions read the whole document unless they name a budget");
    }
    row_.report_json = IndexReportJson(report_);
    return catalog_.CommitDocument(row_, shards_, names_.change);
  }

  const IndexContext& context_;
  const Placement device_;
  const ModelConfig& config_;
  const IndexOptions& options_;
  const PreparedDocument& prepared_;
  Catalog& catalog_;
  IndexProgressMeter& progress_;
  const NamePlan& names_;
  const std::string temp_dir_;  // on the store's file system, so that a rename moves files
  RowLayout layout_{};
  DocumentRow row_;
  std::string directory_;  // of this generation
  std::unique_ptr<KvSpill> spill_;       // nullptr with ranks
  std::unique_ptr<RankedIndex> ranked_;  // nullptr: this process indexes alone
  std::vector<ShardSummary> shards_;
  TextIndex text_index_;
  Calibration calibration_;  // once it is measured
  std::optional<RetrievalHeads> heads_;  // the model's
  // Reserved and decided by ReserveRam:
  struct {
    RamLimit::Share text, work;
    size_t num_clustering = 1;  // kv heads at a time
  } memory_;
  IndexReport report_;
};

// Whether the document has this name among its names.
bool HasName(const DocumentRow& row, const std::string& name) {
  return std::ranges::any_of(row.names, [&](const DocumentName& n) { return n.name == name; });
}

}  // namespace

// Looks twice whether the document is there: first without the lock, because a known text under its
// known names then needs no write access; then under the lock, because another process may have
// indexed it in between.
Result<IndexReport> IndexUnlessThere(const IndexContext& context, const PreparedDocument& prepared,
                                     const IndexOptions& options, const IndexNew& index) {
  // A document that is there under its names needs no lock and no store that can be written.
  LECTERN_ASSIGN(const auto ready, FindReady(context, prepared.id));
  const bool is_there = ready && !options.again && HasPages(context, *ready, options);
  NamePlan planned;
  if (is_there) {
    const auto known = PlanKnownName(
        *ready, {.name = options.name, .source = options.source, .path = options.path});
    if (known) return ExistingReport(*ready, *known, options);
    LECTERN_ASSIGN(planned, PlanNamesOf(context, prepared, options));
    if (!planned.IsChange()) return ExistingReport(*ready, planned, options);
  }
  std::unique_ptr<FileLock> lock;
  if (!context.holds_lock) {
    auto locked = LockStore(context.env, context.store);
    // All that is new may be where a name comes from; a store that cannot be written does without.
    if (is_there && locked.status().code() == Code::kReadOnly && HasName(*ready, planned.name)) {
      return ExistingReport(*ready, planned, options);
    }
    LECTERN_ASSIGN(lock, std::move(locked));
  }
  LECTERN_ASSIGN(const auto catalog,
                 Catalog::Open(context.env, CatalogPath(context.store), Catalog::Mode::kReadWrite));
  LECTERN_ASSIGN(const auto existing, catalog->FindReady(prepared.id));
  LECTERN_ASSIGN(const NamePlan names, PlanNamesIn(context, *catalog, prepared, options));
  if (existing && !options.again && HasPages(context, *existing, options)) {
    if (names.IsChange()) {
      LECTERN_RETURN_IF_ERROR(catalog->ChangeNames(prepared.id, names.change));
      Collect(context, *catalog);
    }
    return ExistingReport(*existing, names, options);
  }
  IndexOptions chosen = options;
  if (existing && chosen.pages.empty()) {
    chosen.pages = StoredPages(context, *existing);
    chosen.page_labels = StoredPageLabels(context, *existing);
    if (!ArePageLabels(chosen.page_labels, chosen.pages.size())) chosen.page_labels.clear();
  }
  return index(*catalog, names, chosen);
}

// The device is asked for last: only a new document needs it.
Result<IndexReport> IndexDocument(const IndexContext& context, std::string_view bytes,
                                  const IndexOptions& options) try {
  const auto start = Clock::now();
  if (IsSet(options.cancel)) return IndexingCancelled();
  LECTERN_ASSIGN(const PreparedDocument prepared, PrepareDocument(context.model, bytes, options));
  if (IsSet(options.cancel)) return IndexingCancelled();
  const double read_seconds = SecondsSince(start);
  IndexProgressMeter progress(options, context.model.config(), prepared.tokens.ids.size(),
                              prepared.prefill_budget);
  LECTERN_ASSIGN(IndexReport report,
                 IndexUnlessThere(context, prepared, options,
                                  [&](Catalog& catalog, const NamePlan& names,
                                      const IndexOptions& chosen) -> Result<IndexReport> {
                                    Placement device;
                                    if (context.find_device) {
                                      LECTERN_ASSIGN(device, context.find_device());
                                    }
                                    Indexer indexer(context, std::move(device), chosen, prepared,
                                                    catalog, progress, names);
                                    indexer.report().seconds.read = read_seconds;
                                    return indexer.Run();
                                  }));
  if (report.existed && context.part_of.empty()) {
    AddAssumptions(context.model, prepared, &report);
  }
  report.seconds.read = read_seconds;
  report.seconds.total = SecondsSince(start);
  return report;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "not enough memory to index the document; use fewer threads");
}

}  // namespace lectern
