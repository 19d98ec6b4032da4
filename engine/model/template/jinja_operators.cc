// The operators of Jinja expressions: arithmetic, comparisons, items, slices and attributes, with
// the results and errors of Python and jinja2's sandbox. Integers have 64 bits; an overflow is an
// error.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/model/formats/excerpt.h"
#include "engine/model/template/jinja_unicode.h"
#include "engine/model/template/jinja_value.h"

namespace lectern::jinja {
namespace {

// The operator as it is written, for messages.
std::string_view SignOf(Operator op) {
  static constexpr std::string_view kSigns[] = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSigns[static_cast<size_t>(op)];
}

// Python's TypeError.
Value FailOperands(Runtime& run, Operator op, const Value& a, const Value& b) {
  return run.Fail("unsupported operand types for " + std::string(SignOf(op)) + ": '" +
                  std::string(TypeName(a)) + "' and '" + std::string(TypeName(b)) + "'");
}

Value Overflow(Runtime& run) { return run.Fail("an integer has more than 64 bits"); }

// Python's % and // of floats (float_divmod in Objects/floatobject.c): the remainder has the
// divisor's sign, and a zero result keeps a sign, too.
double FloorMod(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

// The quotient rounded down, from the exact remainder: a / b alone may round up to the next number.
double FloorDiv(double a, double b) {
  const double quotient = (a - FloorMod(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  // The quotient was rounded, so it may lie just below the whole number that it is.
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

// base ** exponent by squaring; a negative exponent gives a float.
Value Power(Runtime& run, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return run.Fail("0 cannot be raised to a negative power");
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return Overflow(run);
    exponent >>= 1;
    // The last square is not needed, and may overflow where the result does not.
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return Overflow(run);
  }
  return Value::Integer(result);
}

// Python's arithmetic on integers: "/" gives a float, "//" and "%" round down.
Value CalculateIntegers(Runtime& run, Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  const bool divides = op == Operator::kDiv || op == Operator::kFloorDiv || op == Operator::kMod;
  if (divides && b == 0) return run.Fail("division by zero");
  switch (op) {
    case Operator::kAdd:
      return __builtin_add_overflow(a, b, &result) ? Overflow(run) : Value::Integer(result);
    case Operator::kSub:
      return __builtin_sub_overflow(a, b, &result) ? Overflow(run) : Value::Integer(result);
    case Operator::kMul:
      return __builtin_mul_overflow(a, b, &result) ? Overflow(run) : Value::Integer(result);
    case Operator::kDiv:
      return Value::Float(
          static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case Operator::kPow:
      return Power(run, a, b);
    default:
      break;
  }
  if (b == -1) {  // INT64_MIN / -1 has no result
    if (op == Operator::kMod) return Value::Integer(0);
    return a == std::numeric_limits<int64_t>::min() ? Overflow(run) : Value::Integer(-a);
  }
  const bool is_below = a % b != 0 && (a % b < 0) != (b < 0);  // C++ rounds to zero, Python down
  if (op == Operator::kMod) return Value::Integer(a % b + (is_below ? b : 0));
  return Value::Integer(a / b - is_below);
}

// Python's arithmetic on floats, with Python's errors where C++ would return infinity or NaN for
// finite operands.
Value CalculateReals(Runtime& run, Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return Value::Float(a + b);
    case Operator::kSub:
      return Value::Float(a - b);
    case Operator::kMul:
      return Value::Float(a * b);
    case Operator::kPow:
      if (a == 0 && b < 0) return run.Fail("0.0 cannot be raised to a negative power");
      if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
        return run.Fail("complex numbers are not supported");
      }
      if (const double power = std::pow(a, b);
          !std::isinf(power) || std::isinf(a) || std::isinf(b)) {
        return Value::Float(power);
      }
      return run.Fail("the result is too large");
    default:
      break;
  }
  if (b == 0) return run.Fail("division by zero");
  if (op == Operator::kDiv) return Value::Float(a / b);
  return Value::Float(op == Operator::kMod ? FloorMod(a, b) : FloorDiv(a, b));
}

// A string, list or tuple `count` times; a negative count is 0. The size is checked before anything
// is made: "'a' * 10**12" must fail at once.
Value Repeat(Runtime& run, const Value& value, int64_t count) {
  count = std::max<int64_t>(count, 0);
  const bool is_string = value.Is(Kind::kString);
  const size_t size =
      is_string ? BytesOf(value).size() : As<ListObject>(value).items.size() * sizeof(Value);
  // Before the product, which could overflow.
  if (size > 0 && static_cast<uint64_t>(count) > run.limits.memory_bytes / size) {
    return run.FailLimit("memory");
  }
  const size_t times = size == 0 ? 0 : static_cast<size_t>(count);
  if (!run.Fits(size * times)) return Value();
  if (is_string) {
    TextBuilder out(run);
    for (size_t i = 0; i < times && !run.failed(); ++i) out.Append(value);
    return out.TakeString(IsMarkup(value));
  }
  std::vector<Value> items;
  const std::vector<Value>& unit = As<ListObject>(value).items;
  for (size_t i = 0; i < times && run.Work(size); ++i) {
    items.insert(items.end(), unit.begin(), unit.end());
  }
  return run.List(std::move(items), value.kind());
}

// Joins two strings, lists or tuples of one kind. If one string is markup, the other one is
// escaped.
Value AddSequences(Runtime& run, const Value& a, const Value& b) {
  if (a.Is(Kind::kString)) {
    const bool is_markup = IsMarkup(a) || IsMarkup(b);
    const Value left = is_markup ? run.Escaped(a) : a, right = is_markup ? run.Escaped(b) : b;
    if (run.failed()) return Value();
    TextBuilder out(run);
    out.Append(left);
    out.Append(right);
    return out.TakeString(is_markup);
  }
  const std::vector<Value>& left = As<ListObject>(a).items;
  const std::vector<Value>& right = As<ListObject>(b).items;
  const size_t size = (left.size() + right.size()) * sizeof(Value);
  if (!run.Work(size) || !run.Fits(size)) return Value();
  std::vector<Value> items = left;
  items.insert(items.end(), right.begin(), right.end());
  return run.List(std::move(items), a.kind());
}

// Finds the order of two values: `order` is -1, 0 or 1, and 2 where one is NaN. False: they have no
// order.
bool Order(Runtime& run, const Value& a, const Value& b, int* order);

// Python's order of lists: the first items that differ decide, else the lengths.
bool OrderItems(Runtime& run, const std::vector<Value>& a, const std::vector<Value>& b,
                int* order) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (AreSame(a[i], b[i]) || AreEqual(&run, a[i], b[i])) continue;
    return !run.failed() && Order(run, a[i], b[i], order);
  }
  *order = a.size() < b.size() ? -1 : a.size() > b.size();
  return true;
}

bool Order(Runtime& run, const Value& a, const Value& b, int* order) {
  if (IsInteger(a) && IsInteger(b)) {
    *order = a.integer() < b.integer() ? -1 : a.integer() > b.integer();
    return true;
  }
  if (IsNumber(a) && IsNumber(b)) {
    const double x = RealOf(a), y = RealOf(b);
    *order = x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
    return true;
  }
  if (a.Is(Kind::kString) && b.Is(Kind::kString)) {
    const int comparison = BytesOf(a).compare(BytesOf(b));
    *order = comparison < 0 ? -1 : comparison > 0;
    return run.Work(std::min(BytesOf(a).size(), BytesOf(b).size()));
  }
  if (!IsListLike(a) || a.kind() != b.kind()) return false;
  return OrderItems(run, As<ListObject>(a).items, As<ListObject>(b).items, order);
}

// Python's `item in container`: a part of a string, a key of a dict, or an item that equals this
// one.
bool IsIn(Runtime& run, const Value& item, const Value& container) {
  if (container.Is(Kind::kString)) {
    if (!item.Is(Kind::kString)) {
      if (item.Is(Kind::kUndefined)) return run.FailUndefined(item), false;
      return run.Fail("'in <string>' requires string as left operand, not " +
                      std::string(TypeName(item))),
             false;
    }
    return run.Work(BytesOf(container).size()) &&
           BytesOf(container).find(BytesOf(item)) != std::string_view::npos;
  }
  if (container.Is(Kind::kDict)) {
    if (!IsHashable(item)) {
      return run.Fail("unhashable type: '" + std::string(TypeName(item)) + "'"), false;
    }
    return As<DictObject>(container).Find(&run, item) != nullptr;
  }
  if (!run.IsIterable(container)) {
    return run.Fail("argument of type '" + std::string(TypeName(container)) + "' is not iterable"),
           false;
  }
  const std::shared_ptr<ListObject> items = run.Items(container);
  if (items == nullptr) return false;
  for (const Value& other : items->items) {
    if (AreSame(other, item) || AreEqual(&run, other, item)) return !run.failed();
    if (run.failed()) return false;
  }
  return false;
}

// Turns an index, which may count from the end, into a place. False: it is outside.
bool ResolveIndex(int64_t index, int64_t size, size_t* place) {
  if (index < 0) index += size;
  if (index < 0 || index >= size) return false;
  *place = static_cast<size_t>(index);
  return true;
}

// Python's value[key]; nothing: Python raises TypeError or LookupError, which jinja2 turns into an
// attribute or an undefined value.
std::optional<Value> Subscript(Runtime& run, const Value& value, const Value& key) {
  if (value.Is(Kind::kDict)) {
    if (!IsHashable(key)) return std::nullopt;
    const Value* found = As<DictObject>(value).Find(&run, key);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  if (!IsInteger(key)) return std::nullopt;
  size_t place = 0;
  if (value.Is(Kind::kString)) {
    const std::string_view bytes = BytesOf(value);
    if (!run.Work(bytes.size())) return Value();
    if (!ResolveIndex(key.integer(), *LengthOf(value), &place)) return std::nullopt;
    const size_t begin = OffsetOf(bytes, place);
    return run.Slice(value, begin, begin + FirstCharacter(bytes.substr(begin)).size);
  }
  if (IsListLike(value)) {
    const std::vector<Value>& items = As<ListObject>(value).items;
    if (!ResolveIndex(key.integer(), static_cast<int64_t>(items.size()), &place)) {
      return std::nullopt;
    }
    return items[place];
  }
  if (value.Is(Kind::kRange)) {
    const RangeObject& range = As<RangeObject>(value);
    if (!ResolveIndex(key.integer(), range.size, &place)) return std::nullopt;
    return Value::Integer(range.start + static_cast<int64_t>(place) * range.step);
  }
  return std::nullopt;
}

// The undefined value for a key that is not there, with jinja2's message; long names are cut.
Value MissingItem(Runtime& run, const Value& value, const Value& key) {
  const std::string type(TypeName(value));
  if (key.Is(Kind::kString)) {
    return run.Undefined("'" + type + " object' has no attribute '" + Excerpt(BytesOf(key), 200) +
                         "'");
  }
  const Value repr = run.Repr(key);
  if (run.failed()) return Value();
  return run.Undefined(type + " object has no element " + Excerpt(BytesOf(repr), 200));
}

// Python's slice.indices: the first and last place of a slice, cut to the size. `last` is one past
// the end in the direction of `step`, -1 where a negative step goes to the beginning.
void SliceIndices(int64_t size, int64_t step, const Value& begin, const Value& end, int64_t* first,
                  int64_t* last) {
  // The bounds that an index is cut to; with a negative step "before the first" is a place, too.
  const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
  const auto resolve = [&](const Value& index, int64_t otherwise) {
    if (index.Is(Kind::kNone)) return otherwise;
    const int64_t place = index.integer();
    return place < 0 ? (place < -size ? low : std::max(place + size, low)) : std::min(place, high);
  };
  *first = resolve(begin, step < 0 ? high : low);
  *last = resolve(end, step < 0 ? low : high);
}

// A slice of a string in characters. A step of 1 is one piece; others need the offset of each
// character.
Value SliceString(Runtime& run, const Value& value, int64_t first, int64_t last, int64_t step) {
  const std::string_view bytes = BytesOf(value);
  if (!run.Work(bytes.size())) return Value();
  if (step == 1) {
    const size_t begin = OffsetOf(bytes, static_cast<size_t>(first));
    const size_t count = static_cast<size_t>(std::max(last - first, int64_t{0}));
    return run.Slice(value, begin, begin + OffsetOf(bytes.substr(begin), count));
  }
  std::vector<size_t> offsets;  // of the characters
  if (!run.Fits((bytes.size() + 1) * sizeof(size_t))) return Value();
  for (size_t at = 0; at < bytes.size(); at += FirstCharacter(bytes.substr(at)).size) {
    offsets.push_back(at);
  }
  offsets.push_back(bytes.size());
  TextBuilder out(run);
  while ((step > 0 ? first < last : first > last) && !run.failed()) {
    const size_t place = static_cast<size_t>(first);
    out.Append(TextOf(value), offsets[place], offsets[place + 1]);
    // A huge step ends the loop; it must not wrap around.
    if (__builtin_add_overflow(first, step, &first)) break;
  }
  return out.TakeString(IsMarkup(value));
}

}  // namespace

// A format ("%" on a string) takes any value, an undefined one too; other operators refuse it.
Value Calculate(Runtime& run, Operator op, const Value& a, const Value& b) {
  if (!run.Step()) return Value();
  if (IsInteger(a) && IsInteger(b)) return CalculateIntegers(run, op, a.integer(), b.integer());
  if (IsNumber(a) && IsNumber(b)) return CalculateReals(run, op, RealOf(a), RealOf(b));
  if (op == Operator::kMod && a.Is(Kind::kString)) return FormatPercent(run, a, b);
  if (a.Is(Kind::kUndefined)) return run.FailUndefined(a);
  if (b.Is(Kind::kUndefined)) return run.FailUndefined(b);
  if (op == Operator::kAdd && a.kind() == b.kind() && (IsListLike(a) || a.Is(Kind::kString))) {
    return AddSequences(run, a, b);
  }
  if (op == Operator::kMul) {
    const bool is_left = IsListLike(a) || a.Is(Kind::kString);
    const bool is_right = IsListLike(b) || b.Is(Kind::kString);
    if (is_left && IsInteger(b)) return Repeat(run, a, b.integer());
    if (is_right && IsInteger(a)) return Repeat(run, b, a.integer());
  }
  return FailOperands(run, op, a, b);
}

// 0 - x, so that the one integer without a negative is an error.
Value Negate(Runtime& run, const Value& value) {
  if (IsInteger(value)) return CalculateIntegers(run, Operator::kSub, 0, value.integer());
  if (value.Is(Kind::kFloat)) return Value::Float(-value.real());
  if (value.Is(Kind::kUndefined)) return run.FailUndefined(value);
  return run.Fail("bad operand type for unary -: '" + std::string(TypeName(value)) + "'");
}

// Compares as Python does. Values without an order (`order` is 2: NaN) are neither less nor
// greater.
bool Compare(Runtime& run, Operator op, const Value& a, const Value& b) {
  if (!run.Step()) return false;
  if (op == Operator::kIn || op == Operator::kNotIn) {
    return IsIn(run, a, b) != (op == Operator::kNotIn);
  }
  if (op == Operator::kEq || op == Operator::kNe) {
    if (a.Is(Kind::kString) && b.Is(Kind::kString)) run.Work(BytesOf(a).size());
    return AreEqual(&run, a, b) == (op == Operator::kEq);
  }
  int order = 2;
  if (a.Is(Kind::kUndefined) || b.Is(Kind::kUndefined)) {
    return run.FailUndefined(a.Is(Kind::kUndefined) ? a : b), false;
  }
  if (!Order(run, a, b, &order)) {
    if (!run.failed()) FailOperands(run, op, a, b);
    return false;
  }
  switch (op) {
    case Operator::kLt:
      return order == -1;
    case Operator::kLe:
      return order == -1 || order == 0;
    case Operator::kGt:
      return order == 1;
    default:
      return order == 1 || order == 0;
  }
}

// jinja2's getitem: the item, else the attribute of that name, else an undefined value.
Value GetItem(Runtime& run, const Value& value, const Value& key) {
  if (!run.Step()) return Value();
  if (value.Is(Kind::kUndefined)) return run.FailUndefined(value);
  if (std::optional<Value> item = Subscript(run, value, key)) return *std::move(item);
  if (run.failed()) return Value();
  if (key.Is(Kind::kString)) {
    if (std::optional<Value> attribute = FindAttribute(run, value, BytesOf(key))) {
      return *std::move(attribute);
    }
  }
  return MissingItem(run, value, key);
}

// jinja2's getattr: the attribute, else the item of that name. So a method hides a dict's member:
// "message.items" is the method.
Value GetAttribute(Runtime& run, const Value& value, std::string_view name) {
  if (!run.Step()) return Value();
  if (value.Is(Kind::kUndefined)) return run.FailUndefined(value);
  if (std::optional<Value> attribute = FindAttribute(run, value, name)) {
    return *std::move(attribute);
  }
  if (value.Is(Kind::kDict)) {
    if (const Value* item = As<DictObject>(value).Find(name)) return *item;
  }
  return run.failed() ? Value() : MissingItem(run, value, Value::Template(std::string(name)));
}

// Python's value[begin:end:step] for strings, lists, tuples and ranges; a range gives a list.
Value GetSlice(Runtime& run, const Value& value, const Value& begin, const Value& end,
               const Value& step) {
  if (!run.Step()) return Value();
  if (value.Is(Kind::kUndefined)) return run.FailUndefined(value);
  if (!value.Is(Kind::kString) && !IsListLike(value) && !value.Is(Kind::kRange)) {
    return run.Fail("'" + std::string(TypeName(value)) + "' object has no slices");
  }
  for (const Value* index : {&begin, &end, &step}) {
    if (!index->Is(Kind::kNone) && !IsInteger(*index)) {
      return run.Fail("slice indices must be integers or None");
    }
  }
  const int64_t by = step.Is(Kind::kNone) ? 1 : step.integer();
  if (by == 0) return run.Fail("slice step cannot be zero");
  // Counting the characters goes through the whole text.
  if (value.Is(Kind::kString)) run.Work(BytesOf(value).size());
  int64_t first = 0, last = 0;
  SliceIndices(*LengthOf(value), by, begin, end, &first, &last);
  if (value.Is(Kind::kString)) return SliceString(run, value, first, last, by);
  const std::shared_ptr<ListObject> source = run.Items(value);
  if (source == nullptr) return Value();
  std::vector<Value> items;
  while (by > 0 ? first < last : first > last) {
    items.push_back(source->items[static_cast<size_t>(first)]);
    if (!run.Step() || __builtin_add_overflow(first, by, &first)) break;
  }
  return run.List(std::move(items), value.Is(Kind::kTuple) ? Kind::kTuple : Kind::kList);
}

}  // namespace lectern::jinja
