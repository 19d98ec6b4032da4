#include "store/store.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "store/shard_reader.h"

namespace lectern {
namespace {

// How long LockStore waits for another writer, and the space that must stay free on the disk. Both
// were chosen without measurement.
constexpr int kLockTimeoutMs = 2000;
constexpr uint64_t kSpareBytes = uint64_t{16} << 20;

constexpr char kLockFile[] = "writer.lock";  // never removed: a lock on a removed file locks nobody

std::string SealPath(const std::string& store) { return store + "/SEALED"; }

// Removes a file; ok if it was not there.
Status RemoveIfThere(Env& env, const std::string& path) {
  const Status removed = env.Remove(path);
  return removed.code() == Code::kMissingFile ? Status() : removed;
}

// A generation's number in the one form in which Lectern writes it; "007" and "+7" are other names.
std::optional<uint64_t> ParseGeneration(const std::string& name) {
  uint64_t generation = 0;
  const char* const end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data(), end, generation);
  if (error != std::errc() || at != end || std::to_string(generation) != name) return std::nullopt;
  return generation;
}

// The names in a directory; none if the directory does not exist.
Result<std::vector<std::string>> ListIfThere(Env& env, const std::string& directory) {
  auto names = env.List(directory);
  if (names.status().code() == Code::kMissingFile) return std::vector<std::string>();
  return names;
}

// A directory of the form docs/<id>/<generation>.
struct GenerationDirectory {
  DocumentId id{};
  uint64_t generation = 0;
  std::string path;
};

// Directories in `docs` that look like generations; everything else is left alone.
Result<std::vector<GenerationDirectory>> ListGenerations(Env& env, const std::string& store) {
  std::vector<GenerationDirectory> found;
  LECTERN_ASSIGN(const auto ids, ListIfThere(env, store + "/docs"));
  for (const std::string& id_name : ids) {
    const std::optional<DocumentId> id = ParseDocumentId(id_name);
    if (!id) continue;
    LECTERN_ASSIGN(const auto names, env.List(store + "/docs/" + id_name));
    for (const std::string& name : names) {
      const std::optional<uint64_t> generation = ParseGeneration(name);
      if (generation) {
        found.push_back({*id, *generation, DocumentDirectory(store, *id, *generation)});
      }
    }
  }
  return found;
}

// Total size of the files in a directory, not counting its subdirectories.
Result<uint64_t> FileBytes(Env& env, const std::string& directory) {
  uint64_t bytes = 0;
  LECTERN_ASSIGN(const auto names, ListIfThere(env, directory));
  for (const std::string& name : names) {
    LECTERN_ASSIGN(const FileInfo info, env.Info(directory + "/" + name));
    bytes += info.bytes;
  }
  return bytes;
}

// Removes a generation's directory. False: somebody reads it. The removal is durable before the
// caller deletes the row; otherwise a crash could bring back the files of a document that no row
// calls dead any more.
Result<bool> RemoveGeneration(Env& env, const std::string& directory) {
  auto alone = env.LockDirectory(directory, Lease::kExclusive);
  if (alone.status().code() == Code::kLocked) return false;
  if (alone.status().code() == Code::kMissingFile) return true;
  LECTERN_RETURN_IF_ERROR(alone.status());
  LECTERN_RETURN_IF_ERROR(env.RemoveTree(directory));
  LECTERN_RETURN_IF_ERROR(env.SyncDirectory(ParentDirectory(directory)));
  return true;
}

// Whether the name is one that Lectern makes in `tmp`; everything else is left alone.
bool IsTemporary(const std::string& name) {
  return name.ends_with(".part") || name.starts_with("catalog.db") || name == "SEALED";
}

// Whether there is a store. A store needs a directory of its own, so that a wrong path given by
// mistake destroys nothing: kInvalidArgument if other things are in it.
Result<bool> CheckDirectory(Env& env, const std::string& store) {
  LECTERN_ASSIGN(const auto names, ListIfThere(env, store));
  bool has_others = false;
  for (const std::string& name : names) {
    if (name == kLockFile || name == "catalog.db") return true;
    has_others = has_others || name != "lost+found";  // at the root of a file system
  }
  if (!has_others) return false;
  return Status(Code::kInvalidArgument,
                store +
                    " is no store and not empty; a store needs a directory of its own: give one "
                    "that is empty or not there yet")
      .WithParam("store");
}

// Whether a generation that is not ready may be removed: a dead one may, and an unfinished one is
// worth keeping only while it has a checkpoint.
Result<bool> IsGarbage(Env& env, const std::string& directory, DocumentState state) {
  if (state == DocumentState::kDead) return true;
  LECTERN_ASSIGN(const bool resumable, env.Exists(directory + "/" + kCheckpointFile));
  return !resumable;
}

// Removes the checkpoint of a document whose indexing was interrupted between its commit and its
// own removal of the checkpoint.
Status RemoveCheckpoint(Env& env, const std::string& directory, Collected& collected) {
  const Status removed = env.Remove(directory + "/" + kCheckpointFile);
  if (removed.code() == Code::kMissingFile) return {};
  collected.files += removed.ok();
  return removed;
}

// Handles generations on disk that the catalog does not know: whole ones are reported, others
// removed.
Status RemoveLeftovers(Env& env, const std::string& store, const std::vector<DocumentRow>& rows,
                       Collected& collected) {
  std::set<std::pair<DocumentId, uint64_t>> known;
  for (const DocumentRow& row : rows) known.emplace(row.id, row.generation);
  LECTERN_ASSIGN(const auto directories, ListGenerations(env, store));
  for (const GenerationDirectory& directory : directories) {
    if (known.contains({directory.id, directory.generation})) continue;
    LECTERN_ASSIGN(const bool whole, env.Exists(directory.path + "/" + kDocumentFile));
    if (whole) {
      collected.unknown.push_back(directory.path);
      continue;
    }
    LECTERN_ASSIGN(const bool removed, RemoveGeneration(env, directory.path));
    ++(removed ? collected.generations : collected.in_use);
  }
  return {};
}

// Removes the folders of documents that have no generation left.
Status RemoveEmptyDocuments(Env& env, const std::string& store) {
  LECTERN_ASSIGN(const auto ids, ListIfThere(env, store + "/docs"));
  for (const std::string& id : ids) {
    if (!ParseDocumentId(id)) continue;
    LECTERN_ASSIGN(const auto names, env.List(store + "/docs/" + id));
    if (names.empty()) LECTERN_RETURN_IF_ERROR(env.RemoveTree(store + "/docs/" + id));
  }
  return {};
}

// A section that is text. Codes of ShardReader::Section.
Result<std::string> TextOf(const ShardReader& shard, SectionKind kind) {
  LECTERN_ASSIGN(const auto bytes, shard.Section(kind, 0, 0));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

std::string CatalogPath(const std::string& store) { return store + "/catalog.db"; }

std::string DocumentDirectory(const std::string& store, const DocumentId& id, uint64_t generation) {
  return store + "/docs/" + ToHex(id) + "/" + std::to_string(generation);
}

std::string PlantedStore(const std::string& store) { return store + "/tmp/planted"; }

std::string PackedWeightsPath(const std::string& store, const Fingerprint& fingerprint) {
  return store + "/weights/" + ToHex(fingerprint).substr(0, 32) + ".packed";
}

std::string LayerFile(uint32_t layer) {
  char name[32];
  std::snprintf(name, sizeof name, "layer-%03u.shard", layer);
  return name;
}

Result<std::unique_ptr<FileLock>> LockStore(Env& env, const std::string& store) {
  const auto lock = [&]() -> Result<std::unique_ptr<FileLock>> {
    LECTERN_ASSIGN(const bool is_store, CheckDirectory(env, store));
    LECTERN_RETURN_IF_ERROR(env.MakeDirectory(store));
    // The lock file comes first and must be durable before other files, because it marks the
    // directory as a store.
    LECTERN_ASSIGN(auto held, env.Lock(store + "/" + kLockFile, kLockTimeoutMs));
    if (!is_store) LECTERN_RETURN_IF_ERROR(env.SyncDirectory(store));
    LECTERN_RETURN_IF_ERROR(env.MakeDirectory(store + "/tmp"));
    LECTERN_RETURN_IF_ERROR(env.MakeDirectory(store + "/docs"));
    LECTERN_ASSIGN(const bool sealed, env.Exists(SealPath(store)));
    if (!sealed) return held;
    return Status(Code::kReadOnly, store + " is sealed; remove the file SEALED in it to undo that");
  };
  auto result = lock();
  if (result.status().code() != Code::kReadOnly) return result;
  return Status(Code::kReadOnly, result.status().message() +
                                     "; documents in it can be asked, but not changed: make it "
                                     "writable or give another " +
                                     OptionName("store"));
}

// Takes the lock for a moment to find out. Without the file nobody holds it, and a look makes none.
bool IsLocked(Env& env, const std::string& store) {
  const std::string path = store + "/" + kLockFile;
  const auto exists = env.Exists(path);
  return exists.ok() && *exists && env.Lock(path, 0).status().code() == Code::kLocked;
}

bool IsOpenStore(Env& env, const std::string& store) {
  const auto is_there = [&](const std::string& path) {
    const auto exists = env.Exists(path);
    return exists.ok() && *exists;
  };
  const bool is_store = is_there(store + "/" + kLockFile) || is_there(CatalogPath(store));
  return is_store && is_there(store + "/tmp") && !is_there(SealPath(store));
}

Status CheckFreeSpace(Env& env, const std::string& store, uint64_t needed) {
  needed += kSpareBytes;
  LECTERN_ASSIGN(const uint64_t free, env.FreeBytes(store));
  if (free >= needed) return {};
  return {Code::kNoSpace, "this needs " + std::to_string(needed >> 20) + " MiB in " + store + ", " +
                              std::to_string(free >> 20) +
                              " MiB are free; free some or give another " + OptionName("store")};
}

Result<uint64_t> StoreBytes(Env& env, const std::string& store) {
  LECTERN_ASSIGN(uint64_t bytes, FileBytes(env, store));
  LECTERN_ASSIGN(const uint64_t temporary, FileBytes(env, store + "/tmp"));
  LECTERN_ASSIGN(const uint64_t digests, FileBytes(env, store + "/digests"));
  LECTERN_ASSIGN(const uint64_t weights, FileBytes(env, store + "/weights"));
  LECTERN_ASSIGN(const uint64_t collections, FileBytes(env, store + "/collections"));
  bytes += temporary + digests + weights + collections;
  LECTERN_ASSIGN(const auto generations, ListGenerations(env, store));
  for (const GenerationDirectory& generation : generations) {
    LECTERN_ASSIGN(const uint64_t of_generation, FileBytes(env, generation.path));
    bytes += of_generation;
  }
  return bytes;
}

Status CheckQuota(Env& env, const std::string& store, uint64_t quota_bytes, uint64_t needed,
                  const std::string& directory) {
  if (quota_bytes == 0) return {};
  LECTERN_ASSIGN(uint64_t used, StoreBytes(env, store));
  if (!directory.empty()) {
    LECTERN_ASSIGN(const uint64_t there, FileBytes(env, directory));
    used -= std::min(used, there);
  }
  if (used <= quota_bytes && needed <= quota_bytes - used) return {};
  return Status(Code::kNoSpace, "this needs " + std::to_string(needed) + " bytes beside the " +
                                    std::to_string(used) + " that " + store +
                                    " holds; its quota is " + std::to_string(quota_bytes) +
                                    " bytes: remove a document or allow more")
      .WithParam("quota");
}

Result<Collected> CollectGarbage(Env& env, const std::string& store, Catalog& catalog) {
  Collected collected;
  LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog.List());
  bool settled = false;
  for (const DocumentRow& row : rows) {
    const std::string directory = DocumentDirectory(store, row.id, row.generation);
    if (row.state == DocumentState::kReady) {
      LECTERN_RETURN_IF_ERROR(RemoveCheckpoint(env, directory, collected));
      continue;
    }
    LECTERN_ASSIGN(const bool garbage, IsGarbage(env, directory, row.state));
    if (!garbage) continue;
    // Before the first removal: what the catalog says must be durable, or a crash could bring a
    // document back without its files.
    if (!settled) LECTERN_RETURN_IF_ERROR(catalog.Settle());
    settled = true;
    LECTERN_ASSIGN(const bool removed, RemoveGeneration(env, directory));
    ++(removed ? collected.generations : collected.in_use);
    if (removed) LECTERN_RETURN_IF_ERROR(catalog.Forget(row.generation));
  }
  LECTERN_RETURN_IF_ERROR(RemoveLeftovers(env, store, rows, collected));
  LECTERN_RETURN_IF_ERROR(RemoveEmptyDocuments(env, store));
  LECTERN_RETURN_IF_ERROR(env.RemoveTree(PlantedStore(store)));
  LECTERN_ASSIGN(const std::vector<std::string> temporary, ListIfThere(env, store + "/tmp"));
  for (const std::string& name : temporary) {
    if (!IsTemporary(name)) continue;
    LECTERN_RETURN_IF_ERROR(env.Remove(store + "/tmp/" + name));
    ++collected.files;
  }
  return collected;
}

Status RemoveUnneededWeights(Env& env, const std::string& store, Catalog& catalog,
                             Collected* collected) {
  LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog.List());
  std::set<std::string> needed;
  for (const DocumentRow& row : rows) needed.insert(PackedWeightsPath(store, row.fingerprint));
  LECTERN_ASSIGN(const auto names, ListIfThere(env, store + "/weights"));
  for (const std::string& name : names) {
    const std::string path = store + "/weights/" + name;
    if (!name.ends_with(".packed") || needed.contains(path)) continue;
    LECTERN_RETURN_IF_ERROR(RemoveIfThere(env, path));
    ++collected->files;
  }
  return {};
}

