// Holds the open parts of a store: models, documents and devices; makes sessions of them.
#ifndef LECTERN_ENGINE_OPEN_STORE_H_
#define LECTERN_ENGINE_OPEN_STORE_H_

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/asking/ask.h"
#include "engine/document/document.h"
#include "engine/document/parts.h"
#include "engine/gpu/placement.h"
#include "engine/indexing/index_context.h"
#include "engine/model/found_model.h"
#include "engine/model/model.h"
#include "engine/ranks/rank_group.h"
#include "engine/requests/cancellable_mutex.h"
#include "engine/requests/requests.h"
#include "store/catalog.h"
#include "store/env.h"
#include "store/store.h"

namespace lectern {

// Belongs to an engine, and to the sessions on documents in parts, which open more of it as they
// are asked. Thread-safe. A call that needs a model or document that is not open yet waits while
// another call opens one. Models stay loaded as long as this lives, documents as long as somebody
// has them. `cancel` may be nullptr everywhere: kCancelled if it is set before the call is done.
class OpenStore : public std::enable_shared_from_this<OpenStore> {
 public:
  // `chat_template`: of the options, found; `device`: as they choose. Starts the threads. May throw
  // std::system_error and std::bad_alloc.
  OpenStore(const EngineOptions& options, const Backend& backend, DeviceChoice device,
            std::optional<ChatSource> chat_template);

  Env& env() const { return env_; }
  const std::string& path() const { return store_; }     // absolute
  uint64_t quota_bytes() const { return quota_bytes_; }  // 0: none
  // The parts of this that functions of indexing borrow; `model` is one that a call below returned.
  IndexContext Context(const Model& model);

  // kNotFound, param "store": there is no store; codes of Catalog::Open.
  Result<std::unique_ptr<Catalog>> OpenCatalog(Catalog::Mode mode);
  // FindDocument in this store.
  Result<DocumentRow> Find(std::string_view name);
  Result<std::vector<ShardSummary>> Shards(const DocumentRow& row);

  // A document that is open: one of both.
  struct Opened {
    DocumentRow row;
    std::shared_ptr<const Document> document;
    std::shared_ptr<const PartedDocument> in_parts;
    // Its text; keeps it open.
    std::shared_ptr<const DocumentText> text() const;
  };
  // Opens a document by whatever name Find accepts. Codes of Find, Document::Open and
  // PartedDocument::Open.
  Result<Opened> OpenNamed(std::string_view name, const CancelFlag* cancel);
  // Opens a document that nobody else shares. Codes of Document::Open and PartedDocument::Open.
  Result<Opened> OpenFresh(const DocumentRow& row);
  // Makes a session on a document that OpenNamed returned. `start`: when opening began, for the
  // timings. Codes of Engine::Open.
  Result<std::unique_ptr<Session>> OpenSession(const Opened& opened,
                                               std::chrono::steady_clock::time_point start,
                                               const CancelFlag* cancel);

  // The engine's model, or else the one that the document was indexed with. Codes of Model::Load
  // and FindOllamaModel.
  Result<std::shared_ptr<const Model>> ModelOf(const Document& document, const CancelFlag* cancel);
  // The engine's model, for indexing. `makes_store`: the store is made before, if packed weights
  // are to be kept in it. Codes of ModelOf; kInvalidArgument, param "model": none is given.
  Result<std::shared_ptr<const Model>> ModelToIndex(bool makes_store, const CancelFlag* cancel);
  // Where a document is indexed by this model. Its weights go to the device with the first document
  // or session. Errors of the device.
  Result<Placement> IndexPlacement(const std::shared_ptr<const Model>& model,
                                   const CancelFlag* cancel);
  // Where it is indexed if the device has too little memory for it, and the device is ours to
  // choose; nothing: the error stands.
  std::optional<Placement> InsteadOfDevice(const Status& status) const;
  // Floating-point operations a second of one thread, by a short trial that is made once.
  double TrialSpeed(const CancelFlag* cancel);
  StepBatch::Counts counts();  // sums over all models
  // A session on a document by its id, which is kept open as one of the last ones for the next
  // question. Where memory is short, what is kept open is closed first. `is_part`: it is a part of
  // another document, and kCorrupt if it is in parts itself. Codes of OpenNamed and OpenSession.
  Result<std::unique_ptr<Session>> OpenKept(const DocumentId& document, bool is_part,
                                            const CancelFlag* cancel);
  // Whether the engine's options name a model.
  bool has_model() const { return !given_.text.empty(); }
  // Closes parts of documents that were kept open for the next question, so that their files can be
  // removed, or there is memory for others.
  void CloseIdleParts();

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

