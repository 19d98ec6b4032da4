#include "engine/constraint/schema_values.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "engine/constraint/pattern.h"
#include "engine/constraint/string_formats.h"
#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

// References may go in circles.
constexpr int kMostJudgedDepth = 100;
// So may alternatives that lead to the same schemas again and again.
constexpr size_t kMostJudged = 1'000'000;

unsigned TypeOfValue(const OrderedJson& value) {
  if (value.is_object()) return kObjectType;
  if (value.is_array()) return kArrayType;
  if (value.string()) return kStringType;
  if (value.boolean()) return kBooleanType;
  if (value.scalar.is_null()) return kNullType;
  return value.scalar.integer() ? kIntegerType : kFractionType;
}

std::optional<bool> Opposite(std::optional<bool> fits) {
  return fits ? std::optional(!*fits) : std::nullopt;
}

// Conditions that must all hold: one that does not decides.
class All {
 public:
  void Add(std::optional<bool> fits) {
    fails_ |= fits == false;
    is_unknown_ |= !fits;
  }
  bool fails() const { return fails_; }
  std::optional<bool> fits() const {
    return fails_ ? std::optional(false) : is_unknown_ ? std::nullopt : std::optional(true);
  }

 private:
  bool fails_ = false, is_unknown_ = false;
};

class ValueJudge {
 public:
  explicit ValueJudge(const SchemaReader& reader) : reader_(reader) {}

  std::optional<bool> Fits(const OrderedJson& value, const OrderedJson& schema) {
    if (schema.boolean()) return *schema.boolean();
    if (!schema.is_object() || depth_ > kMostJudgedDepth || ++judged_ > kMostJudged) {
      return std::nullopt;
    }
    const OrderedJson* const nullable = schema.Find("nullable");
    const bool is_nullable = nullable && nullable->boolean() && *nullable->boolean();
    if (is_nullable && TypeOfValue(value) == kNullType) return true;
    ++depth_;
    All all;
    for (const auto& [keyword, demand] : schema.members) {
      if (all.fails()) break;
      all.Add(Keyword(value, schema, keyword, demand));
    }
    --depth_;
    return all.fits();
  }

  std::optional<bool> Keyword(const OrderedJson& value, const OrderedJson& schema,
                              std::string_view keyword, const OrderedJson& demand) {
    const auto is = [&](std::string_view name) { return keyword == name; };
    const unsigned type = TypeOfValue(value);
    if (is("type")) return (ReadTypes(demand).value_or(0) & type) != 0;
    if (is("const")) return ComparedJson(value) == ComparedJson(demand);
    if (is("enum") || is(kExceptValues)) {
      const bool has = std::ranges::any_of(demand.items, [&](const OrderedJson& one) {
        return ComparedJson(one) == ComparedJson(value);
      });
      return has == is("enum");
    }
    if (is("anyOf")) return AnyOf(value, demand.items);
    if (is("oneOf")) return OneOf(value, demand.items);
    if (is("allOf")) {
      All all;
      for (const OrderedJson& one : demand.items) all.Add(Fits(value, one));
      return all.fits();
    }
    if (is("not")) return Opposite(Fits(value, demand));
    if (is("$ref")) {
      const auto found = demand.string() ? reader_.Find(schema, *demand.string())
                                         : Result<const OrderedJson*>(nullptr);
      return found.ok() && *found ? Fits(value, **found) : std::nullopt;
    }
    if (is("if") || is("then") || is("else")) {
      const OrderedJson* const condition = schema.Find("if");
      if (is("if") || !condition) return true;
      const auto holds = Fits(value, *condition);
      if (!holds) return std::nullopt;
      return *holds == is("then") ? Fits(value, demand) : true;
    }
    if (is("$dynamicRef") || is("$recursiveRef")) return std::nullopt;
    if (type == kStringType) return StringKeyword(*value.string(), keyword, demand);
    if (type & kNumberType) return NumberKeyword(value, schema, keyword, demand);
    if (type == kArrayType) return ArrayKeyword(value, schema, keyword, demand);
    if (type == kObjectType) return ObjectKeyword(value, schema, keyword, demand);
    return true;
  }

 private:
  std::optional<bool> AnyOf(const OrderedJson& value, const std::vector<OrderedJson>& schemas) {
    All none;
    for (const OrderedJson& one : schemas) none.Add(Opposite(Fits(value, one)));
    return Opposite(none.fits());
  }

  std::optional<bool> OneOf(const OrderedJson& value, const std::vector<OrderedJson>& schemas) {
    int count = 0;
    for (const OrderedJson& one : schemas) {
      const auto fits = Fits(value, one);
      if (!fits) return std::nullopt;
      count += *fits;
    }
    return count == 1;
  }

  static std::optional<bool> StringKeyword(const std::string& text, std::string_view keyword,
                                           const OrderedJson& demand) {
    if (keyword == "minLength" || keyword == "maxLength") {
      double count = 0;
      size_t length = 0;
      for (size_t at = 0; at < text.size(); at += length, ++count) DecodeChar(text, at, &length);
      const auto limit = demand.scalar.number();
      if (!limit) return std::nullopt;
      return keyword == "minLength" ? count >= *limit : count <= *limit;
    }
    if (keyword == "format" && demand.string()) {
      const auto pattern = PatternOfFormat(*demand.string());
      if (!pattern) return std::nullopt;
      if (pattern->empty()) return true;
      // A format has more texts than those of its pattern.
      const auto automaton = ParsePattern(*pattern);
      return automaton.ok() && Accepts(*automaton, text) ? std::optional(true) : std::nullopt;
    }
    if ((keyword != "pattern" && keyword != kExceptPattern) || !demand.string()) return true;
    const auto narrow = ParsePattern(*demand.string());
    const auto wide = ParsePattern(*demand.string(), /*is_wide=*/true);
    if (!narrow.ok() || !wide.ok()) return std::nullopt;
    const bool fits = Accepts(*narrow, text);
    if (fits != Accepts(*wide, text)) return std::nullopt;
    return fits == (keyword == "pattern");
  }

