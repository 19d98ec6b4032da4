#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <new>
#include <system_error>
#include <tuple>

#include "engine/asking/ask.h"
#include "engine/asking/cite.h"
#include "engine/document/document.h"
#include "engine/document/document_names.h"
#include "engine/document/find_document.h"
#include "engine/gpu/memory_plan.h"
#include "engine/gpu/placement.h"
#include "engine/indexing/change_plan.h"
#include "engine/indexing/estimate_index.h"
#include "engine/indexing/index_cost.h"
#include "engine/indexing/index_document.h"
#include "engine/indexing/text_file.h"
#include "engine/model/formats/json.h"
#include "engine/model/found_model.h"
#include "engine/model/model.h"
#include "engine/model/model_source.h"
#include "engine/model/ollama.h"
#include "engine/model/template/chat_template.h"
#include "engine/requests/absolute_path.h"
#include "engine/requests/cancellable_mutex.h"
#include "engine/requests/options.h"

namespace lectern {
namespace {

class LocalEngine : public Engine {
 public:
  LocalEngine(const EngineOptions& options, const Backend& backend, DeviceChoice device,
              std::optional<ChatSource> chat_template)
      : env_(Env::Default()),
        store_(AbsolutePath(options.store)),
        given_({.path = AbsolutePath(options.model),
                .text = options.model,
                .ollama_models = AbsolutePath(options.ollama_models),
                .weights = ParseWeightsName(options.weights),
                .chat_template = std::move(chat_template),
                .adapter = AbsolutePath(options.adapter),
                .rehash = options.rehash_model}),
        backend_(backend),
        quota_bytes_(options.quota_bytes),
        io_(options.io),
        ram_(options.max_ram_bytes > 0 ? std::make_shared<RamLimit>(options.max_ram_bytes)
                                       : nullptr),
        threads_(std::make_shared<ThreadPool>(
            options.num_threads > 0 ? options.num_threads : DefaultThreads(), options.nice)),
        device_(std::move(device)),
        is_device_left_to_us_(options.device == "auto") {}

  Result<IndexReport> Index(std::string_view bytes, const IndexOptions& options) override {
    std::unique_lock lock(index_mutex_, std::try_to_lock);
    if (!lock) {
      return Status(Code::kLocked,
                    "another document is being indexed by this program; wait for it");
    }
    LECTERN_ASSIGN(const std::string path, ModelPath());
    FoundModel found(env_, path, io_);
    // Packed weights are kept in the store, so a new store is created before the model is loaded.
    if (WillPack(found)) LECTERN_RETURN_IF_ERROR(LockStore(env_, store_).status());
    LECTERN_ASSIGN(const auto model, ModelFor(found, {}, options.cancel));
    IndexContext context = Context(*model);
    context.finds_heads = true;
    context.find_device = [&] { return IndexPlacement(model, options.cancel); };
    auto report = IndexDocument(context, bytes, options);
    // With "auto", a document for which the device has too little memory is indexed by the CPU.
    if (is_device_left_to_us_ && IsForWantOfDeviceMemory(report.status())) {
      const Placement here = {.fallback = IndexedOnTheCpu(report.status().wordings())};
      context.find_device = [&] { return here; };
      report = IndexDocument(context, bytes, options);
    }
    // A store that this call created does not have the digest of the model's files yet.
    if (report.ok()) model->KeepDigest(env_, store_);
    return report;
  }

  Result<IndexReport> IndexFile(const std::string& path, const IndexOptions& options) override {
    if (path.empty()) {
      return Status(Code::kInvalidArgument, "no file given: path is empty").WithParam("path");
    }
    const std::string absolute = AbsolutePath(path);
    LECTERN_ASSIGN(TextFile file, ReadTextFile(env_, absolute));
    IndexOptions of_file = options;
    of_file.source = std::move(file.source);
    of_file.path = absolute;
    return Index(file.bytes, of_file);
  }

