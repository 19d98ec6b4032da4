// Jinja's filters for lists, dicts and other values with items (jinja2/filters.py). Filters that
// are generators in jinja2 find their items at once here (Generate). Paths such as "a.b.0" follow
// jinja2's make_attrgetter.
#include <algorithm>
#include <functional>

#include "engine/model/template/jinja_filters.h"
#include "engine/model/template/jinja_unicode.h"

namespace lectern::jinja {
namespace {

using Bound = std::vector<std::optional<Value>>;

// Splits the path "a.b.0" of an attribute into its keys; a value that is no string is the only key.
std::vector<Value> PathOf(Runtime& run, const Value& attribute) {
  if (attribute.Is(Kind::kNone)) return {};
  if (!attribute.Is(Kind::kString)) return {attribute};
  std::vector<Value> path;
  const std::string_view text = BytesOf(attribute);
  for (size_t at = 0; at <= text.size() && run.Step();) {
    const size_t end = std::min(text.find('.', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    const bool is_index = !part.empty() && part.size() < 19 &&
                          part.find_first_not_of("0123456789") == std::string_view::npos;
    path.push_back(is_index ? Value::Integer(*ParseInteger(run, part, 10)) : run.String(part));
    at = end + 1;
  }
  return path;
}

// The value at the end of a path; `otherwise` (unless None) stands for an undefined one on the way.
Value Follow(Runtime& run, Value value, const std::vector<Value>& path, const Value& otherwise) {
  for (const Value& key : path) {
    if (run.failed()) break;
    value = GetItem(run, value, key);
    if (value.Is(Kind::kUndefined) && !otherwise.Is(Kind::kNone)) value = otherwise;
  }
  return value;
}

// A string in lower case unless `case_sensitive`; other values as they are.
Value IgnoreCase(Runtime& run, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.Is(Kind::kString) || run.failed()) return value;
  return InCase(run, value, static_cast<int>(Case::kLower));
}

// The items in this order.
std::vector<Value> Picked(const std::vector<Value>& items, const std::vector<size_t>& order) {
  std::vector<Value> picked;
  for (const size_t place : order) picked.push_back(items[place]);
  return picked;
}

// Makes a generator of the items that `find` appends. All are found at once, and an error on the
// way becomes the generator's: it is reported when the program gets there, because a program that
// never asks for that item would not fail in jinja2. Limits are not put off.
Value Generate(Runtime& run, const std::function<void(std::vector<Value>*)>& find) {
  if (run.failed()) return Value();
  std::vector<Value> items;
  find(&items);
  Status error;
  if (run.failed() && run.status.code() != Code::kLimitExceeded) {
    error = std::move(run.status);
    run.status = Status();
  }
  return run.Iterator(std::move(items), std::move(error));
}

// jinja2's batch: lists of `linecount` items, the last one filled up with `fill_with`. A count that
// is no number never equals a size, so all items are in one list.
Value Batch(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "batch", arguments, {"linecount", "fill_with"}, 1, &bound)) return Value();
  return Generate(run, [&](std::vector<Value>* batches) {
    const int64_t size = IsInteger(*bound[0]) ? bound[0]->integer() : -1;
    const double limit = IsNumber(*bound[0]) ? RealOf(*bound[0]) : -1;
    const std::shared_ptr<ListObject> items = run.Items(value);
    if (items == nullptr) return;
    std::vector<Value> batch;
    for (const Value& item : items->items) {
      if (!run.Step()) return;
      if (static_cast<double>(batch.size()) == limit) {
        batches->push_back(run.List(std::move(batch)));
        batch.clear();
      }
      batch.push_back(item);
    }
    if (batch.empty()) return;
    if (bound[1] && !bound[1]->Is(Kind::kNone)) {
      if (size > 0 && !run.Fits(static_cast<size_t>(size) * sizeof(Value))) return;
      while (static_cast<int64_t>(batch.size()) < size && run.Step()) batch.push_back(*bound[1]);
    }
    batches->push_back(run.List(std::move(batch)));
  });
}

// slice(slices, fill_with): as many lists of nearly equal length; shorter ones are filled up.
Value Slice(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "slice", arguments, {"slices", "fill_with"}, 1, &bound)) return Value();
  return Generate(run, [&](std::vector<Value>* slices) {
    const std::shared_ptr<ListObject> items = run.Items(value);
    const int64_t count = IntegerArgument(run, bound[0], 1);
    if (items == nullptr || run.failed()) return;
    if (count == 0) return (void)run.Fail("division by zero");
    const int64_t size = static_cast<int64_t>(items->items.size());
    int64_t at = 0;
    for (int64_t i = 0; i < count && run.Step(); ++i) {
      const int64_t end = at + size / count + (i < size % count);
      std::vector<Value> slice(items->items.begin() + at, items->items.begin() + end);
      if (bound[1] && !bound[1]->Is(Kind::kNone) && i >= size % count) slice.push_back(*bound[1]);
      slices->push_back(run.List(std::move(slice)));
      at = end;
    }
  });
}

