// The part of the interpreter that evaluates expressions. The line of an expression is set before
// an operation that may fail, because operands on other lines were evaluated in between.
#include "engine/model/template/jinja_interpreter.h"

namespace lectern::jinja {

// Literals and names come first: they are most of all expressions and need neither depth nor a
// step.
Value Interpreter::Evaluate(const Expression& expression, const ScopePtr& scope) {
  if (expression.kind == Expression::Kind::kLiteral) return expression.value;
  if (expression.kind == Expression::Kind::kName) return EvaluateName(expression, scope);
  const Nesting nesting(*this);
  if (!Step()) return Value();
  const Value value = EvaluateNested(expression, scope);
  return failed() ? Value() : value;
}

// Evaluates an expression whose nesting Evaluate has counted. After an error the value does not
// count.
Value Interpreter::EvaluateNested(const Expression& expression, const ScopePtr& scope) {
  using Type = Expression::Kind;
  const std::vector<ExpressionPtr>& items = expression.items;
  const auto operand = [&](size_t i) { return Evaluate(*items[i], scope); };
  switch (expression.kind) {
    case Type::kLiteral:
    case Type::kName:
    case Type::kMember:
      return EvaluateName(expression, scope);
    case Type::kList:
    case Type::kTuple:
      return EvaluateItems(expression, scope);
    case Type::kDict:
      return EvaluateDict(expression, scope);
    case Type::kAttribute: {
      const Value value = operand(0);
      line = expression.line;
      return GetAttribute(*this, value, expression.attribute);
    }
    case Type::kItem: {
      const Value value = operand(0), key = operand(1);
      line = expression.line;
      return failed() ? Value() : GetItem(*this, value, key);
    }
    case Type::kSlice:
      return EvaluateSlice(expression, scope);
    case Type::kCall:
      return EvaluateCall(expression, scope);
    case Type::kFilter:
    case Type::kTest:
      return EvaluateFilter(expression, scope);
    case Type::kConditional:
      return EvaluateConditional(expression, scope);
    // As in Python, the operand itself and not a bool; the right one is not evaluated without need.
    case Type::kOr: {
      const Value left = operand(0);
      return IsTrue(left) ? left : operand(1);
    }
    case Type::kAnd: {
      const Value left = operand(0);
      return IsTrue(left) ? operand(1) : left;
    }
    case Type::kNot:
      return Value::Bool(!IsTrue(operand(0)));
    case Type::kNegative: {
      const Value value = operand(0);
      return failed() ? Value() : Negate(*this, value);
    }
    case Type::kPositive: {
      const Value value = operand(0);
      if (value.Is(Kind::kFloat)) return value;
      return failed() || IsInteger(value) ? Value::Integer(value.integer()) : Negate(*this, value);
    }
    case Type::kConcat:
      return EvaluateConcat(expression, scope);
    case Type::kOperation: {
      const Value left = operand(0), right = operand(1);
      line = expression.line;
      return failed() ? Value() : Calculate(*this, expression.operators[0], left, right);
    }
    case Type::kComparison:
      return EvaluateComparison(expression, scope);
  }
  return Value();
}

// A name is looked up from the innermost scope outwards, then among the global functions, so that a
// variable called "range" hides the function. Names that do not exist are undefined: an error only
// when they are used.
Value Interpreter::EvaluateName(const Expression& expression, const ScopePtr& scope) {
  for (const Scope* at = scope.get(); at != nullptr; at = at->parent.get()) {
    if (const Value* value = at->Find(expression.name)) return *value;
  }
  line = expression.line;
  if (const Function function = GlobalFunction(expression.name)) {
    return Method(expression.name, function, Value(), Kind::kFunction);
  }
  return Undefined("'" + expression.name + "' is undefined");
}

// A list or a tuple; items are evaluated from left to right.
Value Interpreter::EvaluateItems(const Expression& expression, const ScopePtr& scope) {
  std::vector<Value> items;
  items.reserve(expression.items.size());
  for (const ExpressionPtr& item : expression.items) items.push_back(Evaluate(*item, scope));
  const bool is_tuple = expression.kind == Expression::Kind::kTuple;
  return List(std::move(items), is_tuple ? Kind::kTuple : Kind::kList);
}

// The last of equal keys counts; a key that is not hashable is an error (SetMember).
Value Interpreter::EvaluateDict(const Expression& expression, const ScopePtr& scope) {
  auto dict = std::make_shared<DictObject>();
  for (size_t i = 0; i < expression.items.size(); i += 2) {
    const Value key = Evaluate(*expression.items[i], scope);
    SetMember(dict.get(), key, Evaluate(*expression.items[i + 1], scope));
  }
  return Dict(std::move(dict));
}

// items: the value, begin, end and step; parts that were left out are None.
Value Interpreter::EvaluateSlice(const Expression& expression, const ScopePtr& scope) {
  Value parts[4];
  for (size_t i = 0; i < 4; ++i) {
    if (expression.items[i] != nullptr) parts[i] = Evaluate(*expression.items[i], scope);
  }
  line = expression.line;
  return failed() ? Value() : GetSlice(*this, parts[0], parts[1], parts[2], parts[3]);
}

// Without "else" the value is undefined where the condition is false.
Value Interpreter::EvaluateConditional(const Expression& expression, const ScopePtr& scope) {
  const bool condition = IsTrue(Evaluate(*expression.items[1], scope));
  if (failed()) return Value();
  if (condition) return Evaluate(*expression.items[0], scope);
  if (expression.items[2] != nullptr) return Evaluate(*expression.items[2], scope);
  return Undefined("the inline if-expression on line " + std::to_string(expression.line) +
                   " evaluated to false and no else section was defined.");
}

// "~" joins the texts of any values; it never escapes.
Value Interpreter::EvaluateConcat(const Expression& expression, const ScopePtr& scope) {
  TextBuilder out(*this);
  for (const ExpressionPtr& item : expression.items) {
    const Value value = Evaluate(*item, scope);
    if (failed()) return Value();
    out.Append(value.Is(Kind::kString) ? value : ToString(value));
  }
  return out.TakeString();
}

// "a < b < c" is "a < b and b < c" with b evaluated once.
Value Interpreter::EvaluateComparison(const Expression& expression, const ScopePtr& scope) {
  Value left = Evaluate(*expression.items[0], scope);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    const Value right = Evaluate(*expression.items[i + 1], scope);
    line = expression.line;
    if (failed()) return Value();
    if (!Compare(*this, expression.operators[i], left, right)) return Value::Bool(false);
    left = right;
  }
  return Value::Bool(true);
}

