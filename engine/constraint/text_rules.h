// Makes rules for strings and numbers of a JSON schema, and for the names of members.
#ifndef LECTERN_ENGINE_CONSTRAINT_TEXT_RULES_H_
#define LECTERN_ENGINE_CONSTRAINT_TEXT_RULES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/constraint/char_automaton.h"
#include "engine/constraint/schema_parts.h"
#include "engine/constraint/schema_rules.h"
#include "store/status.h"

namespace lectern {

// Each returns the state in which a value begins that fits all parts, as far as they are about such
// values; kNoText: there is none.
Result<uint32_t> StringRule(const SchemaParts& parts, SchemaRules& rules);
// `types`: which kinds of numbers there may be.
Result<uint32_t> NumberRule(const SchemaParts& parts, unsigned types, SchemaRules& rules);

// The strings that fit all parts. Alternatives are tried, too, so that it serves "propertyNames".
Result<CharAutomaton> StringsOf(const SchemaParts& parts, SchemaReader& reader);
// The values that fit all parts, ascending as texts; nothing: they are not named, or more than
// `most`.
Result<std::optional<std::vector<OrderedJson>>> ValuesOf(const SchemaParts& parts, size_t most,
                                                         SchemaReader& reader);
// The values that const and enum of all parts name, without those that a part forbids; nothing: no
// part names any. A keyword that cannot be judged is not kept.
Result<std::optional<std::vector<OrderedJson>>> FittingLiterals(const SchemaParts& parts,
                                                                SchemaReader& reader);
// The parts with each of the alternatives of a list that they still have to choose from (anyOf,
// oneOf); nothing: there is none. A "oneOf" whose alternatives overlap gets their opposites, or is
// not kept.
Result<std::optional<std::vector<SchemaParts>>> ChoicesOf(const SchemaParts& parts,
                                                          SchemaReader& reader);

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_TEXT_RULES_H_