Status DiscardGeneration(Env& env, const std::string& store, Catalog& catalog,
                         const DocumentRow& row) {
  const std::string directory = DocumentDirectory(store, row.id, row.generation);
  LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog.List());
  for (const DocumentRow& now : rows) {
    if (now.generation == row.generation && now.state == DocumentState::kReady) return {};
  }
  LECTERN_ASSIGN(const bool removed, RemoveGeneration(env, directory));
  if (removed) return catalog.Forget(row.generation);
  return Status(Code::kLocked, directory + ": another process reads it; try again later");
}

Status RemoveDocument(Env& env, const std::string& store, Catalog& catalog, const DocumentId& id) {
  LECTERN_RETURN_IF_ERROR(catalog.MarkDead(id));
  (void)CollectGarbage(env, store, catalog);  // a later collection finishes what fails now
  return {};
}

ShardSummary SummaryOf(const ShardReader& shard, std::string file) {
  const ShardHeader& header = shard.header();
  ShardFooter footer;
  std::memcpy(&footer, shard.data() + header.payload_bytes + header.num_blocks * sizeof(uint32_t),
              sizeof footer);
  return {std::move(file), footer.file_bytes, footer.table_crc, footer.header_crc};
}

Result<CatalogEntry> ReadGeneration(Env& env, const std::string& directory, const DocumentId& id,
                                    uint64_t generation) {
  CatalogEntry entry;
  ShardReader::Expected expected = {.kind = ShardKind::kDocument,
                                    .layer = 0,
                                    .document_id = id.data(),
                                    .fingerprint = nullptr,
                                    .generation = generation,
                                    .table_crc = std::nullopt};
  const auto add = [&](const std::string& file) -> Result<std::unique_ptr<ShardReader>> {
    LECTERN_ASSIGN(auto shard,
                   ShardReader::Open(env, directory + "/" + file, expected, Io::kPread));
    LECTERN_RETURN_IF_ERROR(shard->VerifyAll());
    entry.shards.push_back(SummaryOf(*shard, file));
    entry.row.bytes_on_disk += entry.shards.back().bytes;
    return shard;
  };
  LECTERN_ASSIGN(const auto document, add(kDocumentFile));
  const ShardHeader& header = document->header();
  LECTERN_ASSIGN(const std::string text, TextOf(*document, SectionKind::kText));
  LECTERN_ASSIGN(entry.row.name, TextOf(*document, SectionKind::kName));
  std::string source;
  if (document->Find(SectionKind::kSource, 0, 0) != nullptr) {
    LECTERN_ASSIGN(source, TextOf(*document, SectionKind::kSource));
  }
  if (!entry.row.name.empty()) entry.row.names = {{entry.row.name, std::move(source)}};
  // The options of indexing stand in; what index-document reported is lost.
  LECTERN_ASSIGN(entry.row.report_json, TextOf(*document, SectionKind::kModel));
  entry.row.id = id;
  entry.row.generation = generation;
  entry.row.state = DocumentState::kReady;
  std::copy_n(header.fingerprint, entry.row.fingerprint.size(), entry.row.fingerprint.begin());
  entry.row.num_tokens = header.num_tokens;
  entry.row.text_bytes = text.size();
  expected.kind = ShardKind::kLayer;
  expected.fingerprint = entry.row.fingerprint.data();
  if ((header.required_features & kInParts) != 0) return entry;
  for (uint32_t layer = 0; layer < header.num_layers; ++layer) {
    expected.layer = layer;
    LECTERN_ASSIGN(const auto shard, add(LayerFile(layer)));
    if (shard->header().num_layers != header.num_layers ||
        shard->header().num_tokens != header.num_tokens) {
      return Status(Code::kCorrupt, shard->path() +
                                        ": its shape is not the document's; index the "
                                        "document again");
    }
  }
  return entry;
}

