// Cuts the source of a Jinja template into tokens, with jinja2's rules for white space around tags
// (trim_blocks and lstrip_blocks on). jinja_parser.cc uses it.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_LEXER_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/status.h"

namespace lectern::jinja {

// A token. Comments and raw blocks leave no tag behind: only their text, or nothing.
struct Token {
  enum class Kind : uint8_t {
    kData,           // text between tags
    kBlockBegin,     // {%
    kBlockEnd,
    kVariableBegin,  // {{
    kVariableEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Kind kind;
  uint32_t line;  // of the source, from 1
  std::string text;  // data; a name; what a string literal means; an operator
  int64_t integer = 0;  // of kInteger
  double real = 0;  // of kFloat
};

// Cuts `source`, valid UTF-8, into tokens; the last one is kEnd. A tag without an end is left to
// the parser. kMalformedModel, with the line: a character or text that begins no token, a bracket
// that closes none, a wrong escape, or a comment, string or raw block without an end.
// kLimitExceeded: an integer of more than 64 bits.
Result<std::vector<Token>> Tokenize(std::string_view source);

// The error of a template: kMalformedModel, "line 3: …".
Status MalformedAt(uint32_t line, std::string_view message);

}  // namespace lectern::jinja

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_LEXER_H_
