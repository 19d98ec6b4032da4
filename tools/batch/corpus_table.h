// The table of corpora as a person sees it: documents are added, counted, listed and put back.
#ifndef LECTERN_TOOLS_BATCH_CORPUS_TABLE_H_
#define LECTERN_TOOLS_BATCH_CORPUS_TABLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/batch/manifest.h"
#include "tools/batch/postgres_connection.h"

namespace lectern::batch {

struct AddedEntries {
  uint64_t added = 0, existed = 0;
};
struct CorpusCounts {
  uint64_t waiting = 0, running = 0, done = 0, failed = 0;
  uint64_t deserted = 0;           // of `running`: their leases have ended
  uint64_t bytes = 0, tokens = 0;  // of those that are done
  uint64_t models = 0;             // fingerprints among them: more than one is a mistake
};
struct FailedDocument {
  std::string name, file, code, message, worker;
  uint64_t failures = 0;  // in all, with those before a retry
};
struct StoredDocument {
  std::string name, document, key, sha256;
  uint64_t bytes = 0;
  std::vector<std::string> replaced;  // keys of objects that other workers may have left
};

// One thread. Errors as of PostgresConnection::Run.
class CorpusTable {
 public:
  CorpusTable(std::unique_ptr<PostgresConnection> connection, std::string corpus)
      : connection_(std::move(connection)), corpus_(std::move(corpus)) {}

  // Makes the table where there is none.
  api::Result<api::Done> Create(const StopCheck& stop);
  // Adds the documents that the corpus lacks: all of them or, after an error, none.
  // INVALID_ARGUMENT (param "manifest"): the corpus has one of the names with another file or other
  // options.
  api::Result<AddedEntries> Add(const std::vector<ManifestEntry>& entries, const StopCheck& stop);
  api::Result<CorpusCounts> Count(const StopCheck& stop);
  api::Result<std::vector<FailedDocument>> Failures(const StopCheck& stop);
  // Makes failed documents wait again; the number of them.
  api::Result<uint64_t> Retry(const StopCheck& stop);
  // The next documents that are done, at most 1,000, by name, behind `after` (empty: from the
  // first).
  api::Result<std::vector<StoredDocument>> Stored(const std::string& after, const StopCheck& stop);
  // Makes a document that is done with this hash wait again, because its object is not as recorded.
  api::Result<api::Done> PutBack(const StoredDocument& stored, const StopCheck& stop);

 private:
  std::unique_ptr<PostgresConnection> connection_;
  std::string corpus_;
};

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_CORPUS_TABLE_H_
