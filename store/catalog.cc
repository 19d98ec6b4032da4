#include "store/catalog.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "store/catalog_rows.h"
#include "store/catalog_schema.h"
#include "store/sqlite.h"

namespace lectern {

std::string ToHex(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const uint8_t byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::optional<DocumentId> ParseDocumentId(std::string_view text) {
  DocumentId id{};
  if (text.size() != 2 * id.size()) return std::nullopt;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool digit = c >= '0' && c <= '9', letter = c >= 'a' && c <= 'f';
    if (!digit && !letter) return std::nullopt;
    id[i / 2] = static_cast<uint8_t>(id[i / 2] << 4 | (digit ? c - '0' : c - 'a' + 10));
  }
  return id;
}

struct Catalog::Impl {
  // How long a statement waits for another process's transaction, before kLocked. Transactions take
  // milliseconds; a slow disk's fsync takes longer.
  static constexpr int kBusyTimeoutMs = 5000;
  std::string path;
  bool writes = false;
  sqlite3* db = nullptr;

  ~Impl() { sqlite3_close(db); }

  Statement Prepare(const char* sql) const { return Statement(db, path, sql); }
  Status Execute(const char* sql) const { return Prepare(sql).Run(); }

  // kCorrupt: damage, with the way out, lectern-store recover. CorruptRow names a row.
  Status Corrupt(const std::string& what) const { return CorruptCatalog(path, what); }
  Status CorruptRow(const char* table, const std::string& row) const {
    return Corrupt(std::string("checksum mismatch in table ") + table + ", row " + row);
  }

  Result<int64_t> Number(const char* sql) const { return NumberOf(db, path, sql); }

  // -- Opening --

  Status Connect(const OpenPlan& plan, const char* vfs) {
    const int rc = sqlite3_open_v2(plan.name.c_str(), &db, plan.flags, vfs);
    if (rc != SQLITE_OK) {
      const Code code = SqliteCode(db, rc);
      return Status(code, path + ": " + sqlite3_errstr(rc) + WayOut(code, rc));
    }
    if (writes && sqlite3_db_readonly(db, "main") != 0) {
      return Status(Code::kReadOnly, path + ": the store cannot be written");
    }
    return {};
  }

