#include "store/catalog.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "store/catalog_rows.h"
#include "store/catalog_schema.h"
#include "store/checked_files.h"
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
  std::string path;
  bool writes = false;
  bool is_checked = false;  // its pages were checked as they are now
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

  // All rows, damaged ones too.
  Result<std::vector<StoredDocument>> Documents() const { return ReadDocuments(kSelectDocuments); }

  // The rows that a query with one value selects, damaged ones too. A damaged key hides its row
  // from such a query: where nothing is found, all rows must be looked at.
  template <typename... Value>
  Result<std::vector<StoredDocument>> ReadDocuments(const char* sql, const Value&... value) const {
    std::vector<StoredDocument> documents;
    Statement s = Prepare(sql);
    (s.Bind(value), ...);
    while (s.Step()) documents.push_back(ReadDocument(s));
    LECTERN_RETURN_IF_ERROR(s.status());
    return documents;
  }

  // A reader's file may have schema version 1, and another process may upgrade it while it is open.
  Result<bool> HasVersion1() const {
    LECTERN_ASSIGN(const int64_t version, Number("PRAGMA user_version"));
    return version == 1;
  }
  Result<std::vector<StoredName>> Names() const {
    LECTERN_ASSIGN(const bool is_old, HasVersion1());
    return ReadNames(is_old ? kSelectNamesOfVersion1 : kSelectNames, is_old);
  }
  // As ReadDocuments. Version 1 is read whole: nothing.
  template <typename Value>
  Result<std::vector<StoredName>> NamesWhere(const char* sql, const Value& value) const {
    LECTERN_ASSIGN(const bool is_old, HasVersion1());
    if (is_old) return std::vector<StoredName>();
    return ReadNames(sql, false, value);
  }
  template <typename... Value>
  Result<std::vector<StoredName>> ReadNames(const char* sql, bool is_old,
                                            const Value&... value) const {
    std::vector<StoredName> names;
    Statement s = Prepare(sql);
    (s.Bind(value), ...);
    while (s.Step()) {
      StoredName& stored = names.emplace_back();
      stored.name = s.Bytes(0);
      CopyTo(s.Bytes(1), stored.id);
      stored.source = s.Bytes(3);
      const uint32_t crc = is_old ? NameCrc1(stored.name, s.Bytes(1))
                                  : NameCrc(stored.name, s.Bytes(1), stored.source);
      stored.intact = s.Bytes(1).size() == stored.id.size() && s.Int(2) == crc;
    }
    LECTERN_RETURN_IF_ERROR(s.status());
    return names;
  }

  // kCorrupt: a row is damaged.
  Result<std::vector<ShardSummary>> Shards(int64_t generation) const {
    std::vector<ShardSummary> shards;
    Statement s = Prepare(kSelectShards);
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
    LECTERN_ASSIGN(auto documents, ReadDocuments(kSelectDocumentsById, id));
    const auto find = [&]() -> const StoredDocument* {
      const StoredDocument* found = nullptr;  // the last one
      for (const StoredDocument& document : documents) {
        const bool is_it =
            document.intact && document.row.id == id && document.row.state == DocumentState::kReady;
        if (is_it) found = &document;
      }
      return found;
    };
    if (const auto* const found = find()) return std::optional<DocumentRow>(found->row);
    LECTERN_ASSIGN(documents, Documents());
    if (const auto* const found = find()) return std::optional<DocumentRow>(found->row);
    LECTERN_RETURN_IF_ERROR(FirstDamage(documents));
    return std::optional<DocumentRow>();
  }
  // The error of a damaged row.
  Status FirstDamage(const std::vector<StoredDocument>& documents) const {
    const auto damaged = std::ranges::find(documents, false, &StoredDocument::intact);
    return damaged == documents.end() ? Status() : DocumentError(*damaged);
  }
  Status FirstDamage(const std::vector<StoredName>& names) const {
    const auto damaged = std::ranges::find(names, false, &StoredName::intact);
    return damaged == names.end() ? Status() : NameError(*damaged);
  }

  // As FindReady, for any state. kNotFound: there is no such generation.
  Result<StoredDocument> ByGeneration(uint64_t generation) const {
    LECTERN_ASSIGN(auto documents,
                   ReadDocuments(kSelectDocument, static_cast<int64_t>(generation)));
    if (!documents.empty() && documents.front().intact) return std::move(documents.front());
    LECTERN_ASSIGN(documents, Documents());
    LECTERN_RETURN_IF_ERROR(FirstDamage(documents));
    return Status(Code::kNotFound, "there is no generation " + std::to_string(generation));
  }

  // As FindReady, for a name; nothing: no document has it.
  Result<std::optional<DocumentId>> IdOfName(const std::string& name) const {
    LECTERN_ASSIGN(auto names, NamesWhere(kSelectName, std::string_view(name)));
    const auto is_it = [&](const StoredName& stored) {
      return stored.intact && stored.name == name;
    };
    auto found = std::ranges::find_if(names, is_it);
    if (found == names.end()) {
      LECTERN_ASSIGN(names, Names());
      found = std::ranges::find_if(names, is_it);
    }
    if (found != names.end()) return std::optional<DocumentId>(found->id);
    LECTERN_RETURN_IF_ERROR(FirstDamage(names));
    return std::optional<DocumentId>();
  }

  // As FindReady: damage is an error only if no intact name was found, because a damaged one may be
  // this document's.
  Result<std::vector<DocumentName>> NamesOfId(const DocumentId& id) const {
    LECTERN_ASSIGN(auto names, NamesWhere(kSelectNamesById, id));
    std::vector<DocumentName> of_id = NamesOf(names, id);
    if (!of_id.empty()) return of_id;
    LECTERN_ASSIGN(names, Names());
    of_id = NamesOf(names, id);
    if (of_id.empty()) LECTERN_RETURN_IF_ERROR(FirstDamage(names));
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
    LECTERN_ASSIGN(auto documents, ReadDocuments(kSelectDocumentsById, id));
    int num_marked = 0;
    for (StoredDocument& document : documents) {
      if (document.row.generation >= end) continue;
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
  LECTERN_RETURN_IF_ERROR(ConfigureConnection(db, path, writes));
  LECTERN_ASSIGN(const int64_t num_pages, Number("PRAGMA page_count"));
  if (num_pages == 0) {
    if (!writes) return Status(Code::kNotFound, path + ": the store is empty");
    LECTERN_RETURN_IF_ERROR(SetJournalMode());
    LECTERN_RETURN_IF_ERROR(CreateSchema(db, path));
  }
  LECTERN_RETURN_IF_ERROR(CheckIsOurs(db, path));
  LECTERN_RETURN_IF_ERROR(SetJournalMode());
  LECTERN_RETURN_IF_ERROR(CheckSchema(db, path));
  if (!is_checked) LECTERN_RETURN_IF_ERROR(QuickCheck());
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
  // Only the real file system's times tell of every change.
  const bool is_real = &env == &Env::Default();
  FileInfo before;
  if (is_real) {
    LECTERN_ASSIGN(before, env.Info(path));
    impl->is_checked = CheckedFiles::Instance().IsChecked(path, before);
  }
  LECTERN_RETURN_IF_ERROR(impl->Load());
  if (is_real && !impl->is_checked) {
    LECTERN_ASSIGN(const FileInfo after, env.Info(path));
    if (after == before) CheckedFiles::Instance().Add(path, after);
  }
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
    if (document.intact) salvaged.documents.push_back(document.row);
  }
  AddNames(names, salvaged.documents);
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
    rows.push_back(document.row);
  }
  AddNames(names, rows);
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
