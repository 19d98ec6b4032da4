// Defines the values of the Jinja interpreter, and the Runtime that makes them within limits, for
// the other jinja_*.cc files.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_VALUE_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_VALUE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/template/jinja.h"

namespace lectern::jinja {

using Kind = Value::Kind;
using Text = Rendered;
class Runtime;
struct Expression;
struct Statement;

// Counts the bytes that the values of a program hold at once.
struct Memory {
  size_t limit = 0;
  size_t used = 0;
};

struct Object {
  virtual ~Object() {
    if (memory != nullptr) memory->used -= charged;
  }
  Memory* memory = nullptr;  // of the program that made it; nullptr: it outlives programs
  size_t charged = 0;
  size_t depth = 0;  // of the values within
};

struct StringObject : Object {
  Text text;
  bool is_markup = false;  // the filters safe and escape make it; "+" escapes what it joins
};

struct ListObject : Object {  // kList and kTuple
  std::vector<Value> items;
  bool has_unhashable = false;
  bool is_group = false;  // of the filter groupby: attributes grouper and list
};

struct DictObject : Object {
  std::vector<std::pair<Value, Value>> members;
  // Places of the keys, once there are many: of strings, and of others by their hash.
  std::map<std::string_view, size_t> strings;
  std::multimap<uint64_t, size_t> hashes;

  const Value* Find(Runtime* run, const Value& key) const;
  const Value* Find(std::string_view key) const;
  void Set(Runtime* run, const Value& key, Value value);  // a hashable key
};

struct UndefinedObject : Object {
  std::string message;  // of the error when it is used
};

struct ViewObject : Object {  // of a dict: keys(), values(), items()
  std::string_view name;      // "dict_keys"
  std::shared_ptr<ListObject> items;
};

struct RangeObject : Object {
  int64_t start = 0, step = 1, size = 0;
};

// Python's generators and iterators. The items are found at once; an error that this met is
// reported when the program gets there.
struct IteratorObject : Object {
  std::vector<Value> items;
  size_t next = 0;
  Status error;
};

struct NamespaceObject : Object {
  std::shared_ptr<DictObject> attributes;
};

// The names that a block of statements defines. A name is looked up from the innermost scope
// outwards.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string_view, Value>> names;

  const Value* Find(std::string_view name) const {
    for (const auto& [known, value] : names) {
      if (known == name) return &value;
    }
    return nullptr;
  }
  void Set(std::string_view name, Value value) {
    for (auto& [known, old] : names) {
      if (known == name) return void(old = std::move(value));
    }
    names.emplace_back(name, std::move(value));
  }
};

// The variable `loop`.
struct LoopObject : Object {
  const Statement* statement = nullptr;
  std::shared_ptr<Scope> scope;        // around the loop
  std::shared_ptr<ListObject> source;  // of the loop; a filter ("if") drops some of them
  size_t next = 0;                     // of source
  size_t depth0 = 0;                   // of recursion
  int64_t index0 = -1;
  std::optional<int64_t> length;
  std::optional<Value> before, current, after, changed;
  bool is_filtered = false;  // the items of source from `next` on all count
};

struct MacroObject : Object {
  std::string_view name;
  const Statement* statement = nullptr;  // parameters and body
  std::shared_ptr<Scope> scope;          // where it was defined
};

struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};
using Function = Value (*)(Runtime& run, const Value& self, CallArguments& arguments);
struct FunctionObject : Object {  // kFunction; kMethod, with the value that it is of
  std::string_view name;
  Function function = nullptr;
  Value self;
};

struct CyclerObject : Object {
  std::vector<Value> items;
  size_t position = 0;
};

struct JoinerObject : Object {
  Value separator;
  bool used = false;
};

template <typename T>
T& As(const Value& value) {
  return *static_cast<T*>(value.object());
}
inline const Text& TextOf(const Value& string) { return As<StringObject>(string).text; }
inline std::string_view BytesOf(const Value& string) { return TextOf(string).text; }
inline bool IsMarkup(const Value& value) {
  return value.Is(Kind::kString) && As<StringObject>(value).is_markup;
}
inline bool IsInteger(const Value& value) {  // as isinstance(value, int)
  return value.Is(Kind::kBool) || value.Is(Kind::kInteger);
}
inline bool IsNumber(const Value& value) { return IsInteger(value) || value.Is(Kind::kFloat); }
inline double RealOf(const Value& number) {
  return IsInteger(number) ? static_cast<double>(number.integer()) : number.real();
}
inline bool IsListLike(const Value& value) {
  return value.Is(Kind::kList) || value.Is(Kind::kTuple);
}

