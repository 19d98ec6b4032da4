// Decides which requests may reach the server at all, and which pages of other sites may read its
// answers (CORS, https://fetch.spec.whatwg.org/). Guards against pages in the user's own browser:
// DNS rebinding, forms and scripts of other sites. Pure functions.
#ifndef LECTERN_TOOLS_SERVER_ACCESS_RULES_H_
#define LECTERN_TOOLS_SERVER_ACCESS_RULES_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/server/http.h"

namespace lectern::server {

// Rules that every request must meet before its body is read.
struct AccessRules {
  // Names that clients call the server by, as NormalHost gives them; "*": any. Addresses, localhost
  // and what else no foreign DNS server can answer for need not be listed.
  std::vector<std::string> hosts;
  // Sites whose pages may ask, beside the server's own, as NormalOrigin gives them; "*": any.
  std::vector<std::string> origins;
  std::string token;                         // "Authorization: Bearer"; empty: none is needed
  std::vector<std::string> public_paths = {  // without a token; the page asks for it
      "/health", "/ready", "/", "/page.css", "/page.js"};
};

// Judges a request; nothing: it is let in. 401 unauthorized, 403 host_not_allowed and
// origin_not_allowed, 415 for a POST that a form of another site may have sent.
std::optional<Refusal> CheckAccess(const RequestHead& head, const AccessRules& rules);

// Headers that let a page of an allowed origin read the answer to `head`, whatever its status;
// empty where no other site is allowed anything.
using Headers = std::vector<std::pair<std::string, std::string>>;
Headers CorsHeaders(const RequestHead& head, const AccessRules& rules);

// Whether a browser asks if a page may send a request of `Access-Control-Request-Method`. Where
// CheckAccess lets `head` in, it may: PreflightHeaders, beside CorsHeaders, say so.
bool IsPreflight(const RequestHead& head);
Headers PreflightHeaders(const RequestHead& head);

// Name or address of a Host header or of --allow-host: in lower case, without port, without the dot
// that may end a name, IPv6 in its brackets; "*" as it is. Empty: `host` is none.
std::string NormalHost(std::string_view host);

// "https://example.org:8443" as browsers write it: lower case, no slash at the end, no default
// port; "*" and "null" as they are. Empty: `origin` is none.
std::string NormalOrigin(std::string_view origin);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_ACCESS_RULES_H_