namespace {

// Collects every generation on disk that the catalog lacks, or all of them if the catalog is
// replaced.
class Recovery {
 public:
  Recovery(Env& env, const std::string& store,
           const std::function<std::string(std::string_view)>& model_path)
      : env_(env), store_(store), model_path_(model_path) {}

  Result<Recovered> Run() {
    LECTERN_ASSIGN(const auto lock, LockStore(env_, store_));
    LECTERN_RETURN_IF_ERROR(ReadCatalog());
    LECTERN_RETURN_IF_ERROR(ReadShards());
    recovered_.replaced = catalog_ == nullptr;
    LECTERN_RETURN_IF_ERROR(catalog_ != nullptr ? catalog_->Adopt(entries_) : Replace());
    return std::move(recovered_);
  }

 private:
  // Leaves catalog_ open if everything in it is intact. Intact rows of a damaged catalog are kept.
  Status ReadCatalog() {
    auto catalog = Catalog::Open(env_, CatalogPath(store_), Catalog::Mode::kReadWrite);
    if (catalog.status().code() == Code::kCorrupt) return {};
    LECTERN_RETURN_IF_ERROR(catalog.status());
    auto salvaged = catalog.value()->Salvage();
    if (salvaged.status().code() == Code::kCorrupt) return {};
    LECTERN_RETURN_IF_ERROR(salvaged.status());
    for (const DocumentRow& row : salvaged->documents) rows_[row.generation] = row;
    if (!salvaged->damaged) catalog_ = std::move(catalog).value();
    return {};
  }

