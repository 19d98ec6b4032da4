// The questions for the values of an object, and the schemas that are not taken apart.
#include "engine/asking/answer_fields.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/constraint/json_schema.h"

namespace lectern {
namespace {

constexpr std::string_view kWhole = "Read the lease. What was agreed?";

std::string ObjectOf(const std::string& properties, const std::string& more = "") {
  return R"({"type": "object", "properties": {)" + properties + "}" + more + "}";
}

// "key: question", with members of objects in brackets.
std::string Questions(const std::vector<AnswerField>& fields) {
  std::string text;
  for (const AnswerField& field : fields) {
    text += (text.empty() ? "" : "; ") + field.key + ": ";
    text += field.members.empty() ? field.question : "[" + Questions(field.members) + "]";
  }
  return text;
}
std::string QuestionsOf(const std::string& schema) {
  return Questions(SplitIntoFields(schema, kWhole));
}

TEST(AnswerFieldsTest, AskInTheWordsOfKeysAndDescriptions) {
  EXPECT_EQ(QuestionsOf(ObjectOf(R"("tenant": {"type": "string"},
                                    "rent_per_month": {"type": "number"},
                                    "firstDay": {"type": "string", "format": "date"},
                                    "URLOfTheForm": {"type": "string", "title": "Urloftheform"},
                                    "IBAN": {"type": "string"},
                                    "miete-in-€": {"type": "string"})")),
            "tenant: Read the lease. What is the tenant?; "
            "rent_per_month: Read the lease. What is the rent per month?; "
            "firstDay: Read the lease. What is the first day?; "
            "URLOfTheForm: Read the lease. What is the urloftheform?; "
            "IBAN: Read the lease. What is the IBAN?; miete-in-€: Read the lease. miete in €?");
  EXPECT_EQ(QuestionsOf(ObjectOf(
                R"("a": {"type": "string", "description": "The name of the tenant."},
                   "b": {"type": "string", "description": "Who owns the house？"},
                   "c": {"$ref": "#/$defs/Rent"}, "first_day": {"title": "First Day"},
                   "d": {"type": "string", "description": "It is paid monthly. In EUR."},
                   "e": {"title": "Monthly rent"}, "f": {"type": "boolean", "title": "Pets"})",
                R"(, "$defs": {"Rent": {"type": "integer", "title": "Monthly rent"}})")),
            "a: Read the lease. What is the name of the tenant?; b: Who owns the house？; "
            "c: Read the lease. What is the c?; "
            "first_day: Read the lease. What is the first day?; "
            "d: Read the lease. It is paid monthly. In EUR. What is the d?; "
            "e: Read the lease. What is the monthly rent?; f: Read the lease. Pets, yes or no?");
}

TEST(AnswerFieldsTest, NameTheChoices) {
  EXPECT_EQ(QuestionsOf(ObjectOf(
                R"("color": {"enum": ["red", "blue", null]},
                   "kind": {"enum": ["flat", "house"], "description": "What kind is it?"},
                   "state": {"anyOf": [{"$ref": "#/$defs/S"}, {"type": "null"}],
                             "description": "The state of it."},
                   "floor": {"enum": [1, 2]}, "only": {"const": "x"}, "long": {"enum": ["a", ")" +
                    std::string(200, 'b') + R"("]})",
                R"(, "$defs": {"S": {"type": "string", "enum": ["new", "old"]}})")),
            "color: Read the lease. What is the color (red, blue)?; "
            "kind: What kind is it: flat, house?; "
            "state: Read the lease. What is the state of it (new, old)?; "
            "floor: Read the lease. What is the floor?; "
            "only: Read the lease. What is the only?; long: Read the lease. What is the long?");
}

// A model would answer these.
TEST(AnswerFieldsTest, LeaveTheQuestionsOfTheWholeOut) {
  const std::string schema = ObjectOf(R"("name": {}, "town": {})");
  const auto first = [&](std::string_view whole) {
    return SplitIntoFields(schema, whole).front().question;
  };
  EXPECT_EQ(first("Who is it, and where? Use the lease"), "Use the lease. What is the name?");
  EXPECT_EQ(first("Who is it?"), "What is the name?");
  EXPECT_EQ(first("契約書を読む。誰ですか？"), "契約書を読む。 What is the name?");
  EXPECT_EQ(first(""), "What is the name?");
  EXPECT_EQ(first("\xE5"), "\xE5 What is the name?");
}

TEST(AnswerFieldsTest, OneValueIsAskedTheWholeQuestion) {
  EXPECT_EQ(QuestionsOf(ObjectOf(R"("answer": {"type": "string"})")),
            "answer: Read the lease. What was agreed?");
  EXPECT_EQ(QuestionsOf(ObjectOf(R"("a": )" + ObjectOf(R"("b": {"type": "integer"})"))),
            "a: [b: Read the lease. What was agreed?]");
}

TEST(AnswerFieldsTest, SayWhatMayBeNullMissingOrMustBeRead) {
  const std::string schema = ObjectOf(
      R"("a": {"type": ["string", "null"]}, "b": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]},
         "c": {"enum": ["x", null]}, "d": {"type": "integer", "nullable": true},
         "e": {"type": "boolean"}, "f": {"type": ["boolean", "null"]}, "g": {"type": "null"})",
      R"(, "required": ["a", "b", "e"], "$defs": {"N": {"type": "integer", "minimum": 3}})");
  const std::vector<AnswerField> fields = SplitIntoFields(schema, kWhole);
  ASSERT_EQ(fields.size(), 7u);
  const auto flags = [](const AnswerField& field) {
    return std::string(field.may_be_null ? "n" : "") + (field.may_be_missing ? "m" : "") +
           (field.is_read ? "r" : "");
  };
  std::string all;
  for (const AnswerField& field : fields) all += field.key + flags(field) + " ";
  EXPECT_EQ(all, "an bnr cnmr dnmr er fnmr gmr ");
  for (const AnswerField& field : fields) {
    EXPECT_TRUE(CompileJsonSchema(field.schema, true).ok()) << field.schema;
  }
  EXPECT_EQ(fields[4].question, "Read the lease. e, yes or no?");
}

