#include "engine/indexing/index_document.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/document/document.h"
#include "engine/document/kept_rows.h"
#include "engine/document/kv_spill.h"
#include "engine/document/layer_shard.h"
#include "engine/gpu/clustering.h"
#include "engine/gpu/memory_plan.h"
#include "engine/gpu/resident_document.h"
#include "engine/indexing/index_cost.h"
#include "engine/indexing/index_input.h"
#include "engine/indexing/index_progress.h"
#include "engine/indexing/index_record.h"
#include "engine/indexing/measure_missed.h"
#include "engine/indexing/prefill.h"
#include "engine/indexing/reuse_kv.h"
#include "engine/model/formats/json.h"
#include "engine/requests/report_json.h"
#include "engine/requests/seconds.h"
#include "index/kmeans.h"

namespace lectern {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kLessText[] = "split the document";

// "the GPU NVIDIA H100", "the CPU"
std::string Processor(const std::string& gpu) { return gpu.empty() ? "the CPU" : "the GPU " + gpu; }

class Indexer {
 public:
  Indexer(const IndexContext& context, IndexDevice device, const IndexOptions& options,
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
        temp_dir_(context.store + "/tmp"),
        rope_(MakeRopeTable(config_.rope, prepared.tokens.ids.size())) {
    const uint64_t tokens = prepared.tokens.ids.size();
    const bool clustered = tokens >= kMinClusteredTokens && config_.num_full_layers() > 0;
    layout_ = {.num_tokens = tokens,
               .num_sinks = clustered ? kSinkTokens : 0,
               .num_window = clustered ? kWindowTokens : 0,
               .num_levels = clustered ? options.num_levels : 0,
               .dtype = options.kv_dtype,
               .retention = prepared.retention};
    report_.document = ToHex(prepared.id);
    report_.name = names.name;
    report_.source = names.source;
    report_.tokens = tokens;
    report_.replaced_bytes = prepared.clean.replaced_bytes;
    report_.fingerprint = ToHex(context.model.fingerprint());
    report_.weights = WeightsName(context.model.weights().type());
    AddNames(names, options.keep_versions, &report_);
    AddAssumptions(context.model, prepared, &report_);
    report_.retention = prepared.retention;
    report_.prefill_budget = prepared.prefill_budget;
    if (device_.transformer) {
      report_.device = device_.transformer->device()->name();
      report_.gpu = device_.transformer->device()->info().name;
    }
  }

  Result<IndexReport> Run() {
    SayWhereItIsDone();
    LECTERN_RETURN_IF_ERROR(ReserveRam());
    LECTERN_RETURN_IF_ERROR(FindOrBeginRow());
    LECTERN_RETURN_IF_ERROR(RunPrefill());
    if (!layout_.retention.keeps_all()) LECTERN_RETURN_IF_ERROR(DecideKeptRows());
    LECTERN_RETURN_IF_ERROR(RunClustering());
    const auto start = Clock::now();
    progress_.Begin(IndexProgress::Stage::kWrite, 0, 1);
    LECTERN_RETURN_IF_ERROR(WriteDocumentShard());
    if (layout_.num_levels > 0) {
      LECTERN_RETURN_IF_ERROR(Calibrate());
      shards_.pop_back();
      LECTERN_RETURN_IF_ERROR(WriteDocumentShard());
    }
    LECTERN_RETURN_IF_ERROR(Commit());
    report_.seconds.write += SecondsSince(start);
    // The document is there: what cannot be removed now, a later collection removes.
    (void)spill_->RemoveCheckpoint();
    (void)CollectGarbage(context_.env, context_.store, catalog_);
    return report_;
  }

  IndexReport& report() { return report_; }

 private:
  void Warn(const std::string& name, const Message& why) {
    if (std::ranges::count(report_.warnings, name) == 0) report_.warnings.push_back(name);
    report_.note += (report_.note.empty() ? "" : "; ") + why;
  }

  void SayWhereItIsDone() {
    if (!device_.fallback.empty()) Warn("cpu_fallback", device_.fallback);
    if (device_.transformer && !HasDeviceAttention(*device_.transformer->device(),
                                                   SpillDtype(layout_.dtype), config_.head_dim)) {
      Warn("cpu_fallback",
           "the CPU attends, as the GPU's kernels take keys of f16, bf16 and q8 and heads of up to "
           "256 numbers (128 where a block has 100 KiB of shared memory)");
    }
  }

  // The prefill needs a chunk's activations, clustering at least one kv head's rows; both one
  // layer's spill. Where all threads do not fit, fewer cluster at a time.
  Status ReserveRam() {
    num_clustering_ = context_.threads.num_threads();
    if (!context_.ram) return {};
    const uint64_t tokens = layout_.num_tokens;
    const uint64_t text = TextBytes(prepared_.clean.text.size(), tokens);
    LECTERN_ASSIGN(text_ram_, context_.ram->Reserve(text, "the text", kLessText));
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
    if (head > 0 && device_.transformer) head += PinnedAssignBytes(HeadShape());
    const uint64_t least = spill + queries + std::max(prefill, head);
    LECTERN_ASSIGN(work_ram_, context_.ram->Reserve(least, "indexing it", kLessText));
    const uint64_t room =
        context_.ram->bytes() - std::min(context_.ram->bytes(), context_.ram->reserved());
    if (head > 0) num_clustering_ = std::min<uint64_t>(num_clustering_, 1 + room / (head + spill));
    return {};
  }

  // A building generation of the same document and options goes on; others of it are discarded.
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
    row_.report_json =
        BuildingReport(options_, context_.model, prepared_, report_.device, report_.gpu);
    LECTERN_RETURN_IF_ERROR(CheckSpace(found));
    if (!found) {
      LECTERN_ASSIGN(row_.generation, catalog_.BeginDocument(row_));
    }
    report_.generation = row_.generation;
    directory_ = DocumentDirectory(context_.store, row_.id, row_.generation);
    return {};
  }

