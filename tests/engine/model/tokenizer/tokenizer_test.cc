#include "engine/model/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "engine/model/formats/json.h"
#include "engine/model/formats/text.h"
#include "engine/model/tokenizer/charsmap.h"
#include "engine/model/tokenizer/tokenizer_model.h"
#include "tests/engine/memory_env.h"

namespace lectern {
namespace {

const char kBundled[] = LECTERN_SOURCE_DIR "/tools/reader/model/tokenizer.model";
const char kUnigram[] = LECTERN_SOURCE_DIR "/tests/golden/tokenizer_unigram.model";
const char kMarked[] = LECTERN_SOURCE_DIR "/tests/golden/tokenizer_marks.model";

std::unique_ptr<Tokenizer> LoadFile(const std::string& path) {
  auto tokenizer = Tokenizer::Load(Env::Default(), path);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

Result<std::unique_ptr<Tokenizer>> LoadBytes(const std::string& bytes) {
  MemoryEnv env;
  env.files["m/tokenizer.model"] = bytes;
  return Tokenizer::Load(env, "m/tokenizer.model");
}

// --- Against Python's sentencepiece ---

class TokenizerGoldenTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<Json> golden =
        ParseJson(ReadWholeFile(LECTERN_SOURCE_DIR "/tests/golden/tokenizer_golden.json"));
    ASSERT_TRUE(golden.ok()) << golden.status().message();
    models_ = *golden->array();
    ASSERT_EQ(models_.size(), 3u);
  }
  static std::unique_ptr<Tokenizer> Load(const Json& model) {
    return LoadFile(LECTERN_SOURCE_DIR "/" + *model.Find("path")->string());
  }
  Json::Array models_;
};

TEST_F(TokenizerGoldenTest, IdsAndByteRangesAreThoseOfPython) {
  for (const Json& model : models_) {
    const auto tokenizer = Load(model);
    for (const Json& item : *model.Find("cases")->array()) {
      const std::string& text = *item.Find("text")->string();
      const bool continuation = *item.Find("continuation")->boolean();
      const Result<TokenizedText> ours =
          continuation ? tokenizer->EncodeContinuation(text) : tokenizer->Encode(text);
      ASSERT_TRUE(ours.ok()) << ours.status().message();
      Json::Array ids, ranges;
      for (const int32_t id : ours->ids) ids.emplace_back(id);
      for (const auto& range : ours->ranges) {
        ranges.emplace_back(Json::Array{range.begin, range.end});
      }
      EXPECT_EQ(Json(ids).Dump(), item.Find("ids")->Dump()) << Json(text).Dump();
      EXPECT_EQ(Json(ranges).Dump(), item.Find("ranges")->Dump())
          << Json(text).Dump() << " continuation " << continuation;
    }
  }
}

TEST_F(TokenizerGoldenTest, TokenBytesAreWhatPythonDecodes) {
  for (const Json& model : models_) {
    const auto tokenizer = Load(model);
    EXPECT_EQ(tokenizer->vocab_size(), *model.Find("vocab_size")->unsigned_integer());
    EXPECT_EQ(tokenizer->bos_id(), *model.Find("bos")->integer());
    EXPECT_EQ(tokenizer->eos_id(), *model.Find("eos")->integer());
    const Json::Array& pieces = *model.Find("pieces")->array();
    for (size_t id = 0; id < pieces.size(); ++id) {
      if (pieces[id].is_null()) continue;  // a byte piece
      EXPECT_EQ(tokenizer->TokenBytes(static_cast<int32_t>(id)), *pieces[id].string()) << id;
    }
    EXPECT_EQ(tokenizer->TokenBytes(-1), "");
    EXPECT_EQ(tokenizer->TokenBytes(static_cast<int32_t>(pieces.size())), "");
  }
}

// --- Ranges on random text ---

std::string AppendCodePoint(std::string text, uint32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0 | c >> 12);
    text += static_cast<char>(0x80 | (c >> 6 & 63));
  } else {
    text += static_cast<char>(0xF0 | c >> 18);
    text += static_cast<char>(0x80 | (c >> 12 & 63));
    text += static_cast<char>(0x80 | (c >> 6 & 63));
  }
  if (c >= 0x80) text += static_cast<char>(0x80 | (c & 63));
  return text;
}

