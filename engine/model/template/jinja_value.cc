// Makes, compares and hashes the values of Jinja programs with Python's results.
#include "engine/model/template/jinja_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "engine/model/template/jinja_unicode.h"

namespace lectern::jinja {
namespace {

constexpr size_t kIndexedFrom = 12;  // members of a dict, from which on it has an index

// A string of a caller: no program's memory is charged.
Value NewString(std::string text, bool is_input) {
  auto object = std::make_shared<StringObject>();
  Append(&object->text, text, is_input);
  return Value(Kind::kString, std::move(object));
}

// The depth that a value adds to a container.
size_t DepthOf(const Value& value) {
  return value.object() == nullptr ? 0 : value.object()->depth + 1;
}

// Spreads the bits of a hash (the finalizer of splitmix64).
uint64_t Mix(uint64_t hash) {
  hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9;
  hash = (hash ^ hash >> 27) * 0x94D049BB133111EB;
  return hash ^ hash >> 31;
}

// Python compares the items of containers by identity first, so that a NaN in a list equals itself.
bool AreSameOrEqual(Runtime* run, const Value& a, const Value& b) {
  return AreSame(a, b) || AreEqual(run, a, b);
}

// Equal lengths and, in order, equal items.
bool AreEqualItems(Runtime* run, const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [run](const Value& x, const Value& y) { return AreSameOrEqual(run, x, y); });
}

// An integer and a float are compared exactly, not as floats: 2^53 + 1 differs from 2.0^53.
bool AreEqualNumbers(const Value& a, const Value& b) {
  if (IsInteger(a) && IsInteger(b)) return a.integer() == b.integer();
  if (!IsInteger(a) && !IsInteger(b)) return a.real() == b.real();
  const int64_t integer = IsInteger(a) ? a.integer() : b.integer();
  const double real = IsInteger(a) ? b.real() : a.real();
  return real >= -0x1p63 && real < 0x1p63 && real == std::floor(real) &&
         static_cast<int64_t>(real) == integer;
}

// Equal keys with equal values; the order of members does not matter.
bool AreEqualDicts(Runtime* run, const DictObject& a, const DictObject& b) {
  if (a.members.size() != b.members.size()) return false;
  for (const auto& [key, value] : a.members) {
    const Value* other = b.Find(run, key);
    if (other == nullptr || !AreSameOrEqual(run, value, *other)) return false;
  }
  return true;
}

}  // namespace

Value Value::Bool(bool value) {
  Value result;
  result.kind_ = Kind::kBool;
  result.integer_ = value;
  return result;
}

Value Value::Integer(int64_t value) {
  Value result;
  result.kind_ = Kind::kInteger;
  result.integer_ = value;
  return result;
}

Value Value::Float(double value) {
  Value result;
  result.kind_ = Kind::kFloat;
  result.real_ = value;
  return result;
}

Value Value::Template(std::string text) { return NewString(std::move(text), false); }
Value Value::Input(std::string text) { return NewString(std::move(text), true); }

Value Value::List(std::vector<Value> items) {
  auto list = std::make_shared<ListObject>();
  for (const Value& item : items) list->depth = std::max(list->depth, DepthOf(item));
  list->items = std::move(items);
  return Value(Kind::kList, std::move(list));
}

Value Value::Dict(std::vector<std::pair<std::string, Value>> members) {
  auto dict = std::make_shared<DictObject>();
  for (auto& [key, value] : members) {
    dict->depth = std::max(dict->depth, DepthOf(value));
    dict->Set(nullptr, Input(std::move(key)), std::move(value));
  }
  return Value(Kind::kDict, std::move(dict));
}

