// The engine behind both APIs: a store, the models that its documents need, indexing and asking.
// Embedders use lectern.h (C++) or lectern_c.h (C); this header has no stable ABI.
#ifndef LECTERN_ENGINE_ENGINE_H_
#define LECTERN_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/asking/session.h"
#include "engine/requests/requests.h"
#include "store/bundle.h"
#include "store/catalog.h"
#include "store/status.h"
#include "store/store.h"

namespace lectern {

// --- the engine -------------------------------------------------------------------------------

// Thread-safe. Sessions ask concurrently, and those of one model share passes over its weights.
// Only one Index runs at a time; others get kLocked.
class Engine {
 public:
  // Opens nothing yet: the store and models are opened when they are first needed.
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options);
  virtual ~Engine() = default;

  // Cleans, tokenises, prefills, clusters and commits `bytes`. All or nothing: on error the store
  // is as before, except for a checkpoint from which the next call continues. Indexing the same
  // document again does nothing (`existed`). kEmptyDocument, kContextTooLong, kNoSpace, kReadOnly,
  // kLocked, kCancelled, model errors.
  virtual Result<IndexReport> Index(std::string_view bytes, const IndexOptions& options) = 0;
  // The same for a text file, which is read here. Also the codes of ReadTextFile
  // (engine/indexing/text_file.h). `source` and `path` of the options are set from the file.
  virtual Result<IndexReport> IndexFile(const std::string& path, const IndexOptions& options) = 0;
  // Estimates what Index would cost, and changes nothing. Codes of Index.
  virtual Result<IndexEstimate> Estimate(std::string_view bytes, const IndexOptions& options) = 0;

  // Opens a conversation. `document` is an id, a name, the end of a source's path that includes a
  // folder and fits one document, or empty for the only one (kAmbiguous lists them, kNotFound if
  // there is none). kModelMismatch names both sides; kMissingFile, kTruncated, kChecksumMismatch,
  // kCorrupt; kCancelled while a model is read.
  virtual Result<std::unique_ptr<Session>> Open(std::string_view document,
                                                const CancelFlag* cancel = nullptr) = 0;

  // Decode steps of all sessions since the engine was made (engine/forward/step_batch.h).
  struct Counts {
    uint64_t step_passes = 0, step_tokens = 0;
  };
  virtual Counts counts() = 0;

  virtual Result<std::vector<DocumentRow>> List() = 0;  // ready and building
  // Finds a ready document as Open does, without opening it.
  virtual Result<DocumentRow> Find(std::string_view document) = 0;
  virtual Result<std::vector<ShardSummary>> Shards(const DocumentRow& document) = 0;
  // Checks every shard of the document (empty: of every document): sizes and identities, or with
  // `full` every byte. Returns the first damage of each damaged document; empty: all good.
  virtual Result<std::vector<Damage>> Verify(std::string_view document, bool full) = 0;
  // Finds the passages that support a text, sentence by sentence, by their words. No model is
  // needed, so that kModelMismatch does not occur. The result keeps the document open.
  // kInvalidArgument, kLimitExceeded, else errors of Open.
  virtual Result<CitedText> Cite(std::string_view document, const CiteRequest& request) = 0;
  // The stored plan. kBudgetTooSmall if the document's budget is below the least cost of a step;
  // errors of Open.
  virtual Result<DocumentPlan> ShowPlan(std::string_view document) = 0;
  // Changes the plan of asks that name none. The document is copied to a new generation, and its
  // model measures a few questions again. All or nothing. kInvalidArgument also if the document
  // lacks the statistics of a policy, kBudgetTooSmall, kModelMismatch, kNoSpace, kReadOnly,
  // kLocked, errors of Open.
  virtual Status ChangePlan(std::string_view document, const PlanChange& change) = 0;
  // Removes a document by id with all its names, or a name alone; a document goes with its last
  // name. Readers no longer find it at once; files are deleted when nobody reads them. Also removes
  // documents whose indexing was not finished.
  virtual Result<Removed> Remove(std::string_view document) = 0;
  // These are explained in store/store.h and store/bundle.h.
  virtual Result<Collected> Collect() = 0;
  virtual Result<Recovered> Recover() = 0;
  virtual Status Seal() = 0;
  virtual Status Export(std::string_view document, const std::string& path) = 0;
  virtual Result<Imported> Import(const std::string& path, const std::string& name) = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ENGINE_H_
