#include "engine/model/template/jinja_expressions.h"

#include <algorithm>

namespace lectern::jinja {
namespace {

using TokenKind = Token::Kind;
using ExpressionKind = Expression::Kind;

// Names that mean a constant and cannot be assigned to.
bool IsConstantName(std::string_view name) {
  return name == "true" || name == "false" || name == "none" || name == "True" || name == "False" ||
         name == "None";
}

// Whether an expression can be assigned to: a name, "name.attribute", or a tuple of these.
bool IsTargetOf(const Expression& expression) {
  if (expression.kind == ExpressionKind::kTuple) {
    return std::all_of(expression.items.begin(), expression.items.end(),
                       [](const ExpressionPtr& item) { return IsTargetOf(*item); });
  }
  return expression.kind == ExpressionKind::kName || expression.kind == ExpressionKind::kMember;
}

}  // namespace

void ExpressionParser::Fail(std::string_view message) {
  if (!failed()) status_ = MalformedAt(current().line, message);
}

void ExpressionParser::FailDepth() {
  if (failed()) return;
  status_ = Status(Code::kLimitExceeded, "line " + std::to_string(current().line) +
                                             ": the template is nested deeper than " +
                                             std::to_string(max_depth_));
}

// The last token is kEnd, so there always is one.
const Token& ExpressionParser::Look() const {
  return failed() || position_ + 1 >= tokens_.size() ? tokens_.back() : tokens_[position_ + 1];
}

const Token& ExpressionParser::Next() {
  const Token& token = current();
  if (!failed() && position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool ExpressionParser::IsName(std::string_view name) const {
  return current().kind == TokenKind::kName && current().text == name;
}

bool ExpressionParser::IsOperator(std::string_view text) const {
  return current().kind == TokenKind::kOperator && current().text == text;
}

bool ExpressionParser::SkipName(std::string_view name) {
  if (!IsName(name)) return false;
  Next();
  return true;
}

bool ExpressionParser::SkipOperator(std::string_view text) {
  if (!IsOperator(text)) return false;
  Next();
  return true;
}

void ExpressionParser::ExpectName(std::string_view name) {
  if (!SkipName(name)) Fail("\"" + std::string(name) + "\" is missing");
}

void ExpressionParser::ExpectOperator(std::string_view text) {
  if (!SkipOperator(text)) Fail("\"" + std::string(text) + "\" is missing");
}

void ExpressionParser::Expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) return Fail("\"" + std::string(what) + "\" is missing");
  Next();
}

ExpressionPtr ExpressionParser::New(ExpressionKind kind, uint32_t line,
                                    std::vector<ExpressionPtr> items) {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->line = line;
  for (const ExpressionPtr& item : items) {
    if (item != nullptr) expression->depth = std::max(expression->depth, item->depth + 1);
  }
  expression->items = std::move(items);
  if (expression->depth > max_depth_) FailDepth();
  return expression;
}

void ExpressionParser::SetArguments(Expression* expression, std::unique_ptr<Arguments> arguments) {
  const auto add = [expression](const ExpressionPtr& argument) {
    if (argument != nullptr) expression->depth = std::max(expression->depth, argument->depth + 1);
  };
  for (const ExpressionPtr& argument : arguments->positional) add(argument);
  for (const auto& argument : arguments->named) add(argument.second);
  add(arguments->more_positional);
  add(arguments->more_named);
  expression->arguments = std::move(arguments);
  if (expression->depth > max_depth_) FailDepth();
}

ExpressionPtr ExpressionParser::NewLiteral(uint32_t line, Value value) {
  ExpressionPtr literal = New(ExpressionKind::kLiteral, line);
  literal->value = std::move(value);
  return literal;
}

ExpressionPtr ExpressionParser::ParseExpression() {
  const Nesting nesting(*this);
  const uint32_t line = current().line;
  ExpressionPtr expression = ParseOr();
  // As in jinja2 the condition is no conditional itself, and the rest behind "else" is.
  while (SkipName("if")) {
    ExpressionPtr condition = ParseOr();
    ExpressionPtr otherwise = SkipName("else") ? ParseExpression() : nullptr;
    expression = NewOf(ExpressionKind::kConditional, line, std::move(expression),
                       std::move(condition), std::move(otherwise));
  }
  return expression;
}

// Binary operators are left-associative: the tree grows to the left in a loop, without recursion.
ExpressionPtr ExpressionParser::ParseOr() {
  ExpressionPtr left = ParseAnd();
  while (IsName("or")) {
    const uint32_t line = Next().line;
    left = NewOf(ExpressionKind::kOr, line, std::move(left), ParseAnd());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseAnd() {
  ExpressionPtr left = ParseNot();
  while (IsName("and")) {
    const uint32_t line = Next().line;
    left = NewOf(ExpressionKind::kAnd, line, std::move(left), ParseNot());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseNot() {
  const Nesting nesting(*this);
  if (!IsName("not")) return ParseComparison();
  const uint32_t line = Next().line;
  return NewOf(ExpressionKind::kNot, line, ParseNot());
}

bool ExpressionParser::TakeComparison(Operator* op) {
  static constexpr std::pair<std::string_view, Operator> kComparisons[] = {
      {"==", Operator::kEq}, {"!=", Operator::kNe}, {"<", Operator::kLt},
      {"<=", Operator::kLe}, {">", Operator::kGt},  {">=", Operator::kGe}};
  for (const auto& [text, comparison] : kComparisons) {
    if (!SkipOperator(text)) continue;
    *op = comparison;
    return true;
  }
  if (SkipName("in")) {
    *op = Operator::kIn;
    return true;
  }
  if (!IsName("not") || Look().kind != TokenKind::kName || Look().text != "in") return false;
  Next(), Next();
  *op = Operator::kNotIn;
  return true;
}

// A chain such as "a < b < c" is one node, because every operand is evaluated only once.
ExpressionPtr ExpressionParser::ParseComparison() {
  const uint32_t line = current().line;
  std::vector<ExpressionPtr> items;
  std::vector<Operator> operators;
  items.push_back(ParseSum());
  for (Operator op; TakeComparison(&op);) {
    operators.push_back(op);
    items.push_back(ParseSum());
  }
  if (operators.empty()) return std::move(items[0]);
  ExpressionPtr comparison = New(ExpressionKind::kComparison, line, std::move(items));
  comparison->operators = std::move(operators);
  return comparison;
}

ExpressionPtr ExpressionParser::ParseSum() {
  ExpressionPtr left = ParseConcat();
  while (IsOperator("+") || IsOperator("-")) {
    const Token& token = Next();
    left = NewOf(ExpressionKind::kOperation, token.line, std::move(left), ParseConcat());
    left->operators = {token.text == "+" ? Operator::kAdd : Operator::kSub};
  }
  return left;
}

// jinja2's "~" binds more tightly than "+" and less tightly than "*".
ExpressionPtr ExpressionParser::ParseConcat() {
  const uint32_t line = current().line;
  std::vector<ExpressionPtr> items;
  items.push_back(ParseProduct());
  while (SkipOperator("~")) items.push_back(ParseProduct());
  if (items.size() == 1) return std::move(items[0]);
  return New(ExpressionKind::kConcat, line, std::move(items));
}

ExpressionPtr ExpressionParser::ParseProduct() {
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"*", Operator::kMul},
      {"/", Operator::kDiv},
      {"//", Operator::kFloorDiv},
      {"%", Operator::kMod}};
  ExpressionPtr left = ParsePower();
  // After each match the search begins again: operators of one level may follow in any order.
  for (size_t i = 0; i < std::size(kOperators);) {
    if (!IsOperator(kOperators[i].first)) {
      ++i;
      continue;
    }
    const uint32_t line = Next().line;
    left = NewOf(ExpressionKind::kOperation, line, std::move(left), ParsePower());
    left->operators = {kOperators[i].second};
    i = 0;
  }
  return left;
}

// Left-associative, as in jinja2 and unlike Python: 2 ** 3 ** 2 is 64. A sign binds more tightly
// than "**", too: -2 ** 2 is 4.
ExpressionPtr ExpressionParser::ParsePower() {
  ExpressionPtr left = ParseUnary();
  while (IsOperator("**")) {
    const uint32_t line = Next().line;
    left = NewOf(ExpressionKind::kOperation, line, std::move(left), ParseUnary());
    left->operators = {Operator::kPow};
  }
  return left;
}

// Calls and attributes bind more tightly than a sign: "-x.y" is -(x.y).
ExpressionPtr ExpressionParser::ParseUnary(bool with_filters) {
  const Nesting nesting(*this);
  ExpressionPtr expression;
  if (IsOperator("-") || IsOperator("+")) {
    const Token& token = Next();
    expression = NewOf(token.text == "-" ? ExpressionKind::kNegative : ExpressionKind::kPositive,
                       token.line, ParseUnary(false));
  } else {
    expression = ParsePrimary();
  }
  expression = ParsePostfix(std::move(expression));
  return with_filters ? ParseTestsAndFilters(std::move(expression)) : std::move(expression);
}

ExpressionPtr ExpressionParser::ParsePrimary(bool with_members) {
  const Token& token = current();
  if (token.kind == TokenKind::kName) return ParseName(with_members);
  if (token.kind == TokenKind::kString) {
    std::string text;
    // Strings that stand side by side are one.
    while (current().kind == TokenKind::kString) text += Next().text;
    return NewLiteral(token.line, Value::Template(std::move(text)));
  }
  if (token.kind == TokenKind::kInteger) {
    return NewLiteral(token.line, Value::Integer(Next().integer));
  }
  if (token.kind == TokenKind::kFloat) return NewLiteral(token.line, Value::Float(Next().real));
  if (SkipOperator("(")) {
    ExpressionPtr tuple = ParseTuple({.parenthesized = true});
    ExpectOperator(")");
    return tuple;
  }
  if (IsOperator("[")) return ParseList();
  if (IsOperator("{")) return ParseDict();
  // Every other token begins no expression.
  Fail(token.kind == TokenKind::kEnd ? "the template ends within a tag"
                                     : "unexpected \"" + token.text + "\"");
  return NewLiteral(token.line, Value());
}

// A name, a constant, or (`with_members`, in targets) "name.attribute".
ExpressionPtr ExpressionParser::ParseName(bool with_members) {
  const Token& token = Next();
  if (IsConstantName(token.text)) {
    // The letter tells none, true and false apart in both spellings.
    const char first = static_cast<char>(token.text[0] | 0x20);
    return NewLiteral(token.line, first == 'n' ? Value() : Value::Bool(first == 't'));
  }
  ExpressionPtr name = New(ExpressionKind::kName, token.line);
  name->name = token.text;
  if (with_members && SkipOperator(".")) {
    name->kind = ExpressionKind::kMember;
    if (current().kind != TokenKind::kName) Fail("an attribute's name is missing");
    name->attribute = Next().text;
  }
  return name;
}

bool ExpressionParser::IsTupleEnd() const {
  return current().kind == TokenKind::kVariableEnd || current().kind == TokenKind::kBlockEnd ||
         current().kind == TokenKind::kEnd || IsOperator(")");
}

ExpressionPtr ExpressionParser::ParseTuple(TupleOptions options) {
  const uint32_t line = current().line;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (!failed()) {
    if (!items.empty()) ExpectOperator(",");
    if (IsTupleEnd()) break;
    items.push_back(options.conditional ? ParseExpression() : ParseOr());
    if (!IsOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !options.parenthesized) Fail("an expression is missing");
  return New(ExpressionKind::kTuple, line, std::move(items));
}

// Like ParseTuple, with targets as items.
ExpressionPtr ExpressionParser::ParseTarget(bool with_members) {
  const uint32_t line = current().line;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (!failed()) {
    if (!items.empty()) ExpectOperator(",");
    if (IsTupleEnd()) break;
    items.push_back(ParsePrimary(with_members));
    if (!IsOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && items.empty()) Fail("a name is missing");
  ExpressionPtr target = is_tuple || items.empty()
                             ? New(ExpressionKind::kTuple, line, std::move(items))
                             : std::move(items[0]);
  if (!failed() && !IsTargetOf(*target)) Fail("this cannot be assigned to");
  return target;
}

// The name of a macro or a parameter, which must not be a constant's.
std::string ExpressionParser::ParseNewName() {
  if (current().kind != TokenKind::kName) Fail("a name is missing");
  if (IsConstantName(current().text)) Fail("\"" + current().text + "\" cannot be assigned to");
  return Next().text;
}

// A comma may follow the last item, here and in dicts.
ExpressionPtr ExpressionParser::ParseList() {
  const uint32_t line = Next().line;
  std::vector<ExpressionPtr> items;
  while (!failed() && !IsOperator("]")) {
    if (!items.empty()) ExpectOperator(",");
    if (IsOperator("]")) break;
    items.push_back(ParseExpression());
  }
  ExpectOperator("]");
  return New(ExpressionKind::kList, line, std::move(items));
}

ExpressionPtr ExpressionParser::ParseDict() {
  const uint32_t line = Next().line;
  std::vector<ExpressionPtr> items;
  while (!failed() && !IsOperator("}")) {
    if (!items.empty()) ExpectOperator(",");
    if (IsOperator("}")) break;
    items.push_back(ParseExpression());
    ExpectOperator(":");
    items.push_back(ParseExpression());
  }
  ExpectOperator("}");
  return New(ExpressionKind::kDict, line, std::move(items));
}

ExpressionPtr ExpressionParser::ParsePostfix(ExpressionPtr expression) {
  while (!failed()) {
    if (IsOperator(".") || IsOperator("[")) {
      expression = ParseSubscript(std::move(expression));
    } else if (IsOperator("(")) {
      expression = ParseCall(std::move(expression));
    } else {
      break;
    }
  }
  return expression;
}

// A call may follow a filter: "x | attr('f')()" calls its result.
ExpressionPtr ExpressionParser::ParseTestsAndFilters(ExpressionPtr expression) {
  while (!failed()) {
    if (IsOperator("|")) {
      expression = ParseFilters(std::move(expression));
    } else if (IsName("is")) {
      expression = ParseTest(std::move(expression));
    } else if (IsOperator("(")) {
      expression = ParseCall(std::move(expression));
    } else {
      break;
    }
  }
  return expression;
}

ExpressionPtr ExpressionParser::ParseSubscript(ExpressionPtr expression) {
  const Token& token = Next();
  if (token.text == "[") return ParseBrackets(std::move(expression), token.line);
  const Token& attribute = Next();
  // "x.0" is x[0].
  if (attribute.kind == TokenKind::kInteger) {
    return NewOf(ExpressionKind::kItem, token.line, std::move(expression),
                 NewLiteral(attribute.line, Value::Integer(attribute.integer)));
  }
  if (attribute.kind != TokenKind::kName) Fail("a name or a number is missing");
  ExpressionPtr member = NewOf(ExpressionKind::kAttribute, token.line, std::move(expression));
  member->attribute = attribute.text;
  return member;
}

// The order of cases follows jinja2's parse_subscript and parse_subscribed.
ExpressionPtr ExpressionParser::ParseBrackets(ExpressionPtr expression, uint32_t line) {
  std::vector<ExpressionPtr> parts;  // the key, or begin, end and step; nullptr: left out
  size_t colons = 0;
  const auto at_end = [this] { return IsOperator("]") || IsOperator(","); };
  if (!IsOperator(":")) parts.push_back(at_end() ? nullptr : ParseExpression());
  if (IsOperator("]") && !parts.empty() && parts[0] == nullptr) {  // "x[]": of an empty tuple
    parts[0] = New(ExpressionKind::kTuple, line);
  } else if (!parts.empty() && parts[0] == nullptr) {
    Fail("an expression is missing");
  }
  if (parts.empty()) parts.push_back(nullptr);
  while (colons < 2 && SkipOperator(":")) {
    ++colons;
    parts.push_back(at_end() || IsOperator(":") ? nullptr : ParseExpression());
  }
  if (IsOperator(",") && colons > 0) Fail("several slices at once are not supported");
  if (colons > 0) {
    ExpectOperator("]");
    // A slice's items are the value, begin, end and step: the fourth place is moved to the front
    // for the value.
    parts.resize(4);
    std::rotate(parts.begin(), parts.begin() + 3, parts.end());
    parts[0] = std::move(expression);
    return New(ExpressionKind::kSlice, line, std::move(parts));
  }
  if (IsOperator(",")) {
    while (!failed() && !IsOperator("]")) {
      ExpectOperator(",");
      parts.push_back(ParseExpression());
      if (IsOperator(":")) Fail("several slices at once are not supported");
    }
    ExpressionPtr tuple = New(ExpressionKind::kTuple, line, std::move(parts));
    parts.clear();
    parts.push_back(std::move(tuple));
  }
  ExpectOperator("]");
  return NewOf(ExpressionKind::kItem, line, std::move(expression), std::move(parts[0]));
}

ExpressionPtr ExpressionParser::ParseCall(ExpressionPtr expression) {
  const uint32_t line = current().line;
  std::unique_ptr<Arguments> arguments = ParseArguments();
  ExpressionPtr call = NewOf(ExpressionKind::kCall, line, std::move(expression));
  SetArguments(call.get(), std::move(arguments));
  return call;
}

// Arguments come in Python's order: positional, named, *x, **x; jinja2 also takes a name behind *x.
void ExpressionParser::ParseArgument(Arguments* arguments) {
  const char* const wrong = "wrong order of arguments";
  if (SkipOperator("*")) {
    if (arguments->more_positional || arguments->more_named) Fail(wrong);
    arguments->more_positional = ParseExpression();
  } else if (SkipOperator("**")) {
    if (arguments->more_named) Fail(wrong);
    arguments->more_named = ParseExpression();
  } else if (current().kind == TokenKind::kName && Look().kind == TokenKind::kOperator &&
             Look().text == "=") {
    if (arguments->more_named) Fail(wrong);
    const std::string name = Next().text;
    Next();
    for (const auto& known : arguments->named) {
      if (known.first == name) Fail("the argument \"" + name + "\" appears twice");
    }
    arguments->named.emplace_back(name, ParseExpression());
  } else {
    if (arguments->more_positional || arguments->more_named || !arguments->named.empty()) {
      Fail(wrong);
    }
    arguments->positional.push_back(ParseExpression());
  }
}

// A comma may follow the last argument. Brackets within brackets recurse, so they count as nesting.
std::unique_ptr<Arguments> ExpressionParser::ParseArguments() {
  const Nesting nesting(*this);
  auto arguments = std::make_unique<Arguments>();
  ExpectOperator("(");
  for (bool is_first = true; !failed() && !IsOperator(")"); is_first = false) {
    if (!is_first) ExpectOperator(",");
    if (IsOperator(")")) break;
    ParseArgument(arguments.get());
  }
  ExpectOperator(")");
  return arguments;
}

std::string ExpressionParser::ParseDottedName() {
  if (current().kind != TokenKind::kName) Fail("a name is missing");
  std::string name = Next().text;
  while (SkipOperator(".")) {
    if (current().kind != TokenKind::kName) Fail("a name is missing");
    name += "." + Next().text;
  }
  return name;
}

// Each filter's value is the expression before it, so "x | a | b" is b(a(x)).
ExpressionPtr ExpressionParser::ParseFilters(ExpressionPtr filtered, bool has_pipe) {
  while (!failed() && (IsOperator("|") || !has_pipe)) {
    if (has_pipe) Next();
    has_pipe = true;
    const uint32_t line = current().line;
    std::string name = ParseDottedName();
    std::unique_ptr<Arguments> arguments =
        IsOperator("(") ? ParseArguments() : std::make_unique<Arguments>();
    filtered = NewOf(ExpressionKind::kFilter, line, std::move(filtered));
    filtered->name = std::move(name);
    SetArguments(filtered.get(), std::move(arguments));
  }
  return filtered;
}

// Parses "is [not] name" with an argument: in brackets, or a single primary expression behind the
// name ("x is divisibleby 3"). Names that go on with the expression around it are no argument.
ExpressionPtr ExpressionParser::ParseTest(ExpressionPtr expression) {
  const uint32_t line = Next().line;
  const bool negated = SkipName("not");
  std::string name = ParseDottedName();
  auto arguments = std::make_unique<Arguments>();
  const Token& token = current();
  const bool is_argument = token.kind == TokenKind::kName || token.kind == TokenKind::kString ||
                           token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat ||
                           IsOperator("[") || IsOperator("{");
  if (IsOperator("(")) {
    arguments = ParseArguments();
  } else if (is_argument && !IsName("else") && !IsName("or") && !IsName("and")) {
    if (IsName("is")) Fail("tests cannot be chained with \"is\"");
    arguments->positional.push_back(ParsePostfix(ParsePrimary()));
  }
  ExpressionPtr test = NewOf(ExpressionKind::kTest, line, std::move(expression));
  test->name = std::move(name);
  SetArguments(test.get(), std::move(arguments));
  if (!negated) return test;
  return NewOf(ExpressionKind::kNot, line, std::move(test));
}

}  // namespace lectern::jinja