  // Sets SQLite up for files that may come from anywhere: defensive, no triggers or views, no trust
  // in the schema, no strings in double quotes, no memory mapping (a failing disk would be a
  // SIGBUS), no temporary files. synchronous=FULL: a commit is on disk when it returns.
  Status Configure() const {
    sqlite3_busy_timeout(db, kBusyTimeoutMs);
    for (const auto& [option, value] :
         {std::pair(SQLITE_DBCONFIG_DEFENSIVE, 1), std::pair(SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
          std::pair(SQLITE_DBCONFIG_ENABLE_VIEW, 0), std::pair(SQLITE_DBCONFIG_DQS_DML, 0),
          std::pair(SQLITE_DBCONFIG_DQS_DDL, 0)}) {
      sqlite3_db_config(db, option, value, nullptr);
    }
    for (const char* pragma :
         {"PRAGMA trusted_schema=OFF", "PRAGMA cell_size_check=ON", "PRAGMA mmap_size=0",
          "PRAGMA temp_store=MEMORY", "PRAGMA foreign_keys=ON", "PRAGMA synchronous=FULL"}) {
      LECTERN_RETURN_IF_ERROR(Execute(pragma));
    }
    return writes ? Status() : Execute("PRAGMA query_only=ON");
  }

  // Only for a file that is known to be Lectern's: leaving WAL mode would change it.
  Status SetJournalMode() const {
    Statement s = Prepare("PRAGMA journal_mode=TRUNCATE");
    const std::string mode(s.Step() ? s.Bytes(0) : "");
    LECTERN_RETURN_IF_ERROR(s.status());
    if (mode == "wal") return Corrupt("not a catalog of Lectern (its journal is a WAL)");
    return {};
  }

  // SQLite has no page checksums. Row CRCs find changed values; this check finds lost rows.
  Status QuickCheck() const {
    Statement s = Prepare("PRAGMA quick_check(1)");
    const std::string found(s.Step() ? s.Bytes(0) : "nothing was checked");
    LECTERN_RETURN_IF_ERROR(s.status());
    return found == "ok" ? Status() : Corrupt(found);
  }

  // Everything that Open checks and creates, once SQLite has opened the file.
  Status Load() const;

  // -- Reading --

  // All rows, damaged ones too. Tables are read whole: a store has few documents, and a damaged key
  // would hide a row from a query by that key.
  Result<std::vector<StoredDocument>> Documents() const {
    std::vector<StoredDocument> documents;
    Statement s = Prepare(kSelectDocuments);
    while (s.Step()) documents.push_back(ReadDocument(s));
    LECTERN_RETURN_IF_ERROR(s.status());
    return documents;
  }

  // A reader's file may have schema version 1, and another process may upgrade it while it is open.
  Result<std::vector<StoredName>> Names() const {
    LECTERN_ASSIGN(const int64_t version, Number("PRAGMA user_version"));
    std::vector<StoredName> names;
    Statement s = Prepare(version == 1 ? "SELECT name, id, crc, '' FROM names ORDER BY name"
                                       : "SELECT name, id, crc, source FROM names ORDER BY name");
    while (s.Step()) {
      StoredName& stored = names.emplace_back();
      stored.name = s.Bytes(0);
      CopyTo(s.Bytes(1), stored.id);
      stored.source = s.Bytes(3);
      const uint32_t crc = version == 1 ? NameCrc1(stored.name, s.Bytes(1))
                                        : NameCrc(stored.name, s.Bytes(1), stored.source);
      stored.intact = s.Bytes(1).size() == stored.id.size() && s.Int(2) == crc;
    }
    LECTERN_RETURN_IF_ERROR(s.status());
    return names;
  }

  // The intact names that point to `id`, in byte order.
  static std::vector<DocumentName> NamesOf(const std::vector<StoredName>& names,
                                           const DocumentId& id) {
    std::vector<DocumentName> of_id;
    for (const StoredName& name : names) {
      if (name.intact && name.id == id) of_id.push_back({name.name, name.source});
    }
    return of_id;
  }

  // Gives a ready document's row the names that point to it.
  static void AddNames(const std::vector<StoredName>& names, DocumentRow& row) {
    if (row.state != DocumentState::kReady) return;
    row.names = NamesOf(names, row.id);
    if (!row.names.empty()) row.name = row.names.front().name;
  }

  // kCorrupt: a row is damaged.
  Result<std::vector<ShardSummary>> Shards(int64_t generation) const {
    std::vector<ShardSummary> shards;
    Statement s = Prepare(
        "SELECT file, bytes, table_crc, header_crc, crc FROM shards WHERE generation=? "
        "ORDER BY file");
    s.Bind(generation);
    while (s.Step()) {
      ShardSummary& shard = shards.emplace_back();
      if (!ReadShard(s, generation, shard)) {
        return CorruptRow("shards", std::to_string(generation) + "/" + shard.file);
      }
    }
    LECTERN_RETURN_IF_ERROR(s.status());
    return shards;
  }

  Status DocumentError(const StoredDocument& document) const {
    return CorruptRow("documents", std::to_string(document.row.generation));
  }
  Status NameError(const StoredName& name) const {
    return CorruptRow("names", "\"" + name.name + "\"");
  }

  // A damaged row does not hide an intact one. It is an error only if nothing else was found,
  // because then it may be the row that was looked for.
  Result<std::optional<DocumentRow>> FindReady(const DocumentId& id) const {
    LECTERN_ASSIGN(const auto documents, Documents());
    const StoredDocument* found = nullptr;
    const StoredDocument* damaged = nullptr;
    for (const StoredDocument& document : documents) {
      if (!document.intact) damaged = &document;
      if (document.intact && document.row.id == id && document.row.state == DocumentState::kReady) {
        found = &document;
      }
    }
    if (found != nullptr) return std::optional<DocumentRow>(found->row);
    if (damaged != nullptr) return DocumentError(*damaged);
    return std::optional<DocumentRow>();
  }

  // As FindReady, for any state. kNotFound: there is no such generation.
  Result<StoredDocument> ByGeneration(uint64_t generation) const {
    LECTERN_ASSIGN(const auto documents, Documents());
    const StoredDocument* damaged = nullptr;
    for (const StoredDocument& document : documents) {
      if (document.intact && document.row.generation == generation) return document;
      if (!document.intact) damaged = &document;
    }
    if (damaged != nullptr) return DocumentError(*damaged);
    return Status(Code::kNotFound, "there is no generation " + std::to_string(generation));
  }

  // As FindReady, for a name; nothing: no document has it.
  Result<std::optional<DocumentId>> IdOfName(const std::string& name) const {
    LECTERN_ASSIGN(const auto names, Names());
    const StoredName* damaged = nullptr;
    for (const StoredName& stored : names) {
      if (stored.intact && stored.name == name) return std::optional<DocumentId>(stored.id);
      if (!stored.intact) damaged = &stored;
    }
    if (damaged != nullptr) return NameError(*damaged);
    return std::optional<DocumentId>();
  }

  // As FindReady: damage is an error only if no intact name was found, because a damaged one may be
  // this document's.
  Result<std::vector<DocumentName>> NamesOfId(const DocumentId& id) const {
    LECTERN_ASSIGN(const auto names, Names());
    std::vector<DocumentName> of_id = NamesOf(names, id);
    const auto damaged = std::find_if(names.begin(), names.end(),
                                      [](const StoredName& name) { return !name.intact; });
    if (of_id.empty() && damaged != names.end()) return NameError(*damaged);
    return of_id;
  }

  // -- Writing --

  Status CheckWritable() const {
    if (writes) return {};
    return Status(Code::kReadOnly, path + ": the store is open for reading only");
  }

  // Each Put writes one row with its checksum; a row of the same key is replaced, except for
  // shards.
  Status PutDocument(const DocumentRow& row, int64_t num_shards) const {
    return Prepare(
               "INSERT OR REPLACE INTO documents(generation, id, state, fingerprint, "
               "model_path, num_tokens, text_bytes, replaced_bytes, bytes_on_disk, "
               "report_json, num_shards, crc) VALUES(?,?,?,?,?,?,?,?,?,?,?,?)")
        .Bind(static_cast<int64_t>(row.generation))
        .Bind(row.id)
        .Bind(static_cast<int64_t>(row.state))
        .Bind(row.fingerprint)
        .Bind(row.model_path)
        .Bind(static_cast<int64_t>(row.num_tokens))
        .Bind(static_cast<int64_t>(row.text_bytes))
        .Bind(static_cast<int64_t>(row.replaced_bytes))
        .Bind(static_cast<int64_t>(row.bytes_on_disk))
        .Bind(row.report_json)
        .Bind(num_shards)
        .Bind(int64_t{DocumentCrc(row, View(row.id), View(row.fingerprint), num_shards)})
        .Run();
  }

  Status PutName(const DocumentName& name, const DocumentId& id) const {
    return Prepare("INSERT OR REPLACE INTO names(name, id, source, crc) VALUES(?,?,?,?)")
        .Bind(name.name)
        .Bind(id)
        .Bind(name.source)
        .Bind(int64_t{NameCrc(name.name, View(id), name.source)})
        .Run();
  }

  Status PutShard(int64_t generation, const ShardSummary& shard) const {
    return Prepare(
               "INSERT INTO shards(generation, file, bytes, table_crc, header_crc, crc) "
               "VALUES(?,?,?,?,?,?)")
        .Bind(generation)
        .Bind(shard.file)
        .Bind(static_cast<int64_t>(shard.bytes))
        .Bind(int64_t{shard.table_crc})
        .Bind(int64_t{shard.header_crc})
        .Bind(int64_t{ShardCrc(generation, shard)})
        .Run();
  }

  Status PutCounter(const char* name, int64_t value) const {
    return Prepare("INSERT OR REPLACE INTO counters(name, value, crc) VALUES(?,?,?)")
        .Bind(name)
        .Bind(value)
        .Bind(int64_t{CounterCrc(name, value)})
        .Run();
  }

  // The number after the last that was given. kCorrupt: the counter is damaged; guessing could give
  // a number twice.
  Result<int64_t> NextGeneration() const {
    Statement s = Prepare("SELECT value, crc FROM counters WHERE name='generation'");
    const bool found = s.Step();
    LECTERN_RETURN_IF_ERROR(s.status());
    if (!found || s.Int(1) != CounterCrc("generation", s.Int(0))) {
      return CorruptRow("counters", "\"generation\"");
    }
    return s.Int(0) + 1;
  }

  // Marks generations of `id` below `end` dead. Returns how many were alive.
  Result<int> MarkDead(const DocumentId& id, uint64_t end) const {
    LECTERN_ASSIGN(auto documents, Documents());
    int num_marked = 0;
    for (StoredDocument& document : documents) {
      if (document.row.id != id || document.row.generation >= end) continue;
      if (!document.intact) return DocumentError(document);
      if (document.row.state == DocumentState::kDead) continue;
      document.row.state = DocumentState::kDead;
      LECTERN_RETURN_IF_ERROR(PutDocument(document.row, document.num_shards));
      ++num_marked;
    }
    return num_marked;
  }

  // Makes a change of names, within a transaction. `id` already has its new generation.
  Status MakeChange(const DocumentId& id, const NameChange& change) const {
    for (const DocumentName& name : change.names) {
      if (name.name.empty()) {
        return Status(Code::kInvalidArgument, "a document's name must not be empty");
      }
      LECTERN_RETURN_IF_ERROR(PutName(name, id));
    }
    for (const auto& [name, other] : change.others) LECTERN_RETURN_IF_ERROR(PutName(name, other));
    // Replaced documents go only if no name is left to them after the changes above.
    for (const DocumentId& replaced : change.replaced) {
      LECTERN_ASSIGN(const auto names, NamesOfId(replaced));
      if (replaced == id || !names.empty()) continue;
      LECTERN_RETURN_IF_ERROR(MarkDead(replaced, std::numeric_limits<uint64_t>::max()).status());
    }
    for (const uint64_t generation : change.abandoned) {
      LECTERN_ASSIGN(StoredDocument document, ByGeneration(generation));
      if (document.row.state != DocumentState::kBuilding) continue;
      document.row.state = DocumentState::kDead;
      LECTERN_RETURN_IF_ERROR(PutDocument(document.row, document.num_shards));
    }
    return {};
  }

  // The row must still be in state `building`; otherwise somebody removed the document meanwhile.
  Status CheckBuilding(const DocumentRow& row) const {
    LECTERN_ASSIGN(const StoredDocument document, ByGeneration(row.generation));
    if (document.row.id == row.id && document.row.state == DocumentState::kBuilding) return {};
    return Status(Code::kNotFound, path + ": generation " + std::to_string(row.generation) +
                                       " is not being built any more; index the document again");
  }
};

// The file is not touched before it is known to be Lectern's, unless it is empty.
Status Catalog::Impl::Load() const {
  LECTERN_RETURN_IF_ERROR(Configure());
  LECTERN_ASSIGN(const int64_t num_pages, Number("PRAGMA page_count"));
  if (num_pages == 0) {
    if (!writes) return Status(Code::kNotFound, path + ": the store is empty");
    LECTERN_RETURN_IF_ERROR(SetJournalMode());
    LECTERN_RETURN_IF_ERROR(CreateSchema(db, path));
  }
  LECTERN_RETURN_IF_ERROR(CheckIsOurs(db, path));
  LECTERN_RETURN_IF_ERROR(SetJournalMode());
  LECTERN_RETURN_IF_ERROR(CheckSchema(db, path));
  LECTERN_RETURN_IF_ERROR(QuickCheck());
  return writes ? UpgradeSchema(db, path) : Status();
}

Catalog::Catalog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Catalog::~Catalog() = default;

Result<std::unique_ptr<Catalog>> Catalog::Open(Env& env, const std::string& path, Mode mode) {
  const bool writes = mode == Mode::kReadWrite;
  LECTERN_ASSIGN(const OpenPlan plan, PlanOpen(env, path, writes));
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->writes = writes;
  LECTERN_RETURN_IF_ERROR(impl->Connect(plan, env.sqlite_vfs()));
  LECTERN_RETURN_IF_ERROR(impl->Load());
  return std::unique_ptr<Catalog>(new Catalog(std::move(impl)));
}

Result<uint64_t> Catalog::BeginDocument(const DocumentRow& row) {
  LECTERN_RETURN_IF_ERROR(impl_->CheckWritable());
  LECTERN_RETURN_IF_ERROR(CheckRange(row));
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kWrite);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(const int64_t generation, impl_->NextGeneration());
  LECTERN_RETURN_IF_ERROR(impl_->PutCounter("generation", generation));
  DocumentRow building = row;
  building.generation = static_cast<uint64_t>(generation);
  building.state = DocumentState::kBuilding;
  LECTERN_RETURN_IF_ERROR(impl_->PutDocument(building, 0));
  LECTERN_RETURN_IF_ERROR(transaction.Commit());
  return building.generation;
}

Status Catalog::CommitDocument(const DocumentRow& row, const std::vector<ShardSummary>& shards,
                               const NameChange& change) {
  LECTERN_RETURN_IF_ERROR(impl_->CheckWritable());
  LECTERN_RETURN_IF_ERROR(CheckRange(row));
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kWrite);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_RETURN_IF_ERROR(impl_->CheckBuilding(row));
  DocumentRow ready = row;
  ready.state = DocumentState::kReady;
  LECTERN_RETURN_IF_ERROR(impl_->PutDocument(ready, static_cast<int64_t>(shards.size())));
  for (const ShardSummary& shard : shards) {
    LECTERN_RETURN_IF_ERROR(impl_->PutShard(static_cast<int64_t>(row.generation), shard));
  }
  LECTERN_RETURN_IF_ERROR(impl_->MarkDead(row.id, row.generation).status());
  LECTERN_RETURN_IF_ERROR(impl_->MakeChange(row.id, change));
  return transaction.Commit();
}

