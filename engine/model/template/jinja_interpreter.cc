// The part of the interpreter that runs statements and calls. Scopes follow jinja2: bodies of
// loops, macros, "with", filter blocks and set blocks have scopes of their own; the bodies of "if"
// share the one around them.
#include "engine/model/template/jinja_interpreter.h"

#include "engine/model/template/jinja_parser.h"

namespace lectern::jinja {

Result<Program> Program::Parse(std::string_view source, const Limits& limits) {
  LECTERN_ASSIGN(std::shared_ptr<const Template> parsed, ParseTemplate(source, limits));
  return Program(std::move(parsed));
}

Result<Rendered> Program::Render(const Variables& variables, const std::tm& now) const {
  return Interpreter(*template_, now).Render(variables);
}

std::string_view Program::source() const { return template_->source; }

Interpreter::ScopePtr Interpreter::NewScope(ScopePtr parent) {
  auto scope = std::make_shared<Scope>();
  scope->parent = std::move(parent);
  return scope;
}

// The template's own scope is inside the variables', so that its assignments hide variables and do
// not replace them.
Result<Rendered> Interpreter::Render(const Variables& variables) {
  variables_ = NewScope(nullptr);
  for (const auto& [name, value] : variables) variables_->Set(name, value);
  TextBuilder out(*this);
  out_ = &out;
  Run(template_.body, NewScope(variables_));
  if (failed()) return std::move(status);
  return out.Take();
}

// A break or continue leaves all bodies up to its loop.
Interpreter::Flow Interpreter::Run(const Body& body, const ScopePtr& scope) {
  const Nesting nesting(*this);
  for (const auto& statement : body) {
    if (!Step()) break;
    const Flow flow = Run(*statement, scope);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

// Runs one statement.
Interpreter::Flow Interpreter::Run(const Statement& statement, const ScopePtr& scope) {
  line = statement.line;
  switch (statement.kind) {
    case Statement::Kind::kText:
      Output(statement.text);
      break;
    case Statement::Kind::kOutput:
      for (const ExpressionPtr& value : statement.values) Output(Evaluate(*value, scope));
      break;
    case Statement::Kind::kIf:
      return RunIf(statement, scope);
    case Statement::Kind::kFor:
      return RunFor(statement, scope);
    case Statement::Kind::kSet:
      Assign(*statement.target, Evaluate(*statement.values[0], scope), scope);
      break;
    case Statement::Kind::kWith:
      return RunWith(statement, scope);
    case Statement::Kind::kSetBlock:
    case Statement::Kind::kFilter:
      return RunCaptured(statement, scope);
    case Statement::Kind::kMacro:
      RunMacro(statement, scope);
      break;
    case Statement::Kind::kCall:
      RunCallBlock(statement, scope);
      break;
    case Statement::Kind::kGeneration:
      return Run(statement.bodies[0], NewScope(scope));
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

// The limit of the output is checked piece by piece: a loop could otherwise fill the memory first.
void Interpreter::Output(const Value& value) {
  if (failed()) return;
  out_->Append(value.Is(Kind::kString) ? value : ToString(value));
  if (out_->size() > limits.output_bytes) FailLimit("output");
}

// There is one body more than conditions: "else", or an empty one.
Interpreter::Flow Interpreter::RunIf(const Statement& statement, const ScopePtr& scope) {
  size_t branch = 0;
  while (branch < statement.values.size() && !failed() &&
         !IsTrue(Evaluate(*statement.values[branch], scope))) {
    ++branch;
  }
  return failed() ? Flow::kNext : Run(statement.bodies[branch], scope);
}

// Values are evaluated in the scope outside, so that "with a = a" takes the outer one.
Interpreter::Flow Interpreter::RunWith(const Statement& statement, const ScopePtr& scope) {
  const ScopePtr inner = NewScope(scope);
  for (size_t i = 0; i < statement.targets.size(); ++i) {
    Assign(*statement.targets[i], Evaluate(*statement.values[i], scope), inner);
  }
  return Run(statement.bodies[0], inner);
}

// Output goes to a text of its own meanwhile; the text is taken also after an error, where it does
// not count.
Value Interpreter::Capture(const Body& body, const ScopePtr& scope, Flow* flow) {
  TextBuilder text(*this);
  TextBuilder* const outer = std::exchange(out_, &text);
  *flow = Run(body, scope);
  out_ = outer;
  return text.TakeString();
}

// Runs a set block or a filter block. captured_ hands the text to the filter whose value is empty
// in the tree (EvaluateFilter), which takes it at once, so blocks may be nested.
Interpreter::Flow Interpreter::RunCaptured(const Statement& statement, const ScopePtr& scope) {
  Flow flow = Flow::kNext;
  const ScopePtr inner = NewScope(scope);
  Value text = Capture(statement.bodies[0], inner, &flow);
  if (flow != Flow::kNext || failed()) return flow;
  if (statement.values[0] != nullptr) {
    captured_ = text;
    text = Evaluate(*statement.values[0], inner);
  }
  if (statement.kind == Statement::Kind::kFilter) {
    Output(text);
  } else {
    Assign(*statement.target, text, scope);
  }
  return flow;
}

// A tuple of targets takes the items of any value that can be iterated over, exactly as many.
void Interpreter::Assign(const Expression& target, const Value& value, const ScopePtr& scope) {
  if (!Step()) return;
  if (target.kind == Expression::Kind::kName) return scope->Set(target.name, value);
  if (target.kind == Expression::Kind::kMember) return AssignMember(target, value, scope);
  const std::shared_ptr<ListObject> items = Items(value);
  if (items == nullptr) return;
  if (items->items.size() != target.items.size()) {
    Fail("expected " + std::to_string(target.items.size()) + " values to unpack, got " +
         std::to_string(items->items.size()));
    return;
  }
  for (size_t i = 0; i < target.items.size(); ++i) {
    Assign(*target.items[i], items->items[i], scope);
  }
}

// "set ns.x = …": only namespaces have attributes that can be set.
void Interpreter::AssignMember(const Expression& target, const Value& value,
                               const ScopePtr& scope) {
  const Value space = EvaluateName(target, scope);
  if (!space.Is(Kind::kNamespace)) {
    Fail("cannot assign attribute on non-namespace object");
    return;
  }
  DictObject& attributes = *As<NamespaceObject>(space).attributes;
  attributes.Set(this, Value::Template(target.attribute), value);
}

// Defines a macro. It keeps the scope around it, which holds the macro in turn: a circle that
// ~Runtime takes apart.
void Interpreter::RunMacro(const Statement& statement, const ScopePtr& scope) {
  auto macro = std::make_shared<MacroObject>();
  macro->name = statement.name;
  macro->statement = &statement;
  macro->scope = scope;
  Keep(scope);
  scope->Set(statement.name, Make(Kind::kMacro, std::move(macro)));
}

// Calls a macro with the block's body as its argument `caller`, which the macro may call.
void Interpreter::RunCallBlock(const Statement& statement, const ScopePtr& scope) {
  auto caller = std::make_shared<MacroObject>();
  caller->name = "caller";
  caller->statement = &statement;
  caller->scope = scope;
  const Expression& call = *statement.values[0];
  const Value callee = Evaluate(*call.items[0], scope);
  CallArguments arguments;
  if (!EvaluateArguments(*call.arguments, scope, &arguments)) return;
  for (const auto& argument : arguments.named) {
    if (argument.first == "caller") return (void)Fail("the argument \"caller\" appears twice");
  }
  // The macro reads its caller by this name; CallMacro refuses it where the macro does not.
  arguments.named.emplace_back("caller", Make(Kind::kMacro, std::move(caller)));
  line = statement.line;
  Output(Call(callee, arguments));
}

// A call counts a step of its own, as macros may call each other without any other expression.
Value Interpreter::Call(const Value& callee, CallArguments& arguments) {
  if (!Step()) return Value();
  switch (callee.kind()) {
    case Kind::kFunction:
    case Kind::kMethod: {
      const FunctionObject& function = As<FunctionObject>(callee);
      return function.function(*this, function.self, arguments);
    }
    case Kind::kMacro:
      return CallMacro(callee, arguments);
    case Kind::kLoop:
      return CallLoop(callee, arguments);
    case Kind::kJoiner:
      return CallJoiner(callee);
    case Kind::kUndefined:
      return FailUndefined(callee);
    default:
      return Fail("'" + std::string(TypeName(callee)) + "' object is not callable");
  }
}

// The first call gives nothing, so that a loop may call it before every item.
Value Interpreter::CallJoiner(const Value& value) {
  JoinerObject& joiner = As<JoinerObject>(value);
  if (joiner.used) return joiner.separator;
  joiner.used = true;
  return String("");
}

// Binds the arguments as jinja2 does, and not as Python: a parameter that was not given is
// undefined and no error; arguments that are left over are an error unless the macro reads varargs
// or kwargs. Defaults are evaluated last, in the macro's scope, so that they may use the other
// parameters.
Value Interpreter::CallMacro(const Value& value, CallArguments& arguments) {
  const MacroObject& macro = As<MacroObject>(value);
  const Statement& statement = *macro.statement;
  const ScopePtr scope = NewScope(macro.scope);
  const Nesting nesting(*this);
  // Takes a named argument away, so that only unknown ones are left at the end.
  const auto take_named = [&arguments](std::string_view name, Value* taken) {
    for (size_t i = 0; i < arguments.named.size(); ++i) {
      if (arguments.named[i].first != name) continue;
      *taken = std::move(arguments.named[i].second);
      arguments.named.erase(arguments.named.begin() + static_cast<ptrdiff_t>(i));
      return true;
    }
    return false;
  };
  const size_t num_parameters = statement.parameters.size();
  std::vector<const Statement::Parameter*> missing;
  for (size_t i = 0; i < num_parameters; ++i) {
    const Statement::Parameter& parameter = statement.parameters[i];
    Value given;
    if (i < arguments.positional.size()) {
      given = arguments.positional[i];
    } else if (!take_named(parameter.name, &given)) {
      given = Undefined("parameter '" + parameter.name + "' was not provided");
      missing.push_back(&parameter);
    }
    scope->Set(parameter.name, std::move(given));
  }
  if (statement.takes_caller) {
    Value caller;
    if (!take_named("caller", &caller)) caller = Undefined("No caller defined");
    scope->Set("caller", std::move(caller));
  }
  if (statement.takes_kwargs) {
    auto kwargs = std::make_shared<DictObject>();
    for (const auto& [name, argument] : arguments.named) {
      SetMember(kwargs.get(), InputString(name), argument);
    }
    scope->Set("kwargs", Dict(std::move(kwargs)));
  } else if (!arguments.named.empty()) {
    return Fail("macro '" + std::string(macro.name) + "' takes no keyword argument '" +
                arguments.named[0].first + "'");
  }
  const size_t num_given = std::min(arguments.positional.size(), num_parameters);
  std::vector<Value> rest(arguments.positional.begin() + static_cast<ptrdiff_t>(num_given),
                          arguments.positional.end());
  if (statement.takes_varargs) {
    scope->Set("varargs", List(std::move(rest), Kind::kTuple));
  } else if (!rest.empty()) {
    return Fail("macro '" + std::string(macro.name) + "' takes not more than " +
                std::to_string(num_parameters) + " argument(s)");
  }
  for (const Statement::Parameter* parameter : missing) {
    if (parameter->otherwise == nullptr) continue;
    scope->Set(parameter->name, Evaluate(*parameter->otherwise, scope));
  }
  Flow flow = Flow::kNext;
  return Capture(statement.bodies[0], scope, &flow);
}

}  // namespace lectern::jinja
