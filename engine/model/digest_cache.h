// Remembers the fingerprints of models whose weight files have not changed since they were hashed,
// because hashing 14 GB takes a minute. Model::Load uses it.
#ifndef LECTERN_ENGINE_MODEL_DIGEST_CACHE_H_
#define LECTERN_ENGINE_MODEL_DIGEST_CACHE_H_

#include <array>
#include <optional>
#include <string>

#include "store/catalog.h"
#include "store/env.h"

namespace lectern {

// The cache is one small file per model folder in `<store>/digests`, 0600, replaced by rename. The
// file holds the fingerprint and the key that it was found under (a hash over sizes, times and
// inodes of the weights' files and over everything else that the fingerprint covers, Model::Load).
// A file that is missing, damaged or of other weights means that the weights are hashed again,
// never a wrong answer. The file is not signed: whoever can write to the store could change its
// documents as well.
class DigestCache {
 public:
  using Key = std::array<uint8_t, 32>;
  // `store`: empty, or a directory that is no store: nothing is found or kept.
  DigestCache(Env& env, std::string store) : env_(env), store_(std::move(store)) {}

  std::optional<Fingerprint> Find(const std::string& folder, const Key& key) const;
  // Keeps a fingerprint if it can: where the store cannot be written, the next Load hashes again.
  void Keep(const std::string& folder, const Key& key, const Fingerprint& fingerprint) const;

 private:
  std::string PathOf(const std::string& folder) const;

  Env& env_;
  const std::string store_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_DIGEST_CACHE_H_
