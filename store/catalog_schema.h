// Creates, checks and upgrades the tables of the catalog file. Internal to store/. `path` is for
// messages only. Each function that takes `db` also returns the errors of Statement (sqlite.h).
#ifndef LECTERN_STORE_CATALOG_SCHEMA_H_
#define LECTERN_STORE_CATALOG_SCHEMA_H_

#include <string>

#include "store/sqlite.h"
#include "store/status.h"

namespace lectern {

// The version of the tables that this build writes. 1: names had no source; 2: ids had no indexes.
inline constexpr int kSchemaVersion = 3;

// kCorrupt, for a damaged catalog: "<path>: <what>" and the way out.
Status CorruptCatalog(const std::string& path, const std::string& what);
// The integer that `sql` selects, or 0 if it selects no row.
Result<int64_t> NumberOf(sqlite3* db, const std::string& path, const char* sql);

// Creates the tables in one transaction, unless another process was faster. Does nothing, and is no
// error, if the file holds anything: CheckIsOurs judges that.
Status CreateSchema(sqlite3* db, const std::string& path);
// kCorrupt: the file belongs to another program, or its version is below 1. kUnsupportedVersion: a
// newer Lectern wrote it.
Status CheckIsOurs(sqlite3* db, const std::string& path);
// Checks that the file has Lectern's tables, as the version that it states has them, word for word,
// and nothing else: so no view or trigger of somebody else ever runs. kCorrupt: it does not. Call
// CheckIsOurs before.
Status CheckSchema(sqlite3* db, const std::string& path);
// Upgrades tables of an older version in one transaction: readers see the old version or the new
// one, also after a crash. Damaged rows stay damaged. Does nothing for the present version. Call
// CheckSchema before.
Status UpgradeSchema(sqlite3* db, const std::string& path);

}  // namespace lectern

#endif  // LECTERN_STORE_CATALOG_SCHEMA_H_
