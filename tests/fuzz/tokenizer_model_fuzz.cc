// Whatever our reader of tokenizer.model passes must encode any text.
//
// Input: u16 little-endian n, n bytes of text, then the tokenizer.model. A text like "{…" is also
// the added_tokens.json beside it where n is odd, else the tokenizer_config.json.
#include <algorithm>

#include "engine/model/formats/text.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "tests/engine/memory_env.h"
#include "tests/fuzz/check_tokens.h"

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
  lectern::CheckTokens((*tokenizer)->Encode(text), **tokenizer, text);
  lectern::CheckTokens((*tokenizer)->EncodeContinuation(text), **tokenizer, text);
  return 0;
}