TEST(AnswerFieldsTest, KnowTheOnlyValue) {
  const std::vector<AnswerField> fields = SplitIntoFields(
      ObjectOf(R"("a": {"const": "lease"}, "b": {"enum": [[1, "x"]]}, "c": {"type": "null"},
                  "d": {"enum": ["lease", null]}, "e": {"type": "string"})"),
      kWhole);
  ASSERT_EQ(fields.size(), 5u);
  EXPECT_EQ(fields[0].only_value, R"("lease")");
  EXPECT_EQ(fields[1].only_value, R"([1, "x"])");
  EXPECT_EQ(fields[2].only_value, "null");
  EXPECT_EQ(fields[3].only_value, "");
  EXPECT_EQ(fields[4].only_value, "");
}

TEST(AnswerFieldsTest, MembersOfObjectsAreNamedWithThem) {
  EXPECT_EQ(
      QuestionsOf(ObjectOf(
          R"("owner": )" + ObjectOf(R"("name": {"type": "string"}, "town": true)") +
              R"(, "tenant": {"$ref": "#/definitions/Person"}, "trees": {"type": "array"})",
          R"(, "definitions": {"Person": )" + ObjectOf(R"("name": {"type": "string"})") + "}")),
      "owner: [name: Read the lease. What is the owner name?; "
      "town: Read the lease. What is the owner town?]; "
      "tenant: [name: Read the lease. What is the tenant name?]; "
      "trees: Read the lease. What is the trees?");
}

