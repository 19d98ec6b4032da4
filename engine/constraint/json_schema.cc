#include "engine/constraint/json_schema.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/constraint/container_rules.h"
#include "engine/constraint/ordered_json.h"
#include "engine/constraint/schema_parts.h"
#include "engine/constraint/schema_rules.h"
#include "engine/constraint/text_rules.h"

namespace lectern {
namespace {

constexpr JsonLimits kSchemaLimits = {
    .max_depth = 64, .max_values = 100'000, .max_string = 1 << 16};
constexpr size_t kMostRules = 20'000;

// Makes the rules of one schema. Schemas that wait for their rule are in a queue, so that deep ones
// need no deep stack. One use.
class Compiler {
 public:
  Compiler(const OrderedJson& root, bool is_strict, bool says_conditions)
      : root_(root), reader_(root, is_strict, says_conditions), rules_(reader_) {}

  Result<JsonGrammar> Compile() {
    SchemaParts whole;
    LECTERN_RETURN_IF_ERROR(reader_.Add(root_, whole));
    const uint32_t root = rules_.RuleOf(whole);
    while (const auto waiting = rules_.TakeWaiting()) {
      LECTERN_ASSIGN(const uint32_t begin, Value(waiting->first));
      builder().SetRule(waiting->second, begin);
      if (builder().num_rules() > kMostRules || builder().is_full()) {
        return Status(Code::kLimitExceeded,
                      "the schema is too large: its parts combine to more than " +
                          std::to_string(kMostRules) + " rules, or more states than there may be");
      }
    }
    LECTERN_ASSIGN(Grammar grammar, builder().Finish(root));
    return JsonGrammar{std::move(grammar), reader_.not_kept()};
  }

 private:
  GrammarBuilder& builder() { return rules_.builder(); }

  // A value that fits all parts.
  Result<uint32_t> Value(const SchemaParts& parts) {
    if (parts.is_impossible) return kNoText;
    LECTERN_ASSIGN(const auto choices, ChoicesOf(parts, reader_));
    uint32_t begin = kNoText;
    if (choices) {
      for (const SchemaParts& one : *choices) {
        begin = builder().Split(builder().Call(rules_.RuleOf(one), kRuleEnd), begin);
      }
      return begin;
    }
    LECTERN_ASSIGN(const auto literals, FittingLiterals(parts, reader_));
    if (literals) {
      std::vector<std::string> texts;
      for (const OrderedJson& value : *literals) texts.push_back(DumpOrdered(value));
      std::ranges::sort(texts);
      return OneOf(texts, 0);
    }
    const unsigned types = reader_.TypesOf(parts);
    const auto add = [&](const Result<uint32_t>& one) -> Status {
      if (!one.ok()) return one.status();
      begin = builder().Split(*one, begin);
      return {};
    };
    OrderedJson plain;
    if (types & kNullType) LECTERN_RETURN_IF_ERROR(add(Plain(parts, plain)));
    for (const bool truth : {true, false}) {
      plain.scalar = truth;
      if (types & kBooleanType) LECTERN_RETURN_IF_ERROR(add(Plain(parts, plain)));
    }
    if (types & kNumberType) LECTERN_RETURN_IF_ERROR(add(NumberRule(parts, types, rules_)));
    if (types & kStringType) LECTERN_RETURN_IF_ERROR(add(StringRule(parts, rules_)));
    if (types & kArrayType) LECTERN_RETURN_IF_ERROR(add(ArrayRule(parts, rules_)));
    if (types & kObjectType) LECTERN_RETURN_IF_ERROR(add(ObjectRule(parts, rules_)));
    return begin;
  }

  // Null, true or false, unless it is excepted.
  uint32_t Plain(const SchemaParts& parts, const OrderedJson& value) {
    for (const SchemaPart& part : parts.parts) {
      const OrderedJson* const excepted = part.node->Find(kExceptValues);
      if (!excepted) continue;
      for (const OrderedJson& one : excepted->items) {
        if (ComparedJson(one) == ComparedJson(value)) return kNoText;
      }
    }
    return builder().Literal(value.scalar.Dump(), kRuleEnd);
  }

  // One of these texts: a tree of their beginnings, so that few states are open at once.
  uint32_t OneOf(std::span<const std::string> texts, size_t at) {
    uint32_t begin = kNoText;
    for (size_t i = 0; i < texts.size();) {
      if (texts[i].size() == at) {
        begin = builder().Split(begin, kRuleEnd);
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
      begin = builder().Split(builder().Literal(shared, rest), begin);
      i = end;
    }
    return begin;
  }

  const OrderedJson& root_;
  SchemaReader reader_;
  SchemaRules rules_;
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
  auto made = Compiler(*root, is_strict, /*says_conditions=*/true).Compile();
  if (made.ok() || made.status().code() != Code::kLimitExceeded) return made;
  // Conditions multiply the rules. Where these are too many, the conditions are not kept.
  auto without = Compiler(*root, is_strict, /*says_conditions=*/false).Compile();
  return without.ok() ? std::move(without) : std::move(made);
}

}  // namespace lectern
