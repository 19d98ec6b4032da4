// Finds the schemas that "$ref" and its kin name within one text.
#ifndef LECTERN_ENGINE_CONSTRAINT_SCHEMA_REFERENCES_H_
#define LECTERN_ENGINE_CONSTRAINT_SCHEMA_REFERENCES_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/ordered_json.h"

namespace lectern {

// The addresses of the schemas in a text: "$id" (in draft 4 "id") begins a part with an address of
// its own, "$anchor" names a place in it. Addresses in values, such as those of "enum", are none.
// `root` must outlive this. Immutable; thread-safe.
class SchemaReferences {
 public:
  explicit SchemaReferences(const OrderedJson& root);

  // The schema that a reference in `from` leads to; nullptr: none in this text.
  const OrderedJson* Find(const OrderedJson& from, std::string_view reference) const;
  // The same of "$dynamicRef" and "$recursiveRef"; nullptr, too, where the answer depends on the
  // way that led to `from`.
  const OrderedJson* FindDynamic(const OrderedJson& from, std::string_view reference) const;

 private:
  void Walk(const OrderedJson& schema, const std::string& base);

  const OrderedJson& root_;
  std::string_view id_keyword_;
  bool ignores_id_of_reference_ = false;  // up to draft 7
  std::string root_base_;
  std::map<const OrderedJson*, std::string> bases_;                 // of each schema object
  std::map<std::string, const OrderedJson*, std::less<>> parts_;    // by address
  std::map<std::string, const OrderedJson*, std::less<>> anchors_;  // by address#anchor
  std::map<std::string, std::vector<const OrderedJson*>, std::less<>> dynamic_;  // by anchor
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_SCHEMA_REFERENCES_H_
