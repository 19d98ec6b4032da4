#include "engine/model/tokenizer/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/model/formats/json.h"
#include "engine/model/formats/text.h"
#include "engine/model/tokenizer/compose.h"
#include "engine/model/tokenizer/tokenizer_json.h"
#include "engine/model/tokenizer/word_patterns.h"
#include "tests/engine/bpe_cases.h"
#include "tests/engine/memory_env.h"

namespace lectern {
namespace {

const std::string kFolder = LECTERN_SOURCE_DIR "/tests/golden/bpe/";
constexpr const char* kFamilies[] = {"gpt2",   "llama3", "llama3_removed", "qwen2",
                                     "tekken", "smollm", "gpt_4o"};

std::unique_ptr<Tokenizer> LoadPath(const std::string& path) {
  auto tokenizer = Tokenizer::Load(Env::Default(), path);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

std::unique_ptr<Tokenizer> LoadFamily(const std::string& family) {
  return LoadPath(kFolder + family + ".json");
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

// --- tokenizer.json of many shapes, against PyPI's tokenizers ---

class JsonGoldenTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, JsonGoldenTest,
                         testing::Values("behaviors", "bloom", "compatible", "deepseek3", "digits",
                                         "gaps", "gemma", "groups", "llama2", "lower", "metaspace",
                                         "mistral", "olmo", "prefix", "starcoder", "unigram",
                                         "unigram_bytes"),
                         [](const auto& of) { return std::string(of.param); });

TEST_P(JsonGoldenTest, IdsAreThoseOfPython) {
  const std::string path = LECTERN_SOURCE_DIR "/tests/golden/json/" + std::string(GetParam());
  const auto tokenizer = Tokenizer::Load(Env::Default(), path + ".json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const auto cases = ReadBpeCases(ReadWholeFile(path + ".cases"));
  ASSERT_GE(cases.size(), 100u);
  uint64_t dropped = 0;
  for (const BpeCase& item : cases) {
    const auto ours = (*tokenizer)->Encode(item.text);
    ASSERT_TRUE(ours.ok()) << ours.status().message();
    dropped += ours->dropped_bytes;
    EXPECT_TRUE(AsTheCaseSays(*ours, item))
        << Json(item.text).Dump() << "\nwanted " << TokensText(item.tokens) << "\ngot    "
        << TokensText(*ours);
  }
  EXPECT_EQ(dropped > 0, std::string_view(GetParam()) == "gaps");
}

TEST_P(JsonGoldenTest, MarksAreReachedByIdAndNeverFromText) {
  const std::string path = LECTERN_SOURCE_DIR "/tests/golden/json/" + std::string(GetParam());
  const auto tokenizer = LoadPath(path + ".json");
  const int32_t mark = tokenizer->ControlId("<|im_end|>");
  ASSERT_GE(mark, 0);
  EXPECT_EQ(tokenizer->ControlText(mark), "<|im_end|>");
  EXPECT_EQ(tokenizer->FindControl("<|im_end|>\n")->id, mark);
  const auto tokens = tokenizer->Encode("<|im_end|> a<|im_end|>\n<s><mark></s><unk>");
  ASSERT_TRUE(tokens.ok());
  for (const int32_t id : tokens->ids) {
    EXPECT_TRUE(tokenizer->ControlText(id).empty() || id == tokenizer->unknown_id()) << id;
  }
}

// A text that continues another has no prefix.
TEST(JsonTokenizerTest, ContinuationsHaveNoPrefix) {
  for (const char* name : {"llama2", "mistral", "metaspace", "prefix", "unigram"}) {
    const auto tokenizer =
        LoadPath(LECTERN_SOURCE_DIR "/tests/golden/json/" + std::string(name) + ".json");
    EXPECT_TRUE(tokenizer->has_dummy_prefix()) << name;
    EXPECT_EQ(BytesOf(*tokenizer, tokenizer->Encode("ab")->ids), " ab") << name;
    EXPECT_EQ(BytesOf(*tokenizer, tokenizer->EncodeContinuation("ab")->ids), "ab") << name;
  }
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
  for (const std::string& piece : invented.pieces) arrays.tokens.push_back(InAlphabet(piece));
  arrays.types.assign(arrays.tokens.size(), PieceType::kNormal);
  for (const auto& [left, right] : invented.merges) {
    arrays.merges.push_back(arrays.tokens[left] + " " + arrays.tokens[right]);
  }
  return arrays;
}

TextRules Gpt2Rules() {
  TextRules rules;
  rules.words = StepsOf(WordPatternNamed("gpt2"));
  return rules;
}

std::unique_ptr<Tokenizer> MakeGpt2(BpeArrays arrays, TextRules rules = Gpt2Rules()) {
  auto model = BpeModel::Make(std::move(arrays), "m");
  EXPECT_TRUE(model.ok()) << model.status().message();
  auto made = MakeBpeTokenizer(std::move(model).value(), std::move(rules), "");
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(made).value();
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
    const auto tokenizer = *MakeBpeTokenizer(std::move(model).value(), Gpt2Rules(), "");
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
  expect(Code::kMalformedModel, "piece " + next + " \"<�>\" is not valid UTF-8",
         [&](auto& bad) { add(bad, "<\xC3>", PieceType::kControl); });
  expect(Code::kLimitExceeded,
         "piece " + next + " " + Json(std::string(100, 'z')).Dump() + " is longer than 2048 bytes",
         [&](auto& bad) { add(bad, std::string(2049, 'z'), PieceType::kNormal); });
  expect(Code::kMalformedModel, "the bos token " + next + " is not in the vocabulary",
         [&](auto& bad) { bad.bos_id = static_cast<int32_t>(good.tokens.size()); });
  expect(Code::kMalformedModel, "the eos token 1000000 is not in the vocabulary",
         [](auto& bad) { bad.eos_id = 1000000; });
  expect(Code::kMalformedModel, "the eos token -2 is not in the vocabulary",
         [](auto& bad) { bad.eos_id = -2; });
}

TEST(BpeModelTest, MarksAndHolesAreNoText) {
  std::mt19937 rng(6);
  BpeArrays arrays = ArraysOf(InventVocabulary(rng));
  const int32_t first = static_cast<int32_t>(arrays.tokens.size());
  for (const PieceType type :
       {PieceType::kControl, PieceType::kUnused, PieceType::kUserDefined, PieceType::kUnknown}) {
    arrays.tokens.push_back("<" + std::to_string(arrays.tokens.size()) + ">");
    arrays.types.push_back(type);
  }
  arrays.tokens.push_back("");
  arrays.types.push_back(PieceType::kUnused);
  arrays.bos_id = first;
  arrays.how.ignore_merges = true;
  const auto model = BpeModel::Make(arrays, "m");
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->size(), static_cast<size_t>(first) + 5);
  const auto text = [&](int32_t id) { return arrays.tokens[static_cast<size_t>(id)]; };
  EXPECT_EQ(model->controls().Find(text(first)), first);
  EXPECT_EQ(model->controls().Find(text(first + 1)), -1);
  EXPECT_EQ(model->controls().Find(text(first + 2)), first + 2);
  EXPECT_EQ(model->controls().Find(text(first + 3)), first + 3);
  for (int32_t id = first; id < first + 5; ++id) {
    EXPECT_EQ(model->bytes()[static_cast<size_t>(id)], "");
    EXPECT_EQ(model->FindPiece(text(id)), -1);
  }
}

// --- Vocabularies with gaps, as llama.cpp takes them ---

// Pieces "a", "b", "c", "ab", " ", and what a test adds.
BpeArrays FewPieces() {
  BpeArrays arrays;
  for (const char* text : {"a", "b", "c", "ab", "\xC4\xA0"}) arrays.tokens.push_back(text);
  arrays.types.assign(arrays.tokens.size(), PieceType::kNormal);
  arrays.merges = {"a b"};
  return arrays;
}

TEST(BpeTokenizerTest, BytesWithoutAPieceBecomeNothingAndAreCounted) {
  const auto tokenizer = MakeGpt2(FewPieces());
  const auto tokens = tokenizer->Encode(
      "ab\x04\x04 é\x06"
      "c");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(TokensText(*tokens), "3[0,4) 4[4,8) 2[8,9) ");
  EXPECT_EQ(tokens->dropped_bytes, 5u);
  const auto leading = tokenizer->Encode("éa");
  EXPECT_EQ(TokensText(*leading), "0[0,3) ");
  EXPECT_EQ(leading->dropped_bytes, 2u);
  const auto nothing = tokenizer->Encode("xyz");
  EXPECT_TRUE(nothing->ids.empty());
  EXPECT_EQ(nothing->dropped_bytes, 3u);
}

// llama.cpp keeps such a byte until a word is merged; tokenizers drops it first.
TEST(BpeTokenizerTest, WhatHasNoPieceKeepsItsNeighboursApartOrNot) {
  BpeArrays arrays = FewPieces();
  EXPECT_EQ(MakeGpt2(arrays)->Encode("axb")->ids, (std::vector<int32_t>{0, 1}));
  arrays.how.drops_first = true;
  const auto tokens = MakeGpt2(arrays)->Encode("xaxbx");
  EXPECT_EQ(TokensText(*tokens), "3[0,5) ");
  EXPECT_EQ(tokens->dropped_bytes, 3u);
}

TEST(BpeTokenizerTest, DroppedBytesAreCountedOnceWhereAMergeMakesNoPiece) {
  BpeArrays arrays = FewPieces();
  arrays.merges = {"b c"};  // "bc" is no piece and comes apart again
  arrays.how.drops_first = true;
  const auto tokens = MakeGpt2(arrays)->Encode("bcx");
  EXPECT_EQ(tokens->ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(tokens->dropped_bytes, 1u);
}

// As BPE::merge_word of tokenizers: a character becomes its byte pieces before it is dropped.
TEST(BpeTokenizerTest, CharactersWithBytePiecesAreNotDropped) {
  BpeArrays arrays;
  arrays.how = {.is_byte_level = false, .drops_first = true};
  arrays.tokens = {"a", "<0xC3>", "<0xA9>"};
  arrays.types = {PieceType::kNormal, PieceType::kByte, PieceType::kByte};
  const auto tokens = MakeGpt2(arrays, {})->Encode("aéü");
  EXPECT_EQ(TokensText(*tokens), "0[0,1) 1[1,3) 2[1,5) ");
  EXPECT_EQ(tokens->dropped_bytes, 2u);
}

TEST(BpeTokenizerTest, BytesWithoutAPieceBecomeTheUnknownPieceWhereThereIsOne) {
  BpeArrays arrays = FewPieces();
  arrays.tokens.push_back("<unk>");
  arrays.types.push_back(PieceType::kControl);
  arrays.unknown_id = 5;
  EXPECT_EQ(TokensText(*MakeGpt2(arrays)->Encode("axxb")), "0[0,1) 5[1,2) 5[2,3) 1[3,4) ");
  arrays.how.joins_unknown = true;
  EXPECT_EQ(TokensText(*MakeGpt2(arrays)->Encode("axxb")), "0[0,1) 5[1,3) 1[3,4) ");
}

TEST(BpeTokenizerTest, MergesOfNoPieceJoinAndComeApart) {
  BpeArrays arrays = FewPieces();
  arrays.merges = {"b c", "a bc", "x a", "a b", "a", "a b c", "日 a", "a b", ""};
  arrays.tokens.push_back("abc");
  arrays.types.push_back(PieceType::kNormal);
  const auto tokenizer = MakeGpt2(arrays);
  EXPECT_EQ(tokenizer->Encode("bc")->ids, (std::vector<int32_t>{1, 2}));  // "bc" is no piece
  EXPECT_EQ(tokenizer->Encode("abc")->ids, (std::vector<int32_t>{5}));    // through "bc"
  const auto dropped = tokenizer->Encode("xab");  // "xa" comes first, and apart without its x
  EXPECT_EQ(dropped->ids, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(dropped->dropped_bytes, 1u);
}

TEST(BpeTokenizerTest, OfTwoMergesOfOnePairTheFirstCountsOrTheLast) {
  BpeArrays arrays = FewPieces();
  arrays.tokens.push_back("bc");
  arrays.types.push_back(PieceType::kNormal);
  arrays.merges = {"a b", "b c", "a b"};
  EXPECT_EQ(MakeGpt2(arrays)->Encode("abc")->ids, (std::vector<int32_t>{3, 2}));
  arrays.how.last_merge_wins = true;
  EXPECT_EQ(MakeGpt2(arrays)->Encode("abc")->ids, (std::vector<int32_t>{0, 5}));
}

TEST(BpeTokenizerTest, NoMergeMakesAControlToken) {
  BpeArrays arrays = FewPieces();
  for (const char* text : {"<", ">"}) {
    arrays.tokens.push_back(text);
    arrays.types.push_back(PieceType::kNormal);
  }
  arrays.tokens.push_back("<>");
  arrays.types.push_back(PieceType::kControl);
  arrays.merges = {"< >"};
  arrays.how.ignore_merges = true;
  EXPECT_EQ(MakeGpt2(arrays)->Encode("<>")->ids, (std::vector<int32_t>{5, 6}));
}

TEST(BpeTokenizerTest, OfTwoPiecesOfOneTextTheLaterCounts) {
  BpeArrays arrays = FewPieces();
  arrays.tokens.push_back("b");
  arrays.types.push_back(PieceType::kNormal);
  EXPECT_EQ(MakeGpt2(arrays)->Encode("ba")->ids, (std::vector<int32_t>{5, 0}));
}

TEST(BpeTokenizerTest, UnusedPiecesAreMadeUnlessTheyAreMarks) {
  BpeArrays arrays = FewPieces();
  arrays.types[3] = PieceType::kUnused;
  EXPECT_EQ(MakeGpt2(arrays)->Encode("ab")->ids, std::vector<int32_t>{3});
  arrays.tokens[3] = "[b";
  EXPECT_EQ(MakeGpt2(arrays)->Encode("ab")->ids, (std::vector<int32_t>{0, 1}));
}

TEST(BpeTokenizerTest, UserDefinedPiecesAreFoundFirstTheLongestBeforeAll) {
  BpeArrays arrays = FewPieces();
  TextRules rules = Gpt2Rules();
  for (const char* text : {"  ", "   ", "bc", "cab", "é", "<td>"}) {
    const auto id = static_cast<int32_t>(arrays.tokens.size());
    arrays.tokens.push_back(text);
    arrays.types.push_back(PieceType::kUserDefined);
    rules.literals.push_back({text, id});
  }
  EXPECT_EQ(TokensText(*MakeGpt2(arrays, rules)->Encode("abcab     é<td>a")),
            "0[0,1) 7[1,3) 3[3,5) 6[5,8) 5[8,10) 9[10,12) "
            "10[12,16) 0[16,17) ");
  rules.literal_order = LiteralOrder::kLongest;
  EXPECT_EQ(TokensText(*MakeGpt2(arrays, rules)->Encode("abcab     é<td>a")),
            "3[0,2) 8[2,5) 6[5,8) 5[8,10) 9[10,12) 10[12,16) 0[16,17) ");
  EXPECT_EQ(MakeGpt2(arrays, rules)->TokenBytes(9), "é");
}

// Pieces of plain text: Gemma 4's kind.
TEST(BpeTokenizerTest, PlainTextFallsBackToBytes) {
  BpeArrays arrays;
  arrays.how = {.is_byte_level = false, .joins_lines = true};
  for (const char* text :
       {"a", "\u2581", "\u2581a", "é", "\n", "\n\n", "<0xC3>", "<0xBC>", "<0x78>"}) {
    arrays.tokens.push_back(text);
    arrays.types.push_back(text[0] == '<' ? PieceType::kByte : PieceType::kNormal);
  }
  arrays.merges = {"\u2581 a"};
  TextRules rules;
  rules.normalizer.push_back(
      {.kind = NormalizerStep::Kind::kReplace, .pattern = " ", .content = "\u2581"});
  rules.words = StepsOf(WordPatternNamed("gemma4"));
  ASSERT_TRUE(WordsAreIndependent(arrays));
  rules.words.push_back({.kind = PreTokenizerStep::Kind::kSpaceMarks});
  const auto tokenizer = MakeGpt2(arrays, rules);
  const auto tokens = tokenizer->Encode("a a\n\n éüx\x01<0xC3>");
  EXPECT_EQ(TokensText(*tokens),
            "0[0,1) 2[1,3) 5[3,5) 1[5,6) 3[6,8) 6[8,10) 7[8,10) 8[10,14) "
            "8[14,18) ");
  EXPECT_EQ(tokens->dropped_bytes, 6u);
  EXPECT_EQ(tokenizer->TokenBytes(2), " a");
  EXPECT_EQ(tokenizer->TokenBytes(6), "\xC3");
  arrays.merges.push_back("a \u2581");
  EXPECT_FALSE(WordsAreIndependent(arrays));
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
    return MakeJsonTokenizer(root.Dump(), "dir/tokenizer.json").status();
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
      {"model", "type", "\"Unigram\"", malformed, "\"vocab\" is not a list"},
      {"model", "type", "\"WordPiece\"", unsupported,
       "model type \"WordPiece\"; supported: BPE, U"},
      {"model", "type", "7", unsupported, "model type 7; supported: BPE, Unigram"},
      {"model", "dropout", "0.1", unsupported, "dropout 0.1; supported: none"},
      {"model", "continuing_subword_prefix", "\"##\"", unsupported,
       "continuing_subword_prefix \"##\"; supported: none"},
      {"model", "end_of_word_suffix", "\"</w>\"", unsupported,
       "end_of_word_suffix \"</w>\"; supported: none"},
      {"model", "vocab", "[]", malformed, "\"vocab\" is not an object"},
      {"model", "vocab", "[7]", malformed, "piece 0 is 7, not a text and a score"},
      {"model", "vocab", "[[\"a\"]]", malformed, "piece 0 is [\"a\"], not a text and a score"},
      {"model", "vocab", "7", malformed, "\"vocab\" is not an object"},
      {"model", "vocab", "{\"a\":-1}", malformed, "the id of piece \"a\" is -1; it must be"},
      {"model", "vocab", "{\"a\":1048576}", malformed, "the id of piece \"a\" is 1048576"},
      {"model", "vocab", "{\"a\":\"1\"}", malformed, "the id of piece \"a\" is \"1\""},
      {"model", "vocab", "{\"a\":1,\"b\":1}", malformed,
       "pieces \"a\" and \"b\" both have the id 1"},
      {"model", "merges", "null", malformed, "\"merges\" is not a list"},
      {"model", "merges", "[7]", malformed, "merge 0 is 7, not two pieces"},
      {"model", "merges", "[[\"a\"]]", malformed, "merge 0 is [\"a\"], not two pieces"},
      {"model", "merges", "[[\"a\",7]]", malformed, "merge 0 is [\"a\",7], not two pieces"},
      {"", "added_tokens", "{}", malformed, "\"added_tokens\" is not a list"},
      {"", "added_tokens", "[{\"id\":1}]", malformed, "an added token has no \"content\""},
      {"", "added_tokens", "[{\"content\":\"<x>\"}]", malformed, "the id of piece \"<x>\" is null"},
      {"", "added_tokens", "[{\"content\":\"<x>\",\"id\":3}]", malformed,
       "and \"<x>\" both have the id 3"},
      {"", "normalizer", "{\"type\":\"BertNormalizer\"}", unsupported,
       "normalizer {\"type\":\"BertNormalizer\"}; supported: NFC"},
      {"", "normalizer", "7", unsupported, "normalizer 7; supported: NFC"},
      {"", "normalizer",
       "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Nmt\"}]}",
       unsupported, "normalizer {\"type\":\"Nmt\"}; supported: NFC"},
      {"", "normalizer", "{\"type\":\"Replace\",\"pattern\":7,\"content\":\"\"}", malformed,
       "the pattern 7 is no text and no expression"},
      {"", "normalizer", "{\"type\":\"Replace\",\"pattern\":\"a\"}", malformed,
       "a Replace has no \"content\""},
      {"", "normalizer", "{\"type\":\"Prepend\"}", malformed, "a Prepend has no \"prepend\""},
      {"", "normalizer", "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"}",
       unsupported, "the expression \"(\" cannot be used"},
      {"", "normalizer", "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"-\"}", malformed,
       "precompiled_charsmap is no base64"},
      {"", "normalizer", "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}", malformed,
       "precompiled_charsmap: it is too short"},
      {"", "pre_tokenizer", "{\"type\":\"BertPreTokenizer\"}", unsupported,
       "pre_tokenizer {\"type\":\"BertPreTokenizer\"}; supported: Split"},
      {"", "pre_tokenizer", "{\"type\":\"Metaspace\",\"replacement\":\"__\"}", malformed,
       "Metaspace: \"replacement\" is \"__\""},
      {"", "pre_tokenizer",
       "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":\"Isolated\"}",
       unsupported, "the expression \"[a&&b]\" cannot be used: sets are combined"},
      {"", "pre_tokenizer",
       "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Kept\"}", malformed,
       "the behavior \"Kept\" does not exist"},
      {"", "pre_tokenizer",
       "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Split\","
       "\"pattern\":{\"Regex\":\"\\\\s+\"},\"behavior\":\"Isolated\"}]}",
       unsupported, "behind ByteLevel"},
      {"", "post_processor", "{\"type\":\"Other\"}", unsupported,
       "post_processor {\"type\":\"Other\"}; supported: ByteLevel, TemplateProcessing"},
      {"", "post_processor", "{\"type\":\"BertProcessing\"}", malformed, "it has no \"cls\""},
      {"", "post_processor", "{\"type\":\"TemplateProcessing\",\"single\":[]}", malformed,
       "a template has no \"single\""},
      {"", "post_processor",
       "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<none>\"}}]}",
       malformed, "post_processor: \"<none>\" is no token"},
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
    const auto model = MakeJsonTokenizer(std::string_view(whole).substr(0, size), "m");
    ASSERT_FALSE(model.ok()) << size;
    EXPECT_EQ(model.status().code(), Code::kMalformedModel);
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