  // Decides for each generation on disk: a number that another document has is refused, known ones
  // are kept, others are adopted.
  Status ReadShards() {
    LECTERN_ASSIGN(const auto directories, ListGenerations(env_, store_));
    for (const GenerationDirectory& directory : directories) {
      const auto row = rows_.find(directory.generation);
      const bool has_row = row != rows_.end() && row->second.id == directory.id;
      if ((row != rows_.end() && !has_row) || !numbers_.insert(directory.generation).second) {
        recovered_.refused.push_back(
            {directory.path,
             Status(Code::kCorrupt, directory.path + ": another document has this number; move "
                                                     "it away and index the document again")});
        continue;
      }
      if (has_row && row->second.state != DocumentState::kReady) {
        if (catalog_ == nullptr) entries_.push_back({row->second, {}});
        continue;
      }
      if (has_row && catalog_ != nullptr) continue;
      LECTERN_RETURN_IF_ERROR(TakeUp(directory, has_row ? &row->second : nullptr));
    }
    MarkOlderDead();
    return {};
  }

  // Reads a generation's shards and adds it; a damaged one is refused, with the reason.
  Status TakeUp(const GenerationDirectory& directory, const DocumentRow* row) {
    LECTERN_ASSIGN(const bool whole, env_.Exists(directory.path + "/" + kDocumentFile));
    if (!whole) return {};  // it was never finished
    auto entry = ReadGeneration(env_, directory.path, directory.id, directory.generation);
    if (!entry.ok()) {
      // Without descriptors or memory nothing can be said about the document, so recovery must
      // stop.
      const Code code = entry.status().code();
      if (code == Code::kLimitExceeded || code == Code::kOutOfMemory) return entry.status();
      recovered_.refused.push_back({directory.path, entry.status()});
      return {};
    }
    if (row != nullptr) {
      entry->row = *row;
    } else {
      LECTERN_RETURN_IF_ERROR(FindModelPath(directory, entry->row));
    }
    entries_.push_back(std::move(entry).value());
    return {};
  }