// Evaluates the arguments of a call in this order: positional ones, named ones, *x, **x. A name
// that is given twice is an error, as in Python.
bool Interpreter::EvaluateArguments(const Arguments& arguments, const ScopePtr& scope,
                                    CallArguments* given) {
  for (const ExpressionPtr& argument : arguments.positional) {
    given->positional.push_back(Evaluate(*argument, scope));
  }
  for (const auto& [name, argument] : arguments.named) {
    given->named.emplace_back(name, Evaluate(*argument, scope));
  }
  if (arguments.more_positional != nullptr) {
    const std::shared_ptr<ListObject> more = Items(Evaluate(*arguments.more_positional, scope));
    if (more == nullptr || !Fits(more->items.size() * sizeof(Value))) return false;
    given->positional.insert(given->positional.end(), more->items.begin(), more->items.end());
  }
  if (arguments.more_named == nullptr) return !failed();
  const Value more = Evaluate(*arguments.more_named, scope);
  if (failed()) return false;
  if (!more.Is(Kind::kDict)) return Fail("the argument after ** must be a mapping"), false;
  // Each name is compared with all that were given, so it costs steps.
  for (const auto& [key, value] : As<DictObject>(more).members) {
    if (!key.Is(Kind::kString)) return Fail("keywords must be strings"), false;
    for (const auto& known : given->named) {
      if (!Step()) return false;
      if (known.first == BytesOf(key)) return Fail("an argument has two values"), false;
    }
    if (!Work(BytesOf(key).size()) || !Fits(BytesOf(key).size())) return false;
    given->named.emplace_back(BytesOf(key), value);
  }
  return !failed();
}

// As in Python, the value that is called is evaluated before the arguments.
Value Interpreter::EvaluateCall(const Expression& expression, const ScopePtr& scope) {
  const Value callee = Evaluate(*expression.items[0], scope);
  CallArguments arguments;
  if (failed() || !EvaluateArguments(*expression.arguments, scope, &arguments)) return Value();
  line = expression.line;
  return Call(callee, arguments);
}

// Evaluates a filter or a test. Its value is evaluated first; in a filter block it is the block's
// text.
Value Interpreter::EvaluateFilter(const Expression& expression, const ScopePtr& scope) {
  const Value value = expression.items[0] != nullptr ? Evaluate(*expression.items[0], scope)
                                                     : std::exchange(captured_, Value());
  CallArguments arguments;
  if (failed() || !EvaluateArguments(*expression.arguments, scope, &arguments)) return Value();
  line = expression.line;
  if (expression.kind == Expression::Kind::kFilter) {
    return CallFilter(*this, expression.name, value, arguments);
  }
  return Value::Bool(CallTest(*this, expression.name, value, arguments));
}

}  // namespace lectern::jinja
