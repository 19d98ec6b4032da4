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
  // "items" as a list, of drafts before 2020-12, is shorter than "prefixItems".
  EXPECT_EQ(Fitting(R"({"enum": [[1, 2, 3], [7]], "prefixItems": [{}, {}, {}], "items": [{}]})",
                    {"[1, 2, 3]", "[7]", "[2]"}),
            (Texts{"[1, 2, 3]", "[7]"}));
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
  const auto alike = CompileJsonSchema(
      R"({"oneOf": [{"format": "email"}, {"type": "string", "format": "hostname"}]})", false);
  ASSERT_TRUE(alike.ok());
  EXPECT_EQ(alike->not_kept, (Texts{"oneOf"}));
}

TEST(JsonSchemaTest, ConditionsAreSaidByOtherKeywords) {
  EXPECT_EQ(Fitting(R"({"type": ["string", "integer", "null"], "not": {"enum": ["a", 1, null]}})",
                    {R"("a")", R"("b")", R"("")", "1", "2", "10", "null", "true"}),
            (Texts{R"("b")", R"("")", "2", "10"}));
  EXPECT_EQ(Fitting(R"({"type": "string", "not": {"pattern": "^x"}, "maxLength": 3})",
                    {R"("x")", R"("ax")", R"("")", R"("abcd")"}),
            (Texts{R"("ax")", R"("")"}));
  EXPECT_EQ(Fitting(R"({"type": "number", "not": {"type": "integer"}, "minimum": 0})",
                    {"1", "1.5", "1.0", "0.25", "-0.5"}),
            (Texts{"1.5", "0.25"}));
  const std::string_view conditional =
      R"({"type": "object", "properties": {"country": {"enum": ["US", "CA"]},
          "code": {"type": "string"}}, "required": ["country", "code"], "if": {"properties": {"country": {"const": "US"}}},
          "then": {"properties": {"code": {"pattern": "^[0-9]{5}$"}}},
          "else": {"properties": {"code": {"pattern": "^[A-Z]$"}}}})";
  EXPECT_EQ(Fitting(conditional,
                    {R"({"country": "US", "code": "12345"})", R"({"country": "US", "code": "A"})",
                     R"({"country": "CA", "code": "A"})", R"({"country": "CA", "code": "12345"})"}),
            (Texts{R"({"country": "US", "code": "12345"})", R"({"country": "CA", "code": "A"})"}));
  EXPECT_EQ(Fitting(R"({"type": "object", "properties": {"card": {}, "street": {}},
                        "dependentRequired": {"card": ["street"]}})",
                    {"{}", R"({"card": 1})", R"({"street": 1})", R"({"card": 1, "street": 1})"}),
            (Texts{"{}", R"({"street": 1})", R"({"card": 1, "street": 1})"}));
  // Alternatives that overlap: exactly one fits.
  EXPECT_EQ(
      Fitting(
          R"({"oneOf": [{"type": "integer", "minimum": 2}, {"type": "integer", "maximum": 5}]})",
          {"1", "2", "5", "6"}),
      (Texts{"1", "6"}));
  // The second one allows objects, too, though its keyword is for lists.
  EXPECT_EQ(Fitting(R"({"oneOf": [{"type": "object", "properties": {"a": {}}}, {"minItems": 1}]})",
                    {"{}", R"({"a": 1})", "[1]"}),
            (Texts{"[1]"}));
  for (const std::string_view nothing : {R"({"not": {}})", R"({"not": true})"}) {
    EXPECT_FALSE(CompileJsonSchema(nothing, false).ok()) << nothing;
  }
  EXPECT_EQ(
      Fitting(R"({"$defs": {"tree": {"type": "object", "properties": {"kids": {"type": "array",
                        "items": {"not": {"$ref": "#/$defs/leaf"}}}}}, "leaf": {"type": "string",
                        "minLength": 3}}, "$ref": "#/$defs/tree"})",
              {R"({"kids": ["ab", 1]})", R"({"kids": ["abc"]})"}),
      (Texts{R"({"kids": ["ab", 1]})"}));
}

