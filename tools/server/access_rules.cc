#include "tools/server/access_rules.h"

#include <algorithm>

#include "tools/server/ascii.h"
#include "tools/server/sockets.h"

namespace lectern::server {
namespace {

constexpr char kMaxAge[] = "7200";  // seconds that a preflight counts; Chromium takes no more

bool Contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Splits "name:port"; `port` is empty where there is none. False: the port is no number of at most
// five digits, or the brackets of an IPv6 address do not match.
bool SplitPort(std::string_view host, std::string_view& name, std::string_view& port) {
  const size_t bracket = host.find(']');
  const size_t colon = host.find(':', bracket == host.npos ? 0 : bracket);
  name = host.substr(0, colon);
  port = colon == host.npos ? std::string_view() : host.substr(colon + 1);
  return name.starts_with('[') == name.ends_with(']') && port.size() <= 5 &&
         std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Whether a host in its normal form is an IPv4 or IPv6 address.
bool IsAddress(const std::string& host) {
  return host.starts_with('[') ? IsAddress(host.substr(1, host.size() - 2), AddressFamily::kIPv6)
                               : IsAddress(host, AddressFamily::kIPv4);
}

// Rebinding needs a name that the attacker's DNS server answers for. There is none for an address,
// for localhost (RFC 6761), or for what containers call their host by (.internal is reserved).
bool CannotBeRebound(const std::string& host) {
  return IsAddress(host) || host == "localhost" || host.ends_with(".localhost") ||
         IsOneOf(host, {"host.docker.internal", "host.containers.internal"});
}

// Whether the server is addressed by a name that it knows. Under any other name a foreign DNS
// server may have pointed the browser here.
bool IsKnownHost(const RequestHead& head, const AccessRules& rules) {
  if (Contains(rules.hosts, "*")) return true;
  const std::string_view given = head.Header("host");
  if (given.empty()) return head.minor_version == 0;  // ParseHead lets no other through
  const std::string host = NormalHost(given);
  return !host.empty() && (CannotBeRebound(host) || Contains(rules.hosts, host));
}

// Compares in a time that depends on the length given alone, so that response times do not tell a
// guesser how many characters are right. `wanted` is not empty.
bool SameSecret(std::string_view given, std::string_view wanted) {
  unsigned char difference = given.size() == wanted.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i] ^ wanted[i % wanted.size()]);
  }
  return difference == 0;
}

// Whether the request has the token, as Authorization: Bearer, whose scheme is of any case (RFC
// 9110, 11.1), or as X-Api-Key or Api-Key (Azure's), which some clients of OpenAI's API send
// instead.
bool HasToken(const RequestHead& head, const std::string& token) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view given = head.Header("authorization");
  const bool is_bearer = Lower(given.substr(0, kScheme.size())) == kScheme;
  return (is_bearer && SameSecret(Trim(given.substr(kScheme.size())), token)) ||
         SameSecret(head.Header("x-api-key"), token) || SameSecret(head.Header("api-key"), token);
}

// A page of this very server: its origin is what the browser sends as Host; a proxy may have taken
// TLS off. Where the proxy changes Host too, the browser says that the page has the address that it
// asks; with https that is true, because a name that was rebound has no certificate.
bool IsOwnOrigin(const RequestHead& head) {
  const std::string host(head.Header("host"));
  const std::string origin = NormalOrigin(head.Header("origin"));
  if (origin.empty()) return false;
  return origin == NormalOrigin("http://" + host) || origin == NormalOrigin("https://" + host) ||
         (origin.starts_with("https://") && head.Header("sec-fetch-site") == "same-origin");
}

// Whether the rules name the origin, or allow any.
bool IsAllowedOrigin(std::string_view origin, const AccessRules& rules) {
  return Contains(rules.origins, "*") || Contains(rules.origins, NormalOrigin(origin));
}

// Media types that a browser's form sends, or a script without a preflight (Fetch, CORS-safelisted
// request headers); no type at all is one of them.
bool IsTypeOfForms(std::string_view type) {
  return IsOneOf(Lower(Trim(TakeUntil(type, ';'))),
                 {"", "text/plain", "multipart/form-data", "application/x-www-form-urlencoded"});
}

// curl sends JSON as a form's type, so the type alone is no reason to refuse. A browser shows
// itself: today's by Origin, which is checked before, and Sec-Fetch-Site; older ones by their name,
// the page they come from or its cookies.
bool MayBeForeignForm(const RequestHead& head) {
  if (head.method != "POST" || !IsTypeOfForms(head.Header("content-type"))) return false;
  if (!head.Header("origin").empty()) return false;
  const std::string_view site = head.Header("sec-fetch-site");
  if (!site.empty()) return !IsOneOf(site, {"same-origin", "none"});
  return !head.Header("referer").empty() || !head.Header("cookie").empty() ||
         head.Header("user-agent").starts_with("Mozilla/");
}

