#include "engine/model/digest_cache.h"

#include <cstring>
#include <random>

#include "engine/model/formats/sha256.h"
#include "store/crc32c.h"
#include "store/store.h"

namespace lectern {
namespace {

// The whole content of an entry's file: 76 bytes without padding, as the assertion below checks.
// The last character of `magic` is the version.
struct Entry {
  char magic[8] = {'L', 'E', 'C', 'T', 'D', 'I', 'G', '1'};
  DigestCache::Key key{};
  Fingerprint fingerprint{};
  uint32_t crc = 0;  // CRC-32C of the bytes before it
};
static_assert(sizeof(Entry) == 76);

uint32_t CrcOf(const Entry& entry) { return Crc32c(0, &entry, offsetof(Entry, crc)); }

// The path of the folder's entry: <store>/digests/ and 32 hexadecimal digits of a hash of `folder`,
// because a path has slashes and may be longer than a file name. 16 bytes of the hash are enough:
// if two paths met, their keys would still differ, and the weights would be hashed again.
std::string EntryPath(const std::string& store, const std::string& folder) {
  Sha256 hash;
  hash.UpdateText(folder);
  const std::array<uint8_t, 32> digest = hash.Finish();
  return store + "/digests/" + ToHex(std::span(digest).first(16));
}

// Nothing: there is no entry, or it cannot be read or believed.
std::optional<Entry> ReadEntry(Env& env, const std::string& store, const std::string& folder) {
  if (store.empty()) return std::nullopt;
  const auto file = OpenWhole(env, EntryPath(store, folder), Io::kPread);
  Entry entry;
  // The size is checked before the bytes are copied: the file may be cut, or from another version.
  if (!file.ok() || (*file)->size() != sizeof entry) return std::nullopt;
  std::memcpy(&entry, (*file)->data(), sizeof entry);
  if (std::memcmp(entry.magic, Entry().magic, sizeof entry.magic) != 0 ||
      entry.crc != CrcOf(entry)) {
    return std::nullopt;
  }
  return entry;
}

}  // namespace

std::optional<Fingerprint> DigestCache::Find(const std::string& folder, const Key& key) const {
  const auto entry = ReadEntry(env_, store_, folder);
  if (!entry || entry->key != key) return std::nullopt;
  return entry->fingerprint;
}

std::optional<Fingerprint> DigestCache::Guess(const std::string& folder) const {
  const auto entry = ReadEntry(env_, store_, folder);
  return entry ? std::optional(entry->fingerprint) : std::nullopt;
}

void DigestCache::Keep(const std::string& folder, const Key& key,
                       const Fingerprint& fingerprint) const {
  if (store_.empty() || !IsOpenStore(env_, store_)) return;
  Entry entry{.key = key, .fingerprint = fingerprint};
  entry.crc = CrcOf(entry);
  const std::string path = EntryPath(store_, folder);
  // The name has a random part, so that two processes that load the same model do not write to one
  // file.
  const std::string temp =
      store_ + "/tmp/digest." + std::to_string(std::random_device()()) + ".part";
  if (!env_.MakeDirectory(store_ + "/digests").ok()) return;
  // The file is synced before it is renamed, so that a crash leaves the old entry or a whole new
  // one.
  const auto write = [&]() -> Status {
    LECTERN_ASSIGN(const auto file, env_.OpenWritable(temp, /*exclusive=*/true));
    LECTERN_RETURN_IF_ERROR(file->WriteAt(0, &entry, sizeof entry));
    LECTERN_RETURN_IF_ERROR(file->Sync());
    LECTERN_RETURN_IF_ERROR(file->Close());
    return env_.Rename(temp, path);
  };
  if (!write().ok()) (void)env_.Remove(temp);
}

}  // namespace lectern