  static std::optional<bool> NumberKeyword(const OrderedJson& value, const OrderedJson& schema,
                                           std::string_view keyword, const OrderedJson& demand) {
    const bool is_least = keyword == "minimum" || keyword == "exclusiveMinimum";
    const bool is_most = keyword == "maximum" || keyword == "exclusiveMaximum";
    const auto limit = demand.scalar.number();
    const double number = *value.scalar.number();
    if (keyword == "multipleOf" && limit && *limit > 0) {
      const double times = number / *limit;
      return std::abs(times - std::round(times)) < 1e-9 * std::max(1.0, std::abs(times));
    }
    if ((!is_least && !is_most) || demand.boolean()) return true;  // a bool in draft 4: see below
    if (!limit) return std::nullopt;
    const OrderedJson* const exclusive =
        schema.Find(is_least ? "exclusiveMinimum" : "exclusiveMaximum");
    const bool excludes = keyword.starts_with("exclusive") ||
                          (exclusive && exclusive->boolean() && *exclusive->boolean());
    if (number == *limit) return !excludes;
    return is_least ? number > *limit : number < *limit;
  }

  std::optional<bool> ArrayKeyword(const OrderedJson& value, const OrderedJson& schema,
                                   std::string_view keyword, const OrderedJson& demand) {
    const auto size = static_cast<double>(value.items.size());
    const auto limit = demand.scalar.number();
    if (keyword == "minItems") return limit ? std::optional(size >= *limit) : std::nullopt;
    if (keyword == "maxItems") return limit ? std::optional(size <= *limit) : std::nullopt;
    if (keyword == "uniqueItems") {
      std::set<std::string> known;
      for (const OrderedJson& item : value.items) known.insert(ComparedJson(item));
      return DemandsNothing(keyword, demand) || known.size() == value.items.size();
    }
    if (keyword == "contains" || keyword == "unevaluatedItems") return std::nullopt;
    const bool is_prefix = keyword == "prefixItems" || (keyword == "items" && demand.is_array());
    const OrderedJson* prefix = schema.Find("prefixItems");
    const OrderedJson* const items = schema.Find("items");
    if (!prefix && items && items->is_array()) prefix = items;
    const size_t first = prefix ? prefix->items.size() : 0;
    All all;
    if (is_prefix) {
      // "items" may be a list of another length beside "prefixItems".
      for (size_t i = 0; i < std::min(demand.items.size(), value.items.size()); ++i) {
        all.Add(Fits(value.items[i], demand.items[i]));
      }
    } else if (keyword == "items" || (keyword == "additionalItems" && items && items->is_array())) {
      for (size_t i = first; i < value.items.size(); ++i) all.Add(Fits(value.items[i], demand));
    }
    return all.fits();
  }

  std::optional<bool> ObjectKeyword(const OrderedJson& value, const OrderedJson& schema,
                                    std::string_view keyword, const OrderedJson& demand) {
    const auto size = static_cast<double>(value.members.size());
    const auto limit = demand.scalar.number();
    if (keyword == "minProperties") return limit ? std::optional(size >= *limit) : std::nullopt;
    if (keyword == "maxProperties") return limit ? std::optional(size <= *limit) : std::nullopt;
    All all;
    if (keyword == "required") {
      for (const OrderedJson& name : demand.items) {
        if (name.string()) all.Add(value.Find(*name.string()) != nullptr);
      }
    } else if (keyword == "properties") {
      for (const auto& [name, one] : demand.members) {
        if (const OrderedJson* const member = value.Find(name)) all.Add(Fits(*member, one));
      }
    } else if (keyword == "additionalProperties") {
      const OrderedJson* const properties = schema.Find("properties");
      for (const auto& [name, member] : value.members) {
        if (properties && properties->Find(name)) continue;
        if (schema.Find("patternProperties")) return std::nullopt;
        all.Add(Fits(member, demand));
      }
    } else if (keyword == "propertyNames") {
      for (const auto& [name, member] : value.members) {
        OrderedJson text;
        text.scalar = name;
        all.Add(Fits(text, demand));
      }
    } else if ((keyword == "patternProperties" || keyword == "dependentRequired" ||
                keyword == "dependentSchemas" || keyword == "dependencies" ||
                keyword == "unevaluatedProperties") &&
               !DemandsNothing(keyword, demand)) {
      return std::nullopt;
    }
    return all.fits();
  }

  const SchemaReader& reader_;
  int depth_ = 0;
  size_t judged_ = 0;
};

}  // namespace

std::optional<bool> ValueFits(const OrderedJson& value, const OrderedJson& schema,
                              const SchemaReader& reader) {
  return ValueJudge(reader).Fits(value, schema);
}

std::optional<bool> KeywordFits(const OrderedJson& value, const OrderedJson& schema,
                                std::string_view keyword, const OrderedJson& demand,
                                const SchemaReader& reader) {
  const OrderedJson* const nullable = schema.Find("nullable");
  if (nullable && nullable->boolean() && *nullable->boolean() && TypeOfValue(value) == kNullType) {
    return true;
  }
  return ValueJudge(reader).Keyword(value, schema, keyword, demand);
}

}  // namespace lectern
