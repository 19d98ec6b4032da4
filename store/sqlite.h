// SQLite as the catalog uses it: errors as Status, statements whose values are bound, transactions,
// and how a file is opened that may be anything. Collections (engine/document/collection.h) use it
// as well.
#ifndef LECTERN_STORE_SQLITE_H_
#define LECTERN_STORE_SQLITE_H_

#include <sqlite3.h>

#include <array>
#include <string>
#include <string_view>

#include "store/env.h"
#include "store/status.h"

namespace lectern {

// The code for a result code of SQLite that means an error; kInternal for others, SQLITE_OK
// included. `db`: where the call failed, for the system's errno; may be nullptr.
Code SqliteCode(sqlite3* db, int rc);
// Advice for the user, to be appended to an error's message ("; free some disk space and try
// again"); may be empty, never nullptr. `rc`: SQLite's result code, or 0. The text is static.
const char* WayOut(Code code, int rc);

// A prepared statement. Every value is bound, none is pasted into SQL. The first error of any call
// is kept, and later calls do nothing, so that calls can be chained: ask status() at the end. One
// thread. `db` and `path`, which is for messages, must outlive it.
class Statement {
 public:
  Statement(sqlite3* db, const std::string& path, const char* sql) : db_(db), path_(path) {
    rc_ = sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Binds the next of the SQL's question marks. Texts and blobs are copied.
  Statement& Bind(int64_t value) {
    if (rc_ == SQLITE_OK) rc_ = sqlite3_bind_int64(statement_, ++bound_, value);
    return *this;
  }
  // As text; an empty one, too, is text and not NULL.
  Statement& Bind(std::string_view text) {
    const char* data = text.empty() ? "" : text.data();
    if (rc_ == SQLITE_OK) {
      rc_ = sqlite3_bind_text64(statement_, ++bound_, data, text.size(), SQLITE_TRANSIENT,
                                SQLITE_UTF8);
    }
    return *this;
  }
  // As a blob of N bytes.
  template <size_t N>
  Statement& Bind(const std::array<uint8_t, N>& blob) {
    if (rc_ == SQLITE_OK) {
      rc_ = sqlite3_bind_blob64(statement_, ++bound_, blob.data(), N, SQLITE_TRANSIENT);
    }
    return *this;
  }

  // Runs the statement to its next row. True: there is one. False: no more rows, or an error
  // (status tells which); further calls then return false.
  bool Step() {
    if (rc_ != SQLITE_OK && rc_ != SQLITE_ROW) return false;
    rc_ = sqlite3_step(statement_);
    return rc_ == SQLITE_ROW;
  }
  // Columns of the row, from 0; only after Step returned true. NULL reads as 0 or as no bytes.
  int64_t Int(int column) const { return sqlite3_column_int64(statement_, column); }
  // Valid until the next Step or the statement's end.
  std::string_view Bytes(int column) const {
    const void* data = sqlite3_column_blob(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    return {data == nullptr ? "" : static_cast<const char*>(data),
            data == nullptr ? 0 : static_cast<size_t>(size)};
  }

  // Ok, or the first error, with the code of SqliteCode and WayOut's advice. Ask before another
  // call on `db`, which replaces SQLite's message.
  Status status() const {
    if (rc_ == SQLITE_OK || rc_ == SQLITE_ROW || rc_ == SQLITE_DONE) return {};
    const Code code = SqliteCode(db_, rc_);
    return Status(code, path_ + ": " + sqlite3_errmsg(db_) + WayOut(code, rc_));
  }
  // Steps to the end, for statements without rows, and returns status(). kLocked: another process's
  // transaction lasted longer than the connection's timeout.
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

// A transaction, which is rolled back unless Commit succeeds. kWrite takes SQLite's write lock at
// once: a transaction that began by reading could not get it later. Ask begun() first: it is
// kLocked if another process writes. A commit that reports a failure may still have happened. `db`
// and `path` must outlive it.
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
  // Makes the writes durable and visible. After an error the transaction goes on, and Commit may be
  // called again, as long as SQLite has not ended it; what had been written before an error may be
  // durable all the same (Catalog::Settle). Codes of Statement::Run.
  Status Commit() { return Statement(db_, path_, "COMMIT").Run(); }

 private:
  sqlite3* db_;
  const std::string& path_;
  Status begun_;
};

// Sets a connection up for a file that may come from anywhere: defensive, no triggers or views, no
// trust in the schema, no strings in double quotes, no memory mapping (a failing disk would be a
// SIGBUS), no temporary files. synchronous=FULL: a commit is on disk when it returns. A statement
// waits up to 5 s for another process's transaction. Without `writes` nothing can be written,
// temporary tables included.
Status ConfigureConnection(sqlite3* db, const std::string& path, bool writes);

// How SQLite should open a path where there may be anything, or nothing.
struct OpenPlan {
  std::string name;  // for sqlite3_open_v2
  int flags = 0;
};
// Decides how to open a database of the store; creates the empty file (its directory must be there)
// if it is missing and `writes`. kNotFound (missing and not `writes`), kReadOnly (`writes`, and the
// directory is not writable or not there), kCorrupt (no regular file), kLocked (a journal on a
// read-only medium, which cannot be rolled back), kInvalidArgument (an empty path, or one with
// NUL), codes of Env.
Result<OpenPlan> PlanOpen(Env& env, const std::string& path, bool writes);

}  // namespace lectern

#endif  // LECTERN_STORE_SQLITE_H_
