// The catalog of a corpus: an object of the bucket that lists the documents by name, so that a
// server finds them without the database. A JSON object a line, sorted by name.
#ifndef LECTERN_TOOLS_BATCH_CATALOG_H_
#define LECTERN_TOOLS_BATCH_CATALOG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lectern.h"
#include "tools/batch/bucket.h"

namespace lectern::batch {

struct CatalogEntry {
  std::string name, document;  // the document's name and id
  std::string key, sha256;     // of its bundle
  uint64_t bytes = 0;          // of its bundle
};

// "PREFIX/catalog.jsonl". It is replaced as a whole, unlike the bundles.
std::string CatalogKey(const BucketPlace& place);
std::string CatalogLine(const CatalogEntry& entry);  // with its newline
// CORRUPT: a line is none of CatalogLine's.
api::Result<std::vector<CatalogEntry>> ParseCatalog(std::string_view text);

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_CATALOG_H_