  Status CheckSpace(bool resumes) {
    const uint64_t needed = CostOnDisk(config_, options_, prepared_).peak;
    if (!resumes) LECTERN_RETURN_IF_ERROR(CheckFreeSpace(context_.env, context_.store, needed));
    const std::string there =
        resumes ? DocumentDirectory(context_.store, row_.id, row_.generation) : "";
    return CheckQuota(context_.env, context_.store, context_.quota_bytes, needed, there);
  }

  Status RunPrefill() {
    const auto start = Clock::now();
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
    LECTERN_ASSIGN(spill_, KvSpill::Open(context_.env, directory_, temp_dir_, shape));
    report_.resumed_tokens = spill_->tokens_done();
    if (spill_->tokens_done() == 0) LECTERN_RETURN_IF_ERROR(ReuseOlder());
    progress_.Begin(IndexProgress::Stage::kPrefill, spill_->tokens_done(), layout_.num_tokens);
    const Transformer transformer(context_.model, context_.backend, context_.threads,
                                  layout_.num_tokens, device_.transformer.get());
    PrefillOptions prefill;
    prefill.checkpoint_seconds = options_.checkpoint_seconds;
    prefill.keeps_spills = context_.ram == nullptr;
    prefill.on_chunk = [this](uint64_t done) { progress_.Done(done); };
    prefill.is_cancelled = [this] { return progress_.Stopped(); };
    const std::string clusters = directory_ + "/prefill";
    if (prepared_.prefill_budget < 1) {
      prefill.sparse.emplace(SparsePrefill{.env = context_.env,
                                           .directory = clusters,
                                           .temp_dir = temp_dir_,
                                           .budget = prepared_.prefill_budget,
                                           .num_clustering = num_clustering_});
    }
    LECTERN_RETURN_IF_ERROR(
        context_.prefill(transformer, prepared_.tokens.ids, *spill_, prefill));
    if (prefill.sparse) LECTERN_RETURN_IF_ERROR(context_.env.RemoveTree(clusters));
    report_.seconds.prefill = SecondsSince(start);
    return {};
  }

  // How many rows of each head go on disk. Kept in the checkpoint: once a layer is in its shard
  // there is no telling again.
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

