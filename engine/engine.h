// The engine behind both APIs: a store, the models that its documents need, indexing and asking.
// Embedders use lectern.h (C++) or lectern_c.h (C); this header has no stable ABI.
#ifndef LECTERN_ENGINE_ENGINE_H_
#define LECTERN_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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
// Only one Index or ChangePlan runs at a time; others get kLocked. A call that needs a model or
// document that is not open yet waits while another call opens one. Models stay loaded as long as
// the engine. Where there is no store, every call on documents but Index, IndexFile, Estimate and
// Import is kNotFound, param "store".
class Engine {
 public:
  // Starts the engine's threads, reads a chat template's file and finds the GPU that the options
  // name. The store and models are opened when they are first needed. kInvalidArgument, with the
  // option as param; kLimitExceeded: the system starts no more threads; kOutOfMemory; codes of
  // FindChatSource and ChooseDevice.
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options);
  virtual ~Engine() = default;

  // Cleans, tokenises, prefills, clusters and commits `bytes`. All or nothing: on error the store
  // is as before, except for a checkpoint from which the next call continues, and for the digest
  // and quantised weights of the model, for which a missing store is created. Indexing the same
  // document again does nothing (`existed`). A text that is longer than the model's room is indexed
  // in parts (indexing/index_parts.h). kInvalidArgument, kEmptyDocument, kLimitExceeded (more
  // than 1 GiB), kContextTooLong, kNoSpace, kReadOnly, kLocked, kOutOfMemory, kCancelled, kIoError,
  // codes of FindOllamaModel, Model::Load and the device.
  virtual Result<IndexReport> Index(std::string_view bytes, const IndexOptions& options) = 0;
  // The same for a text file, which is read here. Also the codes of ReadTextFile
  // (engine/indexing/text_file.h). `source` and `path` of the options are set from the file.
  virtual Result<IndexReport> IndexFile(const std::string& path, const IndexOptions& options) = 0;
  // Estimates what Index would cost. Changes no document, and does not call on_progress; the model
  // is loaded, which may keep its digest and quantised weights in a store that is there. Codes of
  // Index without kLocked.
  virtual Result<IndexEstimate> Estimate(std::string_view bytes, const IndexOptions& options) = 0;

  // Opens a conversation, and the document and its model where they are not open yet; keeps the
  // model's digest and quantised weights in the store. `document` is a name, else an id, else the
  // end of a source's path that includes a folder and fits one document (kNotFound lists all
  // documents), or empty for the only one (kAmbiguous lists them, kNotFound if there is none);
  // kNotReady: it is not indexed to the end.
  // kModelMismatch names both sides; codes of Document::Open, Model::Load, FindOllamaModel and the
  // device; kCancelled: `cancel`, which may be nullptr, was set before the session was made.
  virtual Result<std::unique_ptr<Session>> Open(std::string_view document,
                                                const CancelFlag* cancel = nullptr) = 0;

  // Decode steps of sessions since the engine was made, as StepBatch::Counts has them: passes over
  // weights, and tokens taken in them, failed ones too. A session that the GPU could not take, and
  // that therefore runs alone on the CPU, is not counted.
  struct Counts {
    uint64_t step_passes = 0, step_tokens = 0;
  };
  virtual Counts counts() = 0;

  virtual Result<std::vector<DocumentRow>> List() = 0;  // ready and building; codes of Catalog
  // Finds a ready document as Open does, without opening it. kNotFound, kAmbiguous, kNotReady,
  // codes of Catalog.
  virtual Result<DocumentRow> Find(std::string_view document) = 0;
  // The shards of a document that Find or List returned. Codes of Catalog.
  virtual Result<std::vector<ShardSummary>> Shards(const DocumentRow& document) = 0;
  // Checks every shard of the document (empty: of every document, and the collections): sizes and
  // identities, or with `full` every byte. Returns the first damage of each; empty: all good.
  // Documents that are not ready are passed over. kOutOfMemory: a document could not be checked;
  // codes of Find.
  virtual Result<std::vector<Damage>> Verify(std::string_view document, bool full) = 0;
  // Finds the passages that support a text, sentence by sentence, by their words. No model is
  // needed. The result keeps the document open. kInvalidArgument, kLimitExceeded (kMaxCitedBytes),
  // codes of Find, Document::Open and Document::words.
  virtual Result<CitedText> Cite(std::string_view document, const CiteRequest& request) = 0;
  // The stored plan; of a document in parts that of the part with the largest budget. No model is
  // needed. kBudgetTooSmall if the document's budget is below the
  // least cost of a step; codes of Find, Document::Open and Document::StoredPlan.
  virtual Result<DocumentPlan> ShowPlan(std::string_view document) = 0;
  // Changes the plan of asks that name none. The document is copied to a new generation, and its
  // model measures a few questions again. All or nothing, but for a document in parts, where an
  // error leaves the parts before it changed. kInvalidArgument also if the document
  // lacks the statistics of a policy, kBudgetTooSmall, kModelMismatch, kNoSpace, kReadOnly,
  // kLocked, errors of Open.
  virtual Status ChangePlan(std::string_view document, const PlanChange& change) = 0;
  // Removes a document by id (or, if `document` is empty, the only one) with all its names, or a
  // name alone; a document goes with its last name. Readers no longer find it at once; files are
  // deleted when nobody reads them. Also removes documents whose indexing was not finished. The end
  // of a path is kNotFound here. kAmbiguous, kReadOnly, kLocked, codes of RemoveNamed.
  virtual Result<Removed> Remove(std::string_view document) = 0;
  // These are explained, with their codes, in store/store.h and store/bundle.h; all but Export take
  // the store's lock. Collect also removes quantised weights that no document needs, and gives a
  // store that lost its catalog an empty one. Import creates a missing store; an empty `name` means
  // the name that the document was exported with. Seal, unlike SealStore, creates none: kNotFound,
  // param "store".
  virtual Result<Collected> Collect() = 0;
  virtual Result<Recovered> Recover() = 0;
  virtual Status Seal() = 0;
  virtual Status Export(std::string_view document, const std::string& path) = 0;
  virtual Result<Imported> Import(const std::string& path, const std::string& name) = 0;

  // --- collections: sets of texts to which questions are put as one. They keep texts and words in
  // a file of the store each; a text is indexed when it is first asked, or by IndexCollection.
  // "all" is the collection of all documents of the store, unless one was made of this name. Where
  // there is no collection of the name, every call but AddToCollection and AddDocumentToCollection
  // is kNotFound, param "collection". Codes of all: kInvalidArgument (the name), kLocked, kCorrupt,
  // kReadOnly, kNoSpace, kIoError, kOutOfMemory.
  //
  // In byte order of their names. "all" is among them once it was used.
  virtual Result<std::vector<CollectionSummary>> Collections() = 0;
  virtual Result<std::vector<CollectionDocument>> CollectionDocuments(std::string_view name) = 0;
  // The text of a document of a collection, indexed or not, into which the offsets of its passages
  // point. kNotFound, param "document".
  virtual Result<std::string> ReadInCollection(std::string_view name,
                                               std::string_view document) = 0;
  // Adds texts to a collection, which is made if it is missing, store included; needs no model.
  // All or nothing. A text of a known source or name is renewed; the document that was indexed from
  // it before stays in the store until the text is indexed again. [texts]. kEmptyDocument,
  // kInvalidArgument and kLimitExceeded, whose messages name the text.
  virtual Result<std::vector<AddedToCollection>> AddToCollection(
      std::string_view name, std::span<const CollectionText> texts) = 0;
  // Adds a document of the store, whose text is copied. Codes of Find.
  virtual Result<AddedToCollection> AddDocumentToCollection(std::string_view name,
                                                            std::string_view document) = 0;
  // Takes a text out, by its name; its document stays in the store. kNotFound, param "document".
  virtual Status RemoveFromCollection(std::string_view name, std::string_view document) = 0;
  // Gives a text another name in the collection. kNotFound, param "document"; kInvalidArgument,
  // param "name".
  virtual Status RenameInCollection(std::string_view name, std::string_view from,
                                    const std::string& to) = 0;
  // Removes a collection; documents that were indexed from its texts stay in the store.
  virtual Status RemoveCollection(std::string_view name) = 0;
  // kInvalidArgument, param "name": `to` is no name, or taken.
  virtual Status RenameCollection(std::string_view name, const std::string& to) = 0;
  // Reads every text and checks it. kCorrupt.
  virtual Status VerifyCollection(std::string_view name) = 0;
  // Opens a conversation about a collection (asking/collection_session.h). Documents and models are
  // opened as questions need them.
  virtual Result<std::unique_ptr<Session>> OpenCollection(std::string_view name) = 0;
  // Finds the documents with a passage in which the words follow one another, or, where no document
  // has one, that has all of them; at most `most`.
  virtual Result<Mentions> FindMentions(std::string_view name, std::string_view words,
                                        size_t most) = 0;
  // Indexes the texts that have no document of the engine's model yet, in the order in which they
  // were added, until the quota or the disk is full. `options`: for each; names, source and pages
  // are set here. A text that cannot be indexed is passed over. kCancelled: what was done stays.
  // Codes of opening the model.
  virtual Result<IndexedCollection> IndexCollection(std::string_view name,
                                                    const IndexOptions& options,
                                                    const CollectionProgress& on_progress) = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ENGINE_H_
