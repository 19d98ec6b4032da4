#include "engine/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/compose.h"
#include "engine/json.h"
#include "engine/pre_tokenizer.h"
#include "engine/text.h"
#include "engine/tokenizer_json.h"
#include "tests/engine/bpe_cases.h"
#include "tests/engine/memory_env.h"

namespace lectern {
namespace {

const std::string kFolder = LECTERN_SOURCE_DIR "/tests/golden/bpe/";
constexpr const char* kFamilies[] = {"gpt2",   "llama3", "llama3_removed", "qwen2",
                                     "tekken", "smollm", "gpt_4o"};

std::unique_ptr<Tokenizer> LoadFamily(const std::string& family) {
  auto tokenizer = Tokenizer::Load(Env::Default(), kFolder + family + ".json");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

std::string BytesOf(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string bytes;
  for (const int32_t id : ids) bytes += tokenizer.TokenBytes(id);
  return bytes;
}

std::string Repeat(std::string_view text, size_t bytes) {
  std::string out;
  while (out.size() + text.size() <= bytes) out += text;
  return out;
}

// --- Against PyPI's tokenizers ---

class BpeGoldenTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, BpeGoldenTest, testing::ValuesIn(kFamilies),
                         [](const auto& of) { return std::string(of.param); });

TEST_P(BpeGoldenTest, IdsAndByteRangesAreThoseOfPython) {
  const auto tokenizer = LoadFamily(GetParam());
  const auto cases = ReadBpeCases(ReadWholeFile(kFolder + GetParam() + ".cases"));
  ASSERT_GE(cases.size(), 300u);
  for (const BpeCase& item : cases) {
    for (const auto& ours :
         {tokenizer->Encode(item.text), tokenizer->EncodeContinuation(item.text)}) {
      ASSERT_TRUE(ours.ok()) << ours.status().message();
      EXPECT_TRUE(SameTokens(*ours, item.tokens))
          << Json(item.text).Dump() << "\nwanted " << TokensText(item.tokens) << "\ngot    "
          << TokensText(*ours);
    }
  }
}

TEST_P(BpeGoldenTest, TokensSpellTheText) {
  const auto tokenizer = LoadFamily(GetParam());
  for (const BpeCase& item : ReadBpeCases(ReadWholeFile(kFolder + GetParam() + ".cases"))) {
    const auto tokens = tokenizer->Encode(item.text);
    const std::string spelt = BytesOf(*tokenizer, tokens->ids);
    if (std::string_view(GetParam()) == "qwen2") {
      EXPECT_EQ(spelt, ComposedText(item.text).text());
    } else {
      EXPECT_EQ(spelt, item.text);
    }
  }
}

TEST_P(BpeGoldenTest, TextNeverBecomesAControlToken) {
  const auto tokenizer = LoadFamily(GetParam());
  size_t controls = 0;
  for (const char* mark : {"<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|begin_of_text|>", "<s>",
                           "[INST]", "<tool_call>", "<|end|>"}) {
    const int32_t id = tokenizer->ControlId(mark);
    controls += id >= 0;
    EXPECT_EQ(tokenizer->TokenBytes(id), "");
    for (const std::string& text : {std::string(mark), " " + std::string(mark) + "\n"}) {
      const auto tokens = tokenizer->Encode(text);
      for (const int32_t token : tokens->ids) EXPECT_NE(token, id) << text;
    }
  }
  EXPECT_GE(controls, 1u);
  EXPECT_EQ(tokenizer->ControlId("the"), -1);
}

TEST(BpeTokenizerTest, BosIsWhatThePostProcessorPutsBeforeAText) {
  const auto llama3 = LoadFamily("llama3");
  EXPECT_EQ(llama3->bos_id(), llama3->ControlId("<|begin_of_text|>"));
  EXPECT_EQ(LoadFamily("tekken")->bos_id(), 1);
  EXPECT_EQ(LoadFamily("qwen2")->bos_id(), -1);
}

TEST(BpeTokenizerTest, EncodesOnlyUtf8UpToItsLimit) {
  const auto tokenizer = LoadFamily("gpt2");
  EXPECT_EQ(tokenizer->Encode("a\xFF").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(tokenizer->Encode("\xED\xA0\x80").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(tokenizer->Encode(std::string((16 << 20) + 1, 'a')).status().code(),
            Code::kLimitExceeded);
  EXPECT_TRUE(tokenizer->Encode("")->ids.empty());
}

// --- Size ---

// Runs that a pattern walks back over, and one word of 16 MiB.
TEST_P(BpeGoldenTest, ReadsLongRunsOfOneCharacter) {
  const auto tokenizer = LoadFamily(GetParam());
  const size_t size = size_t{1} << 17;
  for (const char* run : {"a", "A", " ", "\n", " \n", "1", ".", "é", "É", "日", "\xCC\x81", "a ",
                          "'s", "\t\t\xC2\xA0", "ʰ", "\xF0\x9F\x98\x80"}) {
    const std::string text = "x" + Repeat(run, size);
    const auto tokens = tokenizer->Encode(text);
    ASSERT_TRUE(tokens.ok()) << Json(run).Dump() << tokens.status().message();
    EXPECT_EQ(tokens->ranges.front().begin, 0u);
    EXPECT_EQ(tokens->ranges.back().end, text.size());
  }
}

TEST(BpeTokenizerTest, ReadsTheLongestTextsOfOneWord) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr size_t kLongest = size_t{2} << 20;  // what is allocated costs many times as much
#else
  constexpr size_t kLongest = size_t{16} << 20;
#endif
  struct Case {
    const char *family, *run;
    size_t size;
  };
  for (const auto& [family, run, size] :
       {Case{"llama3", "a", kLongest}, Case{"qwen2", " ", size_t{2} << 20},
        Case{"tekken", "A", size_t{2} << 20}}) {
    const auto tokenizer = LoadFamily(family);
    const auto tokens = tokenizer->Encode(Repeat(run, size));
    ASSERT_TRUE(tokens.ok()) << tokens.status().message();
    EXPECT_EQ(tokens->ranges.back().end, size);
  }
}

// --- Merging, against its definition ---

// A vocabulary of all bytes and random joins of pieces, in the alphabet of the golden files.
std::string InAlphabet(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const int byte = static_cast<uint8_t>(c);
    int point = byte, rest = 0;
    if (!((byte >= 33 && byte <= 126) || byte >= 174 || (byte >= 161 && byte <= 172))) {
      for (int b = 0; b < byte; ++b) {
        rest += !((b >= 33 && b <= 126) || b >= 174 || (b >= 161 && b <= 172));
      }
      point = 256 + rest;
    }
    if (point < 0x80) {
      out += static_cast<char>(point);
    } else {
      out += static_cast<char>(0xC0 | point >> 6);
      out += static_cast<char>(0x80 | (point & 63));
    }
  }
  return out;
}

struct Invented {
  std::vector<std::string> pieces;                // bytes
  std::vector<std::pair<size_t, size_t>> merges;  // of ids, in order of rank
  std::vector<size_t> made;                       // ids
};

Invented InventVocabulary(std::mt19937& rng) {
  Invented out;
  for (int byte = 0; byte < 256; ++byte)
    out.pieces.push_back(std::string(1, static_cast<char>(byte)));
  std::vector<size_t> letters = {'a', 'b', 'c'};
  for (int i = 0; i < 40; ++i) {
    const size_t left = letters[rng() % letters.size()], right = letters[rng() % letters.size()];
    const std::string joined = out.pieces[left] + out.pieces[right];
    if (joined.size() > 8) continue;
    if (std::find(out.merges.begin(), out.merges.end(), std::pair(left, right)) !=
        out.merges.end()) {
      continue;
    }
    auto at = std::find(out.pieces.begin(), out.pieces.end(), joined);
    const size_t id = static_cast<size_t>(at - out.pieces.begin());
    if (at == out.pieces.end()) {
      out.pieces.push_back(joined);
      letters.push_back(id);
    }
    out.merges.emplace_back(left, right);
    out.made.push_back(id);
  }
  // Ranks independent of how pieces came to be.
  for (size_t i = out.merges.size(); i > 1; --i) {
    const size_t j = rng() % i;
    std::swap(out.merges[i - 1], out.merges[j]);
    std::swap(out.made[i - 1], out.made[j]);
  }
  return out;
}

BpeArrays ArraysOf(const Invented& invented) {
  BpeArrays arrays;
  arrays.words = FindWordPatternByGgufName("gpt-2");
  for (const std::string& piece : invented.pieces) arrays.tokens.push_back(InAlphabet(piece));
  arrays.types.assign(arrays.tokens.size(), PieceType::kNormal);
  for (const auto& [left, right] : invented.merges) {
    arrays.merges.push_back(arrays.tokens[left] + " " + arrays.tokens[right]);
  }
  return arrays;
}

std::vector<int32_t> MergeByDefinition(const Invented& of, std::string_view word) {
  std::vector<size_t> ids;
  for (const char c : word) ids.push_back(static_cast<uint8_t>(c));
  while (true) {
    size_t best = of.merges.size(), place = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto at = std::find(of.merges.begin(), of.merges.end(), std::pair(ids[i], ids[i + 1]));
      const size_t rank = static_cast<size_t>(at - of.merges.begin());
      if (rank < best) best = rank, place = i;
    }
    if (best == of.merges.size()) return {ids.begin(), ids.end()};
    ids[place] = of.made[best];
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

TEST(BpeTokenizerTest, MergesAsDefined) {
  std::mt19937 rng(5);
  for (int round = 0; round < 60; ++round) {
    const Invented invented = InventVocabulary(rng);
    auto model = BpeModel::Make(ArraysOf(invented), "m");
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokenizer = *MakeBpeTokenizer(std::move(model).value(), "");
    for (int i = 0; i < 40; ++i) {
      std::string word;
      for (size_t n = 1 + rng() % 60; n > 0; --n) word += static_cast<char>('a' + rng() % 3);
      const auto tokens = tokenizer->Encode(word);
      EXPECT_EQ(tokens->ids, MergeByDefinition(invented, word)) << word;
    }
  }
}

// --- Vocabularies that are refused ---

TEST(BpeModelTest, RefusesWhatIsNoVocabulary) {
  std::mt19937 rng(6);
  const BpeArrays good = ArraysOf(InventVocabulary(rng));
  ASSERT_TRUE(BpeModel::Make(good, "m").ok());
  const auto expect = [&](Code code, const std::string& message, auto spoil) {
    BpeArrays bad = good;
    spoil(bad);
    const auto model = BpeModel::Make(std::move(bad), "dir/m");
    ASSERT_FALSE(model.ok()) << message;
    EXPECT_EQ(model.status().code(), code) << model.status().message();
    EXPECT_EQ(model.status().message(), "dir/m: " + message);
  };
  const auto add = [](BpeArrays& to, const std::string& token, PieceType type) {
    to.tokens.push_back(token);
    to.types.push_back(type);
  };
  const std::string next = std::to_string(good.tokens.size());
  expect(Code::kMalformedModel, "it has " + next + " pieces and 0 types of pieces",
         [](auto& bad) { bad.types.clear(); });
  expect(Code::kMalformedModel, "piece " + next + " \"\" is empty",
         [&](auto& bad) { add(bad, "", PieceType::kNormal); });
  expect(Code::kMalformedModel, "piece " + next + " \"a\" appears twice",
         [&](auto& bad) { add(bad, "a", PieceType::kNormal); });
  expect(Code::kMalformedModel,
         "piece " + next + " \"a b\" has a character that stands for no byte",
         [&](auto& bad) { add(bad, "a b", PieceType::kNormal); });
  expect(Code::kMalformedModel, "piece " + next + " \"日\" has a character that stands for no byte",
         [&](auto& bad) { add(bad, "日", PieceType::kNormal); });
  expect(Code::kMalformedModel, "piece " + next + " \"ń\" has a character that stands for no byte",
         [&](auto& bad) { add(bad, "ń", PieceType::kNormal); });
  expect(Code::kMalformedModel, "piece " + next + " \"�\" has a character that stands for no byte",
         [&](auto& bad) { add(bad, "\xC3", PieceType::kNormal); });
  expect(Code::kMalformedModel, "piece " + next + " \"<�>\" is not valid UTF-8",
         [&](auto& bad) { add(bad, "<\xC3>", PieceType::kControl); });
  expect(Code::kLimitExceeded,
         "piece " + next + " " + Json(std::string(100, 'z')).Dump() + " is longer than 2048 bytes",
         [&](auto& bad) { add(bad, std::string(2049, 'z'), PieceType::kNormal); });
  expect(Code::kUnsupportedModel,
         "piece " + next +
             " \"word\" is an added token that is found in raw text and no mark of a template; "
             "such vocabularies are not supported",
         [&](auto& bad) { add(bad, "word", PieceType::kUserDefined); });
  expect(Code::kUnsupportedModel,
         "piece " + next + " \"<0x0A>\" has type 6; a byte-level BPE vocabulary has 1, 3, 4 and 5",
         [&](auto& bad) { add(bad, "<0x0A>", PieceType::kByte); });
  expect(Code::kMalformedModel, "no piece is the byte 97",
         [&](auto& bad) { bad.types['a'] = PieceType::kControl, bad.merges.clear(); });
  expect(Code::kMalformedModel, "no piece is the byte 244",
         [&](auto& bad) { bad.types[244] = PieceType::kUnused, bad.merges.clear(); });
  const std::string merge = "merge " + std::to_string(good.merges.size()) + " ";
  expect(Code::kMalformedModel, merge + "\"ab\" is not two pieces",
         [](auto& bad) { bad.merges.push_back("ab"); });
  expect(Code::kMalformedModel, merge + "\"a b c\" has a character that stands for no byte",
         [](auto& bad) { bad.merges.push_back("a b c"); });
  expect(Code::kMalformedModel, merge + "\"a zz\" is not of two pieces",
         [](auto& bad) { bad.merges.push_back("a zz"); });
  expect(Code::kMalformedModel, merge + "\"a z\" makes what is no piece, or a control token",
         [](auto& bad) { bad.merges.push_back("a z"); });
  expect(Code::kMalformedModel, merge + "\"< >\" makes what is no piece, or a control token",
         [&](auto& bad) { add(bad, "<>", PieceType::kControl), bad.merges.push_back("< >"); });
  expect(Code::kMalformedModel, merge + Json(good.merges[3]).Dump() + " appears twice",
         [](auto& bad) { bad.merges.push_back(bad.merges[3]); });
  expect(Code::kMalformedModel, "the bos token 97 is not a control token",
         [](auto& bad) { bad.bos_id = 97; });
  expect(Code::kMalformedModel, "the eos token 1000000 is not a control token",
         [](auto& bad) { bad.eos_id = 1000000; });
  expect(Code::kMalformedModel, "the eos token -2 is not a control token",
         [](auto& bad) { bad.eos_id = -2; });
}

TEST(BpeModelTest, MarksAndHolesAreNoText) {
  std::mt19937 rng(6);
  BpeArrays arrays = ArraysOf(InventVocabulary(rng));
  const int32_t first = static_cast<int32_t>(arrays.tokens.size());
  for (const PieceType type : {PieceType::kControl, PieceType::kUnused, PieceType::kUserDefined}) {
    arrays.tokens.push_back("<" + std::to_string(arrays.tokens.size()) + ">");
    arrays.types.push_back(type);
  }
  arrays.bos_id = first;
  arrays.ignore_merges = true;
  const auto model = BpeModel::Make(arrays, "m");
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->size(), static_cast<size_t>(first) + 3);
  EXPECT_EQ(model->controls().Find(arrays.tokens[static_cast<size_t>(first)]), first);
  EXPECT_EQ(model->controls().Find(arrays.tokens[static_cast<size_t>(first) + 1]), -1);
  EXPECT_EQ(model->controls().Find(arrays.tokens[static_cast<size_t>(first) + 2]), first + 2);
  for (int32_t id = first; id < first + 3; ++id) {
    EXPECT_EQ(model->bytes(id), "");
    EXPECT_EQ(model->FindPiece(arrays.tokens[static_cast<size_t>(id)]), -1);
  }
}

// --- tokenizer.json ---

class TokenizerJsonTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto root = ParseJson(ReadWholeFile(kFolder + "gpt2.json"));
    ASSERT_TRUE(root.ok()) << root.status().message();
    root_ = *root->object();
  }
  static Status Parse(const Json& root) {
    return ParseTokenizerJson(root.Dump(), "dir/tokenizer.json").status();
  }
  Status WithMember(const std::string& key, const std::string& value) const {
    Json::Object root = root_;
    root[key] = *ParseJson(value);
    return Parse(Json(root));
  }
  Status WithModel(const std::string& key, const std::string& value) const {
    Json::Object root = root_, model = *root["model"].object();
    model[key] = *ParseJson(value);
    root["model"] = Json(model);
    return Parse(Json(root));
  }
  Json::Object root_;
};

