#include "engine/model/formats/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/model/formats/text.h"

namespace lectern {
namespace {

TEST(JsonTest, ReadsEveryKindOfValue) {
  const Result<Json> json =
      ParseJson(R"( {"a":[1,-2,2.5,true,null,"x\u00e9\n"],"b":{"c":18446744073709551615}} )");
  ASSERT_TRUE(json.ok()) << json.status().message();
  const Json::Array& a = *json->Find("a")->array();
  EXPECT_EQ(a[0].integer(), 1);
  EXPECT_EQ(a[1].integer(), -2);
  EXPECT_EQ(a[1].unsigned_integer(), std::nullopt);
  EXPECT_EQ(a[2].number(), 2.5);
  EXPECT_EQ(a[2].integer(), std::nullopt);
  EXPECT_TRUE(*a[3].boolean());
  EXPECT_TRUE(a[4].is_null());
  EXPECT_EQ(*a[5].string(), "xé\n");
  EXPECT_EQ(json->Find("b")->Find("c")->unsigned_integer(), UINT64_MAX);
  EXPECT_EQ(json->Find("b")->Find("c")->integer(), std::nullopt);
  EXPECT_EQ(json->Find("nope"), nullptr);
}

TEST(JsonTest, WholeDoublesAreIntegersInRangeOnly) {
  EXPECT_EQ(Json(2048.0).integer(), 2048);
  EXPECT_EQ(Json(-0x1p63).integer(), INT64_MIN);
  EXPECT_EQ(Json(0x1p63).integer(), std::nullopt);
  EXPECT_EQ(Json(0x1p63).unsigned_integer(), uint64_t{1} << 63);
  EXPECT_EQ(Json(0x1p64).unsigned_integer(), std::nullopt);
  EXPECT_EQ(Json(-1.0).unsigned_integer(), std::nullopt);
  EXPECT_EQ(Json(std::nan("")).integer(), std::nullopt);
}

TEST(JsonTest, DumpIsCompactSortedAndReadsBack) {
  const std::string text = R"({"a":[1,-2,2.5,"\"\u0001é"],"b":{},"c":[],"d":null,"e":false})";
  EXPECT_EQ(ParseJson(text)->Dump(), text);
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).Dump(), "null");
  EXPECT_EQ(Json(std::string("a\xFF")).Dump(), "\"a\xEF\xBF\xBD\"");
  EXPECT_EQ(Json(Json::Object{{"z", 1}, {"a", 0.1}}).Dump(), R"({"a":0.1,"z":1})");
}

struct BadJson {
  std::string text;
  Code code;
  std::string word;
};

TEST(JsonTest, RefusesWithCodeAndByteOffset) {
  const std::string deep = std::string(17, '[') + std::string(17, ']');
  const BadJson cases[] = {
      {"", Code::kMalformedModel, "byte"},
      {"{", Code::kMalformedModel, "byte"},
      {"{} x", Code::kMalformedModel, "byte 4"},
      {std::string("{}\0x", 4), Code::kMalformedModel, "NUL"},
      {"[1,]", Code::kMalformedModel, "byte 4"},
      {"NaN", Code::kMalformedModel, "byte"},
      {"[1e999]", Code::kMalformedModel, "number overflow"},
      {"[-1e999]", Code::kMalformedModel, "number overflow"},
      {"[Infinity]", Code::kMalformedModel, "byte 2"},
      {"[01]", Code::kMalformedModel, "byte"},
      {"\"\xFF\"", Code::kMalformedModel, "byte"},
      {"\"\xED\xA0\x80\"", Code::kMalformedModel, "byte"},
      {"\"\\ud800\"", Code::kMalformedModel, "byte"},
      {R"({"a":1,"a":2})", Code::kMalformedModel, "\"a\" appears twice at byte 10"},
      {R"({"a":1,"\u0061":2})", Code::kMalformedModel, "twice"},
      {R"([{"x":{"k":1,"k":1}}])", Code::kMalformedModel, "twice"},
      {deep, Code::kMalformedModel, "nested deeper than 16 at byte 17"},
      {"// comment\n1", Code::kMalformedModel, "byte"},
  };
  for (const BadJson& bad : cases) {
    const Result<Json> json = ParseJson(bad.text);
    ASSERT_FALSE(json.ok()) << bad.text;
    EXPECT_EQ(json.status().code(), bad.code) << bad.text;
    EXPECT_NE(json.status().message().find(bad.word), std::string::npos)
        << bad.text << " -> " << json.status().message();
  }
}

TEST(JsonTest, MessagesAreShortAndUtf8) {
  for (const std::string& bad :
       {"\"" + std::string(1 << 16, 'a'), std::string("\"\xFF\""), "tru" + std::string(500, 'e')}) {
    const std::string message = ParseJson(bad).status().message();
    EXPECT_LT(message.size(), 1000u);
    EXPECT_TRUE(IsValidUtf8(message)) << message;
  }
  std::string key = "x";
  for (int i = 0; i < 80; ++i) key += "é";
  EXPECT_TRUE(IsValidUtf8(ParseJson("{\"" + key + "\":1,\"" + key + "\":2}").status().message()));
}

TEST(JsonTest, LimitsHoldExactly) {
  const JsonLimits limits = {.max_depth = 2, .max_values = 4, .max_string = 3};
  EXPECT_TRUE(ParseJson("[[1,2]]", limits).ok());
  EXPECT_EQ(ParseJson("[[1,2,3]]", limits).status().code(), Code::kLimitExceeded);
  EXPECT_EQ(ParseJson("[[[]]]", limits).status().code(), Code::kMalformedModel);
  EXPECT_TRUE(ParseJson(R"({"abc":"abc"})", limits).ok());
  EXPECT_EQ(ParseJson(R"({"abcd":1})", limits).status().code(), Code::kLimitExceeded);
  EXPECT_EQ(ParseJson(R"(["abcd"])", limits).status().code(), Code::kLimitExceeded);
}

TEST(JsonTest, MillionOpenBracketsDoNotOverflowTheStack) {
  EXPECT_FALSE(ParseJson(std::string(1 << 20, '[')).ok());
  EXPECT_FALSE(ParseJson(std::string(1 << 20, '{')).ok());
}

}  // namespace
}  // namespace lectern
