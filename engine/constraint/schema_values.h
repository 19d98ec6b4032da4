// Judges values by a JSON schema: those that "enum" and "const" name, and names of members.
#ifndef LECTERN_ENGINE_CONSTRAINT_SCHEMA_VALUES_H_
#define LECTERN_ENGINE_CONSTRAINT_SCHEMA_VALUES_H_

#include <optional>
#include <string_view>

#include "engine/constraint/ordered_json.h"
#include "engine/constraint/schema_parts.h"

namespace lectern {

// Whether the value fits the schema; nothing: a keyword that is not known here decides, such as a
// pattern that is not regular. Unlike a grammar it knows values of all types where none is named.
std::optional<bool> ValueFits(const OrderedJson& value, const OrderedJson& schema,
                              const SchemaReader& reader);

// The same for one keyword of a schema object.
std::optional<bool> KeywordFits(const OrderedJson& value, const OrderedJson& schema,
                                std::string_view keyword, const OrderedJson& demand,
                                const SchemaReader& reader);

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_SCHEMA_VALUES_H_