TEST_F(TokenizerJsonTest, RefusesByNameWhatItDoesNotDo) {
  struct Bad {
    const char *where, *key, *value;
    Code code;
    const char* word;
  };
  const Code malformed = Code::kMalformedModel, unsupported = Code::kUnsupportedModel;
  const Bad cases[] = {
      {"", "model", "null", malformed, "it has no \"model\""},
      {"model", "type", "\"Unigram\"", unsupported, "model type \"Unigram\"; supported: BPE"},
      {"model", "type", "7", unsupported, "model type 7; supported: BPE"},
      {"model", "byte_fallback", "true", unsupported,
       "byte_fallback is that of a SentencePiece vocabulary; put the model's tokenizer.model"},
      {"model", "dropout", "0.1", unsupported, "dropout 0.1; supported: none"},
      {"model", "continuing_subword_prefix", "\"##\"", unsupported,
       "continuing_subword_prefix \"##\"; supported: none"},
      {"model", "end_of_word_suffix", "\"</w>\"", unsupported,
       "end_of_word_suffix \"</w>\"; supported: none"},
      {"model", "vocab", "[]", malformed, "\"vocab\" is not an object"},
      {"model", "vocab", "{\"a\":-1}", malformed, "the id of piece \"a\" is -1; it must be"},
      {"model", "vocab", "{\"a\":1048576}", malformed, "the id of piece \"a\" is 1048576"},
      {"model", "vocab", "{\"a\":\"1\"}", malformed, "the id of piece \"a\" is \"1\""},
      {"model", "vocab", "{\"a\":1,\"b\":1}", malformed,
       "pieces \"a\" and \"b\" both have the id 1"},
      {"model", "vocab", "{\"a\":1}", malformed, "no piece is the byte 0"},
      {"model", "merges", "null", malformed, "\"merges\" is not a list"},
      {"model", "merges", "[7]", malformed, "merge 0 is 7, not two pieces"},
      {"model", "merges", "[[\"a\"]]", malformed, "merge 0 is [\"a\"], not two pieces"},
      {"model", "merges", "[[\"a\",7]]", malformed, "merge 0 is [\"a\",7], not two pieces"},
      {"model", "merges", "[\"ab\"]", malformed, "merge 0 \"ab\" is not two pieces"},
      {"", "added_tokens", "{}", malformed, "\"added_tokens\" is not a list"},
      {"", "added_tokens", "[{\"id\":1}]", malformed, "an added token has no \"content\""},
      {"", "added_tokens", "[{\"content\":\"<x>\"}]", malformed, "the id of piece \"<x>\" is null"},
      {"", "added_tokens", "[{\"content\":\"<x>\",\"id\":3}]", malformed,
       "and \"<x>\" both have the id 3"},
      {"", "added_tokens", "[{\"content\":\"    \",\"id\":5000}]", unsupported,
       "piece 5000 \"    \" is an added token that is found in raw text"},
      {"", "normalizer", "{\"type\":\"NFKC\"}", unsupported, "normalizer {\"type\":\"NFKC\"}"},
      {"", "normalizer", "7", unsupported, "normalizer 7; supported: NFC, none"},
      {"", "normalizer",
       "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Lowercase\"}]}",
       unsupported, "normalizer {\"type\":\"Lowercase\"}; supported: NFC, none"},
      {"", "pre_tokenizer", "null", unsupported, "pre_tokenizer null; supported: those of gpt2, l"},
      {"", "pre_tokenizer", "{\"type\":\"Metaspace\"}", unsupported,
       "Metaspace is that of a SentencePiece vocabulary"},
      {"", "pre_tokenizer", "{\"type\":\"ByteLevel\"}", unsupported, "add_prefix_space true"},
      {"", "pre_tokenizer",
       "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}", unsupported,
       "supported: those of gpt2, llama3, qwen2, tekken, smollm, gpt-4o"},
      {"", "pre_tokenizer",
       "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
       "\"\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\","
       "\"add_prefix_space\":false,\"use_regex\":false}]}",
       unsupported, "pre_tokenizer {\"pretokenizers\":[{\"behavior\":\"Isolated\""},
      {"", "pre_tokenizer",
       "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":false"
       "},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}]}",
       unsupported, "supported: those of"},
      {"", "post_processor", "{\"type\":\"BertProcessing\"}", unsupported,
       "post_processor {\"type\":\"BertProcessing\"}; supported: ByteLevel, TemplateProcessing"},
      {"", "post_processor", "{\"type\":\"TemplateProcessing\",\"single\":[]}", malformed,
       "a template has no \"single\""},
      {"", "post_processor",
       "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<none>\"}}]}",
       malformed, "post_processor: {\"id\":\"<none>\"} is no token"},
      {"", "post_processor",
       "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"a\"}}]}",
       malformed, "is not a control token"},
  };
  ASSERT_TRUE(Parse(Json(root_)).ok()) << Parse(Json(root_)).message();
  for (const Bad& bad : cases) {
    const Status status = std::string_view(bad.where).empty() ? WithMember(bad.key, bad.value)
                                                              : WithModel(bad.key, bad.value);
    EXPECT_EQ(status.code(), bad.code) << bad.key << " " << bad.value << " " << status.message();
    EXPECT_TRUE(status.message().starts_with("dir/tokenizer.json: ")) << status.message();
    EXPECT_NE(status.message().find(bad.word), std::string::npos) << status.message();
  }
}

