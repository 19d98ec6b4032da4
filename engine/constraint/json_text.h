// The text in a JSON answer.
#ifndef LECTERN_ENGINE_CONSTRAINT_JSON_TEXT_H_
#define LECTERN_ENGINE_CONSTRAINT_JSON_TEXT_H_

#include <string>
#include <string_view>

namespace lectern {

// The strings and numbers of a JSON text, a line each, without names of members: what passages of a
// document can support. A text that is cut short gives those that are whole.
std::string TextOfJson(std::string_view json);

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_JSON_TEXT_H_
