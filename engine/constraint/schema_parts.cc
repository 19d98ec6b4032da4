#include "engine/constraint/schema_parts.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <utility>

namespace lectern {
namespace {

struct NamedType {
  std::string_view name;
  unsigned types;
};
constexpr NamedType kTypes[] = {{"object", kObjectType},   {"array", kArrayType},
                                {"string", kStringType},   {"number", kNumberType},
                                {"integer", kIntegerType}, {"boolean", kBooleanType},
                                {"null", kNullType},       {kMadeFraction, kFractionType}};

// Keywords that are for values of one type.
constexpr NamedType kKeywordTypes[] = {{"properties", kObjectType},
                                       {"required", kObjectType},
                                       {"additionalProperties", kObjectType},
                                       {"patternProperties", kObjectType},
                                       {"propertyNames", kObjectType},
                                       {"minProperties", kObjectType},
                                       {"maxProperties", kObjectType},
                                       {"items", kArrayType},
                                       {"prefixItems", kArrayType},
                                       {"minItems", kArrayType},
                                       {"maxItems", kArrayType},
                                       {"uniqueItems", kArrayType},
                                       {"contains", kArrayType},
                                       {"unevaluatedItems", kArrayType},
                                       {"unevaluatedProperties", kObjectType},
                                       {"pattern", kStringType},
                                       {"format", kStringType},
                                       {"minLength", kStringType},
                                       {"maxLength", kStringType},
                                       {"minimum", kNumberType},
                                       {"maximum", kNumberType},
                                       {"exclusiveMinimum", kNumberType},
                                       {"exclusiveMaximum", kNumberType},
                                       {"multipleOf", kNumberType}};

std::optional<unsigned> TypeNamed(std::string_view name) {
  const auto at = std::ranges::find(kTypes, name, &NamedType::name);
  return at == std::end(kTypes) ? std::nullopt : std::optional(at->types);
}

bool IsTrue(const OrderedJson* value) { return value && value->boolean() && *value->boolean(); }

bool FindPlace(const OrderedJson& from, const OrderedJson& node, std::string& place) {
  if (&from == &node) return true;
  const size_t size = place.size();
  for (const auto& [key, member] : from.members) {
    place += "/" + key;
    if (FindPlace(member, node, place)) return true;
    place.resize(size);
  }
  for (size_t i = 0; i < from.items.size(); ++i) {
    place += "/" + std::to_string(i);
    if (FindPlace(from.items[i], node, place)) return true;
    place.resize(size);
  }
  return false;
}

}  // namespace

std::optional<unsigned> ReadTypes(const OrderedJson& value) {
  if (value.string()) return TypeNamed(*value.string());
  if (!value.is_array()) return std::nullopt;
  unsigned types = 0;
  for (const OrderedJson& item : value.items) {
    const auto one = item.string() ? TypeNamed(*item.string()) : std::nullopt;
    if (!one) return std::nullopt;
    types |= *one;
  }
  return types;
}

bool SchemaParts::IsUnder(size_t index, const OrderedJson& owner) const {
  const OrderedJson* node = parts[index].node;
  for (size_t steps = 0; node && steps <= parts.size(); ++steps) {
    if (node == &owner) return true;
    if (node->Find(kOppositeMark)) return false;
    const auto at = std::ranges::find(parts, node, &SchemaPart::node);
    node = at == parts.end() ? nullptr : at->under;
  }
  return false;
}

std::string SchemaReader::PlaceOf(const OrderedJson& node) const {
  std::string place = "#";
  FindPlace(root_, node, place);
  return place;
}

Status SchemaReader::Wrong(const OrderedJson& node, std::string_view keyword,
                           std::string_view message) const {
  return {Code::kInvalidArgument, "\"" + std::string(keyword) + "\" of the schema, at " +
                                      PlaceOf(node) + ", " + std::string(message)};
}

Status SchemaReader::NotKept(const OrderedJson& node, std::string_view keyword) {
  if (is_strict_) {
    return Wrong(node, keyword,
                 "cannot be kept; leave it out, or do not ask for a strict schema and check the "
                 "answer yourself");
  }
  if (std::ranges::find(not_kept_, keyword) == not_kept_.end()) not_kept_.emplace_back(keyword);
  return {};
}

Status SchemaReader::Check(const OrderedJson& schema) {
  if (!checked_.insert(&schema).second) return {};
  for (const auto& [keyword, value] : schema.members) {
    const auto is = [&keyword = keyword](std::string_view name) { return keyword == name; };
    if (is("type") && !ReadTypes(value)) {
      return Wrong(schema, keyword, "names a type that JSON does not have");
    }
    if ((is("properties") || is("patternProperties")) && !value.is_object()) {
      return Wrong(schema, keyword, "must be an object of schemas");
    }
    const bool is_list = is("required") || is("enum") || is("anyOf") || is("oneOf") ||
                         is("allOf") || is("prefixItems");
    if (is_list && !value.is_array()) return Wrong(schema, keyword, "must be a list");
    const bool must_not_be_empty = is("anyOf") || is("oneOf") || is("enum");
    if (must_not_be_empty && value.items.empty()) return Wrong(schema, keyword, "is empty");
    if ((is("$ref") || is("pattern") || is("format")) && !value.string()) {
      return Wrong(schema, keyword, "must be a text");
    }
  }
  return {};
}

Result<const OrderedJson*> SchemaReader::Find(const OrderedJson& from,
                                              const std::string& reference) const {
  if (const OrderedJson* const made = conditions_.Numbered(reference)) return made;
  if (const OrderedJson* const found = references_.Find(from, reference)) return found;
  return Wrong(from, "$ref",
               "leads to nothing in the schema: \"" + reference.substr(0, 200) +
                   "\"; put what it means under $defs");
}

Status SchemaReader::AddAlternative(const OrderedJson& owner, const OrderedJson& alternative,
                                    SchemaParts& parts) {
  path_.push_back(&owner);
  owners_.push_back(&owner);
  const Status status = Add(alternative, parts);
  owners_.pop_back();
  path_.pop_back();
  return status;
}

Result<bool> SchemaReader::AddOpposite(const OrderedJson& owner, const OrderedJson& alternative,
                                       SchemaParts& parts) {
  const OrderedJson* const opposite = Opposite(alternative);
  if (!opposite) return false;
  LECTERN_RETURN_IF_ERROR(AddAlternative(owner, *opposite, parts));
  return true;
}

Status SchemaReader::Add(const OrderedJson& schema, SchemaParts& parts) {
  if (schema.boolean()) {
    parts.is_impossible |= !*schema.boolean();
    return {};
  }
  if (!schema.is_object()) {
    return {Code::kInvalidArgument, "the schema, at " + PlaceOf(schema) +
                                        ", is no schema: it must be an object, true or false"};
  }
  if (std::ranges::find(path_, &schema) != path_.end()) {
    return {Code::kInvalidArgument, "the schema, at " + PlaceOf(schema) +
                                        ", refers to itself with nothing between; put the "
                                        "reference into an object or array"};
  }
  path_.push_back(&schema);
  const Status status = AddObject(schema, parts);
  path_.pop_back();
  return status;
}

Status SchemaReader::AddReferences(const OrderedJson& schema, SchemaParts& parts) {
  if (const OrderedJson* const reference = schema.Find("$ref")) {
    LECTERN_ASSIGN(const OrderedJson* const found, Find(schema, *reference->string()));
    LECTERN_RETURN_IF_ERROR(Add(*found, parts));
  }
  for (const std::string_view keyword : {"$dynamicRef", "$recursiveRef"}) {
    const OrderedJson* const reference = schema.Find(keyword);
    if (!reference) continue;
    const OrderedJson* const found =
        reference->string() ? references_.FindDynamic(schema, *reference->string()) : nullptr;
    if (found) {
      LECTERN_RETURN_IF_ERROR(Add(*found, parts));
    } else {
      LECTERN_RETURN_IF_ERROR(NotKept(schema, keyword));
    }
  }
  return {};
}

Status SchemaReader::AddConditions(const OrderedJson& schema, SchemaParts& parts) {
  constexpr std::string_view kConditions[] = {"not", "if", "dependentRequired", "dependentSchemas",
                                              "dependencies"};
  const bool has_conditions = std::ranges::any_of(kConditions, [&](std::string_view keyword) {
    const OrderedJson* const value = schema.Find(keyword);
    const bool has_no_effect = keyword == "if" && !schema.Find("then") && !schema.Find("else");
    return value && !has_no_effect && !DemandsNothing(keyword, *value);
  });
  if (!has_conditions) return {};
  if (!says_conditions_) {
    for (const std::string_view keyword : kConditions) {
      if (schema.Find(keyword)) LECTERN_RETURN_IF_ERROR(NotKept(schema, keyword));
    }
    return {};
  }
  std::vector<const OrderedJson*> meant;
  for (const std::string_view keyword : conditions_.Meant(schema, meant)) {
    LECTERN_RETURN_IF_ERROR(NotKept(schema, keyword));
  }
  for (const OrderedJson* const one : meant) LECTERN_RETURN_IF_ERROR(Add(*one, parts));
  return {};
}

Status SchemaReader::AddObject(const OrderedJson& schema, SchemaParts& parts) {
  LECTERN_RETURN_IF_ERROR(Check(schema));
  if (schema.Find("$ref") && schema.members.size() == 1) return AddReferences(schema, parts);
  // A schema that is there counts once; where an alternative of it was chosen, the same one holds.
  if (std::ranges::find(parts.parts, &schema, &SchemaPart::node) != parts.parts.end()) return {};
  const OrderedJson* const under = owners_.empty() ? nullptr : owners_.back();
  owners_.push_back(&schema);
  Status status = AddReferences(schema, parts);
  if (const OrderedJson* const all = schema.Find("allOf")) {
    for (const OrderedJson& one : all->items) {
      if (status.ok()) status = Add(one, parts);
    }
  }
  parts.parts.push_back({.node = &schema, .under = under});
  if (status.ok()) status = AddConditions(schema, parts);
  owners_.pop_back();
  return status;
}

unsigned SchemaReader::TypesOf(const SchemaParts& parts, bool takes_keywords) const {
  unsigned types = kAllTypes, by_keyword = 0;
  bool is_named = false;
  for (const SchemaPart& part : parts.parts) {
    const OrderedJson* const type = part.node->Find("type");
    const bool is_nullable = IsTrue(part.node->Find("nullable"));
    if (type) {
      types &= ReadTypes(*type).value_or(kAllTypes) | (is_nullable ? kNullType : 0u);
      is_named |= !IsMade(*part.node);
    }
    if (IsMade(*part.node) || !takes_keywords) continue;
    for (const NamedType& one : kKeywordTypes) {
      if (part.node->Find(one.name)) by_keyword |= one.types;
    }
  }
  return is_named || by_keyword == 0 ? types : types & by_keyword;
}

std::optional<std::vector<OrderedJson>> SchemaReader::LiteralsOf(const SchemaParts& parts) const {
  std::optional<std::map<std::string, OrderedJson>> left;  // by the form that is compared
  const auto keep = [&](std::span<const OrderedJson> values, bool is_nullable) {
    std::map<std::string, OrderedJson> these;
    const auto add = [&](const OrderedJson& value) {
      std::string compared = ComparedJson(value);
      if (left && !left->contains(compared)) return;
      these.emplace(std::move(compared), value);
    };
    for (const OrderedJson& value : values) add(value);
    if (is_nullable) add(OrderedJson());
    left = std::move(these);
  };
  for (const SchemaPart& part : parts.parts) {
    const bool is_nullable = IsTrue(part.node->Find("nullable"));
    if (const auto* const only = part.node->Find("const")) keep({only, 1}, is_nullable);
    if (const auto* const some = part.node->Find("enum")) keep(some->items, is_nullable);
  }
  if (!left) return std::nullopt;
  std::vector<OrderedJson> literals;
  for (auto& [compared, value] : *left) literals.push_back(std::move(value));
  return literals;
}

Result<std::optional<uint32_t>> SchemaReader::Count(const SchemaParts& parts,
                                                    std::string_view keyword,
                                                    bool takes_largest) const {
  std::optional<uint32_t> count;
  for (const SchemaPart& part : parts.parts) {
    const OrderedJson* const value = part.node->Find(keyword);
    if (!value) continue;
    const auto number = value->scalar.unsigned_integer();
    if (!number) return Wrong(*part.node, keyword, "must be a whole number, 0 or more");
    const auto one = static_cast<uint32_t>(std::min<uint64_t>(*number, UINT32_MAX));
    count = !count ? one : takes_largest ? std::max(*count, one) : std::min(*count, one);
  }
  return count;
}

Result<NumberBounds> SchemaReader::BoundsOf(const SchemaParts& parts) const {
  NumberBounds bounds;
  for (const SchemaPart& part : parts.parts) {
    const auto take = [&](std::string_view keyword, std::string_view exclusive, bool is_least,
                          std::optional<double>& bound, bool& is_excluded) -> Status {
      const OrderedJson* const plain = part.node->Find(keyword);
      const OrderedJson* const other = part.node->Find(exclusive);
      const auto narrow = [&](double number, bool excludes) {
        const bool is_narrower = !bound || (is_least ? number > *bound : number < *bound);
        if (is_narrower) bound = number, is_excluded = excludes;
        if (number == *bound) is_excluded |= excludes;
      };
      if (plain) {
        const auto number = plain->scalar.number();
        if (!number) return Wrong(*part.node, keyword, "must be a number");
        narrow(*number, IsTrue(other));  // a bool in draft 4
      }
      if (other && !other->boolean()) {
        const auto number = other->scalar.number();
        if (!number) return Wrong(*part.node, exclusive, "must be a number");
        narrow(*number, true);
      }
      return {};
    };
    LECTERN_RETURN_IF_ERROR(
        take("minimum", "exclusiveMinimum", true, bounds.least, bounds.is_least_excluded));
    LECTERN_RETURN_IF_ERROR(
        take("maximum", "exclusiveMaximum", false, bounds.most, bounds.is_most_excluded));
  }
  return bounds;
}

std::vector<std::string> SchemaReader::RequiredOf(const SchemaParts& parts) const {
  std::vector<std::string> names;
  for (const SchemaPart& part : parts.parts) {
    const OrderedJson* const required = part.node->Find("required");
    if (!required) continue;
    for (const OrderedJson& name : required->items) {
      if (!name.string()) continue;
      if (std::ranges::find(names, *name.string()) == names.end()) names.push_back(*name.string());
    }
  }
  return names;
}

Result<bool> SchemaReader::Exclude(const SchemaParts& one, const SchemaParts& other) {
  if (one.is_impossible || other.is_impossible) return true;
  // Values that are written for one have the types of its keywords; the other may allow them though
  // its own keywords are for another type.
  const unsigned types = (TypesOf(one) & TypesOf(other, /*takes_keywords=*/false)) |
                         (TypesOf(one, /*takes_keywords=*/false) & TypesOf(other));
  if (types == 0) return true;
  const auto are_apart = [&](const SchemaParts& a, const SchemaParts& b) {
    const auto of_a = LiteralsOf(a), of_b = LiteralsOf(b);
    if (!of_a || !of_b) return false;
    std::set<std::string> known;
    for (const OrderedJson& value : *of_a) known.insert(ComparedJson(value));
    return std::ranges::none_of(
        *of_b, [&](const OrderedJson& value) { return known.contains(ComparedJson(value)); });
  };
  if (are_apart(one, other)) return true;
  if (types != kObjectType) return false;
  const std::vector<std::string> of_other = RequiredOf(other);
  for (const std::string& name : RequiredOf(one)) {
    if (std::ranges::find(of_other, name) == of_other.end()) continue;
    SchemaParts members[2];
    for (int i = 0; i < 2; ++i) {
      for (const SchemaPart& part : (i == 0 ? one : other).parts) {
        const OrderedJson* const properties = part.node->Find("properties");
        const OrderedJson* const member = properties ? properties->Find(name) : nullptr;
        if (member) LECTERN_RETURN_IF_ERROR(Add(*member, members[i]));
      }
    }
    if (are_apart(members[0], members[1])) return true;
  }
  return false;
}

}  // namespace lectern
