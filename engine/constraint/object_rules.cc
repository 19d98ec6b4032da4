#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/constraint/char_automaton.h"
#include "engine/constraint/container_rules.h"
#include "engine/constraint/pattern.h"
#include "engine/constraint/schema_values.h"
#include "engine/constraint/text_rules.h"

namespace lectern {
namespace {

// Names that "propertyNames" lists are members of their own, if they are so few.
constexpr size_t kMostListedNames = 5000;
// With so many patterns, members may have names that match any combination of them; with more,
// names that match one pattern alone or none.
constexpr size_t kMostCombined = 4;
// More patterns are not kept.
constexpr size_t kMostNamePatterns = 32;
// States of an object whose members are counted; beyond them the count is not kept.
constexpr size_t kMostObjectStates = 10'000;

// A pattern of "patternProperties". `wide` has all names that it may match, `narrow` those that it
// does (pattern.h).
struct NamePattern {
  std::string text;
  CharAutomaton narrow, wide;
};

class ObjectMaker {
 public:
  ObjectMaker(const SchemaParts& parts, SchemaRules& rules)
      : parts_(parts), rules_(rules), reader_(rules.reader()), builder_(rules.builder()) {}

  Result<uint32_t> Make() {
    LECTERN_RETURN_IF_ERROR(ReadPatterns());
    LECTERN_RETURN_IF_ERROR(ReadNames());
    LECTERN_ASSIGN(const uint32_t others, Others());
    LECTERN_RETURN_IF_ERROR(ReadCounts(others != kNoText));
    return Members(others);
  }

 private:
  // Patterns of all parts, each once.
  Status ReadPatterns() {
    for (const SchemaPart& part : parts_.parts) {
      const OrderedJson* const patterns = part.node->Find("patternProperties");
      if (!patterns) continue;
      for (const auto& [text, schema] : patterns->members) {
        if (std::ranges::find(patterns_, text, &NamePattern::text) != patterns_.end()) continue;
        if (patterns_.size() == kMostNamePatterns) {
          LECTERN_RETURN_IF_ERROR(reader_.NotKept(*part.node, "patternProperties"));
          break;
        }
        auto narrow = ParsePattern(text), wide = ParsePattern(text, /*is_wide=*/true);
        if (narrow.ok() && wide.ok()) {
          patterns_.push_back({text, *std::move(narrow), *std::move(wide)});
        } else if (!reader_.NotKept(*part.node, "patternProperties").ok()) {
          const Status& error = narrow.ok() ? wide.status() : narrow.status();
          return reader_.Wrong(*part.node, "patternProperties", error.message());
        }
      }
    }
    return {};
  }

  void AddName(const std::string& name) {
    if (names_.known.insert(name).second) names_.all.push_back(name);
  }

  // The members that have a name, in the order of the schema, and those that are required.
  Status ReadNames() {
    for (const SchemaPart& part : parts_.parts) {
      const bool is_made = IsMade(*part.node);
      if (const OrderedJson* const properties = part.node->Find("properties")) {
        for (const auto& [name, schema] : properties->members) AddName(name);
        is_closed_ |= !is_made && !properties->members.empty();
      }
      is_closed_ |= !is_made && part.node->Find("patternProperties");
      const OrderedJson* const unevaluated = part.node->Find("unevaluatedProperties");
      const bool opens = unevaluated && (!unevaluated->boolean() || *unevaluated->boolean());
      is_opened_ |= opens || part.node->Find("additionalProperties");
      is_closed_ |= !is_made && part.node->Find("required");
      const OrderedJson* const names = part.node->Find("propertyNames");
      if (names) LECTERN_RETURN_IF_ERROR(reader_.Add(*names, names_.schemas));
    }
    names_.required = reader_.RequiredOf(parts_);
    for (const std::string& name : names_.required) AddName(name);
    if (is_closed_ && !is_opened_) return {};
    if (names_.schemas.parts.empty()) return {};
    LECTERN_ASSIGN(const auto listed, ValuesOf(names_.schemas, kMostListedNames, reader_));
    if (!listed) return {};
    for (const OrderedJson& name : *listed) {
      if (!name.string()) continue;
      AddName(*name.string());
      names_.listed.insert(*name.string());
    }
    are_listed_ = true;
    return {};
  }

