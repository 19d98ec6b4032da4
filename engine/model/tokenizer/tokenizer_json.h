// Reads a tokenizer.json of Hugging Face's tokenizers, which is untrusted JSON, into a tokenizer.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_JSON_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_JSON_H_

#include <memory>
#include <string>
#include <string_view>

#include "engine/model/tokenizer/tokenizer.h"
#include "store/status.h"

namespace lectern {

// `path` only names the file in messages. Its normalizer and pre_tokenizer are done step by step
// (tokenizer_json_rules.h), its model is BPE, byte-level or of text with byte_fallback, or Unigram.
// Members that would change results and are not implemented are refused by name: other models,
// dropout, prefixes and suffixes of words. `truncation`, `padding` and `decoder` are not for what
// we do; of `post_processor` the token that it puts before a text is read (bos). Added tokens that
// are special, or marks of a template, are control tokens; the others are found in raw text.
// kMalformedModel, kLimitExceeded, kUnsupportedModel.
Result<std::unique_ptr<Tokenizer>> MakeJsonTokenizer(std::string_view bytes,
                                                     const std::string& path);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_TOKENIZER_JSON_H_
