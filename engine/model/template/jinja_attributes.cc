// Attributes and methods of Jinja values, and the global functions, as far as jinja2's sandbox lets
// a template use them (jinja2/sandbox.py, utils.py). Methods of Python that exist and are not
// implemented fail by name; a name that Python does not have is undefined: the functions that find
// an attribute then return nothing.
#include <algorithm>
#include <cmath>

#include "engine/model/template/jinja_value.h"

namespace lectern::jinja {
namespace {

// Whether `name` is in a list.
template <size_t kSize>
bool IsOneOf(std::string_view name, const std::string_view (&names)[kSize]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// dict.get(key, default).
Value GetOfDict(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "get", arguments, 1, 2)) return Value();
  const Value& key = arguments.positional[0];
  if (!IsHashable(key)) return run.Fail("unhashable type: '" + std::string(TypeName(key)) + "'");
  const Value* found = As<DictObject>(self).Find(&run, key);
  if (found != nullptr) return *found;
  return arguments.positional.size() > 1 ? arguments.positional[1] : Value();
}

// dict.keys(), .values() and .items(): a view of the members as they are, because a dict never
// changes.
template <int kPart>
Value ViewOfDict(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "items", arguments, 0, 0)) return Value();
  static constexpr std::string_view kNames[] = {"dict_keys", "dict_values", "dict_items"};
  return run.View(kNames[kPart], As<DictObject>(self), kPart);
}

// copy() of a list or dict.
Value Copy(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "copy", arguments, 0, 0)) return Value();
  if (self.Is(Kind::kList)) {
    if (!run.Fits(As<ListObject>(self).items.size() * sizeof(Value))) return Value();
    return run.List(As<ListObject>(self).items);
  }
  return self;  // a dict never changes
}

// count(x) of a list, tuple or range. "Same or equal", as in Python: a NaN is found by identity.
Value CountOfList(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "count", arguments, 1, 1)) return Value();
  const std::shared_ptr<ListObject> items = run.Items(self);
  int64_t count = 0;
  if (items == nullptr) return Value();
  for (const Value& item : items->items) {
    count +=
        AreSame(item, arguments.positional[0]) || AreEqual(&run, item, arguments.positional[0]);
  }
  return Value::Integer(count);
}

// index(x, begin, end) of a list, tuple or range; an error where x is not in it.
Value IndexOfList(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "index", arguments, 1, 3)) return Value();
  const std::shared_ptr<ListObject> items = run.Items(self);
  if (items == nullptr) return Value();
  const int64_t size = static_cast<int64_t>(items->items.size());
  const auto bound = [&](size_t place, int64_t otherwise) {
    if (arguments.positional.size() <= place) return otherwise;
    const int64_t index = IntegerArgument(run, arguments.positional[place], otherwise);
    return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
  };
  const int64_t end = bound(2, size);
  for (int64_t i = bound(1, 0); i < end && !run.failed(); ++i) {
    const Value& item = items->items[static_cast<size_t>(i)];
    if (AreSame(item, arguments.positional[0]) || AreEqual(&run, item, arguments.positional[0])) {
      return Value::Integer(i);
    }
  }
  return run.Fail("the list does not have that value");
}

// float.is_integer().
Value IsWhole(Runtime&, const Value& self, CallArguments&) {
  return Value::Bool(std::isfinite(self.real()) && std::floor(self.real()) == self.real());
}

// int.bit_length(), of the magnitude. Unsigned, because -INT64_MIN has 64 bits.
Value BitLength(Runtime&, const Value& self, CallArguments&) {
  uint64_t magnitude = static_cast<uint64_t>(self.integer());
  if (self.integer() < 0) magnitude = 0 - magnitude;
  int64_t bits = 0;
  for (; magnitude > 0; magnitude >>= 1) ++bits;
  return Value::Integer(bits);
}

// cycler.next() and reset().
Value NextOfCycler(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "next", arguments, 0, 0)) return Value();
  CyclerObject& cycler = As<CyclerObject>(self);
  const Value current = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return current;
}

