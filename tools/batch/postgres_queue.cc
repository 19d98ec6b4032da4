#include "tools/batch/postgres_queue.h"

#include <utility>

#include "engine/model/formats/json.h"
#include "engine/model/formats/text.h"
#include "tools/quantities.h"

namespace lectern::batch {
namespace {

// Takes the oldest document that is free. SKIP LOCKED lets workers that come at the same time take
// different ones; `deaths` counts claims whose worker neither ended nor gave back the document.
constexpr char kClaim[] = R"(
UPDATE lectern_batch SET state = 'running', attempt = attempt + 1,
  deaths = deaths + (state = 'running')::int, worker = $2,
  lease_until = clock_timestamp() + $3::float8 * interval '1 second'
WHERE id = (SELECT id FROM lectern_batch
  WHERE corpus = $1 AND (state = 'waiting' OR
    (state = 'running' AND lease_until < clock_timestamp()))
  ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, attempt, name, file, options,
  (SELECT fingerprint FROM lectern_batch WHERE corpus = $1 AND state = 'done' LIMIT 1),
  announced, array_to_json(uploads))";
// The same of documents that a worker of this name had last. If one is running, that worker has
// died: its lease need not be waited for.
constexpr char kClaimMine[] = R"(
UPDATE lectern_batch SET state = 'running', attempt = attempt + 1,
  deaths = deaths + (state = 'running')::int,
  lease_until = clock_timestamp() + $3::float8 * interval '1 second'
WHERE id = (SELECT id FROM lectern_batch
  WHERE corpus = $1 AND worker = $2 AND state IN ('waiting', 'running')
    AND deaths + (state = 'running')::int < $4::int
  ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, attempt, name, file, options,
  (SELECT fingerprint FROM lectern_batch WHERE corpus = $1 AND state = 'done' LIMIT 1),
  announced, array_to_json(uploads))";

constexpr char kFailDeserted[] = R"(
UPDATE lectern_batch SET state = 'failed', deaths = deaths + 1, failures = failures + 1,
  error_code = 'workers_died',
  error_message = (deaths + 1) || ' workers died, or lost touch with the database, while they ' ||
    'had this document; the last was ' || worker,
  lease_until = NULL, ended_at = clock_timestamp()
WHERE corpus = $1 AND state = 'running' AND lease_until < clock_timestamp()
  AND deaths + 1 >= $2::int)";

constexpr char kAnyLeft[] =
    "SELECT 1 FROM lectern_batch WHERE corpus = $1 AND state IN ('waiting', 'running') LIMIT 1";

constexpr char kRenew[] = R"(
UPDATE lectern_batch SET lease_until = clock_timestamp() + $3::float8 * interval '1 second'
WHERE id = $1 AND attempt = $2 AND state = 'running' RETURNING 1)";

constexpr char kAnnounce[] = R"(
UPDATE lectern_batch SET announced = $3, uploads = array_append(array_remove(uploads, $4), $4)
WHERE id = $1 AND attempt = $2 AND state = 'running' RETURNING 1)";
constexpr char kReplaced[] =
    "SELECT 1 FROM lectern_batch WHERE id = $1 AND state = 'done' AND object_key <> $2";

// The second part of each: the update had applied, and its answer was lost on the way. A claim has
// one attempt, so that nobody else can have recorded under its number.
constexpr char kFinish[] = R"(
WITH ended AS (UPDATE lectern_batch SET state = 'done', document = $3, object_key = $4,
    sha256 = $5, bytes = $6, tokens = $7, fingerprint = $8, error_code = NULL,
    error_message = NULL, lease_until = NULL, ended_at = clock_timestamp(), announced = NULL,
    uploads = array_remove(uploads, $4)
  WHERE id = $1 AND attempt = $2 AND state = 'running' RETURNING 1)
