#include "engine/constraint/json_schema.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "engine/constraint/char_automaton.h"
#include "engine/constraint/number_patterns.h"
#include "engine/constraint/ordered_json.h"
#include "engine/constraint/pattern.h"
#include "engine/constraint/schema_parts.h"

namespace lectern {
namespace {

constexpr JsonLimits kSchemaLimits = {
    .max_depth = 64, .max_values = 100'000, .max_string = 1 << 16};
constexpr size_t kMostRules = 20'000;
// Pairs of alternatives that are compared for oneOf.
constexpr size_t kMostCompared = 64;

struct Format {
  std::string_view name, pattern;
};
// RFC 3339 in the years 1000 to 2999, with the days that each month has: the 29th of February in
// leap years alone.
#define LECTERN_DATE                                                                          \
  "(?:[12][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|" \
  "[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[12][0-9](?:0[48]|[2468][048]|[13579][26])|" \
  "(?:1[26]|2[048])00)-02-29)"
#define LECTERN_TIME                                                                          \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3])" \
  ":[0-5][0-9])"
#define LECTERN_BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define LECTERN_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
constexpr Format kFormats[] = {
    {"date", "^" LECTERN_DATE "$"},
    {"time", "^" LECTERN_TIME "$"},
    {"date-time", "^" LECTERN_DATE "T" LECTERN_TIME "$"},
    {"duration",
     "^P(?:[0-9]{1,4}W|(?:[0-9]{1,4}Y(?:[0-9]{1,4}M(?:[0-9]{1,4}D)?)?|[0-9]{1,4}M(?:[0-9]{1,4}D)?|"
     "[0-9]{1,4}D)(?:T(?:[0-9]{1,4}H(?:[0-9]{1,4}M(?:[0-9]{1,4}S)?)?|[0-9]{1,4}M(?:[0-9]{1,4}S)?|"
     "[0-9]{1,4}S))?|T(?:[0-9]{1,4}H(?:[0-9]{1,4}M(?:[0-9]{1,4}S)?)?|[0-9]{1,4}M(?:[0-9]{1,4}S)?|"
     "[0-9]{1,4}S))$"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
    {"email",
     "^[A-Za-z0-9]+(?:[._+-][A-Za-z0-9]+)*@" LECTERN_LABEL "(?:\\." LECTERN_LABEL "){1,4}$"},
    {"hostname", "^" LECTERN_LABEL "(?:\\." LECTERN_LABEL "){0,3}$"},
    {"ipv4", "^" LECTERN_BYTE "(?:\\." LECTERN_BYTE "){3}$"},
    {"uri", "^[A-Za-z][A-Za-z0-9+.-]{0,20}:(?://" LECTERN_LABEL "(?:\\." LECTERN_LABEL
            "){0,4}(?::[0-9]{1,5})?)?(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-F]{2}){0,1000}"
            "(?:\\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-F]{2}){0,1000})?$"},
};
#undef LECTERN_DATE
#undef LECTERN_TIME
#undef LECTERN_BYTE
#undef LECTERN_LABEL

constexpr std::string_view kMember = ": ", kNext = ", ";
constexpr uint32_t kRuleEnd = GrammarBuilder::kEndState, kDead = GrammarBuilder::kDeadState;

// Makes the rules of one schema. Schemas that wait for their rule are in a queue, so that deep ones
// need no deep stack. One use.
class Compiler {
 public:
  Compiler(const OrderedJson& root, bool is_strict) : root_(root), reader_(root, is_strict) {}

  Result<JsonGrammar> Compile() {
    SchemaParts whole;
    LECTERN_RETURN_IF_ERROR(reader_.Add(root_, whole));
    const uint32_t root = RuleOf(whole);
    while (!waiting_.empty()) {
      const auto [parts, rule] = std::move(waiting_.front());
      waiting_.pop_front();
      LECTERN_ASSIGN(const uint32_t begin, Value(parts));
      builder_.SetRule(rule, begin);
      if (builder_.num_rules() > kMostRules || builder_.is_full()) {
        return Status(Code::kLimitExceeded,
                      "the schema is too large: its parts combine to more than " +
                          std::to_string(kMostRules) + " rules, or more states than there may be");
      }
    }
    LECTERN_ASSIGN(Grammar grammar, builder_.Finish(root));
    return JsonGrammar{std::move(grammar), reader_.not_kept()};
  }

 private:
  uint32_t RuleOf(const SchemaParts& parts) {
    const auto [at, is_new] = rules_.try_emplace(parts, 0);
    if (is_new) {
      at->second = builder_.NewRule();
      waiting_.emplace_back(parts, at->second);
    }
    return at->second;
  }
  // A rule that is known by a text instead of a schema.
  template <typename Make>
  uint32_t RuleNamed(const std::string& name, Make make) {
    const auto [at, is_new] = named_.try_emplace(name, 0);
    if (!is_new) return at->second;
    const uint32_t rule = builder_.NewRule();
    at->second = rule;
    builder_.SetRule(rule, make());
    return rule;
  }

  // A value that fits all parts.
  Result<uint32_t> Value(const SchemaParts& parts) {
    if (parts.is_impossible) return kDead;
    for (size_t i = 0; i < parts.parts.size(); ++i) {
      const OrderedJson& node = *parts.parts[i].node;
      std::vector<std::pair<const OrderedJson*, bool>> lists;  // and whether only one may fit
      if (const auto* const any = node.Find("anyOf")) lists.emplace_back(any, false);
      if (const auto* const one = node.Find("oneOf")) lists.emplace_back(one, true);
      if (parts.parts[i].taken < lists.size()) {
        const auto& [list, is_one] = lists[parts.parts[i].taken];
        return Alternatives(parts, i, *list, is_one);
      }
    }
    const auto literals = reader_.LiteralsOf(parts);
    if (literals) return Literals(parts, *literals);
    const unsigned types = reader_.TypesOf(parts);
    uint32_t begin = kDead;
    const auto add = [&](const Result<uint32_t>& one) -> Status {
      if (!one.ok()) return one.status();
      begin = builder_.Split(*one, begin);
      return {};
    };
    if (types & kNullType) begin = builder_.Literal("null", kRuleEnd);
    if (types & kBooleanType) {
      begin = builder_.Split(builder_.Literal("true", kRuleEnd), begin);
      begin = builder_.Split(builder_.Literal("false", kRuleEnd), begin);
    }
    if (types & kNumberType) LECTERN_RETURN_IF_ERROR(add(Number(parts, types)));
    if (types & kStringType) LECTERN_RETURN_IF_ERROR(add(String(parts)));
    if (types & kArrayType) LECTERN_RETURN_IF_ERROR(add(Array(parts)));
    if (types & kObjectType) LECTERN_RETURN_IF_ERROR(add(Object(parts)));
    return begin;
  }

  // A value that fits all parts, and one of a list that part number `index` has.
  Result<uint32_t> Alternatives(const SchemaParts& parts, size_t index, const OrderedJson& list,
                                bool is_one) {
    std::vector<SchemaParts> all;
    for (const OrderedJson& alternative : list.items) {
      SchemaParts one = parts;
      ++one.parts[index].taken;
      LECTERN_RETURN_IF_ERROR(reader_.AddAlternative(*parts.parts[index].node, alternative, one));
      all.push_back(std::move(one));
    }
    bool are_apart = all.size() <= kMostCompared;
    for (size_t i = 0; is_one && are_apart && i < all.size(); ++i) {
      for (size_t j = 0; are_apart && j < i; ++j) {
        LECTERN_ASSIGN(are_apart, reader_.Exclude(all[i], all[j]));
      }
    }
    if (is_one && !are_apart) {
      LECTERN_RETURN_IF_ERROR(reader_.NotKept(*parts.parts[index].node, "oneOf"));
    }
    uint32_t begin = kDead;
    for (const SchemaParts& one : all) {
      begin = builder_.Split(builder_.Call(RuleOf(one), kRuleEnd), begin);
    }
    return begin;
  }

  // One of these texts: a tree of their beginnings, so that few states are open at once.
  uint32_t OneOf(std::span<const std::string> texts, size_t at) {
    uint32_t begin = kDead;
    for (size_t i = 0; i < texts.size();) {
      if (texts[i].size() == at) {
        begin = builder_.Split(begin, kRuleEnd);
        ++i;
        continue;
      }
      size_t end = i, same = at + 1;
      while (end < texts.size() && texts[end].size() > at && texts[end][at] == texts[i][at]) ++end;
      const std::span<const std::string> group = texts.subspan(i, end - i);
      // The beginning that all share is made at once, so that long texts need no deep stack.
      const std::string &first = group.front(), &last = group.back();
      while (same < first.size() && same < last.size() && first[same] == last[same]) ++same;
      const uint32_t rest = group.size() == 1 ? kRuleEnd : OneOf(group, same);
      const std::string_view shared =
          std::string_view(first).substr(at, group.size() == 1 ? first.npos : same - at);
      begin = builder_.Split(builder_.Literal(shared, rest), begin);
      i = end;
    }
    return begin;
  }

  // Values that are named; what else the schema demands of them is not kept.
  Result<uint32_t> Literals(const SchemaParts& parts, std::vector<std::string> literals) {
    constexpr std::string_view kOthers[] = {"pattern",
                                            "format",
                                            "minLength",
                                            "maxLength",
                                            "minimum",
                                            "maximum",
                                            "exclusiveMinimum",
                                            "exclusiveMaximum",
                                            "properties",
                                            "required",
                                            "additionalProperties",
                                            "minProperties",
                                            "items",
                                            "maxProperties",
                                            "prefixItems",
                                            "minItems",
                                            "maxItems"};
    for (const SchemaPart& part : parts.parts) {
      for (const std::string_view other : kOthers) {
        if (part.node->Find(other)) LECTERN_RETURN_IF_ERROR(reader_.NotKept(*part.node, other));
      }
    }
    std::ranges::sort(literals);
    literals.erase(std::unique(literals.begin(), literals.end()), literals.end());
    return OneOf(literals, 0);
  }

  Result<uint32_t> Number(const SchemaParts& parts, unsigned types) {
    LECTERN_ASSIGN(const NumberBounds bounds, reader_.BoundsOf(parts));
    const auto pattern = types & kFractionType ? NumberPattern(bounds) : IntegerPattern(bounds);
    if (!pattern) return kDead;
    const uint32_t rule = RuleNamed("number " + *pattern, [&] {
      const auto automaton = ParsePattern("^(?:" + *pattern + ")$");
      return automaton.ok() ? AddAutomaton(*automaton, Writing::kPlain, kRuleEnd, builder_) : kDead;
    });
    return builder_.Call(rule, kRuleEnd);
  }

  // The automaton of a pattern or format, noting what cannot be kept; nothing: it is not kept.
  Result<std::optional<CharAutomaton>> PatternOf(const SchemaPart& part, bool is_format) {
    std::string_view pattern;
    const std::string& text = *part.node->Find(is_format ? "format" : "pattern")->string();
    if (!is_format) pattern = text;
    for (const Format& format : kFormats) {
      if (is_format && format.name == text) pattern = format.pattern;
    }
    if (is_format && pattern.empty()) {
      LECTERN_RETURN_IF_ERROR(reader_.NotKept(*part.node, "format"));
      return std::optional<CharAutomaton>();
    }
    auto automaton = ParsePattern(pattern);
    if (automaton.ok()) return std::optional(*std::move(automaton));
    const Status wrong = reader_.Wrong(*part.node, "pattern", automaton.status().message());
    // A pattern that is too large is refused in any case: it is no accident.
    if (automaton.status().code() == Code::kLimitExceeded) {
      return Status(Code::kLimitExceeded, wrong.message());
    }
    if (!reader_.NotKept(*part.node, "pattern").ok()) return wrong;
    return std::optional<CharAutomaton>();
  }

  Result<uint32_t> String(const SchemaParts& parts) {
    LECTERN_ASSIGN(const auto least, reader_.Count(parts, "minLength", true));
    LECTERN_ASSIGN(auto most, reader_.Count(parts, "maxLength", false));
    std::string name =
        "string " + std::to_string(least.value_or(0)) + " " + (most ? std::to_string(*most) : "");
    std::vector<std::pair<SchemaPart, bool>> patterns;
    for (const SchemaPart& part : parts.parts) {
      for (const bool is_format : {false, true}) {
        const auto* const text = part.node->Find(is_format ? "format" : "pattern");
        if (!text) continue;
        const std::string key =
            std::string(is_format ? "\nformat " : "\npattern ") + *text->string();
        if (name.find(key + "\n") != name.npos) continue;
        name += key + "\n";
        patterns.emplace_back(part, is_format);
      }
    }
    if (least > kMostCountedChars) {
      return reader_.Wrong(*parts.parts[0].node, "minLength",
                           "must be at most " + std::to_string(kMostCountedChars));
    }
    if (most && *most > kMostCountedChars) most = kMostCountedChars;
    if (most && *most < least.value_or(0)) return kDead;
    CharAutomaton chars = CharsOfLength(least.value_or(0), most);
    for (const auto& [part, is_format] : patterns) {
      LECTERN_ASSIGN(auto pattern, PatternOf(part, is_format));
      if (!pattern) continue;
      const bool is_first = &part == &patterns.front().first && !most && !least;
      auto both =
          is_first ? std::move(pattern) : Intersection(chars, *pattern, 4 * kMostPatternStates);
      if (!both) {
        return Status(Code::kLimitExceeded,
                      reader_
                          .Wrong(*part.node, is_format ? "format" : "pattern",
                                 "is too large together with the limits of the length")
                          .message());
      }
      chars = *std::move(both);
    }
    const uint32_t rule = RuleNamed(name, [&] {
      return builder_.Literal(
          "\"", AddAutomaton(chars, Writing::kJson, builder_.Literal("\"", kRuleEnd), builder_));
    });
    return builder_.Call(rule, kRuleEnd);
  }

  // `items` times an item and more, up to `most`, separated; `end` follows. Items from `first` on
  // have the rule `rest`, those before have rules of their own.
  uint32_t List(std::span<const uint32_t> firsts, std::optional<uint32_t> rest, uint32_t least,
                std::optional<uint32_t> most, uint32_t end) {
    const auto rule_of = [&](uint32_t i) {
      return i < firsts.size() ? std::optional(firsts[i]) : rest;
    };
    if (!rest) {
      const auto count = static_cast<uint32_t>(firsts.size());
      most = std::min(most.value_or(count), count);
    }
    if (most && *most < least) return kDead;
    // Behind the last item that has a number; without a limit any number of others follows.
    uint32_t at =
        most ? *most : std::max<uint32_t>({least, static_cast<uint32_t>(firsts.size()), 1});
    uint32_t next = end;
    if (!most) {
      next = builder_.Later();
      builder_.Set(next,
                   builder_.Split(builder_.Literal(kNext, builder_.Call(*rule_of(at), next)), end));
    }
    for (; at > 0; --at) {
      const uint32_t item = builder_.Call(*rule_of(at - 1), next);
      const uint32_t more = at == 1 ? item : builder_.Literal(kNext, item);
      next = builder_.Split(more, at - 1 >= least ? end : kDead);
    }
    return next;
  }

  Result<uint32_t> Array(const SchemaParts& parts) {
    LECTERN_ASSIGN(const auto least, reader_.Count(parts, "minItems", true));
    LECTERN_ASSIGN(auto most, reader_.Count(parts, "maxItems", false));
    if (least > kMostCountedItems) {
      return reader_.Wrong(*parts.parts[0].node, "minItems",
                           "must be at most " + std::to_string(kMostCountedItems));
    }
    if (most && *most > kMostCountedItems) most = kMostCountedItems;
    // "items" with a list is the older drafts' prefixItems, and additionalItems their items.
    const auto firsts_of = [](const OrderedJson& node) -> const OrderedJson* {
      const OrderedJson* const items = node.Find("items");
      const OrderedJson* const prefix = node.Find("prefixItems");
      return prefix ? prefix : items && items->is_array() ? items : nullptr;
    };
    const auto rest_of = [](const OrderedJson& node) -> const OrderedJson* {
      const OrderedJson* const items = node.Find("items");
      return items && items->is_array() ? node.Find("additionalItems") : items;
    };
    size_t count = 0;
    for (const SchemaPart& part : parts.parts) {
      if (const auto* const firsts = firsts_of(*part.node)) {
        count = std::max(count, firsts->items.size());
      }
    }
    std::vector<uint32_t> firsts;
    std::optional<uint32_t> rest;
    for (size_t i = 0; i <= count; ++i) {
      SchemaParts item;
      for (const SchemaPart& part : parts.parts) {
        const OrderedJson* const own = firsts_of(*part.node);
        const OrderedJson* const others = rest_of(*part.node);
        if (own && i < own->items.size()) {
          LECTERN_RETURN_IF_ERROR(reader_.Add(own->items[i], item));
        } else if (others) {
          LECTERN_RETURN_IF_ERROR(reader_.Add(*others, item));
        }
      }
      if (i < count) {
        firsts.push_back(RuleOf(item));
      } else if (!item.is_impossible) {
        rest = RuleOf(item);
      }
    }
    const uint32_t end = builder_.Literal("]", kRuleEnd);
    return builder_.Literal("[", List(firsts, rest, least.value_or(0), most, end));
  }

  // Adds to `member` what the parts say of the member `name`, which one of them may forbid.
  Status AddMember(const SchemaParts& parts, const std::string& name, SchemaParts& member) {
    for (const SchemaPart& part : parts.parts) {
      const OrderedJson* const properties = part.node->Find("properties");
      const OrderedJson* const own = properties ? properties->Find(name) : nullptr;
      const OrderedJson* const others = part.node->Find("additionalProperties");
      if (own) {
        LECTERN_RETURN_IF_ERROR(reader_.Add(*own, member));
      } else if (others) {
        LECTERN_RETURN_IF_ERROR(reader_.Add(*others, member));
      }
    }
    return {};
  }

  // The rule of members that are not among `names`; nothing: there are none.
  Result<std::optional<uint32_t>> OtherMembers(const SchemaParts& parts,
                                               std::span<const std::string> names) {
    SchemaParts others;
    bool is_said = false;
    for (const SchemaPart& part : parts.parts) {
      const OrderedJson* const additional = part.node->Find("additionalProperties");
      const OrderedJson* const unevaluated = part.node->Find("unevaluatedProperties");
      if (additional) LECTERN_RETURN_IF_ERROR(reader_.Add(*additional, others));
      if (unevaluated && unevaluated->boolean()) others.is_impossible |= !*unevaluated->boolean();
      is_said |= additional != nullptr;
    }
    if (others.is_impossible || (!is_said && !names.empty())) return std::optional<uint32_t>();
    const uint32_t value = RuleOf(others);
    std::string name = "member " + std::to_string(value);
    std::vector<std::string_view> texts(names.begin(), names.end());
    std::ranges::sort(texts);
    for (const std::string_view text : texts) name += "\n" + QuotedJson(text);
    return std::optional(RuleNamed(name, [&] {
      const uint32_t behind =
          builder_.Literal("\"", builder_.Literal(kMember, builder_.Call(value, kRuleEnd)));
      return builder_.Literal("\"",
                              AddAutomaton(CharsExcept(texts), Writing::kJson, behind, builder_));
    }));
  }

  Result<uint32_t> Object(const SchemaParts& parts) {
    // 1. The members that have a name, in the order of the schema, and those that are required.
    std::vector<std::string> names;
    for (const SchemaPart& part : parts.parts) {
      const OrderedJson* const properties = part.node->Find("properties");
      if (!properties) continue;
      for (const auto& [name, schema] : properties->members) {
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      }
    }
    const std::vector<std::string> required = reader_.RequiredOf(parts);
    for (const std::string& name : required) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    LECTERN_ASSIGN(const auto others, OtherMembers(parts, names));
    LECTERN_ASSIGN(const auto least, reader_.Count(parts, "minProperties", true));
    LECTERN_ASSIGN(auto most, reader_.Count(parts, "maxProperties", false));
    // 2. From the end: other members, then each of the named ones, with and without one before it.
    const uint32_t end = builder_.Literal("}", kRuleEnd);
    if (names.empty()) {
      if (least > kMostCountedItems) {
        return reader_.Wrong(*parts.parts[0].node, "minProperties",
                             "must be at most " + std::to_string(kMostCountedItems));
      }
      if (most && *most > kMostCountedItems) most = kMostCountedItems;
      return builder_.Literal("{", List({}, others, least.value_or(0), most, end));
    }
    for (const SchemaPart& part : parts.parts) {
      const bool keeps_least = least.value_or(0) <= required.size();
      const bool keeps_most = !others && most.value_or(UINT32_MAX) >= names.size();
      if (part.node->Find("minProperties") && !keeps_least) {
        LECTERN_RETURN_IF_ERROR(reader_.NotKept(*part.node, "minProperties"));
      }
      if (part.node->Find("maxProperties") && !keeps_most) {
        LECTERN_RETURN_IF_ERROR(reader_.NotKept(*part.node, "maxProperties"));
      }
    }
    uint32_t as_first = end, as_next = end;
    if (others) {
      as_next = builder_.Later();
      builder_.Set(as_next,
                   builder_.Split(builder_.Literal(kNext, builder_.Call(*others, as_next)), end));
      as_first = builder_.Split(builder_.Call(*others, as_next), end);
    }
    for (size_t i = names.size(); i > 0; --i) {
      const std::string& name = names[i - 1];
      SchemaParts member;
      LECTERN_RETURN_IF_ERROR(AddMember(parts, name, member));
      const bool is_required = std::ranges::find(required, name) != required.end();
      if (member.is_impossible && !is_required) continue;
      const uint32_t value = builder_.Call(RuleOf(member), as_next);
      const std::string key = QuotedJson(name) + std::string(kMember);
      const uint32_t first = builder_.Literal(key, value);
      const uint32_t next = builder_.Literal(std::string(kNext) + key, value);
      as_first = is_required ? first : builder_.Split(first, as_first);
      as_next = is_required ? next : builder_.Split(next, as_next);
    }
    return builder_.Literal("{", as_first);
  }

  const OrderedJson& root_;
  SchemaReader reader_;
  GrammarBuilder builder_;
  std::map<SchemaParts, uint32_t> rules_;
  std::map<std::string, uint32_t> named_;
  std::deque<std::pair<SchemaParts, uint32_t>> waiting_;
};

}  // namespace

Result<JsonGrammar> CompileJsonSchema(std::string_view schema, bool is_strict) {
  if (schema.size() > kMostSchemaBytes) {
    return Status(Code::kLimitExceeded,
                  "the schema has more than " + std::to_string(kMostSchemaBytes >> 20) + " MiB");
  }
  auto root = ParseOrderedJson(schema, kSchemaLimits);
  if (!root.ok()) {
    const Code code = root.status().code() == Code::kLimitExceeded ? Code::kLimitExceeded
                                                                   : Code::kInvalidArgument;
    return Status(code, "the schema: " + root.status().message());
  }
  return Compiler(*root, is_strict).Compile();
}

}  // namespace lectern