  // Takes over the keys and values of the tokens with which the version before begins alike. An
  // older document that cannot be read is no reason to fail.
  Status ReuseOlder() {
    if (options_.again) return {};
    if (options_.stats == "full") return {};  // the older one's rows do not tell these sums
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

  // The version before; this document itself, which is indexed once more with other pages; or one
  // from another file of the same base name, which may be a copy of a version.
  Result<std::optional<DocumentRow>> RowToReuse() const {
    const std::string& name = names_.name;
    if (names_.before || name.empty()) return names_.before;
    LECTERN_ASSIGN(auto row, catalog_.FindReadyByName(name));
    if (row) return row;
    return catalog_.FindReadyByName(name.substr(name.find_last_of('/') + 1));
  }

  // Of what is clustered of a head at most.
  AssignShape HeadShape() const {
    return {.num_points = layout_.num_tokens,
            .num_centroids = MostCentroids(layout_.num_tokens, LevelFractions(layout_.num_levels)),
            .dim = config_.head_dim,
            .num_heads = num_clustering_};
  }

  // On the device, where there is memory for one head.
  Status FindAssigners() {
    if (!device_.transformer || layout_.num_levels == 0) return {};
    auto made = MakeDeviceClustering(*device_.transformer->device(), HeadShape());
    if (made.ok()) {
      clustering_ = std::move(made).value();
      num_clustering_ = std::min(num_clustering_, clustering_.assigners.size());
      return {};
    }
    if (made.status().code() != Code::kOutOfMemory) return std::move(made).status();
    WarnClusteredHere(made.status());
    return {};
  }

  void WarnClusteredHere(const Status& why) {
    if (std::exchange(says_clustered_here_, true)) return;
    Warn("cpu_fallback", "keys were clustered on the CPU: " + why.wordings());
  }

  // A few layers at a time, so that every thread has a head to cluster.
  Status RunClustering() {
    const uint32_t heads = config_.num_kv_heads;
    centroids_.assign(layout_.num_levels, 0);
    progress_.Begin(IndexProgress::Stage::kCluster, 0,
                    uint64_t{config_.num_full_layers()} * heads);
    LECTERN_RETURN_IF_ERROR(FindAssigners());
    const auto group = static_cast<uint32_t>((num_clustering_ + heads - 1) / heads);
    for (uint32_t begin = 0; begin < config_.num_layers; begin += group) {
      std::vector<uint32_t> layers;
      for (uint32_t layer = begin; layer < std::min(begin + group, config_.num_layers); ++layer) {
        LECTERN_ASSIGN(const bool done, TakeFinishedLayer(layer));
        if (!done) layers.push_back(layer);
      }
      LECTERN_RETURN_IF_ERROR(ClusterLayers(layers));
    }
    for (uint32_t level = 0; level < layout_.num_levels; ++level) {
      report_.levels.push_back({level + 1, centroids_[level]});
    }
    clustering_ = {};
    return {};
  }

  // An interrupted run may have left this layer's shard complete.
  Result<bool> TakeFinishedLayer(uint32_t layer) {
    const std::string path = directory_ + "/" + LayerFile(layer);
    LECTERN_ASSIGN(const bool exists, context_.env.Exists(path));
    if (!exists) return false;
    const auto shard = ShardReader::Open(context_.env, path,
                                         {.kind = ShardKind::kLayer,
                                          .layer = layer,
                                          .document_id = row_.id.data(),
                                          .fingerprint = row_.fingerprint.data(),
                                          .generation = row_.generation,
                                          .table_crc = std::nullopt},
                                         Io::kPread);
    if (!shard.ok() || !shard.value()->VerifyAll().ok()) {
      LECTERN_RETURN_IF_ERROR(context_.env.Remove(path));
      return false;
    }
    for (uint32_t level = 1; level <= LayoutOf(layer).num_levels; ++level) {
      for (uint32_t head = 0; head < config_.num_kv_heads; ++head) {
        const SectionEntry* counts = shard.value()->Find(SectionKind::kKeyCounts, head, level);
        centroids_[level - 1] += counts == nullptr ? 0 : counts->bytes / sizeof(uint32_t);
      }
    }
    shards_.push_back(SummaryOf(*shard.value(), LayerFile(layer)));
    LECTERN_RETURN_IF_ERROR(spill_->RemoveLayer(layer));
    return true;
  }

  // By `assigner`, or, where that has no room for all centroids, which `refused` then says, here.
  Result<HeadClusters> ClusterOne(uint32_t layer, uint32_t head, Assigner* assigner,
                                  Status& refused) {
    BuildOptions build;
    build.fractions = LevelFractions(layout_.num_levels);
    build.seed = options_.seed + 7919 * (uint64_t{layer} * config_.num_kv_heads + head);
    build.is_cancelled = [this] { return progress_.Stopped(); };
    build.assigner = assigner;
    const auto run = [&] {
      return ClusterHead(context_.backend, *spill_, layer, head, layout_, build,
                         UndoneFrequencies());
    };
    auto clusters = run();
    if (assigner == nullptr || clusters.status().code() != Code::kOutOfMemory) return clusters;
    refused = clusters.status();
    build.assigner = nullptr;
    return run();
  }

  Status ClusterLayers(std::vector<uint32_t> layers) {
    const uint32_t heads = config_.num_kv_heads;
    const auto windowed =
        std::stable_partition(layers.begin(), layers.end(),
                              [&](uint32_t layer) { return !config_.is_windowed(layer); });
    const auto num_full = static_cast<size_t>(windowed - layers.begin());
    std::vector<HeadClusters> clusters(layout_.num_levels > 0 ? num_full * heads : 0);
    std::mutex mutex;
    Status first, too_large;
    const auto start = Clock::now();
    double cluster_seconds = 0, calibrate_seconds = 0;
    const auto cluster = [&](size_t item, Assigner* assigner) {
      const uint32_t layer = layers[item / heads];
      const auto head = static_cast<uint32_t>(item % heads);
      if (progress_.Stopped()) return;
      Status refused;
      Result<HeadClusters> result = ClusterOne(layer, head, assigner, refused);
      progress_.Clustered();
      std::lock_guard lock(mutex);
      if (too_large.ok()) too_large = std::move(refused);
      if (!result.ok()) {
        if (first.ok()) first = result.status();
        return;
      }
      cluster_seconds += result->cluster_seconds;
      calibrate_seconds += result->calibrate_seconds;
      clusters[item] = std::move(result).value();
    };
    for (size_t begin = 0; begin < clusters.size(); begin += num_clustering_) {
      context_.threads.ParallelFor(std::min(num_clustering_, clusters.size() - begin),
                                   [&](size_t i, size_t) {
                                     const Assigners& all = clustering_.assigners;
                                     cluster(begin + i, all.empty() ? nullptr : all[i].get());
                                   });
    }
    if (!too_large.ok()) WarnClusteredHere(too_large);
    if (progress_.Stopped()) {
      return {Code::kCancelled, "indexing was cancelled; the same command goes on from here"};
    }
    if (!clustering_.assigners.empty()) {
      first = device_.transformer->device()->Check(std::move(first));
    }
    LECTERN_RETURN_IF_ERROR(first);
    const double wall = SecondsSince(start);
    const double busy = std::max(cluster_seconds + calibrate_seconds, 1e-9);
    report_.seconds.cluster += wall * cluster_seconds / busy;
    report_.seconds.calibrate += wall * calibrate_seconds / busy;

    const auto write_start = Clock::now();
    for (size_t i = 0; i < layers.size(); ++i) {
      const std::span<const HeadClusters> of_layer =
          clusters.empty() || i >= num_full
              ? std::span<const HeadClusters>()
              : std::span<const HeadClusters>(clusters).subspan(i * heads, heads);
      for (const HeadClusters& head : of_layer) {
        for (size_t level = 0; level < head.tree.levels.size(); ++level) {
          centroids_[level] += head.tree.levels[level].num_clusters();
        }
      }
      LECTERN_ASSIGN(ShardSummary summary,
                     WriteLayerShard(context_.env, temp_dir_, directory_, context_.backend, *spill_,
                                     layers[i], LayoutOf(layers[i]), Header(), of_layer));
      shards_.push_back(std::move(summary));
      LECTERN_RETURN_IF_ERROR(spill_->RemoveLayer(layers[i]));
    }
    report_.seconds.write += SecondsSince(write_start);
    return {};
  }

  // Of the RoPE that clusters are to be made without.
  std::span<const float> UndoneFrequencies() const {
    if (options_.cluster_keys == "stored") return {};
    return rope_.frequencies;
  }

  RowLayout LayoutOf(uint32_t layer) const { return LayoutOfLayer(layout_, config_, layer); }

  ShardHeader Header() const {
    ShardHeader header{};
    std::copy(row_.id.begin(), row_.id.end(), header.document_id);
    std::copy(row_.fingerprint.begin(), row_.fingerprint.end(), header.fingerprint);
    header.generation = row_.generation;
    header.num_tokens = layout_.num_tokens;
    header.num_layers = config_.num_layers;
    header.num_kv_heads = config_.num_kv_heads;
    header.head_dim = config_.head_dim;
    header.kv_dtype = static_cast<uint32_t>(layout_.dtype);
    header.num_levels = layout_.num_levels;
    header.num_sinks = layout_.num_sinks;
    header.num_window = layout_.num_window;
    return header;
  }

  Status WriteDocumentShard() {
    ShardHeader header = Header();
    header.kind = static_cast<uint32_t>(ShardKind::kDocument);
    // A leftover of an interrupted run is written again: the name may differ.
    if (Status removed = context_.env.Remove(directory_ + "/" + kDocumentFile);
        !removed.ok() && removed.code() != Code::kMissingFile) {
      return removed;
    }
    LECTERN_ASSIGN(const auto writer,
                   ShardWriter::Create(context_.env, temp_dir_, directory_, kDocumentFile, header));
    const auto add = [&](SectionKind kind, const void* data, size_t bytes) {
      return writer->AddSection(kind, 0, 0, data, bytes);
    };
    const FixedContext& tokens = prepared_.tokens;
    const std::string& text = prepared_.clean.text;
    const std::string model = ModelJson(), chat = context_.model.chat_template().identity();
    LECTERN_RETURN_IF_ERROR(add(SectionKind::kText, text.data(), text.size()));
    LECTERN_RETURN_IF_ERROR(
        add(SectionKind::kTokens, tokens.ids.data(), tokens.ids.size() * sizeof(int32_t)));
    LECTERN_RETURN_IF_ERROR(add(SectionKind::kTokenRanges, tokens.ranges.data(),
                                tokens.ranges.size() * sizeof(tokens.ranges[0])));
    LECTERN_RETURN_IF_ERROR(add(SectionKind::kTemplate, chat.data(), chat.size()));
    LECTERN_RETURN_IF_ERROR(add(SectionKind::kName, names_.name.data(), names_.name.size()));
    LECTERN_RETURN_IF_ERROR(add(SectionKind::kModel, model.data(), model.size()));
    const std::string& source = names_.source;
    if (!source.empty()) {
      LECTERN_RETURN_IF_ERROR(add(SectionKind::kSource, source.data(), source.size()));
    }
    if (!options_.pages.empty()) {
      LECTERN_RETURN_IF_ERROR(add(SectionKind::kPageMap, options_.pages.data(),
                                  options_.pages.size() * sizeof(PageMapEntry)));
    }
    if (layout_.num_levels > 0) {
      const std::string statistics = StatisticsJson();
      LECTERN_RETURN_IF_ERROR(add(SectionKind::kStatistics, statistics.data(), statistics.size()));
      const std::span<const double> sums = spill_->CosineSums();
      LECTERN_RETURN_IF_ERROR(add(SectionKind::kCosineSums, sums.data(), sums.size_bytes()));
    }
    LECTERN_ASSIGN(ShardSummary summary, writer->Finish());
    shards_.push_back(std::move(summary));
    return {};
  }

  // Asks the document, complete but not yet visible, what its estimates are worth.
  Status Calibrate() {
    const auto start = Clock::now();
    work_ram_ = {};
    LECTERN_ASSIGN(const std::shared_ptr<const Document> document,
                   Document::Open(context_.env, directory_, row_, shards_, context_.reading()));
    const auto measure = [&](const SessionDevice& device) {
      return MeasureMissed(document, context_.model, context_.backend, context_.threads,
                           [this] { return progress_.Stopped(); }, device);
    };
    auto measured = measure(DeviceOf(document));
    if (IsForWantOfDeviceMemory(measured.status())) {
      Warn("cpu_fallback", "estimates were measured on the CPU: " + measured.status().wordings());
      measured = measure({});
    }
    LECTERN_ASSIGN(missed_, std::move(measured));
    report_.seconds.calibrate += SecondsSince(start);
    return {};
  }

  // Where this document is asked.
  SessionDevice DeviceOf(const std::shared_ptr<const Document>& document) const {
    SessionDevice device = {device_.transformer, nullptr, ""};
    if (device_.transformer && HasDeviceAttention(*device_.transformer->device(),
                                                  document->kv_dtype(), config_.head_dim)) {
      device.document =
          std::make_shared<DeviceDocument>(device_.transformer->device(), document,
                                           context_.backend, DeviceRoomForAsking(config_));
    }
    return device;
  }

  std::string ModelJson() const {
    const ChatTemplate& chat = context_.model.chat_template();
    Json::Object json = {{"model", Json(context_.model.folder())},
                         {"template", Json(chat.name())},
                         {"kv_budget", Json(double{options_.kv_budget})},
                         {"kv_type", Json(DtypeName(layout_.dtype))},
                         {"layer_budget", Json(options_.layer_budget)},
                         {"head_budget", Json(options_.head_budget)},
                         {"levels", Json(int64_t{layout_.num_levels})},
                         {"seed", Json(options_.seed)},
                         {"cluster_keys", Json(options_.cluster_keys)},
                         {"stats", Json(options_.stats)},
                         {"faiss", Json(FaissVersion())}};
    if (chat.name() == kFileTemplate) json["template_text"] = Json(chat.jinja());
    if (!prepared_.date.empty()) json["template_date"] = Json(prepared_.date);
    if (const WeightsType type = context_.model.weights().type(); type != WeightsType::kStored) {
      json["weights"] = Json(WeightsName(type));
    }
    if (prepared_.prefill_budget < 1) AddPrefill(json, prepared_.prefill_budget);
    if (!report_.gpu.empty()) AddDevice(json, report_.device, report_.gpu);
    if (missed_.is_measured()) {
      json["missed"] = MissedCalibrationJson(missed_, config_.num_layers);
    }
    if (!layout_.retention.keeps_all()) {
      const std::span<const uint64_t> kept = spill_->kept_rows();
      AddRetention(json, layout_.retention);
      json["kept_rows"] = Json(std::accumulate(kept.begin(), kept.end(), uint64_t{0}));
    }
    return Json(std::move(json)).Dump();
  }

  std::string StatisticsJson() const {
    Json::Array cosines;
    for (const double cosine : spill_->MeanCosines()) cosines.emplace_back(cosine);
    return Json(Json::Object{{"cosine", std::move(cosines)}}).Dump();
  }

  // The only point at which the document becomes visible.
  Status Commit() {
    row_.state = DocumentState::kReady;
    for (const ShardSummary& shard : shards_) report_.bytes_on_disk += shard.bytes;
    row_.bytes_on_disk = report_.bytes_on_disk;
    row_.report_json = IndexReportJson(report_);
    return catalog_.CommitDocument(row_, shards_, names_.change);
  }

  const IndexContext& context_;
  const IndexDevice device_;
  const ModelConfig& config_;
  const IndexOptions& options_;
  const PreparedDocument& prepared_;
  Catalog& catalog_;
  IndexProgressMeter& progress_;
  const NamePlan& names_;
  const std::string temp_dir_;
  const RopeTable rope_;
  RowLayout layout_{};
  DocumentRow row_;
  std::string directory_;
  std::unique_ptr<KvSpill> spill_;
  std::vector<ShardSummary> shards_;
  std::vector<uint64_t> centroids_;  // per level
  MissedCalibration missed_;         // once it is measured
  RamLimit::Share text_ram_, work_ram_;
  size_t num_clustering_ = 1;  // kv heads at a time
  DeviceClustering clustering_;  // without assigners: here
  bool says_clustered_here_ = false;
  IndexReport report_;
};

bool HasName(const DocumentRow& row, const std::string& name) {
  return std::ranges::any_of(row.names, [&](const DocumentName& n) { return n.name == name; });
}

}  // namespace

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

Result<IndexReport> IndexDocument(const IndexContext& context, std::string_view bytes,
                                  const IndexOptions& options) try {
  const auto start = Clock::now();
  LECTERN_ASSIGN(const PreparedDocument prepared, PrepareDocument(context.model, bytes, options));
  const double read_seconds = SecondsSince(start);
  IndexProgressMeter progress(options, context.model.config(), prepared.tokens.ids.size(),
                              prepared.prefill_budget);

  const auto existed = [&](IndexReport report) {
    AddAssumptions(context.model, prepared, &report);
    report.seconds.read = read_seconds;
    report.seconds.total = SecondsSince(start);
    return report;
  };
  // A document that is there under its names needs no lock and no store that can be written.
  LECTERN_ASSIGN(const auto ready, FindReady(context, prepared.id));
  const bool is_there = ready && !options.again && HasPages(context, *ready, options);
  NamePlan planned;
  if (is_there) {
    LECTERN_ASSIGN(planned, PlanNamesOf(context, prepared, options));
    if (!planned.IsChange()) return existed(ExistingReport(*ready, planned, options));
  }
  auto locked = LockStore(context.env, context.store);
  // All that is new may be where a name comes from; a store that cannot be written does without.
  if (is_there && locked.status().code() == Code::kReadOnly && HasName(*ready, planned.name)) {
    return existed(ExistingReport(*ready, planned, options));
  }
  LECTERN_ASSIGN(const auto lock, std::move(locked));
  LECTERN_ASSIGN(const auto catalog,
                 Catalog::Open(context.env, CatalogPath(context.store), Catalog::Mode::kReadWrite));
  LECTERN_ASSIGN(const auto existing, catalog->FindReady(prepared.id));
  LECTERN_ASSIGN(const NamePlan names, PlanNamesIn(context, *catalog, prepared, options));
  if (existing && !options.again && HasPages(context, *existing, options)) {
    if (names.IsChange()) {
      LECTERN_RETURN_IF_ERROR(catalog->ChangeNames(prepared.id, names.change));
      (void)CollectGarbage(context.env, context.store, *catalog);
    }
    return existed(ExistingReport(*existing, names, options));
  }
  IndexOptions chosen = options;
  if (existing && chosen.pages.empty()) chosen.pages = StoredPages(context, *existing);
  IndexDevice device;
  if (context.find_device) {
    LECTERN_ASSIGN(device, context.find_device());
  }
  Indexer indexer(context, std::move(device), chosen, prepared, *catalog, progress, names);
  indexer.report().seconds.read = read_seconds;
  LECTERN_ASSIGN(IndexReport report, indexer.Run());
  report.seconds.total = SecondsSince(start);
  return report;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "not enough memory to index the document; use fewer threads");
}

