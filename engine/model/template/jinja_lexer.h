// Cuts the source of a Jinja template into tokens, with jinja2's rules for white space around tags
// (trim_blocks and lstrip_blocks on). For jinja_parser.cc.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_LEXER_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/status.h"

namespace lectern::jinja {

struct Token {
  enum class Kind : uint8_t {
    kData,
    kBlockBegin,
    kBlockEnd,
    kVariableBegin,
    kVariableEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Kind kind;
  uint32_t line;
  std::string text;  // data; a name; what a string literal means; an operator
  int64_t integer = 0;
  double real = 0;
};

// The last token is kEnd. kMalformedModel, with the line; kLimitExceeded: an integer of more than
// 64 bits.
Result<std::vector<Token>> Tokenize(std::string_view source);

// The error of a template: "line 3: …".
Status MalformedAt(uint32_t line, std::string_view message);

}  // namespace lectern::jinja

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_LEXER_H_
