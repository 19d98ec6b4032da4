// Grammars of JSON schemas: which texts they have, what is refused and by which name, and that
// schemas made to explode end in an error soon.
#include "engine/constraint/json_schema.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/grammar_matcher.h"
#include "engine/constraint/json_text.h"
#include "engine/constraint/pattern.h"

namespace lectern {
namespace {

bool Fits(const Grammar& grammar, std::string_view text) {
  GrammarMatcher matcher(grammar);
  int32_t place = matcher.Begin(grammar.root);
  for (const char byte : text) {
    if (place == GrammarMatcher::kNowhere) return false;
    place = matcher.Next(place, static_cast<uint8_t>(byte));
  }
  return place != GrammarMatcher::kNowhere && matcher.place(place).ends;
}

// The texts that the schema has, of these.
std::vector<std::string> Fitting(std::string_view schema, std::vector<std::string> texts) {
  const auto made = CompileJsonSchema(schema, /*is_strict=*/false);
  EXPECT_TRUE(made.ok()) << schema << ": " << made.status().message();
  if (!made.ok()) return {};
  std::erase_if(texts, [&](const std::string& text) { return !Fits(made->grammar, text); });
  return texts;
}
using Texts = std::vector<std::string>;

TEST(JsonSchemaTest, ObjectsHaveTheirMembersInTheOrderOfTheSchema) {
  const std::string_view schema =
      R"({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "string"}},
          "required": ["a"]})";
  EXPECT_EQ(Fitting(schema, {R"({"b": 1, "a": "x"})", R"({"a": "x"})", R"({"a": "x", "b": 1})",
                             R"({"b": 1})", R"({"b":1,"a":"x"})", R"({"a": "x", "c": 1})",
                             R"({"b": 1, "a": "x"} )", R"({ "a": "x"})"}),
            (Texts{R"({"b": 1, "a": "x"})", R"({"a": "x"})"}));
}

TEST(JsonSchemaTest, OtherMembersAreThoseOfNoName) {
  const std::string_view schema =
      R"({"type": "object", "properties": {"a": {"type": "string"}, "ab": {"type": "string"}},
          "additionalProperties": {"type": "integer"}})";
  EXPECT_EQ(Fitting(schema, {R"({"a": "x", "b": 1})", R"({"a": 1})", R"({"ab": 1})",
                             R"({"abc": 1})", R"({"": 1, "é": 2})", R"({"b": "x"})", "{}"}),
            (Texts{R"({"a": "x", "b": 1})", R"({"abc": 1})", R"({"": 1, "é": 2})", "{}"}));
}

TEST(JsonSchemaTest, ListsHaveTheirCounts) {
  EXPECT_EQ(Fitting(R"({"type": "array", "items": {"enum": [1, 2]}, "minItems": 1, "maxItems": 3})",
                    {"[]", "[1]", "[1, 2]", "[1, 2, 1]", "[1, 2, 1, 2]", "[3]", "[1,2]", "[1, ]"}),
            (Texts{"[1]", "[1, 2]", "[1, 2, 1]"}));
  EXPECT_EQ(Fitting(R"({"prefixItems": [{"type": "null"}, {"type": "boolean"}], "items": false})",
                    {"[]", "[null]", "[null, true]", "[true]", "[null, true, 1]"}),
            (Texts{"[]", "[null]", "[null, true]"}));
}

