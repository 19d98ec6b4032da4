#include "engine/asking/answer_fields.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "engine/asking/value_grammar.h"
#include "engine/asking/value_of_text.h"
#include "engine/constraint/json_schema.h"
#include "engine/constraint/ordered_json.h"
#include "engine/model/formats/text.h"

namespace lectern {
namespace {

// Objects deeper within objects, and objects of more values, are asked for in one go.
constexpr size_t kMostDepth = 8, kMostValues = 100;

// An object whose schema has these keywords alone, and annotations, is described by its properties
// and "required".
constexpr std::array<std::string_view, 5> kObjectKeywords = {"type", "properties", "required",
                                                             "additionalProperties", "nullable"};
// Keywords that allow and forbid no value.
constexpr std::array<std::string_view, 12> kAnnotations = {
    "title",    "description", "$defs",   "definitions", "$schema",  "$id",
    "$comment", "examples",    "default", "deprecated",  "readOnly", "writeOnly"};

bool IsAnnotation(std::string_view keyword) {
  return std::ranges::find(kAnnotations, keyword) != kAnnotations.end();
}
// Whether nothing but this keyword says which values the schema has.
bool HasOnly(const OrderedJson& schema, std::string_view keyword) {
  return std::ranges::all_of(schema.members, [&](const OrderedMember& one) {
    return one.key == keyword || IsAnnotation(one.key);
  });
}

bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsLowerOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
char ToSmall(char c) { return IsUpper(c) ? static_cast<char>(c + 32) : c; }

std::string InSmallLetters(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(), ToSmall);
  return small;
}

// "rent_per_month", "rent-per-month" and "rentPerMonth" as "rent per month"; words in capitals
// stay.
std::string WordsOfKey(std::string_view key) {
  std::string words;
  for (size_t i = 0; i < key.size(); ++i) {
    const char c = key[i];
    if (c == '_' || c == '-' || c == '.' || c == ' ') {
      if (!words.empty() && words.back() != ' ') words += ' ';
      continue;
    }
    const bool is_before_small = i + 1 < key.size() && key[i + 1] >= 'a' && key[i + 1] <= 'z';
    const bool begins_word =
        IsUpper(c) && i > 0 &&
        (IsLowerOrDigit(key[i - 1]) || (IsUpper(key[i - 1]) && is_before_small));
    if (begins_word && words.back() != ' ') words += ' ';
    const bool is_capital_of_word =
        IsUpper(c) && is_before_small && (i == 0 || !IsUpper(key[i - 1]) || begins_word);
    words += is_capital_of_word ? ToSmall(c) : c;
  }
  while (words.ends_with(' ')) words.pop_back();
  return words;
}

const std::string* StringOf(const OrderedJson& schema, std::string_view keyword) {
  const OrderedJson* const value = schema.Find(keyword);
  return value && value->string() && !value->string()->empty() ? value->string() : nullptr;
}

bool HasReference(const OrderedJson& schema) {
  return schema.Find("$ref") || std::ranges::any_of(schema.items, HasReference) ||
         std::ranges::any_of(schema.members,
                             [](const OrderedMember& one) { return HasReference(one.value); });
}

// Whether each $ref leads into the definitions, which go with every value's schema.
bool RefersToDefinitions(const OrderedJson& schema) {
  for (const auto& [key, value] : schema.members) {
    if (key == "$ref") {
      const std::string* const to = value.string();
      if (!to || (!to->starts_with("#/$defs/") && !to->starts_with("#/definitions/"))) return false;
    }
    if (!RefersToDefinitions(value)) return false;
  }
  return std::ranges::all_of(schema.items, RefersToDefinitions);
}

class FieldSplitter {
 public:
  FieldSplitter(const OrderedJson& root, std::string_view question)
      : root_(root), question_(question) {}

