// Follows whole texts through the grammar of a JSON schema.
#ifndef LECTERN_ENGINE_ASKING_VALUE_GRAMMAR_H_
#define LECTERN_ENGINE_ASKING_VALUE_GRAMMAR_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "engine/constraint/grammar.h"

namespace lectern {

class ValueGrammar {
 public:
  // Nothing: it is no schema (CompileJsonSchema), or no value fits it.
  static std::optional<ValueGrammar> Of(std::string_view schema);

  size_t num_states() const { return grammar_.states.size(); }
  // Whether the text is a value.
  bool Has(std::string_view text) const;
  // Whether values begin with the text.
  bool HasBeginning(std::string_view text) const;
  // The only value that there is; empty: there are several.
  std::string OnlyText() const;

 private:
  explicit ValueGrammar(Grammar grammar) : grammar_(std::move(grammar)) {}
  Grammar grammar_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_VALUE_GRAMMAR_H_
