// The insides: a store, the models that its documents need, indexing and asking.
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

// Thread-safe: sessions ask concurrently, those of one model share passes over its weights; one
// Index at a time, others get kLocked.
class Engine {
 public:
  // Opens nothing yet: stores and models are opened when they are needed.
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options);
  virtual ~Engine() = default;

  // Cleans, tokenises, prefills, clusters and commits `bytes`. All or nothing: on error the store
  // is as before, except for a checkpoint that the next call continues from. The same document
  // again is a no-op (`existed`). kEmptyDocument, kContextTooLong, kNoSpace, kReadOnly, kLocked,
  // kCancelled, model errors.
  virtual Result<IndexReport> Index(std::string_view bytes, const IndexOptions& options) = 0;
  // The same of a text file, which is read here: codes of ReadTextFile
  // (engine/indexing/text_file.h), too. `source` and `path` of the options are its own.
  virtual Result<IndexReport> IndexFile(const std::string& path, const IndexOptions& options) = 0;
  virtual Result<IndexEstimate> Estimate(std::string_view bytes, const IndexOptions& options) = 0;

  // `document`: id, name, the end of a source's path with a folder in it that fits one document, or
  // empty: the only one (kAmbiguous lists them, kNotFound when none).
  // kModelMismatch names both sides; kMissingFile, kTruncated, kChecksumMismatch, kCorrupt;
  // kCancelled while a model is read.
  virtual Result<std::unique_ptr<Session>> Open(std::string_view document,
                                                const CancelFlag* cancel = nullptr) = 0;

  // Steps of all models' sessions since the engine was made (engine/forward/step_batch.h).
  struct Counts {
    uint64_t step_passes = 0, step_tokens = 0;
  };
  virtual Counts counts() = 0;

  virtual Result<std::vector<DocumentRow>> List() = 0;  // ready and building
  virtual Result<DocumentRow> Find(std::string_view document) = 0;
  virtual Result<std::vector<ShardSummary>> Shards(const DocumentRow& document) = 0;
  // Checks every shard of the document (empty: of every document): sizes, identities; `full`: every
  // byte. Returns the first damage of each damaged document; empty: all good.
  virtual Result<std::vector<Damage>> Verify(std::string_view document, bool full) = 0;
  // kBudgetTooSmall where the document's budget is below what a step costs at least, errors of
  // Open.
  virtual Result<DocumentPlan> ShowPlan(std::string_view document) = 0;
  // Makes another plan the one of asks that name none: a new generation of the document, copied
  // from the old one; its model measures a few questions again. All or nothing. kInvalidArgument
  // also where the document lacks the statistics of a policy, kBudgetTooSmall, kModelMismatch,
  // kNoSpace, kReadOnly, kLocked, errors of Open.
  virtual Status ChangePlan(std::string_view document, const PlanChange& change) = 0;
  // By id: the document with all its names. By name: the name alone; the document goes with its
  // last one. What goes is gone for readers at once; files are deleted when nobody reads them. Also
  // what is not indexed to the end.
  virtual Result<Removed> Remove(std::string_view document) = 0;
  // store/store.h and store/bundle.h say what these do.
  virtual Result<Collected> Collect() = 0;
  virtual Result<Recovered> Recover() = 0;
  virtual Status Seal() = 0;
  virtual Status Export(std::string_view document, const std::string& path) = 0;
  virtual Result<Imported> Import(const std::string& path, const std::string& name) = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ENGINE_H_