Value ResetCycler(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "reset", arguments, 0, 0)) return Value();
  As<CyclerObject>(self).position = 0;
  return Value();
}

// Fails: a method that Python has and we do not. Better than an undefined value, which would go on
// as empty text.
Value Unsupported(Runtime& run, const Value& self, CallArguments&) {
  return run.Fail("this method of '" + std::string(TypeName(self)) + "' is not supported");
}

// The undefined value that jinja2's sandbox returns for an attribute that it refuses.
Value Unsafe(Runtime& run, const Value& value, std::string_view name) {
  return run.Undefined("access to attribute '" + std::string(name) + "' of '" +
                       std::string(TypeName(value)) + "' object is unsafe.");
}

// Finds a method of a dict. Methods that would change it, and names with underscores, are those
// that jinja2's sandbox refuses.
std::optional<Value> DictAttribute(Runtime& run, const Value& value, std::string_view name) {
  static constexpr std::pair<std::string_view, Function> kMethods[] = {
      {"get", GetOfDict},        {"items", ViewOfDict<2>}, {"keys", ViewOfDict<0>},
      {"values", ViewOfDict<1>}, {"copy", Copy},           {"fromkeys", Unsupported}};
  for (const auto& [known, function] : kMethods) {
    if (known == name) return run.Method(known, function, value);
  }
  static constexpr std::string_view kUnsafe[] = {"clear",
                                                 "pop",
                                                 "popitem",
                                                 "setdefault",
                                                 "update",
                                                 "__class__",
                                                 "__contains__",
                                                 "__delattr__",
                                                 "__delitem__",
                                                 "__dir__",
                                                 "__doc__",
                                                 "__eq__",
                                                 "__format__",
                                                 "__ge__",
                                                 "__getattribute__",
                                                 "__getitem__",
                                                 "__gt__",
                                                 "__hash__",
                                                 "__init__",
                                                 "__init_subclass__",
                                                 "__ior__",
                                                 "__iter__",
                                                 "__le__",
                                                 "__len__",
                                                 "__lt__",
                                                 "__ne__",
                                                 "__new__",
                                                 "__or__",
                                                 "__reduce__",
                                                 "__reduce_ex__",
                                                 "__repr__",
                                                 "__reversed__",
                                                 "__ror__",
                                                 "__setattr__",
                                                 "__setitem__",
                                                 "__sizeof__",
                                                 "__str__",
                                                 "__subclasshook__",
                                                 "__class_getitem__",
                                                 "__getstate__"};
  if (IsOneOf(name, kUnsafe)) return Unsafe(run, value, name);
  return std::nullopt;
}

// Finds a method of a list or tuple; lists refuse the methods that would change them, which tuples
// do not have. Groups of the filter groupby also have the attributes of jinja2's _GroupTuple.
std::optional<Value> ListAttribute(Runtime& run, const Value& value, std::string_view name) {
  const ListObject& list = As<ListObject>(value);
  if (list.is_group && name == "grouper") return list.items[0];
  if (list.is_group && name == "list") return list.items[1];
  if (name == "count") return run.Method("count", CountOfList, value);
  if (name == "index") return run.Method("index", IndexOfList, value);
  if (value.Is(Kind::kTuple)) return std::nullopt;
  if (name == "copy") return run.Method("copy", Copy, value);
  static constexpr std::string_view kUnsafe[] = {"append", "clear", "pop",    "reverse",
                                                 "insert", "sort",  "extend", "remove"};
  if (IsOneOf(name, kUnsafe)) return Unsafe(run, value, name);
  return std::nullopt;
}

// Finds a method of a string; markup has three more, which are not supported.
std::optional<Value> StringAttribute(Runtime& run, const Value& value, std::string_view name) {
  if (const Function function = StringMethod(name)) return run.Method(name, function, value);
  if (IsUnsupportedStringMethod(name)) return run.Method(name, Unsupported, value);
  if (IsMarkup(value) && (name == "striptags" || name == "unescape" || name == "escape")) {
    return run.Method(name, Unsupported, value);
  }
  return std::nullopt;
}

