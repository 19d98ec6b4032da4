// Bodies in chunks: what is taken, what is refused, and that the cuts between reads do not matter.
#include "tools/server/chunked_body.h"

#include <gtest/gtest.h>

namespace lectern::server {
namespace {

// The data, then "." where the body is done and "!" where it is refused; `rest`: what follows it.
std::string Decode(std::string_view bytes, size_t piece = 1000, std::string* rest = nullptr) {
  ChunkedBody body;
  std::string decoded;
  while (!bytes.empty() && !body.is_done()) {
    std::string_view part = bytes.substr(0, piece);
    const size_t size = part.size();
    while (!part.empty() && !body.is_done()) {
      const auto data = body.Take(part);
      if (!data) return decoded + "!";
      decoded += *data;
    }
    bytes.remove_prefix(size - part.size());
  }
  if (rest) *rest = bytes;
  return body.is_done() ? decoded + "." : decoded;
}

TEST(ChunkedBodyTest, IsTheSameHoweverItIsCut) {
  const std::string whole =
      "5\r\nhello\r\nB ; name=\"v\"\r\n 0123456789\r\n000;last\r\nA: b\r\nC: d\r\n\r\nGET";
  for (size_t piece = 1; piece <= whole.size(); ++piece) {
    std::string rest;
    EXPECT_EQ(Decode(whole, piece, &rest), "hello 0123456789.") << piece;
    EXPECT_EQ(rest, "GET");
  }
}

TEST(ChunkedBodyTest, IsNotDoneBeforeItsEnd) {
  const std::string whole = "3\r\nabc\r\n0\r\nA: b\r\n\r\n";
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string decoded = Decode(std::string_view(whole).substr(0, size));
    EXPECT_EQ(decoded, std::string("abc").substr(0, size < 3 ? 0 : std::min<size_t>(3, size - 3)));
  }
  EXPECT_EQ(Decode(whole), "abc.");
  EXPECT_EQ(Decode("0\r\n\r\n"), ".");
}

TEST(ChunkedBodyTest, RefusesSizesThatAreNone) {
  for (const char* const size : {"", " ", "x", "0x5", "-1", "+5", " 5", "\t5", "5 5", "5,", "5\r",
                                 "ffffffffffffffff", "g", ";a", "5;a\x01"}) {
    EXPECT_EQ(Decode(std::string(size) + "\r\nhello\r\n0\r\n\r\n"), "!") << size;
  }
  EXPECT_EQ(Decode(std::string_view("5\0\r\nhello", 10)), "!");
  EXPECT_EQ(Decode("5\nhello\r\n0\r\n\r\n"), "!");  // a line feed alone
  EXPECT_EQ(Decode("5\r\nhello\n0\r\n\r\n"), "hello!");
  EXPECT_EQ(Decode("5\r\nhelloX\r\n0\r\n\r\n"), "hello!");
  EXPECT_EQ(Decode("5\r\nhello0\r\n\r\n"), "hello!");
  EXPECT_EQ(Decode("0\r\nA: b\n\r\n"), "!");
}

TEST(ChunkedBodyTest, BoundsExtensionsAndTrailers) {
  const std::string extension(ChunkedBody::kMaxLine - 3, 'e');
  EXPECT_EQ(Decode("1;" + extension + "\r\na\r\n0\r\n\r\n"), "a.");
  EXPECT_EQ(Decode("1;" + extension + "e\r\na\r\n0\r\n\r\n"), "!");
  EXPECT_EQ(Decode("1;" + extension + "ee", 1), "!");  // before the line ends
  std::string trailers = "0\r\n";
  while (trailers.size() < ChunkedBody::kMaxTrailer) trailers += "A: b\r\n";
  EXPECT_EQ(Decode(trailers.substr(0, 3 + 6 * 800) + "\r\n"), ".");
  EXPECT_EQ(Decode(trailers + "\r\n"), "!");
}

TEST(ChunkedBodyTest, SaysWhatAChunkStillHas) {
  ChunkedBody body;
  std::string_view bytes = "fffff\r\n";
  EXPECT_TRUE(body.Take(bytes));
  EXPECT_EQ(body.left(), 0xfffff);
}

}  // namespace
}  // namespace lectern::server