// length and count.
Value Length(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "length", arguments, {}, 0, &bound)) return Value();
  if (value.Is(Kind::kLoop)) return *run.FindLoopAttribute(value, "length");
  if (value.Is(Kind::kString) && !run.Work(BytesOf(value).size())) return Value();
  if (const std::optional<int64_t> length = LengthOf(value)) return Value::Integer(*length);
  return run.Fail("object of type '" + std::string(TypeName(value)) + "' has no len()");
}

// dictsort(case_sensitive, by, reverse): the pairs of a dict, sorted by key or value.
Value DictSort(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0, &bound)) {
    return Value();
  }
  const std::string_view by = !bound[1]                     ? "key"
                              : bound[1]->Is(Kind::kString) ? BytesOf(*bound[1])
                                                            : "";
  if (by != "key" && by != "value") return run.Fail("dictsort sorts by \"key\" or \"value\"");
  if (value.Is(Kind::kUndefined)) return run.FailUndefined(value);
  if (!value.Is(Kind::kDict)) return run.Fail("dictsort needs a dict");
  const Value view = run.View("dict_items", As<DictObject>(value), 2);
  if (run.failed()) return Value();
  const std::vector<Value>& items = As<ViewObject>(view).items->items;
  std::vector<Value> keys;
  for (const Value& item : items) {
    if (!run.Step()) return Value();
    keys.push_back(
        IgnoreCase(run, As<ListObject>(item).items[by == "value"], IsTrueArgument(bound[0])));
  }
  return run.List(Picked(items, SortedOrder(run, keys, IntegerArgument(run, bound[2], 0) != 0)));
}

// first: takes one item of a generator and leaves the rest.
Value First(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "first", arguments, {}, 0, &bound)) return Value();
  if (value.Is(Kind::kIterator)) {
    IteratorObject& iterator = As<IteratorObject>(value);
    if (iterator.next < iterator.items.size()) return iterator.items[iterator.next++];
  }
  if (value.Is(Kind::kString) && !BytesOf(value).empty()) {
    const Value first = run.Slice(value, 0, FirstCharacter(BytesOf(value)).size);
    return run.failed() ? Value() : run.ToString(first);  // no markup, even of markup
  }
  const std::shared_ptr<ListObject> items = run.Items(value);
  if (items == nullptr) return Value();
  if (items->items.empty()) return run.Undefined("No first item, sequence was empty.");
  return items->items[0];
}

// last: an error on a generator, which Python cannot reverse.
Value Last(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "last", arguments, {}, 0, &bound)) return Value();
  if (value.Is(Kind::kIterator)) return run.Fail("'generator' object is not reversible");
  if (value.Is(Kind::kString) && !BytesOf(value).empty()) {
    const std::string_view bytes = BytesOf(value);
    return run.Slice(value, bytes.size() - LastCharacter(bytes).size, bytes.size());
  }
  const std::shared_ptr<ListObject> items = run.Items(value);
  if (items == nullptr) return Value();
  if (items->items.empty()) return run.Undefined("No last item, sequence was empty.");
  return items->items.back();
}