Status Catalog::ChangeNames(const DocumentId& id, const NameChange& change) {
  LECTERN_RETURN_IF_ERROR(impl_->CheckWritable());
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kWrite);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(const auto document, impl_->FindReady(id));
  if (!document) return Status(Code::kNotFound, ToHex(id) + ": no such document");
  LECTERN_RETURN_IF_ERROR(impl_->MakeChange(id, change));
  return transaction.Commit();
}

Result<bool> Catalog::RemoveName(const std::string& name) {
  LECTERN_RETURN_IF_ERROR(impl_->CheckWritable());
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kWrite);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(const auto id, impl_->IdOfName(name));
  if (!id) return Status(Code::kNotFound, "no document \"" + name + "\"");
  LECTERN_RETURN_IF_ERROR(impl_->Prepare("DELETE FROM names WHERE name=?").Bind(name).Run());
  LECTERN_ASSIGN(const auto left, impl_->NamesOfId(*id));
  if (left.empty()) {
    LECTERN_RETURN_IF_ERROR(
        impl_->MarkDead(*id, std::numeric_limits<uint64_t>::max()).status());
  }
  LECTERN_RETURN_IF_ERROR(transaction.Commit());
  return left.empty();
}

Status Catalog::MarkDead(const DocumentId& id) {
  LECTERN_RETURN_IF_ERROR(impl_->CheckWritable());
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kWrite);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(const int num_marked, impl_->MarkDead(id, std::numeric_limits<uint64_t>::max()));
  if (num_marked == 0) {
    LECTERN_RETURN_IF_ERROR(impl_->FindReady(id).status());  // a damaged row may be the document
    return Status(Code::kNotFound, ToHex(id) + ": no such document");
  }
  LECTERN_RETURN_IF_ERROR(impl_->Prepare("DELETE FROM names WHERE id=?").Bind(id).Run());
  return transaction.Commit();
}

