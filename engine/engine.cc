#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <new>
#include <system_error>

#include "engine/asking/cite.h"
#include "engine/document/document.h"
#include "engine/document/document_names.h"
#include "engine/document/find_document.h"
#include "engine/document/parts.h"
#include "engine/index_runs.h"
#include "engine/indexing/change_plan.h"
#include "engine/indexing/index_parts.h"
#include "engine/indexing/text_file.h"
#include "engine/model/formats/json.h"
#include "engine/open_collections.h"
#include "engine/open_store.h"
#include "engine/requests/absolute_path.h"
#include "engine/requests/options.h"
#include "engine/requests/report_json.h"

namespace lectern {
namespace {

class LocalEngine : public Engine {
 public:
  LocalEngine(const EngineOptions& options, const Backend& backend, DeviceChoice device,
              std::optional<ChatSource> chat_template)
      : open_(std::make_shared<OpenStore>(options, backend, std::move(device),
                                          std::move(chat_template))),
        env_(open_->env()),
        store_(open_->path()),
        runs_(std::make_shared<IndexRuns>(open_)),
        collections_(std::make_shared<OpenCollections>(open_, runs_)) {}

  Result<IndexReport> Index(std::string_view bytes, const IndexOptions& options) override {
    return runs_->Index(bytes, options);
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
    LECTERN_ASSIGN(const auto model, open_->ModelToIndex(/*makes_store=*/false, options.cancel));
    IndexContext context = open_->Context(*model);
    context.flops_per_second = [this, cancel = options.cancel] {
      return open_->TrialSpeed(cancel);
    };
    return EstimateAnyLength(context, bytes, options);
  }

  Result<std::unique_ptr<Session>> Open(std::string_view name, const CancelFlag* cancel) override {
    const auto start = std::chrono::steady_clock::now();
    LECTERN_ASSIGN(const OpenStore::Opened opened, open_->OpenNamed(name, cancel));
    return open_->OpenSession(opened, start, cancel);
  }

  Counts counts() override {
    const StepBatch::Counts steps = open_->counts();
    return {.step_passes = steps.passes, .step_tokens = steps.tokens};
  }

  Result<std::vector<DocumentRow>> List() override {
    LECTERN_ASSIGN(const auto catalog, open_->OpenCatalog(Catalog::Mode::kReadOnly));
    LECTERN_ASSIGN(std::vector<DocumentRow> rows, catalog->List());
    std::map<DocumentId, uint64_t> bytes_of_parts;  // by the document to which they belong
    for (const DocumentRow& row : rows) {
      for (const DocumentName& name : row.names) {
        if (const auto whole = WholeOf(name.name)) bytes_of_parts[*whole] += row.bytes_on_disk;
      }
    }
    std::erase_if(rows, [](const DocumentRow& row) {
      return row.state == DocumentState::kDead || IsOnlyPart(row);
    });
    for (DocumentRow& row : rows) {
      if (row.state == DocumentState::kBuilding) row.name = BuildingName(row);
      std::erase_if(row.names, [](const DocumentName& name) { return WholeOf(name.name); });
      row.bytes_on_disk += bytes_of_parts[row.id];
    }
    return rows;
  }

  Result<DocumentRow> Find(std::string_view name) override {
    LECTERN_ASSIGN(DocumentRow row, open_->Find(name));
    std::erase_if(row.names, [](const DocumentName& one) { return WholeOf(one.name); });
    if (PartsOf(row) > 0) {
      LECTERN_ASSIGN(const std::vector<DocumentRow> rows, Rows());
      for (const DocumentRow& part : PartsIn(rows, row.id)) row.bytes_on_disk += part.bytes_on_disk;
    }
    return row;
  }

  Result<std::vector<ShardSummary>> Shards(const DocumentRow& document) override {
    return open_->Shards(document);
  }

  Result<std::vector<Damage>> Verify(std::string_view name, bool full) override {
    LECTERN_ASSIGN(const std::vector<DocumentRow> all, Rows());
    std::vector<DocumentRow> rows = all;
    if (!name.empty()) {
      LECTERN_ASSIGN(DocumentRow row, Find(name));
      rows = PartsIn(all, row.id);
      rows.insert(rows.begin(), std::move(row));
    }
    std::vector<Damage> damages;
    for (const DocumentRow& row : rows) {
      if (row.state != DocumentState::kReady) continue;
      Status status = VerifyOne(row, full);
      if (status.ok()) continue;
      if (status.code() == Code::kOutOfMemory) return status;  // it could not be checked
      LECTERN_ASSIGN(const std::vector<DocumentRow> now, Rows());
      const bool is_there = std::any_of(now.begin(), now.end(), [&](const DocumentRow& other) {
        return other.generation == row.generation && other.state == DocumentState::kReady;
      });
      // Otherwise it was removed or replaced while it was read, together with its files.
      if (is_there) damages.push_back({ToHex(row.id), row.name, std::move(status)});
    }
    if (name.empty()) LECTERN_RETURN_IF_ERROR(collections_->VerifyAll(full, damages));
    return damages;
  }

