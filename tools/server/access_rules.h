// Decides, from a request's headers alone, whether lectern-server answers it, and which web sites'
// pages may read the answer (CORS, https://fetch.spec.whatwg.org/). The danger is a page in the
// user's own browser, which reaches a server on this machine: by DNS rebinding, or by forms and
// scripts of another site. Pure functions; any thread.
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
  // The names under which clients may address the server, as NormalHost gives them; "*": any.
  // Addresses, localhost and other names that no foreign DNS server can answer for are always
  // allowed.
  std::vector<std::string> hosts;
  // The sites whose pages may ask, beside the server's own, as NormalOrigin gives them; "*": any.
  std::vector<std::string> origins;
  // The secret of "Authorization: Bearer" (or X-Api-Key, Api-Key); empty: none is needed.
  std::string token;
  // Paths that need no token: health checks, and the page, which asks its user for the token.
  std::vector<std::string> public_paths = {"/health",   "/ready",   "/",
                                           "/page.css", "/text.js", "/markdown.js",
                                           "/link.js",  "/cite.js", "/page.js"};
};

// Judges a request. Nothing: it is let in. Else the first of: 403 host_not_allowed: the Host header
// is none of ours (HTTP/1.0 may have none). 403 origin_not_allowed: a page of another site asks.
// 415 unsupported_media_type: a POST that a form of another site may have sent. 401 unauthorized:
// the token is missing or wrong; OPTIONS needs none, because browsers send none with a preflight.
std::optional<Refusal> CheckAccess(const RequestHead& head, const AccessRules& rules);

// The headers that let a page of an allowed origin read the answer to `head`, whatever its status;
// empty where the rules allow no other site, and Vary alone where they do not allow this one.
using Headers = std::vector<std::pair<std::string, std::string>>;
Headers CorsHeaders(const RequestHead& head, const AccessRules& rules);

// Whether `head` is a browser's question, before it sends a page's request, if that page may send
// it (OPTIONS with Origin and Access-Control-Request-Method). Where CheckAccess lets `head` in, the
// answer is yes: 204 with CorsHeaders and PreflightHeaders, which allow every header that it asks
// for and every method that the server has.
bool IsPreflight(const RequestHead& head);
Headers PreflightHeaders(const RequestHead& head);

// Returns the name or address of a Host header or of --allow-host in the form in which they are
// compared: lower case, without port (at most five digits), without the dot that may end a name,
// IPv6 in its brackets; "*" as it is. Empty: `host` is no host.
std::string NormalHost(std::string_view host);

// Returns an origin in the form in which browsers send it, "https://example.org:8443": lower case,
// no slash at the end, no default port; "*" and "null" as they are. Empty: `origin` is no origin.
std::string NormalOrigin(std::string_view origin);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_ACCESS_RULES_H_
