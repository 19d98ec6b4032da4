#include "tools/batch/corpus_table.h"

#include "engine/model/formats/json.h"
#include "tools/quantities.h"

namespace lectern::batch {
namespace {

// One transaction, as one text is. The lock's number is arbitrary: of two programs that make the
// table at once, one would fail without it.
constexpr char kCreate[] = R"(
SELECT pg_advisory_xact_lock(4919131);
CREATE TABLE IF NOT EXISTS lectern_batch (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  corpus text NOT NULL,
  name text NOT NULL,
  file text NOT NULL,
  options text NOT NULL,
  state text NOT NULL DEFAULT 'waiting'
    CHECK (state IN ('waiting', 'running', 'done', 'failed')),
  attempt bigint NOT NULL DEFAULT 0,
  deaths int NOT NULL DEFAULT 0,
  failures int NOT NULL DEFAULT 0,
  worker text,
  lease_until timestamptz,
  document text, object_key text, sha256 text, bytes bigint, tokens bigint, fingerprint text,
  announced text,
  uploads text[] NOT NULL DEFAULT '{}',
  error_code text, error_message text,
  added_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  ended_at timestamptz,
  UNIQUE (corpus, name),
  CHECK ((state = 'running') = (lease_until IS NOT NULL)),
  CHECK (state <> 'done' OR (object_key IS NOT NULL AND sha256 IS NOT NULL AND bytes > 0)),
  CHECK ((state = 'failed') = (error_code IS NOT NULL)));
CREATE INDEX IF NOT EXISTS lectern_batch_open ON lectern_batch (corpus, id)
  WHERE state IN ('waiting', 'running');
CREATE INDEX IF NOT EXISTS lectern_batch_leases ON lectern_batch (corpus, lease_until)
  WHERE state = 'running';
CREATE INDEX IF NOT EXISTS lectern_batch_done ON lectern_batch (corpus, name)
  WHERE state = 'done';
CREATE INDEX IF NOT EXISTS lectern_batch_returned ON lectern_batch (corpus, worker)
  WHERE state IN ('waiting', 'running') AND worker IS NOT NULL)";

// $2 is a JSON array of {"name","file","options"}. Where one of the names is taken by something
// else, nothing is added and that name is the result.
constexpr char kAdd[] = R"(
WITH given AS (
  SELECT * FROM json_to_recordset($2::json) AS one(name text, file text, options text)),
other AS (
  SELECT given.name FROM given JOIN lectern_batch AS old
    ON old.corpus = $1 AND old.name = given.name
  WHERE old.file <> given.file OR old.options <> given.options),
added AS (
  INSERT INTO lectern_batch (corpus, name, file, options)
  SELECT $1, name, file, options FROM given WHERE NOT EXISTS (SELECT 1 FROM other)
  ON CONFLICT (corpus, name) DO NOTHING RETURNING 1)
SELECT (SELECT count(*) FROM added), (SELECT name FROM other ORDER BY name LIMIT 1))";

constexpr char kCount[] = R"(
SELECT count(*) FILTER (WHERE state = 'waiting'), count(*) FILTER (WHERE state = 'running'),
  count(*) FILTER (WHERE state = 'done'), count(*) FILTER (WHERE state = 'failed'),
  count(*) FILTER (WHERE state = 'running' AND lease_until < clock_timestamp()),
  coalesce(sum(bytes) FILTER (WHERE state = 'done'), 0),
  coalesce(sum(tokens) FILTER (WHERE state = 'done'), 0),
  count(DISTINCT fingerprint) FILTER (WHERE state = 'done')
FROM lectern_batch WHERE corpus = $1)";
constexpr char kFailures[] = R"(
SELECT name, file, error_code, error_message, worker, failures FROM lectern_batch
WHERE corpus = $1 AND state = 'failed' ORDER BY id)";
constexpr char kRetry[] = R"(
UPDATE lectern_batch SET state = 'waiting', deaths = 0, error_code = NULL, error_message = NULL,
  ended_at = NULL WHERE corpus = $1 AND state = 'failed' RETURNING id)";
