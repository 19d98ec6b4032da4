// Whatever our reader of tokenizer.json passes must encode any text, or refuse it for the steps
// that an expression takes.
//
// Input: u16 little-endian n, n bytes of text, then the tokenizer.json.
#include <algorithm>

#include "engine/model/formats/text.h"
#include "engine/model/tokenizer/tokenizer_json.h"
#include "tests/fuzz/check_tokens.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t split = std::min(input.size(), static_cast<size_t>(data[0] | data[1] << 8));
  const std::string text = lectern::CleanUtf8(input.substr(0, split)).text;
  const auto tokenizer = lectern::MakeJsonTokenizer(input.substr(split), "m/tokenizer.json");
  if (!tokenizer.ok()) return 0;
  lectern::CheckTokens((*tokenizer)->Encode(text), **tokenizer, text);
  lectern::CheckTokens((*tokenizer)->EncodeContinuation(text), **tokenizer, text);
  return 0;
}