std::string RandomText(std::mt19937& rng) {
  constexpr uint32_t kSpecial[] = {0,      9,       10,     13,       32,     32,
                                   'a',    'e',     '<',    '>',      0x2581, 0x200B,
                                   0xFB01, 0x1F600, 0xFFFD, 0x10FFFF, 0xFDFA};
  std::string text;
  const int length = static_cast<int>(rng() % 60);
  for (int i = 0; i < length; ++i) {
    uint32_t c = rng() % 3 == 0 ? 32 + rng() % 95 : kSpecial[rng() % std::size(kSpecial)];
    if (rng() % 10 == 0) c = rng() % 0xD800;
    text = AppendCodePoint(std::move(text), c);
  }
  return text;
}

void ExpectRangesCover(const TokenizedText& tokens, std::string_view text) {
  ASSERT_EQ(tokens.ids.size(), tokens.ranges.size());
  if (tokens.ids.empty()) return;
  EXPECT_EQ(tokens.ranges.front().begin, 0u);
  EXPECT_EQ(tokens.ranges.back().end, text.size());
  for (size_t i = 0; i < tokens.ranges.size(); ++i) {
    const auto& range = tokens.ranges[i];
    EXPECT_LE(range.begin, range.end);
    for (const uint64_t at : {range.begin, range.end}) {  // between characters
      EXPECT_TRUE(at == text.size() || (static_cast<uint8_t>(text[at]) & 0xC0) != 0x80);
    }
    if (i == 0) continue;
    EXPECT_GE(range.begin, tokens.ranges[i - 1].begin);
    EXPECT_GE(range.end, tokens.ranges[i - 1].end);
    EXPECT_LE(range.begin, tokens.ranges[i - 1].end);  // no byte between them is left out
  }
}

TEST(TokenizerTest, RangesAscendAndCoverEveryByteOfRandomText) {
  for (const char* path : {kBundled, kUnigram, kMarked}) {
    const auto tokenizer = LoadFile(path);
    std::mt19937 rng(20240607);
    for (int i = 0; i < 3000; ++i) {
      const std::string text = RandomText(rng);
      const auto beginning = tokenizer->Encode(text);
      ASSERT_TRUE(beginning.ok()) << beginning.status().message();
      ExpectRangesCover(*beginning, text);
      const auto continuation = tokenizer->EncodeContinuation(text);
      ASSERT_TRUE(continuation.ok()) << continuation.status().message();
      ExpectRangesCover(*continuation, text);
      if (testing::Test::HasFailure()) FAIL() << path << " " << Json(text).Dump();
    }
  }
}

TEST(TokenizerTest, TokensOfRandomTextStreamBackToTheText) {
  const auto tokenizer = LoadFile(kBundled);
  std::mt19937 rng(5);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = RandomText(rng);
    if (text.find("\xE2\x96\x81") != std::string::npos) continue;  // ▁ is a space afterwards
    TokenStream with_prefix(*tokenizer, /*strip_leading_space=*/true);
    TokenStream plain(*tokenizer, /*strip_leading_space=*/false);
    std::string first, second;
    const auto beginning = tokenizer->Encode(text),
               continuation = tokenizer->EncodeContinuation(text);
    for (const int32_t id : beginning->ids) first += with_prefix.Push(id);
    for (const int32_t id : continuation->ids) second += plain.Push(id);
    EXPECT_EQ(first + with_prefix.Flush(), text);
    EXPECT_EQ(second + plain.Flush(), text);
  }
}

TEST(TokenizerTest, LongRunsAreFastAndWhole) {
  const auto tokenizer = LoadFile(kBundled);
  for (const std::string& unit : {std::string("a"), std::string("\0", 1), std::string("😀"),
                                  std::string(" "), std::string("\r\n")}) {
    std::string text;
    while (text.size() < 100000) text += unit;
    const auto tokens = tokenizer->Encode(text);
    ASSERT_TRUE(tokens.ok()) << tokens.status().message();
    ExpectRangesCover(*tokens, text);
  }
}