Result<IndexEstimate> EstimateIndex(const IndexContext& context, std::string_view bytes,
                                    const IndexOptions& options) try {
  LECTERN_ASSIGN(const PreparedDocument prepared, PrepareDocument(context.model, bytes, options));
  const ModelConfig& config = context.model.config();
  const uint64_t tokens = prepared.tokens.ids.size();
  IndexEstimate estimate;
  estimate.tokens = tokens;
  const DiskCost cost = CostOnDisk(config, options, prepared);
  estimate.bytes_on_disk = cost.finished;
  estimate.peak_bytes_on_disk = cost.peak;
  estimate.anonymous_bytes =
      IndexingBytes(config, tokens, context.threads.num_threads(), prepared.prefill_budget);
  estimate.flops = PrefillFlops(config, static_cast<double>(tokens), options.stats == "full",
                                prepared.prefill_budget);
  const double cluster_flops =
      tokens >= kMinClusteredTokens ? ClusterFlops(config, static_cast<double>(tokens)) : 0;
  // Attention and clustering reach about half the speed of a plain product.
  estimate.seconds =
      (estimate.flops + cluster_flops) / (0.5 * TrialFlopsPerSecond(context.backend) *
                                          static_cast<double>(context.threads.num_threads()));
  std::string existing = context.store;
  for (;;) {  // the store need not exist yet: ask the nearest folder that does
    LECTERN_ASSIGN(const bool there, context.env.Exists(existing));
    const size_t slash = existing.find_last_of('/');
    if (there || slash == std::string::npos) break;
    existing = slash == 0 ? "/" : existing.substr(0, slash);
  }
  LECTERN_ASSIGN(estimate.free_bytes, context.env.FreeBytes(existing));
  LECTERN_ASSIGN(const auto row, FindReady(context, prepared.id));
  estimate.existed = row.has_value() && !options.again && HasPages(context, *row, options);
  return estimate;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "not enough memory to read the document");
}

}  // namespace lectern
