#include "engine/open_store.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/asking/parted_session.h"
#include "engine/document/find_document.h"
#include "engine/gpu/memory_plan.h"
#include "engine/indexing/index_cost.h"
#include "engine/model/model_source.h"
#include "engine/model/ollama.h"
#include "engine/model/template/chat_template.h"
#include "engine/requests/absolute_path.h"
#include "engine/requests/options.h"

namespace lectern {
namespace {

Status CallCancelled() { return {Code::kCancelled, "the call was cancelled"}; }

// Parts of documents that stay open. Two questions ask at most eight.
constexpr size_t kMostRecentParts = 8;

Message AnsweredOnTheCpu(const Message& why) { return "answered on the CPU: " + why; }
Message IndexedOnTheCpu(const Message& why) { return "indexed on the CPU: " + why; }

}  // namespace

OpenStore::OpenStore(const EngineOptions& options, const Backend& backend, DeviceChoice device,
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
      ram_(options.max_ram_bytes > 0 ? std::make_shared<RamLimit>(options.max_ram_bytes) : nullptr),
      threads_(std::make_shared<ThreadPool>(
          options.num_threads > 0 ? options.num_threads : DefaultThreads(), options.nice)),
      device_(std::move(device)),
      is_device_left_to_us_(options.device == "auto"),
      ranks_(RankGroup::OfProcess()) {}

IndexContext OpenStore::Context(const Model& model) {
  return {.env = env_,
          .store = store_,
          .model = model,
          .backend = backend_,
          .threads = *threads_,
          .quota_bytes = quota_bytes_,
          .io = io_,
          .ram = ram_,
          .ranks = ranks_};
}

Result<std::unique_ptr<Catalog>> OpenStore::OpenCatalog(Catalog::Mode mode) {
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

Result<DocumentRow> OpenStore::Find(std::string_view name) {
  LECTERN_ASSIGN(const auto catalog, OpenCatalog(Catalog::Mode::kReadOnly));
  return FindDocument(env_, store_, *catalog, name);
}

Result<std::vector<ShardSummary>> OpenStore::Shards(const DocumentRow& row) {
  LECTERN_ASSIGN(const auto catalog, OpenCatalog(Catalog::Mode::kReadOnly));
  return catalog->Shards(row.generation);
}

std::shared_ptr<const DocumentText> OpenStore::Opened::text() const {
  if (document) return {document, &document->contents()};
  return {in_parts, &in_parts->contents()};
}

// The catalog is opened once for both steps, because that takes three milliseconds where files are
// opened slowly (Windows programs under Wine).
Result<OpenStore::Opened> OpenStore::OpenNamed(std::string_view name, const CancelFlag* cancel) {
  LECTERN_ASSIGN(auto catalog, OpenCatalog(Catalog::Mode::kReadOnly));
  LECTERN_ASSIGN(DocumentRow row, FindDocument(env_, store_, *catalog, name));
  auto opened = OpenShared(*catalog, row, cancel);
  // Between the two steps another process may have replaced or removed the document: then it is
  // looked up again, in the catalog that is there now.
  for (int attempt = 0; !opened.ok() && attempt < 3; ++attempt) {
    const uint64_t generation = row.generation;
    LECTERN_ASSIGN(catalog, OpenCatalog(Catalog::Mode::kReadOnly));
    LECTERN_ASSIGN(row, FindDocument(env_, store_, *catalog, name));
    if (row.generation == generation && opened.status().code() != Code::kLocked) break;
    opened = OpenShared(*catalog, row, cancel);
  }
  return opened;
}

Result<OpenStore::Opened> OpenStore::OpenShared(Catalog& catalog, const DocumentRow& row,
                                                const CancelFlag* cancel) {
  LECTERN_ASSIGN(const auto lock, Lock(cancel));
  std::erase_if(documents_, [](const auto& other) {
    return other.second.document.expired() && other.second.in_parts.expired();
  });
  const auto found = documents_.find(row.generation);
  if (found != documents_.end()) {
    Opened opened{row, found->second.document.lock(), found->second.in_parts.lock()};
    if (opened.document || opened.in_parts) return opened;
  }
  LECTERN_ASSIGN(Opened opened, OpenListed(catalog, row));
  documents_[row.generation] = {opened.document, opened.in_parts};
  return opened;
}

Result<OpenStore::Opened> OpenStore::OpenFresh(const DocumentRow& row) {
  LECTERN_ASSIGN(const auto catalog, OpenCatalog(Catalog::Mode::kReadOnly));
  return OpenListed(*catalog, row);
}

Result<OpenStore::Opened> OpenStore::OpenListed(Catalog& catalog, const DocumentRow& row) {
  LECTERN_ASSIGN(const std::vector<ShardSummary> shards, catalog.Shards(row.generation));
  const std::string directory = DocumentDirectory(store_, row.id, row.generation);
  Opened opened{row, nullptr, nullptr};
  if (IsInParts(shards)) {
    LECTERN_ASSIGN(opened.in_parts, PartedDocument::Open(env_, directory, row, shards, ram_));
  } else {
    LECTERN_ASSIGN(opened.document,
                   Document::Open(env_, directory, row, shards, {.io = io_, .ram = ram_}));
  }
  return opened;
}

Result<std::unique_ptr<Session>> OpenStore::OpenSession(const Opened& opened,
                                                        std::chrono::steady_clock::time_point start,
                                                        const CancelFlag* cancel) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  if (opened.in_parts) {
    const auto open_part = [self = shared_from_this()](const DocumentId& part,
                                                       const CancelFlag* flag) {
      return self->OpenKept(part, /*is_part=*/true, flag);
    };
    const double open_ms = Milliseconds(std::chrono::steady_clock::now() - start).count();
    return std::unique_ptr<Session>(
        std::make_unique<PartedSession>(opened.in_parts, open_part, open_ms));
  }
  const std::shared_ptr<const Document>& document = opened.document;
  LECTERN_ASSIGN(const auto model, ModelOf(*document, cancel));
  const double open_ms = Milliseconds(std::chrono::steady_clock::now() - start).count();
  LECTERN_ASSIGN(Placed placed, PlacedOf(document, model, cancel));
  if (IsSet(cancel)) return CallCancelled();
  const auto create = [&] {
    return DocumentSession::Create(document, model, backend_, threads_, open_ms, placed.placement,
                                   ranks_ ? ranks_->Share(document, store_) : nullptr);
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

Result<std::unique_ptr<Session>> OpenStore::OpenKept(const DocumentId& document, bool is_part,
                                                     const CancelFlag* cancel) {
  const auto start = std::chrono::steady_clock::now();
  const auto open = [&]() -> Result<std::unique_ptr<Session>> {
    LECTERN_ASSIGN(const Opened opened, OpenNamed(ToHex(document), cancel));
    if (is_part && opened.in_parts) {
      return Status(Code::kCorrupt,
                    "part " + ToHex(document) + " is in parts; index the document again");
    }
    LECTERN_ASSIGN(auto session, OpenSession(opened, start, cancel));
    if (opened.in_parts) return session;  // its parts are kept, as they are asked
    const std::lock_guard lock(recent_.mutex);
    std::erase(recent_.parts, opened.document);
    recent_.parts.push_front(opened.document);
    if (recent_.parts.size() > kMostRecentParts) recent_.parts.pop_back();
    return session;
  };
  auto session = open();
  if (session.status().code() == Code::kOutOfMemory) {
    CloseIdleParts();
    session = open();
  }
  return session;
}

void OpenStore::CloseIdleParts() {
  const std::lock_guard lock(recent_.mutex);
  recent_.parts.clear();
}

Result<std::shared_ptr<const Model>> OpenStore::ModelOf(const Document& document,
                                                        const CancelFlag* cancel) {
  LECTERN_ASSIGN(const std::string path, ModelPath());
  FoundModel found(env_, path.empty() ? document.row().model_path : path, io_);
  LECTERN_ASSIGN(const auto chat_source, document.chat_source());
  return ModelFor(found, {document.weights(), chat_source, document.adapter()}, cancel);
}

Result<std::shared_ptr<const Model>> OpenStore::ModelToIndex(bool makes_store,
                                                             const CancelFlag* cancel) {
  LECTERN_ASSIGN(const std::string path, ModelPath());
  FoundModel found(env_, path, io_);
  if (makes_store && WillPack(found)) {
    LECTERN_RETURN_IF_ERROR(LockStore(env_, store_).status());
  }
  return ModelFor(found, {}, cancel);
}

Result<Placement> OpenStore::IndexPlacement(const std::shared_ptr<const Model>& model,
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

std::optional<Placement> OpenStore::InsteadOfDevice(const Status& status) const {
  if (!is_device_left_to_us_ || !IsForWantOfDeviceMemory(status)) return std::nullopt;
  return Placement{.fallback = IndexedOnTheCpu(status.wordings())};
}

double OpenStore::TrialSpeed(const CancelFlag* cancel) {
  const double known = trial_speed_;
  if (known > 0) return known;
  const double speed = TrialFlopsPerSecond(backend_, cancel);
  if (!IsSet(cancel)) trial_speed_ = speed;  // a cancelled trial is too short
  return speed;
}

StepBatch::Counts OpenStore::counts() {
  const std::lock_guard lock(batches_mutex_);
  StepBatch::Counts counts;
  for (const auto& batch : batches_) {
    const StepBatch::Counts steps = batch->counts();
    counts.passes += steps.passes;
    counts.tokens += steps.tokens;
  }
  return counts;
}

Result<std::unique_lock<CancellableMutex>> OpenStore::Lock(const CancelFlag* cancel) {
  if (!mutex_.Lock(cancel)) return CallCancelled();
  return std::unique_lock(mutex_, std::adopt_lock);
}

Result<std::string> OpenStore::ModelPath() {
  return FindGivenModel(env_, given_.path, given_.text, given_.ollama_models);
}

bool OpenStore::WillPack(FoundModel& found) {
  if (given_.weights.value_or(WeightsType::kStored) != WeightsType::kStored) return true;
  const auto source = found.Source();
  if (!source.ok()) return false;
  const auto files = (*source)->Tensors();
  return files.ok() && (*files)->HasBlocks();
}

Result<std::shared_ptr<const Model>> OpenStore::ModelFor(FoundModel& found,
                                                         const Otherwise& otherwise,
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

Result<std::string> OpenStore::OwnTemplate(FoundModel& found) {
  auto at = own_templates_.find(found.path());
  if (at == own_templates_.end()) {
    LECTERN_ASSIGN(ModelSource* const source, found.Source());
    LECTERN_ASSIGN(ChatSource own, source->FindChatTemplate());
    at = own_templates_.emplace(found.path(), std::move(own.jinja)).first;
  }
  return at->second;
}

Result<OpenStore::Placed> OpenStore::PlacedOf(const std::shared_ptr<const Document>& document,
                                              const std::shared_ptr<const Model>& model,
                                              const CancelFlag* cancel) {
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
    placed.placement.document = PlaceDocument(device_.device, document, model->config(), backend_);
    device_documents_[document.get()] = placed.placement.document;
  }
  if (placed.placement.fallback.empty()) placed.placement.fallback = WhyCpuLooksUp(*document);
  return placed;
}

OpenStore::OpenModel& OpenStore::OpenOf(const std::shared_ptr<const Model>& model) {
  const auto found =
      std::ranges::find_if(models_, [&](const auto& other) { return other.second.model == model; });
  assert(found != models_.end());
  return found->second;
}

Status OpenStore::BringModel(OpenModel& open) {
  if (open.batch) return {};
  open.fallback = device_.fallback;
  if (device_.device && open.model->adapter()) {
    open.fallback = "a GPU adds no adapter to a model";
  } else if (std::string why = WhyCpuComputes(open.model->config());
             device_.device && !why.empty()) {
    open.fallback = std::move(why);
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
  open.batch =
      std::make_shared<StepBatch>(open.model, backend_, threads_, StepBatch::Limits(), open.device);
  const std::lock_guard batches_lock(batches_mutex_);
  batches_.push_back(open.batch);
  return {};
}

Result<RamLimit::Share> OpenStore::ReserveWeights(const std::string& folder, ModelSource& source,
                                                  WeightsType type) {
  if (!ram_) return RamLimit::Share();
  LECTERN_ASSIGN(const TensorFiles* const files, source.Tensors());
  LECTERN_ASSIGN(const uint64_t bytes, Weights::BytesInUse(*files, source.config(), type));
  return ram_->Reserve(
      bytes, "the model in " + folder,
      "use a smaller model, or weights of fewer bits (" + OptionName("weights", "q4") + ")");
}

}  // namespace lectern
