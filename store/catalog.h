// The catalog of a store: the SQLite file that knows every document, its names and its shards, and
// decides which version of a document readers see. FORMAT.md, section 6, has its tables.
#ifndef LECTERN_STORE_CATALOG_H_
#define LECTERN_STORE_CATALOG_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/shard_writer.h"
#include "store/status.h"

namespace lectern {

using DocumentId = std::array<uint8_t, 16>;  // first half of a SHA-256; see FORMAT.md
using Fingerprint = std::array<uint8_t, 32>;  // SHA-256 of a model, its tokenizer and template
// The bytes as lower-case hexadecimal digits.
std::string ToHex(std::span<const uint8_t> bytes);
// 32 lower-case hex digits, else nullopt.
std::optional<DocumentId> ParseDocumentId(std::string_view text);

// The state of a generation. kBuilding: being indexed, or interrupted; kReady: readers see it;
// kDead: replaced or removed, its files may go. Never renumber: the numbers are on disk.
enum class DocumentState : int { kBuilding = 1, kReady = 2, kDead = 3 };

// A name that points to a document.
struct DocumentName {
  std::string name;    // any bytes; writers give NFC (engine/document/document_names.h)
  std::string source;  // where the text came from: a real path, or a name; empty: not known
  bool operator==(const DocumentName&) const = default;
};

// One generation of a document, as the table `documents` has it, and its names.
struct DocumentRow {
  DocumentId id{};
  uint64_t generation = 0;  // unique in the store, growing
  std::string name;         // the name it was found by, else its first name; empty: has an id only
  // All names that point here, in byte order; for ready documents.
  std::vector<DocumentName> names = {};
  DocumentState state = DocumentState::kBuilding;
  Fingerprint fingerprint{};
  std::string model_path;  // absolute, as given when it was indexed; informative
  uint64_t num_tokens = 0;
  uint64_t text_bytes = 0;
  uint64_t replaced_bytes = 0;  // invalid UTF-8 bytes replaced while reading
  uint64_t bytes_on_disk = 0;   // all shards
  std::string report_json;  // result of index-document, for runs that find `existed`; informative
};

// How a transaction changes names, and which documents lose theirs.
struct NameChange {
  // Names that the document gets, whoever had them, beside those that it has already.
  std::vector<DocumentName> names;
  // Documents to mark dead, unless they still have a name after the change or are this document.
  std::vector<DocumentId> replaced;
  // Generations to mark dead if they are unfinished; those in another state stay as they are.
  std::vector<uint64_t> abandoned;
  // Names that other documents get instead of one that was taken from them, whoever had them.
  std::vector<std::pair<DocumentName, DocumentId>> others;
};

// A generation and its shards, as Adopt and Salvage move them.
struct CatalogEntry {
  DocumentRow row;
  std::vector<ShardSummary> shards;
};

// One connection to the catalog; one thread at a time (callers lock). Other processes may read at
// the same time.
class Catalog {
 public:
  enum class Mode { kReadOnly, kReadWrite };
  // kReadWrite creates file and schema if they are missing, and upgrades an older schema in one
  // transaction; kReadOnly reads older ones as they are. On read-only media without a journal the
  // file is opened as immutable. Where the directory is writable, even kReadOnly may write: it
  // rolls back the journal of a killed writer. No row is checked here. kNotFound (read-only, and no
  // file or an empty one), kCorrupt (not Lectern's, its tables wrong, pages damaged),
  // kUnsupportedVersion, kReadOnly (to write in a directory that is not writable or not there),
  // kLocked, kNoSpace, kIoError, kInvalidArgument (an empty path, or one with NUL).
  static Result<std::unique_ptr<Catalog>> Open(Env& env, const std::string& path, Mode mode);
  ~Catalog();

