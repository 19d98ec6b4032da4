// Any bytes as a JSON schema: an error, or a grammar from whose beginning a text of 200 bytes can
// be walked, or to whose end one comes before.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/constraint/grammar_matcher.h"
#include "engine/constraint/json_schema.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lectern::GrammarMatcher;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto schema = lectern::CompileJsonSchema(text, (data[0] & 1) != 0);
  if (!schema.ok()) {
    if (schema.status().code() == lectern::Code::kInternal) std::abort();
    return 0;
  }
  GrammarMatcher matcher(schema->grammar);
  int32_t place = matcher.Begin(schema->grammar.root);
  if (place == GrammarMatcher::kNowhere) std::abort();
  // The bytes of the input choose among those that may come.
  for (size_t i = 0; i < 200; ++i) {
    const GrammarMatcher::Place& at = matcher.place(place);
    if (at.items.empty()) {
      if (!at.ends) std::abort();
      break;
    }
    const auto& item = at.items[(data[i % size] + i) % at.items.size()];
    place = matcher.Next(place, schema->grammar.states[item.state].low);
    if (place == GrammarMatcher::kNowhere) std::abort();
    if (matcher.work() > 1'000'000) break;
  }
  return 0;
}