TEST(JsonSchemaTest, NamesOfMembersKeepTheirPatterns) {
  const std::string_view schema =
      R"({"type": "object", "properties": {"id": {"type": "integer"}}, "patternProperties":
          {"^x-": {"type": "string"}, "n$": {"minLength": 2}}, "additionalProperties": false})";
  EXPECT_EQ(Fitting(schema, {R"({"id": 1, "x-a": "b"})", R"({"x-a": 1})", R"({"y": "b"})",
                             R"({"x-n": "b"})", R"({"x-n": "bc"})", "{}"}),
            (Texts{R"({"id": 1, "x-a": "b"})", R"({"x-n": "bc"})", "{}"}));
  EXPECT_EQ(Fitting(R"({"propertyNames": {"enum": ["a", "b"]}, "additionalProperties":
                        {"type": "integer"}})",
                    {R"({"a": 1, "b": 2})", R"({"b": 2})", R"({"c": 1})", R"({"a": 1, "a": 2})"}),
            (Texts{R"({"a": 1, "b": 2})", R"({"b": 2})"}));
  EXPECT_EQ(Fitting(R"({"propertyNames": {"pattern": "^[a-z]+$", "maxLength": 2}})",
                    {R"({"ab": 1})", R"({"abc": 1})", R"({"A": 1})"}),
            (Texts{R"({"ab": 1})"}));
  EXPECT_EQ(Fitting(R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}},
                        "minProperties": 2, "maxProperties": 2})",
                    {"{}", R"({"b": 1})", R"({"a": 1, "c": 1})", R"({"a": 1, "b": 1, "c": 1})"}),
            (Texts{R"({"a": 1, "c": 1})"}));
}

TEST(JsonSchemaTest, UnevaluatedMembersAndItemsAreThoseOfNoOtherKeyword) {
  EXPECT_EQ(Fitting(R"({"type": "object", "allOf": [{"properties": {"a": {}}}], "properties":
                        {"b": {}}, "unevaluatedProperties": {"type": "integer"}})",
                    {R"({"a": "x", "b": "x", "c": 1})", R"({"c": "x"})"}),
            (Texts{R"({"a": "x", "b": "x", "c": 1})"}));
  // A cousin's members are not evaluated.
  EXPECT_EQ(Fitting(R"({"type": "object", "allOf": [{"properties": {"a": {}}},
                        {"unevaluatedProperties": false}]})",
                    {R"({"a": 1})", "{}"}),
            (Texts{"{}"}));
  EXPECT_EQ(Fitting(R"({"type": "array", "allOf": [{"prefixItems": [{"type": "null"}]}],
                        "unevaluatedItems": {"type": "integer"}})",
                    {"[null, 1]", "[null, null]", "[1]"}),
            (Texts{"[null, 1]"}));
}

TEST(JsonSchemaTest, ListsHaveDifferentItemsAndThoseTheyMustContain) {
  EXPECT_EQ(Fitting(R"({"items": {"enum": ["a", "b"]}, "uniqueItems": true, "minItems": 1})",
                    {"[]", R"(["b", "a"])", R"(["a", "a"])", R"(["b"])"}),
            (Texts{R"(["b", "a"])", R"(["b"])"}));
  // More than seven values come in the order of their texts.
  EXPECT_EQ(Fitting(R"({"items": {"enum": [1, 2, 3, 4, 5, 6, 7, 8, 9]}, "uniqueItems": true,
                        "maxItems": 3})",
                    {"[]", "[1, 9]", "[2, 2]", "[9, 1]", "[1, 2, 3]", "[1, 2, 3, 4]"}),
            (Texts{"[]", "[1, 9]", "[1, 2, 3]"}));
  EXPECT_EQ(Fitting(R"({"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 5},
                        "minContains": 1, "maxContains": 2})",
                    {"[]", "[1]", "[5]", "[1, 5, 2, 6]", "[5, 6, 7]"}),
            (Texts{"[5]", "[1, 5, 2, 6]"}));
}

