// The values of the Jinja interpreter as objects, the Runtime that makes them within a program's
// limits, and Python's operations on them. All jinja_*.cc files share this header; jinja.h is the
// public one.
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
using Text = Rendered;  // every string: bytes with their origins
class Runtime;
struct Expression;
struct Statement;

// Counts the bytes that the values of a running program hold at once.
struct Memory {
  size_t limit = 0;
  size_t used = 0;
};

// The base of all objects. It gives its bytes back to the program's count when it is destroyed, so
// a program's objects must not outlive its Runtime.
struct Object {
  virtual ~Object() {
    if (memory != nullptr) memory->used -= charged;
  }
  Memory* memory = nullptr;  // of the program that made it; nullptr: it outlives programs
  size_t charged = 0;  // bytes that were counted for it
  size_t depth = 0;  // how deep values are nested in it: operations on them recurse
};

struct StringObject : Object {
  Text text;
  bool is_markup = false;  // the filters safe and escape make it; "+" escapes what it joins
};

struct ListObject : Object {  // kList and kTuple
  std::vector<Value> items;
  bool has_unhashable = false;  // a list or dict is in it, so a tuple of this cannot be a key
  bool is_group = false;  // of the filter groupby: attributes grouper and list
};

// Python's dict: members keep the order in which their keys came.
struct DictObject : Object {
  std::vector<std::pair<Value, Value>> members;
  // Places of the keys, once there are many: of strings, and of others by their hash.
  std::map<std::string_view, size_t> strings;
  std::multimap<uint64_t, size_t> hashes;

  // Returns the value of a key, also one that equals it in another kind (1, 1.0, True); nullptr:
  // there is none. `run`: counts steps, or nullptr. The pointer is valid until the next Set.
  const Value* Find(Runtime* run, const Value& key) const;
  const Value* Find(std::string_view key) const;
  void Set(Runtime* run, const Value& key, Value value);  // adds or replaces; the key is hashable
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
  int64_t stop = 0, given_step = 1;  // as the program gave them
};

// Python's generators and iterators. All items are found when it is made; an error on the way is
// kept and reported when the program gets to that place, as in Python, where it would happen only
// then.
struct IteratorObject : Object {
  std::vector<Value> items;
  // The first item that was not taken yet.
  size_t next = 0;
  Status error;
};

// namespace(…): attributes that a template can set, also from inside a loop or a macro.
struct NamespaceObject : Object {
  std::shared_ptr<DictObject> attributes;
};

// The names that a block of statements defines. A name is looked up from the innermost scope
// outwards.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string_view, Value>> names;

  // nullptr: this scope has no such name. Scopes have few names, so both functions go through them
  // all.
  const Value* Find(std::string_view name) const {
    for (const auto& [known, value] : names) {
      if (known == name) return &value;
    }
    return nullptr;
  }
  // Sets the name in this scope, not in a parent: adds it, or replaces its value. `name` is
  // borrowed.
  void Set(std::string_view name, Value value) {
    for (auto& [known, old] : names) {
      if (known == name) return void(old = std::move(value));
    }
    names.emplace_back(name, std::move(value));
  }
};

// The variable `loop`, and the state of the loop that it belongs to.
struct LoopObject : Object {
  const Statement* statement = nullptr;
  std::shared_ptr<Scope> scope;        // around the loop
  std::shared_ptr<ListObject> source;  // of the loop; a filter ("if") drops some of them
  size_t next = 0;                     // of source
  size_t depth0 = 0;                   // of recursion
  int64_t index0 = -1;
  std::optional<int64_t> length;  // once the program has asked for it
  // Neighbours of the current item; `after` is set if the program has looked ahead. `changed`: the
  // last arguments of loop.changed(…).
  std::optional<Value> before, current, after, changed;
  bool is_filtered = false;  // the items of source from `next` on all count
};

struct MacroObject : Object {
  std::string_view name;
  const Statement* statement = nullptr;  // parameters and body
  std::shared_ptr<Scope> scope;          // where it was defined
};

// The arguments of a call, evaluated. A callee may move them away.
struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};
// A built-in function, method or filter; `self` is the value that a method or filter is applied to.
// It checks its arguments; after an error it returns None.
using Function = Value (*)(Runtime& run, const Value& self, CallArguments& arguments);
struct FunctionObject : Object {  // kFunction; kMethod, with the value that it is of
  std::string_view name;
  Function function = nullptr;
  Value self;
};

