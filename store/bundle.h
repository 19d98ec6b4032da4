// Exports one document, with its parts if it has any, as a single file (a bundle), and imports a
// bundle into another store: the work of lectern-store export and import.
#ifndef LECTERN_STORE_BUNDLE_H_
#define LECTERN_STORE_BUNDLE_H_

#include <functional>
#include <string>

#include "store/catalog.h"
#include "store/env.h"
#include "store/status.h"

namespace lectern {

// The bytes of a bundle: a head whose size is a multiple of 4096, then the document shard and the
// layers' shards in order, each padded with zeros to a multiple of 4096. Those of a document in
// parts have no layers, and the bundles of its parts follow in the same file. Normative text:
// FORMAT.md.
inline constexpr char kBundleMagic[8] = {'L', 'E', 'C', 'T', 'B', 'N', 'D', 'L'};
inline constexpr uint16_t kBundleMajor = 1;       // of a document without parts
inline constexpr uint16_t kBundlePartsMajor = 2;  // of one with parts, which others follow
inline constexpr uint64_t kBundleAlignment = 4096;

// The first bytes of a bundle.
struct BundleHeader {
  char magic[8];
  uint16_t major;
  uint16_t minor;
  uint32_t head_crc;    // CRC-32C of the head with this field 0
  uint64_t file_bytes;  // size of this document in the file
  uint32_t head_bytes;  // header, entries, strings and zeros
  uint32_t num_files;   // 1 + layers, or 1 with parts; an entry each follows
  uint8_t document_id[16];
  uint8_t fingerprint[32];
  uint64_t generation;  // generation of the shards inside; an import gives them a new one
  uint64_t num_tokens;
  uint64_t text_bytes;
  uint64_t replaced_bytes;
  uint32_t name_bytes;  // the strings follow the entries in this order
  uint32_t model_path_bytes;
  uint32_t report_bytes;
  uint32_t num_parts;  // bundles that follow in the file; 0 with major 1
};
static_assert(sizeof(BundleHeader) == 128);

// One of the shards in a bundle: the document's first, then the layers' in order.
struct BundleEntry {
  uint64_t offset;
  uint64_t bytes;     // size of the shard without its padding
  uint32_t crc;       // CRC-32C of the shard with its padding
  uint32_t reserved;  // 0
};
static_assert(sizeof(BundleEntry) == 24);

// Writes the document of `row`, and behind it its `parts` (rows, in their order; empty: it has
// none), as a new file at `path`. Verifies every byte of a document's shards before it copies them.
// All or nothing: it writes "PATH.part" and renames that; what it wrote is gone after an error.
// Needs no lock, because it leases each generation while it copies it; a leased one stays.
// kInvalidArgument: `path` is taken, or "PATH.part" is there, of another export or left by a crash.
// kLocked: the generation is being removed. kMissingFile: it is gone. Codes of ReadGeneration;
// kNoSpace.
Status ExportDocument(Env& env, const std::string& store, const DocumentRow& row,
                      const std::string& path, const std::vector<DocumentRow>& parts = {});

// The result of an import.
struct Imported {
  // As the catalog has it now.
  DocumentRow row;
  bool existed = false;  // true: the same document was there; nothing but its names has changed
  std::string note;      // ImportNames::note
};
// How an import names its document.
struct ImportNames {
  NameChange change;
  std::string name;  // the document's name afterwards; empty: none
  std::string note;  // for the user, if a name was changed or taken; may be empty
};
// A document that is being imported and needs names. The row has the id, fingerprint, sizes, model
// path and report of its head; its `name` is the name that it was exported with.
struct ImportedHead {
  const DocumentRow& row;
  const DocumentRow* whole = nullptr;  // the document of which this is a part; nullptr: it is none
  size_t number = 0;                   // of the part, from 0
};
// Decides the names. Called once for each part that is imported, then for the document; before
// anything of it is checked beyond the heads.
using NameImport = std::function<Result<ImportNames>(const ImportedHead&)>;

// Takes the document of the bundle at `path` into the store, as a new generation: all or nothing,
// names included; only its parts, which come first, may stay after an error, under the names that
// they were given. If the store has the document already, only its names change. The caller must
// hold the store's lock. `quota_bytes` limits the size of the store; 0: no limit. All heads are
// checked first, and every byte of a document (or part) before that one changes the store; where
// only names change, the heads alone. The file is read and not mapped: cutting it meanwhile is an
// error and no SIGBUS. Errors of `names`; kMissingFile: no bundle; kTruncated, kChecksumMismatch,
// kCorrupt: it is damaged; kUnsupportedVersion; kLimitExceeded: its head is larger than 64 MiB;
// kNoSpace (param "quota" if it is the quota's); codes of Catalog and Env.
Result<Imported> ImportDocument(Env& env, const std::string& store, Catalog& catalog,
                                const std::string& path, const NameImport& names,
                                uint64_t quota_bytes = 0);

}  // namespace lectern

#endif  // LECTERN_STORE_BUNDLE_H_
