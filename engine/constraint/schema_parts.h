// Reads the parts that a JSON schema is made of: follows $ref and allOf, so that a value has to fit
// several plain schemas at once, and says what these together demand.
#ifndef LECTERN_ENGINE_CONSTRAINT_SCHEMA_PARTS_H_
#define LECTERN_ENGINE_CONSTRAINT_SCHEMA_PARTS_H_

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/number_patterns.h"
#include "engine/constraint/ordered_json.h"
#include "engine/constraint/schema_conditions.h"
#include "engine/constraint/schema_references.h"
#include "store/status.h"

namespace lectern {

// Types of JSON values, a bit each. A schema's "number" has the bits of both kinds of numbers.
enum JsonType : unsigned {
  kObjectType = 1,
  kArrayType = 2,
  kStringType = 4,
  kFractionType = 8,
  kIntegerType = 16,
  kBooleanType = 32,
  kNullType = 64,
  kNumberType = kFractionType | kIntegerType,
  kAllTypes = 127
};

// The types of a "type"; nothing: it names none, or one that JSON does not have.
std::optional<unsigned> ReadTypes(const OrderedJson& value);

// A schema object that a value has to fit; of its lists of alternatives (anyOf, then oneOf) the
// first `taken` have been chosen from. The nodes are borrowed from the schema.
struct SchemaPart {
  const OrderedJson* node;
  unsigned taken = 0;
  const OrderedJson* under = nullptr;  // the part that demands this one; nullptr: none
  auto operator<=>(const SchemaPart&) const = default;
};
// Schemas that a value has to fit at once; none: any value does.
struct SchemaParts {
  std::vector<SchemaPart> parts;  // each once
  bool is_impossible = false;     // one of them is `false`
  // Whether part number `index` is demanded by the part of `owner`, or is that part. Opposites are
  // demanded by none.
  bool IsUnder(size_t index, const OrderedJson& owner) const;
  auto operator<=>(const SchemaParts&) const = default;
};

// One schema. `root` must outlive this. `says_conditions`: "not", "if" and the like are said by
// other keywords (schema_conditions.h), else they are not kept. One thread.
class SchemaReader {
 public:
  SchemaReader(const OrderedJson& root, bool is_strict, bool says_conditions)
      : root_(root),
        is_strict_(is_strict),
        says_conditions_(says_conditions),
        references_(root),
        conditions_(references_) {}

  // Adds a schema, with all that it refers to, to `parts`. kInvalidArgument.
  Status Add(const OrderedJson& schema, SchemaParts& parts);
  // The same of one of the alternatives of `owner`, which must not refer to that.
  Status AddAlternative(const OrderedJson& owner, const OrderedJson& alternative,
                        SchemaParts& parts);
  // A keyword that cannot be kept. Strict: kInvalidArgument.
  Status NotKept(const OrderedJson& node, std::string_view keyword);
  const std::vector<std::string>& not_kept() const { return not_kept_; }
  // "#/properties/name", for messages; "#": the root, or a schema that is not in the text.
  std::string PlaceOf(const OrderedJson& node) const;
  // kInvalidArgument: "KEYWORD MESSAGE, at #/…".
  Status Wrong(const OrderedJson& node, std::string_view keyword, std::string_view message) const;

  // The types that all parts allow. Where none names any, those that their keywords are for;
  // without `takes_keywords` all then.
  unsigned TypesOf(const SchemaParts& parts, bool takes_keywords = true) const;
  // The values that const and enum of all parts leave, ascending as texts; nothing: no part has
  // either.
  std::optional<std::vector<OrderedJson>> LiteralsOf(const SchemaParts& parts) const;
  // A whole number above 0 of a keyword, the largest (or smallest) of the parts.
  Result<std::optional<uint32_t>> Count(const SchemaParts& parts, std::string_view keyword,
                                        bool takes_largest) const;
  Result<NumberBounds> BoundsOf(const SchemaParts& parts) const;
  // The names of "required", in their order.
  std::vector<std::string> RequiredOf(const SchemaParts& parts) const;
  // Whether the two exclude each other: by type, by their values, or by the values of a member that
  // both require.
  Result<bool> Exclude(const SchemaParts& one, const SchemaParts& other);
  // Adds to `parts` that a value does not fit `alternative`. False: that cannot be said.
  Result<bool> AddOpposite(const OrderedJson& owner, const OrderedJson& alternative,
                           SchemaParts& parts);
  // The schema of all values that one forbids; nullptr: it cannot be said.
  const OrderedJson* Opposite(const OrderedJson& schema) {
    return says_conditions_ ? conditions_.Opposite(schema) : nullptr;
  }
  // kInvalidArgument: the reference leads to nothing in the schema.
  Result<const OrderedJson*> Find(const OrderedJson& from, const std::string& reference) const;

 private:
  Status AddObject(const OrderedJson& schema, SchemaParts& parts);
  // Checks the keywords of a schema object once.
  Status Check(const OrderedJson& schema);
  // Adds the schemas of $ref and its kin.
  Status AddReferences(const OrderedJson& schema, SchemaParts& parts);
  // Adds what the conditions of a schema demand.
  Status AddConditions(const OrderedJson& schema, SchemaParts& parts);

  const OrderedJson& root_;
  const bool is_strict_, says_conditions_;
  const SchemaReferences references_;
  SchemaConditions conditions_;
  std::vector<std::string> not_kept_;
  std::set<const OrderedJson*> checked_;
  std::vector<const OrderedJson*> path_;    // schemas that Add is in
  std::vector<const OrderedJson*> owners_;  // those of them that become parts
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_SCHEMA_PARTS_H_