// Finds an attribute or method of a number. A bool is an int and has the same.
std::optional<Value> NumberAttribute(Runtime& run, const Value& value, std::string_view name) {
  const bool is_integer = IsInteger(value);
  if (name == "real") return is_integer ? Value::Integer(value.integer()) : value;
  if (name == "imag") return is_integer ? Value::Integer(0) : Value::Float(0);
  if (name == "is_integer" && !is_integer) return run.Method(name, IsWhole, value);
  if (is_integer && name == "numerator") return Value::Integer(value.integer());
  if (is_integer && name == "denominator") return Value::Integer(1);
  if (is_integer && name == "bit_length") return run.Method(name, BitLength, value);
  static constexpr std::string_view kUnsupported[] = {
      "as_integer_ratio", "conjugate", "from_bytes", "to_bytes", "bit_count", "hex", "fromhex"};
  if (IsOneOf(name, kUnsupported)) return run.Method(name, Unsupported, value);
  return std::nullopt;
}

// Finds an attribute of a range: start, stop, step, count or index.
std::optional<Value> RangeAttribute(Runtime& run, const Value& value, std::string_view name) {
  const RangeObject& range = As<RangeObject>(value);
  if (name == "start") return Value::Integer(range.start);
  if (name == "stop") return Value::Integer(range.stop);
  if (name == "step") return Value::Integer(range.given_step);
  if (name == "count") return run.Method("count", CountOfList, value);
  if (name == "index") return run.Method("index", IndexOfList, value);
  return std::nullopt;
}

// Finds an attribute of a cycler.
std::optional<Value> CyclerAttribute(Runtime& run, const Value& value, std::string_view name) {
  const CyclerObject& cycler = As<CyclerObject>(value);
  if (name == "next") return run.Method("next", NextOfCycler, value);
  if (name == "reset") return run.Method("reset", ResetCycler, value);
  if (name == "current") return cycler.items[cycler.position];
  if (name == "pos") return Value::Integer(static_cast<int64_t>(cycler.position));
  if (name == "items") return run.List(cycler.items, Kind::kTuple);
  return std::nullopt;
}

// range(stop), range(start, stop, step), of at most 100,000 numbers (MAX_RANGE of jinja2's
// sandbox).
Value Range(Runtime& run, const Value&, CallArguments& arguments) {
  if (!TakesArguments(run, "range", arguments, 1, 3)) return Value();
  int64_t bounds[3] = {0, 0, 1};
  const size_t count = arguments.positional.size();
  for (size_t i = 0; i < count; ++i) {
    bounds[count == 1 ? 1 : i] = IntegerArgument(run, arguments.positional[i], 0);
  }
  if (run.failed()) return Value();
  const auto [start, stop, step] = bounds;
  if (step == 0) return run.Fail("range() arg 3 must not be zero");
  constexpr uint64_t kMax = 100000;  // MAX_RANGE
  uint64_t size = 0;
  // Unsigned differences, because stop - start may have 64 bits and a sign.
  if (step > 0 && start < stop) {
    size = (static_cast<uint64_t>(stop) - static_cast<uint64_t>(start) - 1) /
               static_cast<uint64_t>(step) +
           1;
  } else if (step < 0 && start > stop) {
    size = (static_cast<uint64_t>(start) - static_cast<uint64_t>(stop) - 1) /
               (0 - static_cast<uint64_t>(step)) +
           1;
  }
  if (size > kMax) return run.Fail("a range of more than " + std::to_string(kMax) + " numbers");
  auto range = std::make_shared<RangeObject>();
  range->start = start;
  range->stop = stop, range->given_step = step;
  // One past the end need not be a number of 64 bits.
  range->step = size <= 1 && (step > INT64_MAX / 4 || step < INT64_MIN / 4) ? 1 : step;
  range->size = static_cast<int64_t>(size);
  return run.Make(Kind::kRange, std::move(range));
}

