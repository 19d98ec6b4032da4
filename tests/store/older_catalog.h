// Writes catalogs of older versions, for tests of the upgrade: 1, before names had sources, and 2,
// before ids had indexes.
#ifndef LECTERN_TESTS_STORE_OLDER_CATALOG_H_
#define LECTERN_TESTS_STORE_OLDER_CATALOG_H_

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <string>
#include <vector>

#include "store/catalog_rows.h"
#include "store/env.h"

namespace lectern {

// Makes the catalog at `path`, which nobody has open, one of version 1, with the names that it has.
// Errors fail the test.
inline void MakeOlder(Env& env, const std::string& path) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE, env.sqlite_vfs()), SQLITE_OK);
  const auto run = [&](const char* sql) {
    ASSERT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
  };
  std::vector<std::pair<std::string, std::string>> names;
  {
    Statement s(db, path, "SELECT name, id FROM names");
    while (s.Step()) names.emplace_back(s.Bytes(0), s.Bytes(1));
    ASSERT_TRUE(s.status().ok());
  }
  run("PRAGMA journal_mode=TRUNCATE");
  run("BEGIN; DROP INDEX documents_id; DROP TABLE names");
  run("CREATE TABLE names(name TEXT PRIMARY KEY NOT NULL, id BLOB NOT NULL, crc INTEGER NOT NULL) "
      "STRICT, WITHOUT ROWID");
  for (const auto& [name, id] : names) {
    Statement insert(db, path, "INSERT INTO names(name, id, crc) VALUES(?,CAST(? AS BLOB),?)");
    insert.Bind(name).Bind(id).Bind(int64_t{NameCrc1(name, id)});
    ASSERT_TRUE(insert.Run().ok());
  }
  run("PRAGMA user_version=1; COMMIT");
  sqlite3_close(db);
}

// The same for version 2.
inline void MakeVersion2(Env& env, const std::string& path) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE, env.sqlite_vfs()), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db,
                         "PRAGMA journal_mode=TRUNCATE; BEGIN; DROP INDEX documents_id; "
                         "DROP INDEX names_id; PRAGMA user_version=2; COMMIT",
                         nullptr, nullptr, nullptr),
            SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
}

}  // namespace lectern

#endif  // LECTERN_TESTS_STORE_OLDER_CATALOG_H_
