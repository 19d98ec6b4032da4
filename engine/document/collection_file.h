// The SQLite file behind a collection, and what its calls share. Internal to collection.cc and
// collection_search.cc.
#ifndef LECTERN_ENGINE_DOCUMENT_COLLECTION_FILE_H_
#define LECTERN_ENGINE_DOCUMENT_COLLECTION_FILE_H_

#include <sqlite3.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/document/collection.h"
#include "engine/document/word_tokenizer.h"
#include "store/sqlite.h"

namespace lectern {

struct Collection::Impl {
  std::string path;
  bool writes = false;
  sqlite3* db = nullptr;
  std::unique_ptr<WordTokenizer> english, plain;
  std::unordered_set<std::string> stop_words;  // as `english` has them
  std::mutex mutex;                            // every call holds it
  // The texts as they were at a version of the file; nullptr: not read yet.
  std::shared_ptr<const Texts> texts;
  int64_t texts_version = 0;

  ~Impl();
  Statement Prepare(const char* sql) const { return Statement(db, path, sql); }
  Status Execute(const char* sql) const { return Prepare(sql).Run(); }
  Status Corrupt(const std::string& what) const;
  // The same error, with this file's way out where it is damage.
  Status Told(Status status) const;

  Status Open(Env& env, const std::string& name);
  // The texts in the transaction that runs; sets `texts`.
  Status ReadTexts();
};

// The bytes of a vector's elements as the columns `lengths` (uint16_t), `passages` (Passage) and
// `pages` (PageMapEntry) hold them: little-endian, as the host is (weights.cc asserts that). T has
// no padding. The result is a view: it holds until the vector changes or dies.
template <typename T>
std::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
// False: there is half a value.
template <typename T>
bool ReadValues(std::string_view bytes, std::vector<T>& values) {
  if (bytes.size() % sizeof(T) != 0) return false;
  values.resize(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return true;
}

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_COLLECTION_FILE_H_
