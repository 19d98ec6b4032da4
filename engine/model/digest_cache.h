// Keeps the fingerprints of models in the store, so that a model whose weight files have not
// changed is not hashed again: hashing 14 GB takes a minute. Model::Load uses it.
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
//
// Thread-safe, also between processes: an entry is replaced by rename, so a reader finds the old
// entry or the new one, whole.
class DigestCache {
 public:
  // A SHA-256 that changes when a weight file is replaced or written to (Model::DigestKey makes
  // it).
  using Key = std::array<uint8_t, 32>;
  // Borrows `env`. `store`: the store's directory; where it is empty or no store, nothing is found
  // and nothing is kept.
  DigestCache(Env& env, std::string store) : env_(env), store_(std::move(store)) {}

  // Returns the fingerprint that was kept for this folder under the same key; else nothing: no
  // entry, another key, a damaged entry, or a file that cannot be read. `folder` is compared as the
  // user wrote it, so two paths to one folder have two entries.
  std::optional<Fingerprint> Find(const std::string& folder, const Key& key) const;
  // Returns what was last kept for this folder, whatever the key: a guess, for work that is thrown
  // away where it is wrong.
  std::optional<Fingerprint> Guess(const std::string& folder) const;
  // Writes the entry of a folder, in place of an older one. `fingerprint`: of the weights as
  // stored, without quantisation and adapter, which the key does not cover; Model::fingerprint()
  // may be another. Best effort and never an error: where the store is sealed, full or cannot be
  // written, the next Load hashes again. Creates `<store>/digests` if it is missing.
  void Keep(const std::string& folder, const Key& key, const Fingerprint& fingerprint) const;

 private:
  Env& env_;
  const std::string store_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_DIGEST_CACHE_H_
