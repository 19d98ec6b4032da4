// Checks the rules that a Jinja template's tree must keep beyond its grammar: those of jinja2's
// compiler (jinja2/compiler.py), and of the Python code that it makes, which Python compiles in
// turn. A template that jinja2 refuses is refused here when it is parsed, not when a question is
// asked.
#include "engine/model/template/jinja_lexer.h"
#include "engine/model/template/jinja_parser.h"

namespace lectern::jinja {
namespace {

// One walk over a tree.
class Checker {
 public:
  Status Check(Body& body) {
    Visit(body, {});
    return std::move(status_);
  }

 private:
  // The surroundings of a statement or expression, which decide what is allowed in it.
  struct Place {
    // Within a condition, where an unknown filter or test is an error only when it is reached.
    bool is_soft = false;
    bool can_break = false;  // in the body of a loop
    bool has_loop = false;   // within a loop, whose variable keeps its meaning
  };
  // Names with a meaning in macros: whether they were read since the innermost macro began.
  struct Names {
    bool caller = false, varargs = false, kwargs = false;
  };

  void Fail(uint32_t line, const std::string& message) {
    if (status_.ok()) status_ = MalformedAt(line, message);
  }

  // Visits an expression and everything in it.
  void Visit(const ExpressionPtr& expression, Place place) {
    if (expression == nullptr) return;
    if (expression->kind == Expression::Kind::kName) Read(expression->name);
    if (expression->kind == Expression::Kind::kConditional) place.is_soft = true;
    if (!place.is_soft) CheckName(*expression);
    for (const ExpressionPtr& item : expression->items) Visit(item, place);
    if (expression->arguments == nullptr) return;
    for (const ExpressionPtr& item : expression->arguments->positional) Visit(item, place);
    for (const auto& item : expression->arguments->named) Visit(item.second, place);
    Visit(expression->arguments->more_positional, place);
    Visit(expression->arguments->more_named, place);
  }

  // Refuses a filter or test that jinja2 does not have.
  void CheckName(const Expression& expression) {
    if (expression.kind == Expression::Kind::kFilter && !IsFilter(expression.name)) {
      Fail(expression.line, "there is no filter \"" + expression.name + "\"");
    }
    if (expression.kind == Expression::Kind::kTest && !IsTest(expression.name)) {
      Fail(expression.line, "there is no test \"" + expression.name + "\"");
    }
  }

  // Notes a name that is read.
  void Read(std::string_view name) {
    names_.caller |= name == "caller";
    names_.varargs |= name == "varargs";
    names_.kwargs |= name == "kwargs";
  }

  // Checks the target of an assignment.
  void Assign(const Expression& target, Place place) {
    if (target.kind == Expression::Kind::kName && target.name == "loop" && place.has_loop) {
      Fail(target.line, "the variable \"loop\" cannot be assigned to within a loop");
    }
    for (const ExpressionPtr& item : target.items) Assign(*item, place);
  }

  void Visit(Body& body, Place place) {
    for (auto& statement : body) Visit(*statement, place);
  }

  // Checks a statement and all within it. `place` says what surrounds it.
  void Visit(Statement& statement, Place place) {
    const Place inner = {
        .is_soft = false, .can_break = place.can_break, .has_loop = place.has_loop};
    switch (statement.kind) {
      case Statement::Kind::kIf: {
        place.is_soft = true;
        for (const ExpressionPtr& value : statement.values) Visit(value, place);
        for (Body& body : statement.bodies) Visit(body, place);
        return;
      }
      case Statement::Kind::kFor:
        return VisitFor(statement, place);
      case Statement::Kind::kMacro:
      case Statement::Kind::kCall:
      case Statement::Kind::kGeneration:
        return VisitMacro(statement, place);
      case Statement::Kind::kBreak:
      case Statement::Kind::kContinue:
        if (!place.can_break) Fail(statement.line, "break and continue need a loop");
        return;
      case Statement::Kind::kSetBlock:
      case Statement::Kind::kFilter:
        for (const ExpressionPtr& value : statement.values) Visit(value, inner);
        break;
      default:
        for (const ExpressionPtr& value : statement.values) Visit(value, place);
    }
    if (statement.target != nullptr) Assign(*statement.target, place);
    for (Body& body : statement.bodies) Visit(body, inner);
  }

  // The else body belongs to the loop around this one: break means that loop. jinja2 puts the body
  // of a recursive loop into a function of its own, out of which no break leads.
  void VisitFor(Statement& statement, Place place) {
    Visit(statement.values[0], place);
    Place inner = {.is_soft = false, .can_break = true, .has_loop = true};
    Assign(*statement.target, inner);
    Visit(statement.test, inner);
    Visit(statement.bodies[0], inner);
    inner.can_break = place.can_break && !statement.is_recursive;
    Visit(statement.bodies[1], inner);
  }

  // Checks a macro, or the caller that a call block is.
  void VisitMacro(Statement& statement, Place place) {
    for (const ExpressionPtr& value : statement.values) Visit(value, place);
    // Names that the body reads count for this macro and for macros around it. Names that the
    // defaults read count only outside, so the defaults are visited afterwards.
    const Names outside = names_;
    names_ = {};
    const Place inner = {.has_loop = place.has_loop};
    Visit(statement.bodies[0], inner);
    statement.takes_caller = names_.caller;
    statement.takes_varargs = names_.varargs;
    statement.takes_kwargs = names_.kwargs;
    for (const Statement::Parameter& parameter : statement.parameters) {
      if (parameter.name == "varargs") statement.takes_varargs = false;
      if (parameter.name == "kwargs") statement.takes_kwargs = false;
      if (parameter.name != "caller" || !names_.caller) continue;
      if (parameter.otherwise == nullptr) {
        Fail(statement.line, "the parameter \"caller\" needs a default");
      }
      statement.takes_caller = false;
    }
    names_ = {names_.caller || outside.caller, names_.varargs || outside.varargs,
              names_.kwargs || outside.kwargs};
    for (const Statement::Parameter& parameter : statement.parameters) {
      Visit(parameter.otherwise, inner);
    }
  }

  Names names_;
  Status status_;
};

}  // namespace

Status CheckRules(Body& body) { return Checker().Check(body); }

}  // namespace lectern::jinja
