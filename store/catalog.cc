#include "store/catalog.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "store/crc32c.h"
#include "store/env.h"

namespace lectern {
namespace {

// ---- Schema. The text is normative (FORMAT.md) and compared with what a file holds. ----

constexpr int kApplicationId = 0x4C454354;  // "LECT"
constexpr int kSchemaVersion = 1;
constexpr int kBusyTimeoutMs = 5000;

struct Table {
  const char* name;
  const char* sql;
};

constexpr Table kTables[] = {
    // by name
    {"counters",
     "CREATE TABLE counters(name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL, "
     "crc INTEGER NOT NULL) STRICT, WITHOUT ROWID"},
    {"documents",
     "CREATE TABLE documents(generation INTEGER PRIMARY KEY, id BLOB NOT NULL, "
     "state INTEGER NOT NULL, fingerprint BLOB NOT NULL, model_path TEXT NOT NULL, "
     "num_tokens INTEGER NOT NULL, text_bytes INTEGER NOT NULL, replaced_bytes INTEGER NOT NULL, "
     "bytes_on_disk INTEGER NOT NULL, report_json TEXT NOT NULL, num_shards INTEGER NOT NULL, "
     "crc INTEGER NOT NULL) STRICT"},
    {"names",
     "CREATE TABLE names(name TEXT PRIMARY KEY NOT NULL, id BLOB NOT NULL, "
     "crc INTEGER NOT NULL) STRICT, WITHOUT ROWID"},
    {"shards",
     "CREATE TABLE shards(generation INTEGER NOT NULL REFERENCES documents(generation), "
     "file TEXT NOT NULL, bytes INTEGER NOT NULL, table_crc INTEGER NOT NULL, "
     "header_crc INTEGER NOT NULL, crc INTEGER NOT NULL, "
     "PRIMARY KEY(generation, file)) STRICT, WITHOUT ROWID"},
};

// ---- Row checksums ----

// CRC-32C over the table's name and the columns in order: text and blobs as u64 length + bytes,
// integers as i64, little-endian.
class RowCrc {
 public:
  explicit RowCrc(std::string_view table) { Add(table); }
  RowCrc& Add(int64_t value) {
    crc_ = Crc32c(crc_, &value, sizeof value);
    return *this;
  }
  RowCrc& Add(std::string_view bytes) {
    Add(static_cast<int64_t>(bytes.size()));
    crc_ = Crc32c(crc_, bytes.data(), bytes.size());
    return *this;
  }
  uint32_t value() const { return crc_; }

 private:
  uint32_t crc_ = 0;
};

template <size_t N>
std::string_view View(const std::array<uint8_t, N>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), N};
}

// A blob of another length fails the row's CRC, so a cut copy does no harm.
template <size_t N>
void CopyTo(std::string_view from, std::array<uint8_t, N>& to) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), std::min(N, from.size()));
}

// ---- SQLite, wrapped ----

Code SqliteCode(sqlite3* db, int rc) {
  switch (rc & 0xFF) {
    case SQLITE_FULL:
      return Code::kNoSpace;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return Code::kLocked;
    case SQLITE_READONLY:
      return rc == SQLITE_READONLY_ROLLBACK ? Code::kLocked : Code::kReadOnly;
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return Code::kReadOnly;
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_CORRUPT:
    case SQLITE_ERROR:  // our SQL is fixed: what does not fit it is the file
    case SQLITE_SCHEMA:
      return Code::kCorrupt;
    case SQLITE_NOMEM:
      return Code::kOutOfMemory;
    case SQLITE_TOOBIG:
      return Code::kLimitExceeded;
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR: {
      if (rc == SQLITE_IOERR_NOMEM) return Code::kOutOfMemory;
      const int error = db != nullptr ? sqlite3_system_errno(db) : 0;
      if (error != 0) return ErrnoStatus(error, "write", "").code();
      return (rc & 0xFF) == SQLITE_CANTOPEN ? Code::kReadOnly : Code::kIoError;
    }
    default:
      return Code::kInternal;
  }
}

const char* WayOut(Code code, int rc) {
  if (rc == SQLITE_READONLY_ROLLBACK) {
    return "; a write was not finished: open the store once where it can be written";
  }
  switch (code) {
    case Code::kNoSpace:
      return "; free some disk space and try again";
    case Code::kLocked:
      return "; another process is writing the store: try again";
    case Code::kReadOnly:
      return "; the store cannot be written";
    case Code::kCorrupt:
      return "; rebuild the catalog from its shards: lectern-store recover";
    default:
      return "";
  }
}

