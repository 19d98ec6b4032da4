// A document that is longer than its model's room, which is indexed in parts. To the user it is one
// document with one text; each part is a document of its own, hidden behind a name that says where
// it belongs.
#ifndef LECTERN_ENGINE_DOCUMENT_PARTS_H_
#define LECTERN_ENGINE_DOCUMENT_PARTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/document/document_text.h"
#include "store/catalog.h"
#include "store/env.h"
#include "store/ram_limit.h"
#include "store/shard_format.h"
#include "store/status.h"

namespace lectern {

// One part of a document, as its document.shard has it (store/FORMAT.md).
using Part = PartEntry;
// Parts that one document can have, and that a name has digits for.
inline constexpr size_t kMaxParts = 100'000;

DocumentId IdOf(const Part& part);

// The name of part `number`, from 0, of the document `whole`. It begins with a control character,
// which names of users may not (CheckName), so that it is no user's name.
std::string PartName(const DocumentId& whole, size_t number);
// The document to which a part of this name belongs; nothing: it is no name of a part.
std::optional<DocumentId> WholeOf(std::string_view name);
// Whether a document is known as a part alone, so that lists leave it out: all its names are names
// of parts or, while it is being indexed, its report has "part_of". False for a document without
// names, and for one that a user indexed, too, under another name.
bool IsOnlyPart(const DocumentRow& row);

// Whether the generation with these shards is indexed in parts: it has its text's shard alone.
inline bool IsInParts(const std::vector<ShardSummary>& shards) { return shards.size() == 1; }

// The rows of the parts of `whole` among `rows`, by their number; parts that are gone are left out.
std::vector<DocumentRow> PartsIn(const std::vector<DocumentRow>& rows, const DocumentId& whole);

// Removes the names of parts whose document is neither ready nor being indexed, and with a last
// name the part itself; and parts of such documents whose indexing was not finished. The caller
// holds the store's lock; files of ready parts stay until CollectGarbage. The first error ends it;
// repeating it goes on. Codes of Catalog and DiscardGeneration.
Status RemoveOrphanedParts(Env& env, const std::string& store, Catalog& catalog);
// Gives the parts of every ready document their names, as far as they are in the store: after
// RecoverCatalog, which does not know them. The caller holds the store's lock. A document that
// cannot be read is passed over. Codes of Catalog.
Status NameParts(Env& env, const std::string& store, Catalog& catalog);

// A document in parts, open for reading. Immutable and thread-safe. Its files stay while it lives.
class PartedDocument {
 public:
  // Reads and checks its text and its parts. Holds a shared lease of `directory` and, if there is
  // `ram`, a share of it. The parts themselves are not opened. kCorrupt: there is no part, or parts
  // lie outside the text or out of order; codes of DocumentText::Open; kOutOfMemory (by `ram`);
  // kLocked: its files are being removed.
  static Result<std::shared_ptr<const PartedDocument>> Open(
      Env& env, const std::string& directory, const DocumentRow& row,
      const std::vector<ShardSummary>& shards, const std::shared_ptr<RamLimit>& ram = nullptr);

  const DocumentText& contents() const { return contents_; }
  std::span<const Part> parts() const { return parts_; }  // ascending; at least one
  // Reads and verifies every block of its own shard. Codes of ShardReader::VerifyAll.
  Status VerifyAll() const { return contents_.shard().VerifyAll(); }

 private:
  std::unique_ptr<FileLock> lease_;
  DocumentText contents_;
  std::span<const Part> parts_;  // in the shard
  RamLimit::Share ram_share_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_PARTS_H_
