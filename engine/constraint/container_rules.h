// Makes rules for lists and objects of a JSON schema.
#ifndef LECTERN_ENGINE_CONSTRAINT_CONTAINER_RULES_H_
#define LECTERN_ENGINE_CONSTRAINT_CONTAINER_RULES_H_

#include <cstdint>

#include "engine/constraint/schema_parts.h"
#include "engine/constraint/schema_rules.h"
#include "store/status.h"

namespace lectern {

// Each returns the state in which a value begins that fits all parts, as far as they are about such
// values; kNoText: there is none. Alternatives have been chosen.
Result<uint32_t> ArrayRule(const SchemaParts& parts, SchemaRules& rules);
Result<uint32_t> ObjectRule(const SchemaParts& parts, SchemaRules& rules);

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_CONTAINER_RULES_H_