// A prepared statement: every value is bound, none is pasted into SQL. Ask for status() at the end:
// errors of any step are kept.
class Statement {
 public:
  Statement(sqlite3* db, const std::string& path, const char* sql) : db_(db), path_(path) {
    rc_ = sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Bind(int64_t value) {
    if (rc_ == SQLITE_OK) rc_ = sqlite3_bind_int64(statement_, ++bound_, value);
    return *this;
  }
  Statement& Bind(std::string_view text) {
    const char* data = text.empty() ? "" : text.data();
    if (rc_ == SQLITE_OK) {
      rc_ = sqlite3_bind_text64(statement_, ++bound_, data, text.size(), SQLITE_TRANSIENT,
                                SQLITE_UTF8);
    }
    return *this;
  }
  template <size_t N>
  Statement& Bind(const std::array<uint8_t, N>& blob) {
    if (rc_ == SQLITE_OK) {
      rc_ = sqlite3_bind_blob64(statement_, ++bound_, blob.data(), N, SQLITE_TRANSIENT);
    }
    return *this;
  }

  // True: a row is there. False: no more rows, or an error.
  bool Step() {
    if (rc_ != SQLITE_OK && rc_ != SQLITE_ROW) return false;
    rc_ = sqlite3_step(statement_);
    return rc_ == SQLITE_ROW;
  }
  int64_t Int(int column) const { return sqlite3_column_int64(statement_, column); }
  // Valid until the next Step.
  std::string_view Bytes(int column) const {
    const void* data = sqlite3_column_blob(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    return {data == nullptr ? "" : static_cast<const char*>(data),
            data == nullptr ? 0 : static_cast<size_t>(size)};
  }

  Status status() const {
    if (rc_ == SQLITE_OK || rc_ == SQLITE_ROW || rc_ == SQLITE_DONE) return {};
    const Code code = SqliteCode(db_, rc_);
    return Status(code, path_ + ": " + sqlite3_errmsg(db_) + WayOut(code, rc_));
  }
  Status Run() {
    while (Step()) {
    }
    return status();
  }

 private:
  sqlite3* db_;
  const std::string& path_;
  sqlite3_stmt* statement_ = nullptr;
  int rc_ = SQLITE_OK;
  int bound_ = 0;
};

// ---- Rows ----

// A document with what only the catalog knows.
struct StoredDocument {
  DocumentRow row;
  int64_t num_shards = 0;
  bool intact = false;  // its CRC fits
};

struct StoredName {
  std::string name;
  DocumentId id{};
  bool intact = false;
};

uint32_t DocumentCrc(const DocumentRow& row, std::string_view id, std::string_view fingerprint,
                     int64_t num_shards) {
  return RowCrc("documents")
      .Add(static_cast<int64_t>(row.generation))
      .Add(id)
      .Add(static_cast<int64_t>(row.state))
      .Add(fingerprint)
      .Add(row.model_path)
      .Add(static_cast<int64_t>(row.num_tokens))
      .Add(static_cast<int64_t>(row.text_bytes))
      .Add(static_cast<int64_t>(row.replaced_bytes))
      .Add(static_cast<int64_t>(row.bytes_on_disk))
      .Add(row.report_json)
      .Add(num_shards)
      .value();
}

uint32_t NameCrc(std::string_view name, std::string_view id) {
  return RowCrc("names").Add(name).Add(id).value();
}

uint32_t CounterCrc(std::string_view name, int64_t value) {
  return RowCrc("counters").Add(name).Add(value).value();
}

uint32_t ShardCrc(int64_t generation, const ShardSummary& shard) {
  return RowCrc("shards")
      .Add(generation)
      .Add(shard.file)
      .Add(static_cast<int64_t>(shard.bytes))
      .Add(int64_t{shard.table_crc})
      .Add(int64_t{shard.header_crc})
      .value();
}

constexpr char kSelectDocuments[] =
    "SELECT generation, id, state, fingerprint, model_path, num_tokens, text_bytes, "
    "replaced_bytes, bytes_on_disk, report_json, num_shards, crc FROM documents "
    "ORDER BY generation";

StoredDocument ReadDocument(const Statement& s) {
  StoredDocument stored;
  DocumentRow& row = stored.row;
  row.generation = static_cast<uint64_t>(s.Int(0));
  CopyTo(s.Bytes(1), row.id);
  const int64_t state = s.Int(2);
  row.state = static_cast<DocumentState>(state);
  CopyTo(s.Bytes(3), row.fingerprint);
  row.model_path = s.Bytes(4);
  row.num_tokens = static_cast<uint64_t>(s.Int(5));
  row.text_bytes = static_cast<uint64_t>(s.Int(6));
  row.replaced_bytes = static_cast<uint64_t>(s.Int(7));
  row.bytes_on_disk = static_cast<uint64_t>(s.Int(8));
  row.report_json = s.Bytes(9);
  stored.num_shards = s.Int(10);
  stored.intact = state >= 1 && state <= 3 && s.Bytes(1).size() == row.id.size() &&
                  s.Bytes(3).size() == row.fingerprint.size() &&
                  s.Int(11) == DocumentCrc(row, s.Bytes(1), s.Bytes(3), stored.num_shards);
  return stored;
}

// False: the CRC does not fit, or the file would lie elsewhere.
bool ReadShard(const Statement& s, int64_t generation, ShardSummary& shard) {
  shard.file = s.Bytes(0);
  shard.bytes = static_cast<uint64_t>(s.Int(1));
  shard.table_crc = static_cast<uint32_t>(s.Int(2));
  shard.header_crc = static_cast<uint32_t>(s.Int(3));
  return s.Int(2) == shard.table_crc && s.Int(3) == shard.header_crc &&
         s.Int(4) == ShardCrc(generation, shard) && IsPlainName(shard.file);
}

// SQLite's integers are signed.
Status CheckRange(const DocumentRow& row) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  if (row.num_tokens <= kMax && row.text_bytes <= kMax && row.replaced_bytes <= kMax &&
      row.bytes_on_disk <= kMax) {
    return {};
  }
  return Status(Code::kLimitExceeded, "a size of the document is beyond 2^63");
}

// ---- Opening ----

// "file:" with every byte escaped that has a meaning in a URI.
std::string ImmutableUri(const std::string& path) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string uri = path[0] == '/' ? "file://" : "file:";
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '/' || c == '.' || c == '-' || c == '_';
    if (plain) {
      uri += c;
    } else {
      uri += '%';
      uri += kDigits[static_cast<uint8_t>(c) >> 4];
      uri += kDigits[static_cast<uint8_t>(c) & 15];
    }
  }
  return uri + "?mode=ro&immutable=1";
}

