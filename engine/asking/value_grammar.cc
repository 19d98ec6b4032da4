#include "engine/asking/value_grammar.h"

#include <cstdint>
#include <utility>

#include "engine/constraint/grammar_matcher.h"
#include "engine/constraint/json_schema.h"

namespace lectern {
namespace {

// The place behind the text; kNowhere: no value begins so.
int32_t PlaceBehind(GrammarMatcher& matcher, const Grammar& grammar, std::string_view text) {
  int32_t place = matcher.Begin(grammar.root);
  for (const char byte : text) {
    if (place == GrammarMatcher::kNowhere) break;
    place = matcher.Next(place, static_cast<uint8_t>(byte));
  }
  return place;
}

}  // namespace

std::optional<ValueGrammar> ValueGrammar::Of(std::string_view schema) {
  auto json = CompileJsonSchema(schema, false);
  if (!json.ok()) return std::nullopt;
  return ValueGrammar(std::move(json->grammar));
}

bool ValueGrammar::Has(std::string_view text) const {
  GrammarMatcher matcher(grammar_);
  const int32_t place = PlaceBehind(matcher, grammar_, text);
  return place != GrammarMatcher::kNowhere && matcher.place(place).ends;
}

bool ValueGrammar::HasBeginning(std::string_view text) const {
  GrammarMatcher matcher(grammar_);
  return PlaceBehind(matcher, grammar_, text) != GrammarMatcher::kNowhere;
}

std::string ValueGrammar::OnlyText() const {
  GrammarMatcher matcher(grammar_);
  std::string text;
  int32_t place = matcher.Begin(grammar_.root);
  for (int byte; text.size() < kMostSchemaBytes && (byte = matcher.OnlyByte(place)) >= 0;) {
    text += static_cast<char>(byte);
    place = matcher.Next(place, static_cast<uint8_t>(byte));
  }
  const GrammarMatcher::Place& end = matcher.place(place);
  return end.ends && end.items.empty() ? text : "";
}

}  // namespace lectern