SELECT 1 FROM ended UNION ALL
SELECT 1 FROM lectern_batch WHERE id = $1 AND attempt = $2 AND state = 'done')";
constexpr char kFail[] = R"(
WITH ended AS (UPDATE lectern_batch SET state = 'failed', failures = failures + 1,
    error_code = $3, error_message = $4, lease_until = NULL, ended_at = clock_timestamp()
  WHERE id = $1 AND attempt = $2 AND state = 'running' RETURNING 1)
SELECT 1 FROM ended UNION ALL
SELECT 1 FROM lectern_batch WHERE id = $1 AND attempt = $2 AND state = 'failed'
  AND error_code = $3)";
constexpr char kRelease[] = R"(
WITH ended AS (UPDATE lectern_batch SET state = 'waiting', lease_until = NULL
  WHERE id = $1 AND attempt = $2 AND state = 'running' RETURNING 1)
SELECT 1 FROM ended UNION ALL
SELECT 1 FROM lectern_batch WHERE id = $1 AND attempt = $2 AND state = 'waiting')";
constexpr char kReleaseBlamed[] = R"(
WITH ended AS (UPDATE lectern_batch SET deaths = deaths + 1, lease_until = NULL,
    state = CASE WHEN deaths + 1 >= $5::int THEN 'failed' ELSE 'waiting' END,
    failures = failures + (deaths + 1 >= $5::int)::int,
    error_code = CASE WHEN deaths + 1 >= $5::int THEN $3 END,
    error_message = CASE WHEN deaths + 1 >= $5::int THEN $4 END,
    ended_at = CASE WHEN deaths + 1 >= $5::int THEN clock_timestamp() END
  WHERE id = $1 AND attempt = $2 AND state = 'running' RETURNING 1)
SELECT 1 FROM ended UNION ALL
SELECT 1 FROM lectern_batch WHERE id = $1 AND attempt = $2 AND state IN ('waiting', 'failed'))";

// An announced object as the database keeps it.
std::string AnnouncedText(const Finished& upload) {
  return Json(Json::Object{{"document", upload.document},
                           {"key", upload.key},
                           {"sha256", upload.sha256},
                           {"bytes", upload.bytes},
                           {"tokens", upload.tokens},
                           {"fingerprint", upload.fingerprint}})
      .Dump();
}

// The same back. Nothing: there is none, or another version of this program wrote it.
std::optional<Finished> ReadAnnounced(const std::string& text) {
  auto json = ParseJson(text);
  if (text.empty() || !json.ok()) return std::nullopt;
  const auto string = [&json](const char* name) {
    const Json* const value = json->Find(name);
    return value && value->string() ? *value->string() : std::string();
  };
  const auto number = [&json](const char* name) {
    const Json* const value = json->Find(name);
    return value ? value->unsigned_integer().value_or(0) : 0;
  };
  Finished upload = {.document = string("document"),
                     .key = string("key"),
                     .sha256 = string("sha256"),
                     .bytes = number("bytes"),
                     .tokens = number("tokens"),
                     .fingerprint = string("fingerprint")};
  if (upload.document.empty() || upload.key.empty() || upload.sha256.empty() || upload.bytes == 0) {
    return std::nullopt;
  }
  return upload;
}

// Text as the database takes it: file names in messages may be in any encoding.
std::string Storable(const std::string& text) {
  std::string clean = CleanUtf8(text).text;
  for (char& c : clean) c = c == '\0' ? ' ' : c;
  return clean;
}

Row Fence(const Claim& claim) { return {std::to_string(claim.id), std::to_string(claim.attempt)}; }

Row WithError(const Claim& claim, const api::Error& error) {
  Row parameters = Fence(claim);
  parameters.push_back(lectern_code_name(error.code));
  parameters.push_back(Storable(error.cli_message.empty() ? error.message : error.cli_message));
  return parameters;
}

}  // namespace

PostgresQueue::PostgresQueue(std::unique_ptr<PostgresConnection> connection,
                             const QueueOptions& options)
    : connection_(std::move(connection)), options_(options) {}

