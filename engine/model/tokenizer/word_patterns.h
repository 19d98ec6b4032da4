// The table of published ways to cut a text into words, which GGUF files name by
// `tokenizer.ggml.pre`.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_WORD_PATTERNS_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_WORD_PATTERNS_H_

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/tokenizer/pre_tokenizer.h"

namespace lectern {

// A family's way to cut text. All are rows of one static table and are never copied.
struct WordPattern {
  std::string_view name;        // "llama3"; a part of a document's identity: never changed
  std::string_view gguf_names;  // values of tokenizer.ggml.pre that mean it, each between spaces
  // One after another; "" ends the list. "digits" and "lines" are the steps of these names.
  std::array<std::string_view, 6> steps;
  // Properties that `tokenizer.ggml.pre` implies where the GGUF file states none.
  bool ignore_merges = false;  // a word that is a piece is that piece, whatever its merges say
  bool adds_bos = false;       // the beginning-of-text token comes before a text; the key
                               // add_bos_token goes before this
  bool is_plain_text = false;  // pieces are text with U+2581 for a space, not GPT-2's alphabet
};

const WordPattern* FindWordPattern(std::string_view gguf_name);  // nullptr: not known, or empty
// Returns the row called `name` (WordPattern::name), which must exist: there is no check.
const WordPattern& WordPatternNamed(std::string_view name);
// Makes the steps of a row for a PreTokenizer.
std::vector<PreTokenizerStep> StepsOf(const WordPattern& pattern);
// GPT-2's expression, which tokenizer.json's ByteLevel means. Static, as the table is.
std::string_view Gpt2Expression();
// Lists every name of tokenizer.ggml.pre that is known, "gpt-2 gpt2 phi-2 …", for messages.
std::string KnownWordPatterns();

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_WORD_PATTERNS_H_