  // Whether the pattern matches a name: nothing where that depends on the reader.
  static std::optional<bool> Matches(const NamePattern& pattern, const std::string& name) {
    const bool is_narrow = Accepts(pattern.narrow, name);
    return is_narrow == Accepts(pattern.wide, name) ? std::optional(is_narrow) : std::nullopt;
  }

  // Adds what the parts say of the member of this name, or, without one, of members whose names
  // `matches` says the patterns of.
  Status AddMember(const std::string* name, const std::vector<std::optional<bool>>& matches,
                   SchemaParts& member) {
    const auto matched = [&](const OrderedJson& node, bool surely) {
      const OrderedJson* const patterns = node.Find("patternProperties");
      for (size_t i = 0; patterns && i < patterns_.size(); ++i) {
        const bool counts = matches[i] ? *matches[i] : !surely;
        if (counts && patterns->Find(patterns_[i].text)) return true;
      }
      return false;
    };
    const auto own_of = [&](const OrderedJson& node) {
      const OrderedJson* const properties = node.Find("properties");
      return name && properties ? properties->Find(*name) : nullptr;
    };
    for (const SchemaPart& part : parts_.parts) {
      const OrderedJson& node = *part.node;
      const OrderedJson* const own = own_of(node);
      if (own) LECTERN_RETURN_IF_ERROR(reader_.Add(*own, member));
      const OrderedJson* const patterns = node.Find("patternProperties");
      for (size_t i = 0; patterns && i < patterns_.size(); ++i) {
        const OrderedJson* const schema = patterns->Find(patterns_[i].text);
        if (schema && matches[i] != false) LECTERN_RETURN_IF_ERROR(reader_.Add(*schema, member));
      }
      const OrderedJson* const additional = node.Find("additionalProperties");
      if (additional && !own && !matched(node, true)) {
        LECTERN_RETURN_IF_ERROR(reader_.Add(*additional, member));
      }
      const OrderedJson* const unevaluated = node.Find("unevaluatedProperties");
      if (!unevaluated) continue;
      bool is_evaluated = false;
      for (size_t i = 0; i < parts_.parts.size() && !is_evaluated; ++i) {
        const OrderedJson& other = *parts_.parts[i].node;
        if (!parts_.IsUnder(i, node)) continue;
        is_evaluated = own_of(other) || matched(other, true) ||
                       other.Find("additionalProperties") ||
                       (&other != &node && other.Find("unevaluatedProperties"));
      }
      if (!is_evaluated) LECTERN_RETURN_IF_ERROR(reader_.Add(*unevaluated, member));
    }
    return {};
  }

  // Whether a name fits "propertyNames"; a keyword there that cannot be judged is not kept.
  Result<bool> FitsNames(const std::string& name) {
    if (are_listed_) return names_.listed.contains(name);
    OrderedJson text;
    text.scalar = name;
    for (const SchemaPart& part : parts_.parts) {
      const OrderedJson* const names = part.node->Find("propertyNames");
      if (!names) continue;
      const auto fits = ValueFits(text, *names, reader_);
      if (fits == false) return false;
      if (!fits) LECTERN_RETURN_IF_ERROR(reader_.NotKept(*part.node, "propertyNames"));
    }
    return true;
  }

