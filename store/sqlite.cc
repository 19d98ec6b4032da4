#include "store/sqlite.h"

#include <utility>

#include "store/system_error.h"

namespace lectern {
namespace {

// A "file:" URI for read-only, immutable access (sqlite.org/uri.html). Bytes with a meaning in URIs
// are escaped. "immutable" promises SQLite that nobody changes the file, which on read-only media
// needs no lock files.
std::string ImmutableUri(const std::string& path) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  // A path behind a drive's letter needs a slash before it, which SQLite takes away again.
  std::string uri = path[0] == '/' ? "file://" : IsAbsolutePath(path) ? "file:///" : "file:";
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

// Whether there is a regular file. kCorrupt: a link, directory or FIFO is in its place.
Result<bool> CatalogExists(Env& env, const std::string& path) {
  LECTERN_ASSIGN(const FileInfo info, env.Info(path));
  if (info.type == FileInfo::Type::kNone || info.type == FileInfo::Type::kRegular) {
    return info.type == FileInfo::Type::kRegular;
  }
  return Status(Code::kCorrupt, path + ": not a regular file; move it away and try again");
}

// Creates the empty file, with mode 0600: SQLite would make it readable for others.
Status CreateFile(Env& env, const std::string& path) {
  LECTERN_ASSIGN(const auto file, env.OpenWritable(path, /*exclusive=*/true));
  LECTERN_RETURN_IF_ERROR(file->Close());
  return env.SyncDirectory(ParentDirectory(path));
}

}  // namespace

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
    case SQLITE_ERROR:  // our SQL is fixed, so the file must be wrong
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
      if (error != 0) return ErrnoStatus(ErrnoOfSystem(error), "write", "").code();
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
      return "; rebuild the catalog from its shards (lectern-store recover, or Engine::Recover)";
    default:
      return "";
  }
}

Status ConfigureConnection(sqlite3* db, const std::string& path, bool writes) {
  // How long a statement waits for another process's transaction, before kLocked. Transactions take
  // milliseconds; a slow disk's fsync takes longer.
  constexpr int kBusyTimeoutMs = 5000;
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
    LECTERN_RETURN_IF_ERROR(Statement(db, path, pragma).Run());
  }
  return writes ? Status() : Statement(db, path, "PRAGMA query_only=ON").Run();
}

Result<OpenPlan> PlanOpen(Env& env, const std::string& path, bool writes) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Status(Code::kInvalidArgument, "the path of a database is empty or holds a NUL byte");
  }
  LECTERN_ASSIGN(const bool exists, CatalogExists(env, path));
  if (!exists && !writes) return Status(Code::kNotFound, path + ": there is no store here");
  const Access access = env.AccessTo(ParentDirectory(path));
  if (writes && access != Access::kWritable) {
    return Status(Code::kReadOnly, path + ": the store cannot be written");
  }
  // "./" ensures that names like ":memory:" or "file:…" mean plain files.
  OpenPlan plan{path[0] == '/' || IsAbsolutePath(path) ? path : "./" + path,
                SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE};
  if (access == Access::kReadOnlyMedia) {
    // `immutable` ignores journals, so there must not be any.
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
  } else {  // even a reader may have to roll back what a killed writer left
    plan.flags |= SQLITE_OPEN_READWRITE;
    if (!exists) LECTERN_RETURN_IF_ERROR(CreateFile(env, path));
  }
  return plan;
}

}  // namespace lectern
