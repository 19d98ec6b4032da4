#include "tools/server/bucket_documents.h"

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "tools/batch/bucket.h"
#include "tools/batch/catalog.h"
#include "tools/batch/file_hash.h"
#include "tools/batch/s3_store.h"
#include "tools/server/fetched_documents.h"
#include "tools/terminal.h"

namespace lectern::server {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kCatalogAge = std::chrono::seconds(30);  // before it is looked for again
// The catalog is read at the start and while a client waits: a second or two are enough to try.
constexpr batch::Backoff::Limits kForCatalog = {.tries = 4};
// How long a change waits for others that change the store, such as an upload that is indexed.
constexpr auto kLockWait = std::chrono::seconds(60);

// Errors go to the log as they are; clients get no addresses.
api::Error ForClients(const api::Error& error) {
  tools::PrintNote("lectern-server", error.message);
  if (error.code == LECTERN_CANCELLED) return error;
  return {error.code == LECTERN_LOCKED ? LECTERN_LOCKED : LECTERN_IO_ERROR,
          "the document could not be fetched from the bucket; try again later", "document"};
}

class BucketFetcher final : public DocumentFetcher {
 public:
  BucketFetcher(api::Engine& engine, const BucketOptions& options, batch::BucketPlace place,
                batch::S3Keys keys, std::string endpoint)
      : engine_(engine),
        folder_(options.store + ".bucket"),
        place_(std::move(place)),
        keys_(std::move(keys)),
        endpoint_(std::move(endpoint)),
        fetched_(options.cache_bytes) {}

  // Reads the catalog, and which documents were fetched earlier and are there still.
  api::Result<api::Done> Begin() {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) {
      return api::Error{LECTERN_IO_ERROR, folder_ + ": " + error.message(), "store"};
    }
    for (const auto& file : fs::directory_iterator(folder_, error)) {
      std::error_code ignored;
      if (file.path().extension() == ".download") fs::remove(file.path(), ignored);
    }
    std::ifstream list(ListPath(), std::ios::binary);
    fetched_.Read(std::string(std::istreambuf_iterator<char>(list), {}));
    for (const std::string& document : fetched_.documents()) {
      if (const auto found = engine_.Find(document);
          !found.ok() && found.error().code == LECTERN_NOT_FOUND) {
        fetched_.Remove(document);
      }
    }
    auto read = ReadCatalog({});
    if (read.ok() || read.error().code != LECTERN_IO_ERROR) return read;
    tools::PrintNote("lectern-server", read.error().message +
                                           ": until the bucket answers, only documents of the "
                                           "store can be asked");
    return api::Done();
  }

  api::Result<api::Done> Fetch(const std::string& document,
                               const std::function<bool()>& stop) override {
    auto entry = Lookup(document, stop);
    if (!entry.ok()) return entry.error();
    if (!Enter(entry->document, stop)) return api::Error{LECTERN_CANCELLED, "cancelled", ""};
    const Leaver leaver = {*this, entry->document};
    // Another request may have fetched it meanwhile, and under this very name.
    if (engine_.Find(document).ok()) return api::Done();
    return FetchEntry(*entry, stop);
  }

  void Used(const std::string& document) override {
    const std::lock_guard lock(mutex_);
    fetched_.Use(document);
  }

  void Opened(const std::string& document, std::weak_ptr<const void> open) override {
    const std::lock_guard lock(mutex_);
    fetched_.AddOpen(document, std::move(open));
  }

 private:
  std::string ListPath() const { return folder_ + "/fetched"; }

  // A store of its own for each download: they do not wait for each other.
  api::Result<std::unique_ptr<batch::ObjectStore>> Bucket(
      const batch::Backoff::Limits& retries) const {
    auto client = batch::MakeCurlClient(keys_);
    if (!client.ok()) return client.error();
    return std::unique_ptr<batch::ObjectStore>(std::make_unique<batch::S3Store>(
        std::move(*client), batch::S3Place{.endpoint = endpoint_, .bucket = place_.bucket},
        batch::kPartBytes, retries));
  }

