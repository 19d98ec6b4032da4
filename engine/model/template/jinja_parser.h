// Parses a Jinja template into a syntax tree, as jinja2's parser and compiler take it;
// Program::Parse (jinja.h) uses it.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_PARSER_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_PARSER_H_

#include "engine/model/template/jinja_syntax.h"

namespace lectern::jinja {

// Parses `source` and checks its tree. kMalformedModel, with the line: not UTF-8, a syntax error,
// or something that is not supported. kLimitExceeded: a source or a nesting beyond `limits`.
Result<std::shared_ptr<const Template>> ParseTemplate(std::string_view source,
                                                      const Limits& limits);

// Checks the rules that a tree must keep beyond the grammar (jinja_rules.cc): known filters and
// tests, break and continue in loops only, no new meaning for the variable `loop` in a loop. Also
// notes in each macro whether it uses the names varargs, kwargs and caller. A filter or test in a
// condition may be unknown: it fails when it is reached. kMalformedModel, with the line.
Status CheckRules(Body& body);

}  // namespace lectern::jinja

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_PARSER_H_
