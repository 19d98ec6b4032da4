// A connection to PostgreSQL that comes back when it breaks. The .cc is the one file that uses
// libpq.
#ifndef LECTERN_TOOLS_BATCH_POSTGRES_CONNECTION_H_
#define LECTERN_TOOLS_BATCH_POSTGRES_CONNECTION_H_

#include <memory>
#include <string>
#include <vector>

#include "engine/lectern.h"
#include "tools/batch/retry.h"

namespace lectern::batch {

using Row = std::vector<std::string>;  // NULL is an empty text

// The texts of a column that is a JSON array; others are left out.
std::vector<std::string> ReadKeys(const std::string& text);

// One thread at a time.
class PostgresConnection {
 public:
  // `url`: a URL or "key=value …" of libpq; what it leaves out comes from the PG* variables. Makes
  // no connection. INVALID_ARGUMENT (param "database"): it cannot be parsed; the message has no
  // part of it, as it may hold a password.
  static api::Result<std::unique_ptr<PostgresConnection>> Make(const std::string& url,
                                                               const Backoff::Limits& retries = {});
  ~PostgresConnection();
  PostgresConnection(const PostgresConnection&) = delete;
  PostgresConnection& operator=(const PostgresConnection&) = delete;

  // Runs one statement, whose $1, $2 … are the parameters, as a transaction of its own, and returns
  // its rows. Connects where there is no connection, and tries again after failures that may pass:
  // the statement must therefore mean the same when it runs twice. NOT_FOUND (param "database"): a
  // table is missing; READ_ONLY: no permission; CANCELLED; IO_ERROR: all else.
  api::Result<std::vector<Row>> Run(const char* statement, const Row& parameters,
                                    const StopCheck& stop);
  // Runs statements without parameters or rows, all together or none.
  api::Result<api::Done> RunScript(const std::string& statements, const StopCheck& stop);

 private:
  struct Impl;
  explicit PostgresConnection(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_POSTGRES_CONNECTION_H_