// cycler(…): gives its items in turn.
struct CyclerObject : Object {
  std::vector<Value> items;
  size_t position = 0;
};

// joiner(…): gives "" at the first call and its separator from then on.
struct JoinerObject : Object {
  Value separator;
  bool used = false;
};

// The object of a value, whose kind must be the one that T belongs to; not checked.
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
// The number as a float, rounded where an integer has more than 53 bits.
inline double RealOf(const Value& number) {
  return IsInteger(number) ? static_cast<double>(number.integer()) : number.real();
}
inline bool IsListLike(const Value& value) {
  return value.Is(Kind::kList) || value.Is(Kind::kTuple);
}

// Python's bool(), ==, is, and type(value).__name__. `run` counts steps, if it is given; after an
// error the result does not count.
bool IsTrue(const Value& value);
bool AreEqual(Runtime* run, const Value& a, const Value& b);
bool AreSame(const Value& a, const Value& b);
std::string_view TypeName(const Value& value);
// Whether a value can be the key of a dict: lists, dicts, views and tuples with one of these
// cannot.
bool IsHashable(const Value& value);
// Equal values have equal hashes.
uint64_t HashOf(Runtime* run, const Value& value);
// Python's len(), in characters for a string; 0 for an undefined value; nothing: the value has
// none.
std::optional<int64_t> LengthOf(const Value& value);
// Python's repr() of a float: the shortest digits that give the same float, with ".0" or an
// exponent.
std::string FloatRepr(double value);

// Append bytes to a text with their origin. Neighbouring bytes of one origin make one run.
void Append(Text* to, std::string_view bytes, bool is_input);
// Appends the bytes [begin, end) of `from`, each with its origin.
void Append(Text* to, const Text& from, size_t begin, size_t end);
// Whether any byte is a user's.
inline bool HasInput(const Text& text) {
  return text.runs.size() > 1 || (!text.runs.empty() && text.runs[0].is_input);
}
// Calls take(bytes, is_input) for the parts of [begin, end) of a text, in order; `end` is at most
// its size.
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

// The state of a running program: its limits, its first error, and the making of values within its
// memory. After an error everything goes on with None and empty values until it comes to an end;
// nothing that happens then counts. One thread.
class Runtime {
 public:
  Runtime(const Limits& given_limits, const std::tm& time) : limits(given_limits), now(time) {
    memory.limit = limits.memory_bytes;
  }
  virtual ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Limits limits;
  const std::tm now;  // the time that strftime_now sees
  Memory memory;
  uint32_t line = 1;  // where the program is
  Status status;      // the first error

  bool failed() const { return !status.ok(); }
  Value Fail(std::string_view message);  // an error of the template
  Value FailLimit(std::string_view what);  // kLimitExceeded; `what` names the limit
  Value FailUndefined(const Value& undefined);  // an undefined value was used: its own message
  // Counts an expression, or `bytes` that are worked on. False: the program has failed.
  bool Step();
  bool Work(size_t bytes);
  // Whether `bytes` more fit; if they do not, the program has failed.
  bool Fits(size_t bytes);

  // These make values of this program and count their memory; None where it does not suffice.
  Value String(Text text, bool is_markup = false);
  Value String(std::string_view text);       // of the template
  Value InputString(std::string_view text);  // of a user, or of an unknown origin
  // Bytes [begin, end) of a string, with their origins and as markup if it is markup.
  Value Slice(const Value& string, size_t begin, size_t end);
  Value List(std::vector<Value> items, Kind kind = Kind::kList);
  // A value of a dict that is complete: its memory and depth are taken as they are now, so that it
  // must not change afterwards, nor be given here again. None also where it is nested too deeply.
  Value Dict(std::shared_ptr<DictObject> dict);
  // A generator with these items, which fails with `error` behind the last of them. A
  // kLimitExceeded is not put off: then None.
  Value Iterator(std::vector<Value> items, Status error = {});
  // An undefined value as jinja2's default one: it prints as the empty text, has no items, is false
  // and equals only its like. Uses that jinja2 refuses (attributes, items by key, arithmetic, <, a
  // call) fail the program with `message`.
  Value Undefined(std::string message);
  Value View(std::string_view name, const DictObject& dict, int part);  // 0 keys, 1 values, 2 items
  Value Method(std::string_view name, Function function, Value self, Kind kind = Kind::kMethod);
  // Makes a value of an object and charges sizeof + `bytes` + 32 to the program's memory; the 32
  // were chosen without measurement. None if it does not fit, or values in it are nested too
  // deeply.
  template <typename T>
  Value Make(Kind kind, std::shared_ptr<T> object, size_t bytes = 0) {
    const size_t size = sizeof(T) + 32 + bytes;
    if (!Fits(size) || TooDeep(*object)) return Value();
    object->memory = &memory;
    object->charged = size;
    memory.used += size;
    return Value(kind, std::move(object));
  }

