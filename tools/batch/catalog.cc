#include "tools/batch/catalog.h"

#include <algorithm>
#include <utility>

#include "engine/model/formats/json.h"
#include "tools/batch/file_hash.h"

namespace lectern::batch {
namespace {

bool IsDocumentId(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::string CatalogKey(const BucketPlace& place) {
  return (place.prefix.empty() ? "" : place.prefix + "/") + "catalog.jsonl";
}

std::string CatalogLine(const CatalogEntry& entry) {
  return Json(Json::Object{{"name", entry.name},
                           {"document", entry.document},
                           {"key", entry.key},
                           {"sha256", entry.sha256},
                           {"bytes", entry.bytes}})
             .Dump() +
         "\n";
}

api::Result<std::vector<CatalogEntry>> ParseCatalog(std::string_view text) {
  std::vector<CatalogEntry> entries;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    auto line = ParseJson(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
    const auto string = [&line](const char* name) {
      const Json* const value = line.ok() ? line->Find(name) : nullptr;
      return value && value->string() ? *value->string() : std::string();
    };
    const Json* const bytes = line.ok() ? line->Find("bytes") : nullptr;
    CatalogEntry entry = {.name = string("name"),
                          .document = string("document"),
                          .key = string("key"),
                          .sha256 = string("sha256"),
                          .bytes = bytes ? bytes->unsigned_integer().value_or(0) : 0};
    if (entry.name.empty() || !IsDocumentId(entry.document) || entry.key.empty() ||
        !IsSha256(entry.sha256) || entry.bytes == 0) {
      return api::Error{LECTERN_CORRUPT,
                        "line " + std::to_string(entries.size() + 1) +
                            " of the corpus's catalog is damaged: publish it again",
                        "bucket"};
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace lectern::batch