  // Reads the catalog unless it is the one that is known.
  api::Result<api::Done> ReadCatalog(const batch::StopCheck& stop) {
    auto bucket = Bucket(kForCatalog);
    if (!bucket.ok()) return bucket.error();
    const std::string key = batch::CatalogKey(place_);
    auto facts = (*bucket)->Head(key, stop);
    if (!facts.ok()) return facts.error();
    if (!*facts) {
      return api::Error{LECTERN_NOT_FOUND,
                        place_.Text() + " has no catalog: \"lectern-batch publish\" makes it",
                        "bucket"};
    }
    if (!(*facts)->sha256.empty() && (*facts)->sha256 == catalog_sha256_) return api::Done();
    const std::string path = folder_ + "/catalog.download";
    if (auto got = (*bucket)->Get(key, path, stop); !got.ok()) return got.error();
    std::ifstream file(path, std::ios::binary);
    auto entries = batch::ParseCatalog(std::string(std::istreambuf_iterator<char>(file), {}));
    std::error_code ignored;
    fs::remove(path, ignored);
    if (!entries.ok()) return entries.error();
    std::map<std::string, batch::CatalogEntry, std::less<>> by_name, by_id;
    for (const batch::CatalogEntry& entry : *entries) {
      by_name.emplace(entry.name, entry);
      by_id.emplace(entry.document, entry);
    }
    const std::lock_guard lock(mutex_);
    by_name_ = std::move(by_name);
    by_id_ = std::move(by_id);
    catalog_sha256_ = (*facts)->sha256;
    return api::Done();
  }

  std::optional<batch::CatalogEntry> Known(const std::string& document) {
    const std::lock_guard lock(mutex_);
    if (const auto it = by_name_.find(document); it != by_name_.end()) return it->second;
    if (const auto it = by_id_.find(document); it != by_id_.end()) return it->second;
    return std::nullopt;
  }

  // The catalog's entry of a name or id, with a new look at the catalog where it is not known.
  api::Result<batch::CatalogEntry> Lookup(const std::string& document,
                                          const batch::StopCheck& stop) {
    if (auto known = Known(document)) return *known;
    const std::lock_guard reading(catalog_mutex_);
    if (!catalog_read_ || SteadyClock::now() - *catalog_read_ > kCatalogAge) {
      catalog_read_ = SteadyClock::now();
      if (auto read = ReadCatalog(stop); !read.ok()) return ForClients(read.error());
    }
    if (auto known = Known(document)) return *known;
    return api::Error{LECTERN_NOT_FOUND, "there is no such document in the bucket", "document"};
  }

  // Waits until nobody fetches the document, and is the one who does. False: `stop` held.
  bool Enter(const std::string& document, const batch::StopCheck& stop) {
    std::unique_lock lock(mutex_);
    while (in_flight_.count(document) > 0) {
      if (batch::IsStopped(stop)) return false;
      left_.wait_for(lock, std::chrono::milliseconds(100));
    }
    in_flight_.insert(document);
    return true;
  }

  struct Leaver {  // on every way out
    BucketFetcher& fetcher;
    const std::string& document;
    ~Leaver() { fetcher.Leave(document); }
  };
  void Leave(const std::string& document) {
    {
      const std::lock_guard lock(mutex_);
      in_flight_.erase(document);
    }
    left_.notify_all();
  }

  api::Result<api::Done> FetchEntry(const batch::CatalogEntry& entry,
                                    const batch::StopCheck& stop) {
    const std::string path = folder_ + "/" + entry.document + ".download";
    auto done = Download(entry, path, stop);
    if (done.ok()) done = Import(entry, path, stop);
    std::error_code ignored;
    fs::remove(path, ignored);
    if (!done.ok() && done.error().code == LECTERN_NO_SPACE) return done;
    return done.ok() ? done : ForClients(done.error());
  }

  api::Result<api::Done> Download(const batch::CatalogEntry& entry, const std::string& path,
                                  const batch::StopCheck& stop) {
    auto bucket = Bucket({});
    if (!bucket.ok()) return bucket.error();
    if (auto got = (*bucket)->Get(entry.key, path, stop); !got.ok()) return got.error();
    auto hash = batch::HashFile(path);
    if (!hash.ok()) return hash.error();
    if (hash->bytes == entry.bytes && hash->sha256 == entry.sha256) return api::Done();
    return api::Error{LECTERN_CHECKSUM_MISMATCH,
                      entry.key + ": the object is not as the catalog has it", "bucket"};
  }