  Result<IndexEstimate> Estimate(std::string_view bytes, const IndexOptions& options) override {
    LECTERN_ASSIGN(const std::string path, ModelPath());
    FoundModel found(env_, path, io_);
    LECTERN_ASSIGN(const auto model, ModelFor(found, {}, options.cancel));
    IndexContext context = Context(*model);
    context.flops_per_second = [this, cancel = options.cancel] {
      const double known = trial_speed_;
      if (known > 0) return known;
      const double speed = TrialFlopsPerSecond(backend_, cancel);
      if (!IsSet(cancel)) trial_speed_ = speed;  // a cancelled trial is too short
      return speed;
    };
    return EstimateIndex(context, bytes, options);
  }

  Result<std::unique_ptr<Session>> Open(std::string_view name, const CancelFlag* cancel) override {
    const auto start = std::chrono::steady_clock::now();
    LECTERN_ASSIGN(const OpenedDocument opened, OpenNamed(name, cancel));
    const std::shared_ptr<const Document>& document = opened.document;
    LECTERN_ASSIGN(const auto model, ModelOf(*document, cancel));
    const std::chrono::duration<double, std::milli> open = std::chrono::steady_clock::now() - start;
    LECTERN_ASSIGN(Placed placed, PlacedOf(document, model, cancel));
    if (IsSet(cancel)) return Cancelled();
    const auto create = [&] {
      return DocumentSession::Create(document, model, backend_, threads_, open.count(),
                                     placed.placement);
    };
    auto session = create();
    if (!session.ok() && is_device_left_to_us_ && placed.placement.transformer) {
      // The device is full or lost. This session goes alone, because sessions that share steps take
      // them on the device.
      placed = {{.fallback = AnsweredOnTheCpu(session.status().wordings())}, nullptr};
      session = create();
    }
    if (!session.ok()) return std::move(session).status();
    session.value()->ShareSteps(placed.batch);
    return std::unique_ptr<Session>(std::move(session).value());
  }

  Counts counts() override {
    const std::lock_guard lock(batches_mutex_);
    Counts counts;
    for (const auto& batch : batches_) {
      const StepBatch::Counts steps = batch->counts();
      counts.step_passes += steps.passes;
      counts.step_tokens += steps.tokens;
    }
    return counts;
  }

  Result<std::vector<DocumentRow>> List() override {
    LECTERN_ASSIGN(const auto catalog, OpenCatalog(Catalog::Mode::kReadOnly));
    LECTERN_ASSIGN(std::vector<DocumentRow> rows, catalog->List());
    std::erase_if(rows, [](const DocumentRow& row) { return row.state == DocumentState::kDead; });
    for (DocumentRow& row : rows) {
      if (row.state == DocumentState::kBuilding) row.name = BuildingName(row);
    }
    return rows;
  }

  Result<DocumentRow> Find(std::string_view name) override {
    LECTERN_ASSIGN(const auto catalog, OpenCatalog(Catalog::Mode::kReadOnly));
    return FindDocument(env_, store_, *catalog, name);
  }

  Result<std::vector<ShardSummary>> Shards(const DocumentRow& document) override {
    LECTERN_ASSIGN(const auto catalog, OpenCatalog(Catalog::Mode::kReadOnly));
    return catalog->Shards(document.generation);
  }

  Result<std::vector<Damage>> Verify(std::string_view name, bool full) override {
    LECTERN_ASSIGN(std::vector<DocumentRow> rows, List());
    if (!name.empty()) {
      LECTERN_ASSIGN(DocumentRow row, Find(name));
      rows = {std::move(row)};
    }
    std::vector<Damage> damages;
    for (const DocumentRow& row : rows) {
      if (row.state != DocumentState::kReady) continue;
      Status status = VerifyOne(row, full);
      if (status.ok()) continue;
      if (status.code() == Code::kOutOfMemory) return status;  // it could not be checked
      LECTERN_ASSIGN(const std::vector<DocumentRow> now, List());
      const bool is_there = std::any_of(now.begin(), now.end(), [&](const DocumentRow& other) {
        return other.generation == row.generation && other.state == DocumentState::kReady;
      });
      // Otherwise it was removed or replaced while it was read, together with its files.
      if (is_there) damages.push_back({ToHex(row.id), row.name, std::move(status)});
    }
    return damages;
  }