TEST_F(TokenizerJsonTest, TakesWhatChangesNothing) {
  EXPECT_TRUE(WithModel("type", "null").ok());  // files of 2020
  EXPECT_TRUE(WithModel("dropout", "0.0").ok());
  EXPECT_TRUE(WithModel("end_of_word_suffix", "\"\"").ok());
  EXPECT_TRUE(WithModel("unk_token", "\"<|endoftext|>\"").ok());
  EXPECT_TRUE(WithMember("normalizer", "{\"type\":\"Sequence\",\"normalizers\":[]}").ok());
  EXPECT_TRUE(WithMember("post_processor", "null").ok());
  EXPECT_TRUE(WithMember("truncation", "{\"max_length\":5}").ok());
}

TEST(TokenizerJsonFileTest, RefusesEveryTruncation) {
  const std::string whole = ReadWholeFile(kFolder + "llama3.json");
  ASSERT_GT(whole.size(), 10000u);
  for (size_t size = 0; size + 2 < whole.size(); size += size < 2000 ? 1 : 997) {
    const auto model = ParseTokenizerJson(std::string_view(whole).substr(0, size), "m");
    ASSERT_FALSE(model.ok()) << size;
    EXPECT_EQ(model.status().code(), Code::kMalformedModel);
  }
}

