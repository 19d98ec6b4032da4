// Who may ask, as whom the server is known, and what browsers are told of other sites' pages.
#include "tools/server/access_rules.h"

#include <gtest/gtest.h>

#include <map>

#include "tools/server/request_head.h"

namespace lectern::server {
namespace {

RequestHead Head(const std::string& headers, const std::string& path = "/v1/ask",
                 const std::string& method = "GET") {
  auto parsed = ParseHead(method + " " + path + " HTTP/1.1\r\n" + headers + "\r\n");
  if (const auto* const refusal = std::get_if<Refusal>(&parsed)) {
    ADD_FAILURE() << refusal->message;
    return {};
  }
  return std::get<RequestHead>(parsed);
}

// 0: let in.
int StatusOf(const RequestHead& head, const AccessRules& rules) {
  const auto refusal = CheckAccess(head, rules);
  return refusal ? refusal->status : 0;
}

int AccessOf(const std::string& headers, const AccessRules& rules,
             const std::string& path = "/v1/ask") {
  return StatusOf(Head(headers, path), rules);
}

std::map<std::string, std::string> ByName(const Headers& headers) {
  return {headers.begin(), headers.end()};
}

const AccessRules kRules = {
    .hosts = {"lectern.example"}, .origins = {"https://a.example"}, .token = ""};

TEST(CheckAccessTest, KnowsItsHosts) {
  for (const char* const host :
       {"localhost", "LOCALHOST:80", "localhost.:8017", "localhost:", "app.localhost", "127.0.0.1",
        "127.0.0.2:8017", "[::1]", "[::1]:8017", "192.168.1.5:8017", "[fe80::1]", "lectern.example",
        "Lectern.Example.:443", "host.docker.internal:8017"}) {
    EXPECT_EQ(AccessOf("Host: " + std::string(host) + "\r\n", kRules), 0) << host;
  }
  for (const char* const host : {"evil",
                                 "evil.example:8017",
                                 "localhost.evil",
                                 "evillocalhost",
                                 "localhost@evil",
                                 "[::1",
                                 "::1",
                                 "::1]",
                                 "[localhost]",
                                 "127.0.0.1.evil",
                                 "127.0.0.1.evil.example",
                                 "127.1",
                                 "0x7f000001",
                                 "localhost:evil",
                                 "localhost:8017:1",
                                 "localhost..",
                                 "localhost/x",
                                 "localhost#x",
                                 "localhost,evil",
                                 "[::1]evil",
                                 "[::1].evil",
                                 "*",
                                 "evil.lectern.example",
                                 "lectern.example.evil",
                                 "\xc3\xa9",
                                 "local host",
                                 "localhost:123456",
                                 "."}) {
    EXPECT_EQ(AccessOf("Host: " + std::string(host) + "\r\n", kRules), 403) << host;
  }
  const auto without = ParseHead("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(StatusOf(std::get<RequestHead>(without), kRules), 0);
  const auto feigned = ParseHead("GET http://evil/ HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(StatusOf(std::get<RequestHead>(feigned), kRules), 403);
  EXPECT_EQ(AccessOf("Host: evil\r\n", {.hosts = {"*"}, .origins = {}, .token = "x"}), 401);
}

TEST(CheckAccessTest, KnowsItsOrigins) {
  const std::string own = "Host: localhost:80\r\n";
  for (const char* const origin :
       {"http://localhost:80", "http://localhost", "https://localhost:80", "https://a.example",
        "https://a.example:443", "HTTPS://A.example"}) {
    EXPECT_EQ(AccessOf(own + "Origin: " + origin + "\r\n", kRules), 0) << origin;
  }
  for (const char* const origin :
       {"null", "*", "http://localhost:81", "http://127.0.0.1:80", "https://a.example.evil",
        "http://a.example", "https://a.example:444", "https://a.example@evil", "localhost", "://",
        "https://", "https://a.example/x"}) {
    EXPECT_EQ(AccessOf(own + "Origin: " + origin + "\r\n", kRules), 403) << origin;
  }
  EXPECT_EQ(AccessOf(own + "Sec-Fetch-Site: cross-site\r\n", kRules), 403);
  EXPECT_EQ(AccessOf(own + "Sec-Fetch-Site: cross-site\r\n", kRules, "/"), 0);
  // Behind a proxy that sends a Host of its own.
  const std::string proxied = own + "Origin: https://proxy.example\r\nSec-Fetch-Site: ";
  EXPECT_EQ(AccessOf(proxied + "same-origin\r\n", kRules), 0);
  EXPECT_EQ(AccessOf(proxied + "same-site\r\n", kRules), 403);
  EXPECT_EQ(
      AccessOf(own + "Origin: http://rebound.example\r\nSec-Fetch-Site: same-origin\r\n", kRules),
      403);
  const AccessRules any = {.hosts = {}, .origins = {"*"}, .token = "x"};
  EXPECT_EQ(AccessOf(own + "Origin: https://evil\r\n", any), 401);  // the token is what counts
}

int FormOf(const std::string& headers) {
  return StatusOf(Head("Host: localhost\r\nContent-Length: 2\r\n" + headers, "/v1/ask", "POST"),
                  kRules);
}

// A form, or a script that asks for no permission, can send these types alone.
TEST(CheckAccessTest, FormsOfOtherSitesAreRefused) {
  for (const std::string type :
       {"", "Content-Type: text/plain\r\n", "Content-Type: text/plain;x=y\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: Multipart/Form-Data; boundary=x\r\n"}) {
    EXPECT_EQ(FormOf(type), 0) << type;  // curl
    EXPECT_EQ(FormOf(type + "Origin: http://localhost\r\n"), 0) << type;
    EXPECT_EQ(FormOf(type + "Sec-Fetch-Site: same-origin\r\n"), 0) << type;
    EXPECT_EQ(FormOf(type + "Origin: http://evil\r\n"), 403) << type;
    EXPECT_EQ(FormOf(type + "Origin: null\r\n"), 403) << type;
    EXPECT_EQ(FormOf(type + "Sec-Fetch-Site: cross-site\r\n"), 403) << type;
    EXPECT_EQ(FormOf(type + "Sec-Fetch-Site: same-site\r\n"), 415) << type;
    EXPECT_EQ(FormOf(type + "Referer: http://evil/\r\n"), 415) << type;
    EXPECT_EQ(FormOf(type + "Cookie: a=b\r\n"), 415) << type;
    EXPECT_EQ(FormOf(type + "User-Agent: Mozilla/5.0 (old)\r\n"), 415) << type;
  }
  const std::string json = "Content-Type: application/json\r\n";
  EXPECT_EQ(FormOf(json + "Referer: http://localhost/\r\nUser-Agent: Mozilla/5.0\r\n"), 0);
}

TEST(CheckAccessTest, WantsItsTokenButForWhatIsPublic) {
  const AccessRules rules = {.hosts = {}, .origins = {}, .token = "0123456789abcdef"};
  const std::string host = "Host: localhost\r\n", bearer = host + "Authorization: Bearer ";
  EXPECT_EQ(AccessOf(bearer + "0123456789abcdef\r\n", rules), 0);
  EXPECT_EQ(AccessOf(host + "Authorization: bearer  0123456789abcdef\r\n", rules), 0);
  EXPECT_EQ(AccessOf(host + "X-Api-Key: 0123456789abcdef\r\n", rules), 0);
  EXPECT_EQ(AccessOf(host + "api-key: 0123456789abcdef\r\n", rules), 0);
  for (const char* const token :
       {"", "0", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF"}) {
    EXPECT_EQ(AccessOf(bearer + token + "\r\n", rules), 401) << token;
    EXPECT_EQ(AccessOf(host + "X-Api-Key: " + token + "\r\n", rules), 401) << token;
    EXPECT_EQ(AccessOf(host + "Api-Key: " + token + "\r\n", rules), 401) << token;
  }
  EXPECT_EQ(AccessOf(host, rules), 401);
  EXPECT_EQ(AccessOf(host + "Authorization: Basic 0123456789abcdef\r\n", rules), 401);
  EXPECT_EQ(AccessOf(host, rules, "/health"), 0);
  EXPECT_EQ(AccessOf(host, rules, "/ready"), 0);
  EXPECT_EQ(AccessOf(host, rules, "/health/"), 401);
  EXPECT_EQ(StatusOf(Head(host, "/v1/ask", "OPTIONS"), rules), 0);
}

TEST(CorsHeadersTest, TellBrowsersOfAllowedOriginsAlone) {
  const std::string host = "Host: localhost\r\n";
  auto allowed = ByName(CorsHeaders(Head(host + "Origin: https://a.example\r\n"), kRules));
  EXPECT_EQ(allowed["Access-Control-Allow-Origin"], "https://a.example");
  EXPECT_EQ(allowed["Access-Control-Allow-Credentials"], "true");
  EXPECT_EQ(allowed["Vary"], "Origin");
  for (const std::string origin :
       {"", "Origin: http://localhost\r\n", "Origin: https://evil\r\n"}) {
    const auto headers = ByName(CorsHeaders(Head(host + origin), kRules));
    EXPECT_EQ(headers, (std::map<std::string, std::string>{{"Vary", "Origin"}})) << origin;
  }
  EXPECT_TRUE(CorsHeaders(Head(host + "Origin: https://a.example\r\n"), {}).empty());
  const AccessRules any = {.hosts = {}, .origins = {"*"}, .token = "x"};
  auto anyone = ByName(CorsHeaders(Head(host + "Origin: https://b.example\r\n"), any));
  EXPECT_EQ(anyone["Access-Control-Allow-Origin"], "https://b.example");
  EXPECT_FALSE(anyone.contains("Access-Control-Allow-Credentials"));
}

TEST(PreflightTest, AllowsWhatIsAskedFor) {
  const std::string plain = "Host: localhost\r\nOrigin: https://a.example\r\n";
  const std::string asks = plain + "Access-Control-Request-Method: POST\r\n";
  EXPECT_FALSE(IsPreflight(Head(plain, "/v1/ask", "OPTIONS")));
  EXPECT_FALSE(IsPreflight(Head(asks, "/v1/ask", "GET")));
  EXPECT_TRUE(IsPreflight(Head(asks, "/v1/ask", "OPTIONS")));
  auto headers = ByName(PreflightHeaders(
      Head(asks + "Access-Control-Request-Headers: authorization,x-stainless-os\r\n"
                  "Access-Control-Request-Private-Network: true\r\n",
           "/v1/ask", "OPTIONS")));
  EXPECT_EQ(headers["Access-Control-Allow-Headers"], "authorization,x-stainless-os");
  EXPECT_EQ(headers["Access-Control-Allow-Private-Network"], "true");
  EXPECT_EQ(headers["Access-Control-Max-Age"], "7200");
  EXPECT_NE(headers["Access-Control-Allow-Methods"].find("POST"), std::string::npos);
  const auto less = ByName(PreflightHeaders(Head(asks, "/v1/ask", "OPTIONS")));
  EXPECT_FALSE(less.contains("Access-Control-Allow-Headers"));
  EXPECT_FALSE(less.contains("Access-Control-Allow-Private-Network"));
}

TEST(NormalOriginTest, IsAsBrowsersWriteIt) {
  EXPECT_EQ(NormalOrigin("HTTPS://Example.ORG:443/"), "https://example.org");
  EXPECT_EQ(NormalOrigin("http://example.org:80"), "http://example.org");
  EXPECT_EQ(NormalOrigin("http://example.org:443"), "http://example.org:443");
  EXPECT_EQ(NormalOrigin("http://[::1]:8017"), "http://[::1]:8017");
  EXPECT_EQ(NormalOrigin("chrome-extension://abc"), "chrome-extension://abc");
  EXPECT_EQ(NormalOrigin("null"), "null");
  for (const char* const none :
       {"", "example.org", "https://", "://a", "https://a/b", "https://a b"}) {
    EXPECT_EQ(NormalOrigin(none), "") << none;
  }
}

}  // namespace
}  // namespace lectern::server