  // The state of one member that is not among the names, whose rule goes on to its end; kNoText:
  // there are none.
  Result<uint32_t> Others() {
    if (are_listed_) return kNoText;
    std::vector<std::string_view> texts(names_.all.begin(), names_.all.end());
    CharAutomaton all = CharsExcept(texts);
    if (!names_.schemas.parts.empty() || names_.schemas.is_impossible) {
      LECTERN_ASSIGN(const CharAutomaton fitting, StringsOf(names_.schemas, reader_));
      auto both = Intersection(all, fitting, kMostPatternStates);
      if (!both) {
        return Status(Code::kLimitExceeded,
                      "the names of an object's members (propertyNames) are too many");
      }
      all = *std::move(both);
    }
    // Each set of patterns that a name may match; without a limit there would be too many.
    std::vector<std::vector<std::optional<bool>>> sets;
    const size_t count = patterns_.size();
    if (count <= kMostCombined) {
      for (size_t set = 0; set < size_t{1} << count; ++set) {
        sets.emplace_back();
        for (size_t i = 0; i < count; ++i) sets.back().push_back((set >> i & 1) != 0);
      }
    } else {
      for (size_t one = 0; one <= count; ++one) {
        sets.emplace_back();
        for (size_t i = 0; i < count; ++i) sets.back().push_back(i == one);
      }
    }
    uint32_t begin = kNoText;
    for (const auto& set : sets) {
      LECTERN_ASSIGN(const uint32_t some, OthersOf(set, all));
      begin = builder_.Split(some, begin);
    }
    return begin;
  }

  // The same of names that match just these patterns.
  Result<uint32_t> OthersOf(const std::vector<std::optional<bool>>& set, const CharAutomaton& all) {
    const bool has_match = std::ranges::find(set, std::optional(true)) != set.end();
    if (!has_match && is_closed_ && !is_opened_) return kNoText;
    SchemaParts member;
    LECTERN_RETURN_IF_ERROR(AddMember(nullptr, set, member));
    if (member.is_impossible) return kNoText;
    std::optional<CharAutomaton> names = all;
    for (size_t i = 0; i < set.size() && names; ++i) {
      if (*set[i]) {
        names = Intersection(*names, patterns_[i].narrow, kMostPatternStates);
      } else if (const auto opposite = Complement(patterns_[i].wide, kMostOppositeStates)) {
        names = Intersection(*names, *opposite, kMostPatternStates);
      } else {
        names.reset();
      }
    }
    // Names that would need too many states are not written.
    if (!names || IsEmpty(*names)) return kNoText;
    const uint32_t value = rules_.RuleOf(member);
    const uint32_t behind =
        builder_.Literal("\"", builder_.Literal(kMemberMark, builder_.Call(value, kRuleEnd)));
    const uint32_t rule = builder_.NewRule();
    builder_.SetRule(
        rule, builder_.Literal("\"", AddAutomaton(*names, Writing::kJson, behind, builder_)));
    return builder_.Call(rule, kRuleEnd);
  }

  // Which numbers of members the states must tell apart.
  Status ReadCounts(bool has_others) {
    LECTERN_ASSIGN(const auto least, reader_.Count(parts_, "minProperties", true));
    LECTERN_ASSIGN(counts_.most, reader_.Count(parts_, "maxProperties", false));
    counts_.least = least.value_or(0);
    for (const SchemaPart& part : parts_.parts) {
      const OrderedJson* const excepted = part.node->Find(kExceptValues);
      const bool excepts_empty =
          excepted && std::ranges::any_of(excepted->items, &OrderedJson::is_object);
      if (excepts_empty) counts_.least = std::max<uint32_t>(counts_.least, 1);
    }
    if (counts_.least > kMostCountedItems) {
      return reader_.Wrong(*parts_.parts[0].node, "minProperties",
                           "must be at most " + std::to_string(kMostCountedItems));
    }
    if (counts_.least <= names_.required.size()) counts_.least = 0;
    if (counts_.most && !has_others && *counts_.most >= names_.all.size()) counts_.most.reset();
    if (counts_.most && *counts_.most > kMostCountedItems) counts_.most = kMostCountedItems;
    if ((names_.all.size() + 1) * (counts_.most.value_or(counts_.least) + size_t{1}) <=
        kMostObjectStates)
      return {};
    for (const SchemaPart& part : parts_.parts) {
      for (const std::string_view keyword : {"minProperties", "maxProperties"}) {
        if (part.node->Find(keyword)) LECTERN_RETURN_IF_ERROR(reader_.NotKept(*part.node, keyword));
      }
    }
    counts_.least = 0;
    counts_.most.reset();
    return {};
  }