Status Catalog::Adopt(const std::vector<CatalogEntry>& entries) {
  LECTERN_RETURN_IF_ERROR(impl_->CheckWritable());
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kWrite);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(int64_t next, impl_->NextGeneration());
  for (const CatalogEntry& entry : entries) {
    LECTERN_RETURN_IF_ERROR(CheckRange(entry.row));
    const auto generation = static_cast<int64_t>(entry.row.generation);
    next = std::max(next, generation + 1);
    LECTERN_RETURN_IF_ERROR(
        impl_->Prepare("DELETE FROM shards WHERE generation=?").Bind(generation).Run());
    LECTERN_RETURN_IF_ERROR(
        impl_->PutDocument(entry.row, static_cast<int64_t>(entry.shards.size())));
    for (const ShardSummary& shard : entry.shards) {
      LECTERN_RETURN_IF_ERROR(impl_->PutShard(generation, shard));
    }
    for (const DocumentName& name : entry.row.names) {
      LECTERN_ASSIGN(const auto taken, impl_->IdOfName(name.name));
      if (!taken) LECTERN_RETURN_IF_ERROR(impl_->PutName(name, entry.row.id));
    }
  }
  LECTERN_RETURN_IF_ERROR(impl_->PutCounter("generation", next - 1));
  return transaction.Commit();
}

