// The requests that get past ParseHead and CheckAccess, and what the others are told.
#include "tools/server/request_head.h"

#include <gtest/gtest.h>

namespace lectern::server {
namespace {

// 0: accepted.
int StatusOf(std::string_view bytes, const HeadLimits& limits = {}) {
  const auto parsed = ParseHead(bytes, limits);
  const auto* const refusal = std::get_if<Refusal>(&parsed);
  return refusal ? refusal->status : 0;
}

std::string Get(std::string_view target, std::string_view headers = "") {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(headers) +
         "\r\n";
}

std::string Post(std::string_view headers) {
  return "POST /v1/ask HTTP/1.1\r\nHost: localhost\r\n" + std::string(headers) + "\r\n";
}

RequestHead Accepted(std::string_view bytes) {
  auto parsed = ParseHead(bytes);
  if (const auto* const refusal = std::get_if<Refusal>(&parsed)) {
    ADD_FAILURE() << refusal->message;
    return {};
  }
  return std::get<RequestHead>(parsed);
}

TEST(ParseHeadTest, TakesTargetAndHeadersApart) {
  const RequestHead head = Accepted(
      "POST /v1/documents/a%20b+c?name=x%26y+z&empty&last= HTTP/1.1\r\nHOST:\t localhost:80 \r\n"
      "Content-Length: 12\r\nX-A: first\r\nx-a: second\r\n\r\n");
  EXPECT_EQ(head.method, "POST");
  EXPECT_EQ(head.path, "/v1/documents/a b+c");
  const std::map<std::string, std::string, std::less<>> query = {
      {"name", "x&y z"}, {"empty", ""}, {"last", ""}};
  EXPECT_EQ(head.query, query);
  EXPECT_EQ(head.Header("host"), "localhost:80");
  EXPECT_EQ(head.Header("x-a"), "first");
  EXPECT_EQ(head.Header("none"), "");
  EXPECT_EQ(head.content_length, 12);
}

TEST(ParseHeadTest, RefusesEveryTruncation) {
  const std::string whole = Post("Content-Type: application/json\r\nContent-Length: 2\r\n");
  EXPECT_EQ(StatusOf(whole), 0);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(StatusOf(whole.substr(0, size)), 400) << size;
  }
}

TEST(ParseHeadTest, RefusesWhatIsNoRequestOfOurs) {
  EXPECT_EQ(StatusOf("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("P(T / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf(" / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf(Get("*")), 400);
  EXPECT_EQ(StatusOf(Get("http://localhost/")), 400);
  for (const char* const target : {"/%", "/%0", "/%g0", "/%00", "/?a=%00", "/?%zz", "/?a=1&a=2"}) {
    EXPECT_EQ(StatusOf(Get(target)), 400) << target;
  }
  EXPECT_EQ(StatusOf(Get("/", "\r\n")), 400);  // bytes follow
}

TEST(ParseHeadTest, RefusesHeadersThatCanBeReadInTwoWays) {
  for (const char* const header :
       {"X\r\n", ": a\r\n", "X : a\r\n", " X: a\r\n", "X: a\r\n b\r\n", "X: a\rb\r\n",
        "X: \x7f\r\n", "Host: localhost\r\n", "Origin: a\r\nORIGIN: b\r\n"}) {
    EXPECT_EQ(StatusOf(Get("/", header)), 400) << header;
  }
  EXPECT_EQ(StatusOf(Get("/", std::string_view("X: \0\r\n", 6))), 400);
  EXPECT_EQ(StatusOf(Get("/", "Transfer-Encoding: chunked\r\n")), 411);
  for (const char* const header :
       {"Content-Encoding: gzip\r\n", "EXPECT: x\r\n", "Upgrade: x\r\n"}) {
    EXPECT_EQ(StatusOf(Get("/", header)), 415) << header;
  }
}

TEST(ParseHeadTest, RefusesLengthsThatAreNone) {
  EXPECT_EQ(StatusOf(Post("")), 411);
  for (const char* const length :
       {"", "-1", "+1", "0x1", "1 1", "1,1", "a", "1.0", "9999999999999"}) {
    EXPECT_EQ(StatusOf(Post("Content-Length: " + std::string(length) + "\r\n")), 400) << length;
  }
  EXPECT_EQ(StatusOf(Post("Content-Length: 1\r\nContent-Length: 1\r\n")), 400);
}

TEST(ParseHeadTest, KeepsItsLimits) {
  const HeadLimits limits = {.max_bytes = 100, .max_headers = 3, .max_target = 10};
  EXPECT_EQ(StatusOf(Get("/" + std::string(9, 'a')), limits), 0);
  EXPECT_EQ(StatusOf(Get("/" + std::string(10, 'a')), limits), 414);
  EXPECT_EQ(StatusOf(Get("/", "A: 1\r\nB: 2\r\n"), limits), 0);
  EXPECT_EQ(StatusOf(Get("/", "A: 1\r\nB: 2\r\nC: 3\r\n"), limits), 431);
  const size_t rest = 100 - Get("/", "A: \r\n").size();
  EXPECT_EQ(StatusOf(Get("/", "A: " + std::string(rest, 'a') + "\r\n"), limits), 0);
  EXPECT_EQ(StatusOf(Get("/", "A: " + std::string(rest + 1, 'a') + "\r\n"), limits), 431);
}

int AccessOf(std::string_view headers, const AccessRules& rules,
             std::string_view path = "/v1/ask") {
  return CheckAccess(
             Accepted("GET " + std::string(path) + " HTTP/1.1\r\n" + std::string(headers) + "\r\n"),
             rules)
      .status;
}

TEST(CheckAccessTest, KnowsItsHostsAndOrigins) {
  const AccessRules rules = {
      .hosts = {"localhost", "[::1]"}, .origins = {"https://a.example"}, .token = ""};
  for (const char* const host : {"localhost", "LOCALHOST:80", "[::1]", "[::1]:8017"}) {
    EXPECT_EQ(AccessOf("Host: " + std::string(host) + "\r\n", rules), 0) << host;
  }
  for (const char* const host : {"evil", "localhost.evil", "localhost@evil", "[::1", "::1"}) {
    EXPECT_EQ(AccessOf("Host: " + std::string(host) + "\r\n", rules), 403) << host;
  }
  const std::string own = "Host: localhost:80\r\n";
  EXPECT_EQ(AccessOf(own + "Origin: http://localhost:80\r\n", rules), 0);
  EXPECT_EQ(AccessOf(own + "Origin: https://a.example\r\n", rules), 0);
  for (const char* const origin :
       {"null", "http://localhost:81", "https://localhost:80", "https://a.example.evil"}) {
    EXPECT_EQ(AccessOf(own + "Origin: " + origin + "\r\n", rules), 403) << origin;
  }
  EXPECT_EQ(AccessOf(own + "Sec-Fetch-Site: cross-site\r\n", rules), 403);
  EXPECT_EQ(AccessOf(own + "Sec-Fetch-Site: cross-site\r\n", rules, "/"), 0);
}

TEST(CheckAccessTest, WantsItsTokenButForWhatIsPublic) {
  const AccessRules rules = {.hosts = {"localhost"}, .origins = {}, .token = "0123456789abcdef"};
  const std::string host = "Host: localhost\r\n", bearer = host + "Authorization: Bearer ";
  EXPECT_EQ(AccessOf(bearer + "0123456789abcdef\r\n", rules), 0);
  for (const char* const token :
       {"", "0", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF"}) {
    EXPECT_EQ(AccessOf(bearer + token + "\r\n", rules), 401) << token;
  }
  EXPECT_EQ(AccessOf(host, rules), 401);
  EXPECT_EQ(AccessOf(host + "Authorization: Basic 0123456789abcdef\r\n", rules), 401);
  EXPECT_EQ(AccessOf(host, rules, "/health"), 0);
  EXPECT_EQ(AccessOf(host, rules, "/health/"), 401);
}

TEST(PlainRequestIdTest, IsPlainOrEmpty) {
  const auto id = [](const std::string& text) {
    return std::string(PlainRequestId(Accepted(Get("/", "X-Request-Id: " + text + "\r\n"))));
  };
  EXPECT_EQ(id("a-Z9"), "a-Z9");
  EXPECT_EQ(id(std::string(64, 'a')), std::string(64, 'a'));
  for (const std::string& bad : {std::string(65, 'a'), std::string("a b"), std::string("<a>")}) {
    EXPECT_EQ(id(bad), "");
  }
}

}  // namespace
}  // namespace lectern::server