  // Reads the model's path from the document's section kModel, which is informative.
  Status FindModelPath(const GenerationDirectory& directory, DocumentRow& row) {
    if (!model_path_) return {};
    LECTERN_ASSIGN(const auto shard, ShardReader::Open(env_, directory.path + "/" + kDocumentFile,
                                                       {.kind = ShardKind::kDocument,
                                                        .layer = 0,
                                                        .document_id = directory.id.data(),
                                                        .fingerprint = nullptr,
                                                        .generation = directory.generation,
                                                        .table_crc = std::nullopt},
                                                       Io::kPread));
    LECTERN_ASSIGN(const std::string model, TextOf(*shard, SectionKind::kModel));
    row.model_path = model_path_(model);
    return {};
  }

  // Marks all but the last of several whole generations of one id as dead. The entries are sorted
  // newest first, so that the newest gets the name.
  void MarkOlderDead() {
    std::sort(entries_.begin(), entries_.end(), [](const CatalogEntry& a, const CatalogEntry& b) {
      return a.row.generation > b.row.generation;
    });
    std::map<DocumentId, uint64_t> newest;  // generations that readers see
    for (const auto& [generation, row] : rows_) {
      if (catalog_ != nullptr && row.state == DocumentState::kReady) newest[row.id] = generation;
    }
    for (CatalogEntry& entry : entries_) {
      if (entry.row.state != DocumentState::kReady) continue;
      const auto [seen, first] = newest.emplace(entry.row.id, entry.row.generation);
      if (!first && seen->second > entry.row.generation) {
        entry.row.state = DocumentState::kDead;
        entry.row.name.clear();
        entry.row.names.clear();
      } else {
        recovered_.documents.push_back(entry.row);
      }
    }
  }