  Result<CitedText> Cite(std::string_view name, const CiteRequest& request) override {
    LECTERN_ASSIGN(const OpenedDocument opened, OpenNamed(name, nullptr));
    return CiteFromDocument(opened.document, request);
  }

  Result<DocumentPlan> ShowPlan(std::string_view name) override {
    LECTERN_ASSIGN(const OpenedDocument opened, OpenNamed(name, nullptr));
    return opened.document->StoredPlan();
  }

  Status ChangePlan(std::string_view name, const PlanChange& change) override {
    std::unique_lock lock(index_mutex_, std::try_to_lock);
    if (!lock) {
      return {Code::kLocked, "a document is being indexed by this program; wait for it"};
    }
    LECTERN_ASSIGN(const OpenedDocument opened, OpenNamed(name, nullptr));
    LECTERN_ASSIGN(const auto model, ModelOf(*opened.document, nullptr));
    return lectern::ChangePlan(Context(*model), opened.row.id, change);
  }

  Result<Removed> Remove(std::string_view name) override {
    LECTERN_RETURN_IF_ERROR(OpenCatalog(Catalog::Mode::kReadOnly).status());  // there is a store
    LECTERN_ASSIGN(const auto lock, LockStore(env_, store_));
    LECTERN_ASSIGN(const auto catalog, OpenCatalog(Catalog::Mode::kReadWrite));
    return RemoveNamed(env_, store_, *catalog, name);
  }

  Result<Collected> Collect() override {
    LECTERN_RETURN_IF_ERROR(CheckStoreExists());
    LECTERN_ASSIGN(const auto lock, LockStore(env_, store_));
    // A store that lost its catalog gets an empty one here: whole documents are then `unknown`.
    LECTERN_ASSIGN(const auto catalog,
                   Catalog::Open(env_, CatalogPath(store_), Catalog::Mode::kReadWrite));
    LECTERN_ASSIGN(Collected collected, CollectGarbage(env_, store_, *catalog));
    LECTERN_RETURN_IF_ERROR(RemoveUnneededWeights(env_, store_, *catalog, &collected));
    return collected;
  }

  Result<Recovered> Recover() override {
    LECTERN_RETURN_IF_ERROR(CheckStoreExists());
    return RecoverCatalog(env_, store_, [](std::string_view text) {
      const Result<Json> json = ParseJson(text);
      const Json* folder = json.ok() ? json->Find("model") : nullptr;
      return folder != nullptr && folder->string() != nullptr ? *folder->string() : std::string();
    });
  }

  Status Seal() override {
    LECTERN_RETURN_IF_ERROR(OpenCatalog(Catalog::Mode::kReadOnly).status());
    return SealStore(env_, store_);
  }

  Status Export(std::string_view name, const std::string& path) override {
    LECTERN_ASSIGN(const DocumentRow row, Find(name));
    return ExportDocument(env_, store_, row, AbsolutePath(path));
  }

  Result<Imported> Import(const std::string& path, const std::string& name) override {
    LECTERN_RETURN_IF_ERROR(CheckName(name));
    LECTERN_ASSIGN(const auto lock, LockStore(env_, store_));
    LECTERN_ASSIGN(const auto catalog,
                   Catalog::Open(env_, CatalogPath(store_), Catalog::Mode::kReadWrite));
    const std::string file = AbsolutePath(path);
    const auto name_it = [&](const DocumentRow& row) -> Result<ImportNames> {
      LECTERN_ASSIGN(const auto there, catalog->FindReady(row.id));
      if (name.empty() && there && !there->names.empty()) return ImportNames{{}, there->name, ""};
      if (name.empty() && row.name.empty()) return ImportNames();
      LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog->List());
      NamePlan plan =
          PlanNames(rows, {.name = name, .source = file, .path = row.name}, row.id);
      return ImportNames{std::move(plan.change), plan.name, plan.note};
    };
    return ImportDocument(env_, store_, *catalog, file, name_it, quota_bytes_);
  }