TEST(JsonSchemaTest, NumbersAreMultiples) {
  EXPECT_EQ(Fitting(R"({"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 50})",
                    {"0", "7", "49", "50", "56", "-7"}),
            (Texts{"0", "7", "49"}));
  EXPECT_EQ(Fitting(R"({"type": "number", "multipleOf": 0.25})",
                    {"1", "1.5", "-0.75", "0.1", "0.250", "19.75", "1e1"}),
            (Texts{"1", "1.5", "-0.75", "19.75"}));
  EXPECT_EQ(Fitting(R"({"type": "number", "multipleOf": 0.01})", {"19.01", "19.011", "3"}),
            (Texts{"19.01", "3"}));
}

TEST(JsonSchemaTest, ReferencesAreReadAtTheirAddress) {
  const std::string_view schema =
      R"({"$id": "http://example.com/root.json", "type": "object", "properties":
          {"a": {"$ref": "item.json"}, "b": {"$ref": "#name"},
           "c": {"$ref": "item.json#/$defs/deep"},
           "d": {"$dynamicRef": "#name"}},
          "$defs": {"item": {"$id": "item.json", "type": "integer",
                             "$defs": {"deep": {"type": "null"}}},
                    "named": {"$dynamicAnchor": "name", "type": "string"},
                    "value": {"enum": [{"$id": "item.json", "type": "boolean"}]}}})";
  EXPECT_EQ(Fitting(schema, {R"({"a": 1})", R"({"b": "x"})", R"({"c": null})", R"({"d": "x"})",
                             R"({"a": true})", R"({"b": 1})", R"({"c": 1})", R"({"d": 1})"}),
            (Texts{R"({"a": 1})", R"({"b": "x"})", R"({"c": null})", R"({"d": "x"})"}));
}

TEST(JsonSchemaTest, NamedValuesKeepOtherKeywords) {
  const auto made = CompileJsonSchema(
      R"({"enum": ["a", "abc", 1, 20, [1, 1]], "minLength": 2, "maximum": 5, "uniqueItems": true})",
      true);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_TRUE(Fits(made->grammar, R"("abc")"));
  EXPECT_TRUE(Fits(made->grammar, "1"));
  for (const std::string_view text : {R"("a")", "20", "[1, 1]"}) {
    EXPECT_FALSE(Fits(made->grammar, text)) << text;
  }
}