// These are Python's bool(), ==, is and type(value).__name__. `run` counts the steps, if it is
// given.
bool IsTrue(const Value& value);
bool AreEqual(Runtime* run, const Value& a, const Value& b);
bool AreSame(const Value& a, const Value& b);
std::string_view TypeName(const Value& value);
// Whether a value can be the key of a dict. Equal values have equal hashes.
bool IsHashable(const Value& value);
uint64_t HashOf(Runtime* run, const Value& value);
// Python's len(), for values that have one.
std::optional<int64_t> LengthOf(const Value& value);
std::string FloatRepr(double value);

// Appends bytes and notes their origin.
void Append(Text* to, std::string_view bytes, bool is_input);
void Append(Text* to, const Text& from, size_t begin, size_t end);
inline bool HasInput(const Text& text) {
  return text.runs.size() > 1 || (!text.runs.empty() && text.runs[0].is_input);
}
// Calls take(bytes, is_input) for the parts of [begin, end) of a text, in order.
template <typename Take>
void ForEachPart(const Text& text, size_t begin, size_t end, Take take) {
  size_t low = 0, high = text.runs.size();  // the first run that ends beyond `begin`
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (text.runs[middle].end > begin) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  for (; begin < end; ++low) {
    const size_t stop = text.runs[low].end < end ? text.runs[low].end : end;
    take(std::string_view(text.text).substr(begin, stop - begin), text.runs[low].is_input);
    begin = stop;
  }
}

// The state of a running program: its limits, its first error, and the making of values. After an
// error everything goes on with undefined values until it comes to an end; nothing that happens
// then counts.
class Runtime {
 public:
  Runtime(const Limits& given_limits, const std::tm& time) : limits(given_limits), now(time) {
    memory.limit = limits.memory_bytes;
  }
  virtual ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Limits limits;
  const std::tm now;
  Memory memory;
  uint32_t line = 1;  // where the program is
  Status status;      // the first error

  bool failed() const { return !status.ok(); }
  Value Fail(std::string_view message);  // an error of the template
  Value FailLimit(std::string_view what);
  Value FailUndefined(const Value& undefined);  // its use
  // Counts an expression, or `bytes` that are worked on. False: the program has failed.
  bool Step();
  bool Work(size_t bytes);
  // Whether `bytes` more fit; if they do not, the program has failed.
  bool Fits(size_t bytes);

  Value String(Text text, bool is_markup = false);
  Value String(std::string_view text);       // of the template
  Value InputString(std::string_view text);  // of a user, or who knows of whom
  Value Slice(const Value& string, size_t begin, size_t end);
  Value List(std::vector<Value> items, Kind kind = Kind::kList);
  Value Dict(std::shared_ptr<DictObject> dict);
  Value Iterator(std::vector<Value> items, Status error = {});
  Value Undefined(std::string message);
  Value View(std::string_view name, const DictObject& dict, int part);  // 0 keys, 1 values, 2 items
  Value Method(std::string_view name, Function function, Value self, Kind kind = Kind::kMethod);
  // Charges an object to the program's memory as sizeof + `bytes` + 32; the 32 were chosen without
  // measurement.
  template <typename T>
  Value Make(Kind kind, std::shared_ptr<T> object, size_t bytes = 0) {
    const size_t size = sizeof(T) + 32 + bytes;
    if (!Fits(size) || TooDeep(*object)) return Value();
    object->memory = &memory;
    object->charged = size;
    memory.used += size;
    return Value(kind, std::move(object));
  }

  // Returns the items of a value that can be iterated over; a generator has none left then.
  // nullptr: the program has failed.
  std::shared_ptr<ListObject> Items(const Value& iterable);
  bool IsIterable(const Value& value) const;
  // Sets a key of a dict that no one else has yet.
  void SetMember(DictObject* dict, const Value& key, Value value);

  // Implemented by the interpreter: calls a value, and finds an attribute of the variable `loop`.
  virtual Value Call(const Value& callee, CallArguments& arguments) = 0;
  virtual std::optional<Value> FindLoopAttribute(const Value& loop, std::string_view name) = 0;

  // str(), repr().
  Value ToString(const Value& value);    // a string that is no markup
  Value SoftString(const Value& value);  // a string as it is
  Value Repr(const Value& value);
  Value Escaped(const Value& value);  // as markup

  // Values that can contain themselves are taken apart at the end.
  void Keep(std::shared_ptr<Object> object) { kept_objects_.push_back(std::move(object)); }
  void Keep(std::shared_ptr<Scope> scope) { kept_scopes_.push_back(std::move(scope)); }