TEST(TokenizerTest, ContinuationHasNoDummyPrefix) {
  const auto tokenizer = LoadFile(kBundled);
  const auto bytes = [&](const TokenizedText& tokens) {
    std::string all;
    for (const int32_t id : tokens.ids) all += tokenizer->TokenBytes(id);
    return all;
  };
  EXPECT_EQ(bytes(*tokenizer->Encode("Hello")), " Hello");
  EXPECT_EQ(bytes(*tokenizer->EncodeContinuation("Hello")), "Hello");
  EXPECT_EQ(bytes(*tokenizer->EncodeContinuation(" Hello")), " Hello");
  EXPECT_TRUE(tokenizer->Encode("")->ids.empty());
}

TEST(TokenizerTest, ControlPiecesInTextAreOrdinaryCharacters) {
  const auto tokenizer = LoadFile(kBundled);
  for (const std::string text : {"<s>", "</s>", "<unk>", "a<s>b</s>", "<0x00><0x41>", "<s></s>"}) {
    const auto tokens = tokenizer->EncodeContinuation(text);
    std::string all;
    for (const int32_t id : tokens->ids) {
      EXPECT_NE(id, tokenizer->bos_id()) << text;
      EXPECT_NE(id, tokenizer->eos_id()) << text;
      EXPECT_NE(id, 0) << text;
      all += tokenizer->TokenBytes(id);
    }
    EXPECT_EQ(all, text);
  }
}

// User-defined in the file, where the library would find them in any text.
TEST(TokenizerTest, MarksAreReachedByIdAndNeverFromText) {
  const auto tokenizer = LoadFile(kMarked);
  const std::vector<std::string> marks = {"<start_of_turn>", "<end_of_turn>", "<mask>",
                                          "<unused0>",       "[@BOS@]",       "<s>"};
  std::vector<int32_t> ids = {tokenizer->bos_id(), tokenizer->eos_id()};
  for (const std::string& mark : marks) {
    ids.push_back(tokenizer->ControlId(mark));
    EXPECT_GE(ids.back(), 0) << mark;
    EXPECT_EQ(tokenizer->TokenBytes(ids.back()), "") << mark;
  }
  EXPECT_EQ(tokenizer->ControlId("<table>"), -1);
  EXPECT_EQ(tokenizer->ControlId("\n\n"), -1);
  std::mt19937 rng(11);
  for (int i = 0; i < 2000; ++i) {
    std::string text = RandomText(rng), back;
    for (unsigned n = rng() % 4; n > 0; --n) {
      const std::string& mark = marks[rng() % marks.size()];
      text.insert(rng() % 2 == 0 ? 0 : text.size(), mark.substr(0, mark.size() - rng() % 2));
    }
    if (text.find("\xE2\x96\x81") != std::string::npos) continue;  // ▁ is a space afterwards
    const auto tokens = tokenizer->Encode(text);
    ASSERT_TRUE(tokens.ok()) << tokens.status().message();
    ExpectRangesCover(*tokens, text);
    for (const int32_t id : tokens->ids) {
      EXPECT_EQ(std::count(ids.begin(), ids.end(), id), 0) << Json(text).Dump();
      back += tokenizer->TokenBytes(id);
    }
    EXPECT_EQ(back, text);
  }
}

