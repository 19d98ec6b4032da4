// Reads rows of the catalog's tables and computes their checksums (FORMAT.md, section 6), for
// catalog.cc and catalog_schema.cc. Internal to store/.
#ifndef LECTERN_STORE_CATALOG_ROWS_H_
#define LECTERN_STORE_CATALOG_ROWS_H_

#include <cstring>
#include <string_view>
#include <vector>

#include "store/catalog.h"
#include "store/sqlite.h"

namespace lectern {

// The bytes of an id or fingerprint; valid as long as it is.
template <size_t N>
std::string_view View(const std::array<uint8_t, N>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), N};
}

// Copies at most N bytes; the rest of `to` stays. A blob of another length fails the row's CRC, so
// a cut copy does no harm.
template <size_t N>
void CopyTo(std::string_view from, std::array<uint8_t, N>& to) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), std::min(N, from.size()));
}

// A document's row with the columns that only the catalog uses.
struct StoredDocument {
  DocumentRow row;
  int64_t num_shards = 0;
  bool intact = false;  // its CRC fits
};

// A row of the table `names`.
struct StoredName {
  std::string name, source;
  DocumentId id{};
  bool intact = false;  // its CRC fits
};

// CRC-32C over the table's name and the columns in order: text and blobs as u64 length and bytes,
// integers as i64, little-endian.
uint32_t DocumentCrc(const DocumentRow& row, std::string_view id, std::string_view fingerprint,
                     int64_t num_shards);
uint32_t NameCrc(std::string_view name, std::string_view id, std::string_view source);
// As schema version 1 had it, without source.
uint32_t NameCrc1(std::string_view name, std::string_view id);
uint32_t CounterCrc(std::string_view name, int64_t value);
uint32_t ShardCrc(int64_t generation, const ShardSummary& shard);

// Every query of the catalog that reads rows. Those with a key use an index (catalog_test.cc looks
// at SQLite's plans), so that finding one document takes as long in a store of 10,000.
#define LECTERN_SELECT_DOCUMENTS                                                    \
  "SELECT generation, id, state, fingerprint, model_path, num_tokens, text_bytes, " \
  "replaced_bytes, bytes_on_disk, report_json, num_shards, crc FROM documents "
inline constexpr char kSelectDocuments[] = LECTERN_SELECT_DOCUMENTS "ORDER BY generation";
inline constexpr char kSelectDocumentsById[] =
    LECTERN_SELECT_DOCUMENTS "WHERE id=? ORDER BY generation";
inline constexpr char kSelectDocument[] = LECTERN_SELECT_DOCUMENTS "WHERE generation=?";
#undef LECTERN_SELECT_DOCUMENTS
inline constexpr char kSelectNames[] = "SELECT name, id, crc, source FROM names ORDER BY name";
inline constexpr char kSelectNamesOfVersion1[] =
    "SELECT name, id, crc, '' FROM names ORDER BY name";
inline constexpr char kSelectName[] = "SELECT name, id, crc, source FROM names WHERE name=?";
inline constexpr char kSelectNamesById[] =
    "SELECT name, id, crc, source FROM names WHERE id=? ORDER BY name";
inline constexpr char kSelectShards[] =
    "SELECT file, bytes, table_crc, header_crc, crc FROM shards WHERE generation=? ORDER BY file";

// Reads a row of kSelectDocuments, on which `s` stands (its last Step returned true). A damaged row
// is returned with `intact` false and fields that mean nothing. The row gets no names.
StoredDocument ReadDocument(const Statement& s);
// The intact names that point to `id`, in byte order, of names in byte order.
std::vector<DocumentName> NamesOf(const std::vector<StoredName>& names, const DocumentId& id);
// Gives ready documents' rows the intact names that point to them, in byte order.
void AddNames(const std::vector<StoredName>& names, std::vector<DocumentRow>& rows);
// Reads a row of (file, bytes, table_crc, header_crc, crc), on which `s` stands, into `shard`.
// False: the CRC does not fit, or the file name leads outside the document's folder; `shard` is
// filled in all the same.
bool ReadShard(const Statement& s, int64_t generation, ShardSummary& shard);
// kLimitExceeded if a size or count of the row does not fit SQLite's signed integers (the greatest
// is 2^63 - 1), or its generation is beyond 2^62 - 1: the next generation must have a number, too.
Status CheckRange(const DocumentRow& row);

}  // namespace lectern

#endif  // LECTERN_STORE_CATALOG_ROWS_H_
