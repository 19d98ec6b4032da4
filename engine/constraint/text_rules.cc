#include "engine/constraint/text_rules.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include "engine/constraint/number_patterns.h"
#include "engine/constraint/pattern.h"
#include "engine/constraint/schema_values.h"
#include "engine/constraint/string_formats.h"

namespace lectern {
namespace {

// Pairs of alternatives that are compared for oneOf, and alternatives that get the opposites of
// others: each opposite multiplies the rules.
constexpr size_t kMostCompared = 64, kMostOpposed = 8;
// A larger automaton of two conditions is refused.
constexpr size_t kMostStringStates = 4 * kMostPatternStates;
// So is one that would be more than half of a grammar's states. Strings are cut down to
// kFewestChars before that, so that a schema may have sixteen such strings.
constexpr size_t kMostWeight = GrammarBuilder::kMaxStates / 2;
constexpr size_t kWantedWeight = GrammarBuilder::kMaxStates / 16;
constexpr uint32_t kFewestChars = 100;
// Nested alternatives of names and values are followed so far.
constexpr int kMostChosen = 16;

// Notes a keyword that a pattern's error makes impossible to keep.
Status NotKeptPattern(const SchemaPart& part, std::string_view keyword, const Status& error,
                      SchemaReader& reader) {
  const Status wrong = reader.Wrong(*part.node, keyword, error.message());
  // A pattern that is too large is refused in any case: it is no accident.
  if (error.code() == Code::kLimitExceeded) return {Code::kLimitExceeded, wrong.message()};
  return reader.NotKept(*part.node, keyword).ok() ? Status() : wrong;
}

Status NarrowTo(const CharAutomaton& other, const SchemaPart& part, std::string_view keyword,
                CharAutomaton& chars, SchemaReader& reader) {
  auto both = Intersection(chars, other, kMostStringStates);
  if (!both) {
    return {
        Code::kLimitExceeded,
        reader.Wrong(*part.node, keyword, "is too large together with the other limits").message()};
  }
  chars = *std::move(both);
  return {};
}

// Keeps the strings that fit a keyword of the part.
Status NarrowByKeyword(const SchemaPart& part, std::string_view keyword, CharAutomaton& chars,
                       SchemaReader& reader) {
  const OrderedJson* const value = part.node->Find(keyword);
  if (!value) return {};
  if (keyword == kExceptValues) {
    std::vector<std::string_view> texts;
    for (const OrderedJson& one : value->items) {
      if (one.string()) texts.push_back(*one.string());
    }
    return texts.empty() ? Status() : NarrowTo(CharsExcept(texts), part, keyword, chars, reader);
  }
  std::string_view pattern = *value->string();
  if (keyword == "format") {
    const auto known = PatternOfFormat(pattern);
    // A format of the client's own comes with the pattern that it stands for.
    if (!known) return part.node->Find("pattern") ? Status() : reader.NotKept(*part.node, keyword);
    if (known->empty()) return {};
    pattern = *known;
  }
  const bool is_opposite = keyword == kExceptPattern;
  const std::string_view shown = is_opposite ? "pattern" : keyword;
  auto automaton = ParsePattern(pattern, /*is_wide=*/is_opposite);
  if (!automaton.ok()) return NotKeptPattern(part, shown, automaton.status(), reader);
  if (!is_opposite) return NarrowTo(*automaton, part, shown, chars, reader);
  const auto opposite = Complement(*automaton, kMostOppositeStates);
  if (!opposite) return reader.NotKept(*part.node, "not");
  return NarrowTo(*opposite, part, shown, chars, reader);
}

// How many states of a grammar an automaton needs, about: two for each range of characters.
size_t WeightOf(const CharAutomaton& chars) {
  size_t weight = 0;
  for (const CharAutomaton::State& state : chars.states) {
    weight += 1 + state.empty.size();
    for (const CharAutomaton::Edge& edge : state.edges) weight += 2 * edge.chars.size();
  }
  return weight;
}

// The strings by length, pattern and format; without alternatives and values.
Result<CharAutomaton> PlainStrings(const SchemaParts& parts, SchemaReader& reader) {
  LECTERN_ASSIGN(const auto counted, reader.Count(parts, "minLength", true));
  LECTERN_ASSIGN(auto most, reader.Count(parts, "maxLength", false));
  const uint32_t least = counted.value_or(0);
  if (least > kMostCountedChars) {
    return reader.Wrong(*parts.parts[0].node, "minLength",
                        "must be at most " + std::to_string(kMostCountedChars));
  }
  if (most && *most > kMostCountedChars) most = kMostCountedChars;
  if (most && *most < least) return CharsOf({});
  CharAutomaton chars = CharsOfLength(0, std::nullopt);
  bool is_any = true;
  const SchemaPart* last = nullptr;
  for (const SchemaPart& part : parts.parts) {
    for (const std::string_view keyword :
         {std::string_view("pattern"), std::string_view("format"), kExceptPattern, kExceptValues}) {
      if (!part.node->Find(keyword)) continue;
      LECTERN_RETURN_IF_ERROR(NarrowByKeyword(part, keyword, chars, reader));
      last = &part;
      is_any = false;
    }
  }
  if (is_any) return CharsOfLength(least, most);
  const TextLengths lengths = LengthsOf(chars);
  const bool is_short = !most || (lengths.most && *lengths.most <= *most);
  if (lengths.least >= least && is_short) return chars;
  // Each length is a state for each of the pattern's. Where these are too many, the longest strings
  // are not written.
  Status status;
  // With one state at a time there are fewer pairs.
  if (auto one = Determined(chars, kMostPatternStates)) chars = *std::move(one);
  for (uint32_t limit = most.value_or(0);; limit /= 2) {
    CharAutomaton made = chars;
    status = NarrowTo(CharsOfLength(least, most ? std::optional(limit) : std::nullopt), *last,
                      most ? "maxLength" : "minLength", made, reader);
    const bool is_last = !most || limit / 2 < std::max(least, kFewestChars);
    if (status.ok() && WeightOf(made) <= (is_last ? kMostWeight : kWantedWeight)) return made;
    if (is_last) break;
  }
  if (!status.ok()) return status;
  return Status(
      Code::kLimitExceeded,
      reader.Wrong(*last->node, "maxLength", "is too large together with the pattern").message());
}

Result<CharAutomaton> StringsWithin(const SchemaParts& parts, int left, SchemaReader& reader) {
  if (parts.is_impossible) return CharsOf({});
  LECTERN_ASSIGN(const auto choices, ChoicesOf(parts, reader));
  if (choices) {
    if (left == 0) {
      return Status(Code::kLimitExceeded, "the alternatives of \"propertyNames\" are too many");
    }
    CharAutomaton all = CharsOf({});
    for (const SchemaParts& one : *choices) {
      LECTERN_ASSIGN(const CharAutomaton some, StringsWithin(one, left - 1, reader));
      all = Union(all, some);
      if (all.states.size() > kMostStringStates) {
        return Status(Code::kLimitExceeded, "the alternatives of \"propertyNames\" are too large");
      }
    }
    return all;
  }
  LECTERN_ASSIGN(const auto literals, FittingLiterals(parts, reader));
  if (literals) {
    std::vector<std::string> texts;
    for (const OrderedJson& one : *literals) {
      if (one.string()) texts.push_back(*one.string());
    }
    return CharsOf(texts);
  }
  if (!(reader.TypesOf(parts) & kStringType)) return CharsOf({});
  return PlainStrings(parts, reader);
}

// Names the keywords that decide about the strings of parts, so that equal ones share their rule.
std::string NameOfStrings(const SchemaParts& parts) {
  std::string name = "string";
  for (const SchemaPart& part : parts.parts) {
    for (const std::string_view keyword :
         {std::string_view("minLength"), std::string_view("maxLength"), std::string_view("pattern"),
          std::string_view("format"), kExceptPattern, kExceptValues}) {
      const OrderedJson* const value = part.node->Find(keyword);
      if (value) name += "\n" + std::string(keyword) + " " + DumpOrdered(*value);
    }
  }
  return name;
}

// Texts of decimal numbers that are multiples of `units` / 10^decimals, without an exponent.
CharAutomaton Multiples(int64_t units, int decimals) {
  // A state for each remainder of the digits so far, and digits behind the point.
  CharAutomaton chars;
  const auto width = static_cast<size_t>(decimals) + 1;
  const auto first = static_cast<uint32_t>(chars.states.size());
  const auto state_of = [&](int64_t rest, int behind) {
    return first +
           static_cast<uint32_t>(static_cast<size_t>(rest) * width + static_cast<size_t>(behind));
  };
  for (int64_t rest = 0; rest < units; ++rest) {
    for (int behind = 0; behind <= decimals; ++behind) {
      int64_t whole = rest;
      for (int i = behind; i < decimals; ++i) whole = whole * 10 % units;
      CharAutomaton::State state;
      state.accepts = whole == 0;
      chars.Add(std::move(state));
    }
  }
  for (int64_t rest = 0; rest < units; ++rest) {
    for (int behind = 0; behind <= decimals; ++behind) {
      auto& edges = chars.states[state_of(rest, behind)].edges;
      if (behind > 0 && behind == decimals) continue;
      for (uint32_t digit = 0; digit <= 9; ++digit) {
        edges.push_back({{{'0' + digit, '0' + digit}},
                         state_of((rest * 10 + digit) % units, behind > 0 ? behind + 1 : 0)});
      }
    }
  }
  // The point leads to states of their own, because a digit must follow.
  if (decimals > 0) {
    for (int64_t rest = 0; rest < units; ++rest) {
      CharAutomaton::State point;
      for (uint32_t digit = 0; digit <= 9; ++digit) {
        point.edges.push_back(
            {{{'0' + digit, '0' + digit}}, state_of((rest * 10 + digit) % units, 1)});
      }
      const uint32_t at = chars.Add(std::move(point));
      chars.states[state_of(rest, 0)].edges.push_back({{{'.', '.'}}, at});
    }
  }
  CharAutomaton::State begin;
  begin.edges.push_back({{{'-', '-'}}, state_of(0, 0)});
  begin.empty.push_back(state_of(0, 0));
  chars.begin = chars.Add(std::move(begin));
  return chars;
}

// A number as whole units of 10^-decimals; nothing: it has too many digits.
std::optional<std::pair<int64_t, int>> InUnits(double number) {
  constexpr int kMostUnitDecimals = 12;
  double units = number;
  for (int decimals = 0; decimals <= kMostUnitDecimals; ++decimals) {
    units = number * std::pow(10.0, decimals);
    if (units > 1e15) return std::nullopt;
    if (std::round(units) >= 1 && std::abs(units - std::round(units)) < 1e-9 * units) {
      return std::pair(static_cast<int64_t>(std::round(units)), decimals);
    }
  }
  return std::nullopt;
}

// Keeps the numbers that fit "multipleOf" and values that are excepted.
Status NarrowNumbers(const SchemaPart& part, CharAutomaton& chars, SchemaReader& reader) {
  if (const OrderedJson* const multiple = part.node->Find("multipleOf")) {
    const auto number = multiple->scalar.number();
    if (!number || !(*number > 0)) {
      return reader.Wrong(*part.node, "multipleOf", "must be a number above 0");
    }
    const auto units = InUnits(*number);
    const bool is_small =
        units && static_cast<size_t>(units->first) * static_cast<size_t>(units->second + 2) <=
                     kMostPatternStates;
    if (!is_small) {
      LECTERN_RETURN_IF_ERROR(reader.NotKept(*part.node, "multipleOf"));
    } else {
      auto both = Intersection(chars, Multiples(units->first, units->second), kMostStringStates);
      if (both) {
        chars = *std::move(both);
      } else {
        LECTERN_RETURN_IF_ERROR(reader.NotKept(*part.node, "multipleOf"));
      }
    }
  }
  const OrderedJson* const excepted = part.node->Find(kExceptValues);
  if (!excepted) return {};
  for (const OrderedJson& one : excepted->items) {
    if (one.string() || !one.scalar.number()) continue;
    // Each spelling that the number may have. Exponents are left out, so that these are few.
    char text[400];
    const double number = std::abs(*one.scalar.number());
    std::snprintf(text, sizeof text, "%.15f", number);
    std::string digits = text;
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.ends_with('.')) digits.pop_back();
    const size_t point = digits.find('.');
    const std::string sign = number == 0 ? "-?" : *one.scalar.number() < 0 ? "-" : "";
    std::string pattern = "^" + sign + digits.substr(0, point);
    pattern += point == digits.npos ? "(?:\\.0+)?$" : "\\." + digits.substr(point + 1) + "0*$";
    LECTERN_ASSIGN(const auto same, ParsePattern(pattern));
    const auto others = Complement(same, kMostOppositeStates);
    if (!others) return reader.NotKept(*part.node, "not");
    LECTERN_RETURN_IF_ERROR(NarrowTo(*others, part, "not", chars, reader));
    LECTERN_ASSIGN(const auto plain, ParsePattern("^[^eE]*$"));
    LECTERN_RETURN_IF_ERROR(NarrowTo(plain, part, "not", chars, reader));
  }
  return {};
}

}  // namespace

