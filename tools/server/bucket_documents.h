// Opens documents of a bucket that lectern-batch filled, through the server's store as a cache.
#ifndef LECTERN_TOOLS_SERVER_BUCKET_DOCUMENTS_H_
#define LECTERN_TOOLS_SERVER_BUCKET_DOCUMENTS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "engine/lectern.h"
#include "tools/server/document_fetcher.h"

namespace lectern::server {

struct BucketOptions {
  std::string bucket;        // "s3://bucket/prefix"
  std::string endpoint;      // empty: of the environment, else AWS
  uint64_t cache_bytes = 0;  // the most that fetched documents may take in the store; above 0
  // The store's folder. Beside it, "STORE.bucket" has downloads, and the list of what was fetched,
  // which alone is ever removed.
  std::string store;
};

// A fetcher that finds documents by the catalog of the bucket (lectern-batch publish), checks each
// download against its SHA-256, and imports it. When the cache is full, the fetched documents that
// were not used for longest are removed; open ones stay. It looks for a new catalog at most every
// 30 seconds, when a name is not known. `engine` must outlive it; one server may use a store so.
// If the bucket does not answer, a note is printed, and it is looked for again with the next
// unknown name. INVALID_ARGUMENT: no such bucket or endpoint, or this server was built without
// libcurl; NOT_FOUND: the bucket has no catalog; READ_ONLY: the keys do not allow to read it;
// IO_ERROR: the folder cannot be made. Before other threads start.
api::Result<std::unique_ptr<DocumentFetcher>> MakeBucketFetcher(api::Engine& engine,
                                                                const BucketOptions& options);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_BUCKET_DOCUMENTS_H_
