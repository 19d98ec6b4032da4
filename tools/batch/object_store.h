// Keeps bundles as objects of a bucket. The worker and the server's cache know a bucket by this
// interface alone; tests put a store that fails in its place.
#ifndef LECTERN_TOOLS_BATCH_OBJECT_STORE_H_
#define LECTERN_TOOLS_BATCH_OBJECT_STORE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "engine/lectern.h"
#include "tools/batch/retry.h"

namespace lectern::batch {

// The facts of an object that a bucket tells without sending its bytes.
struct ObjectFacts {
  uint64_t bytes = 0;
  std::string sha256 = {};  // 64 hex digits; another writer's object may have none: empty
};

// Thread-safe. Every call blocks, retries what is worth it (retry.h), and ends with CANCELLED soon
// after `stop` holds. Other errors: IO_ERROR, no answer or an error of the server, after all tries;
// READ_ONLY, the keys do not allow it; NOT_FOUND (param "bucket"), there is no such bucket.
// Messages name the object and never have a secret.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Stores the file's bytes, whose facts are given, under `key`, which names these very bytes
  // (bucket.h): an object that is there is replaced by an equal one. The bytes are sent with their
  // SHA-256, which the server checks. A file above the part size goes in parts, which are taken
  // back on failure. IO_ERROR also if the file cannot be read.
  virtual api::Result<api::Done> Put(const std::string& key, const std::string& path,
                                     const ObjectFacts& facts, const StopCheck& stop) = 0;
  // The object's facts; nothing: there is none.
  virtual api::Result<std::optional<ObjectFacts>> Head(const std::string& key,
                                                       const StopCheck& stop) = 0;
  // Writes the object's bytes into the file, which is replaced; after an error it holds anything.
  // NOT_FOUND (param "key"): there is no such object.
  virtual api::Result<api::Done> Get(const std::string& key, const std::string& path,
                                     const StopCheck& stop) = 0;
  // Removes the object; there need not be one.
  virtual api::Result<api::Done> Remove(const std::string& key, const StopCheck& stop) = 0;
};

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_OBJECT_STORE_H_
