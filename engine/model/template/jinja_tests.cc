// Jinja's tests ("x is odd", jinja2/tests.py), and the look-up of filters and tests by name.
#include <algorithm>
#include <cmath>

#include "engine/model/template/jinja_filters.h"

namespace lectern::jinja {
namespace {

// Filters of jinja2 that are not here: a template that calls one fails with the filter's name.
constexpr std::string_view kUnsupportedFilters[] = {"pprint", "random", "striptags", "urlize",
                                                    "wordwrap"};

// Whether value % divisor is `wanted`.
bool IsRemainder(Runtime& run, const Value& value, const Value& divisor, int64_t wanted) {
  const Value rest = Calculate(run, Operator::kMod, value, divisor);
  return !run.failed() && AreEqual(&run, rest, Value::Integer(wanted));
}

template <int kWanted>
bool IsParity(Runtime& run, const Value& value, const CallArguments&) {
  return IsRemainder(run, value, Value::Integer(2), kWanted);
}

bool IsDivisibleBy(Runtime& run, const Value& value, const CallArguments& arguments) {
  return IsRemainder(run, value, arguments.positional[0], 0);
}

template <Kind kKind, bool kIs = true>
bool IsOfKind(Runtime&, const Value& value, const CallArguments&) {
  return value.Is(kKind) == kIs;
}

template <bool kValue>
bool IsBool(Runtime&, const Value& value, const CallArguments&) {
  return value.Is(Kind::kBool) && (value.integer() != 0) == kValue;
}

// upper and lower: of the value's text.
template <bool kUpper>
bool IsInCase(Runtime& run, const Value& value, const CallArguments&) {
  const Value text = run.ToString(value);
  CallArguments none;
  if (run.failed()) return false;
  return IsTrue(StringMethod(kUpper ? "isupper" : "islower")(run, text, none));
}

bool IsANumber(Runtime&, const Value& value, const CallArguments&) { return IsNumber(value); }

// sequence: jinja2 asks for len() and [], which dicts and undefined values have as well.
bool IsSequence(Runtime&, const Value& value, const CallArguments&) {
  return value.Is(Kind::kString) || IsListLike(value) || value.Is(Kind::kDict) ||
         value.Is(Kind::kRange) || value.Is(Kind::kUndefined);
}

bool IsIterable(Runtime& run, const Value& value, const CallArguments&) {
  return run.IsIterable(value) || value.Is(Kind::kLoop);
}

bool IsCallable(Runtime&, const Value& value, const CallArguments&) {
  return value.Is(Kind::kMacro) || value.Is(Kind::kFunction) || value.Is(Kind::kMethod) ||
         value.Is(Kind::kJoiner) || value.Is(Kind::kLoop) || value.Is(Kind::kUndefined);
}

bool IsEscaped(Runtime&, const Value& value, const CallArguments&) { return IsMarkup(value); }

bool IsSame(Runtime&, const Value& value, const CallArguments& arguments) {
  return AreSame(value, arguments.positional[0]);
}

// filter and test: whether there is one of this name.
template <bool (*kKnown)(std::string_view)>
bool IsKnown(Runtime& run, const Value& value, const CallArguments&) {
  if (!IsHashable(value)) run.Fail("unhashable type: '" + std::string(TypeName(value)) + "'");
  return value.Is(Kind::kString) && kKnown(BytesOf(value));
}

// Comparisons, under all their names.
template <Operator kOperator>
bool Holds(Runtime& run, const Value& value, const CallArguments& arguments) {
  return Compare(run, kOperator, value, arguments.positional[0]);
}

// A test with the number of its arguments.
struct Test {
  std::string_view name;
  size_t arguments;
  std::string_view argument;  // its name, where it may be given by name
  bool (*holds)(Runtime& run, const Value& value, const CallArguments& arguments);
};
constexpr Test kTests[] = {{"!=", 1, "", Holds<Operator::kNe>},
                           {"<", 1, "", Holds<Operator::kLt>},
                           {"<=", 1, "", Holds<Operator::kLe>},
                           {"==", 1, "", Holds<Operator::kEq>},
                           {">", 1, "", Holds<Operator::kGt>},
                           {">=", 1, "", Holds<Operator::kGe>},
                           {"boolean", 0, "", IsOfKind<Kind::kBool>},
                           {"callable", 0, "", IsCallable},
                           {"defined", 0, "", IsOfKind<Kind::kUndefined, false>},
                           {"divisibleby", 1, "num", IsDivisibleBy},
                           {"eq", 1, "", Holds<Operator::kEq>},
                           {"equalto", 1, "", Holds<Operator::kEq>},
                           {"escaped", 0, "", IsEscaped},
                           {"even", 0, "", IsParity<0>},
                           {"false", 0, "", IsBool<false>},
                           {"filter", 0, "", IsKnown<IsFilter>},
                           {"float", 0, "", IsOfKind<Kind::kFloat>},
                           {"ge", 1, "", Holds<Operator::kGe>},
                           {"greaterthan", 1, "", Holds<Operator::kGt>},
                           {"gt", 1, "", Holds<Operator::kGt>},
                           {"in", 1, "seq", Holds<Operator::kIn>},
                           {"integer", 0, "", IsOfKind<Kind::kInteger>},
                           {"iterable", 0, "", IsIterable},
                           {"le", 1, "", Holds<Operator::kLe>},
                           {"lessthan", 1, "", Holds<Operator::kLt>},
                           {"lower", 0, "", IsInCase<false>},
                           {"lt", 1, "", Holds<Operator::kLt>},
                           {"mapping", 0, "", IsOfKind<Kind::kDict>},
                           {"ne", 1, "", Holds<Operator::kNe>},
                           {"none", 0, "", IsOfKind<Kind::kNone>},
                           {"number", 0, "", IsANumber},
                           {"odd", 0, "", IsParity<1>},
                           {"sameas", 1, "other", IsSame},
                           {"sequence", 0, "", IsSequence},
                           {"string", 0, "", IsOfKind<Kind::kString>},
                           {"test", 0, "", IsKnown<IsTest>},
                           {"true", 0, "", IsBool<true>},
                           {"undefined", 0, "", IsOfKind<Kind::kUndefined>},
                           {"upper", 0, "", IsInCase<true>}};

// nullptr: there is none of this name.
const Test* FindTest(std::string_view name) {
  for (const Test& test : kTests) {
    if (test.name == name) return &test;
  }
  return nullptr;
}

bool IsUnsupportedFilter(std::string_view name) {
  return std::find(std::begin(kUnsupportedFilters), std::end(kUnsupportedFilters), name) !=
         std::end(kUnsupportedFilters);
}

}  // namespace

bool IsFilter(std::string_view name) {
  return TextFilter(name) != nullptr || SequenceFilter(name) != nullptr ||
         IsUnsupportedFilter(name);
}

bool IsTest(std::string_view name) { return FindTest(name) != nullptr; }

Value CallFilter(Runtime& run, std::string_view name, const Value& value,
                 CallArguments& arguments) {
  if (!run.Step()) return Value();
  Function filter = TextFilter(name);
  if (filter == nullptr) filter = SequenceFilter(name);
  if (filter != nullptr) return filter(run, value, arguments);
  return run.Fail(IsUnsupportedFilter(name)
                      ? "the filter \"" + std::string(name) + "\" is not supported"
                      : "there is no filter \"" + std::string(name) + "\"");
}

bool CallTest(Runtime& run, std::string_view name, const Value& value, CallArguments& arguments) {
  if (!run.Step()) return false;
  const Test* test = FindTest(name);
  if (test == nullptr) return run.Fail("there is no test \"" + std::string(name) + "\""), false;
  // Functions of jinja2 take their argument by name, too; operators of Python do not.
  if (arguments.named.size() == 1 && !test->argument.empty() &&
      arguments.named[0].first == test->argument) {
    arguments.positional.push_back(std::move(arguments.named[0].second));
    arguments.named.clear();
  }
  // A test with a wrong number of arguments is an error even where its answer would not need them.
  if (arguments.positional.size() != test->arguments || !arguments.named.empty()) {
    return run.Fail("the test \"" + std::string(name) + "\" takes " +
                    std::to_string(test->arguments) + " arguments"),
           false;
  }
  return test->holds(run, value, arguments);
}

}  // namespace lectern::jinja