const Value* DictObject::Find(Runtime* run, const Value& key) const {
  if (key.Is(Kind::kString)) return Find(BytesOf(key));
  if (members.size() < kIndexedFrom) {
    for (const auto& [known, value] : members) {
      if (AreSameOrEqual(run, known, key)) return &value;
    }
    return nullptr;
  }
  const auto [first, last] = hashes.equal_range(HashOf(run, key));
  for (auto at = first; at != last; ++at) {
    const auto& [known, value] = members[at->second];
    if (AreSameOrEqual(run, known, key)) return &value;
  }
  return nullptr;
}

const Value* DictObject::Find(std::string_view key) const {
  if (members.size() < kIndexedFrom) {
    for (const auto& [known, value] : members) {
      if (known.Is(Kind::kString) && BytesOf(known) == key) return &value;
    }
    return nullptr;
  }
  const auto at = strings.find(key);
  return at == strings.end() ? nullptr : &members[at->second].second;
}

// The index is built at once when the dict has kIndexedFrom members; its string keys are views into
// the keys of the members, whose objects stay where they are.
void DictObject::Set(Runtime* run, const Value& key, Value value) {
  if (const Value* known = Find(run, key)) {
    const_cast<Value&>(*known) = std::move(value);
    return;
  }
  members.emplace_back(key, std::move(value));
  if (members.size() < kIndexedFrom) return;
  const size_t first = members.size() == kIndexedFrom ? 0 : members.size() - 1;
  for (size_t i = first; i < members.size(); ++i) {
    const Value& name = members[i].first;
    if (name.Is(Kind::kString)) {
      strings.emplace(BytesOf(name), i);
    } else {
      hashes.emplace(HashOf(run, name), i);
    }
  }
}

bool IsTrue(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
    case Kind::kUndefined:
      return false;
    case Kind::kBool:
    case Kind::kInteger:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.real() != 0;
    case Kind::kString:
      return !BytesOf(value).empty();
    default:
      return LengthOf(value).value_or(1) != 0;
  }
}

// Python's "is". Numbers are no objects here; the answer is CPython's for small integers.
bool AreSame(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.object() != nullptr) return a.object() == b.object();
  // Python keeps one object of each small integer.
  if (a.Is(Kind::kInteger)) {
    return a.integer() == b.integer() && a.integer() >= -5 && a.integer() <= 256;
  }
  return !a.Is(Kind::kFloat) && a.integer() == b.integer();
}

// Numbers of different kinds may be equal; values of other kinds only to their own.
bool AreEqual(Runtime* run, const Value& a, const Value& b) {
  if (run != nullptr && !run->Step()) return false;
  if (IsNumber(a) && IsNumber(b)) return AreEqualNumbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kNone:
    case Kind::kUndefined:
      return true;
    case Kind::kString:
      return BytesOf(a) == BytesOf(b);
    case Kind::kList:
    case Kind::kTuple:
      return AreEqualItems(run, As<ListObject>(a).items, As<ListObject>(b).items);
    case Kind::kDict:
      return AreEqualDicts(run, As<DictObject>(a), As<DictObject>(b));
    case Kind::kRange: {
      const RangeObject &x = As<RangeObject>(a), &y = As<RangeObject>(b);
      return x.size == y.size && (x.size == 0 || x.start == y.start) &&
             (x.size <= 1 || x.step == y.step);
    }
    case Kind::kView: {  // dict_keys and dict_items are sets
      const ViewObject &x = As<ViewObject>(a), &y = As<ViewObject>(b);
      if (x.name == "dict_values" || x.name != y.name) return a.object() == b.object();
      if (x.items->items.size() != y.items->items.size()) return false;
      return std::is_permutation(
          x.items->items.begin(), x.items->items.end(), y.items->items.begin(),
          [run](const Value& u, const Value& v) { return AreSameOrEqual(run, u, v); });
    }
    case Kind::kMethod: {
      const FunctionObject &x = As<FunctionObject>(a), &y = As<FunctionObject>(b);
      return x.function == y.function && x.self.object() == y.self.object();
    }
    case Kind::kFunction:
      return As<FunctionObject>(a).function == As<FunctionObject>(b).function;
    default:
      return a.object() == b.object();
  }
}