// --- Words ---

TEST(PreTokenizerTest, PatternsAreFoundByTheirNamesInGguf) {
  for (const auto& [gguf, name] :
       std::initializer_list<std::pair<const char*, const char*>>{{"gpt-2", "gpt2"},
                                                                  {"llama-bpe", "llama3"},
                                                                  {"qwen2", "qwen2"},
                                                                  {"tekken", "tekken"},
                                                                  {"smollm", "smollm"},
                                                                  {"gpt-4o", "gpt-4o"}}) {
    ASSERT_NE(FindWordPatternByGgufName(gguf), nullptr) << gguf;
    EXPECT_EQ(FindWordPatternByGgufName(gguf)->name, name);
  }
  for (const char* unknown : {"", " ", "default", "gemma4", "llama", "llama-bpe ", "gpt-2 gpt2"}) {
    EXPECT_EQ(FindWordPatternByGgufName(unknown), nullptr) << unknown;
  }
  EXPECT_EQ(KnownWordPatterns(), "gpt2, llama3, qwen2, tekken, smollm, gpt-4o");
}

// Every pattern matches every character, and white space is that of Unicode, without U+180E.
TEST(PreTokenizerTest, CutsEveryCharacter) {
  const std::string_view white =
      "\t\n\v\f\r \u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
      "\u200A\u2028\u2029\u202F\u205F\u3000";
  for (const char* name : {"gpt2", "llama3", "qwen2", "tekken", "smollm", "gpt-4o"}) {
    const auto words = PreTokenizer::Make(WordPatternNamed(name));
    ASSERT_TRUE(words.ok()) << words.status().message();
    size_t white_characters = 0;
    for (uint32_t c = 0; c < 0x110000; c += c < 0x3100 ? 1 : 37) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      std::string text;
      if (c < 0x80) {
        text = static_cast<char>(c);
      } else if (c < 0x800) {
        text = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
      } else if (c < 0x10000) {
        text = {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
                static_cast<char>(0x80 | (c & 63))};
      } else {
        text = {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
                static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
      }
      const std::string after = text + "..";  // white space is a word of its own before a point
      WordReader reader(*words, after);
      const auto first = reader.Next();
      ASSERT_TRUE(first.ok()) << first.status().message();
      ASSERT_TRUE(first->size() >= text.size());
      WordReader alone(*words, text);
      ASSERT_EQ(*alone.Next(), text) << name << " " << c;
      EXPECT_TRUE(alone.done());
      const std::string twice = text + text + ".";
      WordReader run(*words, twice);
      // Of two white spaces before a point the first is a word; other characters stay together.
      if (white.find(text) != std::string_view::npos && c != '\n' && c != '\r') {
        ++white_characters;
        EXPECT_EQ(*run.Next(), text) << name << " " << c;
      }
      if (c == 0x180E || c == 0x200B || c == 0xFEFF || c == 0x1C) {
        EXPECT_EQ(*run.Next(), twice) << name << " " << c;
      }
    }
    EXPECT_EQ(white_characters, 23u);
  }
}

