#include "engine/constraint/schema_conditions.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace lectern {
namespace {

// Keywords whose opposite cannot be said.
constexpr std::string_view kWithoutOpposite[] = {
    "format",           "multipleOf",        "patternProperties",     "propertyNames",
    "uniqueItems",      "$dynamicRef",       "$recursiveRef",         "additionalProperties",
    "additionalItems",  "unevaluatedItems",  "unevaluatedProperties", "dependencies",
    "dependentSchemas", "dependentRequired", "maxContains",           "minContains"};
constexpr std::string_view kReferenceMark = "\x01";

OrderedJson Scalar(Json value) {
  OrderedJson scalar;
  scalar.scalar = std::move(value);
  return scalar;
}
OrderedJson ListOf(std::vector<OrderedJson> items) {
  OrderedJson list;
  list.kind = OrderedJson::Kind::kArray;
  list.items = std::move(items);
  return list;
}
OrderedJson ObjectOf(std::vector<OrderedMember> members) {
  OrderedJson object;
  object.kind = OrderedJson::Kind::kObject;
  object.members = std::move(members);
  return object;
}
OrderedJson MadeSchema(std::vector<OrderedMember> members) {
  members.push_back({std::string(kMadeMark), Scalar(true)});
  return ObjectOf(std::move(members));
}
// A schema of one type with one more keyword.
OrderedJson Typed(const char* type, const char* keyword, OrderedJson value) {
  return MadeSchema({{"type", Scalar(type)}, {keyword, std::move(value)}});
}
// Values that are no object with such a member.
OrderedJson Without(const std::string& name) {
  return MadeSchema({{"properties", ObjectOf({{name, Scalar(false)}})}});
}
OrderedJson ChoiceOf(std::vector<OrderedJson> choice) {
  if (choice.empty()) return Scalar(false);
  if (choice.size() == 1) return std::move(choice[0]);
  return MadeSchema({{"anyOf", ListOf(std::move(choice))}});
}
bool IsTrueValue(const OrderedJson* value) {
  return value && value->boolean() && *value->boolean();
}

OrderedJson OppositeTypes(const OrderedJson& types, bool is_nullable) {
  const auto has = [&](std::string_view name) {
    if (name == "null" && is_nullable) return true;
    if (types.string()) return *types.string() == name;
    return std::ranges::any_of(
        types.items, [&](const OrderedJson& one) { return one.string() && *one.string() == name; });
  };
  std::vector<OrderedJson> others;
  for (const char* const name : {"object", "array", "string", "boolean", "null"}) {
    if (!has(name)) others.push_back(Scalar(name));
  }
  if (!has("number")) {
    if (has(kMadeFraction)) {
      others.push_back(Scalar("integer"));
    } else {
      others.push_back(has("integer") ? Scalar(kMadeFraction) : Scalar("number"));
    }
  }
  if (others.empty()) return Scalar(false);
  return MadeSchema({{"type", ListOf(std::move(others))}});
}

}  // namespace

bool IsMade(const OrderedJson& schema) { return schema.Find(kMadeMark) != nullptr; }

bool DemandsNothing(std::string_view keyword, const OrderedJson& value) {
  if (keyword == "multipleOf") return value.scalar.integer() == 1;
  if (keyword == "uniqueItems") return !IsTrueValue(&value);
  if (keyword == "minContains") return value.scalar.integer() == 1;
  if (keyword == "contains" || keyword == "if" || keyword == "format") return false;
  if (keyword == "not") return value.boolean() && !*value.boolean();
  if (value.is_object()) return value.members.empty();
  if (value.is_array()) return value.items.empty();
  return value.scalar.is_null() || IsTrueValue(&value);
}

const OrderedJson* SchemaConditions::Keep(OrderedJson schema) {
  made_.push_back(std::move(schema));
  return &made_.back();
}

OrderedJson SchemaConditions::Reference(const OrderedJson& schema) {
  const auto [at, is_new] = numbers_.try_emplace(&schema, numbered_.size());
  if (is_new) numbered_.push_back(&schema);
  return ObjectOf({{"$ref", Scalar(std::string(kReferenceMark) + std::to_string(at->second))}});
}

const OrderedJson* SchemaConditions::Numbered(std::string_view reference) const {
  if (!reference.starts_with(kReferenceMark)) return nullptr;
  size_t number = numbered_.size();
  std::from_chars(reference.data() + 1, reference.data() + reference.size(), number);
  return number < numbered_.size() ? numbered_[number] : nullptr;
}

std::optional<OrderedJson> SchemaConditions::OppositeReference(const OrderedJson& schema) {
  const OrderedJson* const opposite = Opposite(schema);
  if (!opposite) return std::nullopt;
  return Reference(*opposite);
}