 private:
  // The model that the options name, if any, and how it is to be read.
  struct GivenModel {
    std::string path;                         // absolute; empty: none was given
    std::string text;                         // as it was given, which may be a name of Ollama's
    std::string ollama_models;                // Ollama's folder of models; empty: none
    std::optional<WeightsType> weights;       // none: the document's
    std::optional<ChatSource> chat_template;  // none: the document's, or the model's own
    std::string adapter;                      // absolute; empty: the document's
    bool rehash = false;
  };
  struct OpenModel {
    std::shared_ptr<const Model> model;
    RamLimit::Share ram;
    // Set by its first session or document.
    std::shared_ptr<const DeviceTransformer> device;
    Message fallback;  // why it is not on the device that was asked for
    std::shared_ptr<StepBatch> batch;
  };

  IndexContext Context(const Model& model) {
    return {.env = env_,
            .store = store_,
            .model = model,
            .backend = backend_,
            .threads = *threads_,
            .quota_bytes = quota_bytes_,
            .io = io_,
            .ram = ram_};
  }

  // For a model that ModelFor returned. Its weights go to the device with the first document or
  // session.
  Result<Placement> IndexPlacement(const std::shared_ptr<const Model>& model,
                                   const CancelFlag* cancel) {
    LECTERN_ASSIGN(const auto lock, Lock(cancel));
    OpenModel& open = OpenOf(model);
    LECTERN_RETURN_IF_ERROR(BringModel(open));
    Placement placement = {.transformer = open.device, .fallback = open.fallback};
    if (const Status alive = open.device ? device_.device->CheckAlive() : Status(); !alive.ok()) {
      if (!is_device_left_to_us_) return alive;
      placement = {.fallback = alive.wordings()};
    }
    if (!placement.fallback.empty()) placement.fallback = IndexedOnTheCpu(placement.fallback);
    return placement;
  }

  // For a store whose catalog may be lost.
  Status CheckStoreExists() {
    LECTERN_ASSIGN(const bool exists, env_.Exists(store_ + "/docs"));
    if (exists) return {};
    return Status(Code::kNotFound, "there is no store in " + store_).WithParam("store");
  }

  Result<std::unique_ptr<Catalog>> OpenCatalog(Catalog::Mode mode) {
    const std::string path = CatalogPath(store_);
    LECTERN_ASSIGN(const bool exists, env_.Exists(path));
    if (!exists) {
      return Status(Code::kNotFound, "there is no store in " + store_ +
                                         "; index a document first, or give another " +
                                         OptionName("store"))
          .WithParam("store");
    }
    return Catalog::Open(env_, path, mode);
  }

  static Status Cancelled() { return {Code::kCancelled, "the call was cancelled"}; }

  // Locks mutex_, which another call may hold while it loads a model. kCancelled: `cancel`, which
  // may be nullptr, is set before it has the lock.
  Result<std::unique_lock<CancellableMutex>> Lock(const CancelFlag* cancel) {
    if (!mutex_.Lock(cancel)) return Cancelled();
    return std::unique_lock(mutex_, std::adopt_lock);
  }