  // Sessions share an open document while any of them lives.
  Result<Opened> OpenShared(Catalog& catalog, const DocumentRow& row, const CancelFlag* cancel);
  // OpenFresh with a catalog that is open.
  Result<Opened> OpenListed(Catalog& catalog, const DocumentRow& row);
  // Locks mutex_, which another call may hold while it loads a model. kCancelled: `cancel`, which
  // may be nullptr, is set before it has the lock.
  Result<std::unique_lock<CancellableMutex>> Lock(const CancelFlag* cancel);
  Result<std::string> ModelPath();
  // Whether some matrices of the model will be packed instead of used as stored; false if loading
  // will fail.
  bool WillPack(FoundModel& found);
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
                                                const CancelFlag* cancel);
  // The Jinja program of the model's own chat template, looked for once; empty: it has none. With
  // mutex_ held.
  Result<std::string> OwnTemplate(FoundModel& found);
  // Where a session's work is done, and with whom it shares steps.
  struct Placed {
    Placement placement;
    std::shared_ptr<StepBatch> batch;
  };
  // Decides where a session on this document works: on the device if the model is there and its
  // kernels can read the document's rows, which sessions then share (DeviceDocument); else on the
  // CPU, with the reason in `fallback`. `model` is one that ModelFor returned.
  Result<Placed> PlacedOf(const std::shared_ptr<const Document>& document,
                          const std::shared_ptr<const Model>& model, const CancelFlag* cancel);
  // For a model that ModelFor returned; the caller holds mutex_.
  OpenModel& OpenOf(const std::shared_ptr<const Model>& model);
  // Brings the model to the device, if there is one and the model is not there yet. With mutex_
  // held.
  Status BringModel(OpenModel& open);
  // Every layer uses its weights in every step, so memory is reserved for all of them.
  Result<RamLimit::Share> ReserveWeights(const std::string& folder, ModelSource& source,
                                         WeightsType type);

  Env& env_;
  const std::string store_;
  const GivenModel given_;
  const Backend& backend_;
  const uint64_t quota_bytes_;
  const Io io_;
  const std::shared_ptr<RamLimit> ram_;  // nullptr: no limit
  const std::shared_ptr<ThreadPool> threads_;
  const DeviceChoice device_;
  const bool is_device_left_to_us_;  // the device option is "auto"
  const std::shared_ptr<RankGroup> ranks_;  // that this process leads; nullptr: none
  // Flops per second of one thread, for estimates; 0: not tried yet.
  std::atomic<double> trial_speed_ = 0;
  CancellableMutex mutex_;  // guards the members below, except where they say otherwise
  // By folder, weights, Jinja program of the chat template (empty: none was given and the model has
  // none), and adapter.
  std::map<std::tuple<std::string, WeightsType, std::string, std::string>, OpenModel> models_;
  std::map<std::string, std::string> own_templates_;  // of folders; under mutex_
  struct Known {
    std::weak_ptr<const Document> document;
    std::weak_ptr<const PartedDocument> in_parts;
  };
  std::map<uint64_t, Known> documents_;  // by generation
  // The parts, and documents of collections, that were asked last, the last one first. Each
  // question has sessions of its own on them; these keep what is open and verified.
  struct {
    std::mutex mutex;
    std::deque<std::shared_ptr<const Document>> parts;
  } recent_;
  // For open sessions.
  std::map<const Document*, std::weak_ptr<DeviceDocument>> device_documents_;
  std::mutex batches_mutex_;  // apart, because mutex_ is held while a model is loaded
  std::vector<std::shared_ptr<const StepBatch>> batches_;  // of models_
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_OPEN_STORE_H_