struct OpenPlan {
  std::string name;  // for sqlite3_open_v2
  int flags = 0;
};

// A link, directory or FIFO in place of the catalog is refused.
Result<bool> CatalogExists(Env& env, const std::string& path) {
  LECTERN_ASSIGN(const FileInfo info, env.Info(path));
  if (info.type == FileInfo::Type::kNone || info.type == FileInfo::Type::kRegular) {
    return info.type == FileInfo::Type::kRegular;
  }
  return Status(Code::kCorrupt, path + ": not a regular file; move it away and try again");
}

// Ours alone, before SQLite makes it readable for others.
Status CreateFile(Env& env, const std::string& path) {
  LECTERN_ASSIGN(const auto file, env.OpenWritable(path, /*exclusive=*/true));
  LECTERN_RETURN_IF_ERROR(file->Close());
  return env.SyncDirectory(ParentDirectory(path));
}

Result<OpenPlan> PlanOpen(Env& env, const std::string& path, Catalog::Mode mode) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Status(Code::kInvalidArgument, "the catalog's path is empty or holds a NUL byte");
  }
  const bool writes = mode == Catalog::Mode::kReadWrite;
  LECTERN_ASSIGN(const bool exists, CatalogExists(env, path));
  if (!exists && !writes) return Status(Code::kNotFound, path + ": there is no store here");
  const Access access = env.AccessTo(ParentDirectory(path));
  if (writes && access != Access::kWritable) {
    return Status(Code::kReadOnly, path + ": the store cannot be written");
  }
  // "./": neither ":memory:" nor "file:…" may mean something else than a file.
  OpenPlan plan{path[0] == '/' ? path : "./" + path, SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE};
  if (access == Access::kReadOnlyMedia) {
    // `immutable` ignores journals, so there must not be one.
    for (const char* journal : {"-journal", "-wal"}) {
      LECTERN_ASSIGN(const FileInfo info, env.Info(path + journal));
      if (info.bytes == 0) continue;
      return Status(Code::kLocked,
                    path +
                        ": a write was not finished and the medium is read-only; copy the store "
                        "to a writable place and open it there once");
    }
    plan.name = ImmutableUri(path);
    plan.flags |= SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
  } else if (access == Access::kNotWritable) {
    plan.flags |= SQLITE_OPEN_READONLY;
  } else {  // a reader may have to roll back what a killed writer left
    plan.flags |= SQLITE_OPEN_READWRITE;
    if (!exists) LECTERN_RETURN_IF_ERROR(CreateFile(env, path));
  }
  return plan;
}

}  // namespace

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
  sqlite3* db = nullptr;

  ~Impl() { sqlite3_close(db); }

  Statement Prepare(const char* sql) const { return Statement(db, path, sql); }
  Status Execute(const char* sql) const { return Prepare(sql).Run(); }

  Status Corrupt(const std::string& what) const {
    return Status(Code::kCorrupt, path + ": " + what + WayOut(Code::kCorrupt, 0));
  }
  Status CorruptRow(const char* table, const std::string& row) const {
    return Corrupt(std::string("checksum mismatch in table ") + table + ", row " + row);
  }

  Result<int64_t> Number(const char* sql) const {
    Statement s = Prepare(sql);
    const int64_t value = s.Step() ? s.Int(0) : 0;
    LECTERN_RETURN_IF_ERROR(s.status());
    return value;
  }

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

  // Only for a file known to be ours: leaving WAL would change it.
  Status SetJournalMode() const {
    Statement s = Prepare("PRAGMA journal_mode=TRUNCATE");
    const std::string mode(s.Step() ? s.Bytes(0) : "");
    LECTERN_RETURN_IF_ERROR(s.status());
    if (mode == "wal") return Corrupt("not a catalog of Lectern (its journal is a WAL)");
    return {};
  }

  Status CheckIsOurs() const {
    LECTERN_ASSIGN(const int64_t application, Number("PRAGMA application_id"));
    if (application != kApplicationId) return Corrupt("not a catalog of Lectern");
    LECTERN_ASSIGN(const int64_t version, Number("PRAGMA user_version"));
    if (version > kSchemaVersion) {
      return Status(Code::kUnsupportedVersion,
                    path + ": catalog " + std::to_string(version) + ", this build reads " +
                        std::to_string(kSchemaVersion) + "; use a newer Lectern");
    }
    if (version != kSchemaVersion) return Corrupt("catalog version " + std::to_string(version));
    return {};
  }

  // Our tables and nothing else: no view or trigger of someone else ever runs.
  Status CheckSchema() const {
    Statement s = Prepare("SELECT name, sql FROM sqlite_schema ORDER BY name");
    size_t i = 0;
    bool same = true;
    for (; s.Step(); ++i) {
      same = same && i < std::size(kTables) && s.Bytes(0) == kTables[i].name &&
             s.Bytes(1) == kTables[i].sql;
    }
    LECTERN_RETURN_IF_ERROR(s.status());
    if (!same || i != std::size(kTables)) return Corrupt("its tables are not Lectern's");
    return {};
  }

  // SQLite keeps no page checksums. Row CRCs find changed values; this finds lost rows.
  Status QuickCheck() const {
    Statement s = Prepare("PRAGMA quick_check(1)");
    const std::string found(s.Step() ? s.Bytes(0) : "nothing was checked");
    LECTERN_RETURN_IF_ERROR(s.status());
    return found == "ok" ? Status() : Corrupt(found);
  }

  Status CreateSchema() const;
  Status Load() const;

  // -- Reading --

  Result<std::vector<StoredDocument>> Documents() const {
    std::vector<StoredDocument> documents;
    Statement s = Prepare(kSelectDocuments);
    while (s.Step()) documents.push_back(ReadDocument(s));
    LECTERN_RETURN_IF_ERROR(s.status());
    return documents;
  }

  Result<std::vector<StoredName>> Names() const {
    std::vector<StoredName> names;
    Statement s = Prepare("SELECT name, id, crc FROM names ORDER BY name");
    while (s.Step()) {
      StoredName& stored = names.emplace_back();
      stored.name = s.Bytes(0);
      CopyTo(s.Bytes(1), stored.id);
      stored.intact =
          s.Bytes(1).size() == stored.id.size() && s.Int(2) == NameCrc(stored.name, s.Bytes(1));
    }
    LECTERN_RETURN_IF_ERROR(s.status());
    return names;
  }

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

  // A damaged row hides no intact one: it counts only where nothing else was found, because then it
  // may be what was looked for.
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

  // The first name by byte order; empty when there is none.
  Result<std::string> NameOfId(const DocumentId& id) const {
    LECTERN_ASSIGN(const auto names, Names());
    const StoredName* damaged = nullptr;
    for (const StoredName& stored : names) {
      if (stored.intact && stored.id == id) return stored.name;
      if (!stored.intact) damaged = &stored;
    }
    if (damaged != nullptr) return NameError(*damaged);
    return std::string();
  }

  // -- Writing --

  Status CheckWritable() const {
    if (writes) return {};
    return Status(Code::kReadOnly, path + ": the store is open for reading only");
  }

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

  Status PutName(const std::string& name, const DocumentId& id) const {
    return Prepare("INSERT OR REPLACE INTO names(name, id, crc) VALUES(?,?,?)")
        .Bind(name)
        .Bind(id)
        .Bind(int64_t{NameCrc(name, View(id))})
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

  Result<int64_t> NextGeneration() const {
    Statement s = Prepare("SELECT value, crc FROM counters WHERE name='generation'");
    const bool found = s.Step();
    LECTERN_RETURN_IF_ERROR(s.status());
    if (!found || s.Int(1) != CounterCrc("generation", s.Int(0))) {
      return CorruptRow("counters", "\"generation\"");
    }
    return s.Int(0) + 1;
  }

  // Marks generations of `id` below `end` dead. The number of those that were alive.
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

  // The row must be there and being built, or someone removed the document meanwhile.
  Status CheckBuilding(const DocumentRow& row) const {
    LECTERN_ASSIGN(const StoredDocument document, ByGeneration(row.generation));
    if (document.row.id == row.id && document.row.state == DocumentState::kBuilding) return {};
    return Status(Code::kNotFound, path + ": generation " + std::to_string(row.generation) +
                                       " is not being built any more; index the document again");
  }
};