// The name of the value's class in Python, for error messages.
std::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInteger:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kString:
      return IsMarkup(value) ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kView:
      return As<ViewObject>(value).name;
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return "generator";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kMacro:
      return "Macro";
    case Kind::kFunction:
      return "function";
    case Kind::kMethod:
      return "builtin_function_or_method";
    case Kind::kCycler:
      return "Cycler";
    case Kind::kJoiner:
      return "Joiner";
  }
  return "";
}

bool IsHashable(const Value& value) {
  if (value.Is(Kind::kTuple)) return !As<ListObject>(value).has_unhashable;
  return !value.Is(Kind::kList) && !value.Is(Kind::kDict) && !value.Is(Kind::kView);
}

// Numbers are hashed by their value, whatever their kinds: 1, 1.0 and True are one key in Python.
// The origin of a text is no part of its hash.
uint64_t HashOf(Runtime* run, const Value& value) {
  if (run != nullptr) run->Step();
  switch (value.kind()) {
    case Kind::kNone:
    case Kind::kUndefined:
      return Mix(static_cast<uint64_t>(value.kind()));
    case Kind::kBool:
    case Kind::kInteger:
      return Mix(static_cast<uint64_t>(value.integer()));
    case Kind::kFloat: {
      const double real = value.real();
      if (real >= -0x1p63 && real < 0x1p63 && real == std::floor(real)) {
        return Mix(static_cast<uint64_t>(static_cast<int64_t>(real)));
      }
      return Mix(std::hash<double>()(real));
    }
    case Kind::kString:
      return std::hash<std::string_view>()(BytesOf(value));
    case Kind::kTuple: {
      uint64_t hash = 1;
      for (const Value& item : As<ListObject>(value).items) {
        if (run != nullptr && run->failed()) break;
        hash = Mix(hash ^ HashOf(run, item));
      }
      return hash;
    }
    case Kind::kRange:
      return Mix(static_cast<uint64_t>(As<RangeObject>(value).size));
    case Kind::kMethod:
    case Kind::kFunction:
      return Mix(reinterpret_cast<uintptr_t>(As<FunctionObject>(value).function));
    default:
      return Mix(reinterpret_cast<uintptr_t>(value.object()));
  }
}

std::optional<int64_t> LengthOf(const Value& value) {
  const auto size = [](size_t count) { return static_cast<int64_t>(count); };
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return size(CountCharacters(BytesOf(value)));
    case Kind::kList:
    case Kind::kTuple:
      return size(As<ListObject>(value).items.size());
    case Kind::kDict:
      return size(As<DictObject>(value).members.size());
    case Kind::kView:
      return size(As<ViewObject>(value).items->items.size());
    case Kind::kRange:
      return As<RangeObject>(value).size;
    default:
      return std::nullopt;
  }
}

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  const std::string_view scientific(buffer, static_cast<size_t>(end - buffer));
  const size_t e = scientific.find('e');
  int exponent = 0;
  std::from_chars(scientific.data() + e + (scientific[e + 1] == '+' ? 2 : 1), end, exponent);
  // Python writes an exponent from 1e16 on and below 1e-4; to_chars alone would choose the shorter
  // form.
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  const auto fixed_end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed).ptr;
  std::string fixed(buffer, static_cast<size_t>(fixed_end - buffer));
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

void Append(Text* to, std::string_view bytes, bool is_input) {
  if (bytes.empty()) return;
  to->text.append(bytes);
  if (to->runs.empty() || to->runs.back().is_input != is_input) {
    to->runs.push_back({to->text.size(), is_input});
  } else {
    to->runs.back().end = to->text.size();
  }
}

void Append(Text* to, const Text& from, size_t begin, size_t end) {
  ForEachPart(from, begin, end,
              [to](std::string_view bytes, bool is_input) { Append(to, bytes, is_input); });
}

}  // namespace lectern::jinja
