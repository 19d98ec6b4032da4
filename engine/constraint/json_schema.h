// Turns a JSON schema into the grammar of the answers that it allows. Asking keeps an answer to it
// (AnswerConstraint in asking/).
#ifndef LECTERN_ENGINE_CONSTRAINT_JSON_SCHEMA_H_
#define LECTERN_ENGINE_CONSTRAINT_JSON_SCHEMA_H_

#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/grammar.h"
#include "store/status.h"

namespace lectern {

// The largest text of a schema, in bytes.
inline constexpr size_t kMostSchemaBytes = size_t{1} << 20;

struct JsonGrammar {
  Grammar grammar;
  // Keywords of the schema that answers need not keep to, each once: "uniqueItems", …
  std::vector<std::string> not_kept;
};

// Reads a schema (JSON Schema 2020-12 and the older drafts' names) and makes the grammar of its
// values. Every value that the grammar has is valid by the schema but for `not_kept`. Not every
// valid value is in it:
//
//  - it stands on one line, as Python's json.dumps writes it, with a blank behind colons and commas
//    alone, and characters outside of ASCII as they are, so that an answer cannot be filled with
//    white space;
//  - members come in the order of the schema's properties; an object with properties, required
//    members or patterns of names has no others unless additionalProperties or
//    unevaluatedProperties says so;
//  - a schema without a type, but with keywords for one, has values of that type;
//  - whole numbers have at most 15 digits, fractions at most 12 between bounds; strings whose
//    length is limited have at most kMostCountedChars characters, lists kMostCountedItems items
//    (schema_rules.h); a string with a pattern and a long maxLength may be cut down to a shorter
//    one;
//  - formats and patterns have the texts on which all readers agree (string_formats.h, pattern.h);
//  - lists of different items (uniqueItems) have more than seven values in one order alone.
//
// All keywords of JSON Schema 2020-12 and of draft 4 to 2019-09 are kept, annotations and
// "content…" passed over, but for these, which go to `not_kept` by their name:
//
//  - uniqueItems, unless the items are few named values, or there is one at most;
//  - not, if, dependent…, and oneOf whose alternatives overlap, where the opposite of a schema
//    cannot be said (schema_conditions.h) or multiplies the rules too much;
//  - a second "contains" of one list; multiples of large numbers; counts of members in large
//  objects;
//  - patterns that are not regular, formats that are not known and come without a pattern;
//  - $dynamicRef and $recursiveRef whose target depends on the way that led there.
//
// `is_strict`: a keyword that cannot be kept is an error, else it goes to `not_kept`.
//
// kInvalidArgument: no JSON, not a schema, a $ref that leads nowhere, no value fits it;
// kLimitExceeded: too large. The message names the keyword and its place, "#/properties/name".
Result<JsonGrammar> CompileJsonSchema(std::string_view schema, bool is_strict);

// The schema of any JSON object.
inline constexpr std::string_view kAnyObjectSchema = R"({"type": "object"})";

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_JSON_SCHEMA_H_
