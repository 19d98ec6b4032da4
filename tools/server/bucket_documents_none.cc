// For builds without libcurl.
#include "tools/server/bucket_documents.h"

namespace lectern::server {

api::Result<std::unique_ptr<DocumentFetcher>> MakeBucketFetcher(api::Engine&,
                                                                const BucketOptions&) {
  return api::Error{LECTERN_INVALID_ARGUMENT, "this server was built without libcurl", "bucket"};
}

}  // namespace lectern::server