Result<CharAutomaton> StringsOf(const SchemaParts& parts, SchemaReader& reader) {
  return StringsWithin(parts, kMostChosen, reader);
}

Result<std::optional<std::vector<OrderedJson>>> FittingLiterals(const SchemaParts& parts,
                                                                SchemaReader& reader) {
  auto literals = reader.LiteralsOf(parts);
  if (!literals) return literals;
  Status status;
  std::erase_if(*literals, [&](const OrderedJson& value) {
    for (const SchemaPart& part : parts.parts) {
      for (const auto& [keyword, demand] : part.node->members) {
        // Alternatives, references and conditions are parts of their own; LiteralsOf has compared
        // the values themselves.
        constexpr std::string_view kOwnParts[] = {"enum",
                                                  "const",
                                                  "anyOf",
                                                  "oneOf",
                                                  "allOf",
                                                  "$ref",
                                                  "not",
                                                  "if",
                                                  "then",
                                                  "else",
                                                  "$dynamicRef",
                                                  "$recursiveRef",
                                                  "dependentRequired",
                                                  "dependentSchemas",
                                                  "dependencies"};
        if (std::ranges::find(kOwnParts, keyword) != std::end(kOwnParts)) continue;
        const OrderedJson* const schema = part.node;
        const auto fits = KeywordFits(value, *schema, keyword, demand, reader);
        if (fits == false) return true;
        if (!fits && status.ok()) status = reader.NotKept(*schema, keyword);
      }
    }
    return false;
  });
  if (!status.ok()) return status;
  return literals;
}