  // From the end: other members, then each of the named ones, with and without one before it. A
  // state for each number of members that were written, up to the one that makes no difference.
  Result<uint32_t> Members(uint32_t others) {
    const uint32_t end = builder_.Literal("}", kRuleEnd);
    const uint32_t limit = std::max<uint32_t>(counts_.most.value_or(counts_.least), 1);
    const auto behind = [&](const std::vector<uint32_t>& next, uint32_t count) {
      if (counts_.most && count >= *counts_.most) return kNoText;
      return next[std::min(count + 1, limit)];
    };
    std::vector<uint32_t> next(limit + 1);
    for (uint32_t count = 0; count <= limit; ++count)
      next[count] = count >= counts_.least ? end : kNoText;
    if (others != kNoText) {
      const uint32_t rule = builder_.NewRule();
      builder_.SetRule(rule, others);
      std::vector<uint32_t> loops(limit + 1);
      for (uint32_t& loop : loops) loop = builder_.Later();
      for (uint32_t count = 0; count <= limit; ++count) {
        const uint32_t member = builder_.Call(rule, behind(loops, count));
        const uint32_t more = count == 0 ? member : builder_.Literal(kNextMark, member);
        builder_.Set(loops[count], builder_.Split(more, next[count]));
      }
      next = std::move(loops);
    }
    const std::set<std::string> required(names_.required.begin(), names_.required.end());
    for (size_t i = names_.all.size(); i > 0; --i) {
      const std::string& name = names_.all[i - 1];
      std::vector<std::optional<bool>> matches;
      for (const NamePattern& pattern : patterns_) matches.push_back(Matches(pattern, name));
      SchemaParts member;
      LECTERN_RETURN_IF_ERROR(AddMember(&name, matches, member));
      LECTERN_ASSIGN(const bool fits, FitsNames(name));
      const bool is_required = required.contains(name);
      member.is_impossible |= !fits;
      if (member.is_impossible && !is_required) continue;
      const uint32_t rule = rules_.RuleOf(member);
      const std::string key = QuotedJson(name) + std::string(kMemberMark);
      std::vector<uint32_t> with(limit + 1);
      for (uint32_t count = 0; count <= limit; ++count) {
        const uint32_t value = builder_.Call(rule, behind(next, count));
        const uint32_t one =
            builder_.Literal((count == 0 ? "" : std::string(kNextMark)) + key, value);
        with[count] = is_required ? one : builder_.Split(one, next[count]);
      }
      next = std::move(with);
    }
    return builder_.Literal("{", next[0]);
  }

  const SchemaParts& parts_;
  SchemaRules& rules_;
  SchemaReader& reader_;
  GrammarBuilder& builder_;
  std::vector<NamePattern> patterns_;
  struct {
    std::vector<std::string> all, required;  // in the order in which they are written
    std::set<std::string> known, listed;     // `all`, and those that "propertyNames" lists
    SchemaParts schemas;                     // of "propertyNames"
  } names_;
  bool is_closed_ = false, is_opened_ = false, are_listed_ = false;
  struct {
    uint32_t least = 0;
    std::optional<uint32_t> most;
  } counts_;
};

}  // namespace

Result<uint32_t> ObjectRule(const SchemaParts& parts, SchemaRules& rules) {
  return ObjectMaker(parts, rules).Make();
}

}  // namespace lectern