// jinja2's groupby: sorts by the attribute and joins neighbours with equal keys. If letter case is
// ignored, a group is named by its first member's attribute.
Value GroupBy(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "groupby", arguments, {"attribute", "default", "case_sensitive"}, 1, &bound)) {
    return Value();
  }
  const std::vector<Value> path = PathOf(run, *bound[0]);
  const Value otherwise = bound[1].value_or(Value());
  const bool case_sensitive = IsTrueArgument(bound[2]);
  const std::shared_ptr<ListObject> items = run.Items(value);
  if (items == nullptr) return Value();
  std::vector<Value> keys;
  for (const Value& item : items->items) {
    keys.push_back(IgnoreCase(run, Follow(run, item, path, otherwise), case_sensitive));
    if (run.failed()) return Value();
  }
  const std::vector<size_t> order = SortedOrder(run, keys, false);
  std::vector<Value> groups, members;
  for (size_t i = 0; i < order.size() && run.Step(); ++i) {
    members.push_back(items->items[order[i]]);
    if (i + 1 < order.size() && AreEqual(&run, keys[order[i]], keys[order[i + 1]])) continue;
    Value key = case_sensitive ? keys[order[i]] : Follow(run, members[0], path, otherwise);
    const Value list = run.List(std::move(members));
    members.clear();
    const Value group = run.List({std::move(key), list}, Kind::kTuple);
    if (run.failed()) return Value();
    As<ListObject>(group).is_group = true;
    groups.push_back(group);
  }
  return run.List(std::move(groups));
}

// items: the pairs of a dict; none of an undefined value.
Value Items(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "items", arguments, {}, 0, &bound)) return Value();
  return Generate(run, [&](std::vector<Value>* items) {
    if (value.Is(Kind::kUndefined)) return;
    if (!value.Is(Kind::kDict)) return (void)run.Fail("can only get item pairs from a mapping");
    const Value view = run.View("dict_items", As<DictObject>(value), 2);
    if (!run.failed()) *items = As<ViewObject>(view).items->items;
  });
}

// join(d, attribute). Items become plain texts: autoescape is off.
Value Join(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "join", arguments, {"d", "attribute"}, 0, &bound)) return Value();
  const Value separator = run.ToString(bound[0] ? *bound[0] : run.String(""));
  const std::vector<Value> path = PathOf(run, bound[1].value_or(Value()));
  const std::shared_ptr<ListObject> items = run.Items(value);
  if (items == nullptr) return Value();
  std::vector<Value> strings;
  for (const Value& item : items->items) {
    strings.push_back(run.ToString(Follow(run, item, path, Value())));
    if (run.failed()) return Value();
  }
  return JoinStrings(run, separator, strings);
}

// list: a new list of the items.
Value ToList(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "list", arguments, {}, 0, &bound)) return Value();
  const std::shared_ptr<ListObject> items = run.Items(value);
  if (items == nullptr || !run.Fits(items->items.size() * sizeof(Value))) return Value();
  return run.List(items->items);
}

// jinja2's map: takes an attribute of every item, or applies the filter named by the first argument
// to it.
Value Map(Runtime& run, const Value& value, CallArguments& arguments) {
  return Generate(run, [&](std::vector<Value>* mapped) {
    if (!IsTrue(value)) return;
    // "map(attribute=…)" takes an attribute; with a positional argument the filter of that name is
    // applied.
    const bool by_attribute =
        arguments.positional.empty() && !arguments.named.empty() &&
        std::any_of(arguments.named.begin(), arguments.named.end(),
                    [](const auto& item) { return item.first == "attribute"; });
    Bound bound;
    CallArguments rest = arguments;
    if (by_attribute) {
      if (!Bind(run, "map", arguments, {"attribute", "default"}, 1, &bound)) return;
    } else if (arguments.positional.empty() || !arguments.positional[0].Is(Kind::kString)) {
      return (void)run.Fail("map requires a filter argument");
    } else {
      rest.positional.erase(rest.positional.begin());
    }
    const std::vector<Value> path = by_attribute ? PathOf(run, *bound[0]) : std::vector<Value>();
    const std::shared_ptr<ListObject> items = run.Items(value);
    if (items == nullptr) return;
    for (const Value& item : items->items) {
      CallArguments given = rest;
      Value result = by_attribute ? Follow(run, item, path, bound[1].value_or(Value()))
                                  : CallFilter(run, BytesOf(arguments.positional[0]), item, given);
      if (!run.Step()) return;
      mapped->push_back(std::move(result));
    }
  });
}

