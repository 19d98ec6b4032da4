#include "store/catalog_schema.h"

#include <iterator>
#include <utility>
#include <vector>

#include "store/catalog_rows.h"

namespace lectern {
namespace {

// The SQL is normative (FORMAT.md) and is compared with the text that a file holds.
constexpr int kApplicationId = 0x4C454354;  // "LECT"

// A table or an index, and the SQL that creates it, which SQLite keeps word for word.
struct Table {
  const char* name;
  const char* sql;
  int since = 1;  // the version that brought it
};

constexpr Table kTables[] = {
    // In the order of names.
    {"counters",
     "CREATE TABLE counters(name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL, "
     "crc INTEGER NOT NULL) STRICT, WITHOUT ROWID"},
    {"documents",
     "CREATE TABLE documents(generation INTEGER PRIMARY KEY, id BLOB NOT NULL, "
     "state INTEGER NOT NULL, fingerprint BLOB NOT NULL, model_path TEXT NOT NULL, "
     "num_tokens INTEGER NOT NULL, text_bytes INTEGER NOT NULL, replaced_bytes INTEGER NOT NULL, "
     "bytes_on_disk INTEGER NOT NULL, report_json TEXT NOT NULL, num_shards INTEGER NOT NULL, "
     "crc INTEGER NOT NULL) STRICT"},
    {"documents_id", "CREATE INDEX documents_id ON documents(id)", 3},
    {"names",
     "CREATE TABLE names(name TEXT PRIMARY KEY NOT NULL, id BLOB NOT NULL, source TEXT NOT NULL, "
     "crc INTEGER NOT NULL) STRICT, WITHOUT ROWID"},
    {"names_id", "CREATE INDEX names_id ON names(id)", 3},
    {"shards",
     "CREATE TABLE shards(generation INTEGER NOT NULL REFERENCES documents(generation), "
     "file TEXT NOT NULL, bytes INTEGER NOT NULL, table_crc INTEGER NOT NULL, "
     "header_crc INTEGER NOT NULL, crc INTEGER NOT NULL, "
     "PRIMARY KEY(generation, file)) STRICT, WITHOUT ROWID"},
};

constexpr size_t kNamesTable = 3;
// Version 1 had no sources; its other tables are the same.
constexpr Table kNamesTable1 = {
    "names",
    "CREATE TABLE names(name TEXT PRIMARY KEY NOT NULL, id BLOB NOT NULL, "
    "crc INTEGER NOT NULL) STRICT, WITHOUT ROWID"};

// Runs one statement without values.
Status Execute(sqlite3* db, const std::string& path, const std::string& sql) {
  return Statement(db, path, sql.c_str()).Run();
}

// PRAGMA takes no bound values; the number is ours.
Status PutVersion(sqlite3* db, const std::string& path) {
  return Execute(db, path, "PRAGMA user_version=" + std::to_string(kSchemaVersion));
}

// A row of table `names` for the newer version. Rows of version 1 have no source.
struct NewerName {
  std::string name, id;
  int64_t crc;  // fits only if the older one did
};

// Reads all names of version 1. A damaged row gets a checksum that does not fit, so that it stays
// damaged.
Result<std::vector<NewerName>> ReadOlderNames(sqlite3* db, const std::string& path) {
  std::vector<NewerName> names;
  Statement s(db, path, "SELECT name, id, crc FROM names");
  while (s.Step()) {
    const std::string name(s.Bytes(0)), id(s.Bytes(1));
    const bool is_intact = id.size() == DocumentId().size() && s.Int(2) == NameCrc1(name, id);
    names.push_back({name, id, int64_t{NameCrc(name, id, "") ^ (is_intact ? 0u : 1u)}});
  }
  LECTERN_RETURN_IF_ERROR(s.status());
  return names;
}

// Makes the table `names` of version 1 anew, with sources that are not known.
Status AddSources(sqlite3* db, const std::string& path) {
  LECTERN_ASSIGN(const auto names, ReadOlderNames(db, path));
  LECTERN_RETURN_IF_ERROR(Execute(db, path, "DROP TABLE names"));
  LECTERN_RETURN_IF_ERROR(Execute(db, path, kTables[kNamesTable].sql));
  for (const NewerName& row : names) {
    LECTERN_RETURN_IF_ERROR(Statement(db, path,
                                      "INSERT INTO names(name, id, source, crc) "
                                      "VALUES(?,CAST(? AS BLOB),'',?)")
                                .Bind(row.name)
                                .Bind(row.id)
                                .Bind(row.crc)
                                .Run());
  }
  return {};
}

}  // namespace

Status CorruptCatalog(const std::string& path, const std::string& what) {
  return Status(Code::kCorrupt, path + ": " + what + WayOut(Code::kCorrupt, 0));
}

Result<int64_t> NumberOf(sqlite3* db, const std::string& path, const char* sql) {
  Statement s(db, path, sql);
  const int64_t value = s.Step() ? s.Int(0) : 0;
  LECTERN_RETURN_IF_ERROR(s.status());
  return value;
}

Status CreateSchema(sqlite3* db, const std::string& path) {
  Transaction transaction(db, path, Transaction::Kind::kWrite);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(const int64_t application, NumberOf(db, path, "PRAGMA application_id"));
  LECTERN_ASSIGN(const int64_t version, NumberOf(db, path, "PRAGMA user_version"));
  LECTERN_ASSIGN(const int64_t objects, NumberOf(db, path, "SELECT count(*) FROM sqlite_schema"));
  if (application != 0 || version != 0 || objects != 0) return {};  // CheckIsOurs judges it
  for (const Table& table : kTables) LECTERN_RETURN_IF_ERROR(Execute(db, path, table.sql));
  LECTERN_RETURN_IF_ERROR(
      Statement(db, path, "INSERT INTO counters(name, value, crc) VALUES('generation',0,?)")
          .Bind(int64_t{CounterCrc("generation", 0)})
          .Run());
  LECTERN_RETURN_IF_ERROR(
      Execute(db, path, "PRAGMA application_id=" + std::to_string(kApplicationId)));
  LECTERN_RETURN_IF_ERROR(PutVersion(db, path));
  return transaction.Commit();
}

Status CheckIsOurs(sqlite3* db, const std::string& path) {
  LECTERN_ASSIGN(const int64_t application, NumberOf(db, path, "PRAGMA application_id"));
  if (application != kApplicationId) return CorruptCatalog(path, "not a catalog of Lectern");
  LECTERN_ASSIGN(const int64_t version, NumberOf(db, path, "PRAGMA user_version"));
  if (version > kSchemaVersion) {
    return Status(Code::kUnsupportedVersion,
                  path + ": catalog " + std::to_string(version) + ", this build reads up to " +
                      std::to_string(kSchemaVersion) + "; use a newer Lectern");
  }
  if (version < 1) return CorruptCatalog(path, "catalog version " + std::to_string(version));
  return {};
}

Status CheckSchema(sqlite3* db, const std::string& path) {
  // The version is read in the same transaction as the tables, because another process may upgrade
  // the file.
  Transaction transaction(db, path, Transaction::Kind::kRead);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(const int64_t version, NumberOf(db, path, "PRAGMA user_version"));
  Statement s(db, path, "SELECT name, sql FROM sqlite_schema ORDER BY name");
  size_t i = 0;
  bool same = true;
  const auto pass_newer = [&] {
    while (i < std::size(kTables) && kTables[i].since > version) ++i;
  };
  bool is_more = false;
  for (; !is_more && s.Step(); ++i) {
    pass_newer();
    is_more = i >= std::size(kTables);
    if (is_more) continue;
    const Table& table = version == 1 && i == kNamesTable ? kNamesTable1 : kTables[i];
    same = same && s.Bytes(0) == table.name && s.Bytes(1) == table.sql;
  }
  LECTERN_RETURN_IF_ERROR(s.status());
  pass_newer();
  if (!same || is_more || i != std::size(kTables)) {
    return CorruptCatalog(path, "its tables are not Lectern's");
  }
  return {};
}

Status UpgradeSchema(sqlite3* db, const std::string& path) {
  LECTERN_ASSIGN(const int64_t seen, NumberOf(db, path, "PRAGMA user_version"));
  if (seen == kSchemaVersion) return {};
  Transaction transaction(db, path, Transaction::Kind::kWrite);
  LECTERN_RETURN_IF_ERROR(transaction.begun());
  LECTERN_ASSIGN(const int64_t version, NumberOf(db, path, "PRAGMA user_version"));
  if (version == kSchemaVersion) return {};  // another process upgraded it meanwhile
  if (version == 1) LECTERN_RETURN_IF_ERROR(AddSources(db, path));
  for (const Table& table : kTables) {
    if (table.since > version) LECTERN_RETURN_IF_ERROR(Execute(db, path, table.sql));
  }
  LECTERN_RETURN_IF_ERROR(PutVersion(db, path));
  return transaction.Commit();
}

}  // namespace lectern
