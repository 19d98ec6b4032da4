#include <algorithm>
#include <bit>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/constraint/container_rules.h"
#include "engine/constraint/text_rules.h"

namespace lectern {
namespace {

// Lists of different values come in any order if so few values are named: each set of those that
// were written is a state. More are written in the order of their texts.
constexpr size_t kMostInAnyOrder = 7, kMostDifferent = 200;
// States of a list whose items are counted; beyond them "contains" is not kept.
constexpr size_t kMostListStates = 50'000;

// The items of a list: the first ones have schemas of their own, all others share one.
struct ItemRules {
  std::vector<SchemaParts> firsts;
  SchemaParts rest;
  uint32_t least = 0;
  std::optional<uint32_t> most;

  const SchemaParts& At(size_t i) const { return i < firsts.size() ? firsts[i] : rest; }
};

// "items" with a list is the older drafts' prefixItems, and additionalItems their items.
const OrderedJson* FirstItems(const OrderedJson& node) {
  const OrderedJson* const items = node.Find("items");
  const OrderedJson* const prefix = node.Find("prefixItems");
  return prefix ? prefix : items && items->is_array() ? items : nullptr;
}
const OrderedJson* RestItems(const OrderedJson& node) {
  const OrderedJson* const items = node.Find("items");
  return items && items->is_array() ? node.Find("additionalItems") : items;
}

// Adds what the parts say of item `i`; `i` beyond all first items: of all others.
Status AddItem(const SchemaParts& parts, size_t i, SchemaReader& reader, SchemaParts& item) {
  const auto says = [&](const OrderedJson& node) {
    const OrderedJson* const firsts = FirstItems(node);
    return (firsts && i < firsts->items.size()) || RestItems(node);
  };
  for (const SchemaPart& part : parts.parts) {
    const OrderedJson* const firsts = FirstItems(*part.node);
    const OrderedJson* const rest = RestItems(*part.node);
    if (firsts && i < firsts->items.size()) {
      LECTERN_RETURN_IF_ERROR(reader.Add(firsts->items[i], item));
    } else if (rest) {
      LECTERN_RETURN_IF_ERROR(reader.Add(*rest, item));
    }
    const OrderedJson* const unevaluated = part.node->Find("unevaluatedItems");
    if (!unevaluated) continue;
    bool is_evaluated = false;
    for (size_t other = 0; other < parts.parts.size() && !is_evaluated; ++other) {
      const OrderedJson& node = *parts.parts[other].node;
      is_evaluated = parts.IsUnder(other, *part.node) &&
                     (says(node) || (&node != part.node && node.Find("unevaluatedItems")));
    }
    if (!is_evaluated) LECTERN_RETURN_IF_ERROR(reader.Add(*unevaluated, item));
  }
  return {};
}

Result<ItemRules> ItemsOf(const SchemaParts& parts, SchemaReader& reader) {
  ItemRules items;
  LECTERN_ASSIGN(const auto least, reader.Count(parts, "minItems", true));
  LECTERN_ASSIGN(items.most, reader.Count(parts, "maxItems", false));
  if (least > kMostCountedItems) {
    return reader.Wrong(*parts.parts[0].node, "minItems",
                        "must be at most " + std::to_string(kMostCountedItems));
  }
  items.least = least.value_or(0);
  size_t count = 0;
  for (const SchemaPart& part : parts.parts) {
    if (const auto* const firsts = FirstItems(*part.node)) {
      count = std::max(count, firsts->items.size());
    }
  }
  items.firsts.resize(count);
  for (size_t i = 0; i <= count; ++i) {
    SchemaParts& item = i < count ? items.firsts[i] : items.rest;
    LECTERN_RETURN_IF_ERROR(AddItem(parts, i, reader, item));
  }
  if (items.most && *items.most > kMostCountedItems) items.most = kMostCountedItems;
  if (items.rest.is_impossible) {
    const auto number = static_cast<uint32_t>(count);
    items.most = std::min(items.most.value_or(number), number);
  }
  return items;
}

// Items of which some are counted ("contains").
struct Counted {
  const OrderedJson* schema = nullptr;    // nullptr: none are
  const OrderedJson* opposite = nullptr;  // of those that are not counted; nullptr: any may be
  uint32_t least = 0;
  std::optional<uint32_t> most;
};

Result<Counted> CountedOf(const SchemaParts& parts, SchemaReader& reader) {
  Counted counted;
  for (const SchemaPart& part : parts.parts) {
    const OrderedJson* const schema = part.node->Find("contains");
    if (!schema) continue;
    SchemaParts alone;
    alone.parts = {part};
    Counted one;
    one.schema = schema;
    LECTERN_ASSIGN(const auto least, reader.Count(alone, "minContains", true));
    LECTERN_ASSIGN(one.most, reader.Count(alone, "maxContains", false));
    one.least = least.value_or(1);
    if (one.least == 0 && !one.most) continue;
    if (one.most) {
      one.opposite = reader.Opposite(*schema);
      if (!one.opposite) {
        LECTERN_RETURN_IF_ERROR(reader.NotKept(*part.node, "maxContains"));
        one.most.reset();
      }
    }
    const bool is_kept = !counted.schema && one.least <= kMostCountedItems &&
                         one.most.value_or(0) <= kMostCountedItems;
    if (is_kept) {
      counted = one;
    } else {
      LECTERN_RETURN_IF_ERROR(reader.NotKept(*part.node, "contains"));
    }
  }
  return counted;
}

class ListMaker {
 public:
  ListMaker(const ItemRules& items, SchemaRules& rules)
      : items_(items), rules_(rules), builder_(rules.builder()) {
    end_ = builder_.Literal("]", kRuleEnd);
  }