// The members of dict(…) and namespace(…): from a dict or a list of pairs, then from named
// arguments, which win. nullptr: the program has failed.
std::shared_ptr<DictObject> NewMembers(Runtime& run, std::string_view name,
                                       CallArguments& arguments) {
  auto dict = std::make_shared<DictObject>();
  if (arguments.positional.size() > 1) {
    run.Fail(std::string(name) + "() takes at most 1 argument");
    return nullptr;
  }
  if (!arguments.positional.empty() && arguments.positional[0].Is(Kind::kDict)) {
    for (const auto& [key, value] : As<DictObject>(arguments.positional[0]).members) {
      run.SetMember(dict.get(), key, value);
    }
  } else if (!arguments.positional.empty()) {
    const std::shared_ptr<ListObject> pairs = run.Items(arguments.positional[0]);
    if (pairs == nullptr) return nullptr;
    for (const Value& pair : pairs->items) {
      const std::shared_ptr<ListObject> parts = run.Items(pair);
      if (parts == nullptr) return nullptr;
      if (parts->items.size() != 2) {
        run.Fail("a member of a dict needs a key and a value");
        return nullptr;
      }
      run.SetMember(dict.get(), parts->items[0], parts->items[1]);
    }
  }
  for (auto& [key, value] : arguments.named) run.SetMember(dict.get(), run.InputString(key), value);
  return run.failed() ? nullptr : dict;
}

// dict(…).
Value Dict(Runtime& run, const Value&, CallArguments& arguments) {
  std::shared_ptr<DictObject> dict = NewMembers(run, "dict", arguments);
  return dict == nullptr ? Value() : run.Dict(std::move(dict));
}

// namespace(…). Its memory is charged at once, and it is kept: it may come to contain itself.
Value Namespace(Runtime& run, const Value&, CallArguments& arguments) {
  std::shared_ptr<DictObject> members = NewMembers(run, "namespace", arguments);
  if (members == nullptr) return Value();
  auto space = std::make_shared<NamespaceObject>();
  space->attributes = std::move(members);
  const size_t size = space->attributes->members.size() * sizeof(std::pair<Value, Value>);
  run.Keep(space);
  return run.Make(Kind::kNamespace, std::move(space), size + sizeof(DictObject));
}

// cycler(a, b, …).
Value Cycler(Runtime& run, const Value&, CallArguments& arguments) {
  if (!arguments.named.empty()) return run.Fail("cycler() takes no named arguments");
  if (arguments.positional.empty()) return run.Fail("at least one item has to be provided");
  auto cycler = std::make_shared<CyclerObject>();
  for (const Value& item : arguments.positional) {
    if (item.object() != nullptr) cycler->depth = std::max(cycler->depth, item.object()->depth + 1);
  }
  const size_t size = arguments.positional.size() * sizeof(Value);
  cycler->items = std::move(arguments.positional);
  return run.Make(Kind::kCycler, std::move(cycler), size);
}

// joiner(sep=", ").
Value Joiner(Runtime& run, const Value&, CallArguments& arguments) {
  std::vector<std::optional<Value>> bound;
  if (!Bind(run, "joiner", arguments, {"sep"}, 0, &bound)) return Value();
  auto joiner = std::make_shared<JoinerObject>();
  joiner->separator = bound[0] ? *bound[0] : run.String(", ");
  if (joiner->separator.object() != nullptr) joiner->depth = joiner->separator.object()->depth + 1;
  return run.Make(Kind::kJoiner, std::move(joiner));
}

Value Lipsum(Runtime& run, const Value&, CallArguments&) {
  return run.Fail("the function \"lipsum\" is not supported");
}

// strftime_now(format) of transformers. The bounds are those of the longest directives, of which no
// template comes near. A format that a user wrote makes the text a user's.
Value StrftimeNow(Runtime& run, const Value&, CallArguments& arguments) {
  std::vector<std::optional<Value>> bound;
  if (!Bind(run, "strftime_now", arguments, {"format"}, 1, &bound)) return Value();
  if (!bound[0]->Is(Kind::kString)) return run.Fail("strftime_now() needs a string");
  const std::string_view format = BytesOf(*bound[0]);
  if (!run.Work(format.size() * 16) || !run.Fits(format.size() * 32)) return Value();
  const std::string time = FormatTime(format, run.now);
  return HasInput(TextOf(*bound[0])) ? run.InputString(time) : run.String(time);
}