  Result<CitedText> Cite(std::string_view name, const CiteRequest& request) override {
    LECTERN_ASSIGN(const OpenStore::Opened opened, open_->OpenNamed(name, nullptr));
    return CiteFromDocument(opened.text(), request);
  }

  Result<DocumentPlan> ShowPlan(std::string_view name) override {
    LECTERN_ASSIGN(OpenStore::Opened opened, open_->OpenNamed(name, nullptr));
    if (opened.document) return opened.document->StoredPlan();
    // The part with the largest budget.
    std::optional<DocumentPlan> largest;
    for (const Part& part : opened.in_parts->parts()) {
      LECTERN_ASSIGN(const OpenStore::Opened one, open_->OpenNamed(ToHex(IdOf(part)), nullptr));
      LECTERN_ASSIGN(DocumentPlan plan, one.document->StoredPlan());
      if (!largest || plan.kv_budget > largest->kv_budget) largest = std::move(plan);
    }
    return *std::move(largest);
  }

  Status ChangePlan(std::string_view name, const PlanChange& change) override {
    LECTERN_ASSIGN(const auto lock, runs_->Lock());
    LECTERN_ASSIGN(const OpenStore::Opened opened, open_->OpenNamed(name, nullptr));
    std::vector<DocumentId> ids = {opened.row.id};
    if (opened.in_parts) {
      ids.clear();
      for (const Part& part : opened.in_parts->parts()) ids.push_back(IdOf(part));
    }
    for (const DocumentId& id : ids) {
      LECTERN_ASSIGN(const OpenStore::Opened one, open_->OpenNamed(ToHex(id), nullptr));
      LECTERN_ASSIGN(const auto model, open_->ModelOf(*one.document, nullptr));
      LECTERN_RETURN_IF_ERROR(lectern::ChangePlan(open_->Context(*model), id, change));
    }
    return {};
  }

  Result<Removed> Remove(std::string_view name) override {
    LECTERN_RETURN_IF_ERROR(open_->OpenCatalog(Catalog::Mode::kReadOnly).status());  // it is there
    open_->CloseIdleParts();
    LECTERN_ASSIGN(const auto lock, LockStore(env_, store_));
    LECTERN_ASSIGN(const auto catalog, open_->OpenCatalog(Catalog::Mode::kReadWrite));
    return RemoveNamed(env_, store_, *catalog, name);
  }

  Result<Collected> Collect() override {
    LECTERN_RETURN_IF_ERROR(CheckStoreExists());
    open_->CloseIdleParts();
    LECTERN_ASSIGN(const auto lock, LockStore(env_, store_));
    // A store that lost its catalog gets an empty one here: whole documents are then `unknown`.
    LECTERN_ASSIGN(const auto catalog,
                   Catalog::Open(env_, CatalogPath(store_), Catalog::Mode::kReadWrite));
    LECTERN_RETURN_IF_ERROR(RemoveOrphanedParts(env_, store_, *catalog));
    LECTERN_ASSIGN(Collected collected, CollectGarbage(env_, store_, *catalog));
    LECTERN_RETURN_IF_ERROR(RemoveUnneededWeights(env_, store_, *catalog, &collected));
    return collected;
  }

  Result<Recovered> Recover() override {
    LECTERN_RETURN_IF_ERROR(CheckStoreExists());
    LECTERN_ASSIGN(Recovered recovered, RecoverCatalog(env_, store_, [](std::string_view text) {
                     const Result<Json> json = ParseJson(text);
                     const Json* folder = json.ok() ? json->Find("model") : nullptr;
                     return folder != nullptr && folder->string() != nullptr ? *folder->string()
                                                                             : std::string();
                   }));
    LECTERN_ASSIGN(const auto lock, LockStore(env_, store_));
    LECTERN_ASSIGN(const auto catalog, open_->OpenCatalog(Catalog::Mode::kReadWrite));
    LECTERN_RETURN_IF_ERROR(NameParts(env_, store_, *catalog));
    // Documents that are parts are told with the one to which they belong.
    LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog->List());
    std::erase_if(recovered.documents, [&](const DocumentRow& document) {
      return std::ranges::any_of(rows, [&](const DocumentRow& row) {
        return row.id == document.id && row.state == DocumentState::kReady && IsOnlyPart(row);
      });
    });
    return recovered;
  }

  Status Seal() override {
    LECTERN_RETURN_IF_ERROR(open_->OpenCatalog(Catalog::Mode::kReadOnly).status());
    return SealStore(env_, store_);
  }

