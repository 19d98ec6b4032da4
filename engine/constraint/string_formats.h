// Patterns of the formats of JSON schemas ("format").
#ifndef LECTERN_ENGINE_CONSTRAINT_STRING_FORMATS_H_
#define LECTERN_ENGINE_CONSTRAINT_STRING_FORMATS_H_

#include <optional>
#include <string_view>

namespace lectern {

// The pattern (pattern.h) of texts that every validator finds to be of the format: not of all such
// texts. Empty: the format demands nothing that a text could show. Nothing: it is not known.
std::optional<std::string_view> PatternOfFormat(std::string_view format);

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_STRING_FORMATS_H_
