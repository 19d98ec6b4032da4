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
                                {"null", kNullType}};

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
                                       {"pattern", kStringType},
                                       {"format", kStringType},
                                       {"minLength", kStringType},
                                       {"maxLength", kStringType},
                                       {"minimum", kNumberType},
                                       {"maximum", kNumberType},
                                       {"exclusiveMinimum", kNumberType},
                                       {"exclusiveMaximum", kNumberType}};

constexpr std::string_view kNotKept[] = {"not",
                                         "if",
                                         "dependentRequired",
                                         "dependentSchemas",
                                         "dependencies",
                                         "propertyNames",
                                         "patternProperties",
                                         "unevaluatedItems",
                                         "uniqueItems",
                                         "contains",
                                         "multipleOf",
                                         "$dynamicRef",
                                         "$recursiveRef",
                                         "unevaluatedProperties"};

// Whether a keyword with this value demands nothing.
bool DemandsNothing(std::string_view keyword, const OrderedJson& value) {
  if (value.is_object()) return value.members.empty();
  if (value.is_array()) return value.items.empty();
  if (keyword == "unevaluatedProperties") return value.boolean() != nullptr;  // as additional…
  if (keyword == "multipleOf") return false;
  return value.scalar.is_null() ||
         (value.boolean() &&
          (keyword == "uniqueItems" || keyword == "not" ? !*value.boolean() : *value.boolean()));
}

std::optional<unsigned> TypeNamed(std::string_view name) {
  const auto at = std::ranges::find(kTypes, name, &NamedType::name);
  return at == std::end(kTypes) ? std::nullopt : std::optional(at->types);
}

// The types of a "type"; nothing: it is none.
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

bool IsTrue(const OrderedJson* value) { return value && value->boolean() && *value->boolean(); }

unsigned TypeOfValue(const OrderedJson& value) {
  if (value.is_object()) return kObjectType;
  if (value.is_array()) return kArrayType;
  if (value.string()) return kStringType;
  if (value.boolean()) return kBooleanType;
  if (value.scalar.is_null()) return kNullType;
  return value.scalar.integer() ? kIntegerType : kFractionType;
}

// A value for comparing: 1 and 1.0 are equal in JSON schemas.
std::string Compared(const OrderedJson& value) {
  if (value.kind == OrderedJson::Kind::kScalar && !value.string()) {
    if (const auto whole = value.scalar.integer()) return std::to_string(*whole);
  }
  return DumpOrdered(value);
}

// "%41" of a reference as "A", and "~1", "~0" as "/", "~".
std::string Unescaped(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2) {
      bytes += static_cast<char>(code);
      i += 2;
    } else {
      bytes += text[i];
    }
  }
  std::string key;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool is_escape =
        bytes[i] == '~' && i + 1 < bytes.size() && (bytes[i + 1] == '0' || bytes[i + 1] == '1');
    key += is_escape ? (bytes[++i] == '0' ? '~' : '/') : bytes[i];
  }
  return key;
}

// The value at a pointer such as "/$defs/person"; nullptr: there is none.
const OrderedJson* Follow(const OrderedJson& root, std::string_view pointer) {
  const OrderedJson* at = &root;
  while (at && !pointer.empty()) {
    const size_t end = std::min(pointer.find('/', 1), pointer.size());
    const std::string key = Unescaped(pointer.substr(1, end - 1));
    pointer.remove_prefix(end);
    if (at->is_array()) {
      size_t index = at->items.size();
      std::from_chars(key.data(), key.data() + key.size(), index);
      at = index < at->items.size() ? &at->items[index] : nullptr;
    } else {
      at = at->Find(key);
    }
  }
  return at;
}

// The first schema of the tree whose `keyword` is this text; nullptr: none.
const OrderedJson* FindNamed(const OrderedJson& from, std::string_view keyword,
                             std::string_view text) {
  const OrderedJson* const name = from.Find(keyword);
  if (name && name->string() && *name->string() == text) return &from;
  for (const auto& [key, member] : from.members) {
    if (const auto* const found = FindNamed(member, keyword, text)) return found;
  }
  for (const OrderedJson& item : from.items) {
    if (const auto* const found = FindNamed(item, keyword, text)) return found;
  }
  return nullptr;
}

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
    if (std::ranges::find(kNotKept, keyword) == std::end(kNotKept)) continue;
    const bool is_kept = is("multipleOf") && value.scalar.integer() == 1;
    const bool has_no_effect = is("if") && !schema.Find("then") && !schema.Find("else");
    if (!is_kept && !has_no_effect && !DemandsNothing(keyword, value)) {
      LECTERN_RETURN_IF_ERROR(NotKept(schema, keyword));
    }
  }
  return {};
}