// min and max: of equal items the first one.
template <Operator kBetter>
Value Extreme(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "min", arguments, {"case_sensitive", "attribute"}, 0, &bound)) return Value();
  const std::vector<Value> path = PathOf(run, bound[1].value_or(Value()));
  const std::shared_ptr<ListObject> items = run.Items(value);
  if (items == nullptr) return Value();
  if (items->items.empty()) return run.Undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key;
  for (size_t i = 0; i < items->items.size() && run.Step(); ++i) {
    const Value key =
        IgnoreCase(run, Follow(run, items->items[i], path, Value()), IsTrueArgument(bound[0]));
    if (i > 0 && !Compare(run, kBetter, key, best_key)) continue;
    best = i;
    best_key = key;
  }
  return items->items[best];
}

// reverse: of a string a string, else a generator.
Value Reverse(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "reverse", arguments, {}, 0, &bound)) return Value();
  if (value.Is(Kind::kString)) return GetSlice(run, value, Value(), Value(), Value::Integer(-1));
  const std::shared_ptr<ListObject> items = run.Items(value);
  if (items == nullptr) return Value();
  if (!run.Fits(items->items.size() * sizeof(Value))) return Value();
  std::vector<Value> reversed(items->items.rbegin(), items->items.rend());
  // A generator is no sequence, so that jinja2 makes a list of it.
  if (value.Is(Kind::kIterator)) return run.List(std::move(reversed));
  return run.Iterator(std::move(reversed));
}

// select, reject, selectattr and rejectattr: items that pass a test, by its name and arguments, or
// are true; of a path's value in the last two.
template <bool kSelects, bool kByAttribute>
Value Select(Runtime& run, const Value& value, CallArguments& arguments) {
  return Generate(run, [&](std::vector<Value>* selected) {
    if (!IsTrue(value)) return;
    CallArguments rest = arguments;
    std::vector<Value> path;
    if (kByAttribute) {
      if (rest.positional.empty()) return (void)run.Fail("missing parameter for attribute name");
      path = PathOf(run, rest.positional[0]);
      rest.positional.erase(rest.positional.begin());
    }
    std::string test;
    if (!rest.positional.empty()) {
      if (!rest.positional[0].Is(Kind::kString)) return (void)run.Fail("a test needs a name");
      test = BytesOf(rest.positional[0]);
      rest.positional.erase(rest.positional.begin());
    }
    const bool has_test = arguments.positional.size() > kByAttribute;
    const std::shared_ptr<ListObject> items = run.Items(value);
    if (items == nullptr) return;
    for (const Value& item : items->items) {
      const Value tested = Follow(run, item, path, Value());
      CallArguments given = rest;
      const bool passes = has_test ? CallTest(run, test, tested, given) : IsTrue(tested);
      if (!run.Step()) return;
      if (passes == kSelects) selected->push_back(item);
    }
  });
}

// jinja2's sort: `attribute` may list several paths, separated by commas; an item's key is the list
// of their values.
Value Sort(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0, &bound)) {
    return Value();
  }
  std::vector<std::vector<Value>> paths;
  if (bound[2] && bound[2]->Is(Kind::kString)) {
    const std::string_view attributes = BytesOf(*bound[2]);
    for (size_t at = 0; at <= attributes.size() && run.Step();) {
      const size_t end = std::min(attributes.find(',', at), attributes.size());
      const Value attribute = run.String(attributes.substr(at, end - at));
      if (run.failed()) return Value();
      paths.push_back(PathOf(run, attribute));
      at = end + 1;
    }
  } else {
    paths.push_back(PathOf(run, bound[2].value_or(Value())));
  }
  const std::shared_ptr<ListObject> items = run.Items(value);
  if (items == nullptr) return Value();
  std::vector<Value> keys;
  for (const Value& item : items->items) {
    std::vector<Value> parts;
    for (const std::vector<Value>& path : paths) {
      parts.push_back(IgnoreCase(run, Follow(run, item, path, Value()), IsTrueArgument(bound[1])));
    }
    keys.push_back(run.List(std::move(parts)));
    if (run.failed()) return Value();
  }
  return run.List(
      Picked(items->items, SortedOrder(run, keys, IntegerArgument(run, bound[0], 0) != 0)));
}

