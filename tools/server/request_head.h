// The strict half of the guard: what of HTTP/1.1 is accepted. Pure functions over bytes.
#ifndef LECTERN_TOOLS_SERVER_REQUEST_HEAD_H_
#define LECTERN_TOOLS_SERVER_REQUEST_HEAD_H_

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tools/server/http.h"

namespace lectern::server {

struct HeadLimits {
  size_t max_bytes = 16 * 1024;  // with the empty line at the end
  size_t max_headers = 64;
  size_t max_target = 2048;
};

// `bytes`: up to and with the empty line. Any method is taken: what a path has is for others to
// say. Refused: versions other than HTTP/1.1, targets that do not begin with '/', control
// characters, bad percent codes and a decoded NUL, names that are no tokens, folded lines, two of
// what decides (Host, Content-Length, Authorization, Content-Type, Origin; of others the first
// counts), Transfer-Encoding, Content-Encoding, Expect, Upgrade, a POST without a Content-Length.
std::variant<RequestHead, Refusal> ParseHead(std::string_view bytes, const HeadLimits& limits = {});

// What every request must show before its body is read.
struct AccessRules {
  std::vector<std::string> hosts;    // of the Host header, without port: "localhost", "[::1]"
  std::vector<std::string> origins;  // that pages may come from, beside the server's own
  std::string token;                 // "Authorization: Bearer"; empty: none is needed
  std::vector<std::string> public_paths = {  // without a token; the page asks for it
      "/health", "/", "/page.css", "/page.js"};
};
// Empty (status 0): let in. 401 unauthorized, 403 host_not_allowed and origin_not_allowed, 415
// for a POST that a plain HTML form could have sent.
Refusal CheckAccess(const RequestHead& head, const AccessRules& rules);

// The client's id where it is 1 to 64 letters, digits and '-'; else empty.
std::string_view PlainRequestId(const RequestHead& head);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_REQUEST_HEAD_H_