Result<const OrderedJson*> SchemaReader::Find(const OrderedJson& from,
                                              const std::string& reference) const {
  std::string_view rest = reference;
  const OrderedJson* const id = root_.Find("$id");
  if (id && id->string() && rest.starts_with(*id->string()))
    rest.remove_prefix(id->string()->size());
  if (rest.starts_with('#')) rest.remove_prefix(1);
  const OrderedJson* found = nullptr;
  if (rest.empty() || rest.starts_with('/')) {
    found = Follow(root_, rest);
  } else {
    found = FindNamed(root_, "$anchor", rest);
    if (!found) found = FindNamed(root_, "$id", reference);
  }
  if (found) return found;
  return Wrong(from, "$ref",
               "leads to nothing in the schema: \"" + reference.substr(0, 200) +
                   "\"; put what it means under $defs");
}

Status SchemaReader::AddAlternative(const OrderedJson& owner, const OrderedJson& alternative,
                                    SchemaParts& parts) {
  path_.push_back(&owner);
  const Status status = Add(alternative, parts);
  path_.pop_back();
  return status;
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

Status SchemaReader::AddObject(const OrderedJson& schema, SchemaParts& parts) {
  LECTERN_RETURN_IF_ERROR(Check(schema));
  if (const OrderedJson* const reference = schema.Find("$ref")) {
    LECTERN_ASSIGN(const OrderedJson* const found, Find(schema, *reference->string()));
    LECTERN_RETURN_IF_ERROR(Add(*found, parts));
    if (schema.members.size() == 1) return {};
  }
  if (const OrderedJson* const all = schema.Find("allOf")) {
    for (const OrderedJson& one : all->items) LECTERN_RETURN_IF_ERROR(Add(one, parts));
  }
  // A schema that is there counts once; where an alternative of it was chosen, the same one holds.
  const auto known = std::ranges::find(parts.parts, &schema, &SchemaPart::node);
  if (known == parts.parts.end()) parts.parts.push_back({&schema});
  return {};
}

unsigned SchemaReader::TypesOf(const SchemaParts& parts) const {
  unsigned types = kAllTypes, by_keyword = 0;
  bool is_named = false;
  for (const SchemaPart& part : parts.parts) {
    const OrderedJson* const type = part.node->Find("type");
    const bool is_nullable = IsTrue(part.node->Find("nullable"));
    if (type) {
      types &= ReadTypes(*type).value_or(kAllTypes) | (is_nullable ? kNullType : 0u);
      is_named = true;
    }
    for (const NamedType& one : kKeywordTypes) {
      if (part.node->Find(one.name)) by_keyword |= one.types;
    }
    const OrderedJson* const multiple = part.node->Find("multipleOf");
    if (multiple && multiple->scalar.integer() == 1) types &= ~unsigned{kFractionType};
  }
  return is_named || by_keyword == 0 ? types : types & by_keyword;
}

std::optional<std::vector<std::string>> SchemaReader::LiteralsOf(const SchemaParts& parts) const {
  unsigned types = kAllTypes;
  for (const SchemaPart& part : parts.parts) {
    const OrderedJson* const type = part.node->Find("type");
    if (!type) continue;
    types &= ReadTypes(*type).value_or(kAllTypes) |
             (IsTrue(part.node->Find("nullable")) ? kNullType : 0u);
  }
  std::optional<std::map<std::string, std::string>> left;  // written, by the form that is compared
  std::vector<std::string> order;
  const auto keep = [&](std::span<const OrderedJson> values, bool is_nullable) {
    std::map<std::string, std::string> these;
    order.clear();
    const auto add = [&](const OrderedJson& value) {
      if ((TypeOfValue(value) & types) == 0) return;
      std::string compared = Compared(value);
      if (left && !left->contains(compared)) return;
      order.push_back(compared);
      these.emplace(std::move(compared), DumpOrdered(value));
    };
    for (const OrderedJson& value : values) add(value);
    if (is_nullable) add(OrderedJson());
    left = std::move(these);
  };
  for (const SchemaPart& part : parts.parts) {
    const bool is_nullable = IsTrue(part.node->Find("nullable"));
    if (const auto* const only = part.node->Find("const")) keep({only, 1}, false);
    if (const auto* const some = part.node->Find("enum")) keep(some->items, is_nullable);
  }
  if (!left) return std::nullopt;
  std::vector<std::string> literals;
  for (const std::string& compared : order) literals.push_back(left->at(compared));
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
  if ((TypesOf(one) & TypesOf(other)) == 0) return true;
  const auto are_apart = [&](const SchemaParts& a, const SchemaParts& b) {
    const auto of_a = LiteralsOf(a), of_b = LiteralsOf(b);
    if (!of_a || !of_b) return false;
    return std::ranges::none_of(*of_a, [&](const std::string& value) {
      return std::ranges::find(*of_b, value) != of_b->end();
    });
  };
  if (are_apart(one, other)) return true;
  if ((TypesOf(one) & TypesOf(other)) != kObjectType) return false;
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
