// The tables of the catalog file: made, checked, and brought up to date. Internal to store/.
#ifndef LECTERN_STORE_CATALOG_SCHEMA_H_
#define LECTERN_STORE_CATALOG_SCHEMA_H_

#include <string>

#include "store/sqlite.h"
#include "store/status.h"

namespace lectern {

inline constexpr int kSchemaVersion = 2;

// A catalog that is damaged, and the way out.
Status CorruptCatalog(const std::string& path, const std::string& what);
// The integer that `sql` selects; 0: it selects nothing.
Result<int64_t> NumberOf(sqlite3* db, const std::string& path, const char* sql);

// In one transaction, and only if no other process was faster.
Status CreateSchema(sqlite3* db, const std::string& path);
// kCorrupt: another program's file. kUnsupportedVersion: of a newer Lectern.
Status CheckIsOurs(sqlite3* db, const std::string& path);
// Our tables, of this version or an older one, and nothing else: no view or trigger of someone else
// ever runs. kCorrupt.
Status CheckSchema(sqlite3* db, const std::string& path);
// Makes tables of an older version those of this one, in one transaction: whoever looks sees one or
// the other, also after a crash. Damaged rows stay damaged.
Status UpgradeSchema(sqlite3* db, const std::string& path);

}  // namespace lectern

#endif  // LECTERN_STORE_CATALOG_SCHEMA_H_