  // Members of the object of this schema, whose keys' words stand behind `path`; empty: its schema
  // is not of such an object, or that of a member cannot be asked for.
  std::vector<AnswerField> MembersOf(const OrderedJson& schema, const std::string& path,
                                     size_t depth) {
    std::vector<AnswerField> fields;
    const OrderedJson* const properties = schema.Find("properties");
    const bool is_within_itself = std::ranges::find(open_, &schema) != open_.end();
    if (!IsObject(schema) || is_within_itself) return fields;
    if (depth == kMostDepth) is_asked_whole_ = true;
    if (is_asked_whole_) return fields;
    const std::vector<std::string> required = RequiredOf(schema);
    const auto is_missing = [&](const std::string& key) { return !properties->Find(key); };
    if (std::ranges::any_of(required, is_missing)) return fields;
    open_.push_back(&schema);
    for (const auto& [key, value] : properties->members) {
      AnswerField field;
      field.key = key;
      field.may_be_missing = std::ranges::find(required, key) == required.end();
      const std::string words = path + (path.empty() ? "" : " ") + WordsOfKey(key);
      field.members = MembersOf(ObjectOf(value, field.may_be_null), words, depth + 1);
      if (field.members.empty()) {
        field.may_be_null = false;
        is_asked_whole_ |= !MakeValue(value, Resolved(value), words, field);
      }
      if (is_asked_whole_) return {};
      fields.push_back(std::move(field));
    }
    open_.pop_back();
    return fields;
  }
  std::vector<AnswerField> FieldsOfRoot() { return MembersOf(Resolved(root_), "", 0); }
  size_t num_values() const { return num_values_; }

 private:
  static bool IsObject(const OrderedJson& schema) {
    const OrderedJson* const properties = schema.Find("properties");
    if (!properties || !properties->is_object() || properties->members.empty()) return false;
    return HasObjectType(schema) && std::ranges::all_of(schema.members, [](const auto& one) {
             return IsAnnotation(one.key) ||
                    std::ranges::find(kObjectKeywords, one.key) != kObjectKeywords.end();
           });
  }
  // "object", a list of it and "null", or nothing.
  static bool HasObjectType(const OrderedJson& schema) {
    const OrderedJson* const type = schema.Find("type");
    if (!type || type->string()) return !type || *type->string() == "object";
    const auto is_one = [](const OrderedJson& one) {
      return one.string() && (*one.string() == "object" || *one.string() == "null");
    };
    const auto is_object = [](const OrderedJson& one) { return *one.string() == "object"; };
    return std::ranges::all_of(type->items, is_one) && std::ranges::any_of(type->items, is_object);
  }
  static std::vector<std::string> RequiredOf(const OrderedJson& schema) {
    std::vector<std::string> keys;
    if (const OrderedJson* const required = schema.Find("required")) {
      for (const OrderedJson& key : required->items) {
        if (key.string()) keys.push_back(*key.string());
      }
    }
    return keys;
  }
  // Follows a $ref into the definitions, and an allOf of one schema, as pydantic writes it, where
  // nothing beside them says more.
  const OrderedJson& Resolved(const OrderedJson& schema) const {
    const OrderedJson* found = &schema;
    for (size_t i = 0; i < kMostDepth; ++i) {
      const OrderedJson* next = nullptr;
      const OrderedJson* const all = found->Find("allOf");
      const std::string* const to = StringOf(*found, "$ref");
      if (to && HasOnly(*found, "$ref")) {
        const size_t slash = to->find('/', 2);
        const OrderedJson* const defined = root_.Find(to->substr(2, slash - 2));
        if (defined) next = defined->Find(to->substr(slash + 1));
      } else if (all && all->items.size() == 1 && HasOnly(*found, "allOf")) {
        next = &all->items[0];
      }
      if (!next) break;
      found = next;
    }
    return *found;
  }
  // Resolved, and follows an anyOf or oneOf of an object and null: then may_be_null is set.
  const OrderedJson& ObjectOf(const OrderedJson& schema, bool& may_be_null) const;
  bool MakeValue(const OrderedJson& schema, const OrderedJson& resolved, const std::string& words,
                 AnswerField& field);
  std::string WithDefinitions(OrderedJson schema) const {
    std::erase_if(schema.members, [](const OrderedMember& one) {
      return one.key == "$defs" || one.key == "definitions";
    });
    if (!HasReference(schema)) return DumpOrdered(schema);
    for (const std::string_view key : {"$defs", "definitions"}) {
      if (const OrderedJson* const all = root_.Find(key)) {
        schema.members.push_back({std::string(key), *all});
      }
    }
    return DumpOrdered(schema);
  }

