// Whatever our validator passes must not crash SentencePiece: load it and encode.
//
// Input: u16 little-endian n, n bytes of text, then the tokenizer.model. A text like "{…" is also
// the added_tokens.json beside it where n is odd, else the tokenizer_config.json.
#include <algorithm>
#include <cstdlib>

#include "engine/text.h"
#include "engine/tokenizer.h"
#include "tests/engine/memory_env.h"

namespace {

void Check(const lectern::Result<lectern::TokenizedText>& tokens,
           const lectern::Tokenizer& tokenizer, const std::string& text) {
  if (!tokens.ok()) return;
  lectern::TokenStream stream(tokenizer, true);
  uint64_t end = 0;
  for (size_t i = 0; i < tokens->ids.size(); ++i) {
    const auto& range = tokens->ranges[i];
    if (range.begin > range.end || range.end > text.size() || range.begin > end) std::abort();
    end = range.end;
    if (static_cast<size_t>(tokens->ids[i]) >= tokenizer.vocab_size()) std::abort();
    if (tokenizer.TokenBytes(tokens->ids[i]).empty()) std::abort();  // a control token
    if (!lectern::IsValidUtf8(stream.Push(tokens->ids[i]))) std::abort();
  }
  if (!tokens->ids.empty() && end != text.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t split = std::min(input.size(), static_cast<size_t>(data[0] | data[1] << 8));
  const std::string text = lectern::CleanUtf8(input.substr(0, split)).text;
  lectern::MemoryEnv env;
  env.files["m/tokenizer.model"] = std::string(input.substr(split));
  const char* const beside = data[0] % 2 != 0 ? "m/added_tokens.json" : "m/tokenizer_config.json";
  if (text.starts_with('{')) env.files[beside] = text;
  const auto tokenizer = lectern::Tokenizer::Load(env, "m/tokenizer.model");
  if (!tokenizer.ok()) return 0;
  Check((*tokenizer)->Encode(text), **tokenizer, text);
  Check((*tokenizer)->EncodeContinuation(text), **tokenizer, text);
  return 0;
}