Result<std::optional<std::vector<OrderedJson>>> ValuesOf(const SchemaParts& parts, size_t most,
                                                         SchemaReader& reader) {
  using Values = std::optional<std::vector<OrderedJson>>;
  if (parts.is_impossible) return Values(std::vector<OrderedJson>());
  std::vector<SchemaParts> waiting = {parts};
  std::map<std::string, OrderedJson> all;
  for (size_t steps = 0; !waiting.empty(); ++steps) {
    if (steps > 4 * most) return Values();
    const SchemaParts one = std::move(waiting.back());
    waiting.pop_back();
    if (one.is_impossible) continue;
    LECTERN_ASSIGN(const auto choices, ChoicesOf(one, reader));
    if (choices) {
      waiting.insert(waiting.end(), choices->begin(), choices->end());
      continue;
    }
    LECTERN_ASSIGN(auto values, FittingLiterals(one, reader));
    if (!values) {
      const unsigned types = reader.TypesOf(one);
      const bool has_others = (types & ~unsigned{kBooleanType | kNullType}) != 0;
      const bool has_exceptions = std::ranges::any_of(
          one.parts, [](const SchemaPart& part) { return part.node->Find(kExceptValues); });
      if (has_others || has_exceptions) return Values();
      values.emplace();
      if (types & kNullType) values->emplace_back();
      for (const bool truth : {false, true}) {
        if (!(types & kBooleanType)) break;
        values->emplace_back();
        values->back().scalar = truth;
      }
    }
    for (OrderedJson& value : *values) all.emplace(ComparedJson(value), std::move(value));
    if (all.size() > most) return Values();
  }
  std::vector<OrderedJson> values;
  for (auto& [compared, value] : all) values.push_back(std::move(value));
  return Values(std::move(values));
}