  // `least` items and more, up to `most`, separated. Counted items are states of their own.
  Result<uint32_t> Make(const Counted& counted) {
    if (items_.most && *items_.most < items_.least) return kNoText;
    // Behind the last item that has a number any number of others follows, if there is no limit.
    const auto num_firsts = static_cast<uint32_t>(items_.firsts.size());
    const uint32_t last =
        items_.most ? *items_.most : std::max<uint32_t>({items_.least, num_firsts, 1});
    // Counts from `limit` on are not told apart; with a limit above none may be more.
    const uint32_t limit = counted.schema ? counted.most.value_or(counted.least) : 0;
    std::vector<uint32_t> next(limit + 1, kNoText);
    for (uint32_t count = 0; count <= limit; ++count) {
      if (count >= counted.least) next[count] = end_;
    }
    if (!items_.most) {
      std::vector<uint32_t> loops(limit + 1);
      for (uint32_t& loop : loops) loop = builder_.Later();
      for (uint32_t count = 0; count <= limit; ++count) {
        LECTERN_ASSIGN(const uint32_t more, Item(last, loops, count, counted));
        builder_.Set(loops[count], builder_.Split(builder_.Literal(kNextMark, more), next[count]));
      }
      next = loops;
    }
    for (uint32_t at = last; at > 0; --at) {
      std::vector<uint32_t> before(limit + 1, kNoText);
      for (uint32_t count = 0; count <= std::min(limit, at - 1); ++count) {
        LECTERN_ASSIGN(const uint32_t item, Item(at - 1, next, count, counted));
        const uint32_t more = at == 1 ? item : builder_.Literal(kNextMark, item);
        const bool may_end = at - 1 >= items_.least && count >= counted.least;
        before[count] = builder_.Split(more, may_end ? end_ : kNoText);
      }
      next = std::move(before);
    }
    return builder_.Literal("[", next[0]);
  }

