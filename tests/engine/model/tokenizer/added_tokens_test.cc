// added_tokens.json and tokenizer_config.json beside a tokenizer.model.
#include "engine/model/tokenizer/added_tokens.h"

#include <gtest/gtest.h>

#include "engine/model/formats/json.h"
#include "engine/model/formats/text.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "tests/engine/memory_env.h"

namespace lectern {
namespace {

// Ids 0 to 6.
TokenizerModel SmallModel() {
  TokenizerModel model;
  model.kind = TokenizerModel::Kind::kBpe;
  model.pieces = {{"<unk>", 0, PieceType::kUnknown},  {"<s>", 0, PieceType::kControl},
                  {"</s>", 0, PieceType::kControl},   {"a", -1, PieceType::kNormal},
                  {"b", -2, PieceType::kNormal},      {"ab", -3, PieceType::kNormal},
                  {"<unused>", 0, PieceType::kUnused}};
  return model;
}

Result<std::unique_ptr<Tokenizer>> Load(const std::string& config, const std::string& added = "") {
  MemoryEnv env;
  env.files["m/tokenizer.model"] = SerializeTokenizerModel(SmallModel(), true);
  if (!config.empty()) env.files["m/tokenizer_config.json"] = config;
  if (!added.empty()) env.files["m/added_tokens.json"] = added;
  return Tokenizer::Load(env, "m/tokenizer.model");
}

std::string Decoder(const std::string& tokens) {
  return "{\"added_tokens_decoder\":{" + tokens + "}}";
}

std::array<uint8_t, 32> Identity(const Tokenizer& tokenizer) {
  Sha256 hash;
  tokenizer.AddTo(hash);
  return hash.Finish();
}

TEST(AddedTokensTest, MessagesCutNamesBetweenCharacters) {
  for (const std::string before : {"", "x"}) {
    std::string text = before;
    for (int i = 0; i < 80; ++i) text += "é";
    const Status status = Load("", "{\"" + text + "\":-1}").status();
    EXPECT_EQ(status.code(), Code::kMalformedModel);
    EXPECT_TRUE(IsValidUtf8(status.message())) << before;
  }
}

// As Phi-3 has them: both files, ids beyond the vocabulary, an end of text among them.
TEST(AddedTokensTest, TokensBeyondTheVocabularyAreReachedById) {
  const auto loaded = Load(
      "{\"add_bos_token\":false,\"add_eos_token\":false,\"bos_token\":\"<s>\","
      "\"eos_token\":{\"content\":\"<|endoftext|>\",\"lstrip\":false},\"added_tokens_decoder\":{"
      "\"10\":{\"content\":\"[X]\",\"special\":false},"
      "\"2\":{\"content\":\"</s>\",\"rstrip\":true,\"special\":false},"
      "\"7\":{\"content\":\"<|endoftext|>\",\"special\":true},"
      "\"9\":{\"content\":\"pad\",\"special\":true}}}",
      "{\"<|end|>\":8,\"<|endoftext|>\":7}");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const Tokenizer& tokenizer = **loaded;
  EXPECT_EQ(tokenizer.vocab_size(), 11u);
  EXPECT_EQ(tokenizer.ControlId("<|endoftext|>"), 7);
  EXPECT_EQ(tokenizer.ControlId("<|end|>"), 8);
  EXPECT_EQ(tokenizer.ControlId("pad"), 9);
  EXPECT_EQ(tokenizer.ControlId("[X]"), 10);
  EXPECT_EQ(tokenizer.ControlId("</s>"), 2);
  EXPECT_EQ(tokenizer.eos_id(), 7);
  EXPECT_EQ(tokenizer.bos_id(), -1);
  const auto text = tokenizer.EncodeContinuation("ab<|end|><|endoftext|>pad[X]");
  ASSERT_TRUE(text.ok());
  for (const int32_t id : text->ids) EXPECT_LT(id, 6);
  EXPECT_EQ(tokenizer.EncodeContinuation("ab")->ids, std::vector<int32_t>{5});
}

TEST(AddedTokensTest, NewNamesOfUnusedAndControlPiecesTakeTheirIds) {
  const auto loaded =
      Load(Decoder("\"6\":{\"content\":\"<|im_start|>\",\"special\":true},"
                   "\"2\":{\"content\":\"<|im_end|>\"}"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ((*loaded)->ControlId("<|im_start|>"), 6);
  EXPECT_EQ((*loaded)->ControlId("<|im_end|>"), 2);
  EXPECT_EQ((*loaded)->ControlId("</s>"), -1);
}

// A piece of text that is said to be special is never made from text.
TEST(AddedTokensTest, SpecialPiecesOfTheVocabularyBecomeControlPieces) {
  const auto loaded = Load(Decoder("\"5\":{\"content\":\"ab\",\"special\":true}"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ((*loaded)->ControlId("ab"), 5);
  EXPECT_EQ((*loaded)->EncodeContinuation("ab")->ids, (std::vector<int32_t>{3, 4}));
}

TEST(AddedTokensTest, SaysWhatBeginsATextAndHowWordsDo) {
  EXPECT_EQ((*Load("{}"))->bos_id(), 1);
  EXPECT_EQ((*Load("{}"))->eos_id(), 2);
  EXPECT_EQ((*Load("{\"add_bos_token\":null,\"add_eos_token\":true}"))->bos_id(), 1);
  EXPECT_EQ((*Load("{\"add_bos_token\":false}"))->bos_id(), -1);
  EXPECT_EQ((*Load("{\"bos_token\":null,\"eos_token\":null}"))->bos_id(), -1);
  EXPECT_EQ((*Load("{\"bos_token\":null,\"eos_token\":null}"))->eos_id(), -1);
  EXPECT_EQ((*Load("{\"bos_token\":\"</s>\"}"))->bos_id(), 2);
  EXPECT_TRUE((*Load("{}"))->has_dummy_prefix());
  EXPECT_FALSE((*Load("{\"add_prefix_space\":false}"))->has_dummy_prefix());
}

// Documents of builds that did not read these files keep their model where it is what it was.
TEST(AddedTokensTest, IdentityChangesWithWhatTheFilesChange) {
  const auto alone = Identity(**Load(""));
  EXPECT_EQ(
      Identity(**Load("{\"bos_token\":\"<s>\",\"add_bos_token\":true,\"model_max_length\":9}")),
      alone);
  EXPECT_EQ(Identity(**Load(Decoder("\"1\":{\"content\":\"<s>\",\"special\":true}"))), alone);
  const auto no_bos = Identity(**Load("{\"add_bos_token\":false}"));
  const auto added = Identity(**Load("", "{\"<x>\":7}"));
  EXPECT_NE(no_bos, alone);
  EXPECT_NE(added, alone);
  EXPECT_NE(added, no_bos);
  EXPECT_NE(Identity(**Load("", "{\"<y>\":7}")), added);
}

TEST(AddedTokensTest, WordsAreFoundInRawText) {
  const auto loaded =
      Load(Decoder("\"9\":{\"content\":\"a b\"},"
                   "\"10\":{\"content\":\"é\",\"special\":true}"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const Tokenizer& tokenizer = **loaded;
  EXPECT_EQ(tokenizer.vocab_size(), 11u);
  EXPECT_EQ(tokenizer.ControlId("é"), 10);  // a control piece of one character
  EXPECT_EQ(tokenizer.ControlId("a b"), -1);
  EXPECT_EQ(tokenizer.TokenBytes(7), "[unused 7]");
  const auto tokens = tokenizer.EncodeContinuation("aba bb");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(tokens->ids, (std::vector<int32_t>{5, 9, 4}));
  EXPECT_EQ(tokens->ranges[1].begin, 2u);
  EXPECT_EQ(tokens->ranges[1].end, 5u);
  EXPECT_EQ(tokenizer.EncodeContinuation("é")->ids, std::vector<int32_t>{0});
}

TEST(AddedTokensTest, TheEndOfATextIsWhatTheConfigurationSays) {
  const auto ordinary = Load("{\"eos_token\":\"ab\"}");
  ASSERT_TRUE(ordinary.ok()) << ordinary.status().message();
  EXPECT_EQ((*ordinary)->eos_id(), 5);
  EXPECT_EQ((*ordinary)->EncodeContinuation("ab")->ids, (std::vector<int32_t>{3, 4}));
  const auto missing = Load("{\"eos_token\":\"<none>\"}");
  ASSERT_TRUE(missing.ok()) << missing.status().message();
  EXPECT_EQ((*missing)->eos_id(), -1);
  ASSERT_EQ((*missing)->assumptions().size(), 1u);
  EXPECT_NE((*missing)->assumptions()[0].find("\"eos_token\" is \"<none>\""), std::string::npos);
}

TEST(AddedTokensTest, RefusesEachOtherShapeByName) {
  constexpr Code kMalformed = Code::kMalformedModel;
  const struct {
    std::string config, added;
    Code code;
    std::string message;
  } cases[] = {
      {"", "[]", kMalformed, "m/added_tokens.json: it is not an object"},
      {"", "{\"<x>\":\"7\"}", kMalformed, "m/added_tokens.json: \"<x>\" is \"7\", not a whole"},
      {"", "{\"<x>\":-1}", kMalformed, "\"<x>\" is -1, not a whole number"},
      {"", "{\"<x>\":7,\"<y>\":7}", kMalformed, "two tokens have the id 7"},
      {"", "{\"<x>\":1048576}", kMalformed, "added token 1048576 \"<x>\" has an id that is"},
      {"", "{\"<x>\":3}", kMalformed, "added token 3 \"<x>\" is \"a\" in tokenizer.model"},
      {"", "{\"<s>\":7}", kMalformed, "m/tokenizer.model: piece 7 \"<s>\" appears twice"},
      {"", "{", kMalformed, "m/added_tokens.json: "},
      {"7", "", kMalformed, "m/tokenizer_config.json: it is not an object"},
      {"{\"added_tokens_decoder\":[]}", "", kMalformed,
       "\"added_tokens_decoder\" must be an object, not []"},
      {Decoder("\"x\":{\"content\":\"<x>\"}"), "", kMalformed, "has the id \"x\""},
      {Decoder("\"\":{\"content\":\"<x>\"}"), "", kMalformed, "has the id \"\""},
      {Decoder("\"99999999999999999999\":{\"content\":\"<x>\"}"), "", kMalformed, "has the id"},
      {Decoder("\"7\":{}"), "", kMalformed, "\"added_tokens_decoder\": token 7 is {}"},
      {Decoder("\"7\":{\"content\":\"<x>\",\"special\":1}"), "", kMalformed, "token 7 is {"},
      {"{\"bos_token\":7}", "", kMalformed, "\"bos_token\" must be a token, not 7"},
      {"{\"add_bos_token\":1}", "", kMalformed, "\"add_bos_token\" must be true or false, not 1"},
      {"{\"add_eos_token\":\"\"}", "", kMalformed, "\"add_eos_token\" must be true or false"},
      {"{\"add_prefix_space\":0}", "", kMalformed, "\"add_prefix_space\" must be true or false"},
  };
  for (const auto& bad : cases) {
    const auto loaded = Load(bad.config, bad.added);
    ASSERT_FALSE(loaded.ok()) << bad.config << bad.added;
    EXPECT_EQ(loaded.status().code(), bad.code) << loaded.status().message();
    EXPECT_NE(loaded.status().message().find(bad.message), std::string::npos)
        << loaded.status().message() << " lacks " << bad.message;
  }
}

}  // namespace
}  // namespace lectern