  // Returns the items of a value that can be iterated over, as Python's for does; takes all that a
  // generator has left, and an undefined value has none. The list may be the value's own: it must
  // not be changed. nullptr: it cannot be iterated over, or the program has failed.
  std::shared_ptr<ListObject> Items(const Value& iterable);
  bool IsIterable(const Value& value) const;
  // Sets a key of a dict that the program cannot reach yet (dicts never change). Fails for a key
  // that is not hashable.
  void SetMember(DictObject* dict, const Value& key, Value value);

  // Implemented by the interpreter: calls a value; None after an error.
  virtual Value Call(const Value& callee, CallArguments& arguments) = 0;
  // Implemented by the interpreter: an attribute of the variable `loop`; nothing: it has no such.
  virtual std::optional<Value> FindLoopAttribute(const Value& loop, std::string_view name) = 0;

  // Python's str() as plain text: of markup, too. An undefined value is the empty text.
  Value ToString(const Value& value);    // a string that is no markup
  Value SoftString(const Value& value);  // str(), but a string stays as it is, markup included
  // Python's repr().
  Value Repr(const Value& value);
  Value Escaped(const Value& value);  // str() with & < > ' " escaped, as markup; markup as it is

  // Remembers values that can contain themselves (namespaces, loops, macros by their scopes).
  // Reference counts never free such circles, so the destructor takes them apart.
  void Keep(std::shared_ptr<Object> object) { kept_objects_.push_back(std::move(object)); }
  void Keep(std::shared_ptr<Scope> scope) { kept_scopes_.push_back(std::move(scope)); }

 private:
  // Whether values in an object are nested beyond the limit; then the program has failed.
  bool TooDeep(const Object& object);

  uint64_t steps_ = 0;
  std::vector<std::shared_ptr<Object>> kept_objects_;
  std::vector<std::shared_ptr<Scope>> kept_scopes_;
};

// Builds a text within the limits of a program: bytes that do not fit are not appended, and the
// program has failed. Charges memory as the text grows and gives it back when the text is taken.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& run) : run_(run) {}
  ~TextBuilder() { run_.memory.used -= charged_; }
  TextBuilder(const TextBuilder&) = delete;
  TextBuilder& operator=(const TextBuilder&) = delete;

  // Appends bytes; `is_input`: they are a user's, not the template's.
  void Append(std::string_view bytes, bool is_input = false);
  void Append(const Text& text) { Append(text, 0, text.text.size()); }
  // Appends the bytes [begin, end) of `text`, each with its origin.
  void Append(const Text& text, size_t begin, size_t end);
  void Append(const Value& string) {  // nothing, if a failed program gave no string
    if (string.Is(Kind::kString)) Append(TextOf(string));
  }
  size_t size() const { return text_.text.size(); }
  // The text so far; the builder is empty afterwards. After an error the text does not count.
  Text Take();
  Value TakeString(bool is_markup = false) { return run_.String(Take(), is_markup); }

 private:
  // Charges so many bytes, which are about to be appended, as memory and as work. False, and
  // nothing may be appended: the program has failed, now or before.
  bool Charge(size_t bytes);

  Runtime& run_;
  Text text_;
  size_t charged_ = 0;
};

// Operators of expressions (jinja_operators.cc). Never reorder: SignOf counts by them.
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
// Python's arithmetic: a op b for the operators up to kPow. Integers overflow with an error;
// strings and lists can be added and repeated; "%" on a string formats.
Value Calculate(Runtime& run, Operator op, const Value& a, const Value& b);
// Python's comparisons, from kEq on. False also after an error.
bool Compare(Runtime& run, Operator op, const Value& a, const Value& b);
Value Negate(Runtime& run, const Value& value);
// x[key], x.name, x[begin:end:step] as in jinja2: an item that is missing is looked for as an
// attribute, and the other way round. What neither has is undefined and not an error. `begin`,
// `end` and `step` may be None.
Value GetItem(Runtime& run, const Value& value, const Value& key);
Value GetAttribute(Runtime& run, const Value& value, std::string_view name);
// Finds only what Python's getattr() finds; nothing: the value has no such attribute.
std::optional<Value> FindAttribute(Runtime& run, const Value& value, std::string_view name);
Value GetSlice(Runtime& run, const Value& value, const Value& begin, const Value& end,
               const Value& step);