  // Makes room, and imports. One at a time, because the store has one writer.
  api::Result<api::Done> Import(const batch::CatalogEntry& entry, const std::string& path,
                                const batch::StopCheck& stop) {
    const std::lock_guard importing(import_mutex_);
    if (auto room = MakeRoom(entry.bytes, stop); !room.ok()) return room;
    auto imported = WhenUnlocked([&] { return engine_.Import(path); }, stop);
    if (!imported.ok()) return imported.error();
    if (imported->document.id != entry.document) {
      return api::Error{LECTERN_CORRUPT,
                        entry.key + ": the object holds the document " + imported->document.id,
                        "bucket"};
    }
    const std::lock_guard lock(mutex_);
    // A document that was in the store before is not the cache's to remove.
    if (!imported->existed) fetched_.Add(entry.document, entry.bytes);
    return WriteList();
  }

  api::Result<api::Done> MakeRoom(uint64_t bytes, const batch::StopCheck& stop) {
    std::optional<std::vector<std::string>> victims;
    {
      const std::lock_guard lock(mutex_);
      victims = fetched_.Victims(bytes);
    }
    if (!victims) {
      return api::Error{LECTERN_NO_SPACE,
                        "the cache of the bucket has no room for this document: it is too large, "
                        "or all others are in use",
                        "document"};
    }
    for (const std::string& victim : *victims) {
      auto removed = WhenUnlocked([&] { return engine_.Remove(victim); }, stop);
      if (!removed.ok() && removed.error().code != LECTERN_NOT_FOUND) return removed.error();
      const std::lock_guard lock(mutex_);
      fetched_.Remove(victim);
      if (auto written = WriteList(); !written.ok()) return written;
    }
    return api::Done();
  }

  // Runs it until no other writer has the store.
  template <typename Change>
  std::invoke_result_t<Change> WhenUnlocked(Change change, const batch::StopCheck& stop) {
    const auto end = SteadyClock::now() + kLockWait;
    for (;;) {
      auto result = change();
      if (result.ok() || result.error().code != LECTERN_LOCKED || SteadyClock::now() > end ||
          !batch::WaitUnless(stop, std::chrono::milliseconds(100))) {
        return result;
      }
    }
  }

  // A list that is not written makes documents stay longer than they should: no more.
  api::Result<api::Done> WriteList() {
    const std::string path = ListPath() + ".new";
    {
      std::ofstream file(path, std::ios::binary | std::ios::trunc);
      file << fetched_.Text();
      if (!file.flush()) {
        return api::Error{LECTERN_IO_ERROR, path + ": cannot be written", "store"};
      }
    }
    std::error_code error;
    fs::rename(path, ListPath(), error);
    if (error) return api::Error{LECTERN_IO_ERROR, path + ": " + error.message(), "store"};
    return api::Done();
  }

  api::Engine& engine_;
  const std::string folder_;
  const batch::BucketPlace place_;
  const batch::S3Keys keys_;
  const std::string endpoint_;
  std::mutex import_mutex_;   // taken before mutex_
  std::mutex catalog_mutex_;  // held while the catalog is read again; before mutex_
  std::optional<SteadyClock::time_point> catalog_read_;  // the last time behind Begin
  std::mutex mutex_;                                     // guards what is below
  std::condition_variable left_;
  std::set<std::string> in_flight_;  // ids of documents that are being fetched
  FetchedDocuments fetched_;
  std::map<std::string, batch::CatalogEntry, std::less<>> by_name_, by_id_;
  std::string catalog_sha256_;
};

}  // namespace

api::Result<std::unique_ptr<DocumentFetcher>> MakeBucketFetcher(api::Engine& engine,
                                                                const BucketOptions& options) {
  auto place = batch::ParseBucket(options.bucket);
  if (!place.ok()) return place.error();
  auto keys = batch::KeysOfEnvironment();
  if (!keys.ok()) return keys.error();
  auto endpoint = batch::EndpointOf(options.endpoint, keys->region);
  if (!endpoint.ok()) return endpoint.error();
  auto fetcher = std::make_unique<BucketFetcher>(engine, options, *place, *keys, *endpoint);
  if (auto begun = fetcher->Begin(); !begun.ok()) return begun.error();
  return std::unique_ptr<DocumentFetcher>(std::move(fetcher));
}

}  // namespace lectern::server
