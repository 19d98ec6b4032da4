// The syntax tree of a Jinja template: jinja_parser.cc makes it, jinja_interpreter.cc runs it.
// Immutable once it is made.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_SYNTAX_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_SYNTAX_H_

#include <memory>
#include <string>
#include <vector>

#include "engine/model/template/jinja_value.h"

namespace lectern::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using Body = std::vector<std::unique_ptr<Statement>>;

// The arguments of a call, a filter or a test.
struct Arguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional, more_named;  // *x, **x
};

// An expression. The kind says which of the other fields are used, and for what.
struct Expression {
  enum class Kind : uint8_t {
    kLiteral,
    kName,         // name
    kMember,       // a target: name.attribute
    kList,         // items
    kTuple,        // items
    kDict,         // items: key, value, key, value …
    kAttribute,    // items[0].attribute
    kItem,         // items[0][items[1]]
    kSlice,        // items[0][items[1]:items[2]:items[3]]; empty ones were left out
    kCall,         // items[0](arguments)
    kFilter,       // items[0] | name(arguments); items[0] empty: text of a filter or set block
    kTest,         // items[0] is name(arguments)
    kConditional,  // items[0] if items[1] else items[2], which may be empty
    kOr,
    kAnd,
    kNot,
    kNegative,
    kPositive,
    kConcat,     // items[0] ~ items[1] ~ …
    kOperation,  // items[0] operators[0] items[1]
    kComparison  // items[0] operators[0] items[1] operators[1] items[2] …
  };
  Kind kind;
  uint32_t line;
  size_t depth = 1;  // of the tree below it, itself included
  std::string name, attribute;
  Value value;
  std::vector<ExpressionPtr> items;
  std::vector<Operator> operators;
  std::unique_ptr<Arguments> arguments;
};

// A statement. The kind says which of the other fields are used, and for what.
struct Statement {
  enum class Kind : uint8_t {
    kText,        // text
    kOutput,      // values
    kIf,          // values[i]: bodies[i]; one more body: else
    kFor,         // target in values[0] if test: bodies[0], else bodies[1]
    kSet,         // target = values[0]
    kSetBlock,    // target = values[0], a filter or empty, of bodies[0]
    kWith,        // targets = values: bodies[0]
    kMacro,       // name(parameters = values): bodies[0]
    kCall,        // call values[0] with bodies[0] as caller(parameters)
    kFilter,      // values[0] of bodies[0]
    kGeneration,  // bodies[0]
    kBreak,
    kContinue
  };
  // A macro's parameter.
  struct Parameter {
    std::string name;
    ExpressionPtr otherwise;  // the default; may be empty
  };
  Kind kind;
  uint32_t line;
  Value text;
  std::string name;
  ExpressionPtr target, test;
  std::vector<ExpressionPtr> targets, values;
  std::vector<Body> bodies;
  std::vector<Parameter> parameters;
  bool is_recursive = false;  // kFor: its body may call loop(…)
  bool takes_varargs = false, takes_kwargs = false, takes_caller = false;  // of kMacro and kCall
};

// A parsed program, with its text for Program::source.
struct Template {
  std::string source;
  Limits limits;
  Body body;
};

}  // namespace lectern::jinja

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_SYNTAX_H_