  struct OpenedDocument {
    DocumentRow row;
    std::shared_ptr<const Document> document;
  };
  Result<OpenedDocument> OpenNamed(std::string_view name, const CancelFlag* cancel) {
    LECTERN_ASSIGN(DocumentRow row, Find(name));
    auto opened = OpenDocument(row, cancel);
    // Between the two steps another process may have replaced or removed the document: then it is
    // looked up again.
    for (int attempt = 0; !opened.ok() && attempt < 3; ++attempt) {
      const uint64_t generation = row.generation;
      LECTERN_ASSIGN(row, Find(name));
      if (row.generation == generation && opened.status().code() != Code::kLocked) break;
      opened = OpenDocument(row, cancel);
    }
    LECTERN_ASSIGN(auto document, std::move(opened));
    return OpenedDocument{std::move(row), std::move(document)};
  }

  // Sessions share an open document while any of them lives.
  Result<std::shared_ptr<const Document>> OpenDocument(const DocumentRow& row,
                                                       const CancelFlag* cancel) {
    LECTERN_ASSIGN(const auto lock, Lock(cancel));
    std::weak_ptr<const Document>& cached = documents_[row.generation];
    if (auto document = cached.lock()) return document;
    LECTERN_ASSIGN(const auto document, OpenFresh(row));
    cached = document;
    return document;
  }

  Result<std::shared_ptr<const Document>> OpenFresh(const DocumentRow& row) {
    LECTERN_ASSIGN(const std::vector<ShardSummary> shards, Shards(row));
    return Document::Open(env_, DocumentDirectory(store_, row.id, row.generation), row, shards,
                          {.io = io_, .ram = ram_});
  }

  Status VerifyOne(const DocumentRow& row, bool full) {
    LECTERN_ASSIGN(const auto document, OpenFresh(row));
    if (full) return document->VerifyAll();
    for (uint32_t layer = 0; layer < document->num_layers(); ++layer) {
      const auto heads = document->Heads(layer);
      if (!heads.ok()) return heads.status();
    }
    return {};
  }

  // The engine's model, or else the one that the document was indexed with.
  Result<std::shared_ptr<const Model>> ModelOf(const Document& document,
                                               const CancelFlag* cancel) {
    LECTERN_ASSIGN(const std::string path, ModelPath());
    FoundModel found(env_, path.empty() ? document.row().model_path : path, io_);
    LECTERN_ASSIGN(const auto chat_source, document.chat_source());
    return ModelFor(found, {document.weights(), chat_source, document.adapter()}, cancel);
  }

  Result<std::string> ModelPath() {
    return FindGivenModel(env_, given_.path, given_.text, given_.ollama_models);
  }

  // Whether some matrices of the model will be packed instead of used as stored; false if loading
  // will fail.
  bool WillPack(FoundModel& found) {
    if (given_.weights.value_or(WeightsType::kStored) != WeightsType::kStored) return true;
    const auto source = found.Source();
    if (!source.ok()) return false;
    const auto files = (*source)->Tensors();
    return files.ok() && (*files)->HasBlocks();
  }

  // How a model is read where the engine's options do not prescribe it: as its document was
  // indexed.
  struct Otherwise {
    WeightsType weights = WeightsType::kStored;
    std::optional<ChatSource> chat_template = {};  // none: the model's own
    std::string adapter = {};                      // empty: none
  };
  // Loads a model, or returns the loaded one. One call loads at a time; others wait for it, and a
  // cancelled one ends within 50 ms.
  Result<std::shared_ptr<const Model>> ModelFor(FoundModel& found, const Otherwise& otherwise,
                                                const CancelFlag* cancel) {
    const std::string& folder = found.path();
    if (folder.empty()) {
      return Status(Code::kInvalidArgument, "no model given").WithParam("model");
    }
    LECTERN_ASSIGN(const auto lock, Lock(cancel));
    const WeightsType type = given_.weights.value_or(otherwise.weights);
    LECTERN_ASSIGN(const std::string own, OwnTemplate(found));
    std::optional<ChatSource> chat =
        given_.chat_template ? given_.chat_template : otherwise.chat_template;
    // A document of a model without a template stores "plain", which is the same as none given.
    const bool is_plain = chat && chat->name == kPlainTemplate;
    if (is_plain && !given_.chat_template && own.empty()) chat.reset();
    const std::string& adapter = given_.adapter.empty() ? otherwise.adapter : given_.adapter;
    OpenModel& cached = models_[{folder, type, chat ? chat->jinja : own, adapter}];
    if (!cached.model) {
      LECTERN_ASSIGN(ModelSource* const source, found.Source());
      LECTERN_ASSIGN(RamLimit::Share ram, ReserveWeights(folder, *source, type));
      LECTERN_ASSIGN(cached.model, Model::Load(env_, folder, *source,
                                               {.io = io_,
                                                .store = store_,
                                                .rehash = given_.rehash,
                                                .weights = type,
                                                .quota_bytes = quota_bytes_,
                                                .threads = threads_.get(),
                                                .cancel = cancel,
                                                .chat_template = chat,
                                                .adapter = adapter}));
      cached.ram = std::move(ram);
    }
    return cached.model;
  }