Result<std::optional<std::vector<SchemaParts>>> ChoicesOf(const SchemaParts& parts,
                                                          SchemaReader& reader) {
  using Choices = std::optional<std::vector<SchemaParts>>;
  for (size_t index = 0; index < parts.parts.size(); ++index) {
    const OrderedJson& node = *parts.parts[index].node;
    std::vector<std::pair<const OrderedJson*, bool>> lists;  // and whether only one may fit
    if (const auto* const any = node.Find("anyOf")) lists.emplace_back(any, false);
    if (const auto* const one = node.Find("oneOf")) lists.emplace_back(one, true);
    if (parts.parts[index].taken >= lists.size()) continue;
    const auto [list, is_one] = lists[parts.parts[index].taken];
    std::vector<SchemaParts> all;
    for (const OrderedJson& alternative : list->items) {
      SchemaParts one = parts;
      ++one.parts[index].taken;
      LECTERN_RETURN_IF_ERROR(reader.AddAlternative(node, alternative, one));
      all.push_back(std::move(one));
    }
    if (!is_one) return Choices(std::move(all));
    // Each pair that may overlap.
    std::vector<std::pair<size_t, size_t>> overlaps;
    bool is_kept = all.size() <= kMostCompared;
    for (size_t i = 0; is_kept && i < all.size(); ++i) {
      for (size_t j = 0; is_kept && j < i; ++j) {
        LECTERN_ASSIGN(const bool are_apart, reader.Exclude(all[i], all[j]));
        if (!are_apart) overlaps.emplace_back(i, j);
        is_kept = overlaps.size() <= kMostOpposed * (kMostOpposed - 1) / 2;
      }
    }
    std::vector<SchemaParts> apart = all;
    for (const auto& [i, j] : overlaps) {
      for (const auto& [one, other] : {std::pair(i, j), std::pair(j, i)}) {
        if (!is_kept) break;
        LECTERN_ASSIGN(is_kept, reader.AddOpposite(node, list->items[other], apart[one]));
      }
    }
    if (is_kept) return Choices(std::move(apart));
    LECTERN_RETURN_IF_ERROR(reader.NotKept(node, "oneOf"));
    return Choices(std::move(all));
  }
  return Choices();
}

