// The store's directory as a whole: where its files lie, who may change them, which of them may be
// removed, and how a lost catalog is made again. FORMAT.md, sections 1 and 7, has the rules.
//
// `store` is the path of the directory. Except for LockStore, the caller of a function must hold
// the store's lock, unless the function says otherwise.
#ifndef LECTERN_STORE_STORE_H_
#define LECTERN_STORE_STORE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/catalog.h"
#include "store/env.h"
#include "store/status.h"

namespace lectern {

class ShardReader;

std::string CatalogPath(const std::string& store);  // "catalog.db" in the store
// "docs/<id>/<generation>" under the store.
std::string DocumentDirectory(const std::string& store, const DocumentId& id, uint64_t generation);
// "weights/<32 hex digits>.packed": quantised weights for documents of this fingerprint.
std::string PackedWeightsPath(const std::string& store, const Fingerprint& fingerprint);
std::string LayerFile(uint32_t layer);  // "layer-003.shard"
inline constexpr const char* kDocumentFile = "document.shard";
// How far indexing has come, in a generation that is not finished.
inline constexpr const char* kCheckpointFile = "checkpoint";

// Creates the store's folders and locks out other writers, waiting up to 2 s for them. kLocked;
// kReadOnly (also if the store is sealed); kInvalidArgument: the directory holds other things.
Result<std::unique_ptr<FileLock>> LockStore(Env& env, const std::string& store);
// Whether somebody holds the lock now; false also if that cannot be found out. Needs no lock.
bool IsLocked(Env& env, const std::string& store);
// Whether there is a store here that is not sealed. Needs no lock.
bool IsOpenStore(Env& env, const std::string& store);

// kNoSpace unless `needed` bytes and a little more are free in the store's file system. Needs no
// lock.
Status CheckFreeSpace(Env& env, const std::string& store, uint64_t needed);
// Total size of the store's files. Needs no lock.
Result<uint64_t> StoreBytes(Env& env, const std::string& store);
// kNoSpace unless `needed` bytes fit into `quota_bytes` (0: no quota) beside the store's content.
// `directory`: a generation whose existing files are part of `needed`; empty: none.
Status CheckQuota(Env& env, const std::string& store, uint64_t quota_bytes, uint64_t needed,
                  const std::string& directory = "");

// The result of a collection: counts of what it removed, and what it left.
struct Collected {
  uint64_t generations = 0;  // dead ones, unfinished ones without a checkpoint, leftovers
  // Temporary files, checkpoints of finished documents, quantised weights that no document needs.
  uint64_t files = 0;
  // Dead generations that somebody still reads; a later collection removes them.
  uint64_t in_use = 0;
  // Directories with a document shard that the catalog does not know: perhaps the catalog was lost.
  // RecoverCatalog adopts them or says what is wrong with them.
  std::vector<std::string> unknown;
};
// Removes everything that no reader can reach any more. If it fails or crashes, repeating it
// finishes the work.
Result<Collected> CollectGarbage(Env& env, const std::string& store, Catalog& catalog);

// Removes quantised weights whose fingerprint no document has. They are made again when needed; a
// process that has them open keeps them.
Status RemoveUnneededWeights(Env& env, const std::string& store, Catalog& catalog,
                             Collected* collected);

// Removes the files of an unfinished generation, then its row. If the catalog calls the generation
// ready, it stays, which is no error: a commit that reported failure may still have happened
// (SQLite syncs its journal once more after the point of no return), and then readers no longer see
// the generation before. kLocked: somebody reads it.
Status DiscardGeneration(Env& env, const std::string& store, Catalog& catalog,
                         const DocumentRow& row);

// Removes the document: readers no longer find it when this returns. Its files go too, unless
// somebody reads them or removing fails; then a later collection removes them. It runs
// CollectGarbage, which also removes whatever else no reader can reach, and ignores its errors.
// Codes of Catalog::MarkDead: kNotFound if it is not there or dead already; after a commit that
// reported failure the document may be gone all the same.
Status RemoveDocument(Env& env, const std::string& store, Catalog& catalog, const DocumentId& id);

// Rebuilds the summary that the writer of this complete shard returned when it had written it under
// this plain name.
ShardSummary SummaryOf(const ShardReader& shard, std::string file);

// Reads a generation's shards, verifies every byte, and returns what the catalog should say about
// it. Needs no lock and no catalog. `name` and sizes come from the shards; report and model path
// stay empty. kMissingFile and the codes of ShardReader::Open.
Result<CatalogEntry> ReadGeneration(Env& env, const std::string& directory, const DocumentId& id,
                                    uint64_t generation);

// The result of a recovery.
struct Recovered {
  std::vector<DocumentRow> documents;  // adopted from their shards
  struct Refused {
    std::string directory;
    Status status;
  };
  std::vector<Refused> refused;  // left where they are
  bool replaced = false;         // the catalog was damaged and has been replaced
};
// Rebuilds the catalog's knowledge of every whole document in `docs`. Adds what the catalog lacks,
// or, if it is damaged, replaces it and keeps its intact rows and names. A document known from its
// shards alone gets the name that it was indexed under. Idempotent. Takes the lock itself.
// `model_path` extracts a model's path from the text of section kModel; may be null.
Result<Recovered> RecoverCatalog(Env& env, const std::string& store,
                                 const std::function<std::string(std::string_view)>& model_path);

// Seals the store: refuses writers from now on (kReadOnly) and leaves no journal, so that the store
// can be copied to a read-only medium. Removing the file SEALED undoes it. Idempotent. Takes the
// lock itself.
Status SealStore(Env& env, const std::string& store);

}  // namespace lectern

#endif  // LECTERN_STORE_STORE_H_
