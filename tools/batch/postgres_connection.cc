#include "tools/batch/postgres_connection.h"

#include <libpq-fe.h>

#include <cstring>
#include <functional>
#include <utility>

#include "engine/model/formats/json.h"

namespace lectern::batch {
namespace {

struct FreeResult {
  void operator()(PGresult* result) const { PQclear(result); }
};
using PgResult = std::unique_ptr<PGresult, FreeResult>;

// libpq's messages end with a newline, and may have several lines.
std::string OneLine(const char* message) {
  std::string text = message ? message : "";
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) text.replace(at, 1, "; ");
  return text;
}

}  // namespace

std::vector<std::string> ReadKeys(const std::string& text) {
  std::vector<std::string> keys;
  auto json = ParseJson(text);
  if (!json.ok() || !json->array()) return keys;
  for (const Json& key : *json->array()) {
    if (key.string()) keys.push_back(*key.string());
  }
  return keys;
}

struct PostgresConnection::Impl {
  std::string url;
  Backoff::Limits retries;
  PGconn* connection = nullptr;

  ~Impl() { PQfinish(connection); }

  // Connects if need be. False: `error` says why not.
  bool Connect(api::Error& error) {
    if (connection && PQstatus(connection) == CONNECTION_OK) return true;
    PQfinish(connection);
    // A later value wins, and those of the URL stand in its place. Without these, a server that
    // vanishes from the network is noticed after many minutes.
    const char* const names[] = {"application_name",
                                 "connect_timeout",
                                 "keepalives_idle",
                                 "tcp_user_timeout",
                                 "dbname",
                                 "client_encoding",
                                 nullptr};
    const char* const values[] = {"lectern-batch", "10",   "20",   "30000",
                                  url.c_str(),     "UTF8", nullptr};
    connection = PQconnectdbParams(names, values, 1);
    if (PQstatus(connection) == CONNECTION_OK) {
      // Adding ten million documents takes two minutes. A statement that takes much longer waits
      // for a lock that nobody lets go.
      PgResult set(
          PQexec(connection, "SET statement_timeout = '600s'; SET client_min_messages = warning"));
      if (PQresultStatus(set.get()) == PGRES_COMMAND_OK) return true;
    }
    error = {LECTERN_IO_ERROR, "database: " + OneLine(PQerrorMessage(connection)), "database"};
    PQfinish(std::exchange(connection, nullptr));
    return false;
  }

  static api::Error ErrorOf(const PGresult* result, const std::string& state) {
    const std::string message = "database: " + OneLine(PQresultErrorMessage(result));
    if (state == "42P01") {
      return {LECTERN_NOT_FOUND,
              "the database has no table of a corpus: \"lectern-batch add\" makes it", "database"};
    }
    if (state == "42501" || state == "25006") return {LECTERN_READ_ONLY, message, "database"};
    return {LECTERN_IO_ERROR, message, "database"};
  }

  // Runs `send` on a connection until its result is final.
  api::Result<std::vector<Row>> Try(const std::function<PGresult*(PGconn*)>& send,
                                    const StopCheck& stop) {
    Backoff backoff(retries);
    api::Error error;
    do {
      if (!Connect(error)) continue;
      const PgResult result(send(connection));
      const ExecStatusType status = PQresultStatus(result.get());
      if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) return RowsOf(result.get());
      const char* const field = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
      const std::string state = field ? field : "";
      error = ErrorOf(result.get(), state);
      if (!IsRetryableSqlState(state)) return error;
    } while (backoff.Wait(stop));
    if (IsStopped(stop)) return api::Error{LECTERN_CANCELLED, "cancelled", ""};
    return error;
  }

  static std::vector<Row> RowsOf(const PGresult* result) {
    std::vector<Row> rows(static_cast<size_t>(PQntuples(result)));
    for (size_t r = 0; r < rows.size(); ++r) {
      for (int c = 0; c < PQnfields(result); ++c) {
        const int row = static_cast<int>(r);
        rows[r].emplace_back(PQgetvalue(result, row, c),
                             static_cast<size_t>(PQgetlength(result, row, c)));
      }
    }
    return rows;
  }
};

PostgresConnection::PostgresConnection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PostgresConnection::~PostgresConnection() = default;

api::Result<std::unique_ptr<PostgresConnection>> PostgresConnection::Make(
    const std::string& url, const Backoff::Limits& retries) {
  char* message = nullptr;
  PQconninfoOption* const options = PQconninfoParse(url.c_str(), &message);
  PQfreemem(message);
  if (!options) {
    return api::Error{
        LECTERN_INVALID_ARGUMENT,
        "the address of the database is neither a URL like postgresql://host/name nor "
        "a list like \"host=… dbname=…\"",
        "database"};
  }
  PQconninfoFree(options);
  auto impl = std::make_unique<Impl>();
  impl->url = url;
  impl->retries = retries;
  return std::unique_ptr<PostgresConnection>(new PostgresConnection(std::move(impl)));
}

api::Result<std::vector<Row>> PostgresConnection::Run(const char* statement, const Row& parameters,
                                                      const StopCheck& stop) {
  std::vector<const char*> values;
  for (const std::string& parameter : parameters) values.push_back(parameter.c_str());
  return impl_->Try(
      [&](PGconn* connection) {
        return PQexecParams(connection, statement, static_cast<int>(values.size()), nullptr,
                            values.data(), nullptr, nullptr, 0);
      },
      stop);
}

api::Result<api::Done> PostgresConnection::RunScript(const std::string& statements,
                                                     const StopCheck& stop) {
  auto rows =
      impl_->Try([&](PGconn* connection) { return PQexec(connection, statements.c_str()); }, stop);
  if (!rows.ok()) return rows.error();
  return api::Done();
}

}  // namespace lectern::batch