Result<Catalog::Salvaged> Catalog::Salvage() const {
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kRead);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(const auto documents, impl_->Documents());
  LECTERN_ASSIGN(const auto names, impl_->Names());
  Salvaged salvaged;
  // Lack of memory or a device that fails may pass: an intact catalog must not be replaced for it.
  const auto passes = [](const Status& status) {
    return status.code() == Code::kOutOfMemory || status.code() == Code::kIoError;
  };
  const auto next = impl_->NextGeneration();
  if (passes(next.status())) return next.status();
  salvaged.damaged = !next.ok();
  for (const StoredName& name : names) salvaged.damaged |= !name.intact;
  for (const StoredDocument& document : documents) {
    const auto shards = impl_->Shards(static_cast<int64_t>(document.row.generation));
    if (passes(shards.status())) return shards.status();
    salvaged.damaged |= !document.intact || !shards.ok() ||
                        static_cast<int64_t>(shards->size()) != document.num_shards;
    if (!document.intact) continue;
    Impl::AddNames(names, salvaged.documents.emplace_back(document.row));
  }
  return salvaged;
}

Status Catalog::Settle() {
  LECTERN_RETURN_IF_ERROR(impl_->CheckWritable());
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kWrite);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  // Setting a row to the values that it has would write nothing; the header is always written.
  LECTERN_RETURN_IF_ERROR(
      impl_->Execute(("PRAGMA user_version=" + std::to_string(kSchemaVersion)).c_str()));
  return transaction.Commit();
}

