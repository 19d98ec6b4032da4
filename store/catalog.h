// The SQLite file that tracks documents and their shards.
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
using Fingerprint = std::array<uint8_t, 32>;
std::string ToHex(std::span<const uint8_t> bytes);
// 32 lower-case hex digits, else nullopt.
std::optional<DocumentId> ParseDocumentId(std::string_view text);

// Never renumber.
enum class DocumentState : int { kBuilding = 1, kReady = 2, kDead = 3 };

// A name that points to a document.
struct DocumentName {
  std::string name;    // any bytes; writers give NFC (engine/document/document_names.h)
  std::string source;  // where the text came from: a real path, or a name; empty: not known
  bool operator==(const DocumentName&) const = default;
};

struct DocumentRow {
  DocumentId id{};
  uint64_t generation = 0;  // unique in the store, growing
  std::string name;         // the name it was found by, else the first; empty: reachable by id only
  std::vector<DocumentName> names = {};  // all that point here, by byte order; of ready documents
  DocumentState state = DocumentState::kBuilding;
  Fingerprint fingerprint{};
  std::string model_path;  // absolute, as given when it was indexed; informative
  uint64_t num_tokens = 0;
  uint64_t text_bytes = 0;
  uint64_t replaced_bytes = 0;  // invalid UTF-8 bytes replaced while reading
  uint64_t bytes_on_disk = 0;   // all shards
  std::string report_json;      // the result of index-document, for `existed` runs; informative
};

// How a transaction changes names, and the documents that it takes them from.
struct NameChange {
  std::vector<DocumentName> names;      // point to the document afterwards, whoever had them
  std::vector<DocumentId> replaced;     // documents that go, unless a name is left to them
  std::vector<uint64_t> abandoned;      // unfinished generations that go
  // Names that others have afterwards instead of one that was taken from them.
  std::vector<std::pair<DocumentName, DocumentId>> others;
};

// A generation with its shards, as Adopt and Salvage move them.
struct CatalogEntry {
  DocumentRow row;
  std::vector<ShardSummary> shards;
};

// One connection; one thread at a time (callers lock). Readers in other processes are fine.
class Catalog {
 public:
  enum class Mode { kReadOnly, kReadWrite };
  // kReadWrite creates file and schema where missing, and brings an older schema up to date in one
  // transaction; kReadOnly reads older ones as they are. Read-only media without journal: opened
  // immutable. kNotFound (read-only, no file), kCorrupt (not ours, schema or row CRC wrong),
  // kUnsupportedVersion, kReadOnly, kLocked, kNoSpace, kIoError.
  static Result<std::unique_ptr<Catalog>> Open(Env& env, const std::string& path, Mode mode);
  ~Catalog();

  // A new `building` row with the next generation; `row.generation` is ignored.
  Result<uint64_t> BeginDocument(const DocumentRow& row);
  // The visibility transaction: adds the shard rows, records sizes and report, makes the row
  // `ready`, marks older generations of the same id dead, and makes the change of names. `row` is
  // the building row with its final fields; its own names are not looked at.
  Status CommitDocument(const DocumentRow& row, const std::vector<ShardSummary>& shards,
                        const NameChange& change = {});
  // Makes the change of names for a document that is ready. kNotFound, kInvalidArgument (an empty
  // name).
  Status ChangeNames(const DocumentId& id, const NameChange& change);
  // Takes the name away; the document goes, as MarkDead has it, when this was its last one: true.
  // kNotFound.
  Result<bool> RemoveName(const std::string& name);
  // Marks every generation of the id dead: it is gone for readers from here on.
  Status MarkDead(const DocumentId& id);
  // When this returns, what calls have read is durable, also of a commit that failed after it had
  // happened: a transaction that changes nothing, and whose commit is whole.
  Status Settle();
  // Forgets a row of a generation (its files are gone).
  Status Forget(uint64_t generation);

  // In one transaction: adds these generations as they are, state and number included, replacing
  // rows of the same number; points each of their names at its id unless the name is taken; makes
  // the counter of generations at least the greatest of them.
  Status Adopt(const std::vector<CatalogEntry>& entries);

  // The intact part of a catalog: documents whose row verifies, with the names that point to each
  // (shards are left out). `damaged`: some row of any table does not verify.
  struct Salvaged {
    std::vector<DocumentRow> documents;
    bool damaged = false;
  };
  Result<Salvaged> Salvage() const;

  // Every call checks the CRC of each row that it returns: kCorrupt names the row.
  Result<std::vector<DocumentRow>> List() const;  // all states, by generation
  Result<std::optional<DocumentRow>> FindReady(const DocumentId& id) const;
  Result<std::optional<DocumentRow>> FindReadyByName(const std::string& name) const;
  Result<std::vector<ShardSummary>> Shards(uint64_t generation) const;  // by file name

 private:
  struct Impl;
  explicit Catalog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lectern

#endif  // LECTERN_STORE_CATALOG_H_