TEST(JsonSchemaTest, StringsAreThoseOfTheirPatternAndLength) {
  EXPECT_EQ(Fitting(R"({"type": "string", "minLength": 2, "maxLength": 3})",
                    {R"("")", R"("a")", R"("ab")", R"("日本語")", R"("abcd")", R"("a\n\"")",
                     "\"a\n\"", "\"a\xC3\"", R"("a\u00e9")"}),
            (Texts{R"("ab")", R"("日本語")", R"("a\n\"")"}));
  EXPECT_EQ(Fitting(R"({"pattern": "^[A-Z]{2}-\\d+$", "maxLength": 5})",
                    {R"("AB-1")", R"("AB-12")", R"("AB-123")", R"("ab-1")", R"("xAB-1")"}),
            (Texts{R"("AB-1")", R"("AB-12")"}));
  EXPECT_EQ(Fitting(R"({"pattern": "b+"})", {R"("abc")", R"("ac")", R"("bb")"}),
            (Texts{R"("abc")", R"("bb")"}));
  EXPECT_EQ(Fitting(R"({"format": "date"})",
                    {R"("2024-02-29")", R"("2023-02-29")", R"("2000-02-29")", R"("1900-02-29")",
                     R"("2023-04-31")", R"("2023-12-31")", R"("2023-13-01")"}),
            (Texts{R"("2024-02-29")", R"("2000-02-29")", R"("2023-12-31")"}));
}

TEST(JsonSchemaTest, NumbersKeepTheirBounds) {
  for (const auto& [least, most] : std::vector<std::pair<int, int>>{
           {-12, 7}, {0, 0}, {-1, 1}, {95, 1204}, {-300, -9}, {10, 99}, {-1000, 1000}}) {
    const auto made =
        CompileJsonSchema("{\"type\": \"integer\", \"minimum\": " + std::to_string(least) +
                              ", \"maximum\": " + std::to_string(most) + "}",
                          true);
    ASSERT_TRUE(made.ok());
    const auto other =
        CompileJsonSchema("{\"type\": \"number\", \"exclusiveMinimum\": " + std::to_string(least) +
                              ", \"maximum\": " + std::to_string(most) + "}",
                          true);
    for (int number = -1500; number <= 1500; ++number) {
      const std::string text = std::to_string(number);
      EXPECT_EQ(Fits(made->grammar, text), number >= least && number <= most) << text;
      if (least == most) continue;
      EXPECT_EQ(Fits(other->grammar, text), number > least && number <= most) << text;
      const double more = number + (text[0] == '-' ? -0.25 : 0.25);
      EXPECT_EQ(Fits(other->grammar, text + ".25"), more > least && more <= most) << text;
    }
  }
}

TEST(JsonSchemaTest, PartsAreFollowed) {
  EXPECT_EQ(Fitting(R"({"$defs": {"n": {"type": "object", "properties": {"next": {"anyOf":
                        [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "required": ["next"]}},
                        "$ref": "#/$defs/n"})",
                    {R"({"next": null})", R"({"next": {"next": null}})", R"({"next": {}})"}),
            (Texts{R"({"next": null})", R"({"next": {"next": null}})"}));
  EXPECT_EQ(Fitting(R"({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                        {"properties": {"a": {"minimum": 5}, "b": {"type": "null"}}}]})",
                    {R"({"a": 5})", R"({"a": 4})", R"({"a": 5, "b": null})", R"({"b": null})"}),
            (Texts{R"({"a": 5})", R"({"a": 5, "b": null})"}));
}

TEST(JsonSchemaTest, WhatCannotBeKeptIsNamed) {
  const std::string_view schema =
      R"x({"type": "array", "items": {"type": "string", "pattern": "a(?=b)"}, "uniqueItems": true})x";
  const auto lenient = CompileJsonSchema(schema, false);
  ASSERT_TRUE(lenient.ok());
  EXPECT_EQ(lenient->not_kept, (Texts{"uniqueItems", "pattern"}));
  const auto strict = CompileJsonSchema(schema, true);
  EXPECT_EQ(strict.status().code(), Code::kInvalidArgument);
  EXPECT_NE(strict.status().message().find("\"uniqueItems\""), std::string::npos);
  // Alternatives that exclude each other need no more.
  const auto apart = CompileJsonSchema(
      R"({"oneOf": [{"properties": {"t": {"const": "a"}}, "required": ["t"]},
                    {"properties": {"t": {"const": "b"}}, "required": ["t"]}]})",
      true);
  EXPECT_TRUE(apart.ok());
  const auto alike =
      CompileJsonSchema(R"({"oneOf": [{"type": "number"}, {"type": "integer"}]})", false);
  ASSERT_TRUE(alike.ok());
  EXPECT_EQ(alike->not_kept, (Texts{"oneOf"}));
}