  Status Export(std::string_view name, const std::string& path) override {
    LECTERN_ASSIGN(const OpenStore::Opened opened, open_->OpenNamed(name, nullptr));
    std::vector<DocumentRow> parts;
    if (opened.in_parts) {
      for (const Part& part : opened.in_parts->parts()) {
        LECTERN_ASSIGN(parts.emplace_back(), Find(ToHex(IdOf(part))));
      }
    }
    return ExportDocument(env_, store_, opened.row, AbsolutePath(path), parts);
  }

  Result<Imported> Import(const std::string& path, const std::string& name) override {
    LECTERN_RETURN_IF_ERROR(CheckName(name));
    LECTERN_ASSIGN(const auto lock, LockStore(env_, store_));
    LECTERN_ASSIGN(const auto catalog,
                   Catalog::Open(env_, CatalogPath(store_), Catalog::Mode::kReadWrite));
    const std::string file = AbsolutePath(path);
    const auto name_it = [&](const ImportedHead& head) -> Result<ImportNames> {
      const DocumentRow& row = head.row;
      if (head.whole != nullptr) {
        ImportNames part;
        part.change.names = {{PartName(head.whole->id, head.number), ""}};
        return part;
      }
      LECTERN_ASSIGN(const auto there, catalog->FindReady(row.id));
      if (name.empty() && there && !there->names.empty()) return ImportNames{{}, there->name, ""};
      if (name.empty() && row.name.empty()) return ImportNames();
      LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog->List());
      NamePlan plan =
          PlanNames(rows, {.name = name, .source = file, .path = row.name}, row.id);
      return ImportNames{std::move(plan.change), plan.name, plan.note};
    };
    auto imported = ImportDocument(env_, store_, *catalog, file, name_it, open_->quota_bytes());
    // Parts that came before an error have no document.
    if (!imported.ok() && RemoveOrphanedParts(env_, store_, *catalog).ok()) {
      (void)CollectGarbage(env_, store_, *catalog);
    }
    return imported;
  }

  Result<std::vector<CollectionSummary>> Collections() override { return collections_->List(); }

  Result<std::vector<CollectionDocument>> CollectionDocuments(std::string_view name) override {
    return collections_->Documents(name);
  }

  Result<std::string> ReadInCollection(std::string_view name, std::string_view document) override {
    return collections_->Read(name, document);
  }

  Result<std::vector<AddedToCollection>> AddToCollection(
      std::string_view name, std::span<const CollectionText> texts) override {
    return collections_->Add(name, texts);
  }

  Result<AddedToCollection> AddDocumentToCollection(std::string_view name,
                                                    std::string_view document) override {
    return collections_->AddDocument(name, document);
  }

  Status RemoveFromCollection(std::string_view name, std::string_view document) override {
    return collections_->RemoveDocument(name, document);
  }

  Status RenameInCollection(std::string_view name, std::string_view from,
                            const std::string& to) override {
    return collections_->RenameDocument(name, from, to);
  }

  Status RemoveCollection(std::string_view name) override { return collections_->Remove(name); }

  Status RenameCollection(std::string_view name, const std::string& to) override {
    return collections_->Rename(name, to);
  }

  Status VerifyCollection(std::string_view name) override { return collections_->Verify(name); }

  Result<std::unique_ptr<Session>> OpenCollection(std::string_view name) override {
    return collections_->Open(name);
  }

  Result<Mentions> FindMentions(std::string_view name, std::string_view words,
                                size_t most) override {
    return collections_->Find(name, words, most);
  }

  Result<IndexedCollection> IndexCollection(std::string_view name, const IndexOptions& options,
                                            const CollectionProgress& on_progress) override {
    return collections_->Index(name, options, on_progress);
  }

 private:
  // All rows of the catalog, parts included.
  Result<std::vector<DocumentRow>> Rows() {
    LECTERN_ASSIGN(const auto catalog, open_->OpenCatalog(Catalog::Mode::kReadOnly));
    return catalog->List();
  }

  // For a store whose catalog may be lost.
  Status CheckStoreExists() {
    LECTERN_ASSIGN(const bool exists, env_.Exists(store_ + "/docs"));
    if (exists) return {};
    return Status(Code::kNotFound, "there is no store in " + store_).WithParam("store");
  }

  Status VerifyOne(const DocumentRow& row, bool full) {
    LECTERN_ASSIGN(const OpenStore::Opened opened, open_->OpenFresh(row));
    if (opened.in_parts) return opened.in_parts->VerifyAll();
    const std::shared_ptr<const Document>& document = opened.document;
    if (full) return document->VerifyAll();
    for (uint32_t layer = 0; layer < document->num_layers(); ++layer) {
      const auto heads = document->Heads(layer);
      if (!heads.ok()) return heads.status();
    }
    return {};
  }

  const std::shared_ptr<OpenStore> open_;  // sessions on documents in parts have it, too
  Env& env_;
  const std::string& store_;
  const std::shared_ptr<IndexRuns> runs_;
  const std::shared_ptr<OpenCollections> collections_;
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