 private:
  bool TooDeep(const Object& object);

  uint64_t steps_ = 0;
  std::vector<std::shared_ptr<Object>> kept_objects_;
  std::vector<std::shared_ptr<Scope>> kept_scopes_;
};

// Builds a text within the limits of a program.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& run) : run_(run) {}
  ~TextBuilder() { run_.memory.used -= charged_; }
  TextBuilder(const TextBuilder&) = delete;
  TextBuilder& operator=(const TextBuilder&) = delete;

  void Append(std::string_view bytes, bool is_input = false);
  void Append(const Text& text) { Append(text, 0, text.text.size()); }
  void Append(const Text& text, size_t begin, size_t end);
  void Append(const Value& string) {  // nothing, if a failed program gave no string
    if (string.Is(Kind::kString)) Append(TextOf(string));
  }
  size_t size() const { return text_.text.size(); }
  Text Take();
  Value TakeString(bool is_markup = false) { return run_.String(Take(), is_markup); }

 private:
  bool Charge(size_t bytes);

  Runtime& run_;
  Text text_;
  size_t charged_ = 0;
};

// Operators (jinja_operators.cc).
enum class Operator : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn
};
Value Calculate(Runtime& run, Operator op, const Value& a, const Value& b);
bool Compare(Runtime& run, Operator op, const Value& a, const Value& b);
Value Negate(Runtime& run, const Value& value);
// x[key], x.name, x[begin:end:step].
Value GetItem(Runtime& run, const Value& value, const Value& key);
Value GetAttribute(Runtime& run, const Value& value, std::string_view name);
// Finds only what Python's getattr() finds; nothing: the value has no such attribute.
std::optional<Value> FindAttribute(Runtime& run, const Value& value, std::string_view name);
Value GetSlice(Runtime& run, const Value& value, const Value& begin, const Value& end,
               const Value& step);

// Strings (jinja_strings.cc, jinja_format.cc).
Function StringMethod(std::string_view name);     // nullptr: there is none
Function StringPredicate(std::string_view name);  // "isdigit" …
bool IsUnsupportedStringMethod(std::string_view name);
Value InCase(Runtime& run, const Value& string, int to);  // a Case
Value Strip(Runtime& run, const Value& string, const Value& characters, bool left, bool right);
Value Replace(Runtime& run, const Value& string, const Value& from, const Value& to, int64_t count);
Value JoinStrings(Runtime& run, const Value& separator, const std::vector<Value>& items);
std::vector<Value> SplitLines(Runtime& run, const Value& string, bool keep_ends);
Value FormatPercent(Runtime& run, const Value& format, const Value& arguments);
Value FormatBraces(Runtime& run, const Value& format, const CallArguments& arguments);
Value FormatSpec(Runtime& run, const Value& value, const Text& spec);
std::optional<int64_t> ParseInteger(Runtime& run, std::string_view text, int64_t base);
std::optional<double> ParseFloat(std::string_view text);
std::string FormatTime(std::string_view format, const std::tm& time);

// JSON (jinja_json.cc).
Value ToJson(Runtime& run, const Value& value, CallArguments& arguments);

// Filters and tests. The names are jinja2's, whether or not they are supported.
bool IsFilter(std::string_view name);
bool IsTest(std::string_view name);
Value CallFilter(Runtime& run, std::string_view name, const Value& value, CallArguments& arguments);
bool CallTest(Runtime& run, std::string_view name, const Value& value, CallArguments& arguments);
// nullptr: there is no such global.
Function GlobalFunction(std::string_view name);

// Puts arguments into the order of `names`; those that were not given are empty. The first
// `required` must be given. False: the program has failed.
bool Bind(Runtime& run, std::string_view function, CallArguments& arguments,
          std::initializer_list<std::string_view> names, size_t required,
          std::vector<std::optional<Value>>* bound);
// Returns the places of the items in ascending order, or in descending; equal ones keep their
// order.
std::vector<size_t> SortedOrder(Runtime& run, const std::vector<Value>& keys, bool reverse);
// Whether there are between `least` and `most` arguments, none of them by name.
bool TakesArguments(Runtime& run, std::string_view function, const CallArguments& arguments,
                    size_t least, size_t most);
inline bool IsTrueArgument(const std::optional<Value>& argument) {
  return argument && IsTrue(*argument);
}
// Returns an argument that must be an integer, or `otherwise` if it was not given.
int64_t IntegerArgument(Runtime& run, const std::optional<Value>& argument, int64_t otherwise);

}  // namespace lectern::jinja

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_VALUE_H_
