// The requests that get past ParseHead, and what the others are told.
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
  EXPECT_EQ(StatusOf("GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("P(T / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf(" / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf(Get("*")), 400);
  EXPECT_EQ(StatusOf(Get("localhost:80")), 400);
  EXPECT_EQ(StatusOf(Get("ftp://localhost/")), 400);
  EXPECT_EQ(StatusOf(Get("http:///path")), 400);
  for (const char* const version : {"HTTP/2.0", "HTTP/0.9", "HTTP/3.1"}) {
    EXPECT_EQ(StatusOf("GET / " + std::string(version) + "\r\nHost: localhost\r\n\r\n"), 505);
  }
  for (const char* const version :
       {"HTTP/1", "HTTP/1.10", "http/1.1", "HTTP/a.1", "HTTP/1,1", ""}) {
    EXPECT_EQ(StatusOf("GET / " + std::string(version) + "\r\nHost: localhost\r\n\r\n"), 400);
  }
  for (const char* const target : {"/%", "/%0", "/%g0", "/%00", "/?a=%00", "/?%zz", "/?a=1&a=2"}) {
    EXPECT_EQ(StatusOf(Get(target)), 400) << target;
  }
  EXPECT_EQ(StatusOf(Get("/", "\r\n")), 400);  // bytes follow
}

TEST(ParseHeadTest, RefusesHeadersThatCanBeReadInTwoWays) {
  for (const char* const header :
       {"X\r\n", ": a\r\n", "X : a\r\n", " X: a\r\n", "X: a\r\n b\r\n", "X: a\rb\r\n",
        "X: \x7f\r\n", "X: a\nb\r\n", "Host: localhost\r\n", "Origin: a\r\nORIGIN: b\r\n",
        "Content-Type: a\r\nContent-Type: b\r\n", "Authorization: a\r\nAuthorization: b\r\n"}) {
    EXPECT_EQ(StatusOf(Get("/", header)), 400) << header;
  }
  EXPECT_EQ(StatusOf(Get("/", std::string_view("X: \0\r\n", 6))), 400);
  EXPECT_EQ(StatusOf(Get("/", "Content-Encoding: gzip\r\n")), 415);
  EXPECT_EQ(StatusOf(Get("/", "EXPECT: x\r\n")), 417);
  EXPECT_EQ(StatusOf(Get("/", "Expect: 100-continue\r\nExpect: x\r\n")), 417);
}

TEST(ParseHeadTest, RefusesFramingThatProxiesReadInTwoWays) {
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  EXPECT_EQ(StatusOf(Post(chunked + "Content-Length: 5\r\n")), 400);
  EXPECT_EQ(StatusOf(Post("Content-Length: 5\r\n" + chunked)), 400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.0\r\n" + chunked + "\r\n"), 400);
  EXPECT_EQ(StatusOf(Post(chunked + chunked)), 501);
  EXPECT_EQ(StatusOf(Post("Transfer-Encoding:\r\n" + chunked)), 501);
  for (const char* const coding : {"", "gzip, chunked", "chunked, gzip", "identity", "xchunked",
                                   "chunked;q=1", "\"chunked\""}) {
    EXPECT_EQ(StatusOf(Post("Transfer-Encoding: " + std::string(coding) + "\r\n")), 501) << coding;
  }
}

TEST(ParseHeadTest, RefusesLengthsThatAreNone) {
  for (const char* const length :
       {"", "-1", "+1", "0x1", "1 1", "1,1", "a", "1.0", "9999999999999"}) {
    EXPECT_EQ(StatusOf(Post("Content-Length: " + std::string(length) + "\r\n")), 400) << length;
  }
  EXPECT_EQ(StatusOf(Post("Content-Length: 1\r\nContent-Length: 1\r\n")), 400);
}

TEST(ParseHeadTest, TakesWhatClientsSend) {
  EXPECT_EQ(StatusOf("GET / HTTP/1.0\r\n\r\n"), 0);
  EXPECT_EQ(StatusOf("GET / HTTP/1.9\r\nHost: localhost\r\n\r\n"), 0);
  EXPECT_EQ(StatusOf("\r\n\r\n" + Get("/")), 0);
  EXPECT_EQ(StatusOf(Get("/v1/documents/Caf\xc3\xa9")), 0);  // curl does not encode
  EXPECT_EQ(StatusOf(Get("/", "Upgrade: h2c\r\nHTTP2-Settings: AAE\r\nConnection: Upgrade\r\n")),
            0);
  EXPECT_EQ(StatusOf(Get("/", "Content-Encoding: Identity\r\nTE: trailers\r\n")), 0);
  EXPECT_EQ(StatusOf(Get("/", "Content-Type: a\r\ncontent-type: a\r\n")), 0);
  EXPECT_EQ(StatusOf(Get("/?&a=1&&b=2&")), 0);
  const RequestHead empty = Accepted(Post(""));  // RFC 9112, 6.3: no body
  EXPECT_EQ(empty.content_length, 0);
  EXPECT_FALSE(empty.is_chunked);
  const RequestHead chunked =
      Accepted(Post("transfer-encoding: Chunked\r\nExpect: 100-Continue\r\n"));
  EXPECT_TRUE(chunked.is_chunked);
  EXPECT_TRUE(chunked.expects_continue);
  EXPECT_FALSE(Accepted(Post("Expect: 100-continue\r\n")).expects_continue);  // nothing to wait for
  EXPECT_FALSE(Accepted("POST / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n")
                   .expects_continue);
}

TEST(ParseHeadTest, KnowsWhetherTheConnectionStays) {
  EXPECT_TRUE(Accepted(Get("/")).keeps_alive);
  EXPECT_TRUE(Accepted(Get("/", "Connection: Upgrade, HTTP2-Settings\r\n")).keeps_alive);
  EXPECT_FALSE(Accepted(Get("/", "Connection: TE, Close\r\n")).keeps_alive);
  EXPECT_FALSE(Accepted(Get("/", "Connection: TE\r\nConnection: close\r\n")).keeps_alive);
  EXPECT_FALSE(Accepted("GET / HTTP/1.0\r\n\r\n").keeps_alive);
  EXPECT_TRUE(Accepted("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keeps_alive);
}

TEST(ParseHeadTest, AnAbsoluteTargetNamesTheHost) {
  const RequestHead head = Accepted("GET HTTP://Evil:80/a?b=c HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(head.Header("host"), "Evil:80");
  EXPECT_EQ(head.path, "/a");
  EXPECT_EQ(head.query.at("b"), "c");
  EXPECT_EQ(Accepted(Get("https://localhost")).path, "/");
  EXPECT_EQ(Accepted(Get("http://localhost?x=1")).query.at("x"), "1");
  EXPECT_EQ(Accepted(Get("/a#b?c")).path, "/a");
  EXPECT_EQ(Accepted("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n").path, "*");
}

TEST(FindHeadEndTest, FindsItWhereItIs) {
  const std::string head = Get("/", "A: b\r\n");
  for (const std::string& before : {std::string(), std::string("\r\n\r\n")}) {
    const std::string whole = before + head;
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_EQ(FindHeadEnd(std::string_view(whole).substr(0, size)), 0) << size;
    }
    EXPECT_EQ(FindHeadEnd(whole), whole.size());
    EXPECT_EQ(FindHeadEnd(whole + "GET / HTTP/1.1\r\n\r\n"), whole.size());
  }
  EXPECT_EQ(FindHeadEnd("\r\n"), 0);
}

// So that a client is not left to wait for the end of its time.
TEST(FindHeadEndTest, EndsWhereItShowsThatThereIsNone) {
  for (const std::string bytes : {"\x16\x03\x01", "\n", " GET", "GET / HTTP/1.1\n", "\r\n\n"}) {
    EXPECT_EQ(FindHeadEnd(bytes), bytes.size());
    EXPECT_EQ(StatusOf(bytes), 400);
  }
  EXPECT_EQ(FindHeadEnd("GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n"), 21);
}

TEST(HasListItemTest, WhateverItsCase) {
  for (const char* const list : {"close", "a, close", "CLOSE ,a", "a,\tClose"}) {
    EXPECT_TRUE(HasListItem(list, "close")) << list;
  }
  for (const char* const list : {"", "closed", "a close", "a;close", ",,"}) {
    EXPECT_FALSE(HasListItem(list, "close")) << list;
  }
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