  // The Jinja program of the model's own chat template, looked for once; empty: it has none. With
  // mutex_ held.
  Result<std::string> OwnTemplate(FoundModel& found) {
    auto at = own_templates_.find(found.path());
    if (at == own_templates_.end()) {
      LECTERN_ASSIGN(ModelSource* const source, found.Source());
      LECTERN_ASSIGN(ChatSource own, source->FindChatTemplate());
      at = own_templates_.emplace(found.path(), std::move(own.jinja)).first;
    }
    return at->second;
  }

  // Where a session's work is done, and with whom it shares steps.
  struct Placed {
    Placement placement;
    std::shared_ptr<StepBatch> batch;
  };
  // Decides where a session on this document works: on the device if the model is there and its
  // kernels can read the document's rows, which sessions then share (DeviceDocument); else on the
  // CPU, with the reason in `fallback`. `model` is one that ModelFor returned.
  Result<Placed> PlacedOf(const std::shared_ptr<const Document>& document,
                          const std::shared_ptr<const Model>& model, const CancelFlag* cancel) {
    LECTERN_ASSIGN(const auto lock, Lock(cancel));
    OpenModel& open = OpenOf(model);
    LECTERN_RETURN_IF_ERROR(BringModel(open));
    Placed placed{{.transformer = open.device, .fallback = open.fallback}, open.batch};
    if (!open.fallback.empty()) placed.placement.fallback = AnsweredOnTheCpu(open.fallback);
    if (!open.device) return placed;
    if (std::string why =
            WhyCpuAttends(*open.device->device(), document->kv_dtype(), document->shape().head_dim);
        !why.empty()) {
      placed.placement.fallback = std::move(why);
      return placed;
    }
    const auto found = device_documents_.find(document.get());
    if (found != device_documents_.end()) placed.placement.document = found->second.lock();
    if (!placed.placement.document) {
      std::erase_if(device_documents_, [](const auto& other) { return other.second.expired(); });
      placed.placement.document =
          PlaceDocument(device_.device, document, model->config(), backend_);
      device_documents_[document.get()] = placed.placement.document;
    }
    if (placed.placement.fallback.empty()) placed.placement.fallback = WhyCpuLooksUp(*document);
    return placed;
  }

  // For a model that ModelFor returned; the caller holds mutex_.
  OpenModel& OpenOf(const std::shared_ptr<const Model>& model) {
    const auto found = std::ranges::find_if(
        models_, [&](const auto& other) { return other.second.model == model; });
    assert(found != models_.end());
    return found->second;
  }

  static Message AnsweredOnTheCpu(const Message& why) { return "answered on the CPU: " + why; }
  static Message IndexedOnTheCpu(const Message& why) { return "indexed on the CPU: " + why; }