const OrderedJson* SchemaConditions::Opposite(const OrderedJson& schema) {
  const auto [at, is_new] = opposites_.try_emplace(&schema, nullptr);
  if (!is_new) return at->second;
  if (made_.size() >= kMostMade) return nullptr;
  if (schema.boolean()) return at->second = Keep(Scalar(!*schema.boolean()));
  if (!schema.is_object()) return nullptr;
  // A schema that leads back to itself leads to this place, which gets its content below.
  made_.push_back(Scalar(false));
  OrderedJson& made = made_.back();
  at->second = &made;
  std::vector<OrderedJson> choice;
  for (const auto& [keyword, value] : schema.members) {
    if (!AddOpposite(schema, keyword, value, choice)) return opposites_[&schema] = nullptr;
  }
  if (!choice.empty()) {
    made = MadeSchema({{"allOf", ListOf({ChoiceOf(std::move(choice))})},
                       {std::string(kOppositeMark), Scalar(true)}});
  }
  return &made;
}

bool SchemaConditions::AddOppositeOfNumber(const OrderedJson& schema, std::string_view keyword,
                                           const OrderedJson& value,
                                           std::vector<OrderedJson>& choice) {
  struct Bound {
    std::string_view keyword;
    const char *type, *opposite;
    int step;
  };
  constexpr Bound kBounds[] = {{"minLength", "string", "maxLength", -1},
                               {"maxLength", "string", "minLength", 1},
                               {"minItems", "array", "maxItems", -1},
                               {"maxItems", "array", "minItems", 1},
                               {"minProperties", "object", "maxProperties", -1},
                               {"maxProperties", "object", "minProperties", 1}};
  for (const Bound& bound : kBounds) {
    if (bound.keyword != keyword) continue;
    const auto count = value.scalar.integer();
    if (!count || *count < 0 || *count > 1'000'000'000) return false;
    if (*count + bound.step >= 0) {
      choice.push_back(Typed(bound.type, bound.opposite, Scalar(*count + bound.step)));
    }
    return true;
  }
  const bool is_least = keyword == "minimum" || keyword == "exclusiveMinimum";
  if (value.boolean()) return true;  // draft 4: see below
  if (!value.scalar.number()) return false;
  const OrderedJson* const exclusive =
      schema.Find(is_least ? "exclusiveMinimum" : "exclusiveMaximum");
  const bool is_excluded =
      keyword.starts_with("exclusive") || (exclusive && IsTrueValue(exclusive));
  const char* const opposite = is_excluded ? (is_least ? "maximum" : "minimum")
                                           : (is_least ? "exclusiveMaximum" : "exclusiveMinimum");
  choice.push_back(Typed("number", opposite, value));
  return true;
}

bool SchemaConditions::AddOppositeOfList(const OrderedJson& schema, std::string_view keyword,
                                         const OrderedJson& value,
                                         std::vector<OrderedJson>& choice) {
  // "items" with a list is the older drafts' prefixItems.
  const bool is_prefix = keyword == "prefixItems" || (keyword == "items" && value.is_array());
  if (is_prefix) {
    for (size_t i = 0; i < value.items.size(); ++i) {
      auto opposite = OppositeReference(value.items[i]);
      if (!opposite) return false;
      std::vector<OrderedJson> items(i, Scalar(true));
      items.push_back(*std::move(opposite));
      choice.push_back(MadeSchema({{"type", Scalar("array")},
                                   {"minItems", Scalar(static_cast<int64_t>(i + 1))},
                                   {"prefixItems", ListOf(std::move(items))},
                                   {"items", Scalar(true)}}));
    }
    return true;
  }
  if (keyword == "contains" && (schema.Find("minContains") || schema.Find("maxContains"))) {
    return false;
  }
  if (keyword == "items" && schema.Find("prefixItems")) return false;
  auto opposite = OppositeReference(value);
  if (!opposite) return false;
  choice.push_back(Typed("array", keyword == "items" ? "contains" : "items", *std::move(opposite)));
  return true;
}

bool SchemaConditions::AddOpposite(const OrderedJson& schema, std::string_view keyword,
                                   const OrderedJson& value, std::vector<OrderedJson>& choice) {
  const auto is = [&](std::string_view name) { return keyword == name; };
  const bool is_nullable = IsTrueValue(schema.Find("nullable"));
  const auto add = [&](const OrderedJson& one) {
    auto opposite = OppositeReference(one);
    if (opposite) choice.push_back(*std::move(opposite));
    return opposite.has_value();
  };
  if (std::ranges::find(kWithoutOpposite, keyword) != std::end(kWithoutOpposite)) {
    return DemandsNothing(keyword, value);
  }
  if (is("type")) {
    choice.push_back(OppositeTypes(value, is_nullable));
  } else if (is("enum") || is("const")) {
    std::vector<OrderedJson> values = is("enum") ? value.items : std::vector<OrderedJson>{value};
    if (is_nullable) values.emplace_back();
    // Lists and objects that are not empty would need a schema of all others.
    if (!std::ranges::all_of(values, [](const OrderedJson& one) {
          return one.items.empty() && one.members.empty();
        })) {
      return false;
    }
    choice.push_back(MadeSchema({{std::string(kExceptValues), ListOf(std::move(values))}}));
  } else if (is("pattern")) {
    choice.push_back(
        MadeSchema({{"type", Scalar("string")}, {std::string(kExceptPattern), value}}));
  } else if (is(kExceptPattern)) {
    choice.push_back(Typed("string", "pattern", value));
  } else if (is(kExceptValues)) {
    choice.push_back(ObjectOf({{"enum", value}}));
  } else if (is("required")) {
    for (const OrderedJson& name : value.items) {
      if (!name.string()) continue;
      choice.push_back(Without(*name.string()));
      choice.back().members.push_back({"type", Scalar("object")});  // others miss nothing
    }
  } else if (is("properties")) {
    for (const auto& [name, one] : value.members) {
      auto opposite = OppositeReference(one);
      if (!opposite) return false;
      choice.push_back(MadeSchema({{"type", Scalar("object")},
                                   {"properties", ObjectOf({{name, *std::move(opposite)}})},
                                   {"required", ListOf({Scalar(name)})}}));
    }
  } else if (is("anyOf")) {
    std::vector<OrderedJson> all;
    for (const OrderedJson& one : value.items) {
      auto opposite = OppositeReference(one);
      if (!opposite) return false;
      all.push_back(*std::move(opposite));
    }
    choice.push_back(MadeSchema({{"allOf", ListOf(std::move(all))}}));
  } else if (is("allOf")) {
    return std::ranges::all_of(value.items, add);
  } else if (is("oneOf")) {
    return value.items.size() == 1 && add(value.items[0]);
  } else if (is("not")) {
    choice.push_back(Reference(value));
  } else if (is("$ref")) {
    const OrderedJson* found = value.string() ? Numbered(*value.string()) : nullptr;
    if (!found && value.string()) found = references_.Find(schema, *value.string());
    return found && add(*found);
  } else if (is("if")) {
    return !schema.Find("then") && !schema.Find("else");
  } else if (is("items") || is("prefixItems") || is("contains")) {
    return AddOppositeOfList(schema, keyword, value, choice);
  } else if (is("minimum") || is("maximum") || is("exclusiveMinimum") || is("exclusiveMaximum") ||
             is("minLength") || is("maxLength") || is("minItems") || is("maxItems") ||
             is("minProperties") || is("maxProperties")) {
    return AddOppositeOfNumber(schema, keyword, value, choice);
  }
  return true;
}

bool SchemaConditions::Condition(const OrderedJson& schema,
                                 std::vector<const OrderedJson*>& meant) {
  const OrderedJson& condition = *schema.Find("if");
  const OrderedJson* const then = schema.Find("then");
  const OrderedJson* const otherwise = schema.Find("else");
  if (!then && !otherwise) return true;
  auto opposite = OppositeReference(condition);
  if (!opposite) return false;
  std::vector<OrderedJson> holds = {Reference(condition)}, fails = {*std::move(opposite)};
  if (then) holds.push_back(Reference(*then));
  if (otherwise) fails.push_back(Reference(*otherwise));
  meant.push_back(Keep(ChoiceOf({MadeSchema({{"allOf", ListOf(std::move(holds))}}),
                                 MadeSchema({{"allOf", ListOf(std::move(fails))}})})));
  return true;
}

bool SchemaConditions::Dependencies(const OrderedJson& value,
                                    std::vector<const OrderedJson*>& meant) {
  for (const auto& [name, one] : value.members) {
    OrderedJson depends = MadeSchema({{"type", Scalar("object")}});
    std::vector<OrderedJson> names = {Scalar(name)};
    if (one.is_array()) {
      names.insert(names.end(), one.items.begin(), one.items.end());
    } else if (one.string()) {
      names.push_back(one);  // draft 3
    } else {
      depends.members.push_back({"allOf", ListOf({Reference(one)})});
    }
    depends.members.push_back({"required", ListOf(std::move(names))});
    meant.push_back(Keep(ChoiceOf({Without(name), std::move(depends)})));
  }
  return true;
}

std::vector<std::string_view> SchemaConditions::Meant(const OrderedJson& schema,
                                                      std::vector<const OrderedJson*>& meant) {
  std::vector<std::string_view> not_said;
  for (const auto& [keyword, value] : schema.members) {
    bool is_said = true;
    if (keyword == "not") {
      const OrderedJson* const opposite = Opposite(value);
      if (opposite) meant.push_back(opposite);
      is_said = opposite != nullptr;
    } else if (keyword == "if") {
      is_said = Condition(schema, meant);
    } else if (keyword == "dependentRequired" || keyword == "dependentSchemas" ||
               keyword == "dependencies") {
      is_said = Dependencies(value, meant);
    }
    if (!is_said) not_said.push_back(keyword);
  }
  return not_said;
}

}  // namespace lectern
