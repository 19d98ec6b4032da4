// An object store by S3's protocol, path-style: AWS, MinIO, Ceph's radosgw, Swift's s3api, …
#ifndef LECTERN_TOOLS_BATCH_S3_STORE_H_
#define LECTERN_TOOLS_BATCH_S3_STORE_H_

#include <memory>
#include <string>

#include "tools/batch/http_client.h"
#include "tools/batch/object_store.h"

namespace lectern::batch {

struct S3Place {
  std::string endpoint;  // "https://host[:port]", without a slash at its end
  std::string bucket;
};

// Files above this many bytes go in parts of it. S3 takes parts of 5 MiB to 5 GiB, and 10,000 of
// them: a larger file gets larger parts.
inline constexpr uint64_t kPartBytes = uint64_t{256} << 20;
inline constexpr uint64_t kLeastPartBytes = uint64_t{5} << 20, kMostPartBytes = uint64_t{5} << 30;

class S3Store final : public ObjectStore {
 public:
  // `part_bytes`: above 0. `retries`: how often and how fast requests are tried again.
  S3Store(std::unique_ptr<HttpClient> client, const S3Place& place,
          uint64_t part_bytes = kPartBytes, const Backoff::Limits& retries = {});

  api::Result<api::Done> Put(const std::string& key, const std::string& path,
                             const ObjectFacts& facts, const StopCheck& stop) override;
  api::Result<std::optional<ObjectFacts>> Head(const std::string& key,
                                               const StopCheck& stop) override;
  api::Result<api::Done> Get(const std::string& key, const std::string& path,
                             const StopCheck& stop) override;
  api::Result<api::Done> Remove(const std::string& key, const StopCheck& stop) override;

 private:
  std::string Url(const std::string& key) const;
  // Sends it until an answer is final. IO_ERROR: the last try had none, or a retryable status.
  api::Result<HttpResponse> Send(const HttpRequest& request, const StopCheck& stop);
  api::Result<api::Done> PutWhole(const std::string& key, const std::string& path,
                                  const ObjectFacts& facts, const StopCheck& stop);
  api::Result<api::Done> PutParts(const std::string& key, const std::string& path,
                                  const ObjectFacts& facts, const StopCheck& stop);
  // Sends the parts of an upload that has begun. Returns the XML that completes it.
  api::Result<std::string> SendParts(const std::string& url, const std::string& path,
                                     const ObjectFacts& facts, const StopCheck& stop);
  // The error that an answer stands for.
  api::Error Refused(const std::string& what, const std::string& key,
                     const HttpResponse& response) const;

  const std::unique_ptr<HttpClient> client_;
  const S3Place place_;
  const uint64_t part_bytes_;
  const Backoff::Limits retries_;
};

// Keys and region of the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN,
// and AWS_REGION, else AWS_DEFAULT_REGION, else us-east-1. INVALID_ARGUMENT: one of the first two
// alone. Before other threads start.
api::Result<S3Keys> KeysOfEnvironment();
// The endpoint: `given`, else AWS_ENDPOINT_URL_S3, else AWS_ENDPOINT_URL, else that of AWS in the
// region. INVALID_ARGUMENT (param "endpoint"): it is no http or https URL, has a user or a path.
api::Result<std::string> EndpointOf(const std::string& given, const std::string& region);

// The text of the first XML element of this name, with its entities resolved; empty: there is none.
std::string XmlText(std::string_view xml, std::string_view name);

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_S3_STORE_H_