// Strings (jinja_strings.cc, jinja_format.cc).
Function StringMethod(std::string_view name);     // nullptr: there is none
Function StringPredicate(std::string_view name);  // "isdigit" …
bool IsUnsupportedStringMethod(std::string_view name);  // Python's str has it, we do not
Value InCase(Runtime& run, const Value& string, int to);  // a Case
// str.strip: `characters` is a string, or None for white space; at the left, the right or both
// ends.
Value Strip(Runtime& run, const Value& string, const Value& characters, bool left, bool right);
// str.replace, at most `count` times; a negative count means all. `string`, `from` and `to` are
// strings, which is not checked.
Value Replace(Runtime& run, const Value& string, const Value& from, const Value& to, int64_t count);
// str.join. `separator` and `items` are strings, which is not checked: other values add nothing.
// Where the separator is markup, so is the result; no item is escaped, which is the caller's part.
// None: the program has failed.
Value JoinStrings(Runtime& run, const Value& separator, const std::vector<Value>& items);
// str.splitlines: at all of Python's line ends, not only at "\n".
std::vector<Value> SplitLines(Runtime& run, const Value& string, bool keep_ends);
// `format % arguments`, str.format, and format(value, spec), with Python's results and errors;
// except that "%a" of other than ASCII fails, and widths above 2^20 and precisions above 1,000 are
// kLimitExceeded. `format` is a string, which is not checked. Where it is markup, so is the result,
// and inserted texts are escaped. A number's "%c" counts as a user's text.
Value FormatPercent(Runtime& run, const Value& format, const Value& arguments);
Value FormatBraces(Runtime& run, const Value& format, const CallArguments& arguments);
Value FormatSpec(Runtime& run, const Value& value, const Text& spec);
// int(text, base) and float(text), white space at both ends allowed; nothing: the text is no
// number, or the base is neither 0 nor in 2..36. An integer of more than 64 bits fails the program.
std::optional<int64_t> ParseInteger(Runtime& run, std::string_view text, int64_t base);
std::optional<double> ParseFloat(std::string_view text);
// time.strftime in the locale "C". A directive that is not known stays as it is.
std::string FormatTime(std::string_view format, const std::tm& time);

// The filter tojson (jinja_json.cc): json.dumps with the defaults of transformers, which does not
// escape characters beyond ASCII, nor HTML.
Value ToJson(Runtime& run, const Value& value, CallArguments& arguments);

// Whether jinja2 has a filter or a test of this name, supported here or not. A template with
// another name is refused when it is parsed, or, within a condition, when it gets there.
bool IsFilter(std::string_view name);
bool IsTest(std::string_view name);
// Apply a filter or test by its name. An error of the program: the name is not known or not
// supported.
Value CallFilter(Runtime& run, std::string_view name, const Value& value, CallArguments& arguments);
bool CallTest(Runtime& run, std::string_view name, const Value& value, CallArguments& arguments);
// A global function such as range or namespace; nullptr: there is none of this name.
Function GlobalFunction(std::string_view name);

// Puts the arguments of `function` into the order of `names`, as Python binds parameters; arguments
// that were not given are empty. The first `required` must be given. False: the program has failed,
// because there are too many, unknown, double or missing ones.
bool Bind(Runtime& run, std::string_view function, CallArguments& arguments,
          std::initializer_list<std::string_view> names, size_t required,
          std::vector<std::optional<Value>>* bound);
// Returns the places of the items in ascending order of `keys`, or in descending order; equal ones
// keep their order, as in Python's sorted(). After an error (keys that cannot be compared) any
// order, or none where the memory does not suffice.
std::vector<size_t> SortedOrder(Runtime& run, const std::vector<Value>& keys, bool reverse);
// Checks that there are `least` to `most` arguments, none of them by name. False: the program has
// failed.
bool TakesArguments(Runtime& run, std::string_view function, const CallArguments& arguments,
                    size_t least, size_t most);
inline bool IsTrueArgument(const std::optional<Value>& argument) {
  return argument && IsTrue(*argument);
}
// Returns an argument that must be an integer; `otherwise` if it was not given, or after an error.
int64_t IntegerArgument(Runtime& run, const std::optional<Value>& argument, int64_t otherwise);

}  // namespace lectern::jinja

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_VALUE_H_