  // Brings the model to the device, if there is one and the model is not there yet. With mutex_
  // held.
  Status BringModel(OpenModel& open) {
    if (open.batch) return {};
    open.fallback = device_.fallback;
    if (device_.device && open.model->adapter()) {
      open.fallback = "a GPU adds no adapter to a model";
    } else if (device_.device) {
      auto brought = DeviceTransformer::Load(device_.device, open.model, backend_, *threads_);
      if (brought.ok()) {
        open.device = std::move(brought).value();
      } else if (is_device_left_to_us_) {
        open.fallback = brought.status().wordings();
      } else {
        return std::move(brought).status();
      }
    }
    open.batch = std::make_shared<StepBatch>(open.model, backend_, threads_, StepBatch::Limits(),
                                             open.device);
    const std::lock_guard batches_lock(batches_mutex_);
    batches_.push_back(open.batch);
    return {};
  }

  // Every layer uses its weights in every step, so memory is reserved for all of them.
  Result<RamLimit::Share> ReserveWeights(const std::string& folder, ModelSource& source,
                                         WeightsType type) {
    if (!ram_) return RamLimit::Share();
    LECTERN_ASSIGN(const TensorFiles* const files, source.Tensors());
    LECTERN_ASSIGN(const uint64_t bytes, Weights::BytesInUse(*files, source.config(), type));
    return ram_->Reserve(
        bytes, "the model in " + folder,
        "use a smaller model, or weights of fewer bits (" + OptionName("weights", "q4") + ")");
  }

  Env& env_;
  const std::string store_;
  const GivenModel given_;
  const Backend& backend_;
  const uint64_t quota_bytes_;
  const Io io_;
  const std::shared_ptr<RamLimit> ram_;            // nullptr: no limit
  const std::shared_ptr<ThreadPool> threads_;
  const DeviceChoice device_;
  const bool is_device_left_to_us_;  // the device option is "auto"
  std::mutex index_mutex_;
  // Flops per second of one thread, for estimates; 0: not tried yet.
  std::atomic<double> trial_speed_ = 0;
  CancellableMutex mutex_;  // guards the members below, except where they say otherwise
  // By folder, weights, Jinja program of the chat template (empty: none was given and the model has
  // none), and adapter.
  std::map<std::tuple<std::string, WeightsType, std::string, std::string>, OpenModel> models_;
  std::map<std::string, std::string> own_templates_;  // of folders; under mutex_
  std::map<uint64_t, std::weak_ptr<const Document>> documents_;     // by generation
  // For open sessions.
  std::map<const Document*, std::weak_ptr<DeviceDocument>> device_documents_;
  std::mutex batches_mutex_;  // apart, because mutex_ is held while a model is loaded
  std::vector<std::shared_ptr<const StepBatch>> batches_;  // of models_
};

}  // namespace

// Checks the options that need no model, and finds backend and GPU. Models and documents are opened
// when they are first used.
Result<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options) try {
  if (options.store.empty()) {
    return Status(Code::kInvalidArgument, "no store given").WithParam("store");
  }
  LECTERN_RETURN_IF_ERROR(CheckOptions(EngineOptionRows(), options));
  std::optional<ChatSource> chat_template;
  if (!options.chat_template.empty()) {
    LECTERN_ASSIGN(chat_template, FindChatSource(Env::Default(), options.chat_template));
  }
  const Backend* backend = DefaultBackend();
  if (backend == nullptr) {
    return Status(Code::kInvalidArgument,
                  "LECTERN_BACKEND names no backend of this machine; it has scalar and simd")
        .WithParam("LECTERN_BACKEND");
  }
  LECTERN_ASSIGN(DeviceChoice device,
                 ChooseDevice(options.device, options.device_memory_bytes, options.cuda_kernels));
  return std::unique_ptr<Engine>(std::make_unique<LocalEngine>(options, *backend, std::move(device),
                                                               std::move(chat_template)));
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "not enough memory to start");
} catch (const std::system_error& error) {
  return Status(Code::kLimitExceeded, std::string("cannot start so many threads: ") + error.what());
}

}  // namespace lectern
