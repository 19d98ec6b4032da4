#include "engine/model/formats/gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "tests/engine/memory_env.h"

namespace lectern {
namespace {

std::string GoldenFile(const std::string& name) {
  return ReadWholeFile(LECTERN_SOURCE_DIR "/tests/golden/gguf/" + name);
}

constexpr auto kNoLoad = [](uint64_t, uint64_t) { return Status(); };

Result<GgufTable> Parse(std::string_view file) {
  return ParseGguf(std::as_bytes(std::span(file)), "m.gguf", kNoLoad);
}

// ---- What PyPI's gguf wrote (tests/golden/make_gguf_golden.py)

TEST(GgufTest, ReadsEveryKindOfKey) {
  const std::string file = GoldenFile("keys.gguf");
  const auto table = Parse(file);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->version, 3u);
  EXPECT_EQ(*table->Find<std::string_view>("general.architecture"), "llama");
  EXPECT_EQ(*table->Find<uint64_t>("a.u8"), 200u);
  EXPECT_EQ(*table->Find<int64_t>("a.i8"), -100);
  EXPECT_EQ(*table->Find<uint64_t>("a.u16"), 60000u);
  EXPECT_EQ(*table->Find<int64_t>("a.i16"), -30000);
  EXPECT_EQ(*table->Find<uint64_t>("a.u32"), 4000000000u);
  EXPECT_EQ(*table->Find<int64_t>("a.i32"), -2000000000);
  EXPECT_EQ(*table->Find<uint64_t>("a.u64"), uint64_t{1} << 60);
  EXPECT_EQ(*table->Find<int64_t>("a.i64"), -(int64_t{1} << 60));
  EXPECT_EQ(*table->Find<double>("a.f32"), 0.5);
  EXPECT_EQ(*table->Find<double>("a.f64"), 1e-300);
  EXPECT_TRUE(*table->Find<bool>("a.bool"));
  EXPECT_EQ(*table->Find<std::string_view>("a.string"), "a “quoted” line\n");
  EXPECT_EQ(table->Find<GgufArray>("a.strings")->Strings(),
            (std::vector<std::string_view>{"one", "", "three"}));
  EXPECT_EQ(table->Find<GgufArray>("a.ints")->Numbers(), (std::vector<double>{1, -2, 3}));
  EXPECT_EQ(table->Find<GgufArray>("a.floats")->Numbers(), (std::vector<double>{0.25, -4}));
  EXPECT_EQ(table->Find<bool>("a.u8"), nullptr);
  EXPECT_EQ(table->Find<uint64_t>("nothing"), nullptr);
  EXPECT_EQ(table->Whole("general.alignment"), 64u);
  EXPECT_EQ(table->Whole("a.i8"), std::nullopt);
}

TEST(GgufTest, ShowsValuesAsAReaderWritesThem) {
  EXPECT_EQ(lectern::Shown(uint64_t{32}), "32");
  EXPECT_EQ(lectern::Shown(int64_t{-7}), "-7");
  EXPECT_EQ(lectern::Shown((uint64_t{1} << 60) + 1), "1152921504606846977");
  EXPECT_EQ(lectern::Shown(0.5), "0.5");
  EXPECT_EQ(lectern::Shown(true), "true");
  EXPECT_EQ(lectern::Shown(std::string_view("llama")), "\"llama\"");
  EXPECT_EQ(lectern::Shown(GgufArray()), "[…]");
}

TEST(GgufTest, PlacesTensors) {
  const std::string file = GoldenFile("keys.gguf");
  const auto table = Parse(file);
  ASSERT_TRUE(table.ok());
  ASSERT_EQ(table->tensors.size(), 2u);
  const GgufTensor &matrix = table->tensors.at("matrix"), &blocks = table->tensors.at("blocks");
  EXPECT_EQ(matrix.shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(GgufTypeName(matrix.type), "F32");
  EXPECT_EQ(blocks.shape, (std::vector<uint64_t>{2, 64}));
  EXPECT_EQ(GgufTypeName(blocks.type), "Q4_0");
  EXPECT_EQ(blocks.end - blocks.begin, 4u * 18);
  EXPECT_EQ(matrix.begin % 64, 0u);
  float values[6];
  std::memcpy(values, file.data() + matrix.begin, sizeof values);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(values[i], i);
}

TEST(GgufTest, VersionTwoIsTheSame) {
  std::string file = GoldenFile("keys.gguf");
  file[4] = 2;
  const auto table = Parse(file);
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->version, 2u);
  EXPECT_EQ(table->keys.size(), Parse(GoldenFile("keys.gguf"))->keys.size());
}

TEST(GgufTest, LoadsWhatItReadsAndNotTheData) {
  const std::string file = GoldenFile("tiny-F32.gguf");
  uint64_t loaded = 0;
  const auto load = [&](uint64_t offset, uint64_t bytes) {
    EXPECT_EQ(offset, loaded);
    loaded += bytes;
    return offset + bytes <= file.size() ? Status() : Status(Code::kInternal, "beyond the end");
  };
  ASSERT_TRUE(ParseGguf(std::as_bytes(std::span(file)), "m.gguf", load).ok());
  EXPECT_GT(loaded, 0u);
  const auto failing = [](uint64_t, uint64_t) { return Status(Code::kIoError, "no"); };
  EXPECT_EQ(ParseGguf(std::as_bytes(std::span(file)), "m.gguf", failing).status().code(),
            Code::kIoError);
}

// ---- What nobody should have written

template <typename T>
std::string Bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
std::string Text(std::string_view text) { return Bytes(uint64_t{text.size()}) + std::string(text); }
std::string Key(std::string_view name, uint32_t kind, const std::string& value) {
  return Text(name) + Bytes(kind) + value;
}
std::string Tensor(std::string_view name, const std::vector<uint64_t>& dimensions, uint32_t type,
                   uint64_t offset) {
  std::string out = Text(name) + Bytes(static_cast<uint32_t>(dimensions.size()));
  for (const uint64_t size : dimensions) out += Bytes(size);
  return out + Bytes(type) + Bytes(offset);
}
struct Parts {
  std::vector<std::string> keys, tensors;
  size_t data = 0;
  uint64_t alignment = 32;
};
std::string File(const Parts& parts) {
  std::string out = "GGUF" + Bytes(uint32_t{3}) + Bytes(uint64_t{parts.tensors.size()}) +
                    Bytes(uint64_t{parts.keys.size()});
  for (const std::string& key : parts.keys) out += key;
  for (const std::string& tensor : parts.tensors) out += tensor;
  out.resize((out.size() + parts.alignment - 1) / parts.alignment * parts.alignment);
  return out + std::string(parts.data, '\1');
}

constexpr uint32_t kU32 = 4, kBool = 7, kString = 8, kArray = 9, kF32Type = 0, kQ4KType = 12;

struct Bad {
  std::string file;
  Code code;
  std::vector<std::string> words;
};

TEST(GgufTest, MalformedFilesAreRefusedByName) {
  const std::string good = Tensor("a", {8}, kF32Type, 0);
  const std::string huge = Bytes(uint64_t{1} << 40);
  const Bad cases[] = {
      {"", Code::kTruncated, {"header"}},
      {"GGML" + std::string(100, '\0'), Code::kMalformedModel, {"GGUF"}},
      {"GGUF" + Bytes(uint32_t{1}) + std::string(16, '\0'),
       Code::kUnsupportedModel,
       {"version 1", "2 and 3"}},
      {std::string("GGUF\0\0\0\3", 8) + std::string(16, '\0'),
       Code::kUnsupportedModel,
       {"big-endian"}},
      {"GGUF" + Bytes(uint32_t{3}) + huge + huge, Code::kLimitExceeded, {"tensors", "keys"}},
      {File({{Key("k", 13, "")}, {}}), Code::kMalformedModel, {"\"k\"", "type 13"}},
      {File({{Key("k", kString, huge)}, {}}), Code::kLimitExceeded, {"\"k\"", "16777216"}},
      {File({{Key("k", kBool, "\2")}, {}}), Code::kMalformedModel, {"\"k\"", "bool"}},
      {File({{Key("k", kArray, Bytes(kBool) + Bytes(uint64_t{2}) + "\1\3")}, {}}),
       Code::kMalformedModel,
       {"\"k\"", "bool"}},
      {File({{Key("k", kArray, Bytes(kU32) + huge)}, {}}), Code::kLimitExceeded, {"items"}},
      {File({{Key("k", kArray, Bytes(kU32) + Bytes(uint64_t{1000}))}, {}}),
       Code::kTruncated,
       {"\"k\""}},
      {File({{Key("k", kArray,
                  Bytes(kArray) + Bytes(uint64_t{1}) + Bytes(kArray) + Bytes(uint64_t{1}) +
                      Bytes(kU32) + Bytes(uint64_t{0}))},
             {}}),
       Code::kLimitExceeded,
       {"\"k\"", "arrays of arrays"}},
      {File({{Key("k", kBool, "\1"), Key("k", kBool, "\1")}, {}}),
       Code::kMalformedModel,
       {"\"k\"", "twice"}},
      {File({{Key("general.alignment", kU32, Bytes(uint32_t{24}))}, {}}),
       Code::kMalformedModel,
       {"general.alignment"}},
      {File({{Key("general.alignment", kU32, Bytes(uint32_t{0}))}, {}}),
       Code::kMalformedModel,
       {"general.alignment"}},
      {File({{Key("general.alignment", kU32, Bytes(uint32_t{1} << 31))}, {}}),
       Code::kMalformedModel,
       {"general.alignment"}},
      {File({{}, {good, good}, 64}), Code::kMalformedModel, {"\"a\"", "twice"}},
      {File({{}, {Tensor(std::string(65, 'x'), {8}, 0, 0)}, 32}), Code::kLimitExceeded, {"64"}},
      {File({{}, {Tensor("a", {}, 0, 0)}, 32}), Code::kMalformedModel, {"\"a\"", "0 dimensions"}},
      {File({{}, {Tensor("a", {1, 1, 1, 1, 1}, 0, 0)}, 32}),
       Code::kMalformedModel,
       {"\"a\"", "5 dimensions"}},
      {File({{}, {Tensor("a", {8}, 77, 0)}, 32}), Code::kUnsupportedModel, {"\"a\"", "type 77"}},
      {File({{}, {Tensor("a", {32}, kQ4KType, 0)}, 144}),
       Code::kMalformedModel,
       {"\"a\"", "Q4_K", "256"}},
      {File({{}, {Tensor("a", {uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0)}, 32}),
       Code::kMalformedModel,
       {"\"a\"", "overflows"}},
      {File({{}, {Tensor("a", {8}, 0, ~uint64_t{31})}, 32}), Code::kMalformedModel, {"\"a\""}},
      {File({{}, {Tensor("a", {8}, 0, 32)}, 64}), Code::kMalformedModel, {"\"a\"", "byte 32"}},
      {File({{}, {good, Tensor("b", {8}, 0, 0)}, 64}),
       Code::kMalformedModel,
       {"\"b\"", "ends at 32"}},
      {File({{}, {good, Tensor("b", {8}, 0, 33)}, 128}), Code::kMalformedModel, {"\"b\""}},
      {File({{}, {good}, 31}), Code::kTruncated, {"\"a\"", "download"}},
  };
  for (const Bad& bad : cases) {
    const auto table = Parse(bad.file);
    ASSERT_FALSE(table.ok()) << bad.words[0];
    EXPECT_EQ(table.status().code(), bad.code) << table.status().message();
    for (const std::string& word : bad.words) {
      EXPECT_NE(table.status().message().find(word), std::string::npos)
          << table.status().message() << " lacks " << word;
    }
    EXPECT_NE(table.status().message().find("m.gguf"), std::string::npos);
  }
  EXPECT_TRUE(Parse(File({{}, {good}, 32})).ok());
  EXPECT_TRUE(Parse(File({{}, {good, Tensor("b", {8}, 0, 32)}, 64})).ok());
  EXPECT_TRUE(Parse(File({{}, {}})).ok());
}

TEST(GgufTest, EveryTruncationIsRefused) {
  const std::string file = GoldenFile("keys.gguf");
  const auto whole = Parse(file);
  ASSERT_TRUE(whole.ok());
  uint64_t end = 0;
  for (const auto& [name, tensor] : whole->tensors) end = std::max(end, tensor.end);
  for (size_t size = 0; size < end; ++size) {
    const auto table = Parse(std::string_view(file).substr(0, size));
    ASSERT_FALSE(table.ok()) << size;
    EXPECT_EQ(table.status().code(), Code::kTruncated) << size << table.status().message();
  }
}

}  // namespace
}  // namespace lectern