  // The old catalog's journal must go first: SQLite would roll it back into the new catalog.
  Status Replace() {
    const std::string path = CatalogPath(store_), temp = store_ + "/tmp/catalog.db";
    LECTERN_RETURN_IF_ERROR(RemoveIfThere(env_, temp));
    LECTERN_RETURN_IF_ERROR(RemoveIfThere(env_, temp + "-journal"));
    {
      LECTERN_ASSIGN(const auto catalog, Catalog::Open(env_, temp, Catalog::Mode::kReadWrite));
      LECTERN_RETURN_IF_ERROR(catalog->Adopt(entries_));
    }
    LECTERN_RETURN_IF_ERROR(RemoveIfThere(env_, path + "-journal"));
    LECTERN_RETURN_IF_ERROR(env_.SyncDirectory(store_));
    LECTERN_RETURN_IF_ERROR(env_.Rename(temp, path));
    return env_.SyncDirectory(store_);
  }

  Env& env_;
  const std::string& store_;
  const std::function<std::string(std::string_view)>& model_path_;
  std::unique_ptr<Catalog> catalog_;      // null: the catalog is to be replaced
  std::map<uint64_t, DocumentRow> rows_;  // intact rows, by generation
  std::set<uint64_t> numbers_;            // generations seen so far
  std::vector<CatalogEntry> entries_;     // generations to add
  Recovered recovered_;
};

}  // namespace

Result<Recovered> RecoverCatalog(Env& env, const std::string& store,
                                 const std::function<std::string(std::string_view)>& model_path) {
  return Recovery(env, store, model_path).Run();
}

Status SealStore(Env& env, const std::string& store) {
  LECTERN_ASSIGN(const bool sealed, env.Exists(SealPath(store)));
  if (sealed) return {};
  LECTERN_ASSIGN(const auto lock, LockStore(env, store));
  const std::string catalog_path = CatalogPath(store), temp = store + "/tmp/SEALED";
  {
    LECTERN_ASSIGN(const auto catalog, Catalog::Open(env, catalog_path, Catalog::Mode::kReadWrite));
    LECTERN_RETURN_IF_ERROR(CollectGarbage(env, store, *catalog).status());
  }
  // The catalog is closed and its journal empty; a non-empty one would have been rolled back.
  LECTERN_RETURN_IF_ERROR(RemoveIfThere(env, catalog_path + "-journal"));
  LECTERN_ASSIGN(const auto file, env.OpenWritable(temp, /*exclusive=*/true));
  LECTERN_RETURN_IF_ERROR(file->Sync());
  LECTERN_RETURN_IF_ERROR(file->Close());
  LECTERN_RETURN_IF_ERROR(env.Rename(temp, SealPath(store)));
  return env.SyncDirectory(store);
}

}  // namespace lectern
