// The store's directory as a whole: where its files lie, who may change them, which of them may be
// removed, and how a lost catalog is made again. FORMAT.md, sections 1 and 7, has the rules.
//
// `store` is the path of the directory. Except for LockStore, the caller of a function must hold
// the store's lock, unless the function says otherwise. A Status or Result may also have the codes
// of Env, and, where the function takes a Catalog, those of its calls, kCorrupt included.
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
// "weights/<32 hex digits>.packed" under the store: quantised weights for documents of this
// fingerprint. The digits are its first 16 bytes.
std::string PackedWeightsPath(const std::string& store, const Fingerprint& fingerprint);
std::string LayerFile(uint32_t layer);  // "layer-003.shard"; more digits from layer 1000 on
inline constexpr const char* kDocumentFile = "document.shard";
// "tmp/planted" under the store: a store within it, for measuring a model while the lock of the
// outer one is held. CollectGarbage removes it.
std::string PlantedStore(const std::string& store);
// How far indexing has come, in a generation that is not finished.
inline constexpr const char* kCheckpointFile = "checkpoint";

// Creates the store's folders, the store itself and its parents included, and locks out other
// writers while the result lives. Waits up to 2 s for them, then kLocked, also where this process
// holds the lock. kReadOnly (also if the store is sealed); kInvalidArgument (param "store"): the
// directory holds other things and is no store.
Result<std::unique_ptr<FileLock>> LockStore(Env& env, const std::string& store);
// Whether somebody holds the lock now, this process included; false also if that cannot be found
// out. Needs no lock; takes it for a moment. Creates nothing.
bool IsLocked(Env& env, const std::string& store);
// Whether there is a store here, with the folder "tmp" that LockStore makes, and it is not sealed.
// False also if that cannot be found out. Needs no lock.
bool IsOpenStore(Env& env, const std::string& store);

// kNoSpace unless `needed` bytes and 16 MiB more are free in the file system of the directory
// `store`, which must be there. Needs no lock.
Status CheckFreeSpace(Env& env, const std::string& store, uint64_t needed);
// Total size in bytes of the store's files, also of generations that the catalog does not know, but
// without a planted store; 0 if there is no store. Needs no lock; kMissingFile is possible if
// another process removes a document meanwhile.
Result<uint64_t> StoreBytes(Env& env, const std::string& store);
// kNoSpace (param "quota") unless `needed` bytes fit into `quota_bytes` (0: no quota, nothing is
// checked) beside the store's content. `directory`: a generation whose existing files are part of
// `needed`; empty: none. Needs no lock.
Status CheckQuota(Env& env, const std::string& store, uint64_t quota_bytes, uint64_t needed,
                  const std::string& directory = "");

// The result of a collection: counts of removed things, and of those that stayed.
struct Collected {
  uint64_t generations = 0;  // dead ones, unfinished ones without a checkpoint, leftovers
  // Temporary files, checkpoints of finished documents, quantised weights that no document needs
  // (RemoveUnneededWeights).
  uint64_t files = 0;
  // Generations that would go, but that somebody still reads; a later collection removes them.
  uint64_t in_use = 0;
  // Directories with a document shard that the catalog does not know: perhaps the catalog was lost.
  // RecoverCatalog adopts them or says what is wrong with them.
  std::vector<std::string> unknown;
};
// Removes the planted store, and everything that no reader can reach any more, except quantised
// weights: files first, then the rows of `catalog`. Stops at the first error, with a part removed;
// repeating it finishes the work.
Result<Collected> CollectGarbage(Env& env, const std::string& store, Catalog& catalog);

// Removes quantised weights whose fingerprint no row of the catalog has; rows of dead and
// unfinished documents count. They are made again when needed; a process that has them open keeps
// them. Adds their number to `collected->files`; not nullptr. Stops at the first error, with a part
// removed and counted.
Status RemoveUnneededWeights(Env& env, const std::string& store, Catalog& catalog,
                             Collected* collected);

// Removes the files of an unfinished generation, then its row; ok where either is gone already. If
// the catalog calls the generation ready, it stays, which is no error: a commit that reported
// failure may still have happened (SQLite syncs its journal once more after the point of no
// return), and then readers no longer see the generation before. kLocked: somebody reads it.
Status DiscardGeneration(Env& env, const std::string& store, Catalog& catalog,
                         const DocumentRow& row);

// Removes the document: readers no longer find it when this returns. Its files go too, unless
// somebody reads them or removing fails; then a later collection removes them. It runs
// CollectGarbage, which also removes whatever else no reader can reach, and ignores its errors.
// Codes of Catalog::MarkDead: kNotFound if it is not there or dead already; after a commit that
// reported failure the document may be gone all the same.
Status RemoveDocument(Env& env, const std::string& store, Catalog& catalog, const DocumentId& id);

// Rebuilds the summary that the writer of this shard returned when it had written it under the
// plain name `file`. Reads the footer, which ShardReader::Open has checked. Needs no lock.
ShardSummary SummaryOf(const ShardReader& shard, std::string file);

// Reads a generation's shards, verifies every byte, and returns the entry that the catalog should
// have for it. Needs no lock and no catalog. State is ready; `name`, its source and sizes come from
// the shards. The report is the text of section kModel (index-document's own is lost), model path
// is empty, replaced_bytes 0. kMissingFile, kCorrupt (also where a shard lacks a section), and the
// other codes of ShardReader::Open and VerifyAll.
Result<CatalogEntry> ReadGeneration(Env& env, const std::string& directory, const DocumentId& id,
                                    uint64_t generation);

// The result of a recovery.
struct Recovered {
  // Adopted from their shards: all that the catalog lacked, or, if it was replaced, all documents.
  std::vector<DocumentRow> documents;
  struct Refused {
    std::string directory;
    Status status;
  };
  // Damaged generations, or ones whose number another document has; left where they are.
  std::vector<Refused> refused;
  bool replaced = false;         // the catalog was damaged and has been replaced
};
// Rebuilds the catalog's knowledge of every whole document in `docs`. Adds what the catalog lacks,
// or, if it is damaged, replaces it and keeps its intact rows and names. A document known from its
// shards alone gets the name that it was indexed under. Idempotent. Takes the lock itself.
// `model_path` extracts a model's path from the text of section kModel; may be null. Codes of
// LockStore; kUnsupportedVersion (the catalog is newer: it stays); kLimitExceeded, kOutOfMemory
// (descriptors or memory ran out). A damaged document is no error; it is in `refused`.
Result<Recovered> RecoverCatalog(Env& env, const std::string& store,
                                 const std::function<std::string(std::string_view)>& model_path);

// Seals the store: refuses writers from now on (kReadOnly) and leaves no journal, so that the store
// can be copied to a read-only medium; its documents can still be asked. Runs CollectGarbage
// before. Makes an empty store where there is none (Engine::Seal does not). Removing the file
// SEALED undoes it. Idempotent. Takes the lock itself. Codes of LockStore and Catalog::Open.
Status SealStore(Env& env, const std::string& store);

}  // namespace lectern

#endif  // LECTERN_STORE_STORE_H_