  // Each call that writes is one transaction: all of it happens or nothing, also in a crash. A
  // commit that reports a failure may still have happened (Settle). kReadOnly: the catalog was
  // opened for reading. Every call, also one that reads, waits up to 5 s for the transactions of
  // other processes, then fails with kLocked; kNoSpace, kIoError; kCorrupt: a row that it needs is
  // damaged.

  // Adds a `building` row with the next generation and returns that; it takes the place of the
  // row's own, and state and names of `row` are ignored. kLimitExceeded: a size or count of the row
  // is beyond 2^63 - 1, or its generation beyond 2^62 - 1. kCorrupt: the counter of generations is
  // damaged.
  Result<uint64_t> BeginDocument(const DocumentRow& row);
  // The visibility transaction: adds the shard rows, records sizes and report, makes the row
  // `ready`, marks older generations of the same id dead, and changes names. `row` is the building
  // row with its final fields; its own names and state are ignored. kNotFound: the row is no longer
  // `building`, because somebody removed the document meanwhile, or a generation of
  // `change.abandoned` is not there. kInvalidArgument: a name of `change.names` is empty.
  // kLimitExceeded as for BeginDocument.
  Status CommitDocument(const DocumentRow& row, const std::vector<ShardSummary>& shards,
                        const NameChange& change = {});
  // Changes the names of a ready document. kNotFound (no ready document has this id, or a
  // generation of `change.abandoned` is not there), kInvalidArgument (a name of `change.names` is
  // empty).
  Status ChangeNames(const DocumentId& id, const NameChange& change);
  // Removes the name. If it was the document's last one, the document goes too, as by MarkDead, and
  // the result is true; otherwise false. kNotFound: no document has the name.
  Result<bool> RemoveName(const std::string& name);
  // Marks every generation of the id dead, unfinished ones included, and removes its names: readers
  // no longer find it. kNotFound: none of them was alive.
  Status MarkDead(const DocumentId& id);
  // Makes everything durable that calls have read so far, including a commit that reported a
  // failure after it had happened. (It commits a transaction that changes nothing.) Call it between
  // a read and what cannot be undone, such as removing the files of a dead document.
  Status Settle();
  // Deletes the row of a generation whose files are gone, and those of its shards. Ok if there is
  // none.
  Status Forget(uint64_t generation);

  // In one transaction: adds these generations as they are, state and number included, replacing
  // rows of the same number; gives each its names unless they are taken; raises the counter of
  // generations to the greatest of them, or leaves it if it is greater. Marks no other row dead.
  // kLimitExceeded as for BeginDocument; an error leaves the catalog as it was.
  Status Adopt(const std::vector<CatalogEntry>& entries);

  // The intact part of a catalog: documents whose row verifies, with the names that point to them
  // (without shards). `damaged`: some row of any table does not verify or could not be read.
  struct Salvaged {
    std::vector<DocumentRow> documents;
    bool damaged = false;
  };
  // Damaged rows are no error here; kCorrupt: the tables themselves cannot be read.
  Result<Salvaged> Salvage() const;

  // Every call checks the CRC of each row that it returns; kCorrupt names the damaged row. A
  // damaged row is also an error where the call found nothing, because it may be the one that was
  // looked for. Rows are copies; a ready one has its intact names, and `name` is the name that was
  // looked for, else the first of them.
  // All states, by generation. kCorrupt: any document or name of the store is damaged.
  Result<std::vector<DocumentRow>> List() const;
  // Nothing: no ready document has this id, or this name. kCorrupt also where a document is found
  // but no intact name of it, while some name of the store is damaged.
  Result<std::optional<DocumentRow>> FindReady(const DocumentId& id) const;
  Result<std::optional<DocumentRow>> FindReadyByName(const std::string& name) const;
  // The shards of a generation of any state, by file name. kNotFound: there is no such generation;
  // kCorrupt also where some of its rows are missing.
  Result<std::vector<ShardSummary>> Shards(uint64_t generation) const;

 private:
  struct Impl;
  explicit Catalog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lectern

#endif  // LECTERN_STORE_CATALOG_H_