  // Items that are all different, of these values.
  uint32_t MakeDifferent(std::span<const OrderedJson> values) {
    const auto size = static_cast<uint32_t>(values.size());
    const uint32_t most = std::min(items_.most.value_or(size), size);
    if (most < items_.least) return kNoText;
    const auto item = [&](uint32_t i, bool is_first, uint32_t next) {
      if (next == kNoText) return kNoText;
      const std::string text = DumpOrdered(values[i]);
      return builder_.Literal((is_first ? "" : std::string(kNextMark)) + text, next);
    };
    if (size <= kMostInAnyOrder) {
      // From the sets with the most values to the empty one.
      std::vector<uint32_t> states(size_t{1} << size, kNoText);
      for (auto set = static_cast<uint32_t>(states.size()); set-- > 0;) {
        const auto count = static_cast<uint32_t>(std::popcount(set));
        uint32_t begin = count >= items_.least && count <= most ? end_ : kNoText;
        for (uint32_t i = 0; i < size && count < most; ++i) {
          if (set >> i & 1) continue;
          begin = builder_.Split(item(i, set == 0, states[set | 1u << i]), begin);
        }
        states[set] = begin;
      }
      return builder_.Literal("[", states[0]);
    }
    // From the last value to the first: with and without it. Counts that make no difference are not
    // told apart.
    const bool is_limited = most < size;
    const uint32_t limit = is_limited ? most : std::max<uint32_t>(items_.least, 1);
    std::vector<uint32_t> next(size_t{limit} + 1, kNoText);
    for (uint32_t count = items_.least; count <= limit; ++count) next[count] = end_;
    for (uint32_t i = size; i-- > 0;) {
      for (uint32_t count = 0; count <= limit; ++count) {
        const bool is_full = is_limited && count == limit;
        const uint32_t more = is_full ? kNoText : next[std::min(count + 1, limit)];
        next[count] = builder_.Split(item(i, count == 0, more), next[count]);
      }
    }
    return builder_.Literal("[", next[0]);
  }

 private:
  // The item number `i` behind `count` ones that were counted.
  Result<uint32_t> Item(size_t i, const std::vector<uint32_t>& next, uint32_t count,
                        const Counted& counted) {
    const SchemaParts& plain = items_.At(i);
    if (!counted.schema) return builder_.Call(rules_.RuleOf(plain), next[0]);
    SchemaParts with = plain, without = plain;
    LECTERN_RETURN_IF_ERROR(rules_.reader().Add(*counted.schema, with));
    if (counted.most) LECTERN_RETURN_IF_ERROR(rules_.reader().Add(*counted.opposite, without));
    const auto limit = static_cast<uint32_t>(next.size()) - 1;
    uint32_t begin = builder_.Call(rules_.RuleOf(without), next[count]);
    if (count < limit) {
      begin = builder_.Split(builder_.Call(rules_.RuleOf(with), next[count + 1]), begin);
    }
    return begin;
  }

  const ItemRules& items_;
  SchemaRules& rules_;
  GrammarBuilder& builder_;
  uint32_t end_;
};

}  // namespace

Result<uint32_t> ArrayRule(const SchemaParts& parts, SchemaRules& rules) {
  SchemaReader& reader = rules.reader();
  LECTERN_ASSIGN(ItemRules items, ItemsOf(parts, reader));
  LECTERN_ASSIGN(Counted counted, CountedOf(parts, reader));
  for (const SchemaPart& part : parts.parts) {
    const OrderedJson* const excepted = part.node->Find(kExceptValues);
    const bool excepts_empty =
        excepted && std::ranges::any_of(excepted->items, &OrderedJson::is_array);
    if (excepts_empty) items.least = std::max<uint32_t>(items.least, 1);
  }
  const size_t length = std::max<size_t>(items.most.value_or(items.least), items.firsts.size());
  const size_t counts = counted.most.value_or(counted.least) + size_t{1};
  if (length * counts > kMostListStates) {
    LECTERN_RETURN_IF_ERROR(reader.NotKept(*parts.parts[0].node, "contains"));
    counted = {};
  }
  ListMaker maker(items, rules);
  for (const SchemaPart& part : parts.parts) {
    const OrderedJson* const unique = part.node->Find("uniqueItems");
    const bool has_one = items.most && *items.most <= 1;
    if (!unique || DemandsNothing("uniqueItems", *unique) || has_one) continue;
    if (items.firsts.empty() && !counted.schema) {
      LECTERN_ASSIGN(const auto values, ValuesOf(items.rest, kMostDifferent, reader));
      if (values) return maker.MakeDifferent(*values);
    }
    LECTERN_RETURN_IF_ERROR(reader.NotKept(*part.node, "uniqueItems"));
  }
  return maker.Make(counted);
}

}  // namespace lectern
