// The store's directory as a whole: where things lie, who may change it, what may be removed.
//
// Every function here but LockStore is for the one who holds its lock, unless it says otherwise.
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

std::string CatalogPath(const std::string& store);
// "docs/<id>/<generation>" under the store.
std::string DocumentDirectory(const std::string& store, const DocumentId& id, uint64_t generation);
// "weights/<32 hex digits>.packed": weights that were quantised for documents of this fingerprint.
std::string PackedWeightsPath(const std::string& store, const Fingerprint& fingerprint);
std::string LayerFile(uint32_t layer);  // "layer-003.shard"
inline constexpr const char* kDocumentFile = "document.shard";
inline constexpr const char* kCheckpointFile = "checkpoint";

// Makes the store's folders and keeps other writers out, waiting up to 2 s for them. kLocked;
// kReadOnly: also when the store is sealed; kInvalidArgument: the directory holds other things.
Result<std::unique_ptr<FileLock>> LockStore(Env& env, const std::string& store);
// Whether someone holds its lock now. False also where that cannot be told. Needs no lock.
bool IsLocked(Env& env, const std::string& store);
// There is one that is not sealed.
bool IsOpenStore(Env& env, const std::string& store);

// kNoSpace unless `needed` bytes, and some to spare, are free in the store's file system. Needs no
// lock.
Status CheckFreeSpace(Env& env, const std::string& store, uint64_t needed);
// Bytes of the store's files. Needs no lock.
Result<uint64_t> StoreBytes(Env& env, const std::string& store);
// kNoSpace unless `needed` bytes fit into `quota_bytes` (0: no quota) beside what the store holds.
// `directory`: of a generation whose files are part of `needed`; empty: none.
Status CheckQuota(Env& env, const std::string& store, uint64_t quota_bytes, uint64_t needed,
                  const std::string& directory = "");

// What a collection removed and what it left.
struct Collected {
  uint64_t generations = 0;  // dead ones, unfinished ones without checkpoint, leftovers
  // Temporary ones, checkpoints of what is indexed, quantised weights that no document needs.
  uint64_t files = 0;
  uint64_t in_use = 0;       // dead generations that are being read: a later collection's
  // Directories that the catalog does not know, with a document shard in them: perhaps the catalog
  // was lost. RecoverCatalog takes them up or says what is wrong with them.
  std::vector<std::string> unknown;
};
// Removes what no reader can reach any more. Repeating it after any failure or crash finishes it.
Result<Collected> CollectGarbage(Env& env, const std::string& store, Catalog& catalog);

// Removes quantised weights of which the catalog knows no document. They are made again when they
// are needed; a process that has them open keeps them.
Status RemoveUnneededWeights(Env& env, const std::string& store, Catalog& catalog,
                             Collected* collected);

// Removes the files of an unfinished generation, then its row. One that the catalog says is ready
// stays: a commit that failed may have happened all the same (SQLite syncs its journal once more
// after the point of no return), and then the generation before this one is gone for readers.
Status DiscardGeneration(Env& env, const std::string& store, Catalog& catalog,
                         const DocumentRow& row);

// The document is gone for readers when this returns; its files too, unless someone reads them or
// removing them fails: then a later collection does it. kNotFound.
Status RemoveDocument(Env& env, const std::string& store, Catalog& catalog, const DocumentId& id);

// What the writer of a complete shard returned when it had written it, under this plain name.
ShardSummary SummaryOf(const ShardReader& shard, std::string file);

// A generation's shards, every byte verified: what the catalog says of it. Needs no lock and no
// catalog. `name` and sizes come from the shards; report and model path stay empty.
// kMissingFile and the codes of ShardReader::Open.
Result<CatalogEntry> ReadGeneration(Env& env, const std::string& directory, const DocumentId& id,
                                    uint64_t generation);

struct Recovered {
  std::vector<DocumentRow> documents;  // taken up from their shards
  struct Refused {
    std::string directory;
    Status status;
  };
  std::vector<Refused> refused;  // left where they are
  bool replaced = false;         // the catalog itself was damaged: it is a new one now
};
// Makes a catalog that knows every whole document in `docs`: adds what the catalog lacks, or, where
// it is damaged, replaces it, keeping those of its rows and names that are intact. A document found
// by its shards alone has the name that it was indexed under. Idempotent. Takes the lock itself.
// `model_path` finds a document's model in the text of its section kModel; may be null.
Result<Recovered> RecoverCatalog(Env& env, const std::string& store,
                                 const std::function<std::string(std::string_view)>& model_path);

// Refuses writers from here on (kReadOnly) and leaves no journal, so that the store can be copied
// to a medium that cannot be written. Removing the file SEALED undoes it. Idempotent. Takes the
// lock itself.
Status SealStore(Env& env, const std::string& store);

}  // namespace lectern

#endif  // LECTERN_STORE_STORE_H_