TEST(JsonSchemaTest, WrongSchemasAreRefusedByTheirPlace) {
  for (const auto& [schema, part] : std::vector<std::pair<std::string, std::string>>{
           {"{", "the schema"},
           {"3", "no schema"},
           {R"({"type": "text"})", "type"},
           {R"({"$ref": "#/$defs/none"})", "#/$defs/none"},
           {R"({"$ref": "#"})", "itself"},
           {R"({"anyOf": [{"$ref": "#"}]})", "itself"},
           {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
            "no JSON value"},
           {R"({"type": "integer", "minimum": 5, "maximum": 4})", "no JSON value"},
           {R"({"properties": {"a": {"minLength": -1}}})", "#/properties/a"},
           {R"({"enum": []})", "enum"}}) {
    const auto made = CompileJsonSchema(schema, false);
    ASSERT_FALSE(made.ok()) << schema;
    EXPECT_EQ(made.status().code(), Code::kInvalidArgument) << schema;
    EXPECT_NE(made.status().message().find(part), std::string::npos)
        << schema << ": " << made.status().message();
  }
}

// Each is refused, or made within a few seconds on a slow machine.
TEST(JsonSchemaTest, SchemasThatExplodeEndSoon) {
  std::string alternatives, nested = R"({"type": "integer"})", words;
  for (int i = 0; i < 12; ++i) {
    const std::string n = std::to_string(i);
    alternatives += std::string(i > 0 ? ", " : "") + R"({"anyOf": [{"properties": {"a)" + n +
                    R"(": {"type": "null"}}}, {"properties": {"b)" + n +
                    R"(": {"type": "null"}}}]})";
  }
  for (int i = 0; i < 25; ++i)
    nested = R"({"type": "array", "minItems": 1, "items": )" + nested + "}";
  for (int i = 0; i < 20'000; ++i) {
    words += std::string(i > 0 ? ", " : "") + "\"word number " + std::to_string(i * 7919) + "\"";
  }
  const std::vector<std::pair<std::string, bool>> schemas = {
      {R"({"pattern": "((a{100}){100}){100}"})", false},
      {R"({"pattern": "^(a|a)*(a|a){5000}b$", "maxLength": 2000})", false},
      {R"({"pattern": "^(.*a){50}$", "maxLength": 2000})", false},
      {R"({"pattern": ")" + std::string(500, '(') + std::string(500, ')') + R"("})", false},
      {R"({"allOf": [)" + alternatives + "]}", true},
      {nested, true},
      {R"({"enum": [)" + words + "]}", true},
      {R"({"type": "array", "maxItems": 1000000000})", true},
      {R"({"type": "string", "maxLength": 1000000000})", true},
      {R"({"type": "string", "minLength": 1000000000})", false},
  };
  for (const auto& [schema, fits] : schemas) {
    const auto start = std::chrono::steady_clock::now();
    const auto made = CompileJsonSchema(schema, false);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 20) << schema.substr(0, 80);
    EXPECT_EQ(made.ok(), fits) << schema.substr(0, 80) << ": " << made.status().message();
    if (!made.ok()) {
      EXPECT_NE(made.status().code(), Code::kInternal);
    }
  }
}

TEST(JsonTextTest, OnlyValuesAreTextOfADocument) {
  EXPECT_EQ(TextOfJson(R"({"name": "Ada", "is_old": true, "ages": [36, 1.5], "x": null})"),
            "Ada\n36\n1.5\n");
  EXPECT_EQ(TextOfJson(R"({"name": "Ada", "town": "Lon)"), "Ada\n");
  EXPECT_EQ(TextOfJson(""), "");
}

TEST(PatternTest, WhatIsNotRegularIsNamed) {
  for (const auto& [pattern, part] :
       std::vector<std::pair<std::string, std::string>>{{"a(?=b)", "look-ahead"},
                                                        {"(?<!a)b", "look-behind"},
                                                        {"(a)\\1", "back reference"},
                                                        {"\\bword", "\\b"},
                                                        {"a^b", "anchor"},
                                                        {"[a", "unmatched ["},
                                                        {"(a", "unmatched ("},
                                                        {"a{3,2}", "count"},
                                                        {"*a", "count"},
                                                        {"\\p{L}", "\\p"},
                                                        {"[^\\D]", "class"}}) {
    const auto made = ParsePattern(pattern);
    ASSERT_FALSE(made.ok()) << pattern;
    EXPECT_NE(made.status().message().find(part), std::string::npos)
        << pattern << ": " << made.status().message();
  }
}

}  // namespace
}  // namespace lectern