Status Catalog::Forget(uint64_t generation) {
  LECTERN_RETURN_IF_ERROR(impl_->CheckWritable());
  const int64_t key = static_cast<int64_t>(generation);
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kWrite);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_RETURN_IF_ERROR(impl_->Prepare("DELETE FROM shards WHERE generation=?").Bind(key).Run());
  LECTERN_RETURN_IF_ERROR(
      impl_->Prepare("DELETE FROM documents WHERE generation=?").Bind(key).Run());
  return transaction.Commit();
}

Result<std::vector<DocumentRow>> Catalog::List() const {
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kRead);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(const auto documents, impl_->Documents());
  LECTERN_ASSIGN(const auto names, impl_->Names());
  for (const StoredName& name : names) {
    if (!name.intact) return impl_->NameError(name);
  }
  std::vector<DocumentRow> rows;
  for (const StoredDocument& document : documents) {
    if (!document.intact) return impl_->DocumentError(document);
    Impl::AddNames(names, rows.emplace_back(document.row));
  }
  return rows;
}

Result<std::optional<DocumentRow>> Catalog::FindReady(const DocumentId& id) const {
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kRead);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(auto document, impl_->FindReady(id));
  if (document) {
    LECTERN_ASSIGN(document->names, impl_->NamesOfId(id));
    if (!document->names.empty()) document->name = document->names.front().name;
  }
  return document;
}

Result<std::optional<DocumentRow>> Catalog::FindReadyByName(const std::string& name) const {
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kRead);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(const auto id, impl_->IdOfName(name));
  if (!id) return std::optional<DocumentRow>();
  LECTERN_ASSIGN(auto document, impl_->FindReady(*id));
  if (document) {
    LECTERN_ASSIGN(document->names, impl_->NamesOfId(*id));
    document->name = name;
  }
  return document;
}

Result<std::vector<ShardSummary>> Catalog::Shards(uint64_t generation) const {
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kRead);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(const StoredDocument document, impl_->ByGeneration(generation));
  LECTERN_ASSIGN(auto shards, impl_->Shards(static_cast<int64_t>(generation)));
  if (static_cast<int64_t>(shards.size()) != document.num_shards) {
    return impl_->Corrupt("shards of generation " + std::to_string(generation) + " are missing");
  }
  return shards;
}

}  // namespace lectern