// --- NFC ---

TEST(ComposedTextTest, KnowsWhereItsBytesComeFrom) {
  const ComposedText same("plain é \xF0\x9F\x98\x80");
  EXPECT_EQ(same.text(), "plain é \xF0\x9F\x98\x80");
  EXPECT_EQ(same.OriginalBegin(6), 6u);
  EXPECT_EQ(same.OriginalEnd(8), 8u);

  const ComposedText text("ae\u0301b\u212Bc");  // a é b Å c
  EXPECT_EQ(text.text(), "aéb\u00C5c");
  const std::pair<uint64_t, uint64_t> wanted[] = {{0, 1}, {1, 4}, {1, 4}, {4, 5},
                                                  {5, 8}, {5, 8}, {8, 9}};
  for (uint64_t at = 0; at < text.text().size(); ++at) {
    EXPECT_EQ(std::pair(text.OriginalBegin(at), text.OriginalEnd(at + 1)), wanted[at]) << at;
  }
  EXPECT_EQ(text.OriginalEnd(text.text().size()), 9u);
}

TEST(ComposedTextTest, OrdersManyMarksInReasonableTime) {
  const std::string marks = "a" + Repeat("\u0301\u0323", 8 << 20);  // two classes, alternating
  const ComposedText text(marks);
  EXPECT_EQ(text.text().size(), marks.size());  // "ạ", then dots below, then acutes
  EXPECT_TRUE(text.text().starts_with("\u1EA1\u0323\u0323"));
  EXPECT_TRUE(text.text().ends_with("\u0301\u0301"));
}

}  // namespace
}  // namespace lectern