constexpr char kStored[] = R"(
SELECT name, document, object_key, sha256, bytes, array_to_json(array_remove(uploads, object_key))
FROM lectern_batch
WHERE corpus = $1 AND state = 'done' AND name > $2 ORDER BY name LIMIT 1000)";
constexpr char kPutBack[] = R"(
UPDATE lectern_batch SET state = 'waiting', deaths = 0, ended_at = NULL, announced = NULL
WHERE corpus = $1 AND name = $2 AND state = 'done' AND sha256 = $3)";

uint64_t Number(const std::string& text) { return tools::ParseNumber<uint64_t>(text).value_or(0); }

}  // namespace

api::Result<api::Done> CorpusTable::Create(const StopCheck& stop) {
  return connection_->RunScript(kCreate, stop);
}

api::Result<AddedEntries> CorpusTable::Add(const std::vector<ManifestEntry>& entries,
                                           const StopCheck& stop) {
  Json::Array given;
  for (const ManifestEntry& entry : entries) {
    given.emplace_back(
        Json::Object{{"name", entry.name}, {"file", entry.file}, {"options", entry.options}});
  }
  auto rows = connection_->Run(kAdd, {corpus_, Json(std::move(given)).Dump()}, stop);
  if (!rows.ok()) return rows.error();
  const Row& row = rows->front();
  if (!row[1].empty()) {
    return api::Error{LECTERN_INVALID_ARGUMENT,
                      "the corpus has \"" + row[1] +
                          "\" already, with another file or other options: nothing was added",
                      "manifest"};
  }
  const uint64_t added = Number(row[0]);
  return AddedEntries{.added = added, .existed = entries.size() - added};
}

api::Result<CorpusCounts> CorpusTable::Count(const StopCheck& stop) {
  auto rows = connection_->Run(kCount, {corpus_}, stop);
  if (!rows.ok()) return rows.error();
  const Row& row = rows->front();
  return CorpusCounts{.waiting = Number(row[0]),
                      .running = Number(row[1]),
                      .done = Number(row[2]),
                      .failed = Number(row[3]),
                      .deserted = Number(row[4]),
                      .bytes = Number(row[5]),
                      .tokens = Number(row[6]),
                      .models = Number(row[7])};
}

api::Result<std::vector<FailedDocument>> CorpusTable::Failures(const StopCheck& stop) {
  auto rows = connection_->Run(kFailures, {corpus_}, stop);
  if (!rows.ok()) return rows.error();
  std::vector<FailedDocument> failures;
  for (const Row& row : *rows) {
    failures.push_back({row[0], row[1], row[2], row[3], row[4], Number(row[5])});
  }
  return failures;
}

api::Result<uint64_t> CorpusTable::Retry(const StopCheck& stop) {
  auto rows = connection_->Run(kRetry, {corpus_}, stop);
  if (!rows.ok()) return rows.error();
  return rows->size();
}

api::Result<std::vector<StoredDocument>> CorpusTable::Stored(const std::string& after,
                                                             const StopCheck& stop) {
  auto rows = connection_->Run(kStored, {corpus_, after}, stop);
  if (!rows.ok()) return rows.error();
  std::vector<StoredDocument> stored;
  for (const Row& row : *rows) {
    stored.push_back({row[0], row[1], row[2], row[3], Number(row[4]), ReadKeys(row[5])});
  }
  return stored;
}

api::Result<api::Done> CorpusTable::PutBack(const StoredDocument& stored, const StopCheck& stop) {
  auto rows = connection_->Run(kPutBack, {corpus_, stored.name, stored.sha256}, stop);
  if (!rows.ok()) return rows.error();
  return api::Done();
}

}  // namespace lectern::batch