// sum(attribute, start).
Value Sum(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "sum", arguments, {"attribute", "start"}, 0, &bound)) return Value();
  const std::vector<Value> path = PathOf(run, bound[0].value_or(Value()));
  const std::shared_ptr<ListObject> items = run.Items(value);
  Value sum = bound[1].value_or(Value::Integer(0));
  if (items == nullptr) return Value();
  if (sum.Is(Kind::kString)) return run.Fail("sum() can't sum strings");
  for (const Value& item : items->items) {
    const Value added = Follow(run, item, path, Value());
    if (run.failed()) return Value();
    sum = Calculate(run, Operator::kAdd, sum, added);
  }
  return sum;
}

// unique(case_sensitive, attribute): of equal items the first one. Keys must be hashable, as in
// Python.
Value Unique(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "unique", arguments, {"case_sensitive", "attribute"}, 0, &bound)) return Value();
  return Generate(run, [&](std::vector<Value>* unique) {
    const std::vector<Value> path = PathOf(run, bound[1].value_or(Value()));
    const std::shared_ptr<ListObject> items = run.Items(value);
    if (items == nullptr) return;
    DictObject seen;
    for (const Value& item : items->items) {
      const Value key = IgnoreCase(run, Follow(run, item, path, Value()), IsTrueArgument(bound[0]));
      const size_t known = seen.members.size();
      run.SetMember(&seen, key, Value());
      if (run.failed()) return;
      if (seen.members.size() > known) unique->push_back(item);
    }
  });
}

}  // namespace

// Finds a filter that takes a sequence.
Function SequenceFilter(std::string_view name) {
  static constexpr std::pair<std::string_view, Function> kFilters[] = {
      {"batch", Batch},
      {"count", Length},
      {"dictsort", DictSort},
      {"first", First},
      {"groupby", GroupBy},
      {"items", Items},
      {"join", Join},
      {"last", Last},
      {"length", Length},
      {"list", ToList},
      {"map", Map},
      {"max", Extreme<Operator::kGt>},
      {"min", Extreme<Operator::kLt>},
      {"reject", Select<false, false>},
      {"rejectattr", Select<false, true>},
      {"reverse", Reverse},
      {"select", Select<true, false>},
      {"selectattr", Select<true, true>},
      {"slice", Slice},
      {"sort", Sort},
      {"sum", Sum},
      {"unique", Unique}};
  for (const auto& [known, function] : kFilters) {
    if (known == name) return function;
  }
  return nullptr;
}

std::vector<size_t> SortedOrder(Runtime& run, const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> order, merged;
  if (!run.Fits(keys.size() * 2 * sizeof(size_t))) return order;
  for (size_t i = 0; i < keys.size(); ++i) order.push_back(i);
  merged.resize(order.size());
  // A merge sort from the bottom up, and not std::stable_sort: comparisons may fail, or contradict
  // each other (NaN), and std:: algorithms may then read outside the array. Runs of `width` are
  // sorted; pairs of them are merged.
  for (size_t width = 1; width < order.size(); width *= 2) {
    for (size_t begin = 0; begin < order.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, order.size());
      const size_t end = std::min(begin + 2 * width, order.size());
      size_t left = begin, right = middle;
      for (size_t out = begin; out < end; ++out) {
        const bool takes_right =
            right < end && (left == middle || Compare(run, reverse ? Operator::kGt : Operator::kLt,
                                                      keys[order[right]], keys[order[left]]));
        merged[out] = order[takes_right ? right++ : left++];
      }
    }
    std::swap(order, merged);
    if (run.failed()) break;
  }
  return order;
}

}  // namespace lectern::jinja