  const OrderedJson& root_;
  const std::string_view question_;
  std::vector<const OrderedJson*> open_;  // schemas of the objects around a member
  size_t num_values_ = 0, num_bytes_ = 0, num_states_ = 0;  // of their schemas and grammars
  bool is_asked_whole_ = false;                             // the root, in one go
};

bool IsNullName(const OrderedJson& type) { return type.string() && *type.string() == "null"; }
bool IsNullType(const OrderedJson& schema) {
  const OrderedJson* const type = schema.Find("type");
  return type && IsNullName(*type);
}

// The schema without the ways in which people write that a value may be null.
OrderedJson WithoutNull(const OrderedJson& schema) {
  OrderedJson rest = schema;
  for (auto& [key, value] : rest.members) {
    if (key == "anyOf" || key == "oneOf") std::erase_if(value.items, IsNullType);
    if (key == "type") {
      std::erase_if(value.items, IsNullName);
    }
    if (key == "enum") {
      std::erase_if(value.items, [](const OrderedJson& one) { return DumpOrdered(one) == "null"; });
    }
  }
  std::erase_if(rest.members, [](const OrderedMember& one) { return one.key == "nullable"; });
  return rest;
}

const OrderedJson& FieldSplitter::ObjectOf(const OrderedJson& schema, bool& may_be_null) const {
  const OrderedJson* found = &Resolved(schema);
  for (const std::string_view keyword : {"anyOf", "oneOf"}) {
    const OrderedJson* const any = found->Find(keyword);
    if (!any || !HasOnly(*found, keyword)) continue;
    const OrderedJson* only = nullptr;
    size_t num_others = 0;
    for (const OrderedJson& one : any->items) {
      if (!IsNullType(one)) only = &one, ++num_others;
    }
    if (num_others != 1) continue;
    may_be_null = any->items.size() > 1;
    found = &Resolved(*only);
    break;
  }
  const OrderedJson* const type = found->Find("type");
  const bool* const nullable =
      found->Find("nullable") ? found->Find("nullable")->boolean() : nullptr;
  may_be_null |= (type && std::ranges::any_of(type->items, IsNullName)) || (nullable && *nullable);
  return *found;
}

bool IsAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

constexpr std::array<std::string_view, 3> kQuestionMarks = {"?", "？", "؟"};

// The sentences of a text that are no questions: a model would answer its questions.
std::string WithoutQuestions(std::string_view text) {
  constexpr std::array<std::string_view, 4> kOtherEnds = {".", "!", "\n", "。"};
  std::string kept;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const auto stands_here = [&](std::string_view mark) {
      return text.substr(at).starts_with(mark);
    };
    const bool is_question = std::ranges::any_of(kQuestionMarks, stands_here);
    const bool is_end = is_question || std::ranges::any_of(kOtherEnds, stands_here);
    ++at;
    while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;  // a character's further bytes
    if (!is_end && at < text.size()) continue;
    if (!is_question) kept += text.substr(begin, at - begin);
    begin = at;
  }
  return std::string(TrimWhiteSpace(kept));
}

// The choices of a schema as they stand in its question, "red, blue"; empty: there are none, or
// they are too many, or too long, to be said.
std::string SaidChoices(std::string_view schema) {
  constexpr size_t kMostChoices = 10, kMostBytes = 200;
  const std::vector<std::string> choices = ChoicesOf(schema);
  std::string said;
  for (const std::string& choice : choices) said += (said.empty() ? "" : ", ") + choice;
  const bool is_short = choices.size() > 1 && choices.size() <= kMostChoices;
  return is_short && said.size() <= kMostBytes && said.find('\n') == said.npos ? said : "";
}

// "What is the rent per month?"; with choices "What is the color (red, blue)?"
std::string AskedByName(std::string_view name, const std::string& choices) {
  std::string words(TrimWhiteSpace(name));
  while (words.ends_with('.') || words.ends_with(':')) words.pop_back();
  const std::string end = (choices.empty() ? "" : " (" + choices + ")") + "?";
  if (!IsAscii(words) || words.empty()) return words + end;
  if (IsUpper(words[0]) && IsLowerOrDigit(words[1])) words[0] = ToSmall(words[0]);
  for (const std::string_view article : {"the ", "a ", "an "}) {
    if (words.starts_with(article)) words.erase(0, article.size());
  }
  return "What is the " + words + end;
}