// raise_exception(message) of transformers: ends the program with kInvalidArgument.
Value RaiseException(Runtime& run, const Value&, CallArguments& arguments) {
  std::vector<std::optional<Value>> bound;
  if (!Bind(run, "raise_exception", arguments, {"message"}, 1, &bound)) return Value();
  const Value message = run.ToString(*bound[0]);
  if (!run.failed()) {
    const std::string_view text = BytesOf(message);
    run.status = Status(Code::kInvalidArgument,
                        text.empty() ? "the chat template refuses" : std::string(text));
  }
  return Value();
}

}  // namespace

// Each kind has the attributes of its Python class. Names with an underscore in front, which the
// sandbox refuses, find nothing or an undefined value.
std::optional<Value> FindAttribute(Runtime& run, const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::kDict:
      return DictAttribute(run, value, name);
    case Kind::kList:
    case Kind::kTuple:
      return ListAttribute(run, value, name);
    case Kind::kString:
      return StringAttribute(run, value, name);
    case Kind::kBool:
    case Kind::kInteger:
    case Kind::kFloat:
      return NumberAttribute(run, value, name);
    case Kind::kRange:
      return RangeAttribute(run, value, name);
    case Kind::kCycler:
      return CyclerAttribute(run, value, name);
    case Kind::kLoop:
      return run.FindLoopAttribute(value, name);
    case Kind::kNamespace: {
      if (name.starts_with('_')) return std::nullopt;
      const Value* found = As<NamespaceObject>(value).attributes->Find(name);
      return found == nullptr ? std::nullopt : std::optional<Value>(*found);
    }
    case Kind::kMacro:
      if (name == "name") return run.String(As<MacroObject>(value).name);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

Function GlobalFunction(std::string_view name) {
  static constexpr std::pair<std::string_view, Function> kGlobals[] = {
      {"range", Range},
      {"dict", Dict},
      {"namespace", Namespace},
      {"cycler", Cycler},
      {"joiner", Joiner},
      {"lipsum", Lipsum},
      {"strftime_now", StrftimeNow},
      {"raise_exception", RaiseException}};
  for (const auto& [known, function] : kGlobals) {
    if (known == name) return function;
  }
  return nullptr;
}

bool Bind(Runtime& run, std::string_view function, CallArguments& arguments,
          std::initializer_list<std::string_view> names, size_t required,
          std::vector<std::optional<Value>>* bound) {
  bound->assign(names.size(), std::nullopt);
  const std::string call = std::string(function) + "()";
  if (run.failed()) return false;
  if (arguments.positional.size() > names.size()) {
    return run.Fail(call + " takes at most " + std::to_string(names.size()) + " arguments"), false;
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) (*bound)[i] = arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const size_t place = static_cast<size_t>(
        std::find(names.begin(), names.end(), std::string_view(name)) - names.begin());
    if (place == names.size()) return run.Fail(call + " has no argument '" + name + "'"), false;
    if ((*bound)[place]) return run.Fail(call + " has two values for '" + name + "'"), false;
    (*bound)[place] = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!(*bound)[i]) {
      return run.Fail(call + " needs the argument '" + std::string(names.begin()[i]) + "'"), false;
    }
  }
  return true;
}

bool TakesArguments(Runtime& run, std::string_view name, const CallArguments& arguments,
                    size_t least, size_t most) {
  if (run.failed()) return false;
  const size_t count = arguments.positional.size();
  if (count >= least && count <= most && arguments.named.empty()) return true;
  run.Fail(std::string(name) + "() takes " + std::to_string(least) + " to " + std::to_string(most) +
           " arguments");
  return false;
}

int64_t IntegerArgument(Runtime& run, const std::optional<Value>& argument, int64_t otherwise) {
  if (!argument) return otherwise;
  if (IsInteger(*argument)) return argument->integer();
  if (argument->Is(Kind::kUndefined)) return run.FailUndefined(*argument), otherwise;
  run.Fail("expected an integer, got " + std::string(TypeName(*argument)));
  return otherwise;
}

}  // namespace lectern::jinja
