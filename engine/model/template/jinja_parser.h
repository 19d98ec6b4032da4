// Parses a Jinja template into a syntax tree, as jinja2's parser and compiler take it; jinja.h's
// Program uses it.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_PARSER_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_PARSER_H_

#include "engine/model/template/jinja_syntax.h"

namespace lectern::jinja {

// kMalformedModel, with the line; kLimitExceeded.
Result<std::shared_ptr<const Template>> ParseTemplate(std::string_view source,
                                                      const Limits& limits);

// Checks the rules that a template's tree must keep beyond its grammar (jinja_rules.cc): known
// filters and tests, break and continue in loops, no new meaning for the variable `loop`. Notes
// which macros use the names varargs, kwargs and caller. kMalformedModel, with the line.
Status CheckRules(Body& body);

}  // namespace lectern::jinja

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_PARSER_H_