// The question for a value that is called `name`, behind the sentences of the whole question that
// ask nothing. tools/evaluate/RESULTS.md, "Answers in JSON", compares forms of it.
std::string QuestionFor(std::string_view whole, const std::string& name,
                        const std::string* description, bool is_yes_or_no,
                        const std::string& choices) {
  for (const std::string_view mark : kQuestionMarks) {
    if (!description || !description->ends_with(mark)) continue;
    if (choices.empty()) return *description;
    const size_t end = description->size() - mark.size();
    return description->substr(0, end) + ": " + choices + std::string(mark);
  }
  std::string question = WithoutQuestions(whole);
  if (!question.empty() && (IsUpper(question.back()) || IsLowerOrDigit(question.back()))) {
    question += '.';
  }
  const auto add = [&](std::string_view text) {
    question += (question.empty() ? "" : " ") + std::string(text);
  };
  // A description of several sentences explains the name.
  const bool is_long = description && description->find(". ") != description->npos;
  if (is_long) add(*description);
  const std::string& asked = description && !is_long ? *description : name;
  if (is_yes_or_no) {
    std::string words(TrimWhiteSpace(asked));
    while (words.ends_with('.')) words.pop_back();
    add(words + ", yes or no?");
  } else {
    add(AskedByName(asked, choices));
  }
  return question;
}

// Whether the model's plain answer is not the value yet: that may not be any text, but is a single
// number, date, choice and so on.
bool IsReadOutOfText(const ValueGrammar& grammar) {
  const auto has = [&](std::string_view text) { return grammar.HasBeginning(text); };
  constexpr std::array<std::string_view, 6> kTexts = {"\"\"", "\"A", "\"z", "\"0", "\" ", "\"-"};
  return !has("[") && !has("{") && !std::ranges::all_of(kTexts, has);
}

bool FieldSplitter::MakeValue(const OrderedJson& schema, const OrderedJson& resolved,
                              const std::string& words, AnswerField& field) {
  if (++num_values_ > kMostValues) return false;
  field.schema = WithDefinitions(schema);
  auto grammar = ValueGrammar::Of(field.schema);
  if (!grammar) return false;
  // All values together may take as much work as one schema.
  num_bytes_ += field.schema.size(), num_states_ += grammar->num_states();
  if (num_bytes_ > kMostSchemaBytes || num_states_ > GrammarBuilder::kMaxStates) return false;
  if (grammar->Has("null")) {
    const std::string without = WithDefinitions(WithoutNull(resolved));
    auto rest = ValueGrammar::Of(without);
    if (rest && !rest->Has("null")) {
      field.may_be_null = true;
      field.schema = without;
      grammar = std::move(rest);
    }
  }
  field.only_value = field.may_be_null ? "" : grammar->OnlyText();
  const auto has = [&](std::string_view text) { return grammar->Has(text); };
  const bool is_yes_or_no =
      has("true") && has("false") && !has("0") && !has("\"\"") && !has("null");
  field.is_read = IsReadOutOfText(*grammar);
  const std::string* description = StringOf(schema, "description");
  if (!description) description = StringOf(resolved, "description");
  // pydantic makes titles of keys.
  const std::string* const title = StringOf(schema, "title");
  if (!description && title && InSmallLetters(*title) != InSmallLetters(WordsOfKey(field.key))) {
    description = title;
  }
  field.question = QuestionFor(question_, words, description, is_yes_or_no,
                               field.is_read ? SaidChoices(field.schema) : "");
  return true;
}

// The one value that there is.
AnswerField& OnlyValue(std::vector<AnswerField>& fields) {
  AnswerField* field = &fields.front();
  while (!field->members.empty()) field = &field->members.front();
  return *field;
}

}  // namespace

bool NeedsAsking(const AnswerField& field) {
  return field.members.empty() ? field.only_value.empty()
                               : std::ranges::any_of(field.members, NeedsAsking);
}

std::vector<AnswerField> SplitIntoFields(std::string_view schema, std::string_view question) {
  if (schema.size() > kMostSchemaBytes) return {};
  const auto root = ParseOrderedJson(schema);
  if (!root.ok() || !RefersToDefinitions(*root)) return {};
  FieldSplitter splitter(*root, question);
  std::vector<AnswerField> fields = splitter.FieldsOfRoot();
  if (std::ranges::none_of(fields, NeedsAsking)) return {};
  if (splitter.num_values() == 1) OnlyValue(fields).question = question;
  return fields;
}

}  // namespace lectern
