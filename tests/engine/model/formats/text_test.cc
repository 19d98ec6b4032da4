#include "engine/model/formats/text.h"

#include <gtest/gtest.h>

#include "engine/model/formats/json.h"
#include "tests/engine/memory_env.h"

namespace lectern {
namespace {

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(CleanUtf8Test, ReplacesAsPythonDoesOn650RandomTexts) {
  const Result<Json> golden =
      ParseJson(ReadWholeFile(LECTERN_SOURCE_DIR "/tests/golden/utf8_golden.json"));
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  ASSERT_GE(golden->array()->size(), 600u);
  for (const Json& pair : *golden->array()) {
    const std::string& hex = *(*pair.array())[0].string();
    const CleanText clean = CleanUtf8(FromHex(hex));
    EXPECT_EQ(clean.text, FromHex(*(*pair.array())[1].string())) << hex;
    EXPECT_TRUE(IsValidUtf8(clean.text)) << hex;
  }
}

TEST(CleanUtf8Test, CountsTheBytesThatWereReplaced) {
  EXPECT_EQ(CleanUtf8("abc").replaced_bytes, 0u);
  EXPECT_EQ(CleanUtf8("a\xFFz").replaced_bytes, 1u);
  EXPECT_EQ(CleanUtf8("a\xF0\x9F\x98z").replaced_bytes, 3u);  // one U+FFFD for a cut emoji
  EXPECT_EQ(CleanUtf8("a\xF0\x9F\x98z").text, "a\xEF\xBF\xBDz");
  EXPECT_EQ(CleanUtf8("\xED\xA0\x80").replaced_bytes, 3u);  // a surrogate: three U+FFFD
  EXPECT_EQ(CleanUtf8("\xED\xA0\x80").text, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(CleanUtf8Test, DropsOneByteOrderMarkAtTheStartOnly) {
  EXPECT_EQ(CleanUtf8("\xEF\xBB\xBFhi").text, "hi");
  EXPECT_EQ(CleanUtf8("\xEF\xBB\xBFhi").replaced_bytes, 0u);
  EXPECT_EQ(CleanUtf8("\xEF\xBB\xBF\xEF\xBB\xBF").text, "\xEF\xBB\xBF");
  EXPECT_EQ(CleanUtf8("hi\xEF\xBB\xBF").text, "hi\xEF\xBB\xBF");
}

TEST(CleanUtf8Test, KeepsNulAndEveryValidCharacter) {
  EXPECT_EQ(CleanUtf8(std::string("a\0b", 3)).text, std::string("a\0b", 3));
  std::string all;
  for (uint32_t c = 1; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 97) {
    if (c >= 0xD800 && c < 0xE000) continue;
    if (c < 0x80) {
      all += static_cast<char>(c);
      continue;
    }
    if (c < 0x800) {
      all += static_cast<char>(0xC0 | c >> 6);
    } else {
      if (c < 0x10000) {
        all += static_cast<char>(0xE0 | c >> 12);
      } else {
        all += static_cast<char>(0xF0 | c >> 18);
        all += static_cast<char>(0x80 | (c >> 12 & 63));
      }
      all += static_cast<char>(0x80 | (c >> 6 & 63));
    }
    all += static_cast<char>(0x80 | (c & 63));
  }
  EXPECT_EQ(CleanUtf8(all).text, all);
  EXPECT_TRUE(IsValidUtf8(all));
}

TEST(Utf8CharLengthTest, TellsValidCutAndHopeless) {
  EXPECT_EQ(Utf8CharLength(""), 0);
  EXPECT_EQ(Utf8CharLength("ab"), 1);
  EXPECT_EQ(Utf8CharLength("é!"), 2);
  EXPECT_EQ(Utf8CharLength("€"), 3);
  EXPECT_EQ(Utf8CharLength("😀"), 4);
  EXPECT_EQ(Utf8CharLength("\xF0\x9F\x98"), 0);
  EXPECT_EQ(Utf8CharLength("\x80"), -1);
  EXPECT_EQ(Utf8CharLength("\xC0\x80"), -1);
  EXPECT_EQ(Utf8CharLength("\xE0\x80\x80"), -1);
  EXPECT_EQ(Utf8CharLength("\xF0\x9F\x98z"), -3);
  EXPECT_EQ(Utf8CharLength("\xF4\x90\x80\x80"), -1);
  EXPECT_EQ(Utf8CharLength("\xF5"), -1);
}

TEST(TrimWhiteSpaceTest, TakesAwayWhatPythonStrips) {
  EXPECT_EQ(TrimWhiteSpace(""), "");
  EXPECT_EQ(TrimWhiteSpace(" \t\r\n\v\f\x1C\x1D\x1E\x1F\u0085\u00A0\u2028"), "");
  EXPECT_EQ(TrimWhiteSpace("\u3000 a b \u2003\n"), "a b");
  EXPECT_EQ(TrimWhiteSpace("\u200B a\u180E"), "\u200B a\u180E");  // format characters
  EXPECT_EQ(TrimWhiteSpace("à"), "à");  // ends in the byte of U+00A0
}

}  // namespace
}  // namespace lectern