namespace {

// Rolls back unless committed.
class Transaction {
 public:
  enum class Kind { kRead, kWrite };
  Transaction(sqlite3* db, const std::string& path, Kind kind)
      : db_(db),
        path_(path),
        begun_(Statement(db, path, kind == Kind::kWrite ? "BEGIN IMMEDIATE" : "BEGIN").Run()) {}
  ~Transaction() {
    if (begun_.ok() && !sqlite3_get_autocommit(db_)) {
      sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
    }
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  const Status& begun() const { return begun_; }
  Status Commit() { return Statement(db_, path_, "COMMIT").Run(); }

 private:
  sqlite3* db_;
  const std::string& path_;
  Status begun_;
};

}  // namespace

// In one transaction, and only if no other process was faster.
Status Catalog::Impl::CreateSchema() const {
  Transaction transaction(db, path, Transaction::Kind::kWrite);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(const int64_t application, Number("PRAGMA application_id"));
  LECTERN_ASSIGN(const int64_t version, Number("PRAGMA user_version"));
  LECTERN_ASSIGN(const int64_t num_objects, Number("SELECT count(*) FROM sqlite_schema"));
  if (application != 0 || version != 0 || num_objects != 0) return {};
  for (const Table& table : kTables) LECTERN_RETURN_IF_ERROR(Execute(table.sql));
  LECTERN_RETURN_IF_ERROR(PutCounter("generation", 0));
  LECTERN_RETURN_IF_ERROR(
      Execute(("PRAGMA application_id=" + std::to_string(kApplicationId)).c_str()));
  LECTERN_RETURN_IF_ERROR(
      Execute(("PRAGMA user_version=" + std::to_string(kSchemaVersion)).c_str()));
  return transaction.Commit();
}

Status Catalog::Impl::Load() const {
  LECTERN_RETURN_IF_ERROR(Configure());
  LECTERN_ASSIGN(const int64_t num_pages, Number("PRAGMA page_count"));
  if (num_pages == 0) {
    if (!writes) return Status(Code::kNotFound, path + ": the store is empty");
    LECTERN_RETURN_IF_ERROR(SetJournalMode());
    LECTERN_RETURN_IF_ERROR(CreateSchema());
  }
  LECTERN_RETURN_IF_ERROR(CheckIsOurs());
  LECTERN_RETURN_IF_ERROR(SetJournalMode());
  LECTERN_RETURN_IF_ERROR(CheckSchema());
  return QuickCheck();
}

Catalog::Catalog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Catalog::~Catalog() = default;

Result<std::unique_ptr<Catalog>> Catalog::Open(Env& env, const std::string& path, Mode mode) {
  LECTERN_ASSIGN(const OpenPlan plan, PlanOpen(env, path, mode));
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->writes = mode == Mode::kReadWrite;
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

Status Catalog::CommitDocument(const DocumentRow& row, const std::vector<ShardSummary>& shards) {
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
  if (!row.name.empty()) LECTERN_RETURN_IF_ERROR(impl_->PutName(row.name, row.id));
  return transaction.Commit();
}

Status Catalog::MoveName(const std::string& name, const DocumentId& id) {
  LECTERN_RETURN_IF_ERROR(impl_->CheckWritable());
  if (name.empty()) return Status(Code::kInvalidArgument, "a document's name must not be empty");
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kWrite);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(const auto document, impl_->FindReady(id));
  if (!document) return Status(Code::kNotFound, ToHex(id) + ": no such document");
  LECTERN_RETURN_IF_ERROR(impl_->PutName(name, id));
  return transaction.Commit();
}

Status Catalog::MarkDead(const DocumentId& id) {
  LECTERN_RETURN_IF_ERROR(impl_->CheckWritable());
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kWrite);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(const int num_marked, impl_->MarkDead(id, std::numeric_limits<uint64_t>::max()));
  if (num_marked == 0) {
    LECTERN_RETURN_IF_ERROR(impl_->FindReady(id).status());  // a damaged row may be the one
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
    if (entry.row.name.empty()) continue;
    LECTERN_ASSIGN(const auto taken, impl_->IdOfName(entry.row.name));
    if (!taken) LECTERN_RETURN_IF_ERROR(impl_->PutName(entry.row.name, entry.row.id));
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
  salvaged.damaged = !impl_->NextGeneration().ok();
  for (const StoredName& name : names) salvaged.damaged |= !name.intact;
  for (const StoredDocument& document : documents) {
    const auto shards = impl_->Shards(static_cast<int64_t>(document.row.generation));
    salvaged.damaged |= !document.intact || !shards.ok() ||
                        static_cast<int64_t>(shards->size()) != document.num_shards;
    if (!document.intact) continue;
    DocumentRow& row = salvaged.documents.emplace_back(document.row);
    const auto name = std::find_if(names.begin(), names.end(),
                                   [&](const StoredName& n) { return n.intact && n.id == row.id; });
    if (row.state == DocumentState::kReady && name != names.end()) row.name = name->name;
  }
  return salvaged;
}

Status Catalog::Settle() {
  LECTERN_RETURN_IF_ERROR(impl_->CheckWritable());
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kWrite);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  // A row with the values that it has would write nothing; the header is always written.
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
    DocumentRow& row = rows.emplace_back(document.row);
    if (row.state != DocumentState::kReady) continue;
    const auto name = std::find_if(names.begin(), names.end(),
                                   [&](const StoredName& n) { return n.id == row.id; });
    if (name != names.end()) row.name = name->name;
  }
  return rows;
}

Result<std::optional<DocumentRow>> Catalog::FindReady(const DocumentId& id) const {
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kRead);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(auto document, impl_->FindReady(id));
  if (document) {
    LECTERN_ASSIGN(document->name, impl_->NameOfId(id));
  }
  return document;
}

Result<std::optional<DocumentRow>> Catalog::FindReadyByName(const std::string& name) const {
  Transaction transaction(impl_->db, impl_->path, Transaction::Kind::kRead);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(const auto id, impl_->IdOfName(name));
  if (!id) return std::optional<DocumentRow>();
  LECTERN_ASSIGN(auto document, impl_->FindReady(*id));
  if (document) document->name = name;
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