// As pydantic writes Optional[Person], and others do.
TEST(AnswerFieldsTest, ObjectsThatMayBeNullAreTakenApart) {
  const std::string schema = ObjectOf(
      R"("owner": {"anyOf": [{"$ref": "#/$defs/Person"}, {"type": "null"}], "default": null},
         "tenant": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/Person"}], "title": "Tenant"},
         "agent": {"allOf": [{"$ref": "#/$defs/Person"}], "description": "Of the owner."},
         "guest": {"type": ["object", "null"], "properties": {"name": {"type": "string"}}},
         "heir": {"type": "object", "nullable": true, "properties": {"name": {"type": "string"}}},
         "other": {"anyOf": [{"$ref": "#/$defs/Person"}, {"type": "string"}]},
         "large": {"anyOf": [{"$ref": "#/$defs/Person"}], "minProperties": 1})",
      R"(, "$defs": {"Person": )" + ObjectOf(R"("name": {"type": "string"})") + "}");
  const std::vector<AnswerField> fields = SplitIntoFields(schema, kWhole);
  std::string all;
  for (const AnswerField& field : fields) {
    all += field.key + (field.members.empty() ? "" : "[]") + (field.may_be_null ? "n " : " ");
  }
  EXPECT_EQ(all, "owner[]n tenant[]n agent[] guest[]n heir[]n other large ");
  EXPECT_EQ(fields.front().members.front().question, "Read the lease. What is the owner name?");
  EXPECT_EQ(
      QuestionsOf(R"({"$ref": "#/definitions/Lease", "definitions": {"Lease": )" +
                  ObjectOf(R"("rent": {"type": "string"}, "pets": {"type": "string"})") + "}}"),
      "rent: Read the lease. What is the rent?; pets: Read the lease. What is the pets?");
}

// A person's friend is a person, whose friend is a value.
TEST(AnswerFieldsTest, ObjectsWithinThemselvesAreValues) {
  for (const std::string friends :
       {R"({"$ref": "#/$defs/P"})", R"({"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}]})"}) {
    EXPECT_EQ(QuestionsOf(R"({"$defs": {"P": {"type": "object", "properties": {
                  "name": {"type": "string"}, "friend": )" +
                          friends + R"(}}},
                  "type": "object", "properties": {"one": {"$ref": "#/$defs/P"}}})"),
              "one: [name: Read the lease. What is the one name?; "
              "friend: Read the lease. What is the one friend?]");
  }
}

// Their properties do not say all about them, or they are no objects.
TEST(AnswerFieldsTest, OtherSchemasAreNotTakenApart) {
  const std::string two = R"("a": {"type": "string"}, "b": {"type": "string"})";
  const std::vector<std::string> schemas = {
      std::string("{"), std::string("true"), std::string(R"({"type": "object"})"),
      std::string(R"({"type": "array", "items": )") + ObjectOf(two) + "}",
      ObjectOf(two, R"(, "anyOf": [{"required": ["a"]}])"),
      ObjectOf(two, R"(, "minProperties": 1)"),
      ObjectOf(two, R"(, "patternProperties": {"x": true})"),
      ObjectOf(two, R"(, "required": ["c"])"),
      ObjectOf(R"("a": {"const": 1}, "b": {"type": "null"})"),
      ObjectOf(R"("a": {"type": "string"}, "b": {"$ref": "#/properties/a"})"),
      ObjectOf(R"("a": {"type": "string"}, "b": {"type": "strange"})"),
      // A person has a friend, who is a person, and so on.
      R"({"$defs": {"P": {"type": "object", "properties": {"friend": {"$ref": "#/$defs/P"}},
            "required": ["friend"]}}, "type": "object", "properties":
            {"one": {"$ref": "#/$defs/P"}, "two": {"type": "string"}}})"};
  for (const std::string& schema : schemas) {
    EXPECT_TRUE(SplitIntoFields(schema, kWhole).empty()) << schema;
  }
}

TEST(AnswerFieldsTest, LargeObjectsAreNotTakenApart) {
  const auto with = [](size_t count) {
    std::string properties;
    for (size_t i = 0; i < count; ++i) {
      properties += (i > 0 ? ", \"p" : "\"p") + std::to_string(i) + R"(": {"type": "string"})";
    }
    return ObjectOf(properties);
  };
  EXPECT_EQ(SplitIntoFields(with(100), kWhole).size(), 100u);
  EXPECT_TRUE(SplitIntoFields(with(101), kWhole).empty());
}

}  // namespace
}  // namespace lectern
