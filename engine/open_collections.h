// The collections of a store: sets of texts to which questions are put as one.
#ifndef LECTERN_ENGINE_OPEN_COLLECTIONS_H_
#define LECTERN_ENGINE_OPEN_COLLECTIONS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/asking/collection_session.h"
#include "engine/document/collection.h"
#include "engine/index_runs.h"
#include "engine/open_store.h"
#include "engine/requests/requests.h"
#include "store/status.h"

namespace lectern {

// The collection that has all documents of the store, unless the user made one of this name. It is
// brought up to date whenever it is used.
inline constexpr std::string_view kAllDocuments = "all";

// Belongs to an engine, and to the sessions on collections. Thread-safe. Collections are opened
// anew for each call, which takes a few milliseconds. kNotFound, param "collection": there is none
// of this name, which the message says with those that there are. `name` always names a collection.
class OpenCollections : public std::enable_shared_from_this<OpenCollections> {
 public:
  OpenCollections(std::shared_ptr<OpenStore> open, std::shared_ptr<IndexRuns> runs)
      : open_(std::move(open)), runs_(std::move(runs)) {}

  // These are explained, with their codes, at the functions of Engine that have the same tasks.
  Result<std::vector<CollectionSummary>> List();
  Result<std::vector<CollectionDocument>> Documents(std::string_view name);
  Result<std::string> Read(std::string_view name, std::string_view document);
  Result<std::vector<AddedToCollection>> Add(std::string_view name,
                                             std::span<const CollectionText> texts);
  Result<AddedToCollection> AddDocument(std::string_view name, std::string_view document);
  Status RemoveDocument(std::string_view name, std::string_view document);
  Status RenameDocument(std::string_view name, std::string_view from, const std::string& to);
  Status Remove(std::string_view name);
  Status Rename(std::string_view name, const std::string& to);
  Status Verify(std::string_view name);
  // Adds the first damage of each damaged collection. All rows are read with `full` alone. Codes
  // of Env: the folder cannot be read; kOutOfMemory.
  Status VerifyAll(bool full, std::vector<Damage>& damages);
  Result<std::unique_ptr<Session>> Open(std::string_view name);
  Result<Mentions> Find(std::string_view name, std::string_view words, size_t most);
  Result<IndexedCollection> Index(std::string_view name, const IndexOptions& options,
                                  const CollectionProgress& on_progress);

 private:
  enum class Mode { kRead, kWrite, kCreate };
  Result<std::shared_ptr<Collection>> Use(std::string_view name, Mode mode);
  // The same for changes of its texts. kInvalidArgument: it follows the catalog.
  Result<std::shared_ptr<Collection>> UseToChange(std::string_view name, Mode mode);
  // Brings the collection of all documents up to date.
  Status FollowCatalog(Collection& collection);
  // A document of the store as a text of a collection.
  Result<NewText> TextOf(const DocumentRow& row);
  // A session on a text's document; nothing but kNotFound or kModelMismatch: it is to be indexed.
  Result<CollectionSession::OpenedText> OpenText(Collection& collection, const CollectedText& text,
                                                 const AskOptions& options);
  // The document of the store that was indexed from the same file with the same text; nothing:
  // there is none, or it cannot be read.
  std::optional<DocumentId> FindIndexed(Collection& collection, const CollectedText& text);
  // Indexes a text and notes its document.
  Result<DocumentId> IndexText(Collection& collection, const CollectedText& text,
                               const IndexOptions& options);
  // The model for texts where the engine has none: that of a document of the collection. nullptr:
  // the engine has one. kInvalidArgument, param "model": there is none.
  Result<std::shared_ptr<const Model>> ModelFor(Collection& collection, const CancelFlag* cancel);

  const std::shared_ptr<OpenStore> open_;
  const std::shared_ptr<IndexRuns> runs_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_OPEN_COLLECTIONS_H_