TEST(JsonSchemaTest, FormatsOfClientsAreKept) {
  EXPECT_EQ(Fitting(R"({"format": "ipv6"})", {R"("::1")", R"("2001:db8::7")", R"("1::2::3")",
                                              R"("::ffff:1.2.3.4")", R"("12345::")"}),
            (Texts{R"("::1")", R"("2001:db8::7")", R"("::ffff:1.2.3.4")"}));
  EXPECT_EQ(Fitting(R"({"format": "uri"})", {R"("https://a.org/x?y#z")", R"("mailto:a@b.org")",
                                             R"("h://a:5b")", R"("/x")"}),
            (Texts{R"("https://a.org/x?y#z")", R"("mailto:a@b.org")"}));
  // Formats that demand nothing of the text, and those that a pattern says, are no reason to
  // refuse.
  for (const std::string_view schema :
       {R"({"type": "string", "format": "password"})",
        R"({"type": "string", "format": "cuid", "pattern": "^c[a-z0-9]{8,}$"})",
        R"({"type": "integer", "format": "int64"})",
        R"({"type": "string", "format": "email", "maxLength": 320})"}) {
    EXPECT_TRUE(CompileJsonSchema(schema, true).ok()) << schema;
  }
  EXPECT_FALSE(CompileJsonSchema(R"({"type": "string", "format": "colour"})", true).ok());
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
  std::string members, patterns, conditions;
  for (int i = 0; i < 2000; ++i) {
    const std::string n = std::to_string(i), comma = i > 0 ? ", " : "";
    members += comma + "\"m" + n + "\": {}";
    if (i < 400) patterns += comma + "\"a.{" + n + "}b\": {\"minimum\": " + n + "}";
    if (i < 20) {
      conditions += comma + R"({"if": {"properties": {"k)" + n +
                    R"(": {"const": 1}}, "required": ["k)" + n +
                    R"("]}, "then": {"required": ["t)" + n + R"("]}})";
    }
  }
  const std::vector<std::pair<std::string, bool>> schemas = {
      {R"({"pattern": "((a{100}){100}){100}"})", false},
      {R"({"pattern": "^(a|a)*(a|a){5000}b$", "maxLength": 2000})", false},
      {R"({"pattern": "^(.*a){50}$", "maxLength": 2000})", true},
      {R"({"type": "string", "not": {"pattern": "(a|b)*a(a|b){30}"}})", true},
      {R"({"pattern": "^(?!(.*a.{20}){3})[ab]*$"})", true},
      {R"({"format": "uri", "maxLength": 2083})", true},
      {R"({"type": "integer", "multipleOf": 9973})", true},
      {R"({"items": {"enum": [)" + words + R"(]}, "uniqueItems": true})", true},
      {R"({"propertyNames": {"enum": [)" + words + "]}}", false},
      {R"({"type": "object", "properties": {)" + members + R"(}, "minProperties": 900})", true},
      {R"({"type": "object", "patternProperties": {)" + patterns + "}}", true},
      {R"({"type": "object", "allOf": [)" + conditions + "]}", true},
      {R"({"contains": {"const": 1}, "minContains": 1000, "maxItems": 1000})", true},
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
                                                        {"(?=a)b", "look-ahead"},
                                                        {"(?<!a)b", "look-behind"},
                                                        {"(a)\\1", "back reference"},
                                                        {"\\bword", "\\b"},
                                                        {"a^b", "anchor"},
                                                        {"[a", "unmatched ["},
                                                        {"(a", "unmatched ("},
                                                        {"a{3,2}", "count"},
                                                        {"*a", "count"},
                                                        {"\\p{L}", "\\p"}}) {
    const auto made = ParsePattern(pattern);
    ASSERT_FALSE(made.ok()) << pattern;
    EXPECT_NE(made.status().message().find(part), std::string::npos)
        << pattern << ": " << made.status().message();
  }
}

TEST(PatternTest, LookAheadAtTheBeginningIsOneMoreCondition) {
  const auto made = ParsePattern("^(?=.*[0-9])(?!.*\\.\\.)[a-z0-9.]{2,}$");
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_TRUE(Accepts(*made, "a1"));
  EXPECT_TRUE(Accepts(*made, "a.1"));
  EXPECT_FALSE(Accepts(*made, "ab"));
  EXPECT_FALSE(Accepts(*made, "a..1"));
}

// An opposite must not have a text in which one reader of patterns finds a match.
TEST(PatternTest, WidePatternsHaveWhatAnyReaderMatches) {
  const auto narrow = ParsePattern("^\\d$"), wide = ParsePattern("^\\d$", /*is_wide=*/true);
  ASSERT_TRUE(narrow.ok() && wide.ok());
  EXPECT_TRUE(Accepts(*narrow, "4"));
  EXPECT_FALSE(Accepts(*narrow, "\u09ea"));
  EXPECT_TRUE(Accepts(*wide, "4"));
  EXPECT_TRUE(Accepts(*wide, "\u09ea"));
  EXPECT_FALSE(Accepts(*wide, "a"));
  const auto opposite = ParsePattern("^[^\\d]$"), excepted = ParsePattern("^(?!\\d).$");
  ASSERT_TRUE(opposite.ok() && excepted.ok());
  for (const auto* const one : {&*opposite, &*excepted}) {
    EXPECT_TRUE(Accepts(*one, "a"));
    EXPECT_FALSE(Accepts(*one, "4"));
    EXPECT_FALSE(Accepts(*one, "\u09ea"));
  }
}

}  // namespace
}  // namespace lectern
