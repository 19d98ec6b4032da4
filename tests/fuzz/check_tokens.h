// Checks that hold for the tokens of any text, whatever vocabulary was loaded. For fuzz targets: a
// check that fails aborts.
#ifndef LECTERN_TESTS_FUZZ_CHECK_TOKENS_H_
#define LECTERN_TESTS_FUZZ_CHECK_TOKENS_H_

#include <cstdlib>
#include <string>

#include "engine/model/formats/text.h"
#include "engine/model/tokenizer/tokenizer.h"

namespace lectern {

// Ids are of the vocabulary and no marks; ranges ascend and cover the text, and the tokens stream
// as valid UTF-8. The text may be refused for its size or for an expression's steps: every error
// but kInternal is fine.
inline void CheckTokens(const Result<TokenizedText>& tokens, const Tokenizer& tokenizer,
                        const std::string& text) {
  if (!tokens.ok()) {
    if (tokens.status().code() == Code::kInternal) std::abort();
    return;
  }
  TokenStream stream(tokenizer, true);
  if (tokens->ids.size() != tokens->ranges.size()) std::abort();
  uint64_t begin = 0, end = 0;
  for (size_t i = 0; i < tokens->ids.size(); ++i) {
    const auto& range = tokens->ranges[i];
    if (range.begin > range.end || range.end > text.size()) std::abort();
    if (range.begin < begin || range.begin > end || range.end < end) std::abort();
    begin = range.begin, end = range.end;
    const int32_t id = tokens->ids[i];
    if (id < 0 || static_cast<size_t>(id) >= tokenizer.vocab_size()) std::abort();
    // The unknown piece is the only control token that text may become.
    const std::string_view mark = tokenizer.ControlText(id);
    if (!mark.empty() && id != tokenizer.unknown_id()) std::abort();
    if (!IsValidUtf8(stream.Push(id))) std::abort();
  }
  if (!tokens->ids.empty() && end != text.size()) std::abort();
}

}  // namespace lectern

#endif  // LECTERN_TESTS_FUZZ_CHECK_TOKENS_H_