TEST(TokenizerTest, InvalidUtf8AndHugeTextAreTypedErrors) {
  const auto tokenizer = LoadFile(kBundled);
  EXPECT_EQ(tokenizer->Encode("a\xFF").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(tokenizer->Encode("\xF0\x9F").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(tokenizer->Encode(std::string((16 << 20) + 1, 'a')).status().code(),
            Code::kLimitExceeded);
}

TEST(TokenizerTest, HashSeesTheFile) {
  const std::string bytes = ReadWholeFile(kBundled);
  const auto digest = [](const std::string& file) {
    Sha256 hash;
    (*LoadBytes(file))->AddTo(hash);
    return hash.Finish();
  };
  EXPECT_EQ(digest(bytes), digest(bytes));
  // An unknown field at the end changes the file but not the vocabulary.
  EXPECT_NE(digest(bytes), digest(bytes + "\x92\x03\x01x"));
}

TEST(TokenizerTest, MissingFileIsNamed) {
  const auto tokenizer = Tokenizer::Load(Env::Default(), "/nonexistent/tokenizer.model");
  EXPECT_EQ(tokenizer.status().code(), Code::kMissingFile);
}

// --- TokenStream ---

TEST(TokenStreamTest, HoldsBackUnfinishedCharacters) {
  const auto tokenizer = LoadFile(kBundled);
  const auto byte = [](int value) { return 3 + value; };  // ids of <0x00>.. in this vocabulary
  TokenStream stream(*tokenizer, false);
  EXPECT_EQ(stream.Push(byte(0xF0)), "");
  EXPECT_EQ(stream.Push(byte(0x9F)), "");
  EXPECT_EQ(stream.Push(byte(0x98)), "");
  EXPECT_EQ(stream.Push(byte(0x80)), "😀");
  EXPECT_EQ(stream.Push(byte(0xC3)), "");
  EXPECT_EQ(stream.Push(byte('x')), "\xEF\xBF\xBDx");  // can never be completed
  EXPECT_EQ(stream.Push(byte(0x80)), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.Push(byte(0xE2)), "");
  EXPECT_EQ(stream.Push(byte(0x82)), "");
  EXPECT_EQ(stream.Flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(TokenStreamTest, DropsOnlyTheFirstSpaceOfTheStream) {
  const auto tokenizer = LoadFile(kBundled);
  const std::vector<int32_t> ids = tokenizer->EncodeContinuation("  two words")->ids;
  TokenStream stripped(*tokenizer, true), kept(*tokenizer, false);
  std::string a = stripped.Push(tokenizer->bos_id()), b;  // control pieces are nothing
  for (const int32_t id : ids) a += stripped.Push(id), b += kept.Push(id);
  EXPECT_EQ(a, " two words");
  EXPECT_EQ(b, "  two words");
}

TEST(TokenStreamTest, AnyTokensGiveValidUtf8AtEveryStep) {
  const auto tokenizer = LoadFile(kBundled);
  std::mt19937 rng(1);
  TokenStream stream(*tokenizer, true);
  for (int i = 0; i < 100000; ++i) {
    const int32_t id = static_cast<int32_t>(rng() % (i % 2 == 0 ? 259 : 2100));
    EXPECT_TRUE(IsValidUtf8(stream.Push(id)));
  }
}

// --- The file format ---

TokenizerModel SmallModel() {
  TokenizerModel model;
  model.kind = TokenizerModel::Kind::kBpe;
  model.pieces = {{"<unk>", 0, PieceType::kUnknown}, {"<s>", 0, PieceType::kControl},
                  {"</s>", 0, PieceType::kControl},  {"a", -1, PieceType::kNormal},
                  {"b", -2, PieceType::kNormal},     {"ab", -3, PieceType::kNormal}};
  return model;
}

std::string Bytes(const TokenizerModel& model) { return SerializeTokenizerModel(model, true); }

void AddBytePieces(TokenizerModel* model, int count) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (int i = 0; i < count; ++i) {
    const std::string text = {'<', '0', 'x', kHex[i >> 4], kHex[i & 15], '>'};
    model->pieces.push_back({text, 0, PieceType::kByte});
  }
}

TEST(TokenizerModelTest, SurvivesWritingAndReading) {
  TokenizerModel model = SmallModel();
  model.byte_fallback = true;
  model.remove_extra_whitespaces = false;
  AddBytePieces(&model, 256);
  const Result<TokenizerModel> again = ParseTokenizerModel(Bytes(model), "m");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(Bytes(*again), Bytes(model));
  EXPECT_EQ(again->pieces[3].score, -1.0f);
  EXPECT_EQ(again->pieces[6 + 0x41].byte(), 0x41);
  EXPECT_TRUE(LoadBytes(Bytes(model)).ok());
}

TEST(TokenizerModelTest, MarksOfModelsFromElsewhereAreControlPieces) {
  TokenizerModel model = SmallModel();
  for (const char* text : {"<|end|>", "[INST]", "</h1>", "<a b>", "\n\n"}) {
    model.pieces.push_back({text, 0, PieceType::kUserDefined});
  }
  const auto tokenizer = Tokenizer::Make(model, "m.gguf");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->ControlId("<|end|>"), 6);
  EXPECT_EQ((*tokenizer)->ControlId("[INST]"), 7);
  EXPECT_EQ((*tokenizer)->ControlId("</h1>"), -1);
  EXPECT_EQ((*tokenizer)->ControlId("<a b>"), 9);
  const auto ids = (*tokenizer)->EncodeContinuation("a<|end|>[INST]</h1>\n\n<a b>b")->ids;
  const auto count = [&](int32_t id) { return std::count(ids.begin(), ids.end(), id); };
  EXPECT_EQ(count(6) + count(7) + count(9), 0);
  EXPECT_EQ(count(8), 1);
  EXPECT_EQ(count(10), 1);
}

TEST(TokenizerModelTest, LaterFieldsWinAsInProtobuf) {
  const std::string bytes = Bytes(SmallModel()) + std::string("\x1a\x02\x18\x00", 4);
  EXPECT_TRUE(ParseTokenizerModel(Bytes(SmallModel()), "m")->add_dummy_prefix);
  EXPECT_FALSE(ParseTokenizerModel(bytes, "m")->add_dummy_prefix);
  EXPECT_TRUE(ParseTokenizerModel(bytes, "m")->remove_extra_whitespaces);
}

struct BadModel {
  std::string name;
  std::function<void(TokenizerModel&)> spoil;
  Code code;
  std::string word;
};

TEST(TokenizerModelTest, RefusesEachMalformedVocabularyWithItsReason) {
  using M = TokenizerModel;
  constexpr Code kMalformed = Code::kMalformedModel, kUnsupported = Code::kUnsupportedModel;
  const auto add = [](const std::string& text, PieceType type, float score = 0) {
    return [=](M& m) { m.pieces.push_back({text, score, type}); };
  };
  const std::string charsmap_head("\x04\0\0\0", 4);
  const BadModel cases[] = {
      {"long", add(std::string(1025, 'x'), PieceType::kNormal), Code::kLimitExceeded, "1024"},
      {"200 KB", add(std::string(200000, 'x'), PieceType::kNormal), Code::kLimitExceeded, "1024"},
      {"empty", add("", PieceType::kNormal), kMalformed, "piece 6"},
      {"not UTF-8", add("\xC3", PieceType::kNormal), kMalformed, "UTF-8"},
      {"NaN", add("x", PieceType::kNormal, std::nanf("")), kMalformed, "finite"},
      {"inf", add("x", PieceType::kNormal, -std::numeric_limits<float>::infinity()), kMalformed,
       "finite"},
      {"type 7", add("x", static_cast<PieceType>(7)), kMalformed, "piece type 7"},
      {"type 0", add("x", static_cast<PieceType>(0)), kMalformed, "piece type 0"},
      {"twice", add("ab", PieceType::kNormal), kMalformed, "\"ab\" appears twice"},
      {"twice, other type", add("<s>", PieceType::kNormal), kMalformed, "twice"},
      {"two unknown", add("<unk2>", PieceType::kUnknown), kMalformed, "second unknown"},
      {"no unknown", [](M& m) { m.pieces.erase(m.pieces.begin()); }, kMalformed, "no unknown"},
      {"no pieces", [](M& m) { m.pieces.clear(); }, kMalformed, "no unknown"},
      {"bytes, no fallback", [](M& m) { AddBytePieces(&m, 256); }, kMalformed, "256 byte pieces"},
      {"255 bytes",
       [](M& m) {
         m.byte_fallback = true;
         AddBytePieces(&m, 255);
       },
       kMalformed, "255 byte pieces"},
      {"fallback, no bytes", [](M& m) { m.byte_fallback = true; }, kMalformed, "0 byte pieces"},
      {"bad byte", add("<0x-1>", PieceType::kByte), kMalformed, "<0xNN>"},
      {"lower-case byte", add("<0xff>", PieceType::kByte), kMalformed, "<0xNN>"},
      {"word", [](M& m) { m.kind = static_cast<M::Kind>(3); }, kUnsupported, "word"},
      {"char", [](M& m) { m.kind = static_cast<M::Kind>(4); }, kUnsupported, "char"},
      {"model type 9", [](M& m) { m.kind = static_cast<M::Kind>(9); }, kUnsupported, "9"},
      {"charsmap of 1 byte", [](M& m) { m.charsmap = "x"; }, kMalformed, "charsmap"},
      {"charsmap cut", [&](M& m) { m.charsmap = charsmap_head + "xxxx"; }, kMalformed, "cut short"},
      {"charsmap of one unit", [&](M& m) { m.charsmap = charsmap_head + "xxxxyyyy"; }, kMalformed,
       "leaves the table"},
      {"charsmap of 3 bytes", [](M& m) { m.charsmap = std::string("\x03\0\0\0abcd", 8); },
       kMalformed, "size"},
  };
  for (const BadModel& bad : cases) {
    M model = SmallModel();
    bad.spoil(model);
    const auto tokenizer = LoadBytes(Bytes(model));
    ASSERT_FALSE(tokenizer.ok()) << bad.name;
    const std::string& message = tokenizer.status().message();
    EXPECT_EQ(tokenizer.status().code(), bad.code) << bad.name << ": " << message;
    EXPECT_NE(message.find(bad.word), std::string::npos) << message << " lacks " << bad.word;
    EXPECT_NE(message.find("m/tokenizer.model"), std::string::npos) << message;
  }
}

TEST(TokenizerModelTest, RefusesEachMalformedProtobufWithItsOffset) {
  constexpr Code kMalformed = Code::kMalformedModel;
  const std::string good = Bytes(SmallModel());
  const struct {
    std::string tail;
    Code code;
    std::string word;
  } cases[] = {
      {"\x0a", kMalformed, "not a SentencePiece model at byte"},
      {"\x0a\x05"
       "ab",
       kMalformed, "not a SentencePiece model"},
      {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", kMalformed, "not a SentencePiece model"},
      {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", kMalformed, "not a SentencePiece model"},
      {"\x0b\x0c", kMalformed, "not a SentencePiece model"},                  // a group
      {std::string("\x02\x00", 2), kMalformed, "not a SentencePiece model"},  // field 0
      {std::string("\x0a\x05\x12\x00\x00\x00\x00", 7), kMalformed, ""},
  };
  for (const auto& bad : cases) {
    const auto model = ParseTokenizerModel(good + bad.tail, "m");
    ASSERT_FALSE(model.ok()) << bad.word;
    EXPECT_EQ(model.status().code(), bad.code) << model.status().message();
    EXPECT_NE(model.status().message().find(bad.word), std::string::npos)
        << model.status().message();
  }
}

// Every field that is read, with the wire type of another.
TEST(TokenizerModelTest, NamesEachFieldOfTheWrongWireType) {
  const std::string varint("\x01", 1), bytes("\x01x", 2), fixed64("12345678", 8);
  const auto field = [](int number, int wire, const std::string& value) {
    std::string tag(1, static_cast<char>((number << 3 | wire) & 0x7F));
    if (number > 15) {
      tag[0] = static_cast<char>(tag[0] | 0x80);
      tag.push_back(static_cast<char>(number >> 4));
    }
    return tag + value;
  };
  const auto nested = [&](int number, const std::string& message) {
    return field(number, 2, static_cast<char>(message.size()) + message);
  };
  const struct {
    std::string tail, word;
  } cases[] = {
      {field(1, 0, varint), "field 1 (pieces) has wire type 0"},
      {nested(1, field(1, 0, varint)), "field 1 (piece) has wire type 0"},
      {nested(1, field(2, 0, varint)), "field 2 (score) has wire type 0"},
      {nested(1, field(2, 1, fixed64)), "field 2 (score) has wire type 1"},
      {nested(1, field(3, 2, bytes)), "field 3 (type) has wire type 2"},
      {field(2, 0, varint), "field 2 (trainer_spec) has wire type 0"},
      {nested(2, field(3, 2, bytes)), "field 3 (model_type) has wire type 2"},
      {nested(2, field(24, 2, bytes)), "field 24 (treat_whitespace_as_suffix) has wire type 2"},
      {nested(2, field(35, 2, bytes)), "field 35 (byte_fallback) has wire type 2"},
      {nested(2, field(46, 0, varint)), "field 46 (bos_piece) has wire type 0"},
      {nested(2, field(47, 0, varint)), "field 47 (eos_piece) has wire type 0"},
      {field(3, 0, varint), "field 3 (normalizer_spec) has wire type 0"},
      {nested(3, field(2, 0, varint)), "field 2 (precompiled_charsmap) has wire type 0"},
      {nested(3, field(3, 2, bytes)), "field 3 (add_dummy_prefix) has wire type 2"},
      {nested(3, field(4, 2, bytes)), "field 4 (remove_extra_whitespaces) has wire type 2"},
      {nested(3, field(5, 1, fixed64)), "field 5 (escape_whitespaces) has wire type 1"},
  };
  const std::string good = Bytes(SmallModel());
  for (const auto& bad : cases) {
    const Status status = ParseTokenizerModel(good + bad.tail, "dir/tokenizer.model").status();
    EXPECT_EQ(status.code(), Code::kMalformedModel) << bad.word;
    EXPECT_TRUE(status.message().starts_with("dir/tokenizer.model: ")) << status.message();
    EXPECT_NE(status.message().find(bad.word), std::string::npos) << status.message();
  }
}

TEST(TokenizerModelTest, SizesAreLimitedBeforeAnythingIsMade) {
  std::string pieces;
  for (size_t i = 0; i < (size_t{1} << 20) + 1; ++i) pieces += std::string("\x0a\x00", 2);
  const struct {
    std::string bytes, word;
  } cases[] = {{std::string((size_t{64} << 20) + 1, '\0'), "larger than 67108864 bytes"},
               {pieces, "more than 1048576 pieces"}};
  for (const auto& bad : cases) {
    const Status status = ParseTokenizerModel(bad.bytes, "dir/tokenizer.model").status();
    EXPECT_EQ(status.code(), Code::kLimitExceeded) << status.message();
    EXPECT_EQ(status.message(), "dir/tokenizer.model: " + bad.word);
  }
}

// Bytes may only be missing after the last field that matters.
TEST(TokenizerModelTest, EveryTruncationIsATypedErrorOrChangesNothing) {
  for (const char* path : {kBundled, kUnigram}) {
    const std::string bytes = ReadWholeFile(path);
    const std::string whole = Bytes(*ParseTokenizerModel(bytes, "m"));
    const size_t step = bytes.size() > 10000 ? 13 : 1;  // the time is quadratic
    for (size_t length = 0; length < bytes.size(); length += step) {
      const Result<TokenizerModel> model = ParseTokenizerModel(bytes.substr(0, length), "m");
      if (model.ok()) {
        EXPECT_EQ(Bytes(*model), whole) << length;
      } else {
        EXPECT_EQ(model.status().code(), Code::kMalformedModel) << length;
      }
    }
  }
}

TEST(TokenizerModelTest, SurvivesByteFlipsOfTheUnigramModelThroughLoadAndEncode) {
  const std::string bytes = ReadWholeFile(kUnigram);
  std::mt19937 rng(99);
  size_t loaded = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string flipped = bytes;
    for (unsigned flips = 1 + rng() % 3; flips > 0; --flips) {
      flipped[rng() % flipped.size()] = static_cast<char>(rng());
    }
    const auto tokenizer = LoadBytes(flipped);
    if (!tokenizer.ok()) continue;
    ++loaded;
    const std::string text = RandomText(rng);
    const auto tokens = (*tokenizer)->Encode(text);
    if (tokens.ok()) ExpectRangesCover(*tokens, text);
  }
  EXPECT_GT(loaded, 100u);
}

// --- Charsmap ---

void SetUnit(std::string& charsmap, size_t unit, uint32_t bits) {
  for (size_t i = 0; i < 4; ++i) charsmap[4 + 4 * unit + i] = static_cast<char>(bits >> (8 * i));
}

std::string WithUnit(std::string charsmap, size_t unit, uint32_t bits) {
  SetUnit(charsmap, unit, bits);
  return charsmap;
}

// 512 units that map "a" to "b", made by hand: the root's children are at base 1; 'a' (0x61) is
// unit 0x60 = 1 ^ 0x61, has a leaf, and its own base is 0x60 ^ 0x40 = 0x20 where its value lies.
std::string HandMadeCharsmap() {
  std::string charsmap =
      std::string("\0\x08\0\0", 4) + std::string(2048, '\0') + std::string("b\0", 2);
  for (size_t unit = 0; unit < 512; ++unit) charsmap = WithUnit(charsmap, unit, 0xFFu | 1u << 31);
  charsmap = WithUnit(charsmap, 0, 1u << 10);
  charsmap = WithUnit(charsmap, 0x60, 0x40u << 10 | 1u << 8 | 0x61);
  return WithUnit(charsmap, 0x20, 1u << 31 | 0);
}

TEST(CharsmapTest, WellFormedMapIsUsed) {
  EXPECT_EQ(FindCharsmapFault(HandMadeCharsmap()), std::nullopt);
  TokenizerModel model = SmallModel();
  model.charsmap = HandMadeCharsmap();
  const auto tokenizer = LoadBytes(Bytes(model));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->EncodeContinuation("ab")->ids, (std::vector<int32_t>{4, 4}));
}

TEST(CharsmapTest, RefusesEveryWayToLeaveTheTable) {
  const std::string good = HandMadeCharsmap();
  const auto fault = [](const std::string& charsmap) {
    return FindCharsmapFault(charsmap).value_or("none");
  };
  EXPECT_EQ(fault(WithUnit(good, 0, 0x200u << 10)), "a transition leaves the table");
  EXPECT_EQ(fault(WithUnit(good, 0, 1u << 9 | 0x1FFFFFu << 10)), "a transition leaves the table");
  EXPECT_EQ(fault(WithUnit(good, 0x60, 0x3FF0u << 10 | 1u << 8 | 0x61)),
            "a transition leaves the table");
  EXPECT_EQ(fault(WithUnit(good, 0x20, 1u << 31 | 2)), "a replacement lies outside the table");
  EXPECT_EQ(fault(WithUnit(good, 0x20, 0xFFFFFFFFu)), "a replacement lies outside the table");
  EXPECT_EQ(fault(good.substr(0, good.size() - 1)), "a replacement is too long or has no end");
  // 'a' leads back to where it came from: "aaaa…" would match without end.
  EXPECT_EQ(fault(WithUnit(good, 0x60, 0x61u << 10 | 0x61)), "its table has a cycle");
  std::string bad_text = good;
  bad_text[bad_text.size() - 2] = '\xFF';
  EXPECT_EQ(fault(bad_text), "a replacement is not valid UTF-8");
  // A lead byte alone as a key: would cut a character.
  std::string half = WithUnit(good, 1 ^ 0xC3, (0x20u ^ (1u ^ 0xC3u)) << 10 | 1u << 8 | 0xC3);
  EXPECT_EQ(fault(half), "a key ends inside a character");
}

// "aaa…" of that length, and where `each` all shorter ones too, are keys.
std::string Chain(size_t length, bool each) {
  const uint32_t num_bytes = static_cast<uint32_t>(length + 1) * 1024;
  std::string charsmap(reinterpret_cast<const char*>(&num_bytes), 4);
  charsmap += std::string(num_bytes, '\0') + std::string("b\0", 2);
  for (size_t unit = 0; unit < num_bytes / 4; ++unit) SetUnit(charsmap, unit, ~0u);
  SetUnit(charsmap, 0, 1u << 10);
  for (uint32_t i = 0; i < length; ++i) {
    const uint32_t child = (256 * i + 1) ^ 'a', next = 256 * (i + 1) + 1;
    const bool is_key = each || i + 1 == length;
    SetUnit(charsmap, child, (child ^ next) << 10 | (is_key ? 1u << 8 : 0) | 'a');
    SetUnit(charsmap, next, 1u << 31);
  }
  return charsmap;
}

TEST(CharsmapTest, RefusesWhatWouldMatchTooLongOrTooOften) {
  EXPECT_EQ(FindCharsmapFault(Chain(32, true)), std::nullopt);
  EXPECT_EQ(FindCharsmapFault(Chain(33, true)), "too many keys begin alike");
  EXPECT_EQ(FindCharsmapFault(Chain(128, false)), std::nullopt);
  EXPECT_EQ(FindCharsmapFault(Chain(129, false)), "a key is too long");
  const uint32_t num_bytes = ((1u << 20) + 256) * 4;
  const std::string huge(reinterpret_cast<const char*>(&num_bytes), 4);
  EXPECT_EQ(FindCharsmapFault(huge + std::string(num_bytes, '\0') + "b"),
            "the size of its table is wrong");
}

TEST(CharsmapTest, EveryTruncationIsRefused) {
  const std::string good = HandMadeCharsmap();
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_TRUE(FindCharsmapFault(good.substr(0, length)).has_value()) << length;
  }
}

}  // namespace
}  // namespace lectern
