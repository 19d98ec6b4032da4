// A JSON value whose objects keep their members in the order of the text, for schemas: the order of
// their properties is the order of an answer's.
#ifndef LECTERN_ENGINE_CONSTRAINT_ORDERED_JSON_H_
#define LECTERN_ENGINE_CONSTRAINT_ORDERED_JSON_H_

#include <string>
#include <string_view>
#include <vector>

#include "engine/model/formats/json.h"
#include "store/status.h"

namespace lectern {

struct OrderedMember;

struct OrderedJson {
  enum class Kind { kScalar, kArray, kObject };
  Kind kind = Kind::kScalar;
  Json scalar;                                               // neither an array nor an object
  std::vector<OrderedJson> items;                            // of an array
  std::vector<OrderedMember> members;                        // of an object; keys are unique

  bool is_object() const { return kind == Kind::kObject; }
  bool is_array() const { return kind == Kind::kArray; }
  // The getters return nullptr when the value is something else.
  const std::string* string() const { return scalar.string(); }
  const bool* boolean() const { return scalar.boolean(); }
  // Finds a member of an object; nullptr: it is missing, or this is no object.
  const OrderedJson* Find(std::string_view key) const;
};

// A key of an object and its value. It is no std::pair: clang 14 would need OrderedJson to be
// complete while it is defined.
struct OrderedMember {
  std::string key;
  OrderedJson value;
};

// Parses `text`, one JSON value. kMalformedModel: it is none, or a key appears twice in an object;
// kLimitExceeded.
Result<OrderedJson> ParseOrderedJson(std::string_view text, const JsonLimits& limits = {});

// Writes the value on one line as Python's json.dumps does, `{"a": 1, "b": [true, null]}`, but for
// characters outside of ASCII, which stay as they are. Answers are written in this form.
std::string DumpOrdered(const OrderedJson& value);
// Writes the value in the same way for all values that JSON schemas find equal: 1 and 1.0, and
// objects with the same members in another order.
std::string ComparedJson(const OrderedJson& value);
// A string in its quotes.
std::string QuotedJson(std::string_view text);

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_ORDERED_JSON_H_
