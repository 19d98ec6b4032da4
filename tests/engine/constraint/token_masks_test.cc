// Masks of tokens: the shortcuts of TokenMasks find the same tokens as walking each token's bytes.
#include "engine/constraint/token_masks.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <string>
#include <vector>

#include "engine/constraint/json_schema.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "store/env.h"
#include "tests/engine/byte_tokenizer.h"

namespace lectern {
namespace {

// A vocabulary of these texts, and the first 256 as bytes.
class TextsTokenizer : public ByteTokenizer {
 public:
  explicit TextsTokenizer(std::vector<std::string> texts)
      : ByteTokenizer("", ""), texts_(std::move(texts)) {}
  size_t vocab_size() const override { return 256 + texts_.size(); }
  std::string_view ControlText(int32_t) const override { return {}; }
  std::string_view TokenBytes(int32_t id) const override {
    return id < 256 ? ByteTokenizer::TokenBytes(id) : texts_[static_cast<size_t>(id) - 256];
  }

 private:
  std::vector<std::string> texts_;
};

// Texts of pieces that matter to JSON, cut anywhere.
TextsTokenizer InventedTexts(uint64_t seed, size_t count) {
  const std::vector<std::string> pieces = {"\"",
                                           ", ",
                                           ": ",
                                           "{",
                                           "}",
                                           "[",
                                           "]",
                                           "a",
                                           "b",
                                           "ab",
                                           "1",
                                           "0",
                                           "-",
                                           ".",
                                           "\\",
                                           "n",
                                           "u00",
                                           "é",
                                           "日",
                                           "\xE6",
                                           "\x97",
                                           "\xA5",
                                           " ",
                                           "true",
                                           "nul",
                                           "l",
                                           "\n",
                                           "e5",
                                           "\xE2\x80\xA8",
                                           "\xF0\x9F\x98\x80"};
  std::mt19937_64 random(seed);
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) {
    std::string text;
    for (size_t j = 1 + random() % 5; j > 0; --j) text += pieces[random() % pieces.size()];
    texts.push_back(std::move(text));
  }
  return TextsTokenizer(std::move(texts));
}

constexpr std::string_view kSchemas[] = {
    R"({})",
    R"({"type": "object", "properties": {"a": {"type": "string"}, "ab": {"type": "number"}}})",
    R"({"type": "object", "properties": {"a": {"type": "string", "maxLength": 4}},
        "additionalProperties": {"type": ["integer", "null"]}})",
    R"({"type": "array", "items": {"type": "string", "pattern": "^(ab|é|日)*$"}})",
    R"({"type": "array", "items": {"type": "array", "items": {"$ref": "#"}}})",
    R"({"enum": ["ab", "abab", "a\"b", 1, 10, 100, [1, 0], {"a": "é"}]})",
    R"({"type": "string", "minLength": 3, "maxLength": 6, "pattern": "."})",
    R"({"type": "number", "minimum": -10.5, "maximum": 11})",
};

TEST(TokenMasksTest, AreWhatTheBytesOfEachTokenSay) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const TextsTokenizer tokenizer = InventedTexts(seed, 1500);
    const TokenTrie trie(tokenizer);
    for (const std::string_view schema : kSchemas) {
      const auto made = CompileJsonSchema(schema, true);
      ASSERT_TRUE(made.ok()) << made.status().message();
      TokenMasks masks(made->grammar, trie);
      std::mt19937_64 random(seed);
      int32_t place = masks.matcher().Begin(made->grammar.root);
      std::string text;
      // A matcher of its own, so that nothing of the masks' is shared.
      GrammarMatcher plain(made->grammar);
      int32_t plain_place = plain.Begin(made->grammar.root);
      for (int step = 0; step < 60; ++step) {
        const auto found = masks.Find(place);
        ASSERT_TRUE(found.ok());
        std::vector<int32_t> allowed;
        for (int32_t id = 0; id < static_cast<int32_t>(tokenizer.vocab_size()); ++id) {
          int32_t at = plain_place;
          for (const char byte : tokenizer.TokenBytes(id)) {
            if (at != GrammarMatcher::kNowhere) at = plain.Next(at, static_cast<uint8_t>(byte));
          }
          const bool is_allowed = at != GrammarMatcher::kNowhere;
          if (is_allowed) allowed.push_back(id);
          const auto bit = static_cast<size_t>(id);
          ASSERT_EQ((*found)[bit / 64] >> (bit % 64) & 1, is_allowed)
              << schema << " behind " << text << ": token " << tokenizer.TokenBytes(id);
        }
        if (allowed.empty()) break;
        const int32_t id = allowed[random() % allowed.size()];
        text += tokenizer.TokenBytes(id);
        for (const char byte : tokenizer.TokenBytes(id)) {
          place = masks.matcher().Next(place, static_cast<uint8_t>(byte));
          plain_place = plain.Next(plain_place, static_cast<uint8_t>(byte));
        }
      }
    }
  }
}

TEST(TokenMasksTest, NestingEndsBeforeItsLimit) {
  const TextsTokenizer tokenizer({"[[[[", "]]]]", "[]"});
  const TokenTrie trie(tokenizer);
  const auto made = CompileJsonSchema("{}", true);
  ASSERT_TRUE(made.ok());
  TokenMasks masks(made->grammar, trie);
  int32_t place = masks.matcher().Begin(made->grammar.root);
  // Opens lists as long as it may, then closes them all.
  size_t depth = 0;
  const auto may = [&](uint8_t byte) {
    const auto found = masks.Find(place);
    return found.ok() && ((*found)[byte / 64] >> (byte % 64) & 1) != 0;
  };
  for (; may('['); ++depth) place = masks.matcher().Next(place, '[');
  EXPECT_GT(depth, 30u);
  EXPECT_LT(depth, 200u);
  for (; depth > 0; --depth) {
    ASSERT_TRUE(may(']')) << depth;
    place = masks.matcher().Next(place, ']');
  }
  EXPECT_TRUE(masks.matcher().place(place).ends);
}

}  // namespace
}  // namespace lectern