api::Result<api::Done> PostgresQueue::FailDeserted(const StopCheck& stop) {
  auto done =
      connection_->Run(kFailDeserted, {options_.corpus, std::to_string(options_.max_deaths)}, stop);
  if (!done.ok()) return done.error();
  return api::Done();
}

api::Result<std::optional<Claim>> PostgresQueue::Next(bool mine_only, const StopCheck& stop) {
  if (auto failed = FailDeserted(stop); !failed.ok()) return failed.error();
  Row parameters = {options_.corpus, options_.worker, std::to_string(options_.lease_seconds)};
  if (mine_only) parameters.push_back(std::to_string(options_.max_deaths));
  auto rows = connection_->Run(mine_only ? kClaimMine : kClaim, parameters, stop);
  if (!rows.ok()) return rows.error();
  if (rows->empty()) return std::optional<Claim>();
  const Row& row = rows->front();
  return std::optional<Claim>({.id = tools::ParseNumber<int64_t>(row[0]).value_or(0),
                               .attempt = tools::ParseNumber<int64_t>(row[1]).value_or(0),
                               .name = row[2],
                               .file = row[3],
                               .options = row[4],
                               .fingerprint = row[5],
                               .announced = ReadAnnounced(row[6]),
                               .uploads = ReadKeys(row[7])});
}

api::Result<bool> PostgresQueue::IsAnyLeft(const StopCheck& stop) {
  auto rows = connection_->Run(kAnyLeft, {options_.corpus}, stop);
  if (!rows.ok()) return rows.error();
  return !rows->empty();
}

api::Result<Recorded> PostgresQueue::Record(const char* statement, const Row& parameters,
                                            const StopCheck& stop) {
  auto rows = connection_->Run(statement, parameters, stop);
  if (!rows.ok()) return rows.error();
  return rows->empty() ? Recorded::kLost : Recorded::kYes;
}

api::Result<Recorded> PostgresQueue::Renew(const Claim& claim, const StopCheck& stop) {
  Row parameters = Fence(claim);
  parameters.push_back(std::to_string(options_.lease_seconds));
  return Record(kRenew, parameters, stop);
}

api::Result<Recorded> PostgresQueue::Announce(const Claim& claim, const Finished& upload,
                                              const StopCheck& stop) {
  Row parameters = Fence(claim);
  parameters.insert(parameters.end(), {AnnouncedText(upload), upload.key});
  return Record(kAnnounce, parameters, stop);
}

api::Result<bool> PostgresQueue::IsReplaced(const Claim& claim, const std::string& key,
                                            const StopCheck& stop) {
  auto rows = connection_->Run(kReplaced, {std::to_string(claim.id), key}, stop);
  if (!rows.ok()) return rows.error();
  return !rows->empty();
}

api::Result<Recorded> PostgresQueue::Finish(const Claim& claim, const Finished& finished,
                                            const StopCheck& stop) {
  Row parameters = Fence(claim);
  parameters.insert(parameters.end(), {finished.document, finished.key, finished.sha256,
                                       std::to_string(finished.bytes),
                                       std::to_string(finished.tokens), finished.fingerprint});
  return Record(kFinish, parameters, stop);
}

api::Result<Recorded> PostgresQueue::Fail(const Claim& claim, const api::Error& error,
                                          const StopCheck& stop) {
  return Record(kFail, WithError(claim, error), stop);
}

api::Result<Recorded> PostgresQueue::Release(const Claim& claim,
                                             const std::optional<api::Error>& blame,
                                             const StopCheck& stop) {
  if (!blame) return Record(kRelease, Fence(claim), stop);
  Row parameters = WithError(claim, *blame);
  parameters.push_back(std::to_string(options_.max_deaths));
  return Record(kReleaseBlamed, parameters, stop);
}

}  // namespace lectern::batch
