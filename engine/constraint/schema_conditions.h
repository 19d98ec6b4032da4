// Says conditions of a JSON schema ("not", "if", "dependentRequired", …) by other keywords, which a
// grammar can keep: a schema's opposite is a choice among the opposites of its keywords.
#ifndef LECTERN_ENGINE_CONSTRAINT_SCHEMA_CONDITIONS_H_
#define LECTERN_ENGINE_CONSTRAINT_SCHEMA_CONDITIONS_H_

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/ordered_json.h"
#include "engine/constraint/schema_references.h"

namespace lectern {

// Members of schemas that are made here; a schema of JSON's standard has none of them.
inline constexpr std::string_view kMadeMark = "\x01made";  // true: it was made here
// true: an opposite. Its members and items are conditions that are not evaluated, as the standard
// says of "not".
inline constexpr std::string_view kOppositeMark = "\x01opposite";
// A list of values that are none.
inline constexpr std::string_view kExceptValues =
    "\x01"
    "except";
inline constexpr std::string_view kExceptPattern = "\x01pattern";  // texts without a match
inline constexpr std::string_view kMadeFraction =
    "\x01"
    "fraction";  // type: no whole number

// Whether the schema was made here. Its type and properties are conditions: they do not say which
// type an answer has, nor that an object has no other members.
bool IsMade(const OrderedJson& schema);

// Whether a keyword that answers cannot be held to demands nothing with this value.
bool DemandsNothing(std::string_view keyword, const OrderedJson& value);

// The schemas that it makes live as long as this. Both must outlive it. One thread.
class SchemaConditions {
 public:
  explicit SchemaConditions(const SchemaReferences& references) : references_(references) {}

  // The schema of all values that `schema` forbids; nullptr: it cannot be said.
  const OrderedJson* Opposite(const OrderedJson& schema);
  // Appends schemas that the conditions of a schema object demand besides its other keywords.
  // Returns the keywords of conditions that cannot be said so.
  std::vector<std::string_view> Meant(const OrderedJson& schema,
                                      std::vector<const OrderedJson*>& meant);
  // The schema of a reference that was made here; nullptr: it is another reference.
  const OrderedJson* Numbered(std::string_view reference) const;

 private:
  // A larger number of made schemas is refused: an opposite is the opposite of all its parts.
  static constexpr size_t kMostMade = 20'000;

  OrderedJson Reference(const OrderedJson& schema);
  // Appends the opposite of one keyword to the choice. False: it cannot be said.
  bool AddOpposite(const OrderedJson& schema, std::string_view keyword, const OrderedJson& value,
                   std::vector<OrderedJson>& choice);
  bool AddOppositeOfNumber(const OrderedJson& schema, std::string_view keyword,
                           const OrderedJson& value, std::vector<OrderedJson>& choice);
  bool AddOppositeOfList(const OrderedJson& schema, std::string_view keyword,
                         const OrderedJson& value, std::vector<OrderedJson>& choice);
  // Nothing: it cannot be said.
  std::optional<OrderedJson> OppositeReference(const OrderedJson& schema);
  const OrderedJson* Keep(OrderedJson schema);
  bool Condition(const OrderedJson& schema, std::vector<const OrderedJson*>& meant);
  bool Dependencies(const OrderedJson& value, std::vector<const OrderedJson*>& meant);

  const SchemaReferences& references_;
  std::deque<OrderedJson> made_;
  std::vector<const OrderedJson*> numbered_;
  std::map<const OrderedJson*, size_t> numbers_;
  std::map<const OrderedJson*, const OrderedJson*> opposites_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_SCHEMA_CONDITIONS_H_