Result<uint32_t> StringRule(const SchemaParts& parts, SchemaRules& rules) {
  GrammarBuilder& builder = rules.builder();
  const std::string name = NameOfStrings(parts);
  Status status;
  const uint32_t rule = rules.RuleNamed(name, [&]() -> uint32_t {
    const auto chars = PlainStrings(parts, rules.reader());
    if (!chars.ok()) {
      status = chars.status();
      return kNoText;
    }
    return builder.Literal(
        "\"", AddAutomaton(*chars, Writing::kJson, builder.Literal("\"", kRuleEnd), builder));
  });
  if (!status.ok()) return status;
  return builder.Call(rule, kRuleEnd);
}

Result<uint32_t> NumberRule(const SchemaParts& parts, unsigned types, SchemaRules& rules) {
  LECTERN_ASSIGN(const NumberBounds bounds, rules.reader().BoundsOf(parts));
  auto pattern = types & kFractionType ? NumberPattern(bounds) : IntegerPattern(bounds);
  if (!pattern) return kNoText;
  std::string name = "number " + *pattern + (types & kIntegerType ? "" : " with a fraction");
  bool is_plain = (types & kIntegerType) != 0;
  for (const SchemaPart& part : parts.parts) {
    for (const std::string_view keyword : {std::string_view("multipleOf"), kExceptValues}) {
      const OrderedJson* const value = part.node->Find(keyword);
      if (!value) continue;
      name += "\n" + std::string(keyword) + " " + DumpOrdered(*value);
      is_plain = false;
    }
  }
  Status status;
  const uint32_t rule = rules.RuleNamed(name, [&]() -> uint32_t {
    auto chars = ParsePattern("^(?:" + *pattern + ")$");
    if (!chars.ok()) return kNoText;
    if (!is_plain && !(types & kIntegerType)) {
      // With so few digits no fraction is rounded to a whole number where a double holds it.
      const auto fraction = ParsePattern("^-?[0-9]{1,9}\\.[0-9]{0,5}[1-9]$");
      auto both = Intersection(*chars, *fraction, kMostStringStates);
      if (!both) return kNoText;
      *chars = *std::move(both);
    }
    for (const SchemaPart& part : parts.parts) {
      if (status.ok()) status = NarrowNumbers(part, *chars, rules.reader());
    }
    return AddAutomaton(*chars, Writing::kPlain, kRuleEnd, rules.builder());
  });
  if (!status.ok()) return status;
  return rules.builder().Call(rule, kRuleEnd);
}

}  // namespace lectern
