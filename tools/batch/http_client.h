// Sends signed HTTP requests to an S3 server, one try each. S3Store makes the requests and decides
// about further tries; tests put a server that fails in this place.
#ifndef LECTERN_TOOLS_BATCH_HTTP_CLIENT_H_
#define LECTERN_TOOLS_BATCH_HTTP_CLIENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/lectern.h"
#include "tools/batch/retry.h"

namespace lectern::batch {

struct HttpRequest {
  std::string method = {};                // "PUT", "GET", "HEAD", "POST", "DELETE"
  std::string url = {};                   // escaped, with its query in sorted order
  std::vector<std::string> headers = {};  // "name: value", all of them signed
  std::string body = {};                  // of a POST
  std::string upload = {};                // PUT: path of the file that is sent
  uint64_t offset = 0, bytes = 0;         // the part of `upload`
  std::string download = {};              // GET: path of the file that gets the body of a 200
};

struct HttpResponse {
  long status = 0;
  std::map<std::string, std::string> headers = {};  // names in small letters
  std::string body = {};  // at most 64 KiB of it; empty if it was downloaded
};

class HttpClient {
 public:
  virtual ~HttpClient() = default;
  // IO_ERROR: no whole answer came or, with the param "file", a file failed; INVALID_ARGUMENT: the
  // endpoint is wrong, or its certificate is not to be trusted; CANCELLED: `stop` held. Any thread.
  virtual api::Result<HttpResponse> Send(const HttpRequest& request, const StopCheck& stop) = 0;
};

// Keys of an S3 account; `token` is that of a temporary one, or empty. An empty `key`: requests are
// not signed, for public buckets.
struct S3Keys {
  std::string key, secret, token, region;
};

// A client over libcurl, which signs requests (AWS Signature Version 4). Connections are kept.
// INTERNAL: libcurl cannot be started.
api::Result<std::unique_ptr<HttpClient>> MakeCurlClient(const S3Keys& keys);

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_HTTP_CLIENT_H_