// Refuses requests of other sites' pages that the rules do not allow. Clients that are no browsers
// send none of these headers and pass.
std::optional<Refusal> CheckSite(const RequestHead& head, const AccessRules& rules) {
  const std::string_view origin = head.Header("origin");
  if (!origin.empty() && !IsOwnOrigin(head) && !IsAllowedOrigin(origin, rules)) {
    return Refusal{403, "origin_not_allowed",
                   "pages of that origin may not ask here; whoever runs the server can allow it"};
  }
  // A link to the page is fine, everything else is not.
  if (origin.empty() && head.Header("sec-fetch-site") == "cross-site" && head.path != "/") {
    return Refusal{403, "origin_not_allowed", "other sites may not ask here"};
  }
  if (MayBeForeignForm(head)) {
    return Refusal{415, "unsupported_media_type",
                   "send Content-Type: application/json; other sites' forms cannot"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> CheckAccess(const RequestHead& head, const AccessRules& rules) {
  if (!IsKnownHost(head, rules)) {
    return Refusal{
        403, "host_not_allowed",
        "this server is not known under that Host; use its address, or let whoever runs it allow "
        "the name"};
  }
  if (auto refusal = CheckSite(head, rules)) return refusal;
  // Browsers send no token with a preflight; it says no more than which methods there are.
  const bool is_public = head.method == "OPTIONS" || Contains(rules.public_paths, head.path);
  if (!rules.token.empty() && !is_public && !HasToken(head, rules.token)) {
    return Refusal{401, "unauthorized", "send Authorization: Bearer with the server's token"};
  }
  return std::nullopt;
}

Headers CorsHeaders(const RequestHead& head, const AccessRules& rules) {
  if (rules.origins.empty()) return {};
  Headers headers = {{"Vary", "Origin"}};  // whoever caches must not give it to another site
  const std::string_view origin = head.Header("origin");
  if (origin.empty() || !IsAllowedOrigin(origin, rules)) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", origin);
  headers.emplace_back("Access-Control-Expose-Headers", "Location, Retry-After, X-Request-Id");
  // For pages that send a proxy's cookies; where any site may ask, none may.
  if (Contains(rules.origins, NormalOrigin(origin))) {
    headers.emplace_back("Access-Control-Allow-Credentials", "true");
  }
  return headers;
}

bool IsPreflight(const RequestHead& head) {
  return head.method == "OPTIONS" && !head.Header("origin").empty() &&
         !head.Header("access-control-request-method").empty();
}

Headers PreflightHeaders(const RequestHead& head) {
  Headers headers = {
      {"Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE, OPTIONS"},
      {"Access-Control-Max-Age", kMaxAge},
      {"Vary", "Access-Control-Request-Headers, Access-Control-Request-Private-Network"}};
  // Any header: clients of OpenAI's API send a dozen of their own, and none does harm.
  const std::string_view wanted = head.Header("access-control-request-headers");
  if (!wanted.empty()) headers.emplace_back("Access-Control-Allow-Headers", wanted);
  // A page of the Internet asks a server of a private network.
  if (head.Header("access-control-request-private-network") == "true") {
    headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  }
  return headers;
}

std::string NormalHost(std::string_view host) {
  if (host == "*") return "*";
  std::string_view name, port;
  if (!SplitPort(host, name, port)) return "";
  if (name.starts_with('[')) return IsAddress(Lower(name)) ? Lower(name) : "";
  if (name.ends_with('.')) name.remove_suffix(1);
  // Characters that would end a host in a URL, or separate the entries of a header, are in no name;
  // names beyond ASCII come as Punycode.
  const bool is_name = !name.ends_with('.') && std::all_of(name.begin(), name.end(), [](char c) {
    return c > 0x20 && c < 0x7f &&
           std::string_view("[]/@?#\\,\"").find(c) == std::string_view::npos;
  });
  return is_name ? Lower(name) : "";
}

std::string NormalOrigin(std::string_view origin) {
  if (origin == "*" || origin == "null") return std::string(origin);
  if (origin.ends_with('/')) origin.remove_suffix(1);
  const size_t end = origin.find("://");
  if (end == origin.npos || end == 0) return "";
  const std::string scheme = Lower(origin.substr(0, end));
  const std::string_view authority = origin.substr(end + 3);
  std::string_view name, port;
  const std::string host = NormalHost(authority);
  if (host.empty() || host == "*" || !SplitPort(authority, name, port)) return "";
  const bool is_default =
      port.empty() || (scheme == "http" && port == "80") || (scheme == "https" && port == "443");
  return scheme + "://" + host + (is_default ? "" : ":" + std::string(port));
}

}  // namespace lectern::server
